//! The body of an answer: complete, as in nearly all answers, or produced by another thread during sending.

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use list_work::downloads::Pieces;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

/// What a download holds at most: the piece that is being sent, and the next one.
const PIECES_BYTES: usize = 96 * 1024;

/// The body of an answer for hyper.
pub enum Outgoing {
    /// The complete body in memory, which only this answer has.
    Whole(Full<Bytes>),
    /// A complete body that all answers with it share.
    Shared(Full<Bytes>),
    /// A body in pieces: hyper requests the next piece when it has room for one.
    Pieces(Pieces),
}

impl Outgoing {
    /// The bytes that only this answer holds.
    pub fn own_bytes(&self) -> usize {
        match self {
            Outgoing::Whole(whole) => whole.size_hint().exact().map_or(0, |bytes| bytes as usize),
            Outgoing::Shared(_) => 0,
            Outgoing::Pieces(_) => PIECES_BYTES,
        }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match self.get_mut() {
            Outgoing::Whole(whole) | Outgoing::Shared(whole) => {
                Pin::new(whole).poll_frame(cx).map_err(|never: std::convert::Infallible| match never {})
            }
            Outgoing::Pieces(pieces) => pieces.poll_next(cx).map(|piece| {
                piece.map(|piece| match piece {
                    Ok(piece) => Ok(Frame::data(Bytes::from(piece))),
                    Err(why) => {
                        tracing::warn!("an answer was not sent completely: {why}");
                        Err(io::Error::other("the answer cannot be completed"))
                    }
                })
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Outgoing::Whole(whole) | Outgoing::Shared(whole) => whole.is_end_stream(),
            Outgoing::Pieces(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Outgoing::Whole(whole) | Outgoing::Shared(whole) => whole.size_hint(),
            Outgoing::Pieces(_) => SizeHint::default(),
        }
    }
}
