//! Many checks at once, each compared with its expected reasons.

use super::super::http;
use crate::failure::Failure;
use crate::interop::process::interrupted;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The size of a stack: each check under way has a thread, which only waits.
const STACK_BYTES: usize = 256 * 1024;

/// One check with its expected reasons.
pub struct Ask {
    pub key: String,
    pub address: String,
    /// The reasons that are allowed.
    pub expected: Vec<&'static str>,
}

/// The results of many checks.
#[derive(Default)]
pub struct AskedTotals {
    right: usize,
    /// Wrong results by kind: their count, and the first address.
    wrong: BTreeMap<String, (usize, String)>,
    taken: Duration,
    /// The address of the slowest check, and its time.
    slowest: (Duration, String),
}

impl AskedTotals {
    /// A line of figures if all results were right, or the wrong ones.
    pub fn judge(&self) -> Result<String, String> {
        let (longest, address) = &self.slowest;
        let figures = format!(
            "{} right verdicts in {:.1} s, the slowest after {:.1} s: {address}",
            self.right,
            self.taken.as_secs_f32(),
            longest.as_secs_f32()
        );
        if self.wrong.is_empty() && self.right > 0 {
            return Ok(figures);
        }
        let line = |(kind, (times, address)): (&String, &(usize, String))| {
            format!("\n      {times} of {kind}: {address}")
        };
        Err(figures + &self.wrong.iter().map(line).collect::<String>())
    }
}

/// Makes all checks, `at_once` at a time.
pub fn ask_all(server: SocketAddr, asks: &[Ask], at_once: usize) -> Result<AskedTotals, Failure> {
    let start = Instant::now();
    let (next, asked) = (AtomicUsize::new(0), Mutex::new(AskedTotals::default()));
    let work = || {
        while let Some(ask) = asks.get(next.fetch_add(1, Ordering::Relaxed)) {
            if interrupted().is_err() {
                return;
            }
            let begin = Instant::now();
            let (outcome, taken) = (check(server, ask), begin.elapsed());
            let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
            if taken > asked.slowest.0 {
                asked.slowest = (taken, ask.address.clone());
            }
            match outcome {
                Ok(()) => asked.right += 1,
                Err(said) => {
                    let kind = format!("{}, {said} for {}", ask.kind(), ask.expected.join(" or "));
                    asked.wrong.entry(kind).or_insert_with(|| (0, ask.address.clone())).0 += 1;
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..at_once.min(asks.len()) {
            let spawned = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work);
            spawned.map_err(|error| Failure(format!("no thread for a check: {error}")))?;
        }
        Ok(())
    })?;
    interrupted()?;
    let asked = asked.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(AskedTotals { taken: start.elapsed(), ..asked })
}
impl Ask {
    /// The domain without the numbers of its copy.
    fn kind(&self) -> &str {
        let domain = self.address.rsplit_once('@').map_or("", |(_, domain)| domain);
        let stem = domain.split('.').next().unwrap_or_default();
        stem.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-')
    }
}

/// Makes one check; the error is a result that is not expected.
fn check(server: SocketAddr, ask: &Ask) -> Result<(), String> {
    let answer = http::verify(server, &ask.key, &ask.address)?;
    match (answer.status, answer.text("reason")) {
        (200, reason) if ask.expected.contains(&reason) => Ok(()),
        (200, reason) => Err(reason.to_owned()),
        (status, _) => Err(format!("{status} {}", answer.text("error"))),
    }
}
