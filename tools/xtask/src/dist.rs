//! `cargo xtask dist`: everything that is given to users, in target/package.
//!
//! - `mailprobe`: the program, without symbols and without shared libraries; `mailprobe.debug`: its symbols and line tables.
//!   The program names this file in its section `.gnu_debuglink`, so that gdb and perf find it in the same folder. A backtrace
//!   of the program alone has addresses, which addr2line translates: `addr2line -Cfe mailprobe.debug ADDRESS`.
//! - completions, pages for man, the commented configuration, and an archive of them with the program;
//! - a Debian package (cargo-deb), the folder of a container, a bill of materials (cargo-cyclonedx), and SHA256SUMS.
//!
//! A run that fails leaves no files in target/package.
//!
//! The profile `dist` of Cargo.toml builds the program with link-time optimization over all crates. `cargo install --locked
//! cargo-deb cargo-cyclonedx` installs the two packers.

use crate::bare::root::registry;
use crate::failure::{Context, Failure};
use crate::interop::process::{self, Finished};
use crate::interop::report::{self, Tally, outcome};
use crate::soak::world::cargo;
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A build with link-time optimization from nothing takes five minutes on two free cores.
const BUILD_LIMIT: Duration = Duration::from_secs(1800);
/// The tools of binutils take a second, and the packers some more.
const TOOL_LIMIT: Duration = Duration::from_secs(300);
/// The certificates of authorities for the container, from the package ca-certificates.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The programs of every form, with what installs them.
const TOOLS: [(&str, &str); 8] = [
    ("cc", "apt-get install gcc libc6-dev"),
    ("git", "apt-get install git"),
    ("objcopy", "apt-get install binutils"),
    ("readelf", "apt-get install binutils"),
    ("nm", "apt-get install binutils"),
    ("addr2line", "apt-get install binutils"),
    ("tar", "apt-get install tar"),
    ("gzip", "apt-get install gzip"),
];
/// The programs that `--program-only` does without.
const PACKERS: [(&str, &str); 2] = [
    ("cargo-deb", "cargo install --locked cargo-deb"),
    ("cargo-cyclonedx", "cargo install --locked cargo-cyclonedx"),
];

/// The options of `cargo xtask dist`.
#[derive(Args)]
pub struct DistOptions {
    /// Make no Debian package and no bill of materials, which need cargo-deb and cargo-cyclonedx
    #[arg(long)]
    program_only: bool,
}

/// Builds and tests the files.
pub fn run(options: &DistOptions) -> Result<Tally, Failure> {
    // The build takes minutes, so what would fail after it is looked for first.
    let packers = if options.program_only { &[][..] } else { &PACKERS };
    process::require(&[&TOOLS[..], packers].concat())?;
    if !Path::new(AUTHORITIES).exists() {
        return Err(Failure(format!("missing: {AUTHORITIES} (apt-get install ca-certificates)")));
    }
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let root = root.canonicalize().at(root)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let target = std::path::absolute(&target).at(&target)?;
    // The table of the Debian package in frontend/Cargo.toml names this folder.
    let out = root.join("target/package");
    if out.exists() {
        fs::remove_dir_all(&out).at(&out)?;
    }
    fs::create_dir_all(&out).at(&out)?;
    let made = fill(options, &root, &target, &out);
    if made.is_err() {
        fs::remove_dir_all(&out).at(&out)?;
    }
    made
}

/// Makes all files in the folder `out`.
fn fill(options: &DistOptions, root: &Path, target: &Path, out: &Path) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    let built = build(target, out)?;
    strip(&built, out, &mut tally)?;
    texts(out)?;
    container(root, out)?;
    if !options.program_only {
        tool(root, out, "cargo-deb", |it| {
            it.args(["--no-build", "--no-strip", "--package", "frontend", "--output"]).arg(out)
        })?;
        bill_of_materials(root, out)?;
    }
    archive(root, out)?;
    sums(out)?;
    for file in files(out)? {
        let bytes = fs::metadata(&file).at(&file)?.len();
        report::line(&format!("{} has {bytes} bytes", file.display()));
    }
    Ok(tally)
}

