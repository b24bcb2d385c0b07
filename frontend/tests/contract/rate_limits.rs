//! The table of requests per minute, fair use, and their headers. There are never more requests than the limit in any
//! 60 s.

use crate::contract::accounts::{Account, addresses, batch, fast, until_refused, verify};
use crate::contract::client::{Answer, Call, get, post};
use crate::contract::world::{DAY, MINUTE, Server, address, mailbox, net};
use serde_json::json;
use std::sync::OnceLock;
use std::time::Instant;

/// A server with the limits of the table, and with the real clock.
fn default_limits() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::with_default_plans(&[]))
}

#[track_caller]
fn assert_limited(answer: &Answer) {
    answer.assert_refused(429, "rate_limited");
    assert!((1..=61).contains(&answer.number("retry-after")), "{answer:?}");
}

/// Checks that the requests of a whole minute pass in one burst, and the next one is refused.
#[track_caller]
fn check_burst(call: Call, limit: usize) {
    let account = default_limits().account("growth");
    let (passed, refusal) = until_refused(&mut account.server.connect(), &call.key(&account.live), limit + 1);
    assert_eq!(passed, limit);
    let refusal = refusal.unwrap();
    assert_limited(&refusal);
    assert_eq!(refusal.header("cache-control"), Some("no-store"));
    assert_eq!(refusal.number("x-ratelimit-limit"), limit as u64);
    assert_eq!(refusal.number("x-ratelimit-remaining"), 0);
}

#[test]
fn verify_mode_fast_600_per_minute() {
    check_burst(fast("nobody"), 600);
}

#[test]
fn verify_full_600_per_minute() {
    check_burst(verify("nobody"), 600);
}

#[test]
fn batch_30_per_minute_of_up_to_200_addresses() {
    let account = default_limits().account("growth");
    let mut connection = account.server.connect();
    let emails: Vec<String> = (0..200).map(|_| address("user", "mailinator.com")).collect();
    let (passed, refusal) = until_refused(&mut connection, &batch(&emails).key(&account.live), 31);
    assert_eq!(passed, 30);
    assert_limited(&refusal.unwrap());
    assert_eq!(account.credits(), 50_000 - 6_000, "6,000 addresses in a minute, and none for the refusal");
}

#[test]
fn poll_600_per_minute() {
    // A poll of an unknown batch counts too.
    check_burst(get("/v1/verify/batch/bat_00000000000000000000000000"), 600);
}

#[test]
fn account_300_per_minute() {
    check_burst(get("/v1/account"), 300);
}

#[test]
fn each_row_and_each_key_has_a_counter_of_its_own() {
    let account = default_limits().account("growth");
    let mut connection = account.server.connect();
    let call = get("/v1/account");
    assert_eq!(until_refused(&mut connection, &call.clone().key(&account.live), 301).0, 300);
    account.verify(&mailbox());
    account.fast(&mailbox());
    let created = account.start(&addresses(1));
    account.poll(created["batch_id"].as_str().unwrap());
    for key in [&account.test().to_owned(), &account.another_key()] {
        account.server.call(&call.clone().key(key)).ok();
    }
    assert_limited(&account.call(call));
}

#[test]
fn fast_and_full_are_counted_apart() {
    let account = default_limits().account("growth");
    let mut connection = account.server.connect();
    assert_eq!(until_refused(&mut connection, &fast("nobody").key(&account.live), 601).0, 600);
    // The way in which the mode is given does not matter.
    assert_limited(&account.call(get("/v1/verify?email=nobody&mode=fast")));
    assert_limited(&account.call(post("/v1/verify?mode=fast", &json!({ "email": "nobody" }))));
    account.verify("nobody");
}

#[test]
fn refusals_after_authentication_and_replays_count() {
    let account = default_limits().account("growth");
    let mut connection = account.server.connect();
    let call = batch(&addresses(1)).header("Idempotency-Key", "k");
    for _ in 0..15 {
        assert_eq!(connection.call(&call.clone().key(&account.live)).status, 202);
    }
    for _ in 0..15 {
        assert_eq!(connection.call(&batch(&["nobody".into()]).key(&account.live)).status, 400);
    }
    assert_limited(&account.call(call));
}

#[test]
fn the_limit_comes_after_the_key_and_before_the_body() {
    let account = default_limits().account("growth");
    let mut connection = account.server.connect();
    assert_eq!(until_refused(&mut connection, &batch(&["x".into()]).key(&account.live), 31).0, 30);
    let text = Call::new("POST", "/v1/verify/batch").header("Content-Type", "text/plain").bytes("x");
    assert_limited(&account.call(text));
    let large = Call::new("POST", "/v1/verify/batch").bytes(vec![b'x'; 256 * 1024 + 1]);
    assert_limited(&account.call(large));
    assert_limited(&account.call(post("/v1/verify/batch", &json!({}))));
    account.set_status("paused");
    assert_limited(&account.call(batch(&addresses(1))));
    account.revoke();
    account.call(batch(&addresses(1))).assert_refused(401, "api_key_revoked");
}

