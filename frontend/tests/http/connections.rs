//! Connections: kept open, pipelined, slow, or too many.

use crate::harness::client::Connection;
use crate::harness::server::{Server, get, post};
use crate::http::batches;
use crate::until_true;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Sends a request, which must be answered.
#[track_caller]
fn live(connection: &mut Connection) {
    connection.send(get("", "/livez"));
    assert_eq!(connection.read().status, 200);
}

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
    live(&mut connection);
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
fn what_others_may_read_differently_is_refused_and_ends_the_connection() {
    let server = Server::start(&[]);
    // Each is followed by a check that would be charged.
    let check = |what: &str, head: &str| {
        let mut connection = server.connect();
        connection
            .send(format!("{head}{}", get(&server.live, "/v1/verify?email=mailbox_exists%40a.example")));
        assert_eq!(connection.read().status, 400, "{what}");
        assert!(connection.try_read().is_none(), "{what}: what stood behind it was read");
    };
    let post = |fields: &str| {
        format!(
            "POST /v1/verify HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {}\r\n{fields}\r\n0\r\n\r\n",
            server.test
        )
    };
    check("a list", &post("Transfer-Encoding: identity, chunked\r\n"));
    check("another coding", &post("Transfer-Encoding: gzip, chunked\r\n"));
    check("two fields", &post("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n"));
    check("no host", "GET /livez HTTP/1.1\r\n\r\n");
    check("two hosts", "GET /livez HTTP/1.1\r\nHost: t\r\nHost: u\r\n\r\n");
    check("a host that is none", "GET /livez HTTP/1.1\r\nHost: t/u\r\n\r\n");
    check("a tunnel", "CONNECT t:80 HTTP/1.1\r\nHost: t:80\r\n\r\n");
    assert_eq!(server.credits(), 100);
    // HTTP/1.0 has no host.
    assert_eq!(server.send("GET /livez HTTP/1.0\r\n\r\n").status, 200);
}

