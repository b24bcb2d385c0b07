//! Outages of the backend: 503, refunds, batches that wait; and a single dead server, which is no outage.

use crate::contract::accounts::{Account, addresses, batch, fast, verify};
use crate::contract::resolver::Resolver;
use crate::contract::world::{self, HOUR, MARGIN, address, domain, mailbox};
use crate::harness::client::Answer;
use crate::{at_once, until};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

#[track_caller]
fn assert_down(answer: &Answer) {
    answer.assert_refused(503, "provider_unavailable");
    assert!(answer.number("retry-after") >= 1, "{answer:?}");
    assert_eq!(answer.header("cache-control"), Some("no-store"));
}

/// Asks while a resolver is silent, until the backend counts as unavailable; returns the number of verdicts before
/// that.
fn until_down(account: &Account<'_>) -> u64 {
    let began = Instant::now();
    let mut verdicts = 0;
    while began.elapsed() < Duration::from_secs(60) {
        let answers = at_once(2, |_| account.call(verify(&mailbox())));
        for answer in &answers {
            if answer.status == 200 {
                assert_eq!(answer.json()["reason"], "unverifiable");
                verdicts += 1;
            } else {
                assert_down(answer);
            }
        }
        if answers.iter().all(|answer| answer.status == 503) {
            return verdicts;
        }
    }
    panic!("no 503 within a minute");
}

/// Asks until there is a true verdict again, which also ends the effects of the outage.
fn until_back(account: &Account<'_>) {
    let before = account.credits();
    until(|| {
        let answer = account.call(verify(&mailbox()));
        let is_back = answer.status == 200 && answer.json()["reason"] == "mailbox_exists";
        if is_back { Ok(()) } else { Err(format!("{answer:?}")) }
    });
    let paid = before - account.credits();
    assert!(paid <= 3, "a few may have been under way: {paid}");
}

#[test]
fn no_resolver_answers_is_503_refunded_and_over_by_itself() {
    let resolver = Resolver::silent();
    let server = world::with_resolver(resolver.address, &[]);
    let (account, empty) = (server.account("roomy"), server.account("none"));
    let verdicts = until_down(&account);
    assert!(verdicts <= 10, "unverifiable for the first few at most: {verdicts}");
    assert_eq!(account.credits(), 1_000_000 - verdicts, "what was answered 503 is refunded");
    // 402 precedes 503.
    empty.call(verify(&mailbox())).assert_refused(402, "insufficient_credits");
    empty.call(batch(&addresses(1))).assert_refused(402, "insufficient_credits");
    empty.set_status("paused");
    empty.call(verify(&mailbox())).assert_refused(402, "subscription_inactive");
    // Answers without a mail server are still given.
    assert_eq!(account.verify("nobody")["reason"], "invalid_syntax");
    assert_eq!(server.call(&verify("role@any.example").key(account.test())).ok()["reason"], "role_account");
    let answer = account.call(fast(&mailbox()));
    assert!([200, 503].contains(&answer.status), "{answer:?}");
    resolver.answer(true);
    until_back(&account);
}

#[test]
fn a_batch_waits_for_the_backend_and_is_refunded_after_an_hour() {
    let resolver = Resolver::silent();
    let server = world::with_resolver(resolver.address, &["--test-clock"]);
    until_down(&server.account("roomy"));
    let account = server.account("five");
    account.grant(2);
    // The hold takes five plan credits and one pack credit.
    let emails = addresses(6);
    let began = server.now();
    let created = account.start(&emails);
    let id = created["batch_id"].as_str().unwrap();
    let ended = server.now();
    assert_eq!(created["credits_remaining"], 1);
    server.advance_to(began + HOUR - MARGIN);
    let status = account.poll(id);
    assert_eq!((&status["status"], &status["checked"]), (&json!("processing"), &json!(0)));
    assert!(server.now() < began + HOUR, "the machine is too slow for this test");
    server.advance_to(ended + HOUR + 1);
    let done = account.finish(id);
    for row in done["results"].as_array().unwrap() {
        assert_eq!((&row["reason"], &row["deliverable"]), (&json!("unverifiable"), &json!(false)));
    }
    let shown = account.account();
    assert_eq!(
        (&shown["credits_remaining"], &shown["pack_credits"]),
        (&json!(7), &json!(2)),
        "back where it came from"
    );
    resolver.answer(true);
    until_back(&server.account("roomy"));
    let later = account.verify(&emails[0]);
    assert_eq!(
        (&later["cached"], &later["reason"]),
        (&json!(false), &json!("mailbox_exists")),
        "it counts as no repeat"
    );
}

