//! `soak list`: `mailprobe clean` of a long list, killed five times at random moments and resumed.
//!
//! The list has duplicates in other letter case, rows without an address, values with quotes and line ends, greylisted
//! addresses, and a site whose hosts are dead. It is cleaned once in order and compressed, and once out of order and
//! uncompressed. The memory is so small that rows and addresses go to OUT.state. The campaign checks:
//! - each line is written once, complete, with the verdict that mailnet expects, and in order if that was requested;
//! - OUT.state and OUT.results never contain a plain address, neither during a run nor after a kill, and are gone at the end;
//! - the summary in JSON counts the written lines;
//! - in the full version, memory stays below its limit.

use super::list_output::{ListOutput, length};
use super::list_rows::ListRows;
use super::options::SoakOptions;
use super::peers::watch;
use super::world::{CampaignFolder, Mailnet};
use crate::failure::Failure;
use crate::interop::process::ServerProcess;
use crate::interop::report::{self, Tally};
use mailnet::Scenario;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

struct ListSize {
    lines: u64,
    domains: u64,
    /// The time limit of a whole run.
    limit: Duration,
    /// The time after which a run is killed if it has not written the random number of bytes.
    kill_at_last: Duration,
    /// The limits in MiB: of rows and addresses, and of the whole process.
    memory: &'static str,
    resident_kib_max: u64,
    max_wait: &'static str,
}

const FULL: ListSize = ListSize {
    lines: 10_000_000,
    domains: 2000,
    limit: Duration::from_secs(4 * 3600),
    kill_at_last: Duration::from_secs(60),
    memory: "96",
    resident_kib_max: 300 * 1024,
    max_wait: "60",
};
const SMALL: ListSize = ListSize {
    lines: 20_000,
    domains: 30,
    limit: Duration::from_secs(120),
    kill_at_last: Duration::from_secs(4),
    memory: "1",
    resident_kib_max: u64::MAX,
    max_wait: "2",
};

const KILLS: u64 = 5;

fn scenario(domains: u64) -> String {
    format!(
        "seed = 5\n[[personality]]\nname = \"calm\"\nlike = \"generic\"\nehlo = [\"PIPELINING\"]\n[[group]]\nname = \"soaked-{{n}}.example\"\ncount = {domains}\n\
         mailboxes.ok = [\"50% user-#\"]\nserver = {{ personality = \"calm\", latency_ms = [0, 5] }}\n\
         [[domain]]\nname = \"soaked-grey.example\"\nmailboxes.greylisted = [\"user-#\"]\ngreylist_ms = 1000\n\
         [[host]]\nname = \"mx.soaked-dead.example\"\nstate = \"refused\"\n\
         [[domain]]\nname = \"soaked-dead.example\"\nmx = [\"10 mx.soaked-dead.example\"]\n"
    )
}

/// The domain of a row of this list. `lines` and `domains` are numbers of the list.
fn domain(draw: u64, n: u64, lines: u64, domains: u64) -> String {
    match draw % 200 {
        0..=2 => "soaked-grey.example".to_owned(),
        // Not at the beginning: in order, nothing would be written before the first kills.
        3 if n > lines / 2 => "soaked-dead.example".to_owned(),
        other => format!("soaked-{}.example", 1 + (other + n) % domains),
    }
}

fn rows(seed: u64, size: &ListSize, scenario: Scenario) -> ListRows {
    let ListSize { lines, domains, .. } = *size;
    ListRows { seed, lines, domain: Box::new(move |draw, n| domain(draw, n, lines, domains)), scenario }
}

/// Runs the campaign and returns the counts of its checks.
pub fn run(options: &SoakOptions) -> Result<Tally, Failure> {
    let size = if options.small { &SMALL } else { &FULL };
    let seed = options.seed();
    report::line(&format!("list: seed {seed}, {} lines, {KILLS} kills in each of two runs", size.lines));
    let world = CampaignFolder::make(options)?;
    let text = scenario(size.domains);
    let scenario = Scenario::parse(&text).map_err(|error| Failure(format!("the scenario: {error}")))?;
    let list = rows(seed, size, scenario);
    let input = world.path("list.csv");
    list.write(&input)?;
    let mut tally = Tally::default();
    for (name, ordered) in [("in order, packed", true), ("out of order, plain", false)] {
        let mailnet = world.mailnet(&text)?;
        let mut random = fastrand::Rng::with_seed(seed);
        let output = ListOutput {
            list: &list,
            path: world.path(if ordered { "out.csv.gz" } else { "out.csv" }),
            is_ordered: ordered,
            has_more_columns: false,
        };
        let campaign = ListCampaign { world: &world, size, output, input: &input };
        let began = Instant::now();
        let outcome = campaign.go(&mailnet, &mut random);
        let took = began.elapsed().as_secs_f64();
        tally.check(name, outcome.map(|figures| format!("{figures}, {took:.1} s")));
        mailnet.end(&mut tally)?;
    }
    Ok(tally)
}

