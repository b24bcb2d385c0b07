//! `detail=full`: for full checks with live keys, at the same price.

use crate::server::{Server, checked, scripted};
use serde_json::{Value, json};

fn verify(server: &Server, key: &str, email: &str) -> Value {
    let got = server.post(key, "/v1/verify", &json!({ "email": email, "detail": "full" }).to_string());
    assert_eq!(got.status, 200, "{email}: {}", got.body);
    got.json()
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
    assert_eq!(verify(&server, &server.live, "mailbox_exists@some.example"), expected);
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
        let got = verify(&server, &server.live, &email(domain));
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
fn where_there_is_none() {
    let server = Server::start(&[]);
    for (key, email) in
        [(&server.live, "nobody"), (&server.test, "nobody"), (&server.test, "deliverable@some.example")]
    {
        assert!(verify(&server, key, email).get("detail").is_none(), "{email}");
    }
}

#[test]
fn the_command_line_tells_it_too() {
    let lines = checked(&["--detail", "mailbox_exists@some.example", "nobody"]);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[0]["detail"], detail());
    assert!(lines[1].get("detail").is_none());

    let output = scripted(&["check", "--detail", "mailbox_exists@some.example", "catch_all@unknown.example"]);
    let said = String::from_utf8(output.stdout).unwrap();
    for line in [
        "    grade A, score 98, at google\n",
        "    mx: mx1.example, mx2.example\n",
        "    spf: yes, dmarc: quarantine, dkim: google, bimi: no, ptr: yes\n",
        "    the DNS facts of the domain could not be read\n",
    ] {
        assert!(said.contains(line), "{line}{said}");
    }
    let output = scripted(&["check", "--detail", "--fast", "--json", "a@some.example"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("fast_check_passed") && !said.contains("detail"), "as the API: {said}");
}
