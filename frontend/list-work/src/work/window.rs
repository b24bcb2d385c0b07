//! The open batches of a list. A row can wait for minutes, for example after greylisting, and its batch with it. So the number of
//! unanswered rows decides whether the next batch is submitted, and not the oldest batch.

use std::collections::VecDeque;
use store::{List, StoreError, clock};
use store_rules::Store;

/// The number of addresses in each batch of a list.
pub(crate) const BATCH_ADDRESSES: u64 = store::BATCH_ROWS_MAX as u64;
/// Most unanswered rows of a list at a time.
const UNANSWERED_MAX: u64 = 20 * BATCH_ADDRESSES;
/// Most batches from the oldest open one to the last one. A cancellation ends all of them in one transaction.
pub(super) const SPAN_MAX: u32 = 100;
/// Most batches that are read in a round.
const LOOKS_MAX: usize = 50;

/// The batches that were open when they were last read.
#[derive(Default)]
pub(super) struct Window {
    /// The number of the next batch.
    next: u32,
    /// Numbers of batches with their unanswered rows, the one that was read longest ago first.
    open: VecDeque<(u32, u64)>,
}

impl Window {
    /// Follows the list, which this or another node has changed.
    pub fn follow(&mut self, list: &List) {
        let submitted = batches(list.submitted);
        if self.next > submitted {
            *self = Window::default();
        }
        self.open.retain(|(number, _)| *number >= list.done);
        let new = self.next.max(list.done)..submitted;
        self.open.extend(new.map(|number| (number, BATCH_ADDRESSES)));
        self.next = submitted;
    }

    /// Reads some of the batches again.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn look(&mut self, store: &Store, list: &List) -> Result<(), StoreError> {
        let now = clock::now();
        let looks: Vec<u32> =
            self.open.drain(..self.open.len().min(LOOKS_MAX)).map(|(number, _)| number).collect();
        let view = |number: &u32| store.batch(list.account, store.batch_of_list(list, *number), now);
        // They are read at the same time.
        let views: Vec<_> = looks.iter().map(view).collect();
        for (number, view) in looks.into_iter().zip(views) {
            // One that has expired is complete.
            if let Some(view) = view.wait()?.filter(|view| !view.completed) {
                self.open.push_back((number, u64::from(view.total - view.checked.min(view.total))));
            }
        }
        Ok(())
    }

    /// Whether there is room for another batch.
    pub fn has_room(&self, list: &List) -> bool {
        let unanswered: u64 = self.open.iter().map(|(_, rows)| rows).sum();
        unanswered + BATCH_ADDRESSES <= UNANSWERED_MAX && batches(list.submitted) - list.done < SPAN_MAX
    }
}

/// The number of batches for this number of addresses.
pub(crate) fn batches(addresses: u64) -> u32 {
    u32::try_from(addresses.div_ceil(BATCH_ADDRESSES)).unwrap_or(u32::MAX)
}
