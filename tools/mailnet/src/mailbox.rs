//! The existing local parts, and the treatment of each.
//!
//! A rule is a pattern: a plain local part, `*` for any text, `#` for one or more digits, and an optional share at the
//! start, `50% user-#`. A hash of the address decides about shares, so a domain with a thousand million mailboxes needs
//! as little memory as one without any.

use crate::random::hash;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};

/// The mailbox of a local part, or a reply that does not depend on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mailbox {
    Ok,
    #[default]
    NotFound,
    Full,
    /// Full, with a 4xx reply.
    FullTemporary,
    Disabled,
    /// Deferred at first, accepted after `greylist_ms`.
    Greylisted,
    Policy,
    /// The client is too fast; the reply says nothing about the mailbox.
    Throttled,
    /// The mailbox exists and gets too much mail now.
    ExistsThrottled,
    Relay,
    Temporary,
    /// The mailbox exists and takes only internal mail.
    Restricted,
    /// 421, and the session ends.
    Closing,
    /// The session ends without a reply.
    Hangup,
    /// The session ends with a TCP reset.
    Reset,
    /// There is never an answer.
    Silent,
}

/// The mailboxes of a domain in parsed form.
#[derive(Debug)]
pub(crate) struct Mailboxes {
    plain: HashMap<Box<str>, Mailbox>,
    patterns: Vec<Rule>,
    pub unknown: Mailbox,
    pub greylisting: Greylisting,
}

/// The way in which recipients are deferred at first.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Greylisting {
    pub ms: Option<u64>,
    pub everyone: bool,
    pub by: GreylistBy,
}

/// The scope of a first attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GreylistBy {
    /// Client address, sender and recipient together, as in greylisting.
    #[default]
    Triple,
    /// The recipient, as in a server that asks the mailbox store behind it.
    Recipient,
    /// The client address, as in postscreen.
    Client,
}

#[derive(Debug)]
struct Rule {
    pattern: Box<str>,
    /// The addresses whose hash is in this range of 10,000.
    from: u32,
    to: u32,
    mailbox: Mailbox,
}

const WHOLE: u32 = 10_000;

impl Mailboxes {
    pub(crate) fn new(
        rules: &BTreeMap<Mailbox, Vec<String>>,
        unknown: Mailbox,
        greylisting: Greylisting,
    ) -> Result<Mailboxes, String> {
        use Mailbox::{Disabled, ExistsThrottled, Full, FullTemporary, Greylisted, Restricted};
        if matches!(unknown, Full | FullTemporary | Disabled | ExistsThrottled | Restricted | Greylisted) {
            return Err(format!("unknown = {unknown:?}: this value is only for mailboxes that exist"));
        }
        let waits = rules.contains_key(&Greylisted) || greylisting.everyone;
        if waits != greylisting.ms.is_some() {
            return Err(
                "greylist_ms is required with greylisted mailboxes or greylist_everyone, and only allowed with them".into()
            );
        }
        if !waits && greylisting.by != GreylistBy::default() {
            return Err("greylist_by requires greylist_ms".into());
        }
        let mut mailboxes = Mailboxes { plain: HashMap::new(), patterns: Vec::new(), unknown, greylisting };
        let mut used: HashMap<String, u32> = HashMap::new();
        for (&mailbox, patterns) in rules {
            for text in patterns {
                mailboxes.add(text, mailbox, &mut used)?;
            }
        }
        Ok(mailboxes)
    }

    fn add(&mut self, text: &str, mailbox: Mailbox, used: &mut HashMap<String, u32>) -> Result<(), String> {
        let (share, pattern) = share(text)?;
        if pattern.is_empty() || pattern.len() > 64 {
            return Err(format!("mailbox rule `{text}`: a local part has 1 to 64 bytes"));
        }
        let pattern = pattern.to_ascii_lowercase();
        if share == WHOLE && !pattern.contains(['*', '#']) {
            if self.plain.insert(pattern.as_str().into(), mailbox).is_some() {
                return Err(format!("mailbox rule `{text}`: defined twice"));
            }
            return Ok(());
        }
        if share < WHOLE && is_everyone(&pattern) {
            return Err(format!("mailbox rule `{text}`: a rule for any name must not have a share"));
        }
        let from = used.entry(pattern.clone()).or_default();
        let to = *from + share;
        if to > WHOLE {
            return Err(format!("mailbox rule `{text}`: the shares of this pattern exceed 100%"));
        }
        self.patterns.push(Rule { pattern: pattern.into(), from: *from, to, mailbox });
        *from = to;
        Ok(())
    }

    /// The mailbox of a local part. The caller applies greylisting of everyone.
    pub(crate) fn find(&self, seed: u64, local: &str, domain: &str) -> Mailbox {
        self.known(seed, local, domain).map_or(self.unknown, |(mailbox, _)| mailbox)
    }

    /// Whether the mailbox exists, whatever the server replies; `None` if that is undecidable.
    pub(crate) fn exists(&self, seed: u64, local: &str, domain: &str) -> Option<bool> {
        use Mailbox::{Disabled, ExistsThrottled, Full, FullTemporary, Greylisted, NotFound, Ok, Restricted};
        match self.known(seed, local, domain) {
            None => (self.unknown != Ok).then_some(false),
            Some((_, true)) => None,
            Some((NotFound, _)) => Some(false),
            Some((Ok | Full | FullTemporary | Disabled | Greylisted | ExistsThrottled | Restricted, _)) => {
                Some(true)
            }
            Some(_) => None,
        }
    }

