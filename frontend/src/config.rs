//! The configuration: every setting from flag, environment, file or default, in this order of precedence.
//!
//! [`settings`] is the one table of all settings. Flags, keys of the file and environment variables are derived from it, so
//! that every setting has all three. `load` reads all of them, and writes a configuration as a file. [`file`](mod@file) reads
//! the file, with its plans ([`plans`]), sources ([`sources`]), gateways ([`gateways`]) and canaries ([`canaries`]). [`store`]
//! has the settings of the store. [`reference`](mod@reference) describes all of it for readers.

pub mod canaries;
pub mod file;
pub mod gateways;
mod keys;
mod load;
pub mod plans;
pub mod reference;
pub mod settings;
pub mod sources;
pub mod store;
mod values;

use self::store::StoreSettings;
use ::store::{Plan, PlanTable};
use checks::batch::Limits;
use checks::gateway::Gateway;
use engine::config::{EngineConfig, Network, SharedLists};
use engine::proto::address::Address;
use engine::proto::lists::{ListKind, Lists};
use lists::numbers::grouped;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use tracing::Level;

/// Largest file of a list: some millions of addresses, which stay in memory.
const LIST_BYTES_MAX: u64 = 128 << 20;
/// How many rows of batches are under way by default for each SMTP session: a session asks about several recipients at a time.
const ROWS_A_SESSION: usize = 4;

/// All settings of an operator, with their effective values.
#[derive(Debug, Clone)]
pub struct Config {
    /// The address of the API.
    pub listen: SocketAddr,
    /// The data folder.
    pub data: PathBuf,
    /// Whether a flag, a variable or the file names the data folder.
    pub data_is_named: bool,
    /// The settings of the store.
    pub store: StoreSettings,
    /// The base address of the API in its description.
    pub public_url: Option<String>,
    /// Number of frontend threads; 0: one per two cores.
    pub frontends: usize,
    /// Maximum number of connections over all frontend threads.
    pub connections: usize,
    /// Maximum number of connections from one peer; 0: no limit.
    pub connections_per_peer: usize,
    /// The certificate for HTTPS; `None`: plain HTTP.
    pub tls_cert: Option<PathBuf>,
    /// The private key of the certificate.
    pub tls_key: Option<PathBuf>,
    /// The address of the metrics, if they are served.
    pub metrics: Option<SocketAddr>,
    /// The settings of the dashboard.
    pub dashboard: Dashboard,
    /// The format of log lines.
    pub log: LogFormat,
    /// The least important lines of the log.
    pub log_level: Level,
    /// Whether a running server looks for faults of its machine.
    pub self_checks: bool,
    /// Whether a verdict of one account may answer other accounts.
    pub reuse_verdicts: bool,
    /// Networks that webhooks may contact although they are not public.
    pub webhook_allow_net: Vec<Network>,
    /// The times of batches.
    pub batch: Limits,
    /// Maximum number of batch rows at the engine; `None`: it follows from the number of sessions.
    pub batch_rows_max: Option<usize>,
    /// The files of the operator's lists, by their kinds.
    pub lists: Vec<(ListKind, PathBuf)>,
    /// The state file of `check` and `clean`; `None`: a file below the user's state folder.
    pub state: Option<StateFile>,
    /// The file of learned bounces and deliveries; `None`: the default of the command.
    pub learned: Option<StateFile>,
    /// The accounts with checks that use the learned events on a server.
    pub learned_accounts: Vec<String>,
    /// The operator's own mailboxes, which exist.
    pub canaries: Vec<Address>,
    /// The sources: addresses and proxies for connections to mail servers.
    pub sources: Vec<sources::Source>,
    /// The settings of the engine, without spam traps, canaries and sources.
    pub engine: EngineConfig,
    /// The plans of accounts.
    pub plans: Vec<Plan>,
    /// The API gateways.
    pub gateways: Vec<Gateway>,
}

/// The settings of the dashboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dashboard {
    /// Whether the dashboard is served.
    pub enabled: bool,
    /// Whether visitors may create an account.
    pub sign_up: bool,
    /// Largest list that users may upload, in MiB.
    pub upload_mib: u64,
}

impl Default for Dashboard {
    fn default() -> Dashboard {
        Dashboard { enabled: true, sign_up: true, upload_mib: 100 }
    }
}

/// The value of `--state` and `--learned`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateFile {
    /// No state is kept.
    None,
    /// The path of the file.
    At(PathBuf),
}

