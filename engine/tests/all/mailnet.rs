//! Compares the engine's findings with the reasons that mailnet expects. mailnet shares no code with the engine.

use crate::support;
use engine::config::{DriverChoice, EngineConfig, Pace, RuntimeChoice, SharedLists};
use engine::proto::address::Address;
use engine::proto::lists::{ListKind, Lists};
use engine::proto::verdict::Reason;
use engine::{Answer, Client, Engine, Finding, Priority, Request};
use mailnet::{Mailnet, Running};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

type Flavor = (RuntimeChoice, DriverChoice);

const MONOIO_IO_URING: Flavor = (RuntimeChoice::Monoio, DriverChoice::IoUring);
const MONOIO_EPOLL: Flavor = (RuntimeChoice::Monoio, DriverChoice::Epoll);
#[cfg(feature = "glommio")]
const GLOMMIO: Flavor = (RuntimeChoice::Glommio, DriverChoice::IoUring);

fn config(net: &Running, (runtime, driver): Flavor) -> EngineConfig {
    let mut lists = Lists::default();
    lists.set(ListKind::SpamTraps, "trap@ok.example\ntrapped.example\n").expect("traps");
    // The spam traps are those of the scenario.
    let lists = SharedLists::new(lists);
    EngineConfig { runtime, driver, lists, ..support::config(net.dns(), net.smtp_port(), Pace::Lab) }
}

/// Asks about all addresses, and returns each answer under the index of its address.
fn ask(client: &Client, addresses: &[String], priority: Priority) -> HashMap<u64, Answer> {
    let mut answers = HashMap::new();
    let mut sent = 0;
    let deadline = Instant::now() + Duration::from_secs(120);
    while answers.len() < addresses.len() {
        while let Some(text) = addresses.get(sent) {
            let observed = priority != Priority::Batch;
            let request = Request { observed, ..support::request(sent as u64, text, priority) };
            if client.submit(request).is_err() {
                break;
            }
            sent += 1;
        }
        let answer = client.answer_blocking(Duration::from_secs(1));
        if let Some(answer) = answer {
            assert!(answers.insert(answer.ticket, answer).is_none(), "a ticket was answered twice");
        }
        assert!(Instant::now() < deadline, "{} of {} answers", answers.len(), addresses.len());
    }
    assert!(client.answer_blocking(Duration::from_millis(50)).is_none(), "one answer too many");
    answers
}

fn reason(answer: &Answer) -> &'static str {
    answer.result.as_ref().map_or("outage", |finding| finding.reason.as_str())
}

/// Whether the observed host and reply code fit the reason. If a list or DNS decided, there may be no observation.
fn has_its_observation(finding: &Finding) -> bool {
    let observed = finding.observed.as_deref();
    let code = observed.and_then(|observed| observed.reply).map(|reply| reply.code);
    observed.is_none_or(|observed| !observed.host.is_empty())
        && match finding.reason {
            Reason::MailboxExists | Reason::RoleAccount | Reason::CatchAll => {
                code.is_some_and(|code| code < 500)
            }
            Reason::InboxFull | Reason::MailboxDisabled => code.is_some_and(|code| code >= 400),
            Reason::MailboxNotFound => observed.is_none() || code.is_some_and(|code| code >= 500),
            Reason::InvalidSyntax | Reason::Disposable | Reason::Spamtrap => observed.is_none(),
            Reason::Unverifiable => true,
        }
}

