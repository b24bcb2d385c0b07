//! What the clients know: of each account what it must have paid and what it may have paid, of each request what came
//! of it, and what was acknowledged and has to stay so.
//!
//! A request whose answer is verified leaves a number here and nothing else, so memory does not grow with the kills.

use super::client::{Client, Lost, Reply, Request};
use super::compare::Claim;
use mailnet::Scenario;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Secrets that are kept of each kind.
const KEPT_MAX: usize = 60;
/// Addresses that accounts may share.
const KNOWN_MAX: usize = 200;
/// Requests whose outcome is kept for the message of a fault.
const TRACE_MAX: usize = 400;
/// After a request that was not answered or was refused for now.
const PAUSE: Duration = Duration::from_millis(10);

/// What is promised, and so what can be broken.
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

/// Every rule, and what the report calls it.
pub const RULES: [(Rule, &str); 11] = [
    (Rule::Charges, "every acknowledged charge exists once"),
    (Rule::Batches, "every acknowledged batch ends with each row once"),
    (Rule::Holds, "no hold outlives its deadline"),
    (Rule::Replays, "each replay is equal"),
    (Rule::Lists, "every acknowledged upload ends with each row once"),
    (Rule::SignUps, "every acknowledged sign-up exists once and can sign in"),
    (Rule::Secrets, "keys and tokens work until they are revoked, and never again"),
    (Rule::Answers, "every request has an answer that it can have"),
    (Rule::Starts, "every start is quick"),
    (Rule::Ends, "every SIGTERM ends in order"),
    (Rule::Log, "no panic"),
];

/// An account of the service.
pub struct Account {
    /// What `account list` calls it; of a user it is known once it was looked up.
    name: Mutex<Option<String>>,
    /// The address of its user; empty where there is none.
    pub email: String,
    claim: Mutex<Claim>,
}

/// Something that is paid once, however often it is asked for.
pub struct Purchase {
    account: Arc<Account>,
    credits: u64,
    state: State,
    /// An attempt had no answer: it may have been charged.
    doubt: bool,
    /// Its credits may be held while the server goes on with it by itself.
    lasts: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    Maybe,
    Paid,
}

/// Which secrets are looked at after each start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secret {
    Key,
    Token,
}

/// What all clients share.
pub struct Shared {
    pub server: SocketAddr,
    pub scenario: Scenario,
    pub accounts: Mutex<Vec<Arc<Account>>>,
    faults: Mutex<Vec<(Rule, String)>>,
    /// By kind of request: answered, refused for now, without an answer.
    totals: Mutex<BTreeMap<&'static str, [u64; 3]>>,
    /// What was verified, by what it is called in the report.
    verified: Mutex<BTreeMap<&'static str, u64>>,
    trace: Mutex<VecDeque<String>>,
    revoked: Mutex<VecDeque<(Secret, String)>>,
    living: Mutex<VecDeque<(Secret, String)>>,
    /// Addresses that were asked about, and which of the programs' accounts have asked about each.
    known: Mutex<VecDeque<(u64, u32)>>,
    next: AtomicU64,
    next_secret: AtomicU64,
    /// Sign-ups that were acknowledged, and those whose form was sent and not answered yet.
    pub signed_up: AtomicU64,
    pub signing_up: AtomicU64,
}

/// One life of the server, as its clients see it.
pub struct Life<'s> {
    pub shared: &'s Shared,
    pub number: u32,
    /// The signal is about to be sent: from now on answers may fail to come.
    pub ending: AtomicBool,
    /// The server is gone.
    pub over: AtomicBool,
    /// Clients begin nothing new.
    pub finishing: bool,
}

impl Account {
    /// One that is named.
    pub fn named(name: &str) -> Arc<Account> {
        Arc::new(Account {
            name: Mutex::new(Some(name.into())),
            email: String::new(),
            claim: Mutex::default(),
        })
    }

    /// One of a user.
    pub fn of_user(email: &str) -> Arc<Account> {
        Arc::new(Account { name: Mutex::default(), email: email.into(), claim: Mutex::default() })
    }

