//! The model's results and batches: all of them, and the valid ones by their times.

use super::*;
use std::collections::HashMap;

#[derive(Default)]
pub struct Kept {
    /// The last result of each account and address.
    results: HashMap<(usize, usize), Stored>,
    batches: Vec<Batch>,
    /// The last time of withdrawal of each evidence.
    withdrawn: HashMap<u64, UnixMs>,
    /// By account and idempotency key: the time, the request and its answer.
    keys: HashMap<(usize, u8), (UnixMs, [u8; 32], BatchCreated)>,
    /// The time of the last purge, to the hour.
    seen: Option<UnixMs>,
    /// Nothing is purged before this time, since the store was opened long after `seen`.
    purges_from: UnixMs,
}

#[derive(Debug, Clone)]
struct Stored {
    verdict: Verdict,
    checked_at: UnixMs,
    verdict_at: UnixMs,
}

struct Batch {
    id: BatchId,
    account: usize,
    /// The index of its hold in the model.
    hold: usize,
    created_at: UnixMs,
    addresses: Vec<usize>,
    answers: Vec<Option<Answer>>,
    completed_at: Option<UnixMs>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Charged(Reason, Option<UnverifiableCause>),
    Refunded(Option<UnverifiableCause>),
}

/// A verdict as another account gets it at this time.
fn dated(mut verdict: Verdict, now: UnixMs) -> Verdict {
    verdict.basis.iter_mut().for_each(|basis| std::sync::Arc::make_mut(basis).observed_at = now);
    verdict
}

fn charged(verdict: &Verdict) -> Answer {
    Answer::Charged(verdict.reason, verdict.cause)
}

fn email(address: usize) -> String {
    format!("a{address}@example.com")
}

impl Stored {
    /// Whether it may answer other accounts, unless it was withdrawn.
    fn is_shared(&self, now: UnixMs) -> bool {
        let days = if retention(self.verdict.reason) == RETENTION_SHORT_MS { 1 } else { 7 };
        self.verdict.reason != Reason::Unverifiable && now < self.verdict_at + days * DAY
    }
}

impl Kept {
    /// Opens the store at `now`.
    pub fn open(&mut self, now: UnixMs) {
        let is_late = self.seen.is_some_and(|seen| now - seen > DAY);
        self.purges_from = if is_late { now + 15 * 60 * 1000 } else { 0 };
    }

    fn own(&self, account: usize, address: usize, now: UnixMs) -> Option<Stored> {
        let own = self.results.get(&(account, address)).cloned();
        own.filter(|stored| now < stored.checked_at + DAY && self.stands(stored))
    }

    fn stands(&self, stored: &Stored) -> bool {
        let withdrawn = stored.verdict.evidence.and_then(|evidence| self.withdrawn.get(&evidence));
        withdrawn.is_none_or(|&at| at < stored.verdict_at)
    }

    /// The newest shared verdicts of an address; several if they have the same time.
    fn shared(&self, address: usize, now: UnixMs) -> Vec<Stored> {
        let of_address = self.results.iter().filter(|((_, other), _)| *other == address);
        let retained: Vec<Stored> =
            of_address.map(|(_, stored)| stored.clone()).filter(|stored| stored.is_shared(now)).collect();
        let newest = retained.iter().map(|stored| stored.verdict_at).max();
        retained.into_iter().filter(|stored| Some(stored.verdict_at) == newest).collect()
    }
}

impl Run {
    pub fn withdraw(&mut self, evidence: u64) {
        self.world.withdraw(vec![evidence], self.world.now).wait().unwrap();
        self.model.kept.withdrawn.insert(evidence, self.world.now);
    }

    pub fn verify(&mut self, account: usize, address: usize, verdict: Verdict) {
        let now = self.world.now;
        if self.charge(account).is_ok() {
            self.world.verify(self.model.accounts[account].id, &email(address), verdict.clone());
            let stored = Stored { verdict, checked_at: now, verdict_at: now };
            self.model.kept.results.insert((account, address), stored);
        }
    }

    pub fn reuse(&mut self, account: usize, address: usize) {
        let now = self.world.now;
        let id = self.model.accounts[account].id;
        let Known::Shared(known) = self.world.known(id, &email(address)) else { return };
        let expected = self.charge(account);
        let answered = self.world.reuse(id, &email(address), known.verdict.clone());
        assert_eq!(answered.map(|balance| balance.available()), expected);
        if expected.is_ok() {
            let stored = Stored { verdict: known.verdict, checked_at: now, verdict_at: known.checked_at };
            self.model.kept.results.insert((account, address), stored);
        }
    }

