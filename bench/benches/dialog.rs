//! A session with a pipelined transaction of 100 recipients, without a socket: the cost of the dialog alone.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use engine_proto::smtp::dialog::{Dialog, DialogConfig, Patience};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const RECIPIENTS: usize = 100;

fn transaction(criterion: &mut Criterion) {
    let config = Arc::new(DialogConfig {
        ehlo: "probe.example".into(),
        reverse_path: "postmaster@probe.example".into(),
        patience: Patience::default(),
    });
    let recipients: Vec<String> = (0..RECIPIENTS).map(|n| format!("user-{n}@example.com")).collect();
    let answers = "250 2.1.5 Ok\r\n".repeat(RECIPIENTS + 1);
    let mut group = criterion.benchmark_group("dialog");
    group.throughput(Throughput::Elements(RECIPIENTS as u64));
    group.bench_function("rcpt", |bench| {
        let ready = || {
            let now = Instant::now();
            let mut dialog = Dialog::new(Arc::clone(&config), false, now);
            dialog.receive(now, b"220 mx.example\r\n");
            dialog.receive(now, b"250-mx.example\r\n250 PIPELINING\r\n");
            (dialog, now)
        };
        bench.iter_batched(
            ready,
            |(mut dialog, now)| {
                dialog.transact(now, recipients.iter().map(String::as_str), false);
                black_box(dialog.take_outgoing(Vec::new()));
                dialog.receive(now, answers.as_bytes());
                while let Some(event) = dialog.poll_event() {
                    black_box(event);
                }
            },
            BatchSize::SmallInput,
        );
    });
}

criterion_group!(name = benches; config = bench::brief(); targets = transaction);
criterion_main!(benches);