#[test]
fn answers_tell_the_limit_and_what_is_left() {
    let account = default_limits().account("free");
    let calls = [
        (fast("nobody"), 600),
        (verify("nobody"), 600),
        (batch(&["nobody".into()]), 30),
        (get("/v1/verify/batch/bat_00000000000000000000000000"), 600),
        (get("/v1/account"), 300),
    ];
    for (call, limit) in calls {
        for used in 1..=2 {
            let answer = account.call(call.clone());
            assert_eq!(answer.number("x-ratelimit-limit"), limit, "{answer:?}");
            assert_eq!(answer.number("x-ratelimit-remaining"), limit - used, "{answer:?}");
            answer.number("x-ratelimit-reset");
            let policy = answer.header("ratelimit-policy").unwrap();
            assert!(policy.contains(&format!("q={limit}")) && policy.contains("w=60"), "{policy}");
            let standing = answer.header("ratelimit").unwrap();
            assert!(standing.contains(&format!("r={}", limit - used)), "{standing}");
        }
    }
}

#[test]
fn after_retry_after_has_passed_a_request_passes() {
    let server = Server::with_default_plans(&["--test-clock"]);
    let account = server.account("free");
    let call = get("/v1/account").key(&account.live);
    let mut connection = server.connect();
    let (_, refusal) = until_refused(&mut connection, &call, 301);
    let wait = refusal.unwrap().number("retry-after");
    server.advance(wait * 1000);
    connection.call(&call).ok();
}

#[test]
fn never_more_than_the_limit_in_any_60_seconds() {
    let server = Server::with_default_plans(&["--test-clock"]);
    let account = server.account("free");
    let call = get("/v1/account").key(&account.live);
    let mut connection = server.connect();
    let began = server.now();
    assert_eq!(until_refused(&mut connection, &call, 200).0, 200);
    let first_burst_ended = server.now();
    server.advance_to(began + 35_000);
    assert_eq!(until_refused(&mut connection, &call, 101).0, 100, "the second burst takes what is left");
    // The first burst is still within the minute.
    server.advance_to(began + 52_000);
    assert_limited(&connection.call(&call));
    // One second after the minute, which is the step of the window, the first burst no longer counts, and the second
    // does.
    server.advance_to(first_burst_ended + MINUTE + 1_001);
    assert_eq!(until_refused(&mut connection, &call, 201).0, 200);
    // A minute later none of them counts.
    server.advance(MINUTE + 1_001);
    assert_eq!(until_refused(&mut connection, &call, 301).0, 300);
}

#[test]
fn fair_use_is_5_full_checks_a_second_per_account_and_600_at_once() {
    let server = Server::with_default_plans(&["--test-clock"]);
    let account = server.account("growth");
    // Two keys, since one has 600 requests a minute. Disposable addresses need no mail server.
    let keys = [account.live.clone(), account.another_key()];
    let mut connection = server.connect();
    let mut check = |key: &str| connection.call(&verify(&address("user", "mailinator.com")).key(key));
    let began = server.now();
    let mut passed: u64 = 0;
    let refusal = loop {
        let answer = check(&keys[usize::from(passed >= 400)]);
        if answer.status == 429 {
            break answer;
        }
        answer.ok();
        passed += 1;
    };
    let most = 600 + 5 * (server.now() - began).div_ceil(1000) + 5;
    assert!((600..=most).contains(&passed), "{passed} of {most}");
    assert_limited(&refusal);
    assert_eq!(account.credits(), 50_000 - passed, "a refusal costs nothing");
    unlimited(&account, &keys[1]);
    // Ten seconds later there are 50 more.
    let began = server.advance(10_000);
    let more = (0..100).take_while(|_| check(&keys[1]).status == 200).count() as u64;
    let most = 50 + 5 * (server.now() - began).div_ceil(1000) + 10;
    assert!((45..=most).contains(&more), "{more} of {most}");
    // A long pause saves at most 600 checks; the limit of the key admits no more in any case.
    server.advance(DAY);
    assert_eq!(check(&keys[0]).status, 200);
}

/// Requests outside of fair use pass without it.
fn unlimited(account: &Account<'_>, key: &str) {
    let call = |call: Call| account.server.call(&call.key(key));
    assert_eq!(call(fast("nobody")).status, 200);
    assert_eq!(call(verify("nobody")).status, 200, "free: nothing is charged");
    assert_eq!(account.server.call(&verify(&mailbox()).key(account.test())).status, 200);
    call(get("/v1/account")).ok();
}

#[test]
fn fair_use_of_a_plan_and_what_it_does_not_count() {
    let plan = "[[plan]]\nid = \"free\"\nname = \"Slow\"\nmonthly_credits = 1000\n\
                limits = { fair_use_per_second = 1, fair_use_burst = 3 }\n";
    let server = Server::with_config(plan, net().dns(), &[]);
    let account = server.account("free");
    let known = mailbox();
    account.verify(&known);
    for _ in 0..8 {
        assert_eq!(account.verify(&known)["cached"], true, "repeats are free");
        account.fast(&mailbox());
        server.call(&verify(&mailbox()).key(account.test())).ok();
        account.verify("nobody");
    }
    let key = account.another_key();
    let began = Instant::now();
    let passed =
        (0..20).take_while(|_| server.call(&verify(&mailbox()).key(&key)).status == 200).count() as u64;
    let most = 3 + began.elapsed().as_secs() + 1;
    assert!((2..=most).contains(&passed), "{passed} of {most}: one bucket for all keys");
    server.account("free").verify(&mailbox());
}
