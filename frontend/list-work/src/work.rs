//! The thread that reads lists and submits their batches.
//!
//! The thread asks the store for the lists in progress, so it continues after a restart. The ids of a list's batches are
//! derived from the id of the list, so each batch is submitted once. A batch has different addresses only: duplicates get the
//! answer of the first row with their address. A list has few open batches at a time. So the feeder of batches keeps little of the
//! list in memory, and other accounts get their turn.

mod reading;
mod window;

use super::{BATCH_ADDRESSES, ListSource, SourceError};
use crate::distinct::{Counted, DistinctError, ROWS_MAX};
use crate::index::Index;
use api::Reason;
use checks::batch::NewBatches;
use checks::{panics, test_mode};
use engine::proto::address::Address;
use lists::{Row, Step};
use reading::{ReadError, Reading};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};
use store::clock;
use store::{
    AddressHash, BatchError, BatchMode, BatchOfList, FoundAddresses, HoldError, KeyMode, List, ListId,
    ListState, NewBatch, NewRow, OpenBatch, Store, StoreError,
};
use window::Window;

/// Bytes of a list that are read before the next list gets its turn.
const SLICE_BYTES: u64 = 2 * 1024 * 1024;
/// Most lists that are counted at once, and most lists whose rows go into batches at once. Each can use a window of some
/// MiB, and for the search for duplicates about 10 MiB more and a temporary file of 150 MiB.
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
/// For a list that was read by a release with another rule ([`lists::RULE`]).
pub(crate) const OTHER_RULE: &str =
    "The list was uploaded before an update that reads lists in another way. Upload it again.";

/// Handle of the thread. The thread ends when this is dropped.
pub struct Lists(SyncSender<()>);

impl Lists {
    /// Starts the thread. Its temporary files are in this folder.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn start(store: Arc<dyn Store>, new_batches: Arc<NewBatches>, folder: PathBuf) -> io::Result<Lists> {
        if !store.has_nodes() {
            // The uploads of these lists ended with the last process.
            store.delete_unfinished_lists(None).wait().map_err(io::Error::other)?;
        }
        let (wake, woken) = sync_channel(1);
        let work = move || Worker::new(store, new_batches, folder).work(&woken);
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
    /// The folder of temporary files.
    folder: PathBuf,
    /// The lists that are read.
    counted: HashMap<ListId, Reading>,
    /// The lists whose rows go into batches.
    open: HashMap<ListId, Open>,
    windows: HashMap<ListId, Window>,
    /// The lists whose turn failed, and the time of their next turn.
    resting: HashMap<ListId, Instant>,
    /// The lists that cannot pay their next batch. They are paused when their open batches are complete.
    unpaid: HashSet<ListId>,
    /// Whether a list can be read further at once.
    more: bool,
    /// Whether a list waits for a place in `open`.
    waits: bool,
}

/// The addresses of a list's next batch, with their hashes.
type Rows = Vec<(String, AddressHash)>;

/// A list that is being divided into batches, slice by slice.
struct Open {
    source: ListSource,
    row: Row,
    index: Index,
    /// Different addresses that were read.
    addresses: u64,
    /// The next batch, as far as it is read.
    batch: Rows,
    /// Batches since the list was opened, and the time of the last one.
    made: u32,
    last: Instant,
}

impl Open {
    fn new(store: &Arc<dyn Store>, list: &List) -> Result<Open, SourceError> {
        let source = super::source(Arc::clone(store), list)?;
        let (row, index, batch, last) = (Row::default(), Index::default(), Vec::new(), Instant::now());
        Ok(Open { source, row, index, addresses: 0, batch, made: 0, last })
    }

    /// Whether this is at another place of the list than its next batch: another node has worked on the list, or has put an earlier
    /// state of it back.
    fn is_stale(&self, list: &List) -> bool {
        let begun = self.batch.len() as u64;
        let at = self.addresses - begun;
        at > list.submitted || begun > 0 && at < list.submitted
    }

