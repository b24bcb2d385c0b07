//! `soak tenants`: one account, or strangers without one, take of each shared thing as much as they may, beside an account that
//! does what customers do.
//!
//! The victim (customer.rs) first acts alone, then beside each attack (attacks.rs) on a server of its own: every action has to
//! succeed. Its times are compared with those of the idle server in the same run; the small version leaves that out, because other
//! programs use the machine too. Each attack must be refused with 4xx or 503 only, and in words that name the share where it has
//! used one up. The memory of the server may grow by little, and its folders stay within the quotas.

mod attacks;

use super::crowd::joined;
use super::customer::{Action, ActionTimes, Customer, scenario};
use super::options::{SoakOptions, sizes};
use super::slow_peers::{millis, percentile};
use super::transport::ServerEndpoint;
use super::visitor::Visitor;
use super::world::{CampaignFolder, Mailnet, Serve};
use crate::failure::{Context, Failure};
use crate::interop::process::sleep;
use crate::interop::report::{self, Tally, outcome};
use attacks::{Answers, Attack, Attackers};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

sizes! {
    struct TenantsSize {
        /// How often the victim does each of the short, the medium and the long actions.
        samples: [usize; 3] = [200, 21, 5], [3, 1, 1];
        /// Free accounts of the attackers, and the keys of the first one.
        accounts: usize = 21, 4;
        keys: usize = 58, 6;
        /// Users of the attackers.
        visitors: usize = 8, 2;
        connections: usize = 4_500, 200;
        /// How long an attack goes on before the victim begins.
        before: Duration = Duration::from_secs(5), Duration::from_millis(400);
        /// Whether times are compared.
        is_timed: bool = true, false;
    }
}

/// The bytes of test batches that an account may have here, in MiB. With the default, the attack would have to last for minutes.
const STORED_MIB: u64 = 4;
const MORE_MEMORY_MIB: u64 = 200;
/// What the folders may take beside the victim: the shares of all attackers' accounts for batches, and their lists.
const MORE_FOLDER_MIB: u64 = 600;

/// Runs the campaign and counts its checks.
pub fn run(options: &SoakOptions, tally: &mut Tally) -> Result<(), Failure> {
    let size = TenantsSize::of(options.small);
    report::line(&format!("tenants: {} attacks, each beside a victim", attacks::ALL.len()));
    let mut world = CampaignFolder::make(options)?;
    let mailnet = world.mailnet(&scenario("postfix"))?;
    for attack in attacks::ALL {
        if options.wants(attack.name) {
            // A folder for each, so that no attack finds the shares used up.
            world.use_data(attack.name);
            beside(&world, &mailnet, &attack, &size, tally)?;
        }
    }
    mailnet.stop()?;
    Ok(())
}

/// Runs one attack on a server with a folder of its own.
fn beside(
    world: &CampaignFolder,
    mailnet: &Mailnet,
    attack: &Attack,
    size: &TenantsSize,
    tally: &mut Tally,
) -> Result<(), Failure> {
    world.extend_free_plan(&format!("stored_mib = {STORED_MIB}\n"))?;
    let places = (size.connections + 1_000).to_string();
    let flags = ["--connections", &places, "--webhook-allow-net", "127.0.0.0/8"];
    let (mut serve, server) = world.serve_over(mailnet, &flags, None)?;
    let key = world.unlimited("victim", 1_000_000)?;
    let mut victim = Customer::sign_up(&server, key, "victim@people.example")?;
    victim.prepare()?;
    let [short, medium, long] = size.samples;
    let actions = [(&Action::SHORT[..], short), (&Action::MEDIUM, medium), (&Action::LONG, long)];
    let attackers = attackers(world, &server, size)?;
    let idle = match size.is_timed {
        true => victim.act(&actions)?,
        false => ActionTimes::new(),
    };
    let (memory, folder) = (serve.resident_kib()? / 1024, mib(&world.data())?);
    let (answers, ended) = (Answers::default(), AtomicBool::new(false));
    let (attacked, times, peak) = thread::scope(|scope| {
        let attacker = scope.spawn(|| (attack.run)(&attackers, &answers, &ended));
        let watch = scope.spawn(|| peak_of(&serve, &ended));
        let times = sleep(size.before).and_then(|()| victim.act(&actions));
        ended.store(true, Ordering::Relaxed);
        (joined(attacker), times, joined(watch))
    });
    attacked?;
    let name = attack.name;
    let compared = times.map_err(String::from).and_then(|times| compare(&idle, &times, size.is_timed));
    tally.check(&format!("{name}: the victim"), compared);
    tally.check(&format!("{name}: the answers"), answers.judge(attack.must_name_share));
    let more = peak?.saturating_sub(memory);
    let found = format!("{memory} MiB before, {more} MiB more at most");
    tally.check(&format!("{name}: memory"), outcome(more <= MORE_MEMORY_MIB, found));
    let more = mib(&world.data())?.saturating_sub(folder);
    let found = format!("{folder} MiB before, {more} MiB more");
    tally.check(&format!("{name}: the data folder"), outcome(more <= MORE_FOLDER_MIB, found));
    serve.running()?;
    tally.check(&format!("{name}: no panic, and an end in order"), serve.end());
    Ok(())
}

