//! `soak canary`: addresses with a mark in them take every path through the product, and the campaign searches for the
//! mark.
//!
//! Before the retention ends, it must be in no log line, no metric, no refusal, and no file of the data folder. After
//! the retention (the clock of the test server is moved) the API must have forgotten the addresses, and their key files
//! must be gone. A test of the store proves that the remaining keys decrypt none of it. A backup of the first phase is
//! restored after `kill -9`, and must serve exactly its contents.

use super::http;
use super::options::SoakOptions;
use super::world::{CampaignFolder, Credits, Mailnet, Serve};
use crate::failure::Failure;
use crate::interop::process::sleep;
use crate::interop::report::{self, Tally};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A part of every address of the campaign and of nothing else. The search ignores case.
const CANARY: &str = "zqcanary7";
const DAY_MS: u64 = 24 * 3600 * 1000;
const COMPLETION_LIMIT: Duration = Duration::from_secs(60);
/// The purge runs at least once a minute without a request.
const PURGE_LIMIT: Duration = Duration::from_secs(90);

const SCENARIO: &str = "seed = 11\n[[domain]]\nname = \"zqcanary7-home.example\"\n\
    mailboxes = { ok = [\"zqcanary7-#\"], full = [\"zqcanary7-full-#\"], policy = [\"zqcanary7-policy-#\"] }\n\
    [[domain]]\nname = \"zqcanary7-all.example\"\nunknown = \"ok\"\n\
    [[domain]]\nname = \"zqcanary7-fail.example\"\ndns = \"servfail\"\n";

/// Runs the campaign and returns the counts of its checks.
///
/// # Errors
///
/// The campaign cannot be set up, or a step of it fails in an unexpected way.
pub fn run(options: &SoakOptions) -> Result<Option<Tally>, Failure> {
    report::line("canary: addresses that must be found nowhere");
    let mut world = CampaignFolder::make(options)?;
    let mailnet = world.mailnet(SCENARIO)?;
    let mut tally = Tally::default();
    let serve = start(&world, &mailnet)?;
    let live = world.unlimited("canary", 10_000)?;
    let test = test_key(&world)?;
    let mut flows = Flows { serve: &serve, live: &live, test: &test, refusals: Vec::new() };
    tally.check("every flow", flows.all());
    let refusals = flows.refusals.join("\n");
    tally.check("no refusal tells", absent("the refusals", refusals.as_bytes()));
    let metrics = world.text(&["metrics"])?;
    tally.check("no metric tells", absent("the metrics", metrics.as_bytes()));
    tally.check("the log does not tell", absent("the log", serve.log()?.as_bytes()));
    tally.check("the data folder does not tell", nowhere_in(&world.path("data")));

    let batch = flows_batch(&serve, &live)?;
    let before = account(&world)?;
    let copy = world.path("copy.backup");
    world.text(&["backup", &copy.to_string_lossy()])?;
    tally.check("the backup does not tell", absent_in(&copy));
    let keys_before = key_files(&world.path("data"))?;
    serve.kill();

    world.use_data("restored");
    world.text(&["restore", &copy.to_string_lossy()])?;
    let serve = start(&world, &mailnet)?;
    tally.check("the backup serves exactly", serves_exactly(&world, &serve, &live, &batch, before));
    let judged = forgets(&world, &serve, &live, &batch, &keys_before);
    tally.check("after the retention nothing is left", judged);
    let log = serve.log()?;
    tally.check("the log does not tell after it", absent("the log", log.as_bytes()));
    tally.check("no panic", super::hostile::no_panic(&log));
    let stopped = serve.stop().map(|()| "status 0".to_owned()).map_err(|failure| failure.0);
    tally.check("the server ends in order", stopped);
    mailnet.stop()?;
    Ok(Some(tally))
}

fn start(world: &CampaignFolder, mailnet: &Mailnet) -> Result<Serve, Failure> {
    let plans = world.plans()?;
    world.serve(mailnet, &[&plans[0], &plans[1], "--test-clock"])
}

fn test_key(world: &CampaignFolder) -> Result<String, Failure> {
    let made = world.json(&["key", "create", "canary", "--test"])?;
    made["key"].as_str().map(str::to_owned).ok_or_else(|| Failure("key create: no key".into()))
}

fn account(world: &CampaignFolder) -> Result<Credits, Failure> {
    let shown = world.json(&["account", "show", "canary"])?;
    Credits::of(shown.get("account").unwrap_or(&shown))
}

/// Requests of every kind that takes an address.
struct Flows<'a> {
    serve: &'a Serve,
    live: &'a str,
    test: &'a str,
    refusals: Vec<String>,
}

