//! What the campaigns against the binaries have in common: a folder of their own, mailnet and `mailprobe serve` in
//! processes of their own, and accounts with live keys.

use super::{Failure, Options};
use crate::interop::process::{self, Server, wait_until};
use serde_json::Value;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A release build from nothing on two cores.
const BUILD_LIMIT: Duration = Duration::from_secs(1500);
const START_LIMIT: Duration = Duration::from_secs(60);
/// The server drains: a check under way may take a minute.
const END_LIMIT: Duration = Duration::from_secs(90);
const COMMAND_LIMIT: Duration = Duration::from_secs(60);
/// What `mailprobe serve` writes, since its last start.
const SERVE_LOG: &str = "serve.log";

/// Of a plan on which no limit is in the way.
const NO_LIMITS: &str = "[plan.limits]
fast = 1000000
verify = 1000000
batch = 1000000
poll = 1000000
account = 1000000
fair_use_per_second = 1000000
fair_use_burst = 1000000
";

/// The binaries and a folder; the folder goes with it.
pub struct World {
    folder: tempfile::TempDir,
    binaries: PathBuf,
    /// The name of the data folder.
    data: &'static str,
}

/// mailnet, playing a scenario.
pub struct Mailnet {
    server: Server,
    log: PathBuf,
    dns: String,
    smtp_port: String,
}

/// `mailprobe serve`.
pub struct Serve {
    server: Server,
    log: PathBuf,
    /// Where the API is.
    pub address: SocketAddr,
}

/// An account's credits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credits {
    /// Free to spend.
    pub available: u64,
    /// Set aside for checks under way.
    pub held: u64,
    /// Ever spent.
    pub spent: u64,
    /// Ever expired.
    pub expired: u64,
    /// Ever granted.
    pub granted: u64,
}

impl World {
    /// Builds the binaries unless they are given, and makes the folder.
    pub fn make(options: &Options) -> Result<World, Failure> {
        World::of(options.bin_dir.as_deref(), !options.small)
    }

    /// Builds the binaries, for release or not, unless their folder is given.
    pub fn of(bin_dir: Option<&Path>, release: bool) -> Result<World, Failure> {
        let folder =
            tempfile::Builder::new().prefix("soak-").tempdir().map_err(|error| wrong("tempdir", &error))?;
        let binaries = match bin_dir {
            Some(path) => path.canonicalize().map_err(|error| wrong(path.display(), &error))?,
            None => build(folder.path(), release)?,
        };
        mailnet::raise_open_files();
        Ok(World { folder, binaries, data: "data" })
    }

    /// The path of one of the binaries.
    pub fn binary(&self, name: &str) -> PathBuf {
        self.binaries.join(name)
    }

