//! `mailprobe check`: checks a few addresses in parallel and prints the results in the given order.

use super::flags::{ENGINE, Flags, LEARNED, STATE};
use super::installation::{self, IfTaken, Keeper};
use super::private_hosts::PrivateHosts;
use super::program::{Failure, StartEngine};
use super::terminal::shows_colours;
use super::{learned, log, open_files};
use api::CauseWords;
use api::{Checked, Detail, Evidence, FastFindings, Findings, Reason, Verification};
use checks::convert;
use checks::detail::detail;
use checks::engine_client::EngineHandle;
use checks::evidence;
use checks::fast::judge;
use clean::{Left, is_without_mail_host};
use engine::proto::address::Address;
use engine::{Answer, Finding, Outage, Priority, Refusal, Request};
use learn::{Applied, Table};
use lists::numbers::grouped;
use lists::shell;
use lists::words;
use std::io::{self, Read, Write};
use std::path::Path;
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
    ///
    /// The line of an address has these values, separated by tabs: the address, whether it is deliverable, the reason, and the rule
    /// that decided (docs/verdicts.md).
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
        let evidence = Some(evidence::shown(&evidence::of_finding(&finding, clock::now())));
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
    if !args.fast {
        installation::try_named(config.state.as_ref())?;
    }
    let learned = learned::table(&config)?;
    if args.fast {
        // No mail server is contacted, so a missing name is no fault.
        engine_config.ehlo.get_or_insert_with(|| "[127.0.0.1]".into());
    }
    let installation = match args.fast {
        true => None,
        false => installation::open(config.state.as_ref(), IfTaken::KeepNone).map_err(Failure::failed)?,
    };
    if let Some(installation) = &installation {
        installation.give_to(&mut engine_config);
    }
    let private_hosts = PrivateHosts::new(&engine_config);
    let engine = start_engine(engine_config)?;
    let keeper = installation.map(Keeper::start).transpose().map_err(Failure::failed)?;
    let line = engine.line(UNDER_WAY_MAX);
    let rows = ask_all(&*line, &addresses, args, learned.as_ref());
    let trouble = line.trouble().map(|trouble| trouble.text);
    engine.stop();
    // The rows are printed before this error, so that a failure of the state file loses no results.
    let kept = keeper.map_or(Ok(()), Keeper::finish);
    let rows = rows?;
    warn_of_private_hosts(private_hosts, &addresses, &rows);
    warn_of_names(&addresses);
    let style = if shows_colours(&io::stdout()) { in_colour } else { plain };
    let mut output = io::stdout().lock();
    for (address, row) in addresses.iter().zip(&rows) {
        print(&mut output, args, style, address, row)?;
    }
    output.flush()?;
    if let Some(why) = unasked(&rows, args.fast, trouble) {
        return Err(Failure::failed(why));
    }
    kept.map_err(|why| Failure::failed(format!("the addresses are checked, but {why}")))
}

/// The addresses, with the lines of standard input in place of each `-`. Empty lines do not count.
fn with_input<R: Read>(given: &[String], input: impl Fn() -> R) -> Result<Vec<String>, Failure> {
    let mut addresses = Vec::with_capacity(given.len());
    for text in given {
        if !text.contains('@') && Path::new(text).is_file() {
            let list = shell::path(Path::new(text));
            let advice =
                format!("{text} is a file: `mailprobe clean {list} -o OUT` checks the addresses of a list");
            return Err(Failure::usage(advice));
        }
        if text != "-" {
            addresses.push(text.trim().to_owned());
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
                "standard input has more than {} addresses or {} bytes; use `mailprobe clean -` for a list",
                grouped(ADDRESSES_MAX as u64),
                grouped(INPUT_BYTES_MAX as u64)
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
                row.trace.push(learned_step(told.reason, rule, &applied));
            }
            (told.reason, told.rule, told.learned_at) =
                (applied.reason, Some(applied.rule), Some(applied.at));
            told.evidence = Some(evidence::shown(&evidence::of_event(&applied)));
        }
    }
}

/// The line of the trace about a learned event, which replaces a verdict of this rule. Fast checks have no rule.
fn learned_step(before: Reason, rule: &str, applied: &Applied) -> String {
    let by = if rule.is_empty() { String::new() } else { format!(" ({rule})") };
    let (event, date) = (learned::name(applied.rule), learned::date(applied.at));
    format!("learned: {event} of {date}, so {} replaces {}{by}", applied.reason.as_str(), before.as_str())
}

