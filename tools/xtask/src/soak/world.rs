//! Shared parts of the campaigns against the binaries: a temporary folder, processes of mailnet and `mailprobe serve`,
//! and accounts with live keys.

use super::judge::{self, Claim};
use super::options::SoakOptions;
use super::transport::{Certificate, ServerEndpoint};
use crate::failure::{Context, Failure};
use crate::interop::process::{self, ServerProcess, target_folder, wait_until};
use crate::interop::report::{Tally, outcome};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The time limit of a release build from an empty target folder on two cores.
const BUILD_LIMIT: Duration = Duration::from_secs(1500);
const START_LIMIT: Duration = Duration::from_secs(60);
/// The time limit of a drain: a check under way may take a minute.
const END_LIMIT: Duration = Duration::from_secs(90);
const COMMAND_LIMIT: Duration = Duration::from_secs(60);
/// How long a server may take to release the resources of clients that have gone: mimalloc returns free memory with a delay, and idle
/// sessions send QUIT after two seconds.
const RELEASE_LIMIT: Duration = Duration::from_secs(60);
/// How many more descriptors it may have than before: those of the database, and of a late connection.
const DESCRIPTORS_MORE_MAX: usize = 8;
/// The output of the last `mailprobe serve`.
const SERVE_LOG: &str = "serve.log";
/// The configuration of all servers.
const PLANS: &str = "plans.toml";
/// Any free port of loopback.
pub const ANY_PORT: &str = "127.0.0.1:0";

/// The limits of a plan that restrict nothing.
const NO_LIMITS: &str = include_str!("../../soak/unlimited.toml");

/// The binaries and a temporary folder, which is removed with this value.
pub struct CampaignFolder {
    folder: tempfile::TempDir,
    binaries: PathBuf,
    /// The name of the data folder.
    data: &'static str,
    /// The variables that name the store; none for redb.
    store: Vec<(&'static str, String)>,
}

/// A process of mailnet that plays a scenario.
pub struct Mailnet {
    server: ServerProcess,
    dns: String,
    smtp_port: String,
}

/// A running process of `mailprobe serve`.
pub struct Serve {
    server: ServerProcess,
    /// The address of the API.
    pub address: SocketAddr,
}

/// Figures of a server's process.
#[derive(Clone, Copy)]
pub struct Footprint {
    /// The resident memory.
    pub resident_kib: u64,
    /// The number of open file descriptors.
    pub descriptors: usize,
}

/// The ledger of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ledger {
    /// The sums of its credits.
    pub credits: Credits,
    /// The number of holds.
    pub open_holds: u64,
    /// What the store's own audit has found.
    pub faults: Vec<String>,
}

/// The credits of an account by their state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credits {
    /// Credits that can be spent.
    pub available: u64,
    /// Credits that are held for checks under way.
    pub held: u64,
    /// All credits that were ever spent.
    pub spent: u64,
    /// All credits that ever expired.
    pub expired: u64,
    /// All credits that were ever granted.
    pub granted: u64,
}

impl CampaignFolder {
    /// Builds the binaries unless their folder is given, and creates the temporary folder.
    pub fn make(options: &SoakOptions) -> Result<CampaignFolder, Failure> {
        CampaignFolder::of(options.bin_dir.as_deref(), !options.small)
    }

    /// Builds the binaries, in release mode or not, unless their folder is given.
    pub fn of(bin_dir: Option<&Path>, release: bool) -> Result<CampaignFolder, Failure> {
        let folder = tempfile::Builder::new().prefix("soak-").tempdir().about("tempdir")?;
        let binaries = match bin_dir {
            Some(path) => path.canonicalize().at(path)?,
            None => build(folder.path(), release)?,
        };
        mailnet::raise_open_files();
        let folder = CampaignFolder { folder, binaries, data: "data", store: Vec::new() };
        folder.extend_free_plan("")?;
        Ok(folder)
    }

    /// The path of one of the binaries.
    pub fn binary(&self, name: &str) -> PathBuf {
        self.binaries.join(name)
    }