    /// The folder of the binaries.
    pub fn binaries(&self) -> &Path {
        &self.binaries
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Lets a command keep its state in the folder, and not where the user has theirs.
    pub fn keep_state_here(&self, command: &mut Command) {
        command.env("XDG_STATE_HOME", self.folder.path());
    }

    /// The data folder of its servers.
    pub fn data(&self) -> PathBuf {
        self.path(self.data)
    }

    /// The path of a file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts mailnet with a scenario.
    pub fn mailnet(&self, scenario: &str) -> Result<Mailnet, Failure> {
        self.mailnet_at(scenario, "mailnet", &[])
    }

    /// Starts mailnet under a name of its own and with flags that say where it listens.
    pub fn mailnet_at(&self, scenario: &str, name: &str, at: &[&str]) -> Result<Mailnet, Failure> {
        self.mailnet_by(&[], scenario, name, at)
    }

    /// Starts mailnet by a command that takes a program and its arguments as its last words.
    pub fn mailnet_by(
        &self,
        prefix: &[&str],
        scenario: &str,
        name: &str,
        at: &[&str],
    ) -> Result<Mailnet, Failure> {
        let (path, log) = (self.path(&format!("{name}.toml")), self.path(&format!("{name}.log")));
        write(&path, scenario)?;
        let binary = self.binary("mailnet");
        let mut command = match prefix.split_first() {
            Some((program, words)) => {
                let mut command = Command::new(program);
                command.args(words).arg(binary);
                command
            }
            None => Command::new(binary),
        };
        command.arg("--scenario").arg(&path).args(at);
        let mut server = Server::start("mailnet", command, &log)?;
        let line = ready_line(&mut server, &log, "dns ")?;
        let words: Vec<&str> = line.split(' ').collect();
        let (Some(dns), Some(port)) = (words.first(), words.get(2)) else {
            return Err(server.complain("says ready in other words"));
        };
        let (dns, smtp_port) = ((*dns).to_owned(), (*port).to_owned());
        Ok(Mailnet { server, log, dns, smtp_port })
    }

    /// Starts `mailprobe serve` on the folder's data, with its engine pointed at mailnet.
    pub fn serve(&self, mailnet: &Mailnet, more: &[&str]) -> Result<Serve, Failure> {
        self.serve_with(&mailnet.dns, &mailnet.smtp_port, more)
    }

    /// Starts `mailprobe serve` on the folder's data, with its engine pointed at a resolver and a port.
    pub fn serve_with(&self, dns: &str, smtp_port: &str, more: &[&str]) -> Result<Serve, Failure> {
        self.serve_at("127.0.0.1:0", dns, smtp_port, more)
    }

    /// Starts `mailprobe serve` at an address.
    pub fn serve_at(&self, at: &str, dns: &str, smtp_port: &str, more: &[&str]) -> Result<Serve, Failure> {
        self.serve_paced("lab", at, (dns, smtp_port), more)
    }

    /// Starts `mailprobe serve` at an address, with another pace.
    pub fn serve_paced(
        &self,
        pace: &str,
        at: &str,
        (dns, smtp_port): (&str, &str),
        more: &[&str],
    ) -> Result<Serve, Failure> {
        self.ready(self.start_serve(pace, at, (dns, smtp_port), more)?)
    }

    /// Starts `mailprobe serve` on the folder's data with no flags but these.
    pub fn serve_bare(&self, flags: &[&str]) -> Result<Serve, Failure> {
        let mut command = self.mailprobe(&["serve"]);
        command.args(flags);
        self.ready(Server::start("mailprobe serve", command, &self.path(SERVE_LOG))?)
    }

    fn ready(&self, mut server: Server) -> Result<Serve, Failure> {
        let log = self.path(SERVE_LOG);
        let url = ready_line(&mut server, &log, "listening on ")?;
        let address = url.split("://").last().unwrap_or_default();
        let address = address.parse().map_err(|_| server.complain("listens nowhere"))?;
        Ok(Serve { server, log, address })
    }

    /// Starts `mailprobe serve` and waits for nothing.
    pub fn start_serve(
        &self,
        pace: &str,
        at: &str,
        (dns, smtp_port): (&str, &str),
        more: &[&str],
    ) -> Result<Server, Failure> {
        let mut command = self.mailprobe(&["serve", "--listen", at, "--pace", pace]);
        engine_flags(&mut command, dns, smtp_port, true);
        command.args(more);
        Server::start("mailprobe serve", command, &self.path(SERVE_LOG))
    }

    /// What the last `mailprobe serve` wrote until it ended.
    pub fn last_log(&self) -> Result<String, Failure> {
        read(&self.path(SERVE_LOG))
    }

    /// Starts `mailprobe clean`, with its engine pointed at mailnet; its log is `clean.log`.
    pub fn clean(&self, mailnet: &Mailnet, arguments: &[&str]) -> Result<Server, Failure> {
        let mut command = Command::new(self.binary("mailprobe"));
        command.arg("clean").args(arguments).args(["--pace", "lab"]);
        engine_flags(&mut command, &mailnet.dns, &mailnet.smtp_port, true);
        self.keep_state_here(&mut command);
        Server::start("mailprobe clean", command, &self.path("clean.log"))
    }

    /// Runs a command of `mailprobe` that prints JSON.
    pub fn json(&self, command: &[&str]) -> Result<Value, Failure> {
        let name = format!("mailprobe {}", command.join(" "));
        let mut command = self.mailprobe(command);
        command.arg("--json");
        let output = process::run(command, "", self.folder.path(), COMMAND_LIMIT)?.success(&name)?;
        serde_json::from_str(&output).map_err(|error| wrong(name, &error))
    }

    /// Runs a command of `mailprobe` and gives what it prints.
    pub fn text(&self, command: &[&str]) -> Result<String, Failure> {
        let name = format!("mailprobe {}", command.join(" "));
        process::run(self.mailprobe(command), "", self.folder.path(), COMMAND_LIMIT)?.success(&name)
    }

    /// From now on all commands use another data folder.
    pub fn use_data(&mut self, name: &'static str) {
        self.data = name;
    }

    /// Makes an account with so many pack credits beside its plan's; gives its live key.
    pub fn account(&self, name: &str, credits: u64) -> Result<String, Failure> {
        self.account_on("free", name, credits)
    }

    /// Makes an account on the plan `unlimited`, with so many credits and no others; gives its live key.
    pub fn unlimited(&self, name: &str, credits: u64) -> Result<String, Failure> {
        self.account_on("unlimited", name, credits)
    }

    /// Writes the plans `free` and `unlimited`, and gives the flags that make a server know it.
    pub fn plans(&self) -> Result<[String; 2], Failure> {
        let free = "[[plan]]\nid = \"free\"\nname = \"Free\"\nmonthly_credits = 100\n";
        self.plans_of(&format!("{free}{}", plan("unlimited", 0)))
    }

    /// Lets the plan that first accounts are on have so many credits a month and no limits; gives the flags that make a server know it.
    pub fn free_plan(&self, monthly_credits: u64) -> Result<[String; 2], Failure> {
        self.plans_of(&plan("free", monthly_credits))
    }

    fn plans_of(&self, text: &str) -> Result<[String; 2], Failure> {
        let path = self.path("plans.toml");
        write(&path, text)?;
        Ok(["--config".into(), path.to_string_lossy().into_owned()])
    }

    fn account_on(&self, plan: &str, name: &str, credits: u64) -> Result<String, Failure> {
        self.json(&["account", "create", name, "--plan", plan])?;
        if credits > 0 {
            self.json(&["account", "grant", name, &credits.to_string(), "--note", "soak"])?;
        }
        let made = self.json(&["key", "create", name])?;
        let key = made.get("key").and_then(Value::as_str);
        key.map(str::to_owned).ok_or_else(|| Failure(format!("key create {name}: no key in the answer")))
    }

    fn mailprobe(&self, arguments: &[&str]) -> Command {
        self.mailprobe_on(&self.path(self.data), arguments)
    }

    /// A command of `mailprobe` on a data folder of the caller's.
    pub fn mailprobe_on(&self, data: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.binaries.join("mailprobe"));
        command.args(arguments).arg("--data").arg(data);
        self.keep_state_here(&mut command);
        command
    }

