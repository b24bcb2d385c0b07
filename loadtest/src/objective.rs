//! The objectives of a run: `full.p99=250ms`, `errors=0.1%`, `rate=95%`, `rss=512MiB`.

use crate::digits::grouped;
use crate::mix::Endpoint;
use crate::run::Outcome;
use crate::stats::{SHOWN, quantile_ms};
use serde::{Serialize, Serializer};
use usage::values::duration;

/// One objective of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Objective {
    /// The text of the option.
    pub text: String,
    /// The endpoint; `None`: the objective is of all requests.
    pub endpoint: Option<Endpoint>,
    measure: Measure,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Measure {
    /// At most this many milliseconds at a quantile.
    Latency { quantile: f64, ms: f64 },
    /// At most this share of requests without a 2xx.
    Errors(f64),
    /// At least this many good answers a second.
    Rate(f64),
    /// At least this share of the due requests was answered with 2xx.
    RateShare(f64),
    /// At most so much resident memory, in KiB.
    Rss(f64),
}

/// The limit of a measure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    pub limit: f64,
    /// The unit of the limit and of the result.
    pub unit: &'static str,
    /// Whether the limit is a minimum instead of a maximum.
    pub at_least: bool,
}

/// The result of an objective.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    pub objective: String,
    pub met: bool,
    /// The measured value in the unit of the objective; `None` without data.
    pub found: Option<f64>,
    /// One line with the value and its distance from the limit.
    pub line: String,
}

impl Objective {
    /// Judges a run by this objective.
    pub fn judge(&self, outcome: &Outcome) -> Verdict {
        let seen = self.endpoint.map_or_else(|| outcome.stats.all(), |one| outcome.stats.of(one).clone());
        let found = match self.measure {
            _ if self.endpoint.is_some() && seen.requests() == 0 => {
                return self.unseen("there were no such requests");
            }
            Measure::Latency { quantile, .. } => quantile_ms(&seen.latency, quantile),
            Measure::Errors(_) => seen.errors() as f64 * 100.0 / seen.requests().max(1) as f64,
            Measure::Rate(_) => outcome.rate(),
            // The share of due requests, not of the requested rate, since random arrivals vary.
            Measure::RateShare(_) => {
                let good = seen.requests() - seen.errors();
                good as f64 * 100.0 / seen.requests().max(1) as f64
            }
            Measure::Rss(_) => match outcome.rss_peak_kib() {
                Some(found) => found as f64 / 1024.0,
                None => {
                    return self.unseen("the server's memory is unknown: use --spawn, --pid or --metrics");
                }
            },
        };
        let Bound { limit, unit, at_least } = self.bound();
        let met = if at_least { found >= limit } else { found <= limit };
        let line = if met {
            format!("met: {}: {found:.2} {unit}", self.text)
        } else {
            let off = (found - limit).abs();
            let (word, share) =
                (if at_least { "under" } else { "over" }, off * 100.0 / limit.max(f64::MIN_POSITIVE));
            let share = if share < 1e6 { format!(" ({share:.0} %)") } else { String::new() };
            format!("missed: {}: {found:.2} {unit}, {off:.2} {word}{share}", self.text)
        };
        Verdict { objective: self.text.clone(), met, found: Some(found), line }
    }

    /// A result without data is a failure.
    fn unseen(&self, why: &str) -> Verdict {
        let line = format!("missed: {}: {why}", self.text);
        Verdict { objective: self.text.clone(), met: false, found: None, line }
    }

    /// The name of the measure as given: `full.p99`.
    pub fn subject(&self) -> &str {
        self.text.split_once('=').map_or(&self.text, |(subject, _)| subject)
    }

    /// How many requests the measure needs: ten above its percentile.
    fn requests_needed(&self) -> u64 {
        match self.measure {
            Measure::Latency { quantile, .. } if quantile < 1.0 => (10.0 / (1.0 - quantile)).round() as u64,
            _ => 0,
        }
    }

