//! Adds to the errors of clap the command that they are about, and flags of other programs that mean a flag of this one.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Command, CommandFactory, Error, FromArgMatches, Parser};
use std::ffi::OsString;

/// Flags of other programs, and what to write in place of them.
const MEANT: [(&str, &str); 4] = [
    ("--port", "--listen IP:PORT"),
    ("--host", "--listen IP:PORT"),
    ("--bind", "--listen IP:PORT"),
    ("--address", "--listen IP:PORT"),
];

/// A command line that is read with better errors.
pub(super) struct Explained<C>(pub C);

impl<C: CommandFactory> CommandFactory for Explained<C> {
    fn command() -> Command {
        C::command()
    }

    fn command_for_update() -> Command {
        C::command_for_update()
    }
}

impl<C: FromArgMatches> FromArgMatches for Explained<C> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        C::from_arg_matches(matches).map(Explained)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl<C: Parser> Parser for Explained<C> {
    fn try_parse_from<I, T>(arguments: I) -> Result<Self, Error>
    where
        I: IntoIterator<Item = T>,
        T: Into<OsString> + Clone,
    {
        let arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
        C::try_parse_from(&arguments)
            .map(Explained)
            .map_err(|error| explained(error, C::command(), &arguments))
    }
}

fn explained(mut error: Error, command: Command, arguments: &[OsString]) -> Error {
    let wrong = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(argument)) => argument.clone(),
        _ => String::new(),
    };
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let meant = MEANT.iter().find(|(flag, _)| *flag == wrong);
            // Commands without the flag keep the error.
            let has_flag = || named(command, arguments).1.get_arguments().any(|arg| arg.get_id() == "listen");
            if let Some((_, meant)) = meant.filter(|_| has_flag()) {
                let meant = ContextValue::String((*meant).to_owned());
                error.insert(ContextKind::SuggestedArg, meant);
            }
        }
        // clap names no command for these.
        ErrorKind::InvalidValue | ErrorKind::ValueValidation if error.get(ContextKind::Usage).is_none() => {
            let (names, _) = named(command, arguments);
            error.insert(ContextKind::Usage, ContextValue::StyledStr(format!("Usage: {names}").into()));
        }
        _ => {}
    }
    error
}

/// The names of the command that these arguments select, and the command.
fn named(mut command: Command, arguments: &[OsString]) -> (String, Command) {
    command.build();
    let mut names = command.get_name().to_owned();
    for word in arguments.iter().skip(1) {
        if let Some(next) = command.find_subcommand(word) {
            names = format!("{names} {}", next.get_name());
            command = next.clone();
        }
    }
    (names, command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_their_command_and_the_flag_that_was_meant() {
        for (arguments, expected) in [
            (
                "mailprobe clean a.csv --only good",
                &["invalid value 'good' for '--only <CLASS>'", "Usage: mailprobe clean"][..],
            ),
            (
                "mailprobe account create a --plan",
                &["a value is required for '--plan <", "Usage: mailprobe account create"],
            ),
            ("mailprobe clean a.csv --part 3/3", &["the first of 3 parts is 0", "Usage: mailprobe clean"]),
            ("mailprobe -q clean a.csv --memory x", &["invalid value 'x'", "Usage: mailprobe clean"]),
            (
                "mailprobe serve --port 80",
                &[
                    "'--port' found",
                    "tip: a similar argument exists: '--listen IP:PORT'",
                    "Usage: mailprobe serve",
                ],
            ),
            ("mailprobe check a@b.example --port 80", &["'--port' found"]),
        ] {
            let read = Explained::<super::super::Cli>::try_parse_from(arguments.split(' '));
            let Err(error) = read else { panic!("{arguments}") };
            let said = error.to_string();
            for expected in expected {
                assert!(said.contains(expected), "{arguments}: {said}");
            }
            assert_eq!(said.contains("--listen"), arguments.contains("serve"), "{arguments}: {said}");
        }
    }
}
