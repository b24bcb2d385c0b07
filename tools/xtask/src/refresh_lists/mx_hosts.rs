//! `cargo xtask refresh-lists --resolver`: learns from DNS which sites of MX hosts belong to throw-away services.
//!
//! A site counts if at least [`AGREED_MIN`] domains that both public lists have use it, and no domain of a provider with lasting
//! mailboxes, of free mail, of a firm or of an exception does. So hosting houses and parking services drop out. A site in the table
//! of operators (`operators.txt`) never counts. docs/lists.md has the use of the table.

use super::{Entries, RELAYS, RefreshOptions, RefreshOutcome, lines_of, output};
use engine_proto::address::Domain;
use engine_proto::dns::message::{Extension, Response, decode, encode};
use engine_proto::dns::mx::{Dead, MxPlan, NoMail};
use engine_proto::dns::{Failure, Name, Outcome, Question, RecordKind};
use engine_proto::public_suffix::registrable;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The least number of registrable domains of both public lists that use a site.
const AGREED_MIN: usize = 3;
/// The number of domains that are looked up at the same time.
const WORKERS: usize = 32;
const PATIENCE: Duration = Duration::from_secs(2);
const TRIES: usize = 3;

/// What is known of a domain before DNS is asked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Known {
    /// Both public lists have it.
    Agreed,
    /// One list has it.
    Listed,
    /// It is no throw-away domain.
    Lasting,
    /// It can be suggested in place of a typing mistake, and is no throw-away domain.
    Target,
}

/// The domains that use a site.
#[derive(Default)]
struct Users {
    agreed: BTreeSet<String>,
    listed: usize,
    lasting: Option<String>,
}

/// Writes the table of MX hosts, and says what has changed.
pub(super) fn learn(root: &Path, resolver: SocketAddr, options: &RefreshOptions) -> RefreshOutcome<String> {
    let data = root.join("engine/proto/data");
    let read = |file: &str| fs::read_to_string(data.join(file));
    let mut domains = BTreeMap::new();
    for line in lines_of(&read("disposable.txt")?) {
        let (domain, sources) = line.split_once(' ').ok_or("a line of disposable.txt names no source")?;
        domains.insert(domain.to_owned(), if sources == "mc" { Known::Agreed } else { Known::Listed });
    }
    for file in ["permanent.txt", "exceptions.txt", "free.txt"] {
        domains.extend(lines_of(&read(file)?).map(|domain| (domain.to_owned(), Known::Lasting)));
    }
    domains.extend(RELAYS.iter().map(|domain| ((*domain).to_owned(), Known::Lasting)));
    domains.extend(lines_of(&read("typo_targets.txt")?).map(|domain| (domain.to_owned(), Known::Target)));
    if let Some(firms) = &options.firms {
        let firms = fs::read_to_string(firms)?;
        domains.extend(lines_of(&firms).map(|domain| (domain.to_owned(), Known::Lasting)));
    }
    let (sites, closed) = ask(&domains, resolver);
    let today = output(Command::new("date").args(["-u", "+%F"]))?;
    let out = options.out.clone().unwrap_or_else(|| data.join("mx_hosts.txt"));
    let (table, report) = table(&read("mx_hosts.txt")?, &sites, &domains, &today);
    fs::write(&out, table)?;
    let closed: Vec<String> = closed.into_iter().collect();
    Ok(format!("{report}\ntargets of typing mistakes that take no mail: {}", closed.join(" ")))
}

