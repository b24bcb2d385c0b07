//! Every personality of providers.toml has a whole conversation and gives the replies of its mailboxes.

use crate::common::{Client, start};

const STATES: [(&str, &[&str]); 13] = [
    ("alice", &["2"]),
    ("ok-17", &["2"]),
    ("nobody", &["5"]),
    ("full", &["5"]),
    ("full-today", &["4"]),
    ("disabled", &["5"]),
    ("policy", &["4", "5"]),
    ("throttled", &["4", "5"]),
    ("popular", &["4", "5"]),
    ("relay", &["5"]),
    ("temporary", &["4"]),
    ("restricted", &["5"]),
    ("grey", &["4"]),
];

/// A session with an open transaction, by HELO where EHLO is refused.
async fn open(net: &mailnet::Running, domain: &str) -> Client {
    let mut client = Client::connect(net, domain).await;
    assert!(client.reply().await.starts_with("220"), "{domain}");
    if !client.say("EHLO c.example").await.starts_with("250") {
        assert!(client.say("HELO c.example").await.starts_with("250"), "{domain}");
    }
    assert!(client.say("MAIL FROM:<probe@c.example>").await.starts_with("250"), "{domain}");
    client
}

#[tokio::test]
async fn every_personality_answers_for_every_mailbox() {
    let net = start(include_str!("../../scenarios/providers.toml"));
    let names = "postfix gmail microsoft365 outlook exchange yahoo icloud mimecast proofpoint barracuda cisco zoho gmx mailru \
                 yandex qq netease rambler orange comcast att trendmicro exim qmail sendmail helo-only no-pipelining generic";
    for name in names.split_whitespace() {
        let domain = format!("{name}.example");
        for (local, classes) in STATES {
            // One session for each, since some end after a refusal.
            let mut client = open(&net, &domain).await;
            let said = client.rcpt(&format!("{local}@{domain}")).await;
            assert!(classes.iter().any(|class| said.starts_with(class)), "{local}@{domain}: {said}");
            assert!(said.lines().all(|line| line.len() <= 510), "RFC 5321 4.5.3.1.5: {said}");
        }
    }
    assert!(net.stats().violations.is_empty(), "{:?}", net.stats().violations);
}
