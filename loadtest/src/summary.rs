//! The figures of a run, which are printed, written as JSON and plotted.

use crate::cores::CoresUsed;
use crate::digits::grouped;
use crate::load::{Load, Loop};
use crate::mix::Endpoint;
use crate::objective::{Objective, Verdict, in_seconds};
use crate::origin::Origin;
use crate::run::{Outcome, Second};
use crate::sampler::GAUGES;
use crate::stats::{SHOWN, Seen, quantile_ms};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// With fewer full checks, it may be chance that no mailbox exists.
const FULL_CHECKS_MIN: u64 = 10;
const NO_DOMAINS: &str = "no domain of the numbered addresses exists for this server: give --addresses, or let its mail \
                          internet have d1.example to d1000.example (docs/loadtest.md has a scenario of mailnet)";

/// The content of a report.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// The load in words.
    pub title: String,
    /// The date, the versions, the machine and the command.
    pub origin: Option<Origin>,
    pub load: LoadShown,
    /// The length of the counted time in seconds.
    pub seconds: f64,
    /// Due requests, answers with 2xx per second, refusals for the rate, and requests without a 2xx.
    pub requests: u64,
    pub rate: f64,
    pub limited: u64,
    pub errors: u64,
    pub endpoints: Vec<EndpointShown>,
    pub reasons: BTreeMap<String, u64>,
    pub cached: u64,
    pub batch_rows: u64,
    pub server: ServerShown,
    pub client: ClientShown,
    pub objectives: Vec<Verdict>,
    pub warnings: Vec<String>,
    /// Whether a signal ended the run early.
    pub interrupted: bool,
    pub timeline: Vec<Second>,
    pub samples: Vec<SampleShown>,
}

/// The load in the report's JSON.
#[derive(Debug, Serialize)]
pub struct LoadShown {
    pub mix: String,
    /// Open loop: the requests per second.
    pub rate: Option<f64>,
    /// Closed loop: the number of clients.
    pub clients: Option<usize>,
    pub warm_up_s: f64,
    pub duration_s: f64,
    pub spread: &'static str,
    pub batch_size: u32,
    pub timeout_s: f64,
    pub connections: usize,
    pub threads: usize,
    pub spin: bool,
    pub seed: u64,
}

/// The figures of one endpoint in the report's JSON.
#[derive(Debug, Serialize)]
pub struct EndpointShown {
    pub name: &'static str,
    pub requests: u64,
    pub errors: u64,
    pub limited: u64,
    pub status: BTreeMap<u16, u64>,
    pub failures: BTreeMap<&'static str, u64>,
    /// Milliseconds by percentile, counted from the due time.
    pub latency_ms: BTreeMap<&'static str, f64>,
    /// The whole distribution as percentiles and milliseconds.
    pub distribution: Vec<(f64, f64)>,
}

/// The figures of the server in the report's JSON.
#[derive(Debug, Serialize)]
pub struct ServerShown {
    pub cpu_s: Option<f64>,
    pub cpu_s_per_1000: Option<f64>,
    /// The average number of busy cores.
    pub cores: Option<f64>,
    pub rss_peak_mib: Option<f64>,
    /// The resident memory at the end of a run, divided by that in its middle third.
    pub rss_growth: Option<f64>,
}

/// The figures of the client in the report's JSON.
#[derive(Debug, Serialize)]
pub struct ClientShown {
    /// The largest CPU share of a thread.
    pub busy: f64,
    pub us_per_request: f64,
    /// The busy share of all cores of the client's machine.
    pub machine_busy: Option<f64>,
    /// The busy cores of this machine by program.
    pub cores_used: Option<CoresUsed>,
}

/// A sample of the server in the report's JSON.
#[derive(Debug, Clone, Serialize)]
pub struct SampleShown {
    pub at: f64,
    /// The number of busy cores since the previous sample.
    pub cores: Option<f64>,
    pub rss_mib: Option<f64>,
    pub gauges: BTreeMap<&'static str, f64>,
}

impl Summary {
    /// The summary of a run, with the results of its objectives.
    pub fn of(outcome: &Outcome, objectives: &[Objective]) -> Summary {
        let all = outcome.stats.all();
        let used = Endpoint::ALL.into_iter().filter(|one| outcome.stats.of(*one).requests() > 0);
        let mut endpoints: Vec<EndpointShown> =
            used.map(|one| endpoint(one.name(), outcome.stats.of(one))).collect();
        if endpoints.len() > 1 {
            endpoints.push(endpoint("all", &all));
        }
        let load = &outcome.load;
        Summary {
            title: title(load),
            origin: None,
            load: shown(load),
            seconds: outcome.seconds,
            requests: all.requests(),
            rate: outcome.rate(),
            limited: all.limited(),
            errors: all.errors(),
            endpoints,
            reasons: outcome.stats.reasons.clone(),
            cached: outcome.stats.cached,
            batch_rows: outcome.stats.batch_rows,
            server: server(outcome),
            client: ClientShown {
                busy: outcome.client_busy,
                us_per_request: outcome.client_us,
                machine_busy: outcome.machine_busy,
                cores_used: outcome.cores_used,
            },
            objectives: objectives.iter().map(|one| one.judge(outcome)).collect(),
            warnings: warnings(outcome, &all, objectives),
            interrupted: outcome.interrupted,
            timeline: outcome.timeline.clone(),
            samples: samples(outcome),
        }
    }