impl Flows<'_> {
    fn all(&mut self) -> Result<String, String> {
        let server = self.serve.address;
        let (live, test) = (self.live.to_owned(), self.test.to_owned());
        let mut count = 0;
        for (number, key) in [(1, &live), (2, &test)] {
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
                    let path = format!("/v1/verify?email={escaped}{query}");
                    self.keep(
                        http::get(server, key, &path)?,
                        if query == "&mode=nonsense" { 400 } else { 200 },
                    )?;
                    count += 1;
                }
                self.keep(http::verify(server, key, &address)?, 200)?;
                count += 1;
            }
        }
        let rows = [format!("{CANARY}-9@{CANARY}-home.example"), format!("any@{CANARY}-all.example")];
        for key in [&live, &test] {
            self.keep(http::submit(server, key, &format!("{CANARY}-key"), &rows)?, 202)?;
        }
        self.keep(http::submit(server, &live, &format!("{CANARY}-key"), &rows[..1])?, 422)?;
        self.keep(http::get(server, &live, &format!("/v1/{CANARY}@x.example"))?, 404)?;
        self.keep(http::poll(server, &live, &format!("{CANARY}@x.example"))?, 404)?;
        self.keep(http::get(server, &format!("{CANARY}@x.example"), "/v1/account")?, 401)?;
        self.keep(http::raw(server, &live, &format!("{{\"email\": \"{CANARY}@x.example\""))?, 400)?;
        self.keep(http::raw(server, &live, &format!("{{\"email\": [\"{CANARY}@x.example\"]}}"))?, 400)?;
        let long = format!("{{\"email\": \"{CANARY}{}@x.example\"}}", "x".repeat(400));
        self.keep(http::raw(server, &live, &long)?, 400)?;
        Ok(format!("{} requests, {} refusals", count + 9, self.refusals.len()))
    }

    fn keep(&mut self, answer: http::ApiAnswer, expected: u16) -> Result<(), String> {
        if answer.status != expected {
            return Err(format!("{} for {expected}: {}", answer.status, answer.body));
        }
        // The contract says that a batch's refusal names its invalid addresses. No other refusal repeats an address.
        if answer.status >= 400 {
            self.refusals.push(answer.body.to_string());
        }
        Ok(())
    }
}

/// Submits a batch whose result is polled before and after the retention.
fn flows_batch(serve: &Serve, key: &str) -> Result<(String, String), Failure> {
    let rows: Vec<String> =
        (20..40).map(|number| format!("{CANARY}-{number}@{CANARY}-home.example")).collect();
    let answer = http::submit(serve.address, key, "", &rows).map_err(Failure)?;
    let id = answer.text("batch_id").to_owned();
    let end = Instant::now() + COMPLETION_LIMIT;
    loop {
        let polled = http::poll(serve.address, key, &id).map_err(Failure)?;
        if polled.text("status") == "completed" {
            return Ok((id, polled.body.to_string()));
        }
        if Instant::now() > end {
            return Err(Failure(format!("a batch does not complete: {} {}", answer.status, polled.status)));
        }
        sleep(Duration::from_millis(50))?;
    }
}

fn serves_exactly(
    world: &CampaignFolder,
    serve: &Serve,
    key: &str,
    (id, body): &(String, String),
    before: Credits,
) -> Result<String, String> {
    let after = account(world).map_err(|failure| failure.0)?;
    if after != before || !after.add_up() {
        return Err(format!("{before:?} became {after:?}"));
    }
    let polled = http::poll(serve.address, key, id)?;
    let body: serde_json::Value = serde_json::from_str(body).map_err(|error| error.to_string())?;
    if polled.body != body {
        return Err("the batch reads otherwise".into());
    }
    let repeat = http::verify(serve.address, key, &format!("{CANARY}-1@{CANARY}-home.example"))?;
    if repeat.body["cached"] != true || repeat.text("reason") != "mailbox_exists" {
        return Err(format!("no repeat: {} {}", repeat.status, repeat.body));
    }
    Ok(format!("{} spent, as before; the batch, the keys and the repeats too", after.spent))
}

fn forgets(
    world: &CampaignFolder,
    serve: &Serve,
    key: &str,
    (id, _): &(String, String),
    keys_before: &BTreeSet<String>,
) -> Result<String, String> {
    world.text(&["clock", "advance", &(8 * DAY_MS).to_string()]).map_err(|failure| failure.0)?;
    let polled = http::poll(serve.address, key, id)?;
    if polled.status != 404 {
        return Err(format!("the batch is still there: {}", polled.status));
    }
    let end = Instant::now() + PURGE_LIMIT;
    let folder = world.path("restored");
    loop {
        let left = key_files(&folder).map_err(|failure| failure.0)?;
        // The key of the hashes never expires.
        let expired: Vec<_> = left.intersection(keys_before).filter(|name| name.contains('-')).collect();
        if expired.is_empty() {
            return Ok(format!("{} key files before, {} after", keys_before.len(), left.len()));
        }
        if Instant::now() > end {
            return Err(format!("key files that should be gone: {expired:?}"));
        }
        sleep(Duration::from_millis(500)).map_err(|failure| failure.0)?;
    }
}

fn key_files(data: &Path) -> Result<BTreeSet<String>, Failure> {
    let folder = data.join("keys");
    let entries = fs::read_dir(&folder).map_err(|error| Failure(format!("{}: {error}", folder.display())))?;
    Ok(entries.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned())).collect())
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
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    absent(&path.display().to_string(), &bytes)
}

fn nowhere_in(folder: &Path) -> Result<String, String> {
    let (mut folders, mut files): (Vec<PathBuf>, usize) = (vec![folder.to_owned()], 0);
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
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
