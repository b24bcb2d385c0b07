//! An outage on our side: when it begins, that addresses get no verdicts because of it, and that it ends by itself.

use crate::support::{self, engine, world};
use engine::config::Pace;
use engine::{Client, Outage, Priority};
use std::fmt::Write;
use std::time::{Duration, Instant};

/// The answer about one address: its reason, or a name for the outage.
fn ask(client: &Client, address: &str) -> &'static str {
    match support::ask(client, address, Priority::Single).result {
        Ok(finding) => finding.reason.as_str(),
        Err(Outage::Unavailable) => "unavailable",
        Err(Outage::SiteFull) => "crowded",
        Err(Outage::OverBudget { .. }) => "over budget",
        Err(Outage::Stopping) => "stopping",
    }
}

/// One domain with a mailbox, one that takes no mail, and 20 whose hosts refuse connections.
fn mostly_refused() -> mailnet::Running {
    let mut text = String::from(
        "[[domain]]\nname = \"ok.example\"\nmailboxes.ok = [\"alice\"]\n[[domain]]\nname = \"null.example\"\nmx = \"null\"\n",
    );
    for n in 0..20 {
        let (domain, host) = (format!("d{n}.example"), format!("mx.d{n}.example"));
        write!(text, "[[domain]]\nname = \"{domain}\"\nmx = [\"10 {host}\"]\n").expect("text");
        write!(text, "[[host]]\nname = \"{host}\"\nstate = \"refused\"\n").expect("text");
    }
    world(&text)
}

#[test]
fn many_sites_in_vain_are_an_outage_until_one_is_reached() {
    let net = mostly_refused();
    let engine = engine(net.dns(), net.smtp_port(), Pace::Lab);
    let client = engine.client(8);
    for n in 0..12 {
        assert_eq!(ask(&client, &format!("a@d{n}.example")), "unverifiable", "hosts are down at times");
    }
    std::thread::sleep(Duration::from_millis(15_200));
    assert_eq!(ask(&client, "a@d12.example"), "unavailable");
    let began = Instant::now();
    assert_eq!(ask(&client, "a@d13.example"), "unavailable");
    assert_eq!(ask(&client, "a@d0.example"), "unavailable");
    assert!(began.elapsed() < Duration::from_millis(500), "nobody waits for it");
    assert_eq!(ask(&client, "a@mailinator.com"), "disposable", "what needs no server is answered");
    assert_eq!(ask(&client, "a@null.example"), "mailbox_not_found");

    // During the outage, the engine still tries a host from time to time. The first host that it reaches ends the outage.
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(ask(&client, "alice@ok.example"), "mailbox_exists");
    assert_eq!(ask(&client, "b@ok.example"), "mailbox_not_found");
    assert_eq!(ask(&client, "a@d14.example"), "unverifiable");
    assert_eq!(ask(&client, "a@d0.example"), "unverifiable");
    engine.stop();
}

#[test]
fn the_first_rows_that_an_outage_hits_get_no_verdict() {
    let net = mostly_refused();
    let engine = engine(net.dns(), net.smtp_port(), Pace::Lab);
    let client = engine.client(64);
    assert_eq!(ask(&client, "alice@ok.example"), "mailbox_exists");
    for priority in [Priority::List, Priority::Batch] {
        (0..20).for_each(|n| support::submit(&client, n, &format!("a@d{n}.example"), priority));
        for _ in 0..20 {
            let answer = support::answer(&client);
            assert!(matches!(answer.result, Err(Outage::Unavailable)), "{priority:?}: {answer:?}");
        }
        std::thread::sleep(Duration::from_millis(1100));
        assert_eq!(ask(&client, "alice@ok.example"), "mailbox_exists");
    }
    engine.stop();
}
