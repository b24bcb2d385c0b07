//! A server for several loads, for calibration and for checks of a plan.

use crate::addresses::Addresses;
use crate::list::Place;
use crate::load::{Load, Loop, Target};
use crate::mix::Mix;
use crate::run::{Outcome, run};
use crate::sampler::{Sample, UNDER_WAY, cpu_s, rss_kib};
use crate::scenario::Scenario;
use crate::stats::Failure;
use crate::world::{Counted, World};
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long work under way may take to end.
const SETTLE_LIMIT: Duration = Duration::from_secs(120);
const SETTLE_LOOK: Duration = Duration::from_millis(500);
/// How many consecutive samples must have no work under way.
const SETTLE_LOOKS: u32 = 4;

/// The reason why requests give no figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskError {
    /// Requests were due and not sent: this machine is too busy or too slow. The same requests may succeed later.
    Unsent(String),
    /// Anything else, in one line.
    Other(String),
}

impl AskError {
    /// The same error, with a line that is made from its line.
    pub fn map(self, line: impl FnOnce(String) -> String) -> AskError {
        match self {
            AskError::Unsent(text) => AskError::Unsent(line(text)),
            AskError::Other(text) => AskError::Other(line(text)),
        }
    }
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AskError::Unsent(text) | AskError::Other(text) => f.write_str(text),
        }
    }
}

impl From<String> for AskError {
    fn from(text: String) -> AskError {
        AskError::Other(text)
    }
}

impl From<&str> for AskError {
    fn from(text: &str) -> AskError {
        AskError::Other(text.to_owned())
    }
}

/// The server with its mail internet.
pub struct Service {
    world: World,
    target: Target,
    supply: RefCell<Option<Addresses>>,
}

impl Service {
    /// Starts both programs.
    ///
    /// # Errors
    ///
    /// One line: a program did not start.
    pub fn start(place: &Place<'_>, scenario: Scenario) -> Result<Service, String> {
        let mut world = place.world(&scenario)?;
        let target = world.serve()?;
        Ok(Service { world, target, supply: RefCell::new(Some(Addresses::counted(scenario.domains))) })
    }

    /// The CPU seconds of the server until now.
    ///
    /// # Errors
    ///
    /// One line: the server has ended.
    pub fn cpu_s(&self) -> Result<f64, String> {
        self.target.watched.pid.and_then(cpu_s).ok_or_else(|| "the server has ended".into())
    }

    /// The resident memory of the server in bytes.
    ///
    /// # Errors
    ///
    /// One line: the server has ended.
    pub fn resident(&self) -> Result<f64, String> {
        let kib = self.target.watched.pid.and_then(rss_kib).ok_or("the server has ended")?;
        Ok((kib * 1024) as f64)
    }

    /// Sends requests at a rate, without repeating an address.
    ///
    /// # Errors
    ///
    /// [`AskError`]; also if requests failed, since the cost of refusals is meaningless.
    pub fn ask(
        &self,
        rate: f64,
        mix: Mix,
        time: Duration,
        stop: &Arc<AtomicBool>,
    ) -> Result<Outcome, AskError> {
        let load = Load::of(Loop::Open(rate), mix, time);
        let supply = self.supply.take().ok_or("an earlier run failed")?;
        let (outcome, supply) = run(&self.target, &load, supply, stop)?;
        self.supply.replace(Some(supply));
        if outcome.interrupted {
            return Err("ended by a signal".into());
        }
        let all = outcome.stats.all();
        if all.errors() * 100 > all.requests() {
            let text = format!(
                "{} of {} requests failed: {:?} {:?}",
                all.errors(),
                all.requests(),
                all.status,
                all.failures
            );
            let is_unsent = all.failures.contains_key(&Failure::Unsent);
            return Err(if is_unsent { AskError::Unsent(text) } else { AskError::Other(text) });
        }
        Ok(outcome)
    }

    /// Waits until no work is under way; returns the samples of that time.
    ///
    /// # Errors
    ///
    /// One line: the limit was reached.
    pub fn settle(&self, stop: &Arc<AtomicBool>) -> Result<Vec<Sample>, String> {
        let (began, mut quiet, mut samples) = (Instant::now(), 0, Vec::new());
        while quiet < SETTLE_LOOKS {
            if stop.load(Ordering::Relaxed) || began.elapsed() > SETTLE_LIMIT {
                return Err("the work in progress does not end".into());
            }
            thread::sleep(SETTLE_LOOK);
            let sample = self.target.watched.look(began);
            let under_way = sample.gauges[UNDER_WAY]
                .ok_or("the server's metrics lack the number of addresses in progress")?;
            quiet = if under_way == 0.0 { quiet + 1 } else { 0 };
            samples.push(sample);
        }
        Ok(samples)
    }

    /// Ends both programs and returns the counts of the mail internet.
    ///
    /// # Errors
    ///
    /// One line: a program failed.
    pub fn stop(self) -> Result<Counted, String> {
        self.world.stop()
    }
}
