//! Tests of what the answers of a session are worth, at servers that are honest and at servers that change their behaviour.

use super::*;
use proptest::prelude::*;

const OTHERS: Context = Context { trusted: false, known: false, no_postmaster: false };
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
                Held::Refused | Held::Denied | Held::Unclear => one.item,
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
    let mut evidence = SessionEvidence::default();
    evidence.hold(true, Held::Accepted, SAID, 1, true);
    let control = |second| ProofQuestion::Control { domain: 1, second };
    assert_eq!(evidence.questions(OTHERS), [control(false)]);
    evidence.on_result(control(false), QuestionResult::RefusedUnclearly);
    let known = ProofQuestion::Known { domain: Some(1) };
    assert_eq!(evidence.questions(OTHERS), [known, control(true), known]);
    evidence.on_result(known, QuestionResult::Accepted);
    // The domain accepts everyone, except names of the first control recipient's shape.
    evidence.on_result(control(true), QuestionResult::Accepted);
    evidence.on_result(known, QuestionResult::Accepted);
    assert_eq!(evidence.close(OTHERS, true)[0].proof, Proof::Unclear);
}

#[test]
fn a_domain_that_accepts_everyone_may_refuse_a_mailbox_that_it_closed() {
    let mut evidence = SessionEvidence::default();
    for (row, held) in [Held::Accepted, Held::Refused, Held::Accepted].into_iter().enumerate() {
        evidence.hold(row, held, SAID, 1, false);
    }
    let control = ProofQuestion::Control { domain: 1, second: false };
    assert_eq!(evidence.questions(OTHERS), [control], "no row stands in for the first control recipient");
    evidence.on_result(control, QuestionResult::Accepted);
    let again = ProofQuestion::RefusedBefore { domain: 1 };
    assert_eq!(evidence.questions(OTHERS), [again]);
    let mut changed = evidence_with(&evidence_rows(), control, again, QuestionResult::Accepted);
    evidence.on_result(again, QuestionResult::Refused);
    let proofs: Vec<Proof> = evidence.close(OTHERS, true).iter().map(|one| one.proof).collect();
    assert_eq!(proofs, [Proof::CatchAll, Proof::Proven, Proof::CatchAll]);
    assert!(!evidence.has_changed());
    let proofs: Vec<Proof> = changed.close(OTHERS, true).iter().map(|one| one.proof).collect();
    assert_eq!(proofs, [Proof::Proven, Proof::Proven, Proof::Changed], "the refused one is accepted now");
}

fn evidence_rows() -> [Held; 3] {
    [Held::Accepted, Held::Refused, Held::Accepted]
}

fn evidence_with(
    rows: &[Held],
    control: ProofQuestion,
    again: ProofQuestion,
    result: QuestionResult,
) -> SessionEvidence<usize> {
    let mut evidence = SessionEvidence::default();
    rows.iter().enumerate().for_each(|(row, &held)| evidence.hold(row, held, SAID, 1, false));
    evidence.on_result(control, QuestionResult::Accepted);
    evidence.on_result(again, result);
    evidence
}

#[test]
fn an_accepted_control_recipient_contradicts_an_earlier_session() {
    let mut evidence = SessionEvidence::default();
    evidence.on_refused_before(1);
    evidence.hold("row", Held::Accepted, SAID, 1, false);
    evidence.on_result(ProofQuestion::Control { domain: 1, second: false }, QuestionResult::Accepted);
    assert_eq!(evidence.close(OTHERS, true)[0].proof, Proof::Changed);
    assert!(evidence.has_changed());
}

#[test]
fn a_row_that_was_refused_elsewhere_stands_in_for_no_control_recipient() {
    let mut evidence = SessionEvidence::default();
    evidence.on_refused_before(1);
    evidence.hold("row", Held::Accepted, SAID, 1, false);
    evidence.hold("closed", Held::Refused, SAID, 1, false);
    assert_eq!(evidence.questions(OTHERS)[0], ProofQuestion::Control { domain: 1, second: false });
}

#[test]
fn a_postmaster_that_is_accepted_counts_once_the_control_recipient_is_refused() {
    let mut evidence = SessionEvidence::default();
    (0..REFUSALS_IN_A_ROW_MIN).for_each(|row| evidence.hold(row, Held::Refused, SAID, 1, false));
    let postmaster = ProofQuestion::Postmaster { domain: 1 };
    assert_eq!(evidence.questions(OTHERS), [postmaster]);
    evidence.on_result(postmaster, QuestionResult::Accepted);
    let control = ProofQuestion::Control { domain: 1, second: false };
    assert_eq!(evidence.questions(OTHERS)[0], control);
    evidence.on_result(control, QuestionResult::Refused);
    assert!(!evidence.questions(OTHERS).contains(&control));
    assert!(evidence.close(OTHERS, true).iter().all(|one| one.proof == Proof::Proven));
}

