//! `cargo xtask pictures`: makes the pictures of README.md, in docs/pictures.
//!
//! mailnet, `mailprobe serve` and Chromium run in namespaces without a network, at addresses that are reserved for
//! documentation. One picture shows the output of `mailprobe check --trace` on a terminal. The other one shows the dashboard of an
//! account after a month. `tools/browser/pictures.mjs` controls Chromium. Random control recipients, ids and dates differ between
//! two runs.

mod terminal;

use crate::browser::setup::BrowserSetup;
use crate::browser::{give, judge};
use crate::failure::{Context, Failure};
use crate::interop::process;
use crate::interop::report::{Tally, outcome};
use crate::isolation::{ip, isolated};
use crate::soak::world::{CampaignFolder, Mailnet};
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The options of `cargo xtask pictures`.
#[derive(Args)]
pub struct PicturesOptions {
    /// Folder with the packages that `.ci/browser` has installed.
    #[arg(long, value_name = "PATH", default_value = "target/browser")]
    folder: PathBuf,
    /// Use `mailprobe` and `mailnet` from this folder and do not build them.
    #[arg(long, value_name = "PATH")]
    bin_dir: Option<PathBuf>,
}

const SCENARIO: &str = include_str!("../../pictures/scenario.toml");
const FONTS: &str = include_str!("../../pictures/fonts.conf");
/// The address of mailnet's DNS server.
const RESOLVER: &str = "127.0.0.53";
const SERVER: &str = "127.0.0.1:8080";
/// The network of the mail servers.
const MAIL: &str = "192.0.2.0/24";
/// The address and the name of the client.
const CLIENT: &str = "198.51.100.7";
const NAME: &str = "verify.example.org";
const SCRIPT: &str = "pictures";
/// The names of the pictures that the script makes.
const PICTURES: [&str; 2] = ["trace.png", "dashboard.png"];
/// Larger pictures make README slow to load.
const PICTURE_BYTES_MAX: u64 = 150 * 1024;
const SCRIPT_LIMIT: Duration = Duration::from_secs(300);
const COMMAND_LIMIT: Duration = Duration::from_secs(60);

/// Makes the pictures, and checks that they are small.
pub fn run(options: &PicturesOptions) -> Result<Tally, Failure> {
    process::require(&[("script", "apt-get install bsdutils"), ("pngquant", "apt-get install pngquant")])?;
    let setup = BrowserSetup::find(&options.folder)?;
    let world = CampaignFolder::of(options.bin_dir.as_deref(), false)?;
    let mut tally = isolated(world.folder(), RESOLVER, || shoot(&setup, &world))?;
    if tally.failed == 0 {
        for picture in PICTURES {
            tally.check(picture, publish(&world, picture));
        }
    }
    Ok(tally)
}

/// Runs the servers and the script, which writes its screenshots to the folder of the run.
fn shoot(setup: &BrowserSetup, world: &CampaignFolder) -> Result<Tally, Failure> {
    ip(&format!("address add {CLIENT}/32 dev lo"))?;
    ip(&format!("route add local {MAIL} dev lo src {CLIENT}"))?;
    let mailnet = world.mailnet(SCENARIO)?;
    let trace = world.path("trace.html");
    write(&trace, &trace_page(world)?)?;
    let mut tally = script(setup, world, &mailnet, &trace)?;
    let counts = mailnet.stop()?;
    let broken = counts["violations"].as_object().is_some_and(|violations| !violations.is_empty());
    tally.check(
        "no violation of the protocol",
        if broken { Err(counts.to_string()) } else { Ok("none".into()) },
    );
    Ok(tally)
}

/// Runs the check on a terminal, which script(1) makes, and returns the page that shows it.
fn trace_page(world: &CampaignFolder) -> Result<String, Failure> {
    let shown = "mailprobe check --trace alice@example.com";
    let binaries = world.binaries().display();
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &format!("{binaries}/{shown}"), "/dev/null"]);
    command.env("TERM", "xterm").env_remove("NO_COLOR").env("MAILPROBE_STATE", "none");
    command.env("MAILPROBE_ALLOW_NET", MAIL).env("MAILPROBE_EHLO", NAME);
    command.env("MAILPROBE_MAIL_FROM", format!("postmaster@{NAME}"));
    let output = process::run(command, "", world.folder(), COMMAND_LIMIT)?.success("mailprobe check")?;
    if !output.contains("mailbox_exists") || !output.contains("\u{1b}[32m") {
        return Err(Failure(format!("the trace is not as expected:\n{output}")));
    }
    Ok(terminal::page(shown, &output))
}

