//! Balance, usage and single checks: the pages, the API and the command line agree.

use crate::harness::server::Server;
use crate::until_true;
use crate::web::browser::{Browser, signed_up};
use crate::web::keys::make;
use crate::web::lists::wait;
use serde_json::Value;

/// The remaining credits on the page, in the API and on the command line.
fn credits(server: &Server, browser: &mut Browser, key: &str, email: &str) -> u64 {
    let page = browser.get("/").text();
    let shown = page.split("id=\"credits\">").nth(1).unwrap().split('<').next().unwrap();
    let shown: u64 = shown.replace(',', "").parse().unwrap();
    let api = server.get(key, "/v1/account").json()["credits_remaining"].as_u64().unwrap();
    let account: Value = server.administer_json(&["account", "show", email]);
    let balance = &account["account"]["balance"];
    let operator = balance["plan_left"].as_u64().unwrap() + balance["pack_left"].as_u64().unwrap();
    assert_eq!((shown, api), (api, operator));
    assert_eq!(account["audit"]["faults"], Value::Array(vec![]));
    shown
}

fn check(browser: &mut Browser, email: &str, mode: &str) -> String {
    let page = browser.get("/try");
    let page = browser.submit(&page, &[("email", email), ("mode", mode)]);
    assert_eq!(page.status, 200, "{}", page.plain());
    page.plain()
}

/// The examples of the landing page are run as they are written there.
#[test]
fn a_visitor_gets_the_answers_of_the_landing_page() {
    let server = Server::start(&[]);
    let page = Browser::new(&server).get("/").text().replace("&quot;", "\"");
    let between = |from: &str, to: &str| page.split(from).nth(1).unwrap().split(to).next().unwrap();
    let (request, answer) = (between("id=\"request\"", "</pre>"), between("id=\"answer\"", "</pre>"));
    assert!(request.contains(&format!("curl --silent http://{}/v1/verify ", server.address)), "{request}");
    let body = request.split("--data '").nth(1).unwrap().split('\'').next().unwrap();
    let answer = answer.split_once('>').unwrap().1;
    let given = server.post(&server.test, "/v1/verify", body).bytes;
    assert_eq!(String::from_utf8(given).unwrap(), answer);
    let rows: Vec<&str> = page.split("data-label=\"Address\">").skip(1).collect();
    assert_eq!(rows.len(), 5, "{page}");
    for row in rows {
        let address = row.split('<').next().unwrap();
        let reason = row.split("<code>").nth(1).unwrap().split('<').next().unwrap();
        let body = serde_json::json!({ "email": address }).to_string();
        assert_eq!(server.post(&server.test, "/v1/verify", &body).json()["reason"], reason, "{address}");
    }
}

