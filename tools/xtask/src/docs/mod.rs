//! `cargo xtask docs`: tests the examples and the commands of README.md and of the other pages.
//!
//! - blocks.rs: the rule for each language of a block; output.rs: the comparison of outputs;
//! - commands.rs: the commands in the text. Their flags have to exist (usage.rs, cargo.rs).
//!
//! The blocks of commands of a page run in one shell, one after the other, in an empty folder and in namespaces of their own
//! for network and processes. A server listens on 127.0.0.1:8080, and `TEST_KEY` is its test key. The folder has links to
//! `tools` and `loadtest` of the source tree.

pub mod blocks;
pub mod cargo;
mod commands;
mod output;
mod usage;

use crate::failure::{Context, Failure};
use crate::interop::process::{self, Finished};
use crate::interop::report::Tally;
use crate::soak::world::{self, build};
use blocks::{Block, Commands, Examples};
use clap::{Args, CommandFactory};
use commands::Programs;
use mailnet::Scenario;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);
const BUILD_LIMIT: Duration = Duration::from_secs(1200);
/// The page with a first block that has no language.
const FRONT_PAGE: &str = "README.md";
/// On this page, blocks in TOML are scenarios of mailnet. On other pages they are settings of mailprobe.
const SCENARIO_PAGE: &str = "docs/mailnet.md";
/// Pages with Rust, and the file of the crate that compiles them as documentation.
const COMPILED_PAGES: [(&str, &str); 1] = [("docs/mailnet.md", "tools/mailnet/src/lib.rs")];
/// The pages with code of callers: `tools/clients/check` runs that of the first one, `tools/browser/webhooks.mjs` that of the second.
const CLIENT_PAGES: [&str; 2] = ["docs/clients.md", "docs/webhooks.md"];
/// A domain for keys that a page shows alone.
const DOMAIN: &str = "[[domain]]\nname = \"fragment.example\"\nmailboxes.ok = [\"alice\"]\n";

/// The options of `cargo xtask docs`.
#[derive(Args)]
pub struct DocsOptions {
    /// Folder of built programs: mailprobe, mailprobe-loadtest, mailnet [default: build them].
    #[arg(long, value_name = "DIR")]
    bin_dir: Option<PathBuf>,
    /// Test only pages with this text in their path.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}

/// A page of the documentation.
struct Page {
    /// The path below the root of the source tree.
    path: String,
    text: String,
}

/// Tests all pages, or those that the options select.
pub fn run(options: &DocsOptions) -> Result<Tally, Failure> {
    let folder = tempfile::Builder::new().prefix("docs-").tempdir().about("a folder")?;
    let folder = folder.path();
    let binaries = match &options.bin_dir {
        Some(folder) => folder.clone(),
        None => build_all(folder)?,
    };
    let binaries = std::path::absolute(&binaries).at(&binaries)?;
    let programs = Programs::with_tasks(&tasks())?.ask(&binaries, folder)?;
    let mut tally = Tally::default();
    for (number, page) in pages()?.iter().enumerate() {
        if !options.only.as_ref().is_none_or(|only| page.path.contains(only.as_str())) {
            continue;
        }
        let folder = folder.join(number.to_string());
        fs::create_dir(&folder).at(&folder)?;
        tally.add(test_page(page, &programs, &binaries, &folder)?);
    }
    Ok(tally)
}

/// The tasks of this program with all their flags.
fn tasks() -> clap::Command {
    let mut command = crate::Task::command();
    command.build();
    command
}

fn build_all(folder: &Path) -> Result<PathBuf, Failure> {
    let mut command = world::cargo();
    command.args(["build", "--package", "loadtest", "--bin", "mailprobe-loadtest"]);
    process::run(command, "", folder, BUILD_LIMIT)?.success("cargo build")?;
    build(folder, false)
}

fn test_page(page: &Page, programs: &Programs, binaries: &Path, folder: &Path) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    let examples = match examples(page) {
        Ok(examples) => examples,
        Err(fault) => {
            tally.check(&page.path, Err(fault));
            return Ok(tally);
        }
    };
    tally.check(&page.path, check_commands(&examples, programs));
    for block in &examples.toml {
        let name = format!("{}:{}", page.path, block.line);
        let read = if page.path == SCENARIO_PAGE {
            read_scenario(block)
        } else {
            read_settings(block, binaries, folder)?
        };
        tally.check(&name, read.map(|()| "the program reads it".into()));
    }
    if !examples.commands.is_empty() {
        run_commands(page, &examples, binaries, folder, &mut tally)?;
    }
    Ok(tally)
}

