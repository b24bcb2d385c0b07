//! A polled stream over the client's side of rustls, for [`tokio_postgres`]. The server of mailprobe has the same for
//! its own side.

use super::tls::Endpoint;
use monoio::io::poll_io::{AsyncRead, AsyncWrite, ReadBuf};
use rustls::ClientConnection;
use std::future::Future;
use std::io::{self, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio_postgres::tls::{ChannelBinding, TlsConnect};

/// How much plaintext may wait for encryption and sending, in bytes; beyond that, writing waits for the server.
const UNSENT_BYTES_MAX: usize = 256 * 1024;

/// A stream that is encrypted by TLS, after its handshake.
pub struct TlsStream<T> {
    stream: T,
    connection: ClientConnection,
    /// close_notify was sent.
    is_closing: bool,
}

impl<T: AsyncRead + AsyncWrite + Unpin> TlsStream<T> {
    /// Makes the handshake.
    fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            // Also the last message of the handshake must leave before the first query.
            match self.poll_send(cx) {
                Poll::Ready(Ok(())) if !self.connection.is_handshaking() => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(())) => {}
                other => return other,
            }
            match self.poll_receive(cx) {
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(Ok(false)) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
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
        Poll::Ready(Ok(()))
    }

    /// Reads bytes of the server; `false` at their end.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let mut blocking = Blocking { stream: &mut self.stream, cx };
        match self.connection.read_tls(&mut blocking) {
            Ok(0) => return Poll::Ready(Ok(false)),
            Ok(_) => {}
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
                    buffer.advance(length);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
            // TLS may have to answer something, such as a new key of the server, before more comes.
            if let Poll::Ready(Err(error)) = self.poll_send(cx) {
                return Poll::Ready(Err(error));
            }
            match self.poll_receive(cx) {
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(Ok(false)) => return Poll::Ready(Ok(())),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TlsStream<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let taken = self.connection.writer().write(bytes)?;
            if taken > 0 || bytes.is_empty() {
                return Poll::Ready(Ok(taken));
            }
            // The buffer is full: some bytes must be sent first.
            match self.poll_send(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.poll_send(cx) {
            Poll::Ready(Ok(())) => Pin::new(&mut self.stream).poll_flush(cx),
            other => other,
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_closing {
            self.is_closing = true;
            self.connection.send_close_notify();
        }
        match self.poll_send(cx) {
            Poll::Ready(Ok(())) => Pin::new(&mut self.stream).poll_shutdown(cx),
            other => other,
        }
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> tokio_postgres::tls::TlsStream for TlsStream<T> {
    /// No channel binding: the login is SCRAM without it, and the certificate proves the server.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

/// A handshake under way, which becomes its stream.
pub struct Handshake<T>(Option<Result<TlsStream<T>, io::Error>>);

impl<T: AsyncRead + AsyncWrite + Unpin> Future for Handshake<T> {
    type Output = io::Result<TlsStream<T>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = match &mut self.0 {
            Some(Ok(stream)) => stream.poll_handshake(cx),
            _ => Poll::Ready(Ok(())),
        };
        match polled {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) => {
                Poll::Ready(self.0.take().unwrap_or_else(|| Err(io::ErrorKind::NotConnected.into())))
            }
        }
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> TlsConnect<T> for Endpoint {
    type Stream = TlsStream<T>;
    type Error = io::Error;
    type Future = Handshake<T>;

    fn connect(self, stream: T) -> Handshake<T> {
        let connection = self.begin();
        Handshake(Some(connection.map(|mut connection| {
            connection.set_buffer_limit(Some(UNSENT_BYTES_MAX));
            TlsStream { stream, connection, is_closing: false }
        })))
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
