//! `soak evidence`: servers that stop distinguishing mailboxes, and honest ones beside them.
//!
//! `mailprobe clean` asks each server (cases.rs) about lists of mixed, existing and unknown addresses, and single
//! checks over HTTP ask about further addresses. judge.rs has the requirements. It knows the existing mailboxes and the
//! honest answers from mailnet.

mod cases;
mod judge;

use super::api::Api;
use super::crowd::each;
use super::options::SoakOptions;
use super::peers::{self, CleanRun};
use super::world::{ANY_PORT, CampaignFolder};
use crate::failure::{Failure, ensure};
use crate::interop::process::interrupted;
use crate::interop::report::{self, Tally, outcome};
use cases::{CaseKind, Content, ServerCase, Subject, cases, scenario};
use judge::AnswerWitness;
use mailnet::Running;
use std::time::{Duration, Instant};

/// The rows of a list at the default pace: fewer than the hourly budget of refusals at an unknown host.
const ROWS: usize = 80;
/// The rows of a list without a pace.
const ROWS_MANY: usize = 400;
/// How many single checks each server gets, one after the other.
const CHECKS: usize = 80;
/// How many of them may be wrong confirmations before mailprobe must notice.
const CONFIRMED_MAX: usize = 20;
const LIST_LIMIT: Duration = Duration::from_secs(600);
const CLIENTS: usize = 12;

/// Runs the campaign and counts its checks.
pub fn run(options: &SoakOptions, tally: &mut Tally) -> Result<(), Failure> {
    let seed = options.seed();
    let cases: Vec<ServerCase> =
        cases(options.small)?.into_iter().filter(|case| options.wants(&case.name)).collect();
    ensure!(!cases.is_empty(), "no server has such a name");
    report::line(&format!("evidence: seed {seed}, {} servers", cases.len()));
    let world = CampaignFolder::make(options)?;
    lists(&world, &cases, seed, ("polite", ROWS), tally)?;
    if !options.small {
        lists(&world, &cases, seed, ("lab", ROWS_MANY), tally)?;
    }
    checks(&world, &cases, seed, tally)
}

/// Cleans one list of all servers: the first row of each, then the second of each, and so on.
fn lists(
    world: &CampaignFolder,
    cases: &[ServerCase],
    seed: u64,
    (pace, size): (&str, usize),
    tally: &mut Tally,
) -> Result<(), Failure> {
    let mut random = fastrand::Rng::with_seed(seed);
    let subjects: Vec<Subject> = cases
        .iter()
        .flat_map(|case| Content::ALL.map(|content| (case.clone(), content)))
        .map(|(case, content)| Subject::new(&case, content, size, pace, &mut random))
        .collect();
    let net = peers::start(&scenario(&subjects, seed))?;
    let row = |at: usize| subjects.iter().filter_map(move |subject| subject.rows.get(at).cloned());
    let rows: Vec<String> = (0..size).flat_map(row).collect();
    let run = CleanRun {
        name: pace,
        rows: &rows,
        flags: &["--pace", pace],
        named: true,
        state: pace,
        limit: LIST_LIMIT,
    };
    let cleaned = peers::clean(world, &net, &run)?;
    report::line(&format!("{pace}: {} rows, {:.1} s", rows.len(), cleaned.took.as_secs_f64()));
    let journal = net.journal();
    ensure!(journal.lost == 0, "the journal has lost {} events", journal.lost);
    let witness = AnswerWitness::read(&journal);
    for subject in &subjects {
        let score = witness.score(subject, &net, &cleaned.said);
        tally.check(&format!("{pace} {}", subject.domain), score.judge(subject.case.kind, subject.content));
    }
    polite(&net, pace, tally);
    Ok(())
}

fn polite(net: &Running, name: &str, tally: &mut Tally) {
    let violations = net.stats().violations;
    let held = outcome(violations.is_empty(), format!("broken: {violations:?}"));
    tally.check(&format!("{name}: no rule of the protocols broken"), held);
}

