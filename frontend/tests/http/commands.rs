//! The command line of the real binary: exit codes, errors of one line, and the output of `config`.

use crate::harness::server::{Server, mailprobe, mailprobe_with, scripted};
use std::fs;

fn check(arguments: &[&str], code: i32, expected: &str) {
    let output = mailprobe(arguments);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("mailprobe: ") && said.contains(expected), "{said}");
}

#[test]
fn bad_usage_is_one_line_and_exit_code_2() {
    check(&["srve"], 2, "srve");
    check(&["check", "--fast"], 2, "ADDRESS");
    check(&["serve", "--listen", "nowhere"], 2, "--listen: `nowhere` is not IP:PORT");
    check(
        &["check", "a@example.com", "--pace", "quick"],
        2,
        "--pace: `quick` is not one of polite, fast, lab",
    );
    check(&["config", "--config", "/nonexistent/file"], 2, "/nonexistent/file");
}

#[test]
fn a_command_without_its_arguments_prints_its_help() {
    for command in [&[][..], &["check"], &["clean"], &["account"], &["key"], &["backup"], &["restore"]] {
        let output = mailprobe(command);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && output.stdout.is_empty(), "{command:?}: {said}");
        assert!(said.contains("Usage: mailprobe"), "{command:?}: {said}");
    }
}

#[test]
fn completions_and_pages_for_man_name_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let output = mailprobe(["completions", shell]);
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && script.contains("clean") && script.contains("max-wait"),
            "{shell}"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let output = mailprobe(["man", folder.path().to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for page in ["mailprobe.1", "mailprobe-serve.1", "mailprobe-clean.1", "mailprobe-key-create.1"] {
        assert!(fs::read_to_string(folder.path().join(page)).unwrap().contains(".TH"), "{page}");
    }
}

#[test]
fn a_wrong_key_is_told_with_its_line_and_the_nearest_key() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    fs::write(&file, "smtp_port = 25\nlisten = \"127.0.0.1:0\"\nsesions = 5\n").unwrap();
    let file = file.to_str().unwrap();
    for command in [&["config"][..], &["serve"], &["check", "a@example.com"], &["account", "list"]] {
        let expected = format!("{file}:3: unknown key `sesions`; did you mean `sessions`?");
        check(&[command, &["--config", file]].concat(), 2, &expected);
    }
}

