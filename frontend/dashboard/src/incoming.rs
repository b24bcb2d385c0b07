//! A request body that is read piece by piece.

use crate::problem::Problem;
use bytes::Bytes;
use std::future::Future;
use std::pin::Pin;

/// A request body, piece by piece. The implementation limits the time.
pub trait Incoming {
    /// The next piece; `None` at the end.
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Result<Option<Bytes>, Problem>> + '_>>;

    /// Most bytes that can still come, if this is known.
    fn most(&self) -> Option<u64>;
}
