//! A process of a server, with a free port and a temporary data folder.

use crate::harness::client::{Answer, Call, Connection};
use crate::harness::scripted::{ARGUMENTS, ASKED, PROGRAM};
use crate::until;
use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};
use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// If this file is in its folder, a server's standard error is a pipe that nobody reads.
pub const UNREAD_LOG: &str = "unread-log";

/// A running server. It ends with its owner, and at the latest with the test program.
pub struct Server {
    child: Child,
    /// A shell that waits for the end of a pipe, which only the test program holds open.
    guard: Child,
    pub address: SocketAddr,
    pub live: String,
    pub test: String,
    folder: Option<TempDir>,
    launch: Launch,
    announced: Vec<String>,
}

/// What a server is started with.
#[derive(Clone)]
struct Launch {
    /// Whether the engine is scripted, or the real one.
    is_scripted: bool,
    flags: Vec<String>,
}

impl Server {
    /// Starts a server with the scripted engine and an empty data folder.
    pub fn start(flags: &[&str]) -> Server {
        Server::start_in(tempfile::tempdir().unwrap(), flags)
    }

    /// Starts a server with the scripted engine on this folder.
    pub fn start_in(folder: TempDir, flags: &[&str]) -> Server {
        Server::launch(folder, true, flags)
    }

    /// Starts a server with the scripted engine and this configuration.
    pub fn start_with(config: &str, flags: &[&str]) -> Server {
        Server::launch_with(true, &[("mailprobe.toml", config)], flags)
    }

    /// Starts a server with the real engine and these files in its folder. One is its configuration, `mailprobe.toml`.
    pub fn start_real(files: &[(&str, &str)], flags: &[&str]) -> Server {
        Server::launch_with(false, files, flags)
    }

    fn launch_with(is_scripted: bool, files: &[(&str, &str)], flags: &[&str]) -> Server {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let config = folder.path().join("mailprobe.toml");
        let flags = [&["--config", config.to_str().unwrap()], flags].concat();
        Server::launch(folder, is_scripted, &flags)
    }

    fn launch(folder: TempDir, is_scripted: bool, flags: &[&str]) -> Server {
        let flags = flags.iter().map(|&flag| flag.to_owned()).collect();
        Server::run(folder, Launch { is_scripted, flags })
    }

    fn run(folder: TempDir, launch: Launch) -> Server {
        let data = folder.path().join("data");
        let mut arguments = vec!["serve", "--data", data.to_str().unwrap()];
        if !launch.flags.iter().any(|flag| flag == "--listen") {
            arguments.extend(["--listen", "127.0.0.1:0"]);
        }
        arguments.extend(launch.flags.iter().map(String::as_str));
        let mut program = if launch.is_scripted { scripted_command(&arguments) } else { real_command() };
        if launch.is_scripted {
            program.env(ASKED, folder.path().join("asked"));
        } else {
            program.args(arguments).env_clear();
        }
        // Unless a test asks for them, no test depends on the machine.
        program.env("MAILPROBE_SELF_CHECKS", "false");
        let log = folder.path().join("log");
        let stderr = match folder.path().join(UNREAD_LOG).exists() {
            true => Stdio::piped(),
            false => std::fs::File::options().create(true).append(true).open(&log).unwrap().into(),
        };
        let authorities = folder.path().join("authorities.pem");
        if authorities.exists() {
            // For a server that must trust a host of the test.
            program.env("SSL_CERT_FILE", authorities);
        }
        let temporary = folder.path().join("temporary");
        if temporary.exists() {
            // For a server whose folder for temporary files fails.
            program.env("TMPDIR", temporary);
        }
        let mut child = program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let guard = guard(&child, &folder);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut announced = Vec::new();
        let address = loop {
            let Some(Ok(line)) = lines.next() else {
                let said = std::fs::read_to_string(&log).unwrap();
                panic!("the server did not start: {:?}: {said}", child.wait());
            };
            if let Some((_, address)) = line.split_once("listening on http") {
                break address.trim_start_matches('s').trim_start_matches("://").parse().unwrap();
            }
            announced.push(line);
        };
        let keys = std::fs::read_to_string(data.join("first-keys")).unwrap();
        let key = |name| keys.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
        Server {
            child,
            guard,
            address,
            live: key("live"),
            test: key("test"),
            folder: Some(folder),
            launch,
            announced,
        }
    }

    pub fn folder(&self) -> &Path {
        self.folder.as_ref().unwrap().path()
    }

    pub fn data(&self) -> PathBuf {
        self.folder().join("data")
    }

    /// The output at its start, before the line about its address.
    pub fn announced(&self) -> &[String] {
        &self.announced
    }

