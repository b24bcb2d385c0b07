//! The budget of refused recipients: once it is used up, works for the site are answered at once.

use crate::support::{self, answer, submit};
use engine::config::{EngineConfig, Pace};
use engine::proto::limits::REFUSALS_KEPT_FOR_PROOF;
use engine::{Engine, KeptRefusals, Outage, Priority, RefusalTable};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The most that an unknown site may refuse in an hour while refusals outweigh accepts.
const BUDGET: u64 = 100;

const ROWS: u64 = 150;

const WORLD: &str = "journal = true\n[[domain]]\nname = \"b.example\"\nmailboxes.ok = [\"user-#\"]\n";

#[test]
fn whoever_is_over_the_budget_is_told_so_at_once() {
    let net = support::world(WORLD);
    let engine = support::engine(net.dns(), net.smtp_port(), Pace::Polite);
    let client = engine.client(1_000);
    for (ticket, priority) in (0..ROWS).zip([Priority::Batch, Priority::List].into_iter().cycle()) {
        submit(&client, ticket, &format!("nobody-{ticket}@b.example"), priority);
    }
    let (began, mut over) = (Instant::now(), 0);
    let mut found = 0;
    for answered in 0..ROWS {
        let left = Duration::from_secs(60).saturating_sub(began.elapsed());
        let answer = client.answer_blocking(left);
        let answer =
            answer.unwrap_or_else(|| panic!("{answered} of {ROWS} answered, {over} over the budget"));
        match answer.result {
            Ok(finding) => {
                assert_eq!(finding.reason.as_str(), "mailbox_not_found", "{}", finding.rule);
                found += 1;
            }
            Err(Outage::OverBudget { after: wait, refused_us: None }) => {
                assert!(
                    wait > Duration::from_secs(55 * 60) && wait <= Duration::from_secs(65 * 60),
                    "{wait:?}"
                );
                over += 1;
            }
            Err(outage) => panic!("{outage:?}"),
        }
    }
    let refused = net.journal().refusals_within("", Duration::from_secs(3600));
    assert!(refused <= BUDGET && refused >= found, "{refused} refused, {found} found");
    assert!(found >= 90 && found + over == ROWS, "{found} found, {over} over the budget");
    // A later single check is also told at once.
    let asked = Instant::now();
    let answer = support::ask(&client, "user-1@b.example", Priority::Single);
    assert!(matches!(answer.result, Err(Outage::OverBudget { .. })), "{:?}", answer.result);
    assert!(asked.elapsed() < Duration::from_secs(5));
    engine.stop();
}

/// Starts an engine of the same installation, with the refusals that an earlier engine counted.
fn start(net: &mailnet::Running, refusals: Vec<KeptRefusals>) -> Engine {
    let config = support::config(net.dns(), net.smtp_port(), Pace::Polite);
    Engine::start(EngineConfig { installation: [7; 32], refusals, ..config }).expect("the engine starts")
}

/// Asks about recipients that do not exist, and returns how many of them were over the budget.
fn ask(engine: &Engine, names: std::ops::Range<u64>) -> u64 {
    let client = engine.client(1_000);
    let count = names.end - names.start;
    for name in names {
        submit(&client, name, &format!("nobody-{name}@b.example"), Priority::List);
    }
    let results = (0..count).map(|_| answer(&client).result);
    results.filter(|result| matches!(result, Err(Outage::OverBudget { .. }))).count() as u64
}

#[test]
fn a_run_of_less_than_a_second_leaves_its_counts_to_the_next() {
    let net = support::world(WORLD);
    let refused = || net.journal().refusals_within("", Duration::from_secs(3600));
    let engine = start(&net, Vec::new());
    let look = engine.refusals();
    assert!(ask(&engine, 0..ROWS) > 0, "the budget is used up");
    engine.stop();
    let kept = look();
    let counted: u64 = kept.iter().flat_map(|kept| &kept.steps).map(|step| u64::from(step.refused)).sum();
    assert_eq!(counted, refused());
    let engine = start(&net, kept);
    assert_eq!(ask(&engine, ROWS..ROWS * 2), ROWS, "nobody is asked about in the same hour");
    engine.stop();
    assert_eq!(refused(), counted);
}

