//! API keys that are created and revoked on their page.

use crate::harness::server::Server;
use crate::web::browser::{Browser, Page, attribute, signed_up};

/// The key on the page.
pub fn shown(page: &Page) -> Option<String> {
    let text = page.text();
    let tag = text.split("id=\"new-key\"").nth(1)?.split('>').next()?.to_owned();
    attribute(&tag, "value")
}

/// The fields of a key with every scope that does not expire.
fn fields<'a>(label: &'a str, mode: &'a str) -> [(&'a str, &'a str); 8] {
    let scopes = ["fast", "full", "batches", "lists", "account"].map(|scope| (scope, "1"));
    let [fast, full, batches, lists, account] = scopes;
    [("label", label), ("mode", mode), ("expires", ""), fast, full, batches, lists, account]
}

pub fn make(browser: &mut Browser, label: &str, mode: &str) -> String {
    let page = browser.get("/keys");
    let page = browser.submit(&page, &fields(label, mode));
    assert_eq!(page.status, 200, "{}", page.plain());
    shown(&page).unwrap()
}

#[test]
fn a_key_is_shown_once_works_and_stops_at_once_when_revoked() {
    let (server, mut browser) = signed_up();
    browser.get("/keys").says("There are no active keys");
    let live = make(&mut browser, "shop", "live");
    let test = make(&mut browser, "", "test");
    assert!(live.starts_with("mp_live_") && test.starts_with("mp_test_"));
    assert_eq!(server.get(&live, "/v1/account").status, 200);
    assert_eq!(server.get(&test, "/v1/verify?email=deliverable@example.com").status, 200);
    let page = browser.get("/keys");
    page.says("shop").says(&format!("…{}", &live[live.len() - 4..]));
    assert!(!page.text().contains(&live) && shown(&page).is_none());
    assert!(!server.log().contains(&live));
    // The newest key, the test key, is first.
    let page = browser.press(&page, "/keys/revoke");
    page.says("Revoked and expired keys (1)");
    let refused = server.get(&test, "/v1/account");
    assert_eq!((refused.status, refused.error()), (401, "api_key_revoked".into()));
    assert_eq!(server.get(&live, "/v1/account").status, 200);
}

#[test]
fn a_form_limits_a_key_to_scopes_and_a_time() {
    let (server, mut browser) = signed_up();
    let page = browser.get("/keys");
    let fields =
        [("label", "poller"), ("mode", "live"), ("expires", "30"), ("batches", "1"), ("account", "1")];
    let made = browser.submit(&page, &fields);
    let key = shown(&made).unwrap();
    made.says("batches, account");
    assert_eq!(server.get(&key, "/v1/account").status, 200);
    let refused = server.get(&key, "/v1/lists");
    assert_eq!((refused.status, refused.error()), (403, "insufficient_scope".into()));
    let page = browser.get("/keys");
    let none = browser.submit(&page, &[("label", ""), ("mode", "live"), ("expires", "")]);
    assert_eq!((none.status, shown(&none)), (400, None));
    none.says("Choose at least one scope.");
    let odd = browser.submit(&page, &[("label", ""), ("mode", "live"), ("expires", "31"), ("fast", "1")]);
    assert_eq!((odd.status, shown(&odd)), (400, None));
}

#[test]
fn the_same_form_sent_twice_makes_one_key() {
    let (_server, mut browser) = signed_up();
    let page = browser.get("/keys");
    let fields = fields("once", "live");
    assert!(shown(&browser.submit(&page, &fields)).is_some());
    let again = browser.submit(&page, &fields);
    assert_eq!((again.status, shown(&again)), (409, None));
    again.says("already exists");
    assert_eq!(browser.get("/keys").text().matches("action=\"/keys/revoke\"").count(), 1);
}

#[test]
fn a_label_is_text_and_nothing_else() {
    let (_server, mut browser) = signed_up();
    make(&mut browser, "<script>alert(1)</script>\"><img src=x>", "test");
    let page = browser.get("/keys");
    assert!(!page.text().contains("<script>alert") && !page.text().contains("<img"));
    assert!(page.text().contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    let page = browser.get("/keys");
    for (label, mode) in [("x".repeat(101).as_str(), "test"), ("a\u{7}b", "test"), ("x", "other")] {
        assert_eq!(browser.submit(&page, &fields(label, mode)).status, 400, "{label}");
    }
}

#[test]
fn an_account_makes_so_many_keys_an_hour() {
    let (server, mut browser) = signed_up();
    for _ in 0..60 {
        make(&mut browser, "", "test");
    }
    let page = browser.get("/keys");
    let refused = browser.submit(&page, &fields("", "test"));
    assert_eq!((refused.status, shown(&refused)), (429, None));
    refused.says("Too many attempts");
    let mut other = Browser::signed_up(&server, "jane@example.com");
    make(&mut other, "", "test");
}

#[test]
fn another_accounts_key_cannot_be_revoked() {
    let server = Server::start(&[]);
    let mut victim = Browser::signed_up(&server, "joe@example.com");
    let key = make(&mut victim, "", "live");
    let page = victim.get("/keys");
    let form = page.forms().into_iter().find(|(action, _)| action == "/keys/revoke").unwrap();
    let id = form.1.iter().find(|(name, _)| name == "id").unwrap().1.clone();
    let mut other = Browser::signed_up(&server, "jane@example.com");
    let token = other.get("/keys").token();
    assert_eq!(other.post("/keys/revoke", &format!("csrf={token}&id={id}")).status, 404);
    assert_eq!(other.post("/keys/revoke", &format!("csrf={token}&id=key_{}", "0".repeat(26))).status, 404);
    assert_eq!(server.get(&key, "/v1/account").status, 200);
    // Its id cannot be used for another key, whatever the form contains.
    let made =
        other.post("/keys", &format!("csrf={token}&nonce={id}&id={id}&mode=live&label=&expires=&fast=1"));
    assert!(made.status == 200 && shown(&made).is_some() && !made.text().contains(&id));
    assert_eq!(server.get(&key, "/v1/account").status, 200);
}
