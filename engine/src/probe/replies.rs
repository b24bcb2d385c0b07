//! Interprets the replies to RCPT about works (addresses on their way through the engine) and the replies to MAIL, and acts on
//! refusals that a host gives to everyone. `control_replies.rs` interprets the replies about other recipients. `docs/glossary.md`
//! defines the words, such as trusted operator and known mailbox.

use super::context::{Place, ProbeContext};
use super::endings::push_back;
use super::transaction::RcptReply;
use crate::Priority;
use crate::asking::Asking;
use crate::egress::rest;
use crate::faults::{Fault, planted, sometimes};
use crate::invariants::Invariant;
use crate::knowledge::ControlRefusal;
use crate::site::{Group, SessionNotes, UnclearControl};
use crate::work::Work;
use engine_proto::decision::recipient::{HostEffect, RcptFacts, RecipientEffect, ReplyEffect, on_rcpt_reply};
use engine_proto::decision::release::{UNANSWERED, UNCLEAR, on_unproven_accept};
use engine_proto::limits::{
    ECHOED_MAX, ECHOES_MAX, REFUSALS_SINGLE_SESSION_MAX, RETURNS_MAX, ROUTE_DOWN, SINGLE_NAMED_INTERVAL_MAX,
};
use engine_proto::retry::{GREYLISTING_WAIT, TRANSIENT_WAIT};
use engine_proto::smtp::interval;
use engine_proto::smtp::reply::Reply;
use engine_proto::verdict::catch_all::{ControlFinding, settle};
use engine_proto::verdict::classify::{Classification, classify, reason_at_rcpt};
use engine_proto::verdict::evidence::Held;
use engine_proto::verdict::{Class, ObservedReply, Reason, Scope, Stage};
use std::time::{Duration, Instant};

/// Interprets the reply to RCPT. The work is answered or put back into the queue, or the session holds it with this reply.
pub(super) fn answered(
    context: &ProbeContext<'_>,
    mut work: Work,
    notes: &mut SessionNotes,
    received: &RcptReply<'_>,
) -> ReplyEffect {
    let (Place { asking, group, index, .. }, now) = (**context, context.now);
    let RcptReply { reply, behind_others, behind_taken, at, .. } = *received;
    if planted(Fault::Panic) && !reply.text().is_char_boundary(5) {
        // As a slice at this byte does, but without a message and its backtrace.
        std::panic::resume_unwind(Box::new("planted"));
    }
    let said = classify(&context.view(Stage::Rcpt, reply, Some(work.address.as_str())));
    work.note(|| in_words(&said));
    context.remember_reply(&mut work, reply, &said, at);
    let Some(mut work) = with_planted_fault(work, &said) else { return ReplyEffect::Answer };
    let repeated = context.state().is_repeated(said.rule);
    let facts = RcptFacts {
        permanent: reply.is_permanent(),
        behind_others,
        behind_taken,
        accepts_everything: context.route().accepts_everything,
        returned: work.returns > 0,
        repeated,
        block: rest::is_block(asking, &said),
        for_ipv6: is_refused_for_ipv6(context, &said),
    };
    let effects = on_rcpt_reply(&said, facts);
    heed_echo(context, notes, reply, work.address.as_str());
    let in_step = received.in_step || !notes.in_doubt || planted(Fault::TrustStep);
    if let Some(alike) = effects.alike {
        let observed = ObservedReply::new(reply, &said, at);
        context.state().on_refused_alike((observed, &said), alike, work.address.domain());
    }
    match effects.host {
        HostEffect::Nothing => {}
        HostEffect::PushBack => push_back(context, said.rule),
        HostEffect::SessionRefused => context.state().on_session_refused(said.rule),
    }
    match effects.recipient {
        RecipientEffect::Hold(Held::Accepted) => accepted(context, work, notes, said, (at, in_step)),
        RecipientEffect::Hold(Held::Unclear) => hold(context, work, Held::Unclear, said),
        RecipientEffect::Hold(kind) => refused(context, work, notes, (kind, in_step), said),
        RecipientEffect::Settle(reason, rule) if in_step || reason == Reason::Unverifiable => {
            work.settle_by_reply(reason, rule, None, None)
        }
        RecipientEffect::Settle(reason, rule) => hold(context, work, Held::Decided(reason, rule), said),
        RecipientEffect::Greylisted => {
            notes.on_greylisted(work.address.domain());
            work.settle_by_reply(Reason::Unverifiable, said.rule, Some(GREYLISTING_WAIT), None);
        }
        RecipientEffect::NextTransaction => {
            work.set_fallback_by_reply(said.rule, Some(ROUTE_DOWN));
            group.put_back(work);
        }
        RecipientEffect::AnotherSession { other_route } => {
            work.tried |= u64::from(other_route) << index;
            come_back(group, work, said.rule, now);
        }
        RecipientEffect::OnceMore => {
            work.set_fallback_by_reply(said.rule, Some(ROUTE_DOWN));
            work.set_again(again_after(asking, &work, reply));
            work.deferred_by |= group.same_host(index);
            ask_other_hosts(context, work, &said);
        }
        RecipientEffect::OtherHosts => {
            work.set_fallback_by_reply(said.rule, Some(ROUTE_DOWN));
            ask_other_hosts(context, work, &said);
        }
    }
    effects.session
}

