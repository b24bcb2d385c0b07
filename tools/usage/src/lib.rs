//! The form of errors on the command line, the same in all programs of this workspace: `PROGRAM: MESSAGE`, in one line on
//! standard error. An error of usage ends with the command that prints the help, and the exit code is 2.
//!
//! [`parse`] reads the arguments. [`parse_with`] also knows flags of other programs. [`complain`] writes an error. [`values`]
//! reads numbers and times.

pub mod values;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Parser};
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

/// The exit code of an error of usage, as of clap and of most programs.
const WRONG_USAGE: u8 = 2;

/// Reads the arguments, the first of which is the name of the program.
///
/// # Errors
/// The exit code, after the error, the help or the version was written.
pub fn parse<T: Parser>(program: &str, arguments: impl IntoIterator<Item = OsString>) -> Result<T, ExitCode> {
    parse_with(program, arguments, &[])
}

/// A flag of other programs, the flag that means the same here, and the form of its value.
pub type Meant = (&'static str, &'static str, &'static str);

/// Like [`parse`]. The error about an unknown flag names the flag that was `meant`, if the command has it.
///
/// # Errors
/// As [`parse`].
pub fn parse_with<T: Parser>(
    program: &str,
    arguments: impl IntoIterator<Item = OsString>,
    meant: &[Meant],
) -> Result<T, ExitCode> {
    let error = match tried(arguments, meant) {
        Ok(parsed) => return Ok(parsed),
        Err(error) => error,
    };
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            Err(if error.print().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // If standard error is closed, only the exit code remains.
            let _ = error.print();
            Err(ExitCode::from(WRONG_USAGE))
        }
        _ => {
            complain(program, &in_one_line(program, &error));
            Err(ExitCode::from(WRONG_USAGE))
        }
    }
}

/// The line that [`parse_with`] writes if it refuses these arguments; for tests.
pub fn refusal<T: Parser>(
    program: &str,
    arguments: impl IntoIterator<Item = OsString>,
    meant: &[Meant],
) -> Option<String> {
    tried::<T>(arguments, meant).err().map(|error| in_one_line(program, &error))
}

fn tried<T: Parser>(
    arguments: impl IntoIterator<Item = OsString>,
    meant: &[Meant],
) -> Result<T, clap::Error> {
    let arguments = without_help_of_help(&T::command(), arguments.into_iter().collect());
    let matches = examples_first(T::command()).try_get_matches_from(&arguments);
    let parsed = matches.and_then(|mut matches| T::from_arg_matches_mut(&mut matches));
    parsed.map_err(|error| explained(error, T::command(), &arguments, meant))
}

/// The layout of a help: the examples (`after_help`) are before the flags, which can fill several screens.
const HELP: &str = "{before-help}{about-with-newline}\n{usage-heading} {usage}{after-help}\n\n{all-args}";

/// The help with the examples first. A negative number is a value, so the flag says which values it takes; otherwise clap would take
/// it for an unknown flag and advise `--`, which helps nobody.
fn examples_first(command: Command) -> Command {
    command.help_template(HELP).allow_negative_numbers(true).mut_subcommands(examples_first)
}

/// The error with what clap leaves out: the command of a wrong value, and the flag that was meant.
fn explained(
    mut error: clap::Error,
    mut root: Command,
    arguments: &[OsString],
    meant: &[Meant],
) -> clap::Error {
    root.build();
    let (names, command) = selected(&root, arguments);
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let wrong = match error.get(ContextKind::InvalidArg) {
                Some(ContextValue::String(argument)) => argument.clone(),
                _ => String::new(),
            };
            let wrong = wrong.as_str();
            let has = |flag: &str| command.get_arguments().any(|known| known.get_long() == Some(flag));
            let flag = meant.iter().find(|(other, flag, _)| *other == wrong && has(flag));
            let tip = if let Some((_, flag, value)) = flag {
                error.insert(ContextKind::SuggestedArg, ContextValue::String(format!("--{flag} {value}")));
                None
            } else if let Some(whole) = split_number(arguments, wrong) {
                Some(format!("a number has no spaces: write {whole}"))
            } else {
                has_elsewhere(&root, &names, wrong)
            };
            if let Some(tip) = tip {
                // The option that is meant has this name, so it is none with a similar name.
                error.remove(ContextKind::SuggestedArg);
                error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
            } else if wrong.starts_with("--") && wrong.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
            {
                // clap proposes to pass it as a value, which no option is.
                error.remove(ContextKind::Suggested);
            }
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation if error.get(ContextKind::Usage).is_none() => {
            error.insert(ContextKind::Usage, ContextValue::StyledStr(format!("Usage: {names}").into()));
        }
        _ => {}
    }
    error
}

