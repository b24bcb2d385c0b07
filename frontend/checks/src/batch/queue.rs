//! The order of the questions of batches. It is pure: the caller passes the time.
//!
//! Until its turn a batch waits by its id alone. Then its rows are loaded, and equal addresses become one question. A
//! question is ready, under way at the engine, or deferred. Accounts take turns, one question each, so that no account
//! waits for the batches of another. Within an account, older batches precede newer ones.
//!
//! Memory is limited: rows are loaded only while their account has few ready questions, and only while there is room,
//! for the account and in total. Questions that wait for the budget of their site have a separate limit, so they do not
//! prevent the loading of other rows.

use api::{UnverifiableCause, WaitCause};
use engine::proto::address::Address;
use engine::proto::limits::BULK_PATIENCE;
use engine::proto::retry::{BATCH_BUDGET, BATCH_LATER, BATCH_OUTAGE, Tries, left};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};
use store::{AccountId, AddressHash, BatchId, OpenBatch, RowAnswer, RowOutcome, UnixMs, Verdict};

/// The most questions in memory: about 20 MB.
const LOADED_MAX: usize = 100_000;
/// The most questions of one account. Its deferred questions may stay for `wait`, and must not delay other accounts.
const LOADED_OF_ACCOUNT_MAX: usize = 25_000;
/// The most questions that wait for the budget of their site, in addition to the above.
const WAITING_FOR_BUDGET_MAX: usize = 100_000;
/// The next batch of an account is loaded if it has fewer ready questions than this.
const READY_LOW: usize = 200;
/// How long a question is deferred whose address is under way for another batch of the account: then the store has the
/// answer.
const TWIN_WAIT: u64 = 1_000;
/// How long a question is deferred after its site was full.
const CROWDED_WAIT: u64 = 500;
/// How long a batch is deferred if its rows cannot be read.
const UNREADABLE_WAIT: u64 = 60_000;
/// The engine answers well before this. It is a safeguard against a defect of the engine.
const UNDER_WAY_TIME_MAX: Duration = Duration::from_secs(900);
const _: () = assert!(UNDER_WAY_TIME_MAX.as_secs() > BULK_PATIENCE.as_secs());

/// The limits that an operator can set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most questions under way at the engine.
    pub under_way_max: usize,
    /// How long after its creation a batch repeats questions that a server defers.
    pub wait: Duration,
    /// How long after its creation a batch repeats questions in an outage.
    pub outage_wait: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            under_way_max: 2_000,
            wait: Duration::from_secs(20 * 60),
            outage_wait: Duration::from_secs(60 * 60),
        }
    }
}

/// One row of a batch as it is loaded.
pub struct Row {
    /// The index of the row in the batch.
    pub index: u32,
    /// The address of the row.
    pub address: Address,
    /// The hash of the address, as in the store.
    pub hash: AddressHash,
}

/// The number of a question while it is under way.
pub type Ticket = u64;

/// An address of a batch, with all rows that have it.
pub struct RowQuestion {
    /// The account of the batch.
    pub account: AccountId,
    /// The address to ask about.
    pub address: Address,
    /// The hash of the address, as in the store.
    pub hash: AddressHash,
    batch: BatchId,
    created_at: UnixMs,
    rows: Vec<u32>,
    /// The last delay that the server wanted, and the last delay in an outage.
    put_off: Duration,
    put_off_by_outage: Duration,
    /// The cause of its wait, as the store knows it.
    cause: WaitCause,
    /// Whether it waits for the budget of its site. Such questions have a limit of their own.
    waits_for_budget: bool,
}

#[derive(Default)]
struct Account {
    /// Batches that are not loaded yet.
    unloaded: VecDeque<OpenBatch>,
    ready: VecDeque<RowQuestion>,
    /// Questions in memory: ready, under way or deferred, without those that wait for a budget.
    loaded: usize,
    in_asking: bool,
    in_loading: bool,
}

/// The part of a batch that has no answer.
#[derive(Debug, Clone, Copy)]
struct BatchRest {
    /// Questions; none before the batch is loaded.
    questions: usize,
    /// Rows. A question may have several.
    rows: usize,
}

