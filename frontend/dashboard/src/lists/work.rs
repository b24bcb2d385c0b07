//! The thread that reads lists and submits their batches.
//!
//! The thread asks the store for the lists in progress, so it continues after a restart. The ids of a list's batches are
//! derived from the id of the list, so each batch is submitted once. A list has few open batches at a time. So the feeder of
//! batches keeps little of the list in memory, and other accounts get their turn.

use super::BATCH_ADDRESSES;
use api::Reason;
use checks::batch::NewBatches;
use checks::panics;
use lists::{Row, Source, Step};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};
use store::clock;
use store::{
    AddressHash, BatchError, BatchMode, BatchOfList, HoldError, List, ListId, ListState, NewBatch, NewRow,
    OpenBatch, Store, StoreError,
};

/// Most open batches of a list at a time.
const OPEN_MAX: u32 = 20;
/// Most rows of a list. A longer list would take too long.
pub const ROWS_MAX: u64 = 5_000_000;
/// Bytes of a list that are read before the next list gets its turn.
const SLICE_BYTES: u64 = 2 * 1024 * 1024;
/// Most lists that are counted at once, and most lists whose rows go into batches at once. Each can use a window of some
/// MiB.
const COUNTED_AT_ONCE: usize = 4;
const SUBMITTED_AT_ONCE: usize = 8;
/// While other lists wait, a list loses its place after this many batches, or after this time without a batch. To continue,
/// the list is read again from its beginning.
const BATCHES_IN_A_TURN: u32 = 100;
const IDLE_MAX: Duration = Duration::from_secs(5);
/// Pause between two rounds while lists are in progress.
const LOOK: Duration = Duration::from_millis(250);
/// Pause between two rounds without lists, unless the thread is woken.
const REST: Duration = Duration::from_secs(5);

/// Handle of the thread. The thread ends when this is dropped.
pub struct Lists(SyncSender<()>);

impl Lists {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn start(store: Arc<dyn Store>, new_batches: Arc<NewBatches>) -> io::Result<Lists> {
        if !store.has_nodes() {
            // The uploads of these lists ended with the last process.
            store.delete_unfinished_lists(None).wait().map_err(io::Error::other)?;
        }
        let (wake, woken) = sync_channel(1);
        let work = move || Worker::new(store, new_batches).work(&woken);
        thread::Builder::new().name("lists".into()).spawn(work)?;
        Ok(Lists(wake))
    }

    /// Wakes the thread, because a list waits.
    pub fn wake(&self) {
        // Full: the thread is about to start a round.
        if let Err(TrySendError::Disconnected(())) = self.0.try_send(()) {
            tracing::error!("the thread of lists has ended; a restart continues with the lists");
        }
    }
}

struct Worker {
    store: Arc<dyn Store>,
    new_batches: Arc<NewBatches>,
    /// The lists whose rows are counted.
    counted: HashMap<ListId, Open>,
    /// The lists whose rows go into batches.
    open: HashMap<ListId, Open>,
    /// The lists whose turn failed, and the time of their next turn.
    resting: HashMap<ListId, Instant>,
    /// Whether a list can be read further at once.
    more: bool,
    /// Whether a list waits for a place in `open`.
    waits: bool,
}

/// The addresses of a list's next batch, with their hashes.
type Rows = Vec<(String, AddressHash)>;

/// A list that is read slice by slice.
struct Open {
    source: Source,
    row: Row,
    rows: u64,
    /// Addresses that were read. For a list that is checked: addresses that are in batches.
    addresses: u64,
    /// The next batch, as far as it is read.
    batch: Rows,
    /// Batches since the list was opened, and the time of the last one.
    made: u32,
    last: Instant,
}

impl Open {
    fn new(store: &Arc<dyn Store>, list: &List) -> Result<Open, String> {
        let source = super::source(Arc::clone(store), list)?;
        let (row, batch, last) = (Row::default(), Vec::new(), Instant::now());
        Ok(Open { source, row, rows: 0, addresses: 0, batch, made: 0, last })
    }

