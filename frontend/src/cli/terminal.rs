//! Colours on a terminal.

use std::io::IsTerminal;

/// Whether a stream shows colours: it is a terminal, `NO_COLOR` (no-color.org) is not set, and the terminal is not `dumb`.
pub(super) fn shows_colours(stream: &impl IsTerminal) -> bool {
    let given = |name: &str| std::env::var_os(name).unwrap_or_default();
    stream.is_terminal() && given("NO_COLOR").is_empty() && given("TERM") != "dumb"
}
