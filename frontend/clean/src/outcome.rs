//! The result of a check in 64 bits, as the structures of a run store it for millions of addresses.
//!
//! | bits | content |
//! | --- | --- |
//! | 0 to 4 | the code of the verdict; 0 while there is none |
//! | 5 to 16 | the number of the rule with the scope, the reply code and the enhanced code |
//! | 17 to 23 | the number of the provider |
//! | 24 to 31 | the score plus one; 0 if there is none |
//! | 32 to 63 | the time of the check in seconds since 1970; 0 if it is unknown |
//!
//! Without `--columns` only the code is set.

use api::Reason;
use lists::{Results, WrittenResults, reasons};
use std::collections::HashMap;

/// The result of a check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Outcome(u64);

const CODE: Field = Field { at: 0, bits: 5 };
const RULE: Field = Field { at: 5, bits: 12 };
const PROVIDER: Field = Field { at: 17, bits: 7 };
const SCORE: Field = Field { at: 24, bits: 8 };
const CHECKED_AT: Field = Field { at: 32, bits: 32 };

/// Some bits of a result.
#[derive(Clone, Copy)]
struct Field {
    at: u32,
    bits: u32,
}

impl Field {
    const fn max(self) -> u64 {
        (1 << self.bits) - 1
    }

    fn of(self, bits: u64) -> u64 {
        bits >> self.at & self.max()
    }

    fn with(self, value: u64) -> u64 {
        value.min(self.max()) << self.at
    }
}

impl Outcome {
    /// A result that is a verdict alone.
    pub fn of_code(code: u8) -> Outcome {
        Outcome(CODE.with(code.into()))
    }

    /// The code of its verdict; 0 if there is none.
    pub fn code(self) -> u8 {
        CODE.of(self.0) as u8
    }

    /// The reason of its verdict, if there is one.
    pub fn reason(self) -> Option<Reason> {
        reasons::of_code(self.code())
    }

    /// The time of the check in seconds since 1970, if known.
    pub fn checked_at(self) -> Option<u64> {
        Some(CHECKED_AT.of(self.0)).filter(|&at| at != 0)
    }

    /// The score, if known.
    fn score(self) -> Option<u8> {
        u8::try_from(SCORE.of(self.0).checked_sub(1)?).ok()
    }

    /// All bits, as they are stored.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// The result with these bits.
    pub fn from_bits(bits: u64) -> Outcome {
        Outcome(bits)
    }
}

/// Texts with numbers from 1. The number 0 is the empty text.
#[derive(Debug, Default)]
struct Texts {
    texts: Vec<String>,
    numbers: HashMap<String, u64>,
}

impl Texts {
    /// The number of a text; 0 if it is empty, or if there are more texts than numbers. Engines have fewer rules and providers.
    fn number(&mut self, text: &str, most: u64) -> u64 {
        if text.is_empty() {
            return 0;
        }
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.texts.len() as u64 + 1;
        if number > most {
            return 0;
        }
        self.texts.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }

    fn text(&self, number: u64) -> &str {
        let at = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        at.and_then(|at| self.texts.get(at)).map_or("", String::as_str)
    }
}

/// Numbers that are kept for rules without a reply: a server that invents enhanced codes can use up the others. Then the results have
/// only the rule.
const RULES_ALONE_MAX: u64 = 512;

/// Separates the parts of [`reply_text`].
const SEPARATOR: char = '\0';

/// The rule and the facts of the reply as one text, which gets one number; `None` without a reply. A run has some hundred
/// different texts. The columns of an earlier output may have only some of the facts.
fn reply_text(results: &Results<'_>) -> Option<String> {
    let Results { rule, scope, reply_code, enhanced_code, .. } = results;
    if scope.is_empty() && enhanced_code.is_empty() && reply_code.is_none() {
        return None;
    }
    let code = reply_code.map(|code| code.to_string()).unwrap_or_default();
    Some(format!("{rule}{SEPARATOR}{scope}{SEPARATOR}{code}{SEPARATOR}{enhanced_code}"))
}

/// The results of such a text, or of a rule alone.
fn of_reply_text(text: &str) -> Results<'_> {
    let mut parts = text.split(SEPARATOR);
    let mut part = || parts.next().unwrap_or_default();
    let (rule, scope, code, enhanced_code) = (part(), part(), part(), part());
    Results { rule, scope, reply_code: code.parse().ok(), enhanced_code, ..Results::default() }
}

/// The first bytes of a record of the journal: the hash of the address, the code, the score, the time and the length of the provider.
const RECORD_FIXED: usize = 16 + 1 + 1 + 4 + 1;

/// Makes results of their parts, and reads them.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    /// Whether more than the code is kept.
    is_full: bool,
    rules: Texts,
    providers: Texts,
}

impl Outcomes {
    /// Results that keep more than the code if `is_full`.
    pub fn new(is_full: bool) -> Outcomes {
        Outcomes { is_full, ..Outcomes::default() }
    }

    /// A new result of this time.
    pub fn new_outcome(&mut self, code: u8, results: &Results<'_>) -> Outcome {
        if !self.is_full {
            return Outcome::of_code(code);
        }
        let most = RULE.max() - RULES_ALONE_MAX;
        let reply = reply_text(results).map_or(0, |text| self.rules.number(&text, most));
        let rule = if reply == 0 { self.rules.number(results.rule, RULE.max()) } else { reply };
        let provider = self.providers.number(results.provider, PROVIDER.max());
        Outcome(
            CODE.with(code.into())
                | RULE.with(rule)
                | PROVIDER.with(provider)
                | SCORE.with(results.score.map_or(0, |score| u64::from(score) + 1))
                | CHECKED_AT.with(results.checked_at.unwrap_or(0)),
        )
    }

