//! What happened: counters that every session and every query adds to.

use serde::Serialize;
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// A rule of the protocol that a client broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Violation {
    /// It spoke before the greeting (RFC 5321 3.1).
    EarlyTalker,
    /// It sent a command before the reply to the one before, and PIPELINING was not offered (RFC 2920).
    PipeliningNotOffered,
    /// It sent more after a command that must end its group: EHLO, STARTTLS, DATA, VRFY, EXPN, NOOP, QUIT
    /// (RFC 2920 3.1, RFC 3207 4).
    PipelinedPastGroupEnd,
    /// MAIL inside a transaction (RFC 5321 4.1.4).
    NestedMail,
    /// RCPT outside one.
    RcptBeforeMail,
    /// MAIL before EHLO or HELO, or after STARTTLS without a new EHLO (RFC 3207 4.2).
    MailBeforeEhlo,
    /// DATA or BDAT: a verifier sends no mail.
    Data,
    /// VRFY.
    Vrfy,
    /// EXPN.
    Expn,
    /// AUTH.
    Auth,
    /// STARTTLS where it was not offered, or twice.
    StarttlsNotOffered,
    /// A line of more than 512 bytes (RFC 5321 4.5.3.1.4), 1,024 for MAIL and RCPT with their parameters.
    LineTooLong,
    /// A line that ends without CR.
    BareLf,
    /// Bytes above 127 without SMTPUTF8 (RFC 6531), or a parameter whose extension was not offered.
    ParameterNotOffered,
    /// A command that cannot be read.
    Syntax,
    /// A command that does not exist.
    UnknownCommand,
}

impl Violation {
    const ALL: [Violation; 16] = [
        Violation::EarlyTalker,
        Violation::PipeliningNotOffered,
        Violation::PipelinedPastGroupEnd,
        Violation::NestedMail,
        Violation::RcptBeforeMail,
        Violation::MailBeforeEhlo,
        Violation::Data,
        Violation::Vrfy,
        Violation::Expn,
        Violation::Auth,
        Violation::StarttlsNotOffered,
        Violation::LineTooLong,
        Violation::BareLf,
        Violation::ParameterNotOffered,
        Violation::Syntax,
        Violation::UnknownCommand,
    ];
}

/// What a counter of DNS queries counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DnsKind {
    /// Over UDP.
    Udp,
    /// Over TCP.
    Tcp,
    /// For MX.
    Mx,
    /// For A.
    A,
    /// For AAAA.
    Aaaa,
    /// For TXT.
    Txt,
    /// For PTR.
    Ptr,
    /// For any other type.
    Other,
    /// UDP queries that were dropped.
    Dropped,
    /// What could not be read as a query.
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

/// A picture of the counters at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// SMTP connections taken, those to refused hosts in wildcard mode left out.
    pub sessions: u64,
    /// Of these, open now.
    pub sessions_open: u64,
    /// The most that were open at once.
    pub sessions_peak: u64,
    /// Sessions that reached TLS.
    pub sessions_tls: u64,
    /// Sessions that the client ended without QUIT.
    pub sessions_without_quit: u64,
    /// MAIL commands.
    pub mail: u64,
    /// RCPT commands.
    pub rcpt: u64,
    /// RCPT commands that were accepted.
    pub rcpt_accepted: u64,
    /// Misdeeds done.
    pub misdeeds: u64,
    /// Broken rules, by kind; kinds that never happened are left out.
    pub violations: BTreeMap<Violation, u64>,
    /// DNS queries, by kind; a query counts for its transport and for its type.
    pub dns: BTreeMap<DnsKind, u64>,
}

/// The counters of one host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct HostStats {
    /// Connections taken.
    pub sessions: u64,
    /// Of these, open now.
    pub sessions_open: u64,
    /// The most that were open at once.
    pub sessions_peak: u64,
    /// RCPT commands.
    pub rcpt: u64,
    /// RCPT commands that got a permanent refusal (5yz).
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
    violations: [AtomicU64; Violation::ALL.len()],
    dns: [AtomicU64; DnsKind::ALL.len()],
}

/// Sessions: so far, now, at most.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    total: AtomicU64,
    open: AtomicU64,
    peak: AtomicU64,
}

impl Gauge {
    /// Counts one more; gives how many there were before it in all.
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
        add(&self.violations[kind as usize]);
    }

    pub(crate) fn dns(&self, kind: DnsKind) -> u64 {
        self.dns[kind as usize].fetch_add(1, Relaxed) + 1
    }

    pub(crate) fn picture(&self) -> Stats {
        let seen = |counter: &AtomicU64| Some(counter.load(Relaxed)).filter(|&count| count > 0);
        let violations =
            Violation::ALL.iter().filter_map(|&v| Some((v, seen(&self.violations[v as usize])?)));
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
            violations: violations.collect(),
            dns: dns.collect(),
        }
    }
}
