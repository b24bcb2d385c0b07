//! `cargo xtask browser`: tests of the pages in Chromium, and of everything that users do there.
//!
//! For each script of `tools/browser`, mailnet and `mailprobe serve` run as processes on an empty data folder. node
//! runs the script, which controls Chromium through playwright-core and counts its own checks. `.ci/browser` installs
//! the programs and packages; setup.rs checks that they are there.

pub mod setup;

use crate::failure::{Context, Failure};
use crate::interop::drivers::first_key;
use crate::interop::process::{self, Finished};
use crate::interop::report::{self, Tally};
use crate::soak::world::CampaignFolder;
use clap::Args;
use setup::BrowserSetup;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// The options of `cargo xtask browser`.
#[derive(Args)]
pub struct BrowserOptions {
    /// Run only scripts with this text in their name.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Folder with the packages that `.ci/browser` has installed, and for the screenshots.
    #[arg(long, value_name = "PATH", default_value = "target/browser")]
    folder: PathBuf,
    /// Use `mailprobe` and `mailnet` from this folder and do not build them.
    #[arg(long, value_name = "PATH")]
    bin_dir: Option<PathBuf>,
}

const SCENARIO: &str = include_str!("../../../mailnet/scenarios/reasons.toml");
/// The configuration of the server, unless a script has its own as `NAME.toml`.
const CONFIG: &str = "serve.toml";
/// The time limit of a script.
const SCRIPT_LIMIT: Duration = Duration::from_secs(600);

/// Runs the scripts, each against a new server, and adds their counts.
pub fn run(options: &BrowserOptions) -> Result<Tally, Failure> {
    let setup = BrowserSetup::find(&options.folder)?;
    let scripts = setup.scripts(options.only.as_deref())?;
    let mut tally = Tally::default();
    for script in scripts {
        report::line(&format!("-- {script}"));
        tally.add(run_script(options, &setup, &script)?);
    }
    Ok(tally)
}

/// Runs a script against a new server.
fn run_script(options: &BrowserOptions, setup: &BrowserSetup, script: &str) -> Result<Tally, Failure> {
    let world = CampaignFolder::of(options.bin_dir.as_deref(), false)?;
    let mailnet = world.mailnet(SCENARIO)?;
    let own = format!("{script}.toml");
    let config = setup.path(if setup.path(&own).is_file() { &own } else { CONFIG });
    let address = free_address()?;
    let base = format!("http://{address}");
    let config = config.to_string_lossy();
    let more = ["--config", &config, "--public-url", &base, "--test-clock"];
    let mut serve = world.serve_at(&address.to_string(), mailnet.engine(), &more)?;

    let mut command = setup.node();
    command.arg(format!("{script}.mjs"));
    command.env("BROWSER_BASE", &base);
    give(&mut command, setup, &world)?;
    let finished = process::run(command, "", &world.path(""), SCRIPT_LIMIT)?;
    let mut tally = Tally::default();
    judge(&mut tally, script, &finished);

    serve.running()?;
    let log = serve.log()?;
    tally.check("no panic", if log.contains("panicked") { Err(log) } else { Ok("of the server".into()) });
    serve.stop()?;
    mailnet.stop()?;
    Ok(tally)
}

/// Sets the environment variables that harness.mjs reads.
pub fn give(command: &mut Command, setup: &BrowserSetup, world: &CampaignFolder) -> Result<(), Failure> {
    let data = world.path("data");
    command.env("BROWSER_LIVE_KEY", first_key(&data, "live")?);
    command.env("BROWSER_TEST_KEY", first_key(&data, "test")?);
    command.env("BROWSER_DATA", data);
    command.env("BROWSER_MAILPROBE", world.binary("mailprobe"));
    command.env("BROWSER_SHOTS", setup.path("screenshots"));
    command.env("BROWSER_DOCS", concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"));
    command.env("BROWSER_CHROMIUM", setup.chromium());
    command.env("BROWSER_PYTHON", setup.python());
    // Chromium's profiles are removed with the folder of the run.
    command.env("TMPDIR", world.path(""));
    Ok(())
}

/// Adds the counts that the script printed. A script that ends without them counts as a failure.
pub fn judge(tally: &mut Tally, script: &str, finished: &Finished) {
    report::line(finished.stdout.trim_end());
    if !finished.stderr.trim().is_empty() {
        report::line(finished.stderr.trim_end());
    }
    let counted = finished.stdout.lines().last().and_then(counts);
    match counted {
        Some(of_script) if finished.status.success() == (of_script.failed == 0) => tally.add(of_script),
        _ => tally.check(script, Err(format!("it did not get to its end: {}", finished.status))),
    }
}

/// Reads the counts in `N passed, M failed`.
fn counts(line: &str) -> Option<Tally> {
    let (passed, rest) = line.split_once(" passed, ")?;
    let failed = rest.strip_suffix(" failed")?;
    Some(Tally { passed: passed.parse().ok()?, failed: failed.parse().ok()? })
}

/// A free port: the configuration of the server needs its public address before it starts.
fn free_address() -> Result<SocketAddr, Failure> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    free.about("no free port")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_the_closing_line() {
        assert_eq!(counts("12 passed, 0 failed"), Some(Tally { passed: 12, failed: 0 }));
        for other in ["", "12 passed", "12 passed, 0 failed!", "x passed, 0 failed", "1 passed, -1 failed"] {
            assert_eq!(counts(other), None, "{other}");
        }
    }
}
