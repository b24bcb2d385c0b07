//! The clients: threads in a namespace of their own that call all nodes, and repeat at another node what has failed.
//!
//! A check or a batch is repeated until it is answered, as a careful customer does. So at the end nearly every outcome is known.

use super::calls::{CallLog, ClusterCall, NodeAnswer, NodeRequest, answer_of};
use super::world::{ClusterAccount, ClusterWorld, NODES};
use crate::failure::Failure;
use crate::interop::process::interrupted;
use crate::isolation::Namespace;
use crate::soak::client::{HttpClient, HttpReply, HttpRequest, Lost};
use crate::soak::crowd::{each, joined, lock, spawn};
use crate::soak::judge;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The clients of each account: one for each node, which turns to others only after an error, and one that calls all nodes. A
/// node that is paused keeps its clients waiting, and the others show how it affects the other nodes.
const CLIENTS_OF_AN_ACCOUNT: usize = NODES + 1;
/// A pause between two actions leaves processor time to the servers, which are debug builds in the small version.
const PAUSE_MS: std::ops::Range<u64> = 10..60;
/// How long a client repeats a request after the end of the load.
const FINISH_LIMIT: Duration = Duration::from_secs(150);
/// The rows of a batch.
const ROWS: std::ops::Range<u64> = 2..20;
/// The fewest open batches before clients poll any.
const OPEN_BATCHES: usize = 4;

/// A batch that the API has accepted.
#[derive(Debug, Clone)]
pub struct OpenBatch {
    pub account: usize,
    pub id: String,
    pub addresses: Vec<String>,
}

/// The load, and what its clients share.
pub struct ClusterLoad<'w> {
    pub namespace: Namespace,
    pub nodes: [SocketAddr; NODES],
    pub accounts: &'w [ClusterAccount],
    pub log: &'w CallLog,
    /// The load ends: clients finish what they have begun.
    pub stop: AtomicBool,
    /// Numbers of addresses and of Idempotency-Keys.
    pub numbers: AtomicU64,
    pub batches: Mutex<Vec<OpenBatch>>,
    /// What clients themselves find wrong.
    pub faults: Mutex<Vec<String>>,
    /// When the load has ended.
    pub ended: Mutex<Option<Instant>>,
}

/// A client, with a connection to each node.
pub struct ClusterClient<'l> {
    load: &'l ClusterLoad<'l>,
    account: usize,
    connections: Vec<HttpClient>,
    random: fastrand::Rng,
}

impl<'w> ClusterLoad<'w> {
    /// A load without clients yet.
    pub fn new(world: &ClusterWorld, accounts: &'w [ClusterAccount], log: &'w CallLog) -> ClusterLoad<'w> {
        let nodes = std::array::from_fn(|node| world.address(node));
        let (stop, numbers, batches, faults, ended) = Default::default();
        let namespace = world.client_namespace();
        ClusterLoad { namespace, nodes, accounts, log, stop, numbers, batches, faults, ended }
    }

    /// Runs `work` while the clients call, and returns when they have finished.
    ///
    /// # Errors
    ///
    /// `work` fails, or a client cannot go on.
    pub fn during<T>(
        &self,
        random: &mut fastrand::Rng,
        work: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        std::thread::scope(|scope| {
            let mut running = Vec::new();
            for client in 0..self.accounts.len() * CLIENTS_OF_AN_ACCOUNT {
                let (account, random) = (client % self.accounts.len(), random.fork());
                let home = Some(client / self.accounts.len()).filter(|home| *home < NODES);
                let run = move || {
                    self.namespace.enter()?;
                    self.client(account, random).work(home)
                };
                running.push(spawn(scope, run)?);
            }
            let guard = EndOfLoad(self);
            let worked = work();
            drop(guard);
            for client in running {
                let ended = joined(client);
                if worked.is_ok() {
                    ended?;
                }
            }
            worked
        })
    }

    /// A client of an account. Its thread is in the namespace of the clients.
    pub fn client(&self, account: usize, random: fastrand::Rng) -> ClusterClient<'_> {
        let connections = self.nodes.iter().map(|node| HttpClient::program(*node)).collect();
        ClusterClient { load: self, account, connections, random }
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes what is wrong.
    pub fn fault(&self, what: String) {
        lock(&self.faults).push(what);
    }

    /// Whether there is no time left for a further attempt.
    fn is_over(&self) -> bool {
        interrupted().is_err() || lock(&self.ended).is_some_and(|ended| ended.elapsed() > FINISH_LIMIT)
    }
}