/// The table with what was learned, and a report. Lines with another source than `dns` stay.
fn table(
    old: &str,
    sites: &BTreeMap<String, Users>,
    domains: &BTreeMap<String, Known>,
    today: &str,
) -> (String, String) {
    let (header, lines): (Vec<&str>, Vec<&str>) = old.lines().partition(|line| line.starts_with('#'));
    let by_hand: BTreeSet<&str> = lines.into_iter().filter(|line| !line.ends_with(" dns")).collect();
    let covered = |site: &str| {
        by_hand.iter().filter_map(|line| line.split(' ').next()).any(|entry| is_under(site, entry))
    };
    let is_lasting = |site: &str| matches!(domains.get(site), Some(Known::Lasting | Known::Target));
    let learned: Vec<&String> = sites
        .iter()
        .filter(|(site, users)| {
            users.agreed.len() >= AGREED_MIN && users.lasting.is_none() && !is_lasting(site) && !covered(site)
        })
        .map(|(site, _)| site)
        .collect();
    let mut report = format!("{} sites learned, {} entries by hand", learned.len(), by_hand.len());
    for (site, Users { agreed, listed, lasting }) in sites {
        if let Some(lasting) = lasting.as_ref().filter(|_| covered(site) || agreed.len() >= AGREED_MIN) {
            report += &format!(
                "\n{site}: not for throw-away mail alone, used by {lasting}, {} of both lists and {listed} of one",
                agreed.len()
            );
        }
    }
    let mut body: BTreeSet<String> = by_hand.iter().map(|line| (*line).to_owned()).collect();
    body.extend(learned.into_iter().map(|site| format!("{site} {today} dns")));
    let lines = header.into_iter().map(str::to_owned).chain(body);
    (lines.map(|line| line + "\n").collect(), report)
}