    /// Its name, if that is known.
    pub fn name(&self) -> Option<String> {
        lock(&self.name).clone()
    }

    /// Now its name is known.
    pub fn is_named(&self, name: &str) {
        *lock(&self.name) = Some(name.to_owned());
    }

    /// What it must have paid and may have paid.
    pub fn claim(&self) -> Claim {
        *lock(&self.claim)
    }
}

impl Purchase {
    /// Of something that is answered at once.
    pub fn new(account: &Arc<Account>, credits: u64) -> Purchase {
        Purchase { account: Arc::clone(account), credits, state: State::Free, doubt: false, lasts: false }
    }

    /// Of something that the server goes on with after its answer.
    pub fn lasting(account: &Arc<Account>, credits: u64) -> Purchase {
        Purchase { lasts: true, ..Purchase::new(account, credits) }
    }

    /// It is asked for.
    pub fn asks(&mut self) {
        if self.state == State::Free {
            let mut claim = lock(&self.account.claim);
            claim.open += self.credits;
            if self.lasts {
                claim.lasting += self.credits;
                claim.lasting_count += 1;
            }
            self.state = State::Maybe;
        }
    }

    /// There was no answer, or one that does not tell.
    pub fn unknown(&mut self) {
        self.doubt = true;
    }

    /// The answer said that nothing was charged.
    pub fn refused(&mut self) {
        if self.state == State::Maybe && !self.doubt {
            let mut claim = lock(&self.account.claim);
            claim.open -= self.credits;
            if self.lasts {
                claim.lasting -= self.credits;
                claim.lasting_count -= 1;
            }
            self.state = State::Free;
        }
    }

    /// It was acknowledged.
    pub fn paid(&mut self) {
        if self.state != State::Paid {
            self.asks();
            let mut claim = lock(&self.account.claim);
            claim.open -= self.credits;
            claim.paid += self.credits;
            self.state = State::Paid;
        }
    }

    /// The server has done with it: nothing is held for it any longer.
    pub fn ended(&mut self) {
        if std::mem::take(&mut self.lasts) {
            let mut claim = lock(&self.account.claim);
            claim.lasting -= self.credits;
            claim.lasting_count -= 1;
        }
    }

    /// An earlier attempt may have been done.
    pub fn in_doubt(&self) -> bool {
        self.doubt
    }
}

impl Shared {
    /// Of a server.
    pub fn new(server: SocketAddr, scenario: Scenario) -> Shared {
        Shared {
            server,
            scenario,
            accounts: Mutex::default(),
            faults: Mutex::default(),
            totals: Mutex::default(),
            verified: Mutex::default(),
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

    /// So many numbers that nobody else has.
    pub fn numbers(&self, count: u64) -> u64 {
        self.next.fetch_add(count, Ordering::SeqCst)
    }

    /// An account of programs asks about the address of this number.
    pub fn is_known(&self, number: u64, account: u32) {
        let mut known = lock(&self.known);
        if known.len() < KNOWN_MAX {
            known.push_back((number, 1 << account));
        }
    }

    /// An address that another account has asked about and this one has not. Where there is a verdict it is shared, for a
    /// credit.
    pub fn known_to_others(&self, account: u32) -> Option<u64> {
        let mut known = lock(&self.known);
        let at = known.iter().position(|(_, asked)| asked & 1 << account == 0)?;
        let (number, asked) = known.remove(at)?;
        // What all have asked about is of no use any longer.
        if (asked | 1 << account).count_ones() < super::ACCOUNTS as u32 {
            known.push_back((number, asked | 1 << account));
        }
        Some(number)
    }

    /// The ledger has another account.
    pub fn add(&self, account: Arc<Account>) {
        lock(&self.accounts).push(account);
    }

    /// A promise is broken.
    pub fn fault(&self, rule: Rule, what: impl Into<String>) {
        lock(&self.faults).push((rule, what.into()));
    }

    /// Holds a comparison to its rule, and counts what it verified.
    pub fn judge(&self, rule: Rule, counted: &'static str, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => self.verified(counted, 1),
            Err(what) => self.fault(rule, what),
        }
    }

    /// So many more of these were verified.
    pub fn verified(&self, counted: &'static str, count: u64) {
        *lock(&self.verified).entry(counted).or_default() += count;
    }

    /// Whether a promise is broken.
    pub fn has_faults(&self) -> bool {
        !lock(&self.faults).is_empty()
    }

    /// Every promise that was broken since it was last asked.
    pub fn take_faults(&self) -> Vec<(Rule, String)> {
        std::mem::take(&mut lock(&self.faults))
    }

    /// What was verified, and how often.
    pub fn figures(&self) -> BTreeMap<&'static str, u64> {
        lock(&self.verified).clone()
    }

