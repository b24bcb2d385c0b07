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

use super::http;
use super::options::SoakOptions;
use super::world::{CampaignFolder, Credits, Serve};
use crate::failure::Failure;
use crate::interop::process::{interrupted, sleep};
use crate::interop::report::{self, Tally};
use serde_json::Value;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
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

const SCENARIO: &str = "seed = 9\n\
    [[group]]\nname = \"up-{n}.example\"\ncount = 400\nmailboxes.ok = [\"user-#\"]\n\
    [[group]]\nname = \"slow-{n}.example\"\ncount = 40\nserver = { latency_ms = 400 }\nmailboxes.ok = [\"user-#\"]\n\
    [[host]]\nname = \"mx.dead.example\"\nstate = \"refused\"\n\
    [[domain]]\nname = \"dead.example\"\nmx = [\"10 mx.dead.example\"]\n";

/// Runs the campaign and returns the counts of its checks.
///
/// # Errors
///
/// The campaign cannot be set up, or a step of it fails in an unexpected way.
pub fn run(options: &SoakOptions) -> Result<Option<Tally>, Failure> {
    report::line(
        "outage: eight points at which no server can be asked, and one at which a server can be asked",
    );
    let world = CampaignFolder::make(options)?;
    let plans = world.plans()?;
    let campaign = OutageCampaign { world, plans, next: AtomicUsize::new(1), spent: Mutex::new(0) };
    let mut tally = Tally::default();
    campaign.go(&mut tally)?;
    Ok(Some(tally))
}

struct OutageCampaign {
    world: CampaignFolder,
    plans: [String; 2],
    /// The number of the next address: no address is asked about twice.
    next: AtomicUsize,
    /// The credits that the account must have spent by now.
    spent: Mutex<u64>,
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
    fn go(&self, tally: &mut Tally) -> Result<(), Failure> {
        let ports = Ports::draw()?;
        let silent = UdpSocket::bind(("127.0.0.1", ports.dns))
            .map_err(|error| Failure(format!("a silent resolver: {error}")))?;
        let serve = self.serve(&ports, &[])?;
        let key = self.world.unlimited("outage", GRANTED)?;
        let server = serve.address;
        tally.check("1: no resolver from the start", self.goes_down(server, &key, "provider_unavailable"));
        let batch = self.submit(server, &key);
        drop(silent);
        let mailnet = self.mailnet(&ports)?;
        tally.check("2: the resolver is back", self.comes_back(server, &key));
        tally
            .check("2: the batch that waited", batch.and_then(|id| self.completes(server, &key, &id, false)));
        tally.check("a dead domain is no outage", self.dead_domain(server, &key));
        let vanishing = self.vanishes(server, &key, mailnet);
        tally.check("3: resolver and mail servers stop during checks", vanishing);
        tally.check("3: every check gets 503", self.goes_down(server, &key, "provider_unavailable"));
        self.end(serve, tally)?;

        let serve = self.serve(&ports, &["--batch-outage-wait", BATCH_WAIT])?;
        let server = serve.address;
        let batch = self.submit(server, &key);
        tally.check("4: a batch is given up", batch.and_then(|id| self.completes(server, &key, &id, true)));
        self.end(serve, tally)?;

        let closed = Ports::draw()?;
        let mailnet = self.mailnet(&ports)?;
        let serve = self.world.serve_with(
            &format!("127.0.0.1:{}", ports.dns),
            &closed.smtp.to_string(),
            &self.plans.each_ref().map(String::as_str),
        )?;
        let server = serve.address;
        tally.check("5: mail servers refuse", self.goes_down(server, &key, "provider_unavailable"));
        let other = self.mailnet(&closed)?;
        tally.check("6: mail servers are back", self.comes_back(server, &key));
        other.stop()?;
        self.end(serve, tally)?;

        let serve = self.serve(&ports, &["--queue", "8"])?;
        tally.check("7: a full queue", self.overflows(serve.address, &key));
        tally.check("8: a drain", self.drains(serve, &key));
        let serve = self.serve(&ports, &[])?;
        tally.check("8: the ledger after the drain", self.paid());
        self.end(serve, tally)?;
        mailnet.stop()?;
        Ok(())
    }

    fn serve(&self, ports: &Ports, more: &[&str]) -> Result<Serve, Failure> {
        let mut flags: Vec<&str> = self.plans.iter().map(String::as_str).collect();
        flags.extend(more);
        self.world.serve_with(&format!("127.0.0.1:{}", ports.dns), &ports.smtp.to_string(), &flags)
    }

    fn mailnet(&self, ports: &Ports) -> Result<super::world::Mailnet, Failure> {
        let dns = format!("127.0.0.1:{}", ports.dns);
        let at = ["--dns", &dns, "--smtp-port", &ports.smtp.to_string()].map(str::to_owned);
        self.world.mailnet_at(SCENARIO, &format!("mailnet-{}", ports.dns), &at.each_ref().map(String::as_str))
    }