    /// The folder of the binaries.
    pub fn binaries(&self) -> &Path {
        &self.binaries
    }

    /// The temporary folder of the campaign.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Makes a command keep its state in the temporary folder instead of the user's folder.
    pub fn keep_state_here(&self, command: &mut Command) {
        command.env("XDG_STATE_HOME", self.folder.path());
    }

    /// The data folder of the servers.
    pub fn data(&self) -> PathBuf {
        self.path(self.data)
    }

    /// The path of a file in the temporary folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts mailnet with a scenario.
    pub fn mailnet(&self, scenario: &str) -> Result<Mailnet, Failure> {
        self.mailnet_by(Command::new(self.binary("mailnet")), scenario, "mailnet", &[])
    }

    /// Starts mailnet by this command, with its own log name, and with flags for its addresses.
    pub fn mailnet_by(
        &self,
        mut command: Command,
        scenario: &str,
        name: &str,
        at: &[&str],
    ) -> Result<Mailnet, Failure> {
        let (path, log) = (self.path(&format!("{name}.toml")), self.path(&format!("{name}.log")));
        write(&path, scenario)?;
        command.arg("--scenario").arg(&path).args(at);
        let mut server = ServerProcess::start("mailnet", command, &log)?;
        let line = awaited_line(&mut server, "dns ")?.unwrap_or_default();
        let words: Vec<&str> = line.split(' ').collect();
        let (Some(dns), Some(port)) = (words.first(), words.get(2)) else {
            return Err(server.complain("says ready in other words"));
        };
        let (dns, smtp_port) = ((*dns).to_owned(), (*port).to_owned());
        Ok(Mailnet { server, dns, smtp_port })
    }

    /// Starts `mailprobe serve` on the folder's data, with its engine pointed at mailnet.
    pub fn serve(&self, mailnet: &Mailnet, more: &[&str]) -> Result<Serve, Failure> {
        self.serve_at(ANY_PORT, mailnet.engine(), more)
    }

    /// Starts `mailprobe serve` on the folder's data, over TLS if there is a certificate.
    pub fn serve_over(
        &self,
        mailnet: &Mailnet,
        more: &[&str],
        certificate: Option<&Certificate>,
    ) -> Result<(Serve, ServerEndpoint), Failure> {
        let Some(certificate) = certificate else {
            let serve = self.serve(mailnet, more)?;
            let server = ServerEndpoint::from(serve.address);
            return Ok((serve, server));
        };
        let files = [("cert.pem", &certificate.certificate_pem), ("key.pem", &certificate.key_pem)];
        for (name, text) in files {
            write(&self.path(name), text)?;
        }
        let paths = files.map(|(name, _)| self.path(name).to_string_lossy().into_owned());
        let tls = ["--tls-cert", paths[0].as_str(), "--tls-key", paths[1].as_str()];
        let serve = self.serve(mailnet, &[more, &tls].concat())?;
        let server = ServerEndpoint::over_tls(serve.address, certificate);
        Ok((serve, server.about("TLS")?))
    }

    /// Starts `mailprobe serve` at an address, with its engine pointed at a resolver and a port.
    pub fn serve_at(&self, at: &str, engine: (&str, &str), more: &[&str]) -> Result<Serve, Failure> {
        self.ready(self.start_serve(at, engine, more)?)
    }

    /// Starts `mailprobe serve` on the data folder with this name, at any port.
    pub fn serve_named(&self, name: &str, engine: (&str, &str), more: &[&str]) -> Result<Serve, Failure> {
        let command = self.serve_on(&self.path(name), ANY_PORT, engine, more);
        self.ready(ServerProcess::start("mailprobe serve", command, &self.path(&format!("{name}.log")))?)
    }

    /// Starts `mailprobe serve` on the folder's data with only these flags and the plans.
    pub fn serve_bare(&self, flags: &[&str]) -> Result<Serve, Failure> {
        self.ready(self.start(self.serve_command(&self.data(), flags))?)
    }

