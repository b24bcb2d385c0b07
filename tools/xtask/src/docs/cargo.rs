//! The names in commands of cargo: packages, tests, benches, examples and programs have to exist.

use super::commands::is_placeholder;
use crate::failure::{Context, Failure};
use crate::soak::world::cargo;
use serde_json::Value;
use std::collections::BTreeMap;

/// The packages of the workspace by their names, with the kind and the name of each target.
pub struct Workspace(BTreeMap<String, Vec<(String, String)>>);

impl Workspace {
    /// Asks cargo for the packages.
    ///
    /// # Errors
    ///
    /// As [`packages`].
    pub fn read() -> Result<Workspace, Failure> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let target = |target: &Value| (text(&target["kind"][0]), text(&target["name"]));
        let targets =
            |package: &Value| package["targets"].as_array().into_iter().flatten().map(target).collect();
        Ok(Workspace(packages()?.iter().map(|package| (text(&package["name"]), targets(package))).collect()))
    }

    /// The program that `cargo run` with these arguments runs.
    pub fn program(&self, arguments: &[&str]) -> Option<&str> {
        if arguments.contains(&"--example") {
            return None;
        }
        let package = option(arguments, &["-p", "--package"]).next().unwrap_or("frontend");
        match self.0.get(package)?.iter().find(|(kind, _)| kind == "bin")?.1.as_str() {
            "xtask" => Some("cargo xtask"),
            other => Some(other),
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
        if let Some(name) = named.iter().find(|name| !self.0.contains_key(**name)) {
            return Err(format!("the workspace has no package {name}"));
        }
        let is_searched = |name: &str| named.is_empty() || named.contains(&name);
        let searched: Vec<_> =
            self.0.iter().filter(|(name, _)| is_searched(name)).flat_map(|(_, targets)| targets).collect();
        for (flag, kind) in
            [("--test", "test"), ("--bench", "bench"), ("--example", "example"), ("--bin", "bin")]
        {
            for name in option(arguments, &[flag]) {
                if !searched.iter().any(|target| (target.0.as_str(), target.1.as_str()) == (kind, name)) {
                    return Err(format!("cargo {flag} {name} does not exist"));
                }
            }
        }
        Ok(())
    }
}

/// The packages of the workspace, as `cargo metadata` describes them.
///
/// # Errors
///
/// Cargo does not run, or finds a fault in a manifest.
pub fn packages() -> Result<Vec<Value>, Failure> {
    let mut command = cargo();
    command.args(["metadata", "--format-version", "1", "--no-deps", "--offline"]);
    let output = command.output().about("cargo metadata")?;
    let mut metadata: Value = serde_json::from_slice(&output.stdout)
        .about(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)))?;
    Ok(metadata["packages"].as_array_mut().map(std::mem::take).unwrap_or_default())
}

/// The values of a flag that has these names.
fn option<'a>(arguments: &[&'a str], names: &[&str]) -> impl Iterator<Item = &'a str> {
    let values = arguments.windows(2).filter(|pair| names.contains(&pair[0])).map(|pair| pair[1]);
    values.filter(|value| !is_placeholder(value))
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
