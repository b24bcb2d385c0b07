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

use super::http;
use super::list_rows::next_row;
use super::options::SoakOptions;
use super::world::{CampaignFolder, Credits, Mailnet, Serve};
use crate::failure::Failure;
use crate::interop::process::{interrupted, sleep};
use crate::interop::report::{self, Tally};
use mailnet::Scenario;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::io::BufReader;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Addresses of a batch that checks addresses before the list.
const BATCH: u64 = 200;
const LIMIT: Duration = Duration::from_secs(7_200);
const RETRY_LIMIT: Duration = Duration::from_secs(60);
const ACCOUNT: &str = "lists";

struct ApiListSize {
    rows: u64,
    /// Addresses that the account has checked before.
    known: u64,
    /// The smallest and the largest part of the upload in bytes.
    part: (usize, usize),
    upload_kills: usize,
    work_kills: usize,
    download_kills: usize,
    /// The time between two kills during the check.
    life: Duration,
    /// Rows of the list that is cancelled.
    slow_rows: u64,
}

const FULL: ApiListSize = ApiListSize {
    rows: 1_000_000,
    known: 2_000,
    part: (100_000, 4_000_000),
    upload_kills: 10,
    work_kills: 20,
    download_kills: 5,
    life: Duration::from_secs(15),
    slow_rows: 10_000,
};
const SMALL: ApiListSize = ApiListSize {
    rows: 3_000,
    known: 200,
    part: (10_000, 60_000),
    upload_kills: 2,
    work_kills: 2,
    download_kills: 1,
    life: Duration::from_millis(700),
    slow_rows: 600,
};

const SCENARIO: &str = "seed = 7\n[dns]\nlatency_ms = 20\n\
    [[group]]\nname = \"bulk-{n}.example\"\ncount = 200\nserver = { latency_ms = 20 }\n\
    mailboxes = { ok = [\"user-#\"], full = [\"full-#\"], disabled = [\"gone-#\"] }\n\
    [[group]]\nname = \"slow-{n}.example\"\ncount = 20\nserver = { latency_ms = 4000 }\nmailboxes.ok = [\"user-#\"]\n";

/// Runs the campaign and returns the counts of its checks.
///
/// # Errors
///
/// The campaign cannot be set up, or a step of it fails in an unexpected way.
pub fn run(options: &SoakOptions) -> Result<Option<Tally>, Failure> {
    let size = if options.small { SMALL } else { FULL };
    let seed = options.seed();
    report::line(&format!("lists: seed {seed}, {} rows", size.rows));
    let world = CampaignFolder::make(options)?;
    let mailnet = world.mailnet(SCENARIO)?;
    let plans = world.plans()?;
    let scenario = Scenario::parse(SCENARIO).map_err(|error| Failure(format!("the scenario: {error}")))?;
    let random = fastrand::Rng::with_seed(seed);
    let content = ListContent::new(seed, size.rows, size.known);
    let serve = world.serve(&mailnet, &plans.each_ref().map(String::as_str))?;
    let granted = size.rows + size.slow_rows + size.known;
    let key = world.unlimited(ACCOUNT, granted)?;
    let serve = Some(serve);
    let mut campaign = ApiListCampaign { world, mailnet, plans, random, key, serve, kills: 0 };
    let mut tally = Tally::default();
    campaign.check_before(&content, &size)?;
    let text = content.text();
    let id = campaign.upload(&text, &size, &mut tally)?;
    campaign.kill()?;
    let list = campaign.wait(&id, "ready")?;
    tally.check("the list is read after a kill", content.judge_numbers(&list));
    campaign.order("POST", &format!("/{id}/start"))?;
    for _ in 0..size.work_kills {
        let life = size.life.mul_f64(0.5 + campaign.random.f64());
        sleep(life)?;
        campaign.kill()?;
    }
    let list = campaign.wait(&id, "completed")?;
    let price = content.distinct - content.known;
    let spent = size.known + price;
    let charged = list["credits_charged"].as_u64();
    let judged = if charged == Some(price) { Ok(format!("{price} credits")) } else { Err(list.to_string()) };
    tally.check("the list costs its new addresses", judged);
    let results = campaign.download(&id, &size)?;
    tally.check("each row is there once, with its verdict", content.judge_rows(&results, &scenario));
    tally.check("the account has paid once for each address", campaign.judge_credits(granted, spent));
    let cancelled = campaign.cancelled(&size, granted, spent)?;
    tally.check("a cancelled list costs what has an answer", cancelled);
    report::line(&format!("lists: {} kills", campaign.kills));
    let stopped = campaign.serve.take().map_or(Ok(()), Serve::stop);
    tally.check("the server ends in order", stopped.map(|()| "status 0".into()).map_err(|failure| failure.0));
    let violations = campaign.mailnet.stop()?.get("violations").map(Value::to_string).unwrap_or_default();
    let held = if violations == "{}" { Ok("none".to_owned()) } else { Err(violations) };
    tally.check("no rule of the protocols broken", held);
    Ok(Some(tally))
}

