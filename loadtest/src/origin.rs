//! Where the figures of a result come from: the date, the versions, the machine and the command.
//!
//! A result is often kept for months and sent to others. So the command is stored without keys and passwords.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use std::fs;
use std::process::{Command, Stdio};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The start of every API key.
const KEY: &str = "mp_";
/// What stands for a removed secret.
const REMOVED: &str = "...";
/// Flags with these words take a secret, unless they name a file.
const SECRET_FLAGS: [&str; 4] = ["secret", "password", "token", "pepper"];
/// The longest text of a version: the output of a program or a header of a server.
const VERSION_CHARS_MAX: usize = 100;

/// The origin of a result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// The start of the command, in UTC as RFC 3339 writes it.
    pub date: String,
    /// The version of this program.
    pub client: String,
    /// The version of the server; `None` if it does not say.
    pub server: Option<String>,
    pub machine: Machine,
    /// The command line without keys and passwords.
    pub command: String,
}

/// The machine on which this program runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The model of the processor.
    pub cpu: String,
    pub cores: usize,
    pub memory_mib: u64,
    /// The kernel with its version and architecture.
    pub kernel: String,
}

impl Origin {
    /// The origin of a result of this process, which begins now.
    pub fn now(server: Option<String>) -> Origin {
        let now = OffsetDateTime::now_utc().replace_nanosecond(0).unwrap_or(OffsetDateTime::UNIX_EPOCH);
        let words: Vec<String> =
            std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
        Origin {
            // Only years beyond 9999 have no such form.
            date: now.format(&Rfc3339).unwrap_or_default(),
            client: format!("{} {}", crate::PROGRAM, env!("CARGO_PKG_VERSION")),
            server,
            machine: Machine::this(),
            command: command(&words),
        }
    }

    /// The lines for a report: the label and the value of each.
    pub fn lines(&self) -> [(&'static str, String); 5] {
        [
            ("date", self.date.replace('T', " ").replace('Z', " UTC")),
            ("client", self.client.clone()),
            ("server", self.server.clone().unwrap_or_else(|| "unknown version".into())),
            ("machine", self.machine.to_string()),
            ("command", self.command.clone()),
        ]
    }

    /// The lines as text for a terminal.
    pub fn text(&self) -> String {
        self.lines().iter().map(|(name, value)| format!("{name:<9}{value}\n")).collect()
    }
}

impl Machine {
    /// The machine of this process.
    pub fn this() -> Machine {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let uname = rustix::system::uname();
        Machine {
            cpu: cpu(&read("/proc/cpuinfo")),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory_mib: memory_mib(&read("/proc/meminfo")),
            kernel: format!(
                "{} {} {}",
                uname.sysname().to_string_lossy(),
                uname.release().to_string_lossy(),
                uname.machine().to_string_lossy()
            ),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { cpu, cores, memory_mib, kernel } = self;
        let cores = if *cores == 1 { "1 core".into() } else { format!("{cores} cores") };
        write!(f, "{cpu}, {cores}, {:.1} GiB, {kernel}", *memory_mib as f64 / 1024.0)
    }
}

/// What `mailprobe --version` prints; `None` if the program does not run.
pub fn version_of(program: &std::path::Path) -> Option<String> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    shown(&text)
}

/// The version of a process of mailprobe. Other programs may not know `--version`, so they are not started.
pub fn version_of_process(pid: u32) -> Option<String> {
    let link = format!("/proc/{pid}/exe");
    let path = fs::read_link(&link).ok()?;
    // The name of a file that was replaced ends with " (deleted)".
    let name = path.file_name()?.to_string_lossy().into_owned();
    (name.trim_end_matches(" (deleted)") == "mailprobe").then(|| version_of(link.as_ref())).flatten()
}

/// The version in the answer to `GET /v1/openapi.json`: of the header `Server`, or else of the API.
pub fn version_of_answer(header: Option<&str>, body: &[u8]) -> Option<String> {
    let api = || {
        let description: Value = serde_json::from_slice(body).ok()?;
        Some(format!("API {}", description["info"]["version"].as_str()?))
    };
    shown(&header.map(str::to_owned).or_else(api)?)
}

/// The first line of a text from outside, with a limited length and without control characters.
fn shown(text: &str) -> Option<String> {
    let line = text.trim().lines().next()?;
    let line: String = line.chars().filter(|c| !c.is_control()).take(VERSION_CHARS_MAX).collect();
    (!line.is_empty()).then_some(line)
}

/// The command line as a shell reads it, without secrets.
fn command(words: &[String]) -> String {
    let mut shown = vec![crate::PROGRAM.to_owned()];
    let mut after_secret = false;
    for word in words.iter().skip(1) {
        let (flag, value) =
            word.split_once('=').map_or((word.as_str(), None), |(flag, value)| (flag, Some(value)));
        let takes_secret = is_secret(flag);
        shown.push(match value {
            _ if after_secret => REMOVED.to_owned(),
            Some(_) if takes_secret => format!("{flag}={REMOVED}"),
            _ => quoted(&without_secrets(word)),
        });
        after_secret = takes_secret && value.is_none();
    }
    shown.join(" ")
}

fn is_secret(flag: &str) -> bool {
    let name = flag.to_ascii_lowercase();
    name.starts_with("--") && !name.ends_with("file") && SECRET_FLAGS.iter().any(|word| name.contains(word))
}

/// Removes the keys of the API, and the name and password of a URL.
fn without_secrets(word: &str) -> String {
    let (mut out, mut rest) = (String::new(), word);
    while let Some(at) = rest.find(KEY) {
        let after = &rest[at + KEY.len()..];
        let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
        out.push_str(&rest[..at + KEY.len()]);
        out.push_str(REMOVED);
        rest = &after[end..];
    }
    out.push_str(rest);
    let Some((scheme, place)) = out.split_once("://") else { return out };
    // A password may contain a slash, so the last @ counts.
    match place.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://{REMOVED}@{host}"),
        None => out,
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,%+@[]".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    let text: String = word.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The first model name of /proc/cpuinfo. Some architectures have none.
fn cpu(cpuinfo: &str) -> String {
    let found = cpuinfo.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        matches!(name.trim(), "model name" | "Model").then(|| value.trim().to_owned())
    });
    found.filter(|name| !name.is_empty()).unwrap_or_else(|| "unknown processor".into())
}

