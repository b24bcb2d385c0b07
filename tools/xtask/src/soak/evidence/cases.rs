//! The servers of the campaign, and what must hold of the verdicts about each.

use std::fmt::Write;

/// A server, asked about in every kind of list.
#[derive(Debug, Clone)]
pub struct Case {
    /// A label of a domain name.
    pub name: String,
    /// The `server` of its domains, as mailnet's scenarios write it.
    server: String,
    /// Local parts that exist beside those of the lists.
    more: &'static str,
    /// What is right.
    pub kind: Kind,
}

/// What is right at a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It tells the truth for a while, or at some of its nodes.
    Misleads,
    /// A pool of which every other session is honest: nobody is spared a question because one node accepts everyone.
    Pool,
    /// It accepts existing mailboxes, and refuses others in words that say nothing of them.
    Unclear,
    /// It accepts everyone but names that look random, which it refuses in words that say nothing of them.
    Filter,
    /// It tells the truth: every verdict is definite and right.
    Honest,
    /// It accepts everyone, always.
    CatchAll,
}

/// Which addresses a list has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// As many that exist as others.
    Mixed,
    Existing,
    Unknown,
    /// One that exists, and behind it others: the server shows at once that it knows its users.
    Led,
}

impl Content {
    /// All of them.
    pub const ALL: [Content; 4] = [Content::Mixed, Content::Existing, Content::Unknown, Content::Led];

    fn word(self) -> &'static str {
        match self {
            Content::Mixed => "mixed",
            Content::Existing => "existing",
            Content::Unknown => "unknown",
            Content::Led => "led",
        }
    }
}

/// After so many unknown recipients a server changes.
const AFTER: [u64; 5] = [3, 7, 10, 12, 20];
/// Whose refusals count.
const COUNTED: [&str; 3] = ["host", "client", "session"];
/// Those of the small version.
const SMALL: [(u64, &str); 5] = [(3, "host"), (7, "client"), (10, "host"), (12, "session"), (20, "host")];
const GENERIC: &str = "personality = \"generic\"";

fn case(name: impl Into<String>, server: String, kind: Kind) -> Case {
    Case { name: name.into(), server, more: "", kind }
}

/// All servers. The small version has each kind of them, with fewer numbers.
pub fn cases(small: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for to in ["accept", "refuse"] {
        changes(to, small, &mut cases);
        pools(to, &mut cases);
    }
    let node = "450 4.3.0 Temporary failure";
    for (name, nodes) in [("first", [node, "honest"]), ("second", ["honest", node])] {
        let server = format!("{{ {GENERIC}, nodes = {nodes:?} }}");
        cases.push(case(format!("pool-later-{name}"), server, Kind::Misleads));
    }
    for (name, personality) in [("denied", "access-denied"), ("bare", "bare-refusal")] {
        cases.push(case(
            format!("unclear-{name}"),
            format!("{{ personality = \"{personality}\" }}"),
            Kind::Unclear,
        ));
    }
    for (name, text) in [("denied", "554 5.7.1 Access denied"), ("bare", "550 ")] {
        let server = format!("{{ {GENERIC}, filters_random = \"{text}\" }}");
        cases.push(Case { more: "*", ..case(format!("filter-{name}"), server, Kind::Filter) });
    }
    honest(&mut cases);
    cases
}

/// Servers that change after so many unknown recipients.
fn changes(to: &str, small: bool, cases: &mut Vec<Case>) {
    for after in AFTER {
        for counted in COUNTED {
            if small && !SMALL.contains(&(after, counted)) {
                continue;
            }
            let change = format!("after = {after}, counted = \"{counted}\", to = \"{to}\"");
            let server = format!("{{ {GENERIC}, changes = [{{ {change} }}] }}");
            cases.push(case(format!("{to}-{after}-{counted}"), server, Kind::Misleads));
        }
        let nodes = "nodes = [\"honest\", \"honest\", \"honest\"]";
        let change = format!("after = {after}, counted = \"node\", to = \"{to}\"");
        let server = format!("{{ {GENERIC}, {nodes}, changes = [{{ {change} }}] }}");
        if !small || after == 7 {
            cases.push(case(format!("{to}-{after}-node"), server, Kind::Misleads));
        }
        let change = format!("after = {after}, counted = \"host\", to = \"{to}\", begins = \"next_session\"");
        let server = format!("{{ {GENERIC}, changes = [{{ {change} }}] }}");
        if !small || after == 12 {
            cases.push(case(format!("{to}-{after}-next"), server, Kind::Misleads));
        }
    }
}