/// Warns if the mail hosts of a domain are not contacted, because their addresses are not public.
fn warn_of_private_hosts(mut private_hosts: PrivateHosts, addresses: &[String], rows: &[Row]) {
    for (text, row) in addresses.iter().zip(rows) {
        let (Ok(address), Ok(told)) = (Address::parse(text), &row.answer) else { continue };
        if is_without_mail_host(told.rule.unwrap_or_default(), told.reason) {
            private_hosts.look_at(address.domain().as_str());
        }
    }
}

/// Warns of addresses with a name, such as `Ann <ann@example.com>`: `clean` reads the address out of such a cell of a list.
fn warn_of_names(addresses: &[String]) {
    let is_named = |text: &&String| Address::parse(text).is_err() && lists::address_in_cell(text).is_some();
    let named = addresses.iter().filter(is_named).count();
    if named > 0 {
        let texts = if named == 1 { "text has" } else { "texts have" };
        tracing::warn!(
            "{named} {texts} more than an address, such as a name: give the address alone, without < and > (`mailprobe clean` takes \
             the address out of such a value of a list)"
        );
    }
}

/// The reason why some addresses have no answer, and what to do. `trouble`: the fault of the resolvers, if the engine knows one.
fn unasked(rows: &[Row], fast: bool, trouble: Option<String>) -> Option<String> {
    let outages = || rows.iter().filter_map(|row| row.answer.as_ref().err());
    let budgets = outages().filter_map(|outage| match outage {
        Outage::OverBudget { after, refused_us } => Some((*after, *refused_us)),
        _ => None,
    });
    let budgets: Vec<(Duration, Option<&str>)> = budgets.collect();
    let others = outages().count() - budgets.len();
    if others > 0 {
        let why = trouble.unwrap_or_else(|| no_answers(fast).to_owned());
        return Some(match rows.len() {
            1 => format!("the address could not be checked: {why}"),
            all => format!("{others} of {all} addresses could not be checked: {why}"),
        });
    }
    let minutes = budgets.iter().map(|(after, _)| after).max()?.as_secs().div_ceil(60);
    let mut text = format!(
        "{} of the addresses {} not checked: within the last hour their servers refused as many recipients as the \
         budget allows; try again in {minutes} min, or use --pace fast, which allows more",
        budgets.len(),
        if budgets.len() == 1 { "was" } else { "were" },
    );
    let refusals_of_us = || budgets.iter().filter_map(|(_, refused_us)| *refused_us);
    if let Some(rule) = refusals_of_us().next() {
        let CauseWords { meaning, advice } = words::rule(rule);
        text += &format!("; for {} of them, {meaning}: {advice}", refusals_of_us().count());
    }
    Some(text)
}

/// The cause of outages, if the engine knows no fault of the resolvers.
fn no_answers(fast: bool) -> &'static str {
    match fast {
        true => {
            "no resolver answers; with --resolver, name a resolver that answers, and see `mailprobe doctor`"
        }
        false => {
            "no resolver answers, or no mail server can be reached; check --resolver, allow outbound connections to port 25, and see \
             `mailprobe doctor`"
        }
    }
}

/// The cause of a missing answer, in the place of the rule.
fn cause(outage: &Outage) -> &'static str {
    match outage {
        Outage::Unavailable => "outage",
        Outage::SiteFull => Left::SILENT,
        Outage::OverBudget { .. } => Left::BUDGET,
        Outage::Stopping => "stopped",
    }
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
    let Told { reason, rule, findings, learned_at, .. } = match &row.answer {
        Ok(told) => told,
        Err(outage) => return print_unchecked(output, args, address, cause(outage), &row.trace),
    };
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

/// Prints the line of an address without an answer.
fn print_unchecked(
    output: &mut impl Write,
    args: &CheckArgs,
    address: &str,
    cause: &str,
    trace: &[String],
) -> Result<(), Failure> {
    if args.json {
        let mut line = serde_json::json!({ "email": address, "error": cause });
        if args.trace {
            line["trace"] = trace.into();
        }
        return Ok(writeln!(output, "{line}")?);
    }
    writeln!(output, "{}\tnot checked\t-\t{cause}", shown(address))?;
    for step in trace.iter().filter(|_| args.trace) {
        writeln!(output, "    {}", shown(step))?;
    }
    Ok(())
}

