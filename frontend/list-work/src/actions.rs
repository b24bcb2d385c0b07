//! What owners do with their lists: start, cancel, delete.

use crate::temp::TempFiles;
use crate::work::Lists;
use api::{Reason, UnverifiableCause, WaitCause};
use checks::batch::{Limits, NewBatches};
use lists::words;
use std::sync::Arc;
use std::time::Duration;
use store::{
    AccountId, Authority, BatchId, List, ListId, ListProgress, ListState, StoreError, SubscriptionStatus,
    UnixMs, WaitingRows, clock,
};
use store_rules::Store;

/// Starts, cancels and deletes lists.
pub struct Actions {
    store: Arc<Store>,
    new_batches: Arc<NewBatches>,
    lists: Lists,
    files: Arc<TempFiles>,
    limits: Limits,
}

/// How far the check of a list is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The number of different addresses with a verdict.
    pub checked: u64,
    /// How often each reason occurs among them.
    pub counts: Vec<(Reason, u64)>,
    /// How often each known cause occurs among those that are `unverifiable`, the most frequent first.
    pub causes: Vec<(UnverifiableCause, u64)>,
    /// The credits that they cost: charged, or still reserved.
    pub cost: u64,
    /// The credits that the ledger has charged: those of the parts that have ended.
    pub charged: u64,
    /// The credits that the ledger holds for the parts that are being checked.
    pub reserved: u64,
    /// Those of them that come back when the parts end, because their addresses were free. Then charged and reserved credits, without
    /// these, and the free addresses with a verdict add up to the addresses of all parts so far.
    pub returns: u64,
    /// What the other addresses of a running list wait for. With `checked`, the sum is the number of different addresses.
    pub waiting: Vec<WaitingAddresses>,
    /// Why the check of the list cannot go on now, in sentences; empty if it can.
    pub problem: String,
}

/// Addresses that wait for the same cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitingAddresses {
    /// What they wait for.
    pub cause: WaitCause,
    /// The number of addresses, in a list of different ones.
    pub addresses: u64,
    /// The time by which their last try begins; `None` if it is not known.
    pub until: Option<UnixMs>,
}

/// The reason why a list was not started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartError {
    /// The list is in this state, from which it cannot be started.
    State(ListState),
    /// The list costs more than is left.
    Insufficient {
        /// The estimated price of the rest of the list.
        required: u64,
        /// The credits of the account.
        available: u64,
    },
    /// The subscription is not active.
    Inactive {
        /// The status.
        status: SubscriptionStatus,
        /// The credits of the account.
        available: u64,
    },
    /// The list or its account does not exist any longer.
    Gone,
    /// The store failed.
    Store(StoreError),
}

impl From<StoreError> for StartError {
    fn from(error: StoreError) -> StartError {
        StartError::Store(error)
    }
}

impl Actions {
    pub(crate) fn new(
        store: Arc<Store>,
        new_batches: Arc<NewBatches>,
        lists: Lists,
        files: Arc<TempFiles>,
        limits: Limits,
    ) -> Actions {
        Actions { store, new_batches, lists, files, limits }
    }

    /// Wakes the thread of lists after an upload.
    pub fn wake(&self) {
        self.lists.wake();
    }