/// Whether the cause of a refusal may be our IPv6 address: the refusal is about us or the session, the session uses IPv6, and the
/// same host has a usable IPv4 address.
pub(super) fn is_refused_for_ipv6(context: &ProbeContext<'_>, said: &Classification) -> bool {
    let about_us = matches!(said.scope, Scope::Us | Scope::Sender | Scope::Session);
    about_us && context.group.has_ipv4_beside(context.index, context.now)
}

/// Acts on an accepted recipient. The accept means something only if the host refuses control recipients of the domain (recipients
/// that do not exist). If earlier sessions have shown enough about them, the work is answered at once. Otherwise the session holds
/// it.
pub(super) fn accepted(
    context: &ProbeContext<'_>,
    mut work: Work,
    notes: &mut SessionNotes,
    said: Classification,
    (now, in_step): (Instant, bool),
) {
    let (route, trusted) = (context.route(), context.group.is_trusted());
    let domain_key = context.domain_key(work.address.domain());
    let single = counts_as_single(context, &work);
    let knowledge = context.asking.knowledge.borrow();
    let known = knowledge.of_domain(domain_key);
    let believed = known.and_then(|known| known.believed(trusted, now)).filter(|finding| match finding {
        ControlFinding::RefusesUnknown => {
            trusted || (single && knowledge.control_refusal_counts(&route.host))
        }
        ControlFinding::AcceptsAll => {
            (single || known.is_some_and(|known| known.is_catch_all(now)))
                && !context.group.stands_in(context.index, &work, now)
        }
        ControlFinding::Unknown => true,
    });
    let control_refusal = known.and_then(|known| known.control_refusal(now));
    let has_refused_many = known.is_some_and(|known| known.has_refused_many(now));
    let accepts_all = known.and_then(|known| known.believed(true, now));
    drop(knowledge);
    context.state().on_accepted();
    if single {
        context.asking.knowledge.borrow_mut().on_single(&route.host, true);
        notes.refused_in_a_row = 0;
    }
    if accepts_all != Some(ControlFinding::AcceptsAll) {
        if work.was_refused {
            context.asking.knowledge.borrow_mut().on_taken_back(domain_key, now);
        } else {
            // From now on, other sessions may ask about this mailbox to prove their refusals, although it is not proven yet.
            context.on_known(work.address.as_str(), false, now);
        }
    }
    let mut works = context.works();
    match control_refusal {
        Some(ControlRefusal::Counts) => works.evidence.on_control_refused_before(domain_key),
        Some(ControlRefusal::Contradicted) => works.evidence.on_refused_before(domain_key),
        None if work.was_refused || has_refused_many => works.evidence.on_refused_before(domain_key),
        None => {}
    }
    match believed {
        Some(ControlFinding::Unknown) => {
            works.evidence.note(Held::Accepted, domain_key);
            drop(works);
            let control = context.asking.knowledge.borrow().unclear(domain_key);
            settle_remembered(context, work, control.as_ref());
        }
        Some(finding) => {
            works.evidence.note(Held::Accepted, domain_key);
            drop(works);
            let rule = "control_remembered";
            if !in_step {
                let reason = settle(&said, Some(finding), work.role);
                return hold(context, work, Held::Decided(reason, rule), said);
            }
            let key = context.evidence_key(work.address.domain());
            finish(work, &said, finding, rule, Some(key));
        }
        None => {
            work.on_held();
            works.evidence.hold(work, Held::Accepted, said, domain_key, single);
        }
    }
}

