//! `/v1/verify`: the fields of a result, and the rules of the endpoint. `time` tests the rules with a duration of days.

use crate::contract::accounts::{verified, verify, verify_by_get};
use crate::contract::world::{address, contacts, domain, mailbox, shared};
use crate::harness::client::{escape, get, post};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The longest duration of a check.
const SINGLE_PATIENCE: Duration = Duration::from_secs(45);

#[test]
fn a_fresh_full_check_has_all_its_fields() {
    let account = shared().account("free");
    let asked = mailbox();
    let expected = json!({
        "email": asked,
        "deliverable": true,
        "reason": "mailbox_exists",
        "credits_remaining": 99,
        "cached": false,
    });
    assert_eq!(account.verify(&asked), expected);
}

#[test]
fn a_server_that_looks_a_recipient_up_first_is_asked_once_more_within_the_call() {
    let account = shared().account("free");
    let began = Instant::now();
    for (kind, reason) in [("user", "mailbox_exists"), ("nobody", "mailbox_not_found")] {
        let result = account.verify(&address(kind, "verifying.example"));
        assert_eq!((&result["reason"], &result["cached"]), (&json!(reason), &json!(false)));
    }
    assert_eq!(account.credits(), 98, "a check is charged once, however often it asks");
    assert!(began.elapsed() < 2 * SINGLE_PATIENCE, "{:?}", began.elapsed());
}

#[test]
fn get_and_post_return_the_same_response() {
    let (by_get, by_post) = (shared().account("free"), shared().account("free"));
    for (kind, domain) in [("user", "ok.example"), ("gone", "ok.example"), ("user", "mailinator.com")] {
        let asked = address(kind, domain);
        for _ in 0..2 {
            let got = verified(&by_get.call(verify_by_get(&asked, "")));
            assert_eq!(got, by_post.verify(&asked));
        }
    }
    assert_eq!(verified(&by_get.call(verify_by_get("a b", ""))), by_post.verify("a b"));
}

#[test]
fn email_is_given_back_as_submitted() {
    let account = shared().account("free");
    let asked = mailbox();
    for form in [asked.clone(), asked.to_uppercase(), asked.replace("ok.", "Ok."), format!(" {asked}")] {
        assert_eq!(account.verify(&form)["email"], form);
        assert_eq!(verified(&account.call(verify_by_get(&form, "")))["email"], form);
    }
}

#[test]
fn mode_and_detail_may_stand_in_the_query_or_in_the_body() {
    let account = shared().account("free");
    for (query, mut body) in [
        ("?mode=fast", json!({})),
        ("", json!({ "mode": "fast" })),
        ("?mode=fast", json!({ "mode": "fast" })),
        ("?detail=full", json!({})),
        ("", json!({ "detail": "full" })),
        ("?detail=full", json!({ "detail": "full" })),
        ("?mode=full", json!({ "detail": "full" })),
        ("?detail=full", json!({ "mode": "full" })),
    ] {
        body["email"] = json!(mailbox());
        let result = verified(&account.call(post(format!("/v1/verify{query}"), &body)));
        let is_fast = query.contains("fast") || body["mode"] == "fast";
        assert_eq!(result.get("mode").is_some(), is_fast, "{query} {body}");
        assert_eq!(result.get("detail").is_some(), !is_fast, "{query} {body}");
    }
}

#[test]
fn rule_1_invalid_syntax_is_free_and_has_no_balance() {
    let account = shared().account("free");
    let result = verified(&account.call(verify_by_get("nobody@", "&detail=full")));
    assert_eq!((&result["deliverable"], result.get("detail")), (&json!(false), None));
    assert_eq!(result["reason"], "invalid_syntax");
    assert_eq!(result["credits_remaining"], Value::Null);
    assert_eq!(account.credits(), 100);
}

#[test]
fn rule_2_a_repeat_is_answered_from_the_first_check() {
    let account = shared().account("free");
    let domain = domain();
    for (kind, reason) in
        [("user", "mailbox_exists"), ("full", "inbox_full"), ("nobody", "mailbox_not_found")]
    {
        let asked = address(kind, &domain);
        assert_eq!(account.verify(&asked)["cached"], false);
        let before = contacts(&domain);
        let repeat = account.verify(&asked);
        assert_eq!(repeat["reason"], reason);
        assert_eq!(repeat["cached"], true);
        assert_eq!(repeat["credits_remaining"], Value::Null);
        assert_eq!(contacts(&domain), before, "nobody was asked");
    }
    assert_eq!(account.credits(), 97);
}

#[test]
fn the_same_address_may_be_written_in_other_case_or_with_an_a_label() {
    let account = shared().account("free");
    let plain = mailbox();
    let (_, digits) = plain.split_once('-').unwrap();
    assert_eq!(account.verify(&plain)["cached"], false);
    assert_eq!(account.verify(&plain.to_uppercase())["cached"], true);
    assert_eq!(account.verify(&format!("User-{digits}"))["cached"], true);
    let local = address("user", "");
    assert_eq!(account.verify(&format!("{local}bücher.example"))["cached"], false);
    assert_eq!(account.verify(&format!("{local}xn--bcher-kva.example"))["cached"], true);
    assert_eq!(account.verify(&format!("{local}BÜCHER.example"))["cached"], true);
    assert_eq!(account.credits(), 98);
}

