//! Domains that count as disposable because of their mail hosts, and listed domains that do not.

use crate::support::{self, world};
use engine::config::Pace;
use engine::proto::address::Domain;
use engine::proto::lists::MailService;
use engine::{MailHosts, Priority};
use std::fmt::Write;
use std::time::Duration;

/// Hosts of throw-away services. The second last is below a domain of both public lists; the last has a name of its domain, and an
/// address in the table (which mailnet gives in DNS alone).
const THROWN: [&str; 20] = [
    "mail.mailinator.com",
    "mail2.mailinator.com",
    "smtp.yopmail.com",
    "in.mail.tm",
    "mx.mail-data.net",
    "mail.wabblywabble.com",
    "mail.wallywatts.com",
    "emailfake.com",
    "generator.email",
    "mx.discard.email",
    "mx1.mytemp.email",
    "recv3.erinn.biz",
    "mx3.emaildbox.pro",
    "mx2.den.yt",
    "prd-smtp.10minutemail.com",
    "hi.mail.cx",
    "mxb.tempamail.com",
    "mail.temporary-mail.net",
    "mx.sharklasers.com",
    "mail.thrown19.example",
];

/// Hosts of providers where firms buy mail.
const BOUGHT: [&str; 20] = [
    "aspmx.l.google.com",
    "alt1.aspmx.l.google.com",
    "firm-example.mail.protection.outlook.com",
    "firm-example.a-v1.mx.microsoft",
    "mx.zoho.eu",
    "mail.protonmail.ch",
    "in1-smtp.messagingengine.com",
    "mx.yandex.net",
    "emx.mail.ru",
    "mx00.ionos.de",
    "mx01.kundenserver.de",
    "mxbiz1.qq.com",
    "mxa-00000001.gslb.pphosted.com",
    "eu-smtp-inbound-1.mimecast.com",
    "d1.ess.barracudanetworks.com",
    "esa1.hc1-2.eu.iphmx.com",
    "mx10.mailspamprotection.com",
    "smtp.secureserver.net",
    "mx1.emailsrvr.com",
    "spool.mail.gandi.net",
];

/// Domains that one public list alone has.
const LISTED: [&str; 4] = ["0-30-24.com", "0-attorney.com", "00-tv.com", "0-mailer.dynv6.net"];

#[test]
fn mail_hosts_decide_about_domains_that_no_list_or_one_alone_has() {
    let mut text = String::new();
    let mut add = |domain: &str, host: &str, addresses: &str| {
        writeln!(text, "[[domain]]\nname = \"{domain}\"\nmx = [\"10 {host}\"]\nmailboxes.ok = [\"a\"]")
            .expect("text");
        writeln!(text, "[[host]]\nname = \"{host}\"\n{addresses}").expect("text");
    };
    for (n, host) in THROWN.iter().enumerate() {
        let address = if n == 19 { "addresses = [\"91.196.52.205\"]" } else { "" };
        add(&format!("thrown{n}.example"), host, address);
    }
    for (n, host) in BOUGHT.iter().enumerate() {
        add(&format!("firm{n}.example"), host, "");
    }
    add(LISTED[0], "mx2.googlemail.com", "");
    add(LISTED[1], "mx.hosting.example", "");
    add(LISTED[2], &format!("mx.{}", LISTED[2]), "");
    add("yopmail.com", "mx3.googlemail.com", "");
    let net = world(&text);
    let mut config = support::config(net.dns(), net.smtp_port(), Pace::Lab);
    config.allow_net.push(engine::config::Network::parse("91.196.52.205/32").expect("a network"));
    let engine = engine::Engine::start(config).expect("the engine starts");
    let client = engine.client(8);
    let told = |domain: &str| {
        let finding =
            support::ask(&client, &format!("a@{domain}"), Priority::Single).result.expect("an outage");
        (finding.reason.as_str(), finding.rule)
    };
    let service = |domain: &str| {
        let pending = client.mail_hosts(Domain::parse(domain).expect("a domain")).expect("room");
        match pending.answer_blocking(Duration::from_secs(20)) {
            Some(Ok(MailHosts::Seen(service))) => service,
            other => panic!("{domain}: {other:?}"),
        }
    };
    for n in 0..20 {
        let domain = format!("thrown{n}.example");
        assert_eq!(told(&domain), ("disposable", "mx_disposable"), "{domain}");
        assert!(matches!(service(&domain), MailService::Disposable(_)), "{domain}");
    }
    let before = net.stats().sessions;
    assert_eq!(before, 0, "a mail server was contacted");
    for n in 0..20 {
        let domain = format!("firm{n}.example");
        assert_eq!((told(&domain).0, service(&domain)), ("mailbox_exists", MailService::OfFirms), "{domain}");
    }
    for (domain, reason) in [
        (LISTED[0], "mailbox_exists"),
        (LISTED[1], "disposable"),
        (LISTED[2], "disposable"),
        // This name does not exist in mailnet.
        (LISTED[3], "disposable"),
        ("yopmail.com", "disposable"),
    ] {
        assert_eq!(told(domain).0, reason, "{domain}");
    }
    engine.stop();
}
