//! The records of the clients: for each account what it must and may have paid, for each request its result, and every
//! acknowledged fact that must remain.
//!
//! A request with a verified answer leaves only a count here, so memory does not grow with the kills.

use super::client::{HttpClient, HttpReply, HttpRequest, Lost};
use super::gate::{ClientResult, Gate, Over};
use crate::soak::crowd::lock;
use crate::soak::judge::{self, Claim, Reasons};
use mailnet::Scenario;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How many secrets of each kind are kept.
const KEPT_MAX: usize = 60;
/// How many addresses are kept that accounts may share.
const KNOWN_MAX: usize = 200;
/// How many requests are kept for the message of a fault.
const TRACE_MAX: usize = 400;
/// The pause after a request that was not answered or was refused temporarily.
const PAUSE: Duration = Duration::from_millis(10);

/// The guarantees that are tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    Charges,
    Batches,
    Holds,
    Replays,
    Lists,
    SignUps,
    Secrets,
    Answers,
    Starts,
    Ends,
    Log,
}

/// Every rule with its name in the report, and the verified facts that are counted beside it.
pub const RULES: [(Rule, &str, &[&str]); 11] = [
    (Rule::Charges, "every acknowledged charge exists once", &["accounts compared", "audits"]),
    (
        Rule::Batches,
        "every acknowledged batch ends with each row once",
        &["batches accepted", "batches submitted at once", "batches complete"],
    ),
    (Rule::Holds, "no hold outlives its deadline", &["holds compared"]),
    (
        Rule::Replays,
        "each replay is equal",
        &["repeats", "replays of batches", "batches read again", "downloads again"],
    ),
    (Rule::Lists, "every acknowledged upload ends with each row once", &["uploads", "lists complete"]),
    (
        Rule::SignUps,
        "every acknowledged sign-up exists once and can sign in",
        &["sign-ups", "sign-ins after a sign-up"],
    ),
    (
        Rule::Secrets,
        "keys and tokens work until they are revoked, and never again",
        &["keys made", "connections", "keys revoked", "connections ended"],
    ),
    (Rule::Answers, "every request has an answer that it can have", &[]),
    (Rule::Starts, "every start is quick", &[]),
    (Rule::Ends, "every SIGTERM ends in order", &[]),
    (Rule::Log, "no panic", &[]),
];

/// The kind of full checks whose times are recorded.
pub const TIMED_CHECK: &str = "timed check";
/// An account of the service, with its charges.
pub struct Account {
    /// The name in `account list`. That of a user is known after it was looked up.
    name: Mutex<Option<String>>,
    /// The email address of its user; empty if it has none.
    pub email: String,
    claim: Mutex<Claim>,
}

/// A service that is paid once, however often it is requested.
pub struct Purchase {
    account: Arc<Account>,
    credits: u64,
    state: RecordState,
    /// An attempt had no answer, so it may have been charged.
    doubt: bool,
    /// The server may continue it after its answer, and hold its credits meanwhile.
    lasts: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RecordState {
    Free,
    Maybe,
    Paid,
}

/// The kinds of secrets that are checked after each start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secret {
    Key,
    Token,
}

/// The state that all clients share.
pub struct Records {
    pub gate: Gate,
    pub server: SocketAddr,
    pub scenario: Scenario,
    pub accounts: Mutex<Vec<Arc<Account>>>,
    faults: Mutex<Vec<(Rule, String)>>,
    /// By kind of request: answered, refused temporarily, without an answer.
    totals: Mutex<BTreeMap<&'static str, [u64; 3]>>,
    /// The numbers of verified facts, by their name in the report.
    verified: Mutex<BTreeMap<&'static str, u64>>,
    /// The times of answered requests of the kind [`TIMED_CHECK`], but not while the server ends.
    pub waits: Mutex<Vec<Duration>>,
    trace: Mutex<VecDeque<String>>,
    revoked: Mutex<VecDeque<(Secret, String)>>,
    living: Mutex<VecDeque<(Secret, String)>>,
    /// Addresses that were asked about, each with a bit set of the accounts that have asked.
    known: Mutex<VecDeque<(u64, u32)>>,
    next: AtomicU64,
    next_secret: AtomicU64,
    /// The number of acknowledged sign-ups, and of those whose form was sent and not answered yet.
    pub signed_up: AtomicU64,
    pub signing_up: AtomicU64,
}

