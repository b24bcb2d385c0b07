//! `soak parts`: a list in three parts, each killed once and resumed, and their join.
//!
//! The list has duplicates in other letter case, rows without an address, values with quotes and line ends, a large free
//! provider with addresses in all parts, greylisted addresses, and a domain with a dead host. The campaign cleans it in one run.
//! Then it cleans three parts one after another: it kills each with SIGKILL at a random moment, and resumes it. A mailnet of
//! its own counts the recipients of each run. The campaign checks:
//! - one run asks about each of its addresses exactly once; about a greylisted one twice;
//! - a resumed run asks about no address more often, and about none of which a row was written before the kill;
//! - each row is in one part, and no address is in two parts;
//! - the join of the parts is the output of the one run, byte for byte, with the verdicts that mailnet expects;
//! - a part that is complete and started again asks nobody;
//! - memory stays below its limit, and no temporary file is left.

use super::{ListSize, LongList};
use crate::failure::{Context, Failure, ensure};
use crate::interop::report::{self, Tally};
use crate::soak::list_output::{BESIDE, length};
use crate::soak::options::SoakOptions;
use crate::soak::world::{CampaignFolder, Mailnet, polite};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// The small version has the wait and the limit of `soak list`.
fn size(small: bool) -> ListSize {
    let size = ListSize::of(small);
    if small {
        return ListSize { domains: 15, ..size };
    }
    ListSize { domains: 1000, limit: Duration::from_secs(2 * 3600), max_wait: "10", ..size }
}

const PARTS: u64 = 3;
/// The number of greylisted domains.
const GREY: u64 = 3;

fn scenario(domains: u64) -> String {
    include_str!("../../../soak/scenarios/parts.toml").replace("DOMAINS", &domains.to_string())
}

/// The domain of a row. Greylisted and dead domains are in the second half: in order, later rows wait for them, and a kill in the
/// first half has rows before it and after it.
fn domain(draw: u64, n: u64, size: ListSize) -> String {
    let ListSize { lines, domains, .. } = size;
    match draw % 200 {
        0..=3 if n > lines / 2 => format!("grey-{}.example", 1 + n % GREY),
        4..=5 if n > lines / 2 => "dead.example".to_owned(),
        6..=25 => "gmail.com".to_owned(),
        other if other % 2 == 0 => format!("full-{}.example", 1 + (other + n) % domains),
        other => format!("empty-{}.example", 1 + (other + n) % domains),
    }
}

/// How often a host must be asked about an address in a run; 2 stands for twice or more: greylisting may need more tries.
fn times(address: &str) -> u32 {
    match address.rsplit_once('@') {
        Some((_, "dead.example")) => 0,
        Some((_, domain)) if domain.starts_with("grey-") => 2,
        _ => 1,
    }
}

/// Runs the campaign and counts its checks.
pub fn run(options: &SoakOptions, tally: &mut Tally) -> Result<(), Failure> {
    let size = size(options.small);
    let seed = options.seed();
    report::line(&format!("parts: seed {seed}, {} lines in {PARTS} parts, one kill in each", size.lines));
    let world = CampaignFolder::make(options)?;
    let mut campaign = PartsCampaign {
        list: LongList::write(&world, size, seed, scenario(size.domains), domain)?,
        random: fastrand::Rng::with_seed(seed),
        part_of: HashMap::new(),
        came: vec![false; size.lines as usize],
    };
    tally.check("one run", campaign.whole());
    for index in 0..PARTS {
        tally.check(&format!("part {index} of {PARTS}"), campaign.part(index));
    }
    tally.check("each row in one part", campaign.all_rows());
    tally.check("a complete part, started again", campaign.again());
    tally.check("the join is the output of one run", campaign.join());
    Ok(())
}

struct PartsCampaign<'a> {
    list: LongList<'a>,
    random: fastrand::Rng,
    /// The part of each address, by its hash.
    part_of: HashMap<u64, u64>,
    /// Whether a row was found in a part.
    came: Vec<bool>,
}

/// The number of recipients by the number of times that they were asked about. 2 stands for all larger numbers too.
type Asked = BTreeMap<u32, u64>;
type Outcome = Result<String, String>;

