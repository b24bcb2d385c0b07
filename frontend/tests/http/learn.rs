//! `mailprobe learn`, and the checks that use its evidence.

use crate::harness::server::{Server, checked, mailprobe, scripted};
use crate::http::batches;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// A bounce in the form of Postfix, made now.
fn bounce(address: &str) -> String {
    let minute = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() - 60;
    format!(
        "Content-Type: multipart/report; report-type=delivery-status; boundary=b\nTo: news@sender.example\nDate: {}\n\n--b\n\n\
         It failed.\n\n--b\nContent-Type: message/delivery-status\n\nReporting-MTA: dns; mail.sender.example\n\nFinal-Recipient: \
         rfc822; {address}\nOriginal-Recipient: rfc822;{address}\nAction: failed\nStatus: 5.1.1\nRemote-MTA: dns; \
         mx.example.com\nDiagnostic-Code: smtp; 550 5.1.1 <{address}>: Recipient address rejected: User unknown\n\n--b--\n",
        rfc5322(minute)
    )
}

/// The date of a time in seconds since 1970.
fn rfc5322(seconds: u64) -> String {
    let text = lists::utc_text(seconds);
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months[text[5..7].parse::<usize>().unwrap() - 1];
    format!("{} {month} {} {} +0000", &text[8..10], &text[..4], &text[11..19])
}

fn learn(folder: &Path, addresses: &[&str]) -> String {
    let table = folder.join("learned").display().to_string();
    let files: Vec<String> = addresses
        .iter()
        .enumerate()
        .map(|(n, address)| {
            let path = folder.join(format!("{n}.eml"));
            fs::write(&path, bounce(address)).unwrap();
            path.display().to_string()
        })
        .collect();
    let flags = ["learn".to_owned(), "--learned".to_owned(), table.clone()];
    let output = mailprobe(flags.iter().chain(&files));
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.contains(&format!("definite bounces: {} (mailbox does not exist ", addresses.len())),
        "{said}"
    );
    table
}

