//! A scenario of mailnet that has many copies of hostile.toml beside reasons.toml.

use crate::failure::{Context, Failure};
use mailnet::Scenario;
use std::collections::BTreeMap;
use toml::{Table, Value};

const HOSTILE: &str = include_str!("../../../../mailnet/scenarios/hostile.toml");
const REASONS: &str = include_str!("../../../../mailnet/scenarios/reasons.toml");

/// How many addresses are drawn from reasons.toml. Each is asked about once, or in every round if a repeat changes
/// nothing.
const WELL_BEHAVED: usize = 400;
/// Addresses of well-behaved domains in one round.
const WELL_BEHAVED_PER_ROUND: usize = 120;

/// The reasons that are allowed in addition to mailnet's expectation, with the cause of each.
const ALSO: [(&str, &str); 4] = [
    // RFC 7504: the host states that it takes no mail, which proves less than the statement of a domain. This is on the
    // safe side.
    ("banner-521", "unverifiable"),
    // A refusal without a status code or a word about the recipient proves nothing. This is on the safe side.
    ("rcpt-nul", "unverifiable"),
    // An additional reply within a pipelined group takes the position of the next reply, also of that of the control
    // recipient. So no recipient is confirmed.
    ("mail-early", "catch_all"),
    // An additional reply after the last one of a group: the recipient had its own reply before it.
    ("rcpt-early", "mailbox_exists"),
];

/// Domains with servers that accept a session and then send nothing, or a byte at intervals, until the client's
/// timeout.
const HOLDING: [&str; 8] = [
    "banner-hang",
    "ehlo-hang",
    "mail-hang",
    "rcpt-hang",
    "must-tls-hang",
    "may-tls-hang",
    "starttls-hang",
    "slow-drip",
];

/// How many copies of hostile.toml the scenario has.
#[derive(Clone, Copy)]
pub struct Copies {
    /// How many sets of copies the rounds use in turn.
    pub sets: usize,
    /// How many copies of each domain a set has.
    pub copies: usize,
    /// Whether the domains are included that make the client wait for its timeouts.
    pub waiting: bool,
    /// How many copies a set has of each domain that keeps a session open.
    pub holding: usize,
}

