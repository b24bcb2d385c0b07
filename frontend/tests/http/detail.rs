//! `detail=full`: for full checks with live keys, at the same price.

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
