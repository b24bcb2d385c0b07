//! The three interfaces of mailprobe: `check`, `clean` and the HTTP API, all from the probe's namespace.

use super::net::{Net, NetNamespace, RESOLVER};
use super::process::{ServerProcess, interrupted, sleep, target_folder, wait_until};
use super::servers::write;
use crate::failure::{Context, Failure, thread_result};
use crate::soak::world::cargo;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The time limit of a `check` or `clean` of all cases: a row of a list may wait ten minutes for its server.
const RUN_LIMIT: Duration = Duration::from_secs(780);
const SERVE_LIMIT: Duration = Duration::from_secs(30);
/// The time limit of a release build from an empty target folder on two cores.
const BUILD_LIMIT: Duration = Duration::from_secs(1500);
const LISTEN: &str = "127.0.0.1:8025";
/// The first port of servers that take batches.
const FIRST_PORT_OF_BATCHES: usize = 8026;
/// The pause between two requests for the state of a batch.
const POLL: Duration = Duration::from_secs(3);
/// How much longer than their wait lists and batches may take.
const WAIT_OVERTIME: Duration = Duration::from_secs(90);
/// How many requests are under way at once; their order does not matter.
const API_CALLS: usize = 8;

/// The verdict about one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressAnswer {
    /// The field `deliverable` of the answer.
    pub deliverable: bool,
    /// The field `reason` of the answer.
    pub reason: String,
}

/// The verdicts by the address of the request.
pub type AnswersByAddress = HashMap<String, AddressAnswer>;

/// The results of one interface for all cases.
#[derive(Default)]
pub struct Round {
    /// The verdicts that were given.
    pub answers: AnswersByAddress,
    /// Faults other than verdicts: failed requests, panics.
    pub complaints: Vec<String>,
}

impl Round {
    fn new(answers: AnswersByAddress, log: &str) -> Round {
        Round { answers, complaints: panics(log) }
    }
}

/// The lines of a log that report a panic. A peer must never cause one, even if it is caught.
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

/// The binary under test, with flags that point its engine at the servers of the run.
pub struct Mailprobe<'a> {
    net: &'a Net,
    /// The path of the binary.
    pub binary: PathBuf,
    /// The flags of the engine.
    pub engine: Vec<String>,
}