impl PartsCampaign<'_> {
    /// Cleans the list in one run.
    fn whole(&mut self) -> Outcome {
        let (began, mut peak) = (Instant::now(), 0);
        let output = self.list.output("whole.csv", 0);
        let asked = self.run(&output.path, &[], &mut peak)?;
        let rows = output.rows(&output.path)?;
        let expected = self.expected(rows.iter().copied(), &HashMap::new());
        equal("rows", rows.len() as u64, self.list.size.lines)?;
        equal("recipients by the number of questions", asked, expected.0)?;
        self.list.in_memory(peak)?;
        Ok(format!("{} rows, {} addresses, {}", rows.len(), expected.1.len(), costs(began, peak)))
    }

    /// Cleans a part, with a kill.
    fn part(&mut self, index: u64) -> Outcome {
        let (began, mut peak) = (Instant::now(), 0);
        let (flag, summary) = (format!("{index}/{PARTS}"), self.list.summary_path());
        let output = self.list.output(&format!("out.csv.part-{index}-of-{PARTS}"), 1);
        let (named, partial) = (self.list.world.path("out.csv"), output.beside(".partial"));
        // Both ends of the file say too little: the first and the last rows.
        let about = length(&self.list.world.path("whole.csv")) / PARTS;
        let kill_at = self.random.u64(about / 20..about * 3 / 10);
        let mailnet = self.list.world.mailnet(&self.list.scenario)?;
        let mut run = self.list.start(&mailnet, &named, &["--part", &flag])?;
        let killed = self.list.watch(&mut run, &mut peak, |run| {
            if length(&partial) > kill_at { run.kill().map(Some) } else { Ok(None) }
        })?;
        ensure!(killed.is_some(), "the run ended before its kill");
        drop(mailnet);
        let before = output.rows(&partial).about("after the kill")?;

        let flags = ["--part", &flag, "--resume", "--summary", &summary];
        let asked = self.run(&named, &flags, &mut peak)?;
        let rows = output.rows(&output.path)?;
        let known = self.expected(before.iter().copied(), &HashMap::new()).1;
        let (expected, addresses) = self.expected(rows.iter().copied(), &known);
        self.take(index, &rows)?;
        is_at_most(&asked, &expected)?;
        let (summary, before) = (self.list.summary(), before.len());
        // The run may have had results that it had not written yet.
        let [resumed, unwritten] = ["resumed", "resumed_results"].map(|name| summary[name].as_u64());
        let written = resumed.zip(unwritten).and_then(|(resumed, unwritten)| resumed.checked_sub(unwritten));
        equal("rows before the kill in the summary", written, Some(before as u64))?;
        equal("rows in the summary", summary["rows"].as_u64(), Some(rows.len() as u64))?;
        self.list.in_memory(peak)?;
        let (asked, costs) = (addresses.len(), costs(began, peak));
        Ok(format!("{before} of {} rows before the kill, {asked} addresses after it, {costs}", rows.len()))
    }

    /// Notes the rows of a part and their addresses.
    fn take(&mut self, index: u64, rows: &[u64]) -> Result<(), String> {
        for &n in rows {
            ensure!(!std::mem::replace(&mut self.came[n as usize], true), "row {n} is twice in the parts");
            if let Some((key, _)) = self.address(n)
                && *self.part_of.entry(key).or_insert(index) != index
            {
                return Err(format!("the address of row {n} is in two parts"));
            }
        }
        Ok(())
    }

    fn all_rows(&self) -> Outcome {
        let missing = self.came.iter().filter(|came| !**came).count();
        equal("missing rows", missing, 0)?;
        Ok(format!("{} addresses, none of them in two parts", self.part_of.len()))
    }

    /// Starts a complete part again.
    fn again(&self) -> Outcome {
        let file = self.list.world.path(&format!("out.csv.part-0-of-{PARTS}"));
        let inode =
            |file: &Path| fs::metadata(file).ok().map(|data| std::os::unix::fs::MetadataExt::ino(&data));
        let before = inode(&file);
        let asked = self.run(&self.list.world.path("out.csv"), &["--part", "0/3", "--resume"], &mut 0)?;
        equal("recipients", asked, Asked::new())?;
        equal("inodes of the file", inode(&file), before)?;
        Ok("nobody is asked".to_owned())
    }

    fn join(&self) -> Outcome {
        let (began, mut peak) = (Instant::now(), 0);
        let [whole, joined] = ["whole.csv", "out.csv"].map(|name| self.list.world.path(name));
        let asked = self.run(&joined, &["--join"], &mut peak)?;
        let took = costs(began, peak);
        equal("recipients", asked, Asked::new())?;
        let compared = Command::new("cmp").arg("--silent").arg(&whole).arg(&joined).status().about("cmp")?;
        equal("the same bytes", compared.success(), true)?;
        equal("temporary files", self.left_behind()?, Vec::new())?;
        self.list.in_memory(peak)?;
        Ok(took)
    }

    /// Makes a run to its end, with a mailnet of its own, which counts the recipients.
    fn run(&self, output: &Path, flags: &[&str], peak: &mut u64) -> Result<Asked, String> {
        let mailnet = self.list.world.mailnet(&self.list.scenario)?;
        let mut run = self.list.start(&mailnet, output, flags)?;
        self.list.watch(&mut run, peak, |_| Ok(None::<()>))?;
        asked(mailnet)
    }

    /// The hash of the address of a row, and how often it must be asked about; `None` if there is no address.
    fn address(&self, n: u64) -> Option<(u64, u32)> {
        let address = self.list.rows.address(n).to_lowercase();
        let mut hasher = DefaultHasher::new();
        address.hash(&mut hasher);
        address.contains('@').then(|| (hasher.finish(), times(&address)))
    }

    /// The questions that a run must ask about the addresses of these rows, without those that are known already, and these
    /// addresses.
    fn expected(
        &self,
        rows: impl Iterator<Item = u64>,
        known: &HashMap<u64, u32>,
    ) -> (Asked, HashMap<u64, u32>) {
        let addresses: HashMap<u64, u32> =
            rows.filter_map(|n| self.address(n)).filter(|(key, _)| !known.contains_key(key)).collect();
        let mut asked = Asked::new();
        for &times in addresses.values().filter(|times| **times > 0) {
            *asked.entry(times).or_default() += 1;
        }
        (asked, addresses)
    }

    fn left_behind(&self) -> Result<Vec<String>, Failure> {
        let folder = self.list.world.folder();
        let entries = fs::read_dir(folder).at(folder)?;
        let names = entries.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()));
        let is_temporary =
            |name: &String| name.contains(".csv") && BESIDE.iter().any(|end| name.ends_with(end));
        Ok(names.filter(is_temporary).collect())
    }
}

