//! What a scenario file may say, key by key. docs/mailnet.md explains every one of them.
//!
//! An unknown key or value is an error that names it and what is allowed, so that a scenario never tests
//! less than it seems to.

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
    /// Every session and recipient is kept, for tests to read.
    pub journal: bool,
    pub listen: Listen,
    pub dns: DnsSpec,
    pub roles: Option<Vec<String>>,
    pub spamtraps: Vec<String>,
    pub personality: Vec<PersonalitySpec>,
    pub host: Vec<HostSpec>,
    pub domain: Vec<DomainSpec>,
    pub group: Vec<GroupSpec>,
}

/// Where a mail internet listens. Port 0 asks for a free one.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Listen {
    /// Address and port of the DNS server, UDP and TCP.
    pub dns: SocketAddr,
    /// The one port on which every mail host listens.
    pub smtp_port: u16,
    /// One socket for each address, or one for all of them.
    pub addresses: ListenMode,
    /// Hosts get addresses of their own after this one. Beyond loopback they need `wildcard`, and a machine that
    /// takes them for its own.
    pub after: Ipv4Addr,
    /// How many threads serve.
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

/// How the addresses of the mail hosts are listened on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListenMode {
    /// `each` up to 1,024 addresses, else `wildcard`.
    Auto,
    /// A socket for each address: a host that is refused is really refused.
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
    /// Every so-manieth UDP query gets no answer; 0: none is dropped.
    pub drop_every: u64,
    /// UDP queries that come while so many wait for their latency get no answer; 0: there is no limit.
    pub under_way_max: u64,
    /// They are answered with REFUSED instead, as dnsmasq does.
    pub refuse: bool,
    /// Every name is answered so, that of the root included.
    pub lie: Option<Lie>,
    /// From so long after the start on, and until then.
    pub lie_from_ms: u64,
    pub lie_until_ms: Option<u64>,
}

/// A denial that proves nothing, as filters, captive portals and broken resolvers give it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Lie {
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
    /// The addresses 0.0.0.0 and `::`, and no records of other kinds.
    Unspecified,
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

/// How questions about one name are answered.
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
    /// UDP says TC and nothing else; TCP answers.
    Truncated,
    /// Random bytes behind a right header.
    Garbage,
    /// The message ends in the middle of a record.
    CutShort,
    /// FORMERR for a query with EDNS (RFC 6891 7), an answer without.
    NoEdns,
    SpoofedId,
    SpoofedQuestion,
    SpoofedPort,
    SpoofedCase,
    /// Denials that prove nothing: see [`Lie`].
    NoSoa,
    NodataNoSoa,
    Forged,
    Blocked,
    Censored,
    Filtered,
    Prohibited,
    Unspecified,
}

impl DnsBehaviour {
    /// The lie that it is.
    pub(crate) fn lie(self) -> Option<Lie> {
        match self {
            DnsBehaviour::NoSoa => Some(Lie::NoSoa),
            DnsBehaviour::NodataNoSoa => Some(Lie::NodataNoSoa),
            DnsBehaviour::Forged => Some(Lie::Forged),
            DnsBehaviour::Blocked => Some(Lie::Blocked),
            DnsBehaviour::Censored => Some(Lie::Censored),
            DnsBehaviour::Filtered => Some(Lie::Filtered),
            DnsBehaviour::Prohibited => Some(Lie::Prohibited),
            DnsBehaviour::Unspecified => Some(Lie::Unspecified),
            _ => None,
        }
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
    /// In the DNS before `addresses`, but nothing listens there.
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
    /// Connections are refused.
    Refused,
    /// Connections are neither accepted nor refused: they time out.
    Blackhole,
}

#[derive(Debug, Clone, Deserialize)]
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
    /// Its hosts are known to take everyone at RCPT and to refuse after DATA.
    #[serde(default)]
    pub accepts_prove_nothing: bool,
    pub expected: Option<crate::Expected>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupSpec {
    /// With `{n}` in it.
    pub name: String,
    pub count: u32,
    #[serde(default = "one")]
    pub first: u32,
    #[serde(default)]
    pub mx: MxSpec,
    #[serde(default)]
    pub equal: bool,
    /// In percent of the hosts.
    #[serde(default)]
    pub refused_hosts: f64,
    /// In percent of the hosts.
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

/// What a share of a group's domains has otherwise.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VariantSpec {
    /// In percent of the domains.
    pub percent: f64,
    pub mx: Option<MxSpec>,
    pub dns: Option<DnsBehaviour>,
    pub server: Option<ServerSpec>,
    pub mailboxes: Option<BTreeMap<Mailbox, Vec<String>>>,
    pub unknown: Option<Mailbox>,
    pub greylist_ms: Option<u64>,
    pub greylist_everyone: Option<bool>,
}

/// One thing a server does wrong.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FaultSpec {
    pub at: Stage,
    pub does: Misdeed,
    /// Between two bytes of a drip.
    #[serde(default = "drip_ms")]
    pub ms: u64,
    /// The reply, for `does = "reply"`.
    pub text: Option<String>,
    /// Only in the first so many sessions of the host.
    pub first: Option<u64>,
    /// Only from the so-manieth of such commands in a session on, counted from 1.
    #[serde(default = "from_the_first")]
    pub from: u64,
    /// Only so often: each time it is drawn.
    #[serde(default = "always")]
    pub percent: f64,
    /// Only to clients of this family.
    pub family: Option<Family>,
}

/// A family of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Family {
    Ipv4,
    Ipv6,
}

fn always() -> f64 {
    100.0
}

fn drip_ms() -> u64 {
    20
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
    BareLf,
    Reply,
    Inject,
}

/// A way of speaking; what it leaves out comes from the one it is `like`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PersonalitySpec {
    pub name: String,
    pub like: Option<String>,
    pub banner: Option<String>,
    pub banner_delay_ms: Option<u64>,
    pub ehlo: Option<Vec<String>>,
    pub helo_only: Option<bool>,
    pub require_tls: Option<bool>,
    pub errors_slow: Option<u64>,
    pub slow_ms: Option<u64>,
    pub errors_max: Option<u64>,
    pub rcpt_max: Option<u64>,
    pub transactions_max: Option<u64>,
    pub sessions_max: Option<u64>,
    pub not_found_max: Option<u64>,
    pub accept_pause_ms: Option<u64>,
    pub blocks: Option<Vec<IpAddr>>,
    pub replies: BTreeMap<ReplyKind, String>,
}

/// The replies a personality words in its own way.
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
