//! Tables of cases: an answer, its proof, and what happens with its recipient.

use super::*;
use crate::verdict::{Class, Scope};
use ReleaseEffect::{Carry, Finish, OtherHosts, Return, Settle, Unclear, WithoutControl};

#[test]
fn a_released_answer_has_this_effect() {
    let questions_answered = ReleaseFacts { questions_answered: true, ..ReleaseFacts::default() };
    let lost = ReleaseFacts::default();
    let changed = ReleaseFacts { changed: true, ..questions_answered };
    let without_control = ReleaseFacts { without_control: true, ..lost };
    let (contradicts, settled) = (
        ReleaseFacts { was_accepted: true, ..lost },
        ReleaseFacts { was_accepted: true, ..questions_answered },
    );
    let again = |rule| Return { rule, counts_twice: false, remembered: false };
    let remembered = |rule| Return { rule, counts_twice: false, remembered: true };
    let changed_again = Return { rule: CHANGED, counts_twice: true, remembered: false };
    let not_found = Settle(Reason::MailboxNotFound);
    let rows = [
        (Held::Accepted, Proof::Proven, questions_answered, Finish(ControlFinding::RefusesUnknown)),
        (Held::Accepted, Proof::CatchAll, questions_answered, Finish(ControlFinding::AcceptsAll)),
        (Held::Accepted, Proof::Unclear, questions_answered, Unclear),
        (Held::Accepted, Proof::Changed, changed, changed_again),
        (Held::Accepted, Proof::Lost, lost, remembered(UNANSWERED)),
        (Held::Accepted, Proof::Lost, without_control, WithoutControl),
        (Held::Refused, Proof::Proven, questions_answered, not_found),
        (Held::Refused, Proof::Assumed, lost, not_found),
        (Held::Denied, Proof::Proven, questions_answered, not_found),
        // After an accept in an earlier session, a refusal counts only if the questions of this session were answered.
        (Held::Refused, Proof::Proven, contradicts, again(UNPROVEN)),
        (Held::Refused, Proof::Proven, settled, not_found),
        (Held::Refused, Proof::Changed, changed, changed_again),
        (Held::Refused, Proof::Carried, lost, Carry),
        (Held::Refused, Proof::Lost, lost, remembered(UNPROVEN)),
        (Held::Refused, Proof::Lost, changed, remembered(CHANGED)),
        (
            Held::Refused,
            Proof::Unclear,
            questions_answered,
            Return { rule: UNPROVEN, counts_twice: true, remembered: true },
        ),
        (Held::Unclear, Proof::Proven, questions_answered, not_found),
        (Held::Unclear, Proof::Lost, lost, again("rule")),
        (Held::Unclear, Proof::Unclear, questions_answered, OtherHosts),
    ];
    let (class, scope) = (Class::NotFound, Scope::Recipient);
    let said = Classification { class, scope, permanent: true, to_all: false, rule: "rule" };
    for (held, proof, facts, effect) in rows {
        assert_eq!(on_released(held, &said, proof, facts), effect, "{held:?} {proof:?} {facts:?}");
    }
}

#[test]
fn an_accept_without_a_proof_has_the_cause_of_the_reply_to_the_control_recipient() {
    let of = |class, scope| {
        let rule = crate::verdict::classify::rules().find(|&(_, c, s, _)| (c, s) == (class, scope));
        let rule = rule.map_or("no rule", |(name, ..)| name);
        let said = Classification { class, scope, permanent: true, to_all: false, rule };
        let UnprovenAccept { rule, retry_after, again_soon } = on_unproven_accept(Some(&said));
        (
            if rule == said.rule { "its own" } else { rule },
            retry_after.map(|after| after.as_secs()),
            again_soon,
        )
    };
    for (class, scope, expected) in [
        (Class::Policy, Scope::Us, ("its own", None, false)),
        (Class::Policy, Scope::Sender, ("its own", None, false)),
        (Class::Policy, Scope::Session, ("its own", Some(60), false)),
        (Class::AuthRequired, Scope::Host, ("its own", None, false)),
        (Class::Relay, Scope::Host, ("its own", Some(60), false)),
        (Class::Throttled, Scope::Us, ("its own", Some(60), false)),
        (Class::Greylisted, Scope::Recipient, ("its own", Some(300), false)),
        (Class::Temporary, Scope::Host, ("its own", Some(60), true)),
        (Class::Unclear, Scope::Us, ("its own", None, false)),
        // These are about the invented mailbox.
        (Class::Temporary, Scope::Recipient, (UNCLEAR, Some(60), true)),
        (Class::Unclear, Scope::Recipient, (UNCLEAR, Some(60), false)),
        (Class::Full, Scope::Recipient, (UNCLEAR, Some(60), false)),
        (Class::Disabled, Scope::Recipient, (UNCLEAR, Some(60), false)),
        (Class::ExistsThrottled, Scope::Recipient, (UNCLEAR, Some(60), false)),
        (Class::DomainDead, Scope::Site, (UNCLEAR, Some(60), false)),
    ] {
        assert_eq!(of(class, scope), expected, "{class:?} {scope:?}");
    }
    let silent = on_unproven_accept(None);
    assert_eq!((silent.rule, silent.again_soon), (UNANSWERED, false));
}
