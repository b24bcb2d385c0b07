//! A run: threads that send requests, a thread that samples the server, and their results.

use crate::addresses::Addresses;
use crate::ask::ask;
use crate::cores::{CoreTimes, CoresUsed, is_here};
use crate::http;
use crate::load::{Load, Target};
use crate::mix::Endpoint;
use crate::sampler::Sample;
use crate::sender::{self, Brought, Orders, Slice, batch_body};
use crate::stats::{Stats, quantile_ms};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The share of a core that one sending thread may use. Above it, the figures may show the limit of the client.
pub const CLIENT_BUSY: f64 = 0.8;
/// The busy share of all cores together above which the machine counts as full.
pub const MACHINE_BUSY: f64 = 0.9;

/// The error of a run that a signal ended before any request counted.
pub const ENDED_BY_SIGNAL: &str = "ended by a signal";

/// One second of a run over all threads.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Second {
    pub second: u32,
    pub answered: u64,
    pub errors: u64,
    pub p50_ms: f64,
    pub p99_ms: f64,
}

/// The results of a run.
pub struct Outcome {
    /// The load of the run.
    pub load: Load,
    /// The requests that were due during the counted time.
    pub stats: Stats,
    /// The length of the counted time in seconds.
    pub seconds: f64,
    /// The whole run by seconds, with the warm-up and late answers.
    pub timeline: Vec<Second>,
    pub samples: Vec<Sample>,
    /// The CPU seconds of the server during the counted time.
    pub server_cpu_s: Option<f64>,
    /// The busy share of all cores of this machine during the counted time.
    pub machine_busy: Option<f64>,
    /// The busy cores by program; `None` if the kernel does not tell them.
    pub cores_used: Option<CoresUsed>,
    /// The largest CPU share of a sending thread.
    pub client_busy: f64,
    /// The CPU microseconds of the sending threads per request.
    pub client_us: f64,
    /// Whether a signal ended the run early.
    pub interrupted: bool,
}

impl Outcome {
    /// The answers with 2xx per second of the counted time.
    pub fn rate(&self) -> f64 {
        let all = self.stats.all();
        (all.requests() - all.errors()) as f64 / self.seconds
    }

    /// The peak of resident memory during the counted time.
    pub fn rss_peak_kib(&self) -> Option<u64> {
        self.samples.iter().filter_map(|sample| sample.rss_kib).max()
    }

    /// The CPU seconds of the server per thousand answered requests.
    pub fn cpu_per_thousand(&self) -> Option<f64> {
        let answered = self.stats.all().answered();
        self.server_cpu_s.filter(|_| answered > 0).map(|cpu| cpu * 1000.0 / answered as f64)
    }

    /// Whether the client may have limited the rate: its figures then say little about the server.
    pub fn client_limited(&self) -> bool {
        self.client_busy > CLIENT_BUSY
    }
}

/// Executes a run. Its addresses follow those of an earlier run.
///
/// # Errors
///
/// One line: a thread or socket could not be created, or the server has no metrics.
pub fn run(
    target: &Target,
    load: &Load,
    addresses: Addresses,
    stop: &Arc<AtomicBool>,
) -> Result<(Outcome, Addresses), String> {
    let first_batch =
        if load.mix.has(Endpoint::Poll) { Some(first_batch(target, &addresses)?) } else { None };
    let begin = Instant::now() + Duration::from_millis(20);
    let count_from = begin + load.warm_up;
    let connections = load.clients().unwrap_or(load.connections);
    let orders = Orders {
        target,
        load,
        addresses,
        connections,
        threads: load.threads.clamp(1, connections.max(1)),
        begin,
        count_from,
        end: count_from + load.duration,
        first_batch,
        stop,
    };
    let (brought, slices, samples, cpu) = play(&orders)?;
    let interrupted = stop.load(Ordering::Relaxed);
    let outcome = outcome(load, &brought, slices, samples, cpu, interrupted)?;
    Ok((outcome, orders.addresses))
}

/// The CPU time of the server during the counted time, and its length.
struct Window {
    cpu_s: Option<f64>,
    machine_busy: Option<f64>,
    cores_used: Option<CoresUsed>,
    seconds: f64,
}