    /// The log so far. Lines are buffered for a moment before they are written.
    pub fn log(&self) -> String {
        std::thread::sleep(Duration::from_millis(300));
        std::fs::read_to_string(self.folder().join("log")).unwrap()
    }

    /// How often the engine was asked about this address.
    pub fn asked(&self, address: &str) -> usize {
        let asked = std::fs::read_to_string(self.folder().join("asked")).unwrap_or_default();
        asked.lines().filter(|line| *line == address).count()
    }

    /// A live key of another account, which is created by this call.
    pub fn stranger(&self) -> String {
        self.administer(&["account", "create", "stranger"]);
        self.administer(&["key", "create", "stranger"]).trim().to_owned()
    }

    /// The held and spent credits of the first account in the ledger, which must be consistent.
    pub fn ledger(&self) -> (u64, u64) {
        let shown = self.administer_json(&["account", "show", "default"]);
        assert_eq!(shown["audit"]["faults"].as_array().map(Vec::len), Some(0), "{shown}");
        let balance = &shown["account"]["balance"];
        (balance["held"].as_u64().unwrap(), balance["spent"].as_u64().unwrap())
    }

    pub fn connect(&self) -> Connection {
        Connection::open(self.address)
    }

    /// A connection from another address of loopback; an error if the server has ended.
    pub fn connect_from(&self, source: [u8; 4]) -> io::Result<Connection> {
        connect_from(source, self.address)
    }

    /// A connection with a client that reads in small portions.
    pub fn connect_with_small_buffers(&self) -> Connection {
        let socket = tcp();
        socket.set_recv_buffer_size(4096).unwrap();
        socket.connect(&self.address.into()).unwrap();
        Connection::over_tcp(socket.into())
    }

    /// Sends one request on a new connection.
    pub fn send(&self, request: impl AsRef<[u8]>) -> Answer {
        let mut connection = self.connect();
        connection.send(request);
        connection.read()
    }

    /// Sends one request on a new connection. Every answer has a request id.
    #[track_caller]
    pub fn call(&self, call: &Call) -> Answer {
        let answer = self.connect().call(call);
        assert!(answer.header("x-request-id").is_some_and(|id| !id.is_empty()), "{answer:?}");
        answer
    }

    pub fn get(&self, key: &str, path: &str) -> Answer {
        self.send(get(key, path))
    }

    /// A full check of this address.
    pub fn verify(&self, key: &str, email: &str) -> Answer {
        self.post(key, "/v1/verify", &json!({ "email": email }).to_string())
    }

    pub fn post(&self, key: &str, path: &str, body: &str) -> Answer {
        self.send(post(key, path, body))
    }

    /// Checks that a body with a stated length above the limit is refused unread, whether or not its sender waits for
    /// `100 Continue`. `headers` are complete lines; one of them may state the type of the body.
    pub fn refuses_a_long_body(&self, path: &str, headers: &str) {
        for consent in ["", "Expect: 100-continue\r\n"] {
            let (mut connection, began) = (self.connect(), Instant::now());
            connection.send(format!(
                "POST {path} HTTP/1.1\r\nHost: {}\r\n{headers}{consent}Content-Length: 999999999999\r\n\r\n",
                self.address
            ));
            let answer = connection.read();
            assert_eq!(answer.status, 413, "{path} {consent:?} {answer:?}");
            assert!(began.elapsed() < Duration::from_secs(5), "{path} {consent:?}: {:?}", began.elapsed());
        }
    }

    /// The remaining credits of the account.
    pub fn credits(&self) -> u64 {
        self.get(&self.live, "/v1/account").json()["credits_remaining"].as_u64().unwrap()
    }

