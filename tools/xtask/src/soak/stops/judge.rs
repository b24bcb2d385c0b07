//! Who is asked again, by mailnet's journal.
//!
//! A question about a row is the first RCPT for its address in a run: the engine asks about some mailboxes again within a run, to
//! prove other answers, but it knows those only from the same run.

use super::Stop;
use crate::soak::list_rows::ListRows;
use mailnet::{Journal, What};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::time::Duration;

/// A reply that arrives so shortly before the end may not be read any more.
const UNREAD: Duration = Duration::from_millis(100);
/// After SIGKILL or a second signal, replies of this time before it may be lost.
const LOST_MAX: Duration = Duration::from_secs(2);
/// How long a run waits for the proofs of its open sessions after a signal. Then it closes them, and may need a moment to end.
const PROOFS_AWAITED: Duration = Duration::from_secs(2);
/// How many addresses are printed.
const SHOWN: usize = 3;

/// A run of a chain, by mailnet's clock.
pub struct PastRun {
    /// When it was started.
    pub began: Duration,
    /// When its first signal was sent, or when it had ended without one.
    pub signalled: Duration,
    /// When it had ended.
    pub ended: Duration,
    /// How it was stopped; `None`: it was complete.
    pub stop: Option<Stop>,
}

/// The addresses that were asked about again, although an earlier run had read their permanent or positive reply.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Again {
    /// The number of addresses with such a reply.
    pub replied: usize,
    /// After one signal.
    pub after_signal: Vec<String>,
    /// After SIGKILL or a second signal: of the last two seconds before it.
    pub recent: usize,
    /// By a session that was open at the end of the run, or within two seconds before a kill: it may have held the answer without a
    /// proof.
    pub held: Vec<String>,
    /// Of earlier seconds, by a session that had ended before them.
    pub lost: Vec<String>,
}

impl Again {
    /// Adds those of another chain.
    pub fn add(&mut self, other: &Again) {
        self.replied += other.replied;
        self.after_signal.extend_from_slice(&other.after_signal);
        self.recent += other.recent;
        self.held.extend_from_slice(&other.held);
        self.lost.extend_from_slice(&other.lost);
    }

    /// A line for each address that was asked about again and must not be, and for those whose session held the answer.
    pub fn all(&self) -> String {
        self.after_signal.iter().chain(&self.lost).chain(&self.held).map(|line| format!("{line}\n")).collect()
    }

    /// Whether nobody was asked again who must not be.
    pub fn verdict(&self) -> Result<String, String> {
        let wrong: Vec<&str> =
            self.after_signal.iter().chain(&self.lost).take(SHOWN).map(String::as_str).collect();
        if wrong.is_empty() && self.replied > 0 {
            return Ok(self.to_string());
        }
        Err(format!("{self}: {}", wrong.join("; ")))
    }
}

impl fmt::Display for Again {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} mailboxes replied; asked again: {} after a signal, {} that were known for long before a kill; allowed: {} of \
             the last 2 s before a kill, {} held without a proof at the end",
            self.replied,
            self.after_signal.len(),
            self.lost.len(),
            self.recent,
            self.held.len()
        )
    }
}

/// A question about a row and its reply.
#[derive(Debug, Clone, Copy)]
struct RowQuestion {
    /// The number of the run.
    run: usize,
    session: u64,
    code: u16,
    /// When the reply was written, if it was permanent or positive.
    replied: Option<Duration>,
}

impl RowQuestion {
    /// Its reply and its session, beside the stop of its run.
    fn against(&self, run: &PastRun, session_ends: &HashMap<u64, Duration>) -> String {
        let after_signal = |at: Duration| at.as_secs_f64() - run.signalled.as_secs_f64();
        let replied = after_signal(self.replied.unwrap_or_default());
        let session = session_ends.get(&self.session).map_or(f64::NAN, |&end| after_signal(end));
        format!(
            "which had {} at {replied:+.1} s from the signal to run {}, whose session ended at {session:+.1} s and the run at {:+.1} s",
            self.code,
            self.run,
            after_signal(run.ended)
        )
    }
}

