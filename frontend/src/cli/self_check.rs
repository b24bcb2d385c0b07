//! The checks of `mailprobe doctor` that `serve` repeats while it runs: those that contact only resolvers, the
//! database of the cluster, and this machine.
//!
//! A thread of its own runs them, because a resolver that does not answer takes seconds. The log gets each finding once, and
//! a line when the faults are gone. `/readyz` and the dashboard show the names of failures.
//!
//! The same thread logs the beginning and the end of each outage that the engine notices, and then repeats the checks at once.

use crate::config::Config;
use crate::doctor::report::{Finding, Severity};
use crate::doctor::while_serving;
use checks::engine_client::EngineGauge;
use checks::faults::Faults;
use engine::{Figures, Identity};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The time between two runs, and the time after a run that found a failure.
const INTERVAL: Duration = Duration::from_secs(600);
const INTERVAL_FAILED: Duration = Duration::from_secs(60);
/// The time between two looks at the outages of the engine.
const OUTAGE_INTERVAL: Duration = Duration::from_secs(2);

/// Ends the checks when it is dropped. It does not wait for a check that is in progress, because such a check changes nothing.
pub(super) struct SelfCheck(#[expect(dead_code, reason = "its drop is the message")] Sender<()>);

/// Starts the thread that runs the checks now and repeats them, for the sources with which the engine started.
///
/// # Errors
/// The operating system has no thread for it.
pub(super) fn start(
    config: &Config,
    identities: Vec<Identity>,
    gauge: EngineGauge,
    faults: &Arc<Faults>,
) -> io::Result<SelfCheck> {
    let (sender, end) = channel();
    let (config, faults) = (config.clone(), Arc::clone(faults));
    let work = move || repeat(&end, &faults, || outages(&gauge()), || while_serving(&config, &identities));
    thread::Builder::new().name("self-check".into()).spawn(work)?;
    Ok(SelfCheck(sender))
}

fn repeat(
    end: &Receiver<()>,
    faults: &Faults,
    outages: impl Fn() -> Vec<String>,
    examine: impl Fn() -> Vec<Finding>,
) {
    let (mut logged, mut under_way) = (Vec::new(), Vec::new());
    loop {
        let findings = examine();
        let bad: Vec<Finding> =
            findings.into_iter().filter(|finding| finding.severity != Severity::Ok).collect();
        let failures = bad.iter().filter(|finding| finding.severity == Severity::Failure);
        let names: Vec<&'static str> = failures.map(|finding| finding.check).collect();
        let interval = if names.is_empty() { INTERVAL } else { INTERVAL_FAILED };
        faults.set(names);
        report(&bad, &mut logged);
        let examined = Instant::now();
        loop {
            let rest = interval.saturating_sub(examined.elapsed());
            if end.recv_timeout(rest.min(OUTAGE_INTERVAL)) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let news = report_outages(outages(), &mut under_way);
            if news || rest <= OUTAGE_INTERVAL {
                break;
            }
        }
    }
}

/// The outages that the engine has noticed, each with the remedy. Resolvers that have never answered are no outage: the checks at the
/// start examine them, and before the first look-up the engine knows nothing.
fn outages(figures: &Figures) -> Vec<String> {
    let trouble = figures.trouble.iter().filter(|trouble| !trouble.is_from_start);
    let down = figures.sources.iter().filter(|source| source.down);
    let down = down.map(|source| {
        format!(
            "no mail server can be reached from the source {}; check the network and outbound port 25 (`mailprobe doctor`)",
            source.name
        )
    });
    trouble.map(|trouble| trouble.text.clone()).chain(down).collect()
}

/// Logs the outages that have begun or ended since the last look. Returns whether there are any.
fn report_outages(now: Vec<String>, under_way: &mut Vec<String>) -> bool {
    let begun = now.iter().filter(|outage| !under_way.contains(outage));
    begun.clone().for_each(|outage| tracing::error!("outage, checks get 503: {outage}"));
    let ended = under_way.iter().filter(|outage| !now.contains(outage));
    ended.clone().for_each(|outage| tracing::info!("the outage has ended: {outage}"));
    let news = begun.count() + ended.count() > 0;
    *under_way = now;
    news
}

/// A finding that was logged: its check, its subject and its severity. Its text may have figures that always differ.
type Logged = (&'static str, String, Severity);

/// Logs the findings that are new, and remembers all of them.
fn report(bad: &[Finding], logged: &mut Vec<Logged>) {
    let key = |finding: &Finding| (finding.check, finding.subject.clone(), finding.severity);
    for finding in bad.iter().filter(|finding| !logged.contains(&key(finding))) {
        let Finding { check, subject, found, meaning, remedy, .. } = finding;
        let about = if subject.is_empty() { (*check).to_owned() } else { format!("{check} {subject}") };
        if finding.severity == Severity::Failure {
            tracing::error!("{about}: {found}. It means: {meaning}. Do: {remedy}");
        } else {
            tracing::warn!("{about}: {found}. It means: {meaning}. Do: {remedy}");
        }
    }
    if bad.is_empty() && !logged.is_empty() {
        tracing::info!("the self-checks find no more faults of the machine");
    }
    *logged = bad.iter().map(key).collect();
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::SourceFigures;
    use engine::proto::outage::Trouble;
    use std::cell::Cell;

    #[test]
    fn failures_are_shown_and_warnings_are_not() {
        let faults = Faults::default();
        let (sender, end) = channel();
        let runs = Cell::new(0);
        let examine = || {
            runs.set(runs.get() + 1);
            vec![
                Finding::ok("clock", "", "right"),
                Finding::ok("resolver", "192.0.2.1:53", "no answer").failure("no checks", "name another"),
                Finding::ok("disk", "/data", "slow").warning("slow checks", "use another"),
            ]
        };
        sender.send(()).unwrap();
        repeat(&end, &faults, Vec::new, examine);
        assert_eq!(runs.get(), 1, "the end is noticed before the next run");
        assert_eq!(*faults.names(), ["resolver"]);
    }

    #[test]
    fn an_outage_is_news_when_it_begins_and_when_it_ends() {
        let figures = |trouble: Option<bool>, down: bool| {
            let trouble =
                trouble.map(|is_from_start| Trouble { text: "the resolver is away".into(), is_from_start });
            let source = SourceFigures { name: "192.0.2.7".into(), rests: 0, resting: 0, down };
            outages(&Figures { sources: vec![source], trouble, ..Figures::default() })
        };
        assert_eq!(figures(Some(true), false), [""; 0], "nothing was looked up yet");
        let mut under_way = Vec::new();
        for (trouble, down, news, count) in [
            (None, false, false, 0),
            (Some(false), false, true, 1),
            (Some(false), false, false, 1),
            (Some(false), true, true, 2),
            (None, true, true, 1),
            (None, false, true, 0),
        ] {
            assert_eq!(report_outages(figures(trouble, down), &mut under_way), news, "{trouble:?} {down}");
            assert_eq!(under_way.len(), count, "{under_way:?}");
        }
    }

    #[test]
    fn a_finding_is_new_once() {
        let warning = |found: &str| vec![Finding::ok("disk", "/data", found).warning("slow", "wait")];
        let mut logged = Vec::new();
        report(&warning("51 ms"), &mut logged);
        assert_eq!(logged, [("disk", "/data".to_owned(), Severity::Warning)]);
        report(&warning("77 ms"), &mut logged);
        assert_eq!(logged.len(), 1);
        report(&[], &mut logged);
        assert!(logged.is_empty());
    }
}
