//! Parsing an address, which happens once for every submitted address.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use engine_proto::address::Address;
use std::hint::black_box;

fn parse(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("address");
    group.throughput(Throughput::Elements(1));
    for (name, text) in [
        ("plain", "some.person@mail.example.com"),
        ("unicode_domain", "anna@bücher.example"),
        ("quoted", "\"some person\"@example.com"),
        ("invalid", "some person@example.com"),
    ] {
        group.bench_function(name, |bench| bench.iter(|| Address::parse(black_box(text))));
    }
}

criterion_group!(name = benches; config = bench::brief(); targets = parse);
criterion_main!(benches);