/// Builds the program without shared libraries. The option for the target keeps build scripts and macros as they are, because
/// they need shared libraries.
fn build(target: &Path, out: &Path) -> Result<PathBuf, Failure> {
    let rustc = tool(out, out, "rustc", |it| it.arg("-vV"))?;
    let triple = rustc.lines().find_map(|line| line.strip_prefix("host: "));
    let triple = triple.ok_or_else(|| Failure("rustc -vV names no host".into()))?;
    let mut build = cargo();
    build.args(["build", "--profile", "dist", "--package", "frontend", "--bin", "mailprobe"]);
    build.args(["--target", triple, "--target-dir"]).arg(target);
    build.env("CARGO_ENCODED_RUSTFLAGS", rust_flags(triple)?.join("\u{1f}"));
    process::run(build, "", out, BUILD_LIMIT)?.success("cargo build")?;
    Ok(target.join(triple).join("dist/mailprobe"))
}

/// The options of rustc: no shared libraries, and no names of this machine's folders in the program. On x86-64, where rustc
/// brings lld, equal functions are merged and relocations are packed.
fn rust_flags(triple: &str) -> Result<Vec<String>, Failure> {
    let mut flags = vec!["-Ctarget-feature=+crt-static".to_owned()];
    if triple == "x86_64-unknown-linux-gnu" {
        flags.push("-Clink-args=-Wl,--icf=all -Wl,--pack-dyn-relocs=relr".to_owned());
    }
    let sources = registry()?.join("src");
    let registries = fs::read_dir(&sources).at(&sources)?;
    for registry in registries {
        let registry = registry.at(&sources)?.path();
        flags.push(format!("--remap-path-prefix={}/=", registry.display()));
    }
    Ok(flags)
}

/// Moves the symbols to a file of their own, and tests both files.
fn strip(built: &Path, out: &Path, tally: &mut Tally) -> Result<(), Failure> {
    let (program, symbols) = (out.join("mailprobe"), out.join("mailprobe.debug"));
    tool(out, out, "objcopy", |it| it.arg("--only-keep-debug").args([built, &symbols]))?;
    tool(out, out, "objcopy", |it| it.arg("--strip-all").args([built, &program]))?;
    // The section has the name of the file without its folder.
    tool(out, out, "objcopy", |it| it.arg("--add-gnu-debuglink=mailprobe.debug").arg(&program))?;
    let version = tool(out, out, "./mailprobe", |it| it.arg("--version"))?;
    let names_commit = version.starts_with("mailprobe ") && version.contains('(');
    tally.check("the program starts and names its commit", outcome(names_commit, version.trim().into()));
    let dynamic = tool(out, out, "readelf", |it| it.args(["--dynamic", "--program-headers"]).arg(&program))?;
    let is_static = !dynamic.contains("NEEDED") && !dynamic.contains("INTERP");
    tally.check("the program needs no shared library", outcome(is_static, String::new()));
    let names = command(out, out, "nm", |it| it.arg(&program))?;
    tally.check("the program has no symbols", outcome(names.stdout.is_empty(), names.stderr.trim().into()));
    let line = line_of_main(out, &symbols)?;
    tally.check(
        "mailprobe.debug has the line of main",
        outcome(line.contains("main.rs:"), line.trim().into()),
    );
    Ok(())
}

/// Completions, pages for man, and the commented configuration with the data folder of the service.
fn texts(out: &Path) -> Result<(), Failure> {
    let folder = out.join("completions");
    fs::create_dir_all(&folder).at(&folder)?;
    for (shell, name) in [("bash", "mailprobe.bash"), ("zsh", "_mailprobe"), ("fish", "mailprobe.fish")] {
        let script = tool(out, out, "./mailprobe", |it| it.args(["completions", shell]))?;
        write(&folder.join(name), &script)?;
    }
    let pages = out.join("man");
    fs::create_dir_all(&pages).at(&pages)?;
    tool(out, out, "./mailprobe", |it| it.arg("man").arg(&pages))?;
    let text = tool(out, out, "./mailprobe", |it| it.args(["config", "--default"]))?;
    let data = "data = \"/var/lib/mailprobe\"";
    write(&out.join("mailprobe.toml"), &text.replace(&format!("#{data}"), data))
}

