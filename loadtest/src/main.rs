//! `mailprobe-loadtest`: what a server answers, and how fast, while so many clients ask it one check after the other.
//!
//! Closed loop: each client has one request under way. It is an independent witness and shares no code with the server.

mod http;

use clap::Parser;
use hdrhistogram::Histogram;
use http::Connection;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

#[derive(Parser)]
#[command(
    name = "mailprobe-loadtest",
    version,
    about = "Loads a mailprobe server with checks and says how it fared"
)]
struct Options {
    /// The server, as HOST:PORT
    #[arg(long, default_value = "127.0.0.1:8080")]
    server: String,
    /// A file that holds the API key; the first word that begins with mp_ counts
    #[arg(long, value_name = "FILE")]
    key_file: PathBuf,
    /// A file with an address a line; asked in turn, again from the top when they are used up
    #[arg(long, value_name = "FILE")]
    addresses: PathBuf,
    /// Clients that ask at once
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    clients: u16,
    /// Checks in all
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
}

/// What one client, or all of them, saw.
struct Seen {
    micros: Histogram<u64>,
    status: BTreeMap<u16, u64>,
    failed: u64,
}

fn main() -> ExitCode {
    match load(&Options::parse()) {
        Ok(report) => match writeln!(io::stdout(), "{report}") {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Err(error) => {
            // Without a standard error the exit code is all there is to say.
            let _ = writeln!(io::stderr(), "mailprobe-loadtest: {error}");
            ExitCode::FAILURE
        }
    }
}

fn load(options: &Options) -> Result<String, String> {
    let read = |path: &PathBuf| {
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let keys = read(&options.key_file)?;
    let key = keys.split_whitespace().find(|word| word.starts_with("mp_"));
    let key =
        key.ok_or_else(|| format!("{} holds no key that begins with mp_", options.key_file.display()))?;
    let list = read(&options.addresses)?;
    let bodies: Vec<String> = list
        .lines()
        .map(str::trim)
        .filter(|address| !address.is_empty())
        .map(|address| serde_json::json!({ "email": address }).to_string())
        .collect();
    if bodies.is_empty() {
        return Err(format!("{} holds no address", options.addresses.display()));
    }
    Connection::open(&options.server).map_err(|error| {
        format!("cannot connect to {} ({error}); name the server with --server", options.server)
    })?;
    let next = AtomicUsize::new(0);
    let started = Instant::now();
    let seen = std::thread::scope(|scope| {
        let clients: Vec<_> =
            (0..options.clients).map(|_| scope.spawn(|| client(options, key, &bodies, &next))).collect();
        let mut all = Seen::new();
        for client in clients {
            all.add(&client.join().map_err(|_| "a client panicked".to_owned())?);
        }
        Ok::<Seen, String>(all)
    })?;
    Ok(seen.report(started.elapsed().as_secs_f64()))
}

fn client(options: &Options, key: &str, bodies: &[String], next: &AtomicUsize) -> Seen {
    let mut seen = Seen::new();
    let mut connection = None;
    loop {
        let turn = next.fetch_add(1, Ordering::Relaxed);
        if turn >= options.requests as usize {
            return seen;
        }
        let begun = Instant::now();
        let answer = match connection.take() {
            Some(open) => Ok(open),
            None => Connection::open(&options.server),
        }
        .and_then(|mut open| {
            let status = open.post("/v1/verify", key, &bodies[turn % bodies.len()])?;
            connection = Some(open);
            Ok(status)
        });
        match answer {
            Ok(status) => *seen.status.entry(status).or_default() += 1,
            Err(_) => seen.failed += 1,
        }
        seen.micros.saturating_record(begun.elapsed().as_micros() as u64);
    }
}

impl Seen {
    fn new() -> Seen {
        let micros = Histogram::new_with_bounds(1, 600_000_000, 3);
        Seen {
            micros: micros.expect("the bounds are constant and sound"),
            status: BTreeMap::new(),
            failed: 0,
        }
    }

    fn add(&mut self, other: &Seen) {
        self.micros += &other.micros;
        self.failed += other.failed;
        for (status, count) in &other.status {
            *self.status.entry(*status).or_default() += count;
        }
    }

    fn report(&self, seconds: f64) -> String {
        let at = |quantile| self.micros.value_at_quantile(quantile) as f64 / 1000.0;
        let status: BTreeMap<String, u64> =
            self.status.iter().map(|(status, count)| (status.to_string(), *count)).collect();
        serde_json::json!({
            "requests": self.micros.len(),
            "seconds": seconds,
            "rate": self.micros.len() as f64 / seconds,
            "status": status,
            "failed": self.failed,
            "latency_ms": { "p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "p999": at(0.999), "max": self.micros.max() as f64 / 1000.0 },
        })
        .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_sums_up_all_clients() {
        let (mut all, mut one) = (Seen::new(), Seen::new());
        one.micros.record(2000).unwrap();
        one.status.insert(200, 1);
        all.add(&one);
        one.failed = 1;
        all.add(&one);
        let report: serde_json::Value = serde_json::from_str(&all.report(2.0)).unwrap();
        assert_eq!(report["requests"], 2);
        assert_eq!(report["rate"], 1.0);
        assert_eq!(report["status"]["200"], 2);
        assert_eq!(report["failed"], 1);
        assert!((report["latency_ms"]["p99"].as_f64().unwrap() - 2.0).abs() < 0.01);
    }
}