/// The rows of the list.
struct ListContent {
    seed: u64,
    rows: u64,
    addresses: u64,
    distinct: u64,
    known: u64,
}

impl ListContent {
    fn new(seed: u64, rows: u64, known: u64) -> ListContent {
        let mut content = ListContent { seed, rows, addresses: 0, distinct: 0, known };
        let mut seen = HashSet::new();
        for n in 0..rows {
            let value = content.value(n);
            if value.contains('@') {
                content.addresses += 1;
                seen.insert(value.to_lowercase());
            }
        }
        content.distinct = seen.len() as u64;
        // Addresses that are checked before the list, and occur in it.
        content.known = (0..known).filter(|&n| seen.contains(&content.own(n))).count() as u64;
        content
    }

    fn draw(&self, n: u64, salt: u64) -> u64 {
        fastrand::Rng::with_seed(self.seed ^ n.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt << 56).u64(..)
    }

    /// The address of a row that is no duplicate.
    fn own(&self, n: u64) -> String {
        let kind = ["user", "user", "user", "full", "gone", "nobody"][(n % 6) as usize];
        format!("{kind}-{n}@bulk-{}.example", n % 200 + 1)
    }

    /// One row in five is a duplicate of any earlier one, often in other letter case, and one in forty has no address.
    fn value(&self, n: u64) -> String {
        match self.draw(n, 2) % 40 {
            0 => "no address".to_owned(),
            1..=4 if n > 0 => self.own(self.draw(n, 3) % n).to_uppercase(),
            5..=8 if n > 0 => self.own(self.draw(n, 3) % n),
            _ => self.own(n),
        }
    }

    fn text(&self) -> Vec<u8> {
        let mut text = b"n,email,note\n".to_vec();
        for n in 0..self.rows {
            text.extend_from_slice(format!("{n},{},\"a, {n}\"\n", self.value(n)).as_bytes());
        }
        text
    }

    fn judge_numbers(&self, list: &Value) -> Result<String, String> {
        let field = |name: &str| list[name].as_u64().unwrap_or_default();
        let found = (field("rows"), field("addresses"), field("distinct"), field("credits_required"));
        if found == (self.rows, self.addresses, self.distinct, self.distinct - self.known) {
            Ok(format!(
                "{} rows, {} addresses, {} different, {} known",
                self.rows, self.addresses, self.distinct, self.known
            ))
        } else {
            Err(format!("{found:?} instead of {}, {}, {}: {list}", self.rows, self.addresses, self.distinct))
        }
    }

    fn judge_rows(&self, results: &[u8], scenario: &Scenario) -> Result<String, String> {
        let (mut input, mut row) = (BufReader::new(results), String::new());
        let mut next = |row: &mut String| next_row(&mut input, row).map_err(|error| error.to_string());
        if !next(&mut row)? || row != "n,email,note,deliverable,reason" {
            return Err(format!("the header is {row:?}"));
        }
        for n in 0..self.rows {
            let value = self.value(n);
            let reason = match value.contains('@') {
                true => scenario.expected(&value.to_lowercase()).patient.as_str(),
                false => "invalid_syntax",
            };
            let deliverable = matches!(reason, "mailbox_exists" | "role_account");
            let expected = format!("{n},{value},\"a, {n}\",{deliverable},{reason}");
            if !next(&mut row)? || row != expected {
                return Err(format!("row {n} is {row:?}, not {expected:?}"));
            }
        }
        if next(&mut row)? {
            Err(format!("a row too many: {row:?}"))
        } else {
            Ok(format!("{} rows", self.rows))
        }
    }
}

