//! Webhooks on their pages: created, shown, changed, tested and deleted.

use crate::harness::server::Server;
use crate::web::browser::{Browser, Page, attribute, signed_up};

const URL: &str = "https://hooks.example.com/in?token=x";

/// The secret on a page.
fn secret(page: &Page) -> Option<String> {
    let text = page.text();
    let tag = text.split("id=\"new-secret\"").nth(1)?.split('>').next()?.to_owned();
    attribute(&tag, "value")
}

fn submit(browser: &mut Browser, fields: &[(&str, &str)]) -> Page {
    let page = browser.get("/webhooks");
    browser.submit(&page, fields)
}

/// The path of the endpoint of the account, from the list.
fn path(browser: &mut Browser) -> String {
    let page = browser.get("/webhooks").text();
    let id = page.split("/webhooks/whk_").nth(1).unwrap().split('"').next().unwrap().to_owned();
    format!("/webhooks/whk_{id}")
}

#[test]
fn the_form_says_which_urls_are_allowed() {
    for (flags, said) in [
        (&[][..], "Only the operator of this service can allow others."),
        (&["--webhook-allow-net", "127.0.0.0/8"], "it may also begin with http://."),
    ] {
        let server = Server::start(flags);
        Browser::signed_up(&server, "joe@example.com").get("/webhooks").says(said);
    }
}

#[test]
fn a_webhook_is_created_with_a_secret_that_is_shown_once() {
    let (server, mut browser) = signed_up();
    browser.get("/webhooks").says("There are no webhooks");
    let form = browser.get("/webhooks");
    let fields = &[("url", URL), ("label", "mine"), ("batch.completed", "1")];
    let page = browser.submit(&form, fields);
    assert_eq!(page.status, 200, "{}", page.plain());
    // A reload sends the same form again.
    let reloaded = browser.submit(&form, fields);
    assert_eq!((reloaded.status, secret(&reloaded)), (409, None));
    reloaded.says("This webhook already exists");
    assert_eq!(reloaded.text().matches("/webhooks/whk_").count(), 1);
    let first = secret(&page).unwrap();
    assert!(first.starts_with("whsec_"));
    let path = path(&mut browser);
    let page = browser.get(&path);
    page.says("mine").says("batch.completed").says("There are no deliveries");
    assert_eq!(secret(&page), None);
    assert!(!page.text().contains("whsec_"));

    let page = browser.press(&page, &format!("{path}/rotate"));
    assert_ne!(secret(&page).unwrap(), first);
    page.says("The old secret signs as well until");
    let page = browser.get(&path);
    let mark =
        page.text().split("name=\"secret\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let rotated = browser.press(&page, &format!("{path}/rotate"));
    let second = secret(&rotated).unwrap();
    // A reload sends the same form again.
    let again = format!("csrf={}&secret={mark}", rotated.token());
    let reloaded = browser.post(&format!("{path}/rotate"), &again);
    assert_eq!((reloaded.status, secret(&reloaded)), (409, None));
    reloaded.says("The secret was replaced already");
    assert_ne!(second, first);
    let rotated = browser.press(&reloaded, &format!("{path}/rotate"));
    assert!(secret(&rotated).is_some());
    let refused = browser.press(&rotated, &format!("{path}/rotate"));
    assert_eq!(refused.status, 409);
    refused.says("The secret was not replaced: the secret was replaced 3 times within 24 hours.");
    let page = browser.get(&path);
    let page = browser.press(&page, &format!("{path}/test"));
    page.says("webhook.test");
    let page = browser.press(&page, &format!("{path}/disable"));
    page.says("You have disabled this webhook.");
    let page = browser.press(&page, &format!("{path}/enable"));
    page.says("Send a test");
    let page = browser.press(&page, &format!("{path}/delete"));
    page.says("There are no webhooks");
    assert_eq!(browser.get_once(&path).status, 404);
    assert!(!server.log().contains("token=x") && !server.log().contains(&first));
}

#[test]
fn wrong_forms_are_refused() {
    let (_server, mut browser) = signed_up();
    for (url, says) in [
        ("http://a.example/", "must begin with https://"),
        ("https://127.0.0.1/", "must have a public DNS name"),
        ("https://user@a.example/", "must not have a user name"),
        ("", "must have 1 to 2048 bytes"),
    ] {
        let page = submit(&mut browser, &[("url", url), ("batch.completed", "1")]);
        assert_eq!(page.status, 400, "{url}");
        page.says(says);
    }
    let page = submit(&mut browser, &[("url", URL)]);
    assert_eq!(page.status, 400);
    page.says("Choose at least one event");
    let page = submit(&mut browser, &[("url", URL), ("label", &"x".repeat(101)), ("list.unfit", "1")]);
    assert_eq!(page.status, 400);
    for _ in 0..10 {
        assert_eq!(submit(&mut browser, &[("url", URL), ("list.unfit", "1")]).status, 200);
    }
    let page = submit(&mut browser, &[("url", URL), ("list.unfit", "1")]);
    assert_eq!(page.status, 409);
    page.says("The account has 10 webhooks");
}

#[test]
fn the_forms_are_limited_as_the_requests_of_the_api() {
    let (_server, mut browser) = signed_up();
    submit(&mut browser, &[("url", URL), ("list.unfit", "1")]);
    let path = path(&mut browser);
    let token = browser.get("/webhooks").token();
    let mut statuses = Vec::new();
    // The plan has 30 batches and 300 other requests per minute; the first form was one of them.
    for (action, limit) in [("test", 30), ("disable", 299)] {
        let body = format!("csrf={token}");
        let mut ended = (0..limit + 30).map(|_| browser.post(&format!("{path}/{action}"), &body).status);
        statuses.push(ended.position(|status| status == 429));
    }
    assert_eq!(statuses, [Some(30), Some(299)]);
}

#[test]
fn a_webhook_is_text_and_belongs_to_its_account() {
    let (server, mut browser) = signed_up();
    submit(&mut browser, &[("url", URL), ("label", "<script>alert(1)</script>"), ("list.paused", "1")]);
    let path = path(&mut browser);
    for page in ["/webhooks", &path] {
        let text = browser.get(page).text();
        assert!(!text.contains("<script>alert") && text.contains("&lt;script&gt;"), "{page}");
    }
    let mut stranger = Browser::signed_up(&server, "jane@example.com");
    assert_eq!(stranger.get_once(&path).status, 404);
    let token = stranger.get("/webhooks").token();
    for action in ["", "/test", "/rotate", "/disable", "/delete"] {
        let answer = stranger.post(&format!("{path}{action}"), &format!("csrf={token}"));
        assert_eq!(answer.status, 404, "{action}");
    }
    assert_eq!(Browser::new(&server).get_once("/webhooks").status, 303);
}
