//! Batches from their submission to their results: rows, credits, refusals, greylisting, outages, restarts.

use crate::harness::client::Answer;
use crate::harness::server::Server;
use crate::{at_once, until, until_true};
use serde_json::{Value, json};
use std::fmt::Display;
use std::time::Duration;

const PATH: &str = "/v1/verify/batch";

/// Submits addresses at example.com with these local parts.
pub fn submit(server: &Server, key: &str, locals: &[impl Display]) -> Answer {
    let emails: Vec<String> = locals.iter().map(|local| format!("{local}@example.com")).collect();
    server.post(key, PATH, &json!({ "emails": emails }).to_string())
}

/// The id of an accepted batch.
pub fn id(created: &Answer) -> String {
    assert_eq!(created.status, 202, "{created:?}");
    created.json()["batch_id"].as_str().unwrap().to_owned()
}

pub fn poll(server: &Server, key: &str, id: &str) -> Value {
    let got = server.get(key, &format!("{PATH}/{id}"));
    assert_eq!(got.status, 200, "{got:?}");
    got.json()
}

/// Polls until the batch is completed.
pub fn completed(server: &Server, key: &str, id: &str) -> Value {
    until(|| {
        let status = poll(server, key, id);
        if status["status"] == "completed" { Ok(status) } else { Err(status.to_string()) }
    })
}