    /// Spends a credit at once. Its hold has a new id, which is not used again.
    fn charge(&mut self, account: usize) -> Result<u64, HoldError> {
        let hold = HoldRef { account: self.model.accounts[account].id, id: self.world.entry_id() };
        self.model.hold(account, 1, hold)?;
        let last = self.model.holds.len() - 1;
        self.model.holds[last].of_batch = true;
        let left = self.model.end(last, End::Settled);
        Ok(left.unwrap())
    }

    pub fn batch(&mut self, account: usize, addresses: &[usize], key: Option<u8>) {
        let emails: Vec<String> = addresses.iter().map(|&address| email(address)).collect();
        let rows: Vec<&str> = emails.iter().map(String::as_str).collect();
        let mut new = self.world.new_batch(self.model.accounts[account].id, &rows);
        let mut body = [u8::MAX; 32];
        body.iter_mut().zip(addresses).for_each(|(byte, &address)| *byte = address as u8);
        let idempotency = key.map(|key| Idempotency { key: key.to_string(), body });
        new.idempotency = idempotency;
        let expected = self.expect_batch(&new, account, addresses, key.map(|key| (key, body)));
        assert_eq!(self.world.create(new), expected);
    }

    fn expect_batch(
        &mut self,
        new: &NewBatch,
        account: usize,
        addresses: &[usize],
        key: Option<(u8, [u8; 32])>,
    ) -> Result<BatchCreated, BatchError> {
        if addresses.is_empty() {
            return Err(BatchError::Hold(HoldError::BadAmount));
        }
        let now = self.world.now;
        if let Some((key, body)) = key
            && let Some((at, first, answer)) = self.model.kept.keys.get(&(account, key))
            && now < at + DAY
        {
            let replay = BatchCreated { replayed: true, ..*answer };
            return if body == *first { Ok(replay) } else { Err(BatchError::KeyReused) };
        }
        let hold = HoldRef { account: new.account, id: EntryId::new(now, self.world.random()) };
        let left = self.model.hold(account, addresses.len() as u64, hold).map_err(BatchError::Hold)?;
        let hold = self.model.holds.len() - 1;
        self.model.holds[hold].of_batch = true;
        let own = |&address| self.model.kept.own(account, address, now);
        let answers: Vec<_> =
            addresses.iter().map(|address| own(address).map(|own| charged(&own.verdict))).collect();
        let completed = answers.iter().all(Option::is_some);
        self.model.kept.batches.push(Batch {
            id: new.id,
            account,
            hold,
            created_at: now,
            addresses: addresses.to_vec(),
            answers,
            completed_at: None,
        });
        if completed {
            self.complete(self.model.kept.batches.len() - 1);
        }
        let made = BatchCreated {
            batch: new.id,
            submitted: addresses.len() as u32,
            completed,
            credits_remaining: Some(left),
            replayed: false,
        };
        if let Some((key, body)) = key {
            self.model.kept.keys.insert((account, key), (now, body, made));
        }
        Ok(made)
    }

    /// Completes a batch: its hold becomes spent credits, and a voided hold of the returned ones, pack credits first.
    fn complete(&mut self, batch: usize) {
        let batch = &mut self.model.kept.batches[batch];
        batch.completed_at = Some(self.world.now);
        let refunded =
            batch.answers.iter().filter(|answer| matches!(answer, Some(Answer::Refunded(_)))).count() as u64;
        let held = &mut self.model.holds[batch.hold];
        let pack = refunded.min(held.pack);
        let plan = refunded - pack;
        held.pack -= pack;
        held.plan -= plan;
        held.end = End::Settled;
        let (hold, account, period) = (held.hold, held.account, held.period);
        self.model.holds.push(Hold { hold, account, plan, pack, period, end: End::Voided, of_batch: true });
    }

