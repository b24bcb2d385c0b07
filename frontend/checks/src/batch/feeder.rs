//! The loop around the queue: it loads rows, asks the store and the engine, and writes answers.
//!
//! A turn of the loop takes the available answers, writes them as one group, and hands out as many questions as there
//! is room for. While a group is written, the next one collects in the engine's inbox.

use super::new_batches::{NewBatches, News};
use super::queue::{Limits, Queue, Row, RowQuestion, Ticket};
use crate::convert;
use crate::counters::{CountedCheck, Tally, count};
use crate::engine_client::EngineHandle;
use crate::panics::forget;
use crate::runtime::{self, Driver};
use api::Reason;
use engine::proto::address::Address;
use engine::{Answer, Outage, Priority, Refusal, Request};
use std::collections::HashSet;
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::{Duration, Instant};
use store::clock;
use store::{AccountId, AddressHash, BatchId, Known, OpenBatch, RowAnswer, RowOutcome, StoreError, UnixMs};
use store_rules::Store;

/// How many questions are handed out in one turn: each needs a read of the store, and answers arrive meanwhile.
const ASKED_IN_A_TURN_MAX: usize = 256;
/// How many batches are loaded in one turn.
const LOADED_IN_A_TURN_MAX: usize = 8;
/// How many answers are taken in one turn: the rows of one group.
const ANSWERS_IN_A_TURN_MAX: usize = 1024;
/// The longest sleep of the loop while there is work, since the wall clock may be set.
const TICK: Duration = Duration::from_secs(1);
/// The pause if the engine has no room: its next answer may belong to another client.
const ROOM_PAUSE: Duration = Duration::from_millis(50);
/// The pause if the store cannot be read.
const STORE_PAUSE: Duration = Duration::from_millis(250);
/// The time between two claims of batches of other nodes, and the number of batches with which a node claims no more.
const CLAIM_EVERY: Duration = Duration::from_secs(2);
const CLAIMED_MAX: usize = 256;
/// The first and the longest pause between two attempts to write answers.
const WRITE_PAUSE: Duration = Duration::from_millis(250);
const WRITE_PAUSE_MAX: Duration = Duration::from_secs(5);

/// The feeder of batches before its thread starts.
pub struct Feeder {
    /// The driver of the thread's runtime.
    pub driver: Driver,
    /// The connection to the engine.
    pub line: Box<dyn EngineHandle + Send>,
    /// The store with the batches.
    pub store: Arc<Store>,
    /// The source of new batches.
    pub new_batches: Arc<NewBatches>,
    /// The limits that an operator sets.
    pub limits: Limits,
    /// The counters of this thread.
    pub tally: Arc<Tally>,
}

/// The reason why the loop does not continue at once.
enum Pause {
    /// There are more questions to hand out.
    None,
    /// There is no work until an answer arrives or a question is ready again.
    Idle,
    /// The engine or the store has no room.
    Short(Duration),
}

/// A question that was taken from the queue.
struct Taken {
    ticket: Ticket,
    account: AccountId,
    hash: AddressHash,
    address: Address,
}

impl Feeder {
    /// Feeds batches until the server stops. The next start continues with the questions under way at that time.
    ///
    /// # Errors
    ///
    /// There is no runtime, or the store cannot be read.
    pub fn run(self) -> io::Result<()> {
        runtime::run(self.driver, |_| self.main())?
    }

    async fn main(self) -> io::Result<()> {
        let mut queue = Queue::new(self.limits);
        let mut claimed = None;
        match self.claim(&mut queue, &mut claimed).await {
            Err(StoreError::Away(_)) | Ok(()) => {}
            Err(error) => return Err(io::Error::other(error)),
        }
        let mut group = ASKED_IN_A_TURN_MAX;
        while !self.new_batches.is_closed() {
            let News { arrived, cancelled } = self.new_batches.take();
            arrived.into_iter().for_each(|batch| queue.add(batch));
            if !cancelled.is_empty() {
                queue.cancel(cancelled);
            }
            if let Err(error) = self.claim(&mut queue, &mut claimed).await {
                tracing::warn!("unfinished batches of other nodes cannot be claimed for now: {error}");
            }
            let pause = self.turn(&mut queue, &mut group).await;
            self.tally.rows_waiting.store(queue.rows_waiting() as u64, Ordering::Relaxed);
            if let Err(error) = self.write(queue.take_answers()).await {
                // The error needs a restart. Rows without a written answer are asked about again after it.
                tracing::error!(
                    "answers of batches could not be written, and no further rows are checked: {error}"
                );
                return self.rest().await;
            }
            self.wait(&mut queue, pause).await;
        }
        self.receive(&mut queue);
        self.write(queue.take_answers()).await.map_err(io::Error::other)
    }

