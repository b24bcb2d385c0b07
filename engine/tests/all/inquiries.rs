//! Inquiries, which DNS alone answers: their answers, their time, and that no mail server gets a connection.

use crate::support::{engine, world};
use engine::config::Pace;
use engine::proto::address::Domain;
use engine::proto::facts::{DmarcPolicy, DnsFacts};
use engine::proto::lists::MailService;
use engine::{MailHosts, Outage};
use std::time::{Duration, Instant};

const WORLD: &str = include_str!("../worlds/hosts.toml");

fn domain(name: &str) -> Domain {
    Domain::parse(name).expect("a domain")
}

/// Longer than any answer here may take.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn mail_hosts_are_told_by_dns_alone() {
    let net = world(WORLD);
    let engine = engine(net.dns(), net.smtp_port(), Pace::Lab);
    let client = engine.client(1);
    for round in 0..2 {
        for (name, expected) in [
            ("ok.example", MailHosts::Seen(MailService::Own)),
            ("implicit.example", MailHosts::Seen(MailService::Unknown)),
            ("refused-connections.example", MailHosts::Seen(MailService::Unknown)),
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
    let engine = engine(net.dns(), net.smtp_port(), Pace::Lab);
    let client = engine.client(1);
    // These answers show that the resolver works, so only the last domain is silent.
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

const FACTS: &str = include_str!("../worlds/facts.toml");

#[test]
fn facts_are_gathered() {
    let net = world(FACTS);
    let engine = engine(net.dns(), net.smtp_port(), Pace::Lab);
    let client = engine.client(1);
    let hosts = |names: &[&str]| names.iter().map(|name| Box::from(*name)).collect::<Vec<Box<str>>>();
    let bare = DnsFacts { provider: Some("other"), ..DnsFacts::default() };
    for (name, expected) in [
        (
            "full.example",
            Some(DnsFacts {
                provider: Some("other"),
                mx_hosts: hosts(&["mx1.full.example", "mx2.full.example"]),
                service: MailService::Own,
                spf: true,
                dmarc_policy: Some(DmarcPolicy::Reject),
                dkim_selectors: vec!["s1", "google"],
                bimi: true,
                ptr: true,
            }),
        ),
        // The DMARC and BIMI records of the organizational domain also apply to this subdomain.
        (
            "sub.full.example",
            Some(DnsFacts {
                mx_hosts: hosts(&["sub.full.example"]),
                dmarc_policy: Some(DmarcPolicy::Quarantine),
                bimi: true,
                ptr: true,
                ..bare.clone()
            }),
        ),
        (
            "nameless.example",
            Some(DnsFacts { mx_hosts: hosts(&["mx.nameless.example"]), service: MailService::Own, ..bare }),
        ),
        (
            "hosted.example",
            Some(DnsFacts {
                provider: Some("google"),
                mx_hosts: hosts(&["aspmx.l.google.com"]),
                service: MailService::OfFirms,
                ptr: true,
                ..DnsFacts::default()
            }),
        ),
        ("null.example", Some(DnsFacts { spf: true, ..DnsFacts::default() })),
        ("never-heard-of.example", Some(DnsFacts::default())),
        ("servfail.example", None),
        ("silent.example", None),
    ] {
        let began = Instant::now();
        let answer = client.facts(domain(name)).expect("room").answer_blocking(PATIENCE);
        assert_eq!(answer, Some(Ok(expected)), "{name}");
        let most = if name == "silent.example" { 3800 } else { 1000 };
        assert!(began.elapsed() < Duration::from_millis(most), "{name}: {:?}", began.elapsed());
    }
    engine.stop();
    assert_eq!(net.stop().sessions, 0, "a mail server was contacted");
}

#[test]
fn without_a_resolver_it_is_an_outage() {
    // A socket that receives queries and answers none.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let engine = engine(silent.local_addr().expect("an address"), 25, Pace::Lab);
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
    let engine = engine(silent.local_addr().expect("an address"), 25, Pace::Lab);
    let client = engine.client(1);
    let pending = client.mail_hosts(domain("a.example")).expect("room");
    std::thread::sleep(Duration::from_millis(100));
    engine.stop();
    assert_eq!(pending.answer_blocking(Duration::from_secs(1)), Some(Err(Outage::Stopping)));
    assert!(client.mail_hosts(domain("a.example")).is_err());
}