#[test]
fn a_tag_makes_another_address() {
    let account = shared().account("free");
    let asked = mailbox();
    account.verify(&asked);
    assert_eq!(account.verify(&asked.replace('@', "+tag@"))["cached"], false);
}

#[test]
fn repeats_are_scoped_to_the_account_and_not_to_the_key() {
    let account = shared().account("free");
    let asked = mailbox();
    account.verify(&asked);
    let key = account.another_key();
    assert_eq!(account.server.call(&verify(&asked).key(&key)).ok()["cached"], true);
    assert_eq!(shared().account("free").verify(&asked)["cached"], false);
}

#[test]
fn neither_a_fast_check_nor_a_test_key_makes_a_repeat() {
    let account = shared().account("free");
    let asked = mailbox();
    account.fast(&asked);
    account.server.call(&verify(&asked).key(account.test())).ok();
    account.server.call(&crate::contract::accounts::batch(std::slice::from_ref(&asked)).key(account.test()));
    assert_eq!(account.verify(&asked)["cached"], false);
    assert_eq!(
        account.server.call(&verify(&asked).key(account.test())).ok()["cached"],
        false,
        "test keys never cache"
    );
}

#[test]
fn a_verdict_of_another_account_is_reused() {
    let (one, other) = (shared().account("free"), shared().account("free"));
    let domain = domain();
    let asked = address("user", &domain);
    one.verify(&asked);
    let before = contacts(&domain);
    let result = other.verify(&asked);
    assert_eq!((&result["reason"], &result["cached"]), (&json!("mailbox_exists"), &json!(false)));
    let third = shared().account("free");
    assert_eq!(third.run(std::slice::from_ref(&asked))["results"][0]["reason"], "mailbox_exists");
    assert_eq!(contacts(&domain), before, "the retained verdict was good enough");
    // A verdict of a row is reused too, but not without a subscription.
    let row = address("user", &domain);
    other.run(std::slice::from_ref(&row));
    let before = contacts(&domain);
    assert_eq!(one.verify(&row)["cached"], false);
    third.set_status("paused");
    third.call(verify(&row)).assert_refused(402, "subscription_inactive");
    assert_eq!(contacts(&domain), before);
}

#[test]
fn an_unusual_but_valid_address_is_checked() {
    let account = shared().account("free");
    for local in ["\"quoted local\"", "a+b", "x!#$%&'*/=?^_`{|}~", "first.last"] {
        let asked = format!("{local}@{}", domain());
        assert_eq!(account.verify(&asked)["reason"], "mailbox_not_found", "{asked}");
        assert_eq!(account.call(verify_by_get(&asked, "")).ok()["cached"], true, "{asked}");
    }
}

#[test]
fn what_is_no_address_is_invalid_syntax() {
    let account = shared().account("free");
    let long_local = format!("{}@ok.example", "a".repeat(65));
    let long_label = format!("a@{}.example", "a".repeat(64));
    let long_domain = format!("a@{}example", "abcdefgh.".repeat(30));
    for wrong in [
        "",
        "plain",
        "@ok.example",
        "a@",
        "a@@ok.example",
        "a b@ok.example",
        ".a@ok.example",
        "a.@ok.example",
        "a..b@ok.example",
        "a@ok..example",
        "a@.ok.example",
        "a@-ok.example",
        "a@ok-.example",
        "a@ok_.example",
        "a@localhost",
        "a@[127.0.0.1]",
        "a@[IPv6:::1]",
        "a(comment)@ok.example",
        "Name <a@ok.example>",
        "a@ok.example,b@ok.example",
        "\"a@ok.example",
        "a\u{0}b@ok.example",
        "a\r\nb@ok.example",
        // Nothing is trimmed.
        " user-1@ok.example",
        "user-1@ok.example ",
        "\tuser-1@ok.example",
        "user-1@ok.example\n",
        &long_local,
        &long_label,
        &long_domain,
    ] {
        let result = account.verify(wrong);
        assert_eq!(
            (&result["reason"], &result["email"]),
            (&json!("invalid_syntax"), &json!(wrong)),
            "{wrong:?}"
        );
        let result = verified(&account.call(get(format!("/v1/verify?email={}", escape(wrong)))));
        assert_eq!(result["reason"], "invalid_syntax", "{wrong:?}");
    }
    // Only a query has room for a longer text.
    let email = format!("{}@ok.example", "a".repeat(10_000));
    let result = verified(&account.call(verify_by_get(&email, "")));
    assert_eq!((&result["reason"], &result["email"]), (&json!("invalid_syntax"), &json!(email)));
    assert_eq!(account.credits(), 100);
}
