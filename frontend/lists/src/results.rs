//! The columns of results that a list can have after `deliverable` and `reason`.

use crate::time::{utc_seconds, utc_text};
use std::borrow::Cow;

api::named! {
    /// A column of results after `deliverable` and `reason`; the order is that of the documentation.
    ResultColumn {
        /// The address that was probably meant; empty if the domain is no typing mistake.
        Suggestion = "suggestion",
        /// The inbox provider, as the API names it; empty if the DNS of the domain could not be read.
        Provider = "provider",
        /// Whether the local part names a function.
        Role = "role",
        /// Whether everyone can get a mailbox of the domain without payment.
        Free = "free",
        /// Whether the domain belongs to a provider of throw-away addresses.
        Disposable = "disposable",
        /// The rule that decided; empty if none did.
        Rule = "rule",
        /// The subject of the reply that decided; empty without a reply.
        Scope = "scope",
        /// The reply code; empty without a reply.
        ReplyCode = "reply_code",
        /// The enhanced code of a refusal; empty without one.
        EnhancedCode = "enhanced_code",
        /// The score from 0 to 100; empty if the DNS of the domain could not be read.
        Score = "score",
        /// The time of the check in UTC.
        CheckedAt = "checked_at",
    }
}

/// The values of the column `scope`, as `Scope::as_str` names them.
const SCOPES: [&str; 6] = ["recipient", "sender", "session", "host", "site", "us"];

/// The names of the columns that every list has.
pub const VERDICT_NAMES: [&str; 2] = ["deliverable", "reason"];

impl ResultColumn {
    /// Whether its value is found by a check. The values of the others follow from the address, or are always known.
    pub fn is_of_check(self) -> bool {
        use ResultColumn::{CheckedAt, Disposable, Free, Role, Suggestion};
        !matches!(self, Suggestion | Role | Free | Disposable | CheckedAt)
    }

    /// Whether this can be a value of the column. Spreadsheets write `TRUE` for `true`.
    pub(crate) fn has_value(self, text: &str) -> bool {
        let is_number = |text: &str, most: u16| {
            !text.starts_with('+') && text.parse::<u16>().is_ok_and(|number| number <= most)
        };
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/');
        text.is_empty()
            || match self {
                ResultColumn::Suggestion => text.contains('@') && !text.contains(char::is_whitespace),
                ResultColumn::Provider | ResultColumn::Rule => text.len() <= 64 && text.bytes().all(is_word),
                ResultColumn::Role | ResultColumn::Free | ResultColumn::Disposable => {
                    text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false")
                }
                ResultColumn::Scope => SCOPES.contains(&text),
                ResultColumn::ReplyCode => text.len() == 3 && is_number(text, 599),
                ResultColumn::EnhancedCode => {
                    text.split('.').count() == 3 && text.split('.').all(|part| is_number(part, 999))
                }
                ResultColumn::Score => text.parse::<u8>().is_ok_and(|score| score <= 100),
                ResultColumn::CheckedAt => utc_seconds(text).is_some(),
            }
    }

    /// Whether JSON writes the value without quotes.
    pub(crate) fn is_bare(self) -> bool {
        matches!(
            self,
            ResultColumn::Role
                | ResultColumn::Free
                | ResultColumn::Disposable
                | ResultColumn::ReplyCode
                | ResultColumn::Score
        )
    }
}

/// The names of the columns or keys of a verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerdictNames {
    /// The name for `true` or `false`: `deliverable`, unless a column of the list has this name.
    pub deliverable: Vec<u8>,
    /// The name for the reason: `reason`, unless a column of the list has this name.
    pub reason: Vec<u8>,
    /// The names of the further columns of results.
    pub further: Vec<Vec<u8>>,
}

impl VerdictNames {
    /// The names after this text, with those of further columns.
    pub(crate) fn new(stem: &[u8], further: &[ResultColumn]) -> VerdictNames {
        let name = |name: &str| [stem, name.as_bytes()].concat();
        VerdictNames {
            deliverable: name(VERDICT_NAMES[0]),
            reason: name(VERDICT_NAMES[1]),
            further: further.iter().map(|column| name(column.as_str())).collect(),
        }
    }

    /// All names in their order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Vec<u8>> {
        [&self.deliverable, &self.reason].into_iter().chain(&self.further)
    }
}

impl Default for VerdictNames {
    fn default() -> VerdictNames {
        VerdictNames::new(b"", &[])
    }
}

/// The values of an address in the columns of results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Results<'a> {
    /// The address that was probably meant; empty if there is none.
    pub suggestion: &'a str,
    /// The inbox provider; empty if it is unknown.
    pub provider: &'a str,
    /// The rule that decided; empty if there is none.
    pub rule: &'a str,
    /// The subject of the reply that decided; empty without a reply.
    pub scope: &'a str,
    /// The reply code, if there was a reply.
    pub reply_code: Option<u16>,
    /// The enhanced code; empty if there is none.
    pub enhanced_code: &'a str,
    /// Whether the local part names a function; `None` without an address.
    pub role: Option<bool>,
    /// Whether the provider is free; `None` without an address.
    pub free: Option<bool>,
    /// Whether the provider is one of throw-away addresses; `None` without an address.
    pub disposable: Option<bool>,
    /// The score from 0 to 100, if known.
    pub score: Option<u8>,
    /// The time of the check in seconds since 1970, if known.
    pub checked_at: Option<u64>,
}