    /// `mailprobe serve` on a data folder of the caller's, with its engine pointed at mailnet.
    pub fn serve_on(&self, data: &Path, mailnet: &Mailnet, more: &[&str]) -> Command {
        let mut command = self.mailprobe_on(data, &["serve", "--listen", "127.0.0.1:0", "--pace", "lab"]);
        engine_flags(&mut command, &mailnet.dns, &mailnet.smtp_port, true);
        command.args(more);
        command
    }

    /// The credits of an account in a data folder; an error if its books are not in order.
    pub fn books(&self, data: &Path, account: &str) -> Result<Credits, Failure> {
        let command = self.mailprobe_on(data, &["account", "show", account, "--json"]);
        let output = process::run(command, "", self.folder.path(), COMMAND_LIMIT)?.success("account show")?;
        let shown: Value = serde_json::from_str(&output).map_err(|error| wrong("account show", &error))?;
        let credits = Credits::of(shown.get("account").unwrap_or(&Value::Null))?;
        let faults = shown.pointer("/audit/faults").and_then(Value::as_array).map(Vec::len);
        if credits.add_up() && faults == Some(0) {
            return Ok(credits);
        }
        Err(Failure(format!("the books of {account} are not in order: {shown}")))
    }
}

impl Mailnet {
    /// Where its DNS listens.
    pub fn dns(&self) -> &str {
        &self.dns
    }

    /// The port of its mail hosts.
    pub fn smtp_port(&self) -> &str {
        &self.smtp_port
    }

    /// Ends it at once.
    pub fn kill(self) {
        drop(self.server);
    }

    /// Ends it; gives what it counted.
    pub fn stop(self) -> Result<Value, Failure> {
        let status = self.server.terminate(START_LIMIT)?;
        let log = read(&self.log)?;
        let counted = log.lines().last().and_then(|line| serde_json::from_str(line).ok());
        match counted {
            Some(counted) if status.success() => Ok(counted),
            _ => Err(Failure(format!("mailnet: {status}, and it says: {log}"))),
        }
    }
}

impl Serve {
    /// Ends it as an operator does.
    pub fn stop(self) -> Result<(), Failure> {
        let status = self.server.terminate(END_LIMIT)?;
        if status.success() { Ok(()) } else { Err(Failure(format!("mailprobe serve ended: {status}"))) }
    }

    /// Asks it to end, and does not wait for that.
    pub fn ask_to_end(&self) -> Result<(), Failure> {
        self.server.ask_to_end()
    }

    /// `kill -9`.
    pub fn kill(self) {
        drop(self.server);
    }

    /// An error if it has ended.
    pub fn running(&mut self) -> Result<(), Failure> {
        self.server.running().map_err(|failure| self.server.complain(&failure.0))
    }

    /// What it wrote since it was started. Lines gather for a moment before they are written.
    pub fn log(&self) -> Result<String, Failure> {
        process::sleep(Duration::from_millis(300))?;
        read(&self.log)
    }

