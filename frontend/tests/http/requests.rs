//! Limits and errors of requests: 400, 404, 405, 413, 415, and the headers of every answer.

use crate::http::server::{Server, get, post};
use serde_json::json;

#[test]
fn malformed_queries() {
    let server = Server::start(&[]);
    let check = |query: &str, expected: &[(&str, &str)]| {
        let got = server.get(&server.test, &format!("/v1/verify{query}"));
        assert_eq!((got.status, got.error().as_str()), (400, "invalid_request"), "{query}");
        let body = got.json();
        let detail = body["detail"].as_array().unwrap();
        let issues: Vec<(String, &str)> = detail
            .iter()
            .map(|issue| {
                assert!(issue["msg"].is_string());
                (
                    issue["loc"]
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|l| l.as_str().unwrap())
                        .collect::<Vec<_>>()
                        .join("."),
                    issue["type"].as_str().unwrap(),
                )
            })
            .collect();
        let issues: Vec<(&str, &str)> = issues.iter().map(|(loc, kind)| (loc.as_str(), *kind)).collect();
        assert_eq!(issues, expected, "{query}");
    };
    let email = "email=deliverable%40example.com";
    check("", &[("query.email", "missing")]);
    check("?mail=a", &[("query.email", "missing")]);
    check(&format!("?{email}&mode=quick"), &[("query.mode", "enum")]);
    check(&format!("?{email}&mode="), &[("query.mode", "enum")]);
    check(&format!("?{email}&mode=Full"), &[("query.mode", "enum")]);
    check(&format!("?{email}&detail=all"), &[("query.detail", "enum")]);
    check(&format!("?{email}&detail=no&mode=x"), &[("query.mode", "enum"), ("query.detail", "enum")]);
    check(&format!("?{email}&{email}"), &[("query.email", "duplicate")]);
    check(&format!("?{email}&mode=full&mode=full"), &[("query.mode", "duplicate")]);
    check("?email=%zz", &[("query", "encoding")]);
    check("?email=%ff", &[("query", "encoding")]);
    check(&format!("?{email}&mode=fast&detail=no"), &[("query.detail", "enum")]);
    let fine = server.get(&server.test, &format!("/v1/verify?{email}&mode=full&detail=full&other=1&other=2"));
    assert_eq!(fine.status, 200);
}

#[test]
fn malformed_bodies() {
    let server = Server::start(&[]);
    let check = |query: &str, body: &str, kind: &str| {
        let got = server.post(&server.test, &format!("/v1/verify{query}"), body);
        assert_eq!((got.status, got.error().as_str()), (400, "invalid_request"), "{body}");
        assert_eq!(got.json()["detail"][0]["type"], kind, "{body}");
    };
    let email = "\"email\":\"deliverable@example.com\"";
    check("", "", "json_invalid");
    check("", "{", "json_invalid");
    check("", &format!("{{{email}}} x"), "json_invalid");
    check("", &format!("{{{email},{email}}}"), "json_invalid");
    check("", &format!("{{{email},\"x\":{{\"a\":1,\"a\":2}}}}"), "json_invalid");
    check("", "[]", "object_type");
    check("", "{}", "missing");
    check("", "{\"email\":1}", "string_type");
    check("", &format!("{{\"email\":\"{}\"}}", "a".repeat(321)), "string_too_long");
    check("", &format!("{{{email},\"mode\":\"slow\"}}"), "enum");
    check("", &format!("{{{email},\"detail\":true}}"), "string_type");
    check("?mode=full", &format!("{{{email},\"mode\":\"fast\"}}"), "conflict");
    check("?mode=slow", &format!("{{{email}}}"), "enum");
    let bytes = b"{\"email\":\"\xff@example.com\"}";
    let head = format!(
        "POST /v1/verify HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\r\n",
        server.test,
        bytes.len()
    );
    assert_eq!(server.send([head.as_bytes(), bytes].concat()).status, 400);
    for fine in [
        format!("{{{email},\"mode\":null,\"detail\":null,\"more\":[{{}}]}}"),
        format!("{{\"email\":\"{}\"}}", "a".repeat(320)),
    ] {
        assert_eq!(server.post(&server.test, "/v1/verify?mode=full", &fine).status, 200, "{fine}");
    }
}

#[test]
fn an_address_of_any_length_may_stand_in_a_query() {
    let server = Server::start(&[]);
    let email = format!("{}@example.com", "a".repeat(10_000));
    let got = server.get(&server.live, &format!("/v1/verify?email={email}"));
    assert_eq!((got.status, got.json()["reason"].as_str()), (200, Some("invalid_syntax")));
    assert_eq!(server.credits(), 100);
}

#[test]
fn paths_and_methods() {
    let server = Server::start(&[]);
    let check = |method: &str, path: &str, status: u16, allow: Option<&str>| {
        let got = server.send(format!(
            "{method} {path} HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {}\r\nContent-Length: 0\r\n\r\n",
            server.test
        ));
        assert_eq!((got.status, got.header("allow")), (status, allow), "{method} {path}");
        assert_eq!(got.error(), if status == 404 { "not_found" } else { "method_not_allowed" });
    };
    check("GET", "/nothing", 404, None);
    check("GET", "/v1/verify/", 404, None);
    check("POST", "/v1/accounts", 404, None);
    check("PUT", "/v1/verify", 405, Some("GET, POST"));
    check("DELETE", "/v1/account", 405, Some("GET, HEAD"));
    check("OPTIONS", "/livez", 405, Some("GET, HEAD"));
    check("BREW", "/livez", 405, Some("GET, HEAD"));
}

