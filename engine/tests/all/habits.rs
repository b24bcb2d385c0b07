//! Servers that differ from the standards, one by one and two at a time: what a session finds out is used by the next ones, and each
//! address gets its verdict.

use crate::support::{engine, request, world};
use engine::Priority;
use engine::config::Pace;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// A habit with the keys of a personality, and a fault.
const HABITS: [(&str, &str, &str); 8] = [
    ("one-recipient", "session_rcpt_max = 1", ""),
    ("two-recipients", "session_rcpt_max = 2", ""),
    ("no-rset", "", "{ at = \"rset\", does = \"hang\" }"),
    ("first-only", "first_only = true", ""),
    ("one-refusal", "errors_max = 1", ""),
    ("hangs-up", "errors_max = 1\nhangs_up = true", ""),
    ("greets-once", "greets_once = true", ""),
    ("one-in-a-transaction", "rcpt_max = 1", ""),
];
const EXISTING: [&str; 5] = ["anna", "berta", "carl", "dora", "emil"];

/// The number of addresses at each server.
fn scenario() -> (String, Vec<String>) {
    let (mut text, mut domains) = (String::new(), Vec::new());
    for (n, one) in HABITS.iter().enumerate() {
        for (m, other) in HABITS.iter().enumerate().skip(n) {
            // The answer to a second EHLO would be the one refusal that such a server allows.
            if other.0 == "greets-once" && one.1.starts_with("errors_max") {
                continue;
            }
            let name = if n == m { one.0.to_owned() } else { format!("{}-{}", one.0, other.0) };
            let keys = if n == m { vec![one.1] } else { vec![one.1, other.1] };
            if n != m && !one.1.is_empty() && one.1.split(" = ").next() == other.1.split(" = ").next() {
                continue;
            }
            let fault = if one.2.is_empty() { other.2 } else { one.2 };
            writeln!(text, "[[personality]]\nname = \"{name}\"\nlike = \"postfix\"\n{}", keys.join("\n"))
                .expect("text");
            writeln!(
                text,
                "[[domain]]\nname = \"{name}.example\"\nserver = {{ personality = \"{name}\", faults = [{fault}] }}\n\
                 mailboxes.ok = [{}]",
                EXISTING.map(|local| format!("\"{local}\"")).join(", ")
            )
            .expect("text");
            domains.push(format!("{name}.example"));
        }
    }
    (text, domains)
}

#[test]
fn each_address_gets_its_verdict_whatever_the_habits_of_its_host() {
    let (text, domains) = scenario();
    for priority in [Priority::Single, Priority::List] {
        let net = world(&text);
        let engine = engine(net.dns(), net.smtp_port(), Pace::Lab);
        let client = engine.client(256);
        let begun = Instant::now();
        let mut rows = Vec::new();
        for domain in &domains {
            for (n, local) in EXISTING.iter().enumerate() {
                rows.push((format!("{local}@{domain}"), "mailbox_exists"));
                rows.push((format!("nobody-{n}@{domain}"), "mailbox_not_found"));
            }
        }
        let (mut sent, mut answered, mut wrong) = (0, 0, Vec::new());
        while answered < rows.len() {
            while sent < rows.len() && client.submit(request(sent as u64, &rows[sent].0, priority)).is_ok() {
                sent += 1;
            }
            assert!(begun.elapsed() < Duration::from_mins(2), "{answered} of {} answers", rows.len());
            let Some(answer) = client.answer_blocking(Duration::from_secs(1)) else { continue };
            answered += 1;
            let (address, truth) = &rows[answer.ticket as usize];
            let said = answer.result.as_ref().map_or("outage", |finding| finding.reason.as_str());
            if said != *truth {
                wrong.push(format!("{address}: {said}, {truth} is true\n{}", answer.trace.join("\n")));
            }
        }
        println!("{priority:?}: {} rows in {:?}", rows.len(), begun.elapsed());
        let names: Vec<&str> = wrong.iter().filter_map(|text| text.lines().next()).collect();
        assert!(wrong.is_empty(), "{priority:?}, {} rows: {names:#?}\n{}", wrong.len(), wrong.join("\n\n"));
        engine.stop();
    }
}
