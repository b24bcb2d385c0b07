//! The limits of a key and an account: 429, its headers, and the requests that count.

use crate::http::client::{Answer, Connection};
use crate::http::server::{Server, get, post};
use std::time::{Duration, SystemTime};

const BODY: &str = "{\"email\":\"deliverable@example.com\"}";

/// A server with a free plan that has these limits.
fn server(limits: &str) -> Server {
    server_with(&format!("[plan.limits]\n{limits}"), &[])
}

fn server_with(plan: &str, flags: &[&str]) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mailprobe.toml");
    let text = format!("[[plan]]\nid = \"free\"\nname = \"Free\"\nmonthly_credits = 10000\n{plan}\n");
    std::fs::write(&file, text).unwrap();
    Server::start_in(folder, &[&["--config", file.to_str().unwrap()], flags].concat())
}

fn number(answer: &Answer, header: &str) -> u64 {
    let text = answer.header(header).unwrap_or_else(|| panic!("no {header}: {answer:?}"));
    text.parse().unwrap_or_else(|error| panic!("{header}: {error}: {answer:?}"))
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
    assert_eq!(number(answer, "x-ratelimit-limit"), limit);
    assert_eq!(number(answer, "x-ratelimit-remaining"), remaining);
    let reset = number(answer, "x-ratelimit-reset");
    assert!((epoch_s()..=epoch_s() + 61).contains(&reset), "{answer:?}");
}

#[track_caller]
fn check_refusal(answer: &Answer, policy: &str, limit: u64) {
    assert_eq!((answer.status, answer.error().as_str()), (429, "rate_limited"), "{answer:?}");
    check_headers(answer, policy, limit, 0);
    let wait = number(answer, "retry-after");
    assert!((1..=60).contains(&wait));
    assert!(answer.header("ratelimit").unwrap().ends_with(&format!(";t={wait}")), "{answer:?}");
    assert!(answer.header("x-request-id").is_some() && answer.header("cache-control") == Some("no-store"));
}

fn ask(connection: &mut Connection, request: &str) -> Answer {
    connection.send(request);
    connection.read()
}

/// Sends one request more than the limit, quickly.
fn check_row(server: &Server, request: &str, policy: &str, limit: u64) {
    let mut connection = server.connect();
    for left in (0..limit).rev() {
        let answer = ask(&mut connection, request);
        assert_ne!(answer.status, 429, "{left} left: {answer:?}");
        check_headers(&answer, policy, limit, left);
    }
    check_refusal(&ask(&mut connection, request), policy, limit);
}

#[test]
fn each_row_lets_its_limit_through_and_one_request_more_is_refused() {
    let server = Server::start(&[]);
    let verify =
        |query: &str| get(&server.test, &format!("/v1/verify?email=deliverable%40example.com{query}"));
    check_row(&server, &get(&server.test, "/v1/account"), "account", 300);
    check_row(&server, &verify(""), "verify", 600);
    check_row(&server, &verify("&mode=fast"), "fast", 600);
}

#[test]
fn every_row_and_key_has_a_counter_of_its_own() {
    let server = server("fast = 2\nverify = 2\naccount = 2");
    for key in [&server.test, &server.live] {
        check_row(&server, &get(key, "/v1/account"), "account", 2);
        check_row(&server, &post(key, "/v1/verify", "{\"email\":\"no address\"}"), "verify", 2);
        check_row(&server, &post(key, "/v1/verify?mode=fast", "{\"email\":\"no address\"}"), "fast", 2);
    }
    let made = server.administer(&["key", "create", "default", "--json"]);
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    check_row(&server, &get(made["key"].as_str().unwrap(), "/v1/account"), "account", 2);
}

#[test]
fn full_checks_of_both_methods_share_a_counter_wherever_the_mode_stands() {
    let server = server("fast = 3\nverify = 4");
    let mut connection = server.connect();
    let fast = "{\"email\":\"no address\",\"mode\":\"fast\"}";
    for (request, policy, limit, left) in [
        (get(&server.test, "/v1/verify?email=a&mode=full"), "verify", 4, 3),
        (get(&server.test, "/v1/verify?email=a&mode=fast"), "fast", 3, 2),
        (post(&server.test, "/v1/verify", BODY), "verify", 4, 2),
        (post(&server.test, "/v1/verify", fast), "fast", 3, 1),
        (post(&server.test, "/v1/verify?mode=full", BODY), "verify", 4, 1),
        (post(&server.test, "/v1/verify?mode=fast", BODY), "fast", 3, 0),
        (get(&server.test, "/v1/verify?email=a"), "verify", 4, 0),
    ] {
        check_headers(&ask(&mut connection, &request), policy, limit, left);
    }
    check_refusal(&ask(&mut connection, &post(&server.test, "/v1/verify", fast)), "fast", 3);
    check_refusal(&ask(&mut connection, &post(&server.test, "/v1/verify", BODY)), "verify", 4);
}