    /// A warning if the run has too few requests for the percentile of this objective.
    pub fn warning(&self, outcome: &Outcome) -> Option<String> {
        let seen = match self.endpoint {
            Some(endpoint) => outcome.stats.of(endpoint).requests(),
            None => outcome.stats.all().requests(),
        };
        let (needed, subject) = (self.requests_needed(), self.subject());
        let requests = self.endpoint.map_or("requests", Endpoint::plural);
        (seen > 0 && seen < needed).then(|| {
            format!(
                "{subject} of {} {requests} is uncertain: use at least {} (a longer --duration)",
                grouped(seen as f64, 0),
                grouped(needed as f64, 0)
            )
        })
    }

    /// The limit of the measure.
    pub fn bound(&self) -> Bound {
        let (limit, unit, at_least) = match self.measure {
            Measure::Latency { ms, .. } => (ms, "ms", false),
            Measure::Errors(share) => (share * 100.0, "%", false),
            Measure::Rate(rate) => (rate, "/s", true),
            Measure::RateShare(share) => (share * 100.0, "% of the due requests", true),
            Measure::Rss(kib) => (kib / 1024.0, "MiB", false),
        };
        Bound { limit, unit, at_least }
    }
}

impl std::str::FromStr for Objective {
    type Err = String;

    fn from_str(text: &str) -> Result<Objective, String> {
        let (left, limit) =
            text.split_once('=').ok_or("an objective has the form [ENDPOINT.]MEASURE=LIMIT")?;
        let (endpoint, measure) =
            match left.split_once('.').and_then(|(name, measure)| Some((Endpoint::named(name)?, measure))) {
                Some((endpoint, measure)) => (Some(endpoint), measure),
                None => (None, left),
            };
        let whole_run = |measure: Measure| match endpoint {
            None => Ok(measure),
            Some(_) => Err(format!("`{left}`: this measure is of the whole run, not of an endpoint")),
        };
        let measure = match measure {
            "errors" => Measure::Errors(share(limit)?),
            "rate" if limit.ends_with('%') => whole_run(Measure::RateShare(share(limit)?))?,
            "rate" => whole_run(Measure::Rate(number(limit, limit)?))?,
            "rss" => whole_run(Measure::Rss(kib(limit)?))?,
            name => {
                let known = SHOWN.iter().find(|(shown, _)| *shown == name);
                let (_, quantile) = known.ok_or_else(|| {
                    format!(
                        "`{name}` is not a measure; the measures are p50, p90, p99, p99.9, max, errors, rate and rss"
                    )
                })?;
                Measure::Latency { quantile: *quantile, ms: milliseconds(limit)? }
            }
        };
        Ok(Objective { text: text.to_owned(), endpoint, measure })
    }
}

/// The text of the option.
impl Serialize for Objective {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

fn number(digits: &str, whole: &str) -> Result<f64, String> {
    let number = digits.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| format!("`{whole}` is not a valid number"))
}

fn share(text: &str) -> Result<f64, String> {
    let digits =
        text.strip_suffix('%').ok_or_else(|| format!("`{text}` is not a percentage such as 0.1%"))?;
    Ok(number(digits, text)? / 100.0)
}

/// A time with its unit, in milliseconds.
pub fn milliseconds(text: &str) -> Result<f64, String> {
    let time = duration(text, None).map_err(|rule| format!("`{text}` is not a time: {rule}"))?;
    Ok(time.as_secs_f64() * 1000.0)
}

fn kib(text: &str) -> Result<f64, String> {
    for (unit, factor) in [("KiB", 1.0), ("MiB", 1024.0), ("GiB", 1024.0 * 1024.0)] {
        if let Some(digits) = text.strip_suffix(unit) {
            return Ok(number(digits, text)? * factor);
        }
    }
    Err(format!("`{text}` is not a size such as 512MiB"))
}

/// Parses a time for clap.
///
/// # Errors
///
/// One line: the text is no time.
pub fn time(text: &str) -> Result<std::time::Duration, String> {
    let ms = milliseconds(text)?;
    if ms > 7.0 * 86_400_000.0 {
        return Err("the maximum is a week".into());
    }
    Ok(std::time::Duration::from_secs_f64(ms / 1000.0))
}

