//! Many simultaneous sessions, many recipients, and the small cost of an idle session.

use crate::common::{Client, PATIENCE, place, start};
use mailnet::Running;
use std::net::SocketAddr;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    task::JoinSet,
    time::timeout,
};

fn net() -> Running {
    start(
        "[[group]]\nname = \"d{n}.example\"\ncount = 20\nmailboxes.ok = [\"50% user-#\"]\n\
         server = \"generic\"\n",
    )
}

async fn all_places(net: &Running) -> Vec<SocketAddr> {
    let mut places = Vec::new();
    for n in 1..=20 {
        places.push(place(net, &format!("d{n}.example")).await);
    }
    places
}

#[tokio::test]
async fn two_thousand_sessions_stand_at_once() {
    const SESSIONS: usize = 2000;
    // Both ends are files of this process.
    assert!(mailnet::raise_open_files().is_none_or(|files| files > 2 * SESSIONS as u64 + 100));
    let net = net();
    let places = all_places(&net).await;
    let mut clients = Vec::new();
    for n in 0..SESSIONS {
        clients.push(Client::to(places[n % places.len()]).await);
    }
    for client in &mut clients {
        assert!(client.reply().await.starts_with("220"));
    }
    let stats = net.stats();
    assert_eq!((stats.sessions_open, stats.sessions_peak), (SESSIONS as u64, SESSIONS as u64));
    for client in &mut clients {
        assert!(client.say("EHLO c.example").await.starts_with("250"));
    }
    for client in &mut clients {
        assert!(client.say("QUIT").await.starts_with("221"));
    }
    assert!(net.stats().violations.is_empty());
}

/// Asks about many recipients in groups; returns the numbers of accepted and refused ones.
async fn ask(place: SocketAddr, domain: String, groups: usize, size: usize) -> (usize, usize) {
    let mut client = Client::to(place).await;
    assert!(client.reply().await.starts_with("220"));
    assert!(client.say("EHLO c.example").await.starts_with("250"));
    let mut stream = client.stream;
    let mut group = "RSET\r\nMAIL FROM:<>\r\n".to_owned();
    for n in 0..size {
        group.push_str(&format!("RCPT TO:<user-{n}@{domain}>\r\n"));
    }
    let mut buffer = vec![0; 64 * 1024];
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..groups {
        stream.write_all(group.as_bytes()).await.expect("sends");
        let mut replies = Vec::new();
        while replies.iter().filter(|&&byte| byte == b'\n').count() < size + 2 {
            let bytes = stream.read(&mut buffer).await.expect("replies");
            assert!(bytes > 0, "the server hung up");
            replies.extend_from_slice(&buffer[..bytes]);
        }
        accepted +=
            replies.split(|&byte| byte == b'\n').filter(|line| line.starts_with(b"250 2.1.5")).count();
        refused += replies.split(|&byte| byte == b'\n').filter(|line| line.starts_with(b"550 5.1.1")).count();
    }
    (accepted, refused)
}

#[tokio::test]
async fn a_hundred_thousand_recipients_are_answered() {
    let net = net();
    let mut tasks = JoinSet::new();
    for (n, place) in all_places(&net).await.into_iter().enumerate() {
        tasks.spawn(ask(place, format!("d{}.example", n + 1), 50, 100));
    }
    let (mut accepted, mut refused) = (0, 0);
    timeout(PATIENCE, async {
        while let Some(done) = tasks.join_next().await {
            let (more, less) = done.expect("a client");
            accepted += more;
            refused += less;
        }
    })
    .await
    .expect("in time");
    assert_eq!(accepted + refused, 100_000);
    assert!((45_000..55_000).contains(&accepted), "{accepted}");
    let stats = net.stats();
    assert_eq!((stats.rcpt, stats.rcpt_accepted, stats.mail), (100_000, accepted as u64, 1000));
    assert!(stats.violations.is_empty(), "{stats:?}");
}
