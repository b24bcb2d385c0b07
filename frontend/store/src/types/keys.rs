//! API keys and their scopes.

use crate::UnixMs;
use crate::id::{AccountId, KeyId};
use api::named;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// The largest number of keys of an account that are neither revoked nor expired.
pub const KEYS_MAX: usize = 100;

/// The largest number of keys of an account with the revoked and expired ones. Beyond it, those that ended first are removed.
pub const KEYS_KEPT_MAX: usize = 1000;

/// The longest life of a key that expires, in milliseconds: 10 years of 366 days.
pub const KEY_LIFE_MS_MAX: u64 = 10 * 366 * 24 * 60 * 60 * 1000;

/// Whether a key spends credits and asks mail servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyMode {
    /// The key spends credits.
    Live,
    /// The key gets artificial answers for free.
    Test,
}

/// The SHA-256 of a key. A key is stored in no other form.
pub type KeyHash = [u8; 32];

/// A new key before its creation. The key itself is not passed to the store.
#[derive(Clone, PartialEq, Eq)]
pub struct NewKey {
    /// The id, which the caller creates.
    pub id: KeyId,
    /// The account of the key.
    pub account: AccountId,
    /// The mode of the key.
    pub mode: KeyMode,
    /// The SHA-256 of the key.
    pub hash: KeyHash,
    /// The last four characters of the key.
    pub last4: [u8; 4],
    /// At most [`TEXT_CHARS_MAX`](crate::TEXT_CHARS_MAX) characters without control characters; may be empty.
    pub label: String,
    /// The parts of the API that the key may use.
    pub scopes: KeyScopes,
    /// The time from which the key is refused; `None` if it does not expire. At most [`KEY_LIFE_MS_MAX`] after its creation.
    pub expires_at: Option<UnixMs>,
}

/// A key as it is shown in lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyInfo {
    /// The id of the key.
    pub id: KeyId,
    /// The account of the key.
    pub account: AccountId,
    /// The mode of the key.
    pub mode: KeyMode,
    /// The last four characters of the key.
    pub last4: String,
    /// The label that the operator or user gave it.
    pub label: String,
    /// The time of creation.
    pub created_at: UnixMs,
    /// The time of revocation; `None` for an unrevoked key.
    pub revoked_at: Option<UnixMs>,
    /// The approximate time of the last use, with a precision of a minute.
    pub last_used_at: Option<UnixMs>,
    /// The parts of the API that the key may use. An older program of the same installation does not send them.
    #[serde(default)]
    pub scopes: KeyScopes,
    /// The time from which the key is refused; `None` if it does not expire.
    #[serde(default)]
    pub expires_at: Option<UnixMs>,
}

impl KeyInfo {
    /// The time at which the key ended, by revocation or expiry; `None` if it is valid at `now`.
    pub fn ended_at(&self, now: UnixMs) -> Option<UnixMs> {
        let expired = self.expires_at.filter(|at| *at <= now);
        self.revoked_at.into_iter().chain(expired).min()
    }
}

/// The data of a key that a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyLookup {
    /// The id of the key.
    pub id: KeyId,
    /// The account of the key.
    pub account: AccountId,
    /// The mode of the key.
    pub mode: KeyMode,
    /// Whether it was revoked, so that it must be refused.
    pub revoked: bool,
    /// The parts of the API that it may use.
    pub scopes: KeyScopes,
    /// The time from which it must be refused; `None` if it does not expire.
    pub expires_at: Option<UnixMs>,
}

named! {
    /// A part of the API. A key can be limited to some of them.
    KeyScope {
        /// Single fast checks.
        Fast = "fast",
        /// Single full checks.
        Full = "full",
        /// Batches.
        Batches = "batches",
        /// Lists.
        Lists = "lists",
        /// The account and its webhooks.
        Account = "account",
    }
}

