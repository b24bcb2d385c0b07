//! `mailprobe check`: checks a few addresses in parallel and prints the results in the given order.

use super::flags::{ENGINE, Flags, LEARNED, STATE};
use super::installation::{self, Keeper, Sharing};
use super::terminal::shows_colours;
use super::{Failure, StartEngine, learned, log, open_files};
use api::{Checked, Detail, Evidence, FastFindings, Findings, Reason, Verification};
use checks::convert;
use checks::detail::detail;
use checks::engine_client::EngineHandle;
use checks::evidence;
use checks::fast::judge;
use engine::proto::address::Address;
use engine::{Answer, Finding, Outage, Priority, Refusal, Request};
use learn::Table;
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};
use store::clock;

/// Maximum number of requests in progress; further ones wait.
const UNDER_WAY_MAX: usize = 256;
/// Maximum number of addresses from standard input. Their results stay in memory until the end; `clean` is for lists.
const ADDRESSES_MAX: usize = 10_000;
/// Maximum size of standard input in bytes.
const INPUT_BYTES_MAX: usize = 4 << 20;
/// After this time without any answer the engine counts as stuck.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// The arguments of `mailprobe check`, without those of the engine.
#[derive(clap::Args)]
pub struct CheckArgs {
    /// Addresses to check; - reads them from standard input, one per line.
    #[arg(required = true, value_name = "ADDRESS")]
    addresses: Vec<String>,
    /// Contact no mail server: check syntax, typing mistakes, MX and lists. This does not show whether a mailbox exists.
    #[arg(long, conflicts_with = "trace")]
    fast: bool,
    /// Also print the DNS facts of the domain, the score and the grade. No effect with --fast.
    #[arg(long)]
    detail: bool,
    /// Print one JSON object per line: the answer of the API and the rule that decided.
    #[arg(long)]
    json: bool,
    /// Print the trace of each check: DNS, SMTP commands and replies.
    #[arg(long)]
    trace: bool,
    #[command(flatten)]
    flags: Flags<{ ENGINE | STATE | LEARNED }>,
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
    /// The time of the learned event that decided, in seconds since 1970.
    learned_at: Option<u64>,
    /// The basis of the verdict, for the detail block.
    evidence: Option<Evidence>,
}

impl From<Finding> for Told {
    fn from(finding: Finding) -> Told {
        let reason = convert::reason(finding.reason);
        let findings = Findings::Full { cached: false, detail: None };
        let evidence = Some(evidence::of_finding(&finding, clock::now()));
        Told { reason, rule: Some(finding.rule), findings, learned_at: None, evidence }
    }
}

/// Runs `mailprobe check`.
///
/// # Errors
///
/// One line for standard error: some addresses have no answer, or the output or the state file cannot be written.
pub fn run(args: &CheckArgs, quiet: bool, start_engine: StartEngine) -> Result<(), Failure> {
    let config = args.flags.config()?;
    log::warnings(quiet);
    let addresses = with_input(&args.addresses, io::stdin)?;
    open_files::raise(config.engine.sessions);
    let mut engine_config = config.engine_config()?;
    let learned = learned::table(&config)?;
    if args.fast {
        // No mail server is contacted, so a missing name is no fault.
        engine_config.ehlo.get_or_insert_with(|| "[127.0.0.1]".into());
    }
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
    let rows = ask_all(&*engine.line(UNDER_WAY_MAX), &addresses, args, learned.as_ref());
    engine.stop();
    // The rows are printed before this error, so that a failure of the state file loses no results.
    let kept = keeper.map_or(Ok(()), Keeper::finish);
    let rows = rows?;
    let style = if shows_colours(&io::stdout()) { in_colour } else { plain };
    let mut output = io::stdout().lock();
    for (address, row) in addresses.iter().zip(&rows) {
        print(&mut output, args, style, address, row)?;
    }
    output.flush()?;
    if let Some(why) = unasked(&rows, args.fast) {
        return Err(Failure::failed(why));
    }
    kept.map_err(|why| Failure::failed(format!("the addresses are checked, but {why}")))
}

