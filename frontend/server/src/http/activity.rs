//! The activity of a connection: it is idle, its head arrives slowly, or its peer does not read the answer.
//!
//! hyper has one timer for an idle connection and for a slow head, and none for writing. The right limits differ. An
//! idle connection is cheap, and proxies that keep one open for a minute would use a connection that the server has
//! already closed. A head that has begun needs little time, and so does reading an answer. So hyper's timer has the
//! longest limit, and this module has the shorter ones.
//!
//! While a connection waits for its peer, the bytes that it holds count in [`ConnectionMemory`]. The module knows them without
//! a look into hyper: the bytes that arrived for the request in progress, and the length of the answer. hyper has one answer at a
//! time, because the next request waits until everything is written ([`ConnectionActivity::written`]).
//!
//! [`ConnectionMemory`]: crate::connection_memory::ConnectionMemory

use crate::connection_limit::ConnectionPermit;
use crate::connection_memory::HeldBytes;
use hyper::body::{Body, Frame, SizeHint};
use monoio::io::poll_io::{AsyncRead, AsyncWrite, ReadBuf};
use monoio::net::tcp::stream_poll::TcpStreamPoll;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tls_stream::TlsStream;

/// The bytes of a request that every connection has room for. They do not count.
const REQUEST_BYTES_FREE: usize = 8 * 1024;
/// What an upload holds at most: the part that is being filled, and its sealed form.
const UPLOAD_BYTES: usize = 128 * 1024;

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
    /// The start of the last head.
    began: Cell<Instant>,
    /// The bytes that arrived since the connection was idle, or since the head was complete.
    received: Cell<usize>,
    /// The longest head. hyper keeps its buffer.
    longest_head: Cell<usize>,
    /// The body is taken while it arrives.
    is_upload: Cell<bool>,
    /// The bytes of the answer that only this connection holds.
    answer: Cell<usize>,
    /// The next request waits until everything is written.
    awaits_written: Cell<bool>,
    /// What counts of the memory of all connections.
    pub held: HeldBytes,
    /// The permit of the connection, which it may have to free while it is idle.
    pub permit: ConnectionPermit,
}