/// The answer to a request, or why there is none.
pub type KilledReply = Result<HttpReply, Lost>;

/// A client of the server, whose connection ends with each life.
pub struct KilledClient {
    http: HttpClient,
    life: u32,
    records: Arc<Records>,
}

/// A full check of one address, with its charge.
pub struct Single {
    pub email: String,
    pub reasons: Reasons,
    pub purchase: Purchase,
}

impl KilledClient {
    /// A client that acts like a program, without cookies.
    pub fn program(records: &Arc<Records>) -> KilledClient {
        KilledClient { http: HttpClient::program(records.server), life: 0, records: Arc::clone(records) }
    }

    /// A client that acts like a browser, with cookies.
    pub fn browser(records: &Arc<Records>) -> KilledClient {
        KilledClient { http: HttpClient::browser(records.server), ..KilledClient::program(records) }
    }

    /// Sends a request, once a server runs, and records its result. A missing answer is a fault unless the server was ended, and so
    /// is a 5xx other than 503.
    pub fn ask(
        &mut self,
        kind: &'static str,
        what: &str,
        request: &HttpRequest,
    ) -> ClientResult<KilledReply> {
        let life = self.records.pass()?;
        Ok(self.send(life, kind, what, request))
    }

    /// Sends a request to a server in this life, as [`KilledClient::ask`] does.
    pub fn send(&mut self, life: u32, kind: &'static str, what: &str, request: &HttpRequest) -> KilledReply {
        if std::mem::replace(&mut self.life, life) != life {
            self.http.hang_up();
        }
        let began = Instant::now();
        let (outcome, records) = (self.http.send(request), &self.records);
        let (place, said) = match &outcome {
            Ok(reply) => {
                let refused = matches!(reply.status, 409 | 429 | 503);
                if reply.status >= 500 && reply.status != 503 {
                    records.fault(Rule::Answers, format!("{kind} {what}: {} {}", reply.status, reply.text()));
                }
                (usize::from(refused), reply.status.to_string())
            }
            Err(lost) => (2, format!("{lost:?}")),
        };
        let is_ending = records.gate.now().is_ending;
        if kind == TIMED_CHECK && place == 0 && !is_ending {
            lock(&records.waits).push(began.elapsed());
        }
        if place == 2 && !is_ending {
            let after = began.elapsed().as_millis();
            records
                .fault(Rule::Answers, format!("{kind} {what}: {said} after {after} ms, and the server ran"));
        }
        lock(&records.totals).entry(kind).or_default()[place] += 1;
        let mut trace = lock(&records.trace);
        if trace.len() >= TRACE_MAX {
            trace.pop_front();
        }
        trace.push_back(format!("life {life}: {kind} {what}: {said}"));
        drop(trace);
        if place != 0 {
            std::thread::sleep(PAUSE);
        }
        outcome
    }

    /// Repeats a request until its answer has one of these statuses. Returns the answer, and whether an earlier attempt may have
    /// been executed.
    pub fn insist(
        &mut self,
        kind: &'static str,
        what: &str,
        request: &HttpRequest,
        statuses: &[u16],
    ) -> ClientResult<(HttpReply, bool)> {
        let mut doubt = false;
        loop {
            match self.ask(kind, what, request)? {
                Ok(reply) if statuses.contains(&reply.status) => return Ok((reply, doubt)),
                other => {
                    doubt |= !matches!(other, Err(Lost::NotSent));
                    self.records.expect(kind, &other, &[503])?;
                }
            }
        }
    }

