//! `mailprobe metrics`: the metrics of a running server.

use super::place::{Place, execute_running, output_failed, unexpected};
use clap::Args;
use server::admin::{Command, Response};
use std::io::Write;

/// Print the metrics of a running server in the text format of Prometheus.
#[derive(Debug, Clone, Args)]
pub struct MetricsArgs {}

/// Runs the command.
///
/// # Errors
/// One line for standard error.
pub fn run(_args: &MetricsArgs, place: Place<'_>, out: &mut dyn Write) -> Result<(), String> {
    match execute_running(place, Command::Metrics)? {
        Response::Metrics(page) => out.write_all(page.as_bytes()).map_err(output_failed),
        other => Err(unexpected(&other)),
    }
}
