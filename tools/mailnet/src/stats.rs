//! Counters of all sessions and queries.

use crate::recipients::Recipients;
use serde::Serialize;
use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// A protocol rule that a client broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Violation {
    /// It sent bytes before the greeting (RFC 5321 3.1).
    EarlyTalker,
    /// It sent a command before the previous reply, although PIPELINING was not offered (RFC 2920).
    PipeliningNotOffered,
    /// It sent bytes after a command that must end its group: EHLO, STARTTLS, DATA, VRFY, EXPN, NOOP, QUIT (RFC 2920
    /// 3.1, RFC 3207 4).
    PipelinedPastGroupEnd,
    /// MAIL inside a transaction (RFC 5321 4.1.4).
    NestedMail,
    /// RCPT outside of a transaction.
    RcptBeforeMail,
    /// MAIL before EHLO or HELO, or after STARTTLS without a new EHLO (RFC 3207 4.2).
    MailBeforeEhlo,
    /// DATA or BDAT: a verifier sends no mail.
    Data,
    /// The command VRFY.
    Vrfy,
    /// The command EXPN.
    Expn,
    /// The command AUTH.
    Auth,
    /// STARTTLS without an offer, or a second STARTTLS.
    StarttlsNotOffered,
    /// A line of more than 512 bytes (RFC 5321 4.5.3.1.4), 1,024 for MAIL and RCPT with their parameters.
    LineTooLong,
    /// A line that ends without CR.
    BareLf,
    /// Bytes above 127 without SMTPUTF8 (RFC 6531), or a parameter whose extension was not offered.
    ParameterNotOffered,
    /// A command that cannot be parsed.
    Syntax,
    /// A command that does not exist.
    UnknownCommand,
}

/// The kinds of DNS queries that are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DnsKind {
    /// Queries over UDP.
    Udp,
    /// Queries over TCP.
    Tcp,
    /// Queries for MX.
    Mx,
    /// Queries for A.
    A,
    /// Queries for AAAA.
    Aaaa,
    /// Queries for TXT.
    Txt,
    /// Queries for PTR.
    Ptr,
    /// Queries for any other type.
    Other,
    /// UDP queries that were dropped.
    Dropped,
    /// Messages that could not be read as a query.
    Unreadable,
}

impl DnsKind {
    const ALL: [DnsKind; 10] = [
        DnsKind::Udp,
        DnsKind::Tcp,
        DnsKind::Mx,
        DnsKind::A,
        DnsKind::Aaaa,
        DnsKind::Txt,
        DnsKind::Ptr,
        DnsKind::Other,
        DnsKind::Dropped,
        DnsKind::Unreadable,
    ];
}

/// The values of the counters at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Accepted SMTP connections, without those to refused hosts in wildcard mode.
    pub sessions: u64,
    /// How many of them are open.
    pub sessions_open: u64,
    /// The largest number of open sessions.
    pub sessions_peak: u64,
    /// Sessions with TLS.
    pub sessions_tls: u64,
    /// Sessions that the client ended without QUIT.
    pub sessions_without_quit: u64,
    /// The number of MAIL commands.
    pub mail: u64,
    /// The number of RCPT commands.
    pub rcpt: u64,
    /// The number of accepted RCPT commands.
    pub rcpt_accepted: u64,
    /// The number of misdeeds.
    pub misdeeds: u64,
    /// Broken rules by kind; kinds without any are left out.
    pub violations: BTreeMap<Violation, u64>,
    /// DNS queries by kind; a query counts for its transport and for its type.
    pub dns: BTreeMap<DnsKind, u64>,
    /// The number of recipients by the number of RCPT commands for them, if the scenario has `recipients`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub recipients: BTreeMap<u32, u64>,
}

/// The counters of one host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct HostStats {
    /// Accepted connections.
    pub sessions: u64,
    /// How many of them are open.
    pub sessions_open: u64,
    /// The largest number of open sessions.
    pub sessions_peak: u64,
    /// The number of RCPT commands.
    pub rcpt: u64,
    /// The number of RCPT commands with a permanent refusal (5yz).
    pub rcpt_refused: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub all: Gauge,
    pub sessions_tls: AtomicU64,
    pub sessions_without_quit: AtomicU64,
    pub mail: AtomicU64,
    pub rcpt: AtomicU64,
    pub rcpt_accepted: AtomicU64,
    pub misdeeds: AtomicU64,
    pub recipients: Recipients,
    violations: Mutex<BTreeMap<Violation, u64>>,
    dns: [AtomicU64; DnsKind::ALL.len()],
}

/// A counter of sessions: in all, open, and the largest number of open ones.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    total: AtomicU64,
    open: AtomicU64,
    peak: AtomicU64,
}

impl Gauge {
    /// Counts one more; returns how many there were before it in all.
    pub(crate) fn enter(&self) -> u64 {
        let open = self.open.fetch_add(1, Relaxed) + 1;
        self.peak.fetch_max(open, Relaxed);
        self.total.fetch_add(1, Relaxed)
    }

    pub(crate) fn leave(&self) {
        self.open.fetch_sub(1, Relaxed);
    }
}

#[derive(Debug, Default)]
pub(crate) struct HostCounters {
    pub sessions: Gauge,
    pub rcpt: AtomicU64,
    pub rcpt_refused: AtomicU64,
}

impl HostCounters {
    pub(crate) fn picture(&self) -> HostStats {
        HostStats {
            sessions: self.sessions.total.load(Relaxed),
            sessions_open: self.sessions.open.load(Relaxed),
            sessions_peak: self.sessions.peak.load(Relaxed),
            rcpt: self.rcpt.load(Relaxed),
            rcpt_refused: self.rcpt_refused.load(Relaxed),
        }
    }
}

pub(crate) fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

impl Counters {
    pub(crate) fn violation(&self, kind: Violation) {
        *self.lock_violations().entry(kind).or_default() += 1;
    }

    /// After a panic under the lock, the counts are still whole.
    fn lock_violations(&self) -> MutexGuard<'_, BTreeMap<Violation, u64>> {
        self.violations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn dns(&self, kind: DnsKind) -> u64 {
        self.dns[kind as usize].fetch_add(1, Relaxed) + 1
    }

    pub(crate) fn picture(&self) -> Stats {
        let seen = |counter: &AtomicU64| Some(counter.load(Relaxed)).filter(|&count| count > 0);
        let dns = DnsKind::ALL.iter().filter_map(|&kind| Some((kind, seen(&self.dns[kind as usize])?)));
        Stats {
            sessions: self.all.total.load(Relaxed),
            sessions_open: self.all.open.load(Relaxed),
            sessions_peak: self.all.peak.load(Relaxed),
            sessions_tls: self.sessions_tls.load(Relaxed),
            sessions_without_quit: self.sessions_without_quit.load(Relaxed),
            mail: self.mail.load(Relaxed),
            rcpt: self.rcpt.load(Relaxed),
            rcpt_accepted: self.rcpt_accepted.load(Relaxed),
            misdeeds: self.misdeeds.load(Relaxed),
            violations: self.lock_violations().clone(),
            dns: dns.collect(),
            recipients: self.recipients.picture(),
        }
    }
}
