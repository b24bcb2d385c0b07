//! A minimal Debian in a folder, with the Rust toolchain of this machine and an ordinary user.
//!
//! debootstrap's result is kept as an archive beside the roots, so a second run needs no network. All mounts are made in the mount
//! namespace of a command and end with it, and so do all its processes: it is a process id namespace, whose first process dies with this
//! program. After a kill only the folder is left, which the next run removes.

use crate::failure::{Context, Failure};
use crate::interop::process;
use clap::ValueEnum;
use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The server with the packages of Debian.
pub const DEBIAN: &str = "http://deb.debian.org/debian";
/// Debian with its packages comes over the network.
pub const DEBOOTSTRAP_LIMIT: Duration = Duration::from_secs(900);
const COMMAND_LIMIT: Duration = Duration::from_secs(900);
/// The user of the commands, and its number.
const USER: &str = "builder";
const ID: u32 = 1000;
/// The home folder of the user.
pub const HOME: &str = "/home/builder";
/// The toolchain inside the root.
const TOOLCHAIN: &str = "/opt/rust";
const ROOT_PREFIX: &str = "root-";

/// A release of Debian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Release {
    /// Debian 12.
    #[value(name = "12")]
    Bookworm,
    /// Debian 13.
    #[value(name = "13")]
    Trixie,
}

impl Release {
    /// All releases, the oldest one first.
    pub const ALL: [Release; 2] = [Release::Bookworm, Release::Trixie];

    fn suite(self) -> &'static str {
        match self {
            Release::Bookworm => "bookworm",
            Release::Trixie => "trixie",
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Release::Bookworm => "debian-12",
            Release::Trixie => "debian-13",
        })
    }
}

/// A root file system. The drop removes it.
pub struct BareRoot {
    release: Release,
    /// The folder of the run: the root, and the outputs of commands.
    folder: PathBuf,
    registry: PathBuf,
    /// Folders of this machine, their places in the root, and whether they are read-only there.
    binds: Vec<(PathBuf, PathBuf, bool)>,
}

impl BareRoot {
    /// Makes a root with these packages.
    ///
    /// # Errors
    ///
    /// debootstrap fails, or a file cannot be written.
    pub fn make(release: Release, packages: &[String]) -> Result<BareRoot, Failure> {
        let cache = process::target_folder()?.join("bare");
        fs::create_dir_all(&cache).at(&cache)?;
        remove_old(&cache)?;
        let folder = cache.join(format!("{ROOT_PREFIX}{}-{release}", std::process::id()));
        fs::create_dir(&folder).at(&folder)?;
        let registry = registry()?;
        let mut root = BareRoot { release, folder, registry, binds: Vec::new() };
        fs::create_dir(root.path()).at(&root.path())?;
        let archive = cache.join(format!("{release}-{}.tar", packages.join("-")));
        if !archive.exists() {
            root.bootstrap(packages, &archive)?;
        }
        root.run("tar", |it| {
            it.arg("--extract").arg("--file").arg(&archive).arg("--directory").arg(root.path())
        })?;
        root.set_up()?;
        let sysroot = root.run("rustc", |it| it.args(["--print", "sysroot"]))?;
        root.bind(Path::new(sysroot.trim()), Path::new(TOOLCHAIN), true)?;
        Ok(root)
    }

    /// The release of Debian.
    pub fn release(&self) -> Release {
        self.release
    }

    /// The folder of the run, for files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The cache of crates of this machine.
    pub fn registry(&self) -> &Path {
        &self.registry
    }

    /// The path outside of a path in the root.
    pub fn outside(&self, inside: &Path) -> PathBuf {
        self.path().join(inside.strip_prefix("/").unwrap_or(inside))
    }

    /// Shows a folder of this machine in the root.
    ///
    /// # Errors
    ///
    /// There is no place for it.
    pub fn bind(&mut self, folder: &Path, inside: &Path, is_read_only: bool) -> Result<(), Failure> {
        let is_in_another = self.binds.iter().any(|(_, other, _)| inside.starts_with(other));
        let place = self.outside(inside);
        if !is_in_another {
            fs::create_dir_all(&place).at(&place)?;
        }
        self.binds.push((folder.to_owned(), place, is_read_only));
        Ok(())
    }

    /// Gives folders of this machine to the user of the root, with their content if the flag is set. Folders in the home folder of the
    /// root are named by their path inside.
    ///
    /// # Errors
    ///
    /// The owner cannot be changed.
    pub fn give(&self, folders: &[(&Path, bool)]) -> Result<(), Failure> {
        for (folder, with_content) in folders {
            let path = if folder.starts_with(HOME) { self.outside(folder) } else { folder.to_path_buf() };
            if path.exists() {
                let recursive = if *with_content { &["--recursive"][..] } else { &[] };
                let owner = format!("{ID}:{ID}");
                self.run("chown", |it| it.args(recursive).args(["--no-dereference", &owner]).arg(&path))?;
            }
        }
        Ok(())
    }

