//! Tells a connection that is idle from one whose head comes slowly.
//!
//! hyper has one timer for both. An idle connection is cheap, and proxies that keep one open for a minute would
//! run into a server that closes it sooner; a head that has begun has no reason to take long. So hyper's timer has
//! the longer time, and this keeps the shorter one.

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

/// What a connection does.
pub struct Pulse(Cell<State>);

impl Pulse {
    /// Of a connection that was just accepted: whoever connects has something to say.
    pub fn new() -> Rc<Pulse> {
        Rc::new(Pulse(Cell::new(State::Head(Instant::now()))))
    }

    /// A head has come whole.
    pub fn busy(&self) {
        self.0.set(State::Busy);
    }

    /// The answer is made.
    pub fn idle(&self) {
        self.0.set(State::Idle);
    }

    fn bytes_came(&self) {
        if self.0.get() == State::Idle {
            self.0.set(State::Head(Instant::now()));
        }
    }
}

/// Ends when a head takes longer than `head_time_max`. Polled whenever the connection is.
pub struct Watch {
    pulse: Rc<Pulse>,
    head_time_max: Duration,
    timer: Option<(Instant, Pin<Box<monoio::time::Sleep>>)>,
}

impl Watch {
    /// Watches this pulse.
    pub fn new(pulse: Rc<Pulse>, head_time_max: Duration) -> Watch {
        Watch { pulse, head_time_max, timer: None }
    }

    /// Ready when the head has taken too long.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let State::Head(since) = self.pulse.0.get() else {
            self.timer = None;
            return Poll::Pending;
        };
        if self.timer.as_ref().is_none_or(|(begun, _)| *begun != since) {
            self.timer =
                Some((since, Box::pin(monoio::time::sleep_until((since + self.head_time_max).into()))));
        }
        match &mut self.timer {
            Some((_, sleep)) => sleep.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

/// A stream that notes when bytes come.
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
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
