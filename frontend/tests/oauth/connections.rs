//! The rights of a connection: the allowed number of full checks, each for a credit.

use crate::at_once;
use crate::harness::server::Server;
use crate::oauth::assistant::*;
use crate::web::browser::{Browser, signed_up};
use serde_json::json;

fn credits(server: &Server, token: &str) -> u64 {
    call(server, token, "account", json!({})).unwrap()["credits_remaining"].as_u64().unwrap()
}

#[test]
fn ten_full_checks_pass_and_the_eleventh_is_refused() {
    let (server, mut browser) = signed_up();
    let tokens = connect(&server, &mut browser, 10, 30);
    for n in 1..=10 {
        let address = format!("mailbox_exists@d{n}.example");
        let got = full(&server, &tokens.access, &address).unwrap();
        let expected = json!({
            "email": address,
            "deliverable": true,
            "reason": "mailbox_exists",
            "credits_remaining": 100 - n,
            "cached": false,
            "full_checks_left": 10 - n,
        });
        assert_eq!(got, expected);
    }
    let refused = full(&server, &tokens.access, "mailbox_exists@d11.example").unwrap_err();
    assert!(refused.starts_with("full_checks_used_up: ") && refused.contains("mode \"fast\""), "{refused}");
    assert!(refused.contains("/connections"), "{refused}");
    assert_eq!(server.asked("mailbox_exists@d11.example"), 0);
    assert_eq!(credits(&server, &tokens.access), 90);
    let got = fast(&server, &tokens.access, "joe@gmial.com").unwrap();
    assert_eq!((got["reason"].as_str(), got["mode"].as_str()), (Some("possible_typo"), Some("fast")));
    assert_eq!((&got["suggestion"], &got["full_checks_left"]), (&json!("joe@gmail.com"), &json!(0)));
    browser.get("/connections").says("10 of 10");
}

#[test]
fn zero_blocks_every_full_check_and_fast_ones_work() {
    let (server, mut browser) = signed_up();
    let tokens = connect(&server, &mut browser, 0, 1);
    for address in ["mailbox_exists@example.com", "a b", "mailbox_exists@example.com"] {
        let refused = full(&server, &tokens.access, address).unwrap_err();
        assert!(refused.starts_with("full_checks_not_allowed: "), "{refused}");
    }
    assert_eq!(server.asked("mailbox_exists@example.com"), 0);
    let got = fast(&server, &tokens.access, "mailbox_exists@example.com").unwrap();
    assert_eq!((got["reason"].as_str(), got["deliverable"].is_null()), (Some("fast_check_passed"), true));
    assert_eq!(credits(&server, &tokens.access), 100);
}

#[test]
fn what_is_free_takes_no_attempt() {
    let (server, mut browser) = signed_up();
    let tokens = connect(&server, &mut browser, 1, 1);
    let invalid = full(&server, &tokens.access, "a b").unwrap();
    assert_eq!((&invalid["reason"], &invalid["full_checks_left"]), (&json!("invalid_syntax"), &json!(1)));
    assert_eq!(full(&server, &tokens.access, "catch_all@example.com").unwrap()["full_checks_left"], 0);
    let repeat = full(&server, &tokens.access, "CATCH_ALL@example.com").unwrap();
    assert_eq!((&repeat["cached"], &repeat["credits_remaining"]), (&json!(true), &json!(null)));
    assert_eq!(credits(&server, &tokens.access), 99);
    assert!(full(&server, &tokens.access, "catch_all@other.example").is_err());
}

#[test]
fn an_outage_gives_the_credit_back_and_the_attempt_is_made() {
    let (server, mut browser) = signed_up();
    let tokens = connect(&server, &mut browser, 2, 1);
    let refused = full(&server, &tokens.access, "outage@example.com").unwrap_err();
    assert!(refused.starts_with("provider_unavailable: "), "{refused}");
    let account = call(&server, &tokens.access, "account", json!({})).unwrap();
    assert_eq!(account["credits_remaining"], 100);
    assert_eq!(account["connection"]["full_checks_left"], 1);
    assert_eq!(account["connection"]["full_checks_allowed"], 2);
}

