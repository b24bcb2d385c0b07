//! Passwords and sign-in links from the command line.

use crate::harness::server::{Server, mailprobe, mailprobe_with};
use crate::web::browser::{Browser, PASSWORD};

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
    let empty = set_password(&server, &["default", "--email", "op@example.com"], "");
    assert!(String::from_utf8(empty.stderr).unwrap().contains("no password was entered"));
    let short = set_password(&server, &["default", "--email", "op@example.com"], "short");
    assert!(String::from_utf8(short.stderr).unwrap().contains("at least 10 characters"));
    assert!(set_password(&server, &["default", "--email", "op@example.com"], PASSWORD).status.success());
    let (mut browser, status) = sign_in(&server, "OP@example.com", PASSWORD);
    assert_eq!(status, 200);
    // A new password does not change the address, and ends the sessions.
    assert!(set_password(&server, &["op@example.com"], "another horse battery").status.success());
    assert_eq!(browser.get_once("/sessions").status, 303);
    assert_eq!(sign_in(&server, "op@example.com", PASSWORD).1, 401);
    assert_eq!(sign_in(&server, "op@example.com", "another horse battery").1, 200);
    // Another address replaces the first one.
    assert!(set_password(&server, &["default", "--email", "new@example.com"], PASSWORD).status.success());
    assert_eq!(sign_in(&server, "op@example.com", PASSWORD).1, 401);
    assert_eq!(sign_in(&server, "new@example.com", PASSWORD).1, 200);
    Browser::signed_up(&server, "joe@example.com");
    let taken = set_password(&server, &["default", "--email", "joe@example.com"], PASSWORD);
    assert!(String::from_utf8(taken.stderr).unwrap().contains("another account"));
}

#[test]
fn an_account_is_created_with_its_user_and_credits() {
    let server = Server::start(&[]);
    let data = server.data();
    let create = |name: &str, flags: &[&str], input: &str| {
        let line = [&["account", "create", name, "--data", data.to_str().unwrap()], flags].concat();
        mailprobe_with(&line, input)
    };
    let flags = ["--email", "shop@example.com", "--credits", "5,000"];
    let unfit = create("shop", &flags, "\n");
    assert!(String::from_utf8(unfit.stderr).unwrap().contains("no password was entered"));
    let made = create("shop", &flags, &format!("{PASSWORD}\n"));
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    assert!(String::from_utf8(made.stdout).unwrap().contains("of packs     5000"));
    let (mut browser, status) = sign_in(&server, "shop@example.com", PASSWORD);
    assert_eq!(status, 200);
    browser.get("/").says("5,100");
    // An address in use is refused before an account is created.
    let taken = create("other", &["--email", "shop@example.com"], &format!("{PASSWORD}\n"));
    assert!(String::from_utf8(taken.stderr).unwrap().contains("in use by the account shop"));
    let listed = mailprobe(["account", "list", "--data", data.to_str().unwrap()]);
    assert!(!String::from_utf8(listed.stdout).unwrap().contains("other"));
}

#[test]
fn a_new_password_opens_an_account_whose_keys_were_lost() {
    let mut server = Server::start(&[]);
    assert!(set_password(&server, &["default", "--email", "op@example.com"], PASSWORD).status.success());
    server.signal(libc::SIGKILL);
    server.wait();
    let data = server.data();
    std::fs::remove_dir_all(data.join("keys")).unwrap();
    assert!(mailprobe(["accept-keys", "--data", data.to_str().unwrap()]).status.success());
    let server = server.restart_after_kill();
    assert_eq!(sign_in(&server, "op@example.com", PASSWORD).1, 401);
    assert!(set_password(&server, &["default", "--email", "op@example.com"], PASSWORD).status.success());
    let (mut browser, status) = sign_in(&server, "op@example.com", PASSWORD);
    assert_eq!(status, 200);
    browser.get("/sessions").says("op@example.com");
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
    // Loading the page does not use the link up.
    browser.get(&first);
    let page = browser.get(&first);
    let copy = page.forms();
    browser.press(&page, "/signin/link").says("Overview");
    assert_eq!(browser.get(&first).status, 404);
    let mut other = Browser::new(&server);
    let token = other.get("/signin").token();
    let used = copy[0].1.iter().find(|(name, _)| name == "token").unwrap().1.clone();
    assert_eq!(other.post("/signin/link", &format!("csrf={token}&token={used}")).status, 404);
    // After its time the link is invalid.
    let late = link();
    server.advance(900000);
    assert_eq!(other.get(&late).status, 404);
    // A new password also ends links.
    let stale = link();
    assert!(set_password(&server, &["default", "--email", "op@example.com"], PASSWORD).status.success());
    assert_eq!(other.get(&stale).status, 404);
}

#[test]
fn users_set_their_own_password() {
    let server = Server::start(&[]);
    let email = "joe@example.com";
    let mut browser = Browser::signed_up(&server, email);
    let (mut other, _) = sign_in(&server, email, PASSWORD);
    let page = browser.get("/sessions");
    let mut change =
        |so_far: &str, new: &str| browser.submit(&page, &[("password", so_far), ("new-password", new)]);
    assert_eq!(change("wrong horse battery", "another horse battery").status, 403);
    assert_eq!(change(PASSWORD, "short").status, 400);
    change(PASSWORD, "another horse battery").says("The password is set.");
    assert_eq!(browser.get_once("/sessions").status, 200);
    assert_eq!(other.get_once("/sessions").status, 303, "other sessions ended");
    assert_eq!(sign_in(&server, email, PASSWORD).1, 401);
    assert_eq!(sign_in(&server, email, "another horse battery").1, 200);
    // The operator's own account gets its first password after a link.
    let line = server.administer(&["account", "sign-in-link", "default"]);
    let mut operator = Browser::new(&server);
    let page = operator.get(line[line.find("/signin/link").unwrap()..].trim());
    operator.press(&page, "/signin/link");
    let page = operator.get("/sessions");
    page.says("This account has no password yet.");
    let taken = operator.submit(&page, &[("email", "JOE@example.com"), ("new-password", PASSWORD)]);
    assert_eq!(taken.status, 409);
    operator.submit(&page, &[("email", "op@example.com"), ("new-password", PASSWORD)]).says("is set");
    assert_eq!(sign_in(&server, "op@example.com", PASSWORD).1, 200);
}
