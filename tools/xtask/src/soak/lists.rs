//! `soak lists`: `kill -9` of the server during the upload, the check and the download of a list over `/v1/lists`.
//!
//! The list has duplicates in other letter case, rows without an address, and addresses that the account has checked before. It
//! is uploaded in parts of random sizes. After each kill, the offset of the server must be at least that of the last answer, and
//! the upload continues there. Then the server is killed while it reads the list, while it checks it and while it sends the
//! results. In the end each row must be in the results once, in its place and with its verdict, and the account must have paid once
//! for each different address that it had not checked within 24 hours.
//!
//! A second list has the opposite: its mail servers answer no recipient for long, and it is cancelled after kills. It may cost only
//! what has an answer.

use super::api::Api;
use super::client::{HttpReply, HttpRequest};
use super::judge::Claim;
use super::list_output::ListOutput;
use super::list_rows::ListRows;
use super::options::{SoakOptions, sizes};
use super::world::{CampaignFolder, Mailnet, Serve};
use crate::failure::{Context, Failure};
use crate::interop::process::{interrupted, sleep, wait_until};
use crate::interop::report::{self, Tally, outcome};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::fs;
use std::time::{Duration, Instant};

/// Addresses of a batch that checks addresses before the list.
const BATCH: u64 = 200;
const LIMIT: Duration = Duration::from_secs(7_200);
const RETRY_LIMIT: Duration = Duration::from_secs(60);
const ACCOUNT: &str = "lists";

sizes! {
    struct ApiListSize {
        rows: u64 = 1_000_000, 3_000;
        /// Addresses that the account has checked before.
        known: u64 = 2_000, 200;
        /// The smallest and the largest part of the upload in bytes.
        part: (usize, usize) = (100_000, 4_000_000), (10_000, 60_000);
        upload_kills: usize = 10, 2;
        work_kills: usize = 20, 2;
        download_kills: usize = 5, 1;
        /// The time between two kills during the check.
        life: Duration = Duration::from_secs(15), Duration::from_millis(700);
        /// Rows of the list that is cancelled.
        slow_rows: u64 = 10_000, 600;
    }
}

const SCENARIO: &str = include_str!("../../soak/scenarios/lists.toml");

/// Runs the campaign and counts its checks.
pub fn run(options: &SoakOptions, tally: &mut Tally) -> Result<(), Failure> {
    let size = ApiListSize::of(options.small);
    let seed = options.seed();
    report::line(&format!("lists: seed {seed}, {} rows", size.rows));
    let world = CampaignFolder::make(options)?;
    let mailnet = world.mailnet(SCENARIO)?;
    let random = fastrand::Rng::with_seed(seed);
    let list = ListRows::new(seed, size.rows, SCENARIO, |_, n| format!("bulk-{}.example", n % 200 + 1))?;
    let numbers = Numbers::of(&list, size.known);
    let file = world.path("list.csv");
    list.write(&file)?;
    let text = fs::read(&file).at(&file)?;
    let serve = world.serve(&mailnet, &[])?;
    let granted = size.rows + size.slow_rows + size.known;
    let key = world.unlimited(ACCOUNT, granted)?;
    let mut campaign = ApiListCampaign { world, mailnet, random, key, serve, kills: 0 };
    campaign.check_before(&list, &size)?;
    let id = campaign.upload(&text, &size, tally)?;
    campaign.kill()?;
    tally.check("the list is read after a kill", numbers.judge(&campaign.wait(&id, "ready")?));
    campaign.order("POST", &format!("/{id}/start"))?;
    for _ in 0..size.work_kills {
        let life = size.life.mul_f64(0.5 + campaign.random.f64());
        sleep(life)?;
        campaign.kill()?;
    }
    let state = campaign.wait(&id, "completed")?;
    let spent = size.known + numbers.price;
    let is_right = state["credits_charged"].as_u64() == Some(numbers.price);
    tally.check("the list costs its new addresses", outcome(is_right, state.to_string()));
    let path = campaign.world.path("results.csv");
    fs::write(&path, campaign.download(&id, &size)?).at(&path)?;
    let output = ListOutput { list: &list, path, is_ordered: true, has_more_columns: false, titles: 0 };
    let rows = format!("{} rows", size.rows);
    tally.check("each row is there once, with its verdict", output.judge().map(|()| rows));
    let paid = campaign.world.judge(ACCOUNT, &Claim::exact(granted, spent));
    tally.check("the account has paid once for each address", paid);
    let cancelled = campaign.cancelled(&size, granted, spent);
    tally.check("a cancelled list costs what has an answer", cancelled);
    report::line(&format!("lists: {} kills", campaign.kills));
    tally.check("the server ends in order", campaign.serve.end());
    campaign.mailnet.end(tally).map(drop)
}

