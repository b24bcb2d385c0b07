//! `mailprobe config`.

use super::Failure;
use super::flags::{DATA, ENGINE, Flags, SERVER, STATE};
use std::io::{self, Write};

/// The flags are those of all commands, so that their effect can be seen.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    flags: Flags<{ DATA | SERVER | ENGINE | STATE }>,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let config = args.flags.config()?;
    config.plan_table()?;
    config.gateways()?;
    io::stdout().write_all(config.to_toml().as_bytes())?;
    Ok(())
}
