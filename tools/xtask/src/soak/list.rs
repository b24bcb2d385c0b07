//! `soak list`: `mailprobe clean` of a long list, killed five times at random moments and resumed. `soak parts` (parts.rs) uses
//! another long list.
//!
//! The list has duplicates in other letter case, rows without an address, values with quotes and line ends, greylisted
//! addresses, and a site whose hosts are dead. It is cleaned once in order and compressed, and once out of order and
//! uncompressed. The memory is so small that rows and addresses go to OUT.state. The campaign checks:
//! - each line is written once, complete, with the verdict that mailnet expects, and in order if that was requested;
//! - OUT.state and OUT.results never contain a plain address, neither during a run nor after a kill, and are gone at the end;
//! - the summary in JSON counts the written lines;
//! - in the full version, memory stays below its limit.

pub mod parts;

use super::list_output::{ListOutput, length};
use super::list_rows::ListRows;
use super::options::{SoakOptions, sizes};
use super::peers::watch;
use super::world::{CampaignFolder, Mailnet};
use crate::failure::{Failure, ensure};
use crate::interop::process::ServerProcess;
use crate::interop::report::{self, Tally};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

sizes! {
    /// The size of a long list, and the limits of its runs.
    struct ListSize {
        lines: u64 = 10_000_000, 20_000;
        domains: u64 = 2000, 30;
        /// The time limit of a whole run.
        limit: Duration = Duration::from_secs(4 * 3600), Duration::from_secs(120);
        /// The time after which a run is killed if it has not written the random number of bytes.
        kill_at_last: Duration = Duration::from_secs(60), Duration::from_secs(4);
        /// The limits in MiB: of rows and addresses, and of the whole process.
        memory: &'static str = "96", "1";
        resident_kib_max: u64 = 300 * 1024, u64::MAX;
        max_wait: &'static str = "60", "2";
    }
}

const KILLS: u64 = 5;

fn scenario(domains: u64) -> String {
    include_str!("../../soak/scenarios/list.toml").replace("DOMAINS", &domains.to_string())
}

/// The domain of a row of this list.
fn domain(draw: u64, n: u64, size: ListSize) -> String {
    match draw % 200 {
        0..=2 => "soaked-grey.example".to_owned(),
        // Not at the beginning: in order, nothing would be written before the first kills.
        3 if n > size.lines / 2 => "soaked-dead.example".to_owned(),
        other => format!("soaked-{}.example", 1 + (other + n) % size.domains),
    }
}

/// Runs the campaign and counts its checks.
pub fn run(options: &SoakOptions, tally: &mut Tally) -> Result<(), Failure> {
    let size = ListSize::of(options.small);
    let seed = options.seed();
    report::line(&format!("list: seed {seed}, {} lines, {KILLS} kills in each of two runs", size.lines));
    let world = CampaignFolder::make(options)?;
    let list = LongList::write(&world, size, seed, scenario(size.domains), domain)?;
    for (name, file, is_ordered) in
        [("in order, packed", "out.csv.gz", true), ("out of order, plain", "out.csv", false)]
    {
        let mailnet = world.mailnet(&list.scenario)?;
        let began = Instant::now();
        let output = ListOutput { is_ordered, ..list.output(file, 0) };
        let outcome = list.killed(&mailnet, &output, fastrand::Rng::with_seed(seed));
        let took = began.elapsed().as_secs_f64();
        tally.check(name, outcome.map(|figures| format!("{figures}, {took:.1} s")));
        mailnet.end(tally)?;
    }
    Ok(())
}

/// A long list in the folder of a campaign.
struct LongList<'w> {
    world: &'w CampaignFolder,
    size: ListSize,
    /// The scenario of its mail internet.
    scenario: String,
    rows: ListRows,
    input: PathBuf,
}

