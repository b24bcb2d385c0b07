//! The programs and packages that the scripts need, and a hint if one is missing.

use crate::failure::{Context, Failure};
use crate::interop::process;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The oldest major version of node on which all packages run.
const NODE_MIN: u32 = 18;
/// The path in Debian; the variable `CHROMIUM` replaces it.
const CHROMIUM: &str = "/usr/bin/chromium";
/// The module that the scripts share, and the script of `cargo xtask pictures`.
const NO_TESTS: [&str; 2] = ["harness.mjs", "pictures.mjs"];
/// The files that determine the packages: after a change of one, the packages must be installed again.
const PINS: [&str; 3] = ["package.json", "package-lock.json", "requirements.txt"];
const VERSION_LIMIT: Duration = Duration::from_secs(60);

/// The paths of the programs and packages.
pub struct BrowserSetup {
    /// The folder of the packages and of the scripts' copies: node looks for packages beside the script.
    folder: PathBuf,
    chromium: PathBuf,
}

impl BrowserSetup {
    /// Finds programs and packages, and copies the scripts to the folder of the packages.
    ///
    /// # Errors
    ///
    /// A program is missing or too old, or the packages are not those of the pinned versions.
    pub fn find(folder: &Path) -> Result<BrowserSetup, Failure> {
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
            fs::copy(sources.join(&name), folder.join(&name)).at(&sources.join(&name))?;
        }
        Ok(BrowserSetup { folder, chromium })
    }

    /// The names of the scripts to run, in order.
    pub fn scripts(&self, only: Option<&str>) -> Result<Vec<String>, Failure> {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let mut scripts: Vec<String> = names(&root.join("tools/browser"))?
            .into_iter()
            .filter(|name| !NO_TESTS.contains(&name.as_str()))
            .filter_map(|name| name.strip_suffix(".mjs").map(str::to_owned))
            .filter(|name| only.is_none_or(|only| name.contains(only)))
            .collect();
        scripts.sort();
        if scripts.is_empty() { Err(Failure("no script has such a name".into())) } else { Ok(scripts) }
    }

    /// The path of a file beside the scripts.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A command of node in the folder of the packages.
    pub fn node(&self) -> Command {
        let mut command = Command::new("node");
        command.current_dir(&self.folder);
        command
    }

    /// The path of the Chromium binary.
    pub fn chromium(&self) -> &Path {
        &self.chromium
    }

    /// The Python that has the packages of requirements.txt.
    pub fn python(&self) -> PathBuf {
        self.folder.join("python/bin/python")
    }
}

/// An error unless node is installed and recent enough.
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

/// The major version of a text such as `v18.20.4`.
fn major(version: &str) -> Option<u32> {
    version.strip_prefix('v')?.split('.').next()?.parse().ok()
}

/// The names of the files in a folder.
fn names(folder: &Path) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).at(folder)? {
        let entry = entry.at(folder)?;
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

    /// The lock file must not have an address of a private registry.
    #[test]
    fn the_lock_file_names_no_registry() {
        let lock = include_str!("../../../browser/package-lock.json");
        assert!(!lock.contains("\"resolved\"") && !lock.contains("://registry"));
        assert!(lock.contains("\"integrity\""));
    }
}
