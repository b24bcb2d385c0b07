//! Tests of what the answers of a session are worth, at servers that are honest and at servers that change their behaviour.

use super::*;
use crate::tests::rows;
use proptest::prelude::*;

const OTHERS: Context = Context { trusted: false, known: false, no_postmaster: false, distinguished: false };
const KNOWN: Context = Context { known: true, ..OTHERS };

/// How a server answers after a number of refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Same,
    AcceptsAll,
    RefusesAll,
}

/// A simulated server, which counts its refusals.
#[derive(Debug, Clone, Copy)]
struct Server {
    refused: u32,
    changes_after: u32,
    change: Change,
    has_postmaster: bool,
    /// Whether the server refuses in unclear words.
    unclear: bool,
}

impl Server {
    fn new(change: Change, changes_after: u32) -> Server {
        Server { refused: 0, changes_after, change, has_postmaster: true, unclear: false }
    }

    fn asked(&mut self, exists: bool) -> bool {
        let accepts = match self.change {
            Change::AcceptsAll if self.refused >= self.changes_after => true,
            Change::RefusesAll if self.refused >= self.changes_after => false,
            _ => exists,
        };
        self.refused += u32::from(!accepts);
        accepts
    }

    fn on_result(&mut self, question: ProofQuestion) -> QuestionResult {
        let exists = match question {
            ProofQuestion::Known { .. } | ProofQuestion::KnownFirst => true,
            ProofQuestion::Postmaster { .. } => self.has_postmaster,
            ProofQuestion::Control { .. } | ProofQuestion::RefusedBefore { .. } => false,
        };
        match self.asked(exists) {
            true => QuestionResult::Accepted,
            false if self.unclear => QuestionResult::RefusedUnclearly,
            false => QuestionResult::Refused,
        }
    }
}

const SAID: Classification = Classification {
    class: Class::Accepted,
    scope: Scope::Recipient,
    permanent: false,
    to_all: false,
    rule: "test",
};

/// Asks all questions of a checkpoint, and closes the checkpoint.
fn prove(evidence: &mut SessionEvidence<bool>, server: &mut Server, context: Context) -> Vec<Released<bool>> {
    for _ in 0..8 {
        let questions = evidence.questions(context);
        if questions.is_empty() {
            return evidence.close(context, true);
        }
        for question in questions {
            let result = server.on_result(question);
            evidence.on_result(question, result);
        }
    }
    panic!("the questions never end");
}

/// Runs a whole session about the rows of one domain. Each row says whether the recipient exists.
fn session(rows: &[bool], server: &mut Server, mut context: Context) -> Vec<Released<bool>> {
    let (mut evidence, mut released) = (SessionEvidence::default(), Vec::new());
    for &exists in rows {
        match server.asked(exists) {
            true => evidence.hold(exists, Held::Accepted, SAID, 1, false),
            false if server.unclear => evidence.note(Held::Unclear, 1),
            false => evidence.hold(exists, Held::Refused, SAID, 1, false),
        }
        if evidence.is_due() {
            released.extend(prove(&mut evidence, server, context));
            context.known |=
                released.iter().any(|one| one.held == Held::Accepted && one.proof == Proof::Proven);
        }
    }
    released.extend(prove(&mut evidence, server, context));
    released
}

/// The numbers of rows that are confirmed, denied, of a catch-all domain, or without a proof; and of wrong results among them.
fn count(released: &[Released<bool>]) -> (usize, usize, usize, usize, usize) {
    let of = |held, proof| released.iter().filter(|one| one.held == held && one.proof == proof).count();
    let wrong = |one: &&Released<bool>| {
        matches!(one.proof, Proof::Proven | Proof::Assumed)
            && match one.held {
                Held::Accepted => !one.item,
                Held::Refused | Held::Denied | Held::Unclear | Held::Decided(..) => one.item,
            }
    };
    let confirmed = of(Held::Accepted, Proof::Proven);
    let denied = of(Held::Refused, Proof::Proven) + of(Held::Refused, Proof::Assumed);
    let all = of(Held::Accepted, Proof::CatchAll);
    let wrong = released.iter().filter(wrong).count();
    (confirmed, denied, all, released.len() - confirmed - denied - all, wrong)
}

fn mixed(count: usize) -> Vec<bool> {
    (0..count).map(|row| row * 7 % 3 != 0).collect()
}

