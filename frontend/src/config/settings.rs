//! The table of all settings, with their help texts.

use super::store::{self, StoreUrl};
use super::values::{
    account_name, address, base_url, choice, each, host_name, list, name, number, one, path, resolver,
    seconds, socket, state_file, text,
};
use super::{Config, LogFormat, StateFile, sources};
use api::request::LIST_BYTES_MAX;
use engine::config::{DriverChoice, Network, Pace, RuntimeChoice};
use engine::proto::lists::ListKind;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;
use toml::Value;
use tracing::Level;

/// The commands that accept a setting as a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Commands that open a store or connect to one.
    Data,
    /// The command `serve`.
    Server,
    /// Commands that run the engine.
    Engine,
    /// `check` and `clean`: `serve` keeps the same in its store.
    State,
    /// Commands that use the learned events, and `learn`.
    Learned,
}

/// The groups of settings, in the help, in the commented file and in the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// What every command with a store needs.
    General,
    /// PostgreSQL in place of the data folder.
    Store,
    /// The HTTP server.
    Api,
    /// The dashboard.
    Dashboard,
    /// Log and metrics.
    Observation,
    /// Checks of the API and of batches.
    Checks,
    /// Lists of the operator.
    Lists,
    /// Name resolution.
    Dns,
    /// Connections to mail servers.
    Smtp,
    /// Threads and bounds of the engine.
    Engine,
}

impl Group {
    /// All groups, in the order of the reference.
    pub const ALL: [Group; 10] = [
        Group::General,
        Group::Store,
        Group::Api,
        Group::Dashboard,
        Group::Observation,
        Group::Checks,
        Group::Lists,
        Group::Dns,
        Group::Smtp,
        Group::Engine,
    ];

    /// The heading of the group.
    pub fn heading(self) -> &'static str {
        match self {
            Group::General => "General settings",
            Group::Store => "Store of a cluster",
            Group::Api => "HTTP server",
            Group::Dashboard => "Dashboard",
            Group::Observation => "Log and metrics",
            Group::Checks => "Checks and batches",
            Group::Lists => "Lists of the operator",
            Group::Dns => "DNS",
            Group::Smtp => "Connections to mail servers",
            Group::Engine => "Threads and bounds of the engine",
        }
    }
}

/// One setting of the configuration.
pub struct Setting {
    /// The key in the file. With dashes it is the flag; in capitals and after `MAILPROBE_` it is the variable.
    pub key: &'static str,
    /// The name of the value in the help.
    pub value_name: &'static str,
    /// What it is: one line, without a full stop.
    pub help: &'static str,
    /// What else its user should know: sentences, or nothing.
    pub details: &'static str,
    /// A value in TOML that shows the form of a setting without a default.
    pub example: &'static str,
    /// The group of settings to which it belongs.
    pub group: Group,
    /// The commands that accept it as a flag.
    pub scope: Scope,
    /// Whether it can be given several times.
    pub many: bool,
    /// Whether it is a path: in the file it is relative to the folder of the file.
    pub is_path: bool,
    /// Parses the values and sets them; without `many` there is exactly one value.
    pub set: Box<SetValue>,
    /// The value in TOML, or `None` if there is none.
    pub show: Box<ShowValue>,
}

type SetValue = dyn Fn(&mut Config, &[String]) -> Result<(), String> + Send + Sync;
type ShowValue = dyn Fn(&Config) -> Option<Value> + Send + Sync;

/// A field of the configuration.
struct Field<T> {
    get: fn(&Config) -> &T,
    get_mut: fn(&mut Config) -> &mut T,
}

macro_rules! at {
    ($($field:ident).+) => {
        Field { get: |config| &config.$($field).+, get_mut: |config| &mut config.$($field).+ }
    };
}

/// A setting, so far without a value.
fn setting(group: Group, scope: Scope, key: &'static str) -> Setting {
    Setting {
        key,
        value_name: "",
        help: "",
        details: "",
        example: "\"\"",
        group,
        scope,
        many: false,
        is_path: false,
        set: Box::new(|_, _| Ok(())),
        show: Box::new(|_| None),
    }
}

