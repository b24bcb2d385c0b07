//! The results of `run --json`, as far as a comparison needs them.

use super::Subject;
use crate::origin::Origin;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The longest file: a run of a week has some hundred MiB of values over time.
const BYTES_MAX: u64 = 512 << 20;
/// The compared percentiles. Higher ones belong to few requests of a run.
const PERCENTILES: [&str; 3] = ["p50", "p90", "p99"];
/// The beginning of a warning. Older versions have no field `interrupted`, and save this warning if a signal ends a run.
const ENDED_EARLY: &str = "ended early";

/// A result of `run --json`.
#[derive(Debug, Clone, Deserialize)]
pub struct SavedRun {
    /// The file, for messages.
    #[serde(skip)]
    pub name: String,
    pub title: String,
    /// Older versions of this program do not save it.
    #[serde(default)]
    pub origin: Option<Origin>,
    load: Map<String, Value>,
    requests: u64,
    rate: f64,
    errors: u64,
    endpoints: Vec<SavedEndpoint>,
    server: SavedServer,
    client: SavedClient,
    #[serde(default)]
    warnings: Vec<String>,
    #[serde(default)]
    interrupted: bool,
}

/// The latencies of one kind of requests.
#[derive(Debug, Clone, Deserialize)]
struct SavedEndpoint {
    name: String,
    latency_ms: BTreeMap<String, f64>,
}

/// The costs of the server.
#[derive(Debug, Clone, Deserialize)]
struct SavedServer {
    cpu_s_per_1000: Option<f64>,
    rss_peak_mib: Option<f64>,
}

/// The load of the client.
#[derive(Debug, Clone, Deserialize)]
struct SavedClient {
    busy: f64,
}

/// Reads a result.
///
/// # Errors
///
/// One line that names the file.
pub fn read(path: &Path) -> Result<SavedRun, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let mut text = Vec::new();
    let file = File::open(path).map_err(|error| wrong(&error))?;
    file.take(BYTES_MAX + 1).read_to_end(&mut text).map_err(|error| wrong(&error))?;
    if text.len() as u64 > BYTES_MAX {
        return Err(wrong(&"the file is too long for a result of `run --json`"));
    }
    let run: SavedRun = serde_json::from_slice(&text)
        .map_err(|error| wrong(&format!("this is no result of `run --json`: {error}")))?;
    Ok(SavedRun { name: path.display().to_string(), ..run })
}

impl SavedRun {
    /// Checks that this run is complete and has the load of another one.
    ///
    /// # Errors
    ///
    /// One line that names the file and the difference.
    pub fn belongs_to(&self, other: &SavedRun) -> Result<(), String> {
        for (key, value) in self.load.iter().filter(|(key, _)| *key != "seed") {
            // An older version saved fewer parts of the load.
            if let Some(theirs) = other.load.get(key).filter(|theirs| *theirs != value) {
                return Err(format!(
                    "{} and {} have different loads ({key}: {value} and {theirs}): compare runs of the same load",
                    self.name, other.name
                ));
            }
        }
        if self.interrupted || self.warnings.iter().any(|warning| warning.starts_with(ENDED_EARLY)) {
            return Err(format!("{}: the run was ended early: repeat it", self.name));
        }
        Ok(())
    }

    /// The figures that are compared: name, subject, value.
    pub fn figures(&self) -> Vec<(String, Subject, f64)> {
        let errors = self.errors as f64 * 100.0 / self.requests.max(1) as f64;
        let mut figures = vec![
            ("good answers/s".to_owned(), Subject::Rate, self.rate),
            ("errors, % of requests".to_owned(), Subject::Errors, errors),
        ];
        let cpu =
            self.server.cpu_s_per_1000.map(|cpu| ("CPU s per 1,000 requests".to_owned(), Subject::Cpu, cpu));
        let memory = self
            .server
            .rss_peak_mib
            .map(|memory| ("maximum memory, MiB".to_owned(), Subject::Memory, memory));
        figures.extend(cpu.into_iter().chain(memory));
        // The sum of all kinds repeats what its parts say.
        for endpoint in self.endpoints.iter().filter(|one| one.name != "all") {
            for percentile in PERCENTILES {
                if let Some(ms) = endpoint.latency_ms.get(percentile) {
                    figures.push((format!("{} {percentile}, ms", endpoint.name), Subject::Latency, *ms));
                }
            }
        }
        figures
    }

    /// Whether both are the result of one run: the same file, or a copy of it.
    pub fn is_same_run(&self, other: &SavedRun) -> bool {
        let is_copy =
            self.origin.is_some() && self.origin == other.origin && self.figures() == other.figures();
        is_copy || (!self.name.is_empty() && self.name == other.name)
    }

    /// The seed of the requests.
    pub fn seed(&self) -> Option<u64> {
        self.load.get("seed").and_then(Value::as_u64)
    }

    /// Whether the figures may show the limit of the client.
    pub fn client_limited(&self) -> bool {
        self.client.busy > crate::run::CLIENT_BUSY
    }
}