/// The numbers that the server must find in the list.
#[derive(Debug, PartialEq, Eq)]
struct Numbers {
    rows: u64,
    addresses: u64,
    distinct: u64,
    /// The credits for addresses that the account has not checked before.
    price: u64,
}

impl Numbers {
    fn of(list: &ListRows, known: u64) -> Numbers {
        let addresses = (0..list.lines).map(|n| list.address(n)).filter(|address| address.contains('@'));
        let addresses: Vec<String> = addresses.map(|address| address.to_lowercase()).collect();
        let distinct: HashSet<&str> = addresses.iter().map(String::as_str).collect();
        let known = (0..known).filter(|&n| distinct.contains(list.own(n).as_str())).count() as u64;
        let (count, distinct) = (addresses.len() as u64, distinct.len() as u64);
        Numbers { rows: list.lines, addresses: count, distinct, price: distinct - known }
    }

    fn judge(&self, list: &Value) -> Result<String, String> {
        let field = |name: &str| list[name].as_u64().unwrap_or_default();
        let found = Numbers {
            rows: field("rows"),
            addresses: field("addresses"),
            distinct: field("distinct"),
            price: field("credits_required"),
        };
        outcome(found == *self, format!("{found:?}, expected {self:?}"))
    }
}

struct ApiListCampaign {
    world: CampaignFolder,
    mailnet: Mailnet,
    random: fastrand::Rng,
    key: String,
    serve: Serve,
    kills: usize,
}