    /// Kills a server, whose log must have no panic, and starts another one on the same data and at the same address.
    pub fn restart(&self, serve: &mut Serve, mailnet: &Mailnet, more: &[&str]) -> Result<(), Failure> {
        no_panic(&serve.log()?)?;
        serve.server.kill()?;
        *serve = self.serve_at(&serve.address.to_string(), mailnet.engine(), more)?;
        Ok(())
    }

    fn ready(&self, mut server: ServerProcess) -> Result<Serve, Failure> {
        let address = listening(&mut server)?.ok_or_else(|| server.complain("ended"))?;
        Ok(Serve { server, address })
    }

    /// Starts `mailprobe serve` without waiting for it.
    pub fn start_serve(
        &self,
        at: &str,
        engine: (&str, &str),
        more: &[&str],
    ) -> Result<ServerProcess, Failure> {
        self.start(self.serve_on(&self.data(), at, engine, more))
    }

    fn start(&self, command: Command) -> Result<ServerProcess, Failure> {
        ServerProcess::start("mailprobe serve", command, &self.path(SERVE_LOG))
    }

    /// The output of the last `mailprobe serve`.
    pub fn last_log(&self) -> Result<String, Failure> {
        read(&self.path(SERVE_LOG))
    }

    /// Starts `mailprobe clean`, with its engine pointed at mailnet; its log is `clean.log`.
    pub fn clean(&self, mailnet: &Mailnet, arguments: &[&str]) -> Result<ServerProcess, Failure> {
        let mut command = self.clean_command(mailnet.engine(), true);
        command.args(arguments).args(["--pace", "lab"]);
        ServerProcess::start("mailprobe clean", command, &self.path("clean.log"))
    }

    /// `mailprobe clean` with its engine pointed at a resolver and a port. `named` also sets its EHLO name and reverse-path.
    pub fn clean_command(&self, engine: (&str, &str), named: bool) -> Command {
        let mut command = Command::new(self.binary("mailprobe"));
        command.arg("clean");
        engine_flags(&mut command, engine, named);
        self.keep_state_here(&mut command);
        // A panic must be one line: a backtrace would hide the figures.
        command.env("RUST_BACKTRACE", "0");
        command
    }

    /// Runs a command of `mailprobe` that prints JSON.
    pub fn json(&self, command: &[&str]) -> Result<Value, Failure> {
        self.json_on(&self.data(), command, "")
    }

    /// Runs a command of `mailprobe` and returns its output.
    pub fn text(&self, command: &[&str]) -> Result<String, Failure> {
        self.text_on(&self.data(), command, "")
    }

    /// Runs a command of `mailprobe` that prints JSON, on the caller's data folder and with this input.
    pub fn json_on(&self, data: &Path, command: &[&str], input: &str) -> Result<Value, Failure> {
        let output = self.text_on(data, &[command, &["--json"]].concat(), input)?;
        serde_json::from_str(&output).about(command.join(" "))
    }

    /// Runs a command of `mailprobe` on the caller's data folder and with this input, and returns its output.
    pub fn text_on(&self, data: &Path, command: &[&str], input: &str) -> Result<String, Failure> {
        let name = format!("mailprobe {}", command.join(" "));
        let command = self.mailprobe_on(data, command);
        process::run(command, input, self.folder.path(), COMMAND_LIMIT)?.success(&name)
    }

