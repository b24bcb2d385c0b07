//! `soak hostile`: a server whose engine talks to thousands of misbehaving peers at once remains healthy and gives
//! right verdicts.
//!
//! The DNS has many copies of the domains of mailnet's hostile.toml, each copy with its own host, beside the domains of
//! reasons.toml. A round asks `mailprobe serve` about one address of every copy of one set at once, and also about the
//! well-behaved domains. The engine does not ask a failed host for a minute (`ROUTE_DOWN` in engine/proto/src/limits.rs), so the
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
use super::world::{CampaignFolder, Footprint, Serve};
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
    // A verdict of one round must not answer a check of another round.
    let flags = format!(
        "--sessions {} --connections 4096 --reuse-verdicts false --spamtraps {}",
        size.at_once,
        traps.display()
    );
    let serve = world.serve(&mailnet, &flags.split(' ').collect::<Vec<_>>())?;
    let key = world.unlimited("hostile", CREDITS)?;
    let mut soak = HostileSoak { world, size, hostile, serve };
    for round in 0..size.warm_up {
        soak.round(round, &key, tally)?;
    }
    // Idle sessions end before that.
    process::sleep(Duration::from_secs(5))?;
    let baseline = soak.serve.footprint()?;
    report::line(&format!(
        "after the warm-up: {} KiB resident, {} descriptors",
        baseline.resident_kib, baseline.descriptors
    ));
    let mut first_visits = 0;
    for round in size.warm_up..size.warm_up + size.rounds {
        soak.round(round, &key, tally)?;
        if round < size.copies.sets {
            first_visits += soak.hostile.hosts(round) as u64;
        }
    }
    let allowance = baseline.resident_kib / 10 + first_visits * FIRST_VISIT_KIB;
    let [memory, open] = soak.serve.settle(baseline, allowance)?;
    tally.check("memory is back", memory);
    tally.check("descriptors are back", open);
    tally.check("the server ends in order", soak.serve.end());
    let counted = mailnet.end(tally)?;
    let [sessions, peak, misdeeds] =
        ["sessions", "sessions_peak", "misdeeds"].map(|field| counted[field].as_u64().unwrap_or_default());
    let figures = format!("{sessions} sessions, {peak} at once at the peak, {misdeeds} misdeeds done");
    let enough = sessions >= size.sessions_min && peak >= size.peak_min;
    tally.check("enough sessions, and at once", outcome(enough, figures));
    Ok(())
}

struct HostileSoak {
    world: CampaignFolder,
    size: HostileSize,
    hostile: Hostile,
    serve: Serve,
}

impl HostileSoak {
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
}
