use super::*;
use crate::soak::client::Lost;
use crate::soak::cluster::calls::NodeAnswer;
use crate::soak::world::Credits;

fn call(kind: NodeRequest, (begin, end): (u64, u64), answer: NodeAnswer) -> ClusterCall {
    ClusterCall { account: 0, node: 0, begin, end, kind, result: Ok(answer) }
}

fn charged(address: &str, times: (u64, u64), credits: u64) -> ClusterCall {
    let answer = NodeAnswer { status: 200, credits: Some(credits), ..NodeAnswer::default() };
    call(NodeRequest::Check(address.into()), times, answer)
}

fn repeat(address: &str, times: (u64, u64)) -> ClusterCall {
    let answer = NodeAnswer { status: 200, cached: true, ..NodeAnswer::default() };
    call(NodeRequest::Check(address.into()), times, answer)
}

fn batch(once: &str, id: &str, replayed: bool) -> ClusterCall {
    let answer = NodeAnswer { status: 202, batch: id.into(), replayed, ..NodeAnswer::default() };
    call(NodeRequest::Batch(once.into(), 10), (30, 31), answer)
}

fn lost(address: &str, times: (u64, u64)) -> ClusterCall {
    let result = Err(Lost::NoAnswer("closed".into()));
    ClusterCall { result, ..charged(address, times, 0) }
}

fn refused(address: &str, status: u16, retry_after: bool) -> ClusterCall {
    let answer = NodeAnswer { status, retry_after, ..NodeAnswer::default() };
    call(NodeRequest::Check(address.into()), (0, 1), answer)
}

fn account(spent: u64) -> Ledger {
    let credits = Credits { available: 100 - spent, held: 0, spent, expired: 0, granted: 100 };
    Ledger { credits, open_holds: 0, faults: Vec::new() }
}

/// The rules that are broken.
fn broken(calls: &[ClusterCall], spent: u64, windows: &[FaultWindow]) -> Vec<&'static str> {
    let findings = judge(calls, &[account(spent)], windows);
    findings.iter().filter(|finding| !finding.wrong.is_empty()).map(|finding| &finding.rule[..12]).collect()
}

const MONEY: &str = "the ledger h";
const ONCE: &str = "an address i";
const BALANCE: &str = "credits_rema";
const KEYS: &str = "an Idempoten";
const ANSWERS: &str = "only answers";

#[test]
fn a_right_run_has_no_fault() {
    let calls = [
        charged("a", (0, 10), 99),
        repeat("a", (11, 12)),
        charged("b", (11, 20), 98),
        batch("k", "1", false),
        batch("k", "1", true),
    ];
    assert_eq!(broken(&calls, 12, &[]), Vec::<&str>::new());
}

#[test]
fn planted_faults_are_found() {
    let two = [charged("a", (0, 10), 99), charged("a", (11, 20), 98)];
    let cases: [(&str, &[ClusterCall], u64, &[&str]); 9] = [
        ("charged twice", &two, 2, &[ONCE, MONEY, BALANCE]),
        ("a charge is lost", &[charged("a", (0, 10), 99)], 0, &[MONEY]),
        ("a refused call is charged", &[refused("a", 429, true)], 1, &[MONEY]),
        ("a repeat without a charge", &[repeat("a", (0, 1))], 1, &[ONCE]),
        ("a stale balance", &[charged("a", (0, 10), 99), charged("b", (11, 20), 99)], 2, &[BALANCE]),
        ("a balance that misses credits", &[charged("a", (0, 10), 97)], 1, &[BALANCE]),
        ("two batches", &[batch("k", "1", false), batch("k", "2", false)], 10, &[KEYS]),
        ("503 without Retry-After", &[refused("a", 503, false)], 0, &[ANSWERS]),
        ("a broken connection", &[lost("a", (0, 10))], 0, &[ANSWERS]),
    ];
    for (name, calls, spent, expected) in cases {
        assert_eq!(broken(calls, spent, &[]), expected, "{name}");
    }
}

#[test]
fn unknown_outcomes_may_be_charged() {
    let window = FaultWindow { name: String::new(), node: Some(0), begin: 5, end: 8 };
    let calls = [lost("a", (0, 10)), charged("b", (11, 20), 98), charged("c", (12, 30), 97)];
    assert!(broken(&calls, 2, std::slice::from_ref(&window)).is_empty());
    assert!(broken(&calls, 3, std::slice::from_ref(&window)).is_empty());
    assert_eq!(broken(&calls, 4, &[window]), [MONEY]);
}

#[test]
fn pauses_begin_before_the_window() {
    let window = FaultWindow { name: String::new(), node: None, begin: 10, end: 60 };
    assert_eq!(longest_pause(&[1, 9, 40, 50, 61, 100], &window), 31);
    assert_eq!(longest_pause(&[], &window), 0);
}

#[test]
fn a_stopped_node_may_refuse_what_it_had_begun() {
    let window = |name: &str, end| FaultWindow { name: name.to_owned(), node: Some(0), begin: 1000, end };
    let fast = |end: u64| {
        let answer = NodeAnswer { status: 503, retry_after: true, ..NodeAnswer::default() };
        call(NodeRequest::Fast, (900, end), answer)
    };
    for (name, end, is_right) in
        [("pause-node-60-s", 61_000, true), ("pause-node", 12_000, false), ("isolate-node", 61_000, false)]
    {
        let finding = answers(&[fast(end)], &[window(name, end)]);
        assert_eq!(finding.wrong.is_empty(), is_right, "{name}");
    }
    let other = [FaultWindow { node: Some(1), ..window("pause-node-60-s", 61_000) }];
    assert!(!answers(&[fast(61_000)], &other).wrong.is_empty());
}
