//! The three ways to ask mailprobe: `check`, `clean` and the HTTP API, all from the probe's namespace.

use super::Failure;
use super::net::{Net, RESOLVER, Space};
use super::process::{Server, interrupted, wait_until};
use super::servers::write;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A `check` or `clean` of all cases that takes longer hangs: a line of a list may wait ten minutes for its server.
const RUN_LIMIT: Duration = Duration::from_secs(780);
const SERVE_LIMIT: Duration = Duration::from_secs(30);
/// A release build from nothing on two cores.
const BUILD_LIMIT: Duration = Duration::from_secs(1500);
const LISTEN: &str = "127.0.0.1:8025";
/// Calls under way at once; the order of their ends is nobody's business.
const API_CALLS: usize = 8;

/// What was said about one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// `deliverable`.
    pub deliverable: bool,
    /// `reason`.
    pub reason: String,
}

/// What was said, by address as asked.
pub type Answers = HashMap<String, Said>;

/// What one way of asking brought.
#[derive(Default)]
pub struct Round {
    /// The answers.
    pub answers: Answers,
    /// What went wrong beside them: calls that failed, panics.
    pub complaints: Vec<String>,
}

impl Round {
    fn new(answers: Answers, log: &str) -> Round {
        Round { answers, complaints: panics(log) }
    }
}

/// The lines of a log that tell of a panic: caught or not, a peer must never cause one.
pub fn panics(log: &str) -> Vec<String> {
    let mut lines = log.lines();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        if line.contains("panicked at") {
            found.push(format!("{line} {}", lines.next().unwrap_or_default()));
        }
    }
    found
}

/// The binary under test with the flags that point its engine at our world.
pub struct Mailprobe<'a> {
    net: &'a Net,
    /// Its path.
    pub binary: PathBuf,
    /// The engine's flags.
    pub engine: Vec<String>,
}

