//! The clock that tests can move, and its effects.

use crate::http::server::{Server, mailprobe};
use serde_json::json;

/// Moves the server's clock and returns its time.
pub fn advance(server: &Server, ms: u64) -> u64 {
    server.administer(&["clock", "advance", &ms.to_string()]).trim().parse().unwrap()
}

/// The end of the period, to the millisecond.
fn period_end(server: &Server) -> u64 {
    let shown: serde_json::Value =
        serde_json::from_str(&server.administer(&["account", "show", "default", "--json"])).unwrap();
    shown["account"]["period_end"].as_u64().unwrap_or_else(|| panic!("{shown}"))
}

#[test]
fn a_period_rolls_when_its_end_is_reached() {
    let server = Server::start(&["--test-clock"]);
    assert!(server.log().contains("--test-clock is for tests"), "{}", server.log());
    let got =
        server.post(&server.live, "/v1/verify", &json!({ "email": "catch_all@example.com" }).to_string());
    assert_eq!(got.json()["credits_remaining"], 99);
    for _ in 0..2 {
        let end = period_end(&server);
        let told = server.get(&server.live, "/v1/account").json();
        // As close to the end as a slow machine allows.
        let margin = 20_000;
        let shown = advance(&server, end - advance(&server, 0) - margin);
        assert!((end - margin..end).contains(&shown), "{shown} is not just before {end}");
        let before = server.get(&server.live, "/v1/account").json();
        if advance(&server, 0) < end {
            assert_eq!(before, told, "nothing has changed before the end");
        }
        advance(&server, margin);
        let after = server.get(&server.live, "/v1/account").json();
        assert_eq!((&after["credits_remaining"], &after["credits_total"]), (&json!(100), &json!(100)));
        assert_ne!(after["period_end"], told["period_end"]);
        let next = period_end(&server);
        assert!((28..=31).contains(&((next - end) / 86_400_000)), "{end} {next}");
    }
}

#[test]
fn a_real_clock_is_not_moved() {
    let server = Server::start(&[]);
    let data = server.data();
    let refused = |data: &str| {
        let output = mailprobe(["clock", "advance", "1000", "--data", data]);
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let line = refused(data.to_str().unwrap());
    assert!(line.contains("only on a server that was started with --test-clock"), "{line}");
    let help = String::from_utf8(mailprobe(["serve", "--help"]).stdout).unwrap();
    assert!(!help.contains("test-clock"));
}
