//! `mailprobe openapi`: what `GET /v1/openapi.json` of a server with these settings answers, indented.

use super::Failure;
use super::flags::{Flags, SERVER};
use std::io::{self, Write};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    flags: Flags<SERVER>,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let config = args.flags.config()?;
    let text = api::openapi::pretty(config.base_url())
        .map_err(|error| Failure::failed(format!("cannot render the description: {error}")))?;
    io::stdout().write_all(text.as_bytes())?;
    Ok(())
}
