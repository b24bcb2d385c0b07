//! `mailprobe check`: checks a few addresses in parallel and prints the results in the given order.

use super::flags::{ENGINE, Flags, STATE};
use super::installation::{self, Keeper, Sharing};
use super::{Failure, StartEngine, log, open_files};
use api::{Checked, Detail, FastFindings, Findings, Reason, Verification};
use checks::convert;
use checks::detail::detail;
use checks::engine_client::EngineHandle;
use checks::fast::judge;
use engine::proto::address::Address;
use engine::{Answer, Finding, Outage, Priority, Refusal, Request};
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// Maximum number of requests in progress; further ones wait.
const UNDER_WAY_MAX: usize = 256;
/// After this time without any answer the engine counts as stuck.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// The arguments of `mailprobe check`, without those of the engine.
#[derive(clap::Args)]
pub struct CheckArgs {
    /// Addresses to check.
    #[arg(required = true, value_name = "ADDRESS")]
    addresses: Vec<String>,
    /// Contact no mail server: check syntax, typing mistakes, MX and lists. This does not show whether a mailbox exists.
    #[arg(long, conflicts_with = "trace")]
    fast: bool,
    /// Also print the DNS facts of the domain, the score and the grade. Not with --fast.
    #[arg(long)]
    detail: bool,
    /// Print one JSON object per line: the answer of the API and the rule that decided.
    #[arg(long)]
    json: bool,
    /// Print the trace of each check: DNS, SMTP commands and replies.
    #[arg(long)]
    trace: bool,
    #[command(flatten)]
    flags: Flags<{ ENGINE | STATE }>,
}

/// The result for one address.
struct Row {
    answer: Result<Told, Outage>,
    trace: Vec<String>,
}

struct Told {
    reason: Reason,
    /// `None` in fast mode, where the reason is sufficient.
    rule: Option<&'static str>,
    findings: Findings,
}

impl From<Finding> for Told {
    fn from(finding: Finding) -> Told {
        let reason = convert::reason(finding.reason);
        Told { reason, rule: Some(finding.rule), findings: Findings::Full { cached: false, detail: None } }
    }
}

/// Runs `mailprobe check`.
///
/// # Errors
///
/// One line for standard error: some addresses have no answer, or the output or the state file cannot be written.
pub fn run(args: &CheckArgs, start_engine: StartEngine) -> Result<(), Failure> {
    let config = args.flags.config()?;
    log::warnings();
    open_files::raise(config.engine.sessions);
    let mut engine_config = config.engine_config()?;
    let installation = match args.fast {
        true => None,
        false => installation::open(config.state.as_ref(), Sharing::Beside).map_err(Failure::failed)?,
    };
    if let Some(installation) = &installation {
        installation.kept.give_to(&mut engine_config);
    }
    let engine = start_engine(engine_config)?;
    let keeper = installation.map(|installation| Keeper::start(installation, engine.refusals()));
    let keeper = keeper.transpose().map_err(Failure::failed)?;
    let rows = ask_all(&*engine.line(UNDER_WAY_MAX), args);
    engine.stop();
    // The rows are printed before this error, so that a failure of the state file loses no results.
    let kept = keeper.map_or(Ok(()), Keeper::finish);
    let rows = rows?;
    let mut output = io::stdout().lock();
    for (address, row) in args.addresses.iter().zip(&rows) {
        print(&mut output, args, address, row)?;
    }
    output.flush()?;
    if let Some(why) = unasked(&rows) {
        return Err(Failure::failed(why));
    }
    kept.map_err(|why| Failure::failed(format!("the addresses are checked, but {why}")))
}

fn ask_all(line: &dyn EngineHandle, args: &CheckArgs) -> Result<Vec<Row>, Failure> {
    if args.fast {
        return ask_fast(line, &args.addresses);
    }
    let mut rows = ask(line, &args.addresses, args.trace)?;
    if args.detail {
        add_details(line, &args.addresses, &mut rows)?;
    }
    Ok(rows)
}

