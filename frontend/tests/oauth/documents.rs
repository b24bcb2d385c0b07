//! Clients that are known by the URL of their metadata, which a host of the test serves over TLS.

use crate::harness::certificate::tls;
use crate::harness::server::Server;
use crate::oauth::assistant::*;
use crate::web::browser::Browser;
use rustls::{ServerConnection, StreamOwned};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The file of authorities that a server in this folder trusts.
const AUTHORITIES: &str = "authorities.pem";

/// A host that serves a given answer at each path, until the test ends.
struct Host {
    port: u16,
    pages: Arc<Mutex<HashMap<String, String>>>,
    asked: Arc<AtomicUsize>,
}

impl Host {
    /// Starts a host. The server of this folder trusts its certificate if `trusted`.
    fn start(folder: &Path, trusted: bool) -> Host {
        let config = tls(&folder.join(AUTHORITIES), "localhost", trusted);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let host = Host { port, pages: Arc::default(), asked: Arc::default() };
        let (pages, asked) = (Arc::clone(&host.pages), Arc::clone(&host.asked));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                let mut stream = StreamOwned::new(connection, stream.unwrap());
                let mut request = Vec::new();
                let mut piece = [0; 1024];
                while !request.ends_with(b"\r\n\r\n") {
                    match stream.read(&mut piece) {
                        Ok(length) if length > 0 => request.extend_from_slice(&piece[..length]),
                        _ => break,
                    }
                }
                let text = String::from_utf8_lossy(&request).into_owned();
                let Some(path) = text.split(' ').nth(1) else { continue };
                asked.fetch_add(1, Ordering::SeqCst);
                let page = pages.lock().unwrap().get(path).cloned();
                let page = page.unwrap_or_else(|| "HTTP/1.1 404 Not Found\r\n\r\n".into());
                let _ = stream.write_all(page.as_bytes());
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        });
        host
    }

    fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.port)
    }

    fn serve(&self, path: &str, answer: String) {
        self.pages.lock().unwrap().insert(path.into(), answer);
    }

    /// Serves a valid document with changes.
    fn document(&self, path: &str, change: impl FnOnce(&mut Value)) -> String {
        let url = self.url(path);
        let mut document =
            json!({ "client_id": url, "client_name": "Documented", "redirect_uris": [CALLBACK] });
        change(&mut document);
        let body = document.to_string();
        let length = body.len();
        self.serve(
            path,
            format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
            ),
        );
        url
    }
}

/// A server that may fetch from this computer, and a host on it.
fn world(trusted: bool, allowed: bool) -> (Server, Host, Browser) {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::start(folder.path(), trusted);
    let flags = ["--allow-net", "127.0.0.0/8", "--allow-net", "::1", "--test-clock"];
    let server = Server::start_in(folder, if allowed { &flags } else { &flags[4..] });
    let browser = Browser::signed_up(&server, "joe@example.com");
    (server, host, browser)
}

#[test]
fn a_client_is_known_by_its_url() {
    let (server, host, mut browser) = world(true, true);
    let metadata = request(&server, "GET", "/.well-known/oauth-authorization-server", "", "").json();
    assert_eq!(metadata["client_id_metadata_document_supported"], true);
    let url = host.document("/client.json", |_| {});
    let mut stranger = Browser::new(&server);
    stranger.get(&consent_path(&asking(&server, &url)));
    assert_eq!(host.asked.load(Ordering::SeqCst), 0, "nobody without an account makes us fetch");
    let page = browser.get(&consent_path(&asking(&server, &url)));
    page.says("Documented").says("localhost").says("127.0.0.1:49152");
    let code = allowed(&server, &mut browser, &url, 1, 1);
    assert_eq!(host.asked.load(Ordering::SeqCst), 1, "it is kept for a while");
    let tokens = tokens(&url, &code, &redeem(&server, &url, &code));
    assert!(full(&server, &tokens.access, "mailbox_exists@example.com").is_ok());
    server.advance(11 * 60 * 1000);
    browser.get(&consent_path(&asking(&server, &url)));
    assert_eq!(host.asked.load(Ordering::SeqCst), 2);
    let mut fields = asking(&server, &url);
    fields
        .iter_mut()
        .filter(|(name, _)| *name == "redirect_uri")
        .for_each(|(_, it)| *it = "https://evil.example/".into());
    assert_eq!(browser.get_once(&consent_path(&fields)).status, 400);
}

#[test]
fn a_document_has_to_be_right() {
    let (server, host, mut browser) = world(true, true);
    let mut refused = |url: &str, says: &str| {
        let page = browser.get_once(&consent_path(&asking(&server, url)));
        assert_eq!((page.status, page.header("location")), (400, None), "{url}");
        page.says(says);
    };
    refused(
        &host.document("/other.json", |it| it["client_id"] = "https://x.example/".into()),
        "its client_id is not its URL",
    );
    refused(&host.document("/nameless.json", |it| it["client_name"] = json!(null)), "no client_name");
    refused(&host.document("/none.json", |it| it["redirect_uris"] = json!([])), "none of its redirect_uris");
    refused(
        &host.document("/secret.json", |it| it["token_endpoint_auth_method"] = json!("client_secret_post")),
        "only public clients",
    );
    refused(&host.url("/missing.json"), "status 404");
    let moved = format!("HTTP/1.1 302 Found\r\nLocation: {}\r\n\r\n", host.document("/right.json", |_| {}));
    host.serve("/moved.json", moved);
    refused(&host.url("/moved.json"), "status 302");
    host.serve("/text.json", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n{}".into());
    refused(&host.url("/text.json"), "is not declared as JSON");
    let large =
        format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n\"{}\"", "x".repeat(64 * 1024));
    host.serve("/large.json", large);
    refused(&host.url("/large.json"), "too large");
    let redirect = |it: &mut Value| it["redirect_uris"] = json!(["https://other.example/cb"]);
    refused(&host.document("/elsewhere.json", redirect), "has not registered");
}

/// A client whose document is not asked for is refused with these words.
#[track_caller]
fn not_asked((server, host, mut browser): (Server, Host, Browser), says: &str) {
    let url = host.document("/client.json", |_| {});
    let page = browser.get_once(&consent_path(&asking(&server, &url)));
    assert_eq!(page.status, 400);
    page.says(says);
    assert_eq!(host.asked.load(Ordering::SeqCst), 0);
}

#[test]
fn hosts_inside_are_not_asked() {
    not_asked(world(true, false), "no address that may be contacted");
}

#[test]
fn a_certificate_that_nobody_vouches_for_is_refused() {
    not_asked(world(false, true), "no connection: ");
}

#[test]
fn hosts_that_do_not_answer_delay_only_their_account() {
    let (server, host, mut browser) = world(true, true);
    let url = host.document("/client.json", |_| {});
    let mut hostile = Browser::signed_up(&server, "jane@example.com");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let path =
        |number: usize| consent_path(&asking(&server, &format!("https://localhost:{port}/{number}.json")));
    // The share of an account. The host has accepted both and says nothing.
    let _waiting: Vec<_> = (0..2)
        .map(|number| {
            let page = hostile.begin(&format!("GET {} HTTP/1.1\r\n", path(number)), "");
            (page, silent.accept().unwrap())
        })
        .collect();
    for number in 2..12 {
        let page = hostile.get_once(&path(number));
        assert_eq!((page.status, page.header("retry-after")), (429, Some("5")));
        page.says("This account has all of its share of the fetches of assistants' metadata.");
    }
    browser.get(&consent_path(&asking(&server, &url))).says("Documented");
}
