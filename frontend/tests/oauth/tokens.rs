//! Codes and tokens: each is valid once or for a while, and a second use ends the connection.

use crate::harness::server::Server;
use crate::oauth::assistant::*;
use crate::web::browser::{Browser, signed_up};

#[track_caller]
fn refused(answer: &crate::harness::client::Answer, code: &str) {
    assert_eq!((answer.status, answer.json()["error"].as_str()), (400, Some(code)), "{answer:?}");
}

#[test]
fn a_code_that_comes_twice_ends_the_connection() {
    let (server, mut browser) = signed_up();
    let tokens = connect(&server, &mut browser, 1, 1);
    assert!(is_alive(&server, &tokens.access));
    refused(&redeem(&server, &tokens.client, &tokens.code), "invalid_grant");
    assert!(!is_alive(&server, &tokens.access), "the tokens of the first use are worth nothing");
    refused(&renew(&server, &tokens.client, &tokens.refresh), "invalid_grant");
    browser.get("/connections").says("No assistant is connected.");
}

#[test]
fn a_code_is_for_its_client_redirect_and_verifier() {
    let (server, mut browser) = signed_up();
    let client = register(&server, CALLBACK);
    let other = register(&server, CALLBACK);
    let wrong_verifier = "another-verifier-of-at-least-forty-three-chars";
    for (name, value, code) in [
        ("client_id", other.as_str(), "invalid_grant"),
        ("redirect_uri", "http://127.0.0.1:1/callback", "invalid_grant"),
        ("code_verifier", wrong_verifier, "invalid_grant"),
    ] {
        let good = allowed(&server, &mut browser, &client, 1, 1);
        refused(&redeem_with(&server, &client, &good, &[(name, value)]), code);
        refused(&redeem(&server, &client, &good), "invalid_grant");
    }
    // A missing or invalid field is refused before the code is used.
    let good = allowed(&server, &mut browser, &client, 1, 1);
    for (name, value, code) in [
        ("code_verifier", "", "invalid_request"),
        ("code_verifier", "short", "invalid_grant"),
        ("client_id", "", "invalid_request"),
        ("redirect_uri", "", "invalid_request"),
        ("code", "", "invalid_request"),
        ("code", "mp_ac_x", "invalid_grant"),
        ("grant_type", "", "invalid_request"),
        ("grant_type", "client_credentials", "unsupported_grant_type"),
        ("grant_type", "password", "unsupported_grant_type"),
        ("resource", "https://evil.example/mcp", "invalid_target"),
    ] {
        refused(&redeem_with(&server, &client, &good, &[(name, value)]), code);
    }
    let doubled = encode(&[("grant_type", "authorization_code"), ("code", &good), ("code", &good)]);
    let kind = "Content-Type: application/x-www-form-urlencoded\r\n";
    refused(&request(&server, "POST", "/oauth/token", kind, &doubled), "invalid_request");
    refused(&request(&server, "POST", "/oauth/token", kind, "grant_type=%zz"), "invalid_request");
    assert_eq!(
        request(&server, "POST", "/oauth/token", "Content-Type: application/json\r\n", "{}").status,
        415
    );
    assert_eq!(redeem(&server, &client, &good).status, 200, "and none of that has used it up");
}

#[test]
fn a_code_is_good_for_a_minute() {
    let server = Server::start(&["--test-clock"]);
    let mut browser = Browser::signed_up(&server, "joe@example.com");
    let client = register(&server, CALLBACK);
    let code = allowed(&server, &mut browser, &client, 1, 1);
    server.advance(61_000);
    refused(&redeem(&server, &client, &code), "invalid_grant");
}

#[test]
fn refresh_tokens_rotate_and_an_old_one_ends_the_connection() {
    let server = Server::start(&["--test-clock"]);
    let mut browser = Browser::signed_up(&server, "joe@example.com");
    let first = connect(&server, &mut browser, 1, 2);
    server.advance(60 * 60 * 1000);
    assert!(!is_alive(&server, &first.access), "an access token is good for an hour");
    let second = tokens(&first.client, "", &renew(&server, &first.client, &first.refresh));
    assert_ne!(first.refresh, second.refresh);
    assert!(is_alive(&server, &second.access));
    refused(&renew(&server, &first.client, &first.refresh), "invalid_grant");
    assert!(!is_alive(&server, &second.access), "somebody has an old one: nobody goes on");
    refused(&renew(&server, &first.client, &second.refresh), "invalid_grant");
}

#[test]
fn a_refresh_token_is_for_its_client() {
    let (server, mut browser) = signed_up();
    let tokens = connect(&server, &mut browser, 1, 1);
    let other = register(&server, CALLBACK);
    refused(&renew(&server, &other, &tokens.refresh), "invalid_grant");
    assert!(!is_alive(&server, &tokens.access), "it is in wrong hands");
}

#[test]
fn nothing_outlives_the_days_that_the_user_chose() {
    let server = Server::start(&["--test-clock"]);
    let mut browser = Browser::signed_up(&server, "joe@example.com");
    let first = connect(&server, &mut browser, 1, 1);
    server.advance(DAY_MS - 30 * 60 * 1000);
    let answer = renew(&server, &first.client, &first.refresh);
    let left = answer.json()["expires_in"].as_u64().unwrap();
    assert!((1700..=1800).contains(&left), "half an hour, and not an hour: {left}");
    let second = tokens(&first.client, "", &answer);
    assert!(is_alive(&server, &second.access));
    server.advance(30 * 60 * 1000);
    assert!(!is_alive(&server, &second.access));
    refused(&renew(&server, &first.client, &second.refresh), "invalid_grant");
    browser.get("/connections").says("No assistant is connected.");
}

#[test]
fn a_client_gives_its_tokens_back() {
    let (server, mut browser) = signed_up();
    let first = connect(&server, &mut browser, 1, 1);
    let give_back = |token: &str| {
        post_form(&server, "/oauth/revoke", &[("token", token), ("client_id", &first.client)]).status
    };
    assert_eq!(give_back(&first.access), 200);
    assert!(!is_alive(&server, &first.access));
    let second = tokens(&first.client, "", &renew(&server, &first.client, &first.refresh));
    assert_eq!(give_back(&second.refresh), 200);
    assert!(!is_alive(&server, &second.access));
    refused(&renew(&server, &first.client, &second.refresh), "invalid_grant");
    assert_eq!(give_back(&second.refresh), 200, "there is nothing left to end");
}

#[test]
fn a_restart_changes_nothing() {
    let server = Server::start(&["--public-url", "http://localhost:1"]);
    let mut browser = Browser::signed_up(&server, "joe@example.com");
    let client = register(&server, CALLBACK);
    let mut fields = asking(&server, &client);
    fields
        .iter_mut()
        .filter(|(name, _)| *name == "resource")
        .for_each(|(_, it)| *it = "http://localhost:1/mcp".into());
    let page = browser.get(&consent_path(&fields));
    let page = decide(&mut browser, &page, "2", "1", "allow");
    let code = value(&sent_back(&page), "code").unwrap();
    let server = server.restart_with(&["--public-url", "http://localhost:1"]);
    let tokens = tokens(&client, &code, &redeem_with(&server, &client, &code, &[("resource", "")]));
    full(&server, &tokens.access, "mailbox_exists@example.com").unwrap();
    let server = server.restart_with(&["--public-url", "http://localhost:1"]);
    let got = full(&server, &tokens.access, "catch_all@example.com").unwrap();
    assert_eq!(got["full_checks_left"], 0);
    assert!(full(&server, &tokens.access, "inbox_full@example.com").is_err());
}
