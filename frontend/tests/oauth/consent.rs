//! From an unknown client to its tokens: metadata, registration, the consent page.

use crate::harness::server::Server;
use crate::oauth::assistant::*;
use crate::web::browser::{Browser, signed_up};
use serde_json::json;

#[test]
fn the_way_in_is_found_from_a_refusal() {
    let server = Server::start(&[]);
    let base = base(&server);
    let refused = request(&server, "POST", "/mcp", "Content-Type: application/json\r\n", "{}");
    assert_eq!(refused.status, 401);
    let challenge = refused.header("www-authenticate").unwrap().to_owned();
    assert_eq!(
        challenge,
        format!(
            "Bearer realm=\"mailprobe\", scope=\"verify\", \
             resource_metadata=\"{base}/.well-known/oauth-protected-resource/mcp\""
        )
    );
    for path in ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"] {
        let metadata = request(&server, "GET", path, "", "").json();
        assert_eq!(metadata["resource"], format!("{base}/mcp"));
        assert_eq!(metadata["authorization_servers"], json!([base]));
    }
    let metadata = request(&server, "GET", "/.well-known/oauth-authorization-server", "", "").json();
    assert_eq!(metadata["issuer"], base);
    assert_eq!(metadata["code_challenge_methods_supported"], json!(["S256"]));
    assert_eq!(metadata["authorization_response_iss_parameter_supported"], true);
    for (name, path) in [
        ("authorization_endpoint", "/oauth/authorize"),
        ("token_endpoint", "/oauth/token"),
        ("registration_endpoint", "/oauth/register"),
        ("revocation_endpoint", "/oauth/revoke"),
    ] {
        assert_eq!(metadata[name], format!("{base}{path}"));
    }
    assert_eq!(request(&server, "GET", "/.well-known/openid-configuration", "", "").status, 404);
}

#[test]
fn without_a_sure_address_there_is_no_way_in() {
    for flags in [
        &["--public-url", "https://example.com/api"][..],
        &["--public-url", "http://example.com"],
        &["--dashboard-enabled", "false"],
    ] {
        let server = Server::start(flags);
        assert_eq!(request(&server, "POST", "/mcp", "", "").status, 404, "{flags:?}");
        let metadata = request(&server, "GET", "/.well-known/oauth-authorization-server", "", "");
        assert_eq!(metadata.status, 404);
    }
    let server = Server::start(&["--public-url", "https://api.example.com"]);
    let metadata = request(&server, "GET", "/.well-known/oauth-protected-resource/mcp", "", "").json();
    assert_eq!(metadata["resource"], "https://api.example.com/mcp");
}

