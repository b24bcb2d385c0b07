//! `mailprobe config`: prints the effective configuration.

use super::Failure;
use super::flags::{DATA, ENGINE, Flags, SERVER, STATE};
use std::io::{self, Write};

/// The flags of all commands, so that the output shows their effect.
#[derive(clap::Args)]
pub struct PrintConfigArgs {
    #[command(flatten)]
    flags: Flags<{ DATA | SERVER | ENGINE | STATE }>,
}

/// Runs `mailprobe config`.
///
/// # Errors
///
/// One line for standard error: the configuration has an error.
pub fn run(args: &PrintConfigArgs) -> Result<(), Failure> {
    let config = args.flags.config()?;
    config.plan_table()?;
    config.gateways()?;
    io::stdout().write_all(config.to_toml().as_bytes())?;
    Ok(())
}
