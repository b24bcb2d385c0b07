//! Attacks from other sites and by hostile visitors.

use crate::harness::server::Server;
use crate::web::browser::{Browser, EMAIL, PASSWORD, signed_up};

#[test]
fn forms_of_other_sites_are_refused() {
    let (server, mut browser) = signed_up();
    let token = browser.get("/").token();
    let good = format!("Origin: http://{}\r\nSec-Fetch-Site: same-origin\r\n", server.address);
    let mut refused = |headers: &str, body: &str| {
        let answer = browser.post_with("/signout", headers, body);
        assert_eq!(answer.status, 403, "{headers} {body}");
        answer.says("did not come from a page of this site");
        assert_eq!(browser.get_once("/sessions").status, 200, "nothing happened");
    };
    let with_token = format!("csrf={token}");
    refused(&good, "");
    refused(&good, "csrf=");
    refused(&good, &format!("csrf={}", "0".repeat(64)));
    refused(&good, &format!("csrf={token}&csrf={token}"));
    refused("Origin: https://evil.example\r\n", &with_token);
    refused("Origin: null\r\n", &with_token);
    refused("Sec-Fetch-Site: cross-site\r\n", &with_token);
    refused("Sec-Fetch-Site: same-site\r\n", &with_token);
    let mut other = Browser::signed_up(&server, "jane@example.com");
    let of_another = other.get("/").token();
    refused(&good, &format!("csrf={of_another}"));
    assert_eq!(browser.post_with("/signout", &good, &with_token).status, 303, "ours is not");
}

#[test]
fn nobody_is_signed_in_by_another_site() {
    let (server, _) = signed_up();
    let mut browser = Browser::new(&server);
    let form = format!("email=joe%40example.com&password={}", PASSWORD.replace(' ', "+"));
    assert_eq!(browser.post("/signin", &form).status, 403, "no token");
    let token = Browser::new(&server).get("/signin").token();
    let with_token = format!("{form}&csrf={token}");
    assert_eq!(browser.post("/signin", &with_token).status, 403, "a token without its cookie");
    assert_eq!(browser.post("/signup", &with_token).status, 403);
    let own = browser.get("/signin").token();
    let cross = "Origin: https://evil.example\r\n";
    assert_eq!(browser.post_with("/signin", cross, &format!("{form}&csrf={own}")).status, 403);
    assert_eq!(browser.post("/signin", &format!("{form}&csrf={own}")).status, 303);
}

#[test]
fn nobody_is_sent_to_another_site() {
    let server = Server::start(&[]);
    Browser::signed_up(&server, EMAIL);
    for next in ["https://evil.example/", "//evil.example", "/\\evil.example", "/%09/evil.example", "evil"] {
        let mut browser = Browser::new(&server);
        let page = browser.get(&format!("/signin?next={next}"));
        let page = browser.submit(&page, &[("email", EMAIL), ("password", PASSWORD)]);
        assert_eq!((page.status, page.path.as_str()), (200, "/"), "{next}");
        assert_eq!(browser.get_once(&format!("/signin?next={next}")).header("location"), Some("/"));
        let mut browser = Browser::new(&server);
        let page = browser.get("/signin");
        let form = [("email", EMAIL), ("password", PASSWORD), ("csrf", &page.token())]
            .map(|(name, value)| format!("{name}={}", crate::harness::client::escape(value)));
        let sent = browser.post("/signin", &format!("{}&next={next}", form.join("&")));
        assert_eq!(sent.header("location"), Some("/"), "{next}");
    }
}

/// The media types that browsers accept.
const BROWSER: &str = "text/html,application/xhtml+xml,*/*;q=0.8";

#[test]
fn a_browser_gets_a_page_where_nothing_is_and_a_program_gets_json() {
    let (server, mut browser) = signed_up();
    browser.extra = format!("Accept: {BROWSER}\r\n");
    let page = browser.get("/nothing");
    assert_eq!((page.status, page.header("content-type")), (404, Some("text/html; charset=utf-8")));
    page.says("Not found").says("Sign out");
    for (path, accept) in [
        ("/nothing", "*/*"),
        ("/nothing", "application/json"),
        ("/nothing", "text/html, image/gif, */*"),
        ("/v1/nothing", BROWSER),
    ] {
        let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\nConnection: close\r\n\r\n");
        let answer = server.send(head);
        assert_eq!((answer.status, answer.error()), (404, "not_found".into()), "{path} {accept}");
    }
    // A path of the API stays what it is.
    assert_eq!(browser.get("/livez").status, 200);
}

#[test]
fn every_page_has_its_bounds() {
    let (_server, mut browser) = signed_up();
    for path in ["/", "/signin?next=/sessions", "/sessions", "/keys/nothing"] {
        let page = browser.get(path);
        assert_eq!(page.header("x-content-type-options"), Some("nosniff"), "{path}");
        if page.status == 404 {
            continue;
        }
        let policy = page.header("content-security-policy").unwrap();
        for part in ["default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"]
        {
            assert!(policy.contains(part), "{policy}");
        }
        assert_eq!(page.header("referrer-policy"), Some("same-origin"));
        assert_eq!(page.header("cache-control"), Some("no-store"));
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
        assert!(!page.text().contains(" style=") && !page.text().contains("javascript:"));
    }
}

#[test]
fn text_in_forms_comes_back_escaped() {
    let server = Server::start(&[]);
    let mut browser = Browser::new(&server);
    let page = browser.get("/signin?next=/%22%3E%3Cscript%3E");
    assert!(!page.text().contains("\"><script>"));
    let script = "\"><script>alert(1)</script>";
    let page = browser.submit(&page, &[("email", script), ("password", PASSWORD)]);
    assert!(!page.text().contains("<script>alert"), "{}", page.text());
    assert_eq!(page.text().matches("<script").count(), 1, "our own");
}

#[test]
fn bodies_that_are_too_long_or_no_forms_are_refused() {
    let server = Server::start(&[]);
    let mut browser = Browser::new(&server);
    let token = browser.get("/signin").token();
    let long = format!("csrf={token}&email={}", "a".repeat(20_000));
    assert_eq!(browser.post("/signin", &long).status, 413);
    assert_eq!(browser.post("/signin", "csrf=%zz").status, 400);
    let json = "POST /signin HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n";
    assert_eq!(browser.exchange("/signin", json, "", b"{}").status, 415);
    let page = browser.exchange("/signin", "DELETE /signin HTTP/1.1\r\n", "", b"");
    assert_eq!((page.status, page.header("allow")), (405, Some("GET, HEAD, POST")));
}

#[test]
fn style_and_script_are_kept_for_ever_under_the_name_of_their_content() {
    let server = Server::start(&[]);
    let mut browser = Browser::new(&server);
    let page = browser.get("/");
    for (mark, kind) in
        [("href=\"/assets/", "text/css; charset=utf-8"), ("src=\"/assets/", "text/javascript; charset=utf-8")]
    {
        let text = page.text();
        let name = text.split(mark).nth(1).unwrap().split('"').next().unwrap();
        let asset = browser.get(&format!("/assets/{name}"));
        assert_eq!((asset.status, asset.header("content-type")), (200, Some(kind)));
        assert!(asset.header("cache-control").unwrap().contains("immutable"));
        assert_eq!(browser.get(&format!("/assets/x{name}")).status, 404);
    }
}
