//! Passwords and sign-in links from the command line.

use crate::browser::{Browser, PASSWORD};
use crate::server::{Server, mailprobe_with};

fn set_password(server: &Server, arguments: &[&str], password: &str) -> std::process::Output {
    let data = server.data();
    let mut line = vec!["account", "set-password"];
    line.extend(arguments);
    line.extend(["--data", data.to_str().unwrap()]);
    mailprobe_with(&line, &format!("{password}\n"))
}

fn sign_in(server: &Server, email: &str, password: &str) -> (Browser, u16) {
    let mut browser = Browser::new(server);
    let page = browser.get("/signin");
    let status = browser.submit(&page, &[("email", email), ("password", password)]).status;
    (browser, status)
}

#[test]
fn a_password_set_by_the_operator_signs_in_and_ends_sessions() {
    let server = Server::start(&[]);
    let refused = set_password(&server, &["default"], PASSWORD);
    assert!(!refused.status.success());
    assert!(String::from_utf8(refused.stderr).unwrap().contains("--email"));
    let short = set_password(&server, &["default", "--email", "op@example.com"], "short");
    assert!(String::from_utf8(short.stderr).unwrap().contains("at least 10 characters"));
    assert!(set_password(&server, &["default", "--email", "op@example.com"], PASSWORD).status.success());
    let (mut browser, status) = sign_in(&server, "OP@example.com", PASSWORD);
    assert_eq!(status, 200);
    // The address stays when only the password changes, and who had signed in has to do so again.
    assert!(set_password(&server, &["op@example.com"], "another horse battery").status.success());
    assert_eq!(browser.get_once("/sessions").status, 303);
    assert_eq!(sign_in(&server, "op@example.com", PASSWORD).1, 401);
    assert_eq!(sign_in(&server, "op@example.com", "another horse battery").1, 200);
    // Another address takes the place of the first.
    assert!(set_password(&server, &["default", "--email", "new@example.com"], PASSWORD).status.success());
    assert_eq!(sign_in(&server, "op@example.com", PASSWORD).1, 401);
    assert_eq!(sign_in(&server, "new@example.com", PASSWORD).1, 200);
    Browser::signed_up(&server, "joe@example.com");
    let taken = set_password(&server, &["default", "--email", "joe@example.com"], PASSWORD);
    assert!(String::from_utf8(taken.stderr).unwrap().contains("another account"));
}

#[test]
fn a_link_signs_in_once() {
    let server = Server::start(&["--test-clock"]);
    let link = || {
        let line = server.administer(&["account", "sign-in-link", "default"]);
        let at = line.find("/signin/link?token=").unwrap();
        line[at..].trim().to_owned()
    };
    let first = link();
    let mut browser = Browser::new(&server);
    // Looking at it does not use it up.
    browser.get(&first);
    let page = browser.get(&first);
    let copy = page.forms();
    browser.press(&page, "/signin/link").says("Overview");
    assert_eq!(browser.get(&first).status, 404);
    let mut other = Browser::new(&server);
    let token = other.get("/signin").token();
    let used = copy[0].1.iter().find(|(name, _)| name == "token").unwrap().1.clone();
    assert_eq!(other.post("/signin/link", &format!("csrf={token}&token={used}")).status, 404);
    // After its time it is worth nothing.
    let late = link();
    server.administer(&["clock", "advance", "900000"]);
    assert_eq!(other.get(&late).status, 404);
    // A password ends links too.
    let stale = link();
    assert!(set_password(&server, &["default", "--email", "op@example.com"], PASSWORD).status.success());
    assert_eq!(other.get(&stale).status, 404);
}
