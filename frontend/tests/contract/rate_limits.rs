//! The table of requests per minute, fair use, and their headers. There are never more requests than the limit in any
//! 60 s.

use crate::at_once;
use crate::contract::accounts::{addresses, batch, fast, until_refused, verify};
use crate::contract::world::{self, DAY, MINUTE, address, net};
use crate::harness::client::{Answer, Call, get, post};
use crate::harness::server::Server;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

/// A server with a free plan that has these limits.
fn limited(limits: &str) -> Server {
    limited_with(&format!("[plan.limits]\n{limits}"), &[])
}

fn limited_with(plan: &str, flags: &[&str]) -> Server {
    let plan = format!("[[plan]]\nid = \"free\"\nname = \"Free\"\nmonthly_credits = 10000\n{plan}\n");
    world::with_config(&plan, net().dns(), flags)
}

fn epoch_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

/// Checks the headers of a counted request in a window of 60 seconds; `t` may be any whole second of it.
#[track_caller]
fn check_headers(answer: &Answer, policy: &str, limit: u64, remaining: u64) {
    let said = answer.header("ratelimit-policy");
    assert_eq!(said, Some(format!("\"{policy}\";q={limit};w=60").as_str()), "{answer:?}");
    let said = answer.header("ratelimit").unwrap();
    let t =
        said.strip_prefix(&format!("\"{policy}\";r={remaining};t=")).unwrap_or_else(|| panic!("{answer:?}"));
    let t: u64 = t.parse().unwrap();
    assert!((1..=60).contains(&t), "{answer:?}");
    assert_eq!(answer.number("x-ratelimit-limit"), limit);
    assert_eq!(answer.number("x-ratelimit-remaining"), remaining);
    let reset = answer.number("x-ratelimit-reset");
    assert!((epoch_s()..=epoch_s() + 61).contains(&reset), "{answer:?}");
}

#[track_caller]
fn check_refusal(answer: &Answer, policy: &str, limit: u64) {
    answer.assert_refused(429, "rate_limited");
    check_headers(answer, policy, limit, 0);
    let wait = answer.number("retry-after");
    assert!((1..=60).contains(&wait));
    assert!(answer.header("ratelimit").unwrap().ends_with(&format!(";t={wait}")), "{answer:?}");
    assert!(answer.header("x-request-id").is_some() && answer.header("cache-control") == Some("no-store"));
}

#[track_caller]
fn assert_limited(answer: &Answer) {
    answer.assert_refused(429, "rate_limited");
    assert!((1..=61).contains(&answer.number("retry-after")), "{answer:?}");
}

/// Sends one request more than the limit, quickly.
#[track_caller]
fn check_row(server: &Server, call: &Call, policy: &str, limit: u64) {
    let mut connection = server.connect();
    for left in (0..limit).rev() {
        let answer = connection.call(call);
        assert_ne!(answer.status, 429, "{left} left: {answer:?}");
        check_headers(&answer, policy, limit, left);
    }
    check_refusal(&connection.call(call), policy, limit);
}

/// A poll of an unknown batch, which counts too.
fn poll() -> Call {
    get("/v1/verify/batch/bat_00000000000000000000000000")
}

#[test]
fn each_row_lets_its_limit_through_in_one_burst_and_refuses_one_request_more() {
    let server = world::with_default_plans(&[]);
    // Batches of 200 addresses, which are disposable, so that no mail server is asked.
    let emails: Vec<String> = (0..200).map(|_| address("user", "mailinator.com")).collect();
    let account = server.account("growth");
    for (call, policy, limit) in [
        (fast("nobody"), "fast", 600),
        (verify("nobody"), "verify", 600),
        (batch(&emails), "batch", 30),
        (poll(), "poll", 600),
        (get("/v1/account"), "account", 300),
    ] {
        check_row(&server, &call.key(&account.live), policy, limit);
    }
    // The balance shows that the refused batch cost nothing. The other keys have counters of their own.
    let shown = server.call(&get("/v1/account").key(account.test())).ok();
    assert_eq!(shown["credits_remaining"], 50_000 - 6_000, "6,000 addresses in a minute");
    check_headers(&server.call(&poll().key(&account.another_key())), "poll", 600, 599);
}

