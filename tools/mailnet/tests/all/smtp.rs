//! SMTP peers that behave well: latency, long lines, and the counts of sessions.

use crate::common::{Client, PATIENCE, place, start_server};
use mailnet::Violation;
use std::time::{Duration, Instant};
use tokio::{io::AsyncReadExt, net::TcpStream, time::timeout};

#[tokio::test]
async fn latency_applies_once_a_group() {
    let net = start_server("{ latency_ms = [80, 100] }");
    let mut client = Client::mail(&net, "d.example").await;
    let before = Instant::now();
    client.send(&"RCPT TO:<alice@d.example>\r\n".repeat(20)).await;
    for _ in 0..20 {
        assert!(client.reply().await.starts_with("250"));
    }
    let took = before.elapsed();
    assert!(
        took >= Duration::from_millis(80) && took < Duration::from_millis(1600),
        "once a batch: {took:?}"
    );
}

#[tokio::test]
async fn a_group_is_answered_in_one_piece() {
    let net = start_server("\"generic\"");
    let mut client = Client::greet(&net, "d.example").await;
    let group = "MAIL FROM:<>\r\n".to_owned() + &"RCPT TO:<alice@d.example>\r\n".repeat(10) + "RSET\r\n";
    client.send(&group).await;
    client.more().await;
    assert_eq!(String::from_utf8_lossy(&client.held).matches("\r\n").count(), 12);
}

#[tokio::test]
async fn long_lines_are_counted_and_one_without_end_ends_the_session() {
    let net = start_server("\"generic\"");
    let mut client = Client::greet(&net, "d.example").await;
    client.send(&"x".repeat(70_000)).await;
    assert!(client.reply().await.starts_with("500"));
    assert_eq!(net.stats().violations[&Violation::LineTooLong], 1);
    let mut client = Client::connect(&net, "d.example").await;
    client.reply().await;
    client.say("EHLO c.example").await;
    client.say(&format!("NOOP {}", "x".repeat(510))).await;
    assert_eq!(net.stats().violations.into_iter().collect::<Vec<_>>(), [(Violation::LineTooLong, 2)]);
}

#[tokio::test]
async fn sessions_are_counted() {
    let net = start_server("\"generic\"");
    let first = Client::greet(&net, "d.example").await;
    let second = Client::greet(&net, "d.example").await;
    let stats = net.stats();
    assert_eq!((stats.sessions, stats.sessions_open, stats.sessions_peak), (2, 2, 2));
    drop((first, second));
    timeout(PATIENCE, async {
        while net.stats().sessions_open > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("sessions end");
    assert_eq!(net.stats().sessions_without_quit, 2);
    let host = net.host_stats("mx1.d.example").unwrap();
    assert_eq!((host.sessions, host.sessions_open, host.sessions_peak), (2, 0, 2));
    assert!(net.host_stats("d.example").is_none());
}

#[tokio::test]
async fn stopping_frees_the_ports_and_ends_sessions() {
    let net = start_server("\"generic\"");
    let place = place(&net, "d.example").await;
    let dns = net.dns();
    let mut client = Client::greet(&net, "d.example").await;
    let stats = net.stop();
    assert_eq!(stats.sessions, 1);
    assert!(TcpStream::connect(place).await.is_err());
    assert!(std::net::UdpSocket::bind(dns).is_ok());
    let mut rest = Vec::new();
    assert!(timeout(PATIENCE, client.stream.read_to_end(&mut rest)).await.is_ok());
}
