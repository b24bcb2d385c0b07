//! The thread that reads lists and submits their batches.
//!
//! The thread asks the store for the lists in progress, so it continues after a restart. The ids of a list's batches are
//! derived from the id of the list, so each batch is submitted once. A batch has different addresses only: duplicates get the
//! answer of the first row with their address. A list has few open batches at a time. So the feeder of batches keeps little of the
//! list in memory, and other accounts get their turn.
//!
//! Whatever fails on this machine is tried again later, and the list says so. A list ends for good only if its content cannot be
//! read, or if the code panics again and again. Then its open batches are cancelled, and what was not answered is refunded.

mod reading;
mod troubles;
mod window;

use crate::contents::{Contents, ListSource, NO_ADDRESS, SourceError, TOO_LARGE};
use crate::distinct::{Counted, ROWS_MAX};
use crate::index::Index;
use crate::temp::TempFiles;
use api::Reason;
use checks::batch::NewBatches;
use checks::{panics, test_mode};
use engine::proto::address::Address;
use engine::proto::sharing::{Bounds, ShareUse, Turns};
use lists::{Row, Step};
use reading::{ReadError, Reading, Slice};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};
use store::clock;
use store::{
    AccountId, AddressHash, BatchError, BatchMode, BatchOfList, FoundAddresses, HoldError, KeyMode, List,
    ListId, ListState, NewBatch, NewRow, OpenBatch, StoreError, count_one,
};
use store_rules::Store;
use troubles::Troubles;
use window::Window;
pub(crate) use window::{BATCH_ADDRESSES, batches};

/// Work for a list before the next list gets its turn: some milliseconds.
const SLICE_WORK: u64 = 1024 * 1024;
/// Most lists that are counted at once, of all accounts and of one account, and most lists whose rows go into batches at once. Each
/// can use a window of some MiB, and for the search for duplicates about 10 MiB more and a temporary file of 240 MiB.
const COUNTED_AT_ONCE: usize = 4;
const COUNTED_OF_ACCOUNT: usize = 2;
const SUBMITTED_AT_ONCE: usize = 8;
/// While other lists wait, a list loses its place after this many batches, or after this time without a batch. To continue,
/// the list is read again from its beginning.
const BATCHES_IN_A_TURN: u32 = 100;
const IDLE_MAX: Duration = Duration::from_secs(5);
/// Pause between two rounds while lists are in progress.
const LOOK: Duration = Duration::from_millis(250);
/// Pause between two rounds without lists, unless the thread is woken.
const REST: Duration = Duration::from_secs(5);
/// What a list says while it waits for this machine, for the account's other lists, or after a panic.
const MACHINE_WAIT: &str =
    "The service lacks disk space or another resource now. It tries the list again by itself.";
const SHARE_WAIT: &str = "Other lists and downloads of the account use its share of temporary space. The list is tried again by itself.";
const PANIC_WAIT: &str =
    "The service had an internal error with the list. It tries the list again by itself.";
/// What a list says that was given up after panics.
const GIVEN_UP: &str =
    "The list cannot be checked: the service has an internal error. The operator has the details.";
/// For a list that was read by a release with another rule ([`lists::RULE`]).
pub(crate) const OTHER_RULE: &str =
    "The list was uploaded before an update that reads lists in another way. Upload it again.";

/// Handle of the thread. The thread ends when this is dropped.
pub struct Lists(SyncSender<()>);

