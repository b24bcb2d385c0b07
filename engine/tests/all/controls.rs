//! A server accepts an address, but its reply to the control recipient proves nothing. If this reply is not about the mailbox, the
//! finding names it as if it were the reply to the address itself.

use crate::support;
use engine::config::{EngineConfig, Pace};
use engine::proto::address::Address;
use engine::proto::verdict::classify::rules;
use engine::proto::verdict::{Reason, Scope};
use engine::{Client, Engine, Finding, Outage, Priority, Request};
use std::fmt::Write;
use std::time::Duration;

/// Replies that are not about the mailbox, with their scopes.
const REFUSALS: [(&str, Scope); 8] = [
    ("554 5.7.1 Service unavailable; client blocked using zen.spamhaus.org", Scope::Us),
    ("550 5.1.8 Sender address rejected: domain not found", Scope::Sender),
    ("450 4.7.1 Too many connections from your address, try again later", Scope::Us),
    ("530 5.7.0 Authentication required", Scope::Host),
    ("530 5.7.0 Must issue a STARTTLS command first", Scope::Session),
    ("550 5.7.1 Relaying denied", Scope::Host),
    ("450 4.7.1 Greylisted, please try again in some minutes", Scope::Recipient),
    ("451 4.3.0 Temporary failure, try again later", Scope::Host),
];

/// Replies about the mailbox of the control recipient. They say nothing about the accepted address.
const ABOUT_MAILBOX: [&str; 3] =
    ["452 4.2.2 The mailbox is full", "450 4.1.1 User unknown", "550 5.2.1 The mailbox is disabled"];

/// Two domains for each reply. Each has the mailbox alice, and its server gives the reply to all other recipients.
fn world(replies: &[&str]) -> String {
    let mut world = String::new();
    for (n, reply) in replies.iter().enumerate() {
        for name in ["control", "address"] {
            let _ = write!(
                world,
                "[[personality]]\nname = \"{name}-{n}\"\nlike = \"generic\"\nreplies.policy = \"{reply}\"\n\
                 [[domain]]\nname = \"{name}{n}.example\"\nserver = \"{name}-{n}\"\n\
                 mailboxes.ok = [\"alice\"]\nunknown = \"policy\"\n"
            );
        }
    }
    world
}

fn ask(client: &Client, address: &str, priority: Priority) -> Finding {
    let request = Request { observed: true, ..support::request(1, address, priority) };
    client.submit(request).expect("room");
    support::answer(client).result.expect("no outage")
}

/// The rule, the code and the scope of a finding.
fn basis(finding: &Finding) -> (&'static str, Option<(u16, Scope)>) {
    let reply = finding.observed.as_ref().and_then(|observed| observed.reply);
    (finding.rule, reply.map(|reply| (reply.code, reply.scope)))
}

/// Asks about all addresses at once, because a site that pushes back has a pause.
fn ask_all(client: &Client, addresses: Vec<String>, priority: Priority) -> Vec<Finding> {
    for (ticket, address) in (0..).zip(&addresses) {
        let request = Request { observed: true, ..support::request(ticket, address, priority) };
        client.submit(request).expect("room");
    }
    let mut answers: Vec<_> = addresses.iter().map(|_| support::answer(client)).collect();
    answers.sort_by_key(|answer| answer.ticket);
    answers.into_iter().map(|answer| answer.result.expect("no outage")).collect()
}

