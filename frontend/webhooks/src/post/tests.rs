//! Receivers that behave and misbehave, on loopback.

use super::*;
use engine::config::Network;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const HEAD: &str = "HTTP/1.1 200 OK\r\n";

fn loopback() -> Destinations {
    Destinations::new(vec![Network::parse("127.0.0.0/8").expect("a network")])
}

impl Poster {
    /// The result of an attempt that has its place.
    fn post_now(&self, url: &WebhookUrl, outgoing: &Outgoing<'_>) -> AttemptResult {
        self.post(url, outgoing).expect("a place")
    }
}

fn poster(time_max: Duration) -> Poster {
    Poster { time_max, ..Poster::new(loopback()).expect("TLS") }
}

fn outgoing(body: &[u8]) -> Outgoing<'_> {
    Outgoing { account: [1; 16], id: "msg_1".into(), timestamp: 7, signature: "v1,x".into(), body }
}

/// Sends a message to a receiver that does this with its connection.
fn post_to(receive: impl FnOnce(TcpStream) + Send + 'static, time_max: Duration) -> AttemptResult {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("it is bound").port();
    let receiver = thread::spawn(move || receive(listener.accept().expect("a connection").0));
    let url = WebhookUrl::parse(&format!("http://127.0.0.1:{port}/in?x=1"), &loopback()).expect("a URL");
    let result = poster(time_max).post_now(&url, &outgoing(b"{}"));
    receiver.join().expect("the receiver has no fault");
    result
}

/// Reads a request with a body of two bytes.
fn read_request(stream: &mut TcpStream) -> String {
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n{}") && stream.read(&mut byte).is_ok_and(|length| length > 0) {
        request.push(byte[0]);
    }
    String::from_utf8(request).expect("text")
}

fn answer(text: impl Into<Vec<u8>>) -> impl FnOnce(TcpStream) + Send + 'static {
    let text = text.into();
    move |mut stream| {
        read_request(&mut stream);
        // The client may have closed.
        let _ = stream.write_all(&text);
    }
}

#[test]
fn a_request_has_what_the_standard_wants() {
    let expected = |port: u16| {
        format!(
            "POST /in?x=1 HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nuser-agent: mailprobe\r\naccept: */*\r\n\
             content-type: application/json\r\ncontent-length: 2\r\nwebhook-id: msg_1\r\nwebhook-timestamp: 7\r\n\
             webhook-signature: v1,x\r\nconnection: close\r\n\r\n{{}}"
        )
    };
    let receive = move |mut stream: TcpStream| {
        let port = stream.local_addr().expect("it is connected").port();
        assert_eq!(read_request(&mut stream), expected(port));
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").expect("it is read");
    };
    assert_eq!(post_to(receive, TIME_MAX), AttemptResult::Status(204));
}

#[test]
fn only_the_status_matters() {
    let huge = format!("{HEAD}Content-Length: 100000000\r\n\r\n{}", "x".repeat(1_000_000));
    let chunked = format!("{HEAD}Transfer-Encoding: chunked\r\n\r\nzz\r\n");
    for (text, expected) in [
        (format!("{HEAD}Content-Length: 2\r\n\r\nok"), Ok(200)),
        (format!("{HEAD}Content-Length: 9\r\n\r\nok"), Ok(200)),
        (format!("{HEAD}\r\n"), Ok(200)),
        (huge, Ok(200)),
        (chunked, Ok(200)),
        ("HTTP/1.0 299 \r\n\r\n".into(), Ok(299)),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 202 A\r\n\r\n"
                .into(),
            Ok(202),
        ),
        ("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n".into(), Ok(302)),
        ("HTTP/1.1 410 Gone\r\n\r\n".into(), Ok(410)),
        ("HTTP/1.1 500 Oops\r\n\r\n".into(), Ok(500)),
        ("HTTP/1.1 101 Switching Protocols\r\n\r\n".into(), Err(AttemptFault::InvalidAnswer)),
        ("HTTP/1.1 099 X\r\n\r\n".into(), Err(AttemptFault::InvalidAnswer)),
        ("220 mail.example ESMTP\r\n".into(), Err(AttemptFault::InvalidAnswer)),
        ("HTTP/1.1 200 OK\r\nhalf".into(), Err(AttemptFault::InvalidAnswer)),
        ("\0\u{1}\u{2}".into(), Err(AttemptFault::InvalidAnswer)),
        (format!("{HEAD}{}", "a: b\r\n".repeat(10_000)), Err(AttemptFault::InvalidAnswer)),
        ("HTTP/1.1 100 Continue\r\n\r\n".repeat(2_000), Err(AttemptFault::InvalidAnswer)),
        (String::new(), Err(AttemptFault::Connection)),
    ] {
        let start: String = text.chars().take(60).collect();
        let expected = expected.map_or_else(AttemptResult::Failed, AttemptResult::Status);
        assert_eq!(post_to(answer(text), TIME_MAX), expected, "{start:?}");
    }
}

