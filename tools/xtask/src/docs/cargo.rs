//! The names in commands of cargo: packages, tests, benches, examples and programs have to exist.

use super::commands::is_placeholder;
use super::root;
use crate::failure::{Context, Failure};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The packages of the workspace, by their names.
pub struct Workspace {
    packages: BTreeMap<String, WorkspacePackage>,
}

struct WorkspacePackage {
    folder: PathBuf,
    /// The program of the package, if it has one.
    program: Option<String>,
}

impl Workspace {
    /// Reads the manifests of the workspace.
    ///
    /// # Errors
    ///
    /// A manifest cannot be read.
    pub fn read() -> Result<Workspace, Failure> {
        let root = root();
        let manifest = read_manifest(&root)?;
        let members = manifest.get("workspace").and_then(|workspace| workspace.get("members")?.as_array());
        let mut packages = BTreeMap::new();
        for member in members.into_iter().flatten().filter_map(toml::Value::as_str) {
            let folder = root.join(member);
            let manifest = read_manifest(&folder)?;
            let name = manifest.get("package").and_then(|package| package.get("name")?.as_str());
            let name = name.unwrap_or_default().to_owned();
            let named = manifest.get("bin").and_then(|bins| bins.get(0)?.get("name")?.as_str());
            let program = folder.join("src/main.rs").exists().then(|| named.unwrap_or(&name).to_owned());
            packages.insert(name, WorkspacePackage { folder, program });
        }
        Ok(Workspace { packages })
    }

    /// The program that `cargo run` with these arguments runs.
    pub fn program(&self, arguments: &[&str]) -> Option<&str> {
        if arguments.contains(&"--example") {
            return None;
        }
        let package = option(arguments, &["-p", "--package"]).next().unwrap_or("frontend");
        match self.packages.get(package)?.program.as_deref() {
            Some("xtask") => Some("cargo xtask"),
            other => other,
        }
    }

    /// Checks the names of packages and targets in the arguments of cargo.
    ///
    /// # Errors
    ///
    /// The first name that does not exist.
    pub fn check(&self, arguments: &[&str]) -> Result<(), String> {
        let at = arguments.iter().position(|word| *word == "--").unwrap_or(arguments.len());
        let arguments = &arguments[..at];
        let named: Vec<&str> = option(arguments, &["-p", "--package"]).collect();
        for name in &named {
            if !self.packages.contains_key(*name) {
                return Err(format!("the workspace has no package {name}"));
            }
        }
        let is_searched = |name: &&String| named.is_empty() || named.contains(&name.as_str());
        let searched =
            || self.packages.iter().filter(|(name, _)| is_searched(name)).map(|(_, package)| package);
        for (flag, folder) in [("--test", "tests"), ("--bench", "benches"), ("--example", "examples")] {
            for name in option(arguments, &[flag]) {
                let exists = |package: &WorkspacePackage| has_target(&package.folder.join(folder), name);
                if !searched().any(exists) {
                    return Err(format!("cargo {flag} {name} does not exist"));
                }
            }
        }
        for name in option(arguments, &["--bin"]) {
            if !searched().any(|package| package.program.as_deref() == Some(name)) {
                return Err(format!("cargo --bin {name} does not exist"));
            }
        }
        Ok(())
    }
}

fn read_manifest(folder: &Path) -> Result<toml::Value, Failure> {
    let path = folder.join("Cargo.toml");
    let text = fs::read_to_string(&path).at(&path)?;
    toml::from_str(&text).at(&path)
}

/// The values of a flag that has these names.
fn option<'a>(arguments: &[&'a str], names: &[&str]) -> impl Iterator<Item = &'a str> {
    let values = arguments.windows(2).filter(|pair| names.contains(&pair[0])).map(|pair| pair[1]);
    values.filter(|value| !is_placeholder(value))
}

fn has_target(folder: &Path, name: &str) -> bool {
    folder.join(format!("{name}.rs")).exists() || folder.join(name).join("main.rs").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_exist() {
        let workspace = Workspace::read().unwrap();
        for (command, fault) in [
            ("test --workspace", None),
            ("test -p frontend --test all -- --test x", None),
            ("bench -p bench --bench dns", None),
            ("test -p NAME", None),
            ("build --release --package frontend --bin mailprobe", None),
            ("test -p fronted", Some("the workspace has no package fronted")),
            ("test -p api --test contract", Some("cargo --test contract does not exist")),
            ("build --bin mailprobes", Some("cargo --bin mailprobes does not exist")),
        ] {
            let arguments: Vec<&str> = command.split(' ').collect();
            assert_eq!(workspace.check(&arguments).err().as_deref(), fault, "{command}");
        }
        assert_eq!(workspace.program(&["--release"]), Some("mailprobe"));
        assert_eq!(workspace.program(&["-p", "xtask"]), Some("cargo xtask"));
        assert_eq!(workspace.program(&["-p", "loadtest"]), Some("mailprobe-loadtest"));
        assert_eq!(workspace.program(&["-p", "frontend", "--example", "x"]), None);
    }
}
