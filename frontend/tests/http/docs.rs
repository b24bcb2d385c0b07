//! The API reference, with and without a dashboard. Chromium tests its content and examples.

use crate::harness::client::Answer;
use crate::harness::server::Server;

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

#[test]
fn public_answers_have_a_tag_and_are_compressed_on_request() {
    let server = Server::start(&[]);
    let ask = |path: &str, headers: &str| {
        server.send(format!("GET {path} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n{headers}\r\n"))
    };
    for path in ["/v1/openapi.json", "/docs"] {
        let plain = ask(path, "");
        assert_eq!((plain.status, plain.header("content-encoding")), (200, None));
        let tag = plain.header("etag").unwrap().to_owned();
        assert!(plain.header("vary").is_some());
        let zipped = ask(path, "Accept-Encoding: gzip\r\n");
        assert_eq!((zipped.status, zipped.header("content-encoding")), (200, Some("gzip")));
        let other = zipped.header("etag").unwrap().to_owned();
        let length = |of: &Answer| of.header("content-length").unwrap().parse::<usize>().unwrap();
        assert!(other != tag && length(&zipped) < length(&plain));
        for (encoding, tag) in [("", &tag), ("Accept-Encoding: gzip\r\n", &other)] {
            let again = ask(path, &format!("{encoding}If-None-Match: \"x\", W/{tag}\r\n"));
            assert_eq!((again.status, again.body.as_str()), (304, ""), "{path}");
            assert_eq!(again.header("etag"), Some(tag.as_str()));
            assert_eq!(again.header("cache-control"), plain.header("cache-control"));
        }
        assert_eq!(ask(path, "If-None-Match: \"x\"\r\n").status, 200);
    }
    // Answers with private data, or with none, stay as they are.
    for path in ["/livez", "/signin", "/v1/nowhere"] {
        let got = ask(path, "Accept-Encoding: gzip\r\nIf-None-Match: *\r\n");
        assert_eq!((got.header("etag"), got.header("content-encoding")), (None, None), "{path}");
        assert!(got.status != 304);
    }
}