fn check(name: &str, count: usize, flavor: Flavor) {
    let path = format!("{}/../tools/mailnet/scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let scenario = support::scenario(&std::fs::read_to_string(path).expect("the scenario can be read"));
    // Each address occurs only once, because a greylisting server accepts the second try.
    let drawn: BTreeMap<String, &str> = scenario
        .addresses(count, 11)
        .map(|(address, expected)| (address, expected.reason.as_str()))
        .filter(|(address, _)| Address::parse(address).is_ok())
        .collect();
    let (addresses, expected): (Vec<String>, Vec<&str>) = drawn.into_iter().unzip();
    let net = Mailnet::start(scenario).expect("mailnet starts");
    let engine = Engine::start(config(&net, flavor)).expect("the engine starts");
    let client = engine.client(4096);
    let answers = ask(&client, &addresses, Priority::Single);
    let mut wrong = Vec::new();
    for ((ticket, address), expected) in (0..).zip(&addresses).zip(expected) {
        let answer = &answers[&ticket];
        if reason(answer) != expected || !answer.result.as_ref().is_ok_and(has_its_observation) {
            wrong.push(format!(
                "{address}: {:?} for {expected}\n    {}",
                answer.result,
                answer.trace.join("\n    ")
            ));
        }
    }
    engine.stop();
    assert!(
        wrong.is_empty(),
        "{} of {} wrong\n{}",
        wrong.len(),
        addresses.len(),
        wrong[..wrong.len().min(8)].join("\n")
    );
    assert_eq!(net.stop().violations, Default::default());
}

/// In the first session, each host refuses all recipients with a transient reply. Later sessions accept alice.
const STUMBLES: &str = include_str!("../worlds/stumbles.toml");

#[test]
fn a_transient_failure_is_outlasted() {
    let net = support::world(STUMBLES);
    let engine = Engine::start(config(&net, MONOIO_EPOLL)).expect("the engine starts");
    let client = engine.client(8);
    let said = |address: &str, priority| reason(&ask(&client, &[address.to_owned()], priority)[&0]);
    let begun = Instant::now();
    assert_eq!(said("alice@hurried.example", Priority::Single), "mailbox_exists");
    let taken = begun.elapsed();
    assert!((5..12).contains(&taken.as_secs()), "asked once more after {taken:?}");
    assert_eq!(said("alice@later.example", Priority::Single), "unverifiable", "a long interval is named");
    assert!(begun.elapsed() < taken + Duration::from_secs(3), "nobody waits for that");
    assert_eq!(said("alice@stumbles.example", Priority::List), "mailbox_exists");
    engine.stop();
    assert_eq!(net.stop().violations, Default::default());
}

/// A host that ends each session after its first transaction.
const ONE_TRANSACTION: &str = include_str!("../worlds/one_transaction.toml");

/// The host ends each session at the second MAIL, often after a refusal. mailprobe must not take this for a limit of refusals:
/// otherwise it would use the only transaction of each session for a known mailbox.
fn check_one_transaction(pace: Pace, addresses: &[String], priority: Priority) {
    let net = support::world(ONE_TRANSACTION);
    let config = EngineConfig { pace, shards: 1, ..config(&net, MONOIO_EPOLL) };
    let engine = Engine::start(config).expect("the engine starts");
    let answers = ask(&engine.client(64), addresses, priority);
    for (n, address) in addresses.iter().enumerate() {
        let expected = if address.starts_with("user") { "mailbox_exists" } else { "mailbox_not_found" };
        let answer = &answers[&(n as u64)];
        assert_eq!(reason(answer), expected, "{pace:?}: {address}\n{}", answer.trace.join("\n"));
    }
    engine.stop();
    assert_eq!(net.stop().violations, Default::default());
}

#[test]
fn a_host_that_takes_one_transaction_a_session_is_asked_in_one() {
    let of = |n: u64| [format!("user-{n}@once.example"), format!("nobody{n}@once.example")];
    let addresses: Vec<String> = (0..20).flat_map(of).collect();
    for pace in [Pace::Lab, Pace::Fast] {
        check_one_transaction(pace, &addresses, Priority::List);
    }
    check_one_transaction(Pace::Polite, &addresses[..12], Priority::List);
    check_one_transaction(Pace::Polite, &addresses[..2], Priority::Single);
}

#[test]
fn a_trace_says_that_a_host_is_not_public() {
    let net = support::world(ONE_TRANSACTION);
    let config = EngineConfig { allow_net: Vec::new(), ..config(&net, MONOIO_EPOLL) };
    let engine = Engine::start(config).expect("the engine starts");
    let answers = ask(&engine.client(4), &["user-1@once.example".into()], Priority::Single);
    let trace = answers[&0].trace.join("\n");
    assert!(trace.contains(" is not a public address, so it is not contacted; --allow-net"), "{trace}");
    engine.stop();
    assert_eq!(net.stop().sessions, 0);
}

#[test]
fn every_reason_on_monoio_with_io_uring() {
    check("reasons", 1000, MONOIO_IO_URING);
}

#[test]
fn every_reason_on_monoio_with_epoll() {
    check("reasons", 1000, MONOIO_EPOLL);
}

#[cfg(feature = "glommio")]
#[test]
fn every_reason_on_glommio() {
    check("reasons", 1000, GLOMMIO);
}