/// The whole number or time, if the argument is a part of one that was written with spaces: `5 000` or `15 m`.
fn split_number(arguments: &[OsString], wrong: &str) -> Option<String> {
    let at = arguments.iter().position(|argument| argument == wrong)?;
    let is_number = |text: &str| values::number(text, 0, u64::MAX).is_ok();
    let mut from = at;
    while let Some(before) = from.checked_sub(1).and_then(|before| arguments.get(before)?.to_str())
        && is_number(before)
    {
        from -= 1;
    }
    let is_group = |text: &str| text.len() == 3 && is_number(text);
    let further =
        arguments.iter().skip(at + 1).map_while(|group| group.to_str().filter(|group| is_group(group)));
    let to = at + 1 + if is_group(wrong) { further.count() } else { 0 };
    let groups = arguments.get(from..to)?.iter().filter_map(|group| group.to_str());
    let whole: String = groups.collect();
    let is_time = values::duration(&whole, None).is_ok();
    let is_grouped = wrong.len() == 3 && is_number(&whole);
    let is_split = from < at && (is_grouped || is_time);
    is_split.then(|| whole.parse().map_or(whole, values::grouped))
}

/// The names of the command that these arguments select, and the command.
fn selected<'a>(root: &'a Command, arguments: &[OsString]) -> (String, &'a Command) {
    let (mut names, mut command) = (root.get_name().to_owned(), root);
    for word in arguments.iter().skip(1) {
        if let Some(next) = command.find_subcommand(word) {
            names = format!("{names} {}", next.get_name());
            command = next;
        }
    }
    (names, command)
}

/// The commands that have the option `wrong`; those with the most words of `names` first.
fn has_elsewhere(root: &Command, names: &str, wrong: &str) -> Option<String> {
    let mut owners = Vec::new();
    add_owners(root, root.get_name().to_owned(), wrong, &mut owners);
    let shared = |owner: &str| owner.split(' ').zip(names.split(' ')).take_while(|(a, b)| a == b).count();
    owners.sort_by_key(|owner| std::cmp::Reverse(shared(owner)));
    let named: Vec<String> = owners.iter().take(2).map(|owner| format!("`{owner}`")).collect();
    match owners.len() {
        0 => None,
        1 => Some(format!("{} has {wrong}", named[0])),
        2 => Some(format!("{} have {wrong}", named.join(" and "))),
        count => Some(format!("{} and {} other commands have {wrong}", named.join(", "), count - 2)),
    }
}

/// Adds the names of the commands below and with `command` that have this option.
fn add_owners(command: &Command, names: String, option: &str, owners: &mut Vec<String>) {
    let is_it = |known: &&Arg| {
        let names = known.get_long_and_visible_aliases().unwrap_or_default();
        let is_long = option.strip_prefix("--").is_some_and(|option| names.contains(&option));
        let is_short = known.get_short().is_some_and(|short| option == format!("-{short}"));
        (is_long || is_short) && !known.is_hide_set()
    };
    let found = command.get_arguments().find(is_it);
    for next in command.get_subcommands().filter(|next| !next.is_hide_set() && next.get_name() != "help") {
        // A global option is that of the command that all commands below it share.
        if !found.is_some_and(Arg::is_global_set) {
            add_owners(next, format!("{names} {}", next.get_name()), option, owners);
        }
    }
    if found.is_some() {
        owners.push(names);
    }
}

/// Removes `--help` after the command `help`, which takes it for the name of a command. `help` and `help COMMAND` are helps already.
fn without_help_of_help(command: &Command, mut arguments: Vec<OsString>) -> Vec<OsString> {
    let Some((last, words)) = arguments.split_last() else { return arguments };
    if last != "--help" && last != "-h" {
        return arguments;
    }
    let mut command = Some(command);
    let is_help = |word: &OsString| {
        let Some(parent) = command.filter(|parent| parent.has_subcommands()) else { return false };
        let is_flag = word.as_encoded_bytes().starts_with(b"-");
        command = if is_flag { command } else { parent.find_subcommand(word) };
        word == "help"
    };
    if words.iter().skip(1).any(is_help) {
        arguments.pop();
    }
    arguments
}

/// Writes an error to standard error. The error stays one line, even if it quotes control characters.
pub fn complain(program: &str, message: &str) {
    let line: String = message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    // If standard error is closed, only the exit code remains.
    let _ = writeln!(io::stderr(), "{program}: {line}");
}

/// clap explains an error in several lines; the first paragraph contains the error.
fn in_one_line(program: &str, error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .filter(|line| !line.is_empty());
    let mut what = String::new();
    for line in lines {
        let separator = if what.is_empty() {
            ""
        } else if line.starts_with("tip:") {
            "; "
        } else {
            " "
        };
        what.push_str(separator);
        what.push_str(line);
    }
    format!("{}; see `{} --help`", what.trim_start_matches("error: "), command_in_error(program, &text))
}