/// Finds the addresses of the list that were asked about again.
pub fn judge(journal: &Journal, list: &ListRows, runs: &[PastRun]) -> Again {
    let rows: HashSet<String> = (0..list.lines).map(|n| list.address(n).to_lowercase()).collect();
    let mut questions: HashMap<String, Vec<RowQuestion>> = HashMap::new();
    // The recipients of each session whose reply is not written yet, and the end of each session.
    let mut unwritten: HashMap<u64, Vec<(String, usize)>> = HashMap::new();
    let mut session_ends: HashMap<u64, Duration> = HashMap::new();
    for event in &journal.events {
        let at = Duration::from_millis(event.at_ms);
        match &event.what {
            What::Rcpt { address, code, .. } => {
                let address = address.to_lowercase();
                if !rows.contains(&address) {
                    continue;
                }
                let run = runs.iter().rposition(|run| run.began <= at).unwrap_or(0);
                let of_address = questions.entry(address.clone()).or_default();
                of_address.push(RowQuestion { run, session: event.session, code: *code, replied: None });
                if matches!(code, 200..300 | 500..600) {
                    unwritten.entry(event.session).or_default().push((address, of_address.len() - 1));
                }
            }
            What::Written => {
                for (address, index) in unwritten.remove(&event.session).unwrap_or_default() {
                    if let Some(question) = questions.get_mut(&address).and_then(|all| all.get_mut(index)) {
                        question.replied = Some(at);
                    }
                }
            }
            What::Ends => drop(session_ends.insert(event.session, at)),
            _ => {}
        }
    }
    let mut again = Again::default();
    for (address, questions) in &questions {
        again.replied += usize::from(questions.iter().any(|question| question.replied.is_some()));
        let mut firsts: Vec<usize> = questions.iter().map(|question| question.run).collect();
        firsts.dedup();
        for run in firsts {
            let earlier = questions.iter().filter(|question| question.run < run);
            let read = earlier.filter_map(|question| {
                let past = &runs[question.run];
                Some((found(question, past, &session_ends)?, question, past))
            });
            let Some((found, question, past)) = read.max_by_key(|(found, ..)| *found) else { continue };
            let into = match found {
                Found::Recent => {
                    again.recent += 1;
                    continue;
                }
                Found::Held => &mut again.held,
                Found::Lost => &mut again.lost,
                Found::AfterSignal => &mut again.after_signal,
            };
            into.push(format!("{address} in run {run}, {}", question.against(past, &session_ends)));
        }
    }
    again.after_signal.sort_unstable();
    again.lost.sort_unstable();
    again.held.sort_unstable();
    again
}

/// How wrong it is to ask again after a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Found {
    Recent,
    Held,
    Lost,
    AfterSignal,
}

/// What a later question about the same address means; `None`: the run had not read the reply.
fn found(question: &RowQuestion, run: &PastRun, session_ends: &HashMap<u64, Duration>) -> Option<Found> {
    let replied = question.replied.filter(|&at| at + UNREAD <= run.ended)?;
    let session_end = session_ends.get(&question.session).copied();
    let is_open_before = |at: Duration, within: Duration| session_end.is_none_or(|end| end + within >= at);
    let is_open = |within: Duration| is_open_before(run.ended, within);
    match run.stop {
        Some(Stop::Kill | Stop::Twice(_)) => {}
        // The run waits two seconds for the proofs. A slow server may need longer.
        _ if is_open_before(run.ended.min(run.signalled + PROOFS_AWAITED), UNREAD) => {
            return Some(Found::Held);
        }
        _ => return Some(Found::AfterSignal),
    }
    if replied + LOST_MAX >= run.ended {
        return Some(Found::Recent);
    }
    // A session gives its last answers when it ends.
    Some(if is_open(LOST_MAX) { Found::Held } else { Found::Lost })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mailnet::{Event, Scenario};
    use rustix::process::Signal;

    /// What is found if a session asks about a row in the first run, which is stopped at 60 s, and again in the second run. The
    /// events of the session are seconds of the first run.
    fn judged(stop: Stop, code: u16, written_s: u64, ends_s: u64) -> Again {
        let list = ListRows {
            seed: 1,
            lines: 50,
            domain: Box::new(|_, _| "soaked.example".to_owned()),
            scenario: Scenario::parse("[[domain]]\nname = \"soaked.example\"\n").unwrap(),
        };
        let address = (0..50).map(|n| list.address(n)).find(|address| address.contains('@')).unwrap();
        let event = |at_s: u64, session, what| Event {
            at_ms: at_s * 1000,
            session,
            host: "mx".into(),
            node: 0,
            client: [127, 0, 0, 1].into(),
            what,
        };
        let rcpt = |address: &str| What::Rcpt { address: address.into(), code, honest: true };
        let mut events = vec![
            event(10, 1, rcpt(&address)),
            event(10, 1, rcpt("control@soaked.example")),
            event(written_s, 1, What::Written),
            event(ends_s, 1, What::Ends),
            event(70, 2, rcpt(&address)),
            event(71, 2, rcpt(&address)),
            event(71, 2, What::Written),
        ];
        events.sort_by_key(|event| event.at_ms);
        let s = Duration::from_secs;
        let runs = [
            PastRun { began: s(0), signalled: s(60), ended: s(60), stop: Some(stop) },
            PastRun { began: s(65), signalled: s(90), ended: s(90), stop: None },
        ];
        judge(&Journal { events, lost: 0 }, &list, &runs)
    }

    #[test]
    fn a_second_question_is_found_by_its_cause() {
        let int = Stop::Once(Signal::INT);
        assert_eq!(judged(int, 250, 11, 20).after_signal.len(), 1);
        assert_eq!(judged(int, 250, 59, 59).after_signal.len(), 1);
        assert_eq!(judged(int, 250, 50, 60).held.len(), 1, "its session was open until the end");
        // A transient reply, and one that came after the end.
        assert!(judged(int, 450, 11, 20).verdict().is_err(), "nobody replied");
        let unread = judged(int, 250, 61, 62);
        assert!(unread.verdict().is_ok(), "{unread}");
        let (recent, held, lost) = (
            judged(Stop::Kill, 550, 59, 60),
            judged(Stop::Kill, 550, 30, 60),
            judged(Stop::Kill, 550, 30, 40),
        );
        assert_eq!((recent.recent, held.held.len(), lost.lost.len()), (1, 1, 1));
        assert!(recent.verdict().is_ok() && held.verdict().is_ok() && lost.verdict().is_err());
    }
}
