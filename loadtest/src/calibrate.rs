//! Measures the cost of each part of the work on this machine, from which a plan computes the cost of a workload that
//! was not measured.
//!
//! The costs of an address, a domain and a session are separated by lists with many and with few addresses per domain,
//! and with many and with few domains per site. The same lists with TLS give the cost of TLS. Mail servers take a while
//! to answer, as real ones do: a machine that waits works in smaller portions than a busy one.

use crate::cores::CoreTimes;
use crate::digits::grouped;
use crate::figures::{Curve, Figures, Fitted, Memory, Parts};
use crate::fit::{Row, cost, fit};
use crate::list::{Cost, ListWorkload, Place};
use crate::mix::{Endpoint, Mix};
use crate::options::bin_dir;
use crate::origin::{Machine, Origin, version_of};
use crate::run::Outcome;
use crate::sampler::{Sample, Watched};
use crate::scenario::Scenario;
use crate::service::{AskError, Service};
use crate::{End, say};
use clap::Args;
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use usage::values::whole_number;

/// The delay before each reply of a mail server.
const LATENCY_MS: u64 = 20;
/// Checks per second, and the duration in seconds.
const FAST_RATES: [(f64, u64); 3] = [(100.0, 10), (500.0, 6), (2000.0, 5)];
const FULL_RATES: [(f64, u64); 4] = [(50.0, 16), (200.0, 10), (500.0, 6), (2000.0, 5)];
/// The number of domains in the runs over the API.
const API_DOMAINS: u64 = 500;
/// The lists of [`Lists::measure`].
const LISTS: usize = 8;
/// The lists, two runs for memory, fast checks, full checks at each rate, and batches.
const STEPS: usize = LISTS + 2 + 1 + FULL_RATES.len() + 1;
/// How many rates must succeed before a higher one may fail.
const RATES_LEAST: usize = 2;
/// How often a part is measured before the calibration fails, because requests were not sent.
const TRIES: u32 = 3;
/// Fast checks of new domains per second, and the duration in seconds: 20,000 checks. A slow machine sends the lower rate.
const NEW_DOMAINS: [(f64, u64); 2] = [(2000.0, 10), (500.0, 40)];

/// The options of `calibrate`.
#[derive(Debug, Args)]
pub struct CalibrateArgs {
    /// File for the figures
    #[arg(long, value_name = "FILE", default_value = "figures.json")]
    out: PathBuf,
    /// Number of runs of each list; the run with the median CPU time counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = whole_number(1u32..=99))]
    runs: u32,
    /// Folder of the programs mailprobe and mailnet [default: the folder of this program]
    #[arg(long, value_name = "DIR")]
    bin_dir: Option<PathBuf>,
    /// More flags for mailprobe
    #[arg(last = true)]
    flags: Vec<String>,
}

/// Measures the costs, prints and writes them.
///
/// # Errors
///
/// One line: a run failed, or the file cannot be written.
pub fn calibrate(args: &CalibrateArgs, stop: &Arc<AtomicBool>) -> Result<End, String> {
    crate::raise_open_files();
    let place = Place { bin_dir: bin_dir(args.bin_dir.as_deref())?, flags: &args.flags, stop };
    let figures = measure(&place, args.runs, stop)?;
    let text = serde_json::to_string_pretty(&figures).map_err(|error| error.to_string())?;
    crate::world::write(&args.out, &(text + "\n"))?;
    say(&report(&figures))?;
    say(&format!("written to {}", args.out.display()))?;
    Ok(End::Met)
}

/// The costs, the fitted lists beside the measured ones, and warnings.
fn report(figures: &Figures) -> String {
    let mut lines: Vec<String> = Vec::from([String::new()]);
    lines.extend(figures.costs().iter().map(|[name, value]| format!("{name:<52}{value:>16}")));
    lines.push(String::new());
    lines.extend(figures.fitted.iter().map(|fitted| {
        format!(
            "{:<52}{:>8.2} CPU s measured,{:>8.2} fitted ({:+.0} %)",
            fitted.name,
            fitted.measured_cpu_s,
            fitted.fitted_cpu_s,
            fitted.off() * 100.0
        )
    }));
    lines.extend(figures.doubts().into_iter().map(|doubt| format!("warning: {doubt}")));
    lines.join("\n")
}

