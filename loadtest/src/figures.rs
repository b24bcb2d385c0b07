//! The measurements of a machine, which are the input of a plan.

use crate::digits::grouped;
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
    /// The share of the machine that other programs used during the calibration; unknown in older files.
    #[serde(default)]
    pub other_load: Option<f64>,
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

impl Fitted {
    /// The relative difference of the fitted cost from the measured one.
    pub fn off(&self) -> f64 {
        self.fitted_cpu_s / self.measured_cpu_s.max(1e-9) - 1.0
    }
}

/// The largest relative difference between a fitted and a measured cost without a doubt.
const OFF_MAX: f64 = 0.05;
/// The largest share of the machine for other programs without a doubt.
const OTHER_LOAD_MAX: f64 = 0.1;

impl Figures {
    /// Why the costs may be wrong, one sentence each.
    pub fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        if let Some(load) = self.other_load.filter(|load| *load > OTHER_LOAD_MAX) {
            doubts.push(format!(
                "other programs used {:.0} % of the machine, so the costs are too high. End them, and repeat `calibrate`",
                load * 100.0
            ));
        }
        let off = self.fitted.iter().map(Fitted::off);
        let most = off.max_by(|one, other| one.abs().total_cmp(&other.abs())).unwrap_or(0.0);
        if most.abs() > OFF_MAX + 1e-9 {
            doubts.push(format!(
                "the fitted costs differ by more than {:.0} % from the measured ones (the most: {:+.1} %). End other \
                 programs, and repeat `calibrate`",
                OFF_MAX * 100.0,
                most * 100.0
            ));
        }
        doubts
    }

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
        serde_json::from_str(&text)
            .map_err(|error| format!("{}: this is no file of `calibrate --out`: {error}", path.display()))
    }

    /// The measurements of the machine, one row each: the part, and its value with the unit.
    pub fn costs(&self) -> Vec<[String; 2]> {
        let (cost, memory) = (&self.cpu_us, &self.memory);
        let mut rows: Vec<[String; 2]> = Vec::new();
        let mut add = |name: &str, value: f64, unit: &str| {
            let decimals = if value < 100.0 { 1 } else { 0 };
            let value = format!("{} {unit}", grouped(value, decimals));
            rows.push([name.to_owned(), value.trim_end().to_owned()]);
        };
        add("start of a process", cost.start, "us");
        add("a second of an idle server", cost.idle_second, "us");
        for (rate, us) in &cost.fast.0 {
            add(&format!("a fast check at {}/s", grouped(*rate, 0)), *us, "us");
        }
        add("an address of a list", cost.list_address, "us");
        for (rate, us) in &cost.api_address.0 {
            add(&format!("a full check at {}/s", grouped(*rate, 0)), *us, "us");
        }
        add("a row of a batch", cost.batch_row, "us");
        add("a domain", cost.domain, "us");
        add("a session", cost.session, "us");
        add("TLS of a session", cost.tls_session, "us");
        add("TLS of an address", cost.tls_address, "us");
        add("an idle server", memory.base / 1024.0 / 1024.0, "MiB");
        add("an open session", memory.session, "bytes");
        add("TLS of an open session", memory.tls_session, "bytes");
        add("a domain in memory", memory.domain, "bytes");
        add("an unanswered row of a batch", memory.batch_row, "bytes");
        add("recipients of a site per session", self.recipients_per_session, "");
        add("wait of a session for more work", self.session_idle_s, "s");
        rows
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
    fn a_wrong_file_is_named_as_such() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.json");
        for text in ["", "no JSON", "{}", r#"{"machine": "x", "cores": 0.5}"#, r#"{"kind": "run"}"#] {
            std::fs::write(&path, text).unwrap();
            let error = Figures::read(&path).unwrap_err();
            let start = format!("{}: this is no file of `calibrate --out`: ", path.display());
            assert!(error.starts_with(&start), "{error}");
        }
    }

    #[test]
    fn the_costs_have_every_part() {
        let costs = crate::model::tests::figures().costs();
        for (name, value) in
            [("a domain", "100 us"), ("an address of a list", "10.0 us"), ("an idle server", "47.7 MiB")]
        {
            assert!(costs.contains(&[name.to_owned(), value.to_owned()]), "{name}: {costs:?}");
        }
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