fn script(
    setup: &BrowserSetup,
    world: &CampaignFolder,
    mailnet: &Mailnet,
    trace: &Path,
) -> Result<Tally, Failure> {
    let base = format!("http://{SERVER}");
    let config = setup.path("serve.toml");
    let config = config.to_string_lossy();
    // mailnet does not know the root zone, which a self-check asks for.
    let more = ["--config", &config, "--public-url", &base, "--test-clock", "--allow-net", MAIL];
    let more = [&more[..], &["--self-checks", "false"]].concat();
    let serve = world.serve_at(SERVER, mailnet.engine(), &more)?;
    let fonts = world.path("fonts.conf");
    write(&fonts, FONTS)?;
    let mut command = setup.node();
    command.arg(format!("{SCRIPT}.mjs"));
    give(&mut command, setup, world)?;
    command.env("BROWSER_BASE", &base).env("BROWSER_SHOTS", world.folder());
    command.env("BROWSER_TRACE", trace).env("FONTCONFIG_FILE", &fonts);
    let finished = process::run(command, "", world.folder(), SCRIPT_LIMIT)?;
    let mut tally = Tally::default();
    judge(&mut tally, SCRIPT, &finished);
    serve.stop()?;
    Ok(tally)
}

/// Reduces the colours of a screenshot, and writes it to docs/pictures.
fn publish(world: &CampaignFolder, name: &str) -> Result<String, String> {
    let to = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/pictures")).join(name);
    let mut command = Command::new("pngquant");
    command.args(["--speed", "1", "--strip", "--force", "--quality", "80-100", "--output"]);
    command.arg(&to).arg(world.path(name));
    let finished = process::run(command, "", world.folder(), COMMAND_LIMIT);
    finished.and_then(|finished| finished.success("pngquant")).map_err(|failure| failure.0)?;
    let bytes = fs::metadata(&to).map_err(|error| error.to_string())?.len();
    let text = format!("{} KiB", bytes / 1024);
    outcome(bytes <= PICTURE_BYTES_MAX, text)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).at(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The shortest alternative text that says what a picture shows, in words.
    const WORDS_MIN: usize = 8;

    #[test]
    fn pictures_of_readme_exist_and_have_alternative_texts() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let page = fs::read_to_string(root.join("README.md")).unwrap();
        let linked: Vec<(&str, &str)> = images(&page).collect();
        for (words, path) in &linked {
            let bytes = fs::metadata(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}")).len();
            assert!(bytes <= PICTURE_BYTES_MAX, "{path} has {bytes} bytes");
            assert!(words.split_whitespace().count() >= WORDS_MIN, "{path}: `{words}` says too little");
        }
        let linked: BTreeSet<String> = linked.iter().map(|(_, path)| (*path).to_owned()).collect();
        let there = fs::read_dir(root.join("docs/pictures")).unwrap();
        let there = there.map(|entry| format!("docs/pictures/{}", entry.unwrap().file_name().display()));
        assert_eq!(linked, there.collect(), "README shows every picture");
    }

    /// The alternative texts and the paths of the images of a page.
    fn images(page: &str) -> impl Iterator<Item = (&str, &str)> {
        let parts = page.split("![").skip(1).filter_map(|part| part.split_once("]("));
        parts.filter_map(|(words, rest)| Some((words, rest.split_once(')')?.0)))
    }

    #[test]
    fn images_are_found() {
        let page = "a [link](b.md)\n![A chart\nof c](docs/c.png)\n[![Badge](d.svg)](e)";
        assert_eq!(images(page).collect::<Vec<_>>(), [("A chart\nof c", "docs/c.png"), ("Badge", "d.svg")]);
    }
}
