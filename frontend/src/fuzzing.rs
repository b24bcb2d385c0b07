//! The reader of configuration files as a function of text. tools/fuzz calls it with malformed input.

use crate::config::{Config, file};
use std::path::Path;

/// Reads a configuration file.
///
/// # Errors
/// The byte of the error, and its reason.
pub fn configuration(text: &str) -> Result<Config, (usize, String)> {
    let mut config = Config::default();
    file::apply(text, Path::new("/etc/mailprobe"), &mut config).map_err(|fault| (fault.at, fault.why))?;
    Ok(config)
}