impl StateFile {
    /// The value that means [`StateFile::None`].
    pub const NONE: &str = "none";
}

/// Writes the value of the setting.
impl std::fmt::Display for StateFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StateFile::None => f.write_str(StateFile::NONE),
            StateFile::At(path) => path.display().fmt(f),
        }
    }
}

/// The value of `--log-format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// An error in the configuration: one line that says what is wrong and where.
#[derive(Debug, PartialEq, Eq)]
pub struct ConfigError(pub String);

/// The flags on the command line: the key of each setting, and its values.
pub type Given = Vec<(&'static str, Vec<String>)>;

impl Default for Config {
    fn default() -> Config {
        Config {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            data: default_data_folder(),
            data_is_named: false,
            store: StoreSettings::default(),
            public_url: None,
            frontends: 0,
            connections: 10_000,
            connections_per_peer: 5_000,
            tls_cert: None,
            tls_key: None,
            metrics: None,
            dashboard: Dashboard::default(),
            log: LogFormat::Text,
            log_level: Level::INFO,
            self_checks: true,
            reuse_verdicts: true,
            webhook_allow_net: Vec::new(),
            batch: Limits::default(),
            batch_rows_max: None,
            lists: Vec::new(),
            state: None,
            learned: None,
            learned_accounts: Vec::new(),
            canaries: Vec::new(),
            sources: Vec::new(),
            engine: EngineConfig::default(),
            plans: plans::standard(),
            gateways: Vec::new(),
        }
    }
}

impl Config {
    /// The plans for the store.
    ///
    /// # Errors
    /// The first invalid plan.
    pub fn plan_table(&self) -> Result<PlanTable, ConfigError> {
        PlanTable::new(self.plans.iter().cloned()).map_err(ConfigError)
    }

    /// The engine's settings.
    ///
    /// # Errors
    /// A list or the password of a proxy cannot be read.
    pub fn engine_config(&self) -> Result<EngineConfig, ConfigError> {
        let mut engine = self.engine.clone();
        engine.lists = SharedLists::new(self.lists()?);
        engine.canaries = self.canaries.clone();
        engine.sources = self.sources.iter().map(sources::Source::complete).collect::<Result<_, _>>()?;
        Ok(engine)
    }

    /// The operator's lists, read from their files.
    ///
    /// # Errors
    /// A file cannot be read, with its line if one is no entry. The line may be an address, so the message does not repeat it.
    pub fn lists(&self) -> Result<Lists, ConfigError> {
        let mut lists = Lists::default();
        for (kind, path) in &self.lists {
            let (what, entry) = describe(*kind);
            let text = read_file(path, LIST_BYTES_MAX, what)?;
            lists.set(*kind, &text).map_err(|fault| {
                let (path, line, problem) = (path.display(), fault.line, fault.problem);
                ConfigError(format!("{path}:{line}: {problem}; write one {entry} per line"))
            })?;
        }
        Ok(lists)
    }

    /// The file of this list.
    pub fn list_file(&self, kind: ListKind) -> Option<&Path> {
        self.lists.iter().find(|(known, _)| *known == kind).map(|(_, path)| path.as_path())
    }

    /// Sets the file of this list.
    pub fn set_list_file(&mut self, kind: ListKind, path: PathBuf) {
        self.lists.retain(|(known, _)| *known != kind);
        self.lists.push((kind, path));
    }

    /// Compares the data folder with what is there: a file cannot be the folder.
    ///
    /// # Errors
    /// The setting names a file.
    pub fn check_data_folder(&self) -> Result<(), ConfigError> {
        let path = self.data.display();
        match self.data.is_file() {
            true => {
                Err(ConfigError(format!("{path} is a file, not a folder; choose another folder with --data")))
            }
            false => Ok(()),
        }
    }

    /// The files of the certificate and its key, if the API uses TLS.
    ///
    /// # Errors
    /// One of the two settings is missing.
    pub fn tls_files(&self) -> Result<Option<(&Path, &Path)>, ConfigError> {
        match (&self.tls_cert, &self.tls_key) {
            (None, None) => Ok(None),
            (Some(certificate), Some(key)) => Ok(Some((certificate, key))),
            (Some(_), None) => Err(ConfigError(
                "tls_cert: give the key of the certificate too, with --tls-key (in the file: tls_key)".into(),
            )),
            (None, Some(_)) => Err(ConfigError(
                "tls_key: give the certificate of the key too, with --tls-cert (in the file: tls_cert)"
                    .into(),
            )),
        }
    }

    /// The base address of the API in its description.
    pub fn base_url(&self) -> &str {
        self.public_url.as_deref().unwrap_or(api::openapi::HERE)
    }

    /// The address at which users reach the server, according to the configuration.
    pub fn reachable_at(&self) -> String {
        self.public_url.clone().unwrap_or_else(|| self.listening_at(self.listen))
    }

    /// The URL of this socket of the server.
    pub fn listening_at(&self, address: SocketAddr) -> String {
        let scheme = if self.tls_cert.is_some() { "https" } else { "http" };
        format!("{scheme}://{address}")
    }

    /// Maximum number of batch rows at the engine. At least half of its queue stays free for single checks.
    pub fn batch_rows_max(&self) -> usize {
        let by_sessions = || self.engine.sessions.saturating_mul(ROWS_A_SESSION);
        self.batch_rows_max.unwrap_or_else(by_sessions).min(self.engine.tickets_max / 2).max(1)
    }

    /// The number of frontend threads.
    pub fn frontend_threads(&self) -> usize {
        match self.frontends {
            0 => std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1)),
            set => set,
        }
    }
}

