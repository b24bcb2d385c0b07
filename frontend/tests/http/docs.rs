//! The API reference, with and without a dashboard. Chromium tests its content and examples.

use crate::server::Server;

const GET: &str = "GET /docs HTTP/1.1\r\nHost: t\r\n\r\n";

#[test]
fn the_reference_needs_no_key_and_no_dashboard() {
    for (flags, signs_in) in [(&[][..], true), (&["--dashboard-enabled", "false"], false)] {
        let server = Server::start(flags);
        let answer = server.send(GET);
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/html; charset=utf-8")));
        assert!(answer.header("content-security-policy").unwrap().starts_with("default-src 'none'; "));
        assert!(answer.body.contains(&format!("curl 'http://{}/v1/account'", server.address)));
        assert_eq!(answer.body.contains("href=\"/signin\""), signs_in, "{flags:?}");
        // All files that it loads exist.
        let assets: Vec<&str> = answer.body.split('"').filter(|it| it.starts_with("/assets/")).collect();
        assert_eq!(assets.len(), 2, "{assets:?}");
        for path in assets {
            let asset = server.send(format!("GET {path} HTTP/1.1\r\nHost: t\r\n\r\n"));
            assert_eq!(asset.status, 200, "{path}");
            assert!(asset.header("cache-control").unwrap().contains("immutable"));
        }
        assert_eq!(server.send("GET /assets/nothing.css HTTP/1.1\r\nHost: t\r\n\r\n").status, 404);
        assert_eq!(server.send("POST /docs HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\n\r\n").status, 405);
    }
}

#[test]
fn its_examples_name_the_public_url() {
    let server = Server::start(&["--public-url", "https://api.example.com/probe/"]);
    let page = server.send(GET).body;
    assert!(page.contains("curl 'https://api.example.com/probe/v1/openapi.json'"));
    assert!(!page.contains(&server.address.to_string()));
}
