//! The examples in each command's help, from the file beside this one. A test reads every line as a command line.

/// The examples of a command; `mailprobe` for the program.
pub(super) fn of(command: &str) -> &'static str {
    let sections = include_str!("examples.txt").split("== ");
    let texts = sections.filter_map(|section| section.split_once('\n'));
    let of_command = texts.into_iter().find(|(name, _)| *name == command);
    of_command.map_or("", |(_, text)| text.trim_end())
}