impl Lists {
    /// Starts the thread, and adds the figures of its places.
    ///
    /// # Errors
    /// The thread could not be started.
    pub(crate) fn start(
        contents: Contents,
        new_batches: Arc<NewBatches>,
        files: Arc<TempFiles>,
        shares: &mut Vec<Arc<ShareUse>>,
    ) -> io::Result<Lists> {
        if !contents.store.has_nodes() {
            // The uploads of these lists ended with the last process.
            contents.store.delete_unfinished_lists(None).wait().map_err(io::Error::other)?;
        }
        let (wake, woken) = sync_channel(1);
        let figures = Worker::figures();
        shares.extend(figures.clone());
        let work = move || Worker::new(contents, new_batches, files, figures).work(&woken);
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
    store: Arc<Store>,
    contents: Contents,
    new_batches: Arc<NewBatches>,
    files: Arc<TempFiles>,
    /// The lists that are read.
    counted: HashMap<ListId, Reading>,
    counted_use: Arc<ShareUse>,
    /// The lists whose rows go into batches.
    open: HashMap<ListId, Open>,
    open_use: Arc<ShareUse>,
    /// The accounts in the order in which they get the next free place, and those that got one in this round.
    turns: Turns<AccountId>,
    placed: HashSet<AccountId>,
    windows: HashMap<ListId, Window>,
    troubles: Troubles,
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
    /// Batches since the list was opened, and the time at which it was last read.
    made: u32,
    last: Instant,
}

impl Open {
    fn new(source: ListSource) -> Open {
        let (row, index, batch, last) = (Row::default(), Index::default(), Vec::new(), Instant::now());
        Open { source, row, index, addresses: 0, batch, made: 0, last }
    }

    /// Whether this is at another place of the list than its next batch: another node has worked on the list, or has put an earlier
    /// state of it back.
    fn is_stale(&self, list: &List) -> bool {
        let begun = self.batch.len() as u64;
        let at = self.addresses - begun;
        at > list.submitted || begun > 0 && at < list.submitted
    }

