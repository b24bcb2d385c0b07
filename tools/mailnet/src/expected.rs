//! The answers of a strict verifier: the ground truth of a scenario, derived from its text and never from the servers.
//!
//! The rules are those of the API contract. An accepted recipient counts only if an unknown one is permanently refused.
//! A reply about the client, or a transient one, is no verdict about a mailbox. A domain that takes no mail has no
//! mailboxes.

use crate::{
    mailbox::Mailbox,
    random::Random,
    spec::{DRIP_MS, DnsBehaviour, Family, HostState, Misdeed, Stage},
    world::{Behaviour, Domain, Host, World},
    zone::CHAIN_MAX,
};
use serde::{Deserialize, Serialize};
use std::{fmt, net::IpAddr};

/// The reasons of a full check in the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// The mailbox is confirmed.
    MailboxExists,
    /// The mailbox is confirmed and belongs to a role.
    RoleAccount,
    /// The text is not an address.
    InvalidSyntax,
    /// The domain is in the scenario's list of disposable ones.
    Disposable,
    /// The address is in the scenario's `spamtraps`.
    Spamtrap,
    /// The mailbox is full.
    InboxFull,
    /// The mailbox is disabled, or closed to external mail.
    MailboxDisabled,
    /// The domain accepts every recipient.
    CatchAll,
    /// The mailbox does not exist, or the domain takes no mail.
    MailboxNotFound,
    /// The answers of the server allow no verdict.
    Unverifiable,
}