#[test]
fn a_check_of_a_bounced_address_names_the_evidence() {
    let folder = TempDir::new().unwrap();
    let known = ["catch_all@a.com", "unverifiable@a.com", "mailbox_exists@a.com"];
    let table = learn(folder.path(), &known);
    let addresses = [&known[..], &["catch_all@b.com"]].concat();
    let rows = checked(&[&addresses[..], &["--learned", &table]].concat());
    let found: Vec<_> =
        rows.iter().map(|row| (row["reason"].as_str().unwrap(), row["rule"] == "own_bounce")).collect();
    // A definite answer of the server stays.
    let expected = [
        ("mailbox_not_found", true),
        ("mailbox_not_found", true),
        ("mailbox_exists", false),
        ("catch_all", false),
    ];
    assert_eq!(found, expected);
    assert!(rows[0]["learned_at"].as_str().unwrap().ends_with('Z') && rows[2].get("learned_at").is_none());
    let row = &checked(&["catch_all@a.com", "--detail", "--learned", &table])[0];
    let evidence = &row["detail"]["evidence"];
    let learned_at = row["learned_at"].as_str().unwrap();
    assert_eq!((&evidence["rule"], &evidence["host"]), (&json!("own_bounce"), &Value::Null));
    assert_eq!(evidence["observed_at"], learned_at.replace('Z', "+00:00"));
    let output = scripted(&["check", "catch_all@a.com", "--trace", "--learned", &table]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("catch_all@a.com\tnot deliverable\tmailbox_not_found\town_bounce"), "{said}");
    assert!(said.contains("    evidence: a bounce of your own mail of 20"), "{said}");
    assert!(
        said.contains("    learned: a bounce of your own mail of 20")
            && said.contains("replaces catch_all ("),
        "{said}"
    );
    // Without the table nothing changes.
    for flags in [&["--learned", "none"][..], &[]] {
        assert_eq!(checked(&[&["catch_all@a.com"], flags].concat())[0]["reason"], "catch_all");
    }
    let output = mailprobe(["learn", "--learned", &table, "--forget", "catch_all@a.com"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(checked(&["catch_all@a.com", "--learned", &table])[0]["reason"], "catch_all");
    fs::write(&table, "x").unwrap();
    let output = scripted(&["check", "catch_all@a.com", "--learned", &table]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("is not a table of `mailprobe learn`"), "{said}");
}

#[test]
fn clean_writes_the_rule() {
    let folder = TempDir::new().unwrap();
    let table = learn(folder.path(), &["catch_all@a.com", "unverifiable@a.com"]);
    let (list, out) = (folder.path().join("list.csv"), folder.path().join("out.csv"));
    fs::write(&list, "email\ncatch_all@a.com\nunverifiable@a.com\ncatch_all@b.com\n").unwrap();
    let (list, path) = (list.display().to_string(), out.display().to_string());
    let flags = ["--columns", "rule,reply_code,enhanced_code", "--learned", &table];
    let output = scripted(&[&["clean", &list, "-o", &path][..], &flags].concat());
    assert!(output.status.success(), "{output:?}");
    let rows = fs::read_to_string(&out).unwrap();
    let rows: Vec<&str> = rows.lines().collect();
    // The reply that the bounce outweighs is no evidence of the new verdict.
    assert_eq!(rows[1], "catch_all@a.com,false,mailbox_not_found,own_bounce,,");
    assert_eq!(rows[2], "unverifiable@a.com,false,mailbox_not_found,own_bounce,,");
    assert_eq!(rows[3], "catch_all@b.com,false,catch_all,scripted,250,");
}

#[test]
fn a_server_uses_the_evidence_for_the_named_accounts_only() {
    let folder = TempDir::new().unwrap();
    let table = learn(folder.path(), &["catch_all@example.com"]);
    let server = Server::start(&[
        "--learned",
        &table,
        "--learned-accounts",
        "nobody",
        "--learned-accounts",
        "default",
    ]);
    // An account that its user deleted must not keep the server from starting.
    assert!(server.log().contains("there is no account `nobody`"));
    let stranger = server.stranger();
    let reason = |key: &str| -> (String, bool) {
        let body: Value = server.verify(key, "catch_all@example.com").json();
        (body["reason"].as_str().unwrap().to_owned(), body["cached"].as_bool().unwrap())
    };
    assert_eq!(reason(&server.live), ("mailbox_not_found".to_owned(), false));
    // The verdict of the server is shared; the bounce is not.
    assert_eq!(reason(&stranger), ("catch_all".to_owned(), false));
    assert_eq!(reason(&server.live), ("mailbox_not_found".to_owned(), true));
    assert_eq!(reason(&stranger), ("catch_all".to_owned(), true));
    // Every answer that a learned event decided has it as evidence, also a repeat. Others have the evidence of the server's reply.
    for (key, rule) in [(&server.live, json!("own_bounce")), (&stranger, json!("scripted"))] {
        let body = json!({ "email": "catch_all@example.com", "detail": "full" }).to_string();
        let got: Value = server.post(key, "/v1/verify", &body).json();
        assert_eq!((&got["cached"], &got["detail"]["evidence"]["rule"]), (&json!(true), &rule));
    }
    for (key, expected) in [(&server.live, "mailbox_not_found"), (&stranger, "catch_all")] {
        let id = batches::id(&batches::submit(&server, key, &["catch_all"]));
        assert_eq!(batches::reasons(&server, key, &id), [expected]);
    }
}

#[test]
fn a_server_refuses_accounts_without_a_file() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data").display().to_string();
    let flags = ["serve", "--data", &data, "--listen", "127.0.0.1:0", "--learned-accounts", "default"];
    let output = scripted(&flags);
    let said = String::from_utf8(output.stderr).unwrap();
    let expected = "--learned-accounts needs the file of `mailprobe learn`";
    assert!(!output.status.success() && said.contains(expected), "{said}");
}