    /// Reads the next slice. Skips duplicates and the addresses already submitted, and returns the next batch when it is complete.
    fn batch(&mut self, store: &Arc<dyn Store>, list: &List) -> Result<Option<Rows>, SourceError> {
        let until = self.source.passed() + SLICE_BYTES;
        while (self.batch.len() as u64) < BATCH_ADDRESSES {
            if self.source.passed() >= until {
                return Ok(None);
            }
            match self.source.step(&mut self.row)? {
                Step::Row => {}
                Step::End => break,
                Step::Later => continue,
            }
            let Some(address) = &self.row.address else { continue };
            if self.index.next(store, list)? < self.addresses {
                continue;
            }
            self.addresses += 1;
            if self.addresses > list.submitted {
                let hash = store.hash_address(&address.canonical());
                self.batch.push((address.as_str().to_owned(), hash));
            }
        }
        if self.batch.is_empty() {
            return Err(SourceError::Unfit("The list ended too early.".into()));
        }
        (self.made, self.last) = (self.made + 1, Instant::now());
        Ok(Some(std::mem::take(&mut self.batch)))
    }
}

impl Worker {
    fn new(store: Arc<dyn Store>, new_batches: Arc<NewBatches>, folder: PathBuf) -> Worker {
        let (counted, open, windows, resting) =
            (HashMap::new(), HashMap::new(), HashMap::new(), HashMap::new());
        let unpaid = HashSet::new();
        Worker {
            store,
            new_batches,
            folder,
            counted,
            open,
            windows,
            resting,
            unpaid,
            more: false,
            waits: false,
        }
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
        self.counted.retain(|id, _| lists.iter().any(|list| list.id == *id));
        self.open.retain(|id, _| lists.iter().any(|list| list.id == *id));
        self.windows.retain(|id, _| lists.iter().any(|list| list.id == *id));
        self.unpaid.retain(|id| lists.iter().any(|list| list.id == *id));
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
            self.store.put_list(&list, before, None, clock::now()).wait()
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
            Ok(Some((rows, counted))) => {
                let Counted { addresses, distinct, known } = counted;
                let (state, rule) = (ListState::Ready, lists::RULE);
                let read_at = clock::now();
                let found = self.counted.get(&list.id).map(Reading::found);
                list.found = found.map(|found| FoundAddresses { read_at, ..found });
                list = List { rows, addresses, distinct, known, state, rule, ..list };
                if addresses == 0 {
                    list.state = ListState::Unfit;
                    list.why = "The list has no address.".into();
                }
            }
            Err(ReadError::Unfit(why)) => {
                list.state = ListState::Unfit;
                list.why = why;
            }
            Err(ReadError::Later(error)) => {
                self.counted.remove(&list.id);
                return match error {
                    DistinctError::Gone => Ok(()),
                    DistinctError::Store(error) => Err(error),
                    DistinctError::File(error) => {
                        Err(StoreError::NotDone(format!("a temporary file of a list: {error}")))
                    }
                };
            }
        }
        self.counted.remove(&list.id);
        self.store.put_list(&list, ListState::Reading, None, clock::now()).wait().map(drop)
    }

    /// Takes a slice of the reading. Returns `None` if more slices remain, or if other lists use all places.
    fn count(&mut self, list: &List) -> Result<Option<(u64, Counted)>, ReadError> {
        let room = self.counted.len() < COUNTED_AT_ONCE;
        match self.counted.entry(list.id) {
            Entry::Occupied(open) => open.into_mut().step(&self.store, list),
            Entry::Vacant(place) if room => {
                let reading = Reading::new(&self.store, list, &self.folder)?;
                place.insert(reading).step(&self.store, list)
            }
            Entry::Vacant(_) => Ok(None),
        }
    }

    /// Takes the answers of complete batches, and submits new batches.
    fn go_on(&mut self, mut list: List) -> Result<(), StoreError> {
        while self.take_answers(&mut list)? {}
        if self.unpaid.contains(&list.id) {
            if has_open_batches(&list) {
                return Ok(());
            }
            self.unpaid.remove(&list.id);
        }
        while list.submitted < list.to_check() && self.has_room(&list)? {
            if !self.submit(&mut list)? {
                return Ok(());
            }
        }
        if list.submitted >= list.to_check() && !has_open_batches(&list) {
            list.state = ListState::Completed;
            self.store.put_list(&list, ListState::Running, None, clock::now()).wait()?;
        }
        Ok(())
    }

    /// Whether another batch of a list can be submitted.
    fn has_room(&mut self, list: &List) -> Result<bool, StoreError> {
        let window = self.windows.entry(list.id).or_default();
        window.follow(list);
        if !window.has_room(list) {
            window.look(&*self.store, list)?;
        }
        Ok(window.has_room(list))
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
                Some(results) => {
                    list.charged += view.charged;
                    results.into_iter().map(|(_, reason)| reason).collect()
                }
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
        let put = self.store.put_list(list, ListState::Running, Some(&answers), clock::now()).wait()?;
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
            Err(SourceError::Store(error)) => {
                self.open.remove(&list.id);
                return Err(error);
            }
            Err(SourceError::Unfit(why)) => {
                self.open.remove(&list.id);
                list.state = ListState::Unfit;
                list.why = why;
                return self
                    .store
                    .put_list(list, ListState::Running, None, clock::now())
                    .wait()
                    .map(|_| false);
            }
        };
        let (now, account, total) = (clock::now(), list.account, rows.len());
        let id = self.store.batch_of_list(list, batches(list.submitted));
        let mode = match list.mode {
            KeyMode::Live => BatchMode::Live,
            KeyMode::Test => BatchMode::Test(rows.iter().map(|(email, _)| test_reason(email)).collect()),
        };
        let rows = rows.into_iter().map(|(email, address)| NewRow { email, address }).collect();
        let new = NewBatch { id, account, name: None, rows, idempotency: None, mode };
        let with_it = List { submitted: list.submitted + total as u64, ..list.clone() };
        match self.store.submit_batch_of_list(&with_it, new, now).wait() {
            Ok(BatchOfList::Made(made)) => {
                // Its answers can be taken at once.
                self.more |= made.completed;
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
                // A list is paused when its batches are complete, so it then has all their answers and their charge.
                if has_open_batches(list) {
                    self.unpaid.insert(list.id);
                    return Ok(false);
                }
                list.state = ListState::Paused;
                let remedy = match error {
                    HoldError::Inactive { .. } => "Renew the subscription",
                    _ => "Get more credits",
                };
                list.why = format!("The check stopped: {error}. {remedy}, then start the list again.");
                return self
                    .store
                    .put_list(list, ListState::Running, None, clock::now())
                    .wait()
                    .map(|_| false);
            }
            Err(BatchError::Store(error)) => {
                self.open.remove(&list.id);
                return Err(error);
            }
            // The account was deleted, and its lists with it.
            Err(BatchError::Hold(HoldError::UnknownAccount)) => {
                self.open.remove(&list.id);
                return Ok(false);
            }
            Err(other) => {
                self.open.remove(&list.id);
                return Err(StoreError::Failed(format!("a batch of a list: {other}")));
            }
        }
        *list = with_it;
        if list.submitted >= list.to_check() {
            self.open.remove(&list.id);
        }
        Ok(true)
    }

    /// The addresses of the next batch; `None` until the batch is complete.
    fn next_rows(&mut self, list: &List) -> Result<Option<Rows>, SourceError> {
        if !has_our_rule(list) {
            return Err(SourceError::Unfit(OTHER_RULE.into()));
        }
        if self.open.get(&list.id).is_some_and(|open| open.is_stale(list)) {
            self.open.remove(&list.id);
        }
        let open = match self.open.entry(list.id) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(place) => place.insert(Open::new(&self.store, list)?),
        };
        open.batch(&self.store, list)
    }
}

/// Whether the addresses of a list were found by the rule of this release.
pub(crate) fn has_our_rule(list: &List) -> bool {
    [0, lists::RULE].contains(&list.rule)
}

/// The answer of the test mode.
fn test_reason(email: &str) -> Reason {
    Address::parse(email).map_or(Reason::Unverifiable, |address| test_mode::reason(address.local()))
}

/// Whether the list still has to take answers of submitted batches.
fn has_open_batches(list: &List) -> bool {
    list.done < batches(list.submitted)
}

/// The number of batches for this number of addresses.
pub fn batches(addresses: u64) -> u32 {
    u32::try_from(addresses.div_ceil(BATCH_ADDRESSES)).unwrap_or(u32::MAX)
}

#[cfg(test)]
pub(crate) mod tests;
