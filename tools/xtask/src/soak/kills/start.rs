//! The setup of the campaign, and every start of its server.

use super::people::Person;
use super::programs::{BATCH_WAIT, Program};
use super::records::{Account, SharedRecords};
use super::{
    ACCOUNTS, CampaignFolder, KillCampaign, KillFigures, Mailnet, PEOPLE, PROGRAMS_OF_AN_ACCOUNT, Scenario,
    Serve, addresses, sleep,
};
use crate::failure::Failure;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Monthly credits of every account: more than any of them can spend.
const CREDITS: u64 = 10_000_000;
/// The longest time before an interrupted start is killed.
const CUT_MS: u64 = 150;

impl KillCampaign {
    /// Creates the accounts and the clients, for which the server runs once.
    pub fn prepare(
        world: CampaignFolder,
        mailnet: Mailnet,
        mut random: fastrand::Rng,
    ) -> Result<KillCampaign, Failure> {
        let mut flags = Vec::from(world.free_plan(CREDITS)?);
        // All clients have one address, so limits per network are off.
        flags.extend(["--connections-per-peer".into(), "0".into()]);
        flags.extend(["--batch-wait".into(), BATCH_WAIT.as_secs().to_string()]);
        let more: Vec<&str> = flags.iter().map(String::as_str).collect();
        let serve = world.serve(&mailnet, &more)?;
        let server = serve.address;
        let scenario = Scenario::parse(addresses::SCENARIO);
        let scenario = scenario.map_err(|error| Failure(format!("the scenario: {error}")))?;
        let shared = SharedRecords::new(server, scenario);
        let mut programs = Vec::new();
        for number in 0..ACCOUNTS as u32 {
            let name = format!("programs-{number}");
            let live = world.account(&name, 0)?;
            let test = world.json(&["key", "create", &name, "--test"])?;
            let test = test["key"].as_str().ok_or_else(|| Failure("key create: no key".into()))?;
            let account = Account::named(&name);
            shared.add(Arc::clone(&account));
            for _ in 0..PROGRAMS_OF_AN_ACCOUNT {
                programs.push(Program::new(server, (number, &account), (&live, test), random.u64(..)));
            }
        }
        let people = (0..PEOPLE).map(|_| Person::new(server, shared.numbers(1), random.fork())).collect();
        let listed = world.json(&["account", "list"])?;
        let made = listed.as_array().map_or(0, Vec::len);
        serve.stop()?;
        let figures = KillFigures::default();
        let ends = Vec::new();
        Ok(KillCampaign { world, mailnet, flags, shared, programs, people, random, ends, made, figures })
    }

    /// Starts the server on the same address and data as before.
    pub fn start(&mut self) -> Result<Serve, Failure> {
        let (at, more) = self.place();
        let began = Instant::now();
        let more: Vec<&str> = more.iter().map(String::as_str).collect();
        let serve =
            self.world.serve_at(&at.to_string(), self.mailnet.dns(), self.mailnet.smtp_port(), &more)?;
        self.figures.starts.push(began.elapsed());
        Ok(serve)
    }

    /// Kills a start before it completes, perhaps before it reads the ledger and perhaps after it.
    pub fn cut_start(&mut self) -> Result<(), Failure> {
        let (at, more) = self.place();
        let more: Vec<&str> = more.iter().map(String::as_str).collect();
        let engine = (self.mailnet.dns(), self.mailnet.smtp_port());
        let mut server = self.world.start_serve("lab", &at.to_string(), engine, &more)?;
        sleep(Duration::from_millis(self.random.u64(0..CUT_MS)))?;
        server.running().map_err(|failure| server.complain(&failure.0))?;
        server.kill()?;
        self.figures.cut_starts += 1;
        Ok(())
    }

    fn place(&self) -> (SocketAddr, Vec<String>) {
        (self.shared.server, self.flags.clone())
    }
}

/// Copies the files of a folder and of its subfolders, except sockets.
pub fn copy_folder(from: &Path, to: &Path) -> Result<(), Failure> {
    let wrong = |error: io::Error| Failure(format!("{}: {error}", from.display()));
    fs::create_dir(to).map_err(wrong)?;
    fs::set_permissions(to, fs::metadata(from).map_err(wrong)?.permissions()).map_err(wrong)?;
    for entry in fs::read_dir(from).map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        let (kind, path) = (entry.file_type().map_err(wrong)?, to.join(entry.file_name()));
        if kind.is_dir() {
            copy_folder(&entry.path(), &path)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), &path).map_err(wrong)?;
        }
    }
    Ok(())
}
