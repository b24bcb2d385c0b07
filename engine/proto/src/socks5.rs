//! The client side of a SOCKS5 handshake, as a state machine without I/O: greeting, user name and password, CONNECT to an IP
//! address (RFC 1928, RFC 1929).
//!
//! The destination is always an IP address and never a name. So the proxy connects to exactly the address that mailprobe has
//! checked, and makes no DNS look-ups. Only the reply to CONNECT, or its absence, can count against the destination. Every other
//! failure is a fault of the proxy or of its configuration, and says nothing about the destination.

use crate::limits::SOCKS_CREDENTIAL_BYTES_MAX;
use std::fmt;
use std::net::SocketAddr;

const VERSION: u8 = 5;
/// The version of the password exchange. RFC 1929 numbers it separately from SOCKS.
const AUTH_VERSION: u8 = 1;
const NO_AUTHENTICATION: u8 = 0;
const USER_AND_PASSWORD: u8 = 2;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// The user name and the password for a proxy. [`fmt::Debug`] shows neither.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    user: Box<str>,
    password: Box<str>,
}

impl Credentials {
    /// Returns `None` unless the user name and the password have 1 to [`SOCKS_CREDENTIAL_BYTES_MAX`] bytes each.
    pub fn new(user: &str, password: &str) -> Option<Credentials> {
        let fits = |text: &str| (1..=SOCKS_CREDENTIAL_BYTES_MAX).contains(&text.len());
        (fits(user) && fits(password)).then(|| Credentials { user: user.into(), password: password.into() })
    }

    /// The user name, from 1 to 255 bytes.
    pub fn user(&self) -> &str {
        &self.user
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(..)")
    }
}

/// The reply that a handshake waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandshakeStep {
    /// The method of authentication that the proxy chooses.
    Method,
    /// The proxy's reply to the user name and the password.
    Authentication,
    /// The proxy's reply to CONNECT. Until it arrives, the proxy is trying to reach the destination.
    Connect,
    /// No reply: the handshake is complete, and all further bytes come from the destination.
    Done,
}

/// Why a handshake failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandshakeFailure {
    /// The proxy cannot be used. This fault is on our side, and says nothing about the destination.
    Proxy(Fault),
    /// The proxy could not connect to the destination.
    Destination(Unreached),
}

/// A fault of a proxy, or of its configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The proxy accepts none of the offered methods, for example because it requires a user name and a password, and none are set.
    WantsAuthentication,
    /// The proxy rejects the user name and the password.
    RefusesCredentials,
    /// The proxy does not speak SOCKS5, or violates the protocol.
    Garbled,
    /// The proxy closed the connection before it was asked to connect.
    HungUp,
    /// Reply 7 to CONNECT: the proxy does not support this command.
    NoConnect,
}

impl Fault {
    /// The fault in words, for the operator.
    pub fn as_str(self) -> &'static str {
        match self {
            Fault::WantsAuthentication => {
                "it requires a user name and a password, or a method that mailprobe does not support"
            }
            Fault::RefusesCredentials => "it refuses the user name and the password",
            Fault::Garbled => "it does not speak SOCKS5",
            Fault::HungUp => "it closed the connection during the handshake",
            Fault::NoConnect => "it does not allow connections",
        }
    }
}

/// Why the proxy could not connect to the destination: its reply to CONNECT (RFC 1928 6), or no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreached {
    /// Reply 1: general failure.
    General,
    /// Reply 2: the rules of the proxy do not allow the connection.
    Forbidden,
    /// Reply 3: the network cannot be reached.
    NetworkUnreachable,
    /// Reply 4: the host cannot be reached.
    HostUnreachable,
    /// Reply 5: the host refused the connection.
    Refused,
    /// Reply 6: TTL expired. Many proxies use it for a connection that timed out.
    TimedOut,
    /// Reply 8: the proxy does not reach addresses of this family.
    FamilyUnsupported,
    /// The proxy closed the connection without a reply to CONNECT.
    HungUp,
}

impl Unreached {
    /// The failure in words, for traces.
    pub fn as_str(self) -> &'static str {
        match self {
            Unreached::General => "general failure",
            Unreached::Forbidden => "not allowed by the proxy's rules",
            Unreached::NetworkUnreachable => "network unreachable",
            Unreached::HostUnreachable => "host unreachable",
            Unreached::Refused => "connection refused",
            Unreached::TimedOut => "timed out",
            Unreached::FamilyUnsupported => "the proxy does not reach addresses of this family",
            Unreached::HungUp => "the proxy closed the connection",
        }
    }
}

/// One handshake. [`fmt::Debug`] is not derived, because the handshake holds the password.
pub struct Handshake<'c> {
    credentials: Option<&'c Credentials>,
    destination: SocketAddr,
    step: HandshakeStep,
    outgoing: Vec<u8>,
    /// The bytes that are not parsed yet: an incomplete reply, or the first bytes from the destination. At most
    /// [`crate::limits::SOCKS_REPLY_BYTES_MAX`] bytes, plus the bytes of one read.
    received: Vec<u8>,
}