    /// Requests by kind: answered, refused for now, without an answer.
    pub fn totals(&self) -> BTreeMap<&'static str, [u64; 3]> {
        lock(&self.totals).clone()
    }

    /// The last requests.
    pub fn trace(&self) -> Vec<String> {
        lock(&self.trace).iter().cloned().collect()
    }

    /// The secret works from now on.
    pub fn works(&self, kind: Secret, secret: &str) {
        keep(&mut lock(&self.living), (kind, secret.to_owned()));
    }

    /// The secret is about to be revoked: nothing is known of it until that is acknowledged.
    pub fn is_being_revoked(&self, secret: &str) {
        lock(&self.living).retain(|(_, kept)| kept != secret);
    }

    /// The secret must never work again.
    pub fn is_revoked(&self, kind: Secret, secret: &str) {
        self.is_being_revoked(secret);
        keep(&mut lock(&self.revoked), (kind, secret.to_owned()));
    }

    /// Some of the secrets, others each time, and whether they have to work.
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
}

impl<'s> Life<'s> {
    /// One that is just beginning.
    pub fn new(shared: &'s Shared, number: u32) -> Life<'s> {
        let (ending, over) = (AtomicBool::new(false), AtomicBool::new(false));
        Life { shared, number, ending, over, finishing: false }
    }

    /// Sends a request, and records what came of it. An answer is missing only where the server was ended, and no
    /// answer is a 5xx but 503.
    pub fn ask(
        &self,
        client: &mut Client,
        kind: &'static str,
        what: &str,
        request: &Request,
    ) -> Result<Reply, Lost> {
        let began = Instant::now();
        let outcome = client.send(request);
        let (place, said) = match &outcome {
            Ok(reply) => {
                let refused = matches!(reply.status, 409 | 429 | 503);
                if reply.status >= 500 && reply.status != 503 {
                    self.shared
                        .fault(Rule::Answers, format!("{kind} {what}: {} {}", reply.status, reply.text()));
                }
                (usize::from(refused), reply.status.to_string())
            }
            Err(lost) => (2, format!("{lost:?}")),
        };
        if place == 2 && !self.ending.load(Ordering::SeqCst) {
            self.shared.fault(
                Rule::Answers,
                format!("{kind} {what}: {said} after {} ms, and the server ran", began.elapsed().as_millis()),
            );
        }
        lock(&self.shared.totals).entry(kind).or_default()[place] += 1;
        let mut trace = lock(&self.shared.trace);
        if trace.len() >= TRACE_MAX {
            trace.pop_front();
        }
        trace.push_back(format!("life {}: {kind} {what}: {said}", self.number));
        drop(trace);
        if place != 0 {
            std::thread::sleep(PAUSE);
        }
        outcome
    }

    /// An answer that the request cannot have.
    pub fn wrong(&self, kind: &str, reply: &Reply) {
        let mut text = reply.text();
        text.truncate(text.char_indices().nth(600).map_or(text.len(), |(at, _)| at));
        self.shared.fault(Rule::Answers, format!("{kind}: {} {text}", reply.status));
    }
}

/// The newest stay, and of the oldest some: what was revoked long ago is looked at too.
fn keep(kept: &mut VecDeque<(Secret, String)>, new: (Secret, String)) {
    if kept.len() >= KEPT_MAX {
        kept.remove(KEPT_MAX / 2);
    }
    kept.push_back(new);
}

/// What a panic of another thread leaves behind is whole: each change is one step.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
