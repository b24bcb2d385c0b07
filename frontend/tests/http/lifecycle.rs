//! The start, the drain and the end; and data that must not be in the log.

use crate::harness::server::{Server, UNREAD_LOG, get, mailprobe, post, send_signal};
use crate::until;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

const SLOW: &str = "{\"email\":\"mailbox_exists-1500@secret.example\"}";

#[test]
fn a_drain_finishes_what_is_under_way() {
    let mut server = Server::start(&["--frontends", "2"]);
    let mut idle = server.connect();
    idle.send(get("", "/readyz"));
    assert_eq!(idle.read().status, 200);
    let mut busy = server.connect();
    busy.send(post(&server.live, "/v1/verify", SLOW));
    std::thread::sleep(Duration::from_millis(200));
    server.signal(libc::SIGTERM);
    assert!(idle.try_read().is_none(), "an idle connection is closed");
    assert!(TcpStream::connect(server.address).is_err(), "nobody listens any more");
    let answer = busy.read();
    assert_eq!((answer.status, answer.json()["reason"].as_str()), (200, Some("mailbox_exists")));
    assert_eq!(answer.header("connection"), Some("close"));
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
    assert!(!server.data().join("admin.sock").exists());
}

#[test]
fn a_drain_loses_no_request_of_a_new_connection() {
    let mut server = Server::start(&["--frontends", "1"]);
    let address = server.address;
    // Waits for its request when the drain begins.
    let mut late = server.connect();
    let clients: Vec<_> = (0..16).map(|_| std::thread::spawn(move || call_until_refused(address))).collect();
    std::thread::sleep(Duration::from_millis(300));
    server.signal(libc::SIGTERM);
    std::thread::sleep(Duration::from_millis(200));
    late.send(get("", "/livez"));
    assert_eq!(late.read().header("connection"), Some("close"));
    for client in clients {
        let (answered, lost) = client.join().unwrap();
        assert!(answered > 0 && lost.is_empty(), "{answered} answered, lost: {lost:?}");
    }
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
}

/// Sends requests over new connections until one is refused. The number of answers, and what happened to the requests without one.
fn call_until_refused(address: SocketAddr) -> (u32, Vec<String>) {
    let (mut answered, mut lost) = (0, Vec::new());
    while let Ok(mut stream) = TcpStream::connect(address) {
        let mut answer = String::new();
        let sent = stream.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        match sent.and_then(|()| stream.read_to_string(&mut answer)) {
            Ok(_) if answer.starts_with("HTTP/1.1 200") => answered += 1,
            other => lost.push(format!("{other:?} {answer}")),
        }
    }
    (answered, lost)
}

#[test]
fn faults_of_the_machine_are_named_while_the_server_runs() {
    let server = Server::start(&["--self-checks", "true", "--resolver", "127.0.0.1:9"]);
    let faults = until(|| {
        let ready = server.get("", "/readyz");
        assert_eq!(ready.status, 200, "a fault of the machine does not stop the server");
        let faults = ready.json()["faults"].clone();
        if faults.is_array() { Ok(faults) } else { Err(ready.body) }
    });
    assert_eq!(faults[0], "resolver", "{faults}");
    let log = server.log();
    assert!(log.contains("resolver 127.0.0.1:9: nothing listens there"), "{log}");
    assert!(log.contains("Do: with --resolver, name a resolver that answers"), "{log}");
}

#[test]
fn a_drain_waits_for_checks_whose_callers_are_gone() {
    let mut server = Server::start(&[]);
    let mut gone = server.connect();
    gone.send(post(&server.live, "/v1/verify", SLOW));
    std::thread::sleep(Duration::from_millis(200));
    drop(gone);
    server.signal(libc::SIGINT);
    assert_eq!(server.wait().code(), Some(0));
    assert_eq!(server.ledger(), (0, 1));
}

#[test]
fn a_second_signal_ends_at_once() {
    let mut server = Server::start(&[]);
    let mut busy = server.connect();
    busy.send(post(&server.live, "/v1/verify", "{\"email\":\"never@example.com\"}"));
    std::thread::sleep(Duration::from_millis(200));
    server.signal(libc::SIGTERM);
    std::thread::sleep(Duration::from_millis(200));
    server.signal(libc::SIGTERM);
    assert_eq!(server.wait().code(), Some(1));
    assert!(server.log().contains("mailprobe: ended by a second signal"), "{}", server.log());
}

fn refused(arguments: &[&str], code: i32) -> String {
    let output = mailprobe(arguments);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{said}");
    let line = said.lines().last().unwrap_or_default().to_owned();
    assert!(line.starts_with("mailprobe: "), "{said}");
    line
}

#[test]
fn a_port_in_use_is_refused() {
    let server = Server::start(&[]);
    let other = tempfile::tempdir().unwrap();
    let address = server.address.to_string();
    let line = refused(&["serve", "--listen", &address, "--data", other.path().to_str().unwrap()], 1);
    assert!(line.contains("address in use"), "{line}");
    assert_eq!(server.get("", "/livez").status, 200);
}

#[test]
fn a_log_that_nobody_reads_stops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(UNREAD_LOG), "").unwrap();
    let mut server = Server::start_in(folder, &[]);
    let mut connection = server.connect();
    // More lines than the pipe and the buffer hold: a request's line has about 150 bytes.
    for _ in 0..100 {
        let requests = get("", "/livez").repeat(200);
        connection.send(requests);
        (0..200).for_each(|_| assert_eq!(connection.read().status, 200));
    }
    assert!(server.metric("mailprobe_log_lines_dropped_total") > 0.0);
    server.signal(libc::SIGTERM);
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_data_folder_in_use_is_refused() {
    let server = Server::start(&[]);
    let line = refused(&["serve", "--listen", "127.0.0.1:0", "--data", server.data().to_str().unwrap()], 1);
    assert!(line.contains("is in use by another mailprobe"), "{line}");
}

