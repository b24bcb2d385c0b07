//! The two ways in which a write can end without a result. The writer must tell them apart: a refusal concerns one write, a
//! failure ends its whole group. The errors of the store's trait do not tell them apart by their type, because each contains
//! [`StoreError`] as a variant.

use store::StoreError;

/// Why a write was not done.
#[derive(Debug)]
pub enum WriteError<E> {
    /// It is refused, and the group is committed without it.
    Refused(E),
    /// Its tables cannot be read or written. The group is not committed.
    Failed(StoreError),
}

impl<E> WriteError<E> {
    /// Converts a refusal into that of another operation.
    pub fn map<F>(self, refused: impl FnOnce(E) -> F) -> WriteError<F> {
        match self {
            WriteError::Refused(refusal) => WriteError::Refused(refused(refusal)),
            WriteError::Failed(error) => WriteError::Failed(error),
        }
    }
}

/// Refuses a write, for its caller.
pub fn refuse<T, E>(refusal: E) -> Result<T, WriteError<E>> {
    Err(WriteError::Refused(refusal))
}

impl<E> From<StoreError> for WriteError<E> {
    fn from(error: StoreError) -> WriteError<E> {
        WriteError::Failed(error)
    }
}
