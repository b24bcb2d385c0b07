//! Sites with a used-up budget, and verdicts with withdrawn evidence.

use crate::harness::client::Answer;
use crate::harness::server::{Server, get, mailprobe};
use crate::http::batches::{id, poll, reasons, submit};
use crate::{at_once, until, until_true};
use serde_json::json;
use std::ffi::OsStr;
use std::time::Duration;

/// The reason of an answer, and whether it was a repeat.
fn told(answer: &Answer) -> (String, bool) {
    assert_eq!(answer.status, 200, "{answer:?}");
    let body = answer.json();
    (body["reason"].as_str().unwrap().to_owned(), body["cached"].as_bool().unwrap())
}

#[track_caller]
fn assert_over_budget(answer: &Answer) {
    answer.assert_refused(503, "temporarily_unavailable");
    assert_eq!(answer.header("retry-after"), Some("2400"));
    let message = answer.json()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("nothing was charged") && message.contains("2400 s"), "{message}");
    assert!(!answer.body.contains("example.com"), "{}", answer.body);
}

#[test]
fn a_check_over_the_budget_of_its_site_costs_nothing_and_is_no_repeat() {
    let server = Server::start(&["--metrics", "127.0.0.1:0"]);
    for tries in 1..=2 {
        assert_over_budget(&server.verify(&server.live, "budget@example.com"));
        assert_eq!((server.credits(), server.asked("budget@example.com")), (100, tries));
    }
    assert_over_budget(&server.get(&server.live, "/v1/verify?email=budget%40example.com&detail=full"));
    // A check that waits for another one gets the same answer.
    let together = at_once(3, |_| server.verify(&server.live, "budget-400@example.com"));
    together.iter().for_each(assert_over_budget);
    assert_eq!(server.asked("budget-400@example.com"), 1);
    assert_eq!(server.ledger(), (0, 0));
    // After the budget has room the check is answered, and charged once.
    for _ in 0..2 {
        assert_eq!(server.verify(&server.live, "budget.2@example.com").status, 503);
    }
    let body = server.verify(&server.live, "budget.2@example.com").json();
    assert_eq!((&body["reason"], &body["credits_remaining"]), (&json!("mailbox_exists"), &json!(99)));
    assert_eq!(server.ledger(), (0, 1));
    assert_eq!(server.metric("mailprobe_over_budget_total{mode=\"full\"}"), 6.0);
    assert!(!server.log().contains("example.com"), "{}", server.log());
}

#[test]
fn rows_over_the_budget_wait_and_are_refunded_and_no_other_row_waits_for_them() {
    let server = Server::start(&["--batch-wait", "6", "--batch-rows-max", "2"]);
    let locals = ["budget", "catch_all", "budget.1", "budget", "mailbox_exists-100"];
    let first = id(&submit(&server, &server.live, &locals));
    let second = id(&submit(&server, &server.live, &["inbox_full", "role_account"]));
    assert_eq!(reasons(&server, &server.live, &second), ["inbox_full", "role_account"]);
    until(|| {
        let status = poll(&server, &server.live, &first);
        assert_eq!(status["status"], "processing", "it waits: {status}");
        if status["checked"] == 3 { Ok(()) } else { Err(status.to_string()) }
    });
    assert_eq!(server.ledger(), (5, 2), "the batch's credits are held until it is complete");
    let expected = ["unverifiable", "catch_all", "mailbox_exists", "unverifiable", "mailbox_exists"];
    assert_eq!(reasons(&server, &server.live, &first), expected);
    assert_eq!((server.credits(), server.ledger()), (95, (0, 5)), "two rows are refunded");
    assert_eq!(server.asked("budget@example.com"), 2, "at once and at the end");
    assert_over_budget(&server.verify(&server.live, "budget@example.com"));
    assert_eq!(server.metric("mailprobe_over_budget_total{mode=\"batch\"}"), 3.0);
}

/// The data that the engine got at its start: the stored refusals, and the installation.
fn started_with(server: &Server) -> (u32, String) {
    let line = server.announced().iter().find(|line| line.contains("scripted, asks nobody")).unwrap();
    let mut words = line.split(", ").skip(2);
    let refused = words.next().unwrap().split(' ').next().unwrap().parse().unwrap();
    (refused, words.next().unwrap().strip_prefix("installation ").unwrap().to_owned())
}

fn refuse(server: &Server, from: u32, to: u32) {
    for number in from..to {
        let got = server.verify(&server.live, &format!("mailbox_not_found-{number}@host7.example"));
        assert_eq!(told(&got).0, "mailbox_not_found");
    }
}

