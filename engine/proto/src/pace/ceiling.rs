//! The ceiling of each site: the most that a profile allows, and less at providers that allow less.

use crate::refusals::RefusalBudget;

/// How politely mailprobe asks sites: a choice of limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Below the limits that providers set for senders of mail.
    Polite,
    /// At the limits that most servers have.
    Fast,
    /// No limits in practice, for your own servers only.
    Lab,
}

/// The ceiling for a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ceiling {
    /// The highest number of sessions at once, from one source and over all hosts of the site. Each process counts only its own
    /// sessions, but the nodes of a cluster divide the number.
    pub sessions: u32,
    /// The highest number of new sessions in a minute.
    pub starts_a_minute: u32,
    /// The highest number of recipients in one session, over all its transactions.
    pub session_recipients: u32,
    /// The highest number of refused recipients in one session. Then a new session takes over.
    pub session_refusals: u32,
    /// The highest number of refused recipients in an hour, over all sessions of a source.
    pub refusals: RefusalBudget,
    /// Whether a session continues if the server delays each refusal (a tarpit). Otherwise a new session takes over.
    pub waits_out_tarpits: bool,
}

/// The budget at a site of which nothing is known. The lowest known limit is the default of Cisco, 25 invalid recipients in an hour
/// for each client. Most servers that count such recipients allow 100 or more.
const REFUSALS_UNKNOWN: RefusalBudget = RefusalBudget { mostly_refused: 100, mostly_accepted: 600 };

/// The default of Cisco Secure Email: "Max. Invalid Recipients Per Hour" 25 (from its administration guide).
pub const REFUSALS_CISCO: RefusalBudget = RefusalBudget { mostly_refused: 25, mostly_accepted: 25 };

/// The budget of operators with the mail of very many domains in one site. Each domain has its own recipients and its own control
/// recipient (one that does not exist), and the ceiling already limits sessions and recipients. None of these operators publishes a
/// number. With `polite`, 3,000 refusals are at most a tenth of the recipients that the ceiling allows in an hour.
const REFUSALS_OPERATOR: RefusalBudget = RefusalBudget { mostly_refused: 3000, mostly_accepted: 6000 };

/// The sites with a budget of their own, by name.
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

/// Providers with known limits: the site, its sessions, and the recipients of a session. The numbers are for `polite`, from
/// KumoMTA's shaping tables (connections, and messages per connection). [`Ceiling::of`] derives the numbers of `fast` from them,
/// and `lab` ignores them. `data/operators.txt` says which hosts belong to a site. `loadtest/src/providers.rs` has the same numbers
/// for its plans, and a test there compares them.
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
                session_refusals: POLITE_ERRORS,
                refusals,
                waits_out_tarpits: true,
            },
            Profile::Fast => Ceiling {
                sessions: sessions * 3,
                starts_a_minute: 600,
                session_recipients: recipients * 10,
                session_refusals: POLITE_ERRORS,
                refusals: refusals.times(FAST_REFUSALS),
                waits_out_tarpits: false,
            },
            Profile::Lab => Ceiling {
                sessions: u32::MAX,
                starts_a_minute: u32::MAX,
                session_recipients: u32::MAX,
                session_refusals: LAB_ERRORS,
                refusals: RefusalBudget::UNLIMITED,
                waits_out_tarpits: false,
            },
        }
    }

    /// The ceiling of each node if `nodes` nodes ask from the same address: a part of the sessions and of the new sessions in a
    /// minute, at least one each. The limits of a single session stay the same. The budget of refusals is divided elsewhere
    /// ([`RefusalBudget::divided`]).
    pub(super) fn divided(self, nodes: u32) -> Ceiling {
        let part = |whole: u32| if whole == u32::MAX { whole } else { (whole / nodes.max(1)).max(1) };
        Ceiling { sessions: part(self.sessions), starts_a_minute: part(self.starts_a_minute), ..self }
    }
}

/// The names of the sites in the tables.
#[cfg(test)]
pub(super) fn sites() -> impl Iterator<Item = &'static str> {
    PROVIDERS.iter().map(|&(site, ..)| site).chain(REFUSALS.iter().map(|&(site, _)| site))
}

/// The budget of `fast` is this many times that of `polite`.
const FAST_REFUSALS: u32 = 5;
/// The soft limit of Postfix. After more errors, it delays its replies.
const POLITE_ERRORS: u32 = 10;
/// Above the limit of every server that counts errors.
const LAB_ERRORS: u32 = 1000;
