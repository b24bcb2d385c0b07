//! Classifying a reply to RCPT, which happens once for every address that a server is asked about.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use engine_proto::smtp::reply::Reply;
use engine_proto::verdict::{ReplyView, Stage, Us, classify};
use std::hint::black_box;

fn replies(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("classify");
    group.throughput(Throughput::Elements(1));
    for (name, code, text) in [
        ("accepted", 250, "2.1.5 Ok"),
        (
            "unknown",
            550,
            "5.1.1 <someone@example.com>: Recipient address rejected: User unknown in virtual mailbox table",
        ),
        ("policy", 554, "5.7.1 Service unavailable; Client host [192.0.2.1] blocked using dnsbl.example"),
    ] {
        let reply = Reply::new(code, text);
        group.bench_function(name, |bench| {
            bench.iter(|| {
                let view = ReplyView {
                    stage: Stage::Rcpt,
                    mx: "mx.example.com",
                    reply: black_box(&reply),
                    recipient: Some("someone@example.com"),
                    us: Us {
                        reverse_path: "postmaster@probe.example",
                        ehlo: "probe.example",
                        source: Some(std::net::Ipv4Addr::new(198, 51, 100, 7).into()),
                    },
                };
                classify(&view)
            });
        });
    }
}

criterion_group!(name = benches; config = bench::brief(); targets = replies);
criterion_main!(benches);
