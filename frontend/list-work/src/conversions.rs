//! Converts spreadsheets, on threads of their own: a conversion cannot be done in slices, and takes seconds.
//!
//! The threads that serve all accounts ask for a sheet, and look again later. Accounts take turns, and have one conversion at a time.
//! One thread converts small files only, so that those of others never wait for a large one. The work of a conversion is bounded by
//! the size of the upload.

use crate::contents::{Parts, SourceError, limits};
use crate::temp::{TempFiles, WorkFiles};
use checks::panics;
use engine::proto::sharing::{Bounds, FairQueue, ShareUse};
use lists::{ConvertedSheet, ReadOptions};
use spill::TemporaryFile;
use std::collections::{HashMap, HashSet};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use store::{AccountId, List, ListId};
use store_rules::Store;

/// Threads for files of any size, each with up to 64 MiB of texts in memory, and one for small files.
const THREADS: usize = 2;
/// Most work of a small file: less than a second.
const SMALL_WORK: u64 = 64 << 20;
/// Conversions that wait. An account waits for as many as it has lists in progress and downloads at most.
const WAITING: Bounds = Bounds { share: 16, all: 64 };
/// How long a failure is kept for the thread that asked, which may be busy with other lists.
const TOLD_FOR: Duration = Duration::from_secs(60);
/// Pause between two looks for sheets that are not used any longer.
const REST: Duration = Duration::from_secs(60);
/// Niceness of the threads: lower priority than the threads that answer requests.
const NICE: i32 = 10;

/// Handle of the threads. They end when this is dropped.
pub(crate) struct Conversions(Arc<Shared>);

struct Shared {
    store: Arc<Store>,
    files: Arc<TempFiles>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    waiting: FairQueue<AccountId, List>,
    /// The accounts with a conversion in progress.
    converting: HashSet<AccountId>,
    /// The lists that wait or are converted (`None`), and those that failed.
    asked: HashMap<ListId, Option<(SourceError, Instant)>>,
    has_ended: bool,
}

impl Conversions {
    /// Starts the threads.
    ///
    /// # Errors
    /// A thread could not be started.
    pub fn start(store: Arc<Store>, files: Arc<TempFiles>) -> io::Result<Conversions> {
        let conversions = Conversions::without_threads(store, files);
        for number in 0..=THREADS {
            let shared = Arc::clone(&conversions.0);
            let work_max = if number < THREADS { u64::MAX } else { SMALL_WORK };
            let work = move || {
                // If this fails, the thread keeps the priority of the others.
                let _ = rustix::process::setpriority_process(None, NICE);
                shared.work(work_max);
            };
            thread::Builder::new().name(format!("sheets-{number}")).spawn(work)?;
        }
        Ok(conversions)
    }

    fn without_threads(store: Arc<Store>, files: Arc<TempFiles>) -> Conversions {
        let state = State {
            waiting: FairQueue::new("spreadsheet_conversions", WAITING),
            converting: HashSet::new(),
            asked: HashMap::new(),
            has_ended: false,
        };
        Conversions(Arc::new(Shared { store, files, state: Mutex::new(state), changed: Condvar::new() }))
    }

    /// The figures for metrics.
    pub fn figures(&self) -> Arc<ShareUse> {
        self.0.lock().waiting.figures()
    }

    /// The sheet of a list that is a spreadsheet. If it is not there yet, it is asked for: look again later.
    pub fn look(&self, list: &List) -> Option<Result<ConvertedSheet, SourceError>> {
        let shared = &*self.0;
        let mut state = shared.lock();
        if let Some(sheet) = shared.files.kept(list.id) {
            return Some(Ok(sheet));
        }
        let now = Instant::now();
        state.asked.retain(|_, failed| failed.as_ref().is_none_or(|(_, until)| now < *until));
        match state.asked.remove(&list.id) {
            Some(Some((error, _))) => return Some(Err(error)),
            Some(None) => {
                state.asked.insert(list.id, None);
                return None;
            }
            None => {}
        }
        match state.waiting.push(list.account, list.clone()) {
            Ok(gave_way) => {
                if let Some(other) = gave_way {
                    state.asked.remove(&other.id);
                }
                state.asked.insert(list.id, None);
                drop(state);
                shared.changed.notify_all();
                None
            }
            // It has no place in the queue yet, and asks for one again when it looks.
            Err(_) => None,
        }
    }

    /// Whether a list was asked for, and waits or is converted.
    pub fn is_asked(&self, list: ListId) -> bool {
        self.0.lock().asked.get(&list).is_some_and(Option::is_none)
    }
}

impl Drop for Conversions {
    fn drop(&mut self) {
        self.0.lock().has_ended = true;
        self.0.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, work_max: u64) {
        let mut state = self.lock();
        while !state.has_ended {
            let Some(list) = Shared::next(&mut state, work_max) else {
                let woken = self.changed.wait_timeout(state, REST);
                state = woken.unwrap_or_else(PoisonError::into_inner).0;
                self.files.drop_old(Instant::now());
                continue;
            };
            drop(state);
            let converted = self.convert(&list);
            state = self.lock();
            state.converting.remove(&list.account);
            match converted {
                Ok(sheet) => {
                    self.files.keep(list.account, list.id, sheet);
                    state.asked.remove(&list.id);
                }
                Err(error) => {
                    state.asked.insert(list.id, Some((error, Instant::now() + TOLD_FOR)));
                }
            }
            self.changed.notify_all();
        }
    }

    /// Takes the next list that needs at most this work.
    fn next(state: &mut State, work_max: u64) -> Option<List> {
        let State { waiting, converting, .. } = state;
        let may = |account: &AccountId, list: &List| {
            !converting.contains(account) && limits(list).workbook_work <= work_max
        };
        let (account, list) = waiting.pop_if(may)?;
        converting.insert(account);
        Some(list)
    }

    fn convert(&self, list: &List) -> Result<ConvertedSheet, SourceError> {
        let files = self.files.of(list.account);
        let (parts, failure) = Parts::new(Arc::clone(&self.store), list);
        let options = ReadOptions { limits: Some(limits(list)), ..ReadOptions::default() };
        let create = || create(&files);
        let convert = || ConvertedSheet::convert(Box::new(parts), "The list", &options, &create);
        match catch_unwind(AssertUnwindSafe(convert)) {
            Ok(converted) => converted.map_err(|error| match files.refusal() {
                Some(refusal) => refusal.into(),
                None => SourceError::of(error, &failure),
            }),
            Err(payload) => {
                panics::forget(payload);
                Err(SourceError::Panic)
            }
        }
    }
}

fn create(files: &WorkFiles) -> io::Result<Box<dyn TemporaryFile>> {
    Ok(Box::new(files.create_sheet()?))
}

#[cfg(test)]
mod tests;