/// Whether the reply about a work counts as that about a single check: without a proof in the same session, if earlier sessions have
/// shown enough. Patient work needs the proof, unless a session has no room for it.
fn counts_as_single(context: &ProbeContext<'_>, work: &Work) -> bool {
    work.priority == Priority::Single || context.has_no_room_for_proof()
}

/// Answers an accepted work as unverifiable, because recent sessions got no clear reply about the control recipient, and it is too
/// soon to ask again. `control` is the unclear reply. `None` if the sessions ended without a reply.
fn settle_remembered(context: &ProbeContext<'_>, mut work: Work, control: Option<&UnclearControl>) {
    let unproven = on_unproven_accept(control.map(|control| &control.said));
    let host = &context.route().host;
    work.note(|| match control {
        Some(control) => format!("control recipient: {host} replied earlier, {}", in_words(&control.said)),
        None => format!("control recipient: earlier sessions with {host} ended without a reply"),
    });
    context.remember_control_reply(&mut work, control);
    // These two rules would say that this session asked about the control recipient. Where each session can ask about one recipient
    // only, another session has asked on behalf of this work.
    let is_own = matches!(unproven.rule, UNCLEAR | UNANSWERED) && !context.has_no_room_for_proof();
    let rule = if is_own { "control_remembered" } else { unproven.rule };
    work.settle_by_reply(Reason::Unverifiable, rule, unproven.retry_after, None);
}

/// Acts on a permanent refusal that is about the recipient or its domain. A single check is answered at once if there is no reason
/// to doubt the refusal. The session holds all other works until the checkpoint.
fn refused(
    context: &ProbeContext<'_>,
    work: Work,
    notes: &mut SessionNotes,
    (kind, in_step): (Held, bool),
    said: Classification,
) {
    let route = context.route();
    let (now, single) = (context.now, counts_as_single(context, &work));
    if single {
        context.asking.knowledge.borrow_mut().on_single(&route.host, false);
        notes.refused_in_a_row = notes.refused_in_a_row.saturating_add(1);
    }
    let has_accepted = context.works().evidence.has_accepted();
    let domain_key = context.domain_key(work.address.domain());
    let doubted = || !has_accepted && context.doubts_refusals(domain_key, single, 1);
    if !single || work.was_accepted || is_suspect(context, &work, notes, now) || doubted() {
        return hold(context, work, kind, said);
    }
    context.works().evidence.note(kind, domain_key);
    let reason = reason_at_rcpt(&said);
    if !in_step {
        return hold(context, work, Held::Decided(reason, said.rule), said);
    }
    let evidence = Some(context.evidence_key(work.address.domain()));
    work.settle_by_reply(reason, said.rule, None, evidence);
}