impl<'a> Results<'a> {
    /// The value of a column; empty if there is none.
    pub(crate) fn value(&self, column: ResultColumn) -> Cow<'a, str> {
        let flag = |flag: Option<bool>| match flag {
            Some(true) => "true",
            Some(false) => "false",
            None => "",
        };
        Cow::Borrowed(match column {
            ResultColumn::Suggestion => self.suggestion,
            ResultColumn::Provider => self.provider,
            ResultColumn::Rule => self.rule,
            ResultColumn::Scope => self.scope,
            ResultColumn::EnhancedCode => self.enhanced_code,
            ResultColumn::ReplyCode => {
                return self.reply_code.map_or(Cow::Borrowed(""), |code| Cow::Owned(code.to_string()));
            }
            ResultColumn::Role => flag(self.role),
            ResultColumn::Free => flag(self.free),
            ResultColumn::Disposable => flag(self.disposable),
            ResultColumn::Score => {
                return self.score.map_or(Cow::Borrowed(""), |score| Cow::Owned(score.to_string()));
            }
            ResultColumn::CheckedAt => {
                return self.checked_at.map_or(Cow::Borrowed(""), |at| Cow::Owned(utc_text(at)));
            }
        })
    }
}

/// The results that an output row has, as far as they depend on a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WrittenResults {
    /// The inbox provider; empty if it is unknown or there is no such column.
    pub provider: String,
    /// The rule that decided; empty likewise.
    pub rule: String,
    /// The subject of the reply that decided; empty likewise.
    pub scope: String,
    /// The reply code, if there is one.
    pub reply_code: Option<u16>,
    /// The enhanced code; empty likewise.
    pub enhanced_code: String,
    /// The score, if known.
    pub score: Option<u8>,
    /// The time of the check in seconds since 1970, if known.
    pub checked_at: Option<u64>,
}

impl WrittenResults {
    /// Takes a value of a column.
    pub(crate) fn set(&mut self, column: ResultColumn, value: &str) {
        match column {
            ResultColumn::Provider => value.clone_into(&mut self.provider),
            ResultColumn::Rule => value.clone_into(&mut self.rule),
            ResultColumn::Scope => value.clone_into(&mut self.scope),
            ResultColumn::ReplyCode => self.reply_code = value.parse().ok(),
            ResultColumn::EnhancedCode => value.clone_into(&mut self.enhanced_code),
            ResultColumn::Score => self.score = value.parse().ok(),
            ResultColumn::CheckedAt => self.checked_at = utc_seconds(value),
            ResultColumn::Suggestion | ResultColumn::Role | ResultColumn::Free | ResultColumn::Disposable => {
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The results of a denied recipient.
    pub const EXAMPLE: Results<'static> = Results {
        suggestion: "a@gmail.com",
        provider: "google",
        rule: "unknown_user",
        scope: "recipient",
        reply_code: Some(550),
        enhanced_code: "5.1.1",
        role: Some(true),
        free: Some(false),
        disposable: None,
        score: Some(85),
        checked_at: Some(0),
    };

    #[test]
    fn columns_know_their_values() {
        let results = EXAMPLE;
        let mut written = WrittenResults::default();
        for column in ResultColumn::ALL {
            let value = results.value(column);
            assert!(column.has_value(&value), "{}", column.as_str());
            assert_eq!(ResultColumn::parse(column.as_str()), Some(column));
            assert_eq!(Results::default().value(column), "");
            written.set(column, &value);
        }
        let WrittenResults { provider, rule, scope, reply_code, enhanced_code, score, checked_at } = written;
        assert_eq!((provider.as_str(), rule.as_str()), ("google", "unknown_user"));
        assert_eq!((&*scope, reply_code, &*enhanced_code), ("recipient", Some(550), "5.1.1"));
        assert_eq!((score, checked_at), (Some(85), Some(0)));
        for (column, foreign) in [
            (ResultColumn::Role, "manager"),
            (ResultColumn::Score, "101"),
            (ResultColumn::CheckedAt, "yesterday"),
            (ResultColumn::Suggestion, "call them"),
            (ResultColumn::Rule, "a b"),
            (ResultColumn::Scope, "world"),
            (ResultColumn::ReplyCode, "5500"),
            (ResultColumn::ReplyCode, "+55"),
            (ResultColumn::ReplyCode, "800"),
            (ResultColumn::EnhancedCode, "5.1"),
            (ResultColumn::EnhancedCode, "5.1.x"),
            (ResultColumn::EnhancedCode, "5.1.1.1"),
        ] {
            assert!(!column.has_value(foreign), "{foreign}");
        }
    }
}