/// Ends a mailnet and returns its counts of recipients; an error if the client broke a rule of the protocols.
fn asked(mailnet: Mailnet) -> Result<Asked, String> {
    let counters = mailnet.stop()?;
    let recipients = counters.get("recipients").and_then(Value::as_object);
    let mut asked = Asked::new();
    for (times, count) in recipients.into_iter().flatten() {
        let times: u32 = times.parse().map_err(|_| Failure(format!("mailnet counts strangely: {times}")))?;
        *asked.entry(times.min(2)).or_default() += count.as_u64().unwrap_or_default();
    }
    polite(&counters).map(|_| asked)
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found:?}, not {expected:?}")) }
}

/// An error if more recipients were asked about than expected, or one was more often. The results of some were in OUT.results.
fn is_at_most(asked: &Asked, expected: &Asked) -> Result<(), String> {
    let is_too_many = |(times, count): (&u32, &u64)| *count > expected.get(times).copied().unwrap_or(0);
    let is_right = !asked.iter().any(is_too_many);
    ensure!(is_right, "recipients by the number of questions: {asked:?}, at most {expected:?}");
    Ok(())
}

fn costs(began: Instant, peak: u64) -> String {
    format!("{:.1} s, {} MiB resident", began.elapsed().as_secs_f64(), peak / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_what_makes_it_hard() {
        let expected = [("@grey-", 20), ("@dead.", 10), ("@gmail.", 250)];
        let (size, scenario) = (size(true), scenario(size(true).domains));
        super::super::tests::hard(&scenario, size, domain, 8000..13_000, &expected);
    }

    #[test]
    fn a_resumed_run_asks_no_more_than_expected() {
        let expected = Asked::from([(1, 10), (2, 3)]);
        assert!(is_at_most(&Asked::from([(1, 8), (2, 3)]), &expected).is_ok());
        assert!(is_at_most(&Asked::from([(1, 11)]), &expected).is_err());
        assert!(is_at_most(&Asked::from([(1, 9), (3, 1)]), &expected).is_err());
    }
}
