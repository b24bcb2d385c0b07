//! The servers of the campaign, and the requirements on the verdicts about each.

use crate::failure::{Context, Failure};
use std::fmt::Write;
use toml::{Table, Value};

/// A server that is asked about in every kind of list.
#[derive(Debug, Clone)]
pub struct ServerCase {
    /// The name as a label of a domain name.
    pub name: String,
    /// The `server` of its domains, in the syntax of mailnet's scenarios.
    server: String,
    /// Local parts that exist in addition to those of the lists.
    more: &'static str,
    /// The requirements on its verdicts.
    pub kind: CaseKind,
}

/// The behaviour of a server, which determines the right verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaseKind {
    /// It answers truly for a while, or on some of its nodes.
    Misleads,
    /// A pool that is honest in every other session. One node that accepts everyone must not save a question.
    Pool,
    /// It accepts existing mailboxes, and refuses others in words that say nothing about them.
    Unclear,
    /// It accepts all names except those that look random. It refuses these in words that say nothing about them.
    Filter,
    /// It always answers truly: every verdict must be definite and right.
    Honest,
    /// It always accepts everyone.
    CatchAll,
}

/// The kinds of addresses in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Equal numbers of existing and unknown addresses.
    Mixed,
    Existing,
    Unknown,
    /// One existing address, followed by unknown ones: the server shows at once that it knows its users.
    Led,
}

impl Content {
    /// All kinds of lists that each server gets.
    pub const ALL: [Content; 4] = [Content::Mixed, Content::Existing, Content::Unknown, Content::Led];
}

/// Numbers of unknown recipients after which a server changes.
const AFTER: [u64; 5] = [3, 7, 10, 12, 20];
/// The scopes in which unknown recipients are counted.
const COUNTED: [&str; 3] = ["host", "client", "session"];
/// The combinations of the small version.
const SMALL: [(u64, &str); 5] = [(3, "host"), (7, "client"), (10, "host"), (12, "session"), (20, "host")];
const GENERIC: &str = "personality = \"generic\"";
/// The servers that do not change after a number of unknown recipients.
const WRITTEN: &str = include_str!("../../../soak/evidence.toml");

/// The tables of these servers.
const KINDS: [(&str, CaseKind); 6] = [
    ("misleads", CaseKind::Misleads),
    ("pool", CaseKind::Pool),
    ("unclear", CaseKind::Unclear),
    ("filter", CaseKind::Filter),
    ("honest", CaseKind::Honest),
    ("catch-all", CaseKind::CatchAll),
];

/// All servers. The small version has every kind, with fewer numbers.
///
/// # Errors
///
/// evidence.toml is no TOML.
pub fn cases(small: bool) -> Result<Vec<ServerCase>, Failure> {
    let mut cases = Vec::new();
    for to in ["accept", "refuse"] {
        changes(to, small, &mut cases);
    }
    let written = WRITTEN.parse::<Table>().about("evidence.toml")?;
    for (table, kind) in KINDS {
        for (name, server) in written.get(table).and_then(Value::as_table).into_iter().flatten() {
            let more = match kind {
                CaseKind::Filter | CaseKind::CatchAll => "*",
                CaseKind::Honest if name.ends_with("postmaster") => "postmaster",
                _ => "",
            };
            let server = server.as_str().unwrap_or_default().to_owned();
            cases.push(ServerCase { name: name.clone(), server, more, kind });
        }
    }
    Ok(cases)
}

/// Adds servers that change after this many unknown recipients.
fn changes(to: &str, small: bool, cases: &mut Vec<ServerCase>) {
    let mut add = |after: u64, how: &str, nodes: &str, change: &str| {
        let server =
            format!("{{ {GENERIC}, {nodes}changes = [{{ after = {after}, to = \"{to}\", {change} }}] }}");
        let (name, kind) = (format!("{to}-{after}-{how}"), CaseKind::Misleads);
        cases.push(ServerCase { name, server, more: "", kind });
    };
    for after in AFTER {
        for counted in COUNTED {
            if !small || SMALL.contains(&(after, counted)) {
                add(after, counted, "", &format!("counted = \"{counted}\""));
            }
        }
        if !small || after == 7 {
            add(after, "node", "nodes = [\"honest\", \"honest\", \"honest\"], ", "counted = \"node\"");
        }
        if !small || after == 12 {
            add(after, "next", "", "counted = \"host\", begins = \"next_session\"");
        }
    }
}

