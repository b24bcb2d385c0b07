//! Which row is asked about next: pure, with the time given.
//!
//! A batch waits by its name alone until its turn comes; then its rows are loaded, equal addresses as one question.
//! A question is ready, under way at the engine, or put off until later. Accounts take turns, a question each, so
//! that no account waits for another's batches; within an account the older batch comes first.
//!
//! What bounds the memory: rows are loaded only while their account has few that are ready, and only as long as
//! there is room, for the account and for all. Questions that wait for the budget of their site have room of their own,
//! so that they keep no other rows from being loaded.

use engine::proto::address::Address;
use engine::proto::limits::BULK_PATIENCE;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};
use store::{AccountId, AddressHash, BatchId, OpenBatch, RowAnswer, RowOutcome, UnixMs, Verdict};

/// Most questions in memory: some 20 MB.
const LOADED_MAX: usize = 100_000;
/// Most of them of one account: those that are put off may stay for `wait`, and others are not to wait for them.
const LOADED_OF_ACCOUNT_MAX: usize = 25_000;
/// Most questions that wait for the budget of their site, beside those.
const WAITING_FOR_BUDGET_MAX: usize = 100_000;
/// An account with fewer questions ready has its next batch loaded.
const READY_LOW: usize = 200;
/// A question that another batch of the account has under way is put off so long: then the store knows the answer.
const TWIN_WAIT: u64 = 1_000;
/// A question whose site has enough of them waiting is put off so long.
const CROWDED_WAIT: u64 = 500;
/// The shortest time between two tries of a question.
const RETRY_MIN: u64 = 1_000;
/// The longest time between two tries in an outage.
const OUTAGE_RETRY_MAX: u64 = 60_000;
/// The longest time between two tries of a question whose site is not to be asked more for now: those that are accepted
/// meanwhile may make room.
const BUDGET_RETRY_MAX: u64 = 300_000;
/// A batch whose rows cannot be read is put off so long.
const UNREADABLE_WAIT: u64 = 60_000;
/// The engine answers well before. This is for the day on which it does not.
const UNDER_WAY_TIME_MAX: Duration = Duration::from_secs(900);
const _: () = assert!(UNDER_WAY_TIME_MAX.as_secs() > BULK_PATIENCE.as_secs());

/// What an operator can set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most questions under way at the engine.
    pub under_way_max: usize,
    /// How long after its creation a batch asks again where servers say "later".
    pub wait: Duration,
    /// How long after its creation a batch asks again in an outage.
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

/// A row as it is loaded.
pub struct Row {
    /// Its place in the batch.
    pub index: u32,
    /// The address.
    pub address: Address,
    /// The same, as the store knows it.
    pub hash: AddressHash,
}

/// Names a question while it is under way.
pub type Ticket = u64;

/// An address of a batch, with all the rows that have it.
pub struct RowQuestion {
    /// Whose batch.
    pub account: AccountId,
    /// The address.
    pub address: Address,
    /// The same, as the store knows it.
    pub hash: AddressHash,
    batch: BatchId,
    created_at: UnixMs,
    rows: Vec<u32>,
    /// What the last try was put off by: for the server's sake, and in an outage.
    put_off: u64,
    put_off_by_outage: u64,
    /// It waits for the budget of its site, in the room for such questions.
    waits_for_budget: bool,
}

#[derive(Default)]
struct Account {
    /// Batches whose turn has not come.
    unloaded: VecDeque<OpenBatch>,
    ready: VecDeque<RowQuestion>,
    /// Questions in memory: ready, under way or put off, without those in the room for what waits for a budget.
    loaded: usize,
    in_asking: bool,
    in_loading: bool,
}

/// See the module.
pub struct Queue {
    limits: Limits,
    accounts: HashMap<AccountId, Account>,
    /// Accounts with questions ready, in the order of their turns. An account stands in it once at most.
    asking: VecDeque<AccountId>,
    /// Accounts that want their next batch loaded, likewise.
    loading: VecDeque<AccountId>,
    /// Every batch that is not finished, with its questions left; none yet if it is not loaded.
    batches: HashMap<BatchId, usize>,
    /// With the moments at which they were handed out: a wall clock that is set ends nobody's patience.
    under_way: BTreeMap<Ticket, (Instant, RowQuestion)>,
    /// What is under way, by address.
    twins: HashSet<(AccountId, AddressHash)>,
    /// What is put off, by when it is ready again.
    later: BTreeMap<(UnixMs, u64), RowQuestion>,
    /// Batches whose rows could not be read, by when it is tried again.
    unreadable: BTreeMap<(UnixMs, BatchId), OpenBatch>,
    answers: Vec<RowAnswer>,
    loaded: usize,
    waiting_for_budget: usize,
    /// The next ticket, and what tells two questions apart that are put off to the same moment.
    next: u64,
}

