//! Tables of cases: the meaning of a reply, the other facts, and the effects.

use super::*;
use HostEffect::{PushBack, SessionRefused};
use RecipientEffect::{AnotherSession, Greylisted, Hold, NextTransaction, OnceMore, OtherHosts, Settle};
use ReplyEffect::{Answer, Later, Push, Refusal};

const SETTLED: Option<Alike> = Some(Alike { block: false, counts_alone: true });
const UNSETTLED: Option<Alike> = Some(Alike { block: false, counts_alone: false });
const BLOCK: Option<Alike> = Some(Alike { block: true, counts_alone: true });

#[test]
fn a_reply_to_rcpt_has_these_effects() {
    let none = RcptFacts::default();
    let hard = RcptFacts { permanent: true, ..none };
    let unsure = Settle(Reason::Unverifiable, "rule");
    let another = |other_route| AnotherSession { other_route };
    let (behind, returned) =
        (RcptFacts { behind_others: true, ..none }, RcptFacts { returned: true, ..none });
    let open = RcptFacts { accepts_everything: true, ..none };
    let repeated = RcptFacts { repeated: true, ..hard };
    let (block, ipv6) = (RcptFacts { block: true, ..hard }, RcptFacts { for_ipv6: true, ..hard });
    let rows = [
        (Class::Accepted, Scope::Recipient, none, None, Hold(Held::Accepted), Answer),
        (
            Class::Accepted,
            Scope::Recipient,
            open,
            None,
            Settle(Reason::Unverifiable, "accepts_everything"),
            Answer,
        ),
        (Class::ExistsThrottled, Scope::Recipient, none, None, Hold(Held::Accepted), Answer),
        (Class::ExistsThrottled, Scope::Recipient, hard, SETTLED, unsure, Refusal),
        // A clear refusal of the recipient is held until later replies prove it.
        (Class::NotFound, Scope::Recipient, hard, None, Hold(Held::Refused), Answer),
        (Class::Disabled, Scope::Recipient, hard, None, Hold(Held::Denied), Answer),
        (Class::DomainDead, Scope::Site, hard, None, Hold(Held::Denied), Answer),
        (Class::NotFound, Scope::Recipient, none, None, unsure, Refusal),
        (Class::NotFound, Scope::Site, hard, SETTLED, unsure, Refusal),
        // A full mailbox is an answer. But a host that says so with a 5yz code may say so about everyone.
        (Class::Full, Scope::Recipient, none, None, Settle(Reason::InboxFull, "rule"), Answer),
        (Class::Full, Scope::Recipient, hard, SETTLED, Settle(Reason::InboxFull, "rule"), Refusal),
        // The cause of these replies may soon be over.
        (Class::Greylisted, Scope::Recipient, none, None, Greylisted, Answer),
        (Class::Temporary, Scope::Host, none, None, OnceMore, Answer),
        (Class::Temporary, Scope::Host, hard, SETTLED, OnceMore, Refusal),
        (Class::Throttled, Scope::Session, behind, None, NextTransaction, Later),
        // Refusals of us, which may be a block: another host would say no more about the recipient.
        (Class::Policy, Scope::Us, hard, SETTLED, unsure, Refusal),
        (Class::Policy, Scope::Us, block, BLOCK, unsure, Refusal),
        (Class::Policy, Scope::Us, ipv6, SETTLED, OtherHosts, Refusal),
        (Class::Policy, Scope::Us, none, None, unsure, Refusal),
        // Refusals that another host may not give.
        (Class::Policy, Scope::Host, hard, SETTLED, OtherHosts, Refusal),
        (Class::Relay, Scope::Us, hard, SETTLED, OtherHosts, Refusal),
        (Class::Unclear, Scope::Recipient, hard, SETTLED, OtherHosts, Refusal),
    ];
    for (class, scope, facts, alike, recipient, session) in rows {
        check(class, scope, facts, RcptEffects { alike, host: HostEffect::Nothing, recipient, session });
    }
    let rows = [
        (Class::Throttled, Scope::Session, none, None, PushBack, another(false), Push),
        (Class::Throttled, Scope::Us, behind, None, PushBack, another(false), Push),
        (Class::Throttled, Scope::Us, hard, SETTLED, PushBack, another(false), Push),
        // The same refusal in another session shows that another route is needed.
        (Class::Policy, Scope::Session, none, None, SessionRefused, another(false), Push),
        (Class::Policy, Scope::Session, returned, None, SessionRefused, another(true), Push),
        (Class::Policy, Scope::Session, hard, UNSETTLED, SessionRefused, another(false), Push),
        (
            Class::Policy,
            Scope::Session,
            repeated,
            SETTLED,
            SessionRefused,
            another(true),
            ReplyEffect::Nothing,
        ),
    ];
    for (class, scope, facts, alike, host, recipient, session) in rows {
        check(class, scope, facts, RcptEffects { alike, host, recipient, session });
    }
}

/// Checks the effects of a reply that may concern this recipient only (`to_all` is false).
fn check(class: Class, scope: Scope, facts: RcptFacts, effects: RcptEffects) {
    let passes = matches!(class, Class::Greylisted | Class::Throttled | Class::Temporary);
    let permanent = facts.permanent && !passes;
    let said = Classification { class, scope, permanent, to_all: false, rule: "rule" };
    assert_eq!(on_rcpt_reply(&said, facts), effects, "{class:?} {scope:?} {facts:?}");
}

#[test]
fn words_that_leave_no_doubt_or_no_sense_have_other_effects() {
    let hard = RcptFacts { permanent: true, ..RcptFacts::default() };
    let said = |class, scope, to_all, rule| Classification { class, scope, permanent: true, to_all, rule };
    let to_all = on_rcpt_reply(&said(Class::Relay, Scope::Us, true, "rule"), hard);
    assert_eq!(to_all.recipient, Settle(Reason::Unverifiable, "rule"), "every host says so");
    let uncertain = on_rcpt_reply(&said(Class::Unclear, Scope::Recipient, false, UNCERTAIN), hard);
    assert_eq!((uncertain.recipient, uncertain.alike), (Hold(Held::Unclear), None));
}
