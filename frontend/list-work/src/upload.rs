//! The upload of a list: its content goes to the store in parts while it arrives, so memory does not depend on its length.

use bytes::Bytes;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use store::{
    AccountId, Authority, LIST_PART_BYTES, List, ListId, ListRoom, NewPart, PartPut, StoreError, clock,
};
use store_rules::Store;

/// A request body, piece by piece. The implementation limits the time.
pub trait Incoming {
    /// The next piece; `None` at the end.
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Result<Option<Bytes>, BodyError>> + '_>>;

    /// The most bytes that can still arrive, if that is known.
    fn most(&self) -> Option<u64>;
}

/// The reason why a body did not arrive completely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyError {
    /// The connection ended.
    Broken,
    /// The sender was too slow.
    TooSlow,
}

/// The reason why content could not be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UploadError {
    /// The body did not arrive completely.
    Body(BodyError),
    /// The list would have more bytes than it may have.
    TooLong,
    /// The list was deleted, cancelled, or its upload has ended.
    Gone,
    /// The list has another offset than the upload: another connection continues it.
    Offset(u64),
    /// There is no space for more of it now.
    StoreFull,
    /// The store failed.
    Store(StoreError),
}

impl From<BodyError> for UploadError {
    fn from(error: BodyError) -> UploadError {
        UploadError::Body(error)
    }
}

impl From<StoreError> for UploadError {
    fn from(error: StoreError) -> UploadError {
        UploadError::Store(error)
    }
}

/// Stores the content of a list from its offset on.
pub struct PartWriter {
    store: Arc<Store>,
    list: List,
    /// The bytes of the present part.
    part: Vec<u8>,
    /// The bytes of the list that are stored.
    stored: u64,
    bytes_max: u64,
    room: ListRoom,
    by: Authority,
}

impl PartWriter {
    /// A writer that continues at the offset of the list, for a request with the session or the key of `by`.
    ///
    /// # Errors
    /// The last part, which may be continued, cannot be read.
    pub async fn open(
        store: Arc<Store>,
        list: List,
        bytes_max: u64,
        room: ListRoom,
        by: Authority,
    ) -> Result<PartWriter, UploadError> {
        let (stored, mut part) = (list.offset, Vec::new());
        if stored % LIST_PART_BYTES as u64 != 0 {
            part = store.list_part(&list, number(stored)).await?.ok_or(UploadError::Gone)?;
            part.truncate((stored % LIST_PART_BYTES as u64) as usize);
        }
        part.reserve(LIST_PART_BYTES);
        Ok(PartWriter { store, list, part, stored, bytes_max, room, by })
    }

    /// Adds content, and stores the parts that are full.
    ///
    /// # Errors
    /// See [`UploadError`].
    pub async fn push(&mut self, mut piece: &[u8]) -> Result<(), UploadError> {
        if self.offset() + piece.len() as u64 > self.bytes_max {
            return Err(UploadError::TooLong);
        }
        while !piece.is_empty() {
            let room = LIST_PART_BYTES - self.part.len();
            let (now, later) = piece.split_at(room.min(piece.len()));
            self.part.extend_from_slice(now);
            piece = later;
            if self.part.len() == LIST_PART_BYTES {
                self.flush().await?;
                self.part.clear();
            }
        }
        Ok(())
    }

    /// The offset after everything that was added.
    pub fn offset(&self) -> u64 {
        let part = LIST_PART_BYTES as u64;
        self.stored / part * part + self.part.len() as u64
    }

    /// Stores everything that was added, and returns the new offset of the list.
    ///
    /// # Errors
    /// See [`UploadError`].
    pub async fn flush(&mut self) -> Result<u64, UploadError> {
        let to = self.offset();
        if to == self.stored {
            return Ok(to);
        }
        let part =
            NewPart { number: number(self.stored), from: self.stored, to, plain: &self.part, by: self.by };
        match self.store.put_list_part(&self.list, part, self.room, clock::now()).await? {
            PartPut::Stored => self.stored = to,
            PartPut::Offset(offset) => return Err(UploadError::Offset(offset)),
            PartPut::Gone => return Err(UploadError::Gone),
            PartPut::StoreFull => return Err(UploadError::StoreFull),
        }
        Ok(to)
    }
}

/// The number of the part at an offset.
fn number(offset: u64) -> u32 {
    u32::try_from(offset / LIST_PART_BYTES as u64).unwrap_or(u32::MAX)
}

/// Deletes a list when it is dropped, unless [`Whole::end`] was called. An upload in one request holds it: if the connection ends,
/// the handler is dropped.
pub struct Whole {
    store: Arc<Store>,
    account: AccountId,
    id: ListId,
    is_ended: bool,
}

impl Whole {
    /// The guard of a list that was created for the request.
    pub fn new(store: Arc<Store>, list: &List) -> Whole {
        Whole { store, account: list.account, id: list.id, is_ended: false }
    }

    /// The list stays, or its deletion is the task of the caller.
    pub fn end(mut self) {
        self.is_ended = true;
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        if !self.is_ended {
            // The result is not awaited: if this fails, the next start deletes the list.
            drop(self.store.delete_list(self.account, self.id, clock::now()));
        }
    }
}