struct ApiListCampaign {
    world: CampaignFolder,
    mailnet: Mailnet,
    plans: [String; 2],
    random: fastrand::Rng,
    key: String,
    serve: Option<Serve>,
    kills: usize,
}

impl ApiListCampaign {
    fn address(&self) -> Result<SocketAddr, Failure> {
        self.serve.as_ref().map(|serve| serve.address).ok_or_else(|| Failure("there is no server".into()))
    }

    /// Kills the server and starts another one on the same data.
    fn kill(&mut self) -> Result<(), Failure> {
        if let Some(serve) = self.serve.take() {
            super::hostile::no_panic(&serve.log()?).map_err(Failure)?;
            serve.kill();
        }
        self.kills += 1;
        self.serve = Some(self.world.serve(&self.mailnet, &self.plans.each_ref().map(String::as_str))?);
        Ok(())
    }

    /// Sends a request until its answer is not one that asks to repeat it.
    fn request(
        &self,
        method: &str,
        path: &str,
        fields: &str,
        body: &[u8],
    ) -> Result<http::ApiAnswer, Failure> {
        let end = Instant::now() + RETRY_LIMIT;
        loop {
            match http::request(self.address()?, &self.key, (method, path), fields, body) {
                Ok(answer) if answer.status != 503 => return Ok(answer),
                other if Instant::now() > end => return Err(Failure(format!("{method} {path}: {other:?}"))),
                _ => sleep(Duration::from_millis(50))?,
            }
        }
    }

    fn order(&self, method: &str, path: &str) -> Result<Value, Failure> {
        let answer = self.request(method, &format!("/v1/lists{path}"), "", b"")?;
        if (200..300).contains(&answer.status) {
            return Ok(answer.body);
        }
        Err(Failure(format!("{method} {path}: {} {}", answer.status, answer.body)))
    }

    fn wait(&self, id: &str, status: &str) -> Result<Value, Failure> {
        let end = Instant::now() + LIMIT;
        loop {
            let list = self.order("GET", &format!("/{id}"))?;
            if list["status"] == status {
                return Ok(list);
            }
            if Instant::now() > end
                || ["unfit", "paused"].contains(&list["status"].as_str().unwrap_or_default())
            {
                return Err(Failure(format!("the list is not {status}: {list}")));
            }
            sleep(Duration::from_millis(200))?;
        }
    }

    /// Checks some addresses of the list in batches.
    fn check_before(&self, content: &ListContent, size: &ApiListSize) -> Result<(), Failure> {
        let mut ids = Vec::new();
        for first in (0..size.known).step_by(BATCH as usize) {
            let rows: Vec<String> =
                (first..(first + BATCH).min(size.known)).map(|n| content.own(n)).collect();
            let answer = http::submit(self.address()?, &self.key, "", &rows).map_err(Failure)?;
            ids.push(answer.text("batch_id").to_owned());
        }
        let end = Instant::now() + LIMIT;
        for id in ids {
            while http::poll(self.address()?, &self.key, &id).map_err(Failure)?.text("status") != "completed"
            {
                if Instant::now() > end {
                    return Err(Failure(format!("{id} does not complete")));
                }
                sleep(Duration::from_millis(100))?;
            }
        }
        Ok(())
    }

