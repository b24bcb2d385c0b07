//! The configuration: every setting from flag, environment, file or default, in this order of precedence.
//!
//! [`settings`] is the one table of all settings. Flags, keys of the file and environment variables are derived from it, so
//! that every setting has all three. [`file`](mod@file) reads the file, [`plans`] its plans, [`sources`] its sources,
//! [`gateways`] its gateways, [`canaries`] its canaries; [`store`] has the settings of the store. [`reference`](mod@reference) describes all of it for readers.

pub mod canaries;
pub mod file;
pub mod gateways;
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
use settings::SETTINGS;
use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use tracing::Level;

/// Largest file of a list: some millions of addresses, which stay in memory.
const LIST_BYTES_MAX: u64 = 128 << 20;

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
    /// Limits of the batches in the engine.
    pub batch: Limits,
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
    /// Resolves the configuration.
    ///
    /// # Errors
    /// The first error.
    pub fn load(
        file: Option<&Path>,
        environment: impl Fn(&str) -> Option<String>,
        flags: &Given,
    ) -> Result<Config, ConfigError> {
        let mut config = Config::default();
        if let Some(path) = file {
            file::read(path, &mut config)?;
        }
        for setting in SETTINGS {
            let variable = setting.variable();
            if let Some(text) = environment(&variable) {
                let values = if setting.many {
                    text.split(',')
                        .map(|part| part.trim().to_owned())
                        .filter(|part| !part.is_empty())
                        .collect()
                } else {
                    vec![text]
                };
                (setting.set)(&mut config, &values)
                    .map_err(|why| ConfigError(format!("{variable}: {}", one_line(&why))))?;
            }
        }
        for (key, values) in flags {
            if let Some(setting) = settings::find(key) {
                (setting.set)(&mut config, values)
                    .map_err(|why| ConfigError(format!("{}: {}", setting.flag(), one_line(&why))))?;
            }
        }
        Ok(config)
    }

    /// The configuration as a TOML file with the same effect. A setting without a value is a comment.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        for setting in SETTINGS {
            let _ = writeln!(text, "# {}", setting.help);
            let _ = match (setting.show)(self) {
                Some(value) => writeln!(text, "{} = {value}", setting.key),
                None => writeln!(text, "# {} =", setting.key),
            };
        }
        for source in &self.sources {
            let _ = write!(text, "\n{}", sources::to_toml(source));
        }
        for canary in &self.canaries {
            let _ = write!(text, "\n{}", canaries::to_toml(canary));
        }
        for plan in &self.plans {
            let _ = write!(text, "\n{}", plans::to_toml(plan));
        }
        for gateway in &self.gateways {
            let _ = write!(text, "\n{}", gateways::to_toml(gateway));
        }
        text
    }

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
            lists.add(*kind, &text).map_err(|fault| {
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
        return Err(cannot(format!("the file is larger than {bytes_max} bytes")));
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
    use engine::config::Pace;

    fn load(file: &str, environment: &[(&str, &str)], flags: &Given) -> Result<Config, ConfigError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mailprobe.toml");
        std::fs::write(&path, file).unwrap();
        let variable =
            |name: &str| environment.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        Config::load(Some(&path), variable, flags)
            .map_err(|error| ConfigError(error.0.replace(&format!("{}/", folder.path().display()), "")))
    }

    #[test]
    fn a_flag_beats_the_environment_beats_the_file_beats_the_default() {
        let file = "smtp_port = 1\nsessions = 1\nshards = 1\n";
        let environment = [("MAILPROBE_SMTP_PORT", "2"), ("MAILPROBE_SESSIONS", "2")];
        let config = load(file, &environment, &vec![("smtp_port", vec!["3".into()])]).unwrap();
        let engine = config.engine;
        assert_eq!((engine.smtp_port, engine.sessions, engine.shards), (3, 2, 1));
        assert_eq!(engine.pace, Pace::Polite);
    }

    #[test]
    fn a_named_data_folder_is_told_from_the_default() {
        let flag = vec![("data", vec!["d".into()])];
        for (file, environment, flags, is_named) in [
            ("", &[][..], &Given::new(), false),
            ("data = \"d\"\n", &[], &Given::new(), true),
            ("", &[("MAILPROBE_DATA", "d")], &Given::new(), true),
            ("", &[], &flag, true),
        ] {
            let config = load(file, environment, flags).unwrap();
            assert_eq!(config.data_is_named, is_named, "{:?}", config.data);
        }
    }

    #[test]
    fn lists_replace_each_other_whole() {
        let file = "resolver = [\"192.0.2.1:53\", \"192.0.2.2:53\"]\nallow_net = \"192.0.2.0/24\"";
        let config =
            load(file, &[("MAILPROBE_RESOLVER", "192.0.2.3:5353, [2001:db8::1]:53")], &Given::new()).unwrap();
        let resolvers: Vec<String> = config.engine.resolvers.iter().map(ToString::to_string).collect();
        assert_eq!(resolvers, ["192.0.2.3:5353", "[2001:db8::1]:53"]);
        assert_eq!(config.engine.allow_net.len(), 1);
    }

    #[test]
    fn a_wrong_value_is_told_with_its_place() {
        let check = |file: &str, environment: &[(&str, &str)], flags: &Given, expected: &str| {
            let said = load(file, environment, flags).unwrap_err().0;
            assert!(said.starts_with(expected), "{said}");
        };
        let none = Given::new();
        check("\nsmtp_port = 70000", &[], &none, "mailprobe.toml:2: smtp_port: ");
        check("", &[("MAILPROBE_PACE", "quick")], &none, "MAILPROBE_PACE: ");
        // An error is one line, even with control characters in the value.
        check("ehlo = \"a\\nb\"", &[], &none, "mailprobe.toml:1: ehlo: `a\u{fffd}b` is not a host name");
        check("", &[("MAILPROBE_EHLO", "a\nb")], &none, "MAILPROBE_EHLO: `a\u{fffd}b` is not");
        check("", &[], &vec![("ehlo", vec!["a\u{1b}b".into()])], "--ehlo: `a\u{fffd}b` is not");
        check(
            "",
            &[],
            &vec![("resolver", vec!["dns.google".into()])],
            "--resolver: `dns.google` is not an IP or IP:PORT, such as 192.0.2.53 or 127.0.0.1:53",
        );
        check("", &[], &vec![("runtime", vec!["tokio".into()])], "--runtime: ");
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

    #[test]
    fn what_is_printed_reads_back_the_same() {
        let file = "ehlo = \"a.example\"\nallow_net = [\"10.0.0.0/8\", \"::1\"]\nspamtraps = \"/etc/traps\"\n\
                    state = \"none\"\n[[canary]]\naddress = \"Me@Example.com\"\n\
                    [[plan]]\nid = \"one\"\nname = \"The \\\"one\\\"\"\nmonthly_credits = 7\nbatches = false\n\
                    [plan.limits]\nfast = 3\n";
        let config = load(file, &[], &vec![("log_format", vec!["json".into()])]).unwrap();
        let printed = config.to_toml();
        let again = load(&printed, &[], &Given::new()).unwrap();
        assert_eq!(again.to_toml(), printed);
        // Each installation has its own secret, and the printed file names the default data folder.
        assert!(again.data_is_named);
        let again = Config {
            engine: EngineConfig { installation: config.engine.installation, ..again.engine },
            data_is_named: config.data_is_named,
            ..again
        };
        assert_eq!(format!("{again:?}"), format!("{config:?}"));
        assert_eq!(
            load(&Config::default().to_toml(), &[], &Given::new()).unwrap().to_toml(),
            Config::default().to_toml()
        );
    }
}