#[test]
fn an_honest_server_proves_all_that_it_says() {
    for context in
        [OTHERS, KNOWN, Context { trusted: true, ..OTHERS }, Context { no_postmaster: true, ..OTHERS }]
    {
        for rows in [mixed(400), vec![true; 400], vec![false; 400], vec![true], vec![false], vec![false; 11]]
        {
            let existing = rows.iter().filter(|exists| **exists).count();
            for has_postmaster in [true, false] {
                let mut server = Server { has_postmaster, ..Server::new(Change::Same, 0) };
                let counts = count(&session(&rows, &mut server, context));
                assert_eq!(counts, (existing, rows.len() - existing, 0, 0, 0), "{context:?}");
            }
        }
    }
}

#[test]
fn questions_cost_an_honest_server_little() {
    let mut server = Server::new(Change::Same, 0);
    session(&[true; 1000], &mut server, OTHERS);
    assert_eq!(
        server.refused, 7,
        "a control recipient each checkpoint: 20, 40, 80, 160, 320, 320, and the rest"
    );
}

#[test]
fn a_server_that_accepts_everyone_is_a_catch_all_from_the_start() {
    let mut server = Server::new(Change::AcceptsAll, 0);
    assert_eq!(count(&session(&mixed(100), &mut server, OTHERS)), (0, 0, 100, 0, 0));
}

#[test]
fn a_server_that_begins_to_accept_everyone_confirms_nobody_who_does_not_exist() {
    for changes_after in [1, 3, 7, 12, 20] {
        // Nothing shows that the server has ever distinguished its mailboxes if it refused everyone before its first checkpoint.
        let of_unknown = if changes_after < CHECKPOINT_ANSWERS_MIN { 100 } else { 0 };
        for (rows, least) in [(mixed(400), 90), (vec![false; 400], of_unknown), (vec![true; 400], 90)] {
            let mut server = Server::new(Change::AcceptsAll, changes_after);
            let released = session(&rows, &mut server, OTHERS);
            let (confirmed, denied, all, unproven, wrong) = count(&released);
            assert_eq!((wrong, all), (0, 0), "after {changes_after}");
            if rows.iter().all(|exists| *exists) && changes_after > 5 {
                assert_eq!(confirmed, 400, "it refused too few to change");
                continue;
            }
            assert!(unproven > 0);
            let before = rows_before(&rows, changes_after);
            assert!(
                (confirmed + denied) * 100 >= before * least,
                "after {changes_after}: {confirmed} and {denied} of {before}"
            );
        }
    }
}

/// The number of rows that are answered before the server has refused so many recipients. 0 if all rows exist.
fn rows_before(rows: &[bool], refusals: u32) -> usize {
    let mut refused = 0;
    let before = |exists: &&bool| {
        let honest = refused < refusals;
        refused += u32::from(!**exists);
        honest
    };
    let unknown = rows.iter().any(|exists| !exists);
    if unknown { rows.iter().take_while(before).count() } else { 0 }
}

#[test]
fn a_server_that_begins_to_refuse_everyone_denies_nobody_who_was_accepted_there() {
    for changes_after in [3, 7, 12, 20] {
        for rows in [mixed(400), vec![true; 400]] {
            for context in [OTHERS, KNOWN] {
                let mut server =
                    Server { has_postmaster: false, ..Server::new(Change::RefusesAll, changes_after) };
                let (.., wrong) = count(&session(&rows, &mut server, context));
                assert_eq!(wrong, 0, "after {changes_after}");
            }
        }
        let mut server = Server::new(Change::RefusesAll, changes_after);
        let (_, denied, _, _, wrong) = count(&session(&[false; 400], &mut server, OTHERS));
        assert_eq!((denied, wrong), (400, 0), "all unknown, after {changes_after}");
    }
}

#[test]
fn unclear_words_prove_an_accept_where_two_control_recipients_of_different_shapes_hear_them() {
    let mut server = Server { unclear: true, ..Server::new(Change::Same, 0) };
    let (confirmed, .., unproven, wrong) = count(&session(&mixed(60), &mut server, OTHERS));
    assert_eq!((confirmed, unproven, wrong), (40, 0, 0));
}

/// The questions by their words in the scenarios.
const QUESTIONS: [(&str, ProofQuestion); 7] = [
    ("known-first", ProofQuestion::KnownFirst),
    ("known", ProofQuestion::Known { domain: None }),
    ("known-here", ProofQuestion::Known { domain: Some(1) }),
    ("postmaster", ProofQuestion::Postmaster { domain: 1 }),
    ("control", ProofQuestion::Control { domain: 1, second: false }),
    ("second", ProofQuestion::Control { domain: 1, second: true }),
    ("refused-before", ProofQuestion::RefusedBefore { domain: 1 }),
];

fn named<T: Copy + std::fmt::Debug>(all: &[T], word: &str) -> T {
    all.iter().copied().find(|one| format!("{one:?}") == word).expect(word)
}