fn print_detail(output: &mut impl Write, detail: &Detail) -> io::Result<()> {
    if let Some(line) = detail.evidence.as_ref().and_then(in_words) {
        writeln!(output, "    {line}")?;
    }
    if !detail.disposable_sources.is_empty() {
        writeln!(output, "    disposable by {}", detail.disposable_sources.join(", "))?;
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
            let line = refused.line.unwrap();
            assert!(refused.code == 2 && line.contains("`mailprobe clean -`"), "{line}");
        }
        let refused = with_input(&given(&["Cargo.toml"]), || &b""[..]).err().unwrap();
        assert_eq!(refused.code, 2);
        let line = refused.line.unwrap();
        assert!(line.starts_with("Cargo.toml is a file: `mailprobe clean Cargo.toml -o OUT` "));
    }

    #[test]
    fn it_is_told_why_addresses_were_not_asked_about() {
        let minutes = |count: u64| Outage::OverBudget {
            after: Duration::from_secs(count * 60 - 1),
            refused_us: (count == 40).then_some("blocklist"),
        };
        let down =
            "the address could not be checked: no resolver answers, or no mail server can be reached; ";
        for (outages, expected) in [
            (&[][..], None),
            (&[minutes(5)][..], Some("1 of the addresses was not checked: within the last hour ")),
            (&[minutes(5), minutes(40)], Some("2 of the addresses were not checked: ")),
            (&[Outage::Unavailable], Some(down)),
            (
                &[minutes(5), Outage::Unavailable],
                Some("1 of 2 addresses could not be checked: no resolver answers"),
            ),
        ] {
            let rows: Vec<Row> =
                outages.iter().map(|outage| Row { answer: Err(*outage), trace: Vec::new() }).collect();
            let said = unasked(&rows, false, None);
            assert_eq!(said.is_some(), expected.is_some());
            assert!(said.is_none_or(|said| said.starts_with(expected.unwrap())), "{outages:?}");
        }
        let row = Row { answer: Err(minutes(40)), trace: Vec::new() };
        let said = unasked(&[row], false, None).unwrap();
        assert!(said.contains("try again in 40 min, or use --pace fast"), "{said}");
        assert!(said.ends_with("for 1 of them, the mail server refuses this machine, for example because of a blocklist: see `mailprobe doctor`, and remove the cause"), "{said}");
        let row = Row { answer: Err(Outage::Unavailable), trace: Vec::new() };
        let said = unasked(&[row], true, Some("the resolver denies every name".into()));
        assert_eq!(said.unwrap(), "the address could not be checked: the resolver denies every name");
    }

    #[test]
    fn an_address_without_an_answer_has_a_line_and_its_trace() {
        let args = |flags: &[&str]| {
            #[derive(clap::Parser)]
            struct Command {
                #[command(flatten)]
                args: CheckArgs,
            }
            let words = ["check", "a@b.example"].iter().chain(flags);
            <Command as clap::Parser>::try_parse_from(words).ok().unwrap().args
        };
        let over_budget = Outage::OverBudget { after: Duration::ZERO, refused_us: None };
        for (flags, outage, expected) in [
            (&[][..], Outage::Unavailable, "a@b.example\tnot checked\t-\toutage\n"),
            (&["--fast"], Outage::Unavailable, "a@b.example\tnot checked\t-\toutage\n"),
            (&["--trace"], Outage::Unavailable, "a@b.example\tnot checked\t-\toutage\n    dns failed\n"),
            (&[], over_budget, "a@b.example\tnot checked\t-\trefusal_budget\n"),
            (&["--json"], Outage::Unavailable, "{\"email\":\"a@b.example\",\"error\":\"outage\"}\n"),
            (
                &["--json", "--trace"],
                Outage::Unavailable,
                "{\"email\":\"a@b.example\",\"error\":\"outage\",\"trace\":[\"dns failed\"]}\n",
            ),
        ] {
            let row = Row { answer: Err(outage), trace: vec!["dns failed".into()] };
            let mut output = Vec::new();
            print(&mut output, &args(flags), plain, "a@b.example", &row).ok().unwrap();
            assert_eq!(String::from_utf8(output).unwrap(), expected, "{flags:?}");
        }
    }

    #[test]
    fn the_trace_names_the_learned_event_and_both_verdicts() {
        for (rule, before, after, expected) in [
            (
                "control_accepted",
                Reason::CatchAll,
                ("own_bounce", Reason::MailboxNotFound),
                "learned: a bounce of your own mail of 1970-01-01T00:01:00Z, so mailbox_not_found replaces catch_all (control_accepted)",
            ),
            (
                "",
                Reason::FastCheckPassed,
                ("own_bounce", Reason::MailboxDisabled),
                "learned: a bounce of your own mail of 1970-01-01T00:01:00Z, so mailbox_disabled replaces fast_check_passed",
            ),
        ] {
            let applied = Applied { reason: after.1, rule: after.0, at: 60 };
            assert_eq!(learned_step(before, rule, &applied), expected);
        }
    }
}