/// A time in seconds, without zeros at its end: `1.5 s`.
pub fn in_seconds(time: std::time::Duration) -> String {
    let text = format!("{:.3}", time.as_secs_f64());
    format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::outcome;

    #[test]
    fn times_are_not_rounded() {
        for (ms, text) in
            [(0, "0 s"), (500, "0.5 s"), (1500, "1.5 s"), (30_000, "30 s"), (100_001, "100.001 s")]
        {
            assert_eq!(in_seconds(std::time::Duration::from_millis(ms)), text);
        }
    }

    #[test]
    fn a_percentile_of_few_requests_is_uncertain() {
        let warning = |text: &str| text.parse::<Objective>().unwrap().warning(&outcome());
        let wanted = "full.p99 of 100 full checks is uncertain: use at least 1,000 (a longer --duration)";
        assert_eq!(warning("full.p99=1s").as_deref(), Some(wanted));
        assert!(
            warning("p99.9=1s").is_some_and(|text| text.contains("100 requests") && text.contains("10,000"))
        );
        for enough in ["p50=1s", "p90=1s", "max=1s", "errors=1%", "fast.p99=1s"] {
            assert_eq!(warning(enough), None, "{enough}");
        }
    }

    #[test]
    fn objectives_are_read() {
        for (text, endpoint, measure) in [
            ("full.p99=250ms", Some(Endpoint::Full), Measure::Latency { quantile: 0.99, ms: 250.0 }),
            ("p99.9=1.5s", None, Measure::Latency { quantile: 0.999, ms: 1500.0 }),
            ("fast.p99.9=500us", Some(Endpoint::Fast), Measure::Latency { quantile: 0.999, ms: 0.5 }),
            ("errors=0.1%", None, Measure::Errors(0.001)),
            ("rate=95%", None, Measure::RateShare(0.95)),
            ("rate=1000", None, Measure::Rate(1000.0)),
            ("rss=0.5GiB", None, Measure::Rss(512.0 * 1024.0)),
        ] {
            let objective: Objective = text.parse().unwrap();
            assert_eq!(objective.endpoint, endpoint, "{text}");
            let close = |one: f64, other: f64| (one - other).abs() < 1e-9;
            let same = match (objective.measure, measure) {
                (Measure::Latency { quantile, ms }, Measure::Latency { quantile: wanted, ms: limit }) => {
                    close(quantile, wanted) && close(ms, limit)
                }
                (Measure::Errors(one), Measure::Errors(other)) => close(one, other),
                (one, other) => one == other,
            };
            assert!(same, "{text}: {:?}", objective.measure);
        }
        for text in [
            "p99",
            "p98=1ms",
            "p99=1",
            "errors=1",
            "full.rate=3",
            "rss=5",
            "slow.p99=1ms",
            "p99=-1ms",
            "p99=xms",
        ] {
            assert!(text.parse::<Objective>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_miss_says_by_how_much() {
        // 100 full checks of 1 to 100 ms in ten seconds, two of them refused.
        let outcome = outcome();
        for (text, met, line) in [
            ("full.p99=100ms", true, "met: full.p99=100ms: 99.0"),
            ("p50=40ms", false, "missed: p50=40ms: 50.0"),
            ("p50=40ms", false, "ms, 10.0"),
            ("p50=40ms", false, "over (25 %)"),
            ("errors=1%", false, "missed: errors=1%: 2.00 %, 1.00 over (100 %)"),
            ("errors=0%", false, "missed: errors=0%: 2.00 %, 2.00 over"),
            ("errors=2%", true, "met: errors=2%: 2.00 %"),
            ("rate=9.8", true, "met: rate=9.8: 9.80 /s"),
            ("rate=99%", false, "98.00 % of the due requests, 1.00 under (1 %)"),
            ("fast.p50=1s", false, "there were no such requests"),
            ("rss=1GiB", false, "memory is unknown"),
        ] {
            let verdict = text.parse::<Objective>().unwrap().judge(&outcome);
            assert_eq!(verdict.met, met, "{text}: {}", verdict.line);
            assert!(verdict.line.contains(line), "{text}: {}", verdict.line);
        }
    }
}
