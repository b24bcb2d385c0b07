//! Servers with the real engine and a mail internet.

use crate::harness::server::Server;
use mailnet::{Mailnet, Running, Scenario};
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

pub const MINUTE: u64 = 60_000;
pub const HOUR: u64 = 60 * MINUTE;
pub const DAY: u64 = 24 * HOUR;
/// As close to a limit as a slow machine allows.
pub const MARGIN: u64 = 30_000;

/// The settings of all servers. Servers that defer a recipient are asked once more at most, since no test waits for them.
const SETTINGS: &str = "allow_net = [\"127.0.0.0/8\"]\nehlo = \"probe.example\"\nmail_from = \"postmaster@probe.example\"\n\
    shards = 1\nfrontends = 1\npace = \"lab\"\nbatch_wait = \"1s\"\n";

const TRAPS: &str = "trap@ok.example\ntrap@mailinator.com\ntrapped.example\n";

/// Limits that no test reaches by chance.
const ROOMY: &str =
    "limits = { fast = 100000, verify = 100000, batch = 100000, poll = 100000, account = 100000 }";

/// The plans of all servers except those that test the defaults.
fn plans() -> String {
    let plan = |id: &str, credits: u32, more: &str| {
        format!(
            "[[plan]]\nid = \"{id}\"\nname = \"The {id} plan\"\nmonthly_credits = {credits}\n{more}\n{ROOMY}\n"
        )
    };
    let plans = [
        plan("free", 100, ""),
        plan("roomy", 1_000_000, ""),
        plan("five", 5, ""),
        plan("none", 0, ""),
        plan("no-batches", 100, "batches = false"),
        plan("endless", 100, "resets = false"),
    ];
    format!("spamtraps = \"traps\"\n{}", plans.concat())
}

/// The mail internet of all servers.
pub fn net() -> &'static Running {
    static NET: OnceLock<Running> = OnceLock::new();
    NET.get_or_init(|| {
        let any = "127.0.0.1:0".parse().unwrap();
        let scenario =
            Scenario::parse(include_str!("scenario.toml")).unwrap().with_dns(any).with_smtp_port(0);
        Mailnet::start(scenario).unwrap()
    })
}

/// How often the hosts of a domain were asked about a recipient, and how often they were connected to.
pub fn contacts(domain: &str) -> (u64, u64) {
    let stats = net().domain_stats(domain).unwrap();
    (stats.rcpt, stats.sessions)
}

/// A number that no other test uses.
pub fn number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// An address that no other test asks about: `user-17@ok.example`.
pub fn address(kind: &str, domain: &str) -> String {
    format!("{kind}-{}@{domain}", number())
}

/// A deliverable address.
pub fn mailbox() -> String {
    address("user", "ok.example")
}

/// A domain of the group, for this test only.
pub fn domain() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("d{}.example", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The server of all tests that need no separate one.
pub fn shared() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    SHARED.get_or_init(|| start(&["--frontends", "2"]))
}

/// A server with the plans of the suite.
pub fn start(flags: &[&str]) -> Server {
    with_config(&plans(), net().dns(), flags)
}

/// A server with a clock that the test moves.
pub fn with_clock() -> Server {
    start(&["--test-clock"])
}

/// A server with the plans of the suite that asks this resolver.
pub fn with_resolver(resolver: SocketAddr, flags: &[&str]) -> Server {
    with_config(&plans(), resolver, flags)
}

/// A server with the default plans.
pub fn with_default_plans(flags: &[&str]) -> Server {
    with_config("", net().dns(), flags)
}

/// A server with the plans of the suite and more in its configuration.
pub fn with_more_config(config: &str, flags: &[&str]) -> Server {
    with_config(&(plans() + config), net().dns(), flags)
}

/// A server with this configuration that asks this resolver.
pub fn with_config(config: &str, resolver: SocketAddr, flags: &[&str]) -> Server {
    // A setting of the file can be overridden by a flag.
    let port = net().smtp_port();
    let config = format!("smtp_port = {port}\n{SETTINGS}{config}");
    let resolver = resolver.to_string();
    let files = [("mailprobe.toml", config.as_str()), ("traps", TRAPS)];
    Server::start_real(&files, &[&["--resolver", &resolver], flags].concat())
}
