//! The two ways in which a write can end without a result. The writer must tell them apart: a refusal concerns one write, a
//! failure ends its whole group. The errors of the store's trait do not tell them apart by their type, because each contains
//! [`StoreError`] as a variant.

use store::StoreError;

/// Why a write was not done.
#[derive(Debug)]
pub(super) enum WriteError<E> {
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

/// Refuses a write.
pub(super) fn refuse<T, E>(refusal: E) -> Result<T, WriteError<E>> {
    Err(WriteError::Refused(refusal))
}

// One per type: an implementation for all that convert into StoreError would overlap with that of core for WriteError itself.
macro_rules! from_failure {
    ($($error:ty),*) => {$(
        impl<E> From<$error> for WriteError<E> {
            fn from(error: $error) -> WriteError<E> {
                WriteError::Failed(error.into())
            }
        }
    )*};
}
from_failure!(StoreError, ::redb::StorageError, ::redb::TableError);
