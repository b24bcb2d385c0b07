//! A question to the resolver, its answer, and the cache that saves both: once or a few times for every domain.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use engine_proto::dns::cache::Cache;
use engine_proto::dns::message::{Encoded, Extension, decode, encode};
use engine_proto::dns::{Exchange, Mx, Name, Outcome, Question, RecordKind, Records};
use std::hash::RandomState;
use std::hint::black_box;
use std::time::{Duration, Instant};

const CAPITALS: [u64; 4] = [0x5A5A, 0, 0, 0];

fn question(number: u32) -> Question {
    let name = Name::parse(&format!("d{number}.example")).expect("a name");
    Question { name, kind: RecordKind::Mx }
}

/// The answer with two mail exchanges below the domain, in the form of a resolver (RFC 1035 4.1).
fn answer(sent: &Encoded) -> Vec<u8> {
    let mut bytes = sent.bytes().to_vec();
    bytes[2..4].copy_from_slice(&[0x81, 0x80]);
    bytes[6..8].copy_from_slice(&2u16.to_be_bytes());
    for host in [b"\x03mx1", b"\x03mx2"] {
        // A pointer to the question's name, MX, IN, 300 s; after the preference a label and another pointer.
        bytes.extend_from_slice(&[0xC0, 12, 0, 15, 0, 1, 0, 0, 1, 44, 0, 8, 0, 10]);
        bytes.extend_from_slice(host);
        bytes.extend_from_slice(&[0xC0, 12]);
    }
    bytes
}

fn messages(criterion: &mut Criterion) {
    let question = question(1);
    let sent = encode(&question, 7, CAPITALS, Extension::None);
    let answer = answer(&sent);
    assert!(decode(&sent, &question, &answer).is_ok(), "the bench decodes an answer");
    let mut group = criterion.benchmark_group("dns");
    group.throughput(Throughput::Elements(1));
    group.bench_function("encode", |bench| {
        bench.iter(|| encode(black_box(&question), 7, CAPITALS, Extension::Edns))
    });
    group.bench_function("decode", |bench| {
        bench.iter(|| decode(&sent, &question, black_box(&answer)).map_err(|_| "not ours"));
    });
}

fn cache(criterion: &mut Criterion) {
    const ENTRIES: u32 = 100_000;
    let now = Instant::now();
    let exchange = Exchange::Host(Name::parse("mx.example").expect("a name"));
    let records = Records::Mx(vec![Mx { preference: 10, exchange }]);
    let outcome = Outcome::Records { records, ttl: Duration::from_secs(300) };
    let mut cache = Cache::new(ENTRIES as usize, RandomState::new());
    for number in 0..ENTRIES {
        cache.insert(question(number), outcome.clone(), now);
    }
    let known: Vec<Question> = (0..ENTRIES).step_by(97).map(question).collect();
    let mut next = known.iter().cycle();
    let mut group = criterion.benchmark_group("dns/cache");
    group.throughput(Throughput::Elements(1));
    group.bench_function("hit", |bench| {
        bench.iter(|| next.next().and_then(|question| cache.get(black_box(question), now)));
    });
    let mut new = ENTRIES;
    group.bench_function("insert_into_full", |bench| {
        let fresh = || {
            new += 1;
            (question(new), outcome.clone())
        };
        bench.iter_batched(
            fresh,
            |(question, outcome)| cache.insert(question, outcome, now),
            BatchSize::SmallInput,
        );
    });
}

criterion_group!(name = benches; config = bench::brief(); targets = messages, cache);
criterion_main!(benches);
