//! The body of an answer: whole, as nearly all are, or made piece by piece on another thread while it is sent.

use bytes::Bytes;
use dashboard::lists::downloads::Pieces;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

/// See the module.
pub enum Outgoing {
    /// All of it is there.
    Whole(Full<Bytes>),
    /// It is made as the caller takes it: hyper asks for a piece when there is room for one.
    Pieces(Pieces),
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match self.get_mut() {
            Outgoing::Whole(whole) => {
                Pin::new(whole).poll_frame(cx).map_err(|never: std::convert::Infallible| match never {})
            }
            Outgoing::Pieces(pieces) => pieces.poll_next(cx).map(|piece| {
                piece.map(|piece| match piece {
                    Ok(piece) => Ok(Frame::data(Bytes::from(piece))),
                    Err(why) => {
                        tracing::warn!("an answer broke off: {why}");
                        Err(io::Error::other("the answer cannot be made to its end"))
                    }
                })
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Outgoing::Whole(whole) => whole.is_end_stream(),
            Outgoing::Pieces(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Outgoing::Whole(whole) => whole.size_hint(),
            Outgoing::Pieces(_) => SizeHint::default(),
        }
    }
}
