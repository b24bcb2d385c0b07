//! How far a site may be asked at most: profiles, and providers that want less.

use crate::refusals::RefusalBudget;

/// How politely sites are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Below what providers ask of senders.
    Polite,
    /// At the limits that most servers have.
    Fast,
    /// No caps beyond what keeps a session alive.
    Lab,
}

/// The ceiling for a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ceiling {
    /// Most sessions that are open at once, from one source and over all hosts of the site. Processes that share a source do not
    /// know the sessions of each other; the nodes of a cluster divide the number.
    pub sessions: u32,
    /// Most new sessions in a minute.
    pub starts_a_minute: u32,
    /// Recipients in one session, over all its transactions.
    pub session_recipients: u32,
    /// Refused recipients in one session before the next is taken.
    pub session_errors: u32,
    /// Refused recipients in an hour, over all sessions of a source.
    pub refusals: RefusalBudget,
    /// A server that takes its time with each refusal is waited for; otherwise it is left for a new session.
    pub waits_out_tarpits: bool,
}

/// Refusals an hour at a site of which nothing is known. The lowest known limit is the default of Cisco, 25 invalid recipients an
/// hour and client. Most servers that count at all allow 100 and more.
const REFUSALS_UNKNOWN: RefusalBudget = RefusalBudget { mostly_refused: 100, mostly_accepted: 600 };

/// The default of Cisco Secure Email: "Max. Invalid Recipients Per Hour" 25 (facts of its administration guide).
pub const REFUSALS_CISCO: RefusalBudget = RefusalBudget { mostly_refused: 25, mostly_accepted: 25 };

/// Operators that run the mail of very many domains under one site: each domain has its own recipients and its own control
/// recipient, and the ceiling of sessions and recipients bounds them already. None of them publishes a figure; this
/// is a tenth of what their ceiling of starts and recipients would let pass.
const REFUSALS_OPERATOR: RefusalBudget = RefusalBudget { mostly_refused: 3000, mostly_accepted: 6000 };

/// Sites with a budget of refusals of their own, by name.
const REFUSALS: &[(&str, RefusalBudget)] = &[
    ("google", REFUSALS_OPERATOR),
    ("microsoft365", REFUSALS_OPERATOR),
    ("outlook", REFUSALS_OPERATOR),
    ("yahoo", REFUSALS_OPERATOR),
    ("icloud", REFUSALS_OPERATOR),
    ("zoho", REFUSALS_OPERATOR),
    ("proofpoint", REFUSALS_OPERATOR),
    ("mimecast", REFUSALS_OPERATOR),
    ("barracuda", REFUSALS_OPERATOR),
    ("cisco", REFUSALS_CISCO),
];

/// Providers that publish, or are known for, stricter ceilings than others: the sessions and the recipients of a session with
/// `polite`, from KumoMTA's shaping tables (connections, and messages per connection). [`Ceiling::of`] has what `fast` and `lab`
/// make of them. `data/operators.txt` says which hosts belong to a site of this name. `loadtest/src/providers.rs` has the same
/// numbers for its plans, and a test there compares them.
const PROVIDERS: &[(&str, u32, u32)] = &[
    ("google", 5, 50),
    ("microsoft365", 5, 50),
    ("outlook", 5, 50),
    ("icloud", 10, 5),
    ("yahoo", 10, 20),
    ("mimecast", 10, 100),
    ("gmx", 4, 20),
    ("qq", 4, 8),
    ("netease", 4, 7),
    ("barracuda", 10, 15),
    ("orange", 2, 100),
];

impl Ceiling {
    /// The ceiling of `profile` for the site called `site`.
    pub fn of(profile: Profile, site: &str) -> Ceiling {
        let provider = PROVIDERS.iter().find(|(name, _, _)| *name == site);
        let (sessions, recipients) =
            provider.map_or((10, 100), |&(_, sessions, recipients)| (sessions, recipients));
        let refusals = REFUSALS.iter().find(|(name, _)| *name == site);
        let refusals = refusals.map_or(REFUSALS_UNKNOWN, |&(_, budget)| budget);
        match profile {
            Profile::Polite => Ceiling {
                sessions,
                starts_a_minute: 100,
                session_recipients: recipients,
                session_errors: POLITE_ERRORS,
                refusals,
                waits_out_tarpits: true,
            },
            Profile::Fast => Ceiling {
                sessions: sessions * 3,
                starts_a_minute: 600,
                session_recipients: recipients * 10,
                session_errors: POLITE_ERRORS,
                refusals: refusals.times(FAST_REFUSALS),
                waits_out_tarpits: false,
            },
            Profile::Lab => Ceiling {
                sessions: u32::MAX,
                starts_a_minute: u32::MAX,
                session_recipients: u32::MAX,
                session_errors: LAB_ERRORS,
                refusals: RefusalBudget::UNLIMITED,
                waits_out_tarpits: false,
            },
        }
    }

    /// The part of one of `nodes` that ask from the same address: its sessions and their starts, at least one each. What limits a
    /// single session stays, and the budget of refusals is divided where it is counted ([`RefusalBudget::divided`]).
    pub(super) fn divided(self, nodes: u32) -> Ceiling {
        let part = |whole: u32| if whole == u32::MAX { whole } else { (whole / nodes.max(1)).max(1) };
        Ceiling { sessions: part(self.sessions), starts_a_minute: part(self.starts_a_minute), ..self }
    }
}

/// The names in the tables.
#[cfg(test)]
pub(super) fn sites() -> impl Iterator<Item = &'static str> {
    PROVIDERS.iter().map(|&(site, ..)| site).chain(REFUSALS.iter().map(|&(site, _)| site))
}

/// `fast` allows this number of times the refusals of `polite`.
const FAST_REFUSALS: u32 = 5;
/// Postfix's soft limit: the last error that costs no delay.
const POLITE_ERRORS: u32 = 10;
/// A server that counts errors at all counts to fewer.
const LAB_ERRORS: u32 = 1000;
