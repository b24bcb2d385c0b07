//! The activity of a connection: it is idle, its head arrives slowly, or its peer does not read the answer.
//!
//! hyper has one timer for an idle connection and for a slow head, and none for writing. The right limits differ. An
//! idle connection is cheap, and proxies that keep one open for a minute would use a connection that the server has
//! already closed. A head that has begun needs little time, and so does reading an answer. So hyper's timer has the
//! longest limit, and this module has the shorter ones.

use crate::connection_limit::ConnectionPermit;
use hyper::body::{Body, Frame, SizeHint};
use monoio::io::poll_io::{AsyncRead, AsyncWrite, ReadBuf};
use std::cell::Cell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// After this many requests without a pause, or this many bytes of answers to them, a connection yields to others.
const REQUESTS_IN_A_ROW_MAX: u32 = 8;
const BYTES_IN_A_ROW_MAX: usize = 32 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The connection waits for a request.
    Idle,
    /// A head has begun to arrive at this time.
    Head(Instant),
    /// A request is being answered.
    Busy,
}

/// The activity of a connection, with its permit.
pub struct ConnectionActivity {
    state: Cell<State>,
    /// Since when the peer has not read everything that was written.
    unsent: Cell<Option<Instant>>,
    /// The requests since the last pause, and the bytes of answers to them.
    requests_in_a_row: Cell<u32>,
    bytes_in_a_row: Cell<usize>,
    /// Whether a request has arrived.
    has_request: Cell<bool>,
    /// The permit of the connection, which it may have to free while it is idle.
    pub permit: ConnectionPermit,
}

impl ConnectionActivity {
    /// The activity of a new connection, which counts as the start of a head.
    pub fn new(permit: ConnectionPermit) -> Rc<ConnectionActivity> {
        let state = Cell::new(State::Head(Instant::now()));
        Rc::new(ConnectionActivity {
            state,
            unsent: Cell::new(None),
            requests_in_a_row: Cell::new(0),
            bytes_in_a_row: Cell::new(0),
            has_request: Cell::new(false),
            permit,
        })
    }

    /// Notes a further request. True if so many came without a pause that other connections must be served first:
    /// callers may send requests before they have read the answers (RFC 9112 9.3.2).
    pub fn on_request(&self) -> bool {
        let requests = self.requests_in_a_row.get() + 1;
        self.requests_in_a_row.set(requests);
        let is_over = requests > REQUESTS_IN_A_ROW_MAX || self.bytes_in_a_row.get() > BYTES_IN_A_ROW_MAX;
        if is_over {
            self.on_pause();
        }
        is_over
    }

    /// Notes a pause between requests.
    fn on_pause(&self) {
        self.requests_in_a_row.set(0);
        self.bytes_in_a_row.set(0);
    }

    /// Whether no request has arrived yet.
    pub fn is_new(&self) -> bool {
        !self.has_request.get()
    }

    /// Notes that a head is complete.
    pub fn set_busy(&self) {
        self.has_request.set(true);
        self.state.set(State::Busy);
        self.permit.set_busy();
    }

    /// Notes that the answer was handed over completely.
    fn set_idle(&self) {
        self.state.set(State::Idle);
        self.permit.set_idle();
    }

    fn on_bytes(&self) {
        if self.state.get() == State::Idle {
            self.state.set(State::Head(Instant::now()));
            self.permit.set_busy();
        }
    }

    /// Notes a write, and how many bytes the peer took.
    fn on_write(&self, polled: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = polled {
            self.bytes_in_a_row.set(self.bytes_in_a_row.get().saturating_add(*bytes));
        }
        self.on_sent(polled, false);
    }

    /// Notes whether the peer took everything that was written.
    fn on_sent<T>(&self, polled: &Poll<T>, all: bool) {
        match polled {
            Poll::Pending if self.unsent.get().is_none() => self.unsent.set(Some(Instant::now())),
            Poll::Ready(_) if all => self.unsent.set(None),
            _ => {}
        }
    }
}

/// The body of an answer. Its connection is busy until the body ends. Otherwise a connection with a long download could
/// be asked to close, would keep its permit to the end, and no other connection would be asked.
pub struct AnswerBody<B> {
    body: B,
    activity: Rc<ConnectionActivity>,
}

impl<B> AnswerBody<B> {
    /// Wraps the body of an answer on this connection.
    pub fn new(body: B, activity: Rc<ConnectionActivity>) -> AnswerBody<B> {
        AnswerBody { body, activity }
    }
}