#[test]
fn a_refusal_of_the_control_recipient_is_named_like_that_of_an_address() {
    let replies = REFUSALS.map(|(reply, _)| reply);
    for priority in [Priority::List, Priority::Single] {
        let net = support::world(&world(&replies));
        let engine = support::engine(net.dns(), net.smtp_port(), Pace::Lab);
        let client = engine.client(64);
        let of = |name: &str| (0..replies.len()).map(|n| format!("{name}{n}.example")).collect();
        let direct = ask_all(&client, of("nobody@address"), priority);
        let first = ask_all(&client, of("alice@control"), priority);
        // These checks use the replies that the engine remembers for the domains.
        let second = ask_all(&client, of("Alice@control"), priority);
        for (n, (reply, scope)) in REFUSALS.iter().enumerate() {
            let (direct, first, second) = (&direct[n], &first[n], &second[n]);
            let code = reply[..3].parse().expect("a code");
            let expected = (direct.rule, Some((code, *scope)));
            assert!(rules().any(|(name, ..)| name == direct.rule), "{reply}: {}", direct.rule);
            for finding in [direct, first, second] {
                assert_eq!((finding.reason, basis(finding)), (Reason::Unverifiable, expected), "{reply}");
                let lasts = matches!(scope, Scope::Us | Scope::Sender) && code >= 500;
                assert!(!lasts || finding.retry_after.is_none(), "{reply}: a later check alone");
            }
        }
        engine.stop();
    }
}

#[test]
fn a_reply_about_the_invented_mailbox_is_not_said_of_the_address() {
    let net = support::world(&world(&ABOUT_MAILBOX));
    let engine = support::engine(net.dns(), net.smtp_port(), Pace::Lab);
    let client = engine.client(8);
    for (n, reply) in ABOUT_MAILBOX.iter().enumerate() {
        let first = ask(&client, &format!("alice@control{n}.example"), Priority::List);
        let expected = ("control_unclear", Some((reply[..3].parse().expect("a code"), Scope::Recipient)));
        assert_eq!((first.reason, basis(&first)), (Reason::Unverifiable, expected), "{reply}");
        let second = ask(&client, &format!("Alice@control{n}.example"), Priority::List);
        assert_eq!((basis(&second).0, second.retry_after), ("control_remembered", first.retry_after));
    }
    engine.stop();
}

#[test]
fn a_session_that_ends_at_the_control_recipient_is_no_unclear_reply() {
    let net = support::world(
        "[[domain]]\nname = \"ends.example\"\nmailboxes.ok = [\"alice\"]\nunknown = \"hangup\"\n",
    );
    let engine = support::engine(net.dns(), net.smtp_port(), Pace::Lab);
    let client = engine.client(8);
    let finding = ask(&client, "alice@ends.example", Priority::List);
    assert_eq!((finding.reason, finding.rule), (Reason::Unverifiable, "control_unanswered"));
    engine.stop();
}

#[test]
fn a_host_that_refuses_this_machine_in_its_greeting_is_not_asked_again_later() {
    let net = support::world(
        "[[personality]]\nname = \"listed\"\nlike = \"generic\"\n\
         banner = \"554 5.7.1 mx.example: client host blocked using zen.spamhaus.org\"\n\
         [[domain]]\nname = \"listed.example\"\nserver = \"listed\"\nmailboxes.ok = [\"alice\", \"bob\"]\n",
    );
    let engine = support::engine(net.dns(), net.smtp_port(), Pace::Lab);
    let client = engine.client(64);
    for priority in [Priority::List, Priority::Single] {
        let addresses = ["alice", "bob"].map(|name| format!("{name}@listed.example")).to_vec();
        for finding in ask_all(&client, addresses, priority) {
            assert_eq!(basis(&finding), ("blocklist", Some((554, Scope::Us))));
            assert_eq!(finding.retry_after, None, "the cause has to be removed first");
        }
    }
    engine.stop();
}

#[test]
fn a_canary_proves_the_refusals_of_single_checks() {
    let net = support::world(
        "journal = true\n[[domain]]\nname = \"real.example\"\nmailboxes.ok = [\"me\"]\n\
         [[domain]]\nname = \"changed.example\"\nmailboxes.ok = [\"somebody\"]\n",
    );
    let canaries = ["me@real.example", "me@changed.example"];
    let canaries = canaries.map(|canary| Address::parse(canary).expect("an address")).to_vec();
    let config = support::config(net.dns(), net.smtp_port(), Pace::Lab);
    let engine = Engine::start(EngineConfig { canaries, ..config }).expect("the engine starts");
    let client = engine.client(8);
    for (domain, last) in [("real.example", "mailbox_not_found"), ("changed.example", "unverifiable")] {
        let reasons: Vec<_> = (0..8)
            .map(|n| ask(&client, &format!("nobody-{n}@{domain}"), Priority::Single).reason.as_str())
            .collect();
        assert_eq!((reasons[0], reasons[7]), ("mailbox_not_found", last), "{domain}: {reasons:?}");
        assert!(net.journal().asked(domain).contains_key("me"), "{domain}");
    }
    engine.stop();
}

