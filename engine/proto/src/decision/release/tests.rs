//! The rows of the table: an answer, its proof, and what happens with its recipient.

use super::*;
use crate::verdict::{Class, Scope};
use ReleaseEffect::{Carry, Elsewhere, Finish, Return, Settle, Unclear, WithoutControl};

#[test]
fn a_released_answer_has_this_effect() {
    let alive = ReleaseFacts { alive: true, ..ReleaseFacts::default() };
    let lost = ReleaseFacts::default();
    let changed = ReleaseFacts { changed: true, ..alive };
    let without_control = ReleaseFacts { without_control: true, ..lost };
    let (contradicts, settled) =
        (ReleaseFacts { was_accepted: true, ..lost }, ReleaseFacts { was_accepted: true, ..alive });
    let again = |rule| Return { rule, counts_twice: false, noted: false };
    let noted = |rule| Return { rule, counts_twice: false, noted: true };
    let changed_again = Return { rule: CHANGED, counts_twice: true, noted: false };
    let not_found = Settle(Reason::MailboxNotFound);
    let rows = [
        (Held::Accepted, Proof::Proven, alive, Finish(ControlFinding::RefusesUnknown)),
        (Held::Accepted, Proof::CatchAll, alive, Finish(ControlFinding::AcceptsAll)),
        (Held::Accepted, Proof::Unclear, alive, Unclear),
        (Held::Accepted, Proof::Changed, changed, changed_again),
        (Held::Accepted, Proof::Lost, lost, noted(UNANSWERED)),
        (Held::Accepted, Proof::Lost, without_control, WithoutControl),
        (Held::Refused, Proof::Proven, alive, not_found),
        (Held::Refused, Proof::Assumed, lost, not_found),
        (Held::Denied, Proof::Proven, alive, not_found),
        // An earlier session has accepted it: it counts only if the questions of this one were answered.
        (Held::Refused, Proof::Proven, contradicts, again(UNPROVEN)),
        (Held::Refused, Proof::Proven, settled, not_found),
        (Held::Refused, Proof::Changed, changed, changed_again),
        (Held::Refused, Proof::Carried, lost, Carry),
        (Held::Refused, Proof::Lost, lost, noted(UNPROVEN)),
        (Held::Refused, Proof::Lost, changed, noted(CHANGED)),
        (Held::Refused, Proof::Unclear, alive, Return { rule: UNPROVEN, counts_twice: true, noted: true }),
        (Held::Unclear, Proof::Proven, alive, not_found),
        (Held::Unclear, Proof::Lost, lost, again("rule")),
        (Held::Unclear, Proof::Unclear, alive, Elsewhere),
    ];
    let (class, scope) = (Class::NotFound, Scope::Recipient);
    let said = Classification { class, scope, permanent: true, to_all: false, rule: "rule" };
    for (held, proof, facts, effect) in rows {
        assert_eq!(on_released(held, &said, proof, facts), effect, "{held:?} {proof:?} {facts:?}");
    }
}