    pub fn answer(&mut self, batch: usize, rows: &[(usize, RowOutcome)]) {
        let now = self.world.now;
        let Some(batch) = self.model.kept.batches.len().checked_sub(1 + batch) else { return };
        let id = self.model.kept.batches[batch].id;
        let asked: Vec<_> = rows.iter().map(|(index, outcome)| (*index as u32, outcome.clone())).collect();
        let completed = self.world.answer(id, &asked);
        let modeled = &mut self.model.kept.batches[batch];
        if modeled.completed_at.is_some() {
            assert_eq!(completed, []);
            return;
        }
        for (index, outcome) in rows {
            let Some(slot @ None) = modeled.answers.get_mut(*index) else { continue };
            *slot = Some(match outcome {
                RowOutcome::Unanswered(cause) => Answer::Refunded(*cause),
                RowOutcome::Verified(verdict) => {
                    let stored = Stored { verdict: verdict.clone(), checked_at: now, verdict_at: now };
                    self.model.kept.results.insert((modeled.account, modeled.addresses[*index]), stored);
                    charged(verdict)
                }
                RowOutcome::Repeated(verdict) | RowOutcome::Reused(verdict) => charged(verdict),
                RowOutcome::Waits(_) => continue,
            });
        }
        let complete = modeled.answers.iter().all(Option::is_some);
        assert_eq!(completed, if complete { vec![id] } else { vec![] });
        if complete {
            self.complete(batch);
        }
    }

    pub fn purge(&mut self) {
        let (now, kept) = (self.world.now, &mut self.model.kept);
        if now < kept.purges_from {
            assert_eq!(self.world.purge(), Purged::default());
            return;
        }
        if kept.seen.is_none_or(|seen| now.abs_diff(seen) >= 60 * 60 * 1000) {
            kept.seen = Some(now);
        }
        let late: Vec<usize> = (0..self.model.kept.batches.len())
            .filter(|&batch| {
                let batch = &self.model.kept.batches[batch];
                batch.completed_at.is_none() && batch.created_at + 6 * DAY <= self.world.now
            })
            .collect();
        for &batch in &late {
            for answer in &mut self.model.kept.batches[batch].answers {
                answer.get_or_insert(Answer::Refunded(None));
            }
            self.complete(batch);
        }
        assert_eq!(self.world.purge().ended, late.len() as u64);
    }

    pub fn compare_kept(&self) {
        for (number, account) in self.model.accounts.iter().enumerate() {
            for address in 0..ADDRESSES {
                self.compare_known(number, account.id, address);
            }
        }
        let mut open: Vec<_> =
            self.model.kept.batches.iter().filter(|batch| batch.completed_at.is_none()).collect();
        open.sort_by_key(|batch| batch.id);
        let found = self.world.open_batches().wait().unwrap();
        let found: Vec<_> = found.iter().map(|batch| (batch.batch, batch.answered)).collect();
        let expected: Vec<_> = open.iter().map(|batch| (batch.id, batch.answered())).collect();
        assert_eq!(found, expected);
        for batch in self.model.kept.batches.iter().rev().take(4) {
            self.compare_batch(batch);
        }
    }

    fn compare_known(&self, account: usize, id: AccountId, address: usize) {
        let now = self.world.now;
        let known = self.world.known(id, &email(address));
        match self.model.kept.own(account, address, now) {
            Some(Stored { verdict, checked_at, .. }) => {
                assert_eq!(known, Known::Own(StoredResult { verdict, checked_at }));
            }
            None => {
                let shared = self.model.kept.shared(address, now);
                let fits = match &known {
                    Known::Own(_) => false,
                    // Of several with the same time, each may be the right one.
                    Known::Nothing => {
                        shared.is_empty() || shared.iter().any(|one| !self.model.kept.stands(one))
                    }
                    Known::Shared(found) => shared.iter().any(|one| {
                        (&dated(one.verdict.clone(), now), one.verdict_at)
                            == (&found.verdict, found.checked_at)
                            && self.model.kept.stands(one)
                    }),
                };
                assert!(fits, "{known:?} instead of one of {shared:?}");
            }
        }
    }

    fn compare_batch(&self, batch: &Batch) {
        let view = self.world.view(self.model.accounts[batch.account].id, batch.id);
        if batch.completed_at.is_some_and(|at| at + 7 * DAY <= self.world.now) {
            assert_eq!(view, None);
            return;
        }
        let view = view.unwrap();
        assert_eq!((view.completed, view.checked), (batch.completed_at.is_some(), batch.answered()));
        let answered: Option<Vec<_>> = batch.answers.iter().copied().collect();
        let said = |answer| match answer {
            Answer::Charged(reason, cause) => (reason, cause),
            Answer::Refunded(cause) => (Reason::Unverifiable, cause),
        };
        let (reasons, causes): (Vec<_>, Vec<_>) = answered.iter().flatten().copied().map(said).unzip();
        let rows = batch.addresses.iter().map(|&address| email(address)).zip(reasons);
        assert_eq!((view.results, view.causes), (answered.map(|_| rows.collect()), causes));
    }
}

impl Batch {
    fn answered(&self) -> u32 {
        self.answers.iter().flatten().count() as u32
    }
}
