//! The commands in the text of a page: programs, subcommands and flags have to exist.
//!
//! A command is a code span that begins with a program of the project, such as `mailprobe check --trace ADDRESS`. Words in
//! capitals stand for any value. A span that begins with a flag, or with a subcommand and has a flag, is a command too.

use super::cargo::Workspace;
use super::usage::Usage;
use crate::failure::Failure;
use std::collections::BTreeMap;
use std::path::Path;

/// The name of this program in the pages.
const TASKS: &str = "cargo xtask";
/// The flags that no help shows, and the subcommands that have them. docs/testing.md describes them as a part of tests.
const TEST_ONLY_FLAGS: [(&str, &str, &str); 1] = [("mailprobe", "serve", "--test-clock")];
const TEST_ONLY_COMMANDS: [(&str, &[&str]); 1] = [("mailprobe", &["clock"])];
/// Flags of other programs that the pages name without the program, and former flags.
const FOREIGN_FLAGS: [&str; 4] = ["--call-graph", "--log", "--no-fail-fast", "--variant"];
/// Words before a command that run it.
const PREFIXES: [&str; 2] = ["sudo", "time"];
const SEPARATORS: [&str; 5] = ["|", "||", "&&", "&", ";"];

/// The programs of the project, by the name that pages use.
pub struct Programs {
    usages: BTreeMap<&'static str, Usage>,
    workspace: Workspace,
}

impl Programs {
    /// Only the tasks of this program.
    ///
    /// # Errors
    ///
    /// A manifest of the workspace cannot be read.
    pub fn with_tasks(tasks: &clap::Command) -> Result<Programs, Failure> {
        let usages = BTreeMap::from([(TASKS, Usage::of(tasks))]);
        Ok(Programs { usages, workspace: Workspace::read()? })
    }

    /// Adds the programs of a folder, which print their flags.
    ///
    /// # Errors
    ///
    /// A program prints no help.
    pub fn ask(mut self, binaries: &Path, folder: &Path) -> Result<Programs, Failure> {
        for name in ["mailprobe", "mailprobe-loadtest", "mailnet"] {
            let hidden = TEST_ONLY_COMMANDS.iter().find(|(program, _)| *program == name);
            let hidden = hidden.map_or(&[][..], |(_, commands)| commands);
            self.usages.insert(name, Usage::ask(&binaries.join(name), hidden, folder)?);
        }
        for (program, subcommand, flag) in TEST_ONLY_FLAGS {
            let usage = self.usages.get_mut(program).and_then(|usage| usage.subcommands.get_mut(subcommand));
            usage
                .ok_or_else(|| Failure(format!("{program} has no {subcommand}")))?
                .flags
                .insert(flag.into(), false);
        }
        Ok(self)
    }

    /// Checks the commands of a code span. The result is whether it has any.
    ///
    /// # Errors
    ///
    /// The first program, subcommand or flag that does not exist.
    pub fn check(&self, span: &str) -> Result<bool, String> {
        let words = words(span);
        let mut is_command = false;
        for command in words.split(|word| SEPARATORS.contains(&word.as_str())) {
            is_command |= self.check_command(command)?;
        }
        Ok(is_command)
    }

    fn check_command(&self, words: &[String]) -> Result<bool, String> {
        let skipped =
            words.iter().take_while(|word| is_assignment(word) || PREFIXES.contains(&word.as_str()));
        let words: Vec<&str> = words[skipped.count()..].iter().map(String::as_str).collect();
        if let Some((program, arguments)) = self.program(&words) {
            return self.check_arguments(program, &arguments).map(|()| true);
        }
        match words.as_slice() {
            ["cargo", rest @ ..] => self.workspace.check(rest).map(|()| true),
            [first, ..] if is_flag(first) => self.check_flags(&words).map(|()| true),
            [first, rest @ ..] if rest.iter().any(|word| is_flag(word)) && !is_placeholder(first) => {
                // Such as `perf record -- mailprobe serve`.
                let after = rest.iter().position(|word| *word == "--").map_or(&[][..], |at| &rest[at + 1..]);
                if let Some((program, arguments)) = self.program(after) {
                    return self.check_arguments(program, &arguments).map(|()| true);
                }
                self.check_without_program(&words)
            }
            _ => Ok(false),
        }
    }

