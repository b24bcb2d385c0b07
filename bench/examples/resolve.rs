//! The cost of a look-up of MX records in the engine: it asks a resolver about many names, each once.
//!
//! ```text
//! cargo run --release --package bench --example resolve -- RESOLVER NAMES DOMAIN UNDER_WAY
//! ```
//! The names are `d1.DOMAIN`, `d2.DOMAIN` and on. Each must have a null MX (RFC 7505), so that one question answers it.
//! The program prints names, seconds, and CPU seconds of the engine's shard and of the whole process. `cargo xtask
//! measure dns` prints a table of them.

use bench::cpu_s;
use engine::config::EngineConfig;
use engine::proto::address::Domain;
use engine::{Engine, MailHosts, PendingInquiry};
use std::collections::VecDeque;
use std::error::Error;
use std::io::Write;
use std::time::{Duration, Instant};

// The allocator of the product.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [resolver, names, domain, under_way] = &words[..] else {
        return Err("usage: resolve RESOLVER NAMES DOMAIN UNDER_WAY".into());
    };
    let (names, under_way): (u64, usize) = (names.parse()?, under_way.parse()?);
    let engine = Engine::start(EngineConfig {
        resolvers: vec![resolver.parse()?],
        ehlo: Some("probe.example".into()),
        mail_from: Some("postmaster@probe.example".into()),
        shards: 1,
        ..EngineConfig::default()
    })?;
    let client = engine.client(under_way);
    let gauge = engine.gauge();
    let shard = || -> f64 { gauge().shards.iter().map(|shard| shard.busy.as_secs_f64()).sum() };
    let (began, shard_before, cpu_before) = (Instant::now(), shard(), cpu_s());
    let mut waiting: VecDeque<PendingInquiry<MailHosts>> = VecDeque::with_capacity(under_way);
    for number in 1..=names {
        while waiting.len() >= under_way {
            take(&mut waiting)?;
        }
        let name = Domain::parse(&format!("d{number}.{domain}")).map_err(|error| error.to_string())?;
        waiting.push_back(client.mail_hosts(name).map_err(|refusal| format!("{refusal:?}"))?);
    }
    while !waiting.is_empty() {
        take(&mut waiting)?;
    }
    let (seconds, cpu_s) = (began.elapsed().as_secs_f64(), cpu_s() - cpu_before);
    // The shard publishes its time with its heartbeat.
    std::thread::sleep(Duration::from_millis(500));
    let shard_s = shard() - shard_before;
    writeln!(std::io::stdout(), "{names} {seconds:.3} {shard_s:.3} {cpu_s:.3}")?;
    drop(client);
    engine.stop();
    Ok(())
}

/// The oldest answer; a wrong one ends the measurement.
fn take(waiting: &mut VecDeque<PendingInquiry<MailHosts>>) -> Result<(), String> {
    let Some(pending) = waiting.pop_front() else { return Ok(()) };
    match pending.answer_blocking(PATIENCE) {
        Some(Ok(MailHosts::Absent)) => Ok(()),
        other => Err(format!("a name whose MX is null is answered with {other:?}")),
    }
}
