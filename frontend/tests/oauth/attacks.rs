//! Attempts of attackers, or of clients with errors.

use crate::harness::server::{Server, get};
use crate::oauth::assistant::*;
use crate::web::browser::{Browser, signed_up};
use serde_json::json;

/// Checks that a request for consent is refused by a page, without a redirect.
#[track_caller]
fn refused(browser: &mut Browser, fields: &[(&'static str, String)], says: &str) {
    let page = browser.get_once(&consent_path(fields));
    assert_eq!((page.status, page.header("location")), (400, None), "{fields:?}");
    page.says(says);
    assert!(page.forms().iter().all(|(action, _)| action != "/oauth/authorize"), "no way to allow it");
}

fn with(server: &Server, client: &str, name: &'static str, value: &str) -> Vec<(&'static str, String)> {
    let mut fields = asking(server, client);
    fields.retain(|(known, _)| *known != name);
    if !value.is_empty() {
        fields.push((name, value.to_owned()));
    }
    fields
}

#[test]
fn nobody_is_sent_to_an_address_that_was_not_registered() {
    let (server, mut browser) = signed_up();
    let client = register(&server, CALLBACK);
    for other in [
        "",
        "https://evil.example/callback",
        "http://127.0.0.1:49152/callback/../other",
        "http://127.0.0.1:49152/callback?x=1",
        "http://127.0.0.1:49152/callback#x",
        "http://127.0.0.1:49152@evil.example/callback",
        "http://127.0.0.1.evil.example/callback",
        "http://localhost:49152/callback",
        "https://127.0.0.1:49152/callback",
        "//evil.example/callback",
        "javascript:alert(1)",
    ] {
        let fields = with(&server, &client, "redirect_uri", other);
        refused(&mut browser, &fields, "has not registered");
    }
    for other in
        ["", "cli_00000000000000000000000000", "x", "https://localhost/", "http://localhost:1/c.json"]
    {
        refused(&mut browser, &with(&server, other, "client_id", other), "not known here");
    }
    let twice = [with(&server, &client, "state", ""), vec![("redirect_uri", "https://evil.example/".into())]];
    refused(&mut browser, &twice.concat(), "has not registered");
    // The port of a program on the user's computer is arbitrary.
    let fields = with(&server, &client, "redirect_uri", "http://127.0.0.1:50000/callback");
    assert_eq!(browser.get_once(&consent_path(&fields)).status, 200);
}

#[test]
fn a_request_without_proof_or_resource_is_told_so_and_sends_nobody_anywhere() {
    let (server, mut browser) = signed_up();
    let client = register(&server, CALLBACK);
    let foreign = format!("{}x", resource(&server));
    for (name, value, says) in [
        ("code_challenge", "", "code_challenge must be"),
        ("code_challenge", "short", "code_challenge must be"),
        ("code_challenge_method", "", "PKCE is required"),
        ("code_challenge_method", "plain", "PKCE is required"),
        ("resource", "", "resource must name"),
        ("resource", "https://evil.example/mcp", "resource must name"),
        ("resource", &foreign, "resource must name"),
        ("response_type", "", "response_type must be code"),
        ("response_type", "token", "response_type must be code"),
    ] {
        let fields = with(&server, &client, name, value);
        refused(&mut browser, &fields, says);
        // The user can report the error to the client.
        let page = browser.get_once(&consent_path(&fields));
        let link = format!("{CALLBACK}?error=");
        assert!(page.text().contains(&link) && page.text().contains("iss=http"), "{}", page.text());
    }
    // The same with a changed form.
    let page = browser.get_once(&consent_path(&asking(&server, &client)));
    let token = page.token();
    let mut fields = with(&server, &client, "code_challenge_method", "plain");
    fields.push(("csrf", token));
    fields.push(("decision", "allow".into()));
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let page = browser.post("/oauth/authorize", &encode(&fields));
    assert_eq!((page.status, page.header("location")), (400, None));
}

#[test]
fn consent_comes_from_our_own_page_alone() {
    let (server, mut browser) = signed_up();
    let client = register(&server, CALLBACK);
    let page = browser.get_once(&consent_path(&asking(&server, &client)));
    let mut fields = asking(&server, &client);
    for (name, value) in [("full_checks", "10"), ("days", "30"), ("decision", "allow")] {
        fields.push((name, value.into()));
    }
    let body = |token: Option<&str>| {
        let mut all: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        all.extend(token.map(|token| ("csrf", token)));
        encode(&all)
    };
    let own = page.token();
    assert_eq!(browser.post("/oauth/authorize", &body(None)).status, 403);
    assert_eq!(browser.post("/oauth/authorize", &body(Some("x"))).status, 403);
    let other = Browser::signed_up(&server, "eve@example.com").get_once("/connections").token();
    assert_eq!(browser.post("/oauth/authorize", &body(Some(&other))).status, 403);
    let evil = "Origin: https://evil.example\r\nSec-Fetch-Site: cross-site\r\n";
    assert_eq!(browser.post_with("/oauth/authorize", evil, &body(Some(&own))).status, 403);
    browser.get("/connections").says("No assistant is connected.");
    assert_eq!(browser.post("/oauth/authorize", &body(Some(&own))).status, 303);
}

#[test]
fn names_of_clients_are_text() {
    let (server, mut browser) = signed_up();
    let name = "<script>alert(1)</script><img src=x onerror=alert(1)>";
    let metadata = json!({ "client_name": name, "redirect_uris": [CALLBACK] });
    let answer = post_json(&server, "/oauth/register", &metadata).json();
    let client = answer["client_id"].as_str().unwrap();
    let code = allowed(&server, &mut browser, client, 1, 1);
    assert_eq!(redeem(&server, client, &code).status, 200);
    let mut fields = asking(&server, client);
    fields.retain(|(name, _)| *name != "state");
    fields.push(("state", "\"><script>alert(1)</script>".into()));
    for page in [browser.get("/connections"), browser.get(&consent_path(&fields))] {
        assert!(
            page.text().contains("&lt;script&gt;") && !page.text().contains("<script>alert"),
            "{}",
            page.text()
        );
        assert!(!page.text().contains("<img"));
    }
}

#[test]
fn tokens_and_keys_are_good_in_their_own_place_alone() {
    let (server, mut browser) = signed_up();
    let tokens = connect(&server, &mut browser, 1, 1);
    for path in ["/v1/account", "/v1/verify?email=a@b.example"] {
        assert_eq!(server.send(get(&tokens.access, path)).status, 401);
    }
    for other in [&server.live, &server.test, &tokens.refresh, &tokens.code, "x", "mp_at_"] {
        let answer = modern(&server, other, "tools/list", json!({}));
        assert_eq!(answer.status, 401, "{other}");
        assert!(answer.header("www-authenticate").unwrap().contains("error=\"invalid_token\""));
    }
    let twice = format!("Authorization: Bearer {}\r\n", tokens.access);
    assert_eq!(speak(&server, &tokens.access, &twice, "{}").status, 401);
    let query = format!("/mcp?access_token={}", tokens.access);
    assert_eq!(request(&server, "POST", &query, "Content-Type: application/json\r\n", "{}").status, 401);
    assert!(is_alive(&server, &tokens.access));
}

#[test]
fn another_account_s_connection_is_not_there() {
    let server = Server::start(&[]);
    let mut joe = Browser::signed_up(&server, "joe@example.com");
    let mut eve = Browser::signed_up(&server, "eve@example.com");
    let tokens = connect(&server, &mut joe, 1, 1);
    connect(&server, &mut eve, 1, 1);
    let page = joe.get("/connections");
    let (_, fields) = page.forms().into_iter().find(|(action, _)| action == "/connections/end").unwrap();
    let id = fields.iter().find(|(name, _)| name == "connection").unwrap().1.clone();
    let token = eve.get("/connections").token();
    for id in [id.as_str(), "con_00000000000000000000000000", "", "x"] {
        let body = encode(&[("csrf", &token), ("connection", id)]);
        assert_eq!(eve.post("/connections/end", &body).status, 404, "{id}");
    }
    assert!(is_alive(&server, &tokens.access));
    let page = joe.press(&page, "/connections/end");
    page.says("The connection is ended.").says("No assistant is connected.");
    assert!(!is_alive(&server, &tokens.access));
    assert_eq!(renew(&server, &tokens.client, &tokens.refresh).json()["error"], "invalid_grant");
}

#[test]
fn who_knows_no_secret_makes_nothing_end() {
    let (server, mut browser) = signed_up();
    let tokens = connect(&server, &mut browser, 1, 1);
    for token in ["x", "mp_rt_", &tokens.code, &format!("mp_rt_{}", "A".repeat(86))] {
        let answer = post_form(&server, "/oauth/revoke", &[("token", token), ("client_id", &tokens.client)]);
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let other = register(&server, CALLBACK);
    for token in [&tokens.access, &tokens.refresh] {
        post_form(&server, "/oauth/revoke", &[("token", token), ("client_id", &other)]);
    }
    assert!(is_alive(&server, &tokens.access));
    assert_eq!(post_form(&server, "/oauth/revoke", &[("client_id", &other)]).status, 400);
}

#[test]
fn a_gateway_offers_none_of_this() {
    let gateway = "[[gateway]]\nname = \"shop\"\nheader = \"X-Shop-Secret\"\nsecrets = [\"a-secret-of-16-chars\"]\n\
                   user_header = \"X-Shop-User\"\nplan_header = \"X-Shop-Plan\"\n[gateway.plans]\nBASIC = \"free\"\n";
    let server = Server::start_with(gateway, &[]);
    let mut browser = Browser::signed_up(&server, "joe@example.com");
    let tokens = connect(&server, &mut browser, 1, 1);
    let shown = "X-Shop-Secret: a-secret-of-16-chars\r\nX-Shop-User: eve\r\nX-Shop-Plan: BASIC\r\n";
    for path in ["/mcp", "/oauth/token", "/oauth/register", "/.well-known/oauth-authorization-server"] {
        let headers =
            format!("Authorization: Bearer {}\r\nContent-Type: application/json\r\n{shown}", tokens.access);
        let method = if path.starts_with("/.well") { "GET" } else { "POST" };
        let answer = request(&server, method, path, &headers, "");
        assert_eq!((answer.status, answer.error().as_str()), (403, "not_available_on_shop"), "{path}");
    }
    assert!(is_alive(&server, &tokens.access));
}

#[test]
fn a_body_that_is_told_to_be_too_long_is_refused_before_it_comes() {
    let server = Server::start(&[]);
    let tokens = connect(&server, &mut Browser::signed_up(&server, "joe@example.com"), 10, 30);
    let (json, form) = ("application/json", "application/x-www-form-urlencoded");
    for (path, kind) in
        [("/oauth/register", json), ("/oauth/token", form), ("/oauth/revoke", form), ("/mcp", json)]
    {
        let headers = format!("Authorization: Bearer {}\r\nContent-Type: {kind}\r\n", tokens.access);
        server.refuses_a_long_body(path, &headers);
    }
}
