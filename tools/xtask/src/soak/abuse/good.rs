//! Clients that behave well: their requests, the expected answers, and the latencies.

use super::super::client::{HttpClient, HttpRequest};
use super::super::crowd::each;
use super::super::slow_peers::percentile;
use super::super::transport::ServerEndpoint;
use super::super::visitor::{Visitor, expect};
use crate::failure::Failure;
use crate::interop::process::sleep;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The kinds of their requests.
pub const KINDS: [&str; 4] = ["/v1/account", "a fast check", "a full check", "a page"];
/// The index of full checks in [`KINDS`], and how often one is about a mailbox that does not exist.
const FULL: usize = 2;
const UNKNOWN_EVERY: usize = 7;
/// The number of domains in the scenario.
pub const DOMAINS: u64 = 20;
/// The pause between two requests of a client.
const PAUSE: Duration = Duration::from_millis(2);

/// Clients that behave well, with their key, their session and the address of the server.
pub struct Good {
    server: ServerEndpoint,
    key: String,
    person: Visitor,
    /// Full checks that were answered 200. Each address is asked about once, so each check was charged.
    pub charged: AtomicU64,
    /// The number of the next address.
    next: AtomicU64,
}

/// The latencies of each kind of request.
pub type WaitsByKind = [Vec<Duration>; KINDS.len()];

impl Good {
    /// Clients with a key and a signed-in user.
    pub fn new(server: ServerEndpoint, key: String, person: Visitor) -> Good {
        Good { server, key, person, charged: AtomicU64::new(0), next: AtomicU64::new(0) }
    }

    /// Sends this many requests of each kind in parallel, each over a new connection.
    pub fn ask(&self, requests: usize) -> Result<WaitsByKind, Failure> {
        let mut all = WaitsByKind::default();
        let clients = each(KINDS.len(), KINDS.len(), |kind| self.ask_for(kind, requests))?;
        for (waits, client) in all.iter_mut().zip(clients) {
            *waits = client?;
        }
        Ok(all)
    }

    fn ask_for(&self, kind: usize, requests: usize) -> Result<Vec<Duration>, Failure> {
        let mut waits = Vec::with_capacity(requests);
        let in_words =
            |failure: Failure| Failure(format!("the good client of {}: {}", KINDS[kind], failure.0));
        for request in 0..requests {
            if kind == FULL && request % UNKNOWN_EVERY == 0 {
                // This check is not timed: a refusal is verified, and the mail server determines how long that takes.
                self.full("nobody", "mailbox_not_found").map_err(in_words)?;
            }
            let began = Instant::now();
            match kind {
                0 => self.account(),
                1 => self.fast(),
                FULL => self.full("user", "mailbox_exists"),
                _ => self.page(),
            }
            .map_err(in_words)?;
            waits.push(began.elapsed());
            sleep(PAUSE)?;
        }
        Ok(waits)
    }

    fn account(&self) -> Result<(), Failure> {
        let answer = self.send(HttpRequest::get("/v1/account"))?;
        right(answer["credits_remaining"].is_u64(), &answer)
    }

    fn fast(&self) -> Result<(), Failure> {
        let body = json!({ "email": "user-1@a-1.example", "mode": "fast" });
        let answer = self.send(HttpRequest::json("/v1/verify", &body))?;
        right(answer["reason"] == "fast_check_passed" && answer["checks"]["mx"] == true, &answer)
    }

    /// Makes a full check of a mailbox that no client has asked about.
    fn full(&self, name: &str, reason: &str) -> Result<(), Failure> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let email = format!("{name}-{number}@a-{}.example", number % DOMAINS + 1);
        let answer = self.send(HttpRequest::json("/v1/verify", &json!({ "email": email })))?;
        self.charged.fetch_add(1, Ordering::Relaxed);
        right(answer["email"] == email.as_str() && answer["reason"] == reason, &answer)
    }

    fn page(&self) -> Result<(), Failure> {
        let page = expect(&mut self.person.client(), &HttpRequest::get("/lists"), 200)?;
        let has_form = page.form("/lists").is_some();
        right(has_form, &Value::from(page.text()))
    }

    fn send(&self, request: HttpRequest) -> Result<Value, Failure> {
        let mut client = HttpClient::program(self.server.clone());
        Ok(expect(&mut client, &request.bearer(&self.key), 200)?.json())
    }
}

fn right(is_right: bool, answer: &Value) -> Result<(), Failure> {
    if is_right { Ok(()) } else { Err(Failure(format!("a wrong answer: {answer}"))) }
}

/// The 99th percentile of each kind of request.
pub fn percentiles(waits: WaitsByKind) -> [Duration; KINDS.len()] {
    waits.map(percentile)
}
