//! Creating an account on the dashboard.

use crate::harness::server::Server;
use crate::web::browser::{Browser, PASSWORD};

#[test]
fn an_account_on_the_free_plan_is_made_and_signed_in() {
    let server = Server::start(&[]);
    let mut browser = Browser::signed_up(&server, "Joe@Example.com");
    browser.get("/").says("100");
    assert!(browser.cookies.contains_key("__Host-mailprobe"));
    assert!(!browser.cookies.contains_key("__Host-mailprobe-form"), "it has done its work");
    // The operator finds the account by the user's address, and the list has the address.
    let shown = server.administer(&["account", "show", "joe@example.com"]);
    assert!(shown.contains("web-"), "{shown}");
    let list = server.administer(&["account", "list"]);
    let row = list.lines().find(|line| line.contains("web-")).unwrap();
    assert!(row.ends_with("Joe@Example.com"), "{list}");
    assert!(list.lines().any(|line| line.starts_with("default") && line.ends_with('-')), "{list}");
    assert!(!server.log().to_lowercase().contains("joe@"));
}

#[test]
fn what_is_wrong_is_said_and_what_was_typed_stays() {
    let server = Server::start(&[]);
    let mut browser = Browser::new(&server);
    let page = browser.get("/signup");
    let mut refused = |email: &str, password: &str, status: u16, why: &str| {
        let answer = browser.submit(&page, &[("email", email), ("password", password)]);
        assert_eq!(answer.status, status);
        answer.says(why);
        assert!(!answer.text().contains(password), "a password is never shown");
        answer
    };
    let again = refused("no address", PASSWORD, 400, "Enter a valid e-mail address.");
    assert!(again.text().contains("value=\"no address\""));
    refused("a@example.com", "short", 400, "at least 10 characters");
    refused("averylong@example.com", "AveryLong@example.com", 400, "must not be the address");
    Browser::signed_up(&server, "taken@example.com");
    refused("TAKEN@example.com", "not the one of that account", 409, "has an account already");
    assert_eq!(server.administer(&["account", "list"]).lines().count(), 3, "header, default, taken");
}

#[test]
fn a_form_that_is_sent_again_signs_in() {
    let server = Server::start(&[]);
    Browser::signed_up(&server, "joe@example.com");
    // The answer was lost, or stated that the result is unknown.
    Browser::signed_up(&server, "joe@example.com").get("/").says("100");
    assert_eq!(server.administer(&["account", "list"]).lines().count(), 3, "header, default, joe");
}

#[test]
fn it_can_be_turned_off() {
    let server = Server::start(&["--dashboard-sign-up", "false"]);
    let mut browser = Browser::new(&server);
    assert!(!browser.get("/").text().contains("/signup"));
    let page = browser.get("/signup");
    assert_eq!(page.status, 403);
    page.says("Sign-up is closed");
    let token = browser.get("/signin").token();
    let sent = browser.post("/signup", &format!("csrf={token}&email=a%40example.com&password={PASSWORD}"));
    assert_eq!(sent.status, 403);
    assert_eq!(server.administer(&["account", "list"]).lines().count(), 2, "header, default");
}

#[test]
fn without_a_dashboard_there_are_no_pages() {
    let server = Server::start(&["--dashboard-enabled", "false"]);
    let mut browser = Browser::new(&server);
    for path in ["/", "/signin", "/signup"] {
        assert_eq!(browser.get(path).status, 404, "{path}");
    }
    assert_eq!(server.credits(), 100);
}

#[test]
fn sign_ups_from_one_network_are_bounded() {
    let server = Server::start(&[]);
    for n in 0..10 {
        Browser::signed_up(&server, &format!("user{n}@example.com"));
    }
    let mut browser = Browser::new(&server);
    let page = browser.get("/signup");
    let refused = browser.submit(&page, &[("email", "one-more@example.com"), ("password", PASSWORD)]);
    assert_eq!(refused.status, 429);
    assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() > 3000);
}
