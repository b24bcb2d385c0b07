//! A message to the engine's threads and back, and a whole fast check without HTTP, against a resolver on loopback.

use api::{Findings, Verification};
use checks::fast;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use engine::config::{EngineConfig, Network};
use engine::proto::address::Address;
use engine::{Client, Engine, Priority, Request};
use futures_lite::future::block_on;
use mailnet::{Mailnet, Scenario};
use std::hint::black_box;

const SCENARIO: &str = "[[group]]\nname = \"d{n}.example\"\ncount = 100\nmailboxes.ok = [\"user-#\"]\n";
/// How many requests are under way at once, in the variant with many.
const DEPTH: u64 = 100;

fn start(net: &mailnet::Running) -> Engine {
    let network = Network::parse("127.0.0.0/8").expect("a network");
    Engine::start(EngineConfig {
        resolvers: vec![net.dns()],
        smtp_port: net.smtp_port(),
        allow_net: vec![network],
        ehlo: Some("probe.example".into()),
        mail_from: Some("postmaster@probe.example".into()),
        shards: 1,
        ..EngineConfig::default()
    })
    .expect("the engine starts")
}

fn submit(client: &Client, address: &Address) {
    let address = address.clone();
    let request =
        Request { ticket: 1, address, priority: Priority::Single, owner: 0, trace: false, observed: false };
    assert!(client.submit(request).is_ok(), "there is room");
}

/// The shard answers a disposable domain without DNS, so only the messages remain.
fn round_trip(criterion: &mut Criterion) {
    let net = Mailnet::start(Scenario::parse(SCENARIO).expect("a scenario")).expect("mailnet starts");
    let engine = start(&net);
    let client = engine.client(1000);
    let address = Address::parse("someone@mailinator.com").expect("an address");
    submit(&client, &address);
    let answer = block_on(client.answer());
    assert!(answer.result.is_ok_and(|finding| finding.reason.as_str() == "disposable"), "the shard answers");
    let mut group = criterion.benchmark_group("inbox");
    group.throughput(Throughput::Elements(1));
    group.bench_function("round_trip", |bench| {
        bench.iter(|| {
            submit(&client, &address);
            black_box(block_on(client.answer()))
        });
    });
    group.throughput(Throughput::Elements(DEPTH));
    group.bench_function("round_trips_at_once", |bench| {
        bench.iter(|| {
            (0..DEPTH).for_each(|_| submit(&client, &address));
            (0..DEPTH).for_each(|_| drop(black_box(block_on(client.answer()))));
        });
    });
    drop(group);
    fast_check(criterion, &client);
    drop(client);
    engine.stop();
}

/// From the text of an address to the text of the answer, for a known domain.
fn fast_check(criterion: &mut Criterion, client: &Client) {
    let check = |text: &str| -> Option<String> {
        let address = Address::parse(text).ok()?;
        let hosts = block_on(client.mail_hosts(address.domain().clone()).ok()?.answer()).ok()?;
        let (reason, findings) = fast::judge::<()>(&address, &client.lists(), Ok(hosts)).ok()?;
        let findings = Findings::Fast(findings);
        let answer = Verification { email: text.to_owned(), reason, credits_remaining: None, findings };
        serde_json::to_string(&answer).ok()
    };
    let said = check("some.person@d7.example").expect("an answer");
    assert!(said.contains("fast_check_passed"), "{said}");
    let mut group = criterion.benchmark_group("fast_check");
    group.throughput(Throughput::Elements(1));
    group.bench_function("known_domain", |bench| bench.iter(|| check(black_box("some.person@d7.example"))));
}

criterion_group!(name = benches; config = bench::brief(); targets = round_trip);
criterion_main!(benches);
