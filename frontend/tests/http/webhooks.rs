//! Webhooks over HTTP: the endpoints of an account, and messages to receivers that behave and misbehave.

mod receiver;

use crate::harness::client::Answer;
use crate::harness::server::{Server, post_with};
use crate::http::batches;
use crate::until;
use receiver::{Act, Receiver, ok, status};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const ALLOWED: &[&str] = &["--webhook-allow-net", "127.0.0.0/8", "--test-clock"];
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

fn call(server: &Server, key: &str, method: &str, path: &str, body: &str) -> Answer {
    server.send(post_with(key, path, "", body).replacen("POST", method, 1))
}

/// Creates an endpoint; returns its id and its secret.
fn create(server: &Server, url: &str) -> (String, String) {
    let made = server.post(&server.live, "/v1/webhooks", &json!({ "url": url }).to_string());
    assert_eq!(made.status, 201, "{made:?}");
    let made = made.json();
    let text = |field: &str| made[field].as_str().unwrap().to_owned();
    (text("webhook_id"), text("secret"))
}

fn test(server: &Server, id: &str) -> String {
    let tested = server.post(&server.live, &format!("/v1/webhooks/{id}/test"), "");
    assert_eq!(tested.status, 202, "{tested:?}");
    tested.json()["message_id"].as_str().unwrap().to_owned()
}

fn show(server: &Server, id: &str) -> Value {
    server.get(&server.live, &format!("/v1/webhooks/{id}")).json()
}

fn deliveries(server: &Server, id: &str) -> Vec<Value> {
    let page = server.get(&server.live, &format!("/v1/webhooks/{id}/deliveries?limit=100")).json();
    page["deliveries"].as_array().unwrap().clone()
}

/// Waits until the newest delivery has this number of attempts.
fn attempted(server: &Server, id: &str, count: usize) -> Value {
    until(|| {
        let newest = deliveries(server, id).remove(0);
        let attempts = newest["attempts"].as_array().unwrap().len();
        if attempts >= count { Ok(newest) } else { Err(newest.to_string()) }
    })
}

/// Submits a batch of one address, and waits for its end.
fn complete(server: &Server, key: &str) -> String {
    let body = json!({ "emails": ["mailbox_exists@needle.example"], "name": "needle" }).to_string();
    let made = server.post(key, "/v1/verify/batch", &body);
    let id = batches::id(&made);
    batches::completed(server, key, &id);
    id
}