impl Expected {
    /// The code of the contract, such as `mailbox_exists`.
    pub fn as_str(self) -> &'static str {
        match self {
            Expected::MailboxExists => "mailbox_exists",
            Expected::RoleAccount => "role_account",
            Expected::InvalidSyntax => "invalid_syntax",
            Expected::Disposable => "disposable",
            Expected::Spamtrap => "spamtrap",
            Expected::InboxFull => "inbox_full",
            Expected::MailboxDisabled => "mailbox_disabled",
            Expected::CatchAll => "catch_all",
            Expected::MailboxNotFound => "mailbox_not_found",
            Expected::Unverifiable => "unverifiable",
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The expected verdicts about one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExpectedVerdict {
    /// The reason for a check that answers at once.
    pub reason: Expected,
    /// The reason for a check that returns after the greylisting interval, from the same source with the same
    /// recipients.
    pub patient: Expected,
}

/// The answer of the DNS about a domain's mail.
enum Route<'a> {
    /// At least one host can be contacted.
    Hosts(Vec<&'a Host>),
    /// The domain takes no mail.
    Dead,
    /// The DNS does not answer.
    Unknown,
}

/// The slowest drip for which a patient client waits: about 100 bytes per reply.
const DRIP_MS_MAX: u64 = 50;

impl World {
    pub(crate) fn expected(&self, address: &str) -> ExpectedVerdict {
        let both = |reason| ExpectedVerdict { reason, patient: reason };
        let Some((local, domain)) = split(address) else {
            return both(Expected::InvalidSyntax);
        };
        let domain = domain.to_ascii_lowercase();
        let canonical = format!("{}@{domain}", local.to_ascii_lowercase());
        if self.spamtraps.contains(&canonical) || self.spamtraps.contains(&domain) {
            return both(Expected::Spamtrap);
        }
        let Some(domain) = self.by_domain.get(domain.as_str()).map(|&at| &self.domains[at as usize]) else {
            return both(Expected::MailboxNotFound);
        };
        if domain.disposable {
            return both(Expected::Disposable);
        }
        if let Some(expected) = domain.expected {
            return both(expected);
        }
        match self.route(&domain.name) {
            Route::Dead => both(Expected::MailboxNotFound),
            Route::Unknown => both(Expected::Unverifiable),
            Route::Hosts(hosts) => match hosts.iter().find(|host| is_usable(host)) {
                Some(host) if local.is_ascii() || host.behaviour.personality.smtputf8 => {
                    self.asked(domain, local)
                }
                _ => both(Expected::Unverifiable),
            },
        }
    }

    /// Whether the mailbox exists, whatever its servers reply; `None` if that is undecidable.
    pub(crate) fn exists(&self, address: &str) -> Option<bool> {
        let Some((local, domain)) = split(address) else { return Some(false) };
        let at = self.by_domain.get(domain.to_ascii_lowercase().as_str());
        let Some(domain) = at.map(|&at| &self.domains[at as usize]) else { return Some(false) };
        domain.mailboxes.exists(self.seed, local, &domain.name)
    }

    /// The verdict about a local part at a working host.
    fn asked(&self, domain: &Domain, local: &str) -> ExpectedVerdict {
        let mailboxes = &domain.mailboxes;
        let found = mailboxes.find(self.seed, local, &domain.name);
        let stranger = mailboxes.stranger();
        let later = |mailbox| if mailbox == Mailbox::Greylisted { Mailbox::Ok } else { mailbox };
        let reason = if mailboxes.greylisting.everyone {
            Expected::Unverifiable
        } else {
            self.reason(domain, found, stranger, local)
        };
        ExpectedVerdict { reason, patient: self.reason(domain, later(found), later(stranger), local) }
    }

    fn reason(&self, domain: &Domain, mailbox: Mailbox, stranger: Mailbox, local: &str) -> Expected {
        match mailbox {
            Mailbox::Ok if domain.accepts_prove_nothing => Expected::Unverifiable,
            Mailbox::Ok | Mailbox::ExistsThrottled => match stranger {
                Mailbox::NotFound if self.roles.contains(&local.to_ascii_lowercase()) => {
                    Expected::RoleAccount
                }
                Mailbox::NotFound => Expected::MailboxExists,
                Mailbox::Ok => Expected::CatchAll,
                _ => Expected::Unverifiable,
            },
            Mailbox::NotFound => Expected::MailboxNotFound,
            Mailbox::Full | Mailbox::FullTemporary => Expected::InboxFull,
            Mailbox::Disabled | Mailbox::Restricted => Expected::MailboxDisabled,
            Mailbox::Greylisted
            | Mailbox::Policy
            | Mailbox::Throttled
            | Mailbox::Relay
            | Mailbox::Temporary
            | Mailbox::Closing
            | Mailbox::Hangup
            | Mailbox::Reset
            | Mailbox::Silent => Expected::Unverifiable,
        }
    }

    fn route<'a>(&'a self, name: &'a str) -> Route<'a> {
        let mut name = name;
        for _ in 0..=CHAIN_MAX {
            let Some(records) = self.zone.find(name) else { return Route::Dead };
            match fate(records.behaviour) {
                Fate::Answers => {}
                Fate::Empty => return Route::Dead,
                Fate::Fails => return Route::Unknown,
            }
            if let Some((next, _)) = &records.cname {
                name = next;
                continue;
            }
            if records.mx.is_empty() {
                return self.hosts(std::iter::once(name));
            }
            return self.hosts(records.mx.iter().map(|(_, host, _)| &**host));
        }
        Route::Unknown
    }

    fn hosts<'a>(&'a self, names: impl Iterator<Item = &'a str>) -> Route<'a> {
        let mut found = Vec::new();
        let mut failed = false;
        for name in names {
            match self.host(name) {
                Ok(Some(host)) => found.push(host),
                Ok(None) => {}
                Err(NotTold) => failed = true,
            }
        }
        match (found.is_empty(), failed) {
            (false, _) => Route::Hosts(found),
            (true, true) => Route::Unknown,
            (true, false) => Route::Dead,
        }
    }

    /// The host with a name; `None` if the DNS proves that no host may be contacted.
    fn host(&self, name: &str) -> Result<Option<&Host>, NotTold> {
        let mut name = name;
        for _ in 0..=CHAIN_MAX {
            let Some(records) = self.zone.find(name) else { return Ok(None) };
            match fate(records.behaviour) {
                Fate::Answers => {}
                Fate::Empty => return Ok(None),
                Fate::Fails => return Err(NotTold),
            }
            let Some((next, _)) = &records.cname else {
                let contactable = |at: &IpAddr| at.is_loopback() || self.by_address.contains_key(at);
                let contactable = records.addresses.iter().any(contactable);
                let host = self.by_host_name.get(name).map(|&at| &self.hosts[at as usize]);
                return Ok(host.filter(|_| contactable));
            };
            name = next;
        }
        Err(NotTold)
    }

    /// Addresses of the scenario's domains with their expected verdicts.
    pub(crate) fn addresses(&self, count: usize, seed: u64) -> Addresses<'_> {
        Addresses { world: self, random: Random::new(seed ^ self.seed.rotate_left(32)), left: count }
    }
}

struct NotTold;

enum Fate {
    Answers,
    Empty,
    Fails,
}

fn fate(behaviour: DnsBehaviour) -> Fate {
    match behaviour {
        DnsBehaviour::Ok
        | DnsBehaviour::Truncated
        | DnsBehaviour::NoEdns
        | DnsBehaviour::AliasOnly
        | DnsBehaviour::SpoofedId
        | DnsBehaviour::SpoofedQuestion
        | DnsBehaviour::SpoofedPort
        | DnsBehaviour::SpoofedCase => Fate::Answers,
        DnsBehaviour::Nxdomain | DnsBehaviour::Nodata => Fate::Empty,
        DnsBehaviour::Servfail
        | DnsBehaviour::Refused
        | DnsBehaviour::Timeout
        | DnsBehaviour::Garbage
        | DnsBehaviour::CutShort => Fate::Fails,
        lie => {
            debug_assert!(lie.is_lie());
            Fate::Fails
        }
    }
}

/// Whether sessions of the host reach an answer to RCPT, for a client that tries more than once.
fn is_usable(host: &Host) -> bool {
    let Behaviour { personality, faults, .. } = &*host.behaviour;
    let listens = host.state == HostState::Up && !host.addresses.is_empty();
    listens
        && faults.iter().map(|fault| &fault.spec).all(|fault| {
            let passes = fault.first.is_some()
                || fault.from > 1
                || fault.percent < 100.0
                || fault.family.is_some_and(|family| has_other_family(host, family));
            let harmless = match fault.does {
                Misdeed::Drip => fault.ms.unwrap_or(DRIP_MS) <= DRIP_MS_MAX,
                Misdeed::Nul | Misdeed::BareLf | Misdeed::Inject => true,
                _ => false,
            };
            // A verdict remains valid after a failed RSET or QUIT; TLS is opportunistic (RFC 7435).
            let aside = match fault.at {
                Stage::Rset | Stage::Quit => true,
                Stage::Starttls | Stage::Tls => !personality.require_tls,
                _ => false,
            };
            passes || harmless || aside
        })
}

/// Whether a client can reach the host by an address of the other family.
fn has_other_family(host: &Host, family: Family) -> bool {
    host.addresses.iter().any(|address| address.is_ipv6() != (family == Family::Ipv6))
}

/// Splits an address at its last `@`, if it has the grammar of RFC 5321 4.1.2 and a domain of at least two labels.
fn split(address: &str) -> Option<(&str, &str)> {
    let (local, domain) = address.rsplit_once('@')?;
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b >= 0x80)
    };
    let atom = |atom: &str| {
        !atom.is_empty()
            && atom
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&b) || b >= 0x80)
    };
    let domain_fits = domain.len() <= 253 && domain.contains('.') && domain.split('.').all(label);
    let local_fits = (1..=64).contains(&local.len()) && (local.split('.').all(atom) || is_quoted(local));
    (domain_fits && local_fits).then_some((local, domain))
}