#[test]
fn a_host_that_refuses_everyone_alike_is_soon_left_alone() {
    let words = [
        "554 5.7.1 {rcpt}: Access denied",
        "550 refused: {rcpt} {id}",
        "550 5.7.1 <{rcpt}>: not allowed from here",
        "550 <{rcpt}>",
        "554 5.7.1 <{rcpt}>: relaying denied",
        "550 5.1.1 <{rcpt}> rejected",
    ];
    for (words, pace) in words.into_iter().flat_map(|words| [(words, Pace::Polite), (words, Pace::Lab)]) {
        let net = support::world(&format!(
            "[[personality]]\nname = \"alike\"\nlike = \"postfix\"\nreplies.policy = \"{words}\"\n\
             [[domain]]\nname = \"alike.example\"\nserver = \"alike\"\nunknown = \"policy\"\n"
        ));
        let engine = support::engine(net.dns(), net.smtp_port(), pace);
        let client = engine.client(512);
        let submit = |ticket: u64| {
            let address = format!("person-{ticket}@alike.example");
            let request = Request { observed: true, ..support::request(ticket, &address, Priority::List) };
            client.submit(request).expect("room");
        };
        (0..300).for_each(submit);
        let mut left = 300;
        while left > 0 {
            let answer = support::answer(&client);
            match answer.result {
                // A list submits such a row again, too.
                Err(Outage::SiteFull) => {
                    std::thread::sleep(Duration::from_millis(2));
                    submit(answer.ticket);
                }
                Ok(finding) => {
                    assert_eq!(finding.reason, Reason::Unverifiable, "{words}: {}", finding.rule);
                    // Also where the host was not asked any more, the answer names the reply that decided.
                    let code = finding.observed.and_then(|observed| observed.reply).map(|reply| reply.code);
                    assert_eq!(code, words[..3].parse().ok(), "{words}, {pace:?}: {}", finding.rule);
                    left -= 1;
                }
                Err(outage) => panic!("{words}: {outage:?}"),
            }
        }
        let asked = net.host_stats("mx1.alike.example").expect("a host").rcpt;
        assert!(asked <= 40, "{words}, {pace:?}: {asked} recipients");
        engine.stop();
    }
}

#[test]
fn a_host_that_accepts_everyone_decides_nothing_if_an_earlier_one_has_put_the_address_off() {
    let net = support::world(
        r#"
[[domain]]
name = "deferred.example"
mx = ["10 mx1.deferred.example", "20 mx2.deferred.example"]
mailboxes.ok = ["user-#"]
[[host]]
name = "mx1.deferred.example"
server = { faults = [{ at = "rcpt", does = "reply", text = "451 4.3.0 Try again later" }] }
[[host]]
name = "mx2.deferred.example"
server = { changes = [{ after = 0, counted = "session", to = "accept" }] }
"#,
    );
    let engine = support::engine(net.dns(), net.smtp_port(), Pace::Lab);
    let client = engine.client(64);
    for priority in [Priority::Single, Priority::List, Priority::Batch] {
        for n in 0..6 {
            let address = format!("user-{n}@deferred.example");
            let answer = support::ask(&client, &address, priority);
            let finding = answer.result.expect("a finding");
            assert_eq!(
                finding.reason,
                Reason::Unverifiable,
                "{priority:?}, {}: {:#?}",
                finding.rule,
                answer.trace
            );
            if priority != Priority::Single {
                break;
            }
        }
    }
    engine.stop();
}