#[test]
fn endpoints_are_managed_with_live_keys() {
    let server = Server::start(&[]);
    let body =
        json!({ "url": "https://Hooks.example.com/in?token=x", "events": ["list.paused"], "label": "mine" });
    let made = server.post(&server.live, "/v1/webhooks", &body.to_string());
    assert_eq!((made.status, made.header("cache-control")), (201, Some("no-store")));
    let mut made = made.json();
    let secret = made.as_object_mut().unwrap().remove("secret").unwrap();
    let secret = secret.as_str().unwrap();
    assert!(secret.starts_with("whsec_") && secret.len() == 38, "{secret}");
    let id = made["webhook_id"].as_str().unwrap().to_owned();
    assert_eq!(made["url"], "https://hooks.example.com/in?token=x");
    assert_eq!((&made["enabled"], &made["events"]), (&json!(true), &json!(["list.paused"])));
    assert_eq!(show(&server, &id), made);
    let all = server.get(&server.live, "/v1/webhooks");
    assert_eq!((all.status, all.json()), (200, json!({ "webhooks": [made] })));
    assert!(!all.body.contains("whsec_"));

    let path = format!("/v1/webhooks/{id}");
    let changed = call(
        &server,
        &server.live,
        "PATCH",
        &path,
        r#"{"enabled":false,"label":"","events":["batch.completed"]}"#,
    );
    assert_eq!(changed.status, 200, "{changed:?}");
    let changed = changed.json();
    assert_eq!((&changed["label"], &changed["disabled_reason"]), (&Value::Null, &json!("owner")));
    assert_eq!(changed["events"], json!(["batch.completed"]));
    let refused = server.post(&server.live, &format!("{path}/test"), "");
    refused.assert_refused(409, "invalid_state");

    let rotated = server.post(&server.live, &format!("{path}/rotate"), "").json();
    assert!(rotated["secret"].as_str().is_some_and(|next| next != secret));
    assert!(rotated["old_secret_until"].is_string());
    for _ in 0..2 {
        assert_eq!(server.post(&server.live, &format!("{path}/rotate"), "").status, 200);
    }
    let refused = server.post(&server.live, &format!("{path}/rotate"), "");
    refused.assert_refused(409, "invalid_state");
    assert!(refused.body.contains("the secret was replaced 3 times within 24 hours"), "{refused:?}");

    let stranger = server.stranger();
    for method in ["GET", "PATCH", "DELETE"] {
        let answer = call(&server, &stranger, method, &path, "{}");
        assert_eq!((answer.status, answer.error().as_str()), (404, "not_found"), "{method}");
        let test = call(&server, &server.test, method, &path, "{}");
        assert_eq!((test.status, test.error().as_str()), (403, "live_key_required"), "{method}");
    }
    assert_eq!(server.get(&server.test, "/v1/webhooks").status, 403);
    assert_eq!(server.post(&server.test, "/v1/webhooks", &body.to_string()).status, 403);
    assert_eq!(server.get(&server.live, "/v1/webhooks/whk_x").status, 404);
    assert_eq!(call(&server, &server.live, "PUT", &path, "{}").status, 405);

    let deleted = call(&server, &server.live, "DELETE", &path, "");
    assert_eq!((deleted.status, deleted.body.as_str()), (204, ""));
    assert_eq!(call(&server, &server.live, "DELETE", &path, "").status, 404);
    assert_eq!(server.get(&server.live, &format!("{path}/deliveries")).status, 404);
}