impl LongList<'_> {
    /// Writes the list. `domain` is the domain of a row that is no duplicate, from a random number and the number of the row.
    fn write(
        world: &CampaignFolder,
        size: ListSize,
        seed: u64,
        scenario: String,
        domain: fn(u64, u64, ListSize) -> String,
    ) -> Result<LongList<'_>, Failure> {
        let rows = ListRows::new(seed, size.lines, &scenario, move |draw, n| domain(draw, n, size))?;
        let input = world.path("list.csv");
        rows.write(&input)?;
        Ok(LongList { world, size, scenario, rows, input })
    }

    /// An output of the list in order, with so many lines before its header.
    fn output(&self, file: &str, titles: usize) -> ListOutput<'_> {
        let path = self.world.path(file);
        ListOutput { list: &self.rows, path, is_ordered: true, has_more_columns: false, titles }
    }

    fn start(&self, mailnet: &Mailnet, output: &Path, more: &[&str]) -> Result<ServerProcess, Failure> {
        let (input, output) = (self.input.to_string_lossy(), output.to_string_lossy());
        let mut arguments = vec![&*input, "-o", &*output, "--memory", self.size.memory];
        if !more.contains(&"--join") {
            arguments.extend(["--max-wait", self.size.max_wait]);
        }
        arguments.extend(more);
        self.world.clean(mailnet, &arguments)
    }

    /// Watches a run until `look` has found something, or to its end. `peak` becomes its greatest resident memory in KiB.
    fn watch<T>(
        &self,
        run: &mut ServerProcess,
        peak: &mut u64,
        mut look: impl FnMut(&mut ServerProcess) -> Result<Option<T>, Failure>,
    ) -> Result<Option<T>, Failure> {
        watch(run, self.size.limit, |run| {
            *peak = run.resident_kib().unwrap_or(0).max(*peak);
            look(run)
        })
    }

    fn in_memory(&self, peak: u64) -> Result<(), String> {
        let most = self.size.resident_kib_max;
        if peak > most { Err(format!("{peak} KiB resident, {most} at most")) } else { Ok(()) }
    }

    /// The path of the summary of a run.
    fn summary_path(&self) -> String {
        self.world.path("summary.json").to_string_lossy().into_owned()
    }

    /// The summary of the last run; null if there is none.
    fn summary(&self) -> Value {
        let text = fs::read(self.summary_path()).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Kills five runs and lets the last one finish.
    fn killed(
        &self,
        mailnet: &Mailnet,
        output: &ListOutput<'_>,
        mut random: fastrand::Rng,
    ) -> Result<String, String> {
        let (mut peak, mut kills) = (0, 0);
        let (partial, summary) = (output.beside(".partial"), self.summary_path());
        // Bytes of output per line: the five random numbers cover most of a run. A compressed line has about 15 bytes,
        // another one about 40.
        let per_line = if output.is_ordered { 5 } else { 13 };
        for kill in 0..=KILLS {
            let more = if kill == KILLS { u64::MAX } else { random.u64(0..self.size.lines * per_line) };
            let mut flags = vec!["--summary", &summary, if kill > 0 { "--resume" } else { "--force" }];
            flags.extend((!output.is_ordered).then_some("--unordered"));
            let mut run = self.start(mailnet, &output.path, &flags)?;
            let (before, began) = (length(&partial), Instant::now());
            let mut eyes = output.eyes();
            let watched = self.watch(&mut run, &mut peak, |run| {
                if let Err(told) = eyes.look() {
                    return Ok(Some(Err(told)));
                }
                let is_due = || {
                    length(&partial) > before.saturating_add(more) || began.elapsed() > self.size.kill_at_last
                };
                if kill == KILLS || !is_due() || run.ended()?.is_some() {
                    return Ok(None);
                }
                run.kill()?;
                Ok(Some(eyes.look().map_err(|told| told + " after a kill")))
            })?;
            match watched {
                Some(Ok(())) => kills += 1,
                Some(Err(told)) => return Err(told),
                None => break,
            }
        }
        ensure!(kills >= KILLS / 2, "{kills} kills: the runs end too soon to prove anything");
        output.nothing_beside()?;
        self.in_memory(peak)?;
        output.judge()?;
        let summary = self.summary();
        let number = |value: &Value| value.as_u64().unwrap_or_default();
        let (rows, resumed) = (number(&summary["rows"]), number(&summary["resumed"]));
        let reasons = summary["reasons"].as_object();
        let sum: u64 = reasons.into_iter().flat_map(|counts| counts.values()).map(number).sum();
        ensure!(rows == self.size.lines && sum == rows, "the summary counts {rows} rows and {sum} reasons");
        Ok(format!("{kills} kills, {resumed} rows done before the last run, {} MiB resident", peak / 1024))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of some rows of the small list contain each text, beside the fewest that make the list hard.
    pub fn hard(
        scenario: &str,
        size: ListSize,
        domain: fn(u64, u64, ListSize) -> String,
        rows: std::ops::Range<u64>,
        expected: &[(&str, usize)],
    ) {
        let list = ListRows::new(1, size.lines, scenario, move |draw, n| domain(draw, n, size)).unwrap();
        let cleaned: Vec<String> = rows.map(|n| list.cleaned(n)).collect();
        let of_all = [("invalid_syntax", 50), ("two\nlines", 50), ("USER-", 250), ("unverifiable", 10)];
        let verdicts = [("true,mailbox_exists", 1000), ("mailbox_not_found", 1000)];
        for (part, more_than) in expected.iter().chain(&of_all).chain(&verdicts) {
            let count = cleaned.iter().filter(|line| line.contains(part)).count();
            assert!(count > *more_than, "{count} rows with {part}");
        }
    }

    #[test]
    fn the_list_has_what_makes_it_hard() {
        let (size, expected) = (ListSize::of(true), [("soaked-grey", 30), ("soaked-dead", 10)]);
        hard(&scenario(size.domains), size, domain, 9000..14_000, &expected);
    }
}
