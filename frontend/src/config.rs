//! The configuration: every setting from flag, environment, file or default, in this order of precedence.
//!
//! [`settings`] is the one table of all settings; flags, keys of the file and variables of the environment are
//! made from it, so none can lack one of the three. [`file`](mod@file) reads the file, [`plans`] its plans,
//! [`sources`] its sources, [`gateways`] its gateways, [`canaries`] its canaries.

pub mod canaries;
pub mod file;
pub mod gateways;
pub mod plans;
pub mod settings;
pub mod sources;

use checks::batch::Limits;
use checks::gateway::Gateway;
use engine::config::EngineConfig;
use engine::proto::address::Address;
use engine::proto::lists::SpamTraps;
use settings::SETTINGS;
use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use store::{Plan, PlanTable};

/// Largest list of spam traps: some millions of addresses, all held in memory.
const SPAMTRAPS_BYTES_MAX: u64 = 128 << 20;

/// Everything an operator can set, resolved.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where the API is served.
    pub listen: SocketAddr,
    /// The data folder.
    pub data: PathBuf,
    /// Where callers reach the API, as its description tells them.
    pub public_url: Option<String>,
    /// Frontend threads; 0: one for every two cores.
    pub frontends: usize,
    /// Most connections at once, over all frontend threads.
    pub connections: usize,
    /// Most of them from one peer; 0: no limit.
    pub connections_per_peer: usize,
    /// The certificate for HTTPS; without one the API is served in the clear.
    pub tls_cert: Option<PathBuf>,
    /// Its key.
    pub tls_key: Option<PathBuf>,
    /// Where metrics are served, if anywhere.
    pub metrics: Option<SocketAddr>,
    /// The dashboard.
    pub dashboard: Dashboard,
    /// The form of log lines.
    pub log: LogFormat,
    /// Whether a verdict may answer other accounts than the one that paid for it first.
    pub reuse_verdicts: bool,
    /// How batches are fed to the engine.
    pub batch: Limits,
    /// The list of spam traps, read when the engine starts.
    pub spamtraps: Option<PathBuf>,
    /// Where `check` and `clean` keep what outlasts a run; below the user's state folder where nothing is said.
    pub state: Option<StateFile>,
    /// The operator's own mailboxes that are known to be accepted.
    pub canaries: Vec<Address>,
    /// From where mail servers are asked.
    pub sources: Vec<sources::Source>,
    /// The engine's part, without spam traps, canaries and sources.
    pub engine: EngineConfig,
    /// The plans.
    pub plans: Vec<Plan>,
    /// The API gateways.
    pub gateways: Vec<Gateway>,
}

/// What the dashboard offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dashboard {
    /// It is served at all.
    pub enabled: bool,
    /// Anybody may make an account.
    pub sign_up: bool,
    /// Longest list that may be uploaded, in MiB.
    pub upload_mib: u64,
}

impl Default for Dashboard {
    fn default() -> Dashboard {
        Dashboard { enabled: true, sign_up: true, upload_mib: 100 }
    }
}

/// `--state`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateFile {
    /// Nothing is kept.
    None,
    /// This file.
    At(PathBuf),
}

impl StateFile {
    /// How it is said that nothing is kept.
    pub const NONE: &str = "none";
}

/// As the setting has it.
impl std::fmt::Display for StateFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StateFile::None => f.write_str(StateFile::NONE),
            StateFile::At(path) => path.display().fmt(f),
        }
    }
}

/// `--log-format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// One line that says what is wrong with the configuration and where.
#[derive(Debug, PartialEq, Eq)]
pub struct ConfigError(pub String);