    /// A result that an earlier run has written.
    pub fn written(&mut self, code: u8, written: &WrittenResults) -> Outcome {
        let WrittenResults { provider, rule, scope, reply_code, enhanced_code, score, checked_at } = written;
        let (reply_code, score, checked_at) = (*reply_code, *score, *checked_at);
        let results = Results {
            provider,
            rule,
            scope,
            reply_code,
            enhanced_code,
            score,
            checked_at,
            ..Results::default()
        };
        self.new_outcome(code, &results)
    }

    /// Appends the content of a record of the journal (`journal.rs`): it stands for itself, because a later run has other numbers of
    /// texts.
    pub fn write_record(&self, key: u128, outcome: Outcome, into: &mut Vec<u8>) {
        let (provider, rule) =
            (self.providers.text(PROVIDER.of(outcome.0)), self.rules.text(RULE.of(outcome.0)));
        // Names of providers are short. A longer one would be left out.
        let length = u8::try_from(provider.len()).unwrap_or(0);
        into.extend_from_slice(&key.to_le_bytes());
        into.extend([outcome.code(), SCORE.of(outcome.0) as u8]);
        into.extend((CHECKED_AT.of(outcome.0) as u32).to_le_bytes());
        into.push(length);
        into.extend_from_slice(&provider.as_bytes()[..length.into()]);
        into.extend_from_slice(rule.as_bytes());
    }

    /// The hash of the address and the result of such a record; `None` if it is none.
    pub fn read_record(&mut self, content: &[u8]) -> Option<(u128, Outcome)> {
        let (fixed, texts) = content.split_first_chunk::<RECORD_FIXED>()?;
        let (key, rest) = fixed.split_first_chunk::<16>()?;
        let &[code, score, at @ .., length] = rest.first_chunk::<7>()?;
        let (provider, rule) = texts.split_at_checked(length.into())?;
        let results = Results {
            provider: std::str::from_utf8(provider).ok()?,
            score: score.checked_sub(1),
            checked_at: Some(u64::from(u32::from_le_bytes(at))).filter(|&at| at != 0),
            ..of_reply_text(std::str::from_utf8(rule).ok()?)
        };
        reasons::of_code(code)?;
        Some((u128::from_le_bytes(*key), self.new_outcome(code, &results)))
    }

    /// The values of a result.
    pub fn results(&self, outcome: Outcome) -> Results<'_> {
        Results {
            provider: self.providers.text(PROVIDER.of(outcome.0)),
            score: outcome.score(),
            checked_at: outcome.checked_at(),
            ..of_reply_text(self.rules.text(RULE.of(outcome.0)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_comes_back() {
        let mut outcomes = Outcomes::new(true);
        let results = Results {
            rule: "unknown_user",
            provider: "google",
            score: Some(100),
            checked_at: Some(1_795_619_459),
            ..Results::default()
        };
        let outcome = outcomes.new_outcome(16, &results);
        assert_eq!((outcome.code(), outcomes.results(outcome)), (16, results));
        assert_eq!(Outcome::from_bits(outcome.bits()), outcome);
        let empty = outcomes.new_outcome(1, &Results { score: Some(0), ..Results::default() });
        assert_eq!(outcomes.results(empty), Results { score: Some(0), ..Results::default() });
        let reply = Results { scope: "recipient", reply_code: Some(550), enhanced_code: "5.1.1", ..results };
        let outcome = outcomes.new_outcome(16, &reply);
        assert_eq!((outcome.code(), outcomes.results(outcome)), (16, reply));
        // An earlier output may have only some of the columns.
        let scope = Results { scope: "recipient", ..results };
        let outcome = outcomes.new_outcome(16, &scope);
        assert_eq!(outcomes.results(outcome), scope);
        for n in 0..5000 {
            let enhanced_code = format!("5.{}.{}", n / 1000, n % 1000);
            let outcome = outcomes.new_outcome(3, &Results { enhanced_code: &enhanced_code, ..reply });
            let expected =
                if n < 3500 { Results { enhanced_code: &enhanced_code, ..reply } } else { results };
            if !(3500..3600).contains(&n) {
                assert_eq!(outcomes.results(outcome), expected, "{n}");
            }
        }
        let other = outcomes.new_outcome(3, &Results { rule: "another", reply_code: None, ..reply });
        assert_eq!(outcomes.results(other).rule, "another");
        for n in 0..200 {
            let provider = format!("p{n}");
            let outcome = outcomes.new_outcome(3, &Results { provider: &provider, ..results });
            let expected = if n < 126 { provider.as_str() } else { "" };
            assert_eq!((outcomes.results(outcome).provider, outcome.code()), (expected, 3));
        }
        assert_eq!(Outcomes::new(false).new_outcome(7, &results), Outcome::of_code(7));
    }

    #[test]
    fn all_codes_fit() {
        assert!(
            Reason::ALL
                .into_iter()
                .all(|reason| Outcome::of_code(reasons::code(reason)).reason() == Some(reason))
        );
    }
}
