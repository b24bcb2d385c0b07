//! Power failures under `mailprobe serve` itself, at every change of its data folder.
//!
//! A server starts on an empty folder, takes checks and batches, and stops. It starts again nine days later, when it
//! destroys the keys of expired data. Its changes of the folder are recorded ([`crate::soak::intercept`]). For each
//! change the folder is then rebuilt as a power failure right after it may leave it ([`Disk`]), and a server starts on
//! it. It must start, must have kept all answered requests of that time, and must continue so that each address is paid
//! once in the end.

use crate::failure::{Context, Failure};
use crate::interop::drivers::first_key;
use crate::interop::process::{self, ServerProcess, interrupted, wait_until};
use crate::soak::api::Api;
use crate::soak::crowd::each;
use crate::soak::disk::{Disk, FolderChange, remove_folder};
use crate::soak::intercept::{self, InterceptPlan, Intercepted};
use crate::soak::load::RequestLoad;
use crate::soak::options::SoakOptions;
use crate::soak::world::{ANY_PORT, CampaignFolder, Mailnet, key_files, listening};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How many random states after each change the full campaign tests.
const DRAWS: u64 = 4;
/// The small version tests each change with a multiple of this number.
const STEP_SMALL: u64 = 61;
const WORKERS: usize = 4;
const END_LIMIT: Duration = Duration::from_secs(60);
/// How long the destruction of keys may take: the server looks for expired keys once a minute.
const DESTROYED_LIMIT: Duration = Duration::from_secs(90);
const DAY_MS: u64 = 24 * 60 * 60 * 1000;
const LATER_MS: u64 = 9 * DAY_MS;
const DATABASE: &str = "mailprobe.redb";
const ACCOUNT: &str = "default";
const SCENARIO: &str =
    "seed = 13\n[[group]]\nname = \"shop-{n}.example\"\ncount = 60\nmailboxes.ok = [\"user-#\"]\n";
const CREDITS: u64 = 100;

/// Records a run, cuts its power at each change, and returns a line of figures.
///
/// # Errors
///
/// A state after a power failure breaks a guarantee, or the run cannot be set up.
pub fn run(options: &SoakOptions, seed: u64) -> Result<String, String> {
    let world = CampaignFolder::make(options)?;
    let mailnet = world.mailnet(SCENARIO)?;
    world.set_free_plan(CREDITS)?;
    let campaign = FolderCampaign { world, mailnet, seed };
    let recorded = campaign.record()?;
    let (step, draws) = if options.small { (STEP_SMALL, 1) } else { (1, DRAWS) };
    let survived = campaign.cut_everywhere(&recorded, step, draws, &[])??;
    // Proof that the campaign can fail: a disk that does not sync folders, or the database, loses answered requests.
    let folders = [recorded.folder.clone(), recorded.folder.join("keys")];
    for unsynced in [&folders[..], &[recorded.folder.join(DATABASE)]] {
        if campaign.cut_everywhere(&recorded, STEP_SMALL, 1, unsynced)?.is_ok() {
            return Err(format!("nothing is lost where {} is not synced", unsynced[0].display()));
        }
    }
    campaign.mailnet.stop()?;
    Ok(format!(
        "{} changes of the folder, {survived} cuts, {} of them after the load, while keys were destroyed",
        recorded.changes.len(),
        recorded.changes.len() as u64 - recorded.until_later
    ))
}

struct FolderCampaign {
    world: CampaignFolder,
    mailnet: Mailnet,
    seed: u64,
}

/// The record of a run of two lives.
struct Recorded {
    folder: PathBuf,
    changes: Vec<FolderChange>,
    /// How many changes the first life had made when it listened.
    listened: u64,
    until_later: u64,
    load: RequestLoad,
    key: String,
}

impl FolderCampaign {
    fn record(&self) -> Result<Recorded, Failure> {
        let folder = self.world.path("recorded");
        let (mut server, calls, address) = self.recorded_life(&folder, &[])?;
        let listened = calls.operations();
        let key = first_key(&folder, "live")?;
        let mut load = RequestLoad::new();
        load.run(Api::new(address, &key), &calls).map_err(|why| server.complain(&why))?;
        server.running()?;
        server.terminate(END_LIMIT)?;
        let mut changes = calls.finish()?;
        let until_later = changes.len() as u64;
        let (server, calls, _) = self.recorded_life(&folder, &["--test-clock"])?;
        // Without the two folders that remain, which have no time in their names.
        let expiring = || {
            let names = key_files(&folder)?.into_iter().filter(|name| name.contains('-'));
            Ok::<_, Failure>(names.collect::<BTreeSet<String>>())
        };
        let before = expiring()?;
        let advance = self.world.mailprobe_on(&folder, &["clock", "advance", &LATER_MS.to_string()]);
        process::run(advance, "", self.world.folder(), END_LIMIT)?.success("clock advance")?;
        wait_until("the destruction of keys", DESTROYED_LIMIT, || Ok(expiring()?.is_disjoint(&before)))?;
        server.terminate(END_LIMIT)?;
        changes.append(&mut calls.finish()?);
        Ok(Recorded { folder, changes, listened, until_later, load, key })
    }