impl Account {
    fn wants_rows(&self) -> bool {
        !self.unloaded.is_empty() && self.ready.len() < READY_LOW && self.loaded < LOADED_OF_ACCOUNT_MAX
    }
}

impl Queue {
    /// An empty queue.
    pub fn new(limits: Limits) -> Queue {
        Queue {
            limits,
            accounts: HashMap::new(),
            asking: VecDeque::new(),
            loading: VecDeque::new(),
            batches: HashMap::new(),
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

    /// Takes up a batch; one that is here already changes nothing.
    pub fn add(&mut self, batch: OpenBatch) {
        if self.batches.contains_key(&batch.batch) {
            return;
        }
        self.batches.insert(batch.batch, 0);
        let account = batch.account;
        self.accounts.entry(account).or_default().unloaded.push_back(batch);
        self.take_place(account);
    }

    /// The batch whose rows are to be loaded now, if there is room. It comes back by [`Queue::load`] or
    /// [`Queue::put_off_loading`].
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
        }
        None
    }

    /// The rows of a batch that have no answer.
    pub fn load(&mut self, batch: &OpenBatch, rows: Vec<Row>) {
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
                    put_off: 0,
                    put_off_by_outage: 0,
                    waits_for_budget: false,
                }),
            }
        }
        if questions.is_empty() {
            self.batches.remove(&batch.batch);
        } else {
            self.batches.insert(batch.batch, questions.len());
        }
        self.loaded += questions.len();
        let account = self.accounts.entry(batch.account).or_default();
        account.loaded += questions.len();
        account.ready.extend(questions);
        self.take_place(batch.account);
    }

    /// The rows of a batch could not be read: no other batch waits for that.
    pub fn put_off_loading(&mut self, batch: OpenBatch, now: UnixMs) {
        self.unreadable.insert((now.saturating_add(UNREADABLE_WAIT), batch.batch), batch);
        self.take_place(batch.account);
    }

    /// The next question; from this moment on it is under way.
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

    /// There was no room for it: it is the next of its account again.
    pub fn put_back(&mut self, ticket: Ticket) {
        let Some(question) = self.take(ticket) else { return };
        let id = question.account;
        self.accounts.entry(id).or_default().ready.push_front(question);
        self.take_place(id);
    }

    /// The store knows the answer.
    pub fn known(&mut self, ticket: Ticket, outcome: RowOutcome) {
        if let Some(question) = self.take(ticket) {
            self.settle(question, outcome);
        }
    }

    /// The engine's answer; the server may have asked for a later try.
    pub fn found(&mut self, ticket: Ticket, verdict: Verdict, retry_after: Option<Duration>, now: UnixMs) {
        let Some(mut question) = self.take(ticket) else { return };
        match retry_after.and_then(|after| again(&mut question, after, self.limits.wait, now)) {
            Some(due) => self.postpone(question, due),
            None => self.settle(question, RowOutcome::Verified(verdict)),
        }
    }

    /// Nothing could be asked, through no fault of the address.
    pub fn failed(&mut self, ticket: Ticket, now: UnixMs) {
        let Some(mut question) = self.take(ticket) else { return };
        match again_in_outage(&mut question, self.limits.outage_wait, now) {
            Some(due) => self.postpone(question, due),
            None => self.settle(question, RowOutcome::Unanswered),
        }
    }

    /// Its site has enough waiting: others are asked about meanwhile.
    pub fn on_site_full(&mut self, ticket: Ticket, now: UnixMs) {
        if let Some(question) = self.take(ticket) {
            self.postpone(question, now.saturating_add(CROWDED_WAIT));
        }
    }

    /// Its site is not to be asked more for now, but may be again after this long: others are asked about meanwhile. At
    /// the deadline it is tried a last time, then it is refunded, as nobody was asked.
    pub fn over_budget(&mut self, ticket: Ticket, after: Duration, now: UnixMs) {
        let Some(mut question) = self.take(ticket) else { return };
        let deadline = question.created_at.saturating_add(millis(self.limits.wait));
        if now >= deadline {
            return self.settle(question, RowOutcome::Unanswered);
        }
        if self.waiting_for_budget < WAITING_FOR_BUDGET_MAX {
            question.waits_for_budget = true;
            self.waiting_for_budget += 1;
            self.unload(question.account);
        }
        let after = millis(after).clamp(RETRY_MIN, BUDGET_RETRY_MAX);
        self.postpone(question, now.saturating_add(after).min(deadline));
    }

    /// Gives up waiting for what is under way for too long.
    pub fn give_up(&mut self, now: UnixMs, moment: Instant) {
        while let Some((&ticket, &(since, _))) = self.under_way.first_key_value()
            && moment.saturating_duration_since(since) >= UNDER_WAY_TIME_MAX
        {
            self.failed(ticket, now);
        }
    }

    /// When the next question that is put off is ready.
    pub fn due(&self) -> Option<UnixMs> {
        self.later.first_key_value().map(|(&(due, _), _)| due)
    }

    /// Whether there is nothing to do and nothing to wait for.
    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// The answers since it was last asked.
    pub fn take_answers(&mut self) -> Vec<RowAnswer> {
        std::mem::take(&mut self.answers)
    }

    /// An answer for a row that is no address, and so is never asked about.
    pub fn answer_row(&mut self, batch: BatchId, index: u32, outcome: RowOutcome) {
        self.answers.push(RowAnswer { batch, index, outcome });
    }

    /// What was put off until now is ready, ahead of what was never asked.
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

    /// A question of the account leaves the memory, or goes to the room for what waits for a budget.
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

    fn postpone(&mut self, question: RowQuestion, due: UnixMs) {
        let number = self.number();
        self.later.insert((due, number), question);
    }

    fn settle(&mut self, question: RowQuestion, outcome: RowOutcome) {
        let RowQuestion { account: id, batch, rows, .. } = question;
        let others = match outcome {
            RowOutcome::Verified(verdict) | RowOutcome::Reused(verdict) => {
                RowOutcome::Repeated(verdict.reason)
            }
            same => same,
        };
        let outcomes = std::iter::once(outcome).chain(std::iter::repeat(others));
        let answers = rows.into_iter().zip(outcomes);
        self.answers.extend(answers.map(|(index, outcome)| RowAnswer { batch, index, outcome }));
        if let Some(left) = self.batches.get_mut(&batch) {
            *left -= 1;
            if *left == 0 {
                self.batches.remove(&batch);
            }
        }
        self.unload(id);
    }

    /// Puts the account at the end of the rows in which it has a place to take, or forgets it.
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
        // What may still stand in a row is passed over there.
        if account.loaded == 0 && account.unloaded.is_empty() && !account.in_asking && !account.in_loading {
            self.accounts.remove(&id);
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// When to ask again a server that wants to be asked later: not before it wants to, ever later, and a last time at the
/// deadline. None if it wants to be asked after that.
fn again(question: &mut RowQuestion, after: Duration, wait: Duration, now: UnixMs) -> Option<UnixMs> {
    let deadline = question.created_at.saturating_add(millis(wait));
    let after = millis(after).max(RETRY_MIN);
    if now.saturating_add(after) > deadline {
        return None;
    }
    question.put_off = after.max(question.put_off.saturating_mul(2));
    Some(now.saturating_add(question.put_off).min(deadline))
}

/// When to try again in an outage; a last time at the deadline.
fn again_in_outage(question: &mut RowQuestion, wait: Duration, now: UnixMs) -> Option<UnixMs> {
    let deadline = question.created_at.saturating_add(millis(wait));
    if now >= deadline {
        return None;
    }
    question.put_off_by_outage =
        question.put_off_by_outage.saturating_mul(2).clamp(RETRY_MIN, OUTAGE_RETRY_MAX);
    Some(now.saturating_add(question.put_off_by_outage).min(deadline))
}

fn millis(duration: Duration) -> u64 {
    duration.as_millis().try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
