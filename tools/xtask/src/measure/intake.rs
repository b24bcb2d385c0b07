//! Batches of 200 addresses: accepted over HTTP, by the store alone, and as bytes by redb alone
//! (bench/examples/intake.rs).
//!
//! Over HTTP each batch has an idempotency key, and is charged and durable before its 202. Meanwhile the engine works
//! on one row at a time, so the intake dominates the measurement.

use super::bench::Bench;
use super::loadtest::{middle, verdict};
use crate::failure::Failure;
use crate::interop::report::{self, Tally};

const RATE_MIN: f64 = 500.0;
const P99_MS_MAX: f64 = 50.0;
/// How many batches are sent at once.
const CLIENTS: &str = "16";
const BATCHES: &str = "8000";

/// Measures the three ways, and counts whether all batches were accepted.
pub fn run(bench: &Bench, tally: &mut Tally) -> Result<(), Failure> {
    bench.build_tools()?;
    report::line("| batches of 200 | batches/s | p50 ms | p99 ms | CPU ms per batch | batches per commit |");
    report::line("|---|---:|---:|---:|---:|---:|");
    let mut runs = Vec::new();
    for _ in 0..bench.runs {
        let load = ["--clients", CLIENTS, "--batch-size", "200", "--warm-up", "2s", "--duration", "8s"];
        let mut flags = vec!["--spawn", "--mix", "batch=1"];
        flags.extend(load.iter().chain(&["--", "--batch-rows-max", "1"]));
        runs.push(bench.loadtest(&flags)?);
    }
    let http = middle(runs, |figures| figures.rate)?;
    let (rate, p99) = (http.rate, http.p99_ms);
    report::line(&format!(
        "| over HTTP, {CLIENTS} clients | {rate:.0} | {:.2} | {p99:.2} | {:.3} | - |",
        http.p50_ms, http.cpu_s_per_1000
    ));
    tally.passed += 1;
    let folder = bench.world.path("").to_string_lossy().into_owned();
    let mut rates = Vec::new();
    for line in bench.run_example("intake", &[&folder, BATCHES, CLIENTS])? {
        let figures: Vec<f64> = line.iter().skip(1).filter_map(|word| word.parse().ok()).collect();
        let (Some(name), [batches, seconds, cpu_s, p50, p99, group]) = (line.first(), &figures[..]) else {
            return Err(Failure(format!("intake says {line:?}")));
        };
        report::line(&format!(
            "| {} | {:.0} | {p50:.2} | {p99:.2} | {:.3} | {group:.1} |",
            if name == "store" { "the store alone" } else { "redb alone, the same bytes" },
            batches / seconds,
            cpu_s * 1000.0 / batches,
        ));
        rates.push(batches / seconds);
        tally.passed += 1;
    }
    report::line("");
    if let [store, redb] = rates[..] {
        report::line(&format!(
            "rate relative to redb: the store {:.2}, over HTTP {:.2}",
            store / redb,
            rate / redb
        ));
    }
    verdict(&format!("{rate:.0} batches/s, at least {RATE_MIN:.0}"), rate >= RATE_MIN);
    verdict(&format!("p99 {p99:.1} ms, under {P99_MS_MAX:.0}"), p99 < P99_MS_MAX);
    Ok(())
}
