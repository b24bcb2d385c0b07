//! The keys of a scenario file. docs/mailnet.md explains each of them.
//!
//! An unknown key or value is an error that names it and the allowed ones, so that a scenario never tests less than
//! intended.

use crate::{
    mailbox::{GreylistBy, Mailbox},
    values::{MxSpec, ServerSpec, Span},
};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Spec {
    pub seed: u64,
    /// Every session and recipient is recorded for tests.
    pub journal: bool,
    /// A pattern of local parts: the recipients are counted.
    pub recipients: Option<String>,
    /// MAIL and RCPT may have a space before the path.
    pub space_before_path: bool,
    pub listen: Listen,
    pub dns: DnsSpec,
    pub roles: Option<Vec<String>>,
    pub spamtraps: Vec<String>,
    /// The keys of [`crate::personality::Personality`]; missing ones come from the personality that it is `like`.
    pub personality: Vec<toml::Table>,
    pub host: Vec<HostSpec>,
    pub domain: Vec<DomainSpec>,
    pub group: Vec<GroupSpec>,
}

/// The addresses of a mail internet. Port 0 selects a free one.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Listen {
    /// The address and port of the DNS server, UDP and TCP.
    pub dns: SocketAddr,
    /// The port of every mail host.
    pub smtp_port: u16,
    /// Whether each address has a socket, or one socket serves all of them.
    pub addresses: ListenMode,
    /// The addresses of hosts follow this one. Beyond loopback they need `wildcard`, and a machine that has these
    /// addresses.
    pub after: Ipv4Addr,
    /// The number of serving threads.
    pub threads: usize,
}

impl Default for Listen {
    fn default() -> Listen {
        Listen {
            dns: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            smtp_port: 0,
            addresses: ListenMode::Auto,
            after: Ipv4Addr::new(127, 1, 0, 0),
            threads: 2,
        }
    }
}

/// The sockets for the addresses of mail hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListenMode {
    /// `each` up to 1,024 addresses, otherwise `wildcard`.
    Auto,
    /// One socket for each address: connections to a refused host are refused.
    Each,
    /// One socket on 0.0.0.0: connections to refused hosts are accepted by the kernel and reset at once.
    Wildcard,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct DnsSpec {
    pub latency_ms: Span,
    pub ttl: u32,
    pub negative_ttl: u32,
    /// Each UDP query with a multiple of this number gets no answer; 0: none is dropped.
    pub drop_every: u64,
    /// How many UDP queries may wait for their latency; further ones get no answer; 0: no limit.
    pub under_way_max: u64,
    /// Further queries are answered with REFUSED instead, as by dnsmasq.
    pub refuse: bool,
    /// The false answer for every name, including the root: see [`DnsBehaviour::is_lie`].
    pub lie: Option<DnsBehaviour>,
    /// The start and the end of this answer, from the start of the net.
    pub lie_from_ms: u64,
    pub lie_until_ms: Option<u64>,
}

impl Default for DnsSpec {
    fn default() -> DnsSpec {
        DnsSpec {
            latency_ms: Span::default(),
            ttl: 300,
            negative_ttl: 60,
            drop_every: 0,
            under_way_max: 0,
            refuse: false,
            lie: None,
            lie_from_ms: 0,
            lie_until_ms: None,
        }
    }
}

/// The behaviour of the DNS for one name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DnsBehaviour {
    #[default]
    Ok,
    Nxdomain,
    Nodata,
    Servfail,
    Refused,
    Timeout,
    /// UDP has only TC; TCP answers.
    Truncated,
    /// Random bytes after a right header.
    Garbage,
    /// The message ends in the middle of a record.
    CutShort,
    /// FORMERR for a query with EDNS (RFC 6891 7), an answer without.
    NoEdns,
    SpoofedId,
    SpoofedQuestion,
    SpoofedPort,
    SpoofedCase,
    /// The CNAME of the name, without the records of its target or a proof that there are none.
    AliasOnly,
    /// NXDOMAIN without an SOA record.
    NoSoa,
    /// No records and no SOA record.
    NodataNoSoa,
    /// NXDOMAIN with an SOA record and Extended DNS Error 4 (RFC 8914); the next four with 15 to 18.
    Forged,
    Blocked,
    Censored,
    Filtered,
    Prohibited,
    /// The addresses 0.0.0.0 and `::`, and no other records.
    Unspecified,
}