struct ListCampaign<'a> {
    world: &'a CampaignFolder,
    size: &'static ListSize,
    output: ListOutput<'a>,
    input: &'a Path,
}

impl ListCampaign<'_> {
    /// Kills five runs and lets the last one finish.
    fn go(&self, mailnet: &Mailnet, random: &mut fastrand::Rng) -> Result<String, String> {
        let (mut resident, mut kills) = (0, 0);
        // Bytes of output per line: the five random numbers cover most of a run. A compressed line has about 15 bytes,
        // another one about 40.
        let per_line = if self.output.is_ordered { 5 } else { 13 };
        for kill in 0..=KILLS {
            let more = if kill == KILLS { u64::MAX } else { random.u64(0..self.size.lines * per_line) };
            let mut run = self.start(mailnet, kill > 0)?;
            let watched = self.watch(&mut run, more, kill < KILLS, &mut resident)?;
            match watched {
                Watched::Killed => kills += 1,
                Watched::Ended => break,
                Watched::Told(address) => return Err(address),
            }
        }
        if kills < KILLS / 2 {
            return Err(format!("{kills} kills: the runs end too soon to prove anything"));
        }
        self.output.nothing_beside()?;
        let bound = self.size.resident_kib_max;
        if resident > bound {
            return Err(format!("{resident} KiB resident, {bound} at most"));
        }
        self.output.judge()?;
        Ok(format!("{kills} kills, {}, {} MiB resident", self.summary()?, resident / 1024))
    }

    fn start(&self, mailnet: &Mailnet, resume: bool) -> Result<ServerProcess, Failure> {
        let (input, output) = (self.input.to_string_lossy(), self.output.path.to_string_lossy());
        let summary = self.world.path("summary.json");
        let summary = summary.to_string_lossy();
        let size = self.size;
        let mut arguments = vec![&*input, "-o", &*output, "--summary", &*summary];
        arguments.extend(["--memory", size.memory, "--max-wait", size.max_wait]);
        arguments.push(if resume { "--resume" } else { "--force" });
        arguments.extend((!self.output.is_ordered).then_some("--unordered"));
        self.world.clean(mailnet, &arguments)
    }

    /// Watches a run until it has written this many more bytes, or to its end, and meanwhile searches OUT.state for
    /// addresses.
    fn watch(
        &self,
        run: &mut ServerProcess,
        more: u64,
        kill: bool,
        resident: &mut u64,
    ) -> Result<Watched, Failure> {
        let partial = self.output.beside(".partial");
        let (before, began) = (length(&partial), Instant::now());
        let mut eyes = self.output.eyes();
        let watched = watch(run, self.size.limit, |run| {
            *resident = run.resident_kib().unwrap_or(0).max(*resident);
            if let Err(told) = eyes.look() {
                return Ok(Some(Watched::Told(told)));
            }
            let is_due = || length(&partial) > before + more || began.elapsed() > self.size.kill_at_last;
            if !kill || !is_due() || run.ended()?.is_some() {
                return Ok(None);
            }
            run.kill()?;
            let told = eyes.look().err().map(|told| Watched::Told(told + " after a kill"));
            Ok(Some(told.unwrap_or(Watched::Killed)))
        })?;
        Ok(watched.unwrap_or(Watched::Ended))
    }

    fn summary(&self) -> Result<String, String> {
        let text = fs::read(self.world.path("summary.json")).map_err(|error| error.to_string())?;
        let json: Value = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
        let number = |name: &str| json.get(name).and_then(Value::as_u64).unwrap_or(u64::MAX);
        let reasons = json.get("reasons").and_then(Value::as_object);
        let sum: u64 = reasons.into_iter().flat_map(|counts| counts.values()).filter_map(Value::as_u64).sum();
        let rows = number("rows");
        if rows != self.size.lines || sum != rows {
            return Err(format!("the summary counts {rows} rows and {sum} reasons"));
        }
        Ok(format!("{} rows done before the last run", number("resumed")))
    }
}

enum Watched {
    Killed,
    Ended,
    /// A forbidden content was found.
    Told(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_what_makes_it_hard() {
        let scenario = Scenario::parse(&scenario(SMALL.domains)).unwrap();
        let list = rows(1, &SMALL, scenario);
        let cleaned: Vec<String> = (9000..14_000).map(|n| list.cleaned(n)).collect();
        let count = |part: &str| cleaned.iter().filter(|line| line.contains(part)).count();
        assert!(count("invalid_syntax") > 50 && count("two\nlines") > 50 && count("USER-") > 250);
        assert!(count("soaked-grey") > 30 && count("soaked-dead") > 10 && count("unverifiable") > 10);
        assert!(count("true,mailbox_exists") > 1000 && count("mailbox_not_found") > 1000);
    }
}