/// Prints what is measured, with the number of the step.
#[derive(Default)]
struct Steps(Cell<usize>);

impl Steps {
    fn next(&self, what: &str) -> Result<(), String> {
        let number = self.0.get() + 1;
        self.0.set(number);
        say(&format!("{number} of {STEPS}: measuring {what}"))
    }
}

/// The processor times at the start of the calibration.
struct Shares {
    began: Instant,
    times: CoreTimes,
}

impl Shares {
    fn begin() -> Shares {
        Shares { began: Instant::now(), times: CoreTimes::now(Watched::default()) }
    }

    /// The share of all cores that programs used which are no part of the calibration; `None` if it is unknown. All programs of the
    /// calibration have ended, so their time is part of the time of this program.
    fn of_others(&self) -> Option<f64> {
        let (now, seconds) = (CoreTimes::now(Watched::default()), self.began.elapsed().as_secs_f64());
        let used = now.used_since(&self.times, seconds, Some(0.0), true)?;
        Some(used.others? / used.all as f64)
    }
}

/// Sends requests of one kind to a server.
fn ask(
    service: &Service,
    rate: f64,
    endpoint: Endpoint,
    seconds: u64,
    stop: &Arc<AtomicBool>,
) -> Result<Outcome, AskError> {
    let outcome = service.ask(rate, Mix::only(endpoint), Duration::from_secs(seconds), stop);
    outcome.map_err(|error| explained(endpoint.name(), rate, error))
}

/// An error with what was measured. If requests were not sent, it has the cause and the remedy.
fn explained(what: &str, rate: f64, error: AskError) -> AskError {
    let remedy = match error {
        AskError::Unsent(_) => {
            ". Requests could not be sent: this machine is too busy or too slow for this rate. End other programs, and repeat"
        }
        AskError::Other(_) => "",
    };
    error.map(|text| format!("measuring {what} requests at {}/s: {text}{remedy}", grouped(rate, 0)))
}

/// Measures a part again if requests were not sent, so that a busy moment of the machine does not cost the parts that are measured
/// already. `tell` prints a line.
fn with_tries<T>(
    tell: impl Fn(&str) -> Result<(), String>,
    tries_max: u32,
    mut measure: impl FnMut() -> Result<T, AskError>,
) -> Result<T, AskError> {
    let mut tries = 1;
    loop {
        match measure() {
            Err(AskError::Unsent(error)) if tries < tries_max => {
                tries += 1;
                tell(&format!("warning: {error}. This part is measured again ({tries} of {tries_max})"))?;
            }
            measured => return measured,
        }
    }
}

/// Measures a curve from its lowest rate on. It ends below the first rate at which requests were not sent, if lower ones succeeded;
/// such a rate has one try. `begin` is called before each rate.
fn curve(
    tell: impl Fn(&str) -> Result<(), String>,
    rates: &[(f64, u64)],
    begin: impl Fn(f64) -> Result<(), String>,
    mut measure: impl FnMut(f64, u64) -> Result<f64, AskError>,
) -> Result<Vec<(f64, f64)>, AskError> {
    let mut curve: Vec<(f64, f64)> = Vec::new();
    for (rate, seconds) in rates.iter().copied() {
        begin(rate)?;
        let tries = if curve.len() >= RATES_LEAST { 1 } else { TRIES };
        match with_tries(&tell, tries, || measure(rate, seconds)) {
            Err(error @ AskError::Unsent(_)) if curve.len() >= RATES_LEAST => {
                let highest = grouped(curve.last().map_or(0.0, |(rate, _)| *rate), 0);
                tell(&format!(
                    "warning: {error}. `plan` uses the cost at {highest}/s also for higher rates"
                ))?;
                break;
            }
            cost => curve.push((rate, cost?)),
        }
    }
    Ok(curve)
}