/// The questions of all unfinished batches, in the order in which they are handed out.
pub struct Queue {
    limits: Limits,
    accounts: HashMap<AccountId, Account>,
    /// Accounts with ready questions, in the order of their turns. Each account occurs at most once.
    asking: VecDeque<AccountId>,
    /// Accounts that need their next batch loaded, in the same way.
    loading: VecDeque<AccountId>,
    /// Every unfinished batch.
    batches: HashMap<BatchId, BatchRest>,
    /// Rows without an answer, over all batches.
    rows_waiting: usize,
    /// Questions under way, with the instants at which they were handed out: setting the wall clock does not affect
    /// them.
    under_way: BTreeMap<Ticket, (Instant, RowQuestion)>,
    /// The addresses under way, by account.
    twins: HashSet<(AccountId, AddressHash)>,
    /// Deferred questions, by the time at which they are ready again.
    later: BTreeMap<(UnixMs, u64), RowQuestion>,
    /// Batches with unreadable rows, by the time of the next attempt.
    unreadable: BTreeMap<(UnixMs, BatchId), OpenBatch>,
    answers: Vec<RowAnswer>,
    loaded: usize,
    waiting_for_budget: usize,
    /// The next ticket, which also distinguishes questions that are deferred to the same time.
    next: u64,
}

impl Account {
    fn wants_rows(&self) -> bool {
        !self.unloaded.is_empty() && self.ready.len() < READY_LOW && self.loaded < LOADED_OF_ACCOUNT_MAX
    }
}

impl Queue {
    /// An empty queue with these limits.
    pub fn new(limits: Limits) -> Queue {
        Queue {
            limits,
            accounts: HashMap::new(),
            asking: VecDeque::new(),
            loading: VecDeque::new(),
            batches: HashMap::new(),
            rows_waiting: 0,
            under_way: BTreeMap::new(),
            twins: HashSet::new(),
            later: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            answers: Vec::new(),
            loaded: 0,
            waiting_for_budget: 0,
            next: 0,
        }
    }

    /// Adds a batch; a batch that is already in the queue changes nothing.
    pub fn add(&mut self, batch: OpenBatch) {
        if self.batches.contains_key(&batch.batch) {
            return;
        }
        let rows = batch.total.saturating_sub(batch.answered) as usize;
        self.keep(batch.batch, BatchRest { questions: 0, rows });
        let account = batch.account;
        self.accounts.entry(account).or_default().unloaded.push_back(batch);
        self.take_place(account);
    }

    /// The batch to load now, if there is room. The caller returns it by [`Queue::load`] or [`Queue::put_off_loading`].
    pub fn to_load(&mut self, now: UnixMs) -> Option<OpenBatch> {
        while let Some(entry) = self.unreadable.first_entry()
            && entry.key().0 <= now
        {
            let batch = entry.remove();
            self.accounts.entry(batch.account).or_default().unloaded.push_back(batch);
            self.take_place(batch.account);
        }
        while self.loaded < LOADED_MAX {
            let id = self.loading.pop_front()?;
            let Some(account) = self.accounts.get_mut(&id) else { continue };
            account.in_loading = false;
            if account.wants_rows() {
                return account.unloaded.pop_front();
            }
            // Its batches may have been cancelled.
            self.take_place(id);
        }
        None
    }

    /// Adds the rows of a batch that have no answer.
    pub fn load(&mut self, batch: &OpenBatch, rows: Vec<Row>) {
        let unanswered = rows.len();
        let mut places: HashMap<AddressHash, usize> = HashMap::with_capacity(rows.len());
        let mut questions: Vec<RowQuestion> = Vec::with_capacity(rows.len());
        for Row { index, address, hash } in rows {
            let place = *places.entry(hash).or_insert(questions.len());
            match questions.get_mut(place) {
                Some(question) => question.rows.push(index),
                None => questions.push(RowQuestion {
                    account: batch.account,
                    address,
                    hash,
                    batch: batch.batch,
                    created_at: batch.created_at,
                    rows: vec![index],
                    put_off: Duration::ZERO,
                    put_off_by_outage: Duration::ZERO,
                    cause: WaitCause::Queue,
                    waits_for_budget: false,
                }),
            }
        }
        if questions.is_empty() {
            self.forget(batch.batch);
        } else {
            self.keep(batch.batch, BatchRest { questions: questions.len(), rows: unanswered });
        }
        self.loaded += questions.len();
        let account = self.accounts.entry(batch.account).or_default();
        account.loaded += questions.len();
        account.ready.extend(questions);
        self.take_place(batch.account);
    }