#[test]
fn refusals_and_the_installation_survive_restarts_and_a_kill_loses_seconds_at_most() {
    let server = Server::start(&[]);
    let (refused, installation) = started_with(&server);
    assert_eq!((refused, installation.len()), (0, 64));
    assert_ne!(installation, "0".repeat(64));
    refuse(&server, 0, 3);
    std::thread::sleep(Duration::from_secs(3));
    refuse(&server, 3, 4);
    let server = server.restart_after_kill();
    let (refused, again) = started_with(&server);
    assert!((3..=4).contains(&refused), "{refused}");
    assert_eq!(again, installation);
    refuse(&server, 4, 9);
    let server = server.restart_after(libc::SIGTERM);
    assert_eq!(started_with(&server), (refused + 5, installation.clone()), "a drain loses none");

    // A backup has both, and another folder has another secret.
    let elsewhere = tempfile::tempdir().unwrap();
    let file = elsewhere.path().join("backup");
    server.administer(&["backup", file.to_str().unwrap()]);
    let (data, keys) = (elsewhere.path().join("data"), server.data().join("first-keys"));
    let arguments: [&OsStr; 4] = ["restore".as_ref(), file.as_ref(), "--data".as_ref(), data.as_ref()];
    assert!(mailprobe(arguments).status.success());
    std::fs::copy(keys, data.join("first-keys")).unwrap();
    let restored = Server::start_in(elsewhere, &[]);
    assert_eq!(started_with(&restored), (refused + 5, installation.clone()));
    assert_ne!(started_with(&Server::start(&[])).1, installation);
    assert!(!server.log().contains(&installation[..16]) && !restored.log().contains(&installation[..16]));
}

#[test]
fn a_verdict_whose_evidence_is_withdrawn_is_asked_afresh() {
    let server = Server::start(&[]);
    let (stranger, address, other) =
        (server.stranger(), "mailbox_exists@host5.example", "mailbox_exists@host6.example");
    for email in [address, other] {
        assert_eq!(told(&server.verify(&server.live, email)), ("mailbox_exists".into(), false));
        assert_eq!(told(&server.verify(&server.live, email)), ("mailbox_exists".into(), true));
    }
    let emails = json!({ "emails": [address] }).to_string();
    let batch = id(&server.post(&server.live, "/v1/verify/batch", &emails));
    assert_eq!((server.credits(), server.asked(address)), (97, 1));
    server.verify(&server.live, "withdraw@host5.example");
    // A repeat is free; a new check is charged.
    until_true("it is no repeat any more", || {
        told(&server.verify(&server.live, address)) != ("mailbox_exists".into(), true)
    });
    assert_eq!((server.credits(), server.asked(address)), (95, 2));
    assert_eq!(told(&server.verify(&server.live, address)), ("mailbox_exists".into(), true), "found anew");
    assert_eq!(told(&server.verify(&server.live, other)), ("mailbox_exists".into(), true), "other evidence");
    assert_eq!(reasons(&server, &server.live, &batch), ["mailbox_exists"], "a batch says what it said");
    // A later verdict is also used for other accounts.
    assert_eq!(told(&server.verify(&stranger, address)), ("mailbox_exists".into(), false));
    assert_eq!(server.asked(address), 2);
}

#[test]
fn a_withdrawal_survives_a_kill_and_reaches_other_accounts_and_batches() {
    let server = Server::start(&[]);
    let (stranger, address) = (server.stranger(), "mailbox_exists@host5.example");
    server.verify(&server.live, address);
    server.verify(&server.live, "withdraw@host5.example");
    std::thread::sleep(Duration::from_secs(3));
    let server = server.restart_after_kill();
    assert_eq!(told(&server.verify(&stranger, address)), ("mailbox_exists".into(), false));
    assert_eq!(server.asked(address), 2, "what another account paid for is not used");
    let emails = json!({ "emails": [address, "withdraw@host5.example"] }).to_string();
    let batch = id(&server.post(&server.live, "/v1/verify/batch", &emails));
    assert_eq!(reasons(&server, &server.live, &batch)[0], "mailbox_exists");
    assert_eq!(server.asked(address), 2, "its own is withdrawn, the stranger's was found afterwards");
    assert_eq!(server.send(get(&server.live, "/v1/account")).status, 200);
    let (held, spent) = server.ledger();
    assert_eq!((held, spent, server.credits()), (0, 4, 96));
}
