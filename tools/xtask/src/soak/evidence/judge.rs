//! The check of the verdicts about one server, from mailnet's mailboxes and its journal of the sessions.
//!
//! The engine is not asked. A row consists of the address, whether the mailbox exists, the verdict, and the answers of
//! the server.

use super::cases::{CaseKind, Content, Subject};
use crate::interop::report::outcome;
use mailnet::{Journal, Running, What};
use std::collections::{HashMap, HashSet};

/// How many percent of the rows with honest answers need their definite verdict.
const DEFINITE_PERCENT: usize = 90;
/// How many percent of the rows at such a pool may be `catch_all` without an accept of their own.
const SPARED_PERCENT: usize = 10;

/// The counts of one list.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Score {
    pub rows: usize,
    /// Nonexistent mailboxes that were confirmed, and any that was confirmed at a server that does not distinguish
    /// mailboxes.
    pub confirmed: usize,
    /// Existing mailboxes that were denied although the server had accepted a recipient before.
    pub denied: usize,
    /// Existing mailboxes that were denied before the server had accepted any recipient.
    pub denied_blind: usize,
    /// Rows that the server answered honestly.
    pub honest: usize,
    /// Of these, rows with their definite verdict.
    pub definite: usize,
    /// Rows with the verdict `catch_all`.
    pub catch_all: usize,
    /// Of these, rows that the server never accepted.
    pub spared: usize,
    /// Rows whose verdict differs from that at a server that answers truly.
    pub other: usize,
}

/// The answers of the server for each address of a domain.
#[derive(Debug, Default)]
struct Answered {
    /// Addresses with an honest, permanent answer, and the number of the last such event.
    honest: HashMap<String, usize>,
    /// Addresses that were accepted, honestly or not.
    accepted: HashSet<String>,
    /// The number of the event at which the first recipient was accepted.
    first_accept: Option<usize>,
    /// The number of the event at which a recipient was last accepted honestly.
    last_honest_accept: Option<usize>,
    /// The number of the event at which an address was last refused.
    last_refusal: HashMap<String, usize>,
}

impl Answered {
    /// Whether the row got an honest answer that differs from a change of behaviour. After the last honest accept, a
    /// server refuses unknown recipients as it refuses everyone later, and no client can know when that began.
    fn is_tellable(&self, row: &str, exists: Option<bool>) -> bool {
        self.honest.get(row).is_some_and(|&at| {
            exists != Some(false) || self.last_honest_accept.is_none_or(|accepted| at < accepted)
        })
    }
}

/// The answers of the servers by domain, as mailnet's journal has them.
pub struct AnswerWitness(HashMap<String, Answered>);

impl AnswerWitness {
    /// Reads the answers from mailnet's journal.
    pub fn read(journal: &Journal) -> AnswerWitness {
        let mut all: HashMap<String, Answered> = HashMap::new();
        for (at, event) in journal.events.iter().enumerate() {
            let What::Rcpt { address, code, honest } = &event.what else { continue };
            let Some((_, domain)) = address.rsplit_once('@') else { continue };
            let answered = all.entry(domain.to_owned()).or_default();
            if *honest && matches!(code, 200..300 | 500..600) {
                answered.honest.insert(address.clone(), at);
                if *code < 300 {
                    answered.last_honest_accept = Some(at);
                }
            }
            match code {
                200..300 => {
                    answered.first_accept.get_or_insert(at);
                    answered.accepted.insert(address.clone());
                }
                500..600 => drop(answered.last_refusal.insert(address.clone(), at)),
                _ => {}
            }
        }
        AnswerWitness(all)
    }

    /// Compares the verdicts about the rows of one list with the truth.
    pub fn score(&self, subject: &Subject, net: &Running, said: &HashMap<String, String>) -> Score {
        let none = Answered::default();
        let answered = self.0.get(&subject.domain).unwrap_or(&none);
        let mut score = Score { rows: subject.rows.len(), ..Score::default() };
        for row in &subject.rows {
            let reason = said.get(row).map_or("", String::as_str);
            score.add(answered, row, net.scenario().exists(row), reason, subject.case.kind);
        }
        score
    }
}

impl Score {
    fn add(&mut self, answered: &Answered, row: &str, exists: Option<bool>, reason: &str, kind: CaseKind) {
        let is_confirmed = matches!(reason, "mailbox_exists" | "role_account" | "inbox_full");
        let is_denied = matches!(reason, "mailbox_not_found" | "mailbox_disabled");
        // A server that treats everyone alike does not distinguish mailboxes.
        let exists = if matches!(kind, CaseKind::CatchAll | CaseKind::Filter) { None } else { exists };
        self.confirmed += usize::from(is_confirmed && exists != Some(true));
        if is_denied && exists != Some(false) {
            let refused = answered.last_refusal.get(row).copied().unwrap_or(usize::MAX);
            let seen_before = answered.first_accept.is_some_and(|accepted| accepted < refused);
            if seen_before { self.denied += 1 } else { self.denied_blind += 1 }
        }
        let right = match exists {
            Some(true) => is_confirmed,
            Some(false) => is_denied,
            None => reason == "catch_all",
        };
        // Words that say nothing about a mailbox do not prove its absence.
        let counts = kind != CaseKind::Unclear || exists == Some(true);
        if answered.is_tellable(row, exists) && counts {
            self.honest += 1;
            self.definite += usize::from(right);
        }
        self.catch_all += usize::from(reason == "catch_all");
        self.spared += usize::from(reason == "catch_all" && !answered.accepted.contains(row));
        self.other += usize::from(!right);
    }

