//! The work on lists, for the API and the dashboard: upload in parts, search for duplicates, check batch by batch, results.
//!
//! - [`upload::PartWriter`] stores the content while it arrives; `contents` reads it.
//! - [`work::Lists`] is the thread that reads lists and submits their batches. `distinct` finds duplicates with a table that may be on
//!   disk ([`spill::table`]), and writes the index of the list, which `index` reads.
//! - [`actions`] starts, cancels and deletes lists.
//! - [`downloads`] is the thread that makes results ([`results`]) while they are sent.
//! - `conversions` has the threads that convert spreadsheets, so that the other threads work in slices of some milliseconds.
//! - `temp` creates the temporary files, whose bytes have a bound for each account.
//!
//! The store keeps content, index and answers in sealed parts. Invariants: memory does not depend on the length of a list; each
//! different address is asked about once and costs at most one credit; after a crash, the work continues where it was.

pub mod actions;
mod contents;
mod conversions;
mod distinct;
pub mod downloads;
mod index;
pub mod results;
mod temp;
pub mod upload;
pub mod work;

use actions::Actions;
use checks::batch::{self, NewBatches};
use contents::Contents;
pub use contents::{NAME_CHARS_MAX, in_words_of_the_form};
use conversions::Conversions;
use downloads::Downloads;
use engine::proto::sharing::ShareUse;
use std::io;
use std::path::Path;
use std::sync::Arc;
use store::ListRoom;
use store_rules::Store;
use temp::TempFiles;
use work::Lists;

/// Most bytes of the lists of all accounts.
const ALL_BYTES_MAX: u64 = 4 << 30;

/// The work on lists of a server, which all threads share.
pub struct ListWork {
    /// Largest list, in bytes.
    pub bytes_max: u64,
    /// Starts, cancels and deletes lists.
    pub actions: Actions,
    /// Makes results.
    pub downloads: Downloads,
    shares: Vec<Arc<ShareUse>>,
}

impl ListWork {
    /// Starts the threads. Temporary files of searches for duplicates are in the folder `data`. `limits` are those of the batches.
    ///
    /// # Errors
    /// A thread could not be started, or the store or the folder cannot be read.
    pub fn start(
        store: &Arc<Store>,
        new_batches: &Arc<NewBatches>,
        data: &Path,
        bytes_max: u64,
        limits: batch::Limits,
    ) -> io::Result<Arc<ListWork>> {
        let files = TempFiles::new(data);
        let conversions = Arc::new(Conversions::start(Arc::clone(store), Arc::clone(&files))?);
        let mut shares = vec![files.figures(), conversions.figures()];
        let contents = Contents { store: Arc::clone(store), conversions };
        let downloads = Downloads::start(contents.clone(), &mut shares)?;
        let lists = Lists::start(contents, Arc::clone(new_batches), Arc::clone(&files), &mut shares)?;
        let actions = Actions::new(Arc::clone(store), Arc::clone(new_batches), lists, files, limits);
        Ok(Arc::new(ListWork { bytes_max, actions, downloads, shares }))
    }

    /// The limits on the bytes of lists.
    pub fn room(&self) -> ListRoom {
        ListRoom { account: self.bytes_max * 2, all: ALL_BYTES_MAX.max(self.bytes_max * 2) }
    }

    /// What accounts share: temporary files, conversions, downloads, lists in progress.
    pub fn shares(&self) -> Vec<Arc<ShareUse>> {
        self.shares.clone()
    }
}

#[cfg(test)]
mod tests;