#[test]
fn what_is_wrong_with_a_request_counts_and_over_the_limit_is_not_told() {
    let server = server("verify = 6\nfast = 1");
    let send = |request: &str| server.send(request);
    let text = |body: &str| post(&server.test, "/v1/verify", body).replace("application/json", "text/plain");
    let too_large = post(&server.test, "/v1/verify", &"x".repeat(300_000));
    let wrong = [
        (get(&server.test, "/v1/verify"), 400),
        (get(&server.test, "/v1/verify?email=a&mode=quick"), 400),
        (post(&server.test, "/v1/verify", "{"), 400),
        (post(&server.test, "/v1/verify", "{\"email\":1}"), 400),
        (text(BODY), 415),
        (too_large, 413),
    ];
    for ((request, status), left) in wrong.iter().zip((0..6).rev()) {
        let answer = send(request);
        assert_eq!(answer.status, *status);
        check_headers(&answer, "verify", 6, left);
    }
    for (request, _) in &wrong {
        check_refusal(&send(request), "verify", 6);
    }
    // The mode is known nevertheless.
    let broken = post(&server.test, "/v1/verify", "{\"mode\":\"fast\"}");
    check_headers(&send(&broken), "fast", 1, 0);
    check_refusal(&send(&broken), "fast", 1);
    // Refusals that precede the rate are unchanged, and have no headers of a row.
    for (request, status) in [
        (get("", "/v1/verify"), 401),
        (get(&server.test, "/v1/verify/"), 404),
        (get(&server.test, "/v1/verify").replacen("GET", "PUT", 1), 405),
        (get(&server.test, "/livez"), 200),
    ] {
        let answer = send(&request);
        assert_eq!((answer.status, answer.header("ratelimit")), (status, None));
    }
}

#[test]
fn a_body_that_awaits_consent_is_refused_unread() {
    let server = server("account = 1\nverify = 1");
    let request = post(&server.test, "/v1/verify?mode=full", BODY);
    check_headers(&server.send(&request), "verify", 1, 0);
    let head = request.replacen("\r\n", "\r\nExpect: 100-continue\r\n", 1);
    let head = head.split_once("\r\n\r\n").unwrap().0;
    check_refusal(&server.send(format!("{head}\r\n\r\n")), "verify", 1);
}

/// Counters are stored each second. On a busy machine, it takes longer until they are on the disk.
const COUNTERS_STORED: Duration = Duration::from_secs(5);

#[test]
fn after_the_wait_a_request_passes_over_a_restart_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mailprobe.toml");
    let plan = "[[plan]]\nid = \"free\"\nname = \"Free\"\nmonthly_credits = 1\n";
    std::fs::write(&file, format!("{plan}[plan.limits]\nverify = 5\naccount = 3\n")).unwrap();
    let flags = ["--test-clock", "--config", file.to_str().unwrap()];
    let server = Server::start_in(folder, &flags);
    check_row(&server, &post(&server.test, "/v1/verify", BODY), "verify", 5);
    check_row(&server, &get(&server.live, "/v1/account"), "account", 3);
    std::thread::sleep(COUNTERS_STORED);
    let server = server.restart_after_kill(&flags);
    check_refusal(&server.post(&server.test, "/v1/verify", BODY), "verify", 5);
    let refused = server.get(&server.live, "/v1/account");
    check_refusal(&refused, "account", 3);
    assert_eq!(server.get(&server.test, "/v1/account").status, 200, "another key's is its own");
    let wait = number(&refused, "retry-after");
    assert!(wait >= 30, "{wait}");
    server.administer(&["clock", "advance", &(wait * 1000).to_string()]);
    assert_eq!(server.get(&server.live, "/v1/account").status, 200);
    assert_eq!(server.post(&server.test, "/v1/verify", BODY).status, 200);

    // The clock is back: requests that were counted ahead of it count as of now.
    for _ in 0..2 {
        assert_eq!(server.get(&server.live, "/v1/account").status, 200);
    }
    std::thread::sleep(COUNTERS_STORED);
    let server = server.restart_after_kill(&flags);
    let refused = server.get(&server.live, "/v1/account");
    check_refusal(&refused, "account", 3);
    let wait = number(&refused, "retry-after");
    server.administer(&["clock", "advance", &(wait * 1000).to_string()]);
    assert_eq!(server.get(&server.live, "/v1/account").status, 200);
}