    /// Runs an operator's command on the data folder.
    #[track_caller]
    pub fn administer(&self, arguments: &[&str]) -> String {
        let data = self.data();
        let output = mailprobe(arguments.iter().map(OsStr::new).chain(["--data".as_ref(), data.as_os_str()]));
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// As [`Server::administer`], of a command that prints JSON.
    #[track_caller]
    pub fn administer_json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.administer(&[arguments, &["--json"]].concat())).unwrap()
    }

    /// The value of a series in the metrics, such as `mailprobe_credits_spent_total`.
    #[track_caller]
    pub fn metric(&self, series: &str) -> f64 {
        metric_in(&self.administer(&["metrics"]), series)
    }

    /// Moves the server's clock and returns its time, in milliseconds since 1970.
    pub fn advance(&self, ms: u64) -> u64 {
        self.administer(&["clock", "advance", &ms.to_string()]).trim().parse().unwrap()
    }

    /// The time of the server's clock, in milliseconds since 1970.
    pub fn now(&self) -> u64 {
        self.advance(0)
    }

    /// Moves the server's clock forward to this time.
    #[track_caller]
    pub fn advance_to(&self, time: u64) {
        let now = self.now();
        self.advance(time.checked_sub(now).expect("a clock goes forward"));
    }

    pub fn signal(&self, signal: i32) {
        send_signal(&self.child, signal);
    }

    /// Waits until the log has a text this number of times.
    #[track_caller]
    pub fn logs(&self, text: &str, times: usize) {
        until(|| match self.log() {
            log if log.matches(text).count() >= times => Ok(()),
            log => Err(log),
        });
    }

    /// Waits for the end of the process.
    pub fn wait(&mut self) -> ExitStatus {
        until(|| self.child.try_wait().unwrap().ok_or_else(|| "the server runs".into()))
    }

    /// Kills the server and starts another one on its folder, with the same flags.
    pub fn restart_after_kill(self) -> Server {
        self.restart_after(libc::SIGKILL)
    }

    /// Ends the server by a signal and starts another one on its folder, with the same flags.
    pub fn restart_after(mut self, signal: i32) -> Server {
        if self.child.try_wait().unwrap().is_none() {
            self.signal(signal);
        }
        self.wait();
        Server::run(self.folder.take().unwrap(), self.launch.clone())
    }

    /// Kills the server and starts another one on its folder, with these flags.
    pub fn restart_with(mut self, flags: &[&str]) -> Server {
        self.launch.flags = flags.iter().map(|&flag| flag.to_owned()).collect();
        self.restart_after_kill()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The guard ends first: it must not kill by an id that is free again.
        for child in [&mut self.guard, &mut self.child] {
            let _ = child.kill();
            let _ = child.wait();
        }
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

/// The value of a series in a page of metrics.
#[track_caller]
pub fn metric_in(page: &str, series: &str) -> f64 {
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in {page}")).parse().unwrap()
}

fn tcp() -> Socket {
    Socket::new(Domain::IPV4, Type::STREAM, None).unwrap()
}

/// A connection from this address of loopback.
pub fn connect_from(source: [u8; 4], to: SocketAddr) -> io::Result<Connection> {
    let socket = tcp();
    socket.bind(&SocketAddr::from((source, 0)).into())?;
    socket.connect(&to.into())?;
    Ok(Connection::over_tcp(socket.into()))
}

/// Sends a signal to a process that was not waited for.
pub fn send_signal(child: &Child, signal: i32) {
    let pid = i32::try_from(child.id()).unwrap();
    // SAFETY: kill has no preconditions; the child was not waited for, so the id is still its own.
    #[expect(unsafe_code, reason = "the standard library sends no signal but SIGKILL")]
    let sent = unsafe { libc::kill(pid, signal) };
    assert_eq!(sent, 0);
}

pub fn real_command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_mailprobe"))
}

/// The test program as mailprobe with the scripted engine and these arguments.
fn scripted_command(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(PROGRAM).env(ARGUMENTS, arguments.join("\n"));
    command
}

/// Runs the real binary to its end, without the caller's environment.
pub fn mailprobe(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Output {
    finish(
        real_command().args(arguments).env_clear().env("HOME", "/nonexistent").env("MAILPROBE_STATE", "none"),
    )
}

/// Runs the real binary with an input, which must fit into a pipe.
pub fn mailprobe_with(arguments: &[&str], input: &str) -> Output {
    let mut command = real_command();
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// Runs a command with the scripted engine to its end. Standard output also has lines of the test harness.
pub fn scripted(arguments: &[&str]) -> Output {
    // Tests run in parallel, and a state file belongs to one run.
    finish(scripted_command(arguments).env("MAILPROBE_STATE", "none"))
}

/// What `check` with these arguments prints as JSON, line by line.
pub fn checked(arguments: &[&str]) -> Vec<serde_json::Value> {
    let output = scripted(&[&["check", "--json"], arguments].concat());
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn finish(command: &mut Command) -> Output {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The outputs are read during the run: they may be longer than a pipe holds.
    let (stdout, stderr) = (drain(child.stdout.take().unwrap()), drain(child.stderr.take().unwrap()));
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if began.elapsed() > Duration::from_secs(30) {
            child.kill().unwrap();
            panic!("the command does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    Output { status, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

fn drain(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

/// A GET request with a key.
pub fn get(key: &str, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {key}\r\n\r\n")
}

/// A POST request with a JSON body.
pub fn post(key: &str, path: &str, body: &str) -> String {
    post_with(key, path, "", body)
}

/// A POST request with a JSON body and further headers, each with its line end.
pub fn post_with(key: &str, path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n\
         {headers}Content-Length: {length}\r\n\r\n{body}"
    )
}
