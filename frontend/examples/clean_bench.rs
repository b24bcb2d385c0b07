//! A measurement of the cost of a line in `mailprobe clean` without the engine: reading, parsing, duplicates, waiting
//! rows, writing.
//!
//! ```text
//! cargo run --release --package frontend --example clean_bench -- [LINES] [DUPLICATES] [FOLDER] [FLAGS...]
//! ```
//! LINES (default 1,000,000) is the number of rows of a CSV, DUPLICATES (default 10) the percentage of rows with an
//! earlier address. An address is answered as soon as 50,000 others were submitted after it. FLAGS: unordered, stuck
//! (the first row is answered last, so that all others wait for it on the disk), gz (the list is compressed),
//! parts=N (the list in N parts, one after another, and then their join), input=FILE (this list, of LINES rows),
//! columns=LIST, split, report (as the options of these names), xlsx (the output is a spreadsheet).

use clean::{Answered, Checker, CleanArgs, CleanError, Job, ListPart, OutputArgs, Summary};
use engine::Refusal;
use engine::proto::address::Address;
use flate2::write::GzEncoder;
use std::collections::VecDeque;
use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, Instant};

const UNDER_WAY: usize = 50_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let lines: u64 = args.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let duplicates: u64 = args.next().map_or(Ok(10), |text| text.parse())?;
    let temporary = tempfile::tempdir()?;
    let folder = args.next().map_or_else(|| temporary.path().to_owned(), Into::into);
    let flags: Vec<String> = args.collect();
    let has = |flag: &str| flags.iter().any(|given| given == flag);
    let output = if has("xlsx") { "clean_bench.out.xlsx" } else { "clean_bench.out.csv" };
    let (input, output) = (folder.join("clean_bench.csv"), folder.join(output));
    let columns = flags.iter().find_map(|flag| flag.strip_prefix("columns="));
    let given = flags.iter().find_map(|flag| flag.strip_prefix("input="));
    write_list(&input, lines, duplicates, has("gz"))?;

    let list = CleanArgs {
        input: given.map_or_else(|| input.clone(), Into::into),
        output: Some(output.clone()),
        format: None,
        column: Vec::new(),
        sheet: None,
        fast: false,
        max_wait: 0,
        max_outage: 0,
        unordered: has("unordered"),
        compress: None,
        summary: None,
        memory: 96,
        resume: false,
        part: None,
        join: false,
        no_progress: true,
        writing: OutputArgs {
            columns: columns.into_iter().flat_map(|list| list.split(',')).map(str::to_owned).collect(),
            split: has("split"),
            report: has("report").then(|| folder.join("clean_bench.html")),
            ..OutputArgs::default()
        },
        silence: Duration::from_secs(55),
    };
    let mut written = vec![input, output.clone()];
    let mut checker = Instantly { asked: VecDeque::new(), held: None, hold: has("stuck") };
    match flags.iter().find_map(|flag| flag.strip_prefix("parts=")) {
        None => measure("one run", lines, || Job::open(list)?.run(&mut checker))?,
        Some(count) => {
            let count: u32 = count.parse()?;
            for index in 0..count {
                let part = CleanArgs { part: Some(ListPart::new(index, count)?), ..list.clone() };
                measure(&format!("part {index}"), lines, || Job::open(part)?.run(&mut checker))?;
                written.push(format!("{}.part-{index}-of-{count}", output.display()).into());
            }
            measure("join", lines, || Job::open(CleanArgs { join: true, ..list })?.join())?;
        }
    }
    for class in ["deliverable", "undeliverable", "unknown"] {
        written.push(folder.join(format!("clean_bench.out.{class}.csv")));
    }
    written.push(folder.join("clean_bench.html"));
    for path in written.into_iter().filter(|path| path.exists()) {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// Does the work and prints its cost. The peak of memory is that of the process so far.
fn measure(
    name: &str,
    lines: u64,
    work: impl FnOnce() -> Result<Summary, CleanError>,
) -> Result<(), Box<dyn Error>> {
    let (cpu, began) = (cpu_seconds()?, Instant::now());
    let summary = work()?;
    let (cpu, wall) = (cpu_seconds()? - cpu, began.elapsed().as_secs_f64());
    let status = fs::read_to_string("/proc/self/status")?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default().trim();
    writeln!(
        std::io::stdout(),
        "{name}: {} of {lines} lines, {} duplicates: {:.3} us of CPU a line of the list, {wall:.2} s, {resident} at most",
        summary.total(),
        summary.duplicates,
        cpu * 1e6 / lines as f64
    )?;
    Ok(())
}

fn write_list(path: &Path, lines: u64, duplicates: u64, packed: bool) -> Result<(), Box<dyn Error>> {
    let file = BufWriter::new(File::create(path)?);
    let level = if packed { flate2::Compression::default() } else { flate2::Compression::none() };
    let mut out: Box<dyn Write> = if packed { Box::new(GzEncoder::new(file, level)) } else { Box::new(file) };
    writeln!(out, "id,email,name")?;
    let mut random = fastrand::Rng::with_seed(1);
    for n in 0..lines {
        let who = if n > 0 && random.u64(0..100) < duplicates { random.u64(0..n) } else { n };
        writeln!(out, "{n},user.{who}@domain-{}.example,Name {who}", who % 5003)?;
    }
    out.flush()?;
    Ok(())
}

/// The CPU time of this thread in seconds.
fn cpu_seconds() -> Result<f64, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds: f64 = text.split(' ').next().unwrap_or_default().parse()?;
    Ok(nanoseconds / 1e9)
}

/// Answers all addresses except the last submitted ones, and the first address at the end.
struct Instantly {
    asked: VecDeque<u64>,
    held: Option<u64>,
    hold: bool,
}

impl Checker for Instantly {
    fn submit(&mut self, ticket: u64, _address: Address) -> Result<(), Refusal> {
        if std::mem::take(&mut self.hold) {
            self.held = Some(ticket);
        } else {
            self.asked.push_back(ticket);
        }
        Ok(())
    }

    fn answers(&mut self, patience: Duration, into: &mut Vec<Answered>) {
        let count = if patience.is_zero() { self.asked.len().saturating_sub(UNDER_WAY) } else { 1024 };
        let result = Ok(api::Reason::MailboxExists);
        let answer = |ticket| Answered { rule: "bench", ..Answered::new(ticket, result) };
        into.extend(self.asked.drain(..count.min(self.asked.len())).map(answer));
        if into.is_empty() && !patience.is_zero() {
            into.extend(self.held.take().map(answer));
        }
    }

    fn answer_count(&self) -> u64 {
        0
    }

    fn recall(&mut self) {}

    fn resolvers(&self) -> &str {
        ""
    }
}
