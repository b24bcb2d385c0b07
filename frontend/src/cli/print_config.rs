//! `mailprobe config`: prints the effective configuration, or the commented file.

use super::flags::{DATA, ENGINE, Flags, LEARNED, SERVER, STATE};
use super::program::Failure;
use crate::config::reference;
use std::io::{self, Write};

/// The flags of all commands, so that the output shows their effect.
#[derive(clap::Args)]
pub struct PrintConfigArgs {
    /// Print a commented file with every setting and its default, as a start for your own file.
    #[arg(long)]
    default: bool,
    #[command(flatten)]
    flags: Flags<{ DATA | SERVER | ENGINE | STATE | LEARNED }>,
}

/// Runs `mailprobe config`.
///
/// # Errors
///
/// One line for standard error: the configuration has an error.
pub fn run(args: &PrintConfigArgs) -> Result<(), Failure> {
    if args.default {
        return Ok(io::stdout().write_all(reference::commented_file().as_bytes())?);
    }
    let config = args.flags.config()?;
    config.plan_table()?;
    config.gateways()?;
    io::stdout().write_all(config.to_toml().as_bytes())?;
    Ok(())
}