#[test]
fn config_prints_what_would_bring_it_about() {
    let folder = tempfile::tempdir().unwrap();
    let printed = |arguments: &[&str]| {
        let output = mailprobe([&["config"], arguments].concat());
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let first = printed(&[
        "--smtp-port",
        "2525",
        "--resolver",
        "127.0.0.1:53",
        "--resolver",
        "[::1]:53",
        "--data",
        "/d",
    ]);
    let table: toml::Table = first.parse().unwrap();
    assert_eq!(table["smtp_port"].as_integer(), Some(2525));
    assert_eq!(table["listen"].as_str(), Some("127.0.0.1:8080"));
    assert_eq!(table["resolver"].as_array().map(Vec::len), Some(2));
    assert_eq!(table["plan"].as_array().map(Vec::len), Some(4));
    let file = folder.path().join("m.toml");
    fs::write(&file, &first).unwrap();
    assert_eq!(printed(&["--config", file.to_str().unwrap()]), first);
}

#[test]
fn accounts_and_keys_without_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    check(&["account", "list", "--data", data], 1, "no mailprobe data");
    let run = |arguments: &[&str]| {
        let output = mailprobe([arguments, &["--data", data]].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    run(&["account", "create", "acme", "--plan", "growth"]);
    run(&["key", "create", "acme", "--test"]);
    assert!(run(&["account", "list"]).contains("acme"));
    check(&["account", "create", "b", "--plan", "gold", "--data", data], 1, "plan");
}

#[test]
fn help_and_version_go_to_standard_output() {
    for argument in ["--help", "--version", "help"] {
        let output = mailprobe([argument]);
        assert!(
            output.status.success() && output.stderr.is_empty() && !output.stdout.is_empty(),
            "{argument}"
        );
    }
}

#[test]
fn only_the_clock_of_tests_is_moved() {
    let server = Server::start(&[]);
    let data = server.data();
    check(
        &["clock", "advance", "1000", "--data", data.to_str().unwrap()],
        1,
        "only on a server that was started with --test-clock",
    );
    let help = String::from_utf8(mailprobe(["serve", "--help"]).stdout).unwrap();
    assert!(!help.contains("test-clock"));
    let log = Server::start(&["--test-clock"]).log();
    assert!(log.contains("--test-clock is for tests"), "{log}");
}

/// The lines about addresses, in their order.
fn checked(arguments: &[&str], code: i32) -> (Vec<String>, String) {
    let output = scripted(&[&["check"], arguments].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{said}");
    let printed = String::from_utf8(output.stdout).unwrap();
    let lines = printed.lines().filter(|line| line.contains('@') || line.starts_with("    "));
    (lines.map(str::to_owned).collect(), said)
}

#[test]
fn check_prints_a_line_an_address_in_the_order_given() {
    let addresses = [
        "mailbox_exists-200@example.com",
        "catch_all@example.com",
        "no address @",
        "role_account@example.com",
    ];
    let (lines, said) = checked(&addresses, 0);
    assert_eq!(
        lines,
        [
            "mailbox_exists-200@example.com\tdeliverable\tmailbox_exists\tscripted",
            "catch_all@example.com\tnot deliverable\tcatch_all\tscripted",
            "no address @\tnot deliverable\tinvalid_syntax\tinvalid_syntax",
            "role_account@example.com\tdeliverable\trole_account\tscripted",
        ]
    );
    assert_eq!(said, "");
}

#[test]
fn check_as_json_is_the_api_s_answer_and_the_rule() {
    let (lines, _) = checked(&["--json", "--trace", "inbox_full@example.com"], 0);
    let got: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
    let expected = serde_json::json!({
        "email": "inbox_full@example.com",
        "deliverable": false,
        "reason": "inbox_full",
        "credits_remaining": null,
        "cached": false,
        "rule": "scripted",
        "trace": ["asked nobody"],
    });
    assert_eq!(got, expected);
    let (lines, _) = checked(&["--trace", "inbox_full@example.com"], 0);
    assert_eq!(lines[1], "    asked nobody");
}

#[test]
fn check_says_when_nobody_could_be_asked() {
    let (lines, said) = checked(&["outage@example.com", "unverifiable@example.com"], 1);
    assert_eq!(
        lines,
        [
            "outage@example.com\tnot checked\t-\toutage",
            "unverifiable@example.com\tnot deliverable\tunverifiable\tscripted",
        ]
    );
    assert!(
        said.starts_with("mailprobe: 1 of 2 addresses could not be checked: ") && said.lines().count() == 1,
        "{said}"
    );
    // More addresses than may be under way at once.
    let many: Vec<String> = (0..600).map(|i| format!("mailbox_exists-{}@example.com", i % 7)).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(checked(&many, 0).0.len(), 600);
}

#[test]
fn classify_answers_every_line_and_fails_for_unreadable_ones() {
    let input = "{\"mx\":\"mx.example.com\",\"stage\":\"rcpt\",\"reply\":\"550 5.1.1 User unknown\"}\n";
    let output = mailprobe_with(&["classify"], input);
    assert!(output.status.success(), "{output:?}");
    let got: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (got["reason"].as_str(), got["scope"].as_str()),
        (Some("mailbox_not_found"), Some("recipient"))
    );
    let output = mailprobe_with(&["classify"], &format!("nonsense\n{input}"));
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 2);
    assert!(output.stderr.starts_with(b"mailprobe: lines that could not be read: 1"));
}
