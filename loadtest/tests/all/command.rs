//! The command as its users run it, against a server that this test plays: no more than the standard library knows.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// A server with a configurable behaviour.
#[derive(Default)]
struct Server {
    /// The number of requests.
    seen: AtomicU64,
    /// Each request with a multiple of this number is answered 503; 0: none.
    fails_every: u64,
    /// At each request with a multiple of this number the connection is closed without an answer; 0: none.
    closes_every: u64,
    /// At this request all connections stop once for a while.
    stalls_at: u64,
    stall: Duration,
    /// Whether no domain exists.
    is_empty: bool,
    stalled: std::sync::RwLock<()>,
}

impl Server {
    fn start(self) -> (SocketAddr, Arc<Server>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = Arc::new(self);
        let serving = Arc::clone(&server);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = Arc::clone(&serving);
                thread::spawn(move || server.serve(stream));
            }
        });
        (address, server)
    }

    fn serve(&self, stream: TcpStream) -> Option<()> {
        stream.set_nodelay(true).ok()?;
        let mut stream = BufReader::new(stream);
        loop {
            let (line, key, length) = head(&mut stream)?;
            let mut body = vec![0; length];
            stream.read_exact(&mut body).ok()?;
            let number = self.seen.fetch_add(1, Relaxed) + 1;
            if self.stalls_at == number {
                let _alone = self.stalled.write().unwrap();
                thread::sleep(self.stall);
            }
            drop(self.stalled.read().unwrap());
            if self.closes_every > 0 && number.is_multiple_of(self.closes_every) {
                return None;
            }
            let failed = self.fails_every > 0 && number.is_multiple_of(self.fails_every);
            let (status, body) =
                if failed { ("503 Service Unavailable", "{}".into()) } else { reply(&line, &key, &body) };
            let body = if self.is_empty {
                body.replace("fast_check_passed", "no_mx").replace("mailbox_exists", "mailbox_not_found")
            } else {
                body
            };
            let length = body.len();
            write!(stream.get_mut(), "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}").ok()?;
        }
    }
}

fn head(stream: &mut BufReader<TcpStream>) -> Option<(String, String, usize)> {
    let (mut first, mut key, mut length) = (String::new(), String::new(), 0);
    stream.read_line(&mut first).ok().filter(|count| *count > 0)?;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok().filter(|count| *count > 0)?;
        match line.trim_end().split_once(": ") {
            None => return Some((first, key, length)),
            Some(("Authorization", value)) => key = value.to_owned(),
            Some(("Content-Length", value)) => length = value.parse().ok()?,
            Some(_) => {}
        }
    }
}

/// The answer of the API, as far as a load test reads it.
fn reply(line: &str, key: &str, body: &[u8]) -> (&'static str, String) {
    if key != "Bearer mp_test_key" {
        return ("401 Unauthorized", "{}".into());
    }
    let body: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    match line.trim_end() {
        "POST /v1/verify HTTP/1.1" if body["email"].as_str().is_some_and(|email| email.contains('@')) => {
            let reason = if body["mode"] == "fast" { "fast_check_passed" } else { "mailbox_exists" };
            ("200 OK", format!(r#"{{"reason":"{reason}","cached":false}}"#))
        }
        "POST /v1/verify/batch HTTP/1.1" if !body["emails"].as_array().unwrap_or(&Vec::new()).is_empty() => {
            ("202 Accepted", r#"{"batch_id":"bat_1"}"#.into())
        }
        "GET /v1/verify/batch/bat_1 HTTP/1.1" => ("200 OK", r#"{"status":"processing"}"#.into()),
        "GET /v1/account HTTP/1.1" => ("200 OK", "{}".into()),
        _ => ("400 Bad Request", "{}".into()),
    }
}

/// Runs the command with this server.
fn loadtest(server: SocketAddr, folder: &Path, words: &str) -> (Output, Value) {
    let (command, words) = words.split_once(' ').unwrap();
    crate::loadtest(folder, &[command, "--server", &server.to_string()], words)
}

#[test]
fn a_mix_goes_to_its_endpoints_and_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (server, seen) = Server::default().start();
    let html = folder.path().join("report.html");
    let words = format!(
        "run --rate 500 --spread even --mix fast=50,full=20,batch=5,poll=20,account=5 --warm-up 200ms --duration 1s \
         --threads 2 --objective p50=10s --objective errors=0% --html {}",
        html.display()
    );
    let (output, report) = loadtest(server, folder.path(), &words);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text} {}", String::from_utf8_lossy(&output.stderr));
    assert_eq!((report["requests"].as_u64(), report["errors"].as_u64()), (Some(500), Some(0)));
    let names: Vec<&str> =
        report["endpoints"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["fast", "full", "batch", "poll", "account", "all"]);
    let reasons = &report["reasons"];
    let checks = reasons["fast_check_passed"].as_u64().unwrap() + reasons["mailbox_exists"].as_u64().unwrap();
    assert!((300..400).contains(&checks), "{checks}");
    // The warm-up was sent and did not count; one more tested the key, and one made a batch to poll.
    assert!((595..=606).contains(&seen.seen.load(Relaxed)), "{}", seen.seen.load(Relaxed));
    assert!(text.contains("met: errors=0%"), "{text}");
    let origin = &report["origin"];
    assert!(
        origin["date"].as_str().unwrap().ends_with('Z') && origin["machine"]["cores"].as_u64() > Some(0),
        "{origin}"
    );
    assert!(origin["command"].as_str().unwrap().contains("--threads 2"), "{origin}");
    assert!(text.contains("\nmachine  ") && text.contains("\nserver   unknown version"), "{text}");
    assert!(std::fs::read_to_string(html).unwrap().contains("<svg"));
}

#[test]
fn a_stall_shows_in_the_latency_of_all_who_came_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server { stalls_at: 200, stall: Duration::from_millis(500), ..Server::default() }.start().0;
    let words = "run --rate 400 --spread even --mix fast=1 --warm-up 0s --duration 2s --connections 4 \
                 --objective p50=10s --objective p90=100ms";
    let (output, report) = loadtest(server, folder.path(), words);
    // A quarter of the time nobody was answered: those who came then waited 250 ms on average.
    let latency = &report["endpoints"][0]["latency_ms"];
    assert!(latency["p90"].as_f64().unwrap() > 200.0, "{latency}");
    assert!(latency["max"].as_f64().unwrap() >= 480.0, "{latency}");
    assert_eq!(report["requests"], 800);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("missed: p90=100ms: ") && text.contains(" over ("), "{text}");
}

