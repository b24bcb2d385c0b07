//! The same addresses at mailnet's servers for each verifier: every personality and every conduct of the scenario files.

use super::matrix::{Judged, Mark};
use crate::failure::{Context, Failure};
use crate::isolation::isolated;
use crate::measure::bench::Bench;
use crate::measure::setting::{PeerAddresses, known};
use crate::measure::verifiers::{OtherVerifier, RESOLVER, SESSIONS, Verifier, verdicts};
use mailnet::{Expected, Scenario};
use std::fs::{self, File};
use std::process::Command;
use std::time::Duration;
use toml::{Table, Value};

/// The files of `tools/mailnet/scenarios`.
pub const SCENARIOS: [&str; 6] = ["bulk", "catchall", "conducts", "hostile", "providers", "reasons"];
/// The longest time for a list of one verifier.
const LIMIT: Duration = Duration::from_secs(900);
/// The most domains of a group.
const OF_GROUP: usize = 50;
/// Addresses for a rule with a share, at a domain and at each domain of a group.
const OF_SHARE: [usize; 2] = [20, 6];
const STRANGERS: usize = 3;

/// An address with the truth about it.
struct AskedAddress {
    address: String,
    truth: Truth,
    /// The name of its domain, or of the group of its domain.
    place: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Truth {
    Exists,
    NotFound,
    Full,
    Disabled,
    CatchAll,
    /// It takes mail, or not, and the replies of its servers do not show it.
    Hidden(bool),
    /// Nothing is known about it, and its servers do not tell.
    Undecided,
}

/// The answers of a verifier, with the time that it took in seconds.
pub struct VerifierAnswers {
    pub name: String,
    pub judged: Vec<Judged>,
    pub seconds: f64,
}

/// Asks each verifier about all addresses, in a network without a way out. Each gets servers that have just started.
pub fn ask(bench: &Bench, verifiers: Vec<Verifier>) -> Result<Vec<VerifierAnswers>, Failure> {
    let world = world()?;
    let text = toml::to_string(&world).about("the scenario")?;
    let asked = asked(&world, &known(&text)?);
    let (list, ..) = bench.files();
    let mut lines: Vec<&str> = asked.iter().map(|one| &*one.address).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut lines);
    fs::write(&list, format!("email\n{}\n", lines.join("\n"))).at(&list)?;
    isolated(bench.world.folder(), RESOLVER, || {
        let one = |(name, other)| {
            let mailnet = bench.world.mailnet(&text)?;
            let (output, seconds) = run(bench, &other)?;
            mailnet.stop()?;
            let judged = judge(&asked, &output, other.is_none());
            Ok(VerifierAnswers { name, judged, seconds })
        };
        verifiers.into_iter().map(one).collect()
    })
}

/// All scenario files in one scenario.
fn world() -> Result<Table, Failure> {
    let listen = format!("[listen]\ndns = \"{RESOLVER}:53\"\nsmtp_port = 25\naddresses = \"wildcard\"\n");
    let mut world: Table =
        format!("seed = 42\nspace_before_path = true\n{listen}").parse().about("the scenario")?;
    for name in SCENARIOS {
        let path = super::root().join(format!("tools/mailnet/scenarios/{name}.toml"));
        let file: Table = fs::read_to_string(&path).at(&path)?.parse().about(path.display())?;
        for (key, value) in file {
            if let Value::Array(rows) = value {
                let all = world.entry(key).or_insert_with(|| Value::Array(Vec::new()));
                all.as_array_mut().into_iter().for_each(|all| all.extend(rows.clone()));
            }
        }
    }
    Ok(world)
}

fn rows<'a>(table: &'a Table, key: &str) -> impl Iterator<Item = &'a Table> {
    table.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_table)
}

fn text<'a>(table: &'a Table, key: &str) -> &'a str {
    table.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Addresses for each rule of each domain, and some strangers, sorted by their truth.
