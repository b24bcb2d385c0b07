//! Servers that send more replies than they get commands: no reply may count for another recipient, whatever the surplus reply is,
//! wherever it comes and however late.

use crate::support::{answer, ask, engine, request, submit, world};
use engine::config::Pace;
use engine::proto::verdict::Reason;
use engine::{Client, Priority};
use std::fmt::Write;
use std::time::{Duration, Instant};

const PLACES: [&str; 7] = ["banner", "ehlo", "starttls", "mail", "rcpt", "rset", "quit"];
const TEXTS: [&str; 6] = [
    "220 2.0.0 hello",
    "250 2.1.5 Ok",
    "354 go ahead",
    "421 4.3.2 closing",
    "550 5.1.1 no such user",
    "554 5.7.1 no",
];
/// The name of a timing, with the keys of a fault.
const TIMES: [&str; 5] = [
    "does = \"early\"",
    "does = \"early\", ms = 2",
    "does = \"late\", ms = 2",
    "does = \"early\", ms = 30",
    "does = \"late\", ms = 3000",
];
/// A server with TLS that repeats the address in its refusals, and two that do neither, with and without PIPELINING.
const SERVERS: [&str; 3] = ["postfix", "plain", "plain-one"];
const MAILBOXES: [(&str, &str); 4] = [
    ("anna", "mailbox_exists"),
    ("gone", "mailbox_not_found"),
    ("berta", "mailbox_exists"),
    ("closed", "mailbox_disabled"),
];