#[test]
fn an_attempt_ends_in_time_whatever_the_receiver_does() {
    let hang = |stream: TcpStream| {
        let mut all = Vec::new();
        // Until the client closes.
        let _ = (&stream).read_to_end(&mut all);
    };
    let drip = |mut stream: TcpStream| {
        read_request(&mut stream);
        for byte in format!("{HEAD}{}", "a: b\r\n".repeat(100)).bytes() {
            if stream.write_all(&[byte]).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    };
    let endless_body = |mut stream: TcpStream| {
        read_request(&mut stream);
        let mut sent = stream.write_all(format!("{HEAD}\r\n").as_bytes());
        while sent.is_ok() {
            sent = stream.write_all(b"x");
            thread::sleep(Duration::from_millis(20));
        }
    };
    let silent_body = |mut stream: TcpStream| {
        read_request(&mut stream);
        stream.write_all(format!("{HEAD}\r\n").as_bytes()).expect("it is read");
        let mut rest = Vec::new();
        // Until the client closes.
        let _ = stream.read_to_end(&mut rest);
    };
    let time_max = Duration::from_millis(600);
    for (name, expected, result) in [
        ("hang", AttemptResult::Failed(AttemptFault::Timeout), {
            let began = Instant::now();
            (post_to(hang, time_max), began.elapsed())
        }),
        ("drip", AttemptResult::Failed(AttemptFault::Timeout), {
            let began = Instant::now();
            (post_to(drip, time_max), began.elapsed())
        }),
        ("endless body", AttemptResult::Status(200), {
            let began = Instant::now();
            (post_to(endless_body, TIME_MAX), began.elapsed())
        }),
        ("silent body", AttemptResult::Status(200), {
            let began = Instant::now();
            (post_to(silent_body, TIME_MAX), began.elapsed())
        }),
    ] {
        assert_eq!(result.0, expected, "{name}");
        assert!(result.1 < Duration::from_secs(8), "{name}: {:?}", result.1);
    }
}

#[test]
fn a_receiver_without_tls_or_with_an_unknown_certificate_gets_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("it is bound").port();
    let receiver = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut first = [0; 3];
        stream.read_exact(&mut first).expect("a record of TLS");
        // A handshake, and no HTTP.
        assert_eq!(first[0], 22);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
    });
    let url = WebhookUrl::parse(&format!("https://127.0.0.1:{port}/"), &loopback()).expect("a URL");
    let result = poster(TIME_MAX).post_now(&url, &outgoing(b"{}"));
    assert_eq!(result, AttemptResult::Failed(AttemptFault::Tls));
    receiver.join().expect("the receiver has no fault");
}

#[test]
fn a_port_without_a_server_is_a_failed_connection() {
    // A port below those that the system gives to others: one that was just closed may already be that of another test.
    let url = WebhookUrl::parse("http://127.0.0.1:20009/", &loopback()).expect("a URL");
    let result = poster(TIME_MAX).post_now(&url, &outgoing(b""));
    assert_eq!(result, AttemptResult::Failed(AttemptFault::Connection));
}

/// A poster whose look-ups give these addresses in turn, with the number of look-ups.
fn poster_with(destinations: Destinations, turns: Vec<Vec<Ipv4Addr>>) -> (Poster, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let look_up = move |_: AccountBytes, _: &str, port: u16, _: Instant| {
        let turn = counted.fetch_add(1, Ordering::AcqRel);
        let found = turns.get(turn).cloned().unwrap_or_default();
        Ok(found.into_iter().map(|address| SocketAddr::from((address, port))).collect())
    };
    let poster = Poster {
        look_up: Box::new(look_up),
        time_max: Duration::from_millis(500),
        ..Poster::new(destinations).expect("TLS")
    };
    (poster, count)
}

#[test]
fn only_permitted_addresses_are_contacted_after_one_look_up() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a socket");
    let port = listener.local_addr().expect("it is bound").port();
    let here = Ipv4Addr::LOCALHOST;
    let inside = Ipv4Addr::new(10, 0, 0, 1);
    let url = WebhookUrl::parse(&format!("https://a.example:{port}/"), &Destinations::default());
    let url = url.expect("a URL");
    for (turns, expected) in [
        (vec![vec![here]], AttemptFault::AddressNotAllowed),
        (vec![vec![inside, here, Ipv4Addr::UNSPECIFIED]], AttemptFault::AddressNotAllowed),
        (vec![vec![]], AttemptFault::NoAddress),
    ] {
        let (poster, count) = poster_with(Destinations::default(), turns);
        assert_eq!(poster.post_now(&url, &outgoing(b"")), AttemptResult::Failed(expected));
        assert_eq!(count.load(Ordering::Acquire), 1);
    }
    // A name that changes its address after the check gets the connection at the address that was checked: here one of TEST-NET
    // that is allowed, and never the next answer.
    let test_net = Destinations::new(vec![Network::parse("192.0.2.0/24").expect("a network")]);
    let (poster, count) =
        poster_with(test_net, vec![vec![Ipv4Addr::new(192, 0, 2, 1)], vec![here], vec![here]]);
    let result = poster.post_now(&url, &outgoing(b""));
    assert!(
        matches!(result, AttemptResult::Failed(AttemptFault::Timeout | AttemptFault::Connection)),
        "{result:?}"
    );
    assert_eq!(count.load(Ordering::Acquire), 1);
    assert!(listener.accept().is_err(), "it was contacted");
}

#[test]
fn plain_http_goes_to_allowed_networks_only() {
    let url = WebhookUrl::parse("http://a.example/", &loopback()).expect("a URL");
    let (poster, _) = poster_with(loopback(), vec![vec![Ipv4Addr::new(192, 0, 1, 1)]]);
    let result = poster.post_now(&url, &outgoing(b""));
    assert_eq!(result, AttemptResult::Failed(AttemptFault::AddressNotAllowed));
}