fn asked(world: &Table, scenario: &Scenario) -> Vec<AskedAddress> {
    let mut asked = Vec::new();
    let mut add = |place: &str, domain: &str, rules: &Table, of_share: usize| {
        for (kind, local) in locals(rules, of_share) {
            let address = format!("{local}@{domain}");
            let place = place.trim_end_matches(".example").to_owned();
            asked.extend(Truth::of(scenario, &address, kind).map(|truth| AskedAddress {
                address,
                truth,
                place,
            }));
        }
    };
    for domain in rows(world, "domain") {
        let name = text(domain, "name");
        add(name, name, domain, OF_SHARE[0]);
    }
    for group in rows(world, "group") {
        let (name, count) = (text(group, "name"), group.get("count").and_then(Value::as_integer));
        let count = count.unwrap_or(0) as usize;
        for number in (1..=count).step_by(count.div_ceil(OF_GROUP).max(1)) {
            add(name, &name.replace("{n}", &number.to_string()), group, OF_SHARE[1]);
        }
    }
    asked.sort_by(|a, b| (a.truth, &a.address).cmp(&(b.truth, &b.address)));
    asked.dedup_by(|a, b| a.address == b.address);
    asked
}

/// Local parts with their kinds of mailboxes.
fn locals(domain: &Table, of_share: usize) -> Vec<(&str, String)> {
    let mut locals = Vec::new();
    for (kind, rules) in domain.get("mailboxes").and_then(Value::as_table).into_iter().flatten() {
        for rule in rules.as_array().into_iter().flatten().filter_map(Value::as_str) {
            let named = match rule.split_once("% ") {
                Some((_, pattern)) => numbered(pattern, of_share),
                None if rule.contains(['#', '*']) => numbered(rule, 2),
                None => vec![rule.to_owned()],
            };
            locals.extend(named.into_iter().map(|local| (&**kind, local)));
        }
    }
    locals.extend(numbered("nobody-#", STRANGERS).into_iter().map(|local| ("not_found", local)));
    locals
}

fn numbered(pattern: &str, count: usize) -> Vec<String> {
    (1..=count).map(|number| pattern.replace(['#', '*'], &number.to_string())).collect()
}

impl Truth {
    /// The truth about an address of this kind; `None` if no server is to be asked about it.
    fn of(scenario: &Scenario, address: &str, kind: &str) -> Option<Truth> {
        Some(match scenario.expected(address).patient {
            Expected::MailboxExists => Truth::Exists,
            Expected::MailboxNotFound => Truth::NotFound,
            Expected::InboxFull => Truth::Full,
            Expected::MailboxDisabled => Truth::Disabled,
            Expected::CatchAll => Truth::CatchAll,
            Expected::Unverifiable => {
                let takes_mail =
                    |exists| exists && !["full", "full_temporary", "disabled", "restricted"].contains(&kind);
                scenario.exists(address).map_or(Truth::Undecided, |exists| Truth::Hidden(takes_mail(exists)))
            }
            Expected::RoleAccount | Expected::InvalidSyntax | Expected::Disposable | Expected::Spamtrap => {
                return None;
            }
        })
    }

    fn as_str(self) -> &'static str {
        match self {
            Truth::Exists => "exists",
            Truth::NotFound => "does not exist",
            Truth::Full => "is full",
            Truth::Disabled => "is disabled",
            Truth::CatchAll => "the domain accepts everyone",
            Truth::Hidden(true) => "exists, and the replies do not show it",
            Truth::Hidden(false) => "takes no mail, and the replies do not show it",
            Truth::Undecided => "cannot be known",
        }
    }

    fn mark(self, class: &str) -> Mark {
        let exists = matches!(self, Truth::Exists | Truth::Hidden(true));
        let is_gone = matches!(self, Truth::NotFound | Truth::Full | Truth::Disabled | Truth::Hidden(false));
        match class {
            "deliverable" if exists => Mark::Right,
            "undeliverable" if is_gone => Mark::Right,
            "deliverable" | "undeliverable" => Mark::Wrong,
            _ if matches!(self, Truth::Hidden(_) | Truth::CatchAll | Truth::Undecided) => Mark::Right,
            _ => Mark::Missed,
        }
    }
}

