//! The comparison on random runs with the noise of real ones.

use super::*;
use crate::random::Random;
use serde_json::json;

/// The spreads of the logarithms of the figures between runs of 2 s of `run --spawn --rate 200 --mix fast=60,full=40`, in 20 pairs
/// with equal builds. The first number is from a machine with other work for ten times its cores, the second one is from the same
/// machine with little other work (docs/performance.md: 10.40 to 10.75 us of CPU time per request).
const NOISE: [(&str, [f64; 2]); 9] = [
    ("rate", [0.005, 0.002]),
    ("cpu", [0.12, 0.03]),
    ("memory", [0.03, 0.02]),
    ("fast p50", [0.59, 0.03]),
    ("fast p90", [1.04, 0.1]),
    ("fast p99", [0.95, 0.3]),
    ("full p50", [0.15, 0.03]),
    ("full p90", [0.46, 0.1]),
    ("full p99", [0.47, 0.3]),
];
const BUSY: usize = 0;
const QUIET: usize = 1;
const PAIRS: usize = 20;
const TRIALS: u64 = 200;

/// A number of the standard normal distribution (Box and Muller 1958).
fn normal(random: &mut Random) -> f64 {
    (-2.0 * random.unit().ln()).sqrt() * (std::f64::consts::TAU * random.unit()).cos()
}

/// A random run. Each figure has a fixed value times random noise with the spread of [`NOISE`]. `slower` names one figure and a
/// further factor for it. One run of fifty is disturbed: all latencies and the CPU time are up to twice as high.
fn run(random: &mut Random, machine: usize, slower: (&str, f64)) -> SavedRun {
    let busy = if random.below(50) == 0 { 1.0 + random.unit() } else { 1.0 };
    let common = normal(random);
    let mut of = |name: &str| {
        let spread = NOISE.iter().find(|row| row.0 == name).unwrap().1[machine];
        // The figures of a run depend on each other.
        let value = (spread * (common + normal(random)) / 2f64.sqrt()).exp();
        let factor = if slower.0 == name { slower.1 } else { 1.0 };
        value * factor * if name == "rate" || name == "memory" { 1.0 } else { busy }
    };
    let latency = |own: [f64; 3]| json!({"p50": own[0], "p90": own[1] * 2.0, "p99": own[2] * 9.0});
    let fast = latency(["fast p50", "fast p90", "fast p99"].map(&mut of));
    let full = latency(["full p50", "full p90", "full p99"].map(&mut of));
    let (rate, cpu, memory) = (of("rate") * 500.0, of("cpu") / 2.0, of("memory") * 30.0);
    saved(json!({
        "title": "random", "load": {"mix": "fast=80,full=20", "duration_s": 2.0, "seed": 1},
        "seconds": 2.0, "requests": 1000, "errors": random_errors(random), "rate": rate,
        "endpoints": [{"name": "fast", "latency_ms": fast}, {"name": "full", "latency_ms": full}],
        "server": {"cpu_s_per_1000": cpu, "rss_peak_mib": memory}, "client": {"busy": 0.1},
    }))
}

fn random_errors(random: &mut Random) -> u64 {
    if random.below(10) == 0 { random.below(3) } else { 0 }
}

fn saved(value: serde_json::Value) -> SavedRun {
    serde_json::from_value(value).unwrap()
}

/// The share of trials in which a comparison of random pairs has a verdict for the figure, or for any figure.
fn found(machine: usize, slower: (&str, f64), figure: Option<&str>) -> f64 {
    let trials = (0..TRIALS).filter(|seed| {
        let mut random = Random::new(*seed);
        let mut side = |slower| (0..PAIRS).map(|_| run(&mut random, machine, slower)).collect::<Vec<_>>();
        let (a, b) = (side(("", 1.0)), side(slower));
        let comparison = Comparison::of(&a, &b, 1.0).unwrap();
        let mut judged = comparison.figures.iter().filter(|one| one.outcome != FigureOutcome::NoDifference);
        judged.any(|one| figure.is_none_or(|name| name == one.name && one.outcome == FigureOutcome::Worse))
    });
    trials.count() as f64 / TRIALS as f64
}

#[test]
fn equal_builds_have_no_difference() {
    for machine in [BUSY, QUIET] {
        let share = found(machine, ("", 1.0), None);
        assert!(share <= 0.05, "{share} of the trials have a false verdict");
    }
}

#[test]
fn a_slowdown_of_ten_percent_is_found() {
    for (planted, factor, figure) in [
        ("cpu", 1.1, "CPU s per 1,000 requests"),
        ("full p50", 1.1, "full p50, ms"),
        ("rate", 0.9, "good answers/s"),
    ] {
        let share = found(QUIET, (planted, factor), Some(figure));
        assert!(share >= 0.9, "{figure}: found in {share} of the trials");
    }
}

/// Noise of the processor time decides how many pairs are needed: docs/loadtest.md has this one.
#[test]
fn noise_hides_a_slowdown() {
    let share = found(BUSY, ("cpu", 1.1), Some("CPU s per 1,000 requests"));
    assert!(share < 0.5, "{share}");
}

/// A result of a run with a rate and a number of errors.
fn plain(rate: f64, errors: u64) -> SavedRun {
    saved(json!({
        "title": "t", "load": {"mix": "full=1", "duration_s": 2.0, "seed": 1}, "seconds": 2.0, "requests": 1000,
        "errors": errors, "rate": rate, "endpoints": [{"name": "full", "latency_ms": {"p50": 2.0}}],
        "server": {"cpu_s_per_1000": null, "rss_peak_mib": null}, "client": {"busy": 0.9},
    }))
}