/// The flags that were given: the setting's key, and its values.
pub type Given = Vec<(&'static str, Vec<String>)>;

impl Default for Config {
    fn default() -> Config {
        Config {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            data: default_data_folder(),
            public_url: None,
            frontends: 0,
            connections: 10_000,
            connections_per_peer: 5_000,
            tls_cert: None,
            tls_key: None,
            metrics: None,
            dashboard: Dashboard::default(),
            log: LogFormat::Text,
            reuse_verdicts: true,
            batch: Limits::default(),
            spamtraps: None,
            state: None,
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
    /// The first thing that is wrong.
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

    /// The configuration as a TOML file that would bring it about. What has no value stands as a comment.
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

    /// The plans as the store takes them.
    ///
    /// # Errors
    /// The first plan that cannot be.
    pub fn plan_table(&self) -> Result<PlanTable, ConfigError> {
        PlanTable::new(self.plans.iter().cloned()).map_err(ConfigError)
    }

    /// The engine's settings.
    ///
    /// # Errors
    /// The list of spam traps or the password of a proxy cannot be read.
    pub fn engine_config(&self) -> Result<EngineConfig, ConfigError> {
        let mut engine = self.engine.clone();
        if let Some(path) = &self.spamtraps {
            engine.spamtraps = read_spamtraps(path)?;
        }
        engine.canaries = self.canaries.clone();
        engine.sources = self.sources.iter().map(sources::Source::complete).collect::<Result<_, _>>()?;
        Ok(engine)
    }

    /// Where the description of the API says that the API is.
    pub fn base_url(&self) -> &str {
        self.public_url.as_deref().unwrap_or(api::openapi::HERE)
    }

    /// Where people reach the server, as far as the configuration tells.
    pub fn reachable_at(&self) -> String {
        let scheme = if self.tls_cert.is_some() { "https" } else { "http" };
        self.public_url.clone().unwrap_or_else(|| format!("{scheme}://{}", self.listen))
    }

    /// How many frontend threads to run.
    pub fn frontend_threads(&self) -> usize {
        match self.frontends {
            0 => std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1)),
            set => set,
        }
    }
}

/// A message without the control characters of the value that it repeats: it is one line, and does nothing to a terminal.
fn one_line(why: &str) -> String {
    why.replace(char::is_control, "\u{fffd}")
}

fn read_spamtraps(path: &Path) -> Result<SpamTraps, ConfigError> {
    let cannot = |why: String| ConfigError(format!("cannot read the spam traps {}: {why}", path.display()));
    let size = std::fs::metadata(path).map_err(|error| cannot(error.to_string()))?.len();
    if size > SPAMTRAPS_BYTES_MAX {
        return Err(cannot(format!("the file is larger than {SPAMTRAPS_BYTES_MAX} bytes")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| cannot(error.to_string()))?;
    // The line itself is an address: it stays out of the message.
    SpamTraps::parse(&text).map_err(|error| {
        ConfigError(format!(
            "{}:{}: {}; write an address or a domain a line",
            path.display(),
            error.line,
            error.problem
        ))
    })
}

/// `/var/lib/mailprobe` for root and for whoever has no home, else where XDG puts a user's data.
fn default_data_folder() -> PathBuf {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    // SAFETY: geteuid has no preconditions and cannot fail.
    #[expect(unsafe_code, reason = "the standard library does not tell the user's id")]
    let root = unsafe { libc::geteuid() } == 0;
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
        // An error is one line, whatever the value is.
        check("ehlo = \"a\\nb\"", &[], &none, "mailprobe.toml:1: ehlo: `a\u{fffd}b` is no host name");
        check("", &[("MAILPROBE_EHLO", "a\nb")], &none, "MAILPROBE_EHLO: `a\u{fffd}b` is no");
        check("", &[], &vec![("ehlo", vec!["a\u{1b}b".into()])], "--ehlo: `a\u{fffd}b` is no");
        check("", &[], &vec![("runtime", vec!["tokio".into()])], "--runtime: ");
    }

    #[test]
    fn spam_traps_are_read_from_their_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("traps");
        let config = Config { spamtraps: Some(path.clone()), ..Config::default() };
        assert!(config.engine_config().unwrap_err().0.contains("cannot read the spam traps"));
        std::fs::write(&path, "# ours\ntrap@example.com\nexample.net\n").unwrap();
        assert_eq!(config.engine_config().unwrap().spamtraps.len(), 2);
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
        // Each installation has a secret of its own.
        let again = Config {
            engine: EngineConfig { installation: config.engine.installation, ..again.engine },
            ..again
        };
        assert_eq!(format!("{again:?}"), format!("{config:?}"));
        assert_eq!(
            load(&Config::default().to_toml(), &[], &Given::new()).unwrap().to_toml(),
            Config::default().to_toml()
        );
    }
}