    /// Reads the next slice. Skips duplicates and the addresses already submitted, and returns the next batch when it is complete.
    fn batch(&mut self, store: &Arc<Store>, list: &List) -> Result<Option<Rows>, SourceError> {
        let until = self.source.worked() + SLICE_WORK;
        while (self.batch.len() as u64) < BATCH_ADDRESSES {
            if self.source.worked() >= until {
                // A list that is continued far from its beginning is read for long before its next batch.
                self.last = Instant::now();
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

/// The result of a look at the oldest open batch.
enum Taken {
    /// Its answers were taken, and the next one may be complete.
    Next,
    /// None is complete.
    All,
    /// The list is another one in the store by now.
    Changed,
}

impl Worker {
    /// The figures of the places of `counted` and `open`.
    fn figures() -> [Arc<ShareUse>; 2] {
        let figures = |name, share: usize, all: usize| {
            Arc::new(ShareUse::new(name, Bounds { share: share as u64, all: all as u64 }))
        };
        [
            figures("lists_being_read", COUNTED_OF_ACCOUNT, COUNTED_AT_ONCE),
            figures("lists_being_checked", SUBMITTED_AT_ONCE, SUBMITTED_AT_ONCE),
        ]
    }

    fn new(
        contents: Contents,
        new_batches: Arc<NewBatches>,
        files: Arc<TempFiles>,
        [counted_use, open_use]: [Arc<ShareUse>; 2],
    ) -> Worker {
        Worker {
            store: Arc::clone(&contents.store),
            contents,
            new_batches,
            files,
            counted: HashMap::new(),
            counted_use,
            open: HashMap::new(),
            open_use,
            turns: Turns::default(),
            placed: HashSet::new(),
            windows: HashMap::new(),
            troubles: Troubles::default(),
            unpaid: HashSet::new(),
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
        turn: impl Fn(&mut Worker, List) -> Result<(), SourceError>,
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
        let at_work: HashSet<ListId> = lists.iter().map(|list| list.id).collect();
        self.counted.retain(|id, _| at_work.contains(id));
        self.open.retain(|id, _| at_work.contains(id));
        self.windows.retain(|id, _| at_work.contains(id));
        self.unpaid.retain(|id| at_work.contains(id));
        self.troubles.retain(|id| at_work.contains(&id));
        let (order, lists) = self.in_turns(lists);
        for list in &lists {
            if self.troubles.rests(list.id, Instant::now()) {
                continue;
            }
            // The state that a panic leaves of this list is dropped below.
            match catch_unwind(AssertUnwindSafe(|| turn(self, list.clone()))) {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => self.failed(list, error),
                Err(payload) => {
                    panics::forget(payload);
                    self.failed(list, SourceError::Panic);
                }
            }
            self.counted.remove(&list.id);
            self.open.remove(&list.id);
        }
        if self.waits {
            self.make_room();
        }
        // Who got a place is last the next time.
        let (placed, others): (Vec<_>, Vec<_>) =
            order.into_iter().partition(|account| self.placed.contains(account));
        others.into_iter().chain(placed).for_each(|account| self.turns.add(account));
        self.placed.clear();
        self.counted_use.set_used(self.counted.len() as u64);
        self.open_use.set_used(self.open.len() as u64);
        Ok(!at_work.is_empty())
    }

    /// The accounts in their order, and the lists in turns over them: the first of each account, then the second, and so on.
    fn in_turns(&mut self, lists: Vec<List>) -> (Vec<AccountId>, Vec<List>) {
        let mut of_accounts: HashMap<AccountId, VecDeque<List>> = HashMap::new();
        let count = lists.len();
        for list in lists {
            self.turns.add(list.account);
            of_accounts.entry(list.account).or_default().push_back(list);
        }
        let order: Vec<AccountId> = std::iter::from_fn(|| self.turns.take())
            .filter(|account| of_accounts.contains_key(account))
            .collect();
        let mut lists = Vec::with_capacity(count);
        while lists.len() < count {
            let next = |account| of_accounts.get_mut(account).and_then(VecDeque::pop_front);
            lists.extend(order.iter().filter_map(next));
        }
        (order, lists)
    }

    /// Notes that the turn of a list has failed. It gets another one after a pause, or is given up.
    fn failed(&mut self, list: &List, error: SourceError) {
        let now = Instant::now();
        let noted = match error {
            SourceError::Store(error) => {
                tracing::warn!("a list could not continue: {error}");
                self.troubles.refused(list.id, now);
                Ok(())
            }
            SourceError::Machine(why) => {
                tracing::warn!("a list could not continue: {why}");
                self.troubles.failed(list.id, now);
                self.note(list, MACHINE_WAIT)
            }
            SourceError::Share => {
                self.troubles.failed(list.id, now);
                self.note(list, SHARE_WAIT)
            }
            SourceError::Panic if !self.troubles.panicked(list.id, now) => self.note(list, PANIC_WAIT),
            SourceError::Panic => self.give_up(list, GIVEN_UP.into()),
            SourceError::TooLarge => self.give_up(list, TOO_LARGE.into()),
            SourceError::Unfit(why) => self.give_up(list, why),
        };
        if let Err(error) = noted {
            self.troubles.failed(list.id, now);
            tracing::warn!("the failure of a list could not be noted: {error}");
        }
    }

    /// Writes on a list what it waits for.
    fn note(&self, list: &List, why: &str) -> Result<(), StoreError> {
        let Some(mut list) = self.store.list(list.account, list.id, clock::now()).wait()? else {
            return Ok(());
        };
        let state = list.state;
        if list.why == why || !matches!(state, ListState::Reading | ListState::Running) {
            return Ok(());
        }
        list.why = why.into();
        self.store.put_list(&list, state, None, clock::now()).wait().map(drop)
    }

    /// Ends a list for good.
    fn give_up(&self, list: &List, why: String) -> Result<(), StoreError> {
        let ended = self.store.give_up_list(list.account, list.id, why, clock::now()).wait()?;
        self.new_batches.cancel(ended.map(|ended| ended.batches).unwrap_or_default());
        Ok(())
    }

    /// Closes the list that has used the most of its turn.
    fn make_room(&mut self) {
        let is_over = |open: &Open| open.made >= BATCHES_IN_A_TURN || open.last.elapsed() >= IDLE_MAX;
        let over = self.open.iter().filter(|(_, open)| is_over(open)).max_by_key(|(_, open)| open.made);
        if let Some(id) = over.map(|(id, _)| *id) {
            self.open.remove(&id);
        }
    }

    fn turn(&mut self, list: List) -> Result<(), SourceError> {
        match list.state {
            ListState::Reading => self.read(list),
            _ => self.go_on(list),
        }
    }

    /// Counts the rows and addresses of a list.
    fn read(&mut self, mut list: List) -> Result<(), SourceError> {
        let (rows, counted) = match self.count(&list) {
            Ok(Slice::More) => {
                self.more = true;
                return Ok(());
            }
            Ok(Slice::Waits) => return Ok(()),
            Ok(Slice::Done(rows, counted)) => (rows, counted),
            Err(ReadError::Source(error)) => return Err(error),
            Err(ReadError::Gone) => {
                self.counted.remove(&list.id);
                return Ok(());
            }
        };
        let Counted { addresses, distinct, known } = counted;
        let (state, rule, why) = (ListState::Ready, lists::RULE, String::new());
        let read_at = clock::now();
        let found = self.counted.remove(&list.id).map(|reading| reading.found());
        list.found = found.map(|found| FoundAddresses { read_at, ..found });
        list = List { rows, addresses, distinct, known, state, rule, why, ..list };
        if addresses == 0 {
            list.state = ListState::Unfit;
            list.why = NO_ADDRESS.into();
        }
        self.store.put_list(&list, ListState::Reading, None, clock::now()).wait()?;
        Ok(())
    }

    /// Takes a slice of the reading, if there is a place for the list.
    fn count(&mut self, list: &List) -> Result<Slice, ReadError> {
        let of_account = || self.counted.values().filter(|reading| reading.account == list.account).count();
        let room = self.counted.len() < COUNTED_AT_ONCE && of_account() < COUNTED_OF_ACCOUNT;
        match self.counted.entry(list.id) {
            Entry::Occupied(open) => open.into_mut().step(&self.contents, list),
            Entry::Vacant(place) if room => {
                self.placed.insert(list.account);
                let reading = Reading::new(list.account, self.files.of(list.account));
                place.insert(reading).step(&self.contents, list)
            }
            Entry::Vacant(_) => Ok(Slice::Waits),
        }
    }

    /// Takes the answers of complete batches, and submits new batches.
    fn go_on(&mut self, mut list: List) -> Result<(), SourceError> {
        loop {
            match self.take_answers(&mut list)? {
                Taken::Next => {}
                Taken::All => break,
                // Another node works on the list, or its owner has cancelled it: the copy here is out of date.
                Taken::Changed => return Ok(()),
            }
        }
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
            let now = clock::now();
            (list.state, list.why, list.ended_at) = (ListState::Completed, String::new(), now);
            self.store.put_list(&list, ListState::Running, None, now).wait()?;
        }
        Ok(())
    }

    /// Whether another batch of a list can be submitted.
    fn has_room(&mut self, list: &List) -> Result<bool, StoreError> {
        let window = self.windows.entry(list.id).or_default();
        window.follow(list);
        if !window.has_room(list) {
            window.look(&self.store, list)?;
        }
        Ok(window.has_room(list))
    }

    /// Takes the answers of the oldest open batch, if it is complete.
    fn take_answers(&self, list: &mut List) -> Result<Taken, StoreError> {
        let number = list.done;
        if number >= batches(list.submitted) {
            return Ok(Taken::All);
        }
        let batch = self.store.batch_of_list(list, number);
        let view = self.store.batch(list.account, batch, clock::now()).wait()?;
        let answers: Vec<Reason> = match view {
            Some(view) => match view.results {
                Some(results) => {
                    list.charged += view.charged;
                    view.causes.into_iter().flatten().for_each(|cause| count_one(&mut list.causes, cause));
                    results.into_iter().map(|(_, reason)| reason).collect()
                }
                None => return Ok(Taken::All),
            },
            // The batch has expired, because its list was stopped for too long.
            None => {
                let first = u64::from(number) * BATCH_ADDRESSES;
                let rows = (list.submitted - first).min(BATCH_ADDRESSES);
                vec![Reason::Unverifiable; usize::try_from(rows).unwrap_or_default()]
            }
        };
        answers.iter().for_each(|&reason| count_one(&mut list.counts, reason));
        list.done += 1;
        let put = self.store.put_list(list, ListState::Running, Some(&answers), clock::now()).wait()?;
        Ok(if put { Taken::Next } else { Taken::Changed })
    }

    /// Submits the next batch. Returns whether the list can continue.
    fn submit(&mut self, list: &mut List) -> Result<bool, SourceError> {
        if self.open.len() >= SUBMITTED_AT_ONCE && !self.open.contains_key(&list.id) {
            self.waits = true;
            return Ok(false);
        }
        let Some(rows) = self.next_rows(list)? else { return Ok(false) };
        let (now, account, total) = (clock::now(), list.account, rows.len());
        let id = self.store.batch_of_list(list, batches(list.submitted));
        let mode = match list.mode {
            KeyMode::Live => BatchMode::Live,
            KeyMode::Test => BatchMode::Test(rows.iter().map(|(email, _)| test_reason(email)).collect()),
        };
        let rows = rows.into_iter().map(|(email, address)| NewRow { email, address }).collect();
        let new = NewBatch { id, account, name: None, rows, idempotency: None, mode };
        let submitted = list.submitted + total as u64;
        let with_it = List { submitted, why: String::new(), ..list.clone() };
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
                let remedy = match error {
                    HoldError::Inactive { .. } => "Ask the operator of this service to make it active again",
                    _ => "Get more credits",
                };
                // A list is paused when its batches are complete, so it then has all their answers and their charge. The owner can
                // act before that.
                if has_open_batches(list) {
                    self.unpaid.insert(list.id);
                    let why = format!(
                        "The check stops when the addresses under way have their results: {error}. {remedy}: if that is done before, \
                         the list goes on by itself."
                    );
                    self.note(list, &why)?;
                    return Ok(false);
                }
                list.state = ListState::Paused;
                list.why = format!("The check stopped: {error}. {remedy}, then start the list again.");
                self.store.put_list(list, ListState::Running, None, clock::now()).wait()?;
                return Ok(false);
            }
            Err(BatchError::Store(error)) => return Err(error.into()),
            // The account was deleted, and its lists with it.
            Err(BatchError::Hold(HoldError::UnknownAccount)) => {
                self.open.remove(&list.id);
                return Ok(false);
            }
            Err(other) => return Err(StoreError::Failed(format!("a batch of a list: {other}")).into()),
        }
        *list = with_it;
        self.troubles.went_on(list.id);
        if list.submitted >= list.to_check() {
            self.open.remove(&list.id);
        }
        Ok(true)
    }

    /// The addresses of the next batch; `None` until the batch is complete, or until a spreadsheet is converted.
    fn next_rows(&mut self, list: &List) -> Result<Option<Rows>, SourceError> {
        if !has_our_rule(list) {
            return Err(SourceError::Unfit(OTHER_RULE.into()));
        }
        if self.open.get(&list.id).is_some_and(|open| open.is_stale(list)) {
            self.open.remove(&list.id);
        }
        let open = match self.open.entry(list.id) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(place) => {
                let Some(source) = self.contents.open(list)? else { return Ok(None) };
                self.placed.insert(list.account);
                place.insert(Open::new(source))
            }
        };
        let rows = open.batch(&self.store, list)?;
        self.more |= rows.is_none();
        Ok(rows)
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

#[cfg(test)]
pub(crate) mod tests;