impl KeyScope {
    /// The requests that it permits, for people.
    pub fn meaning(self) -> &'static str {
        match self {
            KeyScope::Fast => "fast checks of single addresses",
            KeyScope::Full => "full checks of single addresses",
            KeyScope::Batches => "creation, progress and cancellation of batches",
            KeyScope::Lists => "upload, check and download of lists",
            KeyScope::Account => {
                "plan, credits and webhooks of the account, and part of the export of all data"
            }
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl FromStr for KeyScope {
    type Err = String;

    fn from_str(text: &str) -> Result<KeyScope, String> {
        KeyScope::parse(text).ok_or_else(|| {
            format!("{text:?} is not a scope; the scopes are fast, full, batches, lists and account")
        })
    }
}

/// The scopes of a key. All of them together also include the scopes of later versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyScopes(u8);

impl KeyScopes {
    /// All scopes, as keys have them that are not limited.
    pub const ALL: KeyScopes = KeyScopes(u8::MAX);

    /// The bits of every scope of this version.
    const KNOWN: u8 = (1 << KeyScope::ALL.len()) - 1;

    /// These scopes; `None` if there is none, since such a key would be of no use.
    pub fn of(scopes: impl IntoIterator<Item = KeyScope>) -> Option<KeyScopes> {
        match scopes.into_iter().fold(0, |bits, scope| bits | scope.bit()) {
            0 => None,
            KeyScopes::KNOWN => Some(KeyScopes::ALL),
            some => Some(KeyScopes(some)),
        }
    }

    /// The scopes of a stored row: one bit each, from that of [`KeyScope::Fast`] on, or all bits of the byte for all scopes.
    /// `None` for other bytes.
    pub fn from_bits(bits: u8) -> Option<KeyScopes> {
        (bits == u8::MAX || (1..KeyScopes::KNOWN).contains(&bits)).then_some(KeyScopes(bits))
    }

    /// The inverse of [`KeyScopes::from_bits`].
    pub fn bits(self) -> u8 {
        self.0
    }

    /// Whether a request of this scope is permitted.
    pub fn has(self, scope: KeyScope) -> bool {
        self.0 & scope.bit() != 0
    }

    /// The scopes in the order of their definition.
    pub fn iter(self) -> impl Iterator<Item = KeyScope> {
        KeyScope::ALL.into_iter().filter(move |scope| self.has(*scope))
    }
}

impl Default for KeyScopes {
    fn default() -> KeyScopes {
        KeyScopes::ALL
    }
}

/// `all`, or the names of the scopes, separated by commas.
impl fmt::Display for KeyScopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == KeyScopes::ALL {
            return f.pad("all");
        }
        let names: Vec<&str> = self.iter().map(KeyScope::as_str).collect();
        f.pad(&names.join(","))
    }
}

/// An array of names.
impl Serialize for KeyScopes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(KeyScope::as_str))
    }
}

impl<'de> Deserialize<'de> for KeyScopes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<KeyScopes, D::Error> {
        let names: Vec<String> = Vec::deserialize(deserializer)?;
        let scopes: Result<Vec<KeyScope>, String> = names.iter().map(|name| name.parse()).collect();
        let scopes = scopes.map_err(serde::de::Error::custom)?;
        KeyScopes::of(scopes).ok_or_else(|| serde::de::Error::custom("a key needs at least one scope"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_of_scopes_survives_its_bits_and_its_names() {
        for bits in 0..=u8::MAX {
            let Some(scopes) = KeyScopes::from_bits(bits) else {
                assert!(bits == 0 || bits >= KeyScopes::KNOWN, "{bits}");
                continue;
            };
            assert_eq!(KeyScopes::from_bits(scopes.bits()), Some(scopes));
            assert_eq!(KeyScopes::of(scopes.iter()), Some(scopes));
            let json = serde_json::to_string(&scopes).unwrap();
            assert_eq!(serde_json::from_str::<KeyScopes>(&json).unwrap(), scopes, "{json}");
        }
        assert_eq!(KeyScopes::of([]), None);
        assert_eq!(KeyScopes::of(KeyScope::ALL), Some(KeyScopes::ALL));
        assert!(serde_json::from_str::<KeyScopes>("[]").is_err());
        assert!(serde_json::from_str::<KeyScopes>("[\"x\"]").is_err());
    }

    #[test]
    fn a_set_has_its_scopes_only() {
        let some = KeyScopes::of([KeyScope::Lists, KeyScope::Fast]).unwrap();
        assert_eq!((some.to_string().as_str(), KeyScopes::ALL.to_string().as_str()), ("fast,lists", "all"));
        let has: Vec<bool> = KeyScope::ALL.into_iter().map(|scope| some.has(scope)).collect();
        assert_eq!(has, [true, false, false, true, false]);
        assert!(KeyScope::ALL.into_iter().all(|scope| KeyScopes::ALL.has(scope)));
        assert_eq!("lists".parse(), Ok(KeyScope::Lists));
        assert!("list".parse::<KeyScope>().unwrap_err().contains("fast, full, batches"));
    }

    #[test]
    fn a_key_ends_by_what_comes_first() {
        let key = |revoked_at, expires_at| KeyInfo {
            id: KeyId::new(1, 1),
            account: AccountId::new(1, 2),
            mode: KeyMode::Live,
            last4: "wxyz".into(),
            label: String::new(),
            created_at: 1,
            revoked_at,
            last_used_at: None,
            scopes: KeyScopes::ALL,
            expires_at,
        };
        assert_eq!(key(None, None).ended_at(100), None);
        assert_eq!(key(Some(5), None).ended_at(100), Some(5));
        assert_eq!(key(None, Some(101)).ended_at(100), None);
        assert_eq!(key(None, Some(100)).ended_at(100), Some(100));
        assert_eq!(key(Some(7), Some(6)).ended_at(100), Some(6));
        assert_eq!(key(Some(7), Some(200)).ended_at(100), Some(7));
    }
}