    /// The program that words run, and its arguments.
    fn program<'a>(&self, words: &[&'a str]) -> Option<(&'static str, Vec<&'a str>)> {
        let (name, arguments) = match words {
            ["cargo", "xtask", rest @ ..] => (TASKS, rest),
            ["cargo", "run", rest @ ..] => {
                let at = rest.iter().position(|word| *word == "--").unwrap_or(rest.len());
                (self.workspace.program(&rest[..at])?, rest.get(at + 1..).unwrap_or_default())
            }
            [first, rest @ ..] => (first.rsplit('/').next().unwrap_or_default(), rest),
            [] => return None,
        };
        let (name, _) = self.usages.get_key_value(name)?;
        Some((name, arguments.to_vec()))
    }

    fn check_arguments(&self, program: &str, arguments: &[&str]) -> Result<(), String> {
        let unknown = || format!("{program} is no program of the project");
        let (mut path, mut usage) = (program.to_owned(), self.usages.get(program).ok_or_else(unknown)?);
        let mut is_value = false;
        for (at, word) in arguments.iter().enumerate() {
            let (word, has_value) = word.split_once('=').map_or((*word, false), |(flag, _)| (flag, true));
            if word == "--" {
                return self.check_passed_on(&path, &arguments[at + 1..]);
            } else if is_flag(word) {
                let takes_value = usage.flags.get(word).ok_or_else(|| format!("{path} has no {word}"))?;
                is_value = *takes_value && !has_value;
            } else if std::mem::take(&mut is_value) || is_placeholder(word) {
            } else if !usage.subcommands.is_empty() {
                usage = usage.subcommands.get(word).ok_or_else(|| format!("{path} has no {word}"))?;
                path = format!("{path} {word}");
            } else if !usage.values.is_empty() && !usage.values.iter().any(|value| value == word) {
                return Err(format!("{path} has no {word}"));
            }
        }
        Ok(())
    }

    /// Checks flags, or a whole command, that a command passes on to the program that it starts.
    fn check_passed_on(&self, path: &str, flags: &[&str]) -> Result<(), String> {
        let subcommand = match path {
            "cargo xtask interop" => "check",
            "cargo xtask measure" => "clean",
            "cargo xtask cluster" | "cargo xtask postgres" => {
                return self.check(&flags.join(" ")).map(|_| ());
            }
            _ if path.starts_with("mailprobe-loadtest") => "serve",
            _ => return Err(format!("{path} passes no flags on")),
        };
        self.check_arguments("mailprobe", &[&[subcommand], flags].concat())
    }

    /// Checks flags without a program: one program has each of them.
    fn check_flags(&self, words: &[&str]) -> Result<(), String> {
        let is_known = |flag: &str| {
            FOREIGN_FLAGS.contains(&flag) || self.usages.values().any(|usage| usage.has_anywhere(flag))
        };
        let long = words.iter().filter(|word| word.starts_with("--") && word.len() > 2);
        let flags: Vec<&str> = long.map(|word| word.split('=').next().unwrap_or_default()).collect();
        match flags.iter().find(|flag| !is_known(flag)) {
            Some(flag) => Err(format!("no program has {flag}")),
            None => Ok(()),
        }
    }

    /// Checks a command that begins with a subcommand: one program has it with these flags. The result is false if no
    /// program has it.
    fn check_without_program(&self, words: &[&str]) -> Result<bool, String> {
        let having = self.usages.iter().filter(|(_, usage)| usage.subcommands.contains_key(words[0]));
        let results: Vec<_> = having.map(|(program, _)| self.check_arguments(program, words)).collect();
        let is_command = !results.is_empty();
        let is_right = results.iter().any(Result::is_ok);
        match results.into_iter().find_map(Result::err) {
            Some(fault) if !is_right => Err(fault),
            _ => Ok(is_command),
        }
    }
}

/// The words of a command line up to a comment. Quotes join words; brackets around optional parts are removed.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), _) if open == c => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '#') if word.is_empty() => break,
            (None, ' ') => words.extend(finish(&mut word)),
            _ => word.push(c),
        }
    }
    words.extend(finish(&mut word));
    words
}

fn finish(word: &mut String) -> Option<String> {
    let word = std::mem::take(word);
    let word = word.trim_start_matches('[').trim_end_matches(']');
    (!word.is_empty()).then(|| word.to_owned())
}