    /// Repeats a full check until it is answered.
    pub fn full_check(
        &mut self,
        kind: &'static str,
        key: &str,
        mut single: Single,
    ) -> ClientResult<(String, Reasons)> {
        let request = HttpRequest::json("/v1/verify", &json!({ "email": single.email })).bearer(key);
        loop {
            single.purchase.asks();
            match self.ask(kind, &single.email, &request)? {
                Ok(reply) if reply.status == 200 => {
                    self.records.judge(Rule::Charges, "checks", single.judge(&reply.json()));
                    single.purchase.paid();
                    return Ok((single.email, single.reasons));
                }
                other => {
                    single.purchase.is_open(&other);
                    self.records.expect(kind, &other, &[503])?;
                }
            }
        }
    }
}

impl Account {
    /// An account whose name is known.
    pub fn named(name: &str) -> Arc<Account> {
        Arc::new(Account {
            name: Mutex::new(Some(name.into())),
            email: String::new(),
            claim: Mutex::default(),
        })
    }

    /// An account of a user with this email address.
    pub fn of_user(email: &str) -> Arc<Account> {
        Arc::new(Account { name: Mutex::default(), email: email.into(), claim: Mutex::default() })
    }

    /// The name of the account, if it is known.
    pub fn name(&self) -> Option<String> {
        lock(&self.name).clone()
    }

    /// Sets the name of the account.
    pub fn is_named(&self, name: &str) {
        *lock(&self.name) = Some(name.to_owned());
    }

    /// The credits that the account must have paid and may have paid.
    pub fn claim(&self) -> Claim {
        *lock(&self.claim)
    }
}

impl Purchase {
    /// A purchase that is complete with its answer.
    pub fn new(account: &Arc<Account>, credits: u64) -> Purchase {
        Purchase {
            account: Arc::clone(account),
            credits,
            state: RecordState::Free,
            doubt: false,
            lasts: false,
        }
    }

    /// A purchase that the server continues after its answer.
    pub fn lasting(account: &Arc<Account>, credits: u64) -> Purchase {
        Purchase { lasts: true, ..Purchase::new(account, credits) }
    }

    /// Records that a request for it is sent.
    pub fn asks(&mut self) {
        if self.state == RecordState::Free {
            let mut claim = lock(&self.account.claim);
            claim.open += self.credits;
            if self.lasts {
                claim.lasting += self.credits;
                claim.lasting_count += 1;
            }
            self.state = RecordState::Maybe;
        }
    }

    /// Records that there was no answer, or one that does not acknowledge the charge.
    pub fn is_open(&mut self, outcome: &KilledReply) {
        match outcome {
            Ok(reply) if reply.status == 503 && reply.nothing_was_charged() => self.refused(),
            Err(Lost::NotSent) => {}
            _ => self.unknown(),
        }
    }

    /// Records an answer that does not state whether the request was executed.
    pub fn unknown(&mut self) {
        self.doubt = true;
    }

    /// Records an answer which states that nothing was charged.
    pub fn refused(&mut self) {
        if self.state == RecordState::Maybe && !self.doubt {
            let mut claim = lock(&self.account.claim);
            claim.open -= self.credits;
            if self.lasts {
                claim.lasting -= self.credits;
                claim.lasting_count -= 1;
            }
            self.state = RecordState::Free;
        }
    }

    /// Records an answer that acknowledges the charge.
    pub fn paid(&mut self) {
        if self.state != RecordState::Paid {
            self.asks();
            let mut claim = lock(&self.account.claim);
            claim.open -= self.credits;
            claim.paid += self.credits;
            self.state = RecordState::Paid;
        }
    }

    /// Records that the server has completed it, so nothing is held for it any longer.
    pub fn ended(&mut self) {
        if std::mem::take(&mut self.lasts) {
            let mut claim = lock(&self.account.claim);
            claim.lasting -= self.credits;
            claim.lasting_count -= 1;
        }
    }