/// The folder from which the container is built.
fn container(root: &Path, out: &Path) -> Result<(), Failure> {
    let context = out.join("container");
    for folder in ["root/etc/ssl/certs", "root/tmp", "data"] {
        fs::create_dir_all(context.join(folder)).about(folder)?;
    }
    copy(&root.join("tools/packaging/Containerfile"), &context.join("Containerfile"))?;
    copy(&out.join("mailprobe"), &context.join("root/mailprobe"))?;
    copy(Path::new(AUTHORITIES), &context.join("root/etc/ssl/certs/ca-certificates.crt"))?;
    write(&context.join("root/etc/passwd"), "nobody:x:65534:65534:nobody:/:/\n")?;
    write(&context.join("root/etc/group"), "nogroup:x:65534:\n")
}

/// The packages of the program, as CycloneDX in JSON.
fn bill_of_materials(root: &Path, out: &Path) -> Result<(), Failure> {
    // The packer writes beside the manifest.
    let made = root.join("frontend/mailprobe.cdx.json");
    let copied = tool(root, out, "cargo-cyclonedx", |it| {
        it.args(["cyclonedx", "--manifest-path", "frontend/Cargo.toml", "--format", "json"]);
        it.args(["--override-filename", "mailprobe.cdx"])
    })
    .and_then(|_| copy(&made, &out.join("mailprobe.cdx.json")));
    if made.exists() {
        fs::remove_file(&made).at(&made)?;
    }
    copied
}

/// The archive for systems without a package.
fn archive(root: &Path, out: &Path) -> Result<(), Failure> {
    for name in ["README.md", "LICENSE"] {
        copy(&root.join(name), &out.join(name))?;
    }
    copy(&root.join("tools/packaging/mailprobe.service"), &out.join("mailprobe.service"))?;
    let name = format!("mailprobe-{}-{}-linux.tar.gz", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    tool(out, out, "tar", |it| {
        it.args(["--create", "--gzip", "--owner=0", "--group=0", "--file", &name]);
        it.args([
            "mailprobe",
            "mailprobe.toml",
            "mailprobe.service",
            "man",
            "completions",
            "README.md",
            "LICENSE",
        ])
    })
    .map(drop)
}

/// The checksums of all files of the folder.
fn sums(out: &Path) -> Result<(), Failure> {
    let files = files(out)?;
    let names: Vec<_> = files.iter().filter_map(|file| file.file_name()).collect();
    let sums = tool(out, out, "sha256sum", |it| it.args(names))?;
    write(&out.join("SHA256SUMS"), &sums)
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(folder).at(folder)?;
    let mut files: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_file()).collect();
    files.sort();
    Ok(files)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).at(path)
}

fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    fs::copy(from, to).map(drop).at(from)
}

/// The file and line of the program's main function, by the symbols alone.
fn line_of_main(folder: &Path, symbols: &Path) -> Result<String, Failure> {
    let names = tool(folder, folder, "nm", |it| it.arg("--demangle").arg(symbols))?;
    let main = names.lines().find(|line| line.contains(" mailprobe::main"));
    let address = main.and_then(|line| line.split(' ').next());
    let address =
        address.ok_or_else(|| Failure(format!("{}: no symbol mailprobe::main", symbols.display())))?;
    tool(folder, folder, "addr2line", |it| it.arg("-e").arg(symbols).arg(address))
}

/// The standard output of a program that succeeds, in this folder; its output passes through files in `out`.
fn tool(
    folder: &Path,
    out: &Path,
    name: &str,
    arguments: impl FnOnce(&mut Command) -> &mut Command,
) -> Result<String, Failure> {
    command(folder, out, name, arguments)?.success(name)
}

fn command(
    folder: &Path,
    out: &Path,
    name: &str,
    arguments: impl FnOnce(&mut Command) -> &mut Command,
) -> Result<Finished, Failure> {
    let mut command = Command::new(name);
    command.current_dir(folder);
    arguments(&mut command);
    process::run(command, "", out, TOOL_LIMIT)
}
