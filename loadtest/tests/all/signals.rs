//! Signals to the command while it runs with `--spawn`. The programs that it starts are scripts of this test.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(20);

/// A server that never ends its answer to a check, so that a run waits after its first signal.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || hold(stream));
        }
    });
    address
}

fn hold(mut stream: TcpStream) {
    while stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {}
}

fn script(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// `run --spawn` with scripts in place of mailnet and mailprobe. The scripts leave their process ids.
fn start(folder: &Path) -> Child {
    let run = ["run", "--rate", "50", "--mix", "fast=1", "--warm-up", "0s", "--duration", "1m"];
    start_with(folder, &run, "50s")
}

fn start_with(folder: &Path, words: &[&str], timeout: &str) -> Child {
    let server = server();
    let pids = folder.join("pids");
    let stay = format!("echo $$ >>{}\nexec sleep 60", pids.display());
    script(folder, "mailnet", &format!("echo dns 127.0.0.1:1 smtp 2\n{stay}"));
    let serve = format!("echo metrics: http://127.0.0.1:1/metrics\necho listening on {server}\n{stay}");
    let text = format!("case $1 in\nserve) {serve};;\n*) echo '{{\"key\":\"mp_test_key\"}}';;\nesac");
    script(folder, "mailprobe", &text);
    fs::create_dir(folder.join("temporary")).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_mailprobe-loadtest"))
        .args(words)
        .args(["--spawn", "--bin-dir"])
        .arg(folder)
        .args(["--timeout", timeout])
        .env("TMPDIR", folder.join("temporary"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(|| fs::read_to_string(&pids).is_ok_and(|text| text.lines().count() == 2));
    // The first requests are under way.
    thread::sleep(Duration::from_millis(500));
    child
}

fn wait_for(mut is_done: impl FnMut() -> bool) {
    let until = Instant::now() + LIMIT;
    while !is_done() {
        assert!(Instant::now() < until, "it takes too long");
        thread::sleep(Duration::from_millis(20));
    }
}

fn signal(child: &Child) {
    kill_process(Pid::from_child(child), Signal::INT).unwrap();
}

/// The started processes that still run.
fn left(folder: &Path) -> Vec<String> {
    let pids = fs::read_to_string(folder.join("pids")).unwrap();
    let runs = |pid: &&str| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.contains("(sleep)") && !stat.contains(") Z")
    };
    pids.lines().filter(runs).map(str::to_owned).collect()
}

#[test]
fn a_second_signal_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = start(folder.path());
    assert_eq!(left(folder.path()).len(), 2);
    signal(&child);
    thread::sleep(Duration::from_millis(700));
    assert!(child.try_wait().unwrap().is_none(), "the run waits for its answers");
    signal(&child);
    let mut code = None;
    wait_for(|| {
        code = child.try_wait().unwrap().map(|status| status.code());
        code.is_some()
    });
    assert_eq!(code, Some(Some(1)));
    assert_eq!(left(folder.path()), Vec::<String>::new());
    assert_eq!(fs::read_dir(folder.path().join("temporary")).unwrap().count(), 0);
}

/// As of `timeout -s INT`, which signals the process and its group.
#[test]
fn two_signals_at_once_are_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = start(folder.path());
    signal(&child);
    signal(&child);
    thread::sleep(Duration::from_millis(400));
    assert!(child.try_wait().unwrap().is_none(), "the run still ends in order");
    thread::sleep(Duration::from_millis(300));
    signal(&child);
    wait_for(|| child.try_wait().unwrap().is_some());
    assert_eq!(left(folder.path()), Vec::<String>::new());
}

#[test]
fn a_signal_in_the_first_step_of_a_search_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = start_with(folder.path(), &["search", "--mix", "fast=1", "--warm-up", "1m"], "1s");
    signal(&child);
    let mut error = String::new();
    child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert_eq!(error, "mailprobe-loadtest: ended by a signal\n");
    assert_eq!(left(folder.path()), Vec::<String>::new());
}