    /// Uploads the list in parts, with kills between the first and the last byte of some of them.
    fn upload(&mut self, text: &[u8], size: &ApiListSize, tally: &mut Tally) -> Result<String, Failure> {
        let announced = json!({ "bytes": text.len(), "name": "soak" }).to_string();
        let fields = "Content-Type: application/json\r\nIdempotency-Key: soak\r\n";
        let created = self.request("POST", "/v1/lists", fields, announced.as_bytes())?;
        let id = created.text("list_id").to_owned();
        let (mut acknowledged, mut kills, mut wrong) = (0, 0, Vec::new());
        while acknowledged < text.len() {
            interrupted()?;
            let length = self.random.usize(size.part.0..size.part.1).min(text.len() - acknowledged);
            let (part, path) = (&text[acknowledged..acknowledged + length], format!("/v1/lists/{id}"));
            let complete = if acknowledged + length == text.len() { "Upload-Complete: ?1\r\n" } else { "" };
            let fields = format!("Upload-Offset: {acknowledged}\r\n{complete}");
            // The kills are spread over the upload.
            let is_due = acknowledged * size.upload_kills / text.len() >= kills && kills < size.upload_kills;
            if is_due {
                kills += 1;
                let (server, key) = (self.address()?, self.key.clone());
                let after = Duration::from_millis(self.random.u64(0..40));
                std::thread::scope(|scope| {
                    scope.spawn(|| http::request(server, &key, ("PATCH", &path), &fields, part));
                    std::thread::sleep(after);
                    self.kill()
                })?;
            } else {
                let answer = self.request("PATCH", &path, &fields, part)?;
                if answer.status != 200 && answer.text("error") != "offset_mismatch" {
                    wrong.push(format!("{} {}", answer.status, answer.body));
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
                let fields = format!("Upload-Offset: {offset}\r\nUpload-Complete: ?1\r\n");
                self.request("PATCH", &path, &fields, b"")?;
            }
        }
        let again = self.request(
            "POST",
            "/v1/lists",
            "Content-Type: application/json\r\nIdempotency-Key: soak\r\n",
            announced.as_bytes(),
        )?;
        if again.text("list_id") != id || !again.replayed {
            wrong.push(format!("the key has another list: {}", again.body));
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
            let (server, key) = (self.address()?, self.key.clone());
            let after = Duration::from_millis(self.random.u64(0..30));
            std::thread::scope(|scope| {
                scope.spawn(|| http::download(server, &key, &path));
                std::thread::sleep(after);
                self.kill()
            })?;
        }
        http::download(self.address()?, &self.key, &path).map_err(Failure)
    }

    fn credits(&self) -> Result<Credits, Failure> {
        let shown = self.world.json(&["account", "show", ACCOUNT])?;
        let faults = shown["audit"]["faults"].as_array().map_or(usize::MAX, Vec::len);
        if faults != 0 {
            return Err(Failure(format!("{}", shown["audit"])));
        }
        Credits::of(shown.get("account").unwrap_or(&shown))
    }

    fn judge_credits(&self, granted: u64, spent: u64) -> Result<String, String> {
        let credits = self.credits().map_err(|failure| failure.0)?;
        let expected = Credits { available: granted - spent, held: 0, spent, expired: 0, granted };
        if credits == expected {
            Ok(format!("{spent} spent"))
        } else {
            Err(format!("{credits:?}, not {expected:?}"))
        }
    }

    /// A list at slow servers is cancelled after a kill.
    fn cancelled(
        &mut self,
        size: &ApiListSize,
        granted: u64,
        before: u64,
    ) -> Result<Result<String, String>, Failure> {
        let text: String =
            (0..size.slow_rows).map(|n| format!("user-{n}@slow-{}.example\n", n % 20 + 1)).collect();
        let created =
            self.request("POST", "/v1/lists?name=slow", "Content-Type: text/plain\r\n", text.as_bytes())?;
        let id = created.text("list_id").to_owned();
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
        let rows = http::download(self.address()?, &self.key, &format!("/v1/lists/{id}/results"))
            .map_err(Failure)?;
        let rows = rows.iter().filter(|&&byte| byte == b'\n').count() as u64;
        let (checked, charged) = (list["checked"].as_u64(), list["credits_charged"].as_u64());
        let is_part = checked.is_some_and(|checked| (1..size.slow_rows).contains(&checked));
        if list != after || checked != charged || checked != Some(rows) || !is_part {
            return Ok(Err(format!("{rows} rows: {list}; later {after}")));
        }
        Ok(self.judge_credits(granted, before + rows).map(|_| format!("{rows} of {} rows", size.slow_rows)))
    }
}
