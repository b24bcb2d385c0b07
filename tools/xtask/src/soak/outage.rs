//! `soak outage`: the server reaches no resolver or no mail server. It must answer 503 with the right code, and account
//! for every credit.
//!
//! The points are tested one after the other on one account:
//! 1. no resolver answers from the start: 503 within a minute, and only answered checks are paid;
//! 2. a batch submitted meanwhile waits; it and single checks are right after the resolver works again;
//! 3. resolver and mail servers disappear while checks are under way;
//! 4. a batch that exceeds its longest wait ends unverifiable and is refunded once;
//! 5. the resolver works and every mail server refuses connections, as where port 25 is closed: 503;
//! 6. the mail servers work again, and the verdicts are right;
//! 7. more checks than the queue takes: 503 for some, and answers for the others;
//! 8. the server drains while checks are under way.
//!
//! In contrast, one dead domain is never an outage, however often it is asked about.
//!
//! After each point the ledger must show that exactly the answered checks were paid, and nothing is held.

use super::api::Api;
use super::client::HttpReply;
use super::crowd::{each, joined, spawn};
use super::judge::{self, Claim};
use super::options::SoakOptions;
use super::world::{ANY_PORT, CampaignFolder, Mailnet, Serve};
use crate::failure::{Context, Failure, ensure};
use crate::interop::process::wait_until;
use crate::interop::report::{self, Tally};
use std::net::{TcpListener, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const CLIENTS: usize = 16;
const GRANTED: u64 = 1_000_000;
/// How soon the server must notice that an outage began or ended.
const NOTICE_LIMIT: Duration = Duration::from_secs(60);
const BATCH: usize = 20;
/// Ports below those that Linux gives to clients (ip_local_port_range in ip(7): from 32,768).
const PORTS: std::ops::Range<u16> = 20_000..32_000;
/// The longest wait of a batch at the fourth point, in seconds.
const BATCH_WAIT: &str = "5";

const SCENARIO: &str = include_str!("../../soak/scenarios/outage.toml");

/// Runs the campaign and counts its checks.
pub fn run(options: &SoakOptions, tally: &mut Tally) -> Result<(), Failure> {
    report::line(
        "outage: eight points at which no server can be asked, and one at which a server can be asked",
    );
    let world = CampaignFolder::make(options)?;
    let campaign = OutageCampaign { world, next: AtomicUsize::new(1), spent: AtomicU64::new(0) };
    let ports = Ports::draw()?;
    let silent = UdpSocket::bind(("127.0.0.1", ports.dns)).about("a silent resolver")?;
    let serve = campaign.serve(&ports, &[])?;
    let key = campaign.world.unlimited("outage", GRANTED)?;
    let api = Api::new(serve.address, &key);
    tally.check("1: no resolver from the start", campaign.goes_down(api, "provider_unavailable"));
    let batch = campaign.submit(api);
    drop(silent);
    let mailnet = campaign.mailnet(&ports)?;
    tally.check("2: the resolver is back", campaign.comes_back(api));
    tally.check("2: the batch that waited", batch.and_then(|batch| campaign.completes(api, &batch, false)));
    tally.check("a dead domain is no outage", campaign.dead_domain(api));
    let vanishing = campaign.vanishes(api, mailnet);
    tally.check("3: resolver and mail servers stop during checks", vanishing);
    tally.check("3: every check gets 503", campaign.goes_down(api, "provider_unavailable"));
    tally.check("no panic", serve.end());

    let serve = campaign.serve(&ports, &["--batch-outage-wait", BATCH_WAIT])?;
    let api = Api::new(serve.address, &key);
    let batch = campaign.submit(api);
    tally.check("4: a batch is given up", batch.and_then(|batch| campaign.completes(api, &batch, true)));
    tally.check("no panic", serve.end());

    let closed = Ports::draw()?;
    let mailnet = campaign.mailnet(&ports)?;
    let serve = campaign.serve(&Ports { dns: ports.dns, ..closed }, &[])?;
    let api = Api::new(serve.address, &key);
    tally.check("5: mail servers refuse", campaign.goes_down(api, "provider_unavailable"));
    let other = campaign.mailnet(&closed)?;
    tally.check("6: mail servers are back", campaign.comes_back(api));
    other.stop()?;
    tally.check("no panic", serve.end());

    let serve = campaign.serve(&ports, &["--queue", "8"])?;
    let api = Api::new(serve.address, &key);
    tally.check("7: a full queue", campaign.overflows(api));
    tally.check("8: a drain", campaign.drains(serve, api));
    let serve = campaign.serve(&ports, &[])?;
    tally.check("8: the ledger after the drain", campaign.paid());
    tally.check("no panic", serve.end());
    mailnet.stop().map(drop)
}

struct OutageCampaign {
    world: CampaignFolder,
    /// The number of the next address: no address is asked about twice.
    next: AtomicUsize,
    /// The credits that the account must have spent by now.
    spent: AtomicU64,
}

/// Counts of checks by their answer.
#[derive(Debug, Default)]
struct AnswerTotals {
    right: u64,
    unverifiable: u64,
    provider_unavailable: u64,
    temporarily_unavailable: u64,
    /// Answers of any other kind.
    wrong: Vec<String>,
    /// Checks without an answer.
    cut_off: u64,
}

/// Ports that remain the same over restarts of the programs that use them.
struct Ports {
    dns: u16,
    smtp: u16,
}

impl OutageCampaign {
    fn serve(&self, ports: &Ports, more: &[&str]) -> Result<Serve, Failure> {
        let engine = (format!("127.0.0.1:{}", ports.dns), ports.smtp.to_string());
        self.world.serve_at(ANY_PORT, (&engine.0, &engine.1), more)
    }

    fn mailnet(&self, ports: &Ports) -> Result<Mailnet, Failure> {
        let at = [format!("127.0.0.1:{}", ports.dns), ports.smtp.to_string()];
        let at = ["--dns", &at[0], "--smtp-port", &at[1]];
        let command = Command::new(self.world.binary("mailnet"));
        self.world.mailnet_by(command, SCENARIO, &format!("mailnet-{}", ports.dns), &at)
    }

    /// Makes `count` checks at domains of a kind, from one client per check, at most [`CLIENTS`].
    fn ask(&self, api: Api<'_>, kind: &str, count: usize) -> Result<AnswerTotals, String> {
        let mut said = AnswerTotals::default();
        let answers = each(count, CLIENTS, |_| api.verify(&self.address(kind)))?;
        answers.into_iter().for_each(|answer| said.take(answer));
        self.spent.fetch_add(said.right + said.unverifiable, Ordering::SeqCst);
        Ok(said)
    }

    fn address(&self, kind: &str) -> String {
        let number = self.next.fetch_add(1, Ordering::SeqCst);
        match kind {
            "dead" => format!("user-{number}@dead.example"),
            "slow" => format!("user-{number}@slow-{}.example", number % 40 + 1),
            _ => format!("user-{number}@up-{}.example", number % 400 + 1),
        }
    }

    /// Checks that the ledger agrees with the answers.
    fn paid(&self) -> Result<String, String> {
        self.world.judge("outage", &Claim::exact(GRANTED, self.spent.load(Ordering::SeqCst)))
    }

    /// Asks until every answer is 503 with this code. Before that only `unverifiable` is allowed.
    fn goes_down(&self, api: Api<'_>, code: &str) -> Result<String, String> {
        let (begin, mut unverifiable) = (Instant::now(), 0);
        wait_until(&format!("503 with {code}"), NOTICE_LIMIT, || {
            let said = self.ask(api, "up", CLIENTS * 2)?;
            unverifiable += said.unverifiable;
            if !said.wrong.is_empty() || said.right + said.cut_off + said.temporarily_unavailable > 0 {
                return Err(Failure(format!("{said:?}")));
            }
            Ok(said.provider_unavailable == CLIENTS as u64 * 2)
        })?;
        let paid = self.paid()?;
        Ok(format!("after {:.1} s and {unverifiable} unverifiable; {paid}", begin.elapsed().as_secs_f32()))
    }

    /// Asks until every answer is right.
    fn comes_back(&self, api: Api<'_>) -> Result<String, String> {
        let begin = Instant::now();
        wait_until("right answers", NOTICE_LIMIT, || {
            let said = self.ask(api, "up", CLIENTS * 2)?;
            ensure!(said.wrong.is_empty(), "{said:?}");
            let is_back = said.right == CLIENTS as u64 * 2;
            std::thread::sleep(Duration::from_millis(if is_back { 0 } else { 500 }));
            Ok(is_back)
        })?;
        // Batches under way still hold credits.
        let mut paid = self.paid();
        let _ = wait_until("the ledger", NOTICE_LIMIT, || {
            paid = self.paid();
            Ok(paid.is_ok())
        });
        Ok(format!("after {:.1} s; {}", begin.elapsed().as_secs_f32(), paid?))
    }

    /// Submits a batch of addresses with right verdicts; its price counts as spent from now on. Returns its id and its rows.
    fn submit(&self, api: Api<'_>) -> Result<(String, Vec<String>), String> {
        let rows: Vec<String> = (0..BATCH).map(|_| self.address("up")).collect();
        let answer = api.submit("", &rows)?;
        ensure!(answer.status == 202, "{answer}");
        let id = answer.word("batch_id");
        let polled = api.poll(&id)?;
        if polled.word("status") != "processing" || !polled.json()["results"].is_null() {
            return Err(format!("an outage, and yet: {polled}"));
        }
        self.spent.fetch_add(BATCH as u64, Ordering::SeqCst);
        Ok((id, rows))
    }

    /// Waits for a batch. Its rows must be right, or unverifiable and refunded.
    fn completes(
        &self,
        api: Api<'_>,
        (id, rows): &(String, Vec<String>),
        given_up: bool,
    ) -> Result<String, String> {
        let reason = if given_up { "unverifiable" } else { "mailbox_exists" };
        judge::rows(id, &judge::alike(rows, reason), &api.complete(id, NOTICE_LIMIT * 2)?)?;
        if given_up {
            self.spent.fetch_sub(BATCH as u64, Ordering::SeqCst);
        }
        self.paid()
    }

    fn dead_domain(&self, api: Api<'_>) -> Result<String, String> {
        let said = self.ask(api, "dead", 100)?;
        let after = self.ask(api, "up", CLIENTS)?;
        ensure!(said.unverifiable == 100 && after.right == CLIENTS as u64, "{said:?}, then {after:?}");
        self.paid()
    }

    /// Checks slow servers, and meanwhile does something after this time.
    fn ask_during(
        &self,
        api: Api<'_>,
        count: usize,
        after: Duration,
        what: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<AnswerTotals, String> {
        std::thread::scope(|scope| {
            let asking = spawn(scope, || self.ask(api, "slow", count))?;
            std::thread::sleep(after);
            let done = what();
            let said = joined(asking)?;
            done?;
            Ok(said)
        })
    }

    /// Ends mailnet while checks of slow servers are under way: each must be answered, or refused and free.
    fn vanishes(&self, api: Api<'_>, mailnet: Mailnet) -> Result<String, String> {
        let said = self.ask_during(api, 64, Duration::from_millis(1500), || mailnet.stop().map(drop))?;
        ensure!(said.wrong.is_empty() && said.cut_off == 0, "{said:?}");
        let paid = self.paid()?;
        Ok(format!(
            "{} right, {} unverifiable, {} refused; {paid}",
            said.right, said.unverifiable, said.provider_unavailable
        ))
    }

    fn overflows(&self, api: Api<'_>) -> Result<String, String> {
        let said = self.ask(api, "slow", 64)?;
        ensure!(said.wrong.is_empty() && said.right > 0 && said.temporarily_unavailable > 0, "{said:?}");
        let after = self.ask(api, "up", 4)?;
        ensure!(after.right == 4, "it does not recover: {after:?}");
        let paid = self.paid()?;
        Ok(format!("{} answered, {} refused; {paid}", said.right, said.temporarily_unavailable))
    }

    fn drains(&self, serve: Serve, api: Api<'_>) -> Result<String, String> {
        let said = self.ask_during(api, 8, Duration::from_millis(800), || serve.stop())?;
        // A queue of eight takes them all, and the server answers all accepted checks before it ends.
        if !said.wrong.is_empty() || said.right + said.temporarily_unavailable != 8 || said.right == 0 {
            return Err(format!("{said:?}"));
        }
        Ok(format!("{} answered, {} refused", said.right, said.temporarily_unavailable))
    }
}

impl AnswerTotals {
    fn take(&mut self, answer: Result<HttpReply, String>) {
        let Ok(answer) = answer else {
            self.cut_off += 1;
            return;
        };
        let says_when = answer.header("retry-after").is_some();
        match (answer.status, answer.word("reason").as_str(), answer.word("error").as_str()) {
            (200, "mailbox_exists", _) => self.right += 1,
            (200, "unverifiable", _) => self.unverifiable += 1,
            (503, _, "provider_unavailable") if says_when => self.provider_unavailable += 1,
            (503, _, "temporarily_unavailable") if says_when => self.temporarily_unavailable += 1,
            _ => self.wrong.push(answer.to_string()),
        }
    }
}

impl Ports {
    /// Two ports that are free now, and that no client gets from the kernel: mailnet ends and starts again on them. A port
    /// of a client would be in use for a minute after its connection.
    fn draw() -> Result<Ports, Failure> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        // Two campaigns at once begin at different ports.
        let first = std::process::id() as usize * 2;
        let mut free = std::iter::repeat_with(|| NEXT.fetch_add(1, Ordering::SeqCst))
            .take(PORTS.len())
            .map(|tried| PORTS.start + ((first + tried) % PORTS.len()) as u16)
            .filter(|port| is_free(*port));
        match (free.next(), free.next()) {
            (Some(dns), Some(smtp)) => Ok(Ports { dns, smtp }),
            _ => Err(Failure(format!("no two free ports in {PORTS:?}"))),
        }
    }
}

/// True if a port is free on every address, for UDP and TCP.
fn is_free(port: u16) -> bool {
    UdpSocket::bind(("0.0.0.0", port)).is_ok() && TcpListener::bind(("0.0.0.0", port)).is_ok()
}