/// Pools with one bad node in different places, met in turn or at random, and one of which half is bad. Where nodes
/// are drawn, two sessions in a row may meet bad ones.
fn pools(bad: &str, cases: &mut Vec<Case>) {
    let good = "honest";
    let rows: [(&str, &[&str], &str); 4] = [
        ("first", &[bad, good, good, good], "in_turn"),
        ("last", &[good, good, good, bad], "in_turn"),
        ("random", &[bad, good, good, good], "at_random"),
        ("half", &[bad, good, bad, good], "at_random"),
    ];
    for (name, nodes, given) in rows {
        let server = format!("{{ {GENERIC}, nodes = {nodes:?}, given = \"{given}\" }}");
        let kind = if given == "in_turn" { Kind::Pool } else { Kind::Misleads };
        cases.push(case(format!("pool-{bad}-{name}"), server, kind));
    }
}

fn honest(cases: &mut Vec<Case>) {
    let generic = format!("{{ {GENERIC} }}");
    cases.push(case("honest", generic.clone(), Kind::Honest));
    // With a postmaster, as RFC 5321 4.5.1 wants it.
    cases.push(Case { more: "postmaster", ..case("honest-postmaster", generic.clone(), Kind::Honest) });
    cases.push(case("honest-postfix", "{ personality = \"postfix\" }".into(), Kind::Honest));
    let pool = format!("{{ {GENERIC}, nodes = [\"honest\", \"honest\", \"honest\"] }}");
    cases.push(case("honest-pool", pool.clone(), Kind::Honest));
    cases.push(Case { more: "*", ..case("all", generic, Kind::CatchAll) });
    cases.push(Case { more: "*", ..case("all-pool", pool, Kind::CatchAll) });
}

/// A case with a list of its own: a domain with a host of its own, so that no list knows of another.
#[derive(Debug, Clone)]
pub struct Subject {
    pub case: Case,
    /// What its list holds.
    pub content: Content,
    /// The domain.
    pub domain: String,
    /// The addresses, in the order of the list.
    pub rows: Vec<String>,
}

impl Subject {
    /// So many addresses for a case; `tag` keeps the domains of several campaigns apart.
    pub fn new(case: &Case, content: Content, size: usize, tag: &str, random: &mut fastrand::Rng) -> Subject {
        let domain = format!("{}-{}-{tag}.example", case.name, content.word());
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

/// The scenario that plays all subjects.
pub fn scenario(subjects: &[Subject], seed: u64) -> String {
    let mut text = format!("seed = {seed}\njournal = true\nroles = []\n");
    for Subject { case, domain, .. } in subjects {
        let more = if case.more.is_empty() { String::new() } else { format!(", \"{}\"", case.more) };
        // A string takes all that is written to it.
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
            let all = cases(small);
            let pairs: Vec<(&Case, Content)> =
                all.iter().flat_map(|case| Content::ALL.map(|content| (case, content))).collect();
            let new = |&(case, content): &(&Case, Content)| Subject::new(case, content, 80, "t", &mut random);
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
            let kinds =
                [Kind::Misleads, Kind::Pool, Kind::Unclear, Kind::Filter, Kind::Honest, Kind::CatchAll];
            assert!(kinds.iter().all(|kind| all.iter().any(|case| case.kind == *kind)));
        }
    }
}