    /// Forgets batches that have ended, and takes over unfinished batches that nobody works on: at the start, and again and again if
    /// there are other nodes.
    async fn claim(&self, queue: &mut Queue, last: &mut Option<Instant>) -> Result<(), StoreError> {
        if last.is_some_and(|last| last.elapsed() < CLAIM_EVERY) {
            return Ok(());
        }
        let is_first = last.replace(Instant::now()).is_none();
        self.forget_ended(queue).await?;
        if !is_first && !self.store.has_nodes() {
            return Ok(());
        }
        // A node without room leaves them to the others.
        let most =
            if self.store.has_nodes() { CLAIMED_MAX.saturating_sub(queue.batches()) } else { usize::MAX };
        let open = self.store.claim_batches(most).await?;
        if !open.is_empty() {
            tracing::info!(batches = open.len(), "continuing unfinished batches, with those of lists");
        }
        open.into_iter().for_each(|batch| queue.add(batch));
        Ok(())
    }

    /// Forgets batches that ended without a message to this thread: through another node, or with their account.
    async fn forget_ended(&self, queue: &mut Queue) -> Result<(), StoreError> {
        let mut ended = queue.open();
        self.new_batches.keep_refusals(&ended);
        if ended.is_empty() {
            return Ok(());
        }
        let open: HashSet<BatchId> = self.store.still_open(ended.clone()).await?.into_iter().collect();
        ended.retain(|batch| !open.contains(batch));
        if !ended.is_empty() {
            queue.cancel(ended);
        }
        Ok(())
    }

    /// `group` is the number of questions that the next turn takes together. It is 1 after the engine had no room, so that
    /// few answers are read in vain, and grows with each full group.
    async fn turn(&self, queue: &mut Queue, group: &mut usize) -> Pause {
        self.receive(queue);
        queue.give_up(clock::now(), Instant::now());
        for _ in 0..LOADED_IN_A_TURN_MAX {
            let Some(batch) = queue.to_load(clock::now()) else { break };
            if let Err(error) = self.load(queue, batch).await {
                if error.is_away() {
                    tracing::warn!(batch = %batch.batch, "the rows of a batch could not be read: {error}");
                } else {
                    tracing::error!(batch = %batch.batch, "the rows of a batch could not be read: {error}");
                }
                queue.put_off_loading(batch, clock::now());
            }
        }
        if !self.store.may_work() {
            return Pause::Short(STORE_PAUSE);
        }
        let now = clock::now();
        let mut taken = Vec::with_capacity(*group);
        while taken.len() < *group {
            let Some((ticket, question)) = queue.next(now, Instant::now()) else { break };
            let RowQuestion { account, hash, address, .. } = question;
            taken.push(Taken { ticket, account: *account, hash: *hash, address: address.clone() });
        }
        let is_full = taken.len() == *group;
        if let Some(pause) = self.ask_all(queue, taken, now).await {
            *group = 1;
            return pause;
        }
        if is_full {
            *group = (*group * 2).min(ASKED_IN_A_TURN_MAX);
            return Pause::None;
        }
        Pause::Idle
    }