/// Ends the load, also if the work fails or panics: the scope waits for the clients.
struct EndOfLoad<'l, 'w>(&'l ClusterLoad<'w>);

impl Drop for EndOfLoad<'_, '_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::SeqCst);
        *lock(&self.0.ended) = Some(Instant::now());
    }
}

impl ClusterClient<'_> {
    /// Works until the load ends, at one node or at all of them.
    fn work(mut self, home: Option<usize>) -> Result<(), Failure> {
        while !self.load.stop.load(Ordering::SeqCst) && interrupted().is_ok() {
            let node = home.unwrap_or_else(|| self.random.usize(0..NODES));
            match self.random.u32(0..20) {
                0..=9 => {
                    let number = self.load.number();
                    let kind = if number.is_multiple_of(10) { "full" } else { "user" };
                    let address = format!("{kind}-{number}@fast-{}.example", number % 40 + 1);
                    self.check_until_answered(node, &address)?;
                }
                10 if home.is_none() => {
                    let number = self.load.number();
                    self.check_everywhere(&format!("user-{number}@fast-{}.example", number % 40 + 1))?;
                }
                10..=12 => self.batch(home)?,
                13..=14 => self.poll(node)?,
                15..=16 => {
                    let body = json!({ "email": "info@fast-1.example", "mode": "fast" });
                    drop(self.call(node, NodeRequest::Fast, HttpRequest::json("/v1/verify", &body))?);
                }
                17..=18 => {
                    let body = json!({ "email": "deliverable@any.example" });
                    drop(self.call(node, NodeRequest::TestKey, HttpRequest::json("/v1/verify", &body))?);
                }
                _ => drop(self.call(node, NodeRequest::Account, HttpRequest::get("/v1/account"))?),
            }
            std::thread::sleep(Duration::from_millis(self.random.u64(PAUSE_MS)));
        }
        Ok(())
    }

    /// Makes one call, and records it.
    pub fn call(
        &mut self,
        node: usize,
        kind: NodeRequest,
        request: HttpRequest,
    ) -> Result<(Result<NodeAnswer, Lost>, Value), Failure> {
        let account = &self.load.accounts[self.account];
        let key = if kind == NodeRequest::TestKey { &account.test } else { &account.live };
        let request = request.bearer(key);
        let begin = self.load.log.now();
        let got = self.connections[node].send(&request);
        // On a connection that a killed node has left, a later call would end without an answer.
        self.connections[node].hang_up();
        let end = self.load.log.now();
        let body = got.as_ref().map(HttpReply::json).unwrap_or_default();
        let result = got.as_ref().map(answer_of).map_err(Clone::clone);
        let call = ClusterCall { account: self.account, node, begin, end, kind, result: result.clone() };
        self.load.log.add(call)?;
        Ok((result, body))
    }

    /// Repeats a call at one node after another until it succeeds; `None`: there is no time left, or the answer is final.
    fn until_answered(
        &mut self,
        first: usize,
        kind: &NodeRequest,
        request: &HttpRequest,
    ) -> Result<Option<Value>, Failure> {
        let mut node = first;
        loop {
            let (result, body) = self.call(node, kind.clone(), request.clone())?;
            match result {
                Ok(answer) if matches!(answer.status, 200 | 202) => return Ok(Some(body)),
                Ok(answer) if !matches!(answer.status, 409 | 429 | 500..) => return Ok(None),
                _ => node = (node + self.random.usize(1..NODES)) % NODES,
            }
            if self.load.is_over() {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(self.random.u64(50..400)));
        }
    }

    /// Checks an address until it is answered.
    pub fn check_until_answered(&mut self, node: usize, address: &str) -> Result<(), Failure> {
        let request = HttpRequest::json("/v1/verify", &json!({ "email": address }));
        self.until_answered(node, &NodeRequest::Check(address.into()), &request).map(drop)
    }

    /// Asks for one address at all nodes at the same time.
    fn check_everywhere(&mut self, address: &str) -> Result<(), Failure> {
        let (load, account) = (self.load, self.account);
        let randoms: [fastrand::Rng; NODES] = std::array::from_fn(|_| self.random.fork());
        // A new thread is in the namespace of the thread that starts it.
        let ask =
            |node: usize| load.client(account, randoms[node].clone()).check_until_answered(node, address);
        each(NODES, NODES, ask)?.into_iter().collect()
    }

    /// Submits a batch. A client of all nodes submits it at each of them at the same time.
    fn batch(&mut self, home: Option<usize>) -> Result<(), Failure> {
        let number = self.load.number();
        let rows = self.random.u64(ROWS);
        let addresses: Vec<String> =
            (0..rows).map(|row| format!("row-{number}{row:02}@fast-{}.example", row % 40 + 1)).collect();
        let (first, copies) = home.map_or((0, NODES), |home| (home, 1));
        self.submit(&format!("once-{number}"), &addresses, (first, copies))
    }

    /// Submits a batch until it is answered, `copies` times at once from the node `first` on, and notes it as open.
    pub fn submit(
        &mut self,
        once: &str,
        addresses: &[String],
        (first, copies): (usize, usize),
    ) -> Result<(), Failure> {
        let kind = NodeRequest::Batch(once.to_owned(), addresses.len() as u64);
        let request = HttpRequest::json("/v1/verify/batch", &json!({ "emails": addresses }));
        let request = request.header("Idempotency-Key", once);
        let (load, account) = (self.load, self.account);
        let bodies = if copies == 1 {
            vec![self.until_answered(first, &kind, &request)]
        } else {
            let randoms: Vec<_> = (0..copies).map(|_| self.random.fork()).collect();
            each(copies, copies, |copy| {
                let mut client = load.client(account, randoms[copy].clone());
                client.until_answered((first + copy) % NODES, &kind, &request)
            })?
        };
        let bodies = bodies.into_iter().collect::<Result<Vec<_>, _>>()?;
        // The judge compares the ids of all copies.
        let id = bodies.iter().flatten().find_map(|body| body.get("batch_id").and_then(Value::as_str));
        if let Some(id) = id {
            let batch = OpenBatch { account, id: id.into(), addresses: addresses.to_vec() };
            lock(&load.batches).push(batch);
        }
        Ok(())
    }

    /// Polls a batch of this account. A complete one is checked and no longer polled.
    fn poll(&mut self, node: usize) -> Result<(), Failure> {
        let batch = {
            let batches = lock(&self.load.batches);
            let of_account: Vec<&OpenBatch> =
                batches.iter().filter(|batch| batch.account == self.account).collect();
            if of_account.len() < OPEN_BATCHES {
                return Ok(());
            }
            of_account[self.random.usize(0..of_account.len())].clone()
        };
        self.poll_once(node, &batch).map(drop)
    }

    /// Polls a batch; returns whether it is complete.
    pub fn poll_once(&mut self, node: usize, batch: &OpenBatch) -> Result<bool, Failure> {
        let kind = NodeRequest::Poll(batch.id.clone());
        let path = format!("/v1/verify/batch/{}", batch.id);
        let (result, body) = self.call(node, kind, HttpRequest::get(path))?;
        let is_answered = matches!(&result, Ok(answer) if answer.status == 200);
        if !is_answered || body.get("status").and_then(Value::as_str) != Some("completed") {
            return Ok(false);
        }
        let expected: Vec<_> = batch.addresses.iter().map(|row| (row.clone(), Vec::new())).collect();
        if let Err(why) = judge::rows(&batch.id, &expected, &body) {
            self.load.fault(why);
        }
        lock(&self.load.batches).retain(|open| open.id != batch.id);
        Ok(true)
    }
}
