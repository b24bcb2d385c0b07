//! The socket: its permissions, its limits, and sockets of dead servers.

use crate::admin::{NOW, Site, open, run};
use server::admin::SOCKET_FILE;
use server::admin::server::{AdminError, AdminServer};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

fn connect(site: &Site) -> UnixStream {
    let stream = UnixStream::connect(site.path().join(SOCKET_FILE)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// Sends bytes and reads one line.
fn exchange(site: &Site, request: &[u8]) -> String {
    let mut stream = connect(site);
    // The server may close before it has read the whole of a line that is too long.
    let _ = stream.write_all(request);
    let mut line = String::new();
    let _ = BufReader::new(stream).read_line(&mut line);
    line
}

#[test]
fn it_is_for_its_owner_alone_and_goes_with_the_server() {
    let mut site = Site::running();
    let path = site.path().join(SOCKET_FILE);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    site.server = None;
    assert!(!path.exists());
    // The store is free again.
    assert!(site.run(&["account", "create", "a"]).is_ok());
}

#[test]
fn a_dead_socket_is_replaced_and_a_live_one_is_not() {
    let site = Site::stopped();
    let path = site.path().join(SOCKET_FILE);
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    // The command line recognises it.
    run(site.path(), &["account", "create", "a"]).unwrap();
    let store = open(site.path());
    let server = AdminServer::start(site.path(), store.clone(), || NOW, None).unwrap();
    assert!(site.run(&["account", "list"]).unwrap().contains("acc_"));
    let second = AdminServer::start(site.path(), store, || NOW, None).map(drop).unwrap_err();
    assert!(matches!(second, AdminError::InUse(_)), "{second}");
    assert!(site.run(&["account", "list"]).is_ok());
    drop(server);
}

#[test]
fn what_a_killed_start_left_is_in_nobodys_way() {
    let site = Site::stopped();
    std::fs::create_dir(site.path().join(".adm")).unwrap();
    drop(UnixListener::bind(site.path().join(".adm/s")).unwrap());
    let server = AdminServer::start(site.path(), open(site.path()), || NOW, None).unwrap();
    assert!(site.run(&["account", "list"]).is_ok());
    assert!(!site.path().join(".adm").exists());
    drop(server);
}

#[test]
fn a_locked_store_without_an_answer_is_an_error() {
    let site = Site::stopped();
    let _store = open(site.path());
    let refused = site.run(&["account", "list"]).unwrap_err();
    assert!(refused.contains("is in use by another mailprobe, but no server answers"), "{refused}");
}

#[test]
fn a_server_that_starts_slowly_is_waited_for() {
    let site = Site::stopped();
    let store = open(site.path());
    std::thread::scope(|scope| {
        let list = scope.spawn(|| site.run(&["account", "list"]));
        std::thread::sleep(Duration::from_millis(300));
        let server = AdminServer::start(site.path(), store, || NOW, None).unwrap();
        assert!(list.join().unwrap().is_ok());
        drop(server);
    });
}

#[test]
fn a_path_too_long_for_a_socket_is_an_error() {
    let site = Site::stopped();
    let deep = site.path().join("x".repeat(100));
    let refused = AdminServer::start(&deep, open(&deep), || NOW, None).map(drop).unwrap_err().to_string();
    assert!(refused.contains("shorter than"), "{refused}");
}

#[test]
fn nonsense_gets_an_answer_and_the_next_request_its_own() {
    let site = Site::running();
    for (request, answer) in [
        (&b"\n"[..], "not a valid request"),
        (b"{}\n", "not a valid request"),
        (b"\xff\xfe\n", "not a valid request"),
        (b"[[[[[[[[[\n", "not a valid request"),
        (b"{\"version\":2,\"command\":{\"anything\":1}}\n", "uses version 1 of the admin protocol, not 2"),
        (b"{\"version\":1,\"command\":{\"anything\":1}}\n", "does not know this command"),
        (b"{\"version\":1,\"command\":{\"account_show\":{\"account\":\"x\"}}}\n", "no account has"),
    ] {
        let line = exchange(&site, request);
        assert!(line.starts_with("{\"version\":1,\"outcome\":{\"failed\":"), "{line}");
        assert!(line.contains(answer), "{line}");
    }
    let mut stream = connect(&site);
    stream.write_all(b"x\n{\"version\":1,\"command\":{\"account_list\":{\"after\":null}}}\n").unwrap();
    let lines: Vec<_> = BufReader::new(stream).lines().take(2).map(Result::unwrap).collect();
    assert!(lines[0].contains("failed") && lines[1].contains("{\"done\":{\"accounts\":[]}}"), "{lines:?}");
}

#[test]
fn a_line_without_end_is_cut_off() {
    let site = Site::running();
    let line = exchange(&site, &vec![b'x'; 100 * 1024]);
    assert!(line.is_empty() || line.contains("too long"), "{line}");
    assert!(site.run(&["account", "list"]).is_ok());
}

#[test]
fn a_silent_client_keeps_others_out_for_seconds_only() {
    let site = Site::running();
    let mut silent = connect(&site);
    silent.write_all(b"{\"version\":1").unwrap();
    let start = Instant::now();
    assert!(site.run(&["account", "list"]).is_ok());
    assert!(start.elapsed() < Duration::from_secs(10));
    let mut rest = String::new();
    silent.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("the request is incomplete"), "{rest}");
}

#[test]
fn a_server_that_hangs_up_is_an_error() {
    let site = Site::stopped();
    let listener = UnixListener::bind(site.path().join(SOCKET_FILE)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| drop(listener.accept().unwrap()));
        let refused = site.run(&["account", "list"]).unwrap_err();
        assert!(refused.contains("it is unknown whether the command took effect"), "{refused}");
    });
}
