//! `soak retry`: `mailprobe clean --retry` of outputs with open rows, round after round, and `--known` of such an output.
//!
//! The list has rows at a site that refuses more recipients than its budget of an hour allows, at greylisting servers, at servers
//! whose first sessions fail, at a server that refuses this machine, full and disabled mailboxes, domains that accept everyone,
//! duplicates, quoted cells and rows without an address. Each form of output is made by a run of `clean`, and then retried up to
//! ten times; before each round an hour passes for the budget. Some rounds are stopped by a signal or `kill -9`, and resumed.
//! mailnet's journal shows who was asked. The campaign checks:
//! - a round asks only about open rows: `unverifiable` ones, and not those of the server that refuses this machine;
//! - all other rows keep their bytes, and open rows keep the part that is of the list;
//! - an open row whose server gave a permanent or positive reply in the round has the verdict that mailnet expects;
//! - after ten rounds no row is open that a server would answer, and a further round changes nothing and asks nobody;
//! - `--known` asks about each row that nobody was asked about, and about no row with a verdict.

use super::crowd::each;
use super::installation::pass_an_hour;
use super::list_rows::ListRows;
use super::options::SoakOptions;
use super::outputs::{OutputReader, OutputRow};
use super::peers::{self, clean_command, watch};
use super::world::CampaignFolder;
use crate::failure::{Context, Failure, ensure};
use crate::interop::process::{self, ServerProcess};
use crate::interop::report::{self, Tally, outcome};
use mailnet::{Running, What};
use rustix::process::Signal;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const ROUNDS_MAX: usize = 10;
/// The longest time until a stop, in milliseconds: a round takes a second or two.
const STOP_AT_LAST_MS: u64 = 1500;
const RUN_LIMIT: Duration = Duration::from_secs(240);
/// How many differences are printed.
const SHOWN: usize = 3;

/// The rows of the list in the full version and in the small one.
const LINES: [u64; 2] = [2_400, 400];
/// The forms of output, one a line: those of the full version, and behind an empty line those of the small one.
const FORMS: &str = include_str!("../../../soak/retry-forms.txt");

/// A form of output.
struct Form {
    name: &'static str,
    /// The ending of the name of its files.
    ending: &'static str,
    /// The flags of its first run.
    flags: Vec<&'static str>,
    /// Each round replaces the output.
    replaces: bool,
    /// The first run of each round is stopped, and another one continues it.
    stops: bool,
}

impl Form {
    fn read(name: &'static str) -> Form {
        let (command, how) = name.split_once(", ").unwrap_or((name, ""));
        let (ending, flags) = command.split_once(' ').unwrap_or((command, ""));
        let (replaces, stops) = (how.contains("in place"), how.contains("with stops"));
        Form { name, ending, flags: flags.split_whitespace().collect(), replaces, stops }
    }
}

/// Its domains are those of `domain`.
const SCENARIO: &str = include_str!("../../../soak/scenarios/retry.toml");
/// The domain of the server that refuses this machine.
const BLOCKED: &str = "blocked.example";

fn domain(draw: u64, n: u64) -> String {
    match draw % 20 {
        0..=6 => "spent.example".to_owned(),
        7..=8 => format!("grey-{}.example", 1 + n % 2),
        9 => format!("down-{}.example", 1 + n % 2),
        10 => "all.example".to_owned(),
        11 if n.is_multiple_of(4) => BLOCKED.to_owned(),
        _ => format!("steady-{}.example", 1 + n % 10),
    }
}

/// Runs the campaign and counts its checks.
pub fn run(options: &SoakOptions, tally: &mut Tally) -> Result<(), Failure> {
    let (full, small) = FORMS.split_once("\n\n").unwrap_or((FORMS, FORMS));
    let forms: Vec<Form> = if options.small { small } else { full }.lines().map(Form::read).collect();
    let (seed, lines) = (options.seed(), LINES[usize::from(options.small)]);
    report::line(&format!("retry: seed {seed}, {lines} lines in {} forms", forms.len()));
    let world = CampaignFolder::make(options)?;
    // Most of the time is that of servers and of the pace at them.
    let outcomes = each(forms.len() + 1, forms.len() + 1, |n| match forms.get(n) {
        Some(form) => RetryChain::new(&world, lines, seed, n, form)?.go(),
        None => RetryChain::new(&world, lines, seed, n, &forms[0])?.known(),
    })?;
    for (name, outcome) in forms.iter().map(|form| form.name).chain(["--known"]).zip(outcomes) {
        tally.check(name, outcome);
    }
    Ok(())
}