    /// Whether every objective was met.
    pub fn met(&self) -> bool {
        self.objectives.iter().all(|verdict| verdict.met)
    }

    /// Whether any request got an answer with 2xx. A run without one has measured nothing.
    pub fn has_good_answers(&self) -> bool {
        self.errors < self.requests
    }

    /// The report as text for a terminal.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(out, "{}\n{}", self.title, self.counts());
        let _ = writeln!(
            out,
            "\n{:<8}{:>10}{:>8}{:>8}{:>11}{:>11}{:>11}{:>11}{:>11}",
            "", "requests", "errors", "429", "p50 ms", "p90 ms", "p99 ms", "p99.9 ms", "max ms"
        );
        for one in &self.endpoints {
            let _ = write!(out, "{:<8}{:>10}{:>8}{:>8}", one.name, one.requests, one.errors, one.limited);
            for (name, _) in SHOWN {
                let _ = write!(out, "{:>11.2}", one.latency_ms.get(name).copied().unwrap_or(0.0));
            }
            out.push('\n');
        }
        for line in self.endpoints.iter().filter_map(EndpointShown::errors) {
            let _ = writeln!(out, "{line}");
        }
        if !self.reasons.is_empty() {
            out.push('\n');
        }
        for line in self.answers_and_costs() {
            let _ = writeln!(out, "{line}");
        }
        for warning in &self.warnings {
            let _ = writeln!(out, "warning: {warning}");
        }
        for verdict in &self.objectives {
            let _ = writeln!(out, "{}", verdict.line);
        }
        if let Some(origin) = &self.origin {
            out.push('\n');
            out.push_str(&origin.text());
        }
        out
    }

    /// The numbers of requests, good answers and errors in one line.
    pub fn counts(&self) -> String {
        format!(
            "{} requests in {:.1} s, {:.1} good answers/s, {} errors ({} of them 429)",
            self.requests, self.seconds, self.rate, self.errors, self.limited
        )
    }

    /// The lines about the answers, and about the costs of the server and of the client.
    pub fn answers_and_costs(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.reasons.is_empty() {
            let parts: Vec<String> =
                self.reasons.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
            lines.push(format!("reasons: {}; repeats: {}", parts.join(", "), self.cached));
        }
        if self.batch_rows > 0 {
            lines.push(format!("rows of accepted batches: {}", self.batch_rows));
        }
        lines.extend(self.costs_of_server());
        let ClientShown { busy, us_per_request, cores_used, .. } = self.client;
        lines.push(format!(
            "client: {us_per_request:.1} us of CPU per request, its busiest thread {:.0} % busy",
            busy * 100.0
        ));
        lines.extend(cores_used.map(|used| used.line()));
        lines
    }

    fn costs_of_server(&self) -> Vec<String> {
        let (mut lines, server) = (Vec::new(), &self.server);
        if let (Some(cpu), Some(each), Some(cores)) = (server.cpu_s, server.cpu_s_per_1000, server.cores) {
            let rows = if self.batch_rows == 0 {
                String::new()
            } else {
                format!(
                    " ({} rows of batches are not counted as requests)",
                    grouped(self.batch_rows as f64, 0)
                )
            };
            lines.push(format!(
                "server: {cpu:.2} CPU s, {each:.4} CPU s per 1,000 requests{rows}, {cores:.2} cores busy"
            ));
        }
        if let Some(rss) = server.rss_peak_mib {
            let growth = server.rss_growth.map_or(String::new(), |growth| {
                format!(", {:+.1} % from the middle third of the run to the last", growth * 100.0)
            });
            lines.push(format!("server: {rss:.1} MiB maximum resident memory{growth}"));
        }
        lines
    }

    /// Warns if the answers show that no domain of the numbered addresses exists: then the run has tested no mail server.
    pub fn warn_of_missing_domains(&mut self, outcome: &Outcome) {
        let good = |endpoint: Endpoint| {
            let seen = outcome.stats.of(endpoint);
            seen.requests() - seen.errors()
        };
        let of = |reason: &str| self.reasons.get(reason).copied().unwrap_or(0);
        let (fast, full) = (good(Endpoint::Fast), good(Endpoint::Full));
        let all_fast = fast > 0 && of("no_mx") == fast;
        // Every second numbered address of the scenario in docs/loadtest.md exists.
        let all_full = full >= FULL_CHECKS_MIN && of("mailbox_not_found") == full;
        if all_fast || all_full {
            self.warnings.push(NO_DOMAINS.to_owned());
        }
    }
}

