//! Lists end soon after their last answer, whatever servers defer.

use super::{Desk, count, said};
use std::process::Child;
use std::time::{Duration, Instant};

const BOUND: Duration = Duration::from_secs(70);

/// All runs together must end within 70 s. They need 60 s, and the delays of a busy machine.
#[test]
fn a_host_that_puts_off_everyone_holds_a_list_for_a_minute_at_most() {
    let desk = Desk::new();
    let began = Instant::now();
    let mut runs: Vec<(&str, usize, Child)> = Vec::new();
    for domain in ["banner", "mail", "rcpt", "second", "half"] {
        for rows in [2, 8] {
            let addresses = (1..=rows).map(|n| format!("user-{n}@{domain}.example"));
            let list = desk.list(&format!("{domain}-{rows}"), addresses);
            runs.push((domain, rows, desk.clean(&list, &["--state", "none"])));
        }
    }
    // A slow host that works: an answer every few seconds is waited for, longer than for the other hosts.
    let list = desk.list("slow", (1..=8).map(|n| format!("user-{n}@slower.example")));
    let slow = desk.clean(&list, &["--state", "none", "--sessions", "1"]);
    // A server that says nothing: RCPT was sent for the first address only.
    let mute = desk.list("mute", (1..=8).map(|n| format!("user-{n}@mute.example")));
    let mute = desk.clean(&mute, &["--state", "none", "--columns", "rule"]);
    // A server without a greeting: RCPT was sent for no address, and each of them waited for the server.
    let shy = desk.list("shy", (1..=8).map(|n| format!("user-{n}@shy.example")));
    let shy = desk.clean(&shy, &["--state", "none", "--columns", "rule"]);
    // A host that accepts no connection: nothing was ever asked.
    let dead = desk.list("dead", (1..=3).map(|n| format!("user-{n}@dead.example")));
    let dead = desk.clean(&dead, &["--state", "none", "--columns", "rule"]);
    for (domain, rows, run) in runs {
        let said = said(&run.wait_with_output().unwrap());
        assert!(began.elapsed() < BOUND, "{domain} {rows}: {:?}: {said}", began.elapsed());
        let output = std::fs::read_to_string(desk.path(&format!("{domain}-{rows}.out"))).unwrap();
        let found = count(&output, ",true,mailbox_exists");
        let expected = match domain {
            "half" => rows / 2,
            // If a session ends at its second recipient, the control recipient cannot be asked about after the first.
            _ => 0,
        };
        assert_eq!(
            (found, count(&output, ",false,unverifiable")),
            (expected, rows - expected),
            "{domain}: {output}"
        );
        if expected < rows {
            let left = rows - expected;
            let rows = if left == 1 { "1 row is".into() } else { format!("{left} rows are") };
            assert!(
                said.contains(&format!(
                    "{rows} unverifiable:\n  {left} for now: a later try may tell more: `mailprobe clean "
                )),
                "{said}"
            );
            assert!(said.contains("; --max-wait 15m tries again within one run\n"), "{said}");
        }
    }
    let told = said(&mute.wait_with_output().unwrap());
    let output = std::fs::read_to_string(desk.path("mute.out")).unwrap();
    let counts = |output: &str| {
        ["no_answer_in_time", "site_silent"].map(|rule| count(output, &format!(",unverifiable,{rule}")))
    };
    assert_eq!(counts(&output), [1, 7], "{output}");
    assert!(
        told.contains("    site_silent                        7  not asked: the mail server did not answer"),
        "{told}"
    );
    said(&shy.wait_with_output().unwrap());
    let output = std::fs::read_to_string(desk.path("shy.out")).unwrap();
    assert_eq!(counts(&output), [8, 0], "{output}");
    said(&dead.wait_with_output().unwrap());
    let output = std::fs::read_to_string(desk.path("dead.out")).unwrap();
    assert_eq!(count(&output, ",unverifiable,no_connection"), 3, "{output}");
    // The advised command asks the same resolver and port, and uses the same state.
    let options =
        ["--resolver", "--smtp-port", "--allow-net 127.0.0.0/8", "--state none", "--ehlo probe.example"];
    assert!(options.iter().all(|option| told.contains(&format!(" {option}"))), "{told}");
    let said = said(&slow.wait_with_output().unwrap());
    let output = std::fs::read_to_string(desk.path("slow.out")).unwrap();
    assert_eq!(count(&output, ",true,mailbox_exists"), 8, "{said}");
    assert!(began.elapsed() > Duration::from_secs(60), "{:?} is no test of slowness", began.elapsed());
}
