use super::*;
use crate::limits::SOCKS_REPLY_BYTES_MAX;

const V4: &str = "192.0.2.7:25";
const V6: &str = "[2001:db8::7]:2525";
const USER: Option<(&str, &str)> = Some(("user", "secret"));
const CONNECT_V4: &[u8] = &[5, 1, 0, 1, 192, 0, 2, 7, 0, 25];
const LOGIN: &[u8] = b"\x01\x04user\x06secret";
const BOUND: &[u8] = &[5, 0, 0, 1, 0, 0, 0, 0, 0, 0];

/// Runs a handshake, and returns the first bytes from the destination. Each turn has the bytes that we must send and the bytes that
/// the proxy answers. The proxy's bytes arrive in pieces of `piece` bytes.
fn run(
    to: &str,
    credentials: Option<(&str, &str)>,
    turns: &[(&[u8], &[u8])],
    piece: usize,
) -> Result<Vec<u8>, HandshakeFailure> {
    let credentials = credentials.map(|(user, password)| Credentials::new(user, password).unwrap());
    let mut handshake = Handshake::new(to.parse().unwrap(), credentials.as_ref());
    for (ours, theirs) in turns {
        assert_eq!(handshake.take_outgoing(), *ours);
        for bytes in theirs.chunks(piece) {
            handshake.receive(bytes)?;
        }
    }
    assert!(handshake.take_outgoing().is_empty());
    if handshake.step() == HandshakeStep::Done {
        Ok(handshake.into_rest())
    } else {
        Err(handshake.on_closed())
    }
}

/// Checks that [`run`] has the expected result for pieces of any length.
fn check(
    to: &str,
    credentials: Option<(&str, &str)>,
    turns: &[(&[u8], &[u8])],
    expected: Result<&[u8], HandshakeFailure>,
) {
    for piece in [1, 2, 3, 7, 600] {
        let got = run(to, credentials, turns, piece);
        assert_eq!(got.as_deref(), expected.as_deref(), "{turns:?} by {piece}");
    }
}

fn proxy(fault: Fault) -> Result<&'static [u8], HandshakeFailure> {
    Err(HandshakeFailure::Proxy(fault))
}

fn destination(why: Unreached) -> Result<&'static [u8], HandshakeFailure> {
    Err(HandshakeFailure::Destination(why))
}

const HELLO: &[u8] = &[5, 1, 0];
const HELLO_USER: &[u8] = &[5, 2, 0, 2];

#[test]
fn the_handshake_goes_by_the_book() {
    check(V4, None, &[(HELLO, &[5, 0]), (CONNECT_V4, BOUND)], Ok(b""));
    check(V4, USER, &[(HELLO_USER, &[5, 2]), (LOGIN, &[1, 0]), (CONNECT_V4, BOUND)], Ok(b""));
    check(V4, USER, &[(HELLO_USER, &[5, 0]), (CONNECT_V4, BOUND)], Ok(b""));
    let connect_v6 = b"\x05\x01\x00\x04\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x07\x09\xdd";
    let bound_v6 = b"\x05\0\0\x04................\0\x19";
    check(V6, None, &[(HELLO, &[5, 0]), (connect_v6, bound_v6)], Ok(b""));
}

#[test]
fn what_comes_behind_the_reply_is_the_destination() {
    let with = |reply: &[u8], rest: &[u8]| [reply, rest].concat();
    let mut named = vec![5, 0, 0, 3, 255];
    named.extend([b'n'; 257]);
    for reply in [BOUND, b"\x05\0\0\x04................\0\x19", b"\x05\0\0\x03\x00\0\x19", &named] {
        check(V4, None, &[(HELLO, &[5, 0]), (CONNECT_V4, &with(reply, b"220 mx\r\n"))], Ok(b"220 mx\r\n"));
    }
    assert_eq!(named.len(), SOCKS_REPLY_BYTES_MAX);
}