fn measure(place: &Place<'_>, runs: u32, stop: &Arc<AtomicBool>) -> Result<Figures, String> {
    let (shares, steps) = (Shares::begin(), Steps::default());
    let lists = Lists::measure(place, runs, &steps)?;
    let memory = memory(place, &steps)?;
    let fast = fast(place, stop, &steps).map_err(|error| error.to_string())?;
    let engine = lists.parts;
    let api = Api::measure(place, stop, &engine, &steps).map_err(|error| error.to_string())?;
    steps.next("batches")?;
    let batch = with_tries(say, TRIES, || batches(place, stop, &engine, api.idle));
    let batch = batch.map_err(|error| error.to_string())?;
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    Ok(Figures {
        machine: Machine::this().to_string(),
        origin: Some(Origin::now(version_of(&place.bin_dir.join("mailprobe")))),
        cores,
        cpu_us: Parts {
            idle_second: api.idle * 1e6,
            fast: Curve(
                fast.us.iter().map(|(rate, us)| (*rate, (us - api.idle * 1e6 / rate).max(0.0))).collect(),
            ),
            api_address: api.address_us,
            batch_row: batch.row_us,
            ..engine
        },
        memory: Memory { base: fast.base, domain: fast.domain, batch_row: batch.row_bytes, ..memory },
        recipients_per_session: lists.recipients_per_session,
        session_idle_s: api.session_idle_s,
        other_load: shares.of_others(),
        fitted: lists.fitted,
    })
}

/// The results of the lists.
struct Lists {
    parts: Parts,
    recipients_per_session: f64,
    fitted: Vec<Fitted>,
}

/// A list with its measured cost.
struct Measured {
    name: String,
    workload: ListWorkload,
    cost: Cost,
}

impl Measured {
    /// The numbers of addresses, domains and sessions.
    fn counts(&self) -> [f64; 3] {
        let domains = self.workload.scenario.domains as f64;
        [self.workload.addresses() as f64, domains, self.cost.counted.sessions]
    }
}

impl Lists {
    fn measure(place: &Place<'_>, runs: u32, steps: &Steps) -> Result<Lists, String> {
        let run = |domains, sites, each, tls| -> Result<Measured, String> {
            let scenario = Scenario { sites, latency_ms: LATENCY_MS, tls, ..Scenario::of(domains) };
            let workload = ListWorkload { scenario, each };
            let name = name(&workload);
            steps.next(&format!("a list: {name}"))?;
            Ok(Measured { name, workload, cost: workload.clean(place, runs)? })
        };
        let start = run(1, None, 1, false)?.cost.cpu_s;
        let plain = [
            run(1000, None, 100, false)?,
            run(16_000, None, 1, false)?,
            run(8000, None, 8, false)?,
            run(16_000, Some(160), 4, false)?,
        ];
        let sealed = [run(400, None, 100, true)?, run(8000, None, 1, true)?, run(4000, None, 10, true)?];
        let row = |one: &Measured| Row { counts: one.counts(), cost: one.cost.cpu_s - start };
        let engine = fit(&plain.each_ref().map(row));
        let added = sealed.each_ref().map(|one| Row {
            counts: [one.workload.addresses() as f64, one.cost.counted.sessions_tls],
            cost: (one.cost.cpu_s - start - cost(&one.counts(), &engine)).max(0.0),
        });
        let tls = fit(&added);
        let fitted =
            plain.iter().map(|one| (one, [0.0; 2])).chain(sealed.iter().zip(added.map(|row| row.counts)));
        let fitted = fitted.map(|(one, tls_counts)| Fitted {
            name: one.name.clone(),
            addresses: one.counts()[0],
            domains: one.counts()[1],
            sessions: one.counts()[2],
            measured_cpu_s: one.cost.cpu_s,
            fitted_cpu_s: start + cost(&one.counts(), &engine) + cost(&tls_counts, &tls),
        });
        Ok(Lists {
            parts: parts(start, engine, tls),
            recipients_per_session: recipients_per_session(&plain[0]),
            fitted: fitted.collect(),
        })
    }
}

