//! The client side of a SOCKS5 handshake, as a machine without I/O: greeting, user name and password, CONNECT to an IP address
//! (RFC 1928, RFC 1929).
//!
//! The destination is always an address and never a name: the address that was checked is the one that is connected to, and the
//! proxy asks no DNS. A reply of the proxy counts against the destination only after a correct handshake. Everything else is a fault
//! of the proxy, and so of ours, and of no mail host.

use crate::limits::SOCKS_CREDENTIAL_BYTES_MAX;
use std::fmt;
use std::net::SocketAddr;

const VERSION: u8 = 5;
/// RFC 1929 has a version of its own.
const AUTH_VERSION: u8 = 1;
const NO_AUTHENTICATION: u8 = 0;
const USER_AND_PASSWORD: u8 = 2;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// The login at a proxy. [`fmt::Debug`] shows neither part.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    user: Box<str>,
    password: Box<str>,
}

impl Credentials {
    /// `None` unless both have 1 to [`SOCKS_CREDENTIAL_BYTES_MAX`] bytes.
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
    /// The proxy's choice of a method.
    Method,
    /// Its answer to user name and password.
    Authentication,
    /// Its answer to CONNECT: until then it is busy with the destination.
    Connect,
    /// Nothing: what comes now is the destination's.
    Done,
}

/// Why a handshake came to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandshakeFailure {
    /// The proxy cannot be used: our fault, and it says nothing about the destination.
    Proxy(Fault),
    /// The proxy could not connect to the destination.
    Destination(Unreached),
}

/// A fault of a proxy, or of its configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The proxy requires a user name and a password, and none are set; or it chose a method that was not offered.
    WantsAuthentication,
    /// It does not take the user name and the password.
    RefusesCredentials,
    /// It is none for SOCKS5, or breaks the protocol.
    Garbled,
    /// It hung up before it was asked to connect.
    HungUp,
    /// It does not know CONNECT.
    NoConnect,
}

impl Fault {
    /// In words, for the operator.
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

/// The reply of a proxy about a destination: RFC 1928 6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreached {
    /// Reply 1: general failure (RFC 1928 6).
    General,
    /// 2: not allowed by its rules, as a local firewall would say.
    Forbidden,
    /// Reply 3: the network cannot be reached.
    NetworkUnreachable,
    /// Reply 4: the host cannot be reached.
    HostUnreachable,
    /// Reply 5: the host refused the connection.
    Refused,
    /// 6: TTL expired, which many use for a connection that timed out.
    TimedOut,
    /// 8: it does not reach addresses of this family.
    FamilyUnsupported,
    /// It hung up in place of a reply.
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

/// One handshake. [`fmt::Debug`] is not derived: it holds the password.
pub struct Handshake<'c> {
    credentials: Option<&'c Credentials>,
    destination: SocketAddr,
    step: HandshakeStep,
    outgoing: Vec<u8>,
    /// The bytes of an incomplete reply; never more than [`crate::limits::SOCKS_REPLY_BYTES_MAX`] and one read.
    received: Vec<u8>,
}

impl<'c> Handshake<'c> {
    /// A handshake on a connection that has just been made.
    pub fn new(destination: SocketAddr, credentials: Option<&'c Credentials>) -> Handshake<'c> {
        // A proxy that knows its clients by their addresses may choose to take no password.
        let outgoing = match credentials {
            Some(_) => vec![VERSION, 2, NO_AUTHENTICATION, USER_AND_PASSWORD],
            None => vec![VERSION, 1, NO_AUTHENTICATION],
        };
        Handshake { credentials, destination, step: HandshakeStep::Method, outgoing, received: Vec::new() }
    }

    /// The reply of the proxy that is awaited.
    pub fn step(&self) -> HandshakeStep {
        self.step
    }

    /// The bytes that are to be sent now; empty when there are none.
    pub fn take_outgoing(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.outgoing)
    }

    /// Bytes came from the proxy.
    ///
    /// # Errors
    /// Why there will be no connection; the handshake is over then.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), HandshakeFailure> {
        self.received.extend_from_slice(bytes);
        match self.step {
            HandshakeStep::Method => self.method(),
            HandshakeStep::Authentication => self.authentication(),
            HandshakeStep::Connect => self.connected(),
            HandshakeStep::Done => Ok(()),
        }
    }

    /// The proxy closed the connection, or it broke.
    pub fn on_closed(&self) -> HandshakeFailure {
        match self.step {
            HandshakeStep::Connect | HandshakeStep::Done => HandshakeFailure::Destination(Unreached::HungUp),
            HandshakeStep::Method | HandshakeStep::Authentication => HandshakeFailure::Proxy(Fault::HungUp),
        }
    }

    /// The bytes after the handshake: the first bytes of the destination.
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

    /// The second byte of a reply of two. Nothing can come behind it: the proxy was not asked.
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

    /// RFC 1928 6. The bound address behind a success is of no use, and a failure needs none: proxies close right
    /// behind it, and some leave it out.
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