    /// The mailbox of a local part by the rules, and whether the rule applies to everyone; `None` for a stranger.
    fn known(&self, seed: u64, local: &str, domain: &str) -> Option<(Mailbox, bool)> {
        if !self.plain.is_empty() {
            let known = if local.bytes().any(|b| b.is_ascii_uppercase()) {
                self.plain.get(local.to_ascii_lowercase().as_str())
            } else {
                self.plain.get(local)
            };
            if let Some(&mailbox) = known {
                return Some((mailbox, false));
            }
        }
        let mut draw = None;
        for rule in &self.patterns {
            if !matches(rule.pattern.as_bytes(), local.as_bytes()) {
                continue;
            }
            if (rule.from, rule.to) == (0, WHOLE) {
                return Some((rule.mailbox, is_everyone(&rule.pattern)));
            }
            let draw = *draw.get_or_insert_with(|| {
                (hash(seed, &[local.as_bytes(), domain.as_bytes()]) % u64::from(WHOLE)) as u32
            });
            if (rule.from..rule.to).contains(&draw) {
                return Some((rule.mailbox, false));
            }
        }
        None
    }

    /// The mailbox of a local part that cannot be guessed, such as a control recipient.
    pub(crate) fn stranger(&self) -> Mailbox {
        let everyone = self.patterns.iter().find(|rule| is_everyone(&rule.pattern));
        everyone.map_or(self.unknown, |rule| rule.mailbox)
    }

    /// The plain local parts, sorted, and the patterns without their shares and duplicates.
    pub(crate) fn names(&self) -> (Vec<&str>, Vec<&str>) {
        let mut plain: Vec<&str> = self.plain.keys().map(AsRef::as_ref).collect();
        plain.sort_unstable();
        let mut patterns: Vec<&str> = self.patterns.iter().map(|rule| rule.pattern.as_ref()).collect();
        patterns.dedup();
        patterns.sort_unstable();
        patterns.dedup();
        (plain, patterns)
    }
}

fn is_everyone(pattern: &str) -> bool {
    pattern.bytes().all(|byte| byte == b'*')
}

/// Splits `50% user-#`.
fn share(text: &str) -> Result<(u32, &str), String> {
    let Some((share, pattern)) = text.split_once("% ") else {
        return Ok((WHOLE, text));
    };
    match share.parse::<f64>() {
        Ok(share) if share > 0.0 && share <= 100.0 => Ok(((share * 100.0).round() as u32, pattern.trim())),
        _ => Err(format!("mailbox rule `{text}`: the share must be above 0% and at most 100%")),
    }
}

/// Matches a lower-case pattern. It only goes back to the last `*`, so the time is at most the product of the two
/// lengths.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        let step = match pattern.get(p) {
            None if t == text.len() => return true,
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
                continue;
            }
            Some(b'#') => {
                let digits = text[t..].iter().take_while(|b| b.is_ascii_digit()).count();
                t += digits;
                digits > 0
            }
            Some(&expected) if text.get(t).is_some_and(|b| b.to_ascii_lowercase() == expected) => {
                t += 1;
                true
            }
            _ => false,
        };
        if step {
            p += 1;
        } else if let Some((at, from)) = star.filter(|&(_, from)| from < text.len()) {
            star = Some((at, from + 1));
            (p, t) = (at + 1, from + 1);
        } else {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rules: &[(Mailbox, &[&str])], local: &str, expected: Mailbox) {
        let rules = rules.iter().map(|(m, p)| (*m, p.iter().map(|s| s.to_string()).collect())).collect();
        let mailboxes = Mailboxes::new(&rules, Mailbox::NotFound, Greylisting::default()).unwrap();
        assert_eq!(mailboxes.find(1, local, "d.example"), expected, "{local}");
    }

    #[test]
    fn plain_names_come_before_patterns() {
        let rules: &[(Mailbox, &[&str])] = &[
            (Mailbox::Ok, &["alice", "ok*", "u#", "*-x-#.z", "a*b*c"]),
            (Mailbox::Full, &["okfull", "full*"]),
        ];
        for (local, expected) in [
            ("alice", Mailbox::Ok),
            ("ALICE", Mailbox::Ok),
            ("alicf", Mailbox::NotFound),
            ("ok", Mailbox::Ok),
            ("Ok12", Mailbox::Ok),
            ("okfull", Mailbox::Full),
            ("fuller", Mailbox::Full),
            ("u1", Mailbox::Ok),
            ("u123456", Mailbox::Ok),
            ("u", Mailbox::NotFound),
            ("u1a", Mailbox::NotFound),
            ("p-x-x-77.z", Mailbox::Ok),
            ("p-x-.z", Mailbox::NotFound),
            ("abc", Mailbox::Ok),
            ("a-b-b-c", Mailbox::Ok),
            ("a-b-b-d", Mailbox::NotFound),
        ] {
            check(rules, local, expected);
        }
    }

    #[test]
    fn shares_of_one_pattern_part_its_addresses() {
        let rules = BTreeMap::from([
            (Mailbox::Ok, vec!["50% user-#".to_owned()]),
            (Mailbox::Full, vec!["10% user-#".to_owned()]),
        ]);
        let mailboxes = Mailboxes::new(&rules, Mailbox::NotFound, Greylisting::default()).unwrap();
        let mut counts: BTreeMap<Mailbox, u32> = BTreeMap::new();
        for n in 0..20_000 {
            *counts.entry(mailboxes.find(3, &format!("user-{n}"), "d.example")).or_default() += 1;
        }
        assert!((9_700..10_300).contains(&counts[&Mailbox::Ok]), "{counts:?}");
        assert!((1_800..2_200).contains(&counts[&Mailbox::Full]), "{counts:?}");
        assert!((7_700..8_300).contains(&counts[&Mailbox::NotFound]), "{counts:?}");
        assert_eq!(mailboxes.find(3, "user-x", "d.example"), Mailbox::NotFound);
    }
}
