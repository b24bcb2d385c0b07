//! The expected verdicts against the observations of a client: a plain verifier uses DNS and SMTP, and must find
//! nothing that contradicts the ground truth.

use crate::common::{Client, SILENCE, query, start, tcp, udp};
use hickory_proto::rr::{RData, RecordType};
use mailnet::{Expected, Running};
use std::{net::SocketAddr, time::Duration};
use tokio::{net::TcpStream, time::timeout};

/// The records of a name; over TCP if UDP is too small. `None` if the DNS fails.
async fn records(net: &Running, name: &str, query_type: RecordType) -> Vec<RData> {
    let asked = query(name, query_type);
    let mut answer = udp(net, &asked).await;
    if answer.metadata.truncation {
        answer = tcp(net, &asked).await;
    }
    answer.answers.into_iter().map(|record| record.data).collect()
}

/// The addresses of a domain's mail hosts, best first.
async fn places(net: &Running, domain: &str) -> Vec<SocketAddr> {
    let mut hosts: Vec<(u16, String)> = Vec::new();
    for data in records(net, domain, RecordType::MX).await {
        if let RData::MX(mx) = data {
            hosts.push((mx.preference, mx.exchange.to_ascii().trim_end_matches('.').to_owned()));
        }
    }
    hosts.sort_unstable();
    if hosts.is_empty() {
        hosts.push((0, domain.to_owned()));
    }
    let mut places = Vec::new();
    for (_, host) in hosts.iter().filter(|(_, host)| !host.is_empty()) {
        for query_type in [RecordType::A, RecordType::AAAA] {
            let found = records(net, host, query_type).await;
            let loopback = found.iter().filter_map(RData::ip_addr).filter(std::net::IpAddr::is_loopback);
            places.extend(loopback.map(|address| SocketAddr::new(address, net.smtp_port())));
        }
    }
    places
}

/// The replies about an address and a stranger of its domain, from the first host that answers.
async fn probe(net: &Running, local: &str, domain: &str) -> Option<(String, String)> {
    for place in places(net, domain).await {
        let Ok(Ok(stream)) = timeout(SILENCE, TcpStream::connect(place)).await else { continue };
        let mut client = Client { stream, held: Vec::new() };
        if !client.reply().await.starts_with("220") {
            continue;
        }
        client.say("EHLO c.example").await;
        if client.say("MAIL FROM:<probe@c.example>").await.starts_with("530") {
            // Another test covers TLS.
            return None;
        }
        let said = client.rcpt(&format!("{local}@{domain}")).await;
        // A separate session: the first may have ended.
        let mut client = Client::to(place).await;
        client.reply().await;
        client.say("EHLO c.example").await;
        client.say("MAIL FROM:<probe@c.example>").await;
        return Some((said, client.rcpt(&format!("x9q7stranger3@{domain}")).await));
    }
    None
}

fn check(address: &str, expected: Expected, said: &str, stranger: &str) {
    let fits = match expected {
        // A mailbox that gets too much mail also exists.
        Expected::MailboxExists | Expected::RoleAccount => {
            (said.starts_with("250") || said.contains("too quickly")) && stranger.starts_with('5')
        }
        Expected::CatchAll => said.starts_with("250") && stranger.starts_with("250"),
        Expected::MailboxNotFound => said.starts_with("550"),
        Expected::InboxFull => said.contains("full"),
        Expected::MailboxDisabled => said.contains("disabled") || said.contains("NotAuthorized"),
        Expected::Unverifiable => {
            let both =
                said.starts_with("250") && (stranger.starts_with("250") || stranger.starts_with("550 5.1.1"));
            !both && !said.starts_with("550 5.1.1")
        }
        Expected::Disposable | Expected::Spamtrap | Expected::InvalidSyntax => true,
    };
    assert!(fits, "{address} is {expected}, but:\n{said}{stranger}");
}

async fn agrees(scenario: &str, count: usize) -> usize {
    let net = start(scenario);
    let mut probed = 0;
    for (address, expected) in net.scenario().addresses(count, 77) {
        let (local, domain) = address.rsplit_once('@').expect("an address");
        // These are silent or end the session; they have tests of their own.
        let is_silent =
            ["timeout", "garbage", "cut-short", "silent"].iter().any(|word| domain.contains(word));
        if is_silent || local.starts_with("hang-up") {
            continue;
        }
        match timeout(Duration::from_secs(30), probe(&net, local, domain)).await.expect("in time") {
            Some((said, stranger)) => {
                check(&address, expected.reason, &said, &stranger);
                probed += 1;
            }
            None => assert!(
                matches!(expected.reason, Expected::MailboxNotFound | Expected::Unverifiable)
                    || scenario.contains("tls-required"),
                "{address} is {}, but no host answers",
                expected.reason
            ),
        }
    }
    probed
}

#[tokio::test]
async fn reasons() {
    // Without the forged answers, which a plain client believes.
    let text = include_str!("../../scenarios/reasons.toml").replace("dns = \"spoofed", "# dns = \"spoofed");
    let text = text.replace("dns = \"no_edns\"", "");
    // An address may be drawn twice, and a slow run may take longer than a short greylisting interval.
    let text = text.replace("greylist_ms = 2000", "greylist_ms = 600000");
    assert!(agrees(&text, 400).await > 150);
}

#[tokio::test]
async fn catch_all() {
    assert!(agrees(include_str!("../../scenarios/catchall.toml"), 100).await > 95);
}

#[tokio::test]
async fn bulk() {
    assert!(agrees(include_str!("../../scenarios/bulk.toml"), 200).await > 160);
}