/// The reason why some addresses have no answer, and what to do.
fn unasked(rows: &[Row]) -> Option<String> {
    let outages = || rows.iter().filter_map(|row| row.answer.as_ref().err());
    let budgets = outages().filter_map(|outage| match outage {
        Outage::OverBudget(after) => Some(*after),
        _ => None,
    });
    let budgets: Vec<Duration> = budgets.collect();
    if outages().count() > budgets.len() {
        return Some(
            "the engine could not check all addresses: no resolver answers, or no mail server can be reached; check \
             --resolver, and allow outbound connections to port 25"
                .into(),
        );
    }
    let minutes = budgets.iter().max()?.as_secs().div_ceil(60);
    Some(format!(
        "{} of the addresses {} not checked: within the last hour their servers refused as many recipients as the \
         budget allows; try again in {minutes} min, or use --pace fast, which allows more",
        budgets.len(),
        if budgets.len() == 1 { "was" } else { "were" },
    ))
}

/// Runs fast checks, up to [`UNDER_WAY_MAX`] in parallel.
fn ask_fast(line: &dyn EngineHandle, addresses: &[String]) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::with_capacity(addresses.len());
    for some in addresses.chunks(UNDER_WAY_MAX) {
        let mut asked = Vec::with_capacity(some.len());
        for text in some {
            asked.push(match Address::parse(text) {
                Ok(address) => {
                    let pending = line.mail_hosts(address.domain().clone()).map_err(|_| busy())?;
                    Some((address, pending))
                }
                Err(_) => None,
            });
        }
        for asked in asked {
            let judged = match asked {
                None => Ok((Reason::InvalidSyntax, FastFindings { suggestion: None, checks: None })),
                Some((address, pending)) => {
                    judge(&address, pending.answer_blocking(SILENCE_MAX).ok_or_else(stuck)?)
                }
            };
            let answer = judged.map(|(reason, findings)| Told {
                reason,
                rule: None,
                findings: Findings::Fast(findings),
            });
            rows.push(Row { answer, trace: Vec::new() });
        }
    }
    Ok(rows)
}

/// Adds the details of full checks, up to [`UNDER_WAY_MAX`] in parallel.
fn add_details(line: &dyn EngineHandle, addresses: &[String], rows: &mut [Row]) -> Result<(), Failure> {
    for (texts, rows) in addresses.chunks(UNDER_WAY_MAX).zip(rows.chunks_mut(UNDER_WAY_MAX)) {
        let mut asked = Vec::with_capacity(rows.len());
        for (text, row) in texts.iter().zip(rows) {
            if let (Ok(address), Ok(told)) = (Address::parse(text), &mut row.answer) {
                let pending = line.facts(address.domain().clone()).map_err(|_| busy())?;
                asked.push((address, told, pending));
            }
        }
        for (address, told, pending) in asked {
            let facts = pending.answer_blocking(SILENCE_MAX).ok_or_else(stuck)?.ok().flatten();
            let block = detail(&address, told.reason, facts);
            told.findings = Findings::Full { cached: false, detail: Some(Box::new(block)) };
        }
    }
    Ok(())
}

fn busy() -> Failure {
    Failure::failed("the engine accepts no requests; try again")
}

fn stuck() -> Failure {
    Failure::failed("the engine does not answer; try again, and report this bug")
}

fn ask(line: &dyn EngineHandle, addresses: &[String], trace: bool) -> Result<Vec<Row>, Failure> {
    let mut rows: Vec<Row> = Vec::with_capacity(addresses.len());
    let mut pending = 0;
    // The first pass answers addresses with invalid syntax. Tickets are the indices of the rows.
    let mut waiting = Vec::new();
    for (index, text) in addresses.iter().enumerate() {
        // Each row gets an answer, or the whole command fails.
        rows.push(Row { answer: Err(Outage::Stopping), trace: Vec::new() });
        match Address::parse(text) {
            Ok(address) => waiting.push((index, address)),
            Err(_) => {
                let reason = engine::proto::verdict::Reason::InvalidSyntax;
                rows[index].answer =
                    Ok(Finding { reason, rule: "invalid_syntax", retry_after: None, evidence: None }.into());
            }
        }
    }
    let mut heard = Instant::now();
    let mut waiting = waiting.into_iter().peekable();
    while pending > 0 || waiting.peek().is_some() {
        while pending < UNDER_WAY_MAX
            && let Some((index, address)) = waiting.next()
        {
            let request =
                Request { ticket: index as u64, address, priority: Priority::Single, owner: 0, trace };
            match line.submit(request) {
                Ok(()) => pending += 1,
                Err(Refusal::Full | Refusal::Stopping) => {
                    return Err(busy());
                }
            }
        }
        match line.answer_blocking(Duration::from_secs(1)) {
            Some(Answer { ticket, result, trace }) => {
                heard = Instant::now();
                pending -= 1;
                if let Some(row) = usize::try_from(ticket).ok().and_then(|index| rows.get_mut(index)) {
                    *row = Row { answer: result.map(Told::from), trace };
                }
            }
            None if heard.elapsed() > SILENCE_MAX => {
                return Err(stuck());
            }
            None => {}
        }
    }
    Ok(rows)
}