#[test]
fn failures_are_counted_by_kind() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server { fails_every: 10, closes_every: 7, ..Server::default() }.start().0;
    let words = "run --clients 3 --mix full=1 --warm-up 0s --duration 500ms --objective errors=1%";
    let (output, report) = loadtest(server, folder.path(), words);
    assert_eq!(output.status.code(), Some(1));
    let full = &report["endpoints"][0];
    let requests = full["requests"].as_u64().unwrap();
    let count = |what: &Value| what.as_u64().unwrap_or(0);
    let (failed, closed) = (count(&full["status"]["503"]), count(&full["failures"]["connection"]));
    assert!(failed > 0 && closed > 0, "{full}");
    assert_eq!(failed + closed, count(&full["errors"]));
    // Three clients may be between two answers when it ends.
    assert!(closed.abs_diff(requests / 7) <= 3, "{closed} of {requests}");
}

#[test]
fn a_search_ends_at_its_highest_rate() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::default().start().0;
    let html = folder.path().join("report.html");
    let words = format!(
        "search --from 50 --to 200 --mix fast=1 --warm-up 0s --duration 200ms --hold 300ms --objective p50=10s \
         --html {}",
        html.display()
    );
    let (output, report) = loadtest(server, folder.path(), &words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(report["highest"], 200.0);
    assert_eq!(report["steps"].as_array().unwrap().len(), 3);
    assert_eq!(report["held"]["load"]["rate"], 160.0);
    assert_eq!(report["limit"], "limit: none was reached up to 200 requests/s (--to)");
    assert_eq!(report["objectives"][0], "p50=10s");
    assert_eq!(report["steps"][2]["objectives"][0]["met"], true);
    let html = std::fs::read_to_string(html).unwrap();
    assert!(html.contains("p50 (ms) by rate of due requests") && html.contains("highest rate: 200.0/s"));
}

#[test]
fn a_search_says_when_no_rate_will_do() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server { fails_every: 1, ..Server::default() }.start().0;
    let words = "search --from 40 --mix fast=1 --warm-up 0s --duration 1s --objective errors=1%";
    let (output, report) = loadtest(server, folder.path(), words);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(report["highest"], Value::Null);
    // 40, 20 and 10 a second, each asked twice; below that fewer than ten would fall due in the second.
    assert_eq!(report["steps"].as_array().unwrap().len(), 6);
}

