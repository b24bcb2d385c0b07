//! Connections: kept alive, pipelined, slow, too many.

use crate::batches;
use crate::server::{Server, get, post};
use std::time::{Duration, Instant};

#[test]
fn a_connection_is_kept_and_answers_come_in_order() {
    let server = Server::start(&[]);
    let mut connection = server.connect();
    for _ in 0..3 {
        connection.send(get(&server.test, "/v1/account"));
        assert_eq!(connection.read().status, 200);
    }
    let slow = post(&server.live, "/v1/verify", "{\"email\":\"catch_all-100@example.com\"}");
    connection.send(
        [slow, get("nonsense", "/v1/account"), get(&server.test, "/nowhere"), get("", "/livez")].concat(),
    );
    let statuses: Vec<u16> = (0..4).map(|_| connection.read().status).collect();
    assert_eq!(statuses, [200, 401, 404, 200]);
    connection.send(get("", "/livez").replacen("\r\n", "\r\nConnection: close\r\n", 1));
    assert_eq!(connection.read().header("connection"), Some("close"));
    assert!(connection.try_read().is_none());
}

#[test]
fn a_refused_body_does_not_hide_the_refusal_or_the_next_request() {
    let server = Server::start(&[]);
    let mut connection = server.connect();
    let body = "x".repeat(200_000);
    connection.send(post("nonsense", "/v1/verify", &body));
    assert_eq!(connection.read().status, 401);
    connection.send(get("", "/livez"));
    assert_eq!(connection.read().status, 200);
}

#[test]
fn who_waits_for_consent_is_refused_before_the_body() {
    let server = Server::start(&[]);
    let with_expect = |key: &str| {
        post(key, "/v1/verify", "").replace("Content-Length: 0", "Content-Length: 37\r\nExpect: 100-continue")
    };
    let mut connection = server.connect();
    connection.send(with_expect("nonsense"));
    assert_eq!(connection.read().status, 401);
    let mut connection = server.connect();
    connection.send(with_expect(&server.test));
    assert_eq!(connection.read().status, 100);
    connection.send("{\"email\":\"deliverable@example.com\"}  ");
    assert_eq!(connection.read().status, 200);
}

#[test]
fn what_is_no_http_is_refused() {
    let server = Server::start(&[]);
    assert_eq!(server.send("nonsense\r\n\r\n").status, 400);
    assert_eq!(server.send(format!("GET /livez HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(101))).status, 431);
    assert_eq!(server.send(format!("GET /livez HTTP/1.1\r\nA: {}\r\n\r\n", "b".repeat(40_000))).status, 431);
    assert_eq!(server.get("", "/livez").status, 200);
}

#[test]
fn slow_heads_and_bodies_are_cut_off() {
    let server = Server::start(&[]);
    let began = Instant::now();
    let mut silent = server.connect();
    let mut idle = server.connect();
    idle.send(get("", "/livez"));
    assert_eq!(idle.read().status, 200);
    let mut late = server.connect();
    late.send(get("", "/livez") + "GET /live");
    assert_eq!(late.read().status, 200);
    let mut head = server.connect();
    head.send("GET /livez HTTP/1.1\r\nHos");
    let mut body = server.connect();
    body.send(post(&server.test, "/v1/verify", "").replace("Content-Length: 0", "Content-Length: 10"));
    // A byte now and then buys no time.
    std::thread::sleep(Duration::from_secs(4));
    head.send("t");
    body.send("{");
    let answer = body.read();
    assert_eq!((answer.status, answer.error().as_str()), (408, "request_timeout"));
    assert!(body.try_read().is_none());
    assert!(head.try_read().is_none());
    assert!(silent.try_read().is_none());
    let took = began.elapsed();
    assert!(took > Duration::from_secs(9) && took < Duration::from_secs(20), "{took:?}");
    // Between requests a connection has more time, and then as much for a head as any.
    idle.send("GET /livez HTT");
    std::thread::sleep(Duration::from_secs(1));
    idle.send("P/1.1\r\nHost: t\r\n\r\n");
    assert_eq!(idle.read().status, 200);
    late.send("z HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_eq!(late.read().status, 200);
}

#[test]
fn one_more_connection_than_there_are_places_waits() {
    let server = Server::start(&["--connections", "1", "--frontends", "1"]);
    let mut first = server.connect();
    first.send(get("", "/livez"));
    assert_eq!(first.read().status, 200);
    let mut second = server.connect();
    second.send(get("", "/livez"));
    std::thread::sleep(Duration::from_millis(200));
    first.send(get("", "/livez"));
    assert_eq!(first.read().status, 200, "the first has its place still");
    drop(first);
    assert_eq!(second.read().status, 200);
}

#[test]
fn epoll_serves_as_well() {
    let server = Server::start(&["--driver", "epoll", "--frontends", "2"]);
    for n in 0..8 {
        let body = format!("{{\"email\":\"mailbox_exists-{n}@example.com\"}}");
        let got = server.post(&server.live, "/v1/verify", &body);
        assert_eq!(got.json()["reason"], "mailbox_exists");
    }
    let id = batches::id(&batches::submit(&server, &server.live, &["catch_all-200", "later.1"]));
    assert_eq!(batches::reasons(&server, &server.live, &id), ["catch_all", "mailbox_exists"]);
    assert_eq!(server.credits(), 90);
}