#[test]
fn a_postmaster_proves_no_refusal_if_the_control_recipient_is_not_refused() {
    use QuestionResult::{Accepted, Nothing, Refused, RefusedUnclearly};
    let control = ProofQuestion::Control { domain: 1, second: false };
    let again = ProofQuestion::RefusedBefore { domain: 1 };
    for (replies, questions_answered, expected) in [
        (&[(control, Accepted), (again, Accepted)][..], true, Proof::Changed),
        (&[(control, Accepted), (again, Refused)], true, Proof::Unclear),
        (&[(control, Accepted)], false, Proof::Changed),
        // These results show no more than a refusal of `postmaster@`.
        (&[(control, Nothing)], true, Proof::Assumed),
        (&[(control, RefusedUnclearly)], true, Proof::Assumed),
        (&[], false, Proof::Lost),
    ] {
        let mut evidence = SessionEvidence::default();
        (0..REFUSALS_IN_A_ROW_MIN).for_each(|row| evidence.hold(row, Held::Refused, SAID, 1, false));
        evidence.on_result(ProofQuestion::Postmaster { domain: 1 }, Accepted);
        for &(question, result) in replies {
            // The session may have remembered `postmaster@` as a known mailbox by now.
            assert_eq!(evidence.questions(KNOWN), [question]);
            evidence.on_result(question, result);
        }
        assert!(!questions_answered || evidence.questions(KNOWN).is_empty());
        assert_eq!((evidence.has_accepted(), evidence.refusals_proven()), (false, 0));
        let released = evidence.close(OTHERS, questions_answered);
        assert!(released.iter().all(|one| one.proof == expected), "{replies:?}: {:?}", released[0].proof);
    }
}

#[test]
fn all_look_at_the_control_recipient_of_the_domain_with_the_postmaster() {
    let mut evidence = SessionEvidence::default();
    (0..REFUSALS_IN_A_ROW_MIN).for_each(|row| evidence.hold(row, Held::Refused, SAID, 1, false));
    evidence.hold(REFUSALS_IN_A_ROW_MIN, Held::Denied, SAID, 2, false);
    let postmaster = ProofQuestion::Postmaster { domain: 1 };
    assert_eq!(evidence.questions(OTHERS), [postmaster]);
    assert_eq!(evidence.postmaster_domain(), Some(1));
    evidence.on_result(postmaster, QuestionResult::Accepted);
    assert_eq!(evidence.questions(OTHERS), [ProofQuestion::Control { domain: 1, second: false }]);
}

#[test]
fn a_lost_session_proves_what_was_proven_before() {
    let rows = |refused: u32| {
        let mut evidence = SessionEvidence::default();
        evidence.on_control_refused_before(1);
        for held in [Held::Refused, Held::Accepted] {
            evidence.hold((), held, SAID, 1, false);
        }
        (0..refused).for_each(|_| evidence.hold((), Held::Refused, SAID, 1, false));
        let released = evidence.close(OTHERS, false);
        released.into_iter().map(|one| one.proof).collect::<Vec<_>>()
    };
    assert_eq!(rows(0), [Proof::Proven, Proof::Lost]);
    assert_eq!(
        rows(1),
        [Proof::Proven, Proof::Proven, Proof::Carried],
        "it was seen to accept somebody before"
    );
    assert_eq!(rows(5)[2..], [Proof::Lost; 5], "after so many it may have changed for this session alone");
}

#[test]
fn a_lost_session_proves_no_refusal_where_a_mailbox_is_known() {
    let known = Context { known: true, ..OTHERS };
    for (context, first, expected) in [
        (OTHERS, None, Proof::Assumed),
        (known, None, Proof::Lost),
        (known, Some(QuestionResult::Accepted), Proof::Carried),
        (known, Some(QuestionResult::Refused), Proof::Changed),
        (Context { trusted: true, ..known }, None, Proof::Proven),
    ] {
        let mut evidence = SessionEvidence::default();
        first.into_iter().for_each(|result| evidence.on_result(ProofQuestion::KnownFirst, result));
        evidence.hold((), Held::Refused, SAID, 1, false);
        assert_eq!(evidence.close(context, false)[0].proof, expected, "{context:?} {first:?}");
    }
}

#[test]
fn the_next_session_proves_a_refusal_that_is_carried_into_it() {
    let known = Context { known: true, ..OTHERS };
    let question = ProofQuestion::Known { domain: None };
    for (context, result, questions_answered, expected) in [
        (known, QuestionResult::Accepted, true, Proof::Proven),
        (known, QuestionResult::Accepted, false, Proof::Proven),
        (known, QuestionResult::Refused, true, Proof::Changed),
        (known, QuestionResult::Nothing, true, Proof::Unclear),
    ] {
        let mut evidence = SessionEvidence::default();
        evidence.carry((), Held::Refused, SAID, 1, false);
        assert_eq!(evidence.questions(context), [question]);
        evidence.on_result(question, result);
        assert!(evidence.questions(context).is_empty());
        assert_eq!(
            evidence.close(context, questions_answered)[0].proof,
            expected,
            "{result:?} {questions_answered}"
        );
    }
    for (held, context, questions_answered, expected) in [
        (Some(Held::Accepted), known, false, Proof::Proven),
        (Some(Held::Refused), known, false, Proof::Carried),
        (None, known, false, Proof::Carried),
        (None, OTHERS, true, Proof::Lost),
    ] {
        let mut evidence = SessionEvidence::default();
        evidence.carry((), Held::Refused, SAID, 1, true);
        assert!(evidence.is_due());
        held.into_iter().for_each(|held| evidence.hold((), held, SAID, 1, false));
        assert_eq!(
            evidence.close(context, questions_answered)[0].proof,
            expected,
            "{held:?} {context:?} {questions_answered}"
        );
    }
}

#[test]
fn a_known_mailbox_that_is_asked_first_speaks_for_nobody_behind_it() {
    let mut evidence = SessionEvidence::default();
    evidence.on_result(ProofQuestion::KnownFirst, QuestionResult::Accepted);
    evidence.hold((), Held::Refused, SAID, 1, false);
    let context = Context { known: true, ..OTHERS };
    assert_eq!(evidence.questions(context), [ProofQuestion::Known { domain: None }]);
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