impl<'a> Mailprobe<'a> {
    /// Uses `binary` with our resolver and permission to contact our private addresses.
    pub fn new(net: &'a Net, binary: PathBuf, more: &[String]) -> Mailprobe<'a> {
        let resolver = format!("{RESOLVER}:53");
        let ours = ["--resolver", &resolver, "--allow-net", "10.76.0.0/14", "--allow-net", "fd77::/64"];
        let name = ["--ehlo", "probe.example", "--mail-from", "postmaster@probe.example"];
        let engine = ours.into_iter().chain(name).map(str::to_owned).chain(more.iter().cloned()).collect();
        Mailprobe { net, binary, engine }
    }

    /// Runs `mailprobe check ADDRESS... --json`.
    ///
    /// # Errors
    ///
    /// The command fails, takes too long, or its output cannot be read. This applies to all functions here.
    pub fn check(&self, addresses: &[&str]) -> Result<Round, Failure> {
        let mut command = self.command("check");
        command.arg("check").args(addresses).arg("--json").args(&self.engine);
        let finished = self.net.run(command, "", RUN_LIMIT)?;
        let log = finished.stderr.clone();
        let output = finished.success("mailprobe check")?;
        let answers = output.lines().filter(|line| !line.is_empty()).map(answer_of_json);
        Ok(Round::new(answers.collect::<Result<AnswersByAddress, Failure>>()?, &log))
    }

    /// Runs `mailprobe clean` on a CSV with the addresses in its second column.
    pub fn clean(&self, addresses: &[&str]) -> Result<Round, Failure> {
        self.clean_list("list", addresses, &[], RUN_LIMIT)
    }

    /// Does the same for a list whose rows may wait for `wait_s` seconds.
    pub fn clean_patiently(&self, number: usize, addresses: &[&str], wait_s: u32) -> Result<Round, Failure> {
        let limit = Duration::from_secs(u64::from(wait_s)) + WAIT_OVERTIME;
        let wait = wait_s.to_string();
        self.clean_list(&format!("list-patient-{number}"), addresses, &["--max-wait", &wait], limit)
    }

    fn clean_list(
        &self,
        name: &str,
        addresses: &[&str],
        more: &[&str],
        limit: Duration,
    ) -> Result<Round, Failure> {
        let file = |ending: &str| self.net.folder.join(format!("{name}{ending}"));
        let (input, output) = (file(".csv"), file(".cleaned.csv"));
        write_list(&input, addresses)?;
        let mut command = self.command(name);
        command.args(["clean", "--format", "csv", "--column", "email", "--no-progress", "--force", "-o"]);
        command.arg(&output).arg(&input).args(more).args(&self.engine);
        let finished = self.net.run(command, "", limit)?;
        let log = finished.stderr.clone();
        finished.success("mailprobe clean")?;
        Ok(Round::new(read_cleaned(&output)?, &log))
    }

    /// A command of `mailprobe` in the probe's namespace. Its state is in the folder of the run; commands that run at
    /// once must have different values of `state`.
    pub fn command(&self, state: &str) -> Command {
        let mut command = self.net.command(NetNamespace::Probe, &self.binary);
        command.env_remove("MAILPROBE_STATE");
        command.env("XDG_STATE_HOME", self.net.folder.join(format!("state-{state}")));
        command
    }

    /// Runs `mailprobe serve` on an empty data folder, and sends requests with its first live key.
    pub fn api(&self, addresses: &[&str]) -> Result<Round, Failure> {
        self.serve("serve", LISTEN, &[], |key| self.call_all(key, addresses))
    }

    /// Starts `mailprobe serve`, calls a closure with its first live key, and ends it.
    fn serve(
        &self,
        name: &str,
        listen: &str,
        more: &[&str],
        ask: impl FnOnce(&str) -> Result<Round, Failure>,
    ) -> Result<Round, Failure> {
        let data = self.net.folder.join(format!("data-of-{name}"));
        let mut command = self.command(name);
        command.args(["serve", "--listen", listen, "--data"]).arg(&data).args(more).args(&self.engine);
        let log = self.net.folder.join(format!("{name}.log"));
        let mut server = ServerProcess::start("mailprobe serve", command, &log)?;
        let waited = wait_until("mailprobe serve", SERVE_LIMIT, || {
            server.running()?;
            Ok(self.net.listens(NetNamespace::Probe, listen)? && data.join("first-keys").exists())
        });
        if let Err(failure) = waited {
            return Err(server.complain(&failure.0));
        }
        let round = first_key(&data, "live").and_then(|key| ask(&key));
        let mut round = round.map_err(|failure| server.complain(&failure.0))?;
        round.complaints.extend(panics(&server.log()?));
        let status = server.terminate(SERVE_LIMIT)?;
        if !status.success() {
            round.complaints.push(format!("after SIGTERM: {status}"));
        }
        Ok(round)
    }

    /// Sends `POST /v1/verify/batch` to a `mailprobe serve` whose batches may wait for `wait_s` seconds, and polls to
    /// the end.
    pub fn batch(&self, number: usize, addresses: &[&str], wait_s: u32) -> Result<Round, Failure> {
        let listen = format!("127.0.0.1:{}", FIRST_PORT_OF_BATCHES + number);
        let (name, wait) = (format!("serve-batch-{number}"), wait_s.to_string());
        self.serve(&name, &listen, &["--batch-wait", &wait], |key| {
            let body = serde_json::json!({ "emails": addresses }).to_string();
            let created = self.http(&listen, key, "/v1/verify/batch", Some(&body))?;
            let id = text_of(&created, "batch_id")?;
            let path = format!("/v1/verify/batch/{id}");
            let mut answers = None;
            let limit = Duration::from_secs(u64::from(wait_s)) + WAIT_OVERTIME;
            wait_until("the batch", limit, || {
                sleep(POLL)?;
                let polled = self.http(&listen, key, &path, None)?;
                let is_completed = text_of(&polled, "status")? == "completed";
                answers = is_completed.then_some(polled);
                Ok(is_completed)
            })?;
            Ok(Round::new(answers_of_batch(&answers.unwrap_or_default())?, ""))
        })
    }

    /// Sends one request by curl and returns the body of the answer. See [`Mailprobe::call`].
    fn http(&self, listen: &str, key: &str, path: &str, body: Option<&str>) -> Result<String, Failure> {
        let data = body.map_or(String::new(), |body| {
            let quoted = body.replace('\\', "\\\\").replace('"', "\\\"");
            format!("header = \"Content-Type: application/json\"\ndata = \"{quoted}\"\n")
        });
        let orders = format!(
            "url = \"http://{listen}{path}\"\nheader = \"Authorization: Bearer {key}\"\n{data}\
             silent\nshow-error\nfail-with-body\nmax-time = 180\n"
        );
        let mut command = self.net.command(NetNamespace::Probe, "curl");
        command.args(["--disable", "--config", "-"]);
        self.net.run(command, &orders, RUN_LIMIT)?.success("curl")
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
                    // This case fails because it has no verdict; the others continue.
                    Err(Failure(message)) => round.complaints.push(format!("{address}: {message}")),
                }
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let calls: Vec<_> = (0..API_CALLS).map(|_| scope.spawn(work)).collect();
            calls.into_iter().try_for_each(|call| thread_result(call.join(), "a thread of the API driver"))
        })?;
        Ok(round.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sends `POST /v1/verify` by curl. curl reads its options from standard input, so that no key is in a process
    /// list.
    fn call(&self, key: &str, address: &str) -> Result<(String, AddressAnswer), Failure> {
        let body = serde_json::json!({ "email": address }).to_string();
        answer_of_json(&self.http(LISTEN, key, "/v1/verify", Some(&body))?)
    }
}

