//! The real `mailprobe clean` and `check` with a mail internet: their ends, and the data that they keep.

mod budget;
mod messages;
mod outage;
mod parts;
mod results;
mod stalls;

use mailnet::{Mailnet, Running, Scenario};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// A mail internet, and a folder for lists.
struct Desk {
    net: Running,
    folder: TempDir,
}

impl Desk {
    fn new() -> Desk {
        Desk::with("")
    }

    /// A desk whose mail internet has these further tables.
    fn with(tables: &str) -> Desk {
        let any = "127.0.0.1:0".parse().unwrap();
        let scenario = format!("{}{tables}", include_str!("scenario.toml"));
        let scenario = Scenario::parse(&scenario).unwrap().with_dns(any).with_smtp_port(0);
        Desk { net: Mailnet::start(scenario).unwrap(), folder: TempDir::new().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A list of these addresses.
    fn list(&self, name: &str, addresses: impl IntoIterator<Item = String>) -> PathBuf {
        let lines: String = addresses.into_iter().map(|address| address + "\n").collect();
        std::fs::write(self.path(name), lines).unwrap();
        self.path(name)
    }

    /// The real binary, with its engine pointed at the mail internet.
    fn mailprobe(&self, command: &str) -> Command {
        let mut mailprobe = Command::new(env!("CARGO_BIN_EXE_mailprobe"));
        let (dns, port) = (self.net.dns().to_string(), self.net.smtp_port().to_string());
        mailprobe.env_clear().arg(command).args(["--resolver", &dns, "--smtp-port", &port]);
        mailprobe.args(["--allow-net", "127.0.0.0/8", "--ehlo", "probe.example"]);
        mailprobe.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        mailprobe
    }

    /// Starts to clean a list into a file with its name and the suffix `.out`.
    fn clean(&self, list: &Path, flags: &[&str]) -> Child {
        let out = list.with_extension("out");
        // An earlier run may have written it.
        let _ = std::fs::remove_file(&out);
        let mut command = self.mailprobe("clean");
        command.arg(list).arg("-o").arg(out).arg("--no-progress").args(flags).spawn().unwrap()
    }

    /// Cleans a list to its end; returns the output and the text on standard error.
    fn cleaned(&self, list: &Path, flags: &[&str]) -> (String, String) {
        let said = said(&self.clean(list, flags).wait_with_output().unwrap());
        (std::fs::read_to_string(list.with_extension("out")).unwrap(), said)
    }
}

/// The text on standard error of a run that succeeded.
#[track_caller]
fn said(output: &Output) -> String {
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(output.status.success(), "{said}");
    said
}

/// The number of rows that end like this.
fn count(output: &str, end: &str) -> usize {
    output.lines().filter(|line| line.ends_with(end)).count()
}