#[test]
fn every_row_and_key_has_a_counter_of_its_own() {
    let server = limited("fast = 2\nverify = 2\nbatch = 2\npoll = 2\naccount = 2");
    let account = server.account("free");
    for key in [&account.live, account.test(), &account.another_key()] {
        for (call, policy) in [
            (get("/v1/account"), "account"),
            (verify("nobody"), "verify"),
            (fast("nobody"), "fast"),
            (batch(&["nobody".into()]), "batch"),
            (poll(), "poll"),
        ] {
            check_row(&server, &call.key(key), policy, 2);
        }
    }
}

#[test]
fn full_checks_of_both_methods_share_a_counter_wherever_the_mode_stands() {
    let server = limited("fast = 3\nverify = 4");
    let (full, quick) = (verify("nobody"), fast("nobody"));
    let by_query = |query: &str| post(format!("/v1/verify{query}"), &json!({ "email": "nobody" }));
    for (call, policy, limit, left) in [
        (get("/v1/verify?email=a&mode=full"), "verify", 4, 3),
        (get("/v1/verify?email=a&mode=fast"), "fast", 3, 2),
        (full.clone(), "verify", 4, 2),
        (quick.clone(), "fast", 3, 1),
        (by_query("?mode=full"), "verify", 4, 1),
        (by_query("?mode=fast"), "fast", 3, 0),
        (get("/v1/verify?email=a"), "verify", 4, 0),
    ] {
        check_headers(&server.call(&call.key(&server.test)), policy, limit, left);
    }
    check_refusal(&server.call(&quick.key(&server.test)), "fast", 3);
    check_refusal(&server.call(&full.key(&server.test)), "verify", 4);
}

#[test]
fn what_is_wrong_with_a_request_counts_and_over_the_limit_is_not_told() {
    let server = limited("verify = 6\nfast = 1");
    let raw = |body: &str| post("/v1/verify", &Value::Null).bytes(body);
    let wrong = [
        (get("/v1/verify"), 400),
        (get("/v1/verify?email=a&mode=quick"), 400),
        (raw("{"), 400),
        (raw("{\"email\":1}"), 400),
        (Call::new("POST", "/v1/verify").header("Content-Type", "text/plain").bytes("{}"), 415),
        (raw(&"x".repeat(300_000)), 413),
    ]
    .map(|(call, status)| (call.key(&server.test), status));
    for ((call, status), left) in wrong.iter().zip((0..6).rev()) {
        let answer = server.call(call);
        assert_eq!(answer.status, *status);
        check_headers(&answer, "verify", 6, left);
    }
    for (call, _) in &wrong {
        check_refusal(&server.call(call), "verify", 6);
    }
    // The mode is known nevertheless.
    check_row(&server, &raw("{\"mode\":\"fast\"}").key(&server.test), "fast", 1);
    // Refusals that precede the rate are unchanged, and have no headers of a row.
    for (call, status) in [
        (get("/v1/verify").key(""), 401),
        (get("/v1/verify/").key(&server.test), 404),
        (Call::new("PUT", "/v1/verify").key(&server.test), 405),
        (get("/livez").key(&server.test), 200),
    ] {
        let answer = server.call(&call);
        assert_eq!((answer.status, answer.header("ratelimit")), (status, None));
    }
}

#[test]
fn the_limit_comes_after_the_key_and_before_the_body() {
    let server = limited("batch = 1");
    let account = server.account("free");
    let raw = |body: Vec<u8>| post("/v1/verify/batch", &Value::Null).bytes(body);
    check_headers(&account.call(batch(&["nobody".into()])), "batch", 1, 0);
    for call in [
        batch(&addresses(1)),
        raw(b"{}".to_vec()),
        raw(vec![b'x'; 256 * 1024 + 1]),
        Call::new("POST", "/v1/verify/batch").header("Content-Type", "text/plain").bytes("x"),
    ] {
        check_refusal(&account.call(call), "batch", 1);
    }
    account.set_status("paused");
    check_refusal(&account.call(batch(&addresses(1))), "batch", 1);
    account.revoke();
    account.call(batch(&addresses(1))).assert_refused(401, "api_key_revoked");
}

