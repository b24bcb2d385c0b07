//! Many checks at once, each compared with its expected reasons.

use super::super::api::Api;
use super::super::crowd::each;
use super::scenario::ExpectedReasons;
use crate::failure::Failure;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

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
pub fn ask_all(api: Api<'_>, asks: &[ExpectedReasons], at_once: usize) -> Result<AskedTotals, Failure> {
    let start = Instant::now();
    let mut asked = AskedTotals::default();
    let checks = each(asks.len(), at_once, |number| {
        let begin = Instant::now();
        (check(api, &asks[number]), begin.elapsed())
    })?;
    for ((address, expected), (outcome, taken)) in asks.iter().zip(checks) {
        if taken > asked.slowest.0 {
            asked.slowest = (taken, address.clone());
        }
        match outcome {
            Ok(()) => asked.right += 1,
            Err(said) => {
                let kind = format!("{}, {said} for {}", kind(address), expected.join(" or "));
                asked.wrong.entry(kind).or_insert_with(|| (0, address.clone())).0 += 1;
            }
        }
    }
    asked.taken = start.elapsed();
    Ok(asked)
}

/// The domain of an address without the numbers of its copy.
fn kind(address: &str) -> &str {
    let domain = address.rsplit_once('@').map_or("", |(_, domain)| domain);
    let stem = domain.split('.').next().unwrap_or_default();
    stem.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-')
}

/// Makes one check; the error is a result that is not expected.
fn check(api: Api<'_>, (address, expected): &ExpectedReasons) -> Result<(), String> {
    let answer = api.verify(address)?;
    match (answer.status, answer.word("reason")) {
        (200, reason) if expected.contains(&reason.as_str()) => Ok(()),
        (200, reason) => Err(reason),
        (status, _) => Err(format!("{status} {}", answer.word("error"))),
    }
}