/// The command that the line `Usage:` of an error names, such as `mailprobe key create`.
fn command_in_error(program: &str, text: &str) -> String {
    let usage = text.lines().find_map(|line| line.trim().strip_prefix("Usage:")).unwrap_or(program);
    let is_name = |word: &&str| word.starts_with(|c: char| c.is_ascii_lowercase());
    let words: Vec<&str> = usage.split_whitespace().take_while(is_name).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[derive(Parser, Debug)]
    #[command(name = "tool")]
    enum Tool {
        /// Runs.
        Run {
            /// The rate.
            #[arg(long, value_parser = values::whole_number(0..=u32::MAX))]
            rate: u32,
        },
        /// Walks.
        Walk {
            /// The way.
            way: Vec<String>,
        },
    }

    #[test]
    fn an_error_of_usage_is_one_line_with_the_command_for_help() {
        for (arguments, expected) in [
            (
                "tool run --rat 7",
                "unexpected argument '--rat' found; tip: a similar argument exists: '--rate'; see `tool run --help`",
            ),
            ("tool fly", "unrecognized subcommand 'fly'; see `tool --help`"),
            (
                "tool run",
                "the following required arguments were not provided: --rate <RATE>; see `tool run --help`",
            ),
            (
                "tool run --rate x",
                "invalid value 'x' for '--rate <RATE>': give a whole number from 0 to 4,294,967,295; see `tool run --help`",
            ),
            (
                "tool run --rate",
                "a value is required for '--rate <RATE>' but none was supplied; see `tool run --help`",
            ),
            (
                "tool run --speed 7",
                "unexpected argument '--speed' found; tip: a similar argument exists: '--rate N'; see `tool run --help`",
            ),
            (
                "tool run --rate 5 000",
                "unexpected argument '000' found; tip: a number has no spaces: write 5,000; see `tool run --help`",
            ),
            (
                "tool run --rate 1 234 567",
                "unexpected argument '234' found; tip: a number has no spaces: write 1,234,567; see `tool run --help`",
            ),
            (
                "tool walk --rate 1",
                "unexpected argument '--rate' found; tip: `tool run` has --rate; see `tool walk --help`",
            ),
            ("tool walk --raet=1", "unexpected argument '--raet' found; see `tool walk --help`"),
            (
                "tool --rate 1 run",
                "unexpected argument '--rate' found; tip: `tool run` has --rate; see `tool --help`",
            ),
            (
                "tool walk a --x@b.example",
                "unexpected argument '--x@b.example' found; tip: to pass '--x@b.example' as a value, use '-- --x@b.example'; see `tool walk --help`",
            ),
            ("tool run --rate 1 7", "unexpected argument '7' found; see `tool run --help`"),
            ("tool --speed", "unexpected argument '--speed' found; see `tool --help`"),
        ] {
            let words: Vec<OsString> = arguments.split(' ').map(OsString::from).collect();
            let said = refusal::<Tool>("tool", words, &[("--speed", "rate", "N")]);
            assert_eq!(said.as_deref(), Some(expected));
        }
    }

    #[test]
    fn examples_are_before_the_flags() {
        let command =
            || Command::new("tool").subcommand(Tool::command().after_help("Examples:\n  tool tool run"));
        let error = examples_first(command()).try_get_matches_from(["tool", "tool", "--help"]).unwrap_err();
        let said = error.to_string();
        let at = |text: &str| said.find(text).unwrap();
        assert!(
            at("Usage: tool tool") < at("\n\nExamples:\n") && at("Examples:") < at("\n\nCommands:\n"),
            "{said}"
        );
    }

    #[test]
    fn help_has_a_help() {
        for (arguments, expected) in [
            ("tool help --help", "tool help"),
            ("tool help run -h", "tool help run"),
            ("tool run --help", "tool run --help"),
            ("tool run help --help", "tool run help --help"),
            ("tool --help", "tool --help"),
            ("tool", "tool"),
        ] {
            let words = arguments.split(' ').map(OsString::from).collect();
            let read = without_help_of_help(&Tool::command(), words);
            assert_eq!(read.join(std::ffi::OsStr::new(" ")), expected, "{arguments}");
        }
        let error = Tool::try_parse_from(["tool", "help"]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DisplayHelp);
    }

    #[test]
    fn arguments_are_read() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let Ok(Tool::Run { rate }) = parse("tool", words("tool run --rate 7")) else { panic!("not read") };
        assert_eq!(rate, 7);
        assert!(parse::<Tool>("tool", words("tool --version")).is_err());
    }
}
