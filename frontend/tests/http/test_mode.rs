//! Test keys: the table of the contract, end to end.

use crate::http::server::Server;
use serde_json::json;

#[test]
fn every_row_by_get_and_by_post() {
    let server = Server::start(&[]);
    for (email, deliverable, reason) in [
        ("deliverable@example.com", true, "mailbox_exists"),
        ("role@example.com", true, "role_account"),
        ("disposable@example.com", false, "disposable"),
        ("spamtrap@example.com", false, "spamtrap"),
        ("inbox_full@example.com", false, "inbox_full"),
        ("mailbox_disabled@example.com", false, "mailbox_disabled"),
        ("catch_all@example.com", false, "catch_all"),
        ("unverifiable@example.com", false, "unverifiable"),
        ("not_found@example.com", false, "mailbox_not_found"),
        ("anything.else@example.com", false, "mailbox_not_found"),
        ("deliverable+tag@no-such-domain.example", true, "mailbox_exists"),
        ("DELIVERABLE@Example.COM", true, "mailbox_exists"),
        ("deliverable@", false, "invalid_syntax"),
        (" deliverable@example.com", false, "invalid_syntax"),
        ("", false, "invalid_syntax"),
    ] {
        let expected = json!({
            "email": email,
            "deliverable": deliverable,
            "reason": reason,
            "credits_remaining": null,
            "cached": false,
        });
        let query = email.replace('+', "%2B").replace('@', "%40").replace(' ', "+");
        let got = server.get(&server.test, &format!("/v1/verify?email={query}"));
        assert_eq!((got.status, got.json()), (200, expected.clone()), "GET {email}");
        let body = json!({ "email": email, "mode": "full", "detail": "full" }).to_string();
        let got = server.post(&server.test, "/v1/verify?detail=full", &body);
        assert_eq!((got.status, got.json()), (200, expected), "POST {email}");
    }
    assert_eq!(server.credits(), 100, "test keys charge nothing");
}

#[test]
fn the_engine_is_never_asked() {
    let server = Server::start(&[]);
    // The scripted engine would answer each of these with an error.
    for email in ["outage@example.com", "full@example.com"] {
        let got = server.post(&server.test, "/v1/verify", &json!({ "email": email }).to_string());
        assert_eq!(got.json()["reason"], "mailbox_not_found");
    }
}

#[test]
fn the_account_is_real() {
    let server = Server::start(&[]);
    let (live, test) = (server.get(&server.live, "/v1/account"), server.get(&server.test, "/v1/account"));
    assert_eq!(live.json(), test.json());
    let account = live.json();
    assert_eq!(account["plan"], "free");
    assert_eq!(account["plan_name"], "Free");
    assert_eq!(account["status"], "active");
    assert_eq!(account["credits_remaining"], 100);
    assert_eq!(account["credits_total"], 100);
    assert_eq!(account["pack_credits"], 0);
    assert_eq!(account["cancel_at_period_end"], false);
    assert!(account["period_end"].as_str().unwrap().ends_with("+00:00"));
}

#[test]
fn the_real_binary_serves_test_keys_and_drains() {
    let mut server = Server::start_real();
    assert_eq!(server.get("", "/readyz").status, 200);
    let got = server.get(&server.test, "/v1/verify?email=role%40example.com");
    assert_eq!(got.json()["reason"], "role_account");
    assert_eq!(server.get(&server.live, "/v1/verify?email=nobody").json()["reason"], "invalid_syntax");
    assert_eq!(server.credits(), 100);
    server.signal(libc::SIGTERM);
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
}
