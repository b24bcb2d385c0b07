//! The command: its ready line, its counters at the end, and its addresses as CSV.

use rustix::process::{Pid, Signal, kill_process};
use std::{
    io::{BufRead, BufReader, Read},
    net::TcpStream,
    process::{Child, ChildStdout, Command, Output, Stdio},
};

fn mailnet() -> Command {
    Command::new(env!("CARGO_BIN_EXE_mailnet"))
}

fn scenario(name: &str) -> String {
    format!("{}/scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"))
}

fn output(arguments: &[&str]) -> Output {
    mailnet().args(arguments).output().expect("runs")
}

/// Starts a mailnet, and gives what it says when it is ready.
fn serve(command: &mut Command) -> (Child, BufReader<ChildStdout>, String) {
    let mut child = command.stdout(Stdio::piped()).spawn().expect("starts");
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    let mut ready = String::new();
    out.read_line(&mut ready).expect("a line");
    (child, out, ready)
}

#[test]
fn it_says_when_it_is_ready_and_what_happened() {
    for signal in [Signal::TERM, Signal::INT] {
        let scenario = scenario("catchall");
        let arguments = ["--scenario", &scenario, "--dns", "127.0.0.1:0", "--smtp-port", "0"];
        let (mut child, mut out, ready) = serve(mailnet().args(arguments));
        let words: Vec<&str> = ready.split_whitespace().collect();
        let ["dns", dns, "smtp-port", port, "domains", domains, "hosts", _] = words[..] else {
            panic!("{ready}");
        };
        assert_eq!(domains, "253");
        assert!(TcpStream::connect(dns).is_ok());
        assert!(TcpStream::connect(format!("127.1.0.1:{port}")).is_ok());
        kill_process(Pid::from_child(&child), signal).expect("it runs");
        let mut rest = String::new();
        out.read_to_string(&mut rest).expect("the counters");
        let stats: serde_json::Value = serde_json::from_str(&rest).expect("JSON");
        assert_eq!(stats["rcpt"], 0);
        assert!(stats["violations"].is_object());
        assert!(child.wait().expect("ends").success());
    }
}

#[test]
fn addresses_come_as_csv() {
    let of = |seed: &str| {
        let out = output(&["addresses", "--scenario", &scenario("bulk"), "-n", "500", "--seed", seed]);
        assert!(out.status.success());
        String::from_utf8(out.stdout).expect("text")
    };
    let list = of("3");
    assert_eq!(list, of("3"));
    assert_ne!(list, of("4"));
    let mut lines = list.lines();
    assert_eq!(lines.next(), Some("address,expected"));
    assert_eq!(lines.clone().count(), 500);
    assert!(lines.all(|line| line.matches(',').count() == 1 && line.contains(".example,")));
}

#[test]
fn patience_changes_what_is_expected() {
    let count = |more: &[&str]| {
        let file = scenario("reasons");
        let arguments = [&["addresses", "--scenario", &file, "-n", "2000"], more].concat();
        let list = String::from_utf8(output(&arguments).stdout).expect("text");
        list.lines().filter(|line| line.contains("@grey.example,mailbox_exists")).count()
    };
    assert_eq!(count(&[]), 0);
    assert!(count(&["--patient"]) > 0);
}

#[test]
fn the_journal_goes_to_a_file() {
    let folder = std::env::temp_dir().join(format!("mailnet-journal-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder");
    let (scenario, journal) = (folder.join("scenario.toml"), folder.join("journal.jsonl"));
    std::fs::write(&scenario, "journal = true\n[[domain]]\nname = \"d.example\"\n").expect("written");
    let mut command = mailnet();
    command.arg("--scenario").arg(&scenario).arg("--journal").arg(&journal);
    let (mut child, _out, ready) = serve(&mut command);
    let port = ready.split_whitespace().nth(3).expect("a port").to_owned();
    let mut client = BufReader::new(TcpStream::connect(format!("127.1.0.1:{port}")).expect("connects"));
    let mut banner = String::new();
    client.read_line(&mut banner).expect("a banner");
    drop(client);
    kill_process(Pid::from_child(&child), Signal::TERM).expect("it runs");
    assert!(child.wait().expect("ends").success());
    let text = std::fs::read_to_string(&journal).expect("a journal");
    let first: serde_json::Value =
        serde_json::from_str(text.lines().next().expect("an event")).expect("JSON");
    assert_eq!((&first["what"], &first["host"]), (&"begins".into(), &"mx1.d.example".into()), "{text}");
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn mistakes_are_told() {
    for (arguments, part) in [
        (vec![], "--scenario"),
        (vec!["--scenario", "/nowhere.toml"], "/nowhere.toml"),
        (vec!["addresses", "--scenario", env!("CARGO_MANIFEST_PATH"), "-n", "1"], "unknown field"),
    ] {
        let out = output(&arguments);
        assert!(!out.status.success());
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(said.contains(part), "{said}");
    }
}