/// The texts of a setting, and the kinds of its value.
impl Setting {
    fn help(self, help: &'static str) -> Setting {
        Setting { help, ..self }
    }

    fn details(self, details: &'static str) -> Setting {
        Setting { details, ..self }
    }

    fn example(self, example: &'static str) -> Setting {
        Setting { example, ..self }
    }

    fn many(self) -> Setting {
        Setting { many: true, ..self }
    }

    fn path(self) -> Setting {
        Setting { is_path: true, ..self }
    }

    fn special(
        self,
        value_name: &'static str,
        set: impl Fn(&mut Config, &[String]) -> Result<(), String> + Send + Sync + 'static,
        show: impl Fn(&Config) -> Option<Value> + Send + Sync + 'static,
    ) -> Setting {
        Setting { value_name, set: Box::new(set), show: Box::new(show), ..self }
    }

    /// One value in a field.
    fn one<T: 'static>(
        self,
        value_name: &'static str,
        field: Field<T>,
        read: impl Fn(&str) -> Result<T, String> + Send + Sync + 'static,
        show: impl Fn(&T) -> Option<Value> + Send + Sync + 'static,
    ) -> Setting {
        let set = move |config: &mut Config, given: &[String]| {
            *(field.get_mut)(config) = read(one(given))?;
            Ok(())
        };
        self.special(value_name, set, move |config| show((field.get)(config)))
    }

    fn text<T: Display + 'static>(
        self,
        value_name: &'static str,
        field: Field<T>,
        read: fn(&str) -> Result<T, String>,
    ) -> Setting {
        self.one(value_name, field, read, |value| text(value))
    }

    /// A value that may be absent.
    fn maybe<T: Display + 'static>(
        self,
        value_name: &'static str,
        field: Field<Option<T>>,
        read: fn(&str) -> Result<T, String>,
    ) -> Setting {
        self.one(value_name, field, move |given| read(given).map(Some), |value| value.as_ref().and_then(text))
    }

    fn each<T: Display + 'static>(
        self,
        value_name: &'static str,
        field: Field<Vec<T>>,
        read: fn(&str) -> Result<T, String>,
    ) -> Setting {
        let set = move |config: &mut Config, given: &[String]| {
            *(field.get_mut)(config) = each(given, read)?;
            Ok(())
        };
        self.special(value_name, set, move |config| list((field.get)(config))).many()
    }

    fn choice<T: Copy + PartialEq + Send + Sync + 'static>(
        self,
        value_name: &'static str,
        field: Field<T>,
        names: &'static [(&'static str, T)],
    ) -> Setting {
        self.one(value_name, field, |given| choice(given, names), |value| name(*value, names))
    }

    fn boolean(self, field: Field<bool>) -> Setting {
        let names = &[("true", true), ("false", false)];
        self.one("BOOL", field, |given| choice(given, names), |value| Some(Value::Boolean(*value)))
    }

    fn number<T>(self, field: Field<T>, range: RangeInclusive<T>) -> Setting
    where
        T: Copy + TryFrom<u64> + TryInto<i64> + PartialOrd + Display + Send + Sync + 'static,
    {
        let read = move |given: &str| number(given, *range.start(), *range.end());
        self.one("N", field, read, |value| integer(*value))
    }

    fn time(self, field: Field<Duration>) -> Setting {
        self.one("TIME", field, seconds, |value| integer(value.as_secs()))
    }

    fn file(self, field: Field<Option<PathBuf>>) -> Setting {
        let show = |value: &Option<PathBuf>| value.as_ref().and_then(|path| text(path.display()));
        self.one("FILE", field, |given| path(given).map(Some), show).path()
    }

    fn state_file(self, field: Field<Option<StateFile>>) -> Setting {
        self.maybe("FILE", field, state_file).path()
    }

    fn list_file(self, kind: ListKind) -> Setting {
        let set = move |config: &mut Config, given: &[String]| {
            config.set_list_file(kind, path(one(given))?);
            Ok(())
        };
        let show = move |config: &Config| config.list_file(kind).and_then(|path| text(path.display()));
        self.special("FILE", set, show).path()
    }

    /// The flag, such as `--smtp-port`.
    pub fn flag(&self) -> String {
        format!("--{}", self.key.replace('_', "-"))
    }

    /// What it is, and what else its user should know: sentences.
    pub fn long_help(&self) -> String {
        format!("{}. {}", self.help, self.details).trim_end().to_owned()
    }

    /// The environment variable, such as `MAILPROBE_SMTP_PORT`.
    pub fn variable(&self) -> String {
        format!("MAILPROBE_{}", self.key.to_ascii_uppercase())
    }
}

