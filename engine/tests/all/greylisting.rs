//! A server that greylists every recipient, also control recipients.

use crate::support::{self, world};
use engine::config::Pace;
use engine::proto::verdict::Reason;
use engine::{Client, Priority};
use std::time::Duration;

const WORLD: &str = r#"
journal = true
[[domain]]
name = "new.example"
greylist_ms = 400
greylist_everyone = true
mailboxes.ok = ["a", "b"]
"#;

fn ask(client: &Client, address: &str) -> (Reason, &'static str) {
    let finding = support::ask(client, address, Priority::List).result.expect("no outage");
    (finding.reason, finding.rule)
}

#[test]
fn the_control_recipient_is_let_in_together_with_the_recipient() {
    let net = world(WORLD);
    let engine = support::engine(net.dns(), net.smtp_port(), Pace::Lab);
    let client = engine.client(8);
    for address in ["a@new.example", "b@new.example", "nobody@new.example"] {
        assert_eq!(ask(&client, address), (Reason::Unverifiable, "greylisted"), "{address}");
    }
    std::thread::sleep(Duration::from_millis(700));
    for (address, expected) in [
        ("a@new.example", (Reason::MailboxExists, "control_refused")),
        ("b@new.example", (Reason::MailboxExists, "control_refused")),
        ("nobody@new.example", (Reason::MailboxNotFound, "unknown")),
    ] {
        assert_eq!(ask(&client, address), expected, "{address}");
    }
    engine.stop();
    let asked = net.journal().asked("new.example");
    let controls: u64 =
        asked.iter().filter(|(name, _)| !["a", "b", "nobody"].contains(&name.as_str())).map(|(_, n)| n).sum();
    assert!(controls <= 8, "control recipients were asked about {controls} times");
}