type Played = (Vec<Brought>, BTreeMap<u32, Second>, Vec<Sample>, Window);

fn play(orders: &Orders<'_>) -> Result<Played, String> {
    let (sender, slices) = channel();
    let (stop_sampling, stopped) = channel();
    thread::scope(|scope| {
        let sampler = scope.spawn(move || orders.target.watched.watch(orders.begin, &stopped));
        let window = scope.spawn(move || window(orders));
        let collector = scope.spawn(move || collect(&slices));
        let threads: Vec<_> = (0..orders.threads)
            .map(|part| {
                let sender = sender.clone();
                scope.spawn(move || sender::send(orders, part, &sender))
            })
            .collect();
        drop(sender);
        let mut brought = Vec::new();
        for thread in threads {
            let done = thread.join().map_err(|_| "a sending thread panicked".to_owned())?;
            brought.push(done.map_err(|error| format!("a sending thread: {error}"))?);
        }
        drop(stop_sampling);
        let panicked = |_| "a sampling thread panicked".to_owned();
        Ok((
            brought,
            collector.join().map_err(panicked)?,
            sampler.join().map_err(panicked)?,
            window.join().map_err(panicked)?,
        ))
    })
}

/// Reads the server's CPU time at the start and at the end of the counted time.
fn window(orders: &Orders<'_>) -> Window {
    let watched = orders.target.watched;
    wait_for(orders, orders.count_from);
    let times = CoreTimes::now(watched);
    let (began, before) = (Instant::now(), watched.look(orders.begin).cpu_s);
    wait_for(orders, orders.end);
    let (seconds, after) = (began.elapsed().as_secs_f64(), watched.look(orders.begin).cpu_s);
    let cpu_s = before.zip(after).map(|(before, after)| (after - before).max(0.0));
    let now = CoreTimes::now(watched);
    let server_is_here = watched.pid.is_some() || is_here(orders.target.server.address.ip());
    let cores_used = now.used_since(&times, seconds, cpu_s, server_is_here);
    Window { cpu_s, machine_busy: now.busy_since(&times), cores_used, seconds }
}

fn wait_for(orders: &Orders<'_>, when: Instant) {
    while !orders.stop.load(Ordering::Relaxed) {
        let left = when.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(Duration::from_millis(50)));
    }
}

/// A thread hands over its slice of a second when it enters a later one. A slice that is later than this adds only to
/// the counts.
const SECONDS_OPEN: usize = 90;

/// Adds up the threads' slices of each second. Only the latest seconds have histograms, so a run may have any length.
fn collect(slices: &Receiver<Slice>) -> BTreeMap<u32, Second> {
    let (mut open, mut closed) = (BTreeMap::<u32, Slice>::new(), BTreeMap::<u32, Second>::new());
    for slice in slices {
        if let Some(late) = closed.get_mut(&slice.second) {
            late.answered += slice.answered;
            late.errors += slice.errors;
            continue;
        }
        match open.get_mut(&slice.second) {
            None => {
                open.insert(slice.second, slice);
            }
            Some(sum) => {
                sum.answered += slice.answered;
                sum.errors += slice.errors;
                sum.latency += &slice.latency;
            }
        }
        while open.len() > SECONDS_OPEN
            && let Some((_, slice)) = open.pop_first()
        {
            closed.insert(slice.second, second(&slice));
        }
    }
    closed.extend(open.into_values().map(|slice| (slice.second, second(&slice))));
    closed
}

fn outcome(
    load: &Load,
    brought: &[Brought],
    seconds: BTreeMap<u32, Second>,
    samples: Vec<Sample>,
    window: Window,
    interrupted: bool,
) -> Result<Outcome, String> {
    let mut stats = Stats::new();
    for thread in brought {
        stats.add(&thread.stats);
    }
    let whole = (load.warm_up.as_secs_f64() + window.seconds).max(0.001);
    let busy = brought.iter().map(|thread| thread.busy.as_secs_f64()).collect::<Vec<_>>();
    let sent: u64 = brought.iter().map(|thread| thread.sent).sum();
    if stats.all().requests() == 0 {
        if interrupted {
            return Err(ENDED_BY_SIGNAL.into());
        }
        return Err("no request was due in the run: use a longer --duration or a higher --rate".into());
    }
    Ok(Outcome {
        load: load.clone(),
        stats,
        seconds: window.seconds,
        timeline: seconds.into_values().collect(),
        samples,
        server_cpu_s: window.cpu_s,
        machine_busy: window.machine_busy,
        cores_used: window.cores_used,
        client_busy: busy.iter().copied().fold(0.0, f64::max) / whole,
        client_us: busy.iter().sum::<f64>() * 1e6 / sent.max(1) as f64,
        interrupted,
    })
}

