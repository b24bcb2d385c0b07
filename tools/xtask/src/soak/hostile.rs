//! `soak hostile`: a server whose engine talks to thousands of misbehaving peers at once remains healthy and gives
//! right verdicts.
//!
//! The DNS has many copies of the domains of mailnet's hostile.toml, each copy with its own host, beside the domains of
//! reasons.toml. A round asks `mailprobe serve` about one address of every copy of one set at once, and also about the
//! well-behaved domains. The engine does not ask a failed host for a minute (`HOST_DOWN` in engine/proto/src/limits.rs), so the
//! rounds use the sets in turn. In the full version a warm-up visits each set once, so that no later round is a first
//! visit.
//!
//! Every verdict must be the one that mailnet's library expects. The server must neither panic nor end with an error.
//! At most a minute after the last round its memory must be within a tenth of the value after the warm-up, and
//! it has at most a few descriptors more.

mod asking;
mod scenario;

use super::api::Api;
use super::crowd::joined;
use super::options::{SoakOptions, sizes};
use super::world::{CampaignFolder, Footprint, Mailnet, Serve};
use crate::failure::{Context, Failure};
use crate::interop::process;
use crate::interop::report::{self, Tally, outcome};
use asking::ask_all;
use scenario::{Copies, Hostile};
use std::time::Duration;

/// The number of threads that ask about well-behaved domains during a round.
const WELL_BEHAVED_THREADS: usize = 8;
/// More than any account of the campaign can spend.
const CREDITS: u64 = 1_000_000;

sizes! {
    /// The small version has no peers that only wait, each of which would take half a minute. Every round has its own set, since no
    /// host is asked again within a minute. The limit on memory includes these first visits.
    struct HostileSize {
        copies: Copies =
            Copies { sets: 3, copies: 22, waiting: true, holding: 180 },
            Copies { sets: 8, copies: 4, waiting: false, holding: 0 };
        /// The number of rounds before the baseline.
        warm_up: usize = 3, 4;
        rounds: usize = 5, 4;
        /// The number of checks under way at once.
        at_once: usize = 3600, 300;
        sessions_min: u64 = 10_000, 2000;
        /// How many sessions must have been open at once.
        peak_min: u64 = 2000, 50;
    }
}

/// What the engine keeps about a host after the first visit: DNS answers, routes, pace, and the rounding of mimalloc.
const FIRST_VISIT_KIB: u64 = 12;

/// Runs the campaign and counts its checks.
pub fn run(options: &SoakOptions, tally: &mut Tally) -> Result<(), Failure> {
    let size = HostileSize::of(options.small);
    let seed = options.seed();
    report::line(&format!("hostile: seed {seed}"));
    let world = CampaignFolder::make(options)?;
    let hostile = Hostile::make(&size.copies, seed)?;
    let mailnet = world.mailnet(&hostile.text)?;
    let traps = world.path("traps");
    std::fs::write(&traps, &hostile.spamtraps).about("traps")?;
    let traps = traps.to_string_lossy();
    let sessions = size.at_once.to_string();
    // A verdict of one round must not answer a check of another round.
    let more = [
        "--sessions",
        &sessions,
        "--connections",
        "4096",
        "--spamtraps",
        &traps,
        "--reuse-verdicts",
        "false",
    ];
    let serve = world.serve(&mailnet, &more)?;
    let soaked = Soak { world, size, hostile, serve }.go(tally)?;
    finish(soaked, mailnet, tally)
}

struct Soak {
    world: CampaignFolder,
    size: HostileSize,
    hostile: Hostile,
    serve: Serve,
}

impl Soak {
    fn go(mut self, tally: &mut Tally) -> Result<Soak, Failure> {
        let key = self.world.unlimited("hostile", CREDITS)?;
        for round in 0..self.size.warm_up {
            self.round(round, &key, tally)?;
        }
        let baseline = self.rest()?;
        report::line(&format!(
            "after the warm-up: {} KiB resident, {} descriptors",
            baseline.resident_kib, baseline.descriptors
        ));
        for round in self.size.warm_up..self.size.warm_up + self.size.rounds {
            self.round(round, &key, tally)?;
        }
        self.settle(baseline, tally)?;
        Ok(self)
    }

    /// Asks about one address of every copy of a set, and of every well-behaved domain.
    fn round(&mut self, round: usize, key: &str, tally: &mut Tally) -> Result<(), Failure> {
        // Each round has its own account: repeats of an account would be answered from the store.
        let well = self.world.unlimited(&format!("well-behaved-{round}"), CREDITS)?;
        let hostile = self.hostile.round(round, round % self.size.copies.sets);
        let well_behaved = self.hostile.well_behaved(round);
        let (address, at_once) = (self.serve.address, self.size.at_once);
        let (bad, good) = std::thread::scope(|scope| {
            let bad = scope.spawn(|| ask_all(Api::new(address, key), &hostile, at_once));
            let good = ask_all(Api::new(address, &well), &well_behaved, WELL_BEHAVED_THREADS);
            (joined(bad), good)
        });
        let (bad, good) = (bad?, good?);
        self.serve.running()?;
        let Footprint { resident_kib, descriptors } = self.serve.footprint()?;
        report::line(&format!(
            "round {round}: {resident_kib} KiB resident, {descriptors} descriptors after it"
        ));
        tally.check(&format!("round {round}, hostile peers"), bad.judge());
        tally.check(&format!("round {round}, well-behaved peers meanwhile"), good.judge());
        Ok(())
    }

    /// The footprint after idle sessions have ended.
    fn rest(&self) -> Result<Footprint, Failure> {
        process::sleep(Duration::from_secs(5))?;
        self.serve.footprint()
    }

    /// How many hosts were visited for the first time after the baseline.
    fn first_visits(&self) -> u64 {
        let rounds = self.size.warm_up..self.size.warm_up + self.size.rounds;
        rounds
            .filter(|&round| round < self.size.copies.sets)
            .map(|round| self.hostile.hosts(round) as u64)
            .sum()
    }

    /// Waits until the footprint is again that of the baseline.
    fn settle(&mut self, baseline: Footprint, tally: &mut Tally) -> Result<(), Failure> {
        let allowance = baseline.resident_kib / 10 + self.first_visits() * FIRST_VISIT_KIB;
        let [memory, open] = self.serve.settle(baseline, allowance)?;
        tally.check("memory is back", memory);
        tally.check("descriptors are back", open);
        Ok(())
    }
}

/// Ends both programs and checks what they leave.
fn finish(soaked: Soak, mailnet: Mailnet, tally: &mut Tally) -> Result<(), Failure> {
    let Soak { serve, size, .. } = soaked;
    tally.check("the server ends in order", serve.end());
    let counted = mailnet.end(tally)?;
    let number = |field: &str| counted.get(field).and_then(serde_json::Value::as_u64).unwrap_or_default();
    let figures = format!(
        "{} sessions, {} at once at the peak, {} misdeeds done",
        number("sessions"),
        number("sessions_peak"),
        number("misdeeds")
    );
    let enough = number("sessions") >= size.sessions_min && number("sessions_peak") >= size.peak_min;
    tally.check("enough sessions, and at once", outcome(enough, figures));
    Ok(())
}