#[test]
fn fair_use_counts_the_charged_checks_of_all_keys_of_the_account() {
    let server = server("fair_use_per_second = 1\nfair_use_burst = 3");
    let made = server.administer(&["key", "create", "default", "--json"]);
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    let second = made["key"].as_str().unwrap();
    let check =
        |key: &str, email: &str| server.post(key, "/v1/verify", &format!("{{\"email\":\"{email}\"}}"));
    // Requests that are not charged take nothing.
    for _ in 0..5 {
        assert_eq!(check(&server.test, "deliverable@example.com").status, 200);
        assert_eq!(check(&server.live, "no address").status, 200);
        assert_eq!(check(&server.live, "outage@example.com").status, 503);
    }
    assert_eq!(check(&server.live, "mailbox_exists@a.example").status, 200);
    assert_eq!(check(second, "mailbox_exists@b.example").status, 200);
    assert_eq!(check(&server.live, "mailbox_exists@c.example").status, 200);
    let refused = check(second, "mailbox_exists@d.example");
    assert_eq!((refused.status, refused.error().as_str()), (429, "rate_limited"));
    assert!(refused.json()["message"].as_str().unwrap().contains("Fair use"), "{refused:?}");
    assert_eq!(refused.header("ratelimit-policy"), Some("\"fair_use\";q=3;w=3"));
    assert_eq!(refused.header("ratelimit"), Some("\"fair_use\";r=0;t=1"));
    assert_eq!(number(&refused, "retry-after"), 1);
    assert_eq!(number(&refused, "x-ratelimit-limit"), 3);
    assert_eq!(check(second, "no address").status, 200);
    assert_eq!(check(&server.test, "role@example.com").status, 200);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(check(second, "mailbox_exists@d.example").status, 200);
    assert_eq!(server.credits(), 10_000 - 4, "what was refused is not charged");
}

#[test]
fn an_account_s_own_limits_hold_at_once() {
    let server = Server::start(&[]);
    let set = |arguments: &[&str]| {
        server.administer(&[&["account", "set-limits", "default", "--json"], arguments].concat());
    };
    set(&["--account", "2"]);
    check_row(&server, &get(&server.test, "/v1/account"), "account", 2);
    set(&["--account", "3"]);
    check_headers(&server.get(&server.test, "/v1/account"), "account", 3, 0);
    set(&["--reset"]);
    check_headers(&server.get(&server.test, "/v1/account"), "account", 300, 296);
}

