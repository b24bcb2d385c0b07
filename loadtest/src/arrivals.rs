//! The times of requests: a fixed rate that does not depend on the server (open loop). A server that stalls gets all
//! requests of that time afterwards, and their latency counts from their due times. A client that waits for an answer
//! before its next request (closed loop) omits exactly these: that is coordinated omission.

use crate::random::Random;
use std::time::Duration;

/// The distribution of arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Spread {
    /// Random times with exponential gaps, like those of independent callers.
    Poisson,
    /// Regular times: equal gaps.
    Even,
}

impl Spread {
    /// The name in `--spread` and in results.
    pub fn name(self) -> &'static str {
        match self {
            Spread::Poisson => "poisson",
            Spread::Even => "even",
        }
    }
}

/// The arrivals of one of several threads.
#[derive(Debug, Clone)]
pub struct Arrivals {
    gap: f64,
    /// The next arrival, in seconds from the start.
    next: f64,
    spread: Spread,
    random: Random,
}

impl Arrivals {
    /// The share of thread `part` of `parts`, for `rate` requests per second in all.
    pub fn new(rate: f64, spread: Spread, part: usize, parts: usize, seed: u64) -> Arrivals {
        let mut random = Random::new(seed ^ (part as u64).wrapping_mul(0xA076_1D64_78BD_642F));
        let gap = parts as f64 / rate;
        let next = match spread {
            Spread::Poisson => random.exponential() * gap,
            Spread::Even => gap * part as f64 / parts as f64,
        };
        Arrivals { gap, next, spread, random }
    }

    /// The time of the next arrival, from the start.
    pub fn due(&self) -> Duration {
        Duration::from_secs_f64(self.next)
    }

    /// Moves on to the next arrival.
    pub fn advance(&mut self) {
        self.next += match self.spread {
            Spread::Poisson => self.random.exponential() * self.gap,
            Spread::Even => self.gap,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(rate: f64, spread: Spread, parts: usize, seconds: f64) -> Vec<f64> {
        let mut all = Vec::new();
        for part in 0..parts {
            let mut arrivals = Arrivals::new(rate, spread, part, parts, 9);
            while arrivals.due().as_secs_f64() < seconds {
                all.push(arrivals.due().as_secs_f64());
                arrivals.advance();
            }
        }
        all.sort_by(f64::total_cmp);
        all
    }

    #[test]
    fn all_threads_together_keep_the_rate() {
        for (rate, parts, seconds) in [(1000.0, 1, 20.0), (1000.0, 3, 20.0), (0.5, 2, 40_000.0)] {
            for spread in [Spread::Even, Spread::Poisson] {
                let count = within(rate, spread, parts, seconds).len() as f64;
                let wanted = rate * seconds;
                // Four standard deviations of a Poisson count.
                assert!((count - wanted).abs() < 4.0 * wanted.sqrt(), "{rate}/s, {spread:?}: {count}");
            }
        }
    }

    #[test]
    fn even_arrivals_of_several_threads_interleave() {
        let all = within(100.0, Spread::Even, 4, 1.0);
        assert_eq!(all.len(), 100);
        assert!(all.windows(2).all(|two| (two[1] - two[0] - 0.01).abs() < 1e-9), "{all:?}");
    }

    #[test]
    fn poisson_gaps_vary_as_much_as_they_last() {
        let all = within(1000.0, Spread::Poisson, 2, 50.0);
        let gaps: Vec<f64> = all.windows(2).map(|two| two[1] - two[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.05, "{mean} {variance}");
    }
}
