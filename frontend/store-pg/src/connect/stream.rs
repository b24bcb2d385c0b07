//! TLS for [`tokio_postgres`], by the stream that HTTPS of the server uses too.

use super::tls::Endpoint;
use monoio::io::poll_io::{AsyncRead, AsyncWrite, ReadBuf};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tls_stream::{TlsStream, Truncation};
use tokio_postgres::tls::{ChannelBinding, TlsConnect};

/// How much plaintext may wait for encryption and sending, in bytes; beyond that, writing waits for the server.
const UNSENT_BYTES_MAX: usize = 256 * 1024;

/// The stream in a type of this crate, so that it can implement a trait of tokio-postgres.
pub struct PgTlsStream<T>(TlsStream<T>);

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for PgTlsStream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for PgTlsStream<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> tokio_postgres::tls::TlsStream for PgTlsStream<T> {
    /// No channel binding: the login is SCRAM without it, and the certificate proves the server.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

/// A handshake under way, which becomes its stream.
pub struct Handshake<T>(Option<Result<PgTlsStream<T>, io::Error>>);

impl<T: AsyncRead + AsyncWrite + Unpin> Future for Handshake<T> {
    type Output = io::Result<PgTlsStream<T>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(Ok(stream)) = &mut self.0 {
            ready!(stream.0.poll_handshake(cx))?;
        }
        Poll::Ready(self.0.take().unwrap_or_else(|| Err(io::ErrorKind::NotConnected.into())))
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> TlsConnect<T> for Endpoint {
    type Stream = PgTlsStream<T>;
    type Error = io::Error;
    type Future = Handshake<T>;

    fn connect(self, stream: T) -> Handshake<T> {
        let wrap =
            |connection| PgTlsStream(TlsStream::new(stream, connection, UNSENT_BYTES_MAX, Truncation::Error));
        Handshake(Some(self.begin().map(wrap)))
    }
}