fn integer(value: impl TryInto<i64>) -> Option<Value> {
    value.try_into().ok().map(Value::Integer)
}

fn set_store_url(config: &mut Config, url: Result<StoreUrl, String>) -> Result<(), String> {
    config.store.url = Some(url?);
    Ok(())
}

/// The setting with this key.
pub fn find(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key == key)
}

/// Every setting, in the order of the help.
pub static SETTINGS: LazyLock<Vec<Setting>> = LazyLock::new(|| {
    vec![
        setting(Group::Api, Scope::Server, "listen")
            .help("Address of the API: IP:PORT")
            .details("With port 0 the server takes a free port and prints it.")
            .text("ADDR", at!(listen), socket),
        setting(Group::Api, Scope::Server, "public_url")
            .help("Public URL of the server, such as https://api.example.com")
            .details(
                "The URL appears in the description of the API and in the dashboard. Assistants require it, \
                 unless the server listens on loopback. Without this setting the server uses the URL of each request.",
            )
            .example("\"https://api.example.com\"")
            .maybe("URL", at!(public_url), base_url),
        setting(Group::General, Scope::Data, "data")
            .help("Data folder")
            .details("Default for users other than root: the folder mailprobe in XDG_DATA_HOME or ~/.local/share.")
            .special(
                "DIR",
                |config, given| {
                    config.data_is_named = true;
                    config.data = path(one(given))?;
                    Ok(())
                },
                |config| text(config.data.display()),
            )
            .path(),
        setting(Group::Store, Scope::Data, "store_url")
            .help("PostgreSQL for all nodes: postgres://USER:PASSWORD@HOST:PORT,.../DATABASE")
            .details(
                "mailprobe asks all hosts at the same time, and uses the one that accepts writes. The server is verified by TLS, unless the URL ends with ?sslmode=disable. \
                 Every user of the machine can see a password in a flag: use the variable or `store_url_file`. Without a URL, \
                 the store is in the data folder.",
            )
            .example("\"postgres://mailprobe@db1.example.com,db2.example.com/mailprobe\"")
            .special("URL", |config, given| set_store_url(config, store::url(one(given))), |_| None),
        setting(Group::Store, Scope::Data, "store_url_file")
            .help("File with the URL of PostgreSQL, in place of store_url")
            .example("\"/etc/mailprobe/store-url\"")
            .special(
                "FILE",
                |config, given| set_store_url(config, path(one(given)).map(StoreUrl::File)),
                |config| match &config.store.url {
                    Some(StoreUrl::File(path)) => text(path.display()),
                    _ => None,
                },
            )
            .path(),
        setting(Group::Store, Scope::Data, "store_schema")
            .help("Schema of the tables in PostgreSQL")
            .details("All nodes of a cluster have the same schema.")
            .text("NAME", at!(store.schema), store::schema),
        setting(Group::Store, Scope::Data, "store_require_sync")
            .help("Refuse a PostgreSQL without a synchronous standby: true or false")
            .details("With false, a failover can lose the last writes, also those that were answered.")
            .boolean(at!(store.require_sync)),
        setting(Group::Store, Scope::Server, "store_egress")
            .help("Name of the public address that mail servers see; default: the number of the node")
            .details(
                "Give nodes that reach mail servers from one address, such as behind NAT, the same name: \
                 live nodes with the same name divide the limits of sessions and of refused recipients. `mailprobe cluster status` shows it.",
            )
            .example("\"192.0.2.1\"")
            .maybe("NAME", at!(store.egress), store::egress),
        setting(Group::Api, Scope::Server, "frontends")
            .help("Number of threads that serve the API; 0: one per two cores")
            .number(at!(frontends), 0..=1024),
        setting(Group::Api, Scope::Server, "connections")
            .help("Maximum number of connections to the API")
            .details("At this number a new connection replaces the one that has been idle longest.")
            .number(at!(connections), 1..=1_000_000),
        setting(Group::Api, Scope::Server, "connections_per_peer")
            .help("Maximum number of connections from one client address; 0: no limit")
            .details(
                "For IPv6, one /64 network counts as one address. Behind a proxy set 0, because all connections \
                 have the address of the proxy.",
            )
            .number(at!(connections_per_peer), 0..=1_000_000),
        setting(Group::Api, Scope::Server, "tls_cert")
            .help("Certificate for HTTPS with its chain, in PEM")
            .details("Without a certificate the server speaks plain HTTP. On SIGHUP the server reads the file again.")
            .example("\"/etc/mailprobe/cert.pem\"")
            .file(at!(tls_cert)),
        setting(Group::Api, Scope::Server, "tls_key")
            .help("Private key of the certificate, in PEM")
            .details("On SIGHUP the server reads the file again.")
            .example("\"/etc/mailprobe/key.pem\"")
            .file(at!(tls_key)),
        setting(Group::Api, Scope::Server, "webhook_allow_net")
            .help("Non-public network that webhooks may contact (repeatable)")
            .details("For tests and receivers in your own network. With it webhooks may also use plain http, to these networks only.")
            .each("CIDR", at!(webhook_allow_net), Network::parse),
        setting(Group::Observation, Scope::Server, "metrics")
            .help("Address of the metrics for Prometheus, at /metrics: IP:PORT")
            .details(
                "The metrics need no key, so keep this address on loopback. Without this \
                 setting only `mailprobe metrics` shows the metrics.",
            )
            .example("\"127.0.0.1:9090\"")
            .maybe("ADDR", at!(metrics), socket),
        setting(Group::Observation, Scope::Server, "log_format")
            .help("Format of log lines: text or json")
            .choice("FORMAT", at!(log), LOG),
        setting(Group::Observation, Scope::Server, "log_level")
            .help("Least important lines of the log: error, warn, info or debug")
            .details("The line of a request has the level info.")
            .choice("LEVEL", at!(log_level), LEVEL),
        setting(Group::Dashboard, Scope::Server, "dashboard_enabled")
            .help("Serve the dashboard beside the API: true or false")
            .boolean(at!(dashboard.enabled)),
        setting(Group::Dashboard, Scope::Server, "dashboard_sign_up")
            .help("Let visitors create an account on the free plan: true or false")
            .boolean(at!(dashboard.sign_up)),
        setting(Group::Dashboard, Scope::Server, "dashboard_upload_mib")
            .help("Largest list that users may upload, in MiB")
            .number(at!(dashboard.upload_mib), 1..=LIST_BYTES_MAX >> 20),
        setting(Group::Observation, Scope::Server, "self_checks")
            .help("Look for faults of the machine while the server runs: true or false")
            .details(
                "The server checks its resolvers, the names of its sources, the limits of the system, the data folder, the \
                 PostgreSQL of a cluster and the certificate, as `mailprobe doctor` does. The log, `/readyz` and the dashboard \
                 show the faults.",
            )
            .boolean(at!(self_checks)),
        setting(Group::Checks, Scope::Server, "reuse_verdicts")
            .help("Reuse a verdict of one account for other accounts: true or false")
            .details("Each of these accounts pays one credit for the verdict. An `unverifiable` one is never reused.")
            .boolean(at!(reuse_verdicts)),
        setting(Group::Checks, Scope::Server, "batch_rows_max")
            .help("Maximum number of batch rows that are checked at the same time")
            .details(
                "Never more than half of `queue`: the other half is for single checks. Default: four times `sessions`, because a session \
                 asks about several addresses at a time.",
            )
            .example("4000")
            .one(
                "N",
                at!(batch_rows_max),
                |given| number(given, 1, 1_000_000).map(Some),
                |value| value.and_then(integer),
            ),
        setting(Group::Checks, Scope::Server, "batch_wait")
            .help("Maximum wait of batch rows for a server that answers \"later\" or not at all, such as 20m")
            .details(
                "A number without a unit is in seconds. The time counts from the creation of the batch. It also applies to rows that wait for the \
                 budget of refused recipients, or for a mail server that gives no answer. After this time such a row is unverifiable. If the \
                 interval of the answer is longer than what is left (300 s for greylisting), it is unverifiable at once. A try that has begun \
                 goes on for up to two minutes if the mail server gives no answer.",
            )
            .time(at!(batch.wait)),
        setting(Group::Checks, Scope::Server, "batch_outage_wait")
            .help("Maximum wait of batch rows for the end of an outage, such as 1h")
            .details(
                "A number without a unit is in seconds. The time counts from the creation of the batch. After this time the remaining rows are \
                 refunded.",
            )
            .time(at!(batch.outage_wait)),
        setting(Group::Checks, Scope::Learned, "learned")
            .help("Table of bounces and deliveries that `mailprobe learn` writes")
            .details(
                "`none`: no file. Default: the file `learned` in the folder of the state file of check and clean, and none with \
                 `--state none`. `serve` has no default.",
            )
            .state_file(at!(learned)),
        setting(Group::Checks, Scope::Server, "learned_accounts")
            .help("Account with checks that use the learned bounces and deliveries (repeatable)")
            .details(
                "The evidence is of the operator's own mail, so it is for the accounts of the operator. It changes no answer of other \
                 accounts. Default: none.",
            )
            .each("ACCOUNT", at!(learned_accounts), account_name),
        setting(Group::Lists, Scope::Engine, "spamtraps")
            .help("File of known spam traps: one address or domain per line")
            .details(
                "A domain does not cover its subdomains. A full check of a spam trap asks no mail server, and its reason \
                 is `spamtrap`. Fast checks do not use this file.",
            )
            .example("\"/etc/mailprobe/spamtraps\"")
            .list_file(ListKind::SpamTraps),
        setting(Group::Lists, Scope::Engine, "lists_allowed")
            .help("File of domains that are neither disposable nor a typing mistake")
            .details("An entry covers its subdomains.")
            .example("\"/etc/mailprobe/allowed\"")
            .list_file(ListKind::Allowed),
        setting(Group::Lists, Scope::Engine, "lists_disposable")
            .help("File of further disposable domains")
            .details("An entry covers its subdomains.")
            .example("\"/etc/mailprobe/disposable\"")
            .list_file(ListKind::Disposable),
        setting(Group::Lists, Scope::Engine, "lists_role")
            .help("File of further role names, such as kasse: the part before the @")
            .example("\"/etc/mailprobe/role\"")
            .list_file(ListKind::Role),
        setting(Group::Lists, Scope::Engine, "lists_free")
            .help("File of further domains of free providers")
            .example("\"/etc/mailprobe/free\"")
            .list_file(ListKind::Free),
        setting(Group::Lists, Scope::Engine, "lists_typo_targets")
            .help("File of further domains that a suggestion can name")
            .example("\"/etc/mailprobe/typo-targets\"")
            .list_file(ListKind::TypoTargets),
        setting(Group::Dns, Scope::Engine, "resolver")
            .help("Recursive DNS resolver: IP or IP:PORT (repeatable)")
            .details("Default: the resolvers of the system, from /etc/resolv.conf.")
            .each("IP:PORT", at!(engine.resolvers), resolver),
        setting(Group::Smtp, Scope::Engine, "smtp_port")
            .help("Port of the recipients' mail servers")
            .number(at!(engine.smtp_port), 1..=u16::MAX),
        setting(Group::Smtp, Scope::Engine, "allow_net")
            .help("Non-public network that mailprobe may contact (repeatable)")
            .details("Without it mailprobe contacts no private, loopback or reserved address, whatever DNS answers.")
            .each("CIDR", at!(engine.allow_net), Network::parse),
        setting(Group::Smtp, Scope::Engine, "ehlo")
            .help("Name in EHLO, or an address literal such as [192.0.2.1]")
            .details("Default: the fully qualified name of this machine, else an address literal with its address.")
            .example("\"mail.example.com\"")
            .maybe("NAME", at!(engine.ehlo), host_name),
        setting(Group::Smtp, Scope::Engine, "mail_from")
            .help("Reverse-path of MAIL")
            .details("Default: postmaster at the EHLO name.")
            .example("\"postmaster@example.com\"")
            .maybe("ADDRESS", at!(engine.mail_from), address),
        setting(Group::Smtp, Scope::Engine, "source")
            .help("Address of this machine for connections to mail servers (repeatable)")
            .details("Its EHLO name may follow after `=`. Default: the system chooses the address.")
            .example("[\"192.0.2.1=mail.example.com\"]")
            .special("ADDRESS[=EHLO]", sources::set_addresses, |_| None)
            .many(),
        setting(Group::Smtp, Scope::Engine, "proxy")
            .help("SOCKS5 proxy for connections to mail servers: socks5://HOST:PORT (repeatable)")
            .details("Its EHLO name may follow after `=`.")
            .example("[\"socks5://192.0.2.9:1080\"]")
            .special("URL[=EHLO]", sources::set_proxies, |_| None)
            .many(),
        setting(Group::Smtp, Scope::State, "state")
            .help("File that keeps the counts of refused recipients between runs of check and clean")
            .details("`none`: no file. Default: mailprobe/state in XDG_STATE_HOME or ~/.local/state.")
            .example("\"none\"")
            .state_file(at!(state)),
        setting(Group::Engine, Scope::Engine, "shards")
            .help("Number of threads that contact mail servers; 0: one per core")
            .number(at!(engine.shards), 0..=1024),
        setting(Group::Engine, Scope::Engine, "runtime")
            .help("Async runtime of the threads that contact mail servers: auto, monoio or glommio")
            .details("glommio requires io_uring.")
            .choice("RUNTIME", at!(engine.runtime), RUNTIME),
        setting(Group::Engine, Scope::Engine, "driver")
            .help("Kernel interface for input and output: auto, io_uring or epoll")
            .details("auto is io_uring if the kernel allows it, else epoll.")
            .choice("DRIVER", at!(engine.driver), DRIVER),
        setting(Group::Smtp, Scope::Engine, "pace")
            .help("Pace at each site: polite, fast or lab")
            .details("`lab` has no limits: use it for your own servers only.")
            .choice("PACE", at!(engine.pace), PACE),
        setting(Group::Engine, Scope::Engine, "sessions")
            .help("Maximum number of SMTP sessions at the same time")
            .number(at!(engine.sessions), 1..=1_000_000),
        setting(Group::Engine, Scope::Engine, "queue")
            .help("Maximum number of addresses in progress or waiting")
            .details(
                "Above this number `serve` answers 503. The default of `clean` is 100000; with `--pace lab` it is ten times \
                 `sessions`, from 10000 to 100000.",
            )
            .number(at!(engine.tickets_max), 1..=1_000_000),
    ]
});

const LOG: &[(&str, LogFormat)] = &[("text", LogFormat::Text), ("json", LogFormat::Json)];
const LEVEL: &[(&str, Level)] =
    &[("error", Level::ERROR), ("warn", Level::WARN), ("info", Level::INFO), ("debug", Level::DEBUG)];
const RUNTIME: &[(&str, RuntimeChoice)] =
    &[("auto", RuntimeChoice::Auto), ("monoio", RuntimeChoice::Monoio), ("glommio", RuntimeChoice::Glommio)];
const DRIVER: &[(&str, DriverChoice)] =
    &[("auto", DriverChoice::Auto), ("io_uring", DriverChoice::IoUring), ("epoll", DriverChoice::Epoll)];
const PACE: &[(&str, Pace)] = &[("polite", Pace::Polite), ("fast", Pace::Fast), ("lab", Pace::Lab)];

#[cfg(test)]
mod tests;
