//! The body of an answer: whole, as nearly all are, or made piece by piece while it is sent.

use crate::web::lists::download::Pieces;
use bytes::Bytes;
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
    Pieces(Rested),
}

/// Pieces with the thread's other work between them: each takes work, even one that came to nothing, and hyper asks
/// for as many as have room.
pub struct Rested {
    pieces: Pieces,
    rested: bool,
}

impl Outgoing {
    /// Of pieces.
    pub fn pieces(pieces: Pieces) -> Outgoing {
        Outgoing::Pieces(Rested { pieces, rested: true })
    }
}

impl Rested {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Vec<u8>, String>>> {
        if std::mem::replace(&mut self.rested, false) {
            match self.pieces.next() {
                Some(Ok(piece)) if piece.is_empty() => {}
                made => return Poll::Ready(made),
            }
        }
        self.rested = true;
        cx.waker().wake_by_ref();
        Poll::Pending
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
            Outgoing::Whole(whole) => {
                Pin::new(whole).poll_frame(cx).map_err(|never: std::convert::Infallible| match never {})
            }
            Outgoing::Pieces(pieces) => pieces.poll(cx).map(|piece| {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    #[test]
    fn between_two_pieces_the_thread_turns_to_others() {
        let made = [b"a".to_vec(), Vec::new(), b"b".to_vec()].into_iter().map(Ok);
        let mut body = Outgoing::pieces(Box::new(made));
        let mut polled = || match Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => "later".to_owned(),
            Poll::Ready(None) => "end".to_owned(),
            Poll::Ready(Some(frame)) => {
                String::from_utf8(frame.unwrap().into_data().unwrap().into()).unwrap()
            }
        };
        let all: Vec<String> = std::iter::from_fn(|| Some(polled())).take(7).collect();
        assert_eq!(all, ["a", "later", "later", "b", "later", "end", "later"]);
    }
}
