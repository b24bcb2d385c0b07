//! A session with a pipelined transaction of 100 recipients, without a socket: the cost of the dialog alone.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use engine_proto::smtp::dialog::{Dialog, DialogConfig, Event, ReplyTimeouts};
use engine_proto::smtp::habits::{Habits, InStep};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const RECIPIENTS: usize = 100;

fn transaction(criterion: &mut Criterion) {
    let config = Arc::new(DialogConfig {
        ehlo: "probe.example".into(),
        reverse_path: "postmaster@probe.example".into(),
        timeouts: ReplyTimeouts::default(),
    });
    let recipients: Vec<String> = (0..RECIPIENTS).map(|n| format!("user-{n}@example.com")).collect();
    let answers = "250 2.1.5 Ok\r\n".repeat(RECIPIENTS + 1);
    let ready = || {
        let now = Instant::now();
        let mut dialog = Dialog::new(Arc::clone(&config), Habits { plain: true, ..Habits::default() }, now);
        dialog.receive(now, b"220 mx.example\r\n");
        // An answer to unsent bytes would end the session.
        dialog.take_outgoing(Vec::new());
        dialog.receive(now, b"250-mx.example\r\n250 PIPELINING\r\n");
        while dialog.poll_event().is_some() {}
        (dialog, now)
    };
    let play = |(mut dialog, now): (Dialog, Instant)| {
        dialog.transact(now, recipients.iter().map(String::as_str), false, InStep::ALWAYS);
        black_box(dialog.take_outgoing(Vec::new()));
        dialog.receive(now, answers.as_bytes());
        let mut answered = 0;
        while let Some(event) = dialog.poll_event() {
            answered += usize::from(matches!(black_box(event), Event::Answered { .. }));
        }
        answered
    };
    assert_eq!(play(ready()), RECIPIENTS, "the bench plays a whole transaction");
    let mut group = criterion.benchmark_group("dialog");
    group.throughput(Throughput::Elements(RECIPIENTS as u64));
    group.bench_function("rcpt", |bench| bench.iter_batched(ready, play, BatchSize::SmallInput));
}

criterion_group!(name = benches; config = bench::brief(); targets = transaction);
criterion_main!(benches);
