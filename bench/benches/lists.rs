//! Look-ups in the lists, which happen once for every address.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use engine_proto::lists::{Lists, is_role};
use std::hint::black_box;

fn look_up(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("lists");
    group.throughput(Throughput::Elements(1));
    let lists = Lists::default();
    for (name, domain) in [("listed", "mailinator.com"), ("not_listed", "mail.example.com")] {
        group.bench_function(format!("disposable/{name}"), |bench| {
            bench.iter(|| lists.listing(black_box(domain)))
        });
    }
    for (name, local) in [("listed", "postmaster"), ("not_listed", "some.person")] {
        group.bench_function(format!("role/{name}"), |bench| bench.iter(|| is_role(black_box(local))));
    }
}

criterion_group!(name = benches; config = bench::brief(); targets = look_up);
criterion_main!(benches);
