//! The table of all settings, with their help texts.

use super::store::{self, StoreUrl};
use super::values::{
    account_name, address, base_url, choice, each, host_name, integer, list, name, number, one, path, put,
    resolver, seconds, set_list, show_list, socket, state_file, text,
};
use super::{Config, LogFormat, sources};
use api::request::LIST_BYTES_MAX;
use engine::config::{DriverChoice, Network, Pace, RuntimeChoice};
use engine::proto::lists::ListKind;
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
    /// The group of settings to which it belongs.
    pub group: Group,
    /// The commands that accept it as a flag.
    pub scope: Scope,
    /// Whether it can be given several times.
    pub many: bool,
    /// Parses the values and sets them; without `many` there is exactly one value.
    pub set: fn(&mut Config, &[String]) -> Result<(), String>,
    /// The value in TOML, or `None` if there is none.
    pub show: fn(&Config) -> Option<Value>,
}

impl Setting {
    /// The flag, such as `--smtp-port`.
    pub fn flag(&self) -> String {
        format!("--{}", self.key.replace('_', "-"))
    }

    /// What it is, and what else its user should know: sentences.
    pub fn text(&self) -> String {
        format!("{}. {}", self.help, self.details).trim_end().to_owned()
    }

    /// The environment variable, such as `MAILPROBE_SMTP_PORT`.
    pub fn variable(&self) -> String {
        format!("MAILPROBE_{}", self.key.to_ascii_uppercase())
    }
}

/// The setting with this key.
pub fn find(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key == key)
}