impl EndpointShown {
    /// The errors by kind in one line; `None` if there are none.
    fn errors(&self) -> Option<String> {
        let bad = self.status.iter().filter(|(status, _)| !(200..300).contains(*status));
        let bad = bad.map(|(status, count)| format!("{status}: {count}"));
        let lost = self.failures.iter().map(|(name, count)| format!("{name}: {count}"));
        let parts: Vec<String> = bad.chain(lost).collect();
        (!parts.is_empty()).then(|| format!("errors of {}: {}", self.name, parts.join(", ")))
    }
}

/// The load in words.
pub fn title(load: &Load) -> String {
    let pressure = match load.pressure {
        Loop::Open(rate) => format!("{rate:.1} requests/s, open loop"),
        Loop::Closed(clients) => format!("{clients} clients, closed loop"),
    };
    format!(
        "{pressure}, mix {}, {} after {} of warm-up",
        load.mix,
        in_seconds(load.duration),
        in_seconds(load.warm_up)
    )
}

fn shown(load: &Load) -> LoadShown {
    LoadShown {
        mix: load.mix.to_string(),
        rate: load.rate(),
        clients: load.clients(),
        warm_up_s: load.warm_up.as_secs_f64(),
        duration_s: load.duration.as_secs_f64(),
        spread: load.spread.name(),
        batch_size: load.batch_size,
        timeout_s: load.patience.as_secs_f64(),
        connections: load.connections,
        spin: load.spin,
        threads: load.threads,
        seed: load.seed,
    }
}

fn endpoint(name: &'static str, seen: &Seen) -> EndpointShown {
    EndpointShown {
        name,
        requests: seen.requests(),
        errors: seen.errors(),
        limited: seen.limited(),
        status: seen.status.clone(),
        failures: seen.failures.iter().map(|(failure, count)| (failure.name(), *count)).collect(),
        latency_ms: SHOWN.map(|(name, quantile)| (name, quantile_ms(&seen.latency, quantile))).into(),
        distribution: distribution(seen),
    }
}

/// Percentiles that approach 1 by a constant factor, as far as the number of requests allows.
fn distribution(seen: &Seen) -> Vec<(f64, f64)> {
    let (mut points, mut rest) = (Vec::new(), 1.0f64);
    let finest = 1.0 / seen.requests().max(1) as f64;
    while rest > finest {
        points.push((1.0 - rest, quantile_ms(&seen.latency, 1.0 - rest)));
        rest /= 1.25;
    }
    points.push((1.0 - finest, quantile_ms(&seen.latency, 1.0)));
    points
}

fn server(outcome: &Outcome) -> ServerShown {
    ServerShown {
        cpu_s: outcome.server_cpu_s,
        cpu_s_per_1000: outcome.cpu_per_thousand(),
        cores: outcome.server_cpu_s.map(|cpu| cpu / outcome.seconds),
        rss_peak_mib: outcome.rss_peak_kib().map(|kib| kib as f64 / 1024.0),
        rss_growth: rss_growth(outcome),
    }
}

/// The growth of the mean from the middle third to the last third of the counted samples. In the first third a new
/// server fills its caches.
fn rss_growth(outcome: &Outcome) -> Option<f64> {
    let from = outcome.load.warm_up.as_secs_f64();
    let counted: Vec<f64> = outcome
        .samples
        .iter()
        .filter(|sample| sample.at >= from && sample.at <= from + outcome.seconds)
        .filter_map(|sample| sample.rss_kib.map(|kib| kib as f64))
        .collect();
    let third = counted.len() / 3;
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    (third > 0).then(|| {
        mean(&counted[counted.len() - third..])
            / mean(&counted[counted.len() - 2 * third..counted.len() - third])
            - 1.0
    })
}

fn samples(outcome: &Outcome) -> Vec<SampleShown> {
    let mut before: Option<(f64, f64)> = None;
    let shown = outcome.samples.iter().map(|sample| {
        let cores = before.zip(sample.cpu_s).and_then(|((at, cpu), now)| {
            (sample.at > at + 0.2).then(|| ((now - cpu) / (sample.at - at)).max(0.0))
        });
        before = sample.cpu_s.map(|cpu| (sample.at, cpu));
        let gauges = GAUGES.iter().zip(sample.gauges).filter_map(|((_, name), value)| Some((*name, value?)));
        let rss_mib = sample.rss_kib.map(|kib| kib as f64 / 1024.0);
        SampleShown { at: sample.at, cores, rss_mib, gauges: gauges.collect() }
    });
    shown.collect()
}

