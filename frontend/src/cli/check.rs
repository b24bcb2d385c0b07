//! `mailprobe check`: a few addresses, asked about at once, printed in the order given.

use super::flags::{ENGINE, Flags};
use super::{Failure, StartEngine, log};
use crate::convert;
use crate::engine_client::Line;
use api::{Checked, Reason, Verification};
use engine::proto::address::Address;
use engine::{Answer, Finding, Priority, Refusal, Request};
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// Requests under way at once; further ones wait their turn.
const UNDER_WAY_MAX: usize = 256;
/// After so long without any answer the engine is held to be stuck.
const SILENCE_MAX: Duration = Duration::from_secs(120);

#[derive(clap::Args)]
pub struct Args {
    /// The addresses.
    #[arg(required = true, value_name = "ADDRESS")]
    addresses: Vec<String>,
    /// Print a JSON object a line: the API's answer and the rule that decided.
    #[arg(long)]
    json: bool,
    /// Print what was asked and answered: DNS, commands, replies.
    #[arg(long)]
    trace: bool,
    #[command(flatten)]
    flags: Flags<ENGINE>,
}

/// What is known of one address: `None` where the engine could not ask.
struct Row {
    finding: Option<Finding>,
    trace: Vec<String>,
}

pub fn run(args: &Args, start_engine: StartEngine) -> Result<(), Failure> {
    let config = args.flags.config()?;
    log::warnings();
    let engine = start_engine(config.engine_config()?)?;
    let rows = ask(&*engine.line(UNDER_WAY_MAX), &args.addresses, args.trace);
    engine.stop();
    let rows = rows?;
    let mut output = io::stdout().lock();
    for (address, row) in args.addresses.iter().zip(&rows) {
        print(&mut output, args, address, row)?;
    }
    output.flush()?;
    if rows.iter().any(|row| row.finding.is_none()) {
        return Err(Failure::failed(
            "the engine could not ask: no resolver answers, or no mail server can be reached; check --resolver, and \
             that outbound connections to port 25 are let through",
        ));
    }
    Ok(())
}

fn ask(line: &dyn Line, addresses: &[String], trace: bool) -> Result<Vec<Row>, Failure> {
    let mut rows: Vec<Row> = Vec::with_capacity(addresses.len());
    let mut pending = 0;
    // The first pass fills in what needs no asking; tickets are the indices of the rows.
    let mut waiting = Vec::new();
    for (index, text) in addresses.iter().enumerate() {
        rows.push(Row { finding: None, trace: Vec::new() });
        match Address::parse(text) {
            Ok(address) => waiting.push((index, address)),
            Err(_) => {
                let reason = engine::proto::verdict::Reason::InvalidSyntax;
                rows[index].finding = Some(Finding { reason, rule: "invalid_syntax", retry_after: None });
            }
        }
    }
    let mut heard = Instant::now();
    let mut waiting = waiting.into_iter().peekable();
    while pending > 0 || waiting.peek().is_some() {
        while pending < UNDER_WAY_MAX
            && let Some((index, address)) = waiting.next()
        {
            let request = Request { ticket: index as u64, address, priority: Priority::Single, trace };
            match line.submit(request) {
                Ok(()) => pending += 1,
                Err(Refusal::Full | Refusal::Stopping) => {
                    return Err(Failure::failed("the engine takes no request; try again"));
                }
            }
        }
        match line.answer_blocking(Duration::from_secs(1)) {
            Some(Answer { ticket, result, trace }) => {
                heard = Instant::now();
                pending -= 1;
                if let Some(row) = usize::try_from(ticket).ok().and_then(|index| rows.get_mut(index)) {
                    *row = Row { finding: result.ok(), trace };
                }
            }
            None if heard.elapsed() > SILENCE_MAX => {
                return Err(Failure::failed("the engine does not answer; try again, and report this defect"));
            }
            None => {}
        }
    }
    Ok(rows)
}

fn print(output: &mut impl Write, args: &Args, address: &str, row: &Row) -> Result<(), Failure> {
    let Some(finding) = &row.finding else { return Ok(()) };
    let reason = convert::reason(finding.reason);
    if args.json {
        let verification =
            Verification { email: address.to_owned(), reason, credits_remaining: None, cached: false };
        let trace = args.trace.then_some(row.trace.as_slice());
        let line = serde_json::to_string(&Checked { verification: &verification, rule: finding.rule, trace });
        writeln!(output, "{}", line.map_err(io::Error::from)?)?;
        return Ok(());
    }
    writeln!(output, "{}\t{}\t{}\t{}", shown(address), verdict(reason), reason.as_str(), finding.rule)?;
    for step in &row.trace {
        writeln!(output, "    {}", shown(step))?;
    }
    Ok(())
}

fn verdict(reason: Reason) -> &'static str {
    match reason.deliverable() {
        Some(true) => "deliverable",
        Some(false) => "not deliverable",
        None => "unknown",
    }
}

/// What peers and arguments say must not move the terminal's cursor.
fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
