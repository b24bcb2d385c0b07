//! The setup of the campaign, and every start of its server.

use super::programs::{BATCH_WAIT_S, Program};
use super::records::{Account, Records};
use super::{
    CampaignFolder, KillCampaign, KillFigures, KillPlan, Mailnet, Scenario, Serve, addresses, sleep,
};
use crate::failure::{Context, Failure};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Monthly credits of every account: more than any of them can spend.
const CREDITS: u64 = 10_000_000;
/// The longest time before an interrupted start is killed.
const CUT_MS: u64 = 150;

impl KillCampaign {
    /// Creates the accounts and the clients, for which the server runs once.
    pub fn prepare(
        plan: &'static KillPlan,
        world: CampaignFolder,
        mailnet: Mailnet,
        mut random: fastrand::Rng,
    ) -> Result<KillCampaign, Failure> {
        world.set_free_plan(CREDITS)?;
        let serve = world.serve(&mailnet, &flags())?;
        let server = serve.address;
        let scenario = Scenario::parse(addresses::SCENARIO);
        let scenario = scenario.about("the scenario")?;
        let records = Arc::new(Records::new(server, scenario));
        let mut programs = Vec::new();
        let of_accounts = plan.accounts.iter();
        let of_accounts =
            of_accounts.flat_map(|&(count, each, load)| std::iter::repeat_n((each, load), count));
        for (number, (count, load)) in of_accounts.enumerate() {
            let name = format!("programs-{number}");
            let live = world.account(&name, 0)?;
            let test = world.key(&name, &["--test"])?;
            let account = Account::named(&name);
            records.add(Arc::clone(&account));
            for _ in 0..count {
                let place = (number as u32, &account);
                let keys = [live.clone(), test.clone()];
                programs.push(Program::new(&records, place, keys, load, random.u64(..)));
            }
        }
        let listed = world.json(&["account", "list"])?;
        let made = listed.as_array().map_or(0, Vec::len);
        serve.stop()?;
        let figures = KillFigures::default();
        let ends = Vec::new();
        let idle = Vec::new();
        Ok(KillCampaign { plan, world, mailnet, records, programs, random, idle, ends, made, figures })
    }

    /// Starts the server on the same address and data as before.
    pub fn start(&mut self) -> Result<Serve, Failure> {
        let began = Instant::now();
        let serve = self.world.serve_at(&self.records.server.to_string(), self.mailnet.engine(), &flags())?;
        self.figures.starts.push(began.elapsed());
        Ok(serve)
    }

    /// Kills a start before it completes, perhaps before it reads the ledger and perhaps after it.
    pub fn cut_start(&mut self) -> Result<(), Failure> {
        let at = self.records.server.to_string();
        let mut server = self.world.start_serve(&at, self.mailnet.engine(), &flags())?;
        sleep(Duration::from_millis(self.random.u64(0..CUT_MS)))?;
        server.running().map_err(|failure| server.complain(&failure.0))?;
        server.kill()?;
        self.figures.cut_starts += 1;
        Ok(())
    }
}

/// All clients have one address, so limits per network are off.
fn flags() -> [&'static str; 4] {
    ["--connections-per-peer", "0", "--batch-wait", BATCH_WAIT_S]
}
