//! The clients of two nodes, and what they have seen.

use super::{CLIENTS, unique};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use store::{
    AccountId, EntryId, HoldError, HoldRef, HoldRequest, SettleError, Settlement, StoreError, clock,
};
use store_rules::Store;

/// The pause of a client between two checks, and after an error.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(200));

/// What all clients have seen.
#[derive(Default)]
pub struct Log {
    /// Acknowledged settlements.
    pub settled: Vec<HoldRef>,
    by_client: [u64; 2 * CLIENTS as usize],
    /// Everything that must not happen.
    pub defects: Vec<String>,
    /// The number of each error.
    pub errors: BTreeMap<String, u64>,
    /// The figures of the present round.
    pub figures: Figures,
}

impl Log {
    /// The figures begin anew.
    pub fn begin_round(&mut self) {
        self.figures = Figures::default();
        self.figures.acknowledged.push(Instant::now());
    }

    /// The number of settlements of each client.
    pub fn settled_by_client(&self) -> [u64; 2 * CLIENTS as usize] {
        self.by_client
    }
}

/// The figures of a round.
#[derive(Default)]
pub struct Figures {
    acknowledged: Vec<Instant>,
    reads: u64,
    read_time: Duration,
    away: u64,
    unknown: u64,
    pub longest_call: Duration,
}

impl Figures {
    pub const HEAD: &str = "\
        | fault | target | pause (s) | longest call (s) | settlements | away | unknown | reads | mean of reads (ms) |\n\
        | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |";

    /// The row of a table. The pause is the longest time without a settlement.
    pub fn row(&self, fault: &str, target: &str, start: Instant) -> String {
        let first = self.acknowledged.partition_point(|at| *at < start).saturating_sub(1);
        let pauses = self.acknowledged[first..].windows(2).map(|pair| pair[1].duration_since(pair[0]));
        let pause = pauses.max().unwrap_or_default().as_secs_f64();
        let longest = self.longest_call.as_secs_f64();
        let mean = 1000.0 * self.read_time.as_secs_f64() / self.reads.max(1) as f64;
        let (settlements, Figures { away, unknown, reads, .. }) = (self.acknowledged.len(), self);
        format!(
            "| {fault} | {target} | {pause:.1} | {longest:.1} | {settlements} | {away} | {unknown} | {reads} | {mean:.2} |"
        )
    }
}

/// A client of one node with an account of its own, which it also reads at the other node.
struct Client<'a> {
    number: usize,
    own: &'a Store,
    other: &'a Store,
    account: AccountId,
    log: &'a Mutex<Log>,
    stop: &'a AtomicBool,
    /// The credits whose settlement was acknowledged.
    spent: u64,
}

/// Holds and settles credits until it is told to stop.
pub fn run_client(
    number: usize,
    (own, other): (&Store, &Store),
    account: AccountId,
    log: &Mutex<Log>,
    stop: &AtomicBool,
) {
    let mut client = Client { number, own, other, account, log, stop, spent: 0 };
    while !stop.load(Ordering::Relaxed) {
        let is_done = client.check();
        thread::sleep(if is_done { PAUSES.0 } else { PAUSES.1 });
    }
}

impl Client<'_> {
    /// A hold, its settlement, and a read at each node. Returns whether all succeeded at once.
    fn check(&mut self) -> bool {
        let hold = HoldRef { account: self.account, id: EntryId::new(clock::now(), 1 << 61 | unique()) };
        let held = self.timed(|| self.own.hold(HoldRequest { hold, credits: 1 }, clock::now()).wait());
        if let Err(error) = held {
            match error {
                HoldError::Store(error) => self.failed("hold", &error),
                other => self.defect(format!("hold: {other:?}")),
            }
            return false;
        }
        let mut was_easy = true;
        loop {
            match self.timed(|| self.own.settle(hold, Settlement::default(), clock::now()).wait()) {
                // An earlier attempt without an answer was done.
                Ok(_) | Err(SettleError::AlreadySettled) => break,
                Err(SettleError::Store(error)) => self.failed("settle", &error),
                Err(other) => {
                    self.defect(format!("settle: {other:?}"));
                    return false;
                }
            }
            was_easy = false;
            if self.stop.load(Ordering::Relaxed) {
                return false;
            }
            thread::sleep(PAUSES.1);
        }
        self.spent += 1;
        let mut log = self.log.lock().unwrap();
        log.settled.push(hold);
        log.by_client[self.number] += 1;
        log.figures.acknowledged.push(Instant::now());
        drop(log);
        self.read("the other", self.other) & self.read("its own", self.own) & was_easy
    }

    fn read(&self, whose: &str, store: &Store) -> bool {
        let began = Instant::now();
        match self.timed(|| store.account(self.account, clock::now()).wait()) {
            Ok(Some(account)) => {
                let mut log = self.log.lock().unwrap();
                log.figures.reads += 1;
                log.figures.read_time += began.elapsed();
                drop(log);
                let (seen, expected) = (account.balance.spent, self.spent);
                if seen < expected {
                    self.defect(format!("{whose} node shows {seen} of {expected} settlements"));
                }
                true
            }
            Ok(None) => {
                self.defect(format!("{whose} node has no account"));
                false
            }
            Err(error) => {
                self.failed("read", &error);
                false
            }
        }
    }

    fn timed<T>(&self, call: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let answer = call();
        let mut log = self.log.lock().unwrap();
        log.figures.longest_call = log.figures.longest_call.max(began.elapsed());
        answer
    }

    fn failed(&self, what: &str, error: &StoreError) {
        let mut log = self.log.lock().unwrap();
        match error {
            StoreError::Away(_) => log.figures.away += 1,
            StoreError::Unknown(_) => log.figures.unknown += 1,
            _ => log.defects.push(format!("{what}: {error:?}")),
        }
        *log.errors.entry(format!("{what}: {error}")).or_default() += 1;
    }

    fn defect(&self, what: String) {
        self.log.lock().unwrap().defects.push(what);
    }
}
