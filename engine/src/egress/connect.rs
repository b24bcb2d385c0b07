//! Opens connections to mail servers from a source: from an IP address of this machine, or through a SOCKS5 proxy (RFC 1928).

use super::{Source, Way, is_gone};
use crate::runtime::{ByteStream, Runtime};
use engine_proto::limits::{CONNECT_TIMEOUT, PROXY_ADDRESSES_MAX, PROXY_TIMEOUT, SOCKS_REPLY_BYTES_MAX};
use engine_proto::socks5::{Credentials, Fault, Handshake, HandshakeFailure, HandshakeStep, Unreached};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// The reason why a connection could not be opened.
#[derive(Debug)]
pub(crate) enum Unconnected {
    /// The mail server cannot be reached.
    Host(io::Error),
    /// This machine is out of descriptors, ports or memory, which says nothing about the mail server or the source.
    Ours(io::Error),
    /// The source cannot be used, which says nothing about the mail server. The text is the reason.
    Source(String),
}

impl fmt::Display for Unconnected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unconnected::Host(error) | Unconnected::Ours(error) => error.fmt(f),
            Unconnected::Source(why) => write!(f, "the source cannot be used: {why}"),
        }
    }
}

impl Source {
    /// Connects to `destination` before `limit`. Also returns the first bytes from the mail server, if they arrived together with
    /// the last reply of a proxy.
    ///
    /// # Errors
    /// [`Unconnected`]. If the mail server does not answer within [`CONNECT_TIMEOUT`] or before `limit`, this is
    /// [`Unconnected::Host`].
    pub(crate) async fn connect<R: Runtime>(
        &self,
        destination: SocketAddr,
        limit: Instant,
    ) -> Result<(R::Stream, Vec<u8>), Unconnected> {
        let source = match &self.way {
            Way::Kernel => None,
            Way::Address(address) => Some(*address),
            Way::Proxy { at, credentials } => {
                // Boxed, because otherwise the future of every connection would reserve memory for the handshake with a proxy.
                return Box::pin(through::<R>(at, credentials.as_ref(), destination, limit)).await;
            }
        };
        let deadline = (R::now() + CONNECT_TIMEOUT).min(limit);
        let vanished = |error: &io::Error| {
            error.kind() == io::ErrorKind::AddrNotAvailable && source.is_some_and(is_gone)
        };
        match R::connect(source, destination, deadline).await {
            Ok(stream) => Ok((stream, Vec::new())),
            Err(error) if vanished(&error) => {
                Err(Unconnected::Source("the address is no longer an address of this machine".into()))
            }
            Err(error) if is_ours(&error) => Err(Unconnected::Ours(error)),
            Err(error) => Err(Unconnected::Host(error)),
        }
    }

    /// Checks that a proxy accepts the login. A source without a proxy passes unchecked.
    ///
    /// # Errors
    /// [`Unconnected`] if the proxy cannot be reached, does not answer in time, or does not accept the login.
    pub(crate) async fn check_login<R: Runtime>(&self) -> Result<(), Unconnected> {
        let Way::Proxy { at, credentials } = &self.way else { return Ok(()) };
        // Any destination will do, because the handshake stops before it names the destination to the proxy.
        let Some(destination) = at.addresses.first() else { return Ok(()) };
        let mut handshake = Handshake::new(*destination, credentials.as_ref());
        enter::<R>(at, &mut handshake, R::now() + PROXY_TIMEOUT).await.map(drop)
    }
}

/// The addresses of a proxy, at least one, in the order in which the system's resolver gave them.
pub(super) struct ProxyAddresses {
    addresses: Vec<SocketAddr>,
    /// The index of the address that last accepted a connection. The next connection tries this address first.
    last: AtomicUsize,
}

impl ProxyAddresses {
    /// Keeps up to [`PROXY_ADDRESSES_MAX`] addresses. `None` if there are none.
    pub(super) fn new(found: impl Iterator<Item = SocketAddr>) -> Option<ProxyAddresses> {
        let addresses: Vec<SocketAddr> = found.take(PROXY_ADDRESSES_MAX).collect();
        (!addresses.is_empty()).then(|| ProxyAddresses { addresses, last: AtomicUsize::new(0) })
    }

    /// Tries one address after the other until one accepts. The time that is left until the deadline is shared equally among the
    /// addresses that are left, so a silent address leaves time for the others.
    async fn connect<R: Runtime>(&self, deadline: Instant) -> Result<R::Stream, Unconnected> {
        let (count, first) = (self.addresses.len(), self.last.load(Ordering::Relaxed));
        let mut tried = 0;
        loop {
            let index = (first + tried) % count;
            let left = deadline.saturating_duration_since(R::now());
            let share = left / u32::try_from(count - tried).unwrap_or(1);
            tried += 1;
            match R::connect(None, self.addresses[index], R::now() + share).await {
                Ok(stream) => {
                    self.last.store(index, Ordering::Relaxed);
                    return Ok(stream);
                }
                Err(_) if tried < count => {}
                Err(error) if is_ours(&error) => return Err(Unconnected::Ours(error)),
                Err(error) => {
                    return Err(Unconnected::Source(format!("the proxy cannot be reached: {error}")));
                }
            }
        }
    }
}

