//! `soak canary`: addresses with a mark in them take every path through the product, and the campaign searches for the
//! mark.
//!
//! Before the retention ends, it must be in no log line, no metric, no refusal, and no file of the data folder. After
//! the retention (the clock of the test server is moved) the API must have forgotten the addresses, and their key files
//! must be gone. A test of the store proves that the remaining keys decrypt none of it. A backup of the first phase is
//! restored after `kill -9`, and must serve exactly its contents.

use super::api::Api;
use super::client::{HttpReply, HttpRequest};
use super::options::SoakOptions;
use super::world::{CampaignFolder, Ledger, key_files};
use crate::failure::{Context, Failure, ensure};
use crate::interop::process::wait_until;
use crate::interop::report::{self, Tally};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A part of every address of the campaign and of nothing else. The search ignores case.
const CANARY: &str = "zqcanary7";
const TEST_CLOCK: [&str; 1] = ["--test-clock"];
const DAY_MS: u64 = 24 * 3600 * 1000;
const COMPLETION_LIMIT: Duration = Duration::from_secs(60);
/// The purge runs at least once a minute without a request.
const PURGE_LIMIT: Duration = Duration::from_secs(90);

const SCENARIO: &str = include_str!("../../soak/scenarios/canary.toml");

/// Runs the campaign and counts its checks.
pub fn run(options: &SoakOptions, tally: &mut Tally) -> Result<(), Failure> {
    report::line("canary: addresses that must be found nowhere");
    let mut world = CampaignFolder::make(options)?;
    let mailnet = world.mailnet(SCENARIO)?;
    let serve = world.serve(&mailnet, &TEST_CLOCK)?;
    let live = world.unlimited("canary", 10_000)?;
    let test = world.key("canary", &["--test"])?;
    let api = Api::new(serve.address, &live);
    let mut flows = Flows::default();
    tally.check("every flow", flows.all(api, Api::new(serve.address, &test)));
    let refusals = flows.refusals.join("\n");
    tally.check("no refusal tells", absent("the refusals", refusals.as_bytes()));
    let metrics = world.text(&["metrics"])?;
    tally.check("no metric tells", absent("the metrics", metrics.as_bytes()));
    tally.check("the log does not tell", absent("the log", serve.log()?.as_bytes()));
    tally.check("the data folder does not tell", nowhere_in(&world.path("data")));

    let batch = flows_batch(api)?;
    let before = world.ledger("canary")?;
    let copy = world.path("copy.backup");
    world.text(&["backup", &copy.to_string_lossy()])?;
    tally.check("the backup does not tell", absent_in(&copy));
    let keys_before = key_files(&world.path("data"))?;
    serve.kill();

    world.use_data("restored");
    world.text(&["restore", &copy.to_string_lossy()])?;
    let serve = world.serve(&mailnet, &TEST_CLOCK)?;
    let api = Api::new(serve.address, &live);
    tally.check("the backup serves exactly", serves_exactly(&world, api, &batch, &before));
    let judged = forgets(&world, api, &batch, &keys_before);
    tally.check("after the retention nothing is left", judged);
    tally.check("the log does not tell after it", absent("the log", serve.log()?.as_bytes()));
    tally.check("the server ends in order", serve.end());
    mailnet.stop()?;
    Ok(())
}

/// The refusals of requests of every kind that takes an address.
#[derive(Default)]
struct Flows {
    refusals: Vec<String>,
}

impl Flows {
    fn all(&mut self, live: Api<'_>, test: Api<'_>) -> Result<String, String> {
        let mut count = 0;
        for (number, api) in [(1, live), (2, test)] {
            for address in [
                format!("{CANARY}-{number}@{CANARY}-home.example"),
                format!("{CANARY}-full-{number}@{CANARY}-home.example"),
                format!("{CANARY}-policy-{number}@{CANARY}-home.example"),
                format!("nobody-{CANARY}@{CANARY}-home.example"),
                format!("any-{CANARY}@{CANARY}-all.example"),
                format!("any-{CANARY}@{CANARY}-fail.example"),
                format!("any-{CANARY}@{CANARY}-gone.example"),
                format!("{CANARY}@@bad"),
            ] {
                let escaped = address.replace('@', "%40");
                for query in ["", "&mode=fast", "&detail=full", "&mode=nonsense"] {
                    let answer = api.get(&format!("/v1/verify?email={escaped}{query}"))?;
                    self.keep(answer, if query == "&mode=nonsense" { 400 } else { 200 })?;
                    count += 1;
                }
                self.keep(api.verify(&address)?, 200)?;
                count += 1;
            }
        }
        let rows = [format!("{CANARY}-9@{CANARY}-home.example"), format!("any@{CANARY}-all.example")];
        for api in [live, test] {
            self.keep(api.submit(&format!("{CANARY}-key"), &rows)?, 202)?;
        }
        self.keep(live.submit(&format!("{CANARY}-key"), &rows[..1])?, 422)?;
        self.keep(live.get(&format!("/v1/{CANARY}@x.example"))?, 404)?;
        self.keep(live.poll(&format!("{CANARY}@x.example"))?, 404)?;
        let stranger = format!("{CANARY}@x.example");
        self.keep(Api::new(live.server, &stranger).get("/v1/account")?, 401)?;
        let long = format!("{{\"email\": \"{CANARY}{}@x.example\"}}", "x".repeat(400));
        for body in [
            format!("{{\"email\": \"{CANARY}@x.example\""),
            format!("{{\"email\": [\"{CANARY}@x.example\"]}}"),
            long,
        ] {
            let request = HttpRequest::new("POST", "/v1/verify", body);
            self.keep(live.send(request.header("Content-Type", "application/json"))?, 400)?;
        }
        Ok(format!("{} requests, {} refusals", count + 9, self.refusals.len()))
    }

