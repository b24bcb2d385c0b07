//! The flags and subcommands of a program, as it describes itself.

use crate::failure::Failure;
use crate::interop::process;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(20);

/// The flags and subcommands of a command.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Each flag, and whether it takes a value.
    pub flags: BTreeMap<String, bool>,
    /// The usage of each subcommand.
    pub subcommands: BTreeMap<String, Usage>,
    /// The allowed values of the arguments that are no flags; empty if any value is allowed.
    pub values: Vec<String>,
}

impl Usage {
    /// Asks a program for its help, and that of its subcommands. `hidden` has subcommands that the help does not list.
    ///
    /// # Errors
    ///
    /// The program prints no help.
    pub fn ask(program: &Path, hidden: &[&str], folder: &Path) -> Result<Usage, Failure> {
        ask(program, &[], hidden, folder)
    }

    /// Reads the description of a command in this program. Hidden flags are left out.
    pub fn of(command: &clap::Command) -> Usage {
        let mut usage = Usage::default();
        for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
            let takes_value = argument.get_action().takes_values();
            let long = argument.get_long().map(|long| format!("--{long}"));
            let short = argument.get_short().map(|short| format!("-{short}"));
            usage.flags.extend(long.into_iter().chain(short).map(|flag| (flag, takes_value)));
        }
        let positional = command.get_positionals().flat_map(clap::Arg::get_possible_values);
        usage.values = positional.map(|value| value.get_name().to_owned()).collect();
        usage.subcommands =
            command.get_subcommands().map(|one| (one.get_name().to_owned(), Usage::of(one))).collect();
        usage
    }

    /// Whether the command or one of its subcommands has the flag.
    pub fn has_anywhere(&self, flag: &str) -> bool {
        self.flags.contains_key(flag) || self.subcommands.values().any(|usage| usage.has_anywhere(flag))
    }
}

fn ask(program: &Path, path: &[&str], hidden: &[&str], folder: &Path) -> Result<Usage, Failure> {
    let mut command = Command::new(program);
    command.args(path).arg("--help");
    let help = process::run(command, "", folder, LIMIT)?.success(&program.display().to_string())?;
    let (mut usage, names) = parse(&help);
    for name in names.iter().map(String::as_str).chain(hidden.iter().copied()) {
        let path = [path, &[name]].concat();
        usage.subcommands.insert(name.into(), ask(program, &path, &[], folder)?);
    }
    Ok(usage)
}

/// The flags of a help text of clap, and the names of the subcommands.
fn parse(help: &str) -> (Usage, Vec<String>) {
    let (mut usage, mut names) = (Usage::default(), Vec::new());
    let mut lists_commands = false;
    for line in help.lines() {
        if !line.starts_with(' ') {
            lists_commands = line == "Commands:";
            continue;
        }
        // Descriptions are indented deeper than flags and subcommands.
        let entry = line.trim_start();
        let (name, _) = entry.split_once("  ").unwrap_or((entry, ""));
        match line.len() - entry.len() {
            2 if lists_commands && name != "help" => names.push(name.to_owned()),
            2 if name.starts_with('-') => add_flags(&mut usage, name),
            6 if name.starts_with("--") => add_flags(&mut usage, name),
            _ => {}
        }
    }
    (usage, names)
}

/// Adds the flags of an entry such as `-o, --output <OUT>`.
fn add_flags(usage: &mut Usage, entry: &str) {
    let takes_value = entry.contains('<');
    let flags = entry.split([' ', ',', '[', '=']).filter(|word| word.starts_with('-'));
    usage.flags.extend(flags.map(|flag| (flag.to_owned(), takes_value)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_subcommands_of_a_help_text() {
        let help = "\
Clean a list

Usage: x [OPTIONS] <COMMAND>

Commands:
  serve        Serve the API
  set-plan     Move an account
               with --force
  help         Print this message

Options:
  -o, --output <OUT>
          Write to this file. See
          --unordered

      --json      Print JSON
  -n <N>          Number
  -q
General settings:
      --dns <IP:PORT>    Address, in place of
                         --resolver
";
        let (usage, names) = parse(help);
        assert_eq!(names, ["serve", "set-plan"]);
        let flags: Vec<(&str, bool)> =
            usage.flags.iter().map(|(flag, value)| (flag.as_str(), *value)).collect();
        let expected = [
            ("--dns", true),
            ("--json", false),
            ("--output", true),
            ("-n", true),
            ("-o", true),
            ("-q", false),
        ];
        assert_eq!(flags, expected);
    }

    #[test]
    fn hidden_flags_are_unknown() {
        let usage = Usage::of(
            &clap::Command::new("x")
                .arg(clap::Arg::new("name").value_parser(["slow", "crash"]))
                .arg(clap::Arg::new("seed").long("seed").short('s'))
                .arg(clap::Arg::new("outside").long("outside").hide(true))
                .subcommand(clap::Command::new("sub").arg(clap::arg!(--deep))),
        );
        assert_eq!(usage.flags, BTreeMap::from([("--seed".into(), true), ("-s".into(), true)]));
        assert_eq!(usage.values, ["slow", "crash"]);
        assert!(usage.has_anywhere("--deep") && !usage.has_anywhere("--outside"));
    }
}
