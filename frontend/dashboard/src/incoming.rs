//! A body that is read piece by piece.

use crate::problem::Problem;
use bytes::Bytes;
use std::future::Future;
use std::pin::Pin;

/// What comes of a body, piece by piece. The one who gives it bounds its time.
pub trait Incoming {
    /// The next piece; none at the end.
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Result<Option<Bytes>, Problem>> + '_>>;

    /// How many bytes come at most, where that is known.
    fn most(&self) -> Option<u64>;
}