    fn keep(&mut self, answer: HttpReply, expected: u16) -> Result<(), String> {
        ensure!(answer.status == expected, "not {expected}: {answer}");
        // The contract says that a batch's refusal names its invalid addresses. No other refusal repeats an address.
        if answer.status >= 400 {
            self.refusals.push(answer.text());
        }
        Ok(())
    }
}

/// Submits a batch whose result is polled before and after the retention. Returns its id and its result.
fn flows_batch(api: Api<'_>) -> Result<(String, Value), Failure> {
    let rows: Vec<String> =
        (20..40).map(|number| format!("{CANARY}-{number}@{CANARY}-home.example")).collect();
    let id = api.submit("", &rows)?.word("batch_id");
    let result = api.complete(&id, COMPLETION_LIMIT)?;
    Ok((id, result))
}

fn serves_exactly(
    world: &CampaignFolder,
    api: Api<'_>,
    (id, body): &(String, Value),
    before: &Ledger,
) -> Result<String, String> {
    let after = world.ledger("canary")?;
    ensure!(after == *before && after.credits.add_up(), "{before:?} became {after:?}");
    ensure!(api.poll(id)?.json() == *body, "the batch reads otherwise");
    let repeat = api.verify(&format!("{CANARY}-1@{CANARY}-home.example"))?;
    if repeat.json()["cached"] != true || repeat.word("reason") != "mailbox_exists" {
        return Err(format!("no repeat: {repeat}"));
    }
    Ok(format!("{} spent, as before; the batch, the keys and the repeats too", after.credits.spent))
}

fn forgets(
    world: &CampaignFolder,
    api: Api<'_>,
    (id, _): &(String, Value),
    keys_before: &BTreeSet<String>,
) -> Result<String, String> {
    world.text(&["clock", "advance", &(8 * DAY_MS).to_string()])?;
    let polled = api.poll(id)?;
    ensure!(polled.status == 404, "the batch is still there: {}", polled.status);
    let (mut left, mut expired) = (BTreeSet::new(), Vec::new());
    let waited = wait_until("the end of key files", PURGE_LIMIT, || {
        left = key_files(&world.data())?;
        // The key of the hashes never expires.
        expired = left.intersection(keys_before).filter(|name| name.contains('-')).cloned().collect();
        Ok(expired.is_empty())
    });
    match waited {
        Ok(()) => Ok(format!("{} key files before, {} after", keys_before.len(), left.len())),
        Err(failure) => Err(format!("{}: {expired:?}", failure.0)),
    }
}

fn absent(what: &str, bytes: &[u8]) -> Result<String, String> {
    let lower = bytes.to_ascii_lowercase();
    match lower.windows(CANARY.len()).position(|window| window == CANARY.as_bytes()) {
        None => Ok(format!("not in {} bytes", bytes.len())),
        Some(at) => {
            let around = &bytes[at.saturating_sub(120)..bytes.len().min(at + 60)];
            Err(format!("{what}: ...{}...", String::from_utf8_lossy(around)))
        }
    }
}

fn absent_in(path: &Path) -> Result<String, String> {
    let bytes = fs::read(path).at(path)?;
    absent(&path.display().to_string(), &bytes)
}

fn nowhere_in(folder: &Path) -> Result<String, String> {
    let (mut folders, mut files): (Vec<PathBuf>, usize) = (vec![folder.to_owned()], 0);
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).at(&folder)?;
        for entry in entries {
            let entry = entry.map_err(|error| error.to_string())?;
            let kind = entry.file_type().map_err(|error| error.to_string())?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                absent_in(&entry.path())?;
                files += 1;
            }
        }
    }
    Ok(format!("not in {files} files"))
}
