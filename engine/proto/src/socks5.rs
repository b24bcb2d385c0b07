//! The client's side of a SOCKS5 handshake, as a machine without I/O: greeting, user name and password, CONNECT to an
//! IP address (RFC 1928, RFC 1929).
//!
//! The destination is always an address, never a name: what was checked is what is connected to, and the proxy asks
//! no DNS. What a proxy says is believed about the destination alone, and only behind a handshake that went by the
//! book; everything else is a fault of the proxy, and so of ours, and no mail host's.

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

/// Longest user name or password: RFC 1929 2 counts them in a byte.
pub const CREDENTIAL_BYTES_MAX: usize = 255;
/// Longest reply: to CONNECT, with a name of 255 bytes as the bound address.
pub const REPLY_BYTES_MAX: usize = 4 + 1 + 255 + 2;

/// What a proxy knows us by. [`fmt::Debug`] shows neither.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    user: Box<str>,
    password: Box<str>,
}

impl Credentials {
    /// `None` unless both have 1 to [`CREDENTIAL_BYTES_MAX`] bytes.
    pub fn new(user: &str, password: &str) -> Option<Credentials> {
        let fits = |text: &str| (1..=CREDENTIAL_BYTES_MAX).contains(&text.len());
        (fits(user) && fits(password)).then(|| Credentials { user: user.into(), password: password.into() })
    }

    /// The user name.
    pub fn user(&self) -> &str {
        &self.user
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(..)")
    }
}

/// What a handshake waits for.
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

/// What is wrong with a proxy, or with what it was told of us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It wants a user name and a password, and none are set; or some method that nobody asked for.
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
                "it wants a user name and a password, or another method that is not set"
            }
            Fault::RefusesCredentials => "it refuses the user name and the password",
            Fault::Garbled => "it does not speak SOCKS5",
            Fault::HungUp => "it hung up in the middle of the handshake",
            Fault::NoConnect => "it does not let anybody connect",
        }
    }
}

/// What a proxy says of a destination: RFC 1928 6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreached {
    /// 1: general failure.
    General,
    /// 2: not allowed by its rules, as a local firewall would say.
    Forbidden,
    /// 3.
    NetworkUnreachable,
    /// 4.
    HostUnreachable,
    /// 5.
    Refused,
    /// 6: TTL expired, which many use for a connection that timed out.
    TimedOut,
    /// 8: it does not reach addresses of this family.
    FamilyUnsupported,
    /// It hung up in place of a reply.
    HungUp,
}

impl Unreached {
    /// In words, for stories.
    pub fn as_str(self) -> &'static str {
        match self {
            Unreached::General => "general failure",
            Unreached::Forbidden => "not allowed by the proxy's rules",
            Unreached::NetworkUnreachable => "network unreachable",
            Unreached::HostUnreachable => "host unreachable",
            Unreached::Refused => "connection refused",
            Unreached::TimedOut => "timed out",
            Unreached::FamilyUnsupported => "the proxy does not reach addresses of this family",
            Unreached::HungUp => "the proxy hung up",
        }
    }
}

/// One handshake. [`fmt::Debug`] is not derived: it holds the password.
pub struct Handshake<'c> {
    credentials: Option<&'c Credentials>,
    destination: SocketAddr,
    step: HandshakeStep,
    outgoing: Vec<u8>,
    /// What came of a reply that is not whole; never longer than [`REPLY_BYTES_MAX`] and one read.
    received: Vec<u8>,
}

impl<'c> Handshake<'c> {
    /// A handshake on a connection that has just been made.
    pub fn new(destination: SocketAddr, credentials: Option<&'c Credentials>) -> Handshake<'c> {
        // A proxy that knows everybody by their address may choose to hear no password.
        let outgoing = match credentials {
            Some(_) => vec![VERSION, 2, NO_AUTHENTICATION, USER_AND_PASSWORD],
            None => vec![VERSION, 1, NO_AUTHENTICATION],
        };
        Handshake { credentials, destination, step: HandshakeStep::Method, outgoing, received: Vec::new() }
    }

    /// What it waits for.
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
    pub fn closed(&self) -> HandshakeFailure {
        match self.step {
            HandshakeStep::Connect | HandshakeStep::Done => HandshakeFailure::Destination(Unreached::HungUp),
            HandshakeStep::Method | HandshakeStep::Authentication => HandshakeFailure::Proxy(Fault::HungUp),
        }
    }

    /// What came behind the handshake: the first bytes of the destination.
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
#[path = "socks5_tests.rs"]
mod tests;