/// An address and the reasons that are allowed for it.
pub type ExpectedReasons = (String, Vec<&'static str>);

/// The scenario and the addresses for it.
pub struct Hostile {
    /// The scenario in mailnet's syntax.
    pub text: String,
    /// The spam traps, one per line, as `--spamtraps` takes them.
    pub spamtraps: String,
    scenario: Scenario,
    /// The domains of each set.
    sets: Vec<Vec<String>>,
    /// Addresses that may be asked about in any round.
    steady: Vec<ExpectedReasons>,
    /// Addresses that may be asked about only once: greylisting accepts the second attempt.
    once: Vec<ExpectedReasons>,
}

impl Hostile {
    /// Makes the scenario. The seed selects the well-behaved addresses.
    ///
    /// # Errors
    ///
    /// A scenario file of mailnet is not valid TOML.
    pub fn make(copies: &Copies, seed: u64) -> Result<Hostile, Failure> {
        let (hostile, mut world) = (parse(HOSTILE)?, parse(REASONS)?);
        let originals: Vec<&Table> = array(&hostile, "domain").iter().filter_map(Value::as_table).collect();
        let mut domains = array(&world, "domain").to_vec();
        let mut sets = Vec::new();
        for set in 0..copies.sets {
            let mut names = Vec::new();
            for domain in &originals {
                for number in 0..copies.of(domain) {
                    let Some(copy) = copy(domain, set, number) else { continue };
                    names.extend(copy.get("name").and_then(Value::as_str).map(str::to_owned));
                    domains.push(Value::Table(copy));
                }
            }
            sets.push(names);
        }
        let traps = array(&world, "spamtraps").iter().filter_map(Value::as_str).collect::<Vec<_>>();
        let spamtraps = traps.join("\n") + "\n";
        world.insert("domain".into(), Value::Array(domains));
        let text = toml::to_string(&world).about("the scenario")?;
        let scenario = Scenario::parse(&text).about("the scenario")?;
        let (steady, once) = well_behaved(seed, copies.waiting)?;
        Ok(Hostile { text, spamtraps, scenario, sets, steady, once })
    }

    /// An address at every domain of a set; no other round asks about it.
    pub fn round(&self, round: usize, set: usize) -> Vec<ExpectedReasons> {
        let ask = |domain: &String| {
            let address = format!("user-{}@{domain}", round + 1);
            let also = ALSO.iter().filter(|(stem, _)| domain.starts_with(&format!("{stem}-")));
            let expected = self.scenario.expected(&address).reason.as_str();
            (address, std::iter::once(expected).chain(also.map(|(_, reason)| *reason)).collect())
        };
        self.sets[set].iter().map(ask).collect()
    }

    /// The number of hosts in a set.
    pub fn hosts(&self, set: usize) -> usize {
        self.sets[set].len()
    }

    /// Addresses at well-behaved domains for a round.
    pub fn well_behaved(&self, round: usize) -> Vec<ExpectedReasons> {
        let once = self.once.iter().skip(round * 4).take(4);
        let steady =
            self.steady.iter().cycle().skip(round * 50).take(self.steady.len().min(WELL_BEHAVED_PER_ROUND));
        once.chain(steady).cloned().collect()
    }
}

impl Copies {
    /// How many copies of `domain` a set has.
    fn of(&self, domain: &Table) -> usize {
        let stem = domain.get("name").and_then(Value::as_str).and_then(|name| name.split('.').next());
        match stem.unwrap_or_default() {
            stem if HOLDING.contains(&stem) => self.holding,
            stem if waits(stem) && !self.waiting => 0,
            _ => self.copies,
        }
    }
}

/// A domain `name-SET-NUMBER.example` with the host, the misdeeds and the expectation of `name.example`.
fn copy(domain: &Table, set: usize, number: usize) -> Option<Table> {
    let name = domain.get("name")?.as_str()?;
    let (stem, zone) = name.split_once('.')?;
    let mut copy = domain.clone();
    copy.insert("name".into(), format!("{stem}-{set}-{number}.{zone}").into());
    let mut mailboxes = Table::new();
    mailboxes.insert("ok".into(), Value::Array(vec!["alice".into(), "user-#".into()]));
    copy.insert("mailboxes".into(), mailboxes.into());
    Some(copy)
}

/// Whether the servers of a domain with this name make the client wait for its timeouts.
fn waits(stem: &str) -> bool {
    let first_only = stem.starts_with("first-") || stem.starts_with("third-");
    let words = ["hang", "drip", "silent", "timeout", "failover", "closing", "-421", "throttled"];
    !first_only && words.iter().any(|word| stem.contains(word))
}

/// Addresses of reasons.toml, each once: those that may be repeated, and those that may not.
fn well_behaved(seed: u64, waiting: bool) -> Result<(Vec<ExpectedReasons>, Vec<ExpectedReasons>), Failure> {
    let scenario = Scenario::parse(REASONS).about("reasons.toml")?;
    let drawn: BTreeMap<String, _> = scenario
        .addresses(WELL_BEHAVED, seed)
        .filter(|(address, _)| waiting || !waits(address.rsplit('@').next().unwrap_or_default()))
        .collect();
    let (steady, once): (Vec<_>, Vec<_>) =
        drawn.into_iter().partition(|(_, expected)| expected.reason == expected.patient);
    let named = |list: Vec<(String, mailnet::ExpectedVerdict)>| {
        list.into_iter().map(|(address, expected)| (address, vec![expected.reason.as_str()])).collect()
    };
    Ok((named(steady), named(once)))
}

fn parse(text: &str) -> Result<Table, Failure> {
    text.parse::<Table>().about("a scenario")
}

fn array<'a>(table: &'a Table, key: &str) -> &'a [Value] {
    table.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