fn name(workload: &ListWorkload) -> String {
    let ListWorkload { scenario: Scenario { domains, sites, tls, .. }, each } = workload;
    let sites = sites.map_or(String::new(), |sites| format!(" on {sites} sites"));
    let addresses = format!("{each} address{} each", if *each == 1 { "" } else { "es" });
    format!(
        "{domains} domain{}{sites}, {addresses}, {}",
        if *domains == 1 { "" } else { "s" },
        if *tls { "TLS" } else { "no TLS" }
    )
}

fn parts(start: f64, [address, domain, session]: [f64; 3], [tls_address, tls_session]: [f64; 2]) -> Parts {
    Parts {
        start: start * 1e6,
        idle_second: 0.0,
        fast: Curve::default(),
        list_address: address * 1e6,
        api_address: Curve::default(),
        batch_row: 0.0,
        domain: domain * 1e6,
        session: session * 1e6,
        tls_session: tls_session * 1e6,
        tls_address: tls_address * 1e6,
    }
}

/// How many recipients a session takes, from a list with many addresses per domain: the first session of a domain opens
/// at once, and another one for every so many recipients.
fn recipients_per_session(many: &Measured) -> f64 {
    let sessions = many.cost.counted.sessions / many.workload.scenario.domains as f64;
    let each = many.workload.each as f64;
    // At least one, since a session takes at least one recipient. If one session took all, the number is unknown and
    // large.
    ((each - 1.0) / (sessions - 1.0).max(1e-9)).clamp(1.0, 1e6)
}

/// The bytes of a session, without and with TLS.
fn memory(place: &Place<'_>, steps: &Steps) -> Result<Memory, String> {
    let slope = |tls| -> Result<f64, String> {
        let open = |domains| {
            let scenario = Scenario { hangs: true, tls, ..Scenario::of(domains) };
            ListWorkload { scenario, each: 1 }.resident(place)
        };
        steps.next(if tls { "the memory of a session with TLS" } else { "the memory of a session" })?;
        let (few, many) = (open(100)?, open(3000)?);
        Ok(((many.1 - few.1) * 1024.0 / (many.0 - few.0)).max(0.0))
    };
    let (session, sealed) = (slope(false)?, slope(true)?);
    Ok(Memory { base: 0.0, session, tls_session: (sealed - session).max(0.0), domain: 0.0, batch_row: 0.0 })
}

struct Fast {
    us: Vec<(f64, f64)>,
    base: f64,
    domain: f64,
}

/// Fast checks: of known domains for their cost, and of new ones for the memory of a domain.
fn fast(place: &Place<'_>, stop: &Arc<AtomicBool>, steps: &Steps) -> Result<Fast, AskError> {
    steps.next("fast checks at several rates")?;
    let known = Service::start(place, Scenario::of(API_DOMAINS))?;
    let base = known.resident()?;
    with_tries(say, TRIES, || ask(&known, 500.0, Endpoint::Fast, 3, stop))?;
    let us = curve(
        say,
        &FAST_RATES,
        |_| Ok(()),
        |rate, seconds| {
            let outcome = ask(&known, rate, Endpoint::Fast, seconds, stop)?;
            Ok(outcome.cpu_per_thousand().ok_or("the server's CPU time is unknown")? * 1000.0)
        },
    )?;
    known.stop()?;
    let mut rates = NEW_DOMAINS.iter().copied().cycle();
    let domain = with_tries(say, TRIES, || {
        let (rate, seconds) = rates.next().unwrap_or(NEW_DOMAINS[0]);
        domain_bytes(place, stop, rate, seconds)
    })?;
    Ok(Fast { us, base, domain })
}

/// The bytes of a domain, from fast checks of new ones.
fn domain_bytes(place: &Place<'_>, stop: &Arc<AtomicBool>, rate: f64, seconds: u64) -> Result<f64, AskError> {
    let domains = 20_000;
    let new = Service::start(place, Scenario::of(domains))?;
    let before = new.resident()?;
    ask(&new, rate, Endpoint::Fast, seconds, stop)?;
    let added = (new.resident()? - before).max(0.0);
    new.stop()?;
    Ok(added / distinct(domains as f64, rate * seconds as f64))
}

struct Api {
    idle: f64,
    address_us: Curve,
    session_idle_s: f64,
}