    /// Reads the next slice. Returns the numbers of rows and addresses at the end of the list.
    fn count(&mut self) -> Result<Option<(u64, u64)>, String> {
        let until = self.source.passed() + SLICE_BYTES;
        while self.source.passed() < until {
            match self.source.step(&mut self.row).map_err(|error| error.to_string())? {
                Step::Row => {
                    self.rows += 1;
                    self.addresses += u64::from(self.row.address.is_some());
                }
                Step::End => return Ok(Some((self.rows, self.addresses))),
                Step::Later => {}
            }
            if self.rows > ROWS_MAX {
                return Err(format!("The list has more than {ROWS_MAX} rows. Split the list."));
            }
        }
        Ok(None)
    }

    /// Reads the next slice. Skips the addresses already submitted, and returns the next batch when it is complete.
    fn batch(&mut self, store: &Arc<dyn Store>, submitted: u64) -> Result<Option<Rows>, String> {
        let until = self.source.passed() + SLICE_BYTES;
        while (self.batch.len() as u64) < BATCH_ADDRESSES {
            if self.source.passed() >= until {
                return Ok(None);
            }
            match self.source.step(&mut self.row).map_err(|error| error.to_string())? {
                Step::Row => {}
                Step::End => break,
                Step::Later => continue,
            }
            match &self.row.address {
                Some(_) if self.addresses < submitted => self.addresses += 1,
                Some(address) => {
                    let hash = store.hash_address(&address.canonical());
                    self.batch.push((address.as_str().to_owned(), hash));
                }
                None => {}
            }
        }
        if self.batch.is_empty() {
            return Err("The list ended too early.".into());
        }
        self.addresses += self.batch.len() as u64;
        (self.made, self.last) = (self.made + 1, Instant::now());
        Ok(Some(std::mem::take(&mut self.batch)))
    }
}

impl Worker {
    fn new(store: Arc<dyn Store>, new_batches: Arc<NewBatches>) -> Worker {
        let (counted, open, resting) = (HashMap::new(), HashMap::new(), HashMap::new());
        Worker { store, new_batches, counted, open, resting, more: false, waits: false }
    }

