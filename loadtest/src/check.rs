//! `plan --check`: tests the model with workloads that it was not fitted to. A list and a server get another latency,
//! TLS, other numbers of addresses per domain and another mix than in `calibrate`. The predictions of the model are
//! compared with measurements.

use crate::End;
use crate::figures::Figures;
use crate::list::{self, Place};
use crate::mix::{Endpoint, Mix};
use crate::model::{Demand, Way, Workload};
use crate::options::bin_dir;
use crate::plan::PlanArgs;
use crate::providers::{Pace, built_in};
use crate::run::Outcome;
use crate::sampler::SESSIONS;
use crate::say;
use crate::scenario::Scenario;
use crate::service::Service;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// The largest allowed relative error of a prediction.
const BOUND: f64 = 0.2;
const LATENCY_MS: u64 = 50;
/// How often the list is run; the median counts, as in `calibrate`.
const RUNS: u32 = 3;

/// A prediction with its measurement.
struct Compared {
    what: &'static str,
    predicted: f64,
    measured: f64,
    /// Whether the allowed error applies; other figures are shown as explanation.
    bound: bool,
}

impl Compared {
    fn off(&self) -> f64 {
        self.predicted / self.measured.max(1e-9) - 1.0
    }

    fn holds(&self) -> bool {
        !self.bound || self.off().abs() <= BOUND
    }

    fn line(&self) -> String {
        format!(
            "{:<44}{:>12.3}{:>12.3}{:>+8.0} %{}",
            self.what,
            self.predicted,
            self.measured,
            self.off() * 100.0,
            if self.holds() { "" } else { "  missed" }
        )
    }
}

/// Compares all predictions; the exit code is 1 if one exceeds the allowed error.
///
/// # Errors
///
/// One line: a workload could not be run.
pub fn check(args: &PlanArgs, figures: &Figures, stop: &Arc<AtomicBool>) -> Result<End, String> {
    crate::raise_open_files();
    let place = Place { bin_dir: bin_dir(args.bin_dir.as_deref())?, flags: &args.flags, stop };
    say(&format!("{:<44}{:>12}{:>12}{:>10}", "", "predicted", "measured", "error"))?;
    let mut held = true;
    for compared in list_check(&place, figures)?.into_iter().chain(server_check(&place, figures, stop)?) {
        say(&compared.line())?;
        held &= compared.holds();
    }
    Ok(if held { End::Met } else { End::Missed })
}

/// A list with half the addresses of a domain, over TLS.
fn list_check(place: &Place<'_>, figures: &Figures) -> Result<Vec<Compared>, String> {
    let (domains, each) = (2000, 50);
    let scenario = Scenario { latency_ms: LATENCY_MS, tls: true, ..Scenario::of(domains) };
    let work = list::ListWorkload { scenario, each };
    let cost = work.clean(place, RUNS)?;
    let workload = Workload {
        way: Way::Clean,
        addresses: work.addresses() as f64,
        fast: 0.0,
        seconds: cost.seconds,
        per_domain: each as f64,
        ..second_workload()
    };
    let demand = Demand::of(&workload, figures, &built_in(Pace::Lab));
    let row = |what, predicted, measured, bound| Compared { what, predicted, measured, bound };
    Ok(vec![
        row("list, TLS, 50 ms, 50 per domain: CPU s", demand.cpu_s, cost.cpu_s, true),
        row("  sessions", demand.sessions, cost.counted.sessions, false),
    ])
}

/// Fast and full checks at the same time.
fn server_check(
    place: &Place<'_>,
    figures: &Figures,
    stop: &Arc<AtomicBool>,
) -> Result<Vec<Compared>, String> {
    let (domains, rate, seconds) = (250u64, 250.0, 20.0);
    let mix: Mix = "fast=60,full=40".parse()?;
    let scenario = Scenario { latency_ms: LATENCY_MS, tls: true, ..Scenario::of(domains) };
    let service = Service::start(place, scenario)?;
    let (began, before) = (Instant::now(), service.cpu_s()?);
    let asked = service.ask(rate, mix, Duration::from_secs_f64(seconds), stop);
    let outcome = asked.map_err(|error| error.to_string())?;
    service.settle(stop)?;
    let (spent, took) = (service.cpu_s()? - before, began.elapsed().as_secs_f64());
    let sessions = service.stop()?.sessions;
    let [fast, full] = [Endpoint::Fast, Endpoint::Full].map(|one| outcome.stats.of(one).answered() as f64);
    let workload = Workload {
        way: Way::Api,
        addresses: fast + full,
        fast: fast / (fast + full),
        seconds,
        per_domain: (fast + full) / domains as f64,
        ..second_workload()
    };
    let mut demand = Demand::of(&workload, figures, &built_in(Pace::Lab));
    // The time in which the last sessions ended belongs to the measurement.
    demand.cpu_s += (took - seconds) * figures.cpu_us.idle_second / 1e6;
    let thousand = (fast + full) / 1000.0;
    let row = |what, predicted, measured, bound| Compared { what, predicted, measured, bound };
    Ok(vec![
        row(
            "server, TLS, 50 ms, fast=60,full=40: CPU s per 1,000",
            demand.cpu_s / thousand,
            spent / thousand,
            true,
        ),
        row("  sessions", demand.sessions, sessions, false),
        row("  open sessions", demand.sessions_open, open(&outcome, seconds), false),
    ])
}

/// The average number of open sessions, after the first had ended.
fn open(outcome: &Outcome, seconds: f64) -> f64 {
    let steady = outcome.samples.iter().filter(|sample| sample.at > seconds / 4.0 && sample.at < seconds);
    let open: Vec<f64> = steady.filter_map(|sample| sample.gauges[SESSIONS]).collect();
    open.iter().sum::<f64>() / open.len().max(1) as f64
}

fn second_workload() -> Workload {
    Workload {
        way: Way::Clean,
        addresses: 0.0,
        fast: 0.0,
        seconds: 1.0,
        per_domain: 1.0,
        round_trip_s: LATENCY_MS as f64 / 1000.0,
        greylisted: 0.0,
        tls: 1.0,
        exists: 0.5,
        providers: Vec::new(),
    }
}