impl ApiListCampaign {
    fn api(&self) -> Api<'_> {
        Api::new(self.serve.address, &self.key)
    }

    /// Kills the server and starts another one on the same data.
    fn kill(&mut self) -> Result<(), Failure> {
        self.kills += 1;
        self.world.restart(&mut self.serve, &self.mailnet, &[])
    }

    /// Kills the server some time after the start of a request, whose answer does not count.
    fn kill_during(&mut self, request: HttpRequest, after_ms: u64) -> Result<(), Failure> {
        let (server, key) = (self.serve.address, self.key.clone());
        let after = Duration::from_millis(self.random.u64(0..after_ms));
        std::thread::scope(|scope| {
            scope.spawn(|| Api::new(server, &key).send(request));
            std::thread::sleep(after);
            self.kill()
        })
    }

    /// Sends a request until its answer is not one that asks to repeat it.
    fn request(&self, request: HttpRequest) -> Result<HttpReply, Failure> {
        let end = Instant::now() + RETRY_LIMIT;
        loop {
            match self.api().send(request.clone()) {
                Ok(answer) if answer.status != 503 => return Ok(answer),
                other if Instant::now() > end => {
                    return Err(Failure(format!("{}: {other:?}", request.path())));
                }
                _ => sleep(Duration::from_millis(50))?,
            }
        }
    }

    fn order(&self, method: &'static str, path: &str) -> Result<Value, Failure> {
        let answer = self.request(HttpRequest::new(method, format!("/v1/lists{path}"), ""))?;
        if (200..300).contains(&answer.status) {
            return Ok(answer.json());
        }
        Err(Failure(format!("{method} {path}: {answer}")))
    }

    fn wait(&self, id: &str, status: &str) -> Result<Value, Failure> {
        let mut list = Value::Null;
        wait_until(status, LIMIT, || {
            list = self.order("GET", &format!("/{id}"))?;
            sleep(Duration::from_millis(200))?;
            if list["status"] != status && ["unfit", "paused"].iter().any(|end| list["status"] == *end) {
                return Err(Failure(format!("the list is not {status}: {list}")));
            }
            Ok(list["status"] == status)
        })?;
        Ok(list)
    }

    /// Checks some addresses of the list in batches.
    fn check_before(&self, list: &ListRows, size: &ApiListSize) -> Result<(), Failure> {
        let mut ids = Vec::new();
        for first in (0..size.known).step_by(BATCH as usize) {
            let rows: Vec<String> = (first..(first + BATCH).min(size.known)).map(|n| list.own(n)).collect();
            ids.push(self.api().submit("", &rows)?.word("batch_id"));
        }
        ids.iter().try_for_each(|id| self.api().complete(id, LIMIT).map(drop))?;
        Ok(())
    }

    /// Announces the upload.
    fn announce(&self, bytes: usize) -> Result<HttpReply, Failure> {
        let announced = HttpRequest::json("/v1/lists", &json!({ "bytes": bytes, "name": "soak" }));
        self.request(announced.header("Idempotency-Key", "soak"))
    }

    /// Uploads the list in parts, with kills between the first and the last byte of some of them.
    fn upload(&mut self, text: &[u8], size: &ApiListSize, tally: &mut Tally) -> Result<String, Failure> {
        let id = self.announce(text.len())?.word("list_id");
        let (mut acknowledged, mut kills, mut wrong) = (0, 0, Vec::new());
        while acknowledged < text.len() {
            interrupted()?;
            let length = self.random.usize(size.part.0..size.part.1).min(text.len() - acknowledged);
            let path = format!("/v1/lists/{id}");
            let part = |offset: usize, length: usize| {
                let request = HttpRequest::new("PATCH", path.as_str(), &text[offset..offset + length]);
                let request = request.header("Upload-Offset", &offset.to_string());
                let is_last = offset + length == text.len();
                if is_last { request.header("Upload-Complete", "?1") } else { request }
            };
            // The kills are spread over the upload.
            let is_due = acknowledged * size.upload_kills / text.len() >= kills && kills < size.upload_kills;
            if is_due {
                kills += 1;
                self.kill_during(part(acknowledged, length), 40)?;
            } else {
                let answer = self.request(part(acknowledged, length))?;
                if answer.status != 200 && answer.word("error") != "offset_mismatch" {
                    wrong.push(answer.to_string());
                }
            }
            let list = self.order("GET", &format!("/{id}"))?;
            let offset = list["offset"].as_u64().unwrap_or_default() as usize;
            if offset < acknowledged || offset > acknowledged + length {
                wrong.push(format!("after {acknowledged} and {length} the offset is {offset}"));
                break;
            }
            acknowledged = offset;
            if acknowledged == text.len() && list["status"] == "uploading" {
                self.request(part(offset, 0))?;
            }
        }
        let again = self.announce(text.len())?;
        if again.word("list_id") != id || !again.is_replay() {
            wrong.push(format!("the key has another list: {again}"));
        }
        let judged = match wrong.first() {
            None => Ok(format!("{} bytes, {kills} kills", text.len())),
            Some(first) => Err(first.clone()),
        };
        tally.check("no acknowledged byte is lost", judged);
        Ok(id)
    }

    /// Downloads the results. Before that, some downloads are cut off by a kill.
    fn download(&mut self, id: &str, size: &ApiListSize) -> Result<Vec<u8>, Failure> {
        let path = format!("/v1/lists/{id}/results?format=csv");
        for _ in 0..size.download_kills {
            self.kill_during(HttpRequest::get(path.as_str()), 30)?;
        }
        self.results(&path)
    }

    fn results(&self, path: &str) -> Result<Vec<u8>, Failure> {
        match self.api().get(path)? {
            answer if answer.status == 200 => Ok(answer.body),
            answer => Err(Failure(format!("{path}: {answer}"))),
        }
    }

    /// A list at slow servers is cancelled after a kill.
    fn cancelled(&mut self, size: &ApiListSize, granted: u64, before: u64) -> Result<String, String> {
        let text: String =
            (0..size.slow_rows).map(|n| format!("user-{n}@slow-{}.example\n", n % 20 + 1)).collect();
        let upload = HttpRequest::new("POST", "/v1/lists?name=slow", text);
        let id = self.request(upload.header("Content-Type", "text/plain"))?.word("list_id");
        self.wait(&id, "ready")?;
        self.order("POST", &format!("/{id}/start"))?;
        sleep(size.life)?;
        self.kill()?;
        let end = Instant::now() + LIMIT;
        while self.order("GET", &format!("/{id}"))?["checked"].as_u64() < Some(10) && Instant::now() < end {
            sleep(Duration::from_millis(100))?;
        }
        let list = self.order("POST", &format!("/{id}/cancel"))?;
        self.kill()?;
        let after = self.order("GET", &format!("/{id}"))?;
        let rows = self.results(&format!("/v1/lists/{id}/results"))?;
        let rows = rows.iter().filter(|&&byte| byte == b'\n').count() as u64;
        let (checked, charged) = (list["checked"].as_u64(), list["credits_charged"].as_u64());
        let is_part = checked.is_some_and(|checked| (1..size.slow_rows).contains(&checked));
        if list != after || checked != charged || checked != Some(rows) || !is_part {
            return Err(format!("{rows} rows: {list}; later {after}"));
        }
        let paid = self.world.judge(ACCOUNT, &Claim::exact(granted, before + rows));
        paid.map(|_| format!("{rows} of {} rows", size.slow_rows))
    }
}