    fn work(mut self, woken: &Receiver<()>) {
        let mut pause = Duration::ZERO;
        loop {
            match woken.recv_timeout(pause) {
                Ok(()) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.new_batches.is_closed() {
                return;
            }
            pause = match self.round(Worker::turn) {
                Ok(true) if self.more => Duration::ZERO,
                Ok(true) => LOOK,
                Ok(false) => REST,
                Err(error) => {
                    tracing::warn!("lists could not continue: {error}");
                    REST
                }
            };
        }
    }

    /// Gives each list a turn. Returns whether there are lists.
    fn round(
        &mut self,
        turn: impl Fn(&mut Worker, List) -> Result<(), StoreError>,
    ) -> Result<bool, StoreError> {
        let claimed = self.store.claim_lists().wait()?;
        if let Some(claimed) = &claimed
            && !claimed.new.is_empty()
        {
            // The uploads of these lists ended with their process.
            self.store.delete_unfinished_lists(Some(claimed.new.clone())).wait()?;
        }
        let mut lists = self.store.lists_at_work(clock::now()).wait()?;
        if let Some(claimed) = &claimed {
            lists.retain(|list| claimed.own.contains(&list.id));
        }
        (self.more, self.waits) = (false, false);
        for open in [&mut self.counted, &mut self.open] {
            open.retain(|id, _| lists.iter().any(|list| list.id == *id));
        }
        self.resting.retain(|id, until| Instant::now() < *until && lists.iter().any(|list| list.id == *id));
        for list in &lists {
            if self.resting.contains_key(&list.id) {
                continue;
            }
            // The state that a panic leaves of this list is dropped below.
            match catch_unwind(AssertUnwindSafe(|| turn(self, list.clone()))) {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => tracing::warn!("a list could not continue: {error}"),
                Err(payload) => {
                    panics::forget(payload);
                    self.give_up(list);
                }
            }
            self.counted.remove(&list.id);
            self.open.remove(&list.id);
            self.resting.insert(list.id, Instant::now() + REST);
        }
        if self.waits {
            self.make_room();
        }
        Ok(!lists.is_empty())
    }

    /// Closes the list that has used the most of its turn.
    fn make_room(&mut self) {
        let is_over = |open: &Open| open.made >= BATCHES_IN_A_TURN || open.last.elapsed() >= IDLE_MAX;
        let over = self.open.iter().filter(|(_, open)| is_over(open)).max_by_key(|(_, open)| open.made);
        if let Some(id) = over.map(|(id, _)| *id) {
            self.open.remove(&id);
        }
    }

    fn turn(&mut self, list: List) -> Result<(), StoreError> {
        match list.state {
            ListState::Reading => self.read(list),
            _ => self.go_on(list),
        }
    }

    /// Marks a list as unfit. Its turn panicked, and would panic again at every turn.
    fn give_up(&self, list: &List) {
        let unfit = || {
            let Some(mut list) = self.store.list(list.account, list.id, clock::now()).wait()? else {
                return Ok(false);
            };
            let before = std::mem::replace(&mut list.state, ListState::Unfit);
            list.why =
                "The list cannot be checked: the service has an internal error. The operator has the details."
                    .into();
            self.store.put_list(&list, before, None).wait()
        };
        if let Err(error) = unfit() {
            tracing::warn!("a list could not be marked as unfit: {error}");
        }
    }

    /// Counts the rows and addresses of a list, or records the reason why it cannot be checked.
    fn read(&mut self, mut list: List) -> Result<(), StoreError> {
        match self.count(&list) {
            Ok(None) => {
                self.more = true;
                return Ok(());
            }
            Ok(Some((rows, addresses))) => {
                (list.rows, list.addresses) = (rows, addresses);
                list.state = ListState::Ready;
                if addresses == 0 {
                    list.state = ListState::Unfit;
                    list.why = "The list has no address.".into();
                }
            }
            Err(why) => {
                list.state = ListState::Unfit;
                list.why = why;
            }
        }
        self.counted.remove(&list.id);
        self.store.put_list(&list, ListState::Reading, None).wait().map(drop)
    }

    /// Counts a slice. Returns `None` if more slices remain, or if other lists use all places.
    fn count(&mut self, list: &List) -> Result<Option<(u64, u64)>, String> {
        let room = self.counted.len() < COUNTED_AT_ONCE;
        match self.counted.entry(list.id) {
            Entry::Occupied(open) => open.into_mut().count(),
            Entry::Vacant(place) if room => place.insert(Open::new(&self.store, list)?).count(),
            Entry::Vacant(_) => Ok(None),
        }
    }

    /// Takes the answers of complete batches, and submits new batches.
    fn go_on(&mut self, mut list: List) -> Result<(), StoreError> {
        while self.take_answers(&mut list)? {}
        while batches(list.submitted) - list.done < OPEN_MAX && list.submitted < list.addresses {
            if !self.submit(&mut list)? {
                return Ok(());
            }
        }
        if list.submitted >= list.addresses && list.done == batches(list.submitted) {
            list.state = ListState::Completed;
            self.store.put_list(&list, ListState::Running, None).wait()?;
        }
        Ok(())
    }

    /// Takes the answers of the oldest open batch. Returns whether that batch was complete.
    fn take_answers(&self, list: &mut List) -> Result<bool, StoreError> {
        let number = list.done;
        if number >= batches(list.submitted) {
            return Ok(false);
        }
        let batch = self.store.batch_of_list(list, number);
        let view = self.store.batch(list.account, batch, clock::now()).wait()?;
        let answers: Vec<Reason> = match view {
            Some(view) => match view.results {
                Some(results) => results.into_iter().map(|(_, reason)| reason).collect(),
                None => return Ok(false),
            },
            // The batch has expired, because its list was stopped for too long.
            None => {
                let first = u64::from(number) * BATCH_ADDRESSES;
                let rows = (list.submitted - first).min(BATCH_ADDRESSES);
                vec![Reason::Unverifiable; usize::try_from(rows).unwrap_or_default()]
            }
        };
        for reason in &answers {
            match list.counts.iter_mut().find(|(known, _)| known == reason) {
                Some((_, count)) => *count += 1,
                None => list.counts.push((*reason, 1)),
            }
        }
        list.done += 1;
        let put = self.store.put_list(list, ListState::Running, Some(&answers)).wait()?;
        Ok(put)
    }

    /// Submits the next batch. Returns whether the list can continue.
    fn submit(&mut self, list: &mut List) -> Result<bool, StoreError> {
        if self.open.len() >= SUBMITTED_AT_ONCE && !self.open.contains_key(&list.id) {
            self.waits = true;
            return Ok(false);
        }
        let rows = match self.next_rows(list) {
            Ok(Some(rows)) => rows,
            Ok(None) => {
                self.more = true;
                return Ok(false);
            }
            Err(why) => {
                self.open.remove(&list.id);
                list.state = ListState::Unfit;
                list.why = why;
                return self.store.put_list(list, ListState::Running, None).wait().map(|_| false);
            }
        };
        let (now, account, total) = (clock::now(), list.account, rows.len());
        let id = self.store.batch_of_list(list, batches(list.submitted));
        let rows = rows.into_iter().map(|(email, address)| NewRow { email, address }).collect();
        let new = NewBatch { id, account, name: None, rows, idempotency: None, mode: BatchMode::Live };
        let with_it = List { submitted: list.submitted + total as u64, ..list.clone() };
        match self.store.submit_batch_of_list(&with_it, new, now).wait() {
            Ok(BatchOfList::Made(made)) => {
                if !made.completed {
                    let total = made.submitted;
                    self.new_batches.enter(OpenBatch {
                        batch: id,
                        account,
                        created_at: now,
                        total,
                        answered: 0,
                    });
                }
            }
            // The batch was submitted before a restart. It is charged already.
            Ok(BatchOfList::MadeBefore) => {}
            Ok(BatchOfList::Gone) => {
                self.open.remove(&list.id);
                return Ok(false);
            }
            Err(BatchError::Hold(error @ (HoldError::Insufficient { .. } | HoldError::Inactive { .. }))) => {
                self.open.remove(&list.id);
                list.state = ListState::Paused;
                list.why = format!("The check stopped: {error}.");
                return self.store.put_list(list, ListState::Running, None).wait().map(|_| false);
            }
            Err(BatchError::Store(error)) => {
                self.open.remove(&list.id);
                return Err(error);
            }
            Err(other) => {
                self.open.remove(&list.id);
                return Err(StoreError::Failed(format!("a batch of a list: {other}")));
            }
        }
        *list = with_it;
        if list.submitted >= list.addresses {
            self.open.remove(&list.id);
        }
        Ok(true)
    }

    /// The addresses of the next batch; `None` until the batch is complete.
    fn next_rows(&mut self, list: &List) -> Result<Option<Rows>, String> {
        let open = match self.open.entry(list.id) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(place) => place.insert(Open::new(&self.store, list)?),
        };
        open.batch(&self.store, list.submitted)
    }
}

