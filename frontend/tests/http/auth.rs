//! 401, in all its forms, and the order of refusals around it.

use crate::http::server::{Server, get};
use checks::auth::ApiKey;
use store::KeyMode;

fn check(server: &Server, headers: &str, expected: &str) {
    let got = server.send(format!("GET /v1/account HTTP/1.1\r\nHost: t\r\n{headers}\r\n"));
    assert_eq!((got.status, got.error().as_str()), (401, expected), "{headers}");
    assert_eq!(got.header("www-authenticate"), Some("Bearer realm=\"mailprobe\""));
    assert_eq!(got.header("cache-control"), Some("no-store"));
    assert!(got.header("x-request-id").is_some());
}

#[test]
fn keys_that_open_nothing() {
    let server = Server::start(&[]);
    let stranger = ApiKey::generate(KeyMode::Live).unwrap();
    let mut mistyped = server.live.clone();
    let last = if mistyped.pop() == Some('a') { 'b' } else { 'a' };
    mistyped.push(last);

    check(&server, "", "missing_api_key");
    check(&server, "Authorization: Basic dTpw\r\n", "missing_api_key");
    check(&server, "Authorization: Bearer\r\n", "missing_api_key");
    check(&server, &format!("Authorization: {}\r\n", server.live), "missing_api_key");
    check(&server, "Authorization: Bearer nonsense\r\n", "invalid_api_key");
    check(&server, &format!("Authorization: Bearer {}\r\n", stranger.reveal()), "invalid_api_key");
    check(&server, &format!("Authorization: Bearer {mistyped}\r\n"), "invalid_api_key");
    check(
        &server,
        &format!("Authorization: Bearer {0}\r\nAuthorization: Bearer {0}\r\n", server.live),
        "invalid_api_key",
    );
    check(&server, "Authorization: Bearer \u{1f511}\r\n", "invalid_api_key");
    for path in ["/v1/verify?email=a%40example.com", "/v1/verify"] {
        assert_eq!(server.send(format!("GET {path} HTTP/1.1\r\nHost: t\r\n\r\n")).status, 401);
    }
}

#[test]
fn the_scheme_is_read_in_any_case() {
    let server = Server::start(&[]);
    let got = server.send(format!(
        "GET /v1/account HTTP/1.1\r\nHost: t\r\nauthorization: bEARER  {}\r\n\r\n",
        server.live
    ));
    assert_eq!(got.status, 200);
}

#[test]
fn a_revocation_counts_at_once() {
    let server = Server::start(&[]);
    let made = server.administer(&["key", "create", "default", "--json"]);
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    let (key, id) = (made["key"].as_str().unwrap(), made["id"].as_str().unwrap());
    assert_eq!(server.get(key, "/v1/account").status, 200);
    server.administer(&["key", "revoke", id]);
    check(&server, &format!("Authorization: Bearer {key}\r\n"), "api_key_revoked");
    assert_eq!(server.get(&server.live, "/v1/account").status, 200, "other keys go on");
}

#[test]
fn refusals_come_in_order() {
    let server = Server::start(&[]);
    let post = |path: &str, more: &str| {
        server.send(format!("POST {path} HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n{more}\r\nabc")).status
    };
    let key = format!("Authorization: Bearer {}\r\n", server.test);
    let text = "Content-Type: text/plain\r\n";
    assert_eq!(post("/nowhere", text), 404);
    assert_eq!(post("/v1/account", text), 405);
    assert_eq!(post("/v1/verify", text), 401);
    assert_eq!(post("/v1/verify", &format!("{key}{text}")), 415);
    assert_eq!(post("/v1/verify", &key), 400);
    assert_eq!(server.send(get("nonsense", "/v1/verify?mode=x")).status, 401);
}