    /// Answers questions from the store, and hands the others to the engine. Returns the pause if the engine or the store has
    /// no room; the questions that are left are the next ones of their accounts again.
    async fn ask_all(&self, queue: &mut Queue, taken: Vec<Taken>, now: UnixMs) -> Option<Pause> {
        if taken.is_empty() {
            return None;
        }
        let questions = taken.iter().map(|one| (one.account, one.hash)).collect();
        // If the store cannot read one of them, the others are read alone.
        let known = self.store.known_many(questions, now).await.ok();
        let mut known = known.map(Vec::into_iter);
        let mut rest = taken.into_iter();
        let mut pause = None;
        while let Some(one) = rest.next() {
            let known = match &mut known {
                Some(known) => Ok(known.next().unwrap_or(Known::Nothing)),
                None => self.store.known(one.account, &one.hash, now).await,
            };
            match known {
                Ok(Known::Own(result)) => queue.known(one.ticket, RowOutcome::Repeated(result.verdict)),
                Ok(Known::Shared(result)) => queue.known(one.ticket, RowOutcome::Reused(result.verdict)),
                Ok(Known::Nothing) => {
                    if !self.ask(queue, &one) {
                        rest.by_ref().rev().for_each(|one| queue.put_back(one.ticket));
                        queue.put_back(one.ticket);
                        pause = Some(Pause::Short(ROOM_PAUSE));
                    }
                }
                Err(error) => {
                    if error.is_away() {
                        tracing::warn!("an earlier answer could not be read from the store: {error}");
                    } else {
                        tracing::error!("an earlier answer could not be read from the store: {error}");
                    }
                    queue.failed(one.ticket, now);
                    rest.by_ref().rev().for_each(|one| queue.put_back(one.ticket));
                    pause = Some(Pause::Short(STORE_PAUSE));
                }
            }
        }
        pause
    }

    /// Loads the rows of a batch that have no answer.
    async fn load(&self, queue: &mut Queue, batch: OpenBatch) -> Result<(), StoreError> {
        let open = self.store.unanswered(batch.batch).await?;
        let mut rows = Vec::with_capacity(open.len());
        for row in open {
            match Address::parse(&row.email) {
                Ok(address) => {
                    let hash = self.store.hash_address(&address.canonical());
                    rows.push(Row { index: row.index, address, hash });
                }
                // The address was valid when the batch was created: an earlier version had other rules.
                Err(_) => queue.answer_row(batch.batch, row.index, RowOutcome::Unanswered(None)),
            }
        }
        queue.load(&batch, rows);
        Ok(())
    }

    /// Hands a question to the engine; false if it has no room. A panic there only costs this question an attempt.
    fn ask(&self, queue: &mut Queue, one: &Taken) -> bool {
        let request = Request {
            ticket: one.ticket,
            address: one.address.clone(),
            priority: Priority::Batch,
            owner: owner(one.account),
            trace: false,
            observed: true,
        };
        match catch_unwind(AssertUnwindSafe(|| self.line.submit(request))) {
            Ok(Ok(())) => true,
            Ok(Err(Refusal::Full | Refusal::Stopping)) => false,
            Err(payload) => {
                forget(payload);
                queue.failed(one.ticket, clock::now());
                true
            }
        }
    }

    /// Takes the available answers.
    fn receive(&self, queue: &mut Queue) {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        for _ in 0..ANSWERS_IN_A_TURN_MAX {
            let Poll::Ready(answer) = pin!(self.line.answer()).poll(&mut cx) else { break };
            self.take(queue, answer);
        }
    }

    /// Writes a group of answers, and tries again while the store may accept it later. Meanwhile the engine gets no questions, which
    /// limits the number of waiting answers. After an unknown result it writes the same answers again: a row keeps its first answer.
    async fn write(&self, answers: Vec<RowAnswer>) -> Result<(), StoreError> {
        let mut pause = WRITE_PAUSE;
        loop {
            match self.try_write(answers.clone()).await {
                Err(error) if may_pass(&error, self.store.has_nodes()) && !self.new_batches.is_closed() => {
                    tracing::warn!("answers of batches cannot be written for now: {error}");
                    monoio::time::sleep(pause).await;
                    pause = (pause * 2).min(WRITE_PAUSE_MAX);
                }
                written => return written,
            }
        }
    }

    async fn try_write(&self, answers: Vec<RowAnswer>) -> Result<(), StoreError> {
        if answers.is_empty() {
            return Ok(());
        }
        let verdicts: Vec<Reason> = answers.iter().filter_map(verdict).collect();
        let completed = self.store.answer_rows(answers, clock::now()).await?;
        for reason in verdicts {
            self.tally.checked(CountedCheck { mode: "batch", reason: reason.as_str() });
        }
        if !completed.is_empty() {
            tracing::debug!(batches = completed.len(), "batches are complete");
        }
        Ok(())
    }

