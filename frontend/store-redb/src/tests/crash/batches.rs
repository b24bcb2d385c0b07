//! Crashes while batches are created, answered, completed and purged, and while checks are settled with their results.

use super::*;
use api::Reason;
use std::collections::{BTreeMap, BTreeSet};

const ROWS: u32 = 4;
const DAY: UnixMs = 24 * 60 * 60 * 1000;

/// The requests and their answers.
#[derive(Default)]
pub(super) struct Told {
    next: u128,
    /// Batches by idempotency key.
    batches: BTreeMap<u128, Batch>,
    /// Checks to settle, by number of the address, and whether the settlement was answered.
    checks: BTreeMap<u128, (HoldRef, bool)>,
    /// Batches that were complete at the last check.
    completed: usize,
}

#[derive(Default)]
struct Batch {
    /// The id, after an answer came.
    id: Option<BatchId>,
    /// Every id under which its creation was requested.
    asked: BTreeSet<BatchId>,
    /// Rows with the requested outcomes, and whether a write was answered.
    rows: BTreeMap<u32, (Vec<RowOutcome>, bool)>,
}

fn email(number: u128, index: u32) -> String {
    format!("{number}.{index}@example.com")
}

impl Told {
    fn next(&mut self) -> u128 {
        self.next += 1;
        self.next
    }

    fn new_batch(&mut self, store: &RedbStore, account: AccountId, key: u128) -> NewBatch {
        let id = BatchId::new(NOW, self.next() << 1);
        let row = |index| {
            let email = email(key, index);
            NewRow { address: store.hash_address(&email), email }
        };
        let idempotency = Some(Idempotency { key: key.to_string(), body: [7; 32] });
        let rows = (0..ROWS).map(row).collect();
        NewBatch { id, account, name: None, rows, idempotency, mode: BatchMode::Live }
    }

    /// Requests a batch and waits for the answer.
    fn make(
        &mut self,
        store: &RedbStore,
        account: AccountId,
        key: u128,
    ) -> Pending<BatchCreated, BatchError> {
        let new = self.new_batch(store, account, key);
        self.batches.entry(key).or_default().asked.insert(new.id);
        store.create_batch(new, Authority::OPERATOR, NOW)
    }

    fn settle(&mut self, store: &RedbStore, account: AccountId) {
        let number = self.next();
        let hold = HoldRef { account, id: EntryId::new(NOW, number) };
        let address = store.hash_address(&email(number, 0));
        let charged = charge(store, hold, ResultRecord { address, verdict: Reason::RoleAccount.into() });
        self.checks.extend(charged.map(|charged| (number, charged)));
    }

    fn answer(&mut self, store: &RedbStore, rng: &mut fastrand::Rng) {
        let mut answers = Vec::new();
        for batch in self.batches.values_mut() {
            let Some(id) = batch.id.filter(|_| rng.u8(0..3) == 0) else { continue };
            for index in 0..ROWS {
                let outcome = match rng.u8(0..4) {
                    0 => RowOutcome::Unanswered(None),
                    1 => RowOutcome::Verified(Reason::MailboxExists.into()),
                    2 => RowOutcome::Verified(Reason::CatchAll.into()),
                    _ => continue,
                };
                batch.rows.entry(index).or_default().0.push(outcome.clone());
                answers.push((id, RowAnswer { batch: id, index, outcome }));
            }
        }
        let asked: Vec<_> = answers.iter().map(|(_, answer)| answer.clone()).collect();
        if store.answer_rows(asked.clone(), NOW).wait().is_ok() {
            for batch in self.batches.values_mut() {
                for answer in asked.iter().filter(|answer| Some(answer.batch) == batch.id) {
                    batch.rows.get_mut(&answer.index).unwrap().1 = true;
                }
            }
        }
    }

    /// Checks that a settled check has its result, and no other check has one. Returns the spent credits.
    fn check_results(&mut self, store: &RedbStore, account: AccountId) -> u64 {
        let mut spent = 0;
        for (number, (hold, settled)) in &mut self.checks {
            let known = store.known(account, &store.hash_address(&email(*number, 0)), NOW).wait().unwrap();
            let end = store.void(*hold, NOW).wait().unwrap_err();
            let now_settled = end == SettleError::AlreadySettled;
            assert!(now_settled || !*settled, "a settlement that was answered");
            assert_eq!(known != store::Known::Nothing, now_settled, "charge and result are one");
            *settled = now_settled;
            spent += u64::from(now_settled);
        }
        spent
    }
}

impl Load for Told {
    const ROUNDS: u32 = 60;
    const LEFT_MAX: u32 = 200;

    fn load(&mut self, store: &RedbStore, account: AccountId, rng: &mut fastrand::Rng) {
        for _ in 0..rng.u32(1..8) {
            let keys: Vec<u128> = (0..rng.u32(1..4)).map(|_| self.next()).collect();
            let making: Vec<_> = keys.iter().map(|&key| (key, self.make(store, account, key))).collect();
            self.settle(store, account);
            for (key, pending) in making {
                if let Ok(made) = pending.wait() {
                    self.batches.get_mut(&key).unwrap().id = Some(made.batch);
                }
            }
            self.answer(store, rng);
        }
    }

