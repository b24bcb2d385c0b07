//! Questions that DNS alone answers, against the mail internet: what comes out, how long it takes, and that no mail
//! server hears of them.

mod support;

use engine::proto::address::Domain;
use engine::{MailHosts, Outage};
use std::time::{Duration, Instant};
use support::{engine, world};

const WORLD: &str = r#"
[[domain]]
name = "ok.example"
mx = 2
[[domain]]
name = "implicit.example"
mx = "implicit"
[[domain]]
name = "null.example"
mx = "null"
[[domain]]
name = "none.example"
mx = "none"
[[domain]]
name = "nxdomain.example"
dns = "nxdomain"
[[domain]]
name = "ghost.example"
mx = ["10 mx.ghost.example"]
[[host]]
name = "mx.ghost.example"
dns = "nxdomain"
[[domain]]
name = "refused-connections.example"
mx = ["10 mx.down.example"]
[[host]]
name = "mx.down.example"
state = "refused"
[[domain]]
name = "servfail.example"
dns = "servfail"
[[domain]]
name = "silent.example"
dns = "timeout"
"#;

fn domain(name: &str) -> Domain {
    Domain::parse(name).expect("a domain")
}

/// Longer than anything here may take.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn mail_hosts_are_told_by_dns_alone() {
    let net = world(WORLD);
    let engine = engine(net.dns(), net.smtp_port());
    let client = engine.client(1);
    for round in 0..2 {
        for (name, expected) in [
            ("ok.example", MailHosts::Seen),
            ("implicit.example", MailHosts::Seen),
            ("refused-connections.example", MailHosts::Seen),
            ("null.example", MailHosts::Absent),
            ("none.example", MailHosts::Absent),
            ("nxdomain.example", MailHosts::Absent),
            ("never-heard-of.example", MailHosts::Absent),
            ("ghost.example", MailHosts::Absent),
            ("servfail.example", MailHosts::Unknown),
        ] {
            let began = Instant::now();
            let answer = client.mail_hosts(domain(name)).expect("room").answer_blocking(PATIENCE);
            assert_eq!(answer, Some(Ok(expected)), "{name} in round {round}");
            assert!(began.elapsed() < Duration::from_secs(1), "{name}: {:?}", began.elapsed());
        }
    }
    engine.stop();
    assert_eq!(net.stop().sessions, 0, "a mail server was contacted");
}

#[test]
fn a_silent_domain_costs_a_few_seconds_and_is_no_outage() {
    let net = world(WORLD);
    let engine = engine(net.dns(), net.smtp_port());
    let client = engine.client(1);
    // The resolver has answered: the silence is the domain's.
    for name in ["a.example", "b.example", "c.example", "ok.example"] {
        let told = client.mail_hosts(domain(name)).expect("room").answer_blocking(PATIENCE);
        assert!(matches!(told, Some(Ok(_))), "{told:?}");
    }
    let began = Instant::now();
    let answer = client.mail_hosts(domain("silent.example")).expect("room").answer_blocking(PATIENCE);
    assert_eq!(answer, Some(Ok(MailHosts::Unknown)));
    assert!(began.elapsed() < Duration::from_millis(3800), "{:?}", began.elapsed());
    engine.stop();
}

#[test]
fn without_a_resolver_it_is_an_outage() {
    // A socket that hears and says nothing.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let engine = engine(silent.local_addr().expect("an address"), 25);
    let client = engine.client(1);
    let began = Instant::now();
    let asked: Vec<_> =
        (0..40).map(|n| client.mail_hosts(domain(&format!("d{n}.example"))).expect("room")).collect();
    for pending in asked {
        assert_eq!(pending.answer_blocking(PATIENCE), Some(Err(Outage::Unavailable)));
    }
    assert!(began.elapsed() < Duration::from_millis(3800), "{:?}", began.elapsed());
    engine.stop();
}

#[test]
fn what_is_under_way_is_answered_when_the_engine_stops() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let engine = engine(silent.local_addr().expect("an address"), 25);
    let client = engine.client(1);
    let pending = client.mail_hosts(domain("a.example")).expect("room");
    std::thread::sleep(Duration::from_millis(100));
    engine.stop();
    assert_eq!(pending.answer_blocking(Duration::from_secs(1)), Some(Err(Outage::Stopping)));
    assert!(client.mail_hosts(domain("a.example")).is_err());
}