#[test]
fn requests_that_are_wrong_are_refused() {
    let server = Server::start(&[]);
    for url in [
        "",
        "http://a.example/",
        "https://127.0.0.1/",
        "https://2130706433/",
        "https://0x7f.1/",
        "https://[::ffff:127.0.0.1]/",
        "https://localhost/",
        "https://user@a.example/",
        "https://a.example:22/",
        "https://a.example./",
        "https://b\u{fc}cher.example/",
        "https://a.example/#x",
    ] {
        let refused = server.post(&server.live, "/v1/webhooks", &json!({ "url": url }).to_string());
        assert_eq!((refused.status, refused.error().as_str()), (400, "invalid_request"), "{url}");
        assert_eq!(refused.json()["detail"][0]["loc"], json!(["body", "url"]), "{url}");
    }
    for body in [
        "",
        "[]",
        "{}",
        r#"{"url":"https://a.example/","events":["x"]}"#,
        r#"{"url":"https://a.example/","label":"\u0007"}"#,
    ] {
        assert_eq!(server.post(&server.live, "/v1/webhooks", body).status, 400, "{body}");
    }
    let (id, _) = create(&server, "https://a.example/");
    for query in ["limit=0", "limit=101", "limit=x", "after=x", "limit=1&limit=2"] {
        let refused = server.get(&server.live, &format!("/v1/webhooks/{id}/deliveries?{query}"));
        assert_eq!(refused.status, 400, "{query}");
    }
    let path = format!("/v1/webhooks/{id}");
    assert_eq!(call(&server, &server.live, "PATCH", &path, r#"{"url":"https://10.0.0.1/"}"#).status, 400);
    (1..10).for_each(|_| drop(create(&server, "https://a.example/")));
    let more = server.post(&server.live, "/v1/webhooks", r#"{"url":"https://a.example/"}"#);
    more.assert_refused(409, "invalid_state");
}

#[test]
fn the_end_of_a_batch_is_sent_and_signed() {
    let server = Server::start(ALLOWED);
    let receiver = Receiver::start(vec![ok()]);
    let (id, secret) = create(&server, &receiver.url("/in?token=needle"));
    let batch = complete(&server, &server.live);
    let got = receiver.wait(1).remove(0);
    assert_eq!(
        (got.line.as_str(), got.header("content-type")),
        ("POST /in?token=needle HTTP/1.1", "application/json")
    );
    assert!(got.is_signed_by(&secret), "{got:?}");
    let expected = json!({
        "batch_id": batch, "status": "completed", "total": 1, "checked": 1, "counts": { "mailbox_exists": 1 },
    });
    assert_eq!((&got.json()["type"], &got.json()["data"]), (&json!("batch.completed"), &expected));
    assert!(got.json()["timestamp"].is_string());
    let delivery = attempted(&server, &id, 1);
    assert_eq!(
        (&delivery["message_id"], &delivery["object_id"]),
        (&json!(got.header("webhook-id")), &json!(batch))
    );
    assert_eq!((&delivery["status"], &delivery["attempts"][0]["status"]), (&json!("delivered"), &json!(200)));
    // A batch of a test key is complete at once.
    let tested = complete(&server, &server.test);
    assert_eq!(receiver.wait(2)[1].json()["data"]["batch_id"], json!(tested));
    for text in [got.body.as_str(), &server.log()] {
        assert!(!text.contains("needle"), "{text}");
    }
    assert!(!server.log().contains("whsec_"));
}

#[test]
fn a_message_is_repeated_with_the_same_id_and_a_new_timestamp() {
    let server = Server::start(ALLOWED);
    let receiver = Receiver::start(vec![status(500), Act::Close, ok()]);
    let (id, secret) = create(&server, &receiver.url("/"));
    let message = test(&server, &id);
    let first = attempted(&server, &id, 1);
    assert_eq!((&first["status"], &first["attempts"][0]["status"]), (&json!("waiting"), &json!(500)));
    assert!(first["next_attempt_at"].is_string());
    assert!(show(&server, &id)["failing_since"].is_string());
    server.advance(6_000);
    attempted(&server, &id, 2);
    server.advance(331_000);
    let last = attempted(&server, &id, 3);
    assert_eq!((&last["status"], &last["next_attempt_at"]), (&json!("delivered"), &Value::Null));
    let errors: Vec<&Value> =
        last["attempts"].as_array().unwrap().iter().map(|attempt| &attempt["error"]).collect();
    assert_eq!(errors, [&Value::Null, &json!("connection_failed"), &Value::Null]);
    let got = receiver.wait(3);
    assert!(got.iter().all(|got| got.header("webhook-id") == message && got.is_signed_by(&secret)));
    assert!(got.iter().all(|other| other.body == got[0].body));
    let times: Vec<u64> = got.iter().map(|got| got.header("webhook-timestamp").parse().unwrap()).collect();
    assert!(times[0] < times[1] && times[1] < times[2], "{times:?}");
    assert_eq!(show(&server, &id)["failing_since"], Value::Null);
}

#[test]
fn misbehaving_receivers_fail_and_harm_nobody() {
    let server = Server::start(ALLOWED);
    let inside = Receiver::start(vec![ok()]);
    let answer = |text: String| Act::Answer(text.into_bytes());
    let redirect =
        format!("HTTP/1.1 302 Found\r\nLocation: {}\r\nContent-Length: 0\r\n\r\n", inside.url("/"));
    let huge = format!("HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n{}", "x".repeat(10_000_000));
    let cases = [
        ("close", Act::Close, json!("connection_failed")),
        ("garbage", answer("\u{1}\u{2}not http at all\r\n\r\n".into()), json!("invalid_answer")),
        ("smtp", answer("220 mail.example ESMTP\r\n".into()), json!("invalid_answer")),
        ("half", answer("HTTP/1.1 200 OK\r\nContent".into()), json!("invalid_answer")),
        (
            "endless head",
            answer(format!("HTTP/1.1 200 OK\r\n{}", "a: b\r\n".repeat(5_000))),
            json!("invalid_answer"),
        ),
        ("redirect", answer(redirect), json!(302)),
        ("huge", answer(huge), json!(200)),
        ("hang", Act::Hang, json!("timeout")),
        ("drip", Act::Drip, json!("timeout")),
    ];
    let receivers: Vec<_> = cases
        .into_iter()
        .map(|(name, act, expected)| {
            let receiver = Receiver::start(vec![act]);
            let (id, _) = create(&server, &receiver.url("/"));
            test(&server, &id);
            (name, receiver, id, expected)
        })
        .collect();
    // A receiver that works is not kept waiting by those that hang.
    let good = Receiver::start(vec![ok()]);
    let (id, _) = create(&server, &good.url("/"));
    let began = Instant::now();
    test(&server, &id);
    attempted(&server, &id, 1);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    for (name, _receiver, id, expected) in &receivers {
        let attempt = attempted(&server, id, 1)["attempts"][0].clone();
        let found = if attempt["error"].is_null() { &attempt["status"] } else { &attempt["error"] };
        assert_eq!(found, expected, "{name}");
        assert!(attempt["duration_ms"].as_u64().unwrap() < 17_000, "{name}: {attempt}");
    }
    assert!(inside.got().is_empty(), "the redirect was followed");
    assert!(!server.log().contains("panicked"));
}

#[test]
fn a_receiver_that_is_gone_gets_nothing_more() {
    let server = Server::start(ALLOWED);
    let receiver = Receiver::start(vec![status(410)]);
    let (id, _) = create(&server, &receiver.url("/"));
    test(&server, &id);
    let delivery = attempted(&server, &id, 1);
    assert_eq!((&delivery["status"], &delivery["next_attempt_at"]), (&json!("failed"), &Value::Null));
    let found = show(&server, &id);
    assert_eq!((&found["enabled"], &found["disabled_reason"]), (&json!(false), &json!("gone")));
    complete(&server, &server.test);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!((receiver.got().len(), deliveries(&server, &id).len()), (1, 1));
    let path = format!("/v1/webhooks/{id}");
    let enabled = call(&server, &server.live, "PATCH", &path, r#"{"enabled":true}"#).json();
    assert_eq!((&enabled["enabled"], &enabled["failing_since"]), (&json!(true), &Value::Null));
}

#[test]
fn three_days_of_failures_disable_an_endpoint() {
    let server = Server::start(ALLOWED);
    let receiver = Receiver::start(vec![status(503)]);
    let (id, _) = create(&server, &receiver.url("/"));
    test(&server, &id);
    for attempt in 1..=10 {
        attempted(&server, &id, attempt);
        // Longer than any wait.
        server.advance(DAY_MS + DAY_MS / 8);
        if show(&server, &id)["enabled"] == false {
            break;
        }
    }
    let found = show(&server, &id);
    assert_eq!((&found["enabled"], &found["disabled_reason"]), (&json!(false), &json!("failures")));
}

#[test]
fn two_secrets_sign_for_a_day() {
    let server = Server::start(ALLOWED);
    let receiver = Receiver::start(vec![ok()]);
    let (id, old) = create(&server, &receiver.url("/"));
    let rotated = server.post(&server.live, &format!("/v1/webhooks/{id}/rotate"), "").json();
    let new = rotated["secret"].as_str().unwrap().to_owned();
    test(&server, &id);
    let got = receiver.wait(1).remove(0);
    assert_eq!(got.header("webhook-signature").split(' ').count(), 2);
    assert!(got.is_signed_by(&old) && got.is_signed_by(&new));
    server.advance(DAY_MS);
    test(&server, &id);
    let got = receiver.wait(2).remove(1);
    assert!(!got.is_signed_by(&old) && got.is_signed_by(&new));
}

#[test]
fn a_certificate_must_be_valid_for_the_host() {
    for (trusted, expected) in [(true, json!(200)), (false, json!("tls_failed"))] {
        let folder = tempfile::tempdir().unwrap();
        let receiver = Receiver::start_tls(folder.path(), "localhost", trusted);
        let flags = [ALLOWED, &["--webhook-allow-net", "::1"]].concat();
        let server = Server::start_in(folder, &flags);
        let (id, secret) = create(&server, &format!("https://localhost:{}/", receiver.port));
        test(&server, &id);
        let attempt = attempted(&server, &id, 1)["attempts"][0].clone();
        let found = if trusted { &attempt["status"] } else { &attempt["error"] };
        assert_eq!(*found, expected, "{attempt}");
        assert_eq!(receiver.got().len(), usize::from(trusted));
        assert!(receiver.got().iter().all(|got| got.is_signed_by(&secret)));
    }
    // A certificate of an authority that is known, for another name.
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start_tls(folder.path(), "other.example", true);
    let server = Server::start_in(folder, ALLOWED);
    let (id, _) = create(&server, &format!("https://localhost:{}/", receiver.port));
    test(&server, &id);
    assert_eq!(attempted(&server, &id, 1)["attempts"][0]["error"], "tls_failed");
    assert!(receiver.got().is_empty());
}

/// A name that resolves to an address inside; `soak ssrf` has all kinds of them.
#[test]
fn addresses_that_are_not_allowed_are_not_contacted() {
    let server = Server::start(&["--webhook-allow-net", "192.0.2.0/24", "--test-clock"]);
    let receiver = Receiver::start(vec![ok()]);
    for scheme in ["http", "https"] {
        let (id, _) = create(&server, &format!("{scheme}://localhost:{}/", receiver.port));
        test(&server, &id);
        assert_eq!(attempted(&server, &id, 1)["attempts"][0]["error"], "address_not_allowed");
    }
    let direct = json!({ "url": receiver.url("/") }).to_string();
    assert_eq!(server.post(&server.live, "/v1/webhooks", &direct).status, 400);
    assert!(receiver.got().is_empty());
}

#[test]
fn a_message_survives_a_kill_between_the_end_and_the_delivery() {
    let server = Server::start(ALLOWED);
    let receiver = Receiver::start(vec![Act::Hang, ok()]);
    let (id, secret) = create(&server, &receiver.url("/"));
    let batch = complete(&server, &server.live);
    // The attempt is under way.
    let first = receiver.wait(1).remove(0);
    let server = server.restart_after_kill();
    let second = receiver.wait(2).remove(1);
    assert_eq!(first.header("webhook-id"), second.header("webhook-id"));
    assert_eq!(
        (first.body.as_str(), &second.json()["data"]["batch_id"]),
        (second.body.as_str(), &json!(batch))
    );
    assert!(second.is_signed_by(&secret), "the secret was kept");
    assert_eq!(attempted(&server, &id, 1)["status"], "delivered");
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(receiver.got().len(), 2);
}

#[test]
fn a_drain_ends_with_the_attempts_under_way() {
    let mut server = Server::start(ALLOWED);
    let receiver = Receiver::start(vec![Act::Slow(Duration::from_secs(2))]);
    let (id, _) = create(&server, &receiver.url("/"));
    test(&server, &id);
    receiver.wait(1);
    server.signal(libc::SIGTERM);
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
    let server = server.restart_after(libc::SIGTERM);
    assert_eq!(attempted(&server, &id, 1)["status"], "delivered");
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(receiver.got().len(), 1);
}

#[test]
fn the_log_has_pages() {
    let server = Server::start(ALLOWED);
    let receiver = Receiver::start(vec![ok()]);
    let (id, _) = create(&server, &receiver.url("/"));
    let sent: Vec<String> = (0..5).map(|_| test(&server, &id)).collect();
    receiver.wait(5);
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let page = server.get(&server.live, &format!("/v1/webhooks/{id}/deliveries?limit=2{after}")).json();
        found.extend(page["deliveries"].as_array().unwrap().iter().map(|it| it["message_id"].clone()));
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    let mut sorted: Vec<String> = found.iter().map(|id| id.as_str().unwrap().to_owned()).collect();
    sorted.sort();
    let mut expected = sent.clone();
    expected.sort();
    assert_eq!(sorted, expected);
    let order: Vec<String> = receiver.got().iter().map(|got| got.header("webhook-id").to_owned()).collect();
    assert_eq!(order, sent, "they arrive in their order");
}
