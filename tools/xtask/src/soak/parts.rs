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

use super::list_output::{BESIDE, length};
use super::list_rows::{CLEANED_HEADER, ListRows, next_row, wrong};
use super::options::SoakOptions;
use super::peers::watch;
use super::world::{CampaignFolder, Mailnet, polite};
use crate::failure::Failure;
use crate::interop::process::ServerProcess;
use crate::interop::report::{self, Tally};
use mailnet::Scenario;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

struct PartsSize {
    lines: u64,
    domains: u64,
    /// The time limit of a run.
    limit: Duration,
    /// The limits in MiB: of rows and addresses, and of the whole process.
    memory: &'static str,
    resident_kib_max: u64,
    max_wait: &'static str,
}

const FULL: PartsSize = PartsSize {
    lines: 10_000_000,
    domains: 1000,
    limit: Duration::from_secs(2 * 3600),
    memory: "96",
    resident_kib_max: 300 * 1024,
    max_wait: "10",
};
const SMALL: PartsSize = PartsSize {
    lines: 20_000,
    domains: 15,
    limit: Duration::from_secs(120),
    memory: "1",
    resident_kib_max: u64::MAX,
    max_wait: "2",
};

const PARTS: u64 = 3;
/// The number of greylisted domains. By the rule of parts, each part has one of them. So no run ends before the kill: it waits
/// until a greylisted row is tried again.
const GREY: u64 = 3;

/// At a domain, all mailboxes exist or none: if only some exist, the engine asks about an existing one again, to prove a refusal.
fn scenario(domains: u64) -> String {
    let calm = "server = { personality = \"calm\", latency_ms = [0, 5] }";
    format!(
        "seed = 5\nrecipients = \"user-#\"\n\
         [[personality]]\nname = \"calm\"\nlike = \"generic\"\nehlo = [\"PIPELINING\"]\n\
         [[group]]\nname = \"full-{{n}}.example\"\ncount = {domains}\nmailboxes.ok = [\"user-#\"]\n{calm}\n\
         [[group]]\nname = \"empty-{{n}}.example\"\ncount = {domains}\n{calm}\n\
         [[domain]]\nname = \"gmail.com\"\nmailboxes.ok = [\"user-#\"]\n{calm}\n\
         [[group]]\nname = \"grey-{{n}}.example\"\ncount = {GREY}\nmailboxes.greylisted = [\"user-#\"]\ngreylist_ms = 1000\n\
         [[host]]\nname = \"mx.dead.example\"\nstate = \"refused\"\n\
         [[domain]]\nname = \"dead.example\"\nmx = [\"10 mx.dead.example\"]\n"
    )
}

