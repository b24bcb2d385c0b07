//! Tables of cases: how a session ended, after how many answers and refusals, and the effects.

use super::*;
use EndEffect::{Died, HungUp, NotSmtp, Nothing, PlainOnly, PushBack, Refused, SlowDown, TooMany};
use PaceEffect::{BrokeBetween, CutOff};

fn refused(step: Step, code: u16) -> Closure {
    Closure::Refused { step, reply: Reply::new(code, "text") }
}

fn said(class: Class, scope: Scope) -> Classification {
    Classification { class, scope, permanent: false, to_all: false, rule: "rule" }
}

#[test]
fn a_session_that_gives_no_answer_shows_this_of_its_host() {
    let (us, passing) = (said(Class::Policy, Scope::Us), said(Class::Temporary, Scope::Host));
    let (throttled, session) = (said(Class::Throttled, Scope::Us), said(Class::Policy, Scope::Session));
    let (soft, hard) = (refused(Step::Banner, 421), refused(Step::Banner, 554));
    let reply = &Reply::new(554, "text");
    let rows = [
        (&refused(Step::StartTls, 454), us, PlainOnly),
        (&Closure::TlsFailed, us, PlainOnly),
        (&Closure::TimedOut(Step::StartTls), us, PlainOnly),
        (&soft, passing, PushBack("rule")),
        (&soft, session, PushBack("rule")),
        (&hard, throttled, TooMany("rule")),
        (&refused(Step::Ehlo, 421), throttled, PushBack("rule")),
        (&hard, us, Refused(reply, us)),
        (&hard, session, Refused(reply, session)),
        (&Closure::Closed(Step::Banner), us, Died("hung_up")),
        (&Closure::TimedOut(Step::Ehlo), us, Died("no_answer_in_time")),
        (&Closure::Unexpected(Step::Banner), us, NotSmtp),
        (&Closure::Quit, us, Nothing),
    ];
    for (closure, said, effect) in rows {
        assert_eq!(on_session_refused(closure, |_, _| said), effect, "{closure:?} {said:?}");
    }
}

#[test]
fn the_end_of_a_session_in_a_transaction_has_these_effects() {
    let rcpt = Step::Rcpt(3);
    let (hung_up, late) = (Some("hung_up"), Some("no_answer_in_time"));
    let (passing, us) = (said(Class::Temporary, Scope::Host), said(Class::Throttled, Scope::Us));
    let reply = &Reply::new(421, "text");
    let (in_place, between, at_mail) = (CutOff(End::Recipient), CutOff(End::Between), CutOff(End::Mail));
    let rows = [
        // If a session ends at its first recipient, the cause may be the recipient or the host.
        (refused(rcpt, 421), (0, 0), passing, None, PushBack("hung_up"), hung_up, false),
        (Closure::Closed(rcpt), (0, 0), passing, None, HungUp("hung_up"), hung_up, false),
        (Closure::TimedOut(rcpt), (0, 0), passing, None, HungUp("no_answer_in_time"), late, false),
        // If there were answers before, the session may have reached a limit, or the recipient is the cause.
        (refused(rcpt, 421), (4, 0), passing, Some(in_place), PushBack("hung_up"), hung_up, false),
        (refused(rcpt, 421), (4, 2), passing, Some(in_place), Nothing, hung_up, true),
        (Closure::Closed(rcpt), (4, 2), passing, Some(in_place), Nothing, hung_up, true),
        (Closure::TimedOut(rcpt), (4, 2), passing, Some(in_place), Nothing, late, false),
        (Closure::TimedOut(rcpt), (4, 0), passing, None, Nothing, late, false),
        // The words of the 421 name the cause.
        (refused(rcpt, 421), (4, 2), us, Some(in_place), SlowDown(reply, us), hung_up, true),
        (refused(Step::Mail, 421), (4, 0), us, Some(at_mail), SlowDown(reply, us), None, false),
        (refused(Step::Mail, 421), (0, 0), us, None, SlowDown(reply, us), hung_up, false),
        // If a session with answers ends between transactions, no recipient is the cause.
        (Closure::Closed(Step::Mail), (4, 0), passing, Some(at_mail), Nothing, None, false),
        (Closure::Closed(Step::Rset), (4, 2), passing, Some(between), Nothing, None, false),
        (Closure::TimedOut(Step::Mail), (4, 2), passing, Some(BrokeBetween), Nothing, None, false),
        (Closure::Unexpected(Step::Rset), (4, 0), passing, Some(BrokeBetween), Nothing, None, false),
        // Without an answer, the host counts as having refused the session, or as down.
        (refused(Step::Mail, 421), (0, 0), passing, None, PushBack("rule"), hung_up, false),
        (Closure::TimedOut(Step::Mail), (0, 0), passing, None, Died("no_answer_in_time"), late, false),
        (Closure::Unexpected(rcpt), (0, 0), passing, None, NotSmtp, hung_up, false),
        // A host may end each session at a second EHLO.
        (Closure::Closed(Step::InStep), (4, 0), passing, Some(BrokeBetween), Nothing, None, false),
        // After one or two refusals, a host that ends the session leaves them unproven.
        (Closure::Closed(Step::InStep), (4, 1), passing, Some(between), Nothing, None, true),
        (refused(Step::InStep, 421), (4, 3), passing, Some(between), Nothing, None, false),
    ];
    for (closure, (answers, errors), said, pace, host, suspect, ends_at_refusal) in rows {
        let tally = Tally { transactions: 1, asked: 9, answers, errors };
        let effects = on_session_end(&closure, &tally, true, |_, _| said);
        let at_ehlo =
            matches!(closure, Closure::Closed(Step::InStep) | Closure::Refused { step: Step::InStep, .. });
        let ends_at_ehlo = at_ehlo && errors == 0;
        assert_eq!(
            effects,
            EndEffects { pace, host, suspect, ends_at_refusal, ends_at_ehlo },
            "{closure:?} {answers} {errors}"
        );
    }
}