    /// Starts a list that is ready, or continues one that has stopped. A list that has been started already stays as it is.
    /// Returns the list as it is then. The session or key of `by` must hold when it happens.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start(&self, list: List, by: Authority) -> Result<List, StartError> {
        let before = list.state;
        match before {
            ListState::Ready | ListState::Paused => {}
            ListState::Running | ListState::Completed => return Ok(list),
            ListState::Uploading | ListState::Reading | ListState::Unfit | ListState::Cancelled => {
                return Err(StartError::State(before));
            }
        }
        let account = self.store.account(list.account, clock::now()).await?.ok_or(StartError::Gone)?;
        let (required, available) = (remaining_price(&list), account.balance.available());
        if required > 0 && !account.status.is_usable() {
            return Err(StartError::Inactive { status: account.status, available });
        }
        if available < required {
            return Err(StartError::Insufficient { required, available });
        }
        let list = List { state: ListState::Running, why: String::new(), ..list };
        if !self.store.start_list(&list, before, by, clock::now()).await? {
            // Another request was faster.
            let now = self.store.list(list.account, list.id, clock::now()).await?;
            return now.ok_or(StartError::Gone);
        }
        self.wake();
        Ok(list)
    }

    /// A list as it is now, and how far its check is. It reads at most a row for each of the batches that are not done, none of which
    /// has an address.
    ///
    /// # Errors
    /// The store failed.
    pub async fn progress(&self, list: List) -> Result<(List, Progress), StoreError> {
        let (list, found) = match list.state {
            ListState::Running | ListState::Paused => self.store.list_progress(&list, clock::now()).await?,
            _ => (list.clone(), ListProgress::of(&list)),
        };
        let ListProgress { checked, counts, mut causes, cost, charged, reserved, returns, waiting } = found;
        causes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let waiting = match list.state {
            ListState::Running => self.waiting(&waiting, list.to_check().saturating_sub(checked)),
            _ => Vec::new(),
        };
        let waits_for = |cause| waiting.iter().any(|waiting: &WaitingAddresses| waiting.cause == cause);
        let problem = match list.state {
            ListState::Running if list.why.is_empty() && waits_for(WaitCause::Outage) => words::outage(),
            ListState::Running if list.why.is_empty() && waits_for(WaitCause::RefusalBudget) => {
                self.refusal_of_us(&self.store.open_batches_of(&list)).unwrap_or_default()
            }
            _ => list.why.clone(),
        };
        Ok((list, Progress { checked, counts, causes, cost, charged, reserved, returns, waiting, problem }))
    }

    /// How a mail server refuses us, if addresses of these batches wait because of it, in sentences.
    pub fn refusal_of_us(&self, batches: &[BatchId]) -> Option<String> {
        self.new_batches.refusal_of_us(batches).map(words::refusal_of_us)
    }

    /// What addresses without a verdict wait for, most of them first. `all` is their number: those that are not among `rows` wait for
    /// their turn, or for their first answer.
    pub fn waiting(&self, rows: &[WaitingRows], all: u64) -> Vec<WaitingAddresses> {
        let mut waiting: Vec<_> = rows.iter().map(|rows| self.wait(*rows)).collect();
        let named = waiting.iter().map(|waiting| waiting.addresses).sum();
        if let addresses @ 1.. = all.saturating_sub(named) {
            waiting.push(WaitingAddresses { cause: WaitCause::Queue, addresses, until: None });
        }
        waiting.sort_by_key(|waiting| std::cmp::Reverse(waiting.addresses));
        waiting
    }

    fn wait(&self, rows: WaitingRows) -> WaitingAddresses {
        let WaitingRows { cause, rows: addresses, created_at } = rows;
        let until = |wait: Duration| {
            let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            Some(created_at.saturating_add(wait))
        };
        let until = match cause {
            WaitCause::RetryLater | WaitCause::NoAnswer | WaitCause::RefusalBudget => until(self.limits.wait),
            WaitCause::Outage => until(self.limits.outage_wait),
            WaitCause::Queue => None,
        };
        WaitingAddresses { cause, addresses, until }
    }

    /// Cancels a list; `None` if it does not exist.
    ///
    /// # Errors
    /// The store failed.
    pub async fn cancel(&self, account: AccountId, id: ListId) -> Result<Option<List>, StoreError> {
        let cancelled = self.store.cancel_list(account, id, clock::now()).await?;
        Ok(cancelled.map(|cancelled| {
            self.new_batches.cancel(cancelled.batches);
            cancelled.list
        }))
    }

    /// Deletes a list; returns whether it existed.
    ///
    /// # Errors
    /// The store failed.
    pub async fn delete(&self, account: AccountId, id: ListId) -> Result<bool, StoreError> {
        let ended = self.store.delete_list(account, id, clock::now()).await?;
        let existed = ended.is_some();
        self.new_batches.cancel(ended.unwrap_or_default());
        self.files.forget(id);
        Ok(existed)
    }
}

/// The estimated price of the addresses that are not in batches yet.
pub fn remaining_price(list: &List) -> u64 {
    let left = list.to_check() - list.submitted.min(list.to_check());
    left.min(list.price() - list.charged.min(list.price()))
}
