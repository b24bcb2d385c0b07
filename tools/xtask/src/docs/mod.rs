//! `cargo xtask readme`: runs the commands of README.md, and compares their output with what it shows.
//!
//! Each block with the language `sh` runs in one shell, after the other, in a network namespace of its own with a server at
//! 127.0.0.1:8080 and its test key in `TEST_KEY`. A block `json` or `text` after it is its output. The block without a
//! language at the top has the two commands that `.ci/run` runs in its own way.

use crate::interop::Failure;
use crate::interop::process::{self, Finished};
use crate::interop::report::{self, Tally};
use crate::soak::world::build;
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);

/// The options of `cargo xtask readme`.
#[derive(Args)]
pub struct ReadmeOptions {
    /// Folder of a built mailprobe [default: build it]
    #[arg(long, value_name = "DIR")]
    bin_dir: Option<PathBuf>,
}

/// A block of commands, with the output that the page shows.
#[derive(Debug, PartialEq, Eq)]
struct Shown {
    commands: String,
    output: Option<String>,
}

/// Runs all blocks; the exit code is 0 if each prints what the page shows.
pub fn main(options: &ReadmeOptions) -> ExitCode {
    report::end("readme", process::watch_signals().and_then(|()| readme(options)))
}

fn readme(options: &ReadmeOptions) -> Result<Tally, Failure> {
    let folder = tempfile::Builder::new().prefix("readme-").tempdir();
    let folder = folder.map_err(|error| Failure(format!("no folder: {error}")))?;
    let binaries = match &options.bin_dir {
        Some(folder) => folder.clone(),
        None => build(folder.path(), false)?,
    };
    let binaries = std::path::absolute(&binaries).map_err(|error| Failure(error.to_string()))?;
    let page = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md"));
    let page = fs::read_to_string(page).map_err(|error| Failure(format!("README.md: {error}")))?;
    let blocks = blocks(&page).map_err(Failure)?;
    let mut script = String::from(START);
    for (number, block) in blocks.iter().enumerate() {
        script += &format!("{{\n{}}} >out-{number}\n", block.commands);
    }
    script += "kill $server\nwait $server\n";
    let mut command = Command::new("unshare");
    command.args(["--net", "bash", "-euc", &script]).current_dir(folder.path());
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", binaries.display())).env("MAILPROBE_STATE", "none");
    let Finished { status, stderr, .. } = process::run(command, "", folder.path(), LIMIT)?;
    let mut tally = Tally::default();
    let ended = if status.success() { Ok(String::new()) } else { Err(format!("{status}: {stderr}")) };
    tally.check("the commands succeed", ended);
    for (number, block) in blocks.iter().enumerate() {
        let printed = fs::read_to_string(folder.path().join(format!("out-{number}"))).unwrap_or_default();
        let first = block.commands.lines().next().unwrap_or_default();
        tally.check(first, compare(block, &printed));
    }
    Ok(tally)
}

/// Starts the server as README says, and sets the test key.
const START: &str = "\
ip link set lo up
mailprobe serve --data data --resolver 127.0.0.1:9 --ehlo probe.example >server.out 2>server.err &
server=$!
for _ in $(seq 200); do grep -q '^listening' server.out && break; sleep 0.1; done
export TEST_KEY=$(sed -n 's/^test //p' data/first-keys)
";

fn compare(block: &Shown, printed: &str) -> Result<String, String> {
    match &block.output {
        Some(expected) if expected.trim_end() != printed.trim_end() => {
            Err(format!("it prints\n{printed}\nand the page shows\n{expected}"))
        }
        Some(_) => Ok("as shown".into()),
        None => Ok("no output is shown".into()),
    }
}

/// The blocks to run. Every block has a language, except the first.
fn blocks(page: &str) -> Result<Vec<Shown>, String> {
    let mut shown: Vec<Shown> = Vec::new();
    for (number, part) in page.split("\n```").skip(1).step_by(2).enumerate() {
        let (language, text) = part.split_once('\n').ok_or("a block without an end")?;
        let text = format!("{text}\n");
        match (language.trim(), shown.last_mut()) {
            ("", _) if number == 0 => {}
            ("sh", _) => shown.push(Shown { commands: text, output: None }),
            ("json" | "text", Some(Shown { output: output @ None, .. })) => *output = Some(text),
            (other, _) => {
                return Err(format!("block {}: `{other}` is neither commands nor their output", number + 1));
            }
        }
    }
    if shown.is_empty() { Err("no block of commands".into()) } else { Ok(shown) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_commands_and_their_output() {
        let page = "# a\n\n```\ncargo test\n```\n\n```sh\necho a\n```\n\nSo:\n\n```text\na\n```\n\n```sh\ntrue\n```\n";
        let expected = vec![
            Shown { commands: "echo a\n".into(), output: Some("a\n".into()) },
            Shown { commands: "true\n".into(), output: None },
        ];
        assert_eq!(blocks(page), Ok(expected));
        assert!(blocks("# a\n\n```\na\n```\n\n```\nb\n```\n").is_err(), "a block that nothing runs");
        assert!(blocks("# a\n\n```json\n{}\n```\n").is_err());
    }
}