impl DnsBehaviour {
    /// Whether it is an answer that proves nothing, as filters, captive portals and broken resolvers send it.
    pub(crate) fn is_lie(self) -> bool {
        use DnsBehaviour::{
            Blocked, Censored, Filtered, Forged, NoSoa, NodataNoSoa, Prohibited, Unspecified,
        };
        let denial =
            matches!(self, NoSoa | NodataNoSoa | Forged | Blocked | Censored | Filtered | Prohibited);
        denial || self == Unspecified
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HostSpec {
    pub name: String,
    #[serde(default)]
    pub server: ServerSpec,
    #[serde(default)]
    pub state: HostState,
    #[serde(default)]
    pub addresses: Vec<IpAddr>,
    /// These precede `addresses` in the DNS, but nothing listens there.
    #[serde(default)]
    pub dead_addresses: Vec<IpAddr>,
    #[serde(default)]
    pub dns: DnsBehaviour,
    pub cname: Option<String>,
    #[serde(default = "yes")]
    pub ptr: bool,
    pub ttl: Option<u32>,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HostState {
    #[default]
    Up,
    /// Connections are refused by the kernel.
    Refused,
    /// Connections time out.
    Blackhole,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DomainSpec {
    pub name: String,
    #[serde(default)]
    pub mx: MxSpec,
    /// All own hosts get the same preference.
    #[serde(default)]
    pub equal: bool,
    #[serde(default)]
    pub dns: DnsBehaviour,
    pub cname: Option<String>,
    #[serde(default)]
    pub cname_hops: u32,
    pub ttl: Option<u32>,
    pub server: Option<ServerSpec>,
    #[serde(default)]
    pub mailboxes: BTreeMap<Mailbox, Vec<String>>,
    #[serde(default)]
    pub unknown: Mailbox,
    #[serde(default)]
    pub greylist_ms: Option<u64>,
    #[serde(default)]
    pub greylist_everyone: bool,
    #[serde(default)]
    pub greylist_by: GreylistBy,
    #[serde(default)]
    pub txt: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    pub disposable: bool,
    /// Its hosts accept everyone at RCPT and refuse after DATA.
    #[serde(default)]
    pub accepts_prove_nothing: bool,
    pub expected: Option<crate::Expected>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupSpec {
    /// The name, with `{n}` in it.
    pub name: String,
    pub count: u32,
    #[serde(default = "one")]
    pub first: u32,
    #[serde(default)]
    pub mx: MxSpec,
    #[serde(default)]
    pub equal: bool,
    /// The percentage of hosts that refuse connections.
    #[serde(default)]
    pub refused_hosts: f64,
    /// The percentage of hosts that are black holes.
    #[serde(default)]
    pub blackhole_hosts: f64,
    #[serde(default)]
    pub server: ServerSpec,
    #[serde(default)]
    pub mailboxes: BTreeMap<Mailbox, Vec<String>>,
    #[serde(default)]
    pub unknown: Mailbox,
    pub greylist_ms: Option<u64>,
    #[serde(default)]
    pub greylist_everyone: bool,
    #[serde(default)]
    pub greylist_by: GreylistBy,
    #[serde(default)]
    pub txt: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    pub variant: Vec<VariantSpec>,
}

fn one() -> u32 {
    1
}

/// The differences of a share of a group's domains.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VariantSpec {
    /// The percentage of domains.
    pub percent: f64,
    pub mx: Option<MxSpec>,
    pub dns: Option<DnsBehaviour>,
    pub server: Option<ServerSpec>,
    pub mailboxes: Option<BTreeMap<Mailbox, Vec<String>>>,
    pub unknown: Option<Mailbox>,
    pub greylist_ms: Option<u64>,
    pub greylist_everyone: Option<bool>,
}

/// The pause between two bytes of a drip in milliseconds, if the scenario names none.
pub(crate) const DRIP_MS: u64 = 20;

/// One misdeed of a server.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FaultSpec {
    pub at: Stage,
    pub does: Misdeed,
    /// The pause in milliseconds between two bytes of a drip, or before surplus replies.
    pub ms: Option<u64>,
    /// The reply, for `does = "reply"`; the surplus reply, for `"early"` and `"late"`.
    pub text: Option<String>,
    /// The number of surplus replies.
    #[serde(default = "from_the_first")]
    pub count: u64,
    /// Only the first so many sessions of the host.
    pub first: Option<u64>,
    /// Only from this command of a session on, counted from 1.
    #[serde(default = "from_the_first")]
    pub from: u64,
    /// The probability, which is drawn each time.
    #[serde(default = "always")]
    pub percent: f64,
    /// Only for clients of this family.
    pub family: Option<Family>,
}

/// An address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Family {
    Ipv4,
    Ipv6,
}

fn always() -> f64 {
    100.0
}

fn from_the_first() -> u64 {
    1
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stage {
    Connect,
    Banner,
    Ehlo,
    Starttls,
    Tls,
    Mail,
    Rcpt,
    Rset,
    Quit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Misdeed {
    Hang,
    Drip,
    EndlessLine,
    EndlessMultiline,
    Close,
    Reset,
    Closing,
    Truncate,
    Garbage,
    Nul,
    LongLine,
    MixedCodes,
    WrongCode,
    Early,
    Late,
    Again,
    BareLf,
    Reply,
    Inject,
}

/// The replies that a personality can word differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReplyKind {
    Ok,
    NotFound,
    Full,
    FullTemporary,
    Disabled,
    Greylisted,
    Policy,
    Throttled,
    ExistsThrottled,
    Relay,
    Temporary,
    Restricted,
    MailOk,
    Closing,
    TooManyErrors,
    TooManyRecipients,
    TooManyTransactions,
    TooManySessions,
    TlsRequired,
    Bye,
}