#[test]
fn balances_agree_after_every_step() {
    let (server, email) = (Server::start(&[]), "joe@example.com");
    let mut browser = Browser::signed_up(&server, email);
    let key = make(&mut browser, "", "live");
    let left = |browser: &mut Browser| credits(&server, browser, &key, email);
    assert_eq!(left(&mut browser), 100);
    let said = check(&mut browser, "mailbox_exists@example.com", "full");
    assert!(said.contains("Verdict deliverable") && said.contains("1 credit."), "{said}");
    assert_eq!(left(&mut browser), 99);
    let said = check(&mut browser, "MAILBOX_exists@example.com", "full");
    assert!(said.contains("your own answer from the last 24 hours"), "{said}");
    assert!(said.contains("Advice Send.") && said.contains(" UTC on."), "{said}");
    assert_eq!(left(&mut browser), 99);
    let api = server.get(&key, "/v1/verify?email=mailbox_exists@example.com").json();
    assert_eq!(api["cached"], true, "the page's check is the API's");
    assert!(check(&mut browser, "no address", "full").contains("is free"));
    check(&mut browser, "joe@gmial.com", "fast");
    assert_eq!(left(&mut browser), 99);
    let batch = server.post(&key, "/v1/verify/batch", r#"{"emails":["a@example.com","b@example.com"]}"#);
    assert_eq!(batch.status, 202);
    assert_eq!(left(&mut browser), 97);
    server.administer(&["account", "grant", email, "5"]);
    assert_eq!(left(&mut browser), 102);
    server.administer(&["account", "set-plan", email, "starter"]);
    assert_eq!(left(&mut browser), 5_000 - 3 + 5);
    server.administer(&["account", "set-status", email, "paused"]);
    browser.get("/").says("nothing can be charged");
    let page = browser.get("/try");
    page.says("takes some seconds, and at most 45 seconds if the mail server is slow or silent");
    let page = browser.submit(&page, &[("email", "new@example.com"), ("mode", "full")]);
    assert_eq!(page.status, 402);
    page.says("The subscription is paused: nothing can be charged until the operator");
}

#[test]
fn a_stored_answer_says_when_a_check_asks_again() {
    let server = Server::start(&[]);
    let mut browser = Browser::signed_up(&server, "joe@example.com");
    let said = check(&mut browser, "unverifiable@example.com", "full");
    let generic = "waiting does not help while mail servers refuse this machine";
    assert!(said.contains(generic) && said.contains("1 credit."), "{said}");
    assert!(said.contains("asks again only after 24 hours.") && !said.contains("Cause"), "{said}");
    // The answer of a repeat names the same cause as the first.
    for (again, when) in [(false, "after 24 hours."), (true, "after 20")] {
        let said = check(&mut browser, "blocklist@example.com", "full");
        assert_eq!(said.contains("A new check asks the mail server from "), again, "{said}");
        let cause = "Cause The mail server refuses this machine, for example because of a blocklist. \
            Advice See mailprobe doctor , and remove the cause. A new check asks again only ";
        assert!(
            said.contains(&format!("{cause}{when}")) && said.contains("Only the operator of this"),
            "{said}"
        );
        assert!(!said.contains("heck again"), "{said}");
        let said = check(&mut browser, "greylisted@example.com", "full");
        assert!(
            said.contains(&format!("Advice Check again {when}")) && !said.contains("15 minutes"),
            "{said}"
        );
    }
}

#[test]
fn days_count_what_was_charged_by_reason() {
    let server = Server::start(&["--test-clock"]);
    let mut browser = Browser::signed_up(&server, "joe@example.com");
    let key = make(&mut browser, "", "live");
    browser.get("/usage").says("No address was counted in the last 30 days");
    check(&mut browser, "mailbox_exists@example.com", "full");
    check(&mut browser, "mailbox_exists@example.com", "full");
    check(&mut browser, "no address", "full");
    check(&mut browser, "mailbox_exists@example.com", "fast");
    browser.get("/usage").says("1 100.0 %");
    server.advance(24 * 60 * 60 * 1000);
    let batch = server.post(&key, "/v1/verify/batch", r#"{"emails":["a@example.com","b@example.com"]}"#);
    let id = batch.json()["batch_id"].as_str().unwrap().to_owned();
    let path = format!("/batches/{id}");
    wait(&mut browser, &path, "Share").says("2 of 2 addresses have a result").says("b@example.com");
    browser.get("/batches").says(&id).says("completed");
    let usage = browser.get("/usage");
    assert!(usage.text().matches("<rect").count() >= 3, "two days and the verdicts: {}", usage.text());
    // One row per day: single checks, rows of lists.
    let plain = usage.plain();
    let days: Vec<&str> = plain.split("unknown undeliverable ").nth(2).unwrap_or(&plain).split(' ').collect();
    let table: Vec<_> = days.windows(3).filter(|it| it[0].starts_with("20") && it[0].len() == 10).collect();
    assert_eq!((table[0][1], table[0][2]), ("0", "2"), "{plain}");
    assert_eq!((table[1][1], table[1][2]), ("1", "0"), "{plain}");
    // Another account's batch is not found.
    let mut other = Browser::signed_up(&server, "jane@example.com");
    assert_eq!(other.get(&path).status, 404);
    assert_eq!(other.get("/batches/bat_nonsense").status, 404);
    // After 90 days the oldest days are removed.
    server.advance(100 * 24 * 60 * 60 * 1000u64);
    let mut browser = Browser::new(&server);
    let page = browser.get("/signin");
    let fields = [("email", "joe@example.com"), ("password", crate::web::browser::PASSWORD)];
    browser.submit(&page, &fields).says("Overview");
    browser.get("/usage?days=90").says("No address was counted in the last 90 days");
}

#[test]
fn the_plan_and_its_limits_are_shown() {
    let (server, mut browser) = signed_up();
    browser
        .get("/plan")
        .says("100 of 100 left")
        .says("Starter 5,000 per month")
        .says("Free current 100 per month");
    for path in ["/keys", "/usage", "/try", "/batches", "/plan", "/sessions"] {
        assert_eq!(browser.get_once(path).status, 200, "{path}");
        let elsewhere = Browser::new(&server).get_once(path);
        assert_eq!(elsewhere.header("location"), Some(format!("/signin?next={path}").as_str()));
    }
}

#[test]
fn the_overview_names_faults_of_the_machine() {
    let server = Server::start(&["--self-checks", "true", "--resolver", "127.0.0.1:9"]);
    let mut browser = Browser::signed_up(&server, "joe@example.com");
    until_true("a fault is found", || server.get("", "/readyz").json()["faults"].is_array());
    browser.get("/").says("until the operator of this service corrects a fault (resolver)");
}