    /// Resident memory in KiB.
    pub fn resident_kib(&self) -> Result<u64, Failure> {
        let status = read(Path::new(&format!("/proc/{}/status", self.server.id())))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number =
            line.and_then(|line| line.trim().split(' ').next()).and_then(|number| number.parse().ok());
        number.ok_or_else(|| Failure("no VmRSS in /proc".into()))
    }

    /// Open file descriptors.
    pub fn descriptors(&self) -> Result<usize, Failure> {
        let folder = format!("/proc/{}/fd", self.server.id());
        Ok(fs::read_dir(&folder).map_err(|error| wrong(&folder, &error))?.count())
    }
}

impl Credits {
    /// Of an account as `account list` and `account show` print it.
    pub fn of(account: &Value) -> Result<Credits, Failure> {
        let balance = account.get("balance").ok_or_else(|| Failure("an account without a balance".into()))?;
        let number = |field: &str| {
            let number = balance.get(field).and_then(Value::as_u64);
            number.ok_or_else(|| Failure(format!("a balance without {field}")))
        };
        Ok(Credits {
            available: number("plan_left")? + number("pack_left")?,
            held: number("held")?,
            spent: number("spent")?,
            expired: number("expired")?,
            granted: number("granted")?,
        })
    }

    /// The invariant of docs/storage.md.
    pub fn add_up(&self) -> bool {
        self.available + self.held + self.spent + self.expired == self.granted
    }
}

/// Points an engine at a resolver and a port; `named` also says who it is.
pub fn engine_flags(command: &mut Command, dns: &str, smtp_port: &str, named: bool) {
    command.args(["--resolver", dns, "--smtp-port", smtp_port]);
    command.args(["--allow-net", "127.0.0.0/8", "--allow-net", "::1"]);
    if named {
        command.args(["--ehlo", "probe.example", "--mail-from", "postmaster@probe.example"]);
    }
}

/// Waits for the line by which a server says that it is ready; gives what follows on `prefix`.
fn ready_line(server: &mut Server, log: &Path, prefix: &str) -> Result<String, Failure> {
    let mut found = None;
    let waited = wait_until("the line that says ready", START_LIMIT, || {
        let text = read(log)?;
        // The last piece may be half a line.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        found = whole.lines().find_map(|line| line.strip_prefix(prefix)).map(str::to_owned);
        if found.is_none() {
            server.running()?;
        }
        Ok(found.is_some())
    });
    waited.map_err(|failure| server.complain(&failure.0))?;
    found.ok_or_else(|| server.complain("is not ready"))
}

/// A plan of this id, without limits.
fn plan(id: &str, monthly_credits: u64) -> String {
    format!("[[plan]]\nid = \"{id}\"\nname = \"{id}\"\nmonthly_credits = {monthly_credits}\n{NO_LIMITS}")
}

/// Where a server listens, once it does; nothing if it ends instead.
pub fn listening(server: &mut Server) -> Result<Option<SocketAddr>, Failure> {
    let mut found = None;
    let waited = wait_until("the server to listen or to end", START_LIMIT, || {
        let ended = server.ended()?.is_some();
        let log = server.log()?;
        let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
        found = whole.lines().find_map(|line| line.strip_prefix("listening on http://")).map(str::to_owned);
        Ok(ended || found.is_some())
    });
    waited.map_err(|failure| server.complain(&failure.0))?;
    let parsed = found.map(|address| address.parse()).transpose();
    parsed.map_err(|_| server.complain("listens nowhere"))
}

/// Builds next to this binary.
fn build(folder: &Path, release: bool) -> Result<PathBuf, Failure> {
    let mut command = cargo();
    command.args(["build", "--package", "frontend", "--bin", "mailprobe"]);
    command.args(["--package", "mailnet", "--bin", "mailnet"]);
    if release {
        command.arg("--release");
    }
    process::run(command, "", folder, BUILD_LIMIT)?.success("cargo build")?;
    let this = std::env::current_exe().map_err(|error| wrong("where am I", &error))?;
    let target = this.parent().and_then(Path::parent).ok_or_else(|| Failure("no target folder".into()))?;
    Ok(target.join(if release { "release" } else { "debug" }))
}

/// cargo, in the root of the tree.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    command
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|error| wrong(path.display(), &error))
}

fn read(path: &Path) -> Result<String, Failure> {
    let bytes = fs::read(path).map_err(|error| wrong(path.display(), &error))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn wrong(what: impl std::fmt::Display, error: &dyn std::error::Error) -> Failure {
    Failure(format!("{what}: {error}"))
}