    fn check(&mut self, store: &RedbStore, account: AccountId) {
        let (mut held, mut spent) = (0, self.check_results(store, account));
        let keys: Vec<u128> = self.batches.keys().copied().collect();
        for key in keys {
            let made = self.make(store, account, key).wait().unwrap();
            let batch = self.batches.get_mut(&key).unwrap();
            assert!(batch.asked.contains(&made.batch));
            if let Some(id) = batch.id {
                assert_eq!((made.batch, made.replayed), (id, true), "a batch whose making was answered");
            }
            batch.id = Some(made.batch);
            let view = store.batch(account, made.batch, NOW).wait().unwrap().unwrap();
            match &view.results {
                None => held += u64::from(ROWS),
                Some(results) => spent += batch.check_results(key, results),
            }
            batch.check_rows(store, &view);
        }
        let balance = store.account(account, NOW).wait().unwrap().unwrap().balance;
        assert_eq!((balance.held, balance.spent), (held, spent));
        self.completed = self.batches.len() - store.open_batches().wait().unwrap().len();
    }
}

impl Batch {
    fn check_rows(&mut self, store: &RedbStore, view: &BatchView) {
        let open: BTreeSet<u32> =
            store.unanswered(self.id.unwrap()).wait().unwrap().iter().map(|row| row.index).collect();
        assert_eq!(view.checked + open.len() as u32, ROWS);
        for index in 0..ROWS {
            let asked = self.rows.get(&index);
            let answered = !open.contains(&index);
            assert!(answered || !asked.is_some_and(|(_, told)| *told), "an answer that was told");
            assert!(!answered || asked.is_some(), "an answer that nobody gave");
        }
        for (index, (_, told)) in &mut self.rows {
            *told = !open.contains(index);
        }
    }

    /// Checks that the results are among the given answers. Returns their credits.
    fn check_results(&self, key: u128, results: &[(String, Reason)]) -> u64 {
        let mut spent = 0;
        for ((index, (address, reason)), (_, (asked, _))) in (0..).zip(results).zip(&self.rows) {
            assert_eq!(*address, email(key, index));
            let outcome = asked.iter().find(|outcome| match outcome {
                RowOutcome::Unanswered(_) => *reason == Reason::Unverifiable,
                RowOutcome::Verified(verified) => verified.reason == *reason,
                RowOutcome::Reused(_) | RowOutcome::Repeated(_) | RowOutcome::Waits(_) => false,
            });
            spent += u64::from(*outcome.expect("an answer of ours") != RowOutcome::Unanswered(None));
        }
        spent
    }
}

fn survive_with_batches(crash: Crash) {
    let told: Told = crash_often(crash);
    assert!(told.completed > 10, "only {} batches were completed", told.completed);
}

#[test]
fn a_killed_process_charges_every_batch_once() {
    survive_with_batches(Crash::Kill);
}

#[test]
fn lost_power_charges_every_batch_once() {
    survive_with_batches(Crash::PowerLoss);
}

#[test]
fn a_purge_that_is_cut_short_goes_on() {
    let mut rng = fastrand::Rng::with_seed(SEED);
    let account = AccountId::new(NOW, 1);
    let late = NOW + 7 * DAY;
    for crash in [Crash::Kill, Crash::PowerLoss] {
        let mut cut = 0;
        for left in (1..).step_by(2) {
            let vault = Arc::new(Vault::in_memory().unwrap());
            let (image, unanswered) = expired_image(account, &vault);
            let disk = Disk::new(image, left);
            let done = open(&disk, &vault).is_ok_and(|store| store.purge(late).wait().is_ok());
            cut += u32::from(!done);
            let healthy = Disk::new(disk.image(crash, &mut rng), u32::MAX);
            let store = open(&healthy, &vault).unwrap();
            store.purge(late).wait().unwrap();
            check_index(&store);
            check_sums(&store);
            let balance = store.account(account, NOW).wait().unwrap().unwrap().balance;
            assert_eq!((balance.held, balance.spent), (0, 3 + u64::from(ROWS)));
            let view = store.batch(account, unanswered, late).wait().unwrap().unwrap();
            assert!(view.completed, "given up, and still readable");
            assert_eq!(store.purge(late).wait().unwrap(), Purged::default());
            if done {
                break;
            }
        }
        assert!(cut > 5, "only {cut} purges were cut short");
    }
}

/// A store with results, a complete batch and one that was never answered.
fn expired_image(account: AccountId, vault: &Arc<Vault>) -> (Vec<u8>, BatchId) {
    let disk = Disk::new(first_image(account), u32::MAX);
    let store = open(&disk, vault).unwrap();
    let mut told = Told::default();
    for _ in 0..3 {
        told.settle(&store, account);
    }
    let complete = told.make(&store, account, 100).wait().unwrap().batch;
    let outcome = RowOutcome::Verified(Reason::MailboxExists.into());
    let answers = (0..ROWS).map(|index| RowAnswer { batch: complete, index, outcome: outcome.clone() });
    store.answer_rows(answers.collect(), NOW).wait().unwrap();
    let unanswered = told.make(&store, account, 101).wait().unwrap().batch;
    drop(store);
    (disk.image(Crash::Kill, &mut fastrand::Rng::with_seed(0)), unanswered)
}
