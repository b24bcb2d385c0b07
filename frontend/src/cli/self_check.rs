//! The checks of `mailprobe doctor` that `serve` repeats while it runs: those that contact only resolvers, the
//! database of the cluster, and this machine.
//!
//! A thread of its own runs them, because a resolver that does not answer takes seconds. The log gets each finding once, and
//! a line when the faults are gone. `/readyz` and the dashboard show the names of failures.

use crate::config::Config;
use crate::doctor::report::{Finding, Severity};
use crate::doctor::while_serving;
use checks::faults::Faults;
use engine::Identity;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// The time between two runs, and the time after a run that found a failure.
const INTERVAL: Duration = Duration::from_secs(600);
const INTERVAL_FAILED: Duration = Duration::from_secs(60);

/// Ends the checks when it is dropped. It does not wait for a check that is in progress, because such a check changes nothing.
pub(super) struct SelfCheck(#[expect(dead_code, reason = "its drop is the message")] Sender<()>);

/// Starts the thread that runs the checks now and repeats them, for the sources with which the engine started.
///
/// # Errors
/// The operating system has no thread for it.
pub(super) fn start(
    config: &Config,
    identities: Vec<Identity>,
    faults: &Arc<Faults>,
) -> io::Result<SelfCheck> {
    let (sender, end) = channel();
    let (config, faults) = (config.clone(), Arc::clone(faults));
    let work = move || repeat(&end, &faults, || while_serving(&config, &identities));
    thread::Builder::new().name("self-check".into()).spawn(work)?;
    Ok(SelfCheck(sender))
}

fn repeat(end: &Receiver<()>, faults: &Faults, examine: impl Fn() -> Vec<Finding>) {
    let mut logged = Vec::new();
    loop {
        let findings = examine();
        let bad: Vec<Finding> =
            findings.into_iter().filter(|finding| finding.severity != Severity::Ok).collect();
        let failures = bad.iter().filter(|finding| finding.severity == Severity::Failure);
        let names: Vec<&'static str> = failures.map(|finding| finding.check).collect();
        let interval = if names.is_empty() { INTERVAL } else { INTERVAL_FAILED };
        faults.set(names);
        report(&bad, &mut logged);
        if end.recv_timeout(interval) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
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
        repeat(&end, &faults, examine);
        assert_eq!(runs.get(), 1, "the end is noticed before the next run");
        assert_eq!(*faults.names(), ["resolver"]);
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