/// The domain of a row. Greylisted and dead domains are in the second half: in order, later rows wait for them, and a kill in the
/// first half has rows before it and after it.
fn domain(draw: u64, n: u64, lines: u64, domains: u64) -> String {
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

/// Runs the campaign and returns the counts of its checks.
pub fn run(options: &SoakOptions) -> Result<Tally, Failure> {
    let size = if options.small { &SMALL } else { &FULL };
    let seed = options.seed();
    report::line(&format!("parts: seed {seed}, {} lines in {PARTS} parts, one kill in each", size.lines));
    let world = CampaignFolder::make(options)?;
    let text = scenario(size.domains);
    let scenario = Scenario::parse(&text).map_err(|error| Failure(format!("the scenario: {error}")))?;
    let list = rows(seed, size, scenario);
    let input = world.path("list.csv");
    list.write(&input)?;
    let mut campaign = PartsCampaign {
        world: &world,
        size,
        list: &list,
        text: &text,
        input: &input,
        random: fastrand::Rng::with_seed(seed),
        part_of: HashMap::new(),
        came: vec![false; size.lines as usize],
    };
    let mut tally = Tally::default();
    tally.check("one run", campaign.whole());
    for index in 0..PARTS {
        tally.check(&format!("part {index} of {PARTS}"), campaign.part(index));
    }
    tally.check("each row in one part", campaign.all_rows());
    tally.check("a complete part, started again", campaign.again());
    tally.check("the join is the output of one run", campaign.join());
    Ok(tally)
}

fn rows(seed: u64, size: &PartsSize, scenario: Scenario) -> ListRows {
    let PartsSize { lines, domains, .. } = *size;
    ListRows { seed, lines, domain: Box::new(move |draw, n| domain(draw, n, lines, domains)), scenario }
}

struct PartsCampaign<'a> {
    world: &'a CampaignFolder,
    size: &'static PartsSize,
    list: &'a ListRows,
    text: &'a str,
    input: &'a Path,
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
        let began = Instant::now();
        let mailnet = self.mailnet()?;
        let mut run = self.start(&mailnet, "whole.csv", &[])?;
        let peak = self.watch(&mut run, None)?;
        let asked = asked(mailnet)?;
        let rows = self.rows(&self.world.path("whole.csv"), 0)?;
        let expected = self.expected(rows.iter().copied(), &HashMap::new());
        equal("rows", rows.len() as u64, self.size.lines)?;
        equal("recipients by the number of questions", asked, expected.0)?;
        self.in_memory(peak)?;
        Ok(format!("{} rows, {} addresses, {}", rows.len(), expected.1.len(), costs(began, peak)))
    }

    /// Cleans a part, with a kill.
    fn part(&mut self, index: u64) -> Outcome {
        let began = Instant::now();
        let flag = format!("{index}/{PARTS}");
        let file = self.world.path(&format!("out.csv.part-{index}-of-{PARTS}"));
        let partial = with_ending(&file, ".partial");
        // Both ends of the file say too little: the first and the last rows.
        let about = fs::metadata(self.world.path("whole.csv")).map_err(|e| wrong(&file, &e))?.len() / PARTS;
        let kill_at = self.random.u64(about / 20..about * 3 / 10);
        let mailnet = self.mailnet()?;
        let mut run = self.start(&mailnet, "out.csv", &["--part", &flag])?;
        let peak = self.watch(&mut run, Some((&partial, kill_at)))?;
        if run.ended()?.is_some_and(|status| status.success()) {
            return Err("the run ended before its kill".to_owned());
        }
        drop(mailnet);
        let before = self.rows(&partial, 1).map_err(|error| format!("after the kill: {error}"))?;

        let mailnet = self.mailnet()?;
        let summary = self.world.path("summary.json");
        let summary_path = summary.to_string_lossy();
        let mut run =
            self.start(&mailnet, "out.csv", &["--part", &flag, "--resume", "--summary", &summary_path])?;
        let peak = self.watch(&mut run, None)?.max(peak);
        let asked = asked(mailnet)?;
        let rows = self.rows(&file, 1)?;
        let known = self.expected(before.iter().copied(), &HashMap::new()).1;
        let (expected, addresses) = self.expected(rows.iter().copied(), &known);
        self.take(index, &rows)?;
        is_at_most(&asked, &expected)?;
        equal("rows before the kill in the summary", number(&summary, "resumed"), before.len() as u64)?;
        equal("rows in the summary", number(&summary, "rows"), rows.len() as u64)?;
        self.in_memory(peak)?;
        let (before, asked, costs) = (before.len(), addresses.len(), costs(began, peak));
        Ok(format!("{before} of {} rows before the kill, {asked} addresses after it, {costs}", rows.len()))
    }

    /// Notes the rows of a part and their addresses.
    fn take(&mut self, index: u64, rows: &[u64]) -> Result<(), String> {
        for &n in rows {
            if std::mem::replace(&mut self.came[n as usize], true) {
                return Err(format!("row {n} is twice in the parts"));
            }
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
        let mailnet = self.mailnet()?;
        let file = self.world.path(&format!("out.csv.part-0-of-{PARTS}"));
        let inode =
            |file: &Path| fs::metadata(file).ok().map(|data| std::os::unix::fs::MetadataExt::ino(&data));
        let before = inode(&file);
        let mut run = self.start(&mailnet, "out.csv", &["--part", "0/3", "--resume"])?;
        self.watch(&mut run, None)?;
        equal("recipients", asked(mailnet)?, Asked::new())?;
        equal("inodes of the file", inode(&file), before)?;
        Ok("nobody is asked".to_owned())
    }

    fn join(&self) -> Outcome {
        let began = Instant::now();
        let mailnet = self.mailnet()?;
        let mut run = self.start(&mailnet, "out.csv", &["--join"])?;
        let peak = self.watch(&mut run, None)?;
        let took = costs(began, peak);
        let asked = asked(mailnet)?;
        let (whole, joined) = (self.world.path("whole.csv"), self.world.path("out.csv"));
        let same = is_same(&whole, &joined)?;
        let left = self.left_behind()?;
        equal("recipients", asked, Asked::new())?;
        equal("the same bytes", same, true)?;
        equal("temporary files", left, Vec::new())?;
        self.in_memory(peak)?;
        Ok(took)
    }

    fn mailnet(&self) -> Result<Mailnet, Failure> {
        self.world.mailnet(self.text)
    }

    fn start(&self, mailnet: &Mailnet, output: &str, more: &[&str]) -> Result<ServerProcess, Failure> {
        let (input, output) = (self.input.to_string_lossy(), self.world.path(output));
        let output = output.to_string_lossy();
        let mut arguments = vec![&*input, "-o", &*output, "--memory", self.size.memory];
        if !more.contains(&"--join") {
            arguments.extend(["--max-wait", self.size.max_wait]);
        }
        arguments.extend(more);
        self.world.clean(mailnet, &arguments)
    }

    /// Waits for the end of a run, or kills it when this file has this many bytes. Returns its greatest resident memory in KiB.
    fn watch(&self, run: &mut ServerProcess, kill: Option<(&Path, u64)>) -> Result<u64, Failure> {
        let mut peak = 0;
        watch(run, self.size.limit, |run| {
            peak = run.resident_kib().unwrap_or(0).max(peak);
            match kill {
                Some((path, bytes)) if length(path) > bytes => run.kill().map(Some),
                _ => Ok(None),
            }
        })?;
        Ok(peak)
    }

    /// The numbers of the complete rows of an output file, after `titles` lines and the header. Each must be the row that mailnet
    /// expects, and they must be in order.
    fn rows(&self, path: &Path, titles: usize) -> Result<Vec<u64>, String> {
        let failed = |error: std::io::Error| wrong(path, &error);
        let file = File::open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        let mut input = BufReader::new(file);
        let (mut row, mut rows, mut passed) = (String::new(), Vec::new(), 0);
        for _ in 0..titles {
            passed += input.read_line(&mut row).map_err(failed)? as u64;
        }
        let mut has_header = false;
        while next_row(&mut input, &mut row).map_err(failed)? {
            passed += row.len() as u64 + 1;
            // A kill may have cut the last row.
            if passed > length {
                break;
            }
            if !std::mem::replace(&mut has_header, true) {
                if row != CLEANED_HEADER {
                    return Err(format!("a strange header: {row}"));
                }
                continue;
            }
            match self.list.number(&row) {
                Some(n) if self.list.cleaned(n) == row && rows.last().is_none_or(|&last| last < n) => {
                    rows.push(n)
                }
                Some(n) if self.list.cleaned(n) != row => {
                    return Err(format!("{row}, not {}", self.list.cleaned(n)));
                }
                _ => return Err(format!("not in order: {row}")),
            }
        }
        Ok(rows)
    }

    /// The hash of the address of a row, and how often it must be asked about; `None` if there is no address.
    fn address(&self, n: u64) -> Option<(u64, u32)> {
        let address = self.list.address(n).to_lowercase();
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

    fn in_memory(&self, peak: u64) -> Result<(), String> {
        let most = self.size.resident_kib_max;
        if peak > most { Err(format!("{peak} KiB resident, {most} at most")) } else { Ok(()) }
    }

    fn left_behind(&self) -> Result<Vec<String>, Failure> {
        let folder = self.world.folder();
        let entries = fs::read_dir(folder).map_err(|e| wrong(folder, &e))?;
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
    match asked.iter().any(is_too_many) {
        true => Err(format!("recipients by the number of questions: {asked:?}, at most {expected:?}")),
        false => Ok(()),
    }
}

fn costs(began: Instant, peak: u64) -> String {
    format!("{:.1} s, {} MiB resident", began.elapsed().as_secs_f64(), peak / 1024)
}

/// A number of a summary in JSON.
fn number(summary: &Path, name: &str) -> u64 {
    let json = fs::read(summary).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
    json.and_then(|json| json.get(name).and_then(Value::as_u64)).unwrap_or(u64::MAX)
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Whether two files have the same contents.
fn is_same(one: &Path, other: &Path) -> Result<bool, Failure> {
    let open = |path: &Path| File::open(path).map(BufReader::new).map_err(|e| wrong(path, &e));
    let (mut first, mut second) = (open(one)?, open(other)?);
    loop {
        let (a, b) =
            (first.fill_buf().map_err(|e| wrong(one, &e))?, second.fill_buf().map_err(|e| wrong(other, &e))?);
        let length = a.len().min(b.len());
        if a[..length] != b[..length] || (length == 0 && a.len() != b.len()) {
            return Ok(false);
        }
        if length == 0 {
            return Ok(true);
        }
        first.consume(length);
        second.consume(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_what_makes_it_hard() {
        let scenario = Scenario::parse(&scenario(SMALL.domains)).unwrap();
        let list = rows(1, &SMALL, scenario);
        let cleaned: Vec<String> = (8000..13_000).map(|n| list.cleaned(n)).collect();
        let count = |part: &str| cleaned.iter().filter(|line| line.contains(part)).count();
        assert!(count("invalid_syntax") > 50 && count("two\nlines") > 50 && count("USER-") > 250);
        assert!(
            count("@grey-") > 20
                && count("@dead.") > 10
                && count("unverifiable") > 10
                && count("@gmail.") > 250
        );
        assert!(count("true,mailbox_exists") > 1000 && count("mailbox_not_found") > 1000);
    }

    #[test]
    fn a_resumed_run_asks_no_more_than_expected() {
        let expected = Asked::from([(1, 10), (2, 3)]);
        assert!(is_at_most(&Asked::from([(1, 8), (2, 3)]), &expected).is_ok());
        assert!(is_at_most(&Asked::from([(1, 11)]), &expected).is_err());
        assert!(is_at_most(&Asked::from([(1, 9), (3, 1)]), &expected).is_err());
    }

    #[test]
    fn files_are_compared_to_their_ends() {
        let folder = tempfile::TempDir::new().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            fs::write(folder.path().join(name), bytes).unwrap();
            folder.path().join(name)
        };
        let long = vec![b'x'; 100_000];
        let one = file("one", &long);
        assert!(is_same(&one, &file("same", &long)).unwrap());
        assert!(!is_same(&one, &file("shorter", &long[1..])).unwrap());
        assert!(!is_same(&one, &file("other", &[&long[1..], b"y"].concat())).unwrap());
    }
}