fn memory_mib(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_no_secret() {
        let rows = [
            ("run --rate 5", "run --rate 5"),
            ("run --key-file keys/mp_live_0aZ9_x.txt", "run --key-file keys/mp_....txt"),
            ("run --key-file mp_live_secret", "run --key-file mp_..."),
            ("x mp_live_ab,mp_test_cd", "x mp_...,mp_..."),
            ("run -- --store postgres://joe:pa/ss@w0rd@db:1/x", "run -- --store postgres://...@db:1/x"),
            ("run --server https://h:1", "run --server https://h:1"),
            ("run -- --webhook-secret hush --latency 3", "run -- --webhook-secret ... --latency 3"),
            ("run -- --token=hush", "run -- --token=..."),
            ("run -- --password-file here", "run -- --password-file here"),
        ];
        for (typed, stored) in rows {
            let words: Vec<String> =
                std::iter::once("/a/b").chain(typed.split(' ')).map(str::to_owned).collect();
            assert_eq!(command(&words), format!("mailprobe-loadtest {stored}"));
        }
        let words = ["p", "a b", "it's", "", "x\ny"].map(str::to_owned);
        assert_eq!(command(&words), "mailprobe-loadtest 'a b' 'it'\\''s' '' 'x y'");
    }

    #[test]
    fn the_machine_is_read() {
        assert_eq!(
            cpu("processor\t: 0\nmodel name\t: Fast CPU @ 2 GHz\nmodel name\t: other\n"),
            "Fast CPU @ 2 GHz"
        );
        assert_eq!(cpu("processor\t: 0\n"), "unknown processor");
        assert_eq!(memory_mib("MemFree: 5 kB\nMemTotal:       24586492 kB\n"), 24010);
        let this = Machine::this();
        assert!(this.cores > 0 && this.memory_mib > 0 && this.kernel.starts_with("Linux "), "{this}");
    }

    #[test]
    fn versions_are_one_line() {
        let body = br#"{"openapi":"3.1.0","info":{"title":"x","version":"1.0.0"},"paths":{}}"#;
        assert_eq!(version_of_answer(None, body).as_deref(), Some("API 1.0.0"));
        assert_eq!(version_of_answer(Some("nginx/1.2"), body).as_deref(), Some("nginx/1.2"));
        assert_eq!(version_of_answer(None, b"{}"), None);
        assert_eq!(shown(" a\x1b[1m\nb").as_deref(), Some("a[1m"));
        assert_eq!(shown(&"x".repeat(999)).map(|text| text.len()), Some(VERSION_CHARS_MAX));
        assert_eq!(version_of_process(std::process::id()), None, "this is not mailprobe");
        let origin = Origin::now(None);
        assert!(origin.date.len() == 20 && origin.date.ends_with('Z'), "{}", origin.date);
    }
}
