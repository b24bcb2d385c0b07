//! Log lines, on standard error.

use crate::config::LogFormat;
use std::io::{self, IsTerminal};
use tracing::Level;

/// For `serve`: every request and what happens beside.
pub fn start(format: LogFormat) {
    let log = tracing_subscriber::fmt().with_writer(io::stderr).with_target(false);
    // An error says that there is a log already, as there may be in a test.
    let _ = match format {
        LogFormat::Text => log.with_ansi(io::stderr().is_terminal()).try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
}

/// For commands whose output is not the log: only what an operator should do something about.
pub fn warnings() {
    let log = tracing_subscriber::fmt().with_writer(io::stderr).with_target(false).without_time();
    let _ = log.with_max_level(Level::WARN).with_ansi(io::stderr().is_terminal()).try_init();
}