impl ConnectionActivity {
    /// The activity of a new connection, which counts as the start of a head.
    pub fn new(permit: ConnectionPermit, held: HeldBytes) -> Rc<ConnectionActivity> {
        let now = Instant::now();
        Rc::new(ConnectionActivity {
            state: Cell::new(State::Head(now)),
            unsent: Cell::new(None),
            requests_in_a_row: Cell::new(0),
            bytes_in_a_row: Cell::new(0),
            has_request: Cell::new(false),
            began: Cell::new(now),
            received: Cell::new(0),
            longest_head: Cell::new(0),
            is_upload: Cell::new(false),
            answer: Cell::new(0),
            awaits_written: Cell::new(false),
            held,
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
        self.received.set(0);
        self.permit.set_busy();
    }

    /// Notes that the body of the request is an upload, which is taken while it arrives.
    pub fn set_upload(&self) {
        self.is_upload.set(true);
    }

    /// Notes that the answer was handed over completely.
    fn set_idle(&self) {
        self.state.set(State::Idle);
        self.received.set(0);
        self.is_upload.set(false);
        self.permit.set_idle();
    }

    fn on_bytes(&self, bytes: usize) {
        if self.state.get() == State::Idle {
            let now = Instant::now();
            self.began.set(now);
            self.state.set(State::Head(now));
            self.permit.set_busy();
        }
        let received = self.received.get() + bytes;
        self.received.set(received);
        if self.state.get() != State::Busy && received > self.longest_head.get() {
            self.longest_head.set(received);
        }
    }

    /// Waits until everything that was written is sent. Otherwise the heads of further answers would gather in memory: callers
    /// may send requests before they have read the answers (RFC 9112 9.3.2).
    pub async fn written(&self) {
        poll_fn(|_| {
            self.awaits_written.set(self.unsent.get().is_some());
            if self.awaits_written.get() { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }

    /// Counts what the connection holds while it waits for its peer. `buffered` is what its stream holds.
    fn count_held(&self, buffered: usize, cx: &Context<'_>) {
        let longest_head = self.longest_head.get();
        // A buffer grows by doubling.
        let head = if longest_head > REQUEST_BYTES_FREE { longest_head * 2 } else { 0 };
        let most = if self.is_upload.get() { UPLOAD_BYTES } else { usize::MAX };
        let body = match self.state.get() {
            State::Busy if self.received.get() > REQUEST_BYTES_FREE => self.received.get().min(most),
            _ => 0,
        };
        let answer = if self.unsent.get().is_some() { self.answer.get() } else { 0 };
        let bytes = head.saturating_add(body).saturating_add(answer).saturating_add(buffered);
        if bytes == 0 && !self.held.is_counted() {
            return;
        }
        let since = match self.unsent.get() {
            Some(since) => since,
            // It has just brought bytes.
            None if self.is_upload.get() => Instant::now(),
            None => self.began.get(),
        };
        self.held.set(bytes as u64, since, cx.waker());
    }

    /// Notes a write, and how many bytes the peer took.
    fn on_write(&self, polled: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = polled {
            self.bytes_in_a_row.set(self.bytes_in_a_row.get().saturating_add(*bytes));
        }
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

/// A stream that says how many bytes it holds itself.
pub trait Buffering {
    /// The bytes that arrived or were written, and were not passed on.
    fn buffered(&self) -> usize;
}

impl Buffering for TcpStreamPoll {
    fn buffered(&self) -> usize {
        0
    }
}

impl<T> Buffering for TlsStream<T> {
    fn buffered(&self) -> usize {
        TlsStream::buffered(self)
    }
}

/// The body of an answer. Its connection is busy until the body ends. Otherwise a connection with a long download could
/// be asked to close, would keep its permit to the end, and no other connection would be asked.
pub struct AnswerBody<B> {
    body: B,
    activity: Rc<ConnectionActivity>,
}

impl<B> AnswerBody<B> {
    /// Wraps the body of an answer on this connection, which alone holds this many bytes of it.
    pub fn new(body: B, own_bytes: usize, activity: Rc<ConnectionActivity>) -> AnswerBody<B> {
        activity.answer.set(own_bytes);
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

impl<T: AsyncRead + Buffering + Unpin> AsyncRead for Watched<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let read = buffer.filled().len() - before;
        if read > 0 {
            self.activity.on_bytes(read);
        } else if polled.is_pending() {
            self.activity.on_pause();
            self.activity.count_held(self.stream.buffered(), cx);
        }
        polled
    }
}

impl<T: Buffering> Watched<T> {
    /// Notes the end of a write or of a flush, and counts what is held if the peer does not take everything.
    fn on_sent<R>(&self, polled: &Poll<R>, all: bool, cx: &Context<'_>) {
        self.activity.on_sent(polled, all);
        if polled.is_pending() || (all && self.activity.held.is_counted()) {
            self.activity.count_held(self.stream.buffered(), cx);
        }
        if all && polled.is_ready() && self.activity.awaits_written.get() {
            cx.waker().wake_by_ref();
        }
    }
}

impl<T: AsyncWrite + Buffering + Unpin> AsyncWrite for Watched<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.activity.on_write(&polled);
        self.on_sent(&polled, false, cx);
        polled
    }

    /// hyper flushes after it has written everything.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.on_sent(&polled, true, cx);
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.on_sent(&polled, true, cx);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.activity.on_write(&polled);
        self.on_sent(&polled, false, cx);
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
    use crate::connection_memory::ConnectionMemory;
    use bytes::Bytes;
    use http_body_util::Full;
    use std::net::Ipv4Addr;
    use std::pin::pin;
    use std::task::Waker;

    /// The activity of a connection with the first permit.
    fn activity(limit: &Rc<ConnectionLimit>) -> Rc<ConnectionActivity> {
        let permit = pin!(limit.acquire()).poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(permit) = permit else { panic!("no permit") };
        let held = ConnectionMemory::new(true).connection(Ipv4Addr::LOCALHOST.into());
        ConnectionActivity::new(permit, held)
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
    fn the_next_request_waits_until_everything_is_sent() {
        let activity = activity(&ConnectionLimit::new(1));
        let written = || pin!(activity.written()).poll(&mut Context::from_waker(Waker::noop()));
        assert!(written().is_ready());
        activity.on_sent(&Poll::<()>::Pending, false);
        assert!(written().is_pending() && activity.awaits_written.get());
        activity.on_sent(&Poll::Ready(()), false);
        assert!(written().is_pending(), "a part was sent");
        activity.on_sent(&Poll::Ready(()), true);
        assert!(written().is_ready() && !activity.awaits_written.get());
    }

    #[test]
    fn what_a_connection_holds_counts_while_it_waits() {
        let limit = ConnectionLimit::new(1);
        let activity = activity(&limit);
        let cx = Context::from_waker(Waker::noop());
        let counted = |buffered: usize| {
            activity.count_held(buffered, &cx);
            activity.held.bytes()
        };
        activity.on_bytes(REQUEST_BYTES_FREE);
        assert_eq!((counted(0), activity.held.is_counted()), (0, false));
        activity.on_bytes(20_000 - REQUEST_BYTES_FREE);
        assert_eq!(counted(0), 40_000, "hyper's buffer has doubled");
        activity.set_busy();
        activity.on_bytes(50_000);
        assert_eq!(counted(7), 90_007);
        activity.on_bytes(150_000);
        assert_eq!(counted(0), 240_000);
        activity.set_upload();
        assert_eq!(counted(0), 40_000 + UPLOAD_BYTES as u64);
        let body = Full::new(Bytes::from_static(b"answer"));
        let answer = AnswerBody::new(body, 30_000, Rc::clone(&activity));
        drop(answer);
        assert_eq!(counted(0), 40_000, "the peer takes everything");
        activity.on_sent(&Poll::<()>::Pending, false);
        assert_eq!(counted(0), 70_000);
        activity.on_sent(&Poll::Ready(()), true);
        assert_eq!(counted(0), 40_000);
    }

    #[test]
    fn a_connection_is_busy_until_its_answer_ends() {
        let mut cx = Context::from_waker(Waker::noop());
        let limit = ConnectionLimit::new(1);
        let activity = activity(&limit);
        activity.set_busy();
        let mut answer = AnswerBody::new(Full::new(Bytes::from_static(b"piece")), 5, Rc::clone(&activity));
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
