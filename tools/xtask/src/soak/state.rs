//! `soak state`: four `mailprobe clean` at once on one state file, single checks beside them, and kills among them.
//!
//! All runs ask the same sites, which refuse most or half of the recipients. In the first part all runs end by themselves. In
//! the second part runs are killed at random moments, half of them by SIGKILL and half by SIGINT, and others take their place.
//! The campaign checks by mailnet's journal:
//! - no run is refused, and each that was not killed has a verdict for every row;
//! - at each moment, each site has refused no more recipients than the budget allows over all runs;
//! - the state file has the sum of what the sites refused and accepted; after kills it has no refusal less, and more only for
//!   recipients that a killed run was asking about.

use super::options::{SoakOptions, sizes};
use super::peers;
use super::world::{CampaignFolder, engine_flags};
use crate::failure::{Context, Failure, ensure};
use crate::interop::process::{ServerProcess, interrupted, sleep};
use crate::interop::report::{self, Tally, outcome};
use mailnet::{Running, What};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

sizes! {
    struct StateSize {
        /// Sites that refuse all recipients of the lists, and as many that refuse half of them.
        sites: usize = 40, 8;
        /// Rows of each run for each site.
        rows: usize = 120, 60;
        kills: usize = 60, 8;
        limit: Duration = Duration::from_secs(900), Duration::from_secs(50);
    }
}

const RUNS: usize = 4;
const LOOK: Duration = Duration::from_millis(20);
/// The most sessions of a run, and the most recipients of its transactions, at these servers.
const SESSIONS: usize = 16;
const RECIPIENTS: usize = 10;
/// The hourly budget of an unknown site while it refuses more than it accepts, the least while it accepts more, and the
/// number of accepts that allow one refusal.
const MOSTLY_REFUSED: u64 = 100;
const MOSTLY_ACCEPTED: u64 = 600;
const ACCEPTS_SHARE: u64 = 4;

/// What a site has refused and accepted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Counts {
    refused: u64,
    accepted: u64,
}

impl Counts {
    /// Whether a site that accepted so many may have refused so many.
    fn are_within_budget(self) -> bool {
        let more = MOSTLY_ACCEPTED.max(self.accepted / ACCEPTS_SHARE).min(self.accepted);
        self.refused <= MOSTLY_REFUSED.max(more)
    }
}

/// Runs the campaign and counts its checks.
pub fn run(options: &SoakOptions, tally: &mut Tally) -> Result<(), Failure> {
    let size = StateSize::of(options.small);
    let seed = options.seed();
    report::line(&format!("state: seed {seed}, {RUNS} runs at once, {} kills", size.kills));
    let world = CampaignFolder::make(options)?;
    for (name, kills) in [("without kills", 0), ("with kills", size.kills)] {
        let net = peers::start(&scenario(seed, size.sites))?;
        let part = format!("part-{kills}");
        let random = fastrand::Rng::with_seed(seed);
        let mut campaign = StateCampaign { world: &world, size, net: &net, part, random, started: 0 };
        let began = Instant::now();
        let outcome = campaign.go(kills);
        let took = began.elapsed().as_secs_f64();
        tally.check(name, outcome.map(|figures| format!("{figures}, {took:.1} s")));
    }
    Ok(())
}

fn scenario(seed: u64, sites: usize) -> String {
    let sites = include_str!("../../soak/scenarios/state.toml").replace("SITES", &sites.to_string());
    format!("seed = {seed}\n{}", sites.replace("RECIPIENTS", &RECIPIENTS.to_string()))
}

struct StateCampaign<'a> {
    world: &'a CampaignFolder,
    size: StateSize,
    net: &'a Running,
    part: String,
    random: fastrand::Rng,
    /// Number of runs that were started.
    started: usize,
}

/// A `mailprobe clean`.
struct CleanOfList {
    process: ServerProcess,
    output: PathBuf,
    rows: usize,
}

