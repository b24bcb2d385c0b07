//! A server that offers STARTTLS, but closes the connection at STARTTLS or during the TLS handshake.

use crate::support;
use engine::config::{EngineConfig, Pace};
use engine::proto::verdict::Reason;
use engine::{Engine, Priority};

/// Enough single checks for several sessions of the route at the same time.
const CHECKS: u64 = 200;

/// The greeting comes late, so several sessions begin before the first one has failed.
#[test]
fn sessions_that_fail_at_starttls_at_the_same_time_leave_the_route_in_use() {
    for at in ["starttls", "tls"] {
        let net = support::world(&format!(
            r#"
            [[personality]]
            name = "late"
            like = "generic"
            banner_delay_ms = 200
            [[domain]]
            name = "plain.example"
            server = {{ personality = "late", faults = [{{ at = "{at}", does = "close" }}] }}
            mailboxes.ok = ["user-#"]
            "#
        ));
        let config = support::config(net.dns(), net.smtp_port(), Pace::Lab);
        let engine = Engine::start(EngineConfig { shards: 1, ..config }).expect("the engine starts");
        let client = engine.client(CHECKS as usize);
        for n in 0..CHECKS {
            support::submit(&client, n, &format!("user-{n}@plain.example"), Priority::Single);
        }
        for _ in 0..CHECKS {
            let finding = support::answer(&client).result.expect("no outage");
            assert_eq!(finding.reason, Reason::MailboxExists, "{at}: {}", finding.rule);
        }
        engine.stop();
        assert!(net.stop().misdeeds > 1, "{at}: several sessions failed");
    }
}
