//! `soak races`: clients sign in, sign up, create keys, endpoints and lists, and connect assistants, while the password that they use
//! is replaced, the account is deleted or the key is revoked, all at random times and with the hash of passwords of the product.
//!
//! Nothing that was begun with what was replaced works after the acknowledgement of its end: no session is open, no code can be
//! redeemed, nothing more is made, and what comes later is refused. API keys and connected assistants from before a new password
//! stay, as the page says. The part `nodes` has two nodes on one PostgreSQL; there, a key may be accepted for two more seconds by
//! the other node.

mod race;
mod site;
mod visits;

use super::options::SoakOptions;
use super::world::CampaignFolder;
use crate::failure::Failure;
use crate::interop::process::own_path;
use crate::interop::report::{self, Tally};
use crate::postgres;
use race::{ENDS, LATE, OPEN, Race, RaceCount, RaceEnd};
use site::RaceSite;
use std::process::Command;
use std::time::{Duration, Instant};

/// The races of each part.
const FULL: usize = 1000;
const SMALL: usize = 8;
/// The longest pause before a step, in times of a sign-in.
const PAUSE_SIGN_INS: u32 = 5;
/// After this many races a line of progress is printed.
const REPORT_EVERY: usize = 100;
/// The parts.
const SERVER: &str = "server";
const NODES: &str = "nodes";
/// The variable of [`postgres`] with the URL of the server.
const POSTGRES: &str = "MAILPROBE_TEST_POSTGRES";

/// Runs the campaign and counts its checks.
pub fn run(options: &SoakOptions, tally: &mut Tally) -> Result<(), Failure> {
    if options.wants(SERVER) {
        races(options, RaceSite::single(CampaignFolder::make(options)?)?, SERVER, tally)?;
    }
    // The small version is for `.ci/run`, where nothing else needs a PostgreSQL at that time.
    if options.wants(NODES) && !(options.small && options.only.is_none()) {
        match std::env::var(POSTGRES) {
            Ok(url) => races(options, RaceSite::two(CampaignFolder::make(options)?, &url)?, NODES, tally)?,
            Err(_) => tally.check("beside a PostgreSQL", beside_postgres(options)?),
        }
    }
    Ok(())
}

/// Runs the part of the nodes in a process that finds a PostgreSQL.
fn beside_postgres(options: &SoakOptions) -> Result<Result<String, String>, Failure> {
    let mut command = Command::new(own_path()?);
    command.args(["soak", "races", "--only", NODES, "--seed", &options.seed().to_string()]);
    if options.small {
        command.arg("--small");
    }
    if let Some(folder) = &options.bin_dir {
        command.arg("--bin-dir").arg(folder);
    }
    postgres::beside(&std::env::temp_dir(), &["fsync=off".to_owned()], command)
}

fn races(options: &SoakOptions, site: RaceSite, part: &str, tally: &mut Tally) -> Result<(), Failure> {
    let (seed, count) = (options.seed(), if options.small { SMALL } else { FULL });
    report::line(&format!("races: {part}, {count} races, seed {seed}"));
    let mut random = fastrand::Rng::with_seed(seed);
    let client = visits::register(&site.endpoint(0))?;
    let longest = sign_in_time(&site)? * PAUSE_SIGN_INS;
    let race = |number: usize, end| Race {
        site: &site,
        client: &client,
        name: format!("race-{number}"),
        end,
        longest,
    };
    let (mut sums, mut faults) = (RaceCount::default(), Vec::new());
    for number in 0..count {
        let end = ENDS[number % ENDS.len()];
        match race(number, end).run(&mut random) {
            Ok(RaceCount { allowed, refused, late }) => {
                sums.allowed += allowed;
                sums.refused += refused;
                sums.late += late;
            }
            Err(fault) => {
                let fault = format!("race {number} with {end:?}: {fault}");
                report::line(&format!("      {fault}"));
                faults.push(fault);
            }
        }
        crate::interop::process::interrupted()?;
        if (number + 1).is_multiple_of(REPORT_EVERY) {
            report::line(&format!("      {} races, {} faults", number + 1, faults.len()));
        }
    }
    let RaceCount { allowed, refused, late } = sums;
    let told =
        format!("{count} races: {allowed} steps allowed, {refused} refused, {late} answered after the end");
    let name = format!("{part}: nothing that was begun with what was replaced works after its end");
    tally.check(&name, report::faultless(told, &faults));
    let is_hit =
        report::outcome(late > 0 && refused > 0, format!("{late} steps were under way, {refused} refused"));
    tally.check(&format!("{part}: steps were under way at the ends"), is_hit);
    let planted = match race(count, RaceEnd::Nothing).run(&mut random) {
        Err(fault) if [OPEN, LATE].iter().any(|complaint| fault.contains(complaint)) => Ok(fault),
        Err(fault) => Err(fault),
        Ok(_) => Err("not noticed".into()),
    };
    tally.check(&format!("{part}: without an end the judge complains"), planted);
    tally.check(&format!("{part}: the servers end in order"), site.stop());
    Ok(())
}

/// The time of a sign-in, with its hash.
fn sign_in_time(site: &RaceSite) -> Result<Duration, Failure> {
    let began = Instant::now();
    let entered = visits::enter(&site.endpoint(0), "/signin", "nobody@example.com", "wrong horse battery");
    entered?;
    Ok(began.elapsed())
}
