//! `soak timeleft`: the time left that `mailprobe clean` shows on a terminal, beside the time that it takes.
//!
//! Twenty runs, all at once: domains at an even pace, of different sizes, dead and silent ones in the first rows, greylisting, and
//! a spent budget of refused recipients (kinds.rs). Each has a terminal and a mail internet of its own. The campaign reads the line
//! every second. judge.rs compares it with the end of the run and with mailnet's journal:
//! - from a tenth of the verdicts on, by the replies and by the line, the median of |stated - true| / max(true, 10 s) is at most
//!   30 %, in all runs but two;
//! - no statement is withheld for more than 5 s;
//! - no statement is below a delay that the program knows: the time until an address is due, or until a budget is free;
//! - while the program waits for such an address, the line names a domain that it waits for.
//!
//! The small version prints the first two figures and does not judge them: it runs beside other work, which changes the pace of a
//! run.
//!
//! `target/timeleft/NAME.txt` has all that was read in a run, beside the true time left and the number of addresses with their last
//! reply.

mod judge;
mod kinds;
mod terminal;

use super::crowd::each;
use super::installation::{expire_with_this_step, step_now};
use super::options::SoakOptions;
use super::peers::{self, clean_command, watch};
use super::world::CampaignFolder;
use crate::failure::{Context, Failure, ensure};
use crate::interop::process::{self, ServerProcess, sleep, target_folder};
use crate::interop::report::{self, Tally};
use judge::{Figures, KnownDelay, Sample};
use kinds::{SPENDING, SPENT, TimedRun};
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use terminal::{Terminal, percent, stated};

const MEDIAN_MAX: f64 = 0.3;
const WITHHELD_MAX: Duration = Duration::from_secs(5);
/// In one of this number of runs, the median may be larger.
const WRONG_SHARE_MAX: usize = 10;
const RUN_LIMIT: Duration = Duration::from_secs(900);
const READ_INTERVAL: Duration = Duration::from_secs(1);
/// The shortest and the longest time until a spent budget is free, from the start of a run.
const FREE_AFTER: std::ops::Range<Duration> = Duration::from_secs(50)..Duration::from_secs(210);

/// Runs the campaign and counts its checks.
pub fn run(options: &SoakOptions, tally: &mut Tally) -> Result<(), Failure> {
    let seed = options.seed();
    let runs: Vec<TimedRun> =
        kinds::runs(seed, options.small).into_iter().filter(|run| options.wants(&run.name)).collect();
    report::line(&format!("timeleft: seed {seed}, {} runs", runs.len()));
    ensure!(!runs.is_empty(), "no run has such a name");
    let world = CampaignFolder::make(options)?;
    let traces = target_folder()?.join("timeleft");
    fs::create_dir_all(&traces).at(&traces)?;
    let timed = each(runs.len(), runs.len(), |n| timed(&world, &traces, &runs[n]))?;
    let mut wrong_medians = 0;
    for (run, timed) in runs.iter().zip(timed) {
        match timed {
            Err(Failure(message)) => tally.check(&run.name, Err(message)),
            Ok(timed) => {
                wrong_medians += usize::from(timed.figures.median > MEDIAN_MAX);
                tally.check(&run.name, timed.outcome(options.small));
            }
        }
    }
    let outcome = format!("{wrong_medians} of {} runs have a larger median error", runs.len());
    if options.small {
        report::line(&outcome);
        return Ok(());
    }
    let holds = wrong_medians <= runs.len().div_ceil(WRONG_SHARE_MAX);
    tally.check("the median error is at most 30 %", report::outcome(holds, outcome));
    Ok(())
}

/// A run and what is known of it.
struct Timed {
    rows: usize,
    took: Duration,
    from: Duration,
    figures: Figures,
    /// The share of the samples within known delays whose line names a domain that the program waits for.
    named: Option<f64>,
}

impl Timed {
    fn outcome(&self, small: bool) -> Result<String, String> {
        let Figures { median, withheld, below, statements } = self.figures;
        let mut line = format!(
            "{} rows in {:.0} s; from {:.0} s on {statements} statements with a median error of {:.0} %, \
             withheld for {:.0} s, {:.0} s below a known delay",
            self.rows,
            s(self.took),
            s(self.from),
            median * 100.0,
            s(withheld),
            s(below),
        );
        let mut is_right = statements > 0 && below.is_zero() && (small || withheld <= WITHHELD_MAX);
        if let Some(named) = self.named {
            line += &format!("; names what it waits for in {:.0} % of its lines", named * 100.0);
            is_right &= named >= 0.5;
        }
        report::outcome(is_right, line)
    }
}