fn compared(a: &[SavedRun], b: &[SavedRun]) -> Comparison {
    Comparison::of(a, b, 1.0).unwrap()
}

#[test]
fn what_was_found_is_said() {
    let rates = [100.0, 101.0, 100.0, 99.0, 100.0, 102.0, 98.0, 100.0, 99.0, 101.0];
    let a: Vec<SavedRun> = rates.iter().map(|rate| plain(*rate, 0)).collect();
    let b: Vec<SavedRun> = rates.iter().zip(9..).map(|(rate, errors)| plain(rate * 0.9, errors)).collect();
    let worse = compared(&a, &b);
    assert!(worse.worse);
    let said = "B is worse than A: good answers/s -10.0 % (-10.0 % to -10.0 %); errors, % of requests +1.350 points (";
    assert!(worse.summary.starts_with(said), "{}", worse.summary);
    assert!(worse.summary.ends_with(". Other figures without a difference: 1."), "{}", worse.summary);
    let better = compared(&b, &a);
    assert!(!better.worse && better.summary.starts_with("B is better than A: "), "{}", better.summary);
    let same = compared(&a, &a);
    assert_eq!(same.summary, "No difference between A and B was found: 3 figures, 10 pairs.");
    let text = worse.text();
    for part in ["slower", "more errors", "no difference found", "95 % interval", "80 % busy"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn small_differences_do_not_count() {
    let a: Vec<SavedRun> = (0..20).map(|_| plain(100.0, 0)).collect();
    let b: Vec<SavedRun> = (0..20).map(|_| plain(99.5, 0)).collect();
    let comparison = compared(&a, &b);
    assert!(comparison.figures[0].p_of_all.unwrap() < 0.01);
    assert_eq!(comparison.figures[0].outcome, FigureOutcome::NoDifference);
    assert!(Comparison::of(&a, &b, 0.1).unwrap().worse);
}

#[test]
fn one_pair_has_no_verdict() {
    let one = compared(&[plain(100.0, 0)], &[plain(50.0, 900)]);
    assert!(!one.worse && one.figures.iter().all(|figure| figure.interval.is_none()));
    assert!(one.summary.contains("One pair has no interval"), "{}", one.summary);
    assert!(one.text().contains("-50.0 %"), "{}", one.text());
    let few = compared(&[plain(100.0, 0), plain(100.0, 0)], &[plain(50.0, 900), plain(50.0, 900)]);
    assert!(few.summary.starts_with("2 pairs have no interval"), "{}", few.summary);
    assert!(few.warnings[0].contains("needs at least 7 pairs"), "{:?}", few.warnings);
    let of = |run: SavedRun| vec![run; 12];
    let stopped = compared(&of(plain(100.0, 0)), &of(plain(0.0, 1000)));
    assert_eq!(stopped.figures[0].verdict, "a value is 0");
    assert!(stopped.worse, "the errors are more");
}

#[test]
fn runs_of_other_loads_are_refused() {
    let other = |load: serde_json::Value| {
        let value = json!({
            "title": "t", "load": load, "seconds": 2.0, "requests": 1, "errors": 0, "rate": 1.0, "endpoints": [],
            "server": {}, "client": {"busy": 0.1}, "interrupted": true,
        });
        Comparison::of(&[plain(1.0, 0)], &[saved(value)], 1.0).map(drop).unwrap_err()
    };
    assert!(other(json!({"mix": "fast=1"})).contains("different loads (mix: \"fast=1\" and \"full=1\")"));
    assert!(other(json!({"mix": "full=1", "duration_s": 2.0, "seed": 9})).contains("ended early"));
}

#[test]
fn the_same_run_twice_is_told() {
    let named = |name: &str| {
        let mut run = plain(1.0, 0);
        run.name = name.into();
        run
    };
    let warned = |a: &SavedRun, b: &SavedRun| {
        let warnings = compared(std::slice::from_ref(a), std::slice::from_ref(b)).warnings;
        warnings.iter().any(|warning| warning.starts_with("A and B are the same run: "))
    };
    assert!(warned(&named("x.json"), &named("x.json")) && !warned(&named("x.json"), &named("y.json")));
    let from = |name: &str| {
        let mut run = named(name);
        run.origin = Some(Origin::now(None));
        run
    };
    let (one, mut other) = (from("x.json"), from("y.json"));
    other.origin.clone_from(&one.origin);
    assert!(warned(&one, &other), "a copy");
    let pairs = [one.clone(), other.clone(), from("z.json")];
    let text = compared(&pairs, &[one, other, named("w.json")]).text();
    assert!(text.contains("the same run in 2 of 3 pairs"), "{text}");
    assert!(text.contains("from the ratios of the pairs, and not from the medians"), "{text}");
}

#[test]
fn one_is_not_many() {
    let quiet = saved(json!({
        "title": "t", "load": {"mix": "full=1", "duration_s": 2.0, "seed": 9}, "seconds": 2.0, "requests": 1000,
        "errors": 0, "rate": 1.0, "endpoints": [], "server": {}, "client": {"busy": 0.1},
    }));
    let warnings = compared(&[plain(1.0, 0)], &[quiet]).warnings.join("; ");
    assert!(
        warnings.contains("1 pair has two seeds") && warnings.contains("in 1 run the client"),
        "{warnings}"
    );
}
