//! Tells what a connection does: whether it is idle, its head comes slowly, or its peer does not take the answer.
//!
//! hyper has one timer for an idle connection and for a head that comes slowly, and none for writing. An idle
//! connection is cheap, and proxies that keep one open for a minute would run into a server that closes it sooner; a
//! head that has begun has no reason to take long, and no answer is so large that a peer needs long to take it. So
//! hyper's timer has the longest time, and this keeps the shorter ones.

use crate::gate::Place;
use monoio::io::poll_io::{AsyncRead, AsyncWrite, ReadBuf};
use std::cell::Cell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

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
pub struct Pulse {
    state: Cell<State>,
    /// Since when the peer has not taken all that was written.
    unsent: Cell<Option<Instant>>,
    /// Its place, which it gives way with while it is idle.
    pub place: Place,
}

impl Pulse {
    /// Of a connection that was just accepted: whoever connects has something to say.
    pub fn new(place: Place) -> Rc<Pulse> {
        let state = Cell::new(State::Head(Instant::now()));
        Rc::new(Pulse { state, unsent: Cell::new(None), place })
    }

    /// A head has come whole.
    pub fn busy(&self) {
        self.state.set(State::Busy);
        self.place.busy();
    }

    /// The answer is made.
    pub fn idle(&self) {
        self.state.set(State::Idle);
        self.place.idle();
    }

    fn bytes_came(&self) {
        if self.state.get() == State::Idle {
            self.state.set(State::Head(Instant::now()));
            self.place.busy();
        }
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

/// How long the parts of a request and its answer may take.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For a head, from its first byte or the connection's beginning.
    pub head: Duration,
    /// For the peer to take all that was written.
    pub write: Duration,
}

/// Ends when a head or an answer takes too long. Polled whenever the connection is.
pub struct Watch {
    pulse: Rc<Pulse>,
    patience: Patience,
    timer: Option<(Instant, Pin<Box<monoio::time::Sleep>>)>,
}

impl Watch {
    /// Watches this pulse.
    pub fn new(pulse: Rc<Pulse>, patience: Patience) -> Watch {
        Watch { pulse, patience, timer: None }
    }

    /// Ready when something has taken too long.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let head = match self.pulse.state.get() {
            State::Head(since) => Some(since + self.patience.head),
            State::Idle | State::Busy => None,
        };
        let write = self.pulse.unsent.get().map(|since| since + self.patience.write);
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
    pulse: Rc<Pulse>,
}

impl<T> Watched<T> {
    /// Watches this stream.
    pub fn new(stream: T, pulse: Rc<Pulse>) -> Watched<T> {
        Watched { stream, pulse }
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
            self.pulse.bytes_came();
        }
        polled
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Watched<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.pulse.sent(&polled, false);
        polled
    }

    /// hyper flushes when it has written all that it had.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.pulse.sent(&polled, true);
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.pulse.sent(&polled, true);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.pulse.sent(&polled, false);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