/// Runs a verifier with the list. Returns its output, and the time in seconds.
fn run(bench: &Bench, other: &OtherVerifier) -> Result<(String, f64), Failure> {
    let (list, output, _) = bench.files();
    let cost = match other {
        None => {
            let networks = ["127.0.0.0/8", "::1/128"].iter().flat_map(|net| ["--allow-net", net]);
            let networks = networks.map(str::to_owned).collect();
            let peers =
                PeerAddresses { resolver: format!("{RESOLVER}:53"), smtp_port: "25".into(), networks };
            bench.run(bench.clean(&list, &output, &peers, &["--sessions", SESSIONS]), LIMIT)?
        }
        Some(words) => {
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]).arg(&list).arg(SESSIONS);
            command.stdout(File::create(&output).at(&output)?);
            bench.run(command, LIMIT)?
        }
    };
    Ok((fs::read_to_string(&output).at(&output)?, cost.wall.as_secs_f64()))
}

/// Compares the answers with the truths. An address without an answer is unknown.
fn judge(asked: &[AskedAddress], output: &str, is_mailprobe: bool) -> Vec<Judged> {
    let answers = verdicts(output);
    let one = |AskedAddress { address, truth, place }: &AskedAddress| {
        let (verdict, why) = answers.get(&**address).copied().unwrap_or(("", "no answer"));
        let said = match (verdict, why) {
            (_, "catch_all" | "unverifiable") if is_mailprobe => "unknown",
            ("true" | "yes", _) => "deliverable",
            ("false" | "no", _) => "undeliverable",
            _ => "unknown",
        };
        Judged {
            truth: truth.as_str().into(),
            said: said.into(),
            why: why.into(),
            mark: truth.mark(said),
            name: place.clone(),
        }
    };
    asked.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_personalities_are_asked_about_every_truth() {
        let world = world().unwrap();
        let text = toml::to_string(&world).unwrap();
        let asked = asked(&world, &Scenario::parse(&text).unwrap());
        assert!(asked.len() > 3000, "{}", asked.len());
        for (address, expected) in [
            ("anna@one-recipient.example", Truth::Exists),
            ("anna@grey-triple.example", Truth::Exists),
            ("nobody-1@one-recipient.example", Truth::NotFound),
            ("full@gmail.example", Truth::Full),
            ("gone@ok.example", Truth::Disabled),
            ("alice@catchall.example", Truth::CatchAll),
            ("anna@blocked-at-banner.example", Truth::Hidden(true)),
            ("nobody-1@blocked-at-banner.example", Truth::Hidden(false)),
            ("stuffed@blocked-at-banner.example", Truth::Hidden(false)),
            ("policy@postfix.example", Truth::Undecided),
        ] {
            let found = asked.iter().find(|one| one.address == address);
            assert_eq!(found.map(|one| one.truth), Some(expected), "{address}");
        }
        let known: Table = include_str!("../../../../mailnet/personalities.toml").parse().unwrap();
        for name in rows(&known, "personality").map(|row| super::text(row, "name")) {
            assert!(text.contains(&format!("\"{name}\"")), "no domain has the personality {name}");
        }
    }

    #[test]
    fn answers_of_each_verifier_are_judged() {
        let asked: Vec<AskedAddress> =
            [("a", Truth::Exists), ("b", Truth::NotFound), ("c", Truth::CatchAll), ("d", Truth::Undecided)]
                .map(|(local, truth)| AskedAddress {
                    address: format!("{local}@x7.example"),
                    truth,
                    place: "x".into(),
                })
                .into();
        let marks = |output: &str, is_mailprobe| -> Vec<(String, Mark)> {
            judge(&asked, output, is_mailprobe).into_iter().map(|one| (one.said, one.mark)).collect()
        };
        let said = |text: &str, mark| (text.to_owned(), mark);
        assert_eq!(
            marks(
                "a@x7.example,true,mailbox_exists\nb@x7.example,false,unverifiable\nc@x7.example,false,catch_all\n",
                true
            ),
            [
                said("deliverable", Mark::Right),
                said("unknown", Mark::Missed),
                said("unknown", Mark::Right),
                said("unknown", Mark::Right)
            ]
        );
        assert_eq!(
            marks(
                "a@x7.example,no,550\nb@x7.example,yes,safe\nc@x7.example,yes,safe\nd@x7.example,no,550, late\n",
                false
            ),
            [
                said("undeliverable", Mark::Wrong),
                said("deliverable", Mark::Wrong),
                said("deliverable", Mark::Wrong),
                said("undeliverable", Mark::Wrong)
            ]
        );
    }
}