/// Whether a word sets a variable, such as `RUST_LOG=debug`.
fn is_assignment(word: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || matches!(c, '_' | '0'..='9'))
    };
    word.split_once('=').is_some_and(|(name, _)| is_name(name))
}

/// Whether a word is a flag and not a number such as `-10`, or the `-` of standard input.
fn is_flag(word: &str) -> bool {
    word.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c == '-' || c.is_ascii_alphabetic()))
}

/// Whether a word stands for others: `NAME`, `FILE.csv`, `...`.
pub fn is_placeholder(word: &str) -> bool {
    word == "..." || word.starts_with(|c: char| c.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command with flags; `=` follows those with a value.
    fn usage<const N: usize>(flags: &str, subcommands: [(&str, Usage); N]) -> Usage {
        let flags = flags.split_whitespace();
        let flags = flags.map(|flag| (flag.trim_end_matches('=').to_owned(), flag.ends_with('=')));
        let subcommands = subcommands.into_iter().map(|(name, usage)| (name.to_owned(), usage));
        Usage { flags: flags.collect(), subcommands: subcommands.collect(), values: Vec::new() }
    }

    fn programs() -> Programs {
        let soak = Usage { values: vec!["hostile".into(), "crash".into()], ..usage("--small", []) };
        let tasks = usage("", [("soak", soak), ("interop", usage("--only=", []))]);
        let check = usage("--trace --pace=", []);
        let mailprobe = usage("--config= -q", [("check", check), ("serve", usage("", []))]);
        let mailnet = usage("--scenario=", [("addresses", usage("-n=", []))]);
        let usages = BTreeMap::from([("mailprobe", mailprobe), ("mailnet", mailnet), (TASKS, tasks)]);
        Programs { usages, workspace: Workspace::read().unwrap() }
    }

    #[test]
    fn commands_exist() {
        let programs = programs();
        let right = [
            "mailprobe check --trace ADDRESS",
            "mailprobe --config FILE check --pace=lab -",
            "mailprobe --config a.toml check a@b.example > out.txt",
            "A=1 sudo target/release/mailprobe -q COMMAND",
            "mailprobe serve",
            "mailnet --scenario FILE [--scenario FILE]",
            "mailnet addresses -n N",
            "cargo xtask soak NAME --small",
            "cargo xtask soak hostile --small # a comment --of",
            "cargo xtask interop -- --pace lab",
            "cargo run --release -- check --trace x",
            "cargo run --release --package xtask -- soak crash",
            "perf record -F 99 -- mailprobe check --trace x",
            "cat x | mailprobe check - && mailprobe serve",
            "--trace",
            "--call-graph dwarf",
            "check --pace lab",
        ];
        for span in right {
            assert_eq!(programs.check(span), Ok(true), "{span}");
        }
        for span in ["mailprobe_up", "true", "check", "systemctl enable --now x", "", "-1", "a --b"] {
            assert_eq!(programs.check(span), Ok(false), "{span}");
        }
    }

    #[test]
    fn unknown_parts_are_refused() {
        let programs = programs();
        let wrong = [
            ("mailprobe check --tracing", "mailprobe check has no --tracing"),
            ("mailprobe serve --trace", "mailprobe serve has no --trace"),
            ("mailprobe chek", "mailprobe has no chek"),
            ("mailprobe --pace lab check", "mailprobe has no --pace"),
            ("mailprobe check --pace=lab -x", "mailprobe check has no -x"),
            ("mailnet serve", "mailnet has no serve"),
            ("cargo xtask sok", "cargo xtask has no sok"),
            ("cargo xtask soak hostil", "cargo xtask soak has no hostil"),
            ("cargo xtask soak NAME --big", "cargo xtask soak has no --big"),
            ("cargo xtask interop -- --small", "mailprobe check has no --small"),
            ("cargo xtask soak NAME -- --trace", "cargo xtask soak passes no flags on"),
            ("cargo run -- chek", "mailprobe has no chek"),
            ("cat x | mailprobe chek", "mailprobe has no chek"),
            ("perf record -- mailprobe chek", "mailprobe has no chek"),
            ("--tracing", "no program has --tracing"),
            ("check --tracing", "mailprobe check has no --tracing"),
        ];
        for (span, fault) in wrong {
            assert_eq!(programs.check(span), Err(fault.to_owned()), "{span}");
        }
    }
}