/// The number of batches for this number of addresses.
pub(super) fn batches(addresses: u64) -> u32 {
    u32::try_from(addresses.div_ceil(BATCH_ADDRESSES)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use store::{AccountId, ListRoom, NewAccount, PlanTable};
    use store_redb::StoreOptions;

    #[test]
    fn one_lists_failure_is_not_that_of_others() {
        let (_folder, store, account) = store_with_account();
        let made: Vec<ListId> = (1..=3).map(|n| make(&store, account, n)).collect();
        let mut worker = Worker::new(Arc::clone(&store), Arc::new(NewBatches::default()));
        let turns = RefCell::new(Vec::new());
        let turn = |_: &mut Worker, list: List| {
            turns.borrow_mut().push(list.id);
            assert_ne!(list.id, made[0], "a defect");
            if list.id == made[1] { Err(StoreError::Failed("a fault".into())) } else { Ok(()) }
        };
        assert_eq!(worker.round(turn), Ok(true));
        assert_eq!(*turns.borrow(), made);
        let state = |n: usize| store.list(account, made[n], clock::now()).wait().unwrap().unwrap().state;
        assert_eq!(
            [state(0), state(1), state(2)],
            [ListState::Unfit, ListState::Reading, ListState::Reading]
        );
        turns.borrow_mut().clear();
        assert_eq!(worker.round(turn), Ok(true));
        assert_eq!(*turns.borrow(), [made[2]], "one is marked as unfit, and one rests");
    }

    #[test]
    fn nothing_is_charged_for_a_list_that_is_gone() {
        let (_folder, store, account) = store_with_account();
        let all_held = || store.account(account, clock::now()).wait().unwrap().unwrap().balance.held;
        let held = |number: u128, is_deleted: bool| {
            let list = running(&store, account, number, 1_000);
            let mut worker = Worker::new(Arc::clone(&store), Arc::new(NewBatches::default()));
            let before = all_held();
            if is_deleted {
                assert!(store.delete_list(account, list.id).wait().unwrap());
            }
            worker.go_on(list).unwrap();
            all_held() - before
        };
        assert_eq!((held(1, false), held(2, true)), (1_000, 0));
    }

    #[test]
    fn few_lists_are_open_at_once_and_all_have_their_turn() {
        let (_folder, store, account) = store_with_account();
        for number in 0..12 {
            running(&store, account, number, 5_000);
        }
        let mut worker = Worker::new(Arc::clone(&store), Arc::new(NewBatches::default()));
        let begun = |store: &Arc<dyn Store>| {
            let lists = store.lists(account, clock::now()).wait().unwrap();
            lists.iter().filter(|list| list.submitted > 0).count()
        };
        assert_eq!(worker.round(Worker::turn), Ok(true));
        assert_eq!((worker.open.len(), begun(&store)), (SUBMITTED_AT_ONCE, SUBMITTED_AT_ONCE));
        // Their batches get no answers, so these lists are idle and other lists get their places.
        for _ in 0..2 * (12 - SUBMITTED_AT_ONCE) {
            for open in worker.open.values_mut() {
                open.last -= IDLE_MAX;
            }
            assert_eq!(worker.round(Worker::turn), Ok(true));
            assert!(worker.open.len() <= SUBMITTED_AT_ONCE);
        }
        assert_eq!(begun(&store), 12);
    }

    fn store_with_account() -> (tempfile::TempDir, Arc<dyn Store>, AccountId) {
        let (folder, now) = (tempfile::tempdir().unwrap(), clock::now());
        let options = StoreOptions::default();
        let store = store_redb::open(folder.path(), PlanTable::standard(), options, now).unwrap().0;
        let account = AccountId::new(now, 1);
        let new = NewAccount { id: account, name: "a".into(), plan: "scale".into() };
        store.create_account(new, now).wait().unwrap();
        (folder, Arc::new(store), account)
    }

    /// A list with this number of addresses, in state `Running`.
    fn running(store: &Arc<dyn Store>, account: AccountId, number: u128, addresses: u64) -> List {
        let now = clock::now();
        let content: String = (0..addresses).map(|n| format!("{n}@example.com\n")).collect();
        let mut list = List::new(ListId::new(now, number), account, now, String::new());
        store.create_list(&list, ListRoom::MOST, now).wait().unwrap();
        store.put_list_part(&list, 0, content.as_bytes()).wait().unwrap();
        (list.bytes, list.rows, list.addresses) = (content.len() as u64, addresses, addresses);
        list.state = ListState::Running;
        assert!(store.put_list(&list, ListState::Uploading, None).wait().unwrap());
        list
    }

    fn make(store: &Arc<dyn Store>, account: AccountId, n: u128) -> ListId {
        let now = clock::now();
        let mut list = List::new(ListId::new(now, n), account, now, String::new());
        store.create_list(&list, ListRoom::MOST, now).wait().unwrap();
        list.state = ListState::Reading;
        store.put_list(&list, ListState::Uploading, None).wait().unwrap();
        list.id
    }
}
