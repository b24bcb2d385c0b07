//! `detail=full`: the Detail object with its flags and DNS facts.

use crate::contract::accounts::{verified, verify_by_get};
use crate::contract::shapes;
use crate::contract::world::{address, domain, mailbox, shared};
use crate::harness::client::post;
use serde_json::{Value, json};

fn flags(free: bool, role: bool, disposable: bool, catch_all: bool, exists: Option<bool>) -> Value {
    json!({
        "free_email": free,
        "role_account": role,
        "disposable": disposable,
        "catch_all": catch_all,
        "mailbox_exists": exists,
    })
}

#[track_caller]
fn detail(asked: &str) -> Value {
    let detail = shared().account("free").detail(asked);
    shapes::detail(&detail);
    detail
}

#[test]
fn flags_say_what_is_known_of_the_address() {
    for (asked, expected) in [
        (mailbox(), flags(false, false, false, false, Some(true))),
        (format!("info@{}", domain()), flags(false, true, false, false, Some(true))),
        (address("nobody", "ok.example"), flags(false, false, false, false, Some(false))),
        (address("user", "catchall.example"), flags(false, false, false, true, None)),
        (address("user", "mailinator.com"), flags(false, false, true, false, None)),
        (address("user", "gmail.com"), flags(true, false, false, false, Some(true))),
        (address("later", "ok.example"), flags(false, false, false, false, None)),
    ] {
        let got = detail(&asked);
        let mut given = got["flags"].clone();
        // The field may be missing or null.
        let exists = given["mailbox_exists"].take();
        given["mailbox_exists"] = exists;
        if asked.contains("mailinator") {
            // The maker of a list of free providers decides whether it has a disposable one.
            given["free_email"] = json!(false);
        }
        assert_eq!(given, expected, "{asked}");
    }
}

#[test]
fn evidence_names_the_rule_the_host_and_the_reply_and_no_text() {
    for (asked, rule, host, code, enhanced, scope) in [
        (address("user", "plain.example"), "control_re", "mx.plain-host.example", 250, None, "recipient"),
        (
            address("nobody", "plain.example"),
            "unknown",
            "mx.plain-host.example",
            550,
            Some("5.1.1"),
            "recipient",
        ),
        (address("user", "catchall.example"), "control_", "catchall.example", 250, None, "recipient"),
    ] {
        let evidence = detail(&asked)["evidence"].clone();
        // A control recipient of an earlier check may have decided.
        assert!(evidence["rule"].as_str().is_some_and(|name| name.starts_with(rule)), "{evidence}");
        assert!(evidence["host"].as_str().is_some_and(|name| name.ends_with(host)), "{evidence}");
        let got = (&evidence["reply_code"], &evidence["enhanced_code"], &evidence["scope"]);
        assert_eq!(got, (&json!(code), &json!(enhanced), &json!(scope)), "{asked}");
        assert!(!evidence.to_string().contains('@'), "{evidence}");
    }
    for (asked, rule) in [
        (address("user", "nxdomain.example"), "nxdomain"),
        (address("user", "nullmx.example"), "null_mx"),
        (address("user", "servfail.example"), "dns_servfail"),
        (address("user", "mailinator.com"), "list_disposable"),
    ] {
        let evidence = detail(&asked)["evidence"].clone();
        assert_eq!((&evidence["rule"], &evidence["host"]), (&json!(rule), &Value::Null), "{asked}");
    }
    let dead = detail(&address("user", "dead.example"))["evidence"].clone();
    assert_eq!((&dead["host"], &dead["reply_code"]), (&json!("mx.dead.example"), &Value::Null), "{dead}");
}

#[test]
fn repeats_and_other_accounts_have_the_evidence_too() {
    for asked in [mailbox(), address("nobody", "plain.example"), address("user", "nxdomain.example")] {
        let account = shared().account("free");
        let first = account.detail(&asked)["evidence"].clone();
        assert_eq!(account.detail(&asked)["evidence"], first, "a repeat");
        let mut other = detail(&asked)["evidence"].clone();
        other["observed_at"] = first["observed_at"].clone();
        assert_eq!(other, first, "another account has it with its own time");
    }
}