    /// Defers a batch with unreadable rows, so that other batches do not wait for it.
    pub fn put_off_loading(&mut self, batch: OpenBatch, now: UnixMs) {
        self.unreadable.insert((now.saturating_add(UNREADABLE_WAIT), batch.batch), batch);
        self.take_place(batch.account);
    }

    /// Forgets batches that have ended before all their rows had answers. The engine's answers to questions that are under way have no
    /// effect.
    pub fn cancel(&mut self, batches: Vec<BatchId>) {
        let batches: HashSet<BatchId> = batches.into_iter().collect();
        batches.iter().for_each(|batch| self.forget(*batch));
        self.unreadable.retain(|(_, batch), _| !batches.contains(batch));
        let accounts: Vec<AccountId> = self.accounts.keys().copied().collect();
        for id in accounts {
            let Some(account) = self.accounts.get_mut(&id) else { continue };
            account.unloaded.retain(|open| !batches.contains(&open.batch));
            let before = account.ready.len();
            account.ready.retain(|question| !batches.contains(&question.batch));
            let dropped = before - account.ready.len();
            account.loaded -= dropped;
            self.loaded -= dropped;
            self.take_place(id);
        }
        let (mut waiting, mut unloaded) = (0, Vec::new());
        self.later.retain(|_, question| {
            let is_kept = !batches.contains(&question.batch);
            match question.waits_for_budget {
                _ if is_kept => {}
                true => waiting += 1,
                false => unloaded.push(question.account),
            }
            is_kept
        });
        self.waiting_for_budget -= waiting;
        unloaded.into_iter().for_each(|id| self.unload(id));
    }

    /// The batches in the queue.
    pub fn open(&self) -> Vec<BatchId> {
        self.batches.keys().copied().collect()
    }

    /// The next question, which is under way from now on.
    pub fn next(&mut self, now: UnixMs, moment: Instant) -> Option<(Ticket, &RowQuestion)> {
        self.wake(now);
        if self.under_way.len() >= self.limits.under_way_max {
            return None;
        }
        let question = loop {
            let id = self.asking.pop_front()?;
            let Some(account) = self.accounts.get_mut(&id) else { continue };
            account.in_asking = false;
            let question = account.ready.pop_front();
            self.take_place(id);
            match question {
                Some(question) if self.twins.contains(&(id, question.hash)) => {
                    self.postpone(question, now.saturating_add(TWIN_WAIT));
                }
                Some(question) => break question,
                None => {}
            }
        };
        self.twins.insert((question.account, question.hash));
        let ticket = self.number();
        let (_, question) = self.under_way.entry(ticket).or_insert((moment, question));
        Some((ticket, question))
    }

    /// The batch of a question that is under way.
    pub fn batch_of(&self, ticket: Ticket) -> Option<BatchId> {
        self.under_way.get(&ticket).map(|(_, question)| question.batch)
    }

    /// Returns a question for which the engine had no room. It is the next one of its account again.
    pub fn put_back(&mut self, ticket: Ticket) {
        let Some(question) = self.take(ticket) else { return };
        let id = question.account;
        if !self.batches.contains_key(&question.batch) {
            return self.unload(id);
        }
        self.accounts.entry(id).or_default().ready.push_front(question);
        self.take_place(id);
    }

    /// Answers a question from the store.
    pub fn known(&mut self, ticket: Ticket, outcome: RowOutcome) {
        if let Some(question) = self.take(ticket) {
            self.settle(question, outcome);
        }
    }