    /// Waits until there may be work.
    async fn wait(&self, queue: &mut Queue, pause: Pause) {
        let patience = match pause {
            Pause::None => return,
            Pause::Short(time) => Some(time),
            Pause::Idle if queue.is_empty() => self.store.has_nodes().then_some(CLAIM_EVERY),
            Pause::Idle => {
                let due = queue.due().map(|due| Duration::from_millis(due.saturating_sub(clock::now())));
                Some(due.map_or(TICK, |due| due.min(TICK)))
            }
        };
        let mut answer = self.line.answer();
        let mut sleep = patience.map(|time| Box::pin(monoio::time::sleep(time)));
        let answered = poll_fn(|cx| {
            if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
                return Poll::Ready(Some(answer));
            }
            let slept = sleep.as_mut().is_some_and(|sleep| sleep.as_mut().poll(cx).is_ready());
            if slept || self.new_batches.poll(cx).is_ready() { Poll::Ready(None) } else { Poll::Pending }
        })
        .await;
        drop(answer);
        if let Some(answer) = answered {
            self.take(queue, answer);
        }
    }

    /// Hands an answer of the engine to the queue.
    fn take(&self, queue: &mut Queue, Answer { ticket, result, .. }: Answer) {
        let now = clock::now();
        match result {
            Ok(finding) => {
                let retry = finding.retry_after.map(|after| (after, convert::wait_cause(finding.rule)));
                queue.found(ticket, convert::verdict(&finding, now), retry, now);
            }
            Err(Outage::Unavailable) => queue.failed(ticket, now),
            Err(Outage::SiteFull) => queue.on_site_full(ticket, now),
            Err(Outage::OverBudget { after, refused_us }) => {
                count(&self.tally.over_budget);
                if let Some((batch, rule)) = queue.batch_of(ticket).zip(refused_us) {
                    self.new_batches.note_refusal(batch, rule);
                }
                queue.over_budget(ticket, after, now);
            }
            // The engine stops, and the feeder stops with it. The next start asks again.
            Err(Outage::Stopping) => {}
        }
    }

    /// Waits until the server stops.
    async fn rest(&self) -> io::Result<()> {
        while !self.new_batches.is_closed() {
            self.new_batches.take();
            poll_fn(|cx| self.new_batches.poll(cx)).await;
        }
        Ok(())
    }
}

/// Whether the store may accept the same write later, without a restart. A store with nodes goes on after an unknown result.
fn may_pass(error: &StoreError, has_nodes: bool) -> bool {
    match error {
        StoreError::NotDone(_) | StoreError::Busy | StoreError::OverShare(_) | StoreError::Away(_) => true,
        StoreError::Unknown(_) => has_nodes,
        StoreError::Outdated
        | StoreError::Closed
        | StoreError::Failed(_)
        | StoreError::OverQuota(_)
        | StoreError::OldFormat { .. } => false,
    }
}

/// The number of an account for the engine, from the random bits of its id.
fn owner(account: AccountId) -> u64 {
    let [.., a, b, c, d, e, f, g, h] = account.to_bytes();
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// The verdict of a row, if it has one.
fn verdict(answer: &RowAnswer) -> Option<Reason> {
    match &answer.outcome {
        RowOutcome::Verified(verdict) | RowOutcome::Reused(verdict) | RowOutcome::Repeated(verdict) => {
            Some(verdict.reason)
        }
        RowOutcome::Unanswered(_) | RowOutcome::Waits(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_repeated_while_the_store_may_accept_it() {
        let why = || "x".to_owned();
        let table = [
            (StoreError::Busy, [true, true]),
            (StoreError::NotDone(why()), [true, true]),
            (StoreError::Away(why()), [true, true]),
            (StoreError::Unknown(why()), [false, true]),
            (StoreError::Failed(why()), [false, false]),
            (StoreError::Closed, [false, false]),
        ];
        for (error, expected) in table {
            assert_eq!([false, true].map(|has_nodes| may_pass(&error, has_nodes)), expected, "{error:?}");
        }
    }
}