/// Replaces control characters in a message, which may repeat a value: it stays one line and cannot control a terminal.
fn one_line(why: &str) -> String {
    why.replace(char::is_control, "\u{fffd}")
}

/// Reads a file of at most `bytes_max` bytes. `what` is its content in the message of an error.
fn read_file(path: &Path, bytes_max: u64, what: &str) -> Result<String, ConfigError> {
    let cannot = |why: String| ConfigError(format!("cannot read {what} {}: {why}", path.display()));
    let size = std::fs::metadata(path).map_err(|error| cannot(error.to_string()))?.len();
    if size > bytes_max {
        return Err(cannot(format!("the file is larger than {} bytes", grouped(bytes_max))));
    }
    std::fs::read_to_string(path).map_err(|error| cannot(error.to_string()))
}

/// What a list has, and what its entries are, for messages.
fn describe(kind: ListKind) -> (&'static str, &'static str) {
    match kind {
        ListKind::SpamTraps => ("the spam traps", "address or domain"),
        ListKind::Allowed => ("the allowed domains", "domain"),
        ListKind::Disposable => ("the disposable domains", "domain"),
        ListKind::Role => ("the role names", "name, without @,"),
        ListKind::Free => ("the domains of free providers", "domain"),
        ListKind::TypoTargets => ("the targets of typing mistakes", "domain"),
    }
}

/// `/var/lib/mailprobe` for root and for users without a home folder, else the XDG folder for user data.
fn default_data_folder() -> PathBuf {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let root = rustix::process::geteuid().is_root();
    let user = absolute("XDG_DATA_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/share")));
    match user {
        Some(base) if !root => base.join("mailprobe"),
        _ => PathBuf::from("/var/lib/mailprobe"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_batches_follow_from_the_sessions_and_leave_half_of_the_queue() {
        let most = |key_values: &[(&str, &str)]| {
            let mut config = Config::default();
            for (key, value) in key_values {
                (settings::find(key).unwrap().set)(&mut config, &[(*value).to_owned()]).unwrap();
            }
            config.batch_rows_max()
        };
        assert_eq!(most(&[]), 4_000);
        assert_eq!(most(&[("sessions", "100")]), 400);
        assert_eq!(most(&[("sessions", "4000")]), 8_192);
        assert_eq!(most(&[("sessions", "4000"), ("queue", "100000")]), 16_000);
        assert_eq!(most(&[("batch_rows_max", "3000")]), 3_000);
        assert_eq!(most(&[("batch_rows_max", "30000"), ("queue", "1")]), 1);
    }

    #[test]
    fn spam_traps_are_read_from_their_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("traps");
        let config = Config { lists: vec![(ListKind::SpamTraps, path.clone())], ..Config::default() };
        assert!(config.engine_config().unwrap_err().0.contains("cannot read the spam traps"));
        std::fs::write(&path, "# ours\ntrap@example.com\nexample.net\n").unwrap();
        let lists = config.lists().unwrap();
        assert!(lists.is_spam_trap("trap", "example.com") && lists.is_spam_trap("a", "example.net"));
        std::fs::write(&path, "example.net\nno address\n").unwrap();
        let said = config.engine_config().unwrap_err().0;
        assert!(said.contains("traps:2: ") && !said.contains("no address"), "{said}");
    }
}
