//! Hosts that are up, refused, black holes, or have several addresses, with both kinds of listening.

use crate::common::{Client, End, addresses, start};
use mailnet::Running;
use std::{io::ErrorKind, net::SocketAddr, time::Duration};
use tokio::{net::TcpStream, time::timeout};

const HOSTS: &str = r#"
[[host]]
name = "up.example"
[[host]]
name = "refused.example"
state = "refused"
[[host]]
name = "hole.example"
state = "blackhole"
[[host]]
name = "half.example"
dead_addresses = ["127.9.0.1"]
addresses = ["127.9.0.2", "127.9.0.3"]
[[host]]
name = "v6.example"
addresses = ["::1"]
[[host]]
name = "private.example"
addresses = ["10.0.0.1", "127.9.0.4"]
"#;

async fn to(net: &Running, host: &str, at: usize) -> SocketAddr {
    SocketAddr::new(addresses(net, host).await[at], net.smtp_port())
}

async fn banner(address: SocketAddr) -> String {
    Client::to(address).await.reply().await
}

async fn serves_and_times_out(net: &Running) {
    assert!(banner(to(net, "up.example", 0).await).await.starts_with("220 up.example"));
    assert!(banner(to(net, "half.example", 1).await).await.starts_with("220 half.example"));
    assert!(banner(to(net, "half.example", 2).await).await.starts_with("220 half.example"));
    assert!(banner(to(net, "v6.example", 0).await).await.starts_with("220 v6.example"));
    assert!(banner(to(net, "private.example", 1).await).await.starts_with("220 private.example"));
    let hole = TcpStream::connect(to(net, "hole.example", 0).await);
    assert!(timeout(Duration::from_millis(400), hole).await.is_err(), "nothing answers");
}

#[tokio::test]
async fn a_socket_for_each_address() {
    let net = start(HOSTS);
    serves_and_times_out(&net).await;
    for (host, at) in [("refused.example", 0), ("half.example", 0)] {
        let error = TcpStream::connect(to(&net, host, at).await).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{host}");
    }
    assert_eq!(net.stats().sessions, 5);
}

#[tokio::test]
async fn one_socket_for_all() {
    let net = start(&format!("[listen]\naddresses = \"wildcard\"\n{HOSTS}"));
    serves_and_times_out(&net).await;
    // The kernel accepts the connection, so the reset happens at connect or at the first read.
    for host in ["refused.example", "half.example"] {
        match TcpStream::connect(to(&net, host, 0).await).await {
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{host}"),
            Ok(stream) => {
                let (said, end) = Client { stream, held: Vec::new() }.end().await;
                assert_eq!((said.as_slice(), end), (b"".as_slice(), End::Reset), "{host}");
            }
        }
    }
    assert_eq!(net.stats().sessions, 5, "refused connections are no sessions");
}

#[tokio::test]
async fn many_addresses_are_served_by_one_socket() {
    let net = start("[[group]]\nname = \"d{n}.example\"\ncount = 1500\nmailboxes.ok = [\"a\"]\n");
    for n in [1, 2, 255, 256, 700, 1024, 1025, 1500] {
        let domain = format!("d{n}.example");
        let mut client = Client::connect(&net, &domain).await;
        assert!(client.reply().await.starts_with(&format!("220 mx1.{domain}")));
    }
}

#[tokio::test]
async fn two_nets_run_side_by_side() {
    let (first, second) = (start(HOSTS), start(HOSTS));
    assert_ne!(first.smtp_port(), second.smtp_port());
    assert!(banner(to(&first, "up.example", 0).await).await.starts_with("220"));
    assert!(banner(to(&second, "up.example", 0).await).await.starts_with("220"));
    let taken = mailnet::Scenario::parse(HOSTS).unwrap().with_smtp_port(first.smtp_port());
    assert!(matches!(mailnet::Mailnet::start(taken), Err(mailnet::StartError::Bind(_))));
}