/// Connects to `destination` through a proxy. Also returns the bytes that arrived after the last reply of the proxy.
async fn through<R: Runtime>(
    proxy: &ProxyAddresses,
    credentials: Option<&Credentials>,
    destination: SocketAddr,
    limit: Instant,
) -> Result<(R::Stream, Vec<u8>), Unconnected> {
    let mut handshake = Handshake::new(destination, credentials);
    let mut stream = enter::<R>(proxy, &mut handshake, limit).await?;
    // From here on, the proxy waits for the destination, so a timeout counts against the destination.
    let deadline = (R::now() + CONNECT_TIMEOUT).min(limit);
    negotiate(&mut stream, &mut handshake, HandshakeStep::Done, deadline).await.map_err(
        |error| match error {
            NegotiationError::TimedOut => Unconnected::Host(io::ErrorKind::TimedOut.into()),
            NegotiationError::Failed(failure) => unconnected(failure),
        },
    )?;
    Ok((stream, handshake.into_rest()))
}

/// Connects to a proxy and logs in. The next message of the handshake is CONNECT.
async fn enter<R: Runtime>(
    proxy: &ProxyAddresses,
    handshake: &mut Handshake<'_>,
    limit: Instant,
) -> Result<R::Stream, Unconnected> {
    let deadline = (R::now() + PROXY_TIMEOUT).min(limit);
    let mut stream = proxy.connect::<R>(deadline).await?;
    negotiate(&mut stream, handshake, HandshakeStep::Connect, deadline).await.map_err(
        |error| match error {
            NegotiationError::TimedOut => Unconnected::Source("the proxy does not answer".into()),
            NegotiationError::Failed(failure) => unconnected(failure),
        },
    )?;
    Ok(stream)
}

enum NegotiationError {
    TimedOut,
    Failed(HandshakeFailure),
}

/// Continues the handshake until it has reached the step `until`.
async fn negotiate<S: ByteStream>(
    stream: &mut S,
    handshake: &mut Handshake<'_>,
    until: HandshakeStep,
    deadline: Instant,
) -> Result<(), NegotiationError> {
    let broken = |handshake: &Handshake<'_>, error: &io::Error| match error.kind() {
        io::ErrorKind::TimedOut => NegotiationError::TimedOut,
        _ => NegotiationError::Failed(handshake.on_closed()),
    };
    while handshake.step() != until {
        let outgoing = handshake.take_outgoing();
        if !outgoing.is_empty() {
            stream.write(outgoing, deadline).await.0.map_err(|error| broken(handshake, &error))?;
        }
        let (result, bytes) = stream.read(Vec::with_capacity(SOCKS_REPLY_BYTES_MAX), deadline).await;
        match result {
            Ok(0) => return Err(NegotiationError::Failed(handshake.on_closed())),
            Ok(_) => handshake.receive(&bytes).map_err(NegotiationError::Failed)?,
            Err(error) => return Err(broken(handshake, &error)),
        }
    }
    Ok(())
}

fn unconnected(failure: HandshakeFailure) -> Unconnected {
    match failure {
        HandshakeFailure::Proxy(fault) => Unconnected::Source(in_words(fault)),
        HandshakeFailure::Destination(why) => {
            let kind = match why {
                Unreached::General => io::ErrorKind::Other,
                Unreached::Forbidden => io::ErrorKind::PermissionDenied,
                Unreached::NetworkUnreachable => io::ErrorKind::NetworkUnreachable,
                Unreached::HostUnreachable => io::ErrorKind::HostUnreachable,
                Unreached::Refused => io::ErrorKind::ConnectionRefused,
                Unreached::TimedOut => io::ErrorKind::TimedOut,
                Unreached::FamilyUnsupported => io::ErrorKind::Unsupported,
                Unreached::HungUp => io::ErrorKind::ConnectionReset,
            };
            Unconnected::Host(io::Error::new(kind, why.as_str()))
        }
    }
}

fn in_words(fault: Fault) -> String {
    format!("the proxy is at fault: {}", fault.as_str())
}

/// Whether the error means that this machine is out of descriptors, ports or memory.
fn is_ours(error: &io::Error) -> bool {
    let ours =
        [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM, libc::EADDRNOTAVAIL, libc::EADDRINUSE];
    error.raw_os_error().is_some_and(|code| ours.contains(&code))
}
