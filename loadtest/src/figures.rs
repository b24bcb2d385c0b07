//! The measurements of a machine, which are the input of a plan.

use crate::origin::Origin;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The results of `calibrate`. CPU is the user and system time of mailprobe alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// The machine: processor, cores, memory and kernel.
    pub machine: String,
    /// The date, the versions and the command; older files have none.
    #[serde(default)]
    pub origin: Option<Origin>,
    pub cores: u32,
    /// The cost of the parts in CPU microseconds.
    pub cpu_us: Parts,
    /// The memory of the parts in bytes.
    pub memory: Memory,
    /// How many recipients of a site beyond the first one session takes before another opens, in a list.
    pub recipients_per_session: f64,
    /// How many seconds a session waits for more work before it ends.
    pub session_idle_s: f64,
    /// The workloads that the parts are fitted to, with the fitted cost of each.
    pub fitted: Vec<Fitted>,
}

/// The CPU microseconds of each part of the work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Parts {
    /// The start of a process of `clean`.
    pub start: f64,
    /// One second of an idle server.
    pub idle_second: f64,
    /// A fast check over the API, of a known domain.
    pub fast: Curve,
    /// An address in a list, without its domain and session.
    pub list_address: f64,
    /// A full check over the API, without its domain and session.
    pub api_address: Curve,
    /// A row of a batch, without its domain and session.
    pub batch_row: f64,
    /// A domain: its look-ups and its control recipient.
    pub domain: f64,
    /// A session without TLS.
    pub session: f64,
    /// The additional cost of TLS for a session, and for an address in one.
    pub tls_session: f64,
    pub tls_address: f64,
}

/// The cost of one item by the rate of items: at a higher rate more of them share a wake-up and a commit.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Curve(pub Vec<(f64, f64)>);

impl Curve {
    /// The cost at a rate: linear in the logarithm of the rate between the measurements, and constant beyond them.
    pub fn at(&self, rate: f64) -> f64 {
        let above = self.0.iter().position(|(measured, _)| *measured >= rate);
        match above {
            None => self.0.last().map_or(0.0, |(_, cost)| *cost),
            Some(0) => self.0[0].1,
            Some(above) => {
                let ((low, from), (high, to)) = (self.0[above - 1], self.0[above]);
                from + (to - from) * (rate / low).ln() / (high / low).ln()
            }
        }
    }
}

/// The bytes of resident memory of each part.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// An idle server.
    pub base: f64,
    /// An open session with its address, and the additional memory of TLS.
    pub session: f64,
    pub tls_session: f64,
    /// A domain in the engine's cache.
    pub domain: f64,
    /// An unanswered row of a batch.
    pub batch_row: f64,
}

/// A workload that the parts were fitted to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fitted {
    pub name: String,
    pub addresses: f64,
    pub domains: f64,
    pub sessions: f64,
    pub measured_cpu_s: f64,
    pub fitted_cpu_s: f64,
}

impl Figures {
    /// Reads the file that `calibrate` wrote.
    ///
    /// # Errors
    ///
    /// One line that names the file.
    pub fn read(path: &Path) -> Result<Figures, String> {
        let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => format!(
                "{0}: there is no such file of figures: run `mailprobe-loadtest calibrate --out {0}` first",
                path.display()
            ),
            _ => format!("{}: {error}", path.display()),
        })?;
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_has_its_command() {
        let error = Figures::read(Path::new("/none/x.json")).unwrap_err();
        assert!(error.contains("run `mailprobe-loadtest calibrate --out /none/x.json` first"), "{error}");
    }

    #[test]
    fn a_curve_goes_through_what_was_measured() {
        let curve = Curve(vec![(10.0, 8.0), (100.0, 4.0), (1000.0, 3.0)]);
        for (rate, cost) in
            [(0.0, 8.0), (10.0, 8.0), (100.0, 4.0), (31.622_776_6, 6.0), (1000.0, 3.0), (1e9, 3.0)]
        {
            assert!((curve.at(rate) - cost).abs() < 1e-6, "{rate}: {}", curve.at(rate));
        }
        assert_eq!(Curve::default().at(5.0), 0.0);
    }
}