fn print(output: &mut impl Write, args: &CheckArgs, address: &str, row: &Row) -> Result<(), Failure> {
    let Ok(Told { reason, rule, findings }) = &row.answer else { return Ok(()) };
    if args.json {
        let verification = Verification {
            email: address.to_owned(),
            reason: *reason,
            credits_remaining: None,
            findings: findings.clone(),
        };
        let trace = args.trace.then_some(row.trace.as_slice());
        let line = serde_json::to_string(&Checked { verification: &verification, rule: *rule, trace });
        writeln!(output, "{}", line.map_err(io::Error::from)?)?;
        return Ok(());
    }
    let rule = rule.unwrap_or("fast");
    writeln!(output, "{}\t{}\t{}\t{rule}", shown(address), verdict(*reason), reason.as_str())?;
    match findings {
        Findings::Fast(FastFindings { suggestion: Some(suggestion), .. }) => {
            writeln!(output, "    did you mean {}?", shown(suggestion))?;
        }
        Findings::Full { detail: Some(detail), .. } => print_detail(output, detail)?,
        Findings::Fast(_) | Findings::Full { detail: None, .. } => {}
    }
    for step in &row.trace {
        writeln!(output, "    {}", shown(step))?;
    }
    Ok(())
}

fn print_detail(output: &mut impl Write, detail: &Detail) -> io::Result<()> {
    let Detail { grade: Some(grade), score: Some(score), dns: Some(dns), .. } = detail else {
        return writeln!(output, "    the DNS facts of the domain could not be read");
    };
    let provider = detail.inbox_provider.map_or(String::new(), |provider| format!(", at {provider}"));
    writeln!(output, "    grade {grade}, score {score}{provider}")?;
    let list = |items: &[&str]| if items.is_empty() { "none".to_owned() } else { items.join(", ") };
    let word = |yes| if yes { "yes" } else { "no" };
    writeln!(output, "    mx: {}", list(&dns.mx_hosts.iter().map(AsRef::as_ref).collect::<Vec<_>>()))?;
    writeln!(
        output,
        "    spf: {}, dmarc: {}, dkim: {}, bimi: {}, ptr: {}",
        word(dns.spf),
        dns.dmarc_policy.unwrap_or("no"),
        list(&dns.dkim_selectors),
        word(dns.bimi),
        word(dns.ptr)
    )
}

fn verdict(reason: Reason) -> &'static str {
    match reason.deliverable() {
        Some(true) => "deliverable",
        Some(false) => "not deliverable",
        None => "unknown",
    }
}

/// Replaces control characters: text from servers and arguments must not control the terminal.
fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_why_addresses_were_not_asked_about() {
        let minutes = |count: u64| Outage::OverBudget(Duration::from_secs(count * 60 - 1));
        let down = "the engine could not check all addresses: ";
        for (outages, expected) in [
            (&[][..], None),
            (&[minutes(5)][..], Some("1 of the addresses was not checked: within the last hour ")),
            (&[minutes(5), minutes(40)], Some("2 of the addresses were not checked: ")),
            (&[Outage::Unavailable], Some(down)),
            (&[minutes(5), Outage::Unavailable], Some(down)),
        ] {
            let rows: Vec<Row> =
                outages.iter().map(|outage| Row { answer: Err(*outage), trace: Vec::new() }).collect();
            let said = unasked(&rows);
            assert_eq!(said.is_some(), expected.is_some());
            assert!(said.is_none_or(|said| said.starts_with(expected.unwrap())), "{outages:?}");
        }
        let row = Row { answer: Err(minutes(40)), trace: Vec::new() };
        assert!(unasked(&[row]).unwrap().contains("try again in 40 min, or use --pace fast"));
    }
}