    /// Makes all further commands use this store, which the variables name.
    pub fn use_store(&mut self, variables: Vec<(&'static str, String)>) {
        self.store = variables;
    }

    /// Makes all further commands use another data folder.
    pub fn use_data(&mut self, name: &'static str) {
        self.data = name;
    }

    /// Creates an account with this many pack credits in addition to its plan's, and returns its live key.
    pub fn account(&self, name: &str, credits: u64) -> Result<String, Failure> {
        self.account_on("free", name, credits)
    }

    /// Creates an account on the plan `unlimited` with this many credits in all, and returns its live key.
    pub fn unlimited(&self, name: &str, credits: u64) -> Result<String, Failure> {
        self.account_on("unlimited", name, credits)
    }

    /// The flags that make a server read the plans of this folder. All functions that start servers add them.
    pub fn plans(&self) -> [String; 2] {
        ["--config".into(), self.path(PLANS).to_string_lossy().into_owned()]
    }

    /// Adds settings to the plan `free`.
    pub fn extend_free_plan(&self, settings: &str) -> Result<(), Failure> {
        let free = format!("[[plan]]\nid = \"free\"\nname = \"Free\"\nmonthly_credits = 100\n{settings}");
        write(&self.path(PLANS), &format!("{free}{}", plan("unlimited", 0)))
    }

    /// Gives the plan of new accounts this many credits a month and no limits.
    pub fn set_free_plan(&self, monthly_credits: u64) -> Result<(), Failure> {
        write(&self.path(PLANS), &plan("free", monthly_credits))
    }

    fn account_on(&self, plan: &str, name: &str, credits: u64) -> Result<String, Failure> {
        self.json(&["account", "create", name, "--plan", plan])?;
        if credits > 0 {
            self.json(&["account", "grant", name, &credits.to_string(), "--note", "soak"])?;
        }
        self.key(name, &[])
    }

    /// Creates a key of an account: a live one without flags.
    pub fn key(&self, account: &str, flags: &[&str]) -> Result<String, Failure> {
        let made = self.json(&[&["key", "create", account], flags].concat())?;
        let key = made["key"].as_str().map(str::to_owned);
        key.ok_or_else(|| Failure(format!("key create {account}: no key in the answer")))
    }

    /// A command of `mailprobe` on the caller's data folder.
    pub fn mailprobe_on(&self, data: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.binaries.join("mailprobe"));
        command.args(arguments).arg("--data").arg(data);
        command.envs(self.store.iter().map(|(name, value)| (name, value)));
        self.keep_state_here(&mut command);
        command
    }

    fn serve_command(&self, data: &Path, flags: &[&str]) -> Command {
        let mut command = self.mailprobe_on(data, &["serve"]);
        command.args(flags);
        if !flags.contains(&"--config") {
            command.args(self.plans());
        }
        command
    }

    /// The command that starts `mailprobe serve` on the caller's data folder, without a pace unless the flags have one.
    pub fn serve_on(&self, data: &Path, at: &str, engine: (&str, &str), more: &[&str]) -> Command {
        let mut command = self.serve_command(data, &[&["--listen", at], more].concat());
        if !more.contains(&"--pace") {
            command.args(["--pace", "lab"]);
        }
        engine_flags(&mut command, engine, true);
        command
    }

    /// The ledger of an account.
    pub fn ledger(&self, account: &str) -> Result<Ledger, Failure> {
        self.ledger_in(&self.data(), account)
    }

    fn ledger_in(&self, data: &Path, account: &str) -> Result<Ledger, Failure> {
        Ledger::of(&self.json_on(data, &["account", "show", account], "")?)
    }

    /// Compares the ledger of an account with what its clients were told.
    pub fn judge(&self, account: &str, claim: &Claim) -> Result<String, String> {
        self.judge_in(&self.data(), account, claim)
    }

    /// The same in the caller's data folder.
    pub fn judge_in(&self, data: &Path, account: &str, claim: &Claim) -> Result<String, String> {
        judge::ledger(account, claim, &self.ledger_in(data, account)?)
    }
}

impl Mailnet {
    /// The address of its DNS server, and the port of its mail hosts.
    pub fn engine(&self) -> (&str, &str) {
        (&self.dns, &self.smtp_port)
    }

    /// Kills the process at once.
    pub fn kill(self) {
        drop(self.server);
    }

    /// Ends the process and returns its counts.
    pub fn stop(mut self) -> Result<Value, Failure> {
        let status = self.server.end_by(Signal::TERM, START_LIMIT)?;
        let log = self.server.log()?;
        let counted = log.lines().last().and_then(|line| serde_json::from_str(line).ok());
        match counted {
            Some(counted) if status.success() => Ok(counted),
            _ => Err(Failure(format!("mailnet: {status}, and it says: {log}"))),
        }
    }