#[test]
fn bad_usage_and_no_server_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (output, _) = loadtest(nobody, folder.path(), "run --rate 5 --duration 1s");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot connect"));
    let plan = Command::new(env!("CARGO_BIN_EXE_mailprobe-loadtest"))
        .args(["plan", "--figures", "/none/f"])
        .output()
        .unwrap();
    assert_eq!(plan.status.code(), Some(1));
    let error = String::from_utf8_lossy(&plan.stderr).into_owned();
    assert!(error.contains("run `mailprobe-loadtest calibrate --out /none/f` first"), "{error}");
    for words in
        ["run --duration 1s", "run --rate 5 --clients 5", "run --rate 5 --objective p98=1ms", "run --rate 0"]
    {
        assert_eq!(loadtest(nobody, folder.path(), words).0.status.code(), Some(2), "{words}");
    }
}

/// The error of a command line for this server.
fn error_of(server: SocketAddr, words: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let (output, _) = loadtest(server, folder.path(), words);
    assert!(!folder.path().join("report.json").exists(), "a run that does not begin leaves no file");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn mistakes_are_found_before_the_run() {
    let (server, seen) = Server::default().start();
    let rows = [
        ("run --rate 5 --pid 2147483647", "--pid 2147483647: there is no such process".to_owned()),
        (&format!("run --rate 5 --metrics {server}"), format!("--metrics {server}: no metrics of mailprobe")),
        ("run --rate 5 --html /nonexist/x.html", "/nonexist/x.html: No such file".into()),
    ];
    for (words, wanted) in rows {
        let (code, error) = error_of(server, words);
        assert!(code == Some(1) && error.contains(&wanted), "{error}");
    }
    assert!(seen.seen.load(Relaxed) <= 2, "only the page of metrics was asked for");
}

#[test]
fn a_refused_key_ends_the_run_before_it_begins() {
    let folder = tempfile::tempdir().unwrap();
    let (server, seen) = Server::default().start();
    let key = folder.path().join("wrong.key");
    std::fs::write(&key, "mp_test_wrong").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_mailprobe-loadtest"))
        .args(["run", "--rate", "50", "--server", &server.to_string(), "--key-file"])
        .arg(&key)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains(&format!("{server} refuses the key of {} (401)", key.display())), "{error}");
    assert_eq!((output.status.code(), seen.seen.load(Relaxed)), (Some(1), 1));
}

#[test]
fn a_run_without_a_good_answer_fails() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server { fails_every: 1, ..Server::default() }.start().0;
    let (output, report) =
        loadtest(server, folder.path(), "run --rate 50 --mix fast=1 --warm-up 0s --duration 300ms");
    assert_eq!((output.status.code(), &report["errors"]), (Some(1), &report["requests"]));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("warning: no request got a good answer"), "{text}");
}

#[test]
fn the_key_is_missed_before_the_server_is_asked() {
    let output = Command::new(env!("CARGO_BIN_EXE_mailprobe-loadtest"))
        .args(["run", "--rate", "5", "--server", "https://127.0.0.1:9", "--ca", "/none/ca.pem"])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("a key is missing"), "{error}");
}

#[test]
fn objectives_that_cannot_be_measured_are_errors_of_usage() {
    let (server, seen) = Server::default().start();
    for (command, words) in [("search", "--from 5"), ("run", "--rate 5")] {
        let (code, error) =
            error_of(server, &format!("{command} {words} --mix full=1 --objective fast.p99=50ms"));
        assert_eq!(code, Some(2), "{error}");
        assert!(error.contains("--objective fast.p99: --mix has no fast checks; see `"), "{error}");
        let (code, error) = error_of(server, &format!("{command} {words} --duration 10"));
        assert!(
            code == Some(2) && error.contains(&format!("see `mailprobe-loadtest {command} --help`")),
            "{error}"
        );
    }
    assert_eq!(seen.seen.load(Relaxed), 0);
}

#[test]
fn checks_of_domains_that_do_not_exist_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server { is_empty: true, ..Server::default() }.start().0;
    let list = folder.path().join("list");
    std::fs::write(&list, "a@x.example\n").unwrap();
    let given = format!(" --addresses {}", list.display());
    for (mix, addresses, is_told) in
        [("fast=1", "", true), ("full=1", "", true), ("full=1", given.as_str(), false)]
    {
        let words = format!("run --rate 100 --mix {mix} --warm-up 0s --duration 300ms{addresses}");
        let (output, report) = loadtest(server, folder.path(), &words);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let told = report["warnings"].to_string().contains("no domain of the numbered addresses exists");
        assert_eq!(told, is_told, "{words}");
        let used = &report["client"]["cores_used"];
        assert!(
            used["all"].as_u64() > Some(0) && used["others"].is_null(),
            "the server may be the rest: {used}"
        );
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("0.3 s after 0 s of warm-up") && text.contains("\nmachine: "), "{text}");
    }
}