fn examples(page: &Page) -> Result<Examples, String> {
    let examples = blocks::examples(&page.text, page.path == FRONT_PAGE)?;
    if examples.has_client_code && !CLIENT_PAGES.contains(&page.path.as_str()) {
        return Err(format!("Python, JavaScript and TypeScript run only on {}", CLIENT_PAGES.join(" and ")));
    }
    let is_compiled = COMPILED_PAGES.iter().any(|(path, _)| *path == page.path);
    if examples.has_rust && !is_compiled { Err("no crate compiles its Rust".into()) } else { Ok(examples) }
}

/// Checks the commands in the text of a page and in its opening block.
fn check_commands(examples: &Examples, programs: &Programs) -> Result<String, String> {
    let opening = examples.opening.iter();
    let opening = opening.flat_map(|block| block.text.lines().map(|line| (block.line, line)));
    let spans = examples.spans.iter().map(|(line, span)| (*line, span.as_str()));
    let (mut count, mut faults) = (0, Vec::new());
    for (line, span) in spans.chain(opening) {
        match programs.check(span) {
            Ok(is_command) => count += usize::from(is_command),
            Err(fault) => faults.push(format!("line {line}: `{span}`: {fault}")),
        }
    }
    if faults.is_empty() { Ok(format!("{count} commands in the text exist")) } else { Err(faults.join("\n")) }
}

/// Reads a block as a scenario of mailnet. A block without a table belongs to a domain.
fn read_scenario(block: &Block) -> Result<(), String> {
    let text = if block.text.contains("[[") { block.text.clone() } else { format!("{DOMAIN}{}", block.text) };
    Scenario::parse(&text).map(drop).map_err(|error| error.to_string())
}

/// Lets mailprobe read a block as its configuration. The files that it names exist in a folder of stubs.
fn read_settings(block: &Block, binaries: &Path, folder: &Path) -> Result<Result<(), String>, Failure> {
    let mut text = block.text.clone();
    let stubs = folder.join("stubs");
    // A quoted absolute path.
    for path in block.text.split('"').filter(|part| part.starts_with('/')) {
        let stub = stubs.join(path.trim_start_matches('/'));
        let parent = stub.parent().unwrap_or(&stubs);
        fs::create_dir_all(parent).at(parent)?;
        write_private(&stub, "stub-secret\n")?;
        text = text.replace(&format!("\"{path}\""), &format!("\"{}\"", stub.display()));
    }
    let file = folder.join("settings.toml");
    write_private(&file, &text)?;
    let mut command = Command::new(binaries.join("mailprobe"));
    command.arg("config").arg("--config").arg(&file);
    let Finished { status, stderr, .. } = process::run(command, "", folder, LIMIT)?;
    Ok(if status.success() { Ok(()) } else { Err(stderr) })
}