/// Warnings about figures with limited value.
fn warnings(outcome: &Outcome, all: &Seen, objectives: &[Objective]) -> Vec<String> {
    let mut warnings = Vec::new();
    if outcome.interrupted {
        warnings.push("ended early by a signal".to_owned());
    }
    if outcome.client_limited() {
        warnings.push(format!(
            "the client was {:.0} % busy, so the figures may show its own limit: use more --threads",
            outcome.client_busy * 100.0
        ));
    }
    if all.errors() == all.requests() {
        warnings.push("no request got a good answer, so the exit code is 1".to_owned());
    }
    warnings.extend(outcome.cores_used.and_then(|used| used.warning()));
    warnings.extend(objectives.iter().filter_map(|objective| objective.warning(outcome)));
    let unsent = all.failures.get(&crate::stats::Failure::Unsent).copied().unwrap_or(0);
    if unsent > 0 {
        warnings.push(format!(
            "{unsent} requests were due and not sent, because no connection was free: the server is too slow, or --connections is too low"
        ));
    }
    if all.limited() > 0 {
        warnings.push(
            "some requests got 429: give the account limits above the load (`mailprobe account set-limits`), or use --data"
                .to_owned(),
        );
    }
    if all.status.contains_key(&402) {
        warnings.push(
            "some requests got 402: grant the account credits (`mailprobe account grant`), or use --data"
                .to_owned(),
        );
    }
    let checks = outcome.stats.of(Endpoint::Full).requests();
    if outcome.stats.cached * 10 > checks && checks > 0 {
        warnings.push(
            "more than a tenth of the full checks were repeats, which cost little: use more addresses"
                .to_owned(),
        );
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::outcome;
    use crate::sampler::Sample;

    #[test]
    fn a_run_is_summed_up() {
        let mut run = outcome();
        for (number, sample) in run.samples.iter_mut().enumerate() {
            *sample = Sample {
                at: number as f64,
                cpu_s: Some(number as f64 * 0.5),
                rss_kib: Some(if number < 5 { 10_240 } else { 20_480 }),
                ..Sample::default()
            };
        }
        let summary = Summary::of(&run, &["errors=1%".parse().unwrap()]);
        assert_eq!((summary.requests, summary.errors, summary.limited), (100, 2, 2));
        assert!(!summary.met());
        assert_eq!(summary.endpoints.len(), 1, "one endpoint needs no sum");
        let full = &summary.endpoints[0];
        assert!((full.latency_ms["p90"] - 90.0).abs() < 0.1);
        let last = full.distribution.last().unwrap();
        assert!((last.0 - 0.99).abs() < 1e-9 && (last.1 - 100.0).abs() < 0.2, "{last:?}");
        assert!(full.distribution.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 <= two[1].1));
        assert!(summary.server.rss_growth.is_some_and(|growth| (growth - 0.2).abs() < 1e-9));
        assert_eq!(summary.samples[1].cores, Some(0.5));
        let text = summary.text();
        assert!(text.contains("of them 429)\n") && !text.contains("rows of"), "{text}");
        for part in ["429: 2", "0.5000 CPU s per 1,000", "20.0 MiB", "missed: errors=1%", "of them 429"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        run.stats.batch_rows = 4100;
        let text = Summary::of(&run, &[]).text();
        for part in [
            "rows of accepted batches: 4100",
            "requests (4,100 rows of batches are not counted as requests), ",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let json = serde_json::to_value(&summary).unwrap();
        assert_eq!(json["endpoints"][0]["latency_ms"]["max"], 100.031);
    }

    #[test]
    fn numbered_addresses_without_domains_are_told() {
        let warned = |reason: &str, count: u64| {
            let mut run = outcome();
            run.stats.reasons.insert(reason.into(), count);
            let mut summary = Summary::of(&run, &[]);
            summary.warn_of_missing_domains(&run);
            summary.warnings.iter().any(|warning| warning.contains("give --addresses"))
        };
        // 98 of the 100 full checks have an answer with 2xx.
        assert!(warned("mailbox_not_found", 98) && !warned("mailbox_not_found", 97));
        assert!(!warned("no_mx", 98), "there were no fast checks");
    }

    #[test]
    fn advice_fits_the_refusal() {
        let mut run = outcome();
        run.stats.answered(Endpoint::Full, 402, std::time::Duration::from_millis(1));
        let warnings = Summary::of(&run, &[]).warnings;
        for part in [
            "got 402: grant the account credits (`mailprobe account grant`)",
            "`mailprobe account set-limits`",
        ] {
            assert!(warnings.iter().any(|warning| warning.contains(part)), "{warnings:?}");
        }
    }
}
