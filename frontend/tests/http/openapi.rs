//! The description of the API: public, and the same over HTTP and on the command line.

use crate::harness::server::{Server, mailprobe};
use serde_json::{Value, json};

fn printed(arguments: &[&str]) -> Value {
    let output = mailprobe([&["openapi"], arguments].concat());
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn served_to_anybody_and_printed_alike() {
    let server = Server::start(&[]);
    let got = server.send("GET /v1/openapi.json HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_eq!(got.status, 200);
    assert_eq!(got.header("content-type"), Some("application/json"));
    assert_eq!(got.header("cache-control"), Some("public, max-age=300"));
    assert!(got.header("x-request-id").is_some());
    let document = got.json();
    assert_eq!(document, printed(&[]));
    assert!(document["openapi"].as_str().unwrap().starts_with("3."));
    assert_eq!(document["info"]["version"], "1.0.0");
    assert_eq!(document["servers"], json!([{ "url": "/" }]));
    // Keys are ignored, also invalid ones.
    assert_eq!(server.get("mp_live_wrong", "/v1/openapi.json").status, 200);
    assert_eq!(server.post(&server.live, "/v1/openapi.json", "{}").error(), "method_not_allowed");
}

#[test]
fn head_shows_no_body() {
    let server = Server::start(&[]);
    let mut connection = server.connect();
    connection.send("HEAD /v1/openapi.json HTTP/1.1\r\nHost: t\r\n\r\n");
    let head = connection.read_head();
    assert_eq!((head.status, head.header("cache-control")), (200, Some("public, max-age=300")));
    assert!(head.header("content-length").unwrap().parse::<usize>().unwrap() > 10_000);
    assert_eq!(server.get(&server.live, "/v1/account").header("cache-control"), Some("no-store"));
}

#[test]
fn the_public_url_is_told() {
    let url = "https://api.example.com/mail";
    let flags = ["--public-url", "https://api.example.com/mail/"];
    let server = Server::start(&flags);
    let document = server.get(&server.live, "/v1/openapi.json").json();
    assert_eq!(document["servers"], json!([{ "url": url }]));
    assert_eq!(document, printed(&flags));
}