/// Runs the commands of a page, and compares their output.
fn run_commands(
    page: &Page,
    examples: &Examples,
    binaries: &Path,
    folder: &Path,
    tally: &mut Tally,
) -> Result<(), Failure> {
    for name in ["tools", "loadtest"] {
        symlink(root().join(name), folder.join(name)).about(name)?;
    }
    let mut script = String::from(START);
    for (number, Commands { text, .. }) in examples.commands.iter().enumerate() {
        script += &format!("{{\n{text}}} >out-{number}\n: >done-{number}\n");
    }
    script += "kill $server\nwait $server\n";
    let mut command = Command::new("unshare");
    command.args(["--net", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    command.args(["bash", "-euo", "pipefail", "-c", &script]).current_dir(folder);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", binaries.display())).env("MAILPROBE_STATE", "none");
    // Without a name, mailprobe asks the resolver of the machine for one.
    command.env("MAILPROBE_EHLO", "probe.example");
    let Finished { status, stderr, .. } = process::run(command, "", folder, LIMIT)?;
    for (number, block) in examples.commands.iter().enumerate() {
        let name = format!("{}:{}", page.path, block.line);
        let is_done = folder.join(format!("done-{number}")).exists();
        let printed = fs::read_to_string(folder.join(format!("out-{number}"))).unwrap_or_default();
        let result = if is_done {
            compare(block, &printed)
        } else {
            let log = fs::read_to_string(folder.join("server.err")).unwrap_or_default();
            Err(format!("it failed\n{printed}{stderr}The server:\n{log}"))
        };
        tally.check(&name, result);
        if !is_done {
            return Ok(());
        }
    }
    let ended = if status.success() { Ok("it ends".into()) } else { Err(format!("{status}: {stderr}")) };
    tally.check(&format!("{}: the server", page.path), ended);
    Ok(())
}

/// Starts the server as README says, and sets the test key.
const START: &str = "\
ip link set lo up
mailprobe serve --data data --resolver 127.0.0.1:9 >server.out 2>server.err &
server=$!
for _ in $(seq 200); do grep -q '^listening' server.out && break; sleep 0.1; done
export TEST_KEY=$(sed -n 's/^test //p' data/first-keys)
";

fn compare(block: &Commands, printed: &str) -> Result<String, String> {
    match &block.output {
        Some(shown) if output::is_as_shown(shown, printed) => Ok("it prints what the page shows".into()),
        Some(shown) => Err(format!("it prints\n{printed}\nand the page shows\n{shown}")),
        None => Ok("it runs".into()),
    }
}

/// All pages of the documentation.
fn pages() -> Result<Vec<Page>, Failure> {
    let mut paths: Vec<String> =
        [FRONT_PAGE, "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"].map(String::from).into();
    for folder in ["docs", "docs/decisions"] {
        let entries = fs::read_dir(root().join(folder)).about(folder)?;
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.filter(|name| name.ends_with(".md")).collect();
        names.sort();
        paths.extend(names.iter().map(|name| format!("{folder}/{name}")));
    }
    let read = |path: String| Ok(Page { text: fs::read_to_string(root().join(&path)).about(&path)?, path });
    paths.into_iter().map(read).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn write_private(path: &Path, text: &str) -> Result<(), Failure> {
    let permissions = fs::Permissions::from_mode(0o600);
    let written = fs::write(path, text).and_then(|()| fs::set_permissions(path, permissions));
    written.at(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What needs no program of the product: the rules for blocks, scenarios, and the names of tasks and packages.
    #[test]
    fn pages_keep_the_rules() {
        let mut faults = Vec::new();
        let programs = Programs::with_tasks(&tasks()).unwrap();
        for page in pages().unwrap() {
            match examples(&page) {
                Ok(examples) => {
                    let scenarios = examples.toml.iter().filter(|_| page.path == SCENARIO_PAGE);
                    faults.extend(scenarios.filter_map(|block| read_scenario(block).err()));
                    let spans = examples.spans.into_iter();
                    // What a task passes on to mailprobe needs the flags of mailprobe.
                    let of_cargo =
                        spans.filter(|(_, span)| span.starts_with("cargo ") && !span.contains(" -- -"));
                    faults.extend(of_cargo.filter_map(|(_, span)| programs.check(&span).err()));
                }
                Err(fault) => faults.push(format!("{}: {fault}", page.path)),
            }
        }
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    #[test]
    fn crates_compile_the_pages_with_rust() {
        for (page, file) in COMPILED_PAGES {
            let text = fs::read_to_string(root().join(file)).unwrap();
            assert!(text.contains(&format!("{page}\")]")), "{file} does not compile {page}");
        }
    }

    #[test]
    fn wrong_outputs_are_refused() {
        let block =
            |output: Option<&str>| Commands { line: 1, text: "x".into(), output: output.map(str::to_owned) };
        assert!(compare(&block(Some("a\n")), "a\n").is_ok());
        assert!(compare(&block(Some("a\n")), "b\n").is_err());
        assert!(compare(&block(None), "b\n").is_ok());
    }

    #[test]
    fn fragments_of_scenarios_are_read() {
        let read = |text: &str| {
            let page = format!("```toml\n{text}\n```\n");
            read_scenario(&blocks::examples(&page, false).unwrap().toml[0])
        };
        assert_eq!(read("server = { personality = \"gmail\" }"), Ok(()));
        assert_eq!(read("[[domain]]\nname = \"a.example\""), Ok(()));
        assert!(read("server = { personality = \"gmial\" }").is_err());
    }
}