#[test]
fn faults_of_the_proxy_are_told_from_those_of_the_destination() {
    let method = |reply: &[u8], expected| check(V4, None, &[(HELLO, reply)], expected);
    method(&[], proxy(Fault::HungUp));
    method(&[5], proxy(Fault::HungUp));
    method(&[5, 255], proxy(Fault::WantsAuthentication));
    method(&[5, 2], proxy(Fault::WantsAuthentication));
    method(&[5, 1], proxy(Fault::WantsAuthentication));
    method(&[4, 0], proxy(Fault::Garbled));
    method(b"HTTP/1.1 400 Bad Request\r\n", proxy(Fault::Garbled));
    method(b"220 mx.example ESMTP\r\n", proxy(Fault::Garbled));

    let login = |reply: &[u8], expected| check(V4, USER, &[(HELLO_USER, &[5, 2]), (LOGIN, reply)], expected);
    login(&[], proxy(Fault::HungUp));
    login(&[1], proxy(Fault::HungUp));
    login(&[1, 1], proxy(Fault::RefusesCredentials));
    login(&[1, 255], proxy(Fault::RefusesCredentials));
    login(&[5, 0], proxy(Fault::Garbled));
    check(V4, USER, &[(HELLO_USER, &[5, 255])], proxy(Fault::WantsAuthentication));

    let connect =
        |reply: &[u8], expected| check(V4, None, &[(HELLO, &[5, 0]), (CONNECT_V4, reply)], expected);
    for (code, why) in [
        (1, Unreached::General),
        (2, Unreached::Forbidden),
        (3, Unreached::NetworkUnreachable),
        (4, Unreached::HostUnreachable),
        (5, Unreached::Refused),
        (6, Unreached::TimedOut),
        (8, Unreached::FamilyUnsupported),
    ] {
        connect(&[5, code], destination(why));
        connect(&[5, code, 0, 1, 0, 0, 0, 0, 0, 0], destination(why));
    }
    connect(&[5, 7, 0, 1, 0, 0, 0, 0, 0, 0], proxy(Fault::NoConnect));
    connect(&[5, 9], proxy(Fault::Garbled));
    connect(&[5, 255], proxy(Fault::Garbled));
    connect(&[4, 0, 0, 1, 0, 0, 0, 0, 0, 0], proxy(Fault::Garbled));
    connect(&[5, 0, 0, 2, 0, 0, 0, 0, 0, 0], proxy(Fault::Garbled));
    for cut in 0..BOUND.len() {
        connect(&BOUND[..cut], destination(Unreached::HungUp));
    }
}

/// A reply to a request that was not sent yet would be taken for the reply to a later request.
#[test]
fn answers_ahead_of_their_question_are_refused() {
    for reply in [&[5, 0, 5][..], &[5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0]] {
        assert_eq!(run(V4, None, &[(HELLO, reply)], 600), Err(HandshakeFailure::Proxy(Fault::Garbled)));
    }
    let turns: &[(&[u8], &[u8])] = &[(HELLO_USER, &[5, 2]), (LOGIN, &[1, 0, 5])];
    assert_eq!(run(V4, USER, turns, 600), Err(HandshakeFailure::Proxy(Fault::Garbled)));
}

/// Whatever two bytes the proxy repeats at a step, the handshake never panics, and never keeps more bytes than the longest reply.
#[test]
fn hostile_octets_are_only_outcomes() {
    for first in 0..=255 {
        for second in 0..=255 {
            for before in [&[][..], &[&[5, 0][..]], &[&[5, 2], &[1, 0]]] {
                let credentials = Credentials::new("user", "secret").unwrap();
                let mut handshake = Handshake::new(V4.parse().unwrap(), Some(&credentials));
                for bytes in before {
                    handshake.receive(bytes).unwrap();
                }
                let mut ended = false;
                for _ in 0..SOCKS_REPLY_BYTES_MAX {
                    ended = ended || handshake.receive(&[first, second]).is_err();
                    if ended || handshake.step() == HandshakeStep::Done {
                        break;
                    }
                }
                assert!(handshake.into_rest().len() <= SOCKS_REPLY_BYTES_MAX);
            }
        }
    }
}

#[test]
fn credentials_fit_their_octet_and_stay_unseen() {
    let long = "x".repeat(256);
    for (user, password) in [("", "a"), ("a", ""), (&long[..], "a"), ("a", &long[..])] {
        assert!(Credentials::new(user, password).is_none());
    }
    assert!(Credentials::new(&long[..255], &long[..255]).is_some());
    assert_eq!(format!("{:?}", Credentials::new("user", "secret")), "Some(Credentials(..))");
}