#[test]
fn a_refund_into_an_ended_period_is_lost_with_its_plan_credits() {
    let resolver = Resolver::silent();
    let server = world::with_resolver(resolver.address, &["--test-clock"]);
    until_down(&server.account("roomy"));
    let account = server.account("five");
    account.grant(2);
    let end = account.period_end();
    server.advance_to(end - HOUR / 2);
    let created = account.start(&addresses(6));
    assert_eq!(created["credits_remaining"], 1);
    server.advance_to(end + 1);
    let shown = account.account();
    assert_eq!((&shown["credits_remaining"], &shown["pack_credits"]), (&json!(6), &json!(1)));
    server.advance_to(end + 2 * HOUR);
    account.finish(created["batch_id"].as_str().unwrap());
    let shown = account.account();
    assert_eq!(
        (&shown["credits_remaining"], &shown["pack_credits"]),
        (&json!(7), &json!(2)),
        "the pack's credit is back; the plan's five ended with their period"
    );
}

#[test]
fn a_batch_that_waited_is_answered_and_charged_when_the_backend_is_back() {
    let resolver = Resolver::silent();
    let server = world::with_resolver(resolver.address, &[]);
    let account = server.account("roomy");
    until_down(&account);
    let before = account.credits();
    let created = account.start(&addresses(3));
    let id = created["batch_id"].as_str().unwrap();
    assert_eq!(account.poll(id)["status"], "processing");
    resolver.answer(true);
    let done = account.finish(id);
    let reasons: Vec<&Value> = done["results"].as_array().unwrap().iter().map(|row| &row["reason"]).collect();
    assert_eq!(reasons, ["mailbox_exists"; 3]);
    assert_eq!(account.credits(), before - 3);
}

#[test]
fn one_dead_recipient_server_is_never_an_outage() {
    let server = world::start(&[]);
    let account = server.account("free");
    for _ in 0..20 {
        assert_eq!(account.verify(&address("user", "dead.example"))["reason"], "unverifiable");
    }
    assert_eq!(account.credits(), 80, "and each is charged");
    account.start(&addresses(1));
}

#[test]
fn no_mail_server_can_be_reached_is_503_and_refunded() {
    // No program listens on port 1 at any address.
    let server = world::start(&["--smtp-port", "1"]);
    let account = server.account("free");
    let (began, mut verdicts) = (Instant::now(), 0);
    let down = loop {
        let answer = account.call(verify(&address("user", &domain())));
        if answer.status != 200 {
            break answer;
        }
        assert_eq!(answer.json()["reason"], "unverifiable");
        verdicts += 1;
        assert!(began.elapsed() < Duration::from_secs(60), "no 503 within a minute");
        std::thread::sleep(Duration::from_millis(800));
    };
    assert_down(&down);
    assert_eq!(account.credits(), 100 - verdicts, "what was answered 503 is refunded");
    account.fast(&mailbox());
}

#[test]
fn a_full_queue_is_temporarily_unavailable_and_refunded() {
    let server = world::start(&["--queue", "4"]);
    let account = server.account("free");
    let answers = at_once(12, |_| account.call(verify(&address("user", "slow.example"))));
    let (answered, refused): (Vec<Answer>, Vec<Answer>) =
        answers.into_iter().partition(|answer| answer.status == 200);
    assert!((1..=4).contains(&answered.len()), "{answered:?}");
    for answer in &refused {
        answer.assert_refused(503, "temporarily_unavailable");
        assert!(answer.number("retry-after") >= 1);
    }
    assert_eq!(account.credits(), 100 - answered.len() as u64, "what was answered 503 is refunded");
    account.verify(&mailbox());
}