    /// Takes the verdict of the engine, or defers the question if there is a time and a cause for a later attempt.
    pub fn found(
        &mut self,
        ticket: Ticket,
        verdict: Verdict,
        retry: Option<(Duration, WaitCause)>,
        now: UnixMs,
    ) {
        let Some(mut question) = self.take(ticket) else { return };
        let left = left(self.limits.wait, question.created_at, now);
        let tries = Tries { last_delay: question.put_off, ..Tries::default() };
        let delay = |(after, cause)| Some((BATCH_LATER.delay(tries, after, left)?, cause));
        match retry.and_then(delay) {
            Some((delay, cause)) => {
                question.put_off = delay;
                self.note(&mut question, cause);
                self.postpone(question, now.saturating_add(millis(delay)));
            }
            None => self.settle(question, RowOutcome::Verified(verdict)),
        }
    }

    /// Takes the result that nothing could be asked, independently of the address.
    pub fn failed(&mut self, ticket: Ticket, now: UnixMs) {
        let Some(mut question) = self.take(ticket) else { return };
        let left = left(self.limits.outage_wait, question.created_at, now);
        let tries = Tries { last_delay: question.put_off_by_outage, ..Tries::default() };
        match BATCH_OUTAGE.delay(tries, Duration::ZERO, left) {
            Some(delay) => {
                question.put_off_by_outage = delay;
                self.note(&mut question, WaitCause::Outage);
                self.postpone(question, now.saturating_add(millis(delay)));
            }
            None => self.settle(question, RowOutcome::Unanswered(Some(UnverifiableCause::Outage))),
        }
    }

    /// Defers a question because its site is full; other questions are asked meanwhile.
    pub fn on_site_full(&mut self, ticket: Ticket, now: UnixMs) {
        if let Some(question) = self.take(ticket) {
            self.postpone(question, now.saturating_add(CROWDED_WAIT));
        }
    }

    /// Defers a question because the budget of its site is used up for this time. At the deadline there is a last
    /// attempt. Then the question is refunded, since no server was asked.
    pub fn over_budget(&mut self, ticket: Ticket, after: Duration, now: UnixMs) {
        let Some(mut question) = self.take(ticket) else { return };
        let left = left(self.limits.wait, question.created_at, now);
        let Some(delay) = BATCH_BUDGET.delay(Tries::default(), after, left) else {
            return self.settle(question, RowOutcome::Unanswered(Some(UnverifiableCause::RefusalBudget)));
        };
        self.note(&mut question, WaitCause::RefusalBudget);
        if self.waiting_for_budget < WAITING_FOR_BUDGET_MAX {
            question.waits_for_budget = true;
            self.waiting_for_budget += 1;
            self.unload(question.account);
        }
        self.postpone(question, now.saturating_add(millis(delay)));
    }

    /// Ends the wait for questions that are under way for too long.
    pub fn give_up(&mut self, now: UnixMs, moment: Instant) {
        while let Some((&ticket, &(since, _))) = self.under_way.first_key_value()
            && moment.saturating_duration_since(since) >= UNDER_WAY_TIME_MAX
        {
            self.failed(ticket, now);
        }
    }

    /// The time at which the next deferred question is ready.
    pub fn due(&self) -> Option<UnixMs> {
        self.later.first_key_value().map(|(&(due, _), _)| due)
    }

    /// The number of batches.
    pub fn batches(&self) -> usize {
        self.batches.len()
    }

    /// The number of rows without an answer, over all batches, loaded or not.
    pub fn rows_waiting(&self) -> usize {
        self.rows_waiting
    }

    /// Whether the queue has neither questions nor batches.
    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Takes the answers since the last call.
    pub fn take_answers(&mut self) -> Vec<RowAnswer> {
        std::mem::take(&mut self.answers)
    }

    /// Adds an answer for a row without a valid address, which needs no question.
    pub fn answer_row(&mut self, batch: BatchId, index: u32, outcome: RowOutcome) {
        self.answers.push(RowAnswer { batch, index, outcome });
    }

