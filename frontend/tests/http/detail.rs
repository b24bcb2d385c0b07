//! `detail=full`: for full checks with live keys, at the same price.

use super::batches;
use crate::harness::server::{Server, checked, scripted};
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

fn verify(server: &Server, key: &str, email: &str) -> Value {
    let got = server.post(key, "/v1/verify", &json!({ "email": email, "detail": "full" }).to_string());
    assert_eq!(got.status, 200, "{email}: {}", got.body);
    got.json()
}

/// Takes the evidence out of an answer, and checks that its time is now.
#[track_caller]
fn evidence(answer: &mut Value) -> Value {
    let mut evidence = answer["detail"].as_object_mut().unwrap().remove("evidence").unwrap();
    let observed_at = evidence["observed_at"].take();
    let (text, offset) = observed_at.as_str().unwrap().split_at(19);
    let seconds = lists::utc_seconds(&format!("{text}Z")).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    assert!(offset == "+00:00" && (now - 60..=now).contains(&seconds), "{observed_at}");
    evidence
}

/// The evidence without its time, of a rule with these facts of a reply.
fn replied(code: u16, enhanced_code: Option<&str>) -> Value {
    json!({
        "rule": "scripted", "scope": "recipient", "host": "mx1.example", "reply_code": code,
        "enhanced_code": enhanced_code, "observed_at": null,
    })
}

fn detail() -> Value {
    json!({
        "grade": "A",
        "score": 98,
        "inbox_provider": "google",
        "flags": {
            "free_email": false, "role_account": false, "disposable": false, "catch_all": false, "mailbox_exists": true,
        },
        "dns": {
            "mx": true,
            "mx_hosts": ["mx1.example", "mx2.example"],
            "spf": true,
            "dmarc_policy": "quarantine",
            "dkim_selectors": ["google"],
            "bimi": false,
            "ptr": true,
        },
    })
}

#[test]
fn the_whole_block_at_the_same_price() {
    let server = Server::start(&[]);
    let expected = json!({
        "email": "mailbox_exists@some.example",
        "deliverable": true,
        "reason": "mailbox_exists",
        "credits_remaining": 99,
        "cached": false,
        "detail": detail(),
    });
    let mut got = verify(&server, &server.live, "mailbox_exists@some.example");
    assert_eq!(evidence(&mut got), replied(250, None));
    assert_eq!(got, expected);
    let query = "/v1/verify?detail=full&email=mailbox_exists%2Bother%40some.example";
    let got = server.get(&server.live, query).json();
    assert_eq!(got["detail"]["dns"], detail()["dns"], "by GET too");
    let without =
        server.post(&server.live, "/v1/verify", r#"{"email":"catch_all@some.example","detail":null}"#);
    assert!(without.json().get("detail").is_none());
}

#[test]
fn every_answer_of_a_verdict_has_its_evidence() {
    let server = Server::start(&[]);
    let stranger = server.stranger();
    for (local, expected) in
        [("mailbox_exists", replied(250, None)), ("mailbox_not_found", replied(550, Some("5.1.1")))]
    {
        let email = |name: &str| format!("{local}@{name}.com");
        // Asked, a repeat, the verdict of another account's check, a repeat of it, and all of this after a row of a batch.
        let single = [(&server.live, false), (&server.live, true), (&stranger, false), (&stranger, true)];
        let batch = batches::id(&batches::submit(&server, &server.live, &[local]));
        let results = batches::completed(&server, &server.live, &batch)["results"].clone();
        let row =
            json!({ "email": email("example"), "deliverable": local == "mailbox_exists", "reason": local });
        assert_eq!(results, json!([row]), "a row of a batch has the fields of the contract only");
        let of_batch = single[1..].iter().map(|&(key, cached)| (email("example"), key, cached));
        for (email, key, cached) in
            single.map(|(key, cached)| (email("one"), key, cached)).into_iter().chain(of_batch)
        {
            let mut got = verify(&server, key, &email);
            assert_eq!((evidence(&mut got), &got["cached"]), (expected.clone(), &json!(cached)), "{email}");
        }
    }
    let got = verify(&server, &server.test, "mailbox_exists@one.com");
    assert!(got.get("detail").is_none(), "a test key has none: {got}");
}

#[test]
fn dns_that_cannot_be_read_costs_the_verdict_nothing() {
    let server = Server::start(&[]);
    let email = |domain: &str| format!("catch_all@{domain}.example");
    for domain in ["unknown", "outage", "full"] {
        let mut got = verify(&server, &server.live, &email(domain));
        assert_eq!(evidence(&mut got), replied(250, None));
        assert_eq!((&got["reason"], &got["deliverable"]), (&json!("catch_all"), &json!(false)));
        let flags = json!({
            "free_email": false, "role_account": false, "disposable": false, "catch_all": true, "mailbox_exists": null,
        });
        let expected =
            json!({ "grade": null, "score": null, "inbox_provider": null, "flags": flags, "dns": null });
        assert_eq!(got["detail"], expected, "{domain}");
    }
    let got = verify(&server, &server.live, &email("absent"));
    assert_eq!(
        (&got["detail"]["inbox_provider"], &got["detail"]["dns"]["mx"]),
        (&json!(null), &json!(false))
    );
    assert_eq!(got["detail"]["dns"]["mx_hosts"], json!([]));
}

#[test]
fn the_command_line_tells_it_too() {
    let mut lines = checked(&["--detail", "mailbox_exists@some.example", "nobody"]);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(evidence(&mut lines[0]), replied(250, None));
    assert_eq!(lines[0]["detail"], detail());
    assert!(lines[1].get("detail").is_none());

    let output = scripted(&["check", "--detail", "mailbox_exists@some.example", "catch_all@unknown.example"]);
    let said = String::from_utf8(output.stdout).unwrap();
    for line in [
        "    grade A, score 98, at google\n",
        "    mx: mx1.example, mx2.example\n",
        "    spf: yes, dmarc: quarantine, dkim: google, bimi: no, ptr: yes\n",
        "    the DNS facts of the domain could not be read\n",
        "    evidence: mx1.example replied 250 (scope recipient) at 20",
    ] {
        assert!(said.contains(line), "{line}{said}");
    }
    let output = scripted(&["check", "--detail", "--fast", "--json", "a@some.example"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("fast_check_passed") && !said.contains("detail"), "as the API: {said}");
}