#[test]
fn the_plan_comes_before_the_rate_and_its_refusals_count() {
    let server = limited_with("batches = false\n[plan.limits]\nbatch = 2", &[]);
    let wrong = || post("/v1/verify/batch", &Value::Null).bytes("{");
    for key in [&server.live, &server.test] {
        for (call, left) in [(batch(&addresses(1)), 1), (wrong(), 0), (batch(&addresses(1)), 0)] {
            let answer = server.call(&call.key(key));
            answer.assert_refused(403, "plan_not_allowed");
            check_headers(&answer, "batch", 2, left);
            assert_eq!(answer.header("retry-after"), None);
        }
        server.call(&poll().key(key)).assert_refused(404, "not_found");
        server.call(&verify("nobody").key(key)).ok();
    }
}

#[test]
fn a_body_that_awaits_consent_is_refused_unread() {
    let server = limited("account = 1\nverify = 1");
    let call = || post("/v1/verify?mode=full", &json!({ "email": "nobody" })).key(&server.test);
    check_headers(&server.call(&call()), "verify", 1, 0);
    let whole = call().header("Expect", "100-continue").encode();
    let end = whole.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
    check_refusal(&server.send(&whole[..end + 4]), "verify", 1);
}

/// Counters are stored each second. On a busy machine, it takes longer until they are on the disk.
const COUNTERS_STORED: Duration = Duration::from_secs(5);

#[test]
fn after_the_wait_a_request_passes_over_a_restart_too() {
    let server = limited_with("[plan.limits]\nverify = 5\naccount = 3", &["--test-clock"]);
    let (check, account) = (verify("nobody").key(&server.test), get("/v1/account").key(&server.live));
    check_row(&server, &check, "verify", 5);
    check_row(&server, &account, "account", 3);
    std::thread::sleep(COUNTERS_STORED);
    let server = server.restart_after_kill();
    check_refusal(&server.call(&check), "verify", 5);
    let refused = server.call(&account);
    check_refusal(&refused, "account", 3);
    server.call(&get("/v1/account").key(&server.test)).ok();
    let wait = refused.number("retry-after");
    assert!(wait >= 30, "{wait}");
    server.advance(wait * 1000);
    server.call(&account).ok();
    server.call(&check).ok();

    // The clock is back: requests that were counted ahead of it count as of now.
    for _ in 0..2 {
        server.call(&account).ok();
    }
    std::thread::sleep(COUNTERS_STORED);
    let server = server.restart_after_kill();
    let refused = server.call(&account);
    check_refusal(&refused, "account", 3);
    server.advance(refused.number("retry-after") * 1000);
    server.call(&account).ok();
}

#[test]
fn an_account_s_own_limits_hold_at_once() {
    let server = world::with_default_plans(&[]);
    let call = get("/v1/account").key(&server.test);
    let set = |arguments: &[&str]| {
        server.administer(&[&["account", "set-limits", "default", "--json"], arguments].concat());
    };
    set(&["--account", "2"]);
    check_row(&server, &call, "account", 2);
    set(&["--account", "3"]);
    check_headers(&server.call(&call), "account", 3, 0);
    set(&["--reset"]);
    check_headers(&server.call(&call), "account", 300, 296);
}

#[test]
fn all_threads_count_together() {
    let server = limited_with("[plan.limits]\nverify = 50", &["--frontends", "3"]);
    let call = verify("nobody").key(&server.test);
    let passed = at_once(6, |_| until_refused(&mut server.connect(), &call, 20).0);
    assert_eq!(passed.iter().sum::<usize>(), 50);
}

#[test]
fn replays_and_refused_batches_count_and_their_rows_take_no_fair_use() {
    let server = limited("batch = 4\nfair_use_burst = 1\nfair_use_per_second = 1");
    let account = server.account("free");
    let start = |body: &Value| account.call(post("/v1/verify/batch", body).header("Idempotency-Key", "k"));
    let body = json!({ "emails": addresses(2) });
    let other = json!({ "emails": addresses(1) });
    for (body, status, left) in [(&body, 202, 3), (&body, 202, 2), (&json!({}), 400, 1), (&other, 422, 0)] {
        let answer = start(body);
        assert_eq!(answer.status, status, "{answer:?}");
        check_headers(&answer, "batch", 4, left);
    }
    check_refusal(&start(&body), "batch", 4);
    check_refusal(&start(&json!({})), "batch", 4);
    account.verify(&addresses(1)[0]);
}

