//! Every misdeed of hostile.toml from the view of the client.

use crate::common::{Client, End, PATIENCE, faulty, place, start, start_server};
use mailnet::Running;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// Runs a session up to the command that the fault answers.
async fn up_to(net: &Running, stage: &str) -> Client {
    let mut client = Client::connect(net, "d.example").await;
    if stage == "banner" {
        return client;
    }
    client.reply().await;
    for (at, command) in [
        ("ehlo", "EHLO c.example"),
        ("mail", "MAIL FROM:<>"),
        ("rcpt", "RCPT TO:<alice@d.example>"),
        ("rset", "RSET"),
        ("quit", "QUIT"),
    ] {
        if at == stage {
            client.send(&format!("{command}\r\n")).await;
            return client;
        }
        assert!(client.say(command).await.starts_with("250"));
    }
    panic!("no such stage: {stage}");
}

const STAGES: [&str; 6] = ["banner", "ehlo", "mail", "rcpt", "rset", "quit"];

/// Checks what a client reads after the fault, and how the session ends.
async fn hears(does: &str, check: impl Fn(&str, &[u8], End)) {
    // A reset instead of a greeting may already happen at connect: connections_break_before_a_word tests that.
    for stage in STAGES.into_iter().filter(|stage| (*stage, does) != ("banner", "reset")) {
        let net = faulty(stage, does);
        let (said, end) = up_to(&net, stage).await.end().await;
        check(stage, &said, end);
        assert_eq!(net.stats().misdeeds, 1, "{does} at {stage}");
    }
}

#[tokio::test]
async fn sessions_end_at_every_stage() {
    hears("close", |stage, said, end| assert_eq!((said, end), (b"".as_slice(), End::Closed), "{stage}"))
        .await;
    hears("reset", |stage, said, end| assert_eq!((said, end), (b"".as_slice(), End::Reset), "{stage}")).await;
    hears("closing", |stage, said, end| {
        assert!(said.starts_with(b"421 4.3.2 ") && said.ends_with(b"\r\n"), "{stage}");
        assert_eq!(end, End::Closed);
    })
    .await;
    hears("truncate", |stage, said, end| {
        assert!(said.len() > 3 && !said.ends_with(b"\n"), "{stage}");
        assert_eq!(end, End::Closed);
    })
    .await;
}

#[tokio::test]
async fn servers_hang_at_every_stage() {
    for stage in STAGES {
        let net = faulty(stage, "hang");
        let mut client = up_to(&net, stage).await;
        assert!(client.is_silent().await, "{stage}");
        client.send("NOOP\r\n").await;
        assert!(client.is_silent().await, "{stage}");
    }
}

#[tokio::test]
async fn connections_break_before_a_word() {
    for (stage, does, end) in
        [("connect", "close", End::Closed), ("connect", "reset", End::Reset), ("banner", "reset", End::Reset)]
    {
        let net = faulty(stage, does);
        let place = place(&net, "d.example").await;
        match tokio::net::TcpStream::connect(place).await {
            Ok(stream) => assert_eq!(Client { stream, held: Vec::new() }.end().await, (Vec::new(), end)),
            Err(error) => assert_eq!((error.kind(), end), (std::io::ErrorKind::ConnectionReset, End::Reset)),
        }
    }
    let net = faulty("connect", "hang");
    assert!(Client::connect(&net, "d.example").await.is_silent().await);
}

/// The first bytes that the client reads.
async fn first(stage: &str, does: &str, enough: usize) -> Vec<u8> {
    let net = faulty(stage, does);
    let mut client = up_to(&net, stage).await;
    while client.held.len() < enough && client.more().await > 0 {}
    client.held
}

#[tokio::test]
async fn replies_are_spoilt_at_every_stage() {
    for stage in STAGES {
        let code: &[u8] = match stage {
            "banner" => b"220",
            "quit" => b"221",
            _ => b"250",
        };
        let endless = first(stage, "endless_line", 500_000).await;
        assert!(endless.starts_with(code) && !endless.contains(&b'\n'), "{stage}");
        let endless = String::from_utf8(first(stage, "endless_multiline", 500_000).await).unwrap();
        assert!(endless.lines().all(|line| line.len() < 4 || line.as_bytes()[3] == b'-'), "{stage}");
        let garbage = first(stage, "garbage", 10).await;
        assert!(!garbage[0].is_ascii_digit(), "{stage}");
        let nul = first(stage, "nul", 10).await;
        assert!(nul.starts_with(code) && nul.contains(&0) && nul.ends_with(b"\r\n"), "{stage}");
        let long = first(stage, "long_line", 65_000).await;
        assert!(
            long.starts_with(code) && long.len() >= 65_000 && !long[..65_000].contains(&b'\n'),
            "{stage}"
        );
        assert!(first(stage, "mixed_codes", 40).await.starts_with(b"250-this went well\r\n550 "), "{stage}");
        assert!(first(stage, "wrong_code", 5).await.starts_with(b"354 "), "{stage}");
        let early = first(stage, "early", 5).await;
        assert!(early.starts_with(code) && early.ends_with(b"\r\n250 2.0.0 Ok\r\n"), "{stage}");
        let bare = first(stage, "bare_lf", 5).await;
        assert!(bare.starts_with(code) && bare.ends_with(b"\n") && !bare.contains(&b'\r'), "{stage}");
    }
}

#[tokio::test]
async fn replies_drip() {
    let net = start_server("{ faults = [{ at = \"banner\", does = \"drip\", ms = 5 }] }");
    let before = Instant::now();
    let mut client = Client::connect(&net, "d.example").await;
    assert_eq!(client.more().await, 1);
    assert_eq!(client.reply().await, "220 mx1.d.example ESMTP Postfix\r\n");
    assert!(before.elapsed() >= Duration::from_millis(31 * 5));
    assert!(client.say("EHLO c.example").await.starts_with("250"), "and the session goes on");
}

#[tokio::test]
async fn the_session_goes_on_after_a_spoilt_reply() {
    for does in ["nul", "bare_lf", "early", "mixed_codes", "garbage", "wrong_code"] {
        let net = faulty("mail", does);
        let mut client = up_to(&net, "mail").await;
        client.more().await;
        client.held.clear();
        assert!(client.rcpt("alice@d.example").await.starts_with("250"), "{does}");
    }
}

#[tokio::test]
async fn every_domain_of_the_hostile_scenario_can_be_contacted() {
    let net = start(include_str!("../../scenarios/hostile.toml"));
    for (address, _) in net.scenario().addresses(60, 9) {
        let domain = address.split_once('@').unwrap().1;
        let place = place(&net, domain).await;
        // The host exists, whatever it replies.
        let connected = timeout(PATIENCE, tokio::net::TcpStream::connect(place)).await.expect("in time");
        assert!(connected.is_ok() || domain.ends_with("-reset.example"), "{domain}");
    }
}
