//! A private world: processes of mailnet and `mailprobe serve`, in a temporary folder.
//!
//! Both processes are ended by their pid, and the folder is removed, at any end of the run, also by a second signal
//! (leftovers.rs).

use crate::leftovers::{self, Folder};
use crate::load::Target;
use crate::origin::version_of;
use crate::peer::{Peer, ServerPlace};
use crate::sampler::Watched;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

const START_LIMIT: Duration = Duration::from_secs(60);
/// The time limit of a drain: a check under way may take a minute.
const END_LIMIT: Duration = Duration::from_secs(90);
/// The credits of the account, more than a run can spend.
const CREDITS: u64 = 1_000_000_000;

/// The files of the server's certificate and its key.
const CERTIFICATE: &str = "cert.pem";
const KEY: &str = "key.pem";

/// A plan with limits that are never reached.
const PLANS: &str = include_str!("plans.toml");

/// The binaries and the scenario of a world.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The folder of `mailprobe` and `mailnet`.
    pub bin_dir: PathBuf,
    /// The text of mailnet's scenario.
    pub scenario: String,
    /// Further flags for `mailprobe serve` or `clean`.
    pub flags: Vec<String>,
    /// Whether the server gets a certificate and speaks HTTPS.
    pub https: bool,
    /// The certificates of private authorities, if the flags set a certificate of the server.
    pub ca: Option<PathBuf>,
}

/// A process that ends with its guard.
pub struct Process {
    child: Child,
    name: &'static str,
    log: PathBuf,
    out: Option<BufReader<ChildStdout>>,
}

/// A running process of mailnet.
pub struct Mailnet {
    process: Process,
    dns: String,
    smtp_port: String,
}

/// The final counts of mailnet.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counted {
    pub sessions: f64,
    pub sessions_peak: f64,
    pub sessions_tls: f64,
    pub rcpt: f64,
    pub dns: f64,
}

/// A folder with a mail internet, and servers or lists that use it.
pub struct World {
    folder: Folder,
    setting: Setting,
    mailnet: Option<Mailnet>,
    server: Option<Process>,
}

impl World {
    /// Starts mailnet.
    ///
    /// # Errors
    ///
    /// One line: the folder or the process could not be created.
    pub fn start(setting: Setting) -> Result<World, String> {
        let folder = Folder::new()?;
        write(&folder.path().join("mailnet.toml"), &setting.scenario)?;
        write(&folder.path().join("plans.toml"), PLANS)?;
        let mut command = Command::new(setting.bin_dir.join("mailnet"));
        command.arg("--scenario").arg(folder.path().join("mailnet.toml"));
        let mut process = Process::start("mailnet", command, &folder.path().join("mailnet.log"))?;
        let line = process.ready("dns ")?;
        let words: Vec<&str> = line.split(' ').collect();
        let (Some(dns), Some(port)) = (words.first(), words.get(2)) else {
            return Err(format!("mailnet printed an unknown line: {line}"));
        };
        let mailnet = Mailnet { dns: (*dns).to_owned(), smtp_port: (*port).to_owned(), process };
        Ok(World { folder, setting, mailnet: Some(mailnet), server: None })
    }

    /// Starts `mailprobe serve` and creates an account with a key.
    ///
    /// # Errors
    ///
    /// One line: the server or a command failed.
    pub fn serve(&mut self) -> Result<Target, String> {
        let mut command = self.mailprobe("serve")?;
        command.args(["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]);
        command.args(["--connections", "100000", "--connections-per-peer", "0"]);
        command.arg("--config").arg(self.path("plans.toml")).arg("--data").arg(self.path("data"));
        if self.setting.https {
            self.write_certificate()?;
            command.arg("--tls-cert").arg(self.path(CERTIFICATE)).arg("--tls-key").arg(self.path(KEY));
        }
        command.args(&self.setting.flags);
        let mut process = Process::start("mailprobe serve", command, &self.path("serve.log"))?;
        let metrics = process.ready("metrics: http://")?;
        let metrics = metrics.trim_end_matches("/metrics").parse().ok();
        let listening = process.ready("listening on ")?;
        let place: ServerPlace =
            listening.parse().map_err(|error| format!("mailprobe serve listens nowhere: {error}"))?;
        let own = self.path(CERTIFICATE);
        let ca = if self.setting.https { Some(own.as_path()) } else { self.setting.ca.as_deref() };
        let mut server = Peer::of(&place, ca)?;
        server.check()?;
        let pid = process.child.id();
        self.server = Some(process);
        let account = Administrator { mailprobe: self.binary("mailprobe"), data: self.path("data") };
        let key = account.key("loadtest", Some("loadtest"))?;
        let mailnet = self.mailnet.as_ref().map(|mailnet| mailnet.process.pid());
        let watched = Watched { pid: Some(pid), metrics, mailnet };
        let version = version_of(&self.binary("mailprobe"));
        Ok(Target { server, host: place.authority, keys: vec![key], watched, version })
    }

    /// Creates a certificate for loopback, which is its own authority.
    fn write_certificate(&self) -> Result<(), String> {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()])
            .map_err(|error| format!("cannot create a certificate: {error}"))?;
        write(&self.path(CERTIFICATE), &made.cert.pem())?;
        write(&self.path(KEY), &made.signing_key.serialize_pem())
    }