#[test]
fn dns_of_a_domain_that_has_everything() {
    let dns = detail(&mailbox())["dns"].clone();
    let mut hosts: Vec<&str> =
        dns["mx_hosts"].as_array().unwrap().iter().map(|host| host.as_str().unwrap()).collect();
    hosts.sort_unstable();
    assert_eq!(hosts, ["mx1.ok.example", "mx2.ok.example"]);
    assert_eq!(dns["mx"], true);
    assert_eq!(dns["spf"], true);
    assert_eq!(dns["dmarc_policy"], "reject");
    assert_eq!(dns["dkim_selectors"], json!(["google"]));
    assert_eq!(dns["bimi"], true);
    assert_eq!(dns["ptr"], true);
}

#[test]
fn dns_of_a_domain_that_has_an_mx_alone() {
    let dns = detail(&address("user", "plain.example"))["dns"].clone();
    let expected = json!({
        "mx": true,
        "mx_hosts": ["mx.plain-host.example"],
        "spf": false,
        "dmarc_policy": null,
        "dkim_selectors": [],
        "bimi": false,
        "ptr": false,
    });
    assert_eq!(dns, expected);
}

#[test]
fn dmarc_policy_is_one_of_three_or_null() {
    for (domain, policy) in [
        ("ok.example", json!("reject")),
        ("dmarc-none.example", json!("none")),
        ("dmarc-quarantine.example", json!("quarantine")),
        ("plain.example", Value::Null),
    ] {
        assert_eq!(detail(&address("user", domain))["dns"]["dmarc_policy"], policy, "{domain}");
    }
}

#[test]
fn dns_that_could_not_be_read_leaves_nulls() {
    let account = shared().account("free");
    let call = post("/v1/verify", &json!({ "email": address("user", "servfail.example"), "detail": "full" }));
    let result = verified(&account.call(call));
    assert_eq!((&result["reason"], &result["deliverable"]), (&json!("unverifiable"), &json!(false)));
    for name in ["grade", "score", "inbox_provider", "dns"] {
        assert_eq!(result["detail"][name], Value::Null, "{name}");
    }
    assert_eq!(result["detail"]["flags"]["mailbox_exists"], Value::Null);
}

#[test]
fn score_and_grade_agree_and_rank_a_mailbox_above_none() {
    let good = detail(&mailbox());
    let bad = detail(&address("nobody", "plain.example"));
    // Another test checks in every answer that the grade agrees with the score.
    let score = |detail: &Value| detail["score"].as_u64().unwrap_or_else(|| panic!("{detail}"));
    assert!(score(&good) > score(&bad), "{good} {bad}");
    assert!(score(&good) > score(&detail(&address("user", "catchall.example"))));
}

#[test]
fn inbox_provider_is_told_by_the_mx_hosts() {
    let account = shared().account("free");
    let known = "google microsoft yahoo icloud zoho proton fastmail yandex mailru gmx qq netease proofpoint \
                 mimecast barracuda cisco";
    for slug in known.split_ascii_whitespace() {
        let got = account.detail(&address("user", &format!("at-{slug}.example")));
        assert_eq!(got["inbox_provider"], slug, "{got}");
    }
    assert_eq!(account.detail(&mailbox())["inbox_provider"], "other");
}

#[test]
fn it_is_not_available_for_batches() {
    let account = shared().account("free");
    // Another test checks in every batch that rows have no detail.
    let call = post("/v1/verify/batch?detail=full", &json!({ "emails": [mailbox()], "detail": "full" }));
    let created = crate::contract::accounts::created(&account.call(call));
    account.finish(created["batch_id"].as_str().unwrap());
}

#[test]
fn it_is_returned_on_free_repeats_also_where_the_first_call_did_not_ask() {
    let account = shared().account("free");
    let asked = mailbox();
    account.verify(&asked);
    for _ in 0..2 {
        let call = verify_by_get(&asked, "&detail=full");
        let result = verified(&account.call(call));
        assert_eq!((&result["cached"], &result["credits_remaining"]), (&json!(true), &Value::Null));
        assert_eq!(result["detail"]["flags"], flags(false, false, false, false, Some(true)));
        assert_eq!(result["detail"]["dns"]["spf"], true);
    }
    assert_eq!(account.credits(), 99);
}