fn is_under(name: &str, entry: &str) -> bool {
    name.strip_suffix(entry).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// The sites of the domains' mail hosts with their users, and the targets that take no mail.
fn ask(domains: &BTreeMap<String, Known>, resolver: SocketAddr) -> (BTreeMap<String, Users>, Entries) {
    let list: Vec<(&String, &Known)> = domains.iter().collect();
    let next = AtomicUsize::new(0);
    let found = Mutex::new((BTreeMap::<String, Users>::new(), Entries::new()));
    let work = || {
        while let Some((domain, known)) = list.get(next.fetch_add(1, Ordering::Relaxed)) {
            let site = site(domain, resolver);
            let mut found = found.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            match site {
                Ok(Some(site)) => {
                    let users = found.0.entry(site).or_default();
                    match known {
                        Known::Agreed => {
                            users.agreed.insert(registrable(domain).unwrap_or(domain).to_owned());
                        }
                        Known::Listed => users.listed += 1,
                        Known::Lasting | Known::Target => users.lasting = Some((*domain).clone()),
                    }
                }
                Err(Dead::TakesNoMail(_)) if **known == Known::Target => {
                    found.1.insert((*domain).clone());
                }
                Ok(None) | Err(_) => {}
            }
        }
    };
    std::thread::scope(|scope| (0..WORKERS).for_each(|_| drop(scope.spawn(work))));
    found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The site of a domain's mail hosts: a registrable domain, or an address if the hosts have names of the domain. `None` for a site
/// in the table of operators.
fn site(domain: &str, resolver: SocketAddr) -> Result<Option<String>, Dead> {
    let domain = Domain::parse(domain).map_err(|_| Dead::TakesNoMail(NoMail::NxDomain))?;
    let question = Question { name: Name::from(&domain), kind: RecordKind::Mx };
    let plan = MxPlan::new(&domain, &look_up(&question, resolver), 0)?;
    let questions = plan.questions(false);
    let outcomes: Vec<Outcome> = questions.iter().map(|question| look_up(question, resolver)).collect();
    let mut outcome_of =
        |question: &Question| questions.iter().position(|asked| asked == question).map(|at| &outcomes[at]);
    let site = plan.hosts(false, &mut outcome_of, &|_| true)?.site;
    Ok((!site.is_known()).then(|| site.as_str().trim_matches(['[', ']']).to_owned()))
}

fn look_up(question: &Question, resolver: SocketAddr) -> Outcome {
    let ttl = Duration::ZERO;
    let failed = |why| Outcome::Failed { why, ttl };
    match (0..TRIES).find_map(|_| try_once(question, resolver)) {
        Some(Response::Records(records, _)) => Outcome::Records { records, ttl },
        Some(Response::NoData(_)) => Outcome::NoData { ttl },
        Some(Response::NxDomain(_)) => Outcome::NxDomain { ttl },
        Some(Response::Failed(why)) => failed(why),
        Some(Response::Unproven(_) | Response::Alias(..)) => failed(Failure::Unproven),
        Some(Response::Truncated) | None => failed(Failure::Timeout),
    }
}

fn try_once(question: &Question, resolver: SocketAddr) -> Option<Response> {
    let any = if resolver.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(resolver).ok()?;
    socket.set_read_timeout(Some(PATIENCE)).ok()?;
    let sent = encode(question, fastrand::u16(..), [0; 4], Extension::Edns);
    socket.send(sent.bytes()).ok()?;
    let mut buffer = [0; 4096];
    let length = socket.recv(&mut buffer).ok()?;
    decode(&sent, question, buffer.get(..length)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mailnet::{Mailnet, Scenario};
    use std::fmt::Write;

    #[test]
    fn sites_of_throw_away_domains_alone_are_learned() {
        let mut text = String::new();
        let mut domains = BTreeMap::new();
        for (name, known, host, address) in [
            ("a1.example", Known::Agreed, "mx1.thrown.example", "10.0.0.1"),
            ("a2.example", Known::Agreed, "mx1.thrown.example", "10.0.0.1"),
            ("a3.example", Known::Agreed, "mx2.thrown.example", "10.0.0.2"),
            ("a4.example", Known::Listed, "mx2.thrown.example", "10.0.0.2"),
            // Names of their own, but one machine.
            ("b1.example", Known::Agreed, "mail.b1.example", "10.0.0.3"),
            ("b2.example", Known::Agreed, "mail.b2.example", "10.0.0.3"),
            ("b3.example", Known::Agreed, "mail.b3.example", "10.0.0.3"),
            // A firm uses the host too.
            ("c1.example", Known::Agreed, "mx.hosting.example", "10.0.0.4"),
            ("c2.example", Known::Agreed, "mx.hosting.example", "10.0.0.4"),
            ("c3.example", Known::Agreed, "mx.hosting.example", "10.0.0.4"),
            ("firm.example", Known::Lasting, "mx.hosting.example", "10.0.0.4"),
            // Few domains, of both lists or of one; subdomains count once.
            ("d1.example", Known::Agreed, "mx.few.example", "10.0.0.5"),
            ("x.d1.example", Known::Agreed, "mx.few.example", "10.0.0.5"),
            ("y.d1.example", Known::Agreed, "mx.few.example", "10.0.0.5"),
            ("e1.example", Known::Listed, "mx.alone.example", "10.0.0.6"),
            ("e2.example", Known::Listed, "mx.alone.example", "10.0.0.6"),
            ("e3.example", Known::Listed, "mx.alone.example", "10.0.0.6"),
            ("f1.example", Known::Agreed, "aspmx.l.google.com", "10.0.0.7"),
            ("f2.example", Known::Agreed, "aspmx.l.google.com", "10.0.0.7"),
            ("f3.example", Known::Agreed, "aspmx.l.google.com", "10.0.0.7"),
            ("g1.example", Known::Agreed, "in.mail.tm", "10.0.0.8"),
            ("g2.example", Known::Agreed, "in.mail.tm", "10.0.0.8"),
            ("g3.example", Known::Agreed, "in.mail.tm", "10.0.0.8"),
            ("living.example", Known::Target, "mx.living.example", "10.0.0.9"),
        ] {
            writeln!(text, "[[domain]]\nname = \"{name}\"\nmx = [\"10 {host}\"]").unwrap();
            let entry = format!("[[host]]\nname = \"{host}\"\naddresses = [\"{address}\"]\n");
            if !text.contains(&entry) {
                text.push_str(&entry);
            }
            domains.insert(name.to_owned(), known);
        }
        domains.insert("closed.example".to_owned(), Known::Target);
        domains.insert("unknown.example".to_owned(), Known::Agreed);
        let scenario =
            Scenario::parse(&text).unwrap().with_dns("127.0.0.1:0".parse().unwrap()).with_smtp_port(0);
        let net = Mailnet::start(scenario).unwrap();
        let (sites, closed) = ask(&domains, net.dns());
        net.stop();
        assert_eq!(closed, Entries::from(["closed.example".to_owned()]));
        let old = "# header\nmail.tm 2024-05-20 someone\nold.example 2025-01-01 dns\n";
        let (table, report) = table(old, &sites, &domains, "2026-11-30");
        let expected =
            "# header\n10.0.0.3 2026-11-30 dns\nmail.tm 2024-05-20 someone\nthrown.example 2026-11-30 dns\n";
        assert_eq!(table, expected, "{report}");
        assert!(
            report.contains("hosting.example: not for throw-away mail alone, used by firm.example, 3"),
            "{report}"
        );
    }
}