    fn end(&self, serve: Serve, tally: &mut Tally) -> Result<(), Failure> {
        let log = serve.log()?;
        serve.stop()?;
        tally.check("no panic", super::hostile::no_panic(&log));
        Ok(())
    }

    /// Makes `count` checks at domains of a kind, from one client per check, at most [`CLIENTS`].
    fn ask(&self, server: SocketAddr, key: &str, kind: &str, count: usize) -> AnswerTotals {
        let (left, said) = (AtomicUsize::new(count), Mutex::new(AnswerTotals::default()));
        let take =
            || left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        let client = || {
            while take() && interrupted().is_ok() {
                let answer = http::verify(server, key, &self.address(kind));
                said.lock().unwrap_or_else(PoisonError::into_inner).take(answer);
            }
        };
        std::thread::scope(|scope| (0..count.min(CLIENTS)).for_each(|_| drop(scope.spawn(client))));
        let said = said.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.pay(said.right + said.unverifiable);
        said
    }

    fn address(&self, kind: &str) -> String {
        let number = self.next.fetch_add(1, Ordering::SeqCst);
        match kind {
            "dead" => format!("user-{number}@dead.example"),
            "slow" => format!("user-{number}@slow-{}.example", number % 40 + 1),
            _ => format!("user-{number}@up-{}.example", number % 400 + 1),
        }
    }

    fn pay(&self, credits: u64) {
        *self.spent.lock().unwrap_or_else(PoisonError::into_inner) += credits;
    }

    /// Checks that the ledger agrees with the answers.
    fn paid(&self) -> Result<String, String> {
        let expected = *self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = self.world.json(&["account", "show", "outage"]).map_err(|failure| failure.0)?;
        let credits = Credits::of(shown.get("account").unwrap_or(&shown)).map_err(|failure| failure.0)?;
        let faults = shown["audit"]["faults"].as_array().map_or(usize::MAX, Vec::len);
        if credits.spent == expected && credits.held == 0 && credits.add_up() && faults == 0 {
            return Ok(format!("{expected} spent"));
        }
        Err(format!("{credits:?}, {faults} faults; {expected} should be spent"))
    }

    /// Asks until every answer is 503 with this code. Before that only `unverifiable` is allowed.
    fn goes_down(&self, server: SocketAddr, key: &str, code: &str) -> Result<String, String> {
        let (begin, mut unverifiable) = (Instant::now(), 0);
        loop {
            let said = self.ask(server, key, "up", CLIENTS * 2);
            unverifiable += said.unverifiable;
            let down = said.provider_unavailable == CLIENTS as u64 * 2;
            if !said.wrong.is_empty() || said.right + said.cut_off + said.temporarily_unavailable > 0 {
                return Err(format!("{said:?}"));
            }
            if down {
                break;
            }
            if begin.elapsed() > NOTICE_LIMIT {
                return Err(format!("no {code} after {} s: {said:?}", begin.elapsed().as_secs()));
            }
        }
        let paid = self.paid()?;
        Ok(format!("after {:.1} s and {unverifiable} unverifiable; {paid}", begin.elapsed().as_secs_f32()))
    }