fn attackers(
    world: &CampaignFolder,
    server: &ServerEndpoint,
    size: &TenantsSize,
) -> Result<Attackers, Failure> {
    let mut live = Vec::new();
    for number in 0..size.accounts {
        live.push(world.account(&format!("taker-{number}"), 0)?);
    }
    let mut test = Vec::new();
    for number in 0..size.keys {
        let (keys, flags) = if number % 2 == 0 { (&mut test, &["--test"][..]) } else { (&mut live, &[][..]) };
        keys.push(world.key("taker-0", flags)?);
    }
    let mut visitors = Vec::new();
    for number in 0..size.visitors {
        let server = server.at_source(attacks::source(60_000 + number));
        visitors.push(Visitor::sign_up(&server, &format!("taker-{number}@people.example"))?);
    }
    let (server, silent) = (server.clone(), attacks::silent_host()?);
    Ok(Attackers { server, live, test, visitors, connections: size.connections, silent })
}

/// The largest resident memory until `ended`, in MiB.
fn peak_of(serve: &Serve, ended: &AtomicBool) -> Result<u64, Failure> {
    let mut peak = 0;
    while !ended.load(Ordering::Relaxed) {
        peak = peak.max(serve.resident_kib()? / 1024);
        sleep(Duration::from_millis(50))?;
    }
    Ok(peak)
}

/// The size of a folder with everything in it.
fn mib(folder: &Path) -> Result<u64, Failure> {
    fn bytes(folder: &Path) -> std::io::Result<u64> {
        let mut sum = 0;
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            sum += match entry.metadata() {
                Ok(found) if found.is_dir() => bytes(&entry.path())?,
                Ok(found) => found.len(),
                // A temporary file that has gone.
                Err(_) => 0,
            };
        }
        Ok(sum)
    }
    bytes(folder).map(|bytes| bytes >> 20).at(folder)
}

/// Compares the times of the victim with those beside nobody.
fn compare(idle: &ActionTimes, beside: &ActionTimes, is_timed: bool) -> Result<String, String> {
    let mut words = Vec::new();
    let mut late = false;
    for (action, times) in beside {
        let alone = idle.get(action).map(Vec::as_slice).unwrap_or_default();
        let (found, most) = match () {
            () if Action::LONG.contains(action) => {
                (worst(times), (worst(alone) * 2).max(Duration::from_secs(2)))
            }
            () => (median(times), (median(alone) * 2).max(Duration::from_millis(50))),
        };
        late |= found > most;
        words.push(format!("{action:?} {:.0} ms (at most {:.0})", millis(found), millis(most)));
        if Action::SHORT.contains(action) {
            let most = (percentile(alone.to_vec()) * 5).max(Duration::from_millis(250));
            let found = percentile(times.clone());
            late |= found > most;
            words.push(format!("p99 {:.0} ms (at most {:.0})", millis(found), millis(most)));
        }
    }
    let words = words.join(", ");
    outcome(!is_timed || !late, words)
}

fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn worst(times: &[Duration]) -> Duration {
    times.iter().max().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_compared_with_those_alone() {
        let times =
            |action, ms: u64, count| ActionTimes::from([(action, vec![Duration::from_millis(ms); count])]);
        let check =
            |action, alone, found| compare(&times(action, alone, 5), &times(action, found, 5), true).is_ok();
        assert!(check(Action::Page, 1, 50) && !check(Action::Page, 1, 51), "an absolute limit of the median");
        assert!(check(Action::Batch, 100, 200) && !check(Action::Batch, 100, 201), "twice the median");
        assert!(check(Action::List, 500, 2_000) && !check(Action::List, 500, 2_001));
        assert!(check(Action::List, 1_500, 3_000) && !check(Action::List, 1_500, 3_001));
        let mut late = vec![Duration::from_millis(1); 199];
        late.push(Duration::from_millis(251));
        late.push(Duration::from_millis(252));
        late.push(Duration::from_millis(252));
        let late = ActionTimes::from([(Action::Page, late)]);
        assert!(compare(&times(Action::Page, 1, 200), &late, true).is_err(), "a percentile of short actions");
        assert!(compare(&times(Action::Page, 1, 200), &late, false).is_ok());
    }
}