#[test]
fn the_fast_checks_of_all_keys_of_an_account_have_a_limit_too() {
    let server = limited("fast = 3\nfast_account = 5");
    let ask = |key: &str| server.call(&fast("nobody").key(key));
    (0..3).for_each(|_| drop(ask(&server.live).ok()));
    check_refusal(&ask(&server.live), "fast", 3);
    (0..2).for_each(|_| drop(ask(&server.test).ok()));
    let refused = ask(&server.test);
    check_refusal(&refused, "fast_account", 5);
    assert!(refused.body.contains("keys of this account"), "{refused:?}");
    // Another account has its own.
    ask(&server.stranger()).ok();
}

#[test]
fn batches_of_test_keys_fill_the_share_of_their_account_and_not_that_of_others() {
    let server = limited_with("stored_mib = 1\n[plan.limits]\nbatch = 100", &[]);
    let long = |n: usize| format!("{n:0>64}@{0}.{0}.{1}.com", "d".repeat(63), "d".repeat(56));
    let full = batch(&(0..200).map(long).collect::<Vec<_>>()).key(&server.test);
    let stored = (0..40).take_while(|_| server.call(&full).status == 202).count();
    assert!((18..=20).contains(&stored), "{stored}");
    let refused = server.call(&full);
    refused.assert_refused(413, "request_too_large");
    assert!(refused.body.contains("1 MiB, which is its share"), "{refused:?}");
    let small = batch(&addresses(1));
    assert_eq!(server.call(&small.clone().key(&server.live)).status, 202, "its credits have room");
    assert_eq!(server.call(&small.key(&server.stranger())).status, 202);
}

#[test]
fn never_more_than_the_limit_in_any_60_seconds() {
    let server = world::with_default_plans(&["--test-clock"]);
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

/// Disposable addresses need no mail server.
fn checked_at_once() -> Call {
    verify(&address("user", "mailinator.com"))
}

#[test]
fn fair_use_is_5_full_checks_a_second_per_account_and_600_at_once() {
    let server = world::with_default_plans(&["--test-clock"]);
    let account = server.account("growth");
    // Two keys, since one has 600 requests a minute.
    let keys = [account.live.clone(), account.another_key()];
    let mut connection = server.connect();
    let mut check = |key: &str| connection.call(&checked_at_once().key(key));
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
    // What is not charged passes without fair use.
    for call in [fast("nobody"), verify("nobody")] {
        server.call(&call.key(&keys[1])).ok();
    }
    server.call(&checked_at_once().key(account.test())).ok();
    // Ten seconds later there are 50 more.
    let began = server.advance(10_000);
    let more = (0..100).take_while(|_| check(&keys[1]).status == 200).count() as u64;
    let most = 50 + 5 * (server.now() - began).div_ceil(1000) + 10;
    assert!((45..=most).contains(&more), "{more} of {most}");
    // A long pause saves at most 600 checks; the limit of the key admits no more in any case.
    server.advance(DAY);
    assert_eq!(check(&keys[0]).status, 200);
}

#[test]
fn fair_use_counts_the_charged_checks_of_all_keys_of_the_account() {
    let server = limited("fair_use_per_second = 1\nfair_use_burst = 3");
    let account = server.account("free");
    let second = account.another_key();
    let check = |key: &str| server.call(&checked_at_once().key(key));
    let known = address("user", "mailinator.com");
    account.verify(&known);
    // Requests that are not charged take nothing.
    for _ in 0..5 {
        assert_eq!(account.verify(&known)["cached"], true);
        account.verify("nobody");
        account.fast(&known);
        check(account.test()).ok();
    }
    // The bucket is full again, so that the last check below is refused within a second.
    std::thread::sleep(Duration::from_secs(1));
    check(&account.live).ok();
    check(&second).ok();
    check(&account.live).ok();
    let refused = check(&second);
    refused.assert_refused(429, "rate_limited");
    assert!(refused.json()["message"].as_str().unwrap().contains("Fair use"), "{refused:?}");
    assert_eq!(refused.header("ratelimit-policy"), Some("\"fair_use\";q=3;w=3"));
    assert_eq!(refused.header("ratelimit"), Some("\"fair_use\";r=0;t=1"));
    assert_eq!((refused.number("retry-after"), refused.number("x-ratelimit-limit")), (1, 3));
    check(&server.live).ok();
    std::thread::sleep(Duration::from_secs(1));
    check(&second).ok();
    assert_eq!(account.credits(), 10_000 - 5, "what was refused is not charged");
}