    /// Whether an earlier attempt may have been executed.
    pub fn in_doubt(&self) -> bool {
        self.doubt
    }
}

impl Records {
    /// The state at the start, for a server and its scenario.
    pub fn new(server: SocketAddr, scenario: Scenario) -> Records {
        Records {
            gate: Gate::default(),
            server,
            scenario,
            accounts: Mutex::default(),
            faults: Mutex::default(),
            totals: Mutex::default(),
            verified: Mutex::default(),
            waits: Mutex::default(),
            trace: Mutex::default(),
            revoked: Mutex::default(),
            living: Mutex::default(),
            known: Mutex::default(),
            next: AtomicU64::new(1),
            next_secret: AtomicU64::new(0),
            signed_up: AtomicU64::new(0),
            signing_up: AtomicU64::new(0),
        }
    }

    /// Returns the first of this many unused numbers.
    pub fn numbers(&self, count: u64) -> u64 {
        self.next.fetch_add(count, Ordering::SeqCst)
    }

    /// Records that an account of programs asks about the address with this number.
    pub fn is_known(&self, number: u64, account: u32) {
        let mut known = lock(&self.known);
        if known.len() < KNOWN_MAX {
            known.push_back((number, 1 << account));
        }
    }

    /// An address that another account has asked about and this one has not. Its verdict may be shared, for a credit.
    pub fn known_to_others(&self, account: u32) -> Option<u64> {
        let mut known = lock(&self.known);
        let at = known.iter().position(|(_, asked)| asked & 1 << account == 0)?;
        let (number, asked) = known.remove(at)?;
        // An address that all accounts have asked about is of no further use.
        if (asked | 1 << account).count_ones() < super::ACCOUNTS_SHARING as u32 {
            known.push_back((number, asked | 1 << account));
        }
        Some(number)
    }

    /// Adds an account that the ledger has.
    pub fn add(&self, account: Arc<Account>) {
        lock(&self.accounts).push(account);
    }

    /// Records a broken guarantee.
    pub fn fault(&self, rule: Rule, what: impl Into<String>) {
        lock(&self.faults).push((rule, what.into()));
    }

