//! The cost of a run: wall time, CPU time and memory beside Postfix's own load generator in the same run.

use super::drivers::panics;
use super::net::{Net, NetNamespace};
use super::report;
use crate::failure::{Context, Failure};
use crate::measure::cost::{MeasuredChild, RunCost};
use std::fs;
use std::process::Stdio;
use std::time::Duration;

const SOURCE_LIMIT: Duration = Duration::from_secs(300);

/// The cost of one measured run.
#[derive(Debug, Clone)]
pub struct Figure {
    tool: String,
    server: String,
    addresses: usize,
    right: Option<usize>,
    cost: RunCost,
}

impl Figure {
    /// Runs `program` in the probe's namespace and measures it.
    ///
    /// # Errors
    ///
    /// The program fails or takes longer than its limit.
    pub fn measure(
        net: &Net,
        tool: &str,
        server: &str,
        addresses: usize,
        program: &str,
        arguments: &[String],
        limit: Duration,
    ) -> Result<Figure, Failure> {
        let log = net.folder.join(format!("{server}-cost.log"));
        let mut command = net.command(NetNamespace::Probe, program);
        command.args(arguments).stdout(Stdio::null());
        let cost = MeasuredChild::start(command, &log)?.wait(&log, limit)?;
        let panics = panics(&fs::read_to_string(&log).at(&log)?);
        if let Some(panic) = panics.first() {
            return Err(Failure(format!("{tool}: {panic}, and {} more", panics.len() - 1)));
        }
        Ok(Figure { tool: tool.into(), server: server.into(), addresses, right: None, cost })
    }

    /// Adds the number of right verdicts.
    pub fn with_right(mut self, right: usize) -> Figure {
        self.right = Some(right);
        self
    }

    /// A line of the figures for the report.
    pub fn line(&self) -> String {
        let RunCost { wall, cpu_s, peak_kib, .. } = &self.cost;
        format!("{:.1} s, {cpu_s:.2} s of CPU, {} MiB", wall.as_secs_f64(), peak_kib / 1024)
    }

    fn row(&self) -> String {
        let right = self.right.map_or_else(|| "-".into(), |right| right.to_string());
        let (wall_s, addresses) = (self.cost.wall.as_secs_f64(), self.addresses as f64);
        format!(
            "| {} | {} | {addresses} | {right} | {wall_s:.1} | {:.0} | {:.2} | {:.4} | {} |",
            self.tool,
            self.server,
            addresses / wall_s.max(0.01),
            self.cost.cpu_s,
            self.cost.cpu_s * 1000.0 / addresses,
            self.cost.peak_kib / 1024
        )
    }
}

/// Sends `count` messages to one recipient each with Postfix's smtp-source, over sessions that it reuses. This is the
/// cost of a load generator without verdicts.
pub fn smtp_source(net: &Net, server: &str, count: usize) -> Result<Figure, Failure> {
    let sessions = format!("-s 50 -d -m {count}");
    source(net, "smtp-source, reused sessions", server, count, &sessions)
}

/// Sends 100 recipients per transaction with smtp-source; only for servers that accept every recipient.
pub fn smtp_source_grouped(net: &Net, server: &str, count: usize) -> Result<Figure, Failure> {
    let sessions = format!("-s 50 -d -m {} -r 100", count.div_ceil(100));
    source(net, "smtp-source, 100 RCPT per MAIL", server, count, &sessions)
}

fn source(net: &Net, tool: &str, server: &str, count: usize, sessions: &str) -> Result<Figure, Failure> {
    let fixed = "-M probe.example -f postmaster@probe.example -t anna@bulk0000.example 10.78.0.1:25";
    let arguments: Vec<String> = sessions.split(' ').chain(fixed.split(' ')).map(str::to_owned).collect();
    Figure::measure(net, tool, server, count, "smtp-source", &arguments, SOURCE_LIMIT)
}

/// Prints a table in Markdown.
pub fn print(figures: &[Figure]) {
    report::line("| tool | server | addresses | right | s | addresses/s | CPU s | CPU s per 1,000 | MiB |");
    report::line("|---|---|---:|---:|---:|---:|---:|---:|---:|");
    for figure in figures {
        report::line(&figure.row());
    }
}