#[test]
fn all_threads_count_together() {
    let server = server_with("[plan.limits]\nverify = 50", &["--frontends", "3"]);
    let passed: usize = std::thread::scope(|scope| {
        let ask = || {
            let mut connection = server.connect();
            let request = post(&server.test, "/v1/verify", BODY);
            (0..20).filter(|_| ask(&mut connection, &request).status == 200).count()
        };
        let threads: Vec<_> = (0..6).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(passed, 50);
}

#[test]
fn batches_and_polls_have_rows_of_their_own() {
    let server = Server::start(&[]);
    let batch = post(&server.test, "/v1/verify/batch", "{\"emails\":[\"deliverable@example.com\"]}");
    check_row(&server, &batch, "batch", 30);
    check_row(&server, &get(&server.test, "/v1/verify/batch/bat_1"), "poll", 600);
    let check = server.get(&server.test, "/v1/verify?email=deliverable%40example.com");
    check_headers(&check, "verify", 600, 599);
}

#[test]
fn replays_and_refused_batches_count_and_their_rows_take_no_fair_use() {
    let server = server("batch = 4\nfair_use_burst = 1\nfair_use_per_second = 1");
    let batch = |body: &str| {
        let request = post(&server.live, "/v1/verify/batch", body);
        server.send(request.replacen("\r\n", "\r\nIdempotency-Key: k\r\n", 1))
    };
    let body = "{\"emails\":[\"mailbox_exists@a.example\",\"mailbox_exists@b.example\"]}";
    for (body, status, left) in
        [(body, 202, 3), (body, 202, 2), ("{}", 400, 1), ("{\"emails\":[\"x@c.example\"]}", 422, 0)]
    {
        let answer = batch(body);
        assert_eq!(answer.status, status, "{answer:?}");
        check_headers(&answer, "batch", 4, left);
    }
    check_refusal(&batch(body), "batch", 4);
    check_refusal(&batch("{}"), "batch", 4);
    assert_eq!(
        server.post(&server.live, "/v1/verify", "{\"email\":\"mailbox_exists@d.example\"}").status,
        200
    );
}

#[test]
fn a_plan_without_batches_refuses_to_start_them_and_nothing_else() {
    let server = server_with("[plan.limits]\nbatch = 2", &[]);
    let body = "{\"emails\":[\"deliverable@example.com\"]}";
    let created = server.post(&server.test, "/v1/verify/batch", body).json();
    let path = format!("/v1/verify/batch/{}", created["batch_id"].as_str().unwrap());

    let without = server_with("batches = false\n[plan.limits]\nbatch = 2", &[]);
    for key in [&without.live, &without.test] {
        // It precedes the rate and the errors of the body, but it counts.
        for (body, left) in [(body, 1), ("{", 0), (body, 0)] {
            let answer = without.post(key, "/v1/verify/batch", body);
            assert_eq!((answer.status, answer.error().as_str()), (403, "plan_not_allowed"), "{answer:?}");
            check_headers(&answer, "batch", 2, left);
            assert_eq!(answer.header("retry-after"), None);
        }
        assert_eq!(without.get(key, &path).status, 404, "somebody else's, but polling goes on");
        assert_eq!(without.get(key, "/v1/verify?email=a").status, 200);
    }
    assert_eq!(
        without.send("POST /v1/verify/batch HTTP/1.1\r\nHost: t\r\n\r\n").status,
        401,
        "the key comes first"
    );
    assert_eq!(server.get(&server.test, &path).status, 200);
}

#[test]
fn the_fast_checks_of_all_keys_of_an_account_have_a_limit_too() {
    let server = server("fast = 3\nfast_account = 5");
    let ask = |key: &str| server.send(get(key, "/v1/verify?email=deliverable@example.com&mode=fast"));
    for _ in 0..3 {
        assert_eq!(ask(&server.live).status, 200);
    }
    check_refusal(&ask(&server.live), "fast", 3);
    for _ in 0..2 {
        assert_eq!(ask(&server.test).status, 200);
    }
    let refused = ask(&server.test);
    check_refusal(&refused, "fast_account", 5);
    assert!(refused.body.contains("keys of this account"), "{refused:?}");
    let stranger = server.stranger();
    assert_eq!(ask(&stranger).status, 200, "another account has its own");
}

#[test]
fn batches_of_test_keys_fill_the_share_of_their_account_and_not_that_of_others() {
    let server = server_with("stored_mib = 1\n[plan.limits]\nbatch = 100", &[]);
    let long = |n: usize| format!("{n:0>64}@{0}.{0}.{1}.com", "d".repeat(63), "d".repeat(56));
    let emails: Vec<String> = (0..200).map(long).collect();
    let body = serde_json::json!({ "emails": emails }).to_string();
    let stored =
        (0..40).take_while(|_| server.post(&server.test, "/v1/verify/batch", &body).status == 202).count();
    assert!((18..=20).contains(&stored), "{stored}");
    let refused = server.post(&server.test, "/v1/verify/batch", &body);
    assert_eq!((refused.status, refused.error().as_str()), (413, "request_too_large"), "{refused:?}");
    assert!(refused.body.contains("1 MiB, which is its share"), "{refused:?}");
    let small = "{\"emails\":[\"deliverable@example.com\"]}";
    assert_eq!(server.post(&server.live, "/v1/verify/batch", small).status, 202, "its credits have room");
    let stranger = server.stranger();
    assert_eq!(server.post(&stranger, "/v1/verify/batch", small).status, 202);
}
