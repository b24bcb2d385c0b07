//! `cargo xtask dist`: the program for distribution, without symbols, and a file with its symbols beside it.
//!
//! The profile `dist` of Cargo.toml builds the program with thin link-time optimization and line tables. objcopy moves the
//! symbols and line tables to `mailprobe.debug`. The program names this file in its section `.gnu_debuglink`, so that gdb
//! and perf find it in the same folder. A backtrace of the program alone has addresses, which addr2line translates:
//! `addr2line -Cfe mailprobe.debug ADDRESS`.

use crate::interop::Failure;
use crate::interop::process::{self, Finished};
use crate::interop::report::{self, Tally};
use crate::soak::world::cargo;
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

/// A build with link-time optimization from nothing takes five minutes on two cores.
const BUILD_LIMIT: Duration = Duration::from_secs(1800);
/// The tools of binutils take a second.
const TOOL_LIMIT: Duration = Duration::from_secs(60);

/// The options of `cargo xtask dist`.
#[derive(Args)]
pub struct DistOptions {
    /// Folder of the files [default: package in CARGO_TARGET_DIR or target]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Builds and tests the files; the exit code is 0 if every test passes.
pub fn main(options: &DistOptions) -> ExitCode {
    report::end("dist", process::watch_signals().and_then(|()| dist(options)))
}

fn dist(options: &DistOptions) -> Result<Tally, Failure> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let target = std::path::absolute(&target).map_err(|error| failed(&target, &error))?;
    let out = options.out.clone().unwrap_or_else(|| target.join("package"));
    fs::create_dir_all(&out).map_err(|error| failed(&out, &error))?;

    let mut build = cargo();
    build.args(["build", "--profile", "dist", "--package", "frontend", "--bin", "mailprobe", "--target-dir"]);
    build.arg(&target);
    process::run(build, "", &out, BUILD_LIMIT)?.success("cargo build")?;
    let built = target.join("dist/mailprobe");
    let (program, symbols) = (out.join("mailprobe"), out.join("mailprobe.debug"));
    tool(&out, "objcopy", |it| it.arg("--only-keep-debug").args([&built, &symbols]))?;
    tool(&out, "objcopy", |it| it.arg("--strip-all").args([&built, &program]))?;
    // The section has the name of the file without its folder.
    tool(&out, "objcopy", |it| it.arg("--add-gnu-debuglink=mailprobe.debug").arg(&program))?;

    let mut tally = Tally::default();
    let version = tool(&out, "./mailprobe", |it| it.arg("--version"))?;
    tally.check("the program starts", outcome(version.starts_with("mailprobe "), version.trim()));
    let names = command(&out, "nm", |it| it.arg(&program))?;
    tally.check("the program has no symbols", outcome(names.stdout.is_empty(), names.stderr.trim()));
    let line = line_of_main(&out, &symbols)?;
    tally.check("mailprobe.debug has the line of main", outcome(line.contains("main.rs:"), line.trim()));
    for file in [&program, &symbols] {
        let bytes = fs::metadata(file).map_err(|error| failed(file, &error))?.len();
        report::line(&format!("{} has {bytes} bytes", file.display()));
    }
    Ok(tally)
}

/// The file and line of the program's main function, by the symbols alone.
fn line_of_main(folder: &Path, symbols: &Path) -> Result<String, Failure> {
    let names = tool(folder, "nm", |it| it.arg("--demangle").arg(symbols))?;
    let main = names.lines().find(|line| line.contains(" mailprobe::main"));
    let address = main.and_then(|line| line.split(' ').next());
    let address =
        address.ok_or_else(|| Failure(format!("{}: no symbol mailprobe::main", symbols.display())))?;
    tool(folder, "addr2line", |it| it.arg("-e").arg(symbols).arg(address))
}

/// The standard output of a program that succeeds.
fn tool(
    folder: &Path,
    name: &str,
    arguments: impl FnOnce(&mut Command) -> &mut Command,
) -> Result<String, Failure> {
    command(folder, name, arguments)?.success(name)
}

fn command(
    folder: &Path,
    name: &str,
    arguments: impl FnOnce(&mut Command) -> &mut Command,
) -> Result<Finished, Failure> {
    let mut command = Command::new(name);
    command.current_dir(folder);
    arguments(&mut command);
    process::run(command, "", folder, TOOL_LIMIT)
}

fn outcome(passed: bool, found: &str) -> Result<String, String> {
    if passed { Ok(found.to_owned()) } else { Err(found.to_owned()) }
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure(format!("{}: {error}", path.display()))
}
