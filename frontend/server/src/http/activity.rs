//! Tells what a connection does: whether it is idle, its head comes slowly, or its peer does not take the answer.
//!
//! hyper has one timer for an idle connection and for a head that comes slowly, and none for writing. An idle
//! connection is cheap, and proxies that keep one open for a minute would run into a server that closes it sooner; a
//! head that has begun has no reason to take long, and no answer is so large that a peer needs long to take it. So
//! hyper's timer has the longest time, and this keeps the shorter ones.

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

/// A connection lets others take their turn after so many requests without a pause, or after so many bytes of answers to them.
const REQUESTS_IN_A_ROW_MAX: u32 = 8;
const BYTES_IN_A_ROW_MAX: usize = 32 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Between requests.
    Idle,
    /// A head is coming, since then.
    Head(Instant),
    /// A request is answered.
    Busy,
}

/// What a connection does, and its place.
pub struct ConnectionActivity {
    state: Cell<State>,
    /// Since when the peer has not taken all that was written.
    unsent: Cell<Option<Instant>>,
    /// Requests since the last pause, and bytes of answers to them.
    requests_in_a_row: Cell<u32>,
    bytes_in_a_row: Cell<usize>,
    /// Its place, which it gives way with while it is idle.
    pub place: ConnectionPermit,
}

impl ConnectionActivity {
    /// Of a connection that was just accepted: whoever connects has something to say.
    pub fn new(place: ConnectionPermit) -> Rc<ConnectionActivity> {
        let state = Cell::new(State::Head(Instant::now()));
        Rc::new(ConnectionActivity {
            state,
            unsent: Cell::new(None),
            requests_in_a_row: Cell::new(0),
            bytes_in_a_row: Cell::new(0),
            place,
        })
    }

    /// Another request is there. True when so many came without a pause that other connections are served first: callers may send
    /// requests before they have read the answers (RFC 9112 9.3.2).
    pub fn on_request(&self) -> bool {
        let requests = self.requests_in_a_row.get() + 1;
        self.requests_in_a_row.set(requests);
        let is_over = requests > REQUESTS_IN_A_ROW_MAX || self.bytes_in_a_row.get() > BYTES_IN_A_ROW_MAX;
        if is_over {
            self.on_pause();
        }
        is_over
    }

    /// The row of requests has ended.
    fn on_pause(&self) {
        self.requests_in_a_row.set(0);
        self.bytes_in_a_row.set(0);
    }

    /// A head has come whole.
    pub fn busy(&self) {
        self.state.set(State::Busy);
        self.place.busy();
    }

    /// The answer has been handed over to its end.
    fn idle(&self) {
        self.state.set(State::Idle);
        self.place.idle();
    }

    fn bytes_came(&self) {
        if self.state.get() == State::Idle {
            self.state.set(State::Head(Instant::now()));
            self.place.busy();
        }
    }

    /// Notes a write: how many bytes the peer took, if any.
    fn wrote(&self, polled: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = polled {
            self.bytes_in_a_row.set(self.bytes_in_a_row.get().saturating_add(*bytes));
        }
        self.sent(polled, false);
    }

    /// Notes whether the peer took what was written.
    fn sent<T>(&self, polled: &Poll<T>, all: bool) {
        match polled {
            Poll::Pending if self.unsent.get().is_none() => self.unsent.set(Some(Instant::now())),
            Poll::Ready(_) if all => self.unsent.set(None),
            _ => {}
        }
    }
}

/// The body of an answer. While there is more of it to come its connection is busy: one that was told to give way in
/// the middle of a long download would hold its place to the end, and nobody else would be told to go.
pub struct AnswerBody<B> {
    body: B,
    activity: Rc<ConnectionActivity>,
}

impl<B> AnswerBody<B> {
    /// Of this body, on this connection.
    pub fn new(body: B, activity: Rc<ConnectionActivity>) -> AnswerBody<B> {
        AnswerBody { body, activity }
    }
}

impl<B> Drop for AnswerBody<B> {
    /// hyper drops a body as soon as it has come to its end.
    fn drop(&mut self) {
        self.activity.idle();
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

/// How long the parts of a request and its answer may take.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For a head, from its first byte or the connection's beginning.
    pub head: Duration,
    /// For the peer to take all that was written.
    pub write: Duration,
}

/// Ends when a head or an answer takes too long. Polled whenever the connection is.
pub struct SlowPeerTimer {
    activity: Rc<ConnectionActivity>,
    patience: Patience,
    timer: Option<(Instant, Pin<Box<monoio::time::Sleep>>)>,
}

impl SlowPeerTimer {
    /// Watches this connection.
    pub fn new(activity: Rc<ConnectionActivity>, patience: Patience) -> SlowPeerTimer {
        SlowPeerTimer { activity, patience, timer: None }
    }

    /// Ready when something has taken too long.
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

/// A stream that notes when bytes come and go.
pub struct Watched<T> {
    stream: T,
    activity: Rc<ConnectionActivity>,
}

impl<T> Watched<T> {
    /// Watches this stream.
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
            self.activity.bytes_came();
        } else if polled.is_pending() {
            self.activity.on_pause();
        }
        polled
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Watched<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.activity.wrote(&polled);
        polled
    }

    /// hyper flushes when it has written all that it had.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.activity.sent(&polled, true);
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.activity.sent(&polled, true);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.activity.wrote(&polled);
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

    /// Of a connection that has the first place.
    fn activity(limit: &Rc<ConnectionLimit>) -> Rc<ConnectionActivity> {
        let place = pin!(limit.place()).poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(place) = place else { panic!("no place") };
        ConnectionActivity::new(place)
    }

    #[test]
    fn a_row_ends_after_so_many_requests_or_so_much_that_was_written() {
        let activity = activity(&ConnectionLimit::new(1));
        let answered = |bytes: usize| {
            activity.wrote(&Poll::Ready(Ok(bytes)));
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
        activity.busy();
        let mut answer = AnswerBody::new(Full::new(Bytes::from_static(b"piece")), Rc::clone(&activity));
        let mut newcomer = pin!(limit.place());
        let mut told = |cx: &mut Context<'_>| {
            assert!(newcomer.as_mut().poll(cx).is_pending());
            activity.place.close_reason(cx)
        };
        assert_eq!(told(&mut cx), None);
        assert!(matches!(Pin::new(&mut answer).poll_frame(&mut cx), Poll::Ready(Some(Ok(_)))));
        assert_eq!(told(&mut cx), None, "hyper may not have seen yet that this was all");
        drop(answer);
        assert_eq!(told(&mut cx), Some(CloseReason::GivesWay));
    }
}