/// The reasons of the rows of a batch, when it is completed.
pub fn reasons(server: &Server, key: &str, id: &str) -> Vec<String> {
    let status = completed(server, key, id);
    let rows = status["results"].as_array().unwrap();
    rows.iter().map(|row| row["reason"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_batch_from_its_submission_to_its_results() {
    let server = Server::start(&["--frontends", "2"]);
    let emails = [
        "mailbox_exists@a.example",
        "Role_Account@B.example",
        "catch_all-700@c.example",
        "mailbox_exists@a.example",
    ];
    let got = server.post(&server.live, PATH, &json!({ "emails": emails, "name": "spring" }).to_string());
    let created = got.json();
    let id = id(&got);
    assert!(id.strip_prefix("bat_").is_some_and(|rest| rest.len() == 26), "{id}");
    assert_eq!(
        created,
        json!({ "batch_id": id, "emails_submitted": 4, "status": "processing", "credits_remaining": 96 })
    );
    assert_eq!(got.header("idempotent-replayed"), None);
    let three = until(|| {
        let status = poll(&server, &server.live, &id);
        if status["checked"] == 3 { Ok(status) } else { Err(status.to_string()) }
    });
    assert_eq!((&three["status"], &three["progress"]), (&json!("processing"), &json!(75)), "one is slow");
    assert_eq!(three["waiting"], json!([{ "cause": "queue", "addresses": 1, "until": null }]));
    let row =
        |email, deliverable, reason| json!({ "email": email, "deliverable": deliverable, "reason": reason });
    assert_eq!(
        completed(&server, &server.live, &id),
        json!({
            "batch_id": id, "status": "completed", "progress": 100, "total": 4, "checked": 4,
            "results": [
                row("mailbox_exists@a.example", true, "mailbox_exists"),
                row("Role_Account@B.example", false, "mailbox_not_found"),
                row("catch_all-700@c.example", false, "catch_all"),
                row("mailbox_exists@a.example", true, "mailbox_exists"),
            ],
        })
    );
    assert_eq!(server.asked("mailbox_exists@a.example"), 1, "equal addresses are asked about once");
    assert_eq!(server.ledger(), (0, 4), "and each row is charged");
    for (reason, rows) in [("mailbox_exists", 2.0), ("catch_all", 1.0), ("mailbox_not_found", 1.0)] {
        let series = format!("mailprobe_checks_total{{mode=\"batch\",reason=\"{reason}\"}}");
        assert_eq!(server.metric(&series), rows, "{reason}");
    }
}

#[test]
fn greylisted_rows_are_asked_again_until_the_patience_ends() {
    let server = Server::start(&["--batch-wait", "4"]);
    let id = id(&submit(&server, &server.live, &["later.1", "later.2-100", "later.99", "catch_all"]));
    let got = reasons(&server, &server.live, &id);
    assert_eq!(got, ["mailbox_exists", "mailbox_exists", "unverifiable", "catch_all"]);
    assert_eq!(server.asked("later.1@example.com"), 2);
    assert!((3..=4).contains(&server.asked("later.99@example.com")));
    assert_eq!(server.ledger(), (0, 4), "unverifiable rows are charged");
    // A single check of such an address is answered at once, at its usual price.
    let got = server.verify(&server.live, "later.3@example.com").json();
    assert_eq!((&got["reason"], &got["credits_remaining"]), (&json!("unverifiable"), &json!(95)));
}

#[test]
fn an_outage_is_waited_out() {
    let server = Server::start(&[]);
    let id = id(&submit(&server, &server.live, &["down.2", "catch_all"]));
    assert_eq!(reasons(&server, &server.live, &id), ["mailbox_exists", "catch_all"]);
    assert_eq!((server.asked("down.2@example.com"), server.ledger()), (3, (0, 2)));
}

#[test]
fn what_an_outage_leaves_unanswered_is_refunded_and_no_repeat() {
    let server = Server::start(&["--batch-outage-wait", "2"]);
    let id = id(&submit(&server, &server.live, &["outage", "catch_all", "outage", "panic"]));
    assert_eq!(server.credits(), 96);
    let got = reasons(&server, &server.live, &id);
    assert_eq!(got, ["unverifiable", "catch_all", "unverifiable", "unverifiable"]);
    assert_eq!((server.credits(), server.ledger()), (99, (0, 1)));
    let again = server.verify(&server.live, "outage@example.com");
    assert_eq!(again.status, 503, "it is asked again");
    assert_eq!(server.credits(), 99);
}

#[test]
fn the_terms_of_a_batch_go_by_the_clock() {
    let server = Server::start(&["--test-clock"]);
    let id = id(&submit(&server, &server.live, &["outage", "later.1", "later.99"]));
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(poll(&server, &server.live, &id)["checked"], 0);
    server.advance(1200 * 1000);
    until_true("two rows are checked", || poll(&server, &server.live, &id)["checked"] == 2);
    server.advance(2400 * 1000);
    assert_eq!(reasons(&server, &server.live, &id), ["unverifiable", "mailbox_exists", "unverifiable"]);
    assert_eq!((server.credits(), server.ledger()), (98, (0, 2)));
    server.advance(7 * 24 * 3600 * 1000 + 1000);
    assert_eq!(server.get(&server.live, &format!("{PATH}/{id}")).status, 404, "batches are kept for a week");
}

#[test]
fn a_restart_goes_on_with_what_is_not_answered() {
    for signal in [libc::SIGKILL, libc::SIGTERM] {
        let flags = ["--batch-rows-max", "4"];
        let server = Server::start(&flags);
        let locals: Vec<String> = (300..340).map(|delay| format!("mailbox_exists-{delay}")).collect();
        let id = id(&submit(&server, &server.live, &locals));
        let first = until(|| match poll(&server, &server.live, &id)["checked"].as_u64().unwrap() {
            checked @ 5.. => Ok(checked),
            checked => Err(format!("{checked} rows are checked")),
        });
        let server = server.restart_after(signal);
        let status = poll(&server, &server.live, &id);
        assert!(status["checked"].as_u64().unwrap() >= first && status["status"] == "processing", "{status}");
        assert_eq!(reasons(&server, &server.live, &id), vec!["mailbox_exists"; 40]);
        assert_eq!((server.credits(), server.ledger()), (60, (0, 40)), "signal {signal}");
        let asked: usize = locals.iter().map(|local| server.asked(&format!("{local}@example.com"))).sum();
        assert!((40..=48).contains(&asked), "only what was under way is asked again: {asked}");
    }
}

#[test]
fn a_batch_of_a_deleted_account_is_not_asked_further() {
    let server = Server::start(&["--batch-rows-max", "4"]);
    let locals: Vec<String> = (1_000..1_060).map(|delay| format!("mailbox_exists-{delay}")).collect();
    let id = id(&submit(&server, &server.live, &locals));
    until_true("a row is checked", || poll(&server, &server.live, &id)["checked"] != 0);
    server.administer(&["account", "delete", "default", "--yes"]);
    assert_eq!(server.get(&server.live, &format!("{PATH}/{id}")).status, 401);
    let asked =
        || -> usize { locals.iter().map(|local| server.asked(&format!("{local}@example.com"))).sum() };
    // The thread of batches looks every two seconds.
    std::thread::sleep(Duration::from_secs(5));
    let first = asked();
    assert!(first < 40, "{first} of 60 are asked");
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(asked(), first);
}

#[test]
fn nobody_waits_for_another_account_s_batch() {
    let server = Server::start(&["--batch-rows-max", "2"]);
    let stranger = server.stranger();
    let locals: Vec<String> = (200..260).map(|delay| format!("catch_all-{delay}")).collect();
    let long = id(&submit(&server, &server.live, &locals));
    let short = id(&submit(&server, &stranger, &["mailbox_exists", "role_account"]));
    assert_eq!(reasons(&server, &stranger, &short), ["mailbox_exists", "role_account"]);
    assert_eq!(poll(&server, &server.live, &long)["status"], "processing");
    // A single check does not wait for batches either.
    assert_eq!(server.verify(&server.live, "role_account@a.example").json()["reason"], "role_account");
}

#[test]
fn batches_of_many_callers_at_once_are_each_charged_once() {
    let server = Server::start(&["--frontends", "3", "--batch-rows-max", "7"]);
    let ids = at_once(10, |n| {
        let locals: Vec<String> = (0..9).map(|m| format!("mailbox_exists-{}", 10 * n + m)).collect();
        id(&submit(&server, &server.live, &locals))
    });
    for id in &ids {
        assert_eq!(reasons(&server, &server.live, id), vec!["mailbox_exists"; 9]);
    }
    assert_eq!((server.credits(), server.ledger()), (10, (0, 90)));
}