/// Notices an address in a reply. If it is that of its own recipient, the replies so far were in step. If it is another one of the
/// addresses that the session asks about, replies are missing, or have come in another order, or there was a surplus reply.
pub(super) fn heed_echo(
    context: &ProbeContext<'_>,
    notes: &mut SessionNotes,
    reply: &Reply,
    recipient: &str,
) {
    let text = reply.text();
    if !text.as_bytes().contains(&b'@') {
        return;
    }
    let signs: Vec<usize> = text.match_indices('@').map(|(at, _)| at).take(ECHOED_MAX).collect();
    let text = text.as_bytes();
    if names(text, &signs, recipient) {
        notes.in_doubt = false;
        return;
    }
    let works = context.works();
    let is_named = |work: &Work| names(text, &signs, work.address.as_str());
    notes.out_of_step |= works.evidence.newest(ECHOES_MAX).any(is_named) || works.in_flight.any(is_named);
}

/// Whether a text has this address, and not only as a part of a longer one. `signs` are the places of `@` in the text.
fn names(text: &[u8], signs: &[usize], address: &str) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.+".contains(byte);
    let address = address.as_bytes();
    let Some(sign) = address.iter().rposition(|byte| *byte == b'@') else { return false };
    let is_here = |&sign_at: &usize| {
        let Some(start) = sign_at.checked_sub(sign) else { return false };
        let end = start + address.len();
        text.get(start..end).is_some_and(|part| part.eq_ignore_ascii_case(address))
            && !start.checked_sub(1).is_some_and(|before| is_part(&text[before]))
            && !text.get(end).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
    };
    signs.iter().any(is_here)
}

/// Whether the refusal of a single check needs a proof: the host has refused many single checks in a row, in this session or over
/// all sessions, or what it showed about the domain was contradicted within the last hour. This is false if there is no known
/// mailbox to ask about, and at a trusted operator.
fn is_suspect(context: &ProbeContext<'_>, work: &Work, notes: &SessionNotes, now: Instant) -> bool {
    let (domain_key, host) = (context.domain_key(work.address.domain()), &context.route().host);
    let knowledge = context.asking.knowledge.borrow();
    let suspect = notes.refused_in_a_row > REFUSALS_SINGLE_SESSION_MAX
        || knowledge.is_long_run(host)
        || knowledge.has_contradicted(domain_key, now);
    drop(knowledge);
    suspect && !context.group.is_trusted() && context.has_known_mailbox(Some(work.address.domain()))
}

/// Holds a work with its reply until the checkpoint of the session.
pub(super) fn hold(context: &ProbeContext<'_>, mut work: Work, kind: Held, said: Classification) {
    let domain_key = context.domain_key(work.address.domain());
    let urgent = work.priority == Priority::Single;
    work.on_held();
    context.works().evidence.hold(work, kind, said, domain_key, urgent);
}

/// The delay after which a work with a transient reply begins anew. `None` for a single check if the reply asks for a longer
/// interval than [`SINGLE_NAMED_INTERVAL_MAX`].
pub(super) fn again_after(asking: &Asking, work: &Work, reply: &Reply) -> Option<Duration> {
    if work.priority != Priority::Single {
        return Some(TRANSIENT_WAIT);
    }
    let long = interval::named(reply.text()).is_some_and(|interval| interval > SINGLE_NAMED_INTERVAL_MAX);
    (!long).then(|| asking.common.single_retry())
}

/// Returns the work, or answers it wrongly if a test has planted such a defect.
pub(super) fn with_planted_fault(work: Work, said: &Classification) -> Option<Work> {
    if planted(Fault::SessionAsRecipient) && said.scope != Scope::Recipient {
        work.settle(Reason::MailboxNotFound, "planted");
    } else if planted(Fault::ConfirmWithoutControl) && said.class == Class::Accepted {
        work.settle(Reason::MailboxExists, "planted");
    } else {
        return Some(work);
    }
    None
}

/// Like [`returned`], but also puts the work back at the front of the queue.
pub(super) fn come_back(group: &Group, work: Work, rule: &'static str, now: Instant) {
    if let Some(work) = returned(work, rule, now) {
        group.put_back(work);
    }
}

