//! Servers that differ from the standards, one by one and two at a time: what a session finds out is used by the next ones, and each
//! address gets its verdict.

use crate::support::{engine, request, world};
use engine::Priority;
use engine::config::Pace;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// A habit with the keys of a personality, and a fault.
const HABITS: [(&str, &str, &str); 11] = [
    ("one-recipient", "session_rcpt_max = 1", ""),
    ("two-recipients", "session_rcpt_max = 2", ""),
    ("no-rset", "", "{ at = \"rset\", does = \"hang\" }"),
    ("first-only", "first_only = true", ""),
    ("one-refusal", "errors_max = 1", ""),
    ("hangs-up", "errors_max = 1\nhangs_up = true", ""),
    ("greets-once", "greets_once = true", ""),
    ("one-in-a-transaction", "rcpt_max = 1", ""),
    // After EHLO and EHLO over TLS, this is the one that shows whether the replies are in step.
    ("ends-at-ehlo", "", "{ at = \"ehlo\", does = \"close\", from = 3 }"),
    (
        "refuses-ehlo",
        "",
        "{ at = \"ehlo\", does = \"reply\", text = \"502 5.5.1 Command not implemented\", from = 3 }",
    ),
    (
        "one-mail",
        "",
        "{ at = \"mail\", does = \"reply\", text = \"452 4.5.3 Only one transaction\", from = 2 }",
    ),
];

/// The scenario, and the domains of its servers.
fn scenario() -> (String, Vec<String>) {
    let (mut text, mut domains) = (String::new(), Vec::new());
    for (n, one) in HABITS.iter().enumerate() {
        for (m, other) in HABITS.iter().enumerate().skip(n) {
            // The answer to a second EHLO would be the one refusal that such a server allows.
            if matches!(other.0, "greets-once" | "refuses-ehlo") && one.1.starts_with("errors_max") {
                continue;
            }
            let name = if n == m { one.0.to_owned() } else { format!("{}-{}", one.0, other.0) };
            let keys = if n == m { vec![one.1] } else { vec![one.1, other.1] };
            if n != m && !one.1.is_empty() && one.1.split(" = ").next() == other.1.split(" = ").next() {
                continue;
            }
            let faults = if n == m { vec![one.2] } else { vec![one.2, other.2] };
            let faults: Vec<&str> = faults.into_iter().filter(|fault| !fault.is_empty()).collect();
            writeln!(text, "[[personality]]\nname = \"{name}\"\nlike = \"postfix\"\n{}", keys.join("\n"))
                .expect("text");
            writeln!(
                text,
                "[[domain]]\nname = \"{name}.example\"\nserver = {{ personality = \"{name}\", faults = [{}] }}\n\
                 mailboxes.ok = [\"user-#\"]",
                faults.join(", ")
            )
            .expect("text");
            domains.push(format!("{name}.example"));
        }
    }
    (text, domains)
}

/// Asks about so many existing and so many unknown addresses at each server, and checks that each verdict is right and comes within
/// `limit`.
fn ask_about(each: usize, priority: Priority, limit: Duration) {
    let (text, domains) = scenario();
    let net = world(&text);
    let engine = engine(net.dns(), net.smtp_port(), Pace::Lab);
    let client = engine.client(256);
    let begun = Instant::now();
    let mut rows = Vec::new();
    for domain in &domains {
        for n in 0..each {
            rows.push((format!("user-{n}@{domain}"), "mailbox_exists"));
            rows.push((format!("nobody-{n}@{domain}"), "mailbox_not_found"));
        }
    }
    let (mut sent, mut answered, mut wrong) = (0, 0, Vec::new());
    while answered < rows.len() {
        while sent < rows.len() && client.submit(request(sent as u64, &rows[sent].0, priority)).is_ok() {
            sent += 1;
        }
        assert!(begun.elapsed() < limit, "{answered} of {} answers", rows.len());
        let Some(answer) = client.answer_blocking(Duration::from_secs(1)) else { continue };
        answered += 1;
        let (address, truth) = &rows[answer.ticket as usize];
        let said = answer.result.as_ref().map_or("outage", |finding| finding.reason.as_str());
        if said != *truth {
            wrong.push(format!("{address}: {said}, {truth} is true\n{}", answer.trace.join("\n")));
        }
    }
    let names: Vec<&str> = wrong.iter().filter_map(|text| text.lines().next()).collect();
    assert!(wrong.is_empty(), "{priority:?}, {} rows: {names:#?}\n{}", wrong.len(), wrong.join("\n\n"));
    engine.stop();
}

#[test]
fn each_address_gets_its_verdict_whatever_the_habits_of_its_host() {
    ask_about(5, Priority::Single, Duration::from_mins(2));
    ask_about(5, Priority::List, Duration::from_mins(2));
    if std::env::var_os("MAILPROBE_TEST_ALL").is_some() {
        ask_about(2, Priority::Single, Duration::from_secs(15));
        ask_about(200, Priority::List, Duration::from_mins(10));
    }
}