/// Every setting, in the order of the help.
pub const SETTINGS: &[Setting] = &[
    Setting {
        key: "listen",
        value_name: "ADDR",
        help: "Address of the API: IP:PORT",
        details: "With port 0 the server takes a free port and prints it.",
        group: Group::Api,
        scope: Scope::Server,
        many: false,
        set: |config, given| put(&mut config.listen, socket(one(given))),
        show: |config| text(config.listen),
    },
    Setting {
        key: "public_url",
        value_name: "URL",
        help: "Public URL of the server, such as https://api.example.com",
        details: "The URL appears in the description of the API and in the dashboard. Assistants require it, \
                  unless the server listens on loopback. Without this setting the server uses the URL of each request.",
        group: Group::Api,
        scope: Scope::Server,
        many: false,
        set: |config, given| put(&mut config.public_url, base_url(one(given)).map(Some)),
        show: |config| config.public_url.as_ref().and_then(text),
    },
    Setting {
        key: "data",
        value_name: "DIR",
        help: "Data folder",
        details: "Default for users other than root: the folder mailprobe in XDG_DATA_HOME or ~/.local/share.",
        group: Group::General,
        scope: Scope::Data,
        many: false,
        set: |config, given| {
            config.data_is_named = true;
            put(&mut config.data, path(one(given)))
        },
        show: |config| text(config.data.display()),
    },
    Setting {
        key: "store_url",
        value_name: "URL",
        help: "PostgreSQL for all nodes: postgres://USER:PASSWORD@HOST:PORT,.../DATABASE",
        details: "mailprobe asks all hosts at the same time, and uses the one that accepts writes. The server is verified by TLS, unless the URL ends with ?sslmode=disable. \
                  Every user of the machine can see a password in a flag: use the variable or `store_url_file`. Without a URL, \
                  the store is in the data folder.",
        group: Group::Store,
        scope: Scope::Data,
        many: false,
        set: |config, given| put(&mut config.store.url, store::url(one(given)).map(Some)),
        show: |_| None,
    },
    Setting {
        key: "store_url_file",
        value_name: "FILE",
        help: "File with the URL of PostgreSQL, in place of store_url",
        details: "",
        group: Group::Store,
        scope: Scope::Data,
        many: false,
        set: |config, given| {
            put(&mut config.store.url, path(one(given)).map(|path| Some(StoreUrl::File(path))))
        },
        show: |config| match &config.store.url {
            Some(StoreUrl::File(path)) => text(path.display()),
            _ => None,
        },
    },
    Setting {
        key: "store_schema",
        value_name: "NAME",
        help: "Schema of the tables in PostgreSQL",
        details: "All nodes of a cluster have the same schema.",
        group: Group::Store,
        scope: Scope::Data,
        many: false,
        set: |config, given| put(&mut config.store.schema, store::schema(one(given))),
        show: |config| text(&config.store.schema),
    },
    Setting {
        key: "store_require_sync",
        value_name: "BOOL",
        help: "Refuse a PostgreSQL without a synchronous standby: true or false",
        details: "With false, a failover can lose the last writes, also those that were answered.",
        group: Group::Store,
        scope: Scope::Data,
        many: false,
        set: |config, given| put(&mut config.store.require_sync, choice(one(given), BOOLEAN)),
        show: |config| Some(Value::Boolean(config.store.require_sync)),
    },
    Setting {
        key: "store_egress",
        value_name: "NAME",
        help: "Name of the public address that mail servers see; default: the number of the node",
        details: "Give nodes that reach mail servers from one address, such as behind NAT, the same name: \
                  live nodes with the same name divide the limits of sessions and of refused recipients. `mailprobe cluster status` shows it.",
        group: Group::Store,
        scope: Scope::Server,
        many: false,
        set: |config, given| put(&mut config.store.egress, store::egress(one(given)).map(Some)),
        show: |config| config.store.egress.as_ref().and_then(text),
    },
    Setting {
        key: "frontends",
        value_name: "N",
        help: "Number of threads that serve the API; 0: one per two cores",
        details: "",
        group: Group::Api,
        scope: Scope::Server,
        many: false,
        set: |config, given| put(&mut config.frontends, number(one(given), 0, 1024)),
        show: |config| integer(config.frontends),
    },
    Setting {
        key: "connections",
        value_name: "N",
        help: "Maximum number of connections to the API",
        details: "At this number a new connection replaces the one that has been idle longest.",
        group: Group::Api,
        scope: Scope::Server,
        many: false,
        set: |config, given| put(&mut config.connections, number(one(given), 1, 1_000_000)),
        show: |config| integer(config.connections),
    },
    Setting {
        key: "connections_per_peer",
        value_name: "N",
        help: "Maximum number of connections from one client address; 0: no limit",
        details: "For IPv6, one /64 network counts as one address. Behind a proxy set 0, because all connections \
                  have the address of the proxy.",
        group: Group::Api,
        scope: Scope::Server,
        many: false,
        set: |config, given| put(&mut config.connections_per_peer, number(one(given), 0, 1_000_000)),
        show: |config| integer(config.connections_per_peer),
    },
    Setting {
        key: "tls_cert",
        value_name: "FILE",
        help: "Certificate for HTTPS with its chain, in PEM",
        details: "Without a certificate the server speaks plain HTTP. On SIGHUP the server reads the file again.",
        group: Group::Api,
        scope: Scope::Server,
        many: false,
        set: |config, given| put(&mut config.tls_cert, path(one(given)).map(Some)),
        show: |config| config.tls_cert.as_ref().and_then(|path| text(path.display())),
    },
    Setting {
        key: "tls_key",
        value_name: "FILE",
        help: "Private key of the certificate, in PEM",
        details: "On SIGHUP the server reads the file again.",
        group: Group::Api,
        scope: Scope::Server,
        many: false,
        set: |config, given| put(&mut config.tls_key, path(one(given)).map(Some)),
        show: |config| config.tls_key.as_ref().and_then(|path| text(path.display())),
    },
    Setting {
        key: "webhook_allow_net",
        value_name: "CIDR",
        help: "Non-public network that webhooks may contact (repeatable)",
        details: "For tests and receivers in your own network. With it webhooks may also use plain http, to these networks only.",
        group: Group::Api,
        scope: Scope::Server,
        many: true,
        set: |config, given| put(&mut config.webhook_allow_net, each(given, Network::parse)),
        show: |config| list(&config.webhook_allow_net),
    },
    Setting {
        key: "metrics",
        value_name: "ADDR",
        help: "Address of the metrics for Prometheus, at /metrics: IP:PORT",
        details: "The metrics need no key, so keep this address on loopback. Without this \
                  setting only `mailprobe metrics` shows the metrics.",
        group: Group::Observation,
        scope: Scope::Server,
        many: false,
        set: |config, given| put(&mut config.metrics, socket(one(given)).map(Some)),
        show: |config| config.metrics.and_then(text),
    },
    Setting {
        key: "log_format",
        value_name: "FORMAT",
        help: "Format of log lines: text or json",
        details: "",
        group: Group::Observation,
        scope: Scope::Server,
        many: false,
        set: |config, given| put(&mut config.log, choice(one(given), LOG)),
        show: |config| name(config.log, LOG),
    },
    Setting {
        key: "log_level",
        value_name: "LEVEL",
        help: "Least important lines of the log: error, warn, info or debug",
        details: "The line of a request has the level info.",
        group: Group::Observation,
        scope: Scope::Server,
        many: false,
        set: |config, given| put(&mut config.log_level, choice(one(given), LEVEL)),
        show: |config| name(config.log_level, LEVEL),
    },
    Setting {
        key: "dashboard_enabled",
        value_name: "BOOL",
        help: "Serve the dashboard beside the API: true or false",
        details: "",
        group: Group::Dashboard,
        scope: Scope::Server,
        many: false,
        set: |config, given| put(&mut config.dashboard.enabled, choice(one(given), BOOLEAN)),
        show: |config| Some(Value::Boolean(config.dashboard.enabled)),
    },
    Setting {
        key: "dashboard_sign_up",
        value_name: "BOOL",
        help: "Let visitors create an account on the free plan: true or false",
        details: "",
        group: Group::Dashboard,
        scope: Scope::Server,
        many: false,
        set: |config, given| put(&mut config.dashboard.sign_up, choice(one(given), BOOLEAN)),
        show: |config| Some(Value::Boolean(config.dashboard.sign_up)),
    },
    Setting {
        key: "dashboard_upload_mib",
        value_name: "N",
        help: "Largest list that users may upload, in MiB",
        details: "",
        group: Group::Dashboard,
        scope: Scope::Server,
        many: false,
        set: |config, given| {
            put(&mut config.dashboard.upload_mib, number(one(given), 1, LIST_BYTES_MAX >> 20))
        },
        show: |config| integer(config.dashboard.upload_mib.try_into().ok()?),
    },
    Setting {
        key: "self_checks",
        value_name: "BOOL",
        help: "Look for faults of the machine while the server runs: true or false",
        details: "The server checks its resolvers, the names of its sources, the limits of the system, the data folder, the \
                  PostgreSQL of a cluster and the certificate, as `mailprobe doctor` does. The log, `/readyz` and the dashboard \
                  show the faults.",
        group: Group::Observation,
        scope: Scope::Server,
        many: false,
        set: |config, given| put(&mut config.self_checks, choice(one(given), BOOLEAN)),
        show: |config| Some(Value::Boolean(config.self_checks)),
    },
    Setting {
        key: "reuse_verdicts",
        value_name: "BOOL",
        help: "Reuse a verdict of one account for other accounts: true or false",
        details: "Each of these accounts pays one credit for the verdict.",
        group: Group::Checks,
        scope: Scope::Server,
        many: false,
        set: |config, given| put(&mut config.reuse_verdicts, choice(one(given), BOOLEAN)),
        show: |config| Some(Value::Boolean(config.reuse_verdicts)),
    },
    Setting {
        key: "batch_rows_max",
        value_name: "N",
        help: "Maximum number of batch rows that are checked at the same time",
        details: "Never more than half of `queue`: the other half is for single checks.",
        group: Group::Checks,
        scope: Scope::Server,
        many: false,
        set: |config, given| put(&mut config.batch.under_way_max, number(one(given), 1, 1_000_000)),
        show: |config| integer(config.batch.under_way_max),
    },
    Setting {
        key: "batch_wait",
        value_name: "TIME",
        help: "Maximum wait of batch rows for a server that answers \"later\", such as 20m",
        details: "A number without a unit is in seconds. The time counts from the creation of the batch. It also applies to rows that wait for the \
                  budget of refused recipients. After this time such a row is unverifiable.",
        group: Group::Checks,
        scope: Scope::Server,
        many: false,
        set: |config, given| put(&mut config.batch.wait, seconds(one(given))),
        show: |config| integer(config.batch.wait.as_secs().try_into().ok()?),
    },
    Setting {
        key: "batch_outage_wait",
        value_name: "TIME",
        help: "Maximum wait of batch rows for the end of an outage, such as 1h",
        details: "A number without a unit is in seconds. The time counts from the creation of the batch. After this time the remaining rows are \
                  refunded.",
        group: Group::Checks,
        scope: Scope::Server,
        many: false,
        set: |config, given| put(&mut config.batch.outage_wait, seconds(one(given))),
        show: |config| integer(config.batch.outage_wait.as_secs().try_into().ok()?),
    },
    Setting {
        key: "learned",
        value_name: "FILE",
        help: "Table of bounces and deliveries that `mailprobe learn` writes",
        details: "`none`: no file. Default: the file `learned` in the folder of the state file of check and clean, and none with \
                  `--state none`. `serve` has no default.",
        group: Group::Checks,
        scope: Scope::Learned,
        many: false,
        set: |config, given| put(&mut config.learned, state_file(one(given)).map(Some)),
        show: |config| config.learned.as_ref().and_then(text),
    },
    Setting {
        key: "learned_accounts",
        value_name: "ACCOUNT",
        help: "Account with checks that use the learned bounces and deliveries (repeatable)",
        details: "The evidence is of the operator's own mail, so it is for the accounts of the operator. It changes no answer of other \
                  accounts. Default: none.",
        group: Group::Checks,
        scope: Scope::Server,
        many: true,
        set: |config, given| put(&mut config.learned_accounts, each(given, account_name)),
        show: |config| list(&config.learned_accounts),
    },
    Setting {
        key: "spamtraps",
        value_name: "FILE",
        help: "File of known spam traps: one address or domain per line",
        details: "A domain does not cover its subdomains. A full check of a spam trap asks no mail server, and its reason \
                  is `spamtrap`. Fast checks do not use this file.",
        group: Group::Lists,
        scope: Scope::Engine,
        many: false,
        set: |config, given| set_list(config, ListKind::SpamTraps, one(given)),
        show: |config| show_list(config, ListKind::SpamTraps),
    },
    Setting {
        key: "lists_allowed",
        value_name: "FILE",
        help: "File of domains that are neither disposable nor a typing mistake",
        details: "An entry covers its subdomains.",
        group: Group::Lists,
        scope: Scope::Engine,
        many: false,
        set: |config, given| set_list(config, ListKind::Allowed, one(given)),
        show: |config| show_list(config, ListKind::Allowed),
    },
    Setting {
        key: "lists_disposable",
        value_name: "FILE",
        help: "File of further disposable domains",
        details: "An entry covers its subdomains.",
        group: Group::Lists,
        scope: Scope::Engine,
        many: false,
        set: |config, given| set_list(config, ListKind::Disposable, one(given)),
        show: |config| show_list(config, ListKind::Disposable),
    },
    Setting {
        key: "lists_role",
        value_name: "FILE",
        help: "File of further role names, such as kasse: the part before the @",
        details: "",
        group: Group::Lists,
        scope: Scope::Engine,
        many: false,
        set: |config, given| set_list(config, ListKind::Role, one(given)),
        show: |config| show_list(config, ListKind::Role),
    },
    Setting {
        key: "lists_free",
        value_name: "FILE",
        help: "File of further domains of free providers",
        details: "",
        group: Group::Lists,
        scope: Scope::Engine,
        many: false,
        set: |config, given| set_list(config, ListKind::Free, one(given)),
        show: |config| show_list(config, ListKind::Free),
    },
    Setting {
        key: "lists_typo_targets",
        value_name: "FILE",
        help: "File of further domains that a suggestion can name",
        details: "",
        group: Group::Lists,
        scope: Scope::Engine,
        many: false,
        set: |config, given| set_list(config, ListKind::TypoTargets, one(given)),
        show: |config| show_list(config, ListKind::TypoTargets),
    },
    Setting {
        key: "resolver",
        value_name: "IP:PORT",
        help: "Recursive DNS resolver: IP or IP:PORT (repeatable)",
        details: "Default: the resolvers of the system, from /etc/resolv.conf.",
        group: Group::Dns,
        scope: Scope::Engine,
        many: true,
        set: |config, given| put(&mut config.engine.resolvers, each(given, resolver)),
        show: |config| list(&config.engine.resolvers),
    },
    Setting {
        key: "smtp_port",
        value_name: "N",
        help: "Port of the recipients' mail servers",
        details: "",
        group: Group::Smtp,
        scope: Scope::Engine,
        many: false,
        set: |config, given| put(&mut config.engine.smtp_port, number(one(given), 1, u16::MAX)),
        show: |config| integer(config.engine.smtp_port.into()),
    },
    Setting {
        key: "allow_net",
        value_name: "CIDR",
        help: "Non-public network that mailprobe may contact (repeatable)",
        details: "Without it mailprobe contacts no private, loopback or reserved address, whatever DNS answers.",
        group: Group::Smtp,
        scope: Scope::Engine,
        many: true,
        set: |config, given| put(&mut config.engine.allow_net, each(given, Network::parse)),
        show: |config| list(&config.engine.allow_net),
    },
    Setting {
        key: "ehlo",
        value_name: "NAME",
        help: "Name in EHLO, or an address literal such as [192.0.2.1]",
        details: "Default: the fully qualified name of this machine, else an address literal with its address.",
        group: Group::Smtp,
        scope: Scope::Engine,
        many: false,
        set: |config, given| put(&mut config.engine.ehlo, host_name(one(given)).map(Some)),
        show: |config| config.engine.ehlo.as_ref().and_then(text),
    },
    Setting {
        key: "mail_from",
        value_name: "ADDRESS",
        help: "Reverse-path of MAIL",
        details: "Default: postmaster at the EHLO name.",
        group: Group::Smtp,
        scope: Scope::Engine,
        many: false,
        set: |config, given| put(&mut config.engine.mail_from, address(one(given)).map(Some)),
        show: |config| config.engine.mail_from.as_ref().and_then(text),
    },
    Setting {
        key: "source",
        value_name: "ADDRESS[=EHLO]",
        help: "Address of this machine for connections to mail servers (repeatable)",
        details: "Its EHLO name may follow after `=`. Default: the system chooses the address.",
        group: Group::Smtp,
        scope: Scope::Engine,
        many: true,
        set: sources::set_addresses,
        show: |_| None,
    },
    Setting {
        key: "proxy",
        value_name: "URL[=EHLO]",
        help: "SOCKS5 proxy for connections to mail servers: socks5://HOST:PORT (repeatable)",
        details: "Its EHLO name may follow after `=`.",
        group: Group::Smtp,
        scope: Scope::Engine,
        many: true,
        set: sources::set_proxies,
        show: |_| None,
    },
    Setting {
        key: "state",
        value_name: "FILE",
        help: "File that keeps the counts of refused recipients between runs of check and clean",
        details: "`none`: no file. Default: mailprobe/state in XDG_STATE_HOME or ~/.local/state.",
        group: Group::Smtp,
        scope: Scope::State,
        many: false,
        set: |config, given| put(&mut config.state, state_file(one(given)).map(Some)),
        show: |config| config.state.as_ref().and_then(text),
    },
    Setting {
        key: "shards",
        value_name: "N",
        help: "Number of threads that contact mail servers; 0: one per core",
        details: "",
        group: Group::Engine,
        scope: Scope::Engine,
        many: false,
        set: |config, given| put(&mut config.engine.shards, number(one(given), 0, 1024)),
        show: |config| integer(config.engine.shards),
    },
    Setting {
        key: "runtime",
        value_name: "RUNTIME",
        help: "Async runtime of the threads that contact mail servers: auto, monoio or glommio",
        details: "glommio requires io_uring.",
        group: Group::Engine,
        scope: Scope::Engine,
        many: false,
        set: |config, given| put(&mut config.engine.runtime, choice(one(given), RUNTIME)),
        show: |config| name(config.engine.runtime, RUNTIME),
    },
    Setting {
        key: "driver",
        value_name: "DRIVER",
        help: "Kernel interface for input and output: auto, io_uring or epoll",
        details: "auto is io_uring if the kernel allows it, else epoll.",
        group: Group::Engine,
        scope: Scope::Engine,
        many: false,
        set: |config, given| put(&mut config.engine.driver, choice(one(given), DRIVER)),
        show: |config| name(config.engine.driver, DRIVER),
    },
    Setting {
        key: "pace",
        value_name: "PACE",
        help: "Pace at each site: polite, fast or lab",
        details: "`lab` has no limits: use it for your own servers only.",
        group: Group::Smtp,
        scope: Scope::Engine,
        many: false,
        set: |config, given| put(&mut config.engine.pace, choice(one(given), PACE)),
        show: |config| name(config.engine.pace, PACE),
    },
    Setting {
        key: "sessions",
        value_name: "N",
        help: "Maximum number of SMTP sessions at the same time",
        details: "",
        group: Group::Engine,
        scope: Scope::Engine,
        many: false,
        set: |config, given| put(&mut config.engine.sessions, number(one(given), 1, 1_000_000)),
        show: |config| integer(config.engine.sessions),
    },
    Setting {
        key: "queue",
        value_name: "N",
        help: "Maximum number of addresses in progress or waiting",
        details: "Above this number `serve` answers 503. The default of `clean` is 100000; with `--pace lab` it is ten times \
                  `sessions`, from 10000 to 100000.",
        group: Group::Engine,
        scope: Scope::Engine,
        many: false,
        set: |config, given| put(&mut config.engine.tickets_max, number(one(given), 1, 1_000_000)),
        show: |config| integer(config.engine.tickets_max),
    },
];

const BOOLEAN: &[(&str, bool)] = &[("true", true), ("false", false)];
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