#[test]
fn a_client_registers_and_learns_what_it_got() {
    let server = Server::start(&[]);
    let asked = json!({
        "client_name": "Assistant \u{202e}<b>",
        "redirect_uris": ["http://localhost:3000/cb", "https://a.example/cb"],
        "grant_types": ["authorization_code", "refresh_token", "x"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "client_secret_basic",
        "logo_uri": "http://10.0.0.1/",
    });
    let answer = post_json(&server, "/oauth/register", &asked);
    assert_eq!((answer.status, answer.header("cache-control")), (201, Some("no-store")));
    let got = answer.json();
    assert!(got["client_id"].as_str().unwrap().starts_with("cli_"));
    assert_eq!(got["client_name"], "Assistant <b>");
    assert_eq!(got["redirect_uris"], asked["redirect_uris"]);
    assert_eq!(got["token_endpoint_auth_method"], "none");
    assert!(got.get("client_secret").is_none());
}

#[test]
fn registrations_are_read_strictly_and_are_not_many() {
    let server = Server::start(&[]);
    let check = |body: &str, code: &str| {
        let answer = request(&server, "POST", "/oauth/register", "Content-Type: application/json\r\n", body);
        assert_eq!((answer.status, answer.json()["error"].as_str()), (400, Some(code)), "{body}");
    };
    check("[]", "invalid_client_metadata");
    check("{", "invalid_client_metadata");
    check("{}", "invalid_redirect_uri");
    let uris = |uris: serde_json::Value| json!({ "redirect_uris": uris }).to_string();
    for bad in [
        json!([]),
        json!("https://a.example/cb"),
        json!([1]),
        json!(["http://a.example/cb"]),
        json!(["https://a.example/#x"]),
        json!(["javascript:alert(1)"]),
        json!(["https://user@a.example/cb"]),
        json!(["https://ok.example/cb", "custom://cb"]),
        json!(vec!["https://a.example/cb"; 11]),
    ] {
        check(&uris(bad), "invalid_redirect_uri");
    }
    let uri = "https://a.example/cb";
    for more in [
        json!({ "redirect_uris": [uri], "grant_types": ["client_credentials"] }),
        json!({ "redirect_uris": [uri], "response_types": ["token"] }),
        json!({ "redirect_uris": [uri], "client_name": 1 }),
        json!({ "redirect_uris": [uri], "grant_types": "authorization_code" }),
    ] {
        check(&more.to_string(), "invalid_client_metadata");
    }
    let form = "Content-Type: text/plain\r\n";
    assert_eq!(request(&server, "POST", "/oauth/register", form, "{}").status, 415);
    let register = || post_json(&server, "/oauth/register", &json!({ "redirect_uris": [uri] })).status;
    let statuses: Vec<u16> = (0..40).map(|_| register()).collect();
    assert_eq!(statuses.last(), Some(&429), "{statuses:?}");
}

#[test]
fn a_user_signs_in_first_and_then_sees_who_asks() {
    let server = Server::start(&[]);
    drop(Browser::signed_up(&server, "joe@example.com"));
    let client = register(&server, CALLBACK);
    let mut browser = Browser::new(&server);
    let path = consent_path(&asking(&server, &client));
    let page = browser.get(&path);
    assert!(
        page.path.starts_with("/signin?next=%2Foauth%2Fauthorize")
            || page.path.starts_with("/signin?next=/oauth/authorize"),
        "{}",
        page.path
    );
    let page =
        browser.submit(&page, &[("email", "joe@example.com"), ("password", crate::web::browser::PASSWORD)]);
    assert_eq!(page.path, path, "and then they are back");
    page.says("Test assistant").says("127.0.0.1:49152").says("a program on the computer");
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("form-action 'self' http: https:;") && policy.contains("frame-ancestors 'none'"));
    assert_eq!(page.header("cache-control"), Some("no-store"));

    let page = decide(&mut browser, &page, "3", "2", "allow");
    let back = sent_back(&page);
    assert_eq!(page.status, 303);
    assert_eq!(value(&back, "state").as_deref(), Some("a state&more"));
    assert_eq!(value(&back, "iss"), Some(base(&server)));
    let code = value(&back, "code").unwrap();
    let answer = redeem(&server, &client, &code);
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let body = answer.json();
    assert_eq!((body["token_type"].as_str(), body["expires_in"].as_u64()), (Some("Bearer"), Some(3600)));
    assert_eq!(body["scope"], "verify");
    assert!(is_alive(&server, body["access_token"].as_str().unwrap()));
    let page = browser.get("/connections");
    page.says("Test assistant").says("0 of 3").says("127.0.0.1");
    let log = server.log();
    for secret in
        [&code, body["access_token"].as_str().unwrap(), body["refresh_token"].as_str().unwrap(), VERIFIER]
    {
        assert!(!log.contains(secret), "a secret is in the log");
    }
}

#[test]
fn who_denies_gives_nothing_away() {
    let (server, mut browser) = signed_up();
    let client = register(&server, CALLBACK);
    let page = browser.get(&consent_path(&asking(&server, &client)));
    let page = decide(&mut browser, &page, "", "", "deny");
    let back = sent_back(&page);
    assert_eq!(value(&back, "error").as_deref(), Some("access_denied"));
    assert_eq!(value(&back, "state").as_deref(), Some("a state&more"));
    assert_eq!(value(&back, "iss"), Some(base(&server)));
    assert_eq!(value(&back, "code"), None);
    browser.get("/connections").says("No assistant is connected.");
}

#[test]
fn consent_has_bounds() {
    let (server, mut browser) = signed_up();
    let client = register(&server, CALLBACK);
    let path = consent_path(&asking(&server, &client));
    for (checks, days) in
        [("11", "1"), ("-1", "1"), ("", "1"), ("1", "0"), ("1", "31"), ("1", ""), ("1e1", "1"), ("1", "1.5")]
    {
        let page = browser.get(&path);
        let page = decide(&mut browser, &page, checks, days, "allow");
        assert_eq!(page.status, 400, "{checks} {days}");
        page.says("Choose 0 to 10 full checks and 1 to 30 days.");
        assert_eq!(page.forms().len(), 2, "and the form is there again, beside the one to sign out");
    }
    for (checks, days) in [("0", "1"), ("10", "30")] {
        let page = browser.get(&path);
        assert_eq!(decide(&mut browser, &page, checks, days, "allow").status, 303);
    }
}

#[test]
fn an_account_has_so_many_connections() {
    let (server, mut browser) = signed_up();
    let client = register(&server, CALLBACK);
    let page = browser.get(&consent_path(&asking(&server, &client)));
    for _ in 0..50 {
        assert_eq!(decide(&mut browser, &page, "1", "1", "allow").status, 303);
    }
    let page = decide(&mut browser, &page, "1", "1", "allow");
    assert_eq!(page.status, 409);
    page.says("End one, then connect again.");
}