#[test]
fn head_is_a_get_without_a_body_where_a_get_is_free() {
    let server = Server::start(&[]);
    for (path, status) in
        [("/livez", 200), ("/readyz", 200), ("/v1/account", 200), ("/v1/verify?email=a", 405)]
    {
        let mut connection = server.connect();
        connection.send(get(&server.live, path).replacen("GET", "HEAD", 1));
        let got = connection.read_head();
        assert_eq!(got.status, status, "{path}");
        connection.send(get(&server.live, "/livez"));
        assert_eq!(connection.read().json()["status"], "ok", "no body stands in the way of the next answer");
    }
}

#[test]
fn bodies_are_bounded() {
    let server = Server::start(&[]);
    let body = |bytes: usize| {
        let frame = json!({ "email": "deliverable@example.com", "pad": "" }).to_string().len();
        json!({ "email": "deliverable@example.com", "pad": "x".repeat(bytes - frame) }).to_string()
    };
    let limit = 256 * 1024;
    assert_eq!(server.post(&server.test, "/v1/verify", &body(limit)).status, 200);
    let got = server.post(&server.test, "/v1/verify", &body(limit + 1));
    assert_eq!((got.status, got.error().as_str()), (413, "request_too_large"));
    // Without a length, in chunks.
    let body = body(limit + 1);
    let head = format!(
        "POST /v1/verify HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {}\r\nTransfer-Encoding: chunked\r\n\r\n",
        server.test
    );
    let got = server.send(format!("{head}{:x}\r\n{body}\r\n0\r\n\r\n", body.len()));
    assert_eq!(got.status, 413);
}

#[test]
fn a_body_that_is_told_to_be_too_long_is_refused_before_it_comes() {
    let server = Server::start(&[]);
    for path in ["/v1/verify", "/v1/verify?mode=full", "/v1/verify/batch"] {
        let headers = format!("Authorization: Bearer {}\r\nContent-Type: application/json\r\n", server.test);
        server.refuses_a_long_body(path, &headers);
    }
}

#[test]
fn a_body_must_not_say_that_it_is_something_else() {
    let server = Server::start(&[]);
    let body = "{\"email\":\"deliverable@example.com\"}";
    let send = |kind: &str| {
        server
            .send(post(&server.test, "/v1/verify", body).replace("Content-Type: application/json\r\n", kind))
    };
    let got = send("Content-Type: application/x-www-form-urlencoded\r\n");
    assert_eq!((got.status, got.error().as_str()), (415, "unsupported_media_type"));
    assert_eq!(send("Content-Type: text/plain; charset=utf-8\r\n").status, 415);
    assert_eq!(send("Content-Type: application/json; charset=UTF-8\r\n").status, 200);
    assert_eq!(send("").status, 200);
}

#[test]
fn what_every_answer_carries() {
    let server = Server::start(&[]);
    let with_id = |id: &str| {
        let request =
            get(&server.test, "/v1/account").replacen("\r\n", &format!("\r\nX-Request-Id: {id}\r\n"), 1);
        server.send(request).header("x-request-id").unwrap().to_owned()
    };
    assert_eq!(with_id("A-1_b.c"), "A-1_b.c");
    for other in ["a b", "a@example.com", "\u{e9}", &"x".repeat(65)] {
        let made = with_id(other);
        assert!(made != other && made.len() == 32, "{made}");
    }
    for path in ["/v1/account", "/v1/verify", "/nowhere", "/livez"] {
        let got = server.get(&server.test, path);
        assert_eq!(got.header("cache-control"), Some("no-store"), "{path}");
        assert_eq!(got.header("content-type"), Some("application/json"), "{path}");
        assert!(got.header("x-request-id").is_some_and(|id| id.len() == 32), "{path}");
        assert!(got.header("date").is_some(), "{path}");
    }
}

#[test]
fn what_others_may_read_differently_is_refused_and_ends_the_connection() {
    let server = Server::start(&[]);
    // Each is followed by a check that would be charged.
    let check = |what: &str, head: &str| {
        let mut connection = server.connect();
        connection
            .send(format!("{head}{}", get(&server.live, "/v1/verify?email=mailbox_exists%40a.example")));
        assert_eq!(connection.read().status, 400, "{what}");
        assert!(connection.try_read().is_none(), "{what}: what stood behind it was read");
    };
    let post = |fields: &str| {
        format!(
            "POST /v1/verify HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {}\r\n{fields}\r\n0\r\n\r\n",
            server.test
        )
    };
    check("a list", &post("Transfer-Encoding: identity, chunked\r\n"));
    check("another coding", &post("Transfer-Encoding: gzip, chunked\r\n"));
    check("two fields", &post("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n"));
    check("no host", "GET /livez HTTP/1.1\r\n\r\n");
    check("two hosts", "GET /livez HTTP/1.1\r\nHost: t\r\nHost: u\r\n\r\n");
    check("a host that is none", "GET /livez HTTP/1.1\r\nHost: t/u\r\n\r\n");
    check("a tunnel", "CONNECT t:80 HTTP/1.1\r\nHost: t:80\r\n\r\n");
    assert_eq!(server.credits(), 100);
    // HTTP/1.0 has no host.
    assert_eq!(server.send("GET /livez HTTP/1.0\r\n\r\n").status, 200);
}
