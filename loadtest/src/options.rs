//! The flags that commands share, and their conversion to a run.

use crate::addresses::Addresses;
use crate::arrivals::Spread;
use crate::ask::ask;
use crate::before;
use crate::files::LateFile;
use crate::http;
use crate::load::{Load, Loop, Target};
use crate::mix::{Endpoint, Mix};
use crate::objective::{Objective, time};
use crate::origin::{version_of_answer, version_of_process};
use crate::peer::{Peer, ServerPlace};
use crate::sampler::Watched;
use crate::scenario::Scenario;
use crate::world::{Administrator, Setting, World};
use clap::Args;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use usage::values::{Unit, whole_number, whole_time};

/// The server under test.
#[derive(Debug, Args)]
pub struct TargetArgs {
    /// Address of the server: HOST:PORT, or https://HOST:PORT
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8080", conflicts_with = "spawn")]
    server: ServerPlace,
    /// File with the certificates of private authorities, in PEM, in place of those of the system
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// File with API keys: each word that begins with mp_ is a key. Each request uses a random key
    #[arg(long, value_name = "FILE", conflicts_with = "spawn")]
    key_file: Option<PathBuf>,
    /// Data folder of the server. An account and a key are created there, with limits above the load
    #[arg(long, value_name = "DIR", conflicts_with_all = ["key_file", "spawn"])]
    data: Option<PathBuf>,
    /// Process id of the server on this machine, to measure its processor time and memory
    #[arg(long, conflicts_with = "spawn", value_parser = whole_number(1..=u32::MAX))]
    pid: Option<u32>,
    /// Address of the server's metrics, as IP:PORT
    #[arg(long, value_name = "ADDR", conflicts_with = "spawn")]
    metrics: Option<SocketAddr>,
    /// Start `mailprobe serve` and mailnet on loopback, in a temporary folder
    #[arg(long)]
    pub spawn: bool,
    /// Folder of the programs mailprobe and mailnet [default: the folder of this program]
    #[arg(long, value_name = "DIR")]
    pub bin_dir: Option<PathBuf>,
    /// With --spawn: scenario for mailnet; requires --addresses
    #[arg(long, value_name = "FILE", requires = "spawn", requires = "addresses")]
    scenario: Option<PathBuf>,
    /// With --spawn: delay before each reply of a mail server, such as 50ms; a number without a unit is in milliseconds
    #[arg(long, value_name = "TIME", default_value_t = 0, value_parser = whole_time(Unit::Milliseconds, 0..=3_600_000u64))]
    latency: u64,
    /// With --spawn: let the mail servers offer STARTTLS
    #[arg(long)]
    tls: bool,
    /// With --spawn: the server gets a certificate, and the requests use HTTPS
    #[arg(long, requires = "spawn", conflicts_with = "ca")]
    https: bool,
    /// With --spawn: more flags for `mailprobe serve`
    #[arg(last = true)]
    flags: Vec<String>,
}

/// The requests of a run.
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// Shares of the kinds of requests: fast, full, batch, poll, account
    #[arg(long, value_name = "NAME=SHARE,...", default_value = "fast=80,full=20")]
    mix: Mix,
    /// Length of the run or step, without the warm-up
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time)]
    duration: Duration,
    /// Warm-up before the run or step; requests in this time do not count
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    warm_up: Duration,
    /// Longest wait for an answer
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time)]
    timeout: Duration,
    /// Maximum number of connections (`run`: only with --rate)
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = whole_number(1u32..=60_000))]
    connections: u32,
    /// Number of threads that send requests
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole_number(1u16..=64))]
    threads: u16,
    /// Never let the sending threads sleep. Each thread then uses a whole core, and the server spends no time on waking
    /// them, as if the client were on another machine
    #[arg(long)]
    spin: bool,
    /// Distribution of the requests over time (`run`: only with --rate)
    #[arg(long, value_enum, default_value = "poisson")]
    spread: Spread,
    /// Number of addresses in a batch
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = whole_number(1u32..=200))]
    batch_size: u32,
    /// File of addresses, used in turn [default: numbered addresses, each once, of --domains domains]
    #[arg(long, value_name = "FILE")]
    addresses: Option<PathBuf>,
    /// Number of domains of the numbered addresses
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = whole_number(1u32..=1_000_000))]
    domains: u32,
    /// Seed of the random numbers. The same seed sends the same requests at the same times
    #[arg(long, default_value_t = 1, value_parser = whole_number(0..=u64::MAX))]
    seed: u64,
}

/// The outputs of a run, and its objectives.
#[derive(Debug, Args)]
pub struct OutputArgs {
    /// Write all figures as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the report as an HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Objective, such as full.p99=250ms, errors=0.1%, rate=95%, rss=512MiB (repeatable). The exit code is 1 if a run
    /// misses an objective. It is also 1 if a search finds no rate that meets all of them, or if its final run misses one
    /// or its memory grows by 5 percent or more
    #[arg(long = "objective", value_name = "[ENDPOINT.]MEASURE=LIMIT")]
    pub objectives: Vec<Objective>,
}

impl TargetArgs {
    /// Finds the server or starts one. The world, if there is one, must live until the end.
    ///
    /// # Errors
    ///
    /// One line: there is no server, or no usable key.
    pub fn reach(&self, load: &LoadArgs) -> Result<(Target, Option<World>), String> {
        if self.spawn {
            let mut world = World::start(self.setting(load)?)?;
            let target = world.serve()?;
            return Ok((target, Some(world)));
        }
        let given = self.key_file.as_deref().map(read_keys).transpose()?;
        if given.is_none() && self.data.is_none() {
            return Err("a key is missing: use --key-file FILE, --data DIR of the server, or --spawn".into());
        }
        let mut server = Peer::of(&self.server, self.ca.as_deref())?;
        server.check()?;
        let host = self.server.authority.clone();
        before::costs_are_known(self.pid, self.metrics)?;
        let keys = match given {
            Some(keys) => keys,
            None => vec![self.new_key(&host)?],
        };
        before::server_answers(&server, &host, &keys, &self.keys_from())?;
        let watched = Watched { pid: self.pid, metrics: self.metrics, mailnet: None };
        let version = self.pid.and_then(version_of_process).or_else(|| told_version(&server, &host));
        Ok((Target { server, host, keys, watched, version }, None))
    }