#[test]
fn no_limit_of_time_cuts_the_longest_check_of_an_assistant_short() {
    let (server, mut browser) = signed_up();
    let tokens = connect(&server, &mut browser, 2, 1);
    let checked = full(&server, &tokens.access, "mailbox_exists-44900@example.com").unwrap();
    assert_eq!(checked["reason"], "mailbox_exists");
}

#[test]
fn a_check_over_the_budget_of_its_site_gives_the_credit_back() {
    let (server, mut browser) = signed_up();
    let tokens = connect(&server, &mut browser, 2, 1);
    let refused = full(&server, &tokens.access, "budget@example.com").unwrap_err();
    assert!(refused.starts_with("temporarily_unavailable: ") && refused.contains("2400 s"), "{refused}");
    assert_eq!(credits(&server, &tokens.access), 100);
}

#[test]
fn without_credits_no_attempt_is_taken() {
    let (server, mut browser) = signed_up();
    let tokens = connect(&server, &mut browser, 2, 1);
    let accounts: Vec<serde_json::Value> =
        serde_json::from_str(&server.administer(&["account", "list", "--json"])).unwrap_or_default();
    let name = accounts.iter().filter_map(|account| account["name"].as_str()).find(|name| *name != "default");
    let name = name.unwrap_or_else(|| panic!("{accounts:?}")).to_owned();
    server.administer(&["account", "set-status", &name, "paused"]);
    let refused = full(&server, &tokens.access, "mailbox_exists@example.com").unwrap_err();
    assert!(refused.starts_with("subscription_inactive: "), "{refused}");
    server.administer(&["account", "set-status", &name, "active"]);
    assert_eq!(full(&server, &tokens.access, "mailbox_exists@example.com").unwrap()["full_checks_left"], 1);
}

#[test]
fn many_at_once_begin_no_more_than_were_allowed() {
    let server = Server::start(&["--frontends", "3"]);
    let mut browser = Browser::signed_up(&server, "joe@example.com");
    let tokens = connect(&server, &mut browser, 5, 1);
    let check = |n| full(&server, &tokens.access, &format!("mailbox_exists-50@d{n}.example")).is_ok();
    let passed = at_once(12, check).into_iter().filter(|passed| *passed).count();
    assert_eq!((passed, credits(&server, &tokens.access)), (5, 95));
}

#[test]
fn what_a_connection_may_not_refuses_nobody_else() {
    let (server, mut browser) = signed_up();
    let (one, other) = (connect(&server, &mut browser, 1, 1), connect(&server, &mut browser, 1, 1));
    full(&server, &one.access, "mailbox_exists@example.com").unwrap();
    std::thread::scope(|scope| {
        let spent = scope.spawn(|| full(&server, &one.access, "catch_all-200@example.com"));
        let good = scope.spawn(|| full(&server, &other.access, "catch_all-200@example.com"));
        let good = good.join().unwrap().unwrap();
        assert_eq!((&good["reason"], &good["cached"]), (&json!("catch_all"), &json!(false)));
        // It may come first and be refused, or come second and get the account's own answer.
        if let Ok(late) = spent.join().unwrap() {
            assert_eq!(late["cached"], true);
        }
    });
}

#[test]
fn verdicts_are_the_api_s() {
    let (server, mut browser) = signed_up();
    let tokens = connect(&server, &mut browser, 10, 1);
    for (reason, deliverable) in
        [("role_account", true), ("mailbox_not_found", false), ("unverifiable", false), ("disposable", false)]
    {
        let got = full(&server, &tokens.access, &format!("{reason}@example.com")).unwrap();
        assert_eq!((&got["reason"], &got["deliverable"]), (&json!(reason), &json!(deliverable)));
    }
    let log = server.log();
    assert!(!log.contains("role_account@") && !log.contains(&tokens.access));
}