impl<B> Drop for AnswerBody<B> {
    /// hyper drops a body as soon as the body has ended.
    fn drop(&mut self) {
        self.activity.set_idle();
    }
}

impl<B: Body + Unpin> Body for AnswerBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The time limits of the parts of a request and its answer.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// The limit for a head, from its first byte or from the connection's start.
    pub head: Duration,
    /// The limit for the peer to take everything that was written.
    pub write: Duration,
}

/// A future that ends if a head or an answer takes too long. The connection polls it together with its own work.
pub struct SlowPeerTimer {
    activity: Rc<ConnectionActivity>,
    patience: Patience,
    timer: Option<(Instant, Pin<Box<monoio::time::Sleep>>)>,
}

impl SlowPeerTimer {
    /// A timer for the activity of this connection.
    pub fn new(activity: Rc<ConnectionActivity>, patience: Patience) -> SlowPeerTimer {
        SlowPeerTimer { activity, patience, timer: None }
    }

    /// Ready if a part has taken too long.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let head = match self.activity.state.get() {
            State::Head(since) => Some(since + self.patience.head),
            State::Idle | State::Busy => None,
        };
        let write = self.activity.unsent.get().map(|since| since + self.patience.write);
        let Some(deadline) = head.into_iter().chain(write).min() else {
            self.timer = None;
            return Poll::Pending;
        };
        if self.timer.as_ref().is_none_or(|(set, _)| *set != deadline) {
            self.timer = Some((deadline, Box::pin(monoio::time::sleep_until(deadline.into()))));
        }
        match &mut self.timer {
            Some((_, sleep)) => sleep.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

/// A stream that notes reads and writes in the activity of its connection.
pub struct Watched<T> {
    stream: T,
    activity: Rc<ConnectionActivity>,
}

impl<T> Watched<T> {
    /// Wraps the stream of this connection.
    pub fn new(stream: T, activity: Rc<ConnectionActivity>) -> Watched<T> {
        Watched { stream, activity }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Watched<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.activity.on_bytes();
        } else if polled.is_pending() {
            self.activity.on_pause();
        }
        polled
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Watched<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.activity.on_write(&polled);
        polled
    }

    /// hyper flushes after it has written everything.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.activity.on_sent(&polled, true);
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.activity.on_sent(&polled, true);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.activity.on_write(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection_limit::{CloseReason, ConnectionLimit};
    use bytes::Bytes;
    use http_body_util::Full;
    use std::pin::pin;
    use std::task::Waker;

    /// The activity of a connection with the first permit.
    fn activity(limit: &Rc<ConnectionLimit>) -> Rc<ConnectionActivity> {
        let permit = pin!(limit.acquire()).poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(permit) = permit else { panic!("no permit") };
        ConnectionActivity::new(permit)
    }

    #[test]
    fn a_row_ends_after_many_requests_or_many_bytes() {
        let activity = activity(&ConnectionLimit::new(1));
        let answered = |bytes: usize| {
            activity.on_write(&Poll::Ready(Ok(bytes)));
            activity.on_request()
        };
        let small = [(); 12].map(|()| answered(100));
        assert_eq!(small.iter().position(|over| *over), Some(8));
        activity.on_pause();
        assert!(!activity.on_request());
        assert!(answered(40_000), "others wait for what was written");
        assert!(!answered(10_000));
        activity.on_pause();
        assert!(!answered(30_000));
    }

    #[test]
    fn a_connection_is_busy_until_its_answer_ends() {
        let mut cx = Context::from_waker(Waker::noop());
        let limit = ConnectionLimit::new(1);
        let activity = activity(&limit);
        activity.set_busy();
        let mut answer = AnswerBody::new(Full::new(Bytes::from_static(b"piece")), Rc::clone(&activity));
        let mut newcomer = pin!(limit.acquire());
        let mut close_reason = |cx: &mut Context<'_>| {
            assert!(newcomer.as_mut().poll(cx).is_pending());
            activity.permit.close_reason(cx)
        };
        assert_eq!(close_reason(&mut cx), None);
        assert!(matches!(Pin::new(&mut answer).poll_frame(&mut cx), Poll::Ready(Some(Ok(_)))));
        assert_eq!(close_reason(&mut cx), None, "hyper may not have seen yet that this was all");
        drop(answer);
        assert_eq!(close_reason(&mut cx), Some(CloseReason::Evicted));
    }
}