    /// Records the result of a comparison under its rule, and counts it if it was right.
    pub fn judge(&self, rule: Rule, counted: &'static str, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => self.verified(counted, 1),
            Err(what) => self.fault(rule, what),
        }
    }

    /// Adds to the number of verified facts of this kind.
    pub fn verified(&self, counted: &'static str, count: u64) {
        *lock(&self.verified).entry(counted).or_default() += count;
    }

    /// Whether a guarantee was broken.
    pub fn has_faults(&self) -> bool {
        !lock(&self.faults).is_empty()
    }

    /// Removes and returns every broken guarantee since the last call.
    pub fn take_faults(&self) -> Vec<(Rule, String)> {
        std::mem::take(&mut lock(&self.faults))
    }

    /// The numbers of verified facts by their kind.
    pub fn figures(&self) -> BTreeMap<&'static str, u64> {
        lock(&self.verified).clone()
    }

    /// Requests by kind: answered, refused for now, without an answer.
    pub fn totals(&self) -> BTreeMap<&'static str, [u64; 3]> {
        lock(&self.totals).clone()
    }

    /// The last requests with their results, oldest first.
    pub fn trace(&self) -> Vec<String> {
        lock(&self.trace).iter().cloned().collect()
    }

    /// Records that the secret works from now on.
    pub fn works(&self, kind: Secret, secret: &str) {
        keep(&mut lock(&self.living), (kind, secret.to_owned()));
    }

    /// Records that the secret is about to be revoked: nothing is known about it until that is acknowledged.
    pub fn is_being_revoked(&self, secret: &str) {
        lock(&self.living).retain(|(_, kept)| kept != secret);
    }

    /// Records that the secret must never work again.
    pub fn is_revoked(&self, kind: Secret, secret: &str) {
        self.is_being_revoked(secret);
        keep(&mut lock(&self.revoked), (kind, secret.to_owned()));
    }

    /// Some of the secrets, others on each call, and whether each must work.
    pub fn some_secrets(&self, count: usize) -> Vec<(Secret, String, bool)> {
        let first = self.next_secret.fetch_add(count as u64, Ordering::SeqCst) as usize;
        let mut some = Vec::new();
        for (kept, works) in [(&self.living, true), (&self.revoked, false)] {
            let kept = lock(kept);
            let indices = (first..first + count).take(kept.len());
            some.extend(indices.map(|index| {
                let (kind, secret) = &kept[index % kept.len()];
                (*kind, secret.clone(), works)
            }));
        }
        some
    }

    /// Waits until a server runs, and returns the number of its life. A client that is not done in the last life has a fault.
    pub fn pass(&self) -> ClientResult<u32> {
        let life = self.gate.pass()?;
        match self.gate.now().finish_by {
            Some(end) if Instant::now() > end => {
                Err(self.stop(Rule::Answers, "a client is not done long after the last start"))
            }
            _ => Ok(life),
        }
    }

    /// A full check of an address, for an account.
    pub fn single(&self, account: &Arc<Account>, email: String) -> Single {
        let reasons = judge::reasons(&self.scenario, &email);
        Single { email, reasons, purchase: Purchase::new(account, 1) }
    }

    /// Stops the client unless the answer is missing or has one of these statuses.
    pub fn expect(&self, kind: &str, outcome: &KilledReply, statuses: &[u16]) -> ClientResult {
        match outcome {
            Ok(reply) if !statuses.contains(&reply.status) => Err(self.wrong(kind, reply)),
            _ => Ok(()),
        }
    }

    /// Records a broken guarantee, after which the client stops.
    pub fn stop(&self, rule: Rule, what: impl Into<String>) -> Over {
        self.fault(rule, what);
        Over
    }

    /// Records an answer that the request cannot have, after which the client stops.
    pub fn wrong(&self, kind: &str, reply: &HttpReply) -> Over {
        let mut text = reply.text();
        text.truncate(text.char_indices().nth(600).map_or(text.len(), |(at, _)| at));
        self.stop(Rule::Answers, format!("{kind}: {} {text}", reply.status))
    }
}

impl Single {
    /// Checks the answer to a full check that was not acknowledged before.
    pub fn judge(&self, answer: &Value) -> Result<(), String> {
        judge::single(false, self.purchase.in_doubt(), answer, &self.email, &self.reasons)
    }
}

/// Adds a secret. If there are too many, the newest stay with some of the oldest, so that early revocations are checked
/// as well.
fn keep(kept: &mut VecDeque<(Secret, String)>, new: (Secret, String)) {
    if kept.len() >= KEPT_MAX {
        kept.remove(KEPT_MAX / 2);
    }
    kept.push_back(new);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purchase_is_claimed_once_whatever_is_answered() {
        let account = Account::named("a");
        let claims = |steps: &[fn(&mut Purchase)]| {
            let before = account.claim();
            let mut purchase = Purchase::lasting(&account, 5);
            steps.iter().for_each(|step| step(&mut purchase));
            let after = account.claim();
            (after.paid - before.paid, after.open - before.open, after.lasting - before.lasting)
        };
        assert_eq!(claims(&[Purchase::asks]), (0, 5, 5));
        assert_eq!(claims(&[Purchase::asks, Purchase::refused]), (0, 0, 0));
        assert_eq!(
            claims(&[Purchase::asks, Purchase::unknown, Purchase::asks, Purchase::refused]),
            (0, 5, 5)
        );
        assert_eq!(claims(&[Purchase::asks, Purchase::unknown, Purchase::paid, Purchase::paid]), (5, 0, 5));
        assert_eq!(claims(&[Purchase::asks, Purchase::paid, Purchase::ended, Purchase::ended]), (5, 0, 0));
    }
}