impl<'c> Handshake<'c> {
    /// Begins a handshake on a new connection.
    pub fn new(destination: SocketAddr, credentials: Option<&'c Credentials>) -> Handshake<'c> {
        // A proxy that identifies its clients by their addresses may want no password. So the method without authentication is
        // offered too.
        let outgoing = match credentials {
            Some(_) => vec![VERSION, 2, NO_AUTHENTICATION, USER_AND_PASSWORD],
            None => vec![VERSION, 1, NO_AUTHENTICATION],
        };
        Handshake { credentials, destination, step: HandshakeStep::Method, outgoing, received: Vec::new() }
    }

    /// The reply that the handshake waits for.
    pub fn step(&self) -> HandshakeStep {
        self.step
    }

    /// Takes the bytes that are to be sent now. Empty if there are none.
    pub fn take_outgoing(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.outgoing)
    }

    /// Takes in bytes from the proxy.
    ///
    /// # Errors
    /// The reason for the failure. The handshake is then over.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), HandshakeFailure> {
        self.received.extend_from_slice(bytes);
        match self.step {
            HandshakeStep::Method => self.method(),
            HandshakeStep::Authentication => self.authentication(),
            HandshakeStep::Connect => self.connected(),
            HandshakeStep::Done => Ok(()),
        }
    }

    /// The failure of the handshake, if the connection was closed or broke.
    pub fn on_closed(&self) -> HandshakeFailure {
        match self.step {
            HandshakeStep::Connect | HandshakeStep::Done => HandshakeFailure::Destination(Unreached::HungUp),
            HandshakeStep::Method | HandshakeStep::Authentication => HandshakeFailure::Proxy(Fault::HungUp),
        }
    }

    /// The bytes after the handshake: the first bytes from the destination.
    pub fn into_rest(self) -> Vec<u8> {
        self.received
    }

    fn method(&mut self) -> Result<(), HandshakeFailure> {
        let Some(method) = self.pair(VERSION)? else { return Ok(()) };
        match (method, self.credentials) {
            (NO_AUTHENTICATION, _) => self.ask_to_connect(),
            (USER_AND_PASSWORD, Some(credentials)) => {
                self.outgoing.push(AUTH_VERSION);
                for text in [&credentials.user, &credentials.password] {
                    self.outgoing.push(text.len() as u8);
                    self.outgoing.extend_from_slice(text.as_bytes());
                }
                self.step = HandshakeStep::Authentication;
            }
            _ => return Err(HandshakeFailure::Proxy(Fault::WantsAuthentication)),
        }
        Ok(())
    }

    fn authentication(&mut self) -> Result<(), HandshakeFailure> {
        match self.pair(AUTH_VERSION)? {
            None => {}
            Some(0) => self.ask_to_connect(),
            Some(_) => return Err(HandshakeFailure::Proxy(Fault::RefusesCredentials)),
        }
        Ok(())
    }

    /// The second byte of a reply of two bytes; `None` if the reply is incomplete. More bytes are a fault, because the proxy has
    /// not been asked anything else yet.
    fn pair(&mut self, version: u8) -> Result<Option<u8>, HandshakeFailure> {
        match *self.received {
            [] => Ok(None),
            [first] if first == version => Ok(None),
            [first, second] if first == version => {
                self.received.clear();
                Ok(Some(second))
            }
            _ => Err(HandshakeFailure::Proxy(Fault::Garbled)),
        }
    }

    fn ask_to_connect(&mut self) {
        self.outgoing.extend_from_slice(&[VERSION, CONNECT, 0]);
        match self.destination {
            SocketAddr::V4(to) => {
                self.outgoing.push(IPV4);
                self.outgoing.extend_from_slice(&to.ip().octets());
            }
            SocketAddr::V6(to) => {
                self.outgoing.push(IPV6);
                self.outgoing.extend_from_slice(&to.ip().octets());
            }
        }
        self.outgoing.extend_from_slice(&self.destination.port().to_be_bytes());
        self.step = HandshakeStep::Connect;
    }

    /// Reads the reply to CONNECT (RFC 1928 6). If the proxy is connected, the bound address in the reply is read and ignored. A
    /// failure counts as soon as its code has arrived, because some proxies leave out the bound address, and many close the
    /// connection directly after the code.
    fn connected(&mut self) -> Result<(), HandshakeFailure> {
        let (version, code) = match *self.received {
            [version, code, ..] => (version, code),
            [VERSION] | [] => return Ok(()),
            [_] => return Err(HandshakeFailure::Proxy(Fault::Garbled)),
        };
        if version != VERSION {
            return Err(HandshakeFailure::Proxy(Fault::Garbled));
        }
        if code != 0 {
            return Err(failure(code));
        }
        let length = match *self.received {
            [_, _, _, IPV4, ..] => 4 + 4 + 2,
            [_, _, _, IPV6, ..] => 4 + 16 + 2,
            [_, _, _, NAME, length, ..] => 4 + 1 + usize::from(length) + 2,
            [_, _, _, NAME] | [_, _, _] | [_, _] => return Ok(()),
            _ => return Err(HandshakeFailure::Proxy(Fault::Garbled)),
        };
        if self.received.len() >= length {
            self.received.drain(..length);
            self.step = HandshakeStep::Done;
        }
        Ok(())
    }
}

fn failure(code: u8) -> HandshakeFailure {
    HandshakeFailure::Destination(match code {
        1 => Unreached::General,
        2 => Unreached::Forbidden,
        3 => Unreached::NetworkUnreachable,
        4 => Unreached::HostUnreachable,
        5 => Unreached::Refused,
        6 => Unreached::TimedOut,
        7 => return HandshakeFailure::Proxy(Fault::NoConnect),
        8 => Unreached::FamilyUnsupported,
        _ => return HandshakeFailure::Proxy(Fault::Garbled),
    })
}

#[cfg(test)]
mod tests;
