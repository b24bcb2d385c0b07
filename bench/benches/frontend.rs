//! The work of the frontend for every request, without the engine and the store: the key, the rate limit, the JSON.

use api::{Checks, FastFindings, Findings, Reason, Verification};
use checks::auth::ApiKey;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use store::rate_limit::{Counters, Kept, Row, WindowId};
use store::{KeyId, KeyMode};

const NOW: u64 = 1_801_386_000_000;

fn key(criterion: &mut Criterion) {
    let text = ApiKey::from_secret(KeyMode::Live, [7; 32]).reveal().to_owned();
    let mut group = criterion.benchmark_group("key");
    group.throughput(Throughput::Elements(1));
    group.bench_function("parse_and_hash", |bench| {
        bench.iter(|| ApiKey::parse(black_box(text.as_bytes())).map(|key| key.hash()));
    });
}

fn rate_limit(criterion: &mut Criterion) {
    let counters = Counters::new(Kept::default());
    let id = |number| WindowId { key: KeyId::new(NOW, number), row: Row::Fast };
    // Windows of other keys are also in memory.
    for number in 0..10_000 {
        assert!(counters.count(id(number), 600, NOW).is_ok(), "the first of a window");
    }
    let mut group = criterion.benchmark_group("rate_limit");
    group.throughput(Throughput::Elements(1));
    let mut turn = 0;
    group.bench_function("count", |bench| {
        bench.iter(|| {
            turn += 1;
            // A request each millisecond, with the keys in turn: steps come and go as in a busy server.
            counters.count(id(turn % 1000), u32::MAX, black_box(NOW + turn as u64)).is_ok()
        });
    });
    let full = WindowId { key: KeyId::new(NOW, 1 << 40), row: Row::Verify };
    for _ in 0..600 {
        assert!(counters.count(full, 600, NOW).is_ok(), "a window of 600");
    }
    group.bench_function("refuse", |bench| bench.iter(|| counters.count(full, 600, black_box(NOW)).is_err()));
}

fn json(criterion: &mut Criterion) {
    let checks = Checks { mx: true, disposable: false, role_account: false, free_email: false };
    let fast = Findings::Fast(FastFindings { suggestion: None, checks: Some(checks) });
    let full = Findings::Full { cached: false, detail: None };
    let mut group = criterion.benchmark_group("json");
    group.throughput(Throughput::Elements(1));
    for (name, reason, findings) in
        [("fast", Reason::FastCheckPassed, fast), ("full", Reason::MailboxExists, full)]
    {
        let answer = Verification {
            email: "some.person@mail.example.com".into(),
            reason,
            credits_remaining: Some(4_999),
            findings,
        };
        group.bench_function(format!("render/{name}"), |bench| {
            bench.iter(|| serde_json::to_vec(black_box(&answer)).map_err(|_| "it has no maps"));
        });
    }
    let body = br#"{"email":"some.person@mail.example.com","mode":"fast"}"#;
    group.bench_function("parse", |bench| bench.iter(|| api::json::parse(black_box(body))));
}

criterion_group!(name = benches; config = bench::brief(); targets = key, rate_limit, json);
criterion_main!(benches);