const PERSONALITIES: &str = "
[[personality]]
name = \"plain\"
like = \"generic\"
ehlo = [\"PIPELINING\", \"SIZE 10485760\"]
replies = { not_found = \"550 no such user\", ok = \"250 ok\", mail_ok = \"250 ok\" }

[[personality]]
name = \"plain-one\"
like = \"plain\"
ehlo = [\"SIZE 10485760\"]
";

/// With this variable, the test has all combinations of places, replies and times, which takes minutes. Without it, it has one of
/// `SAMPLE`, spread over all of them.
const ALL: &str = "MAILPROBE_TEST_ALL";
const SAMPLE: usize = 7;
/// The longest time for all rows of one kind.
const LIMIT: Duration = Duration::from_mins(15);

/// Each server with its domain, and the same servers without a surplus reply.
fn scenario(priority: Priority) -> (String, Vec<String>, Vec<String>) {
    let (mut text, mut odd, mut sound) = (PERSONALITIES.to_owned(), Vec::new(), Vec::new());
    let all = std::env::var_os(ALL).is_some();
    // Patient work asks again for minutes where each session ends with 421.
    let is_short = |surplus: &str| all || priority == Priority::Single || !surplus.starts_with("421");
    let mut combination = 0;
    let mut add = |names: &mut Vec<String>, server: &str, faults: &str| {
        let name = format!("d{}.example", text.len());
        writeln!(
            text,
            "[[domain]]\nname = \"{name}\"\nserver = {{ personality = \"{server}\", latency_ms = 1{faults} }}\nmailboxes = \
             {{ ok = [\"anna\", \"berta\"], disabled = [\"closed\"] }}"
        )
        .expect("text");
        names.push(name);
    };
    for server in SERVERS {
        add(&mut sound, server, "");
        for (n, place) in PLACES.iter().enumerate() {
            if *place == "starttls" && server != "postfix" {
                continue;
            }
            for (m, surplus) in TEXTS.iter().enumerate() {
                for (k, time) in TIMES.iter().enumerate() {
                    combination += 1;
                    if !is_short(surplus) || !all && combination % SAMPLE != 0 {
                        continue;
                    }
                    let count = 1 + (n + m + k) % 2;
                    let fault =
                        format!("{{ at = \"{place}\", {time}, text = \"{surplus}\", count = {count} }}");
                    add(&mut odd, server, &format!(", faults = [{fault}]"));
                }
            }
        }
    }
    (text, odd, sound)
}

/// Asks about all mailboxes of the domains. Returns those with a wrong answer, and the number of definite ones.
fn wrong(client: &Client, domains: &[String], priority: Priority, exact: bool) -> (Vec<String>, usize) {
    let rows: Vec<(String, &str)> = MAILBOXES
        .iter()
        .flat_map(|(local, reason)| domains.iter().map(move |domain| (format!("{local}@{domain}"), *reason)))
        .collect();
    let (mut wrong, mut definite, mut sent, mut answered) = (Vec::new(), 0, 0, 0);
    let end = Instant::now() + LIMIT;
    while answered < rows.len() {
        while sent < rows.len() && client.submit(request(sent as u64, &rows[sent].0, priority)).is_ok() {
            sent += 1;
        }
        assert!(Instant::now() < end, "{answered} of {} answers", rows.len());
        let Some(answer) = client.answer_blocking(Duration::from_secs(1)) else { continue };
        answered += 1;
        let (address, truth) = &rows[answer.ticket as usize];
        let said = answer.result.as_ref().map_or("outage", |finding| finding.reason.as_str());
        definite += usize::from(said == *truth);
        let is_open = matches!(said, "unverifiable" | "outage") && !exact;
        if said != *truth && !is_open {
            wrong.push(format!("{address}: {said}, {truth} is true\n{}", answer.trace.join("\n")));
        }
    }
    (wrong, definite)
}

#[test]
fn no_reply_counts_for_another_recipient() {
    for priority in [Priority::Single, Priority::Batch, Priority::List] {
        let (text, odd, sound) = scenario(priority);
        let net = world(&text);
        let engine = engine(net.dns(), net.smtp_port(), Pace::Lab);
        let client = engine.client(256);
        let (faults, _) = wrong(&client, &sound, priority, true);
        assert!(faults.is_empty(), "{priority:?}: a server in step loses nothing: {}", faults.join("\n\n"));
        // The second time, the engine knows the servers.
        for _ in 0..2 {
            let (faults, definite) = wrong(&client, &odd, priority, false);
            assert!(faults.is_empty(), "{priority:?}, {} rows: {}", faults.len(), faults[0]);
            println!("{priority:?}: {definite} of {} rows are definite", odd.len() * MAILBOXES.len());
        }
        engine.stop();
    }
}

#[test]
fn the_replies_to_a_whole_group_that_come_twice_count_once() {
    let mut text = PERSONALITIES.to_owned();
    let domains: Vec<String> = (0..24).map(|n| format!("d{n}.example")).collect();
    for (n, domain) in domains.iter().enumerate() {
        let (server, ms, from) = (SERVERS[n % 2], [0, 2, 30, 1000][n / 2 % 4], 1 + n / 8);
        writeln!(
            text,
            "[[domain]]\nname = \"{domain}\"\nserver = {{ personality = \"{server}\", latency_ms = 20, faults = [{{ at = \"mail\", \
             does = \"again\", ms = {ms}, from = {from} }}] }}\nmailboxes = {{ ok = [\"anna\", \"berta\"], disabled = [\"closed\"] }}"
        )
        .expect("text");
    }
    for priority in [Priority::Single, Priority::Batch, Priority::List] {
        let net = world(&text);
        let engine = engine(net.dns(), net.smtp_port(), Pace::Lab);
        let client = engine.client(256);
        for round in 1..=2 {
            let (faults, definite) = wrong(&client, &domains, priority, false);
            assert!(faults.is_empty(), "{priority:?}, {} rows: {}", faults.len(), faults[0]);
            println!("{priority:?}, round {round}: {definite} of {} rows are definite", 4 * domains.len());
        }
        engine.stop();
    }
}

#[test]
fn a_part_of_the_replies_to_a_group_that_comes_twice_counts_once() {
    // Without the reply to MAIL, the replies to a group with two recipients are as many as those to a group with one.
    let mut text = PERSONALITIES.to_owned();
    let domains: Vec<String> = (0..8).map(|n| format!("d{n}.example")).collect();
    for (n, domain) in domains.iter().enumerate() {
        let (server, ms, latency) =
            (SERVERS[n % 2], [0, 1, 2, 1][n / 2], ["0", "2", "[0, 5]", "[0, 3]"][n / 2]);
        writeln!(
            text,
            "[[domain]]\nname = \"{domain}\"\nserver = {{ personality = \"{server}\", latency_ms = {latency}, faults = [{{ at = \"rcpt\", \
             does = \"again\", ms = {ms} }}] }}\nmailboxes.ok = [\"anna\", \"berta\"]"
        )
        .expect("text");
    }
    for priority in [Priority::Single, Priority::Batch, Priority::List] {
        let net = world(&text);
        let engine = engine(net.dns(), net.smtp_port(), Pace::Lab);
        let client = engine.client(256);
        for _ in 0..2 {
            for domain in &domains {
                for (ticket, name) in (0..).zip(["anna", "berta"]) {
                    submit(&client, ticket, &format!("{name}@{domain}"), priority);
                }
            }
            for _ in 0..2 * domains.len() {
                let answer = answer(&client);
                let reason = answer.result.expect("no outage").reason;
                let is_right = matches!(reason, Reason::MailboxExists | Reason::Unverifiable);
                assert!(is_right, "{priority:?}: {}", answer.trace.join("\n"));
            }
        }
        engine.stop();
    }
}

#[test]
fn a_reply_that_names_another_recipient_of_its_transaction_counts_for_nobody() {
    let net = world(
        "
[[personality]]
name = \"swaps\"
like = \"generic\"
replies = { not_found = \"550 5.1.1 <anna@swap.example>: no such user\" }

[[domain]]
name = \"swap.example\"
server = \"swaps\"
mailboxes.ok = [\"anna\", \"berta\"]
",
    );
    let engine = engine(net.dns(), net.smtp_port(), Pace::Lab);
    let client = engine.client(8);
    // The recipient that the reply names comes before, and behind, the one that it answers.
    for names in [["anna", "gone-1", "berta"], ["gone-2", "anna", "berta"]] {
        for (ticket, name) in (0..).zip(names) {
            submit(&client, ticket, &format!("{name}@swap.example"), Priority::List);
        }
        for _ in names {
            let answer = answer(&client);
            let reason = answer.result.expect("no outage").reason;
            assert_eq!(reason, Reason::Unverifiable, "{}", answer.trace.join("\n"));
        }
    }
    engine.stop();
}

#[test]
fn a_surplus_reply_withdraws_the_verdicts_of_the_host() {
    let net = world(&format!(
        "{PERSONALITIES}
[[domain]]
name = \"late.example\"
server = {{ personality = \"plain\", faults = [{{ at = \"rcpt\", does = \"early\", text = \"550 no\", from = 3 }}] }}
mailboxes.ok = [\"anna\", \"berta\"]
"
    ));
    let engine = engine(net.dns(), net.smtp_port(), Pace::Lab);
    let client = engine.client(8);
    let first = ask(&client, "anna@late.example", Priority::Single).result.expect("no outage");
    assert_eq!(first.reason, Reason::MailboxExists);
    let evidence = first.evidence.expect("a verdict by a host");
    assert_eq!(engine.withdrawn()(), [], "nothing speaks against it yet");
    // The same session asks about this one: its third recipient, behind the first one and its control recipient.
    let second = ask(&client, "berta@late.example", Priority::Single);
    let withdrawn: Vec<u64> = engine.withdrawn()().iter().map(|withdrawn| withdrawn.evidence).collect();
    assert!(withdrawn.contains(&evidence), "{withdrawn:?}\n{}", second.trace.join("\n"));
    engine.stop();
}