/// A case with one list. Its domain has its own host, so that no list has evidence for another one.
#[derive(Debug, Clone)]
pub struct Subject {
    pub case: ServerCase,
    /// The kind of addresses in its list.
    pub content: Content,
    /// The domain of its addresses.
    pub domain: String,
    /// The addresses in the order of the list.
    pub rows: Vec<String>,
}

impl Subject {
    /// A subject with this many addresses. `tag` separates the domains of several campaigns.
    pub fn new(
        case: &ServerCase,
        content: Content,
        size: usize,
        tag: &str,
        random: &mut fastrand::Rng,
    ) -> Subject {
        let domain = format!("{}-{content:?}-{tag}.example", case.name).to_lowercase();
        let existing = match content {
            Content::Mixed => size / 2,
            Content::Existing => size,
            Content::Unknown => 0,
            Content::Led => 1,
        };
        let mut rows: Vec<String> = (0..existing).map(|n| format!("real-{n}@{domain}")).collect();
        rows.extend((existing..size).map(|n| format!("gone-{n}@{domain}")));
        random.shuffle(&mut rows[existing * usize::from(content == Content::Led)..]);
        Subject { case: case.clone(), content, domain, rows }
    }
}

/// The scenario for mailnet that plays all subjects.
pub fn scenario(subjects: &[Subject], seed: u64) -> String {
    let mut text = format!("seed = {seed}\njournal = true\nroles = []\n");
    for Subject { case, domain, .. } in subjects {
        let more = if case.more.is_empty() { String::new() } else { format!(", \"{}\"", case.more) };
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "[[domain]]\nname = \"{domain}\"\nserver = {}\nmailboxes.ok = [\"real-#\"{more}]\n",
            case.server
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use mailnet::Scenario;
    use std::collections::HashSet;

    #[test]
    fn every_case_is_a_scenario_with_domains_of_its_own() {
        for small in [true, false] {
            let mut random = fastrand::Rng::with_seed(1);
            let all = cases(small).unwrap();
            let pairs: Vec<(&ServerCase, Content)> =
                all.iter().flat_map(|case| Content::ALL.map(|content| (case, content))).collect();
            let new =
                |&(case, content): &(&ServerCase, Content)| Subject::new(case, content, 80, "t", &mut random);
            let subjects: Vec<Subject> = pairs.iter().map(new).collect();
            let domains: HashSet<&str> = subjects.iter().map(|subject| subject.domain.as_str()).collect();
            assert_eq!(domains.len(), subjects.len());
            let scenario = Scenario::parse(&scenario(&subjects, 1)).unwrap();
            assert_eq!(scenario.hosts(), subjects.len());
            for ((_, content), subject) in pairs.iter().zip(&subjects) {
                let real = subject.rows.iter().filter(|row| scenario.exists(row) == Some(true)).count();
                let gone = subject.rows.iter().filter(|row| scenario.exists(row) == Some(false)).count();
                let expected = match (content, subject.case.more) {
                    (Content::Mixed, "*") => (40, 0),
                    (Content::Mixed, _) => (40, 40),
                    (Content::Existing, _) => (80, 0),
                    (Content::Unknown, "*") => (0, 0),
                    (Content::Unknown, _) => (0, 80),
                    (Content::Led, "*") => (1, 0),
                    (Content::Led, _) => (1, 79),
                };
                assert_eq!((real, gone), expected, "{}", subject.domain);
                let led = scenario.exists(&subject.rows[0]) == Some(true);
                assert!(led || *content != Content::Led);
            }
            assert!(KINDS.iter().all(|(_, kind)| all.iter().any(|case| case.kind == *kind)));
        }
    }
}