    /// Ends the process, checks that nobody broke a rule of the protocols, and returns its counts.
    pub fn end(self, tally: &mut Tally) -> Result<Value, Failure> {
        let counted = self.stop()?;
        tally.check("no rule of the protocols broken", polite(&counted));
        Ok(counted)
    }
}

/// Whether mailnet's counts have no broken rule of the protocols.
pub fn polite(counted: &Value) -> Result<String, String> {
    let violations = counted["violations"].to_string();
    if violations == "{}" { Ok("none".to_owned()) } else { Err(violations) }
}

impl Serve {
    /// Ends the process by SIGTERM, as an operator does, and waits.
    pub fn stop(mut self) -> Result<(), Failure> {
        self.terminate()
    }

    fn terminate(&mut self) -> Result<(), Failure> {
        let status = self.server.end_by(Signal::TERM, END_LIMIT)?;
        if status.success() { Ok(()) } else { Err(Failure(format!("mailprobe serve ended: {status}"))) }
    }

    /// Ends the process in order. Its log must have no panic.
    pub fn end(mut self) -> Result<String, String> {
        self.terminate()?;
        no_panic(&self.server.log()?)
    }

    /// Sends SIGTERM without waiting for the end.
    pub fn ask_to_end(&self) -> Result<(), Failure> {
        self.server.ask_to_end()
    }

    /// Kills the process with SIGKILL.
    pub fn kill(self) {
        drop(self.server);
    }

    /// An error if the process has ended.
    pub fn running(&mut self) -> Result<(), Failure> {
        self.server.running().map_err(|failure| self.server.complain(&failure.0))
    }

    /// The output since the start. Lines are buffered for a moment before they are written.
    pub fn log(&self) -> Result<String, Failure> {
        process::sleep(Duration::from_millis(300))?;
        self.server.log()
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.server.id()
    }

    /// The resident memory of the process, in KiB.
    pub fn resident_kib(&self) -> Result<u64, Failure> {
        self.server.resident_kib().ok_or_else(|| Failure("no VmRSS in /proc".into()))
    }

    /// The memory and the descriptors of the process.
    pub fn footprint(&self) -> Result<Footprint, Failure> {
        Ok(Footprint { resident_kib: self.resident_kib()?, descriptors: self.descriptors()? })
    }

    /// Waits until the server has released what clients needed: it may keep this much more memory than before, in KiB, and a few
    /// descriptors of its own. Returns the outcomes for memory and for descriptors.
    pub fn settle(&self, before: Footprint, more_kib: u64) -> Result<[Result<String, String>; 2], Failure> {
        let most_kib = before.resident_kib.saturating_add(more_kib);
        let most = before.descriptors + DESCRIPTORS_MORE_MAX;
        let (start, mut now) = (Instant::now(), self.footprint()?);
        while (now.resident_kib > most_kib || now.descriptors > most) && start.elapsed() < RELEASE_LIMIT {
            process::sleep(Duration::from_millis(500))?;
            now = self.footprint()?;
        }
        let waited = start.elapsed().as_secs();
        let [memory, open] =
            [(now.resident_kib, before.resident_kib), (now.descriptors as u64, before.descriptors as u64)]
                .map(|(now, before)| format!("{now} after {waited} s, {before} before"));
        let memory = outcome(now.resident_kib <= most_kib, format!("KiB: {memory}"));
        Ok([memory, outcome(now.descriptors <= most, open)])
    }

    /// The number of open file descriptors.
    pub fn descriptors(&self) -> Result<usize, Failure> {
        let folder = format!("/proc/{}/fd", self.server.id());
        Ok(fs::read_dir(&folder).about(&folder)?.count())
    }
}

impl Credits {
    /// Reads the credits from the JSON of `account list` or `account show`.
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

    /// The invariant of docs/storage.md: the states add up to the granted credits.
    pub fn add_up(&self) -> bool {
        self.available + self.held + self.spent + self.expired == self.granted
    }
}

