//! A request body that is read piece by piece.

use crate::problem::Problem;
use bytes::Bytes;
use std::future::Future;
use std::pin::Pin;

/// A request body, piece by piece. The implementation limits the time.
pub trait Incoming {
    /// The next piece; `None` at the end.
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Result<Option<Bytes>, Problem>> + '_>>;

    /// The most bytes that can still arrive, if that is known.
    fn most(&self) -> Option<u64>;
}

/// A body whose pieces are in memory, for tests and fuzzing.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) struct GivenPieces(pub std::vec::IntoIter<Bytes>);

#[cfg(any(test, feature = "fuzzing"))]
impl Incoming for GivenPieces {
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Result<Option<Bytes>, Problem>> + '_>> {
        let piece = self.0.next();
        Box::pin(async move { Ok(piece) })
    }

    fn most(&self) -> Option<u64> {
        None
    }
}