    /// Lets the user reach a place through the folders above it, such as `/root`. The folders are those of the root, not of the machine.
    ///
    /// # Errors
    ///
    /// A folder's mode cannot be changed.
    pub fn let_through(&self, inside: &Path) -> Result<(), Failure> {
        for folder in inside.ancestors().skip(1).filter(|folder| folder.parent().is_some()) {
            let path = self.outside(folder);
            let changed = fs::metadata(&path).and_then(|found| {
                let mode = found.permissions().mode();
                fs::set_permissions(&path, fs::Permissions::from_mode(mode | 0o011))
            });
            changed.at(&path)?;
        }
        Ok(())
    }

    /// A command that runs a script of shell in the root, as the user, with these further variables.
    pub fn command(&self, script: &str, variables: &[(String, String)]) -> Command {
        let mut mounts = format!("mount -t proc proc '{}/proc'\n", self.path().display());
        for (folder, place, is_read_only) in &self.binds {
            mounts += &format!("mount --bind '{}' '{}'\n", folder.display(), place.display());
            if *is_read_only {
                mounts += &format!("mount -o remount,bind,ro '{}'\n", place.display());
            }
        }
        // The shell stays the first process of its namespace, because it collects processes that lost their parents.
        mounts += "chroot \"$@\"\n";
        // The parent of these processes is this program: they must not outlive it.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child"]);
        command.args(["sh", "-euc", &mounts, "sh"]).arg(self.path());
        let id = ID.to_string();
        command.args([
            "setpriv",
            "--reuid",
            &id,
            "--regid",
            &id,
            "--clear-groups",
            "env",
            "--ignore-environment",
        ]);
        command.arg(format!("PATH={TOOLCHAIN}/bin:/usr/local/bin:/usr/bin:/bin"));
        command.args([format!("HOME={HOME}"), format!("USER={USER}")]);
        command.args(variables.iter().map(|(name, value)| format!("{name}={value}")));
        command.args(["sh", "-euc", script]);
        command
    }

    fn path(&self) -> PathBuf {
        self.folder.join("root")
    }

    /// Runs a program of this machine to its end.
    fn run(
        &self,
        program: &str,
        arguments: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Result<String, Failure> {
        let mut command = Command::new(program);
        arguments(&mut command);
        process::run(command, "", &self.folder, COMMAND_LIMIT)?.success(program)
    }

    /// Fills the root from the network, and keeps the result.
    fn bootstrap(&self, packages: &[String], archive: &Path) -> Result<(), Failure> {
        // It mounts /proc in the root. In a mount namespace of its own, nothing stays mounted if it is killed.
        let mut command = Command::new("unshare");
        command.args(["--mount", "debootstrap"]);
        command.args(["--variant=minbase", &format!("--include={}", packages.join(","))]);
        command.arg(self.release.suite()).arg(self.folder.join("new")).arg(DEBIAN);
        process::run(command, "", &self.folder, DEBOOTSTRAP_LIMIT)?.success("debootstrap")?;
        let draft = archive.with_extension("new");
        self.run("tar", |it| {
            it.arg("--create")
                .arg("--file")
                .arg(&draft)
                .arg("--directory")
                .arg(self.folder.join("new"))
                .arg(".")
        })?;
        fs::rename(&draft, archive).at(archive)?;
        remove(&self.folder.join("new"))
    }

    /// The user, the names of loopback that Debian's installer writes, and the resolver and certificates of this machine.
    fn set_up(&self) -> Result<(), Failure> {
        let etc = |name: &str| self.outside(Path::new("/etc")).join(name);
        let append = |name: &str, line: &str| {
            let path = etc(name);
            let text = fs::read_to_string(&path).unwrap_or_default();
            fs::write(&path, format!("{text}{line}\n")).at(&path)
        };
        append("passwd", &format!("{USER}:x:{ID}:{ID}::{HOME}:/bin/sh"))?;
        append("group", &format!("{USER}:x:{ID}:"))?;
        let hosts = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n";
        fs::write(etc("hosts"), hosts).at(&etc("hosts"))?;
        for name in ["resolv.conf", "ssl/certs/ca-certificates.crt"] {
            let own = Path::new("/etc").join(name);
            if own.exists() {
                fs::copy(&own, etc(name)).at(&etc(name))?;
            }
        }
        let home = self.outside(Path::new(HOME));
        fs::create_dir_all(&home).at(&home)?;
        self.give(&[(Path::new(HOME), true)])
    }
}

impl Drop for BareRoot {
    fn drop(&mut self) {
        // An error leaves files, which the next run removes.
        let _ = remove(&self.folder);
    }
}

/// The folder of cargo with the crates of this machine.
///
/// # Errors
///
/// The environment names neither this folder nor a home.
pub fn registry() -> Result<PathBuf, Failure> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    let home = home.ok_or_else(|| Failure("neither CARGO_HOME nor HOME is set".into()))?;
    Ok(home.join("registry"))
}

/// Removes the roots of runs that were killed.
fn remove_old(cache: &Path) -> Result<(), Failure> {
    for entry in fs::read_dir(cache).at(cache)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix(ROOT_PREFIX).and_then(|rest| rest.split('-').next());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Removes a root, and nothing that is mounted below it.
fn remove(folder: &Path) -> Result<(), Failure> {
    let removed =
        Command::new("rm").args(["--recursive", "--force", "--one-file-system"]).arg(folder).status();
    let removed = removed.at(folder)?;
    if removed.success() { Ok(()) } else { Err(Failure(format!("{}: {removed}", folder.display()))) }
}