/// All rows of an output, with the header of a CSV.
#[derive(PartialEq, Eq)]
struct Output {
    header: String,
    rows: Vec<OutputRow>,
}

impl Output {
    fn read(path: &Path) -> Result<Output, Failure> {
        let reader = OutputReader::open(path, 0)?;
        Ok(Output { header: reader.header.clone(), rows: reader.collect::<Result<_, _>>()? })
    }
}

/// The outputs of one form, each made of the one before it.
struct RetryChain<'a> {
    world: &'a CampaignFolder,
    list: ListRows,
    form: &'a Form,
    net: Running,
    /// The number of the chain, which is in the names of its files.
    n: usize,
    state: PathBuf,
    /// The number of events of the journal before the last round.
    seen: usize,
    /// The same, without those of a killed run: what it read may be lost.
    kept: usize,
    random: fastrand::Rng,
    /// The number of runs that were stopped.
    stops: usize,
}

/// The figures of a chain, or its faults.
type RetryOutcome = Result<String, String>;

impl<'a> RetryChain<'a> {
    fn new(
        world: &'a CampaignFolder,
        lines: u64,
        seed: u64,
        n: usize,
        form: &'a Form,
    ) -> Result<RetryChain<'a>, Failure> {
        let net = peers::start(SCENARIO)?;
        let list = ListRows::new(seed, lines, SCENARIO, domain)?;
        let random = fastrand::Rng::with_seed(seed ^ (n as u64) << 32);
        let state = world.path(&format!("{n}.state"));
        Ok(RetryChain { world, list, form, net, n, state, seen: 0, kept: 0, random, stops: 0 })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.world.path(&format!("{}-{name}.{}", self.n, self.form.ending))
    }

    /// Makes the first output, and retries it until no row is open.
    fn go(mut self) -> RetryOutcome {
        let mut path = self.first()?;
        let mut old = Output::read(&path)?;
        let mut figures = format!("{} rows open", self.open(&old).len());
        let mut rounds = 0;
        while !self.open(&old).is_empty() {
            ensure!(rounds < ROUNDS_MAX, "{figures}; still open after {rounds} rounds");
            rounds += 1;
            pass_an_hour(&self.state)?;
            let (next, new) = self.round(&path, rounds)?;
            let asked = self.judge(&old, &new);
            let asked = asked.map_err(|fault| format!("{figures}; round {rounds}: {fault}"))?;
            figures += &format!(", {} after round {rounds} ({asked} asked)", self.open(&new).len());
            (path, old) = (next, new);
        }
        if self.form.stops {
            figures += &format!("; {} stops", self.stops);
        }
        let (_, new) = self.round(&path, ROUNDS_MAX + 1)?;
        let asked = self.asked();
        ensure!(new == old, "{figures}; a further round changes the output");
        let may_ask = self.form.flags.is_empty();
        let is_right = asked.keys().all(|address| may_ask && address.ends_with(BLOCKED));
        outcome(is_right, format!("{figures}; a further round asks about {} recipients", asked.len()))
    }

    /// Makes the first output, and uses it as `--known` of the same list.
    fn known(mut self) -> RetryOutcome {
        let first = self.first()?;
        let old = Output::read(&first)?;
        let ever: HashSet<String> = self.asked_since(0).into_keys().collect();
        pass_an_hour(&self.state)?;
        let (input, output) = (self.file("list"), self.file("known"));
        self.clean(&[&input.to_string_lossy(), "--known", &first.to_string_lossy()], &output)?;
        let asked = self.asked();
        let new = Output::read(&output)?;
        let mut unasked = 0;
        let mut faults = Vec::new();
        for (n, (row, new)) in (0_u64..).zip(old.rows.iter().zip(&new.rows)) {
            let address = self.list.address(n).to_lowercase();
            let was_asked = ever.contains(&address);
            // The servers of the other domains answer in their first session.
            let is_reachable = address.contains('@') && !address.contains("@down-");
            let is_unasked = row.reason == "unverifiable" && !was_asked && is_reachable;
            unasked += usize::from(is_unasked);
            // The budget of the hour may not be enough for all rows.
            if row.reason != "unverifiable" && asked.contains_key(&address) {
                faults.push(format!("{address} ({}) is asked again", row.reason));
            }
            if is_unasked && !asked.contains_key(&address) && new.reason != "unverifiable" {
                faults.push(format!("{address} has the verdict {}, and nobody was asked", new.reason));
            }
        }
        let now = (0..self.list.lines).map(|n| self.list.address(n).to_lowercase());
        let asked_now = now
            .collect::<HashSet<_>>()
            .iter()
            .filter(|a| !ever.contains(*a) && asked.contains_key(*a))
            .count();
        let figures = format!(
            "{unasked} rows that nobody was asked about, of which {asked_now} addresses are asked now"
        );
        if asked_now * 2 < unasked.min(80) {
            faults.push("they are used again".to_owned());
        }
        shown(figures, &faults)
    }

    /// Cleans the list for the first time.
    fn first(&mut self) -> Result<PathBuf, Failure> {
        let (input, output) = (self.file("list"), self.file("0"));
        let is_csv = self.form.ending.starts_with("csv");
        if is_csv {
            self.list.write(&input)?
        } else {
            self.write_json(&input)?
        }
        let input = input.to_string_lossy().into_owned();
        let format = if is_csv { "csv" } else { "jsonl" };
        let flags = [&[&*input, "--format", format], self.form.flags.as_slice()].concat();
        self.clean(&flags, &output)?;
        Ok(output)
    }

    fn write_json(&self, path: &Path) -> Result<(), Failure> {
        let mut text = String::new();
        for n in 0..self.list.lines {
            let row = serde_json::json!({ "n": n, "email": self.list.address(n), "note": self.list.note(n) });
            // A write to a string does not fail.
            let _ = writeln!(text, "{row}");
        }
        fs::write(path, text).at(path)
    }

    /// Retries an output, and returns the new one with its file.
    fn round(&mut self, old: &Path, round: usize) -> Result<(PathBuf, Output), Failure> {
        let new = if self.form.replaces { old.to_owned() } else { self.file(&round.to_string()) };
        let old = old.to_string_lossy().into_owned();
        let mut flags = vec!["--retry", &*old];
        flags.extend(self.form.replaces.then_some("--force"));
        self.seen = self.net.journal().events.len();
        self.kept = self.seen;
        let mut is_complete = false;
        if self.form.stops {
            let after = Duration::from_millis(self.random.u64(100..STOP_AT_LAST_MS));
            let signal = [Signal::INT, Signal::KILL, Signal::TERM][round % 3];
            if self.stopped(&flags, &new, after, signal)? {
                self.stops += 1;
                flags.push("--resume");
                if signal == Signal::KILL {
                    self.kept = self.net.journal().events.len();
                }
            }
            // It may have been complete in the moment of the signal.
            is_complete = !self.form.replaces && new.exists();
        }
        if !is_complete {
            self.run(&flags, &new)?;
        }
        let output = Output::read(&new)?;
        Ok((new, output))
    }

    fn clean(&mut self, flags: &[&str], output: &Path) -> Result<(), Failure> {
        self.seen = self.net.journal().events.len();
        self.run(flags, output)
    }

    fn run(&self, flags: &[&str], output: &Path) -> Result<(), Failure> {
        let finished = process::run(self.command(flags, output), "", self.world.folder(), RUN_LIMIT)?;
        finished.success("mailprobe clean").map(drop)
    }

    fn command(&self, flags: &[&str], output: &Path) -> Command {
        let mut command = clean_command(self.world, &self.net, true);
        command.args(flags).arg("-o").arg(output).arg("--state").arg(&self.state);
        command
    }

    /// Starts a run and stops it; false if it was complete before.
    fn stopped(
        &self,
        flags: &[&str],
        output: &Path,
        after: Duration,
        signal: Signal,
    ) -> Result<bool, Failure> {
        let log = self.world.path(&format!("{}.log", self.n));
        let mut process = ServerProcess::start("mailprobe clean", self.command(flags, output), &log)?;
        let began = Instant::now();
        let stopped = watch(&mut process, RUN_LIMIT, |process| {
            if began.elapsed() < after || process.ended()?.is_some() {
                return Ok(None);
            }
            process.end_by(signal, RUN_LIMIT).map(Some)
        })?;
        match stopped {
            Some(status) if status.signal() == Some(signal.as_raw()) => Ok(true),
            Some(status) if !status.success() => Err(process.complain(&format!("ended: {status}"))),
            _ => Ok(false),
        }
    }

    /// The recipients of the last run, and whether one of their replies was permanent or positive.
    fn asked(&self) -> HashMap<String, bool> {
        self.asked_since(self.seen)
    }

    fn asked_since(&self, first: usize) -> HashMap<String, bool> {
        let mut asked = HashMap::new();
        for event in self.net.journal().events.into_iter().skip(first) {
            if let What::Rcpt { address, code, .. } = event.what {
                *asked.entry(address.to_lowercase()).or_default() |= matches!(code, 200..300 | 500..600);
            }
        }
        asked
    }

    /// Whether a later check may tell more about a row.
    fn is_open(&self, row: &OutputRow, n: u64) -> bool {
        row.reason == "unverifiable" && !self.list.address(n).to_lowercase().ends_with(BLOCKED)
    }

    /// The numbers of the open rows.
    fn open(&self, output: &Output) -> Vec<u64> {
        (0_u64..).zip(&output.rows).filter(|(n, row)| self.is_open(row, *n)).map(|(n, _)| n).collect()
    }

    /// Judges a round, and returns the number of addresses of the list that were asked about.
    fn judge(&self, old: &Output, new: &Output) -> Result<usize, String> {
        let (asked, kept) = (self.asked(), self.asked_since(self.kept));
        let mut faults = Vec::new();
        if (old.rows.len(), &old.header) != (new.rows.len(), &new.header) {
            return Err(format!("{} rows of {}, header {}", new.rows.len(), old.rows.len(), new.header));
        }
        let open: HashSet<String> =
            self.open(old).into_iter().map(|n| self.list.address(n).to_lowercase()).collect();
        let mut of_list = 0;
        let addresses: HashSet<String> =
            (0..self.list.lines).map(|n| self.list.address(n).to_lowercase()).collect();
        for address in asked.keys().filter(|address| addresses.contains(*address)) {
            of_list += 1;
            if !open.contains(address) {
                faults.push(format!("{address} is not open, and is asked about"));
            }
        }
        for (n, (old, new)) in (0_u64..).zip(old.rows.iter().zip(&new.rows)) {
            let address = self.list.address(n).to_lowercase();
            if !self.is_open(old, n) {
                if old.text != new.text {
                    faults.push(format!("{} became {}", old.text, new.text));
                }
                continue;
            }
            if old.own() != new.own() {
                faults.push(format!("{} became {}", old.own(), new.own()));
            }
            let expected = self.list.reason(n);
            let is_answered = kept.get(&address).copied().unwrap_or(false) && !address.ends_with(BLOCKED);
            if new.reason != expected && (is_answered || new.reason != "unverifiable") {
                faults.push(format!("{address} is {}, not {expected}", new.reason));
            }
        }
        if faults.is_empty() { Ok(of_list) } else { shown(String::new(), &faults).map(|_| of_list) }
    }
}

/// The outcome of a check with these faults.
fn shown(figures: String, faults: &[String]) -> RetryOutcome {
    let first: Vec<&str> = faults.iter().take(SHOWN).map(String::as_str).collect();
    if faults.is_empty() {
        Ok(figures)
    } else {
        Err(format!("{figures} {} faults: {}", faults.len(), first.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_every_kind_of_row() {
        for lines in LINES {
            let list = ListRows::new(1, lines, SCENARIO, domain).unwrap();
            let addresses: Vec<String> = (0..lines).map(|n| list.address(n).to_lowercase()).collect();
            for kind in ["@spent.", "@grey-", "@down-", "@all.", "@blocked.", "nonsense"] {
                let count = addresses.iter().filter(|address| address.contains(kind)).count();
                assert!(count > 2, "{count} rows of {kind}");
            }
            let reasons: HashSet<&str> = (0..lines).map(|n| list.reason(n)).collect();
            assert!(reasons.len() >= 7, "{reasons:?}");
        }
    }
}