    /// Checks all requirements, and returns the figures.
    ///
    /// # Errors
    ///
    /// A requirement is not met; the text has the figures.
    pub fn judge(&self, kind: CaseKind, content: Content) -> Result<String, String> {
        let Score { rows, confirmed, denied, denied_blind, honest, definite, catch_all, spared, other } =
            self;
        let blind =
            if *denied_blind > 0 { format!(", {denied_blind} denied blindly") } else { String::new() };
        let figures = format!(
            "{rows} rows, {confirmed} confirmed wrongly, {denied} denied wrongly{blind}, {definite} of {honest} \
             answered honestly are definite, {catch_all} catch_all ({spared} without an accept)"
        );
        let holds = *confirmed == 0
            && *denied == 0
            && match kind {
                // After the only existing mailbox nothing shows the time of the change.
                CaseKind::Misleads | CaseKind::Unclear if content == Content::Led => true,
                CaseKind::Misleads | CaseKind::Unclear => self.is_definite(),
                CaseKind::Pool => self.is_definite() && spared * 100 <= rows * SPARED_PERCENT,
                // An answer that depends on the form of a name proves nothing.
                CaseKind::Filter => true,
                CaseKind::Honest | CaseKind::CatchAll => *other == 0,
            };
        outcome(holds, figures)
    }

    fn is_definite(&self) -> bool {
        self.definite * 100 >= self.honest * DEFINITE_PERCENT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(honest: &[&str]) -> Answered {
        let last_refusal = HashMap::from([("late".to_owned(), 7), ("early".to_owned(), 3)]);
        Answered {
            honest: honest.iter().enumerate().map(|(at, &row)| (row.to_owned(), at)).collect(),
            last_honest_accept: Some(2),
            accepted: HashSet::from(["a".to_owned()]),
            first_accept: Some(5),
            last_refusal,
        }
    }

    fn score(rows: &[(&str, Option<bool>, &str)], kind: CaseKind) -> Score {
        let answered = answered(&["a", "b", "late"]);
        let mut score = Score { rows: rows.len(), ..Score::default() };
        rows.iter().for_each(|(row, exists, reason)| score.add(&answered, row, *exists, reason, kind));
        score
    }

    #[test]
    fn what_is_wrong_is_counted() {
        let none = Score { rows: 1, ..Score::default() };
        let (exists, gone) = (Some(true), Some(false));
        let rows: [(&str, Option<bool>, &str, Score); 7] = [
            ("a", gone, "mailbox_exists", Score { confirmed: 1, honest: 1, other: 1, ..none }),
            ("z", gone, "role_account", Score { confirmed: 1, other: 1, ..none }),
            ("late", exists, "mailbox_not_found", Score { denied: 1, honest: 1, other: 1, ..none }),
            ("early", exists, "mailbox_not_found", Score { denied_blind: 1, other: 1, ..none }),
            ("a", exists, "unverifiable", Score { honest: 1, other: 1, ..none }),
            ("b", gone, "mailbox_not_found", Score { honest: 1, definite: 1, ..none }),
            ("z", exists, "catch_all", Score { catch_all: 1, spared: 1, other: 1, ..none }),
        ];
        for (row, exists, reason, expected) in rows {
            assert_eq!(score(&[(row, exists, reason)], CaseKind::Misleads), expected, "{row} {reason}");
        }
    }

    #[test]
    fn each_kind_has_its_own_bar() {
        use CaseKind::{CatchAll, Filter, Honest, Misleads, Pool, Unclear};
        use Content::{Led, Mixed};
        let (exists, gone) = (Some(true), Some(false));
        for (row, is_there, reason, kind, content, is_right) in [
            ("z", exists, "unverifiable", Misleads, Mixed, true),
            ("z", exists, "unverifiable", Honest, Mixed, false),
            ("a", exists, "unverifiable", Misleads, Mixed, false),
            ("a", exists, "unverifiable", Filter, Mixed, true),
            // Nothing shows when it changed.
            ("a", exists, "unverifiable", Misleads, Led, true),
            ("z", exists, "catch_all", Pool, Mixed, false),
            ("z", exists, "catch_all", Misleads, Mixed, true),
            ("a", exists, "catch_all", CatchAll, Mixed, true),
            // Nobody can tell there.
            ("a", exists, "mailbox_exists", Filter, Mixed, false),
            ("a", gone, "mailbox_exists", Misleads, Mixed, false),
            ("a", gone, "mailbox_exists", Pool, Mixed, false),
            ("a", gone, "mailbox_exists", Unclear, Mixed, false),
            ("a", gone, "mailbox_exists", Filter, Mixed, false),
            ("a", gone, "mailbox_exists", CatchAll, Mixed, false),
        ] {
            let judged = score(&[(row, is_there, reason)], kind).judge(kind, content);
            assert_eq!(judged.is_ok(), is_right, "{row} {reason} {kind:?} {content:?}");
        }
        let own = score(&[("a", exists, "catch_all")], Misleads);
        assert_eq!((own.catch_all, own.spared), (1, 0));
        let unclear = score(&[("a", gone, "unverifiable"), ("b", exists, "mailbox_exists")], Unclear);
        assert_eq!((unclear.honest, unclear.definite), (1, 1));
        assert!(unclear.judge(Unclear, Mixed).is_ok());
        let last = score(&[("late", gone, "unverifiable")], Misleads);
        assert_eq!(last.honest, 0, "no reply behind it tells it from a change");
    }
}
