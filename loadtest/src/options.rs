//! The flags that commands share, and what becomes of them.

use crate::addresses::Addresses;
use crate::arrivals::Spread;
use crate::mix::{Endpoint, Mix};
use crate::objective::{Objective, time};
use crate::run::{Load, Loop, Target};
use crate::sampler::Watched;
use crate::scenario::Scenario;
use crate::world::{Administrator, Setting, World};
use clap::Args;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Whom to ask.
#[derive(Debug, Args)]
pub struct TargetArgs {
    /// The server, as HOST:PORT
    #[arg(long, default_value = "127.0.0.1:8080", conflicts_with = "spawn")]
    server: String,
    /// A file of API keys: every word that begins with mp_ counts, and requests take them by chance
    #[arg(long, value_name = "FILE", conflicts_with = "spawn")]
    key_file: Option<PathBuf>,
    /// Make an account and a key in this data folder, whose server may run, with limits that are not in the way
    #[arg(long, value_name = "DIR", conflicts_with_all = ["key_file", "spawn"])]
    data: Option<PathBuf>,
    /// The server's process on this machine, for its processor time and memory
    #[arg(long, conflicts_with = "spawn")]
    pid: Option<u32>,
    /// Where the server's metrics are, as IP:PORT
    #[arg(long, value_name = "ADDR", conflicts_with = "spawn")]
    metrics: Option<SocketAddr>,
    /// Start a server of its own and a mail internet on loopback for it, both in a temporary folder
    #[arg(long)]
    pub spawn: bool,
    /// The folder of the binaries mailprobe and mailnet [default: this program's own]
    #[arg(long, value_name = "DIR")]
    pub bin_dir: Option<PathBuf>,
    /// --spawn: a scenario for mailnet; needs --addresses
    #[arg(long, value_name = "FILE", requires = "spawn", requires = "addresses")]
    scenario: Option<PathBuf>,
    /// --spawn: milliseconds before each reply of a mail server
    #[arg(long, value_name = "MS", default_value_t = 0)]
    latency: u64,
    /// --spawn: the mail servers offer STARTTLS
    #[arg(long)]
    tls: bool,
    /// --spawn: further flags for `mailprobe serve`
    #[arg(last = true)]
    flags: Vec<String>,
}

/// How to ask.
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// Shares of fast, full, batch, poll and account
    #[arg(long, value_name = "NAME=SHARE,...", default_value = "fast=80,full=20")]
    mix: Mix,
    /// How long to count
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time)]
    duration: Duration,
    /// How long to ask before anything counts
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    warm_up: Duration,
    /// How long an answer may take
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time)]
    timeout: Duration,
    /// Most connections of the open loop
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    connections: u32,
    /// Threads that send
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: u16,
    /// The threads that send never sleep: each takes a core, and the server is not charged for waking them, as it is not
    /// where its callers are on other machines
    #[arg(long)]
    spin: bool,
    /// How the requests of the open loop are spread
    #[arg(long, value_enum, default_value = "poisson")]
    spread: Spread,
    /// Addresses of a batch
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=200))]
    batch_size: u32,
    /// A file of addresses, asked in turn [default: counted ones, none twice, of --domains]
    #[arg(long, value_name = "FILE")]
    addresses: Option<PathBuf>,
    /// Domains of the counted addresses
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    domains: u32,
    /// The same seed asks the same at the same times
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Where the figures go, and what they have to keep.
#[derive(Debug, Args)]
pub struct OutputArgs {
    /// Write all figures as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a report as one HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// What has to be kept, such as full.p99=250ms, errors=0.1%, rate=95%, rss=512MiB; exit code 1 when it is not
    #[arg(long = "objective", value_name = "[ENDPOINT.]MEASURE=LIMIT")]
    pub objectives: Vec<Objective>,
}

impl TargetArgs {
    /// Finds the server or starts one. The world, if there is one, has to be kept until the end.
    pub fn reach(&self, load: &LoadArgs) -> Result<(Target, Option<World>), String> {
        if self.spawn {
            let mut world = World::start(self.setting(load)?)?;
            let target = world.serve()?;
            return Ok((target, Some(world)));
        }
        let server = self
            .server
            .to_socket_addrs()
            .ok()
            .and_then(|mut found| found.next())
            .ok_or_else(|| format!("{} is no HOST:PORT that can be found", self.server))?;
        std::net::TcpStream::connect_timeout(&server, Duration::from_secs(5)).map_err(|error| {
            format!("cannot connect to {server} ({error}); name the server with --server")
        })?;
        let keys = match (&self.key_file, &self.data) {
            (Some(file), _) => read_keys(file)?,
            (None, Some(data)) => {
                let mailprobe = bin_dir(self.bin_dir.as_deref())?.join("mailprobe");
                let account = format!("loadtest-{}", std::process::id());
                vec![Administrator { mailprobe, data: data.clone() }.key(&account, None)?]
            }
            (None, None) => {
                return Err("needs a key: --key-file FILE, --data DIR of the server, or --spawn".into());
            }
        };
        let watched = Watched { pid: self.pid, metrics: self.metrics };
        Ok((Target { server, host: self.server.clone(), keys, watched }, None))
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
        Ok(Setting { bin_dir, scenario, flags: self.flags.clone() })
    }
}

impl LoadArgs {
    /// As a run takes it.
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

    /// Whom to ask about.
    pub fn supply(&self) -> Result<Addresses, String> {
        match &self.addresses {
            Some(path) => Addresses::read(path),
            None => Ok(Addresses::counted(u64::from(self.domains))),
        }
    }

    /// What a search judges by when nothing is said.
    pub fn slowest(&self) -> Endpoint {
        let order = [Endpoint::Full, Endpoint::Fast, Endpoint::Batch, Endpoint::Poll, Endpoint::Account];
        order.into_iter().find(|endpoint| self.mix.has(*endpoint)).unwrap_or(Endpoint::Full)
    }
}

impl OutputArgs {
    /// Writes what was asked for.
    pub fn write(&self, json: &impl serde::Serialize, html: &str) -> Result<(), String> {
        if let Some(path) = &self.json {
            let text = serde_json::to_string_pretty(json).map_err(|error| error.to_string())?;
            crate::world::write(path, &(text + "\n"))?;
        }
        match &self.html {
            Some(path) => crate::world::write(path, html),
            None => Ok(()),
        }
    }
}

/// The folder of the binaries.
pub fn bin_dir(given: Option<&Path>) -> Result<PathBuf, String> {
    match given {
        Some(path) => Ok(path.to_owned()),
        None => std::env::current_exe()
            .ok()
            .and_then(|path| path.parent().map(Path::to_owned))
            .ok_or_else(|| "where this program lies is not known: give --bin-dir".into()),
    }
}

fn read_keys(path: &Path) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let keys: Vec<String> =
        text.split_whitespace().filter(|word| word.starts_with("mp_")).map(str::to_owned).collect();
    if keys.is_empty() {
        return Err(format!("{} holds no key that begins with mp_", path.display()));
    }
    Ok(keys)
}
