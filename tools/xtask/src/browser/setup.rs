//! What the scripts need on the machine, and what to do when it is not there.

use super::wrong;
use crate::interop::{Failure, process};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Node's major version from which on all packages run.
const NODE_MIN: u32 = 18;
/// Debian's; the variable `CHROMIUM` names another.
const CHROMIUM: &str = "/usr/bin/chromium";
/// What the scripts share; no script itself.
const HARNESS: &str = "harness.mjs";
/// The packages are those of these files: when one has changed, they are to be installed anew.
const PINS: [&str; 3] = ["package.json", "package-lock.json", "requirements.txt"];
const VERSION_LIMIT: Duration = Duration::from_secs(60);

/// Where everything is.
pub struct Setup {
    /// The packages, and the scripts as they are run: node looks for packages beside them.
    folder: PathBuf,
    chromium: PathBuf,
}

impl Setup {
    /// Looks for programs and packages, and copies the scripts beside the packages.
    pub fn find(folder: &Path) -> Result<Setup, Failure> {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let chromium = PathBuf::from(std::env::var_os("CHROMIUM").unwrap_or_else(|| CHROMIUM.into()));
        if !chromium.is_file() {
            return Err(Failure(format!(
                "{}: not there; run .ci/browser, or `apt-get install chromium`, or set CHROMIUM",
                chromium.display()
            )));
        }
        node_version()?;
        let (sources, folder) = (root.join("tools/browser"), root.join(folder));
        for pin in PINS {
            let same = fs::read(sources.join(pin)).ok() == fs::read(folder.join("installed").join(pin)).ok();
            if !same {
                return Err(Failure(format!(
                    "the packages of tools/browser/{pin} are not installed in {}; run .ci/browser",
                    folder.display()
                )));
            }
        }
        for name in names(&sources)? {
            fs::copy(sources.join(&name), folder.join(&name))
                .map_err(|error| wrong(&sources.join(&name), error))?;
        }
        Ok(Setup { folder, chromium })
    }

    /// The names of the scripts to run, in order.
    pub fn scripts(&self, only: Option<&str>) -> Result<Vec<String>, Failure> {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let mut scripts: Vec<String> = names(&root.join("tools/browser"))?
            .into_iter()
            .filter(|name| name != HARNESS)
            .filter_map(|name| name.strip_suffix(".mjs").map(str::to_owned))
            .filter(|name| only.is_none_or(|only| name.contains(only)))
            .collect();
        scripts.sort();
        if scripts.is_empty() { Err(Failure("no script has such a name".into())) } else { Ok(scripts) }
    }

    /// A file beside the scripts.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// node, where the packages are.
    pub fn node(&self) -> Command {
        let mut command = Command::new("node");
        command.current_dir(&self.folder);
        command
    }

    /// Chromium.
    pub fn chromium(&self) -> &Path {
        &self.chromium
    }

    /// The Python that has the packages of requirements.txt.
    pub fn python(&self) -> PathBuf {
        self.folder.join("python/bin/python")
    }
}

/// An error unless node is there and new enough.
fn node_version() -> Result<(), Failure> {
    let missing = |why: String| {
        Failure(format!("node: {why}; run .ci/browser, or install node {NODE_MIN} or newer with npm"))
    };
    let mut command = Command::new("node");
    command.arg("--version");
    let said = process::run(command, "", &std::env::temp_dir(), VERSION_LIMIT)
        .and_then(|finished| finished.success("node --version"))
        .map_err(|failure| missing(failure.0))?;
    match major(said.trim()) {
        Some(major) if major >= NODE_MIN => Ok(()),
        _ => Err(missing(format!("it is {}", said.trim()))),
    }
}

/// The 18 of `v18.20.4`.
fn major(version: &str) -> Option<u32> {
    version.strip_prefix('v')?.split('.').next()?.parse().ok()
}

/// The files of a folder.
fn names(folder: &Path) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| wrong(folder, error))? {
        let entry = entry.map_err(|error| wrong(folder, error))?;
        if entry.path().is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_version_is_read() {
        assert_eq!(major("v18.20.4"), Some(18));
        assert_eq!(major("v24.0.0-nightly"), Some(24));
        assert_eq!((major("18.20.4"), major("v"), major("")), (None, None, None));
    }

    /// An address of a registry that only one place can reach has no business in the lock file.
    #[test]
    fn the_lock_file_names_no_registry() {
        let lock = include_str!("../../../browser/package-lock.json");
        assert!(!lock.contains("\"resolved\"") && !lock.contains("://registry"));
        assert!(lock.contains("\"integrity\""));
    }
}