impl Ledger {
    /// Reads the ledger from the JSON of `account show`.
    pub fn of(shown: &Value) -> Result<Ledger, Failure> {
        let faults = shown.pointer("/audit/faults").and_then(Value::as_array);
        let faults = faults.ok_or_else(|| Failure(format!("an account without an audit: {shown}")))?;
        Ok(Ledger {
            credits: Credits::of(&shown["account"])?,
            open_holds: shown["audit"]["open_holds"].as_u64().unwrap_or(u64::MAX),
            faults: faults.iter().map(Value::to_string).collect(),
        })
    }
}

/// An error if the log has a panic of the server; it names the source positions.
pub fn no_panic(log: &str) -> Result<String, String> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for line in log.lines().filter(|line| line.contains("panic")) {
        // The time at the start of the line is left out.
        *places.entry(line.split_once(' ').map_or(line, |(_, rest)| rest)).or_default() += 1;
    }
    if places.is_empty() {
        return Ok(format!("no panic in {} lines of log", log.lines().count()));
    }
    let lines: Vec<String> = places.iter().map(|(line, times)| format!("{times} times {line}")).collect();
    Err(lines.join("\n      "))
}

/// Points an engine at a resolver and a port. `named` also sets its EHLO name and reverse-path.
pub fn engine_flags(command: &mut Command, (dns, smtp_port): (&str, &str), named: bool) {
    command.args(["--resolver", dns, "--smtp-port", smtp_port]);
    command.args(["--allow-net", "127.0.0.0/8", "--allow-net", "::1"]);
    if named {
        command.args(["--ehlo", "probe.example", "--mail-from", "postmaster@probe.example"]);
    }
}

/// A plan with this id and without limits.
fn plan(id: &str, monthly_credits: u64) -> String {
    format!("[[plan]]\nid = \"{id}\"\nname = \"{id}\"\nmonthly_credits = {monthly_credits}\n{NO_LIMITS}")
}

/// The address at which a server listens; `None` if it ends instead.
pub fn listening(server: &mut ServerProcess) -> Result<Option<SocketAddr>, Failure> {
    let url = awaited_line(server, "listening on ")?;
    let parsed = url.map(|url| url.split("://").last().unwrap_or_default().parse()).transpose();
    parsed.map_err(|_| server.complain("listens nowhere"))
}

/// The rest of the line behind `prefix` by which a server reports that it is ready; `None` if the server ends instead.
fn awaited_line(server: &mut ServerProcess, prefix: &str) -> Result<Option<String>, Failure> {
    let mut found = None;
    let waited = wait_until("the line that says ready", START_LIMIT, || {
        let ended = server.ended()?.is_some();
        let log = server.log()?;
        // The last part may be an incomplete line.
        let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
        found = whole.lines().find_map(|line| line.strip_prefix(prefix)).map(str::to_owned);
        Ok(ended || found.is_some())
    });
    waited.map_err(|failure| server.complain(&failure.0))?;
    Ok(found)
}

/// The names of the keys of a data folder.
pub fn key_files(data: &Path) -> Result<BTreeSet<String>, Failure> {
    let folder = data.join("keys");
    let entries = fs::read_dir(&folder).at(&folder)?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect())
}

/// Copies a folder with everything in it.
pub fn copy_folder(from: &Path, to: &Path) -> Result<(), Failure> {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
    match copied {
        Ok(status) if status.success() => Ok(()),
        _ => Err(Failure(format!("cannot copy {}", from.display()))),
    }
}

/// Builds the binaries in the target folder of this binary.
pub fn build(folder: &Path, release: bool) -> Result<PathBuf, Failure> {
    let mut command = cargo();
    command.args(["build", "--package", "frontend", "--bin", "mailprobe"]);
    command.args(["--package", "mailnet", "--bin", "mailnet"]);
    if release {
        command.arg("--release");
    }
    process::run(command, "", folder, BUILD_LIMIT)?.success("cargo build")?;
    Ok(target_folder()?.join(if release { "release" } else { "debug" }))
}

/// A command of cargo in the root of the workspace.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    command
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).at(path)
}

/// The text of a file; invalid UTF-8 is replaced.
pub fn read(path: &Path) -> Result<String, Failure> {
    let bytes = fs::read(path).at(path)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