/// Builds the binary in the target folder of this one, in release mode, since figures of another build mean nothing.
pub fn build(net: &Net) -> Result<PathBuf, Failure> {
    let mut command = cargo();
    command.args(["build", "--release", "--package", "frontend", "--bin", "mailprobe"]);
    net.run(command, "", BUILD_LIMIT)?.success("cargo build")?;
    Ok(target_folder()?.join("release/mailprobe"))
}

/// Writes a CSV of the addresses with a number for each.
pub fn write_list(path: &Path, addresses: &[&str]) -> Result<(), Failure> {
    let mut list = String::from("number,email\n");
    for (number, address) in addresses.iter().enumerate() {
        list.push_str(&format!("{number},{address}\n"));
    }
    write(path, &list)
}

/// Reads the output of `clean` for a list of [`write_list`].
pub fn read_cleaned(path: &Path) -> Result<AnswersByAddress, Failure> {
    let mut reader = csv::Reader::from_path(path).at(path)?;
    let headers = reader.headers().at(path)?.clone();
    let column = |name: &str| {
        headers.iter().position(|header| header == name).ok_or(format!("no column {name}")).at(path)
    };
    let (email, deliverable, reason) = (column("email")?, column("deliverable")?, column("reason")?);
    column("number")?;
    let mut answers = AnswersByAddress::new();
    for row in reader.records() {
        let row = row.at(path)?;
        let field = |index: usize| row.get(index).unwrap_or_default().to_owned();
        let deliverable = field(deliverable).parse().at(path)?;
        let said = AddressAnswer { deliverable, reason: field(reason) };
        if answers.insert(field(email), said).is_some() {
            return Err(format!("{} occurs twice", field(email))).at(path);
        }
    }
    Ok(answers)
}

/// A text field of a JSON object.
fn text_of(json: &str, field: &str) -> Result<String, Failure> {
    let value: Option<serde_json::Value> = serde_json::from_str(json).ok();
    let text = value.as_ref().and_then(|value| value.get(field)).and_then(|text| text.as_str());
    text.map(str::to_owned).ok_or_else(|| Failure(format!("no {field} in: {json}")))
}

/// The rows of a completed batch.
fn answers_of_batch(json: &str) -> Result<AnswersByAddress, Failure> {
    let value: serde_json::Value = serde_json::from_str(json).about("the batch")?;
    let rows = value.get("results").and_then(|rows| rows.as_array());
    let rows = rows.ok_or_else(|| Failure(format!("a batch without results: {json}")))?;
    rows.iter().map(|row| answer_of_value(row, json)).collect()
}

fn answer_of_json(line: &str) -> Result<(String, AddressAnswer), Failure> {
    let value = serde_json::from_str(line).map_err(|_| Failure(format!("no answer: {line}")))?;
    answer_of_value(&value, line)
}

fn answer_of_value(value: &serde_json::Value, line: &str) -> Result<(String, AddressAnswer), Failure> {
    let wrong = || Failure(format!("no answer: {line}"));
    let email = value.get("email").and_then(|email| email.as_str()).ok_or_else(wrong)?;
    let deliverable =
        value.get("deliverable").and_then(|deliverable| deliverable.as_bool()).ok_or_else(wrong)?;
    let reason = value.get("reason").and_then(|reason| reason.as_str()).ok_or_else(wrong)?;
    Ok((email.to_owned(), AddressAnswer { deliverable, reason: reason.to_owned() }))
}

/// The key of this kind, `live` or `test`, among the first keys of a data folder.
pub fn first_key(data: &Path, kind: &str) -> Result<String, Failure> {
    let path = data.join("first-keys");
    let text = fs::read_to_string(&path).at(&path)?;
    let key =
        text.lines().find_map(|line| line.strip_prefix(kind)).ok_or(format!("no {kind} key")).at(&path)?;
    Ok(key.trim_start_matches(':').trim().to_owned())
}