/// The addresses, with the lines of standard input in place of each `-`. Empty lines do not count.
fn with_input<R: Read>(given: &[String], input: impl Fn() -> R) -> Result<Vec<String>, Failure> {
    let mut addresses = Vec::with_capacity(given.len());
    for text in given {
        if text != "-" {
            addresses.push(text.clone());
            continue;
        }
        let mut read = Vec::new();
        let limit = INPUT_BYTES_MAX as u64 + 1;
        let count = input().take(limit).read_to_end(&mut read);
        let count = count.map_err(|error| Failure::failed(format!("cannot read standard input: {error}")))?;
        let text = String::from_utf8_lossy(&read);
        addresses.extend(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned));
        if count > INPUT_BYTES_MAX || addresses.len() > ADDRESSES_MAX {
            return Err(Failure::usage(format!(
                "standard input has more than {ADDRESSES_MAX} addresses or {INPUT_BYTES_MAX} bytes; use `mailprobe clean -` \
                 for a list"
            )));
        }
    }
    Ok(addresses)
}

fn ask_all(
    line: &dyn EngineHandle,
    addresses: &[String],
    args: &CheckArgs,
    learned: Option<&Table>,
) -> Result<Vec<Row>, Failure> {
    let mut rows = if args.fast { ask_fast(line, addresses)? } else { ask(line, addresses, args.trace)? };
    if let Some(table) = learned {
        apply(table, addresses, &mut rows, line, args.trace);
    }
    if args.fast {
        return Ok(rows);
    }
    if args.detail {
        add_details(line, addresses, &mut rows)?;
    }
    Ok(rows)
}

/// Changes the verdicts that the servers left open, by the learned events.
fn apply(table: &Table, addresses: &[String], rows: &mut [Row], line: &dyn EngineHandle, trace: bool) {
    let (now, lists) = (learned::now(), line.lists());
    for (text, row) in addresses.iter().zip(rows) {
        let (Ok(address), Ok(told)) = (Address::parse(text), &mut row.answer) else { continue };
        let is_role = lists.is_role(address.local());
        let evidence = table.evidence(&address, now);
        let rule = told.rule.unwrap_or_default();
        if let Some(applied) = evidence.and_then(|evidence| evidence.apply(told.reason, rule, is_role)) {
            if trace {
                let by = if rule.is_empty() { String::new() } else { format!(" by {rule}") };
                let (before, after) = (told.reason.as_str(), applied.reason.as_str());
                row.trace.push(format!("learned: {}, so {before}{by} is {after}", learned::date(applied.at)));
            }
            (told.reason, told.rule, told.learned_at) =
                (applied.reason, Some(applied.rule), Some(applied.at));
            told.evidence = Some(evidence::of_event(&applied));
        }
    }
}