    /// `mailprobe NAME` with the flags that point its engine at this world.
    ///
    /// # Errors
    ///
    /// mailnet has been stopped.
    pub fn mailprobe(&self, name: &str) -> Result<Command, String> {
        let mailnet = self.mailnet.as_ref().ok_or("mailnet has been stopped")?;
        let mut command = Command::new(self.binary("mailprobe"));
        command.arg(name).args(["--resolver", &mailnet.dns, "--smtp-port", &mailnet.smtp_port]);
        command.args(["--allow-net", "127.0.0.0/8", "--pace", "lab"]);
        command.args(["--ehlo", "probe.example", "--mail-from", "postmaster@probe.example"]);
        command.env("MAILPROBE_STATE", "none");
        Ok(command)
    }

    /// The further flags of the setting.
    pub fn flags(&self) -> &[String] {
        &self.setting.flags
    }

    /// The path of a file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Ends the server by SIGTERM, then mailnet; returns the counts of mailnet.
    ///
    /// # Errors
    ///
    /// One line: one of them failed.
    pub fn stop(mut self) -> Result<Counted, String> {
        if let Some(server) = self.server.take() {
            server.terminate(END_LIMIT)?;
        }
        let mailnet = self.mailnet.take().ok_or("mailnet has been stopped")?;
        let said = mailnet.process.terminate(START_LIMIT)?;
        let counted: Value = serde_json::from_str(said.lines().last().unwrap_or_default())
            .map_err(|error| format!("mailnet's counters: {error}"))?;
        let number = |name: &str| counted[name].as_f64().unwrap_or(0.0);
        let dns = |kind: &str| counted["dns"][kind].as_f64().unwrap_or(0.0);
        Ok(Counted {
            sessions: number("sessions"),
            sessions_peak: number("sessions_peak"),
            sessions_tls: number("sessions_tls"),
            rcpt: number("rcpt"),
            dns: dns("udp") + dns("tcp"),
        })
    }

    fn binary(&self, name: &str) -> PathBuf {
        self.setting.bin_dir.join(name)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // The server ends first: without its mail internet it would wait.
        self.server = None;
    }
}

/// `mailprobe account` and `mailprobe key` on a data folder, whose server may run.
pub struct Administrator {
    pub mailprobe: PathBuf,
    pub data: PathBuf,
}

impl Administrator {
    /// Creates an account with limits that are never reached, and a live key. Without a plan for that the account gets
    /// its own limits.
    ///
    /// # Errors
    ///
    /// One line: a command failed.
    pub fn key(&self, account: &str, plan: Option<&str>) -> Result<String, String> {
        self.run(&["account", "create", account, "--plan", plan.unwrap_or("free")])?;
        self.run(&["account", "grant", account, &CREDITS.to_string(), "--note", "load test"])?;
        if plan.is_none() {
            let most = "1000000000";
            let names =
                ["fast", "verify", "batch", "poll", "account", "fair-use-per-second", "fair-use-burst"];
            let flags: Vec<String> = names.iter().map(|name| format!("--{name}={most}")).collect();
            let words =
                ["account", "set-limits", account].into_iter().chain(flags.iter().map(String::as_str));
            self.run(&words.collect::<Vec<_>>())?;
        }
        let made = self.run(&["key", "create", account, "--label", "load test"])?;
        made["key"].as_str().map(str::to_owned).ok_or_else(|| "key create: the answer has no key".to_owned())
    }

