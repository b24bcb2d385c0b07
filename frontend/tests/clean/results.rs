//! Further columns of results, and estimates, with the real engine.

use super::{Desk, said};
use std::process::Command;

fn addresses() -> Vec<String> {
    ["email", "joe@a.example", "info@a.example", "gone@a.example", "joe@absent.example", "Joe@a.example"]
        .map(str::to_owned)
        .to_vec()
}

#[test]
fn facts_of_domains_and_rules_are_in_their_columns() {
    let desk = Desk::new();
    let list = desk.list("list.csv", addresses());
    let columns = "provider,role,score,rule,checked_at,scope,reply_code,enhanced_code";
    let (output, _) = desk.cleaned(&list, &["--state", "none", "--columns", columns]);
    let rows: Vec<Vec<&str>> = output.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows[0][..3], ["email", "deliverable", "reason"]);
    assert_eq!(rows[0][3..].join(","), columns);
    assert_eq!(rows[1][8..], ["recipient", "250", ""], "{output}");
    assert_eq!(rows[3][8..], ["recipient", "550", "5.1.1"], "{output}");
    assert_eq!(rows[4][8..], ["", "", ""], "{output}");
    assert_eq!(rows[1][1..6], ["true", "mailbox_exists", "other", "false", "83"], "{output}");
    assert_eq!(rows[2][1..6], ["true", "role_account", "other", "true", "68"], "{output}");
    assert_eq!(rows[3][1..6], ["false", "mailbox_not_found", "other", "false", "0"], "{output}");
    assert_eq!(rows[1][1..], rows[5][1..], "a duplicate has the same result");
    for row in &rows[1..] {
        assert!(lists::utc_seconds(row[7]).is_some(), "{output}");
        assert_ne!(row[6], "", "{output}");
    }
    // Fast checks know the provider, and have no score and no rule.
    let (output, _) = desk.cleaned(&list, &["--fast", "--columns", "provider,score,rule,suggestion"]);
    assert!(
        output.lines().nth(1).unwrap().starts_with("joe@a.example,,fast_check_passed,other,,,"),
        "{output}"
    );
}

#[test]
fn a_sample_of_a_list_is_checked() {
    let desk = Desk::new();
    let list = desk.list("list.csv", addresses());
    let mut command = desk.mailprobe("clean");
    let output =
        command.arg(&list).args(["--state", "none", "--sample", "3", "--seed", "1"]).output().unwrap();
    let said = said(&output);
    assert!(
        said.contains("the list has 5 rows, 4 distinct addresses, 0 rows without an address\n"),
        "{said}"
    );
    assert!(said.contains("estimate from 3 addresses (--seed 1), with the 95 % interval:\n"), "{said}");
    assert!(output.stdout.is_empty(), "no list is written");
}

/// What mail did after the verdicts of a list.
#[test]
fn an_output_is_scored() {
    let desk = Desk::new();
    let list = desk.list("list.csv", addresses());
    desk.cleaned(&list, &["--state", "none", "--columns", "provider,checked_at"]);
    // Events of the future are of now: behind the verdicts.
    let export = desk.list(
        "export.csv",
        [
            "email,event,timestamp,reason",
            "JOE@a.example,delivered,2090-01-01,",
            "gone@a.example,bounce,2090-01-01,550 5.1.1 user unknown",
            "info@a.example,bounce,2090-01-01,550 5.7.1 spam",
            "new@a.example,delivered,2090-01-01,",
        ]
        .map(str::to_owned),
    );
    let report = desk.path("outcome.html");
    let score = |flags: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mailprobe"));
        command.args(["learn", "--score"]).arg(list.with_extension("out")).args(flags).output().unwrap()
    };
    let files = [export.to_str().unwrap(), "--report", report.to_str().unwrap()];
    let output = score(&[&files[..], &["--json"]].concat());
    said(&output);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let row = |row: &serde_json::Value| {
        ["outcomes", "bounced", "other_failures"].map(|key| row[key].as_u64().unwrap())
    };
    assert_eq!(row(&json["all"]), [2, 1, 1], "{json}");
    assert_eq!(row(&json["by_provider"][0]), [2, 1, 1], "{json}");
    assert_eq!(json["by_provider"][0]["provider"], "other");
    assert_eq!(
        (&json["left_out"]["mailed_without_verdict"], &json["left_out"]["verdict_not_mailed"]),
        (&1.into(), &1.into())
    );
    let page = std::fs::read_to_string(&report).unwrap();
    assert!(page.contains("Outcome of verdicts: list.out") && !page.contains("joe@"), "{page}");
    for (flags, code, expected) in [
        (&files[..], 2, "outcome.html exists: name another file with --report, or give --force"),
        (&[], 2, "--score needs the bounces and deliveries that followed the verdicts: name them as FILE"),
        (&["--list"], 2, "cannot be used with"),
        (
            &[list.to_str().unwrap()],
            1,
            "list.csv: it is neither a message nor an mbox nor JSON, and as CSV it has no column of",
        ),
    ] {
        let output = score(flags);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(expected) && output.status.code() == Some(code), "{said}");
    }
}
