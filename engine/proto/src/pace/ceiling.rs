//! How far a site may be asked at most: profiles, and providers that want less.

/// How politely sites are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Below what providers ask of senders.
    Polite,
    /// At what most servers bear.
    Fast,
    /// No caps beyond what keeps a session alive.
    Lab,
}

/// The ceiling for a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ceiling {
    /// Sessions open at once.
    pub sessions: u32,
    /// New sessions a minute.
    pub starts_a_minute: u32,
    /// Recipients in one session, over all its transactions.
    pub session_recipients: u32,
    /// Refused recipients in one session before the next is taken.
    pub session_errors: u32,
}

/// Ceilings for providers that publish or are known for stricter ones: connections and messages a connection, from
/// KumoMTA's shaping tables. A site is named as [`crate::dns`] names it.
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
        match profile {
            Profile::Polite => Ceiling {
                sessions,
                starts_a_minute: 100,
                session_recipients: recipients,
                session_errors: POLITE_ERRORS,
            },
            Profile::Fast => Ceiling {
                sessions: sessions * 3,
                starts_a_minute: 600,
                session_recipients: recipients * 10,
                session_errors: POLITE_ERRORS,
            },
            Profile::Lab => Ceiling {
                sessions: u32::MAX,
                starts_a_minute: u32::MAX,
                session_recipients: u32::MAX,
                session_errors: LAB_ERRORS,
            },
        }
    }
}

/// Postfix's soft limit: the last error that costs no delay.
const POLITE_ERRORS: u32 = 10;
/// A server that counts errors at all counts to fewer.
const LAB_ERRORS: u32 = 1000;