/// The results of the single checks of one server.
#[derive(Debug, Default)]
struct Checked {
    /// Nonexistent mailboxes that were confirmed.
    confirmed: usize,
    /// Existing mailboxes that were denied. A single check cannot know later answers, so these are reported and
    /// allowed.
    denied: usize,
    /// Verdicts that are definite and right.
    right: usize,
    /// Answers other than 200.
    refused: usize,
    answers: usize,
}

/// Makes single checks over HTTP: one after the other at each server, and several servers at once.
fn checks(world: &CampaignFolder, cases: &[ServerCase], seed: u64, tally: &mut Tally) -> Result<(), Failure> {
    let mut random = fastrand::Rng::with_seed(seed ^ 1);
    let subjects: Vec<Subject> =
        cases.iter().map(|case| Subject::new(case, Content::Mixed, CHECKS, "single", &mut random)).collect();
    let net = peers::start(&scenario(&subjects, seed))?;
    let (dns, port) = (net.dns().to_string(), net.smtp_port().to_string());
    let serve = world.serve_at(ANY_PORT, (&dns, &port), &["--pace", "polite"])?;
    let key = world.unlimited("evidence", (subjects.len() * CHECKS) as u64)?;
    let (api, began) = (Api::new(serve.address, &key), Instant::now());
    let checked = each(subjects.len(), CLIENTS, |number| ask(api, &net, &subjects[number]))?;
    report::line(&format!("single checks: {:.1} s", began.elapsed().as_secs_f64()));
    let mut done: Vec<_> = subjects.iter().map(|subject| &subject.case).zip(checked).collect();
    done.sort_by(|(one, _), (other, _)| one.name.cmp(&other.name));
    for (case, checked) in done {
        let judged = checked.and_then(|checked| judge_checks(case.kind, &checked));
        tally.check(&format!("single {}", case.name), judged);
    }
    tally.check("single: no panic", serve.end());
    polite(&net, "single", tally);
    Ok(())
}

fn ask(api: Api<'_>, net: &Running, subject: &Subject) -> Result<Checked, String> {
    let mut checked = Checked::default();
    for row in &subject.rows {
        interrupted()?;
        let answer = api.verify(row)?;
        checked.answers += 1;
        if answer.status != 200 {
            checked.refused += 1;
            continue;
        }
        let tells = !matches!(subject.case.kind, CaseKind::CatchAll | CaseKind::Filter);
        let exists = net.scenario().exists(row).filter(|_| tells);
        match (exists, answer.word("reason").as_str()) {
            (Some(false) | None, "mailbox_exists") => checked.confirmed += 1,
            (Some(true) | None, "mailbox_not_found") => checked.denied += 1,
            (Some(true), "mailbox_exists") | (Some(false), "mailbox_not_found") | (None, "catch_all") => {
                checked.right += 1
            }
            _ => {}
        }
    }
    Ok(checked)
}

fn judge_checks(kind: CaseKind, checked: &Checked) -> Result<String, String> {
    let Checked { confirmed, denied, right, refused, answers } = checked;
    let figures = format!(
        "{answers} answers, {confirmed} confirmed wrongly, {denied} denied wrongly, {right} right, {refused} not 200"
    );
    let holds = match kind {
        CaseKind::Honest | CaseKind::CatchAll => right == answers,
        _ => *confirmed <= CONFIRMED_MAX,
    };
    outcome(holds, figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_checks_have_a_bound() {
        let checked = |confirmed, right| Checked { confirmed, right, answers: 80, ..Checked::default() };
        assert!(judge_checks(CaseKind::Misleads, &checked(20, 0)).is_ok());
        assert!(judge_checks(CaseKind::Misleads, &checked(21, 0)).is_err());
        assert!(judge_checks(CaseKind::Pool, &checked(21, 0)).is_err());
        assert!(judge_checks(CaseKind::Honest, &checked(0, 80)).is_ok());
        assert!(judge_checks(CaseKind::Honest, &checked(0, 79)).is_err());
    }
}
