//! What owners do with their lists: start, cancel, delete.

use crate::work::{Lists, batches};
use checks::batch::NewBatches;
use std::sync::Arc;
use store::{AccountId, List, ListId, ListState, Store, StoreError, SubscriptionStatus, clock};

/// Starts, cancels and deletes lists.
pub struct Actions {
    store: Arc<dyn Store>,
    new_batches: Arc<NewBatches>,
    lists: Lists,
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
    pub(crate) fn new(store: Arc<dyn Store>, new_batches: Arc<NewBatches>, lists: Lists) -> Actions {
        Actions { store, new_batches, lists }
    }

    /// Wakes the thread of lists after an upload.
    pub fn wake(&self) {
        self.lists.wake();
    }

    /// Starts a list that is ready, or continues one that has stopped. A list that has been started already stays as it is.
    /// Returns the list as it is then.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start(&self, list: List) -> Result<List, StartError> {
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
        if !self.store.put_list(&list, before, None).await? {
            // Another request was faster.
            let now = self.store.list(list.account, list.id, clock::now()).await?;
            return now.ok_or(StartError::Gone);
        }
        self.wake();
        Ok(list)
    }

    /// The number of different addresses with a verdict, with those of batches that are not complete.
    ///
    /// # Errors
    /// The store failed.
    pub async fn checked(&self, list: &List) -> Result<u64, StoreError> {
        let mut checked = list.answered();
        if matches!(list.state, ListState::Running | ListState::Paused) {
            let now = clock::now();
            let view = |number| self.store.batch(list.account, self.store.batch_of_list(list, number), now);
            // They are read at the same time.
            let views: Vec<_> = (list.done..batches(list.submitted)).map(view).collect();
            for view in views {
                checked += view.await?.map_or(0, |view| u64::from(view.checked));
            }
        }
        Ok(checked)
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
        Ok(existed)
    }
}

/// The estimated price of the addresses that are not in batches yet.
pub fn remaining_price(list: &List) -> u64 {
    let left = list.to_check() - list.submitted.min(list.to_check());
    left.min(list.price() - list.charged.min(list.price()))
}