/// The reason why some addresses have no answer, and what to do.
fn unasked(rows: &[Row], fast: bool) -> Option<String> {
    let outages = || rows.iter().filter_map(|row| row.answer.as_ref().err());
    let budgets = outages().filter_map(|outage| match outage {
        Outage::OverBudget(after) => Some(*after),
        _ => None,
    });
    let budgets: Vec<Duration> = budgets.collect();
    if outages().count() > budgets.len() {
        let why = match fast {
            true => {
                "no resolver answers; with --resolver, name a resolver that answers, and see `mailprobe doctor`"
            }
            false => {
                "no resolver answers, or no mail server can be reached; check --resolver, allow outbound connections to port \
                 25, and see `mailprobe doctor`"
            }
        };
        return Some(format!("the engine could not check all addresses: {why}"));
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
    let lists = line.lists();
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
                    judge(&address, &lists, pending.answer_blocking(SILENCE_MAX).ok_or_else(stuck)?)
                }
            };
            let answer = judged.map(|(reason, findings)| Told {
                reason,
                rule: None,
                findings: Findings::Fast(findings),
                learned_at: None,
                evidence: None,
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
            let block = detail(&address, told.reason, facts, &line.lists());
            let block = Detail { evidence: told.evidence.take(), ..block };
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
                rows[index].answer = Ok(Finding {
                    reason,
                    rule: "invalid_syntax",
                    retry_after: None,
                    evidence: None,
                    observed: None,
                }
                .into());
            }
        }
    }
    let mut heard = Instant::now();
    let mut waiting = waiting.into_iter().peekable();
    while pending > 0 || waiting.peek().is_some() {
        while pending < UNDER_WAY_MAX
            && let Some((index, address)) = waiting.next()
        {
            let request = Request {
                ticket: index as u64,
                address,
                priority: Priority::Single,
                owner: 0,
                trace,
                observed: true,
            };
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

fn print(
    output: &mut impl Write,
    args: &CheckArgs,
    style: fn(Reason) -> String,
    address: &str,
    row: &Row,
) -> Result<(), Failure> {
    let Ok(Told { reason, rule, findings, learned_at, .. }) = &row.answer else { return Ok(()) };
    if args.json {
        let verification = Verification {
            email: address.to_owned(),
            reason: *reason,
            credits_remaining: None,
            findings: findings.clone(),
        };
        let trace = args.trace.then_some(row.trace.as_slice());
        let line = serde_json::to_string(&Checked {
            verification: &verification,
            rule: *rule,
            learned_at: learned_at.map(learned::date).as_deref(),
            trace,
        });
        writeln!(output, "{}", line.map_err(io::Error::from)?)?;
        return Ok(());
    }
    let rule = rule.unwrap_or("fast");
    writeln!(output, "{}\t{}\t{}\t{rule}", shown(address), style(*reason), reason.as_str())?;
    if let Some(at) = learned_at {
        writeln!(output, "    evidence: {} of {}", learned::name(rule), learned::date(*at))?;
    }
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
    if let Some(line) = detail.evidence.as_ref().and_then(in_words) {
        writeln!(output, "    {line}")?;
    }
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

/// The host that the verdict rests on, and its reply; `None` if it rests on no host.
fn in_words(evidence: &Evidence) -> Option<String> {
    let Evidence { scope, host, reply_code, enhanced_code, observed_at, .. } = evidence;
    let host = host.as_ref()?;
    let (Some(code), Some(scope)) = (reply_code, scope) else {
        return Some(format!("evidence: {host}, without a reply"));
    };
    let enhanced = enhanced_code.as_ref().map_or(String::new(), |code| format!(" {code}"));
    Some(format!("evidence: {host} replied {code}{enhanced} (scope {scope}) at {observed_at}"))
}

fn plain(reason: Reason) -> String {
    verdict(reason).0.to_owned()
}

/// The verdict in its colour, by the codes of ECMA-48.
fn in_colour(reason: Reason) -> String {
    let (text, colour) = verdict(reason);
    format!("\u{1b}[{colour}m{text}\u{1b}[0m")
}

/// The verdict and its colour: green, red or yellow.
fn verdict(reason: Reason) -> (&'static str, u8) {
    match reason.deliverable() {
        Some(true) => ("deliverable", 32),
        Some(false) => ("not deliverable", 31),
        None => ("unknown", 33),
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
    fn a_dash_stands_for_the_lines_of_standard_input() {
        let given = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let check = |arguments: &[&str], input: &[u8], expected: &[&str]| {
            let read = with_input(&given(arguments), || input);
            assert_eq!(read.ok().unwrap(), given(expected));
        };
        check(&["a@b.example"], b"", &["a@b.example"]);
        check(&["-"], b"", &[]);
        check(&["x@y", "-", "z@y"], b"a@b\r\n\n  c@d \ne@f", &["x@y", "a@b", "c@d", "e@f", "z@y"]);
        check(&["-"], b"\xff@b\n", &["\u{fffd}@b"]);
        let lines = |count: usize| "a@b.example\n".repeat(count).into_bytes();
        check(&["-"], &lines(ADDRESSES_MAX), &vec!["a@b.example"; ADDRESSES_MAX]);
        for input in [lines(ADDRESSES_MAX + 1), vec![b' '; INPUT_BYTES_MAX + 1]] {
            let refused = with_input(&given(&["-"]), || &input[..]).err().unwrap();
            assert!(refused.code == 2 && refused.line.contains("`mailprobe clean -`"), "{}", refused.line);
        }
    }

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
            let said = unasked(&rows, false);
            assert_eq!(said.is_some(), expected.is_some());
            assert!(said.is_none_or(|said| said.starts_with(expected.unwrap())), "{outages:?}");
        }
        let row = Row { answer: Err(minutes(40)), trace: Vec::new() };
        assert!(unasked(&[row], false).unwrap().contains("try again in 40 min, or use --pace fast"));
    }
}
