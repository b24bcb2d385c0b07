//! A polled stream over rustls's connection object, for the server's side of HTTPS and the client's side of PostgreSQL.
//!
//! The first read makes the handshake, or [`TlsStream::poll_handshake`] before it. Invariant: at most the given number of bytes
//! waits for encryption and sending. Beyond that, writing waits for the peer.

use monoio::io::poll_io::{AsyncRead, AsyncWrite, ReadBuf};
use rustls::Connection;
use std::io::{self, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The bytes that rustls reads at once.
const READ_BYTES: usize = 4096;

/// The meaning of a close of the connection without close_notify (RFC 8446 6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truncation {
    /// The end of the data: the protocol above marks the ends of its messages, as HTTP does.
    End,
    /// An error.
    Error,
}

/// A stream that is encrypted by TLS.
pub struct TlsStream<T> {
    stream: T,
    connection: Connection,
    truncation: Truncation,
    /// close_notify was sent.
    is_closing: bool,
    /// The plaintext that waits for encryption and sending.
    unsent: usize,
    /// The bytes that arrived since the last plaintext.
    incomplete: usize,
}

impl<T: AsyncRead + AsyncWrite + Unpin> TlsStream<T> {
    /// Wraps a stream before its handshake. `unsent_bytes_max` is how much plaintext may wait for sending.
    pub fn new(
        stream: T,
        connection: impl Into<Connection>,
        unsent_bytes_max: usize,
        truncation: Truncation,
    ) -> TlsStream<T> {
        let mut connection = connection.into();
        connection.set_buffer_limit(Some(unsent_bytes_max));
        TlsStream { stream, connection, truncation, is_closing: false, unsent: 0, incomplete: 0 }
    }

    /// Makes the handshake to its end. Its last message is sent too.
    pub fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.poll_send(cx))?;
            if !self.connection.is_handshaking() {
                return Poll::Ready(Ok(()));
            }
            if !ready!(self.poll_receive(cx))? {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// Takes plaintext as far as there is room, and sends what waits if there is none.
    fn poll_take(
        &mut self,
        cx: &mut Context<'_>,
        mut take: impl FnMut(&mut Connection) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let taken = take(&mut self.connection)?;
            self.unsent += taken;
            if taken > 0 {
                return Poll::Ready(Ok(taken));
            }
            // The buffer is full: some bytes must be sent first.
            ready!(self.poll_send(cx))?;
        }
    }

    /// Sends the waiting bytes.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.connection.wants_write() {
            let mut blocking = Blocking { stream: &mut self.stream, cx };
            match self.connection.write_tls(&mut blocking) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        self.unsent = 0;
        Poll::Ready(Ok(()))
    }

    /// Reads bytes of the peer; `false` at their end.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let mut blocking = Blocking { stream: &mut self.stream, cx };
        match self.connection.read_tls(&mut blocking) {
            Ok(0) => return Poll::Ready(Ok(false)),
            Ok(length) => self.incomplete += length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
            Err(error) => return Poll::Ready(Err(error)),
        }
        if let Err(error) = self.connection.process_new_packets() {
            // The alert states the cause; it is sent as far as possible without waiting.
            let _ = self.poll_send(cx);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
        }
        Poll::Ready(Ok(true))
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for TlsStream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            match self.connection.reader().read(buffer.initialize_unfilled()) {
                Ok(length) => {
                    self.incomplete = 0;
                    buffer.advance(length);
                    return Poll::Ready(Ok(()));
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => {}
                    io::ErrorKind::UnexpectedEof if self.truncation == Truncation::End => {
                        return Poll::Ready(Ok(()));
                    }
                    _ => return Poll::Ready(Err(error)),
                },
            }
            // The peer may wait for our part of the handshake before it sends more.
            if let Poll::Ready(Err(error)) = self.poll_send(cx) {
                return Poll::Ready(Err(error));
            }
            if !ready!(self.poll_receive(cx))? {
                let is_cut = self.connection.is_handshaking();
                let end = if is_cut { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) };
                return Poll::Ready(end);
            }
        }
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TlsStream<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.poll_take(cx, |connection| connection.writer().write(bytes))
    }

    /// Without this, the protocol above would copy its bytes into one buffer first.
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if pieces.iter().all(|piece| piece.is_empty()) {
            return Poll::Ready(Ok(0));
        }
        self.poll_take(cx, |connection| connection.writer().write_vectored(pieces))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_closing {
            self.is_closing = true;
            self.connection.send_close_notify();
        }
        ready!(self.poll_send(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl<T> TlsStream<T> {
    /// The bytes that the stream holds: those that wait for sending, and those of messages that are not complete, beyond a read
    /// of rustls.
    pub fn buffered(&self) -> usize {
        self.unsent + if self.incomplete > READ_BYTES { self.incomplete } else { 0 }
    }
}

/// A polled stream with the interface that rustls needs: a pending operation is `WouldBlock`.
struct Blocking<'a, 'c, T> {
    stream: &'a mut T,
    cx: &'a mut Context<'c>,
}

impl<T: AsyncRead + Unpin> Read for Blocking<'_, '_, T> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(bytes);
        match Pin::new(&mut *self.stream).poll_read(self.cx, &mut buffer) {
            Poll::Ready(result) => result.map(|()| buffer.filled().len()),
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl<T: AsyncWrite + Unpin> Write for Blocking<'_, '_, T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match Pin::new(&mut *self.stream).poll_write(self.cx, bytes) {
            Poll::Ready(result) => result,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