#[test]
fn two_nodes_at_one_address_refuse_no_more_than_one() {
    let net = support::world(WORLD);
    let egress_nodes = Arc::new(AtomicU32::new(2));
    let node = |node: i64| {
        let config = support::config(net.dns(), net.smtp_port(), Pace::Polite);
        let (egress_nodes, installation) = (Arc::clone(&egress_nodes), [7; 32]);
        let config = EngineConfig { installation, node: Some(node), egress_nodes, ..config };
        Engine::start(config).expect("the engine starts")
    };
    let nodes = [node(1), node(2)];
    let refused = || net.journal().refusals_within("", Duration::from_secs(3600));
    assert!(ask(&nodes[0], 0..ROWS) > 0, "the half of a budget is used up");
    let first = refused();
    assert!((BUDGET / 2 - 8..=BUDGET / 2).contains(&first), "{first} by the first node");
    assert!(ask(&nodes[1], ROWS..ROWS * 2) > 0);
    assert!(refused() <= BUDGET && refused() > first + 30, "{} by both", refused());
    // The other node has left, and its refusals do not count here. So this node can use the rest of the whole budget at once.
    egress_nodes.store(1, Ordering::Relaxed);
    assert!(ask(&nodes[0], ROWS * 2..ROWS * 3) < ROWS);
    let keys = |engine: &Engine| engine.refusals()().into_iter().map(|kept| kept.key).collect::<Vec<_>>();
    std::thread::sleep(Duration::from_millis(1_500));
    assert_ne!(keys(&nodes[0]), keys(&nodes[1]), "they share a store");
}

#[test]
fn engines_that_share_a_table_share_the_budget() {
    let net = support::world(WORLD);
    let path = std::env::temp_dir().join(format!("mailprobe-budgets-{}", std::process::id()));
    let start = || {
        let table = RefusalTable::open(&path, &[7; 32], &[], true).expect("a table");
        let config = support::config(net.dns(), net.smtp_port(), Pace::Polite);
        let config = EngineConfig { installation: [7; 32], table: Some(Arc::new(table)), ..config };
        Engine::start(config).expect("the engine starts")
    };
    let refused = || net.journal().refusals_within("", Duration::from_secs(3600));
    let (engines, looker) = ([start(), start(), start()], start());
    let over: u64 = std::thread::scope(|scope| {
        let ask = |(engine, n)| scope.spawn(move || ask(engine, n * ROWS..(n + 1) * ROWS));
        let asked: Vec<_> = engines.iter().zip(0..).map(ask).collect();
        asked.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert!(refused() <= BUDGET && refused() > 90, "{} by all", refused());
    assert!((3 * ROWS - BUDGET..3 * ROWS - 80).contains(&over), "{over} over the budget");
    engines.into_iter().for_each(Engine::stop);
    let counted = looker.refusals()();
    let counted: u64 = counted.iter().flat_map(|kept| &kept.steps).map(|step| u64::from(step.refused)).sum();
    assert_eq!(counted, refused());
    assert_eq!(ask(&looker, 3 * ROWS..4 * ROWS), ROWS, "the budget is used up");
    looker.stop();
    std::fs::remove_file(path).expect("the file of the table");
}

#[test]
fn refusals_of_us_are_named_when_the_budget_is_used_up() {
    let net = support::world(&format!("{WORLD}mailboxes.policy = [\"blocked-#\"]\n"));
    let engine = start(&net, Vec::new());
    let look = engine.refusals();
    assert_eq!(ask(&engine, 0..1), 0);
    engine.stop();
    // The budget is used up before there are enough refusals to make mailprobe stop asking the host.
    let mut kept = look();
    kept[0].steps[0].refused = u32::try_from(BUDGET).unwrap() - REFUSALS_KEPT_FOR_PROOF as u32 - 2;
    let engine = start(&net, kept);
    let client = engine.client(10);
    let mut results = (0..10)
        .map(|name| support::ask(&client, &format!("blocked-{name}@b.example"), Priority::Batch).result);
    let over = results.find(|result| !matches!(result, Ok(finding) if finding.rule == "blocklist"));
    let named = |result: &Result<_, _>| {
        matches!(result, Err(Outage::OverBudget { refused_us: Some("blocklist"), .. }))
    };
    assert!(over.as_ref().is_some_and(named), "{over:?}");
    engine.stop();
}
