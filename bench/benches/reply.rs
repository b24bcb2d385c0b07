//! Parsing replies from a stream, which happens once for every command of every session.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use engine_proto::smtp::reply::ReplyParser;
use std::hint::black_box;

fn parse(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("reply");
    for (name, stream) in [
        ("accepts", "250 2.1.5 Ok\r\n".repeat(100)),
        (
            "refusals",
            "550-5.1.1 No such user here.\r\n550 5.1.1 Check the address for typos.\r\n".repeat(100),
        ),
    ] {
        group.throughput(Throughput::Elements(100));
        group.bench_function(name, |bench| {
            bench.iter(|| {
                let mut parser = ReplyParser::default();
                parser.feed(black_box(stream.as_bytes()));
                while let Ok(Some(reply)) = parser.next() {
                    black_box(reply);
                }
            });
        });
    }
}

criterion_group!(name = benches; config = bench::brief(); targets = parse);
criterion_main!(benches);