#[test]
fn slow_heads_and_bodies_are_cut_off() {
    let server = Server::start(&[]);
    let began = Instant::now();
    let mut silent = server.connect();
    let mut idle = server.connect();
    live(&mut idle);
    let mut late = server.connect();
    late.send(get("", "/livez") + "GET /live");
    assert_eq!(late.read().status, 200);
    let mut head = server.connect();
    head.send("GET /livez HTTP/1.1\r\nHos");
    let mut body = server.connect();
    body.send(post(&server.test, "/v1/verify", "").replace("Content-Length: 0", "Content-Length: 10"));
    // Single bytes do not prolong the limit.
    std::thread::sleep(Duration::from_secs(4));
    head.send("t");
    body.send("{");
    let answer = body.read();
    answer.assert_refused(408, "request_timeout");
    assert!(body.try_read().is_none());
    assert!(head.try_read().is_none());
    assert!(silent.try_read().is_none());
    let took = began.elapsed();
    assert!(took > Duration::from_secs(9) && took < Duration::from_secs(20), "{took:?}");
    // Between requests a connection has a longer limit, and then the usual one for a head.
    idle.send("GET /livez HTT");
    std::thread::sleep(Duration::from_secs(1));
    idle.send("P/1.1\r\nHost: t\r\n\r\n");
    assert_eq!(idle.read().status, 200);
    late.send("z HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_eq!(late.read().status, 200);
}

/// How many connections the server has closed for this reason.
fn closed(server: &Server, why: &str) -> f64 {
    server.metric(&format!("mailprobe_connections_closed_total{{why=\"{why}\"}}"))
}

const BUSY: &str = "{\"email\":\"mailbox_exists-1500@example.com\"}";

#[test]
fn one_more_connection_than_there_are_places_waits_for_one_that_is_busy() {
    let server = Server::start(&["--connections", "1", "--frontends", "1"]);
    let mut first = server.connect();
    first.send(post(&server.live, "/v1/verify", BUSY));
    std::thread::sleep(Duration::from_millis(200));
    let began = Instant::now();
    let mut second = server.connect();
    second.send(get("", "/livez"));
    assert_eq!(first.read().status, 200, "the first has its place until it is answered");
    assert_eq!(second.read().status, 200);
    assert!(began.elapsed() > Duration::from_millis(800));
}

#[test]
fn the_longest_idle_connection_gives_way() {
    let server = Server::start(&["--connections", "3", "--frontends", "1"]);
    let mut three: Vec<_> = (0..3).map(|_| server.connect()).collect();
    three.iter_mut().for_each(live);
    std::thread::sleep(Duration::from_millis(100));
    for connection in [2, 0] {
        // While nobody wants its place, each stays.
        live(&mut three[connection]);
    }
    let mut newcomer = server.connect();
    live(&mut newcomer);
    assert!(three[1].try_read().is_none(), "this one was idle for longest");
    for connection in [0, 2] {
        live(&mut three[connection]);
    }
    assert_eq!(closed(&server, "gave_way"), 1.0);
}

#[test]
fn a_peer_has_so_many_connections_and_others_have_theirs() {
    let server = Server::start(&["--connections-per-peer", "2", "--frontends", "2"]);
    let mut two = [server.connect(), server.connect()];
    two.iter_mut().for_each(live);
    let mut third = server.connect();
    assert!(third.try_read().is_none(), "refused at once");
    let mut other = server.connect_from([127, 0, 0, 2]).unwrap();
    live(&mut other);
    let [first, _second] = two;
    drop(first);
    until_true("a place of a closed connection is free again", || {
        let mut again = server.connect();
        again.try_send(get("", "/livez"));
        again.try_read().is_some_and(|answer| answer.status == 200)
    });
    assert!(closed(&server, "peer_limit") > 0.0);
}

#[test]
fn who_does_not_take_its_answers_is_cut_off() {
    let server = Server::start(&["--frontends", "1"]);
    let began = Instant::now();
    let mut greedy = server.connect_with_small_buffers();
    // More answers than all buffers on the way hold.
    let requests = get("", "/nowhere").repeat(1000);
    let mut sent = 0;
    while greedy.try_send(&requests) {
        sent += 1;
        assert!(sent < 1000, "the server takes requests without end");
    }
    let took = began.elapsed();
    assert!(took > Duration::from_secs(15) && took < Duration::from_secs(60), "{took:?}");
    assert_eq!(closed(&server, "too_slow"), 1.0);
    assert_eq!(server.get("", "/livez").status, 200);
}

#[test]
fn requests_without_an_end_hold_a_bounded_memory() {
    let server = Server::start(&["--frontends", "2"]);
    let unfinished = post(&server.test, "/v1/verify", &"x".repeat(200_000))
        .replace("Content-Length: 200000", "Content-Length: 200001");
    let connect = |last: u8, count: usize| -> Vec<_> {
        let open = |_| {
            let mut connection = server.connect_from([127, 0, 0, last]).unwrap();
            connection.send(&unfinished);
            connection
        };
        (0..count).map(open).collect()
    };
    let mut other = connect(9, 1);
    // 120 bodies of 200 kB are more than the 16 MiB of a network.
    let mut many = connect(8, 120);
    until_true("20 are closed", || closed(&server, "memory") >= 20.0);
    assert!(many[0].try_read().is_none(), "the one that has waited for longest is closed");
    assert!(closed(&server, "memory") < 60.0, "no more than necessary");
    for connection in [&mut other[0], &mut many[119]] {
        connection.send("x");
        assert_eq!(connection.read().status, 400, "the body is complete, and no JSON");
    }
    assert_eq!(server.get("", "/livez").status, 200);
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

#[test]
fn many_requests_at_once_leave_others_their_turn() {
    let server = Server::start(&["--frontends", "1"]);
    let (stop, answered) = (AtomicBool::new(false), AtomicU32::new(0));
    // The number of greedy clients' answers while a good client waits for one.
    let mut before_it = Vec::new();
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let mut greedy = server.connect();
                let requests = get("", "/livez").repeat(1_000);
                while !stop.load(Ordering::Relaxed) {
                    greedy.send(&requests);
                    for _ in 0..1_000 {
                        assert_eq!(greedy.read().status, 200);
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        std::thread::sleep(Duration::from_millis(300));
        let mut good = server.connect();
        for _ in 0..50 {
            let before = answered.load(Ordering::Relaxed);
            live(&mut good);
            before_it.push(answered.load(Ordering::Relaxed) - before);
        }
        stop.store(true, Ordering::Relaxed);
    });
    before_it.sort_unstable();
    // Two turns of all connections, and the bytes that their clients had not read. Without turns, the answers of
    // several connections would precede.
    assert!(before_it[40] < 1_500, "{before_it:?}");
}