fn is_quoted(local: &str) -> bool {
    let Some(inner) = local.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else { return false };
    let mut bytes = inner.bytes();
    while let Some(byte) = bytes.next() {
        let fits = match byte {
            b'\\' => matches!(bytes.next(), Some(32..=126)),
            b'"' => false,
            _ => byte >= 32 && byte != 127,
        };
        if !fits {
            return false;
        }
    }
    true
}

/// An iterator over random addresses, from [`crate::Scenario::addresses`].
pub struct Addresses<'a> {
    world: &'a World,
    random: Random,
    left: usize,
}

impl Iterator for Addresses<'_> {
    type Item = (String, ExpectedVerdict);

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 || self.world.domains.is_empty() {
            return None;
        }
        self.left -= 1;
        let at = self.random.below(self.world.domains.len() as u64) as usize;
        let domain = &self.world.domains[at];
        let address = format!("{}@{}", self.local(domain), domain.name);
        let expected = self.world.expected(&address);
        Some((address, expected))
    }
}

impl Addresses<'_> {
    /// A local part that the domain's rules name or describe. One in five is a stranger if the rules are only names, so
    /// that a list of names does not make a domain in which everyone exists.
    fn local(&mut self, domain: &Domain) -> String {
        let (plain, patterns) = domain.mailboxes.names();
        let rules = (plain.len() + patterns.len()) as u64;
        if rules == 0 || (patterns.is_empty() && self.random.below(5) == 0) {
            return format!("nobody-{}", self.random.below(1_000_000_000));
        }
        let at = self.random.below(rules) as usize;
        match plain.get(at) {
            Some(name) => (*name).to_owned(),
            None => self.instance(patterns[at - plain.len()]),
        }
    }

    fn instance(&mut self, pattern: &str) -> String {
        let mut local = String::new();
        for piece in pattern.chars() {
            match piece {
                '#' => local.push_str(&self.random.below(100_000_000).to_string()),
                '*' => {
                    for _ in 0..6 {
                        local.push(char::from(b'a' + self.random.below(26) as u8));
                    }
                }
                other => local.push(other),
            }
        }
        local
    }
}
