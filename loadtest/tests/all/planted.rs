//! `compare` against a real slowdown: servers with a fixed number of computations per request, of which one has 10 % more.
//!
//! Each server is a process of its own, so its processor time is measured as that of mailprobe. The short test runs with all
//! others. The campaign of docs/testing.md is an ignored test, because it takes more than an hour.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and a campaign reports its trials"
)]

use serde_json::Value;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

/// The number of computations per request; the name of the variable of the server's process.
const WORK: &str = "LOADTEST_PLANTED_WORK";
/// The computations of a request: some tenths of a millisecond.
const REQUEST_WORK: u64 = 100_000;

/// A server in a process of its own, which ends with this value.
struct Busy {
    child: Child,
    address: String,
}

impl Busy {
    fn start(work: u64) -> Busy {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "planted::busy_server", "--ignored", "--nocapture"])
            .env(WORK, work.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let address = lines.find_map(|line| Some(line.split_once("listening on ")?.1.to_owned()));
        thread::spawn(move || lines.for_each(drop));
        Busy { child, address: address.unwrap() }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The server of the other tests. It does nothing in a run of all ignored tests.
#[test]
#[ignore = "the process of a server, which other tests start"]
fn busy_server() {
    let Ok(work) = std::env::var(WORK) else { return };
    let work: u64 = work.parse().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("listening on {}", listener.local_addr().unwrap());
    for stream in listener.incoming().flatten() {
        thread::spawn(move || answer(stream, work));
    }
}

/// Answers each read: the client sends one request in one write and waits.
fn answer(mut stream: TcpStream, work: u64) {
    let mut input = [0; 4096];
    while stream.read(&mut input).is_ok_and(|count| count > 0) {
        let mut sum = 1u64;
        for number in 0..work {
            sum = black_box(sum.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(number));
        }
        let body = format!("{{\"reason\":\"fast_check_passed\",\"sum\":{sum}}}");
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        if stream.write_all((head + &body).as_bytes()).is_err() {
            return;
        }
    }
}

/// `mailprobe-loadtest`; a campaign takes it from the folder of the release builds, if there is one.
fn program() -> Command {
    let folder = std::env::var_os("LOADTEST_BIN_DIR").map(PathBuf::from);
    let built = || PathBuf::from(env!("CARGO_BIN_EXE_mailprobe-loadtest"));
    Command::new(folder.map_or_else(built, |folder| folder.join("mailprobe-loadtest")))
}

/// The length of a campaign, from the environment.
#[derive(Clone, Copy)]
struct Length {
    trials: u32,
    pairs: u32,
    ms: u32,
}

impl Length {
    fn of_campaign() -> Length {
        let number = |name: &str, default: u32| {
            std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
        };
        Length {
            trials: number("LOADTEST_TRIALS", 20),
            pairs: number("LOADTEST_PAIRS", 20),
            ms: number("LOADTEST_MS", 2000),
        }
    }
}

/// One side of a trial: either a server of this test or a spawned mailprobe.
enum Side {
    Work(u64),
    /// The delay of the mail servers in milliseconds.
    Latency(u32),
}

impl Side {
    fn run(&self, folder: &Path, name: &str, seed: u32, ms: u32) -> PathBuf {
        let json = folder.join(format!("{name}-{seed}.json"));
        let mut command = program();
        command.args([
            "run",
            "--warm-up",
            "200ms",
            "--duration",
            &format!("{ms}ms"),
            "--seed",
            &seed.to_string(),
        ]);
        command.arg("--json").arg(&json);
        let busy = match self {
            Side::Work(work) => {
                let busy = Busy::start(*work);
                let key = folder.join("key");
                std::fs::write(&key, "mp_test_key").unwrap();
                command.args(["--rate", "200", "--mix", "fast=1", "--server", &busy.address, "--key-file"]);
                command.arg(key).args(["--pid", &busy.child.id().to_string()]);
                Some(busy)
            }
            Side::Latency(latency) => {
                command.args(["--spawn", "--rate", "200", "--mix", "fast=60,full=40"]);
                command.args(["--latency", &latency.to_string(), "--bin-dir"]);
                command.arg(std::env::var_os("LOADTEST_BIN_DIR").expect("LOADTEST_BIN_DIR"));
                None
            }
        };
        let output = command.output().unwrap();
        drop(busy);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        json
    }
}

/// Runs pairs in turn and compares them; returns the comparison and its exit code.
fn trial(a: &Side, b: &Side, first_seed: u32, length: Length) -> (Value, Option<i32>) {
    let folder = tempfile::tempdir().unwrap();
    let (mut ones, mut others) = (Vec::new(), Vec::new());
    for seed in first_seed..first_seed + length.pairs {
        ones.push(a.run(folder.path(), "a", seed, length.ms));
        others.push(b.run(folder.path(), "b", seed, length.ms));
    }
    let output =
        program().args(["compare", "--json", "--a"]).args(ones).arg("--b").args(others).output().unwrap();
    let comparison = serde_json::from_slice(&output.stdout);
    assert!(comparison.is_ok(), "{}", String::from_utf8_lossy(&output.stderr));
    (comparison.unwrap(), output.status.code())
}

/// The names of the figures with a verdict of a difference.
fn differences(comparison: &Value) -> Vec<String> {
    let figures = comparison["figures"].as_array().unwrap();
    let found = figures.iter().filter(|figure| figure["verdict"] != "no difference found");
    found.map(|figure| format!("{}: {}", figure["name"].as_str().unwrap(), figure["verdict"])).collect()
}

/// Prints each trial; nine of ten must have a verdict that `counts`.
fn campaign(name: &str, a: &Side, b: &Side, counts: fn(&[String]) -> bool) {
    let length = Length::of_campaign();
    let mut counted = 0;
    for number in 0..length.trials {
        let (comparison, _) = trial(a, b, number * length.pairs + 1, length);
        counted += u32::from(counts(&differences(&comparison)));
        println!("{name}, trial {}: {}", number + 1, comparison["summary"].as_str().unwrap());
        for figure in comparison["figures"].as_array().unwrap() {
            println!("    {}: {} {}", figure["name"], figure["difference"], figure["interval"]);
        }
    }
    println!("{name}: {counted} of {} trials", length.trials);
    assert!(counted * 10 >= length.trials * 9, "{name}: {counted} of {} trials", length.trials);
}

#[test]
#[ignore = "a campaign of more than an hour: docs/testing.md"]
fn equal_servers_in_turn() {
    let side = || Side::Work(REQUEST_WORK);
    campaign("equal servers without a verdict", &side(), &side(), <[String]>::is_empty);
}

#[test]
#[ignore = "a campaign of more than an hour: docs/testing.md"]
fn a_server_with_ten_percent_more_work() {
    let (a, b) = (Side::Work(REQUEST_WORK), Side::Work(REQUEST_WORK / 10 * 11));
    campaign("10 % more work found", &a, &b, |found| is_slower(found, "CPU"));
}

#[test]
#[ignore = "a campaign of more than an hour with LOADTEST_BIN_DIR: docs/testing.md"]
fn equal_builds_of_mailprobe_in_turn() {
    let side = || Side::Latency(50);
    campaign("equal builds without a verdict", &side(), &side(), <[String]>::is_empty);
}

#[test]
#[ignore = "a campaign of more than an hour with LOADTEST_BIN_DIR: docs/testing.md"]
fn mail_servers_with_ten_percent_more_latency() {
    let (a, b) = (Side::Latency(50), Side::Latency(55));
    campaign("10 % more latency found", &a, &b, |found| is_slower(found, "full p50"));
}

/// Whether a figure with this beginning is slower.
fn is_slower(found: &[String], figure: &str) -> bool {
    found.iter().any(|one| one.starts_with(figure) && one.contains("slower"))
}

#[test]
fn five_times_the_work_is_found_in_saved_results() {
    let length = Length { trials: 1, pairs: 12, ms: 250 };
    let (a, b) = (Side::Work(REQUEST_WORK), Side::Work(REQUEST_WORK * 5));
    let (comparison, code) = trial(&a, &b, 1, length);
    let found = differences(&comparison);
    assert!(is_slower(&found, "fast p50"), "{comparison:#}");
    assert_eq!((comparison["pairs"].as_u64(), code), (Some(12), Some(1)));
    let summary = comparison["summary"].as_str().unwrap();
    assert!(summary.starts_with("B is worse than A: "), "{summary}");
}

#[test]
fn wrong_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.json");
    std::fs::write(&file, "{\"steps\": []}").unwrap();
    let said = |words: &[&str]| {
        let output = program().arg("compare").args(words).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let file = file.to_str().unwrap();
    let (code, error) = said(&[file, file]);
    assert!(code == Some(1) && error.contains("no result of `run --json`"), "{error}");
    let (code, error) = said(&["--a", file, file, "--b", file]);
    assert!(code == Some(1) && error.contains("the same number of each"), "{error}");
    for words in [&[][..], &[file], &["--a", file], &[file, file, "--b", file]] {
        assert_eq!(said(words).0, Some(2), "{words:?}");
    }
    let (code, error) = said(&[file, file, file, file]);
    assert!(code == Some(2) && error.contains("for several runs use --a FILES --b FILES"), "{error}");
}