    /// Sets the rest of a batch.
    fn keep(&mut self, batch: BatchId, rest: BatchRest) {
        let before = self.batches.insert(batch, rest).map_or(0, |before| before.rows);
        self.rows_waiting = self.rows_waiting - before + rest.rows;
    }

    /// Removes a batch that has no rest, or no longer counts.
    fn forget(&mut self, batch: BatchId) {
        self.rows_waiting -= self.batches.remove(&batch).map_or(0, |rest| rest.rows);
    }

    /// Moves deferred questions that are due before those that were never asked.
    fn wake(&mut self, now: UnixMs) {
        while let Some(entry) = self.later.first_entry()
            && entry.key().0 <= now
        {
            let mut question = entry.remove();
            let id = question.account;
            let account = self.accounts.entry(id).or_default();
            if std::mem::take(&mut question.waits_for_budget) {
                self.waiting_for_budget -= 1;
                self.loaded += 1;
                account.loaded += 1;
            }
            account.ready.push_front(question);
            self.take_place(id);
        }
    }

    /// A question of the account leaves the memory, or moves to the limit for questions that wait for a budget.
    fn unload(&mut self, id: AccountId) {
        self.loaded -= 1;
        self.accounts.entry(id).or_default().loaded -= 1;
        self.take_place(id);
    }

    fn take(&mut self, ticket: Ticket) -> Option<RowQuestion> {
        let (_, question) = self.under_way.remove(&ticket)?;
        self.twins.remove(&(question.account, question.hash));
        Some(question)
    }

    /// Notes what a question waits for, for the progress of a list. A question keeps the cause while it is asked again.
    fn note(&mut self, question: &mut RowQuestion, cause: WaitCause) {
        if question.cause == cause || !self.batches.contains_key(&question.batch) {
            return;
        }
        question.cause = cause;
        let (batch, outcome) = (question.batch, || RowOutcome::Waits(cause));
        self.answers.extend(question.rows.iter().map(|&index| RowAnswer {
            batch,
            index,
            outcome: outcome(),
        }));
    }

    fn postpone(&mut self, question: RowQuestion, due: UnixMs) {
        if !self.batches.contains_key(&question.batch) {
            // Its batch was cancelled.
            match question.waits_for_budget {
                true => self.waiting_for_budget -= 1,
                false => self.unload(question.account),
            }
            return;
        }
        let number = self.number();
        self.later.insert((due, number), question);
    }

    fn settle(&mut self, question: RowQuestion, outcome: RowOutcome) {
        let RowQuestion { account: id, batch, rows, .. } = question;
        let others = match &outcome {
            RowOutcome::Verified(verdict) | RowOutcome::Reused(verdict) => {
                RowOutcome::Repeated(verdict.clone())
            }
            same => same.clone(),
        };
        let outcomes = std::iter::once(outcome).chain(std::iter::repeat(others));
        let answered = rows.len();
        let answers = rows.into_iter().zip(outcomes);
        self.answers.extend(answers.map(|(index, outcome)| RowAnswer { batch, index, outcome }));
        if let Some(&BatchRest { questions, rows }) = self.batches.get(&batch) {
            match questions.saturating_sub(1) {
                0 => self.forget(batch),
                questions => self.keep(batch, BatchRest { questions, rows: rows.saturating_sub(answered) }),
            }
        }
        self.unload(id);
    }

    /// Adds the account to the queues of turns that it needs, or removes it.
    fn take_place(&mut self, id: AccountId) {
        let Some(account) = self.accounts.get_mut(&id) else { return };
        if !account.in_asking && !account.ready.is_empty() {
            account.in_asking = true;
            self.asking.push_back(id);
        }
        if !account.in_loading && account.wants_rows() {
            account.in_loading = true;
            self.loading.push_back(id);
        }
        // Entries of a removed account in the queues of turns are skipped there.
        if account.loaded == 0 && account.unloaded.is_empty() && !account.in_asking && !account.in_loading {
            self.accounts.remove(&id);
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

fn millis(duration: Duration) -> u64 {
    duration.as_millis().try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