impl Api {
    /// Full checks at several rates: their cost without domains and sessions, and the idle time of sessions.
    fn measure(
        place: &Place<'_>,
        stop: &Arc<AtomicBool>,
        engine: &Parts,
        steps: &Steps,
    ) -> Result<Api, AskError> {
        let idle = idle(place)?;
        let mut session_idle_s = 0.0;
        let begin = |rate| steps.next(&format!("full checks over the API, {} per second", grouped(rate, 0)));
        let curve = curve(say, &FULL_RATES, begin, |rate, seconds| {
            let (checks, spent, sessions) = full(place, stop, rate, seconds, idle)?;
            let domains = distinct(API_DOMAINS as f64, checks);
            // Checks reach a domain at random times. They find an open session if the previous check came less than the
            // idle time before. The estimate is best if about half of them find one.
            if rate == FULL_RATES[1].0 {
                let gap = API_DOMAINS as f64 / rate;
                session_idle_s = -(sessions / checks).clamp(1e-6, 1.0).ln() * gap;
            }
            let rest = spent - domains * engine.domain / 1e6 - sessions * engine.session / 1e6;
            Ok((rest / checks * 1e6).max(0.0))
        })?;
        Ok(Api { idle, address_us: Curve(curve), session_idle_s })
    }
}

/// CPU seconds per second of an idle server.
fn idle(place: &Place<'_>) -> Result<f64, String> {
    const SECONDS: u64 = 5;
    let service = Service::start(place, Scenario::of(1))?;
    let before = service.cpu_s()?;
    std::thread::sleep(Duration::from_secs(SECONDS));
    let spent = service.cpu_s()? - before;
    service.stop()?;
    Ok(spent / SECONDS as f64)
}

/// The number of checks, the CPU seconds above those of an idle server, and the sessions, of a new server.
fn full(
    place: &Place<'_>,
    stop: &Arc<AtomicBool>,
    rate: f64,
    seconds: u64,
    idle: f64,
) -> Result<(f64, f64, f64), AskError> {
    let scenario = Scenario { latency_ms: LATENCY_MS, ..Scenario::of(API_DOMAINS) };
    let service = Service::start(place, scenario)?;
    let (began, before) = (Instant::now(), service.cpu_s()?);
    let outcome = ask(&service, rate, Endpoint::Full, seconds, stop)?;
    service.settle(stop)?;
    let spent = service.cpu_s()? - before - idle * began.elapsed().as_secs_f64();
    let checks = outcome.stats.of(Endpoint::Full).answered() as f64;
    Ok((checks, spent, service.stop()?.sessions))
}

struct Batches {
    row_us: f64,
    row_bytes: f64,
}

fn batches(
    place: &Place<'_>,
    stop: &Arc<AtomicBool>,
    engine: &Parts,
    idle: f64,
) -> Result<Batches, AskError> {
    let scenario = Scenario { latency_ms: LATENCY_MS, ..Scenario::of(API_DOMAINS) };
    let service = Service::start(place, scenario)?;
    let (before, resident) = (service.cpu_s()?, service.resident()?);
    let began = Instant::now();
    let outcome = ask(&service, 10.0, Endpoint::Batch, 8, stop)?;
    let samples: Vec<Sample> = service.settle(stop)?;
    let spent = service.cpu_s()? - before - idle * began.elapsed().as_secs_f64();
    let sessions = service.stop()?.sessions;
    let rows = outcome.stats.batch_rows as f64;
    let rest =
        spent - distinct(API_DOMAINS as f64, rows) * engine.domain / 1e6 - sessions * engine.session / 1e6;
    // The increase includes sessions and domains as well, so the estimate per row is too high, which is safe.
    let peak = outcome.samples.iter().chain(&samples).filter_map(|sample| sample.rss_kib).max().unwrap_or(0);
    let row_bytes = ((peak * 1024) as f64 - resident).max(0.0) / rows.max(1.0);
    Ok(Batches { row_us: (rest / rows.max(1.0) * 1e6).max(0.0), row_bytes })
}