    fn run(&self, words: &[&str]) -> Result<Value, String> {
        let name = words[..2.min(words.len())].join(" ");
        let output = Command::new(&self.mailprobe)
            .args(words)
            .arg("--json")
            .arg("--data")
            .arg(&self.data)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("{}: {error}", self.mailprobe.display()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("mailprobe {name}: {}", said.trim()));
        }
        serde_json::from_slice(&output.stdout).map_err(|error| format!("mailprobe {name}: {error}"))
    }
}

impl Process {
    /// Starts a process; its standard error goes to `log`.
    ///
    /// # Errors
    ///
    /// One line: the program cannot be started.
    pub fn start(name: &'static str, mut command: Command, log: &Path) -> Result<Process, String> {
        let errors = File::create(log).map_err(|error| format!("{}: {error}", log.display()))?;
        let program = command.get_program().to_string_lossy().into_owned();
        let mut leftovers = leftovers::locked();
        let mut child = command
            .stdin(Stdio::null())
            // Ctrl-C at the terminal is for the load test, which ends its processes in order.
            .process_group(0)
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .map_err(|error| format!("{program}: {error}; set the folder of the programs with --bin-dir"))?;
        leftovers.add(child.id());
        let out = child.stdout.take().map(BufReader::new);
        Ok(Process { child, name, log: log.to_owned(), out })
    }

    /// The process id of this process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended with success.
    ///
    /// # Errors
    ///
    /// One line: the status is unknown, or is a failure.
    pub fn ended(&mut self) -> Result<bool, String> {
        let ended = {
            let mut leftovers = leftovers::locked();
            let ended = self.child.try_wait();
            if matches!(ended, Ok(Some(_))) {
                leftovers.forget(self.child.id());
            }
            ended
        };
        match ended {
            Ok(None) => Ok(false),
            Ok(Some(status)) if status.success() => Ok(true),
            Ok(Some(status)) => Err(self.complain(&format!("ended: {status}"))),
            Err(error) => Err(format!("{}: {error}", self.name)),
        }
    }

    /// The rest of the first line with this prefix.
    fn ready(&mut self, prefix: &'static str) -> Result<String, String> {
        let Some(mut out) = self.out.take() else { return Err(format!("{} has no output", self.name)) };
        let (sender, receiver) = channel();
        thread::spawn(move || {
            let mut line = String::new();
            while out.read_line(&mut line).is_ok_and(|count| count > 0) {
                if let Some(rest) = line.trim_end().strip_prefix(prefix) {
                    // The receiver may have given up.
                    let _ = sender.send((rest.to_owned(), out));
                    return;
                }
                line.clear();
            }
        });
        match receiver.recv_timeout(START_LIMIT) {
            Ok((rest, out)) => {
                self.out = Some(out);
                Ok(rest)
            }
            Err(RecvTimeoutError::Timeout) => Err(self.complain("did not become ready in time")),
            Err(RecvTimeoutError::Disconnected) => Err(self.complain("ended before it was ready")),
        }
    }

    /// Sends SIGTERM and waits; returns the remaining output.
    fn terminate(mut self, limit: Duration) -> Result<String, String> {
        self.signal(Signal::TERM);
        let until = Instant::now() + limit;
        while !self.ended()? {
            if Instant::now() > until {
                return Err(format!("{} does not end", self.name));
            }
            thread::sleep(Duration::from_millis(20));
        }
        let mut said = String::new();
        if let Some(mut out) = self.out.take() {
            out.read_to_string(&mut said).map_err(|error| format!("{}: {error}", self.name))?;
        }
        Ok(said)
    }

    fn signal(&self, signal: Signal) {
        // It may have ended; it is not reaped yet, so the pid is still its own.
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process(pid, signal);
        }
    }

    fn complain(&self, why: &str) -> String {
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        let last: Vec<&str> = said.lines().rev().take(5).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        format!("{} {why}: {}", self.name, last.join(" | "))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both calls fail if the process has already ended.
        let mut leftovers = leftovers::locked();
        let _ = self.child.kill();
        let _ = self.child.wait();
        leftovers.forget(self.child.id());
    }
}

/// Writes a file of the folder.
///
/// # Errors
///
/// One line that names the file.
pub fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