/// Makes a run and judges what it stated.
fn timed(world: &CampaignFolder, traces: &Path, run: &TimedRun) -> Result<Timed, Failure> {
    let file = |ending: &str| world.path(&format!("{}.{ending}", run.name));
    let (input, log, state) = (file("csv"), file("log"), file("state"));
    let mailnet_began = Instant::now();
    let net = peers::start(&run.scenario)?;
    write(&input, &run.rows)?;
    let command = |input: &Path, output: &Path| {
        let mut command = clean_command(world, &net, true);
        command.arg(input).arg("-o").arg(output).arg("--state").arg(&state);
        command
    };
    let free_at = match run.spent {
        false => None,
        true => Some(spend(world, &state, |input, output| command(input, output), run)?),
    };
    let mut command = command(&input, &file("out.csv"));
    command.args(["--max-wait", &run.max_wait.as_secs().to_string()]);
    let (terminal, side) = Terminal::open()?;
    let output = File::create(&log).at(&log)?;
    let began = Instant::now();
    let mut process = ServerProcess::start_with("mailprobe clean", command, &log, [output.into(), side])?;
    let (samples, end) = read_lines(&mut process, &terminal, began)?;
    // All times are since the start of the run.
    let attempts = judge::attempts(&net.journal(), &run.rows, began - mailnet_began);
    let said: String = samples
        .iter()
        .map(|sample| {
            let left = s(end.saturating_sub(sample.at));
            let replied = judge::replied(&attempts, sample.at);
            format!("{:6.1} s, {left:6.1} s left, {replied:6} have replied: {}\n", s(sample.at), sample.line)
        })
        .collect();
    let trace = traces.join(format!("{}.txt", run.name));
    fs::write(&trace, said).at(&trace)?;
    let mut delays = judge::known_delays(&attempts);
    if let Some(free_at) = free_at {
        let until = free_at.saturating_duration_since(began);
        delays.push(KnownDelay { from: Duration::ZERO, until, domain: SPENT.to_owned() });
    }
    // A verdict follows its reply, at some servers much later.
    let tenth = samples.iter().find(|sample| percent(&sample.line).is_some_and(|percent| percent >= 10));
    let replied = judge::counts_from(&attempts, end);
    let from = tenth.map_or(replied, |sample| sample.at.max(replied));
    let figures = judge::judge(&samples, from, end, &delays);
    Ok(Timed { rows: run.rows.len(), took: end, from, figures, named: judge::named(&samples, &delays) })
}

/// Reads the line of a run every second until its end, and returns the time of its end.
fn read_lines(
    process: &mut ServerProcess,
    terminal: &Terminal,
    began: Instant,
) -> Result<(Vec<Sample>, Duration), Failure> {
    let mut samples: Vec<Sample> = Vec::new();
    let watched = watch(process, RUN_LIMIT, |_| {
        if began.elapsed() >= READ_INTERVAL * (samples.len() as u32 + 1) {
            let line = terminal.line();
            samples.push(Sample { at: began.elapsed(), stated: stated(&line), line });
        }
        Ok(None::<()>)
    });
    let end = began.elapsed();
    watched.map(|_| (samples, end)).map_err(|failure| Failure(format!("{}: {}", failure.0, terminal.text())))
}

/// Spends the budget of [`SPENT`], and returns when it is free again.
fn spend(
    world: &CampaignFolder,
    state: &Path,
    command: impl Fn(&Path, &Path) -> Command,
    run: &TimedRun,
) -> Result<Instant, Failure> {
    let file = |ending: &str| world.path(&format!("{}-spends.{ending}", run.name));
    let rows: Vec<String> = (0..SPENDING).map(|n| format!("nobody.{n}@{SPENT}")).collect();
    write(&file("csv"), &rows)?;
    let spent = command(&file("csv"), &file("out.csv"));
    process::run(spent, "", world.folder(), RUN_LIMIT)?.success("the run that spends the budget")?;
    while !FREE_AFTER.contains(&step_now().1) {
        sleep(READ_INTERVAL)?;
    }
    expire_with_this_step(state)?;
    Ok(Instant::now() + step_now().1)
}

fn write(path: &Path, rows: &[String]) -> Result<(), Failure> {
    let rows: String = rows.iter().map(|row| format!("{row}\n")).collect();
    fs::write(path, format!("email\n{rows}")).at(path)
}

fn s(time: Duration) -> f64 {
    time.as_secs_f64()
}