fn second(slice: &Slice) -> Second {
    let Slice { second, answered, errors, .. } = *slice;
    let latency: &Histogram<u64> = &slice.latency;
    let (p50_ms, p99_ms) = (quantile_ms(latency, 0.5), quantile_ms(latency, 0.99));
    Second { second, answered, errors, p50_ms, p99_ms }
}

/// A batch of one address, so that the first poll has a batch.
fn first_batch(target: &Target, addresses: &Addresses) -> Result<String, String> {
    let key = target.keys.first().map_or("", String::as_str);
    let (mut body, mut request) = (String::new(), String::new());
    batch_body(&mut body, addresses, 1);
    http::post(&mut request, &target.host, "/v1/verify/batch", key, None, &body);
    let reply = ask(&target.server, &request)
        .map_err(|error| format!("{}: {error}; the run needs a batch to poll", target.host))?;
    let status = reply.status;
    match (status, http::text_field(&reply.body, "batch_id")) {
        (202, Some(id)) => Ok(id.to_owned()),
        _ => Err(format!(
            "the run needs a batch to poll, and its request got {status}: use a --mix without poll"
        )),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::load::Loop;
    use crate::mix::Mix;

    /// The outcome of 100 full checks of 1 to 100 ms in ten seconds at 10/s, two of them refused for the rate.
    pub fn outcome() -> Outcome {
        let mut stats = Stats::new();
        for ms in 1..=100 {
            let status = if ms > 98 { 429 } else { 200 };
            stats.answered(Endpoint::Full, status, Duration::from_millis(ms));
        }
        let second = |second| Second { second, answered: 10, errors: 0, p50_ms: 50.0, p99_ms: 99.0 };
        let sample = |at: u32| Sample { at: f64::from(at), ..Sample::default() };
        Outcome {
            load: load(Loop::Open(10.0)),
            stats,
            seconds: 10.0,
            timeline: (0..10).map(second).collect(),
            samples: (0..10).map(sample).collect(),
            server_cpu_s: Some(0.05),
            machine_busy: None,
            cores_used: None,
            client_busy: 0.1,
            client_us: 20.0,
            interrupted: false,
        }
    }

    /// A load for tests.
    pub fn load(pressure: Loop) -> Load {
        Load::of(pressure, Mix::only(Endpoint::Full), Duration::from_secs(10))
    }

    #[test]
    fn slices_of_a_second_add_up_and_old_ones_are_closed() {
        let (sender, receiver) = channel();
        let slice = |second, ms| {
            let mut latency = crate::stats::histogram(2);
            crate::stats::note(&mut latency, Duration::from_millis(ms));
            Slice { second, answered: 1, errors: u64::from(ms > 5), latency }
        };
        for second in 0..200 {
            sender.send(slice(second, 1)).unwrap();
            sender.send(slice(second, 9)).unwrap();
        }
        sender.send(slice(0, 9)).unwrap();
        drop(sender);
        let seconds = collect(&receiver);
        assert_eq!(seconds.len(), 200);
        assert_eq!((seconds[&0].answered, seconds[&0].errors), (3, 2));
        assert_eq!((seconds[&199].answered, seconds[&199].errors), (2, 1));
        assert!((seconds[&5].p99_ms - 9.0).abs() < 0.1);
    }

    #[test]
    fn figures_of_an_outcome() {
        let outcome = outcome();
        assert!((outcome.rate() - 9.8).abs() < 1e-9);
        assert!(outcome.cpu_per_thousand().is_some_and(|cpu| (cpu - 0.5).abs() < 1e-9));
        assert_eq!(outcome.rss_peak_kib(), None);
    }
}
