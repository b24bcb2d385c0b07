//! `mailprobe openapi`: prints the answer of a server with these settings to `GET /v1/openapi.json`, indented.

use super::flags::{Flags, SERVER};
use super::program::Failure;
use std::io::{self, Write};

/// The flags that determine the URL in the description.
#[derive(clap::Args)]
pub struct OpenapiArgs {
    #[command(flatten)]
    flags: Flags<SERVER>,
}

/// Runs `mailprobe openapi`.
///
/// # Errors
///
/// One line for standard error.
pub fn run(args: &OpenapiArgs) -> Result<(), Failure> {
    let config = args.flags.config()?;
    let text = api::openapi::pretty(config.base_url())
        .map_err(|error| Failure::failed(format!("cannot render the API description: {error}")))?;
    io::stdout().write_all(text.as_bytes())?;
    Ok(())
}