    /// A key of a new account of the server with this data folder.
    fn new_key(&self, host: &str) -> Result<String, String> {
        let data = self.data.clone().unwrap_or_default();
        before::data_is_served(&data, host)?;
        let mailprobe = bin_dir(self.bin_dir.as_deref())?.join("mailprobe");
        let account = format!("loadtest-{}", std::process::id());
        Administrator { mailprobe, data }.key(&account, None)
    }

    /// The origin of the keys, for messages.
    fn keys_from(&self) -> String {
        match (&self.key_file, &self.data) {
            (Some(file), _) => file.display().to_string(),
            (None, data) => format!("--data {}", data.as_deref().unwrap_or(Path::new("")).display()),
        }
    }

    /// Whether the addresses are numbered, and their domains are not those of a scenario of this program.
    pub fn has_unknown_mail_servers(&self, load: &LoadArgs) -> bool {
        !self.spawn && load.addresses.is_none()
    }

    fn setting(&self, load: &LoadArgs) -> Result<Setting, String> {
        let scenario = match &self.scenario {
            Some(path) => {
                std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?
            }
            None => {
                Scenario { latency_ms: self.latency, tls: self.tls, ..Scenario::of(u64::from(load.domains)) }
                    .text()
            }
        };
        let bin_dir = bin_dir(self.bin_dir.as_deref())?;
        let (flags, https, ca) = (self.flags.clone(), self.https, self.ca.clone());
        Ok(Setting { bin_dir, scenario, flags, https, ca })
    }
}

impl LoadArgs {
    /// The load of a run.
    pub fn load(&self, pressure: Loop) -> Load {
        Load {
            pressure,
            spread: self.spread,
            mix: self.mix,
            batch_size: self.batch_size,
            warm_up: self.warm_up,
            duration: self.duration,
            patience: self.timeout,
            connections: self.connections as usize,
            threads: usize::from(self.threads),
            spin: self.spin,
            seed: self.seed,
        }
    }

    /// The addresses of the requests.
    pub fn supply(&self) -> Result<Addresses, String> {
        match &self.addresses {
            Some(path) => Addresses::read(path),
            None => Ok(Addresses::counted(u64::from(self.domains))),
        }
    }

    /// The endpoint of the default objective of a search: the slowest one in the mix.
    pub fn slowest(&self) -> Endpoint {
        let order = [Endpoint::Full, Endpoint::Fast, Endpoint::Batch, Endpoint::Poll, Endpoint::Account];
        order.into_iter().find(|endpoint| self.mix.has(*endpoint)).unwrap_or(Endpoint::Full)
    }
}

impl OutputArgs {
    /// Opens the files that the flags name, before the work.
    ///
    /// # Errors
    ///
    /// One line that names a file.
    pub fn open(&self) -> Result<OutputFiles, String> {
        let open = |path: &Option<PathBuf>| path.as_deref().map(LateFile::open).transpose();
        Ok(OutputFiles { json: open(&self.json)?, html: open(&self.html)? })
    }

    /// Checks that the mix has the endpoint of each objective.
    ///
    /// # Errors
    ///
    /// One line: an objective can never be met.
    pub fn suits(&self, load: &LoadArgs) -> Result<(), String> {
        for objective in &self.objectives {
            if let Some(endpoint) = objective.endpoint.filter(|endpoint| !load.mix.has(*endpoint)) {
                let requests = endpoint.plural();
                return Err(format!("--objective {}: --mix has no {requests}", objective.subject()));
            }
        }
        Ok(())
    }
}

/// The open files of a report.
pub struct OutputFiles {
    json: Option<LateFile>,
    html: Option<LateFile>,
}

impl OutputFiles {
    /// Writes a report to the files.
    ///
    /// # Errors
    ///
    /// One line that names a file.
    pub fn write(self, json: &impl serde::Serialize, html: &str) -> Result<(), String> {
        if let Some(file) = self.json {
            let text = serde_json::to_string_pretty(json).map_err(|error| error.to_string())?;
            file.write(&(text + "\n"))?;
        }
        self.html.map_or(Ok(()), |file| file.write(html))
    }
}

/// The folder of the programs.
pub fn bin_dir(given: Option<&Path>) -> Result<PathBuf, String> {
    match given {
        Some(path) => Ok(path.to_owned()),
        None => std::env::current_exe()
            .ok()
            .and_then(|path| path.parent().map(Path::to_owned))
            .ok_or_else(|| "the folder of this program is unknown: set --bin-dir".into()),
    }
}

/// The version that the server tells everyone; `None` if it tells none.
fn told_version(server: &Peer, host: &str) -> Option<String> {
    let mut request = String::new();
    http::get(&mut request, host, "/v1/openapi.json", "");
    let reply = ask(server, &request).ok()?;
    version_of_answer(http::header(&reply.head, "server"), &reply.body)
}

fn read_keys(path: &Path) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let keys: Vec<String> =
        text.split_whitespace().filter(|word| word.starts_with("mp_")).map(str::to_owned).collect();
    if keys.is_empty() {
        return Err(format!("{} has no key (a word that begins with mp_)", path.display()));
    }
    Ok(keys)
}