    fn recorded_life(
        &self,
        folder: &Path,
        more: &[&str],
    ) -> Result<(ServerProcess, Intercepted, SocketAddr), Failure> {
        let mut command = self.world.serve_on(folder, ANY_PORT, self.mailnet.engine(), more);
        intercept::ask_us(&mut command);
        let mut server = ServerProcess::start("mailprobe serve", command, &self.world.path("recorded.log"))?;
        let calls = Intercepted::attach(server.id(), folder, InterceptPlan::Record)?;
        let address = listening(&mut server)?.ok_or_else(|| server.complain("it does not start"))?;
        Ok((server, calls, address))
    }

    /// Cuts the power at every `step`-th change, on a disk that does not sync some paths. The inner error says what was lost.
    fn cut_everywhere(
        &self,
        recorded: &Recorded,
        step: u64,
        draws: u64,
        unsynced: &[PathBuf],
    ) -> Result<Result<u64, String>, Failure> {
        let next = AtomicU64::new(0);
        // Each worker applies the changes to its own disk, up to the cut.
        let worker = |_| {
            let (mut disk, mut applied, mut done, mut lost) = (Disk::default(), 0, 0, Vec::new());
            loop {
                let cut = next.fetch_add(step, Ordering::SeqCst);
                if cut > recorded.changes.len() as u64 || interrupted().is_err() {
                    return Ok((done, lost));
                }
                for at in applied..cut {
                    // Between its lives all changes of the folder were synced.
                    if at == recorded.until_later {
                        disk.settle();
                    }
                    match &recorded.changes[at as usize] {
                        FolderChange::Sync(path) if unsynced.contains(path) => {}
                        change => disk.apply(change)?,
                    }
                }
                for draw in 0..draws {
                    match self.cut(recorded, &disk, cut, draw)? {
                        Ok(()) => done += 1,
                        Err(why) => lost.push(format!("change {cut}: {why}")),
                    }
                }
                applied = cut;
            }
        };
        let outcomes: Result<Vec<(u64, Vec<String>)>, Failure> =
            each(WORKERS, WORKERS, worker)?.into_iter().collect();
        let (done, lost): (Vec<u64>, Vec<Vec<String>>) = outcomes?.into_iter().unzip();
        let lost = lost.concat();
        Ok(match lost.first() {
            None => Ok(done.iter().sum()),
            Some(first) => {
                Err(format!("seed {}: {} cuts lost something, such as {first}", self.seed, lost.len()))
            }
        })
    }

    /// Tests one state after a power failure, and a server on it. The inner error says what was lost.
    fn cut(
        &self,
        recorded: &Recorded,
        disk: &Disk,
        cut: u64,
        draw: u64,
    ) -> Result<Result<(), String>, Failure> {
        let mut random = fastrand::Rng::with_seed(self.seed ^ (cut << 8) ^ draw);
        let folder = self.world.path(&format!("cut-{cut}-{draw}"));
        let log = self.world.path(&format!("cut-{cut}-{draw}.log"));
        // A folder with a loss is kept for inspection, until the next cut at the same change.
        remove_folder(&folder)?;
        disk.write_left(&recorded.folder, &folder, &mut random)?;
        let command = self.world.serve_on(&folder, ANY_PORT, self.mailnet.engine(), &[]);
        let mut server = ServerProcess::start("mailprobe serve", command, &log)?;
        let Some(address) = listening(&mut server)? else {
            return Ok(Err(server.complain("it does not start after the power failure").0));
        };
        // Before the server listens, no client knows its first account.
        let key = if cut >= recorded.listened { recorded.key.clone() } else { first_key(&folder, "live")? };
        let api = Api::new(address, &key);
        let account = api.get("/v1/account")?;
        if account.status != 200 {
            return Ok(Err(server.complain(&format!("the first key: {account}")).0));
        }
        let judge = |claim: &_| self.world.judge_in(&folder, ACCOUNT, claim);
        let is_right = if cut <= recorded.until_later {
            recorded.load.at(cut).settle(api, judge)
        } else {
            judge(&RequestLoad::whole_claim()).map(drop)
        };
        if let Err(why) = is_right {
            return Ok(Err(server.complain(&why).0));
        }
        drop(server);
        remove_folder(&folder)?;
        std::fs::remove_file(&log).at(&log)?;
        Ok(Ok(()))
    }
}
