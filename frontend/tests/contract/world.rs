//! Processes of the real server, with a mail internet.
//!
//! A server ends with its owner, and at the latest with the test program: beside each server a shell waits for the end
//! of a pipe that only the test program holds open.

use crate::contract::client::{Answer, Call, Connection};
use mailnet::{Mailnet, Running, Scenario};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;

pub const MINUTE: u64 = 60_000;
pub const HOUR: u64 = 60 * MINUTE;
pub const DAY: u64 = 24 * HOUR;
/// As close to a limit as a slow machine allows.
pub const MARGIN: u64 = 30_000;

/// Limits that no test reaches by chance.
const ROOMY: &str =
    "limits = { fast = 100000, verify = 100000, batch = 100000, poll = 100000, account = 100000 }";

/// A gateway with the single plan `free`.
const GATEWAY: &str = "[[gateway]]\nname = \"market\"\nheader = \"X-Market-Secret\"\n\
    secrets = [\"only-for-the-contract\"]\nuser_header = \"X-Market-User\"\nplan_header = \"X-Market-Plan\"\n\
    plans = { BASIC = \"free\" }\n";

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
    format!("spamtraps = \"traps\"\n{}{GATEWAY}", plans.concat())
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

/// A running server.
pub struct Server {
    child: Child,
    guard: Child,
    address: SocketAddr,
    folder: Option<TempDir>,
    flags: Vec<String>,
}

/// The server of all tests that need no separate one.
pub fn shared() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    SHARED.get_or_init(|| Server::start(&["--frontends", "2"]))
}

impl Server {
    /// A server with the plans of the suite.
    pub fn start(flags: &[&str]) -> Server {
        Server::with_config(&plans(), net().dns(), flags)
    }

    /// A server with a clock that the test moves.
    pub fn with_clock() -> Server {
        Server::start(&["--test-clock"])
    }

    /// A server with the plans of the suite that asks this resolver.
    pub fn with_resolver(resolver: SocketAddr, flags: &[&str]) -> Server {
        Server::with_config(&plans(), resolver, flags)
    }

    /// A server with the default plans.
    pub fn with_default_plans(flags: &[&str]) -> Server {
        Server::with_config("", net().dns(), flags)
    }

    /// A server with the plans of the suite and more in its configuration.
    pub fn with_more_config(config: &str, flags: &[&str]) -> Server {
        Server::with_config(&(plans() + config), net().dns(), flags)
    }

    pub fn with_config(config: &str, resolver: SocketAddr, flags: &[&str]) -> Server {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(
            folder.path().join("traps"),
            "trap@ok.example\ntrap@mailinator.com\ntrapped.example\n",
        )
        .unwrap();
        let file = folder.path().join("mailprobe.toml");
        // The setting is in the file, so a flag can override it.
        std::fs::write(&file, format!("smtp_port = {}\n{config}", net().smtp_port())).unwrap();
        let resolver = resolver.to_string();
        let own = [
            "--config",
            file.to_str().unwrap(),
            "--resolver",
            &resolver,
            "--allow-net",
            "127.0.0.0/8",
            "--ehlo",
            "probe.example",
            "--mail-from",
            "postmaster@probe.example",
            "--shards",
            "1",
            // Servers that defer a recipient are asked once more at most, since no test waits for them.
            "--batch-wait",
            "1",
        ];
        let unless_given = |[name, value]: [&'static str; 2]| {
            if flags.contains(&name) { Vec::new() } else { vec![name, value] }
        };
        let usual = [["--frontends", "1"], ["--pace", "lab"]].map(unless_given).concat();
        let flags = own.iter().chain(&usual).chain(flags).map(|&flag| flag.to_owned()).collect();
        Server::run(folder, flags)
    }

    fn run(folder: TempDir, flags: Vec<String>) -> Server {
        let log = std::fs::File::options().create(true).append(true).open(folder.path().join("log")).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_mailprobe"))
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(folder.path().join("data"))
            .args(&flags)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let guard = guard(&child, &folder);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = loop {
            let Some(Ok(line)) = lines.next() else {
                let said = std::fs::read_to_string(folder.path().join("log")).unwrap();
                panic!("the server did not start: {:?}: {said}", child.wait());
            };
            if let Some((_, address)) = line.split_once("listening on http://") {
                break address.parse().unwrap();
            }
        };
        Server { child, guard, address, folder: Some(folder), flags }
    }

    pub fn data(&self) -> PathBuf {
        self.folder.as_ref().unwrap().path().join("data")
    }

    /// The log so far. Lines are buffered for a moment before they are written.
    pub fn log(&self) -> String {
        std::thread::sleep(Duration::from_millis(300));
        std::fs::read_to_string(self.folder.as_ref().unwrap().path().join("log")).unwrap()
    }

    pub fn connect(&self) -> Connection {
        Connection::open(self.address)
    }

    /// Sends one request on a new connection. Every answer has a request id.
    #[track_caller]
    pub fn call(&self, call: &Call) -> Answer {
        let answer = self.connect().call(call);
        assert!(answer.header("x-request-id").is_some_and(|id| !id.is_empty()), "{answer:?}");
        answer
    }

    /// Runs an operator's command on the data folder.
    #[track_caller]
    pub fn administer(&self, arguments: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_mailprobe"))
            .args(arguments)
            .args([OsStr::new("--data"), self.data().as_os_str()])
            .env_clear()
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The time of the server's clock, in milliseconds since 1970.
    pub fn now(&self) -> u64 {
        self.advance(0)
    }

    /// Moves the server's clock.
    pub fn advance(&self, ms: u64) -> u64 {
        self.administer(&["clock", "advance", &ms.to_string()]).trim().parse().unwrap()
    }

    /// Moves the server's clock forward to this time.
    #[track_caller]
    pub fn advance_to(&self, time: u64) {
        let now = self.now();
        let ahead = time.checked_sub(now).expect("a clock goes forward");
        self.advance(ahead);
    }

    /// Kills the server and starts it again on its folder.
    pub fn restart_after_kill(mut self) -> Server {
        self.end();
        let folder = self.folder.take().unwrap();
        Server::run(folder, self.flags.clone())
    }

    fn end(&mut self) {
        // The guard ends first: it must not kill by an id that is free again.
        let _ = self.guard.kill();
        let _ = self.guard.wait();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Ends the server and removes its folder at any end of the test program.
fn guard(server: &Child, folder: &TempDir) -> Child {
    Command::new("sh")
        .args(["-c", "cat >/dev/null; kill -9 \"$0\"; rm -rf -- \"$1\""])
        .arg(server.id().to_string())
        .arg(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}
