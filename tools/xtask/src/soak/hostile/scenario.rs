//! hostile.toml many times over, beside reasons.toml, as one scenario of mailnet.

use super::super::Failure;
use mailnet::Scenario;
use std::collections::BTreeMap;
use toml::{Table, Value};

const HOSTILE: &str = include_str!("../../../../mailnet/scenarios/hostile.toml");
const REASONS: &str = include_str!("../../../../mailnet/scenarios/reasons.toml");

/// Addresses drawn from reasons.toml; each is asked once or, if a second time changes nothing, in every round.
const WELL_BEHAVED: usize = 400;
/// Addresses of well-behaved domains in one round.
const WELL_BEHAVED_PER_ROUND: usize = 120;

/// What may be said besides what mailnet expects, and why.
const ALSO: [(&str, &str); 4] = [
    // RFC 7504: the host says that it takes no mail, which says less than a domain that does; on the safe side.
    ("banner-521", "unverifiable"),
    // A refusal without a status code or a word about the recipient proves nothing; on the safe side.
    ("rcpt-nul", "unverifiable"),
    // A reply too many in the middle of a pipelined group stands where the next one's should: for the control
    // recipient too, so nobody counts as confirmed.
    ("mail-early", "catch_all"),
    // A reply too many behind the last of a group: the recipient had its own before it.
    ("rcpt-early", "mailbox_exists"),
];

/// Domains whose servers take a session and then say nothing, or a byte now and then, until the client's time-out.
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

/// How often hostile.toml is there.
pub struct Copies {
    /// Sets of copies that rounds take turns with.
    pub sets: usize,
    /// Copies of each domain in a set.
    pub copies: usize,
    /// Also the domains whose misdeed is to let the client wait for its time-outs.
    pub waiting: bool,
    /// Copies in a set of each of those that keep a session open all the while.
    pub holding: usize,
}

/// An address and the reasons that may be given for it.
pub type Expected = (String, Vec<&'static str>);

/// The scenario and what to ask.
pub struct Hostile {
    /// As mailnet reads it.
    pub text: String,
    /// A line each, as `--spamtraps` takes them.
    pub spamtraps: String,
    scenario: Scenario,
    /// The domains of each set.
    sets: Vec<Vec<String>>,
    /// May be asked in any round.
    steady: Vec<Expected>,
    /// May be asked once only: greylisting lets the second time in.
    once: Vec<Expected>,
}

impl Hostile {
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
        let text = toml::to_string(&world).map_err(|error| Failure(format!("the scenario: {error}")))?;
        let scenario = Scenario::parse(&text).map_err(|error| Failure(format!("the scenario: {error}")))?;
        let (steady, once) = well_behaved(seed, copies.waiting)?;
        Ok(Hostile { text, spamtraps, scenario, sets, steady, once })
    }

    /// An address at every domain of a set that no other round asks about.
    pub fn round(&self, round: usize, set: usize) -> Vec<Expected> {
        let ask = |domain: &String| {
            let address = format!("user-{}@{domain}", round + 1);
            let also = ALSO.iter().filter(|(stem, _)| domain.starts_with(&format!("{stem}-")));
            let expected = self.scenario.expected(&address).reason.as_str();
            (address, std::iter::once(expected).chain(also.map(|(_, reason)| *reason)).collect())
        };
        self.sets[set].iter().map(ask).collect()
    }

    /// How many hosts a set has.
    pub fn hosts(&self, set: usize) -> usize {
        self.sets[set].len()
    }

    /// Addresses at well-behaved domains for a round.
    pub fn well_behaved(&self, round: usize) -> Vec<Expected> {
        let once = self.once.iter().skip(round * 4).take(4);
        let steady =
            self.steady.iter().cycle().skip(round * 50).take(self.steady.len().min(WELL_BEHAVED_PER_ROUND));
        once.chain(steady).cloned().collect()
    }
}

impl Copies {
    /// How many of `domain` a set has.
    fn of(&self, domain: &Table) -> usize {
        let stem = domain.get("name").and_then(Value::as_str).and_then(|name| name.split('.').next());
        match stem.unwrap_or_default() {
            stem if HOLDING.contains(&stem) => self.holding,
            stem if waits(stem) && !self.waiting => 0,
            _ => self.copies,
        }
    }
}

/// `name-SET-NUMBER.example` with the host, the misdeeds and the expectation of `name.example`.
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

/// Whether a domain's servers, by its name, let the client wait for its time-outs.
fn waits(stem: &str) -> bool {
    let first_only = stem.starts_with("first-") || stem.starts_with("third-");
    let words = ["hang", "drip", "silent", "timeout", "failover", "closing", "-421", "throttled"];
    !first_only && words.iter().any(|word| stem.contains(word))
}

/// Addresses of reasons.toml, each once: those that may be asked again, and those that may not.
fn well_behaved(seed: u64, waiting: bool) -> Result<(Vec<Expected>, Vec<Expected>), Failure> {
    let scenario = Scenario::parse(REASONS).map_err(|error| Failure(format!("reasons.toml: {error}")))?;
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
    text.parse().map_err(|error| Failure(format!("a scenario: {error}")))
}

fn array<'a>(table: &'a Table, key: &str) -> &'a [Value] {
    table.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
