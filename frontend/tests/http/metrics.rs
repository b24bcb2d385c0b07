//! The metrics of a server, over their own listener and over the admin socket.

use crate::harness::client::Connection;
use crate::harness::server::{Server, get, mailprobe, metric_in, post};
use crate::until;
use std::net::SocketAddr;

fn address(server: &Server) -> SocketAddr {
    let line = server.announced().iter().find_map(|line| line.strip_prefix("metrics: http://"));
    line.and_then(|line| line.strip_suffix("/metrics")).unwrap().parse().unwrap()
}

fn ask(server: &Server, request: &str) -> crate::harness::client::Answer {
    let mut connection = Connection::open(address(server));
    connection.send(format!("{request} HTTP/1.1\r\nHost: t\r\n\r\n"));
    let answer = connection.read();
    assert!(connection.try_read().is_none(), "one answer a connection");
    answer
}

#[test]
fn requests_verdicts_and_credits_are_counted() {
    let server = Server::start(&["--metrics", "127.0.0.1:0", "--frontends", "2"]);
    for n in 0..6 {
        let email = format!("{{\"email\":\"catch_all-{n}@secret.example\"}}");
        assert_eq!(server.post(&server.live, "/v1/verify", &email).status, 200);
    }
    server.post(&server.live, "/v1/verify", "{\"email\":\"outage@secret.example\"}");
    server.get(&server.test, "/v1/verify?email=deliverable%40secret.example");
    server.get(&server.test, "/v1/secret@secret.example");
    server.send("BREW /v1/account HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer secret\r\n\r\n");
    let batch = "{\"emails\":[\"inbox_full@secret.example\",\"catch_all-0@secret.example\"]}";
    assert_eq!(server.post(&server.live, "/v1/verify/batch", batch).status, 202);
    let answer = until(|| {
        let answer = ask(&server, "GET /metrics");
        if answer.body.contains("checks_total{mode=\"batch\"") { Ok(answer) } else { Err(answer.body) }
    });
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let page = &answer.body;
    let requests = |labels: &str| metric_in(page, &format!("mailprobe_requests_total{{{labels}}}"));
    assert_eq!(requests("route=\"/v1/verify\",method=\"POST\",status=\"200\""), 6.0);
    assert_eq!(requests("route=\"/v1/verify\",method=\"POST\",status=\"503\""), 1.0);
    assert_eq!(requests("route=\"/v1/verify\",method=\"GET\",status=\"200\""), 1.0);
    assert_eq!(requests("route=\"-\",method=\"GET\",status=\"404\""), 1.0);
    assert_eq!(requests("route=\"-\",method=\"-\",status=\"405\""), 1.0);
    assert_eq!(metric_in(page, "mailprobe_checks_total{mode=\"full\",reason=\"catch_all\"}"), 6.0);
    assert_eq!(metric_in(page, "mailprobe_checks_total{mode=\"test\",reason=\"mailbox_exists\"}"), 1.0);
    assert_eq!(metric_in(page, "mailprobe_checks_total{mode=\"batch\",reason=\"inbox_full\"}"), 1.0);
    assert_eq!(metric_in(page, "mailprobe_credits_spent_total"), 8.0);
    assert_eq!(metric_in(page, "mailprobe_credits_granted_total"), 100.0);
    assert_eq!(metric_in(page, "mailprobe_connections_total"), 11.0);
    assert_eq!(metric_in(page, "mailprobe_store_rows{table=\"accounts\"}"), 1.0);
    // There is a table with that name.
    let page_told = page.replace("table=\"secrets\"", "");
    assert!(!page_told.contains("secret") && !page.contains("default") && !page.contains('@'), "{page}");

    let printed = server.administer(&["metrics"]);
    assert_eq!(metric_in(&printed, "mailprobe_credits_spent_total"), 8.0);
    let families = |page: &str| page.lines().filter(|line| line.starts_with("# TYPE")).count();
    assert_eq!(families(&printed), families(page));
}

#[test]
fn the_listener_gives_metrics_alone() {
    let server = Server::start(&["--metrics", "127.0.0.1:0"]);
    assert_eq!(ask(&server, "GET /").status, 404);
    assert_eq!(ask(&server, "GET /v1/account").status, 404);
    assert_eq!(ask(&server, "POST /metrics").status, 405);
    assert_eq!(ask(&server, "nonsense").status, 400);
    // A silent client does not block others for long.
    let mut silent = Connection::open(address(&server));
    assert_eq!(ask(&server, "GET /metrics").status, 200);
    assert!(silent.try_read().is_none());
    assert_eq!(server.get("", "/metrics").status, 404, "the API's listener has none");
}

#[test]
fn without_the_flag_there_is_the_admin_socket_alone() {
    let mut server = Server::start(&[]);
    assert!(!server.announced().iter().any(|line| line.starts_with("metrics")));
    server.send(post("", "/v1/verify", "{}"));
    let series = "mailprobe_requests_total{route=\"/v1/verify\",method=\"POST\",status=\"401\"}";
    assert_eq!(server.metric(series), 1.0);
    assert_eq!(server.send(get("", "/livez")).status, 200);
    let data = server.data();
    server.signal(libc::SIGTERM);
    server.wait();
    let output = mailprobe(["metrics", "--data", data.to_str().unwrap()]);
    assert!(String::from_utf8(output.stderr).unwrap().contains("no server runs on"));
}

#[test]
fn a_port_that_is_taken_is_told() {
    let server = Server::start(&["--metrics", "127.0.0.1:0"]);
    let other = tempfile::tempdir().unwrap();
    let taken = address(&server).to_string();
    let data = other.path().join("data");
    let output = mailprobe([
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--metrics",
        &taken,
        "--data",
        data.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("choose another --metrics"));
    assert!(!data.exists());
}