/// How many of `domains` occur in this number of addresses at random domains.
pub fn distinct(domains: f64, addresses: f64) -> f64 {
    domains * (1.0 - (-addresses / domains).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unsent() -> AskError {
        AskError::Unsent("714 of 9715 requests failed".to_owned())
    }

    #[test]
    fn an_overload_has_its_cause_and_remedy() {
        let text = explained("full", 2000.0, unsent()).to_string();
        assert!(text.starts_with("measuring full requests at 2,000/s: 714 of 9715"), "{text}");
        assert!(
            text.contains("too busy or too slow") && text.ends_with("End other programs, and repeat"),
            "{text}"
        );
        let text = explained("full", 2000.0, "ended by a signal".into()).to_string();
        assert_eq!(text, "measuring full requests at 2,000/s: ended by a signal");
    }

    #[test]
    fn a_part_without_its_requests_is_measured_again_and_no_other() {
        let play = |answers: &[Result<u32, AskError>], last| {
            let mut left = answers.iter().cloned();
            let measured = with_tries(|_| Ok(()), last, || left.next().expect("one try too many"));
            (measured, left.count())
        };
        assert_eq!(play(&[Ok(1), Ok(2)], TRIES), (Ok(1), 1));
        assert_eq!(play(&[Err(unsent()), Err(unsent()), Ok(3)], TRIES), (Ok(3), 0));
        assert_eq!(play(&[Err(unsent()), Err(unsent()), Err(unsent()), Ok(4)], TRIES), (Err(unsent()), 1));
        assert_eq!(play(&[Err("a signal".into()), Ok(2)], TRIES), (Err("a signal".into()), 1));
    }

    #[test]
    fn a_curve_may_lack_its_highest_rates() {
        let signal = || AskError::from("5 of 9 requests failed: {503: 5} {} Unsent");
        let play = |answers: &[Result<f64, AskError>]| {
            let mut left = answers.iter().cloned();
            let measure = |_, _| left.next().expect("one try too many");
            let found = curve(|_| Ok(()), &FULL_RATES, |_| Ok(()), measure);
            (found.map(|curve| curve.len()), left.count())
        };
        assert_eq!(play(&[Ok(9.0), Ok(8.0), Err(unsent()), Ok(7.0)]), (Ok(2), 1), "it is left out at once");
        assert_eq!(play(&[Ok(9.0), Err(unsent()), Ok(8.0), Ok(7.0), Ok(6.0)]), (Ok(4), 0));
        assert_eq!(play(&[Ok(9.0), Err(unsent()), Err(unsent()), Err(unsent())]), (Err(unsent()), 0));
        // The text of an error decides nothing.
        assert_eq!(play(&[Ok(9.0), Ok(8.0), Err(signal())]), (Err(signal()), 0));
    }

    #[test]
    fn the_work_of_other_programs_is_a_share_of_the_machine() {
        assert!(Shares::begin().of_others().is_none_or(|share| (0.0..=1.0).contains(&share)));
    }

    #[test]
    fn the_report_has_costs_and_warnings() {
        let fitted = |name: &str, fitted_cpu_s| Fitted {
            name: name.to_owned(),
            addresses: 1.0,
            domains: 1.0,
            sessions: 1.0,
            measured_cpu_s: 1.0,
            fitted_cpu_s,
        };
        let wrong = "differ by more than 5 % from the measured ones (the most: -11.0 %)";
        let busy = "other programs used 43 % of the machine";
        for (other_load, lines, warnings) in [
            (None, [1.05, 0.96], &[][..]),
            (Some(0.09), [1.0, 1.0], &[]),
            (Some(0.43), [1.0, 1.0], &[busy]),
            (Some(0.43), [1.08, 0.89], &[busy, wrong]),
            (None, [0.89, 1.0], &[wrong]),
        ] {
            let fitted = Vec::from([fitted("one", lines[0]), fitted("two", lines[1])]);
            let figures = Figures { other_load, fitted, ..crate::model::tests::figures() };
            let text = report(&figures);
            assert!(text.contains("an address of a list") && text.contains(" fitted ("), "{text}");
            assert_eq!(text.matches("warning: ").count(), warnings.len(), "{text}");
            assert!(warnings.iter().all(|part| text.contains(part)), "{text}");
        }
    }
}