/// Carries out a step of a scenario, and says what it shows.
fn step(evidence: &mut SessionEvidence<()>, context: &mut Context, step: &str) -> Option<String> {
    let words: Vec<&str> = step.split(' ').collect();
    let has = |word: &str| words.contains(&word);
    match words[0] {
        "new" => *evidence = SessionEvidence::default(),
        "context" => {
            *context = Context {
                known: has("known"),
                trusted: has("trusted"),
                distinguished: has("distinguished"),
                ..OTHERS
            }
        }
        "hold" | "carry" => {
            let held = named(&[Held::Accepted, Held::Refused, Held::Denied], words[1]);
            let take = if words[0] == "hold" { SessionEvidence::hold } else { SessionEvidence::carry };
            let count = words.iter().find_map(|word| word.strip_prefix('*')).unwrap_or("1");
            for _ in 0..count.parse().expect(step) {
                take(evidence, (), held, SAID, if has("other") { 2 } else { 1 }, has("urgent"));
            }
        }
        "refused-earlier" => evidence.on_refused_before(1),
        "control-refused-earlier" => evidence.on_control_refused_before(1),
        "questions" => {
            let word =
                |one: ProofQuestion| QUESTIONS.iter().find(|(_, question)| *question == one).expect(step).0;
            let words: Vec<&str> = evidence.questions(*context).into_iter().map(word).collect();
            return Some(if words.is_empty() { "none".to_owned() } else { words.join(" ") });
        }
        "close" | "lost" => {
            let released = evidence.close(*context, words[0] == "close");
            let same = released.chunk_by(|a, b| a.proof == b.proof);
            let shown: Vec<String> = same
                .map(|same| match same.len() {
                    1 => format!("{:?}", same[0].proof),
                    count => format!("{:?}*{count}", same[0].proof),
                })
                .collect();
            return Some(shown.join(" ") + if evidence.has_changed() { " and changed" } else { "" });
        }
        "state" => {
            let (accepted, proven) = (evidence.has_accepted(), evidence.refusals_proven());
            let postmaster = evidence.postmaster_domain().unwrap_or(0);
            return Some(format!(
                "due={} accepted={accepted} proven={proven} postmaster={postmaster}",
                evidence.is_due()
            ));
        }
        word => {
            use QuestionResult::{Accepted, Nothing, Refused, RefusedUnclearly};
            let question = QUESTIONS.iter().find(|(name, _)| *name == word).expect(step).1;
            evidence.on_result(question, named(&[Accepted, Nothing, Refused, RefusedUnclearly], words[1]));
        }
    }
    None
}

#[test]
fn answers_are_worth_what_the_scenarios_say() {
    let (mut title, mut evidence, mut context) = ("", SessionEvidence::default(), OTHERS);
    for line in rows(include_str!("../../../testdata/evidence.txt")) {
        if let Some(name) = line.strip_prefix("= ") {
            (title, evidence, context) = (name, SessionEvidence::default(), OTHERS);
            continue;
        }
        let (steps, expected) = line.split_once(" -> ").expect(line);
        let shown: Vec<String> =
            steps.split(", ").filter_map(|one| step(&mut evidence, &mut context, one)).collect();
        assert_eq!(shown.join(" | "), expected, "{title}: {steps}");
    }
}

#[test]
fn what_is_held_can_be_taken_out() {
    let mut evidence = SessionEvidence::default();
    (0..5).for_each(|row| evidence.hold(row, Held::Accepted, SAID, 1, false));
    assert_eq!(evidence.take_where(|row| row % 2 == 0), [0, 2, 4]);
    assert_eq!(evidence.close(OTHERS, false).len(), 2);
    assert!(evidence.is_empty() && !evidence.is_due());
}

proptest! {
    #[test]
    fn no_change_ever_leads_to_a_wrong_verdict(
        rows in prop::collection::vec(any::<bool>(), 1..200),
        changes_after in 1u32..30,
        accepts in any::<bool>(),
        has_postmaster in any::<bool>(),
        known in any::<bool>(),
    ) {
        let then = if accepts { Change::AcceptsAll } else { Change::RefusesAll };
        let mut server = Server { has_postmaster, ..Server::new(then, changes_after) };
        let released = session(&rows, &mut server, Context { known, ..OTHERS });
        let confirmed = released.iter().any(|one| {
            one.proof == Proof::Proven && one.held == Held::Accepted && !one.item
        });
        prop_assert!(!confirmed, "nobody who does not exist is confirmed");
        let (.., wrong) = count(&released);
        // If the server has never accepted anyone, no reply can show that it changed.
        let has_accept = known || rows.first() == Some(&true);
        prop_assert!(wrong == 0 || !has_accept, "{} wrong", wrong);
    }
}