impl StateCampaign<'_> {
    /// Keeps four runs going until all kills were made, and lets the last ones finish.
    fn go(&mut self, kills: usize) -> Result<String, String> {
        let began = Instant::now();
        let mut runs = (0..RUNS).map(|_| self.start()).collect::<Result<Vec<_>, _>>()?;
        let (mut killed, mut finished, mut checks) = (0, 0, 0);
        let mut kill_at = Instant::now() + self.pause();
        while !runs.is_empty() {
            interrupted()?;
            ensure!(began.elapsed() <= self.size.limit, "the runs do not end");
            let mut index = 0;
            while index < runs.len() {
                let Some(status) = runs[index].process.ended()? else {
                    index += 1;
                    continue;
                };
                let run = runs.swap_remove(index);
                if !status.success() {
                    return Err(run.process.complain(&format!("ended: {status}")).into());
                }
                let lines = fs::read_to_string(&run.output).at(&run.output)?;
                let lines = lines.lines().count();
                ensure!(lines == run.rows, "{lines} rows in the output, {} in the list", run.rows);
                finished += 1;
                if killed < kills {
                    runs.push(self.start()?);
                }
            }
            if killed < kills && Instant::now() >= kill_at && !runs.is_empty() {
                let mut run = runs.swap_remove(self.random.usize(0..runs.len()));
                if killed % 2 == 0 {
                    run.process.kill()?;
                } else {
                    run.process.end_by(Signal::INT, Duration::from_secs(20))?;
                }
                killed += 1;
                kill_at = Instant::now() + self.pause();
                runs.push(self.start()?);
                self.check()?;
                checks += 1;
            }
            sleep(LOOK)?;
        }
        let figures = self.judge(killed)?;
        Ok(format!("{finished} runs ended, {killed} were killed, {checks} checks beside them; {figures}"))
    }

    /// The time until the next kill.
    fn pause(&mut self) -> Duration {
        Duration::from_millis(self.random.u64(100..900))
    }

    fn site(&self, number: usize) -> String {
        let (kind, n) = (["none", "half"][number % 2], number / 2 + 1);
        format!("{kind}-{n}.example")
    }

    /// Starts a run with a list of its own, with all sites in another order.
    fn start(&mut self) -> Result<CleanOfList, Failure> {
        self.started += 1;
        let name = format!("{}-{}", self.part, self.started);
        let mut rows = Vec::new();
        for site in (0..self.size.sites * 2).map(|number| self.site(number)) {
            for row in 0..self.size.rows {
                let mailbox = if site.starts_with("half") && row % 2 == 0 { "real" } else { "nobody" };
                rows.push(format!("{mailbox}-{}@{site}\n", self.started * 10_000 + row));
            }
        }
        self.random.shuffle(&mut rows);
        let (list, output) =
            (self.world.path(&format!("{name}.txt")), self.world.path(&format!("{name}.out")));
        fs::write(&list, rows.concat()).at(&list)?;
        let mut command = self.command("clean");
        command.arg(&list).arg("-o").arg(&output).args([
            "--no-progress",
            "--sessions",
            &SESSIONS.to_string(),
        ]);
        let log = self.world.path(&format!("{name}.log"));
        let process = ServerProcess::start(&format!("mailprobe clean {name}"), command, &log)?;
        Ok(CleanOfList { process, output, rows: rows.len() })
    }

    /// Checks an address beside the lists. It may be over the budget.
    fn check(&mut self) -> Result<(), String> {
        let number = self.random.usize(0..self.size.sites * 2);
        let site = self.site(number);
        let mut command = self.command("check");
        let output = command.arg(format!("nobody-{}@{site}", self.started)).output();
        let output = output.about("mailprobe check")?;
        let said = String::from_utf8_lossy(&output.stderr);
        let is_right = output.status.success() || said.contains("1 of the addresses was not checked: ");
        if is_right { Ok(()) } else { Err(format!("mailprobe check: {}, {said}", output.status)) }
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.world.binary("mailprobe"));
        command.arg(name).arg("--state").arg(self.world.path(&format!("{}-state", self.part)));
        let engine = (self.net.dns().to_string(), self.net.smtp_port().to_string());
        engine_flags(&mut command, (&engine.0, &engine.1), true);
        command.env("RUST_BACKTRACE", "0");
        command
    }

    fn judge(&self, killed: usize) -> Result<String, String> {
        let seen = self.seen()?;
        let mut kept = self.kept()?;
        let mut seen: Vec<Counts> = seen.into_values().collect();
        // The state file does not name the sites, so those with the most refusals are compared first.
        seen.sort_unstable();
        kept.sort_unstable();
        let sum = |all: &[Counts]| all.iter().map(|counts| counts.refused).sum::<u64>();
        let (refused, counted) = (sum(&seen), sum(&kept));
        let figures = format!(
            "{} sites refused {refused}, the state file has {counted}; at most {} at a site",
            seen.len(),
            kept.iter().map(|counts| counts.refused).max().unwrap_or(0)
        );
        let is_right = match killed {
            0 => seen == kept,
            _ => {
                let each = seen.len() == kept.len()
                    && seen.iter().zip(&kept).all(|(seen, kept)| seen.refused <= kept.refused);
                each && counted - refused <= (killed * SESSIONS * RECIPIENTS) as u64
            }
        };
        outcome(is_right, figures)
    }

    /// What each host has refused and accepted.
    fn seen(&self) -> Result<BTreeMap<Box<str>, Counts>, String> {
        let journal = self.net.journal();
        ensure!(journal.lost == 0, "the journal is incomplete");
        let mut seen: BTreeMap<Box<str>, Counts> = BTreeMap::new();
        for event in journal.events {
            let What::Rcpt { code, .. } = event.what else { continue };
            let counts = seen.entry(event.host).or_default();
            match code {
                200..300 => counts.accepted += 1,
                500..600 => counts.refused += 1,
                _ => {}
            }
            if !counts.are_within_budget() {
                return Err(format!("over the budget: a site has {counts:?} at {} ms", event.at_ms));
            }
        }
        Ok(seen)
    }

    /// What the state file has of each site.
    fn kept(&self) -> Result<Vec<Counts>, String> {
        let path = self.world.path(&format!("{}-state", self.part));
        let text = fs::read_to_string(&path).at(&path)?;
        let sites = text.lines().filter_map(|line| line.strip_prefix("site "));
        let number = |text: Option<&str>| text.and_then(|text| text.parse().ok()).ok_or(format!("{path:?}"));
        let steps = |site: &str| {
            site.split(' ').skip(1).try_fold(Counts::default(), |sum, step| {
                let mut words = step.split(':').skip(1);
                let (refused, accepted): (u64, u64) = (number(words.next())?, number(words.next())?);
                Ok(Counts { refused: sum.refused + refused, accepted: sum.accepted + accepted })
            })
        };
        sites.map(steps).collect()
    }
}