impl<'a> Mailprobe<'a> {
    /// Drives `binary` with our resolver and leave to contact our private addresses.
    pub fn new(net: &'a Net, binary: PathBuf, more: &[String]) -> Mailprobe<'a> {
        let resolver = format!("{RESOLVER}:53");
        let ours = ["--resolver", &resolver, "--allow-net", "10.76.0.0/14", "--allow-net", "fd77::/64"];
        let name = ["--ehlo", "probe.example", "--mail-from", "postmaster@probe.example"];
        let engine = ours.into_iter().chain(name).map(str::to_owned).chain(more.iter().cloned()).collect();
        Mailprobe { net, binary, engine }
    }

    /// `mailprobe check ADDRESS... --json`.
    pub fn check(&self, addresses: &[&str]) -> Result<Round, Failure> {
        let mut command = self.net.command(Space::Probe, &self.binary);
        command.arg("check").args(addresses).arg("--json").args(&self.engine);
        let finished = self.net.run(command, "", RUN_LIMIT)?;
        let log = finished.stderr.clone();
        let output = finished.success("mailprobe check")?;
        let answers = output.lines().filter(|line| !line.is_empty()).map(answer_of_json);
        Ok(Round::new(answers.collect::<Result<Answers, Failure>>()?, &log))
    }

    /// `mailprobe clean` on a CSV with the addresses in its second column.
    pub fn clean(&self, addresses: &[&str]) -> Result<Round, Failure> {
        let (input, output) = (self.net.folder.join("list.csv"), self.net.folder.join("cleaned.csv"));
        write_list(&input, addresses)?;
        let mut command = self.net.command(Space::Probe, &self.binary);
        command.args(["clean", "--format", "csv", "--column", "email", "--no-progress", "-o"]);
        command.arg(&output).arg(&input).args(&self.engine);
        let finished = self.net.run(command, "", RUN_LIMIT)?;
        let log = finished.stderr.clone();
        finished.success("mailprobe clean")?;
        Ok(Round::new(read_cleaned(&output)?, &log))
    }

    /// `mailprobe serve` on an empty data folder, asked with its first live key.
    pub fn api(&self, addresses: &[&str]) -> Result<Round, Failure> {
        let data = self.net.folder.join("data-of-serve");
        let mut command = self.net.command(Space::Probe, &self.binary);
        command.args(["serve", "--listen", LISTEN, "--data"]).arg(&data).args(&self.engine);
        let mut server = Server::start("mailprobe serve", command, &self.net.folder.join("serve.log"))?;
        let waited = wait_until("mailprobe serve", SERVE_LIMIT, || {
            server.running()?;
            Ok(self.net.listens(Space::Probe, LISTEN)? && data.join("first-keys").exists())
        });
        if let Err(failure) = waited {
            return Err(server.complain(&failure.0));
        }
        let round = live_key(&data).and_then(|key| self.call_all(&key, addresses));
        let mut round = round.map_err(|failure| server.complain(&failure.0))?;
        round.complaints.extend(panics(&server.log()?));
        let status = server.terminate(SERVE_LIMIT)?;
        if !status.success() {
            round.complaints.push(format!("after SIGTERM: {status}"));
        }
        Ok(round)
    }

    fn call_all(&self, key: &str, addresses: &[&str]) -> Result<Round, Failure> {
        let (next, round) = (AtomicUsize::new(0), Mutex::new(Round::default()));
        let work = || {
            while let Some(address) = addresses.get(next.fetch_add(1, Ordering::Relaxed)) {
                interrupted()?;
                let called = self.call(key, address);
                let mut round = round.lock().unwrap_or_else(PoisonError::into_inner);
                match called {
                    Ok((address, said)) => drop(round.answers.insert(address, said)),
                    // The case fails for want of an answer; the others go on.
                    Err(Failure(message)) => round.complaints.push(format!("{address}: {message}")),
                }
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let calls: Vec<_> = (0..API_CALLS).map(|_| scope.spawn(work)).collect();
            calls.into_iter().try_for_each(|call| {
                call.join().unwrap_or_else(|_| Err(Failure("a thread of the API driver panicked".into())))
            })
        })?;
        Ok(round.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// `POST /v1/verify` by curl, which takes its orders from standard input: no key stands in a process list.
    fn call(&self, key: &str, address: &str) -> Result<(String, Said), Failure> {
        let body = serde_json::json!({ "email": address }).to_string();
        let quoted = body.replace('\\', "\\\\").replace('"', "\\\"");
        let orders = format!(
            "url = \"http://{LISTEN}/v1/verify\"\nheader = \"Authorization: Bearer {key}\"\n\
             header = \"Content-Type: application/json\"\ndata = \"{quoted}\"\n\
             silent\nshow-error\nfail-with-body\nmax-time = 180\n"
        );
        let mut command = self.net.command(Space::Probe, "curl");
        command.args(["--disable", "--config", "-"]);
        let answer = self.net.run(command, &orders, RUN_LIMIT)?.success("curl")?;
        answer_of_json(&answer)
    }
}

/// The binary next to this one: built for release, since figures of another build say nothing.
pub fn build(net: &Net) -> Result<PathBuf, Failure> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["build", "--release", "--package", "frontend", "--bin", "mailprobe"]);
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    net.run(command, "", BUILD_LIMIT)?.success("cargo build")?;
    let this = std::env::current_exe().map_err(|error| Failure(format!("where am I: {error}")))?;
    let target = this.parent().and_then(Path::parent).ok_or_else(|| Failure("no target folder".into()))?;
    Ok(target.join("release/mailprobe"))
}

/// Writes a CSV of the addresses beside a number each.
pub fn write_list(path: &Path, addresses: &[&str]) -> Result<(), Failure> {
    let mut list = String::from("number,email\n");
    for (number, address) in addresses.iter().enumerate() {
        list.push_str(&format!("{number},{address}\n"));
    }
    write(path, &list)
}

/// Reads what `clean` made of a list of [`write_list`].
pub fn read_cleaned(path: &Path) -> Result<Answers, Failure> {
    let wrong = |problem: &dyn std::fmt::Display| Failure(format!("{}: {problem}", path.display()));
    let mut reader = csv::Reader::from_path(path).map_err(|error| wrong(&error))?;
    let headers = reader.headers().map_err(|error| wrong(&error))?.clone();
    let column = |name: &str| {
        headers.iter().position(|header| header == name).ok_or_else(|| wrong(&format!("no column {name}")))
    };
    let (email, deliverable, reason) = (column("email")?, column("deliverable")?, column("reason")?);
    column("number")?;
    let mut answers = Answers::new();
    for row in reader.records() {
        let row = row.map_err(|error| wrong(&error))?;
        let field = |index: usize| row.get(index).unwrap_or_default().to_owned();
        let deliverable = field(deliverable).parse().map_err(|error| wrong(&error))?;
        let said = Said { deliverable, reason: field(reason) };
        if answers.insert(field(email), said).is_some() {
            return Err(wrong(&format!("{} stands there twice", field(email))));
        }
    }
    Ok(answers)
}

fn answer_of_json(line: &str) -> Result<(String, Said), Failure> {
    let wrong = || Failure(format!("no answer: {line}"));
    let value: serde_json::Value = serde_json::from_str(line).map_err(|_| wrong())?;
    let email = value.get("email").and_then(|email| email.as_str()).ok_or_else(wrong)?;
    let deliverable =
        value.get("deliverable").and_then(|deliverable| deliverable.as_bool()).ok_or_else(wrong)?;
    let reason = value.get("reason").and_then(|reason| reason.as_str()).ok_or_else(wrong)?;
    Ok((email.to_owned(), Said { deliverable, reason: reason.to_owned() }))
}

/// The live key among the first keys of a data folder.
fn live_key(data: &Path) -> Result<String, Failure> {
    let path = data.join("first-keys");
    let text = fs::read_to_string(&path).map_err(|error| Failure(format!("{}: {error}", path.display())))?;
    let key = text
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .find(|word| word.starts_with("mp_live_"));
    key.map(str::to_owned).ok_or_else(|| Failure(format!("{}: no live key", path.display())))
}