/// Counts a return of a work, and hands the work back to the caller, to be asked about in another session. After [`RETURNS_MAX`]
/// returns, or at the deadline, answers the work as unverifiable by `rule` instead, and returns `None`.
pub(super) fn returned(mut work: Work, rule: &'static str, now: Instant) -> Option<Work> {
    work.returns += 1;
    work.set_fallback_by_reply(rule, Some(ROUTE_DOWN));
    let is_last = work.returns > RETURNS_MAX && !sometimes(Fault::Break(Invariant::Returns));
    if is_last || work.deadline <= now {
        work.give_up();
        return None;
    }
    Some(work)
}

/// Puts a work back for the other hosts of its domain, because this host gives no usable reply. If the cause may be our IPv6
/// address, the IPv4 addresses of this host may be asked too.
pub(super) fn ask_other_hosts(context: &ProbeContext<'_>, mut work: Work, said: &Classification) {
    let group = context.group;
    work.tried |= if is_refused_for_ipv6(context, said) {
        group.same_host_and_family(context.index)
    } else {
        group.same_host(context.index)
    };
    group.put_back(work);
}

/// The meaning of a reply in words, for traces.
pub(super) fn in_words(said: &Classification) -> String {
    format!("rule {}: {}, scope {}", said.rule, said.class.as_str(), said.scope.as_str())
}

/// Acts on the refusal of MAIL, which is about us or the host and not about a recipient. The works of the transaction are put back,
/// or answered after too many returns. Returns true if the session should end, because the server wants us to wait and would give
/// the next MAIL the same reply. `utf8`: the transaction needed SMTPUTF8, which may be the cause.
pub(super) fn mail_refused(context: &ProbeContext<'_>, works: Vec<Work>, utf8: bool, reply: &Reply) -> bool {
    let (Place { asking, group, .. }, now) = (**context, context.now);
    let said = classify(&context.view(Stage::Mail, reply, None));
    let throttled = matches!(said.class, Class::Throttled | Class::Temporary);
    let block = rest::is_block(asking, &said);
    if throttled {
        push_back(context, said.rule);
    } else if !utf8 && (block || reply.is_permanent()) {
        // The host would refuse each further MAIL in the same way.
        context.state().set_down_by(now + ROUTE_DOWN, said.rule, ObservedReply::new(reply, &said, now));
    }
    for mut work in works.into_iter().rev() {
        work.note(|| in_words(&said));
        context.remember_reply(&mut work, reply, &said, now);
        if throttled {
            come_back(group, work, said.rule, now);
        } else {
            work.set_fallback_by_reply(said.rule, Some(ROUTE_DOWN));
            ask_other_hosts(context, work, &said);
        }
    }
    if block {
        rest::on_blocked(asking, group, said.rule, now);
    }
    throttled
}

/// Acts on blanket refusals (the same refusal for every recipient). If the host refuses everyone, the route is taken out of use for
/// a minute, and if the refusal is a block of our source, the source may begin to rest at the site. If the host refuses all
/// recipients of some domains, the route is not used for these domains for a minute.
pub(super) fn heed_blanket_refusals(context: &ProbeContext<'_>) {
    let now = context.now;
    let blanket = context.state().blanket(&context.route().host);
    let Some(blanket) = blanket else { return context.state().set_domains_shut(now, now + ROUTE_DOWN) };
    context.state().set_down_by(now + ROUTE_DOWN, blanket.rule, blanket.reply);
    if blanket.block {
        rest::on_blocked(context.asking, context.group, blanket.rule, now);
    }
}

/// Answers an accepted work. `finding` is what a control recipient of its domain showed.
pub(super) fn finish(
    work: Work,
    said: &Classification,
    finding: ControlFinding,
    rule: &'static str,
    evidence: Option<u64>,
) {
    let reason = settle(said, Some(finding), work.role);
    work.settle_by_reply(reason, rule, None, evidence);
}
