//! Signing in and out.

use crate::harness::server::Server;
use crate::web::browser::{Browser, EMAIL, PASSWORD, signed_up};

#[test]
fn an_address_in_any_case_and_its_password_sign_in() {
    let (server, _) = signed_up();
    let mut browser = Browser::new(&server);
    let page = browser.get("/signin");
    let page = browser.submit(&page, &[("email", " JOE@example.com "), ("password", PASSWORD)]);
    assert_eq!((page.status, page.path.as_str()), (200, "/"));
    page.says("Overview");
    let page = browser.press(&page, "/signout");
    page.says("Mail address verification");
    assert!(!browser.cookies.contains_key("__Host-mailprobe"));
}

#[test]
fn a_wrong_password_and_an_unknown_address_are_answered_the_same() {
    let (server, _) = signed_up();
    let mut browser = Browser::new(&server);
    let page = browser.get("/signin");
    let mut answer = |email: &str| {
        let began = std::time::Instant::now();
        let page = browser.submit(&page, &[("email", email), ("password", "wrong horse battery")]);
        assert_eq!(page.status, 401);
        (page.text().replace(email, "EMAIL"), began.elapsed())
    };
    let (known, unknown) = (answer(EMAIL), answer("jane@example.com"));
    assert_eq!(known.0, unknown.0);
    // Both compute a hash: without one an answer takes a hundredth of the time.
    let (fast, slow) = (known.1.min(unknown.1), known.1.max(unknown.1));
    assert!(fast > slow / 5, "{fast:?} {slow:?}");
}

#[test]
fn attempts_are_bounded_for_addresses_that_exist_and_those_that_do_not() {
    let server = Server::start(&[]);
    Browser::signed_up(&server, EMAIL);
    for email in [EMAIL, "jane@example.com"] {
        let mut browser = Browser::new(&server);
        let page = browser.get("/signin");
        for _ in 0..10 {
            let answer = browser.submit(&page, &[("email", email), ("password", "wrong horse battery")]);
            assert_eq!(answer.status, 401);
        }
        let refused = browser.submit(&page, &[("email", email), ("password", PASSWORD)]);
        assert_eq!(refused.status, 429, "the right password does not help either");
        assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() <= 600);
    }
}

#[test]
fn who_has_to_sign_in_first_is_back_afterwards() {
    let (server, _) = signed_up();
    let mut browser = Browser::new(&server);
    let page = browser.get("/sessions?a=b%20c");
    assert_eq!(page.path, "/signin?next=/sessions%3Fa%3Db%2520c");
    let page = browser.submit(&page, &[("email", EMAIL), ("password", PASSWORD)]);
    assert_eq!((page.status, page.path.as_str()), (200, "/sessions?a=b%20c"));
    // A signed-in user is redirected at once.
    assert_eq!(browser.get("/signin?next=/sessions").path, "/sessions");
}