    /// Asks until every answer is right.
    fn comes_back(&self, server: SocketAddr, key: &str) -> Result<String, String> {
        let begin = Instant::now();
        loop {
            let said = self.ask(server, key, "up", CLIENTS * 2);
            if said.right == CLIENTS as u64 * 2 {
                break;
            }
            if begin.elapsed() > NOTICE_LIMIT || !said.wrong.is_empty() {
                return Err(format!("after {} s: {said:?}", begin.elapsed().as_secs()));
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        let paid = self.paid_in_time()?;
        Ok(format!("after {:.1} s; {paid}", begin.elapsed().as_secs_f32()))
    }

    /// The ledger, after the batches under way no longer hold credits.
    fn paid_in_time(&self) -> Result<String, String> {
        let end = Instant::now() + NOTICE_LIMIT;
        loop {
            match self.paid() {
                Err(_) if Instant::now() < end => std::thread::sleep(Duration::from_millis(500)),
                other => return other,
            }
        }
    }

    /// Submits a batch of addresses with right verdicts; its price counts as spent from now on.
    fn submit(&self, server: SocketAddr, key: &str) -> Result<String, String> {
        let rows: Vec<String> = (0..BATCH).map(|_| self.address("up")).collect();
        let answer = http::submit(server, key, "", &rows)?;
        if answer.status != 202 {
            return Err(format!("{} {}", answer.status, answer.body));
        }
        let id = answer.text("batch_id").to_owned();
        let polled = http::poll(server, key, &id)?;
        if polled.text("status") != "processing" || !polled.body["results"].is_null() {
            return Err(format!("an outage, and yet: {}", polled.body));
        }
        self.pay(BATCH as u64);
        Ok(id)
    }

    /// Waits for a batch. Its rows must be right, or unverifiable and refunded.
    fn completes(&self, server: SocketAddr, key: &str, id: &str, given_up: bool) -> Result<String, String> {
        let end = Instant::now() + NOTICE_LIMIT * 2;
        let polled = loop {
            let polled = http::poll(server, key, id)?;
            if polled.text("status") == "completed" {
                break polled;
            }
            if Instant::now() > end {
                return Err(format!("it does not complete: {}", polled.body));
            }
            sleep(Duration::from_millis(100)).map_err(|failure| failure.0)?;
        };
        let expected = if given_up { "unverifiable" } else { "mailbox_exists" };
        let rows = polled.body["results"].as_array().map_or(&[][..], Vec::as_slice);
        if rows.len() != BATCH || rows.iter().any(|row| row["reason"] != expected) {
            return Err(format!("not {expected}: {}", Value::from(rows)));
        }
        if given_up {
            *self.spent.lock().unwrap_or_else(PoisonError::into_inner) -= BATCH as u64;
        }
        self.paid()
    }

    fn dead_domain(&self, server: SocketAddr, key: &str) -> Result<String, String> {
        let said = self.ask(server, key, "dead", 100);
        let calm = said.unverifiable == 100;
        let after = self.ask(server, key, "up", CLIENTS);
        if !calm || after.right != CLIENTS as u64 {
            return Err(format!("{said:?}, then {after:?}"));
        }
        self.paid()
    }

    /// Ends mailnet while checks of slow servers are under way: each must be answered, or refused and free.
    fn vanishes(
        &self,
        server: SocketAddr,
        key: &str,
        mailnet: super::world::Mailnet,
    ) -> Result<String, String> {
        let said = std::thread::scope(|scope| {
            let asking = scope.spawn(|| self.ask(server, key, "slow", 64));
            std::thread::sleep(Duration::from_millis(1500));
            let stopped = mailnet.stop().map_err(|failure| failure.0);
            let said = asking.join().map_err(|_| "a client panicked".to_owned())?;
            stopped.map(|_| said)
        })?;
        if !said.wrong.is_empty() || said.cut_off > 0 {
            return Err(format!("{said:?}"));
        }
        let paid = self.paid()?;
        Ok(format!(
            "{} right, {} unverifiable, {} refused; {paid}",
            said.right, said.unverifiable, said.provider_unavailable
        ))
    }

    fn overflows(&self, server: SocketAddr, key: &str) -> Result<String, String> {
        let said = self.ask(server, key, "slow", 64);
        if !said.wrong.is_empty() || said.right == 0 || said.temporarily_unavailable == 0 {
            return Err(format!("{said:?}"));
        }
        let after = self.ask(server, key, "up", 4);
        if after.right != 4 {
            return Err(format!("it does not recover: {after:?}"));
        }
        let paid = self.paid()?;
        Ok(format!("{} answered, {} refused; {paid}", said.right, said.temporarily_unavailable))
    }

    fn drains(&self, serve: Serve, key: &str) -> Result<String, String> {
        let server = serve.address;
        let said = std::thread::scope(|scope| {
            let asking = scope.spawn(|| self.ask(server, key, "slow", 8));
            std::thread::sleep(Duration::from_millis(800));
            let stopped = serve.stop().map_err(|failure| failure.0);
            let said = asking.join().map_err(|_| "a client panicked".to_owned())?;
            stopped.map(|()| said)
        })?;
        // A queue of eight takes them all, and the server answers all accepted checks before it ends.
        if !said.wrong.is_empty() || said.right + said.temporarily_unavailable != 8 || said.right == 0 {
            return Err(format!("{said:?}"));
        }
        Ok(format!("{} answered, {} refused", said.right, said.temporarily_unavailable))
    }
}

impl AnswerTotals {
    fn take(&mut self, answer: Result<http::ApiAnswer, String>) {
        let Ok(answer) = answer else {
            self.cut_off += 1;
            return;
        };
        match (answer.status, answer.text("reason"), answer.text("error")) {
            (200, "mailbox_exists", _) => self.right += 1,
            (200, "unverifiable", _) => self.unverifiable += 1,
            (503, _, "provider_unavailable") if answer.retry_after => self.provider_unavailable += 1,
            (503, _, "temporarily_unavailable") if answer.retry_after => self.temporarily_unavailable += 1,
            (status, ..) => self.wrong.push(format!("{status} {}", answer.body)),
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