#[test]
fn first_keys_are_in_a_private_file_and_not_in_the_output() {
    let server = Server::start(&[]);
    let path = server.data().join("first-keys");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let (live, test) = (server.live.clone(), server.test.clone());
    let server = server.restart_after_kill();
    assert_eq!((&server.live, &server.test), (&live, &test), "keys are made once");
    assert!(!server.log().contains("mp_live_") && !server.log().contains("mp_test_"));
}

#[test]
fn the_log_tells_requests_and_no_addresses() {
    let server = Server::start(&["--log-format", "json"]);
    for request in [
        get(&server.test, "/v1/verify?email=deliverable%40secret.example"),
        get(&server.test, "/v1/deliverable@secret.example"),
        post(&server.live, "/v1/verify", "{\"email\":\"outage@secret.example\"}"),
        post(&server.live, "/v1/verify", "{\"email\":\"deliverable@secret.example\""),
        get("mp_live_secret", "/v1/account"),
    ] {
        server.send(request.replacen("\r\n", "\r\nX-Request-Id: the-one\r\n", 1));
    }
    let log = server.log();
    let requests: Vec<serde_json::Value> = log
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter(|line| line["message"] == "request")
        .collect();
    let told: Vec<(&str, &str, u64)> = requests
        .iter()
        .map(|line| {
            assert_eq!(line["request_id"], "the-one");
            assert!(line["ms"].is_u64());
            (
                line["method"].as_str().unwrap(),
                line["path"].as_str().unwrap(),
                line["status"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("GET", "/v1/verify", 200),
            ("GET", "-", 404),
            ("POST", "/v1/verify", 503),
            ("POST", "/v1/verify", 400),
            ("GET", "/v1/account", 401),
        ]
    );
    assert!(requests[0]["key"].as_str().unwrap().starts_with("key_"));
    assert!(!log.contains("secret"), "{log}");
}

/// Every format, with events beside the requests: refusals, outages, panics, batches, backups, invalid input.
#[test]
fn nothing_personal_is_in_the_log_whatever_its_form() {
    for format in ["text", "json"] {
        let server = Server::start(&["--log-format", format, "--frontends", "1", "--metrics", "127.0.0.1:0"]);
        let (live, test) = (&server.live, &server.test);
        for request in [
            get(live, "/v1/verify?email=canary%40secret.example&detail=full"),
            get(test, "/v1/verify?mode=fast&email=canary%40secret.example"),
            get(live, "/canary@secret.example?email=canary@secret.example"),
            get(live, "/v1/verify/batch/canary"),
            get("mp_live_canary", "/v1/account"),
            post(live, "/v1/verify", "{\"email\":\"outage@secret.example\",\"canary\":1}"),
            post(live, "/v1/verify", "{\"email\":\"panic@secret.example\"}"),
            post(live, "/v1/verify", "{\"email\":\"canary@secret.example"),
            post(live, "/v1/verify/batch", "{\"emails\":[\"canary@secret.example\",\"canary secret\"]}"),
            post(live, "/v1/verify/batch", "{\"emails\":[\"canary@secret.example\"],\"name\":\"canary\"}"),
            get(live, "/v1/account").replacen(
                "\r\n",
                "\r\nX-Request-Id: canary@secret\r\nIdempotency-Key: canary\r\n",
                1,
            ),
            "CANARY /canary HTTP/1.1\r\nHost: canary\r\n\r\n".into(),
            "canary\r\n\r\n".into(),
        ] {
            server.send(request);
        }
        let file = server.folder().join("backup");
        server.administer(&["backup", file.to_str().unwrap()]);
        server.administer(&["account", "create", "canary"]);
        let log = server.log();
        assert!(
            log.contains("a panic: the current request fails") && log.matches("request").count() >= 12,
            "{log}"
        );
        for personal in ["canary", "secret", "mp_live_", "mp_test_", "127.0.0.1", &live[8..], &test[8..]] {
            assert!(!log.to_ascii_lowercase().contains(&personal.to_ascii_lowercase()), "{personal}: {log}");
        }
    }
}

#[test]
fn systemd_is_told_of_each_state_and_fed_while_all_is_well() {
    use std::os::unix::net::UnixDatagram;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let child = std::process::Command::new(env!("CARGO_BIN_EXE_mailprobe"))
        .args(["--quiet", "serve", "--listen", "127.0.0.1:0", "--resolver", "127.0.0.1:9"])
        .args(["--ehlo", "probe.example", "--data"])
        .arg(folder.path().join("data"))
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "400000")
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let next = || {
        let mut message = [0; 256];
        let length = socket.recv(&mut message).unwrap();
        String::from_utf8(message[..length].to_vec()).unwrap()
    };
    assert_eq!(next().trim(), "READY=1");
    assert_eq!(next().trim(), "WATCHDOG=1");
    send_signal(&child, libc::SIGHUP);
    let reloading = std::iter::repeat_with(next).find(|message| !message.starts_with("WATCHDOG")).unwrap();
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
    assert_eq!(next().trim(), "READY=1");
    send_signal(&child, libc::SIGTERM);
    let stopping = std::iter::repeat_with(next).find(|message| !message.starts_with("WATCHDOG")).unwrap();
    assert_eq!(stopping.trim(), "STOPPING=1");
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    // Only the keys of the first start, which exist nowhere else.
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
}
