//! The end of a checkpoint. A session holds its answers about works until a checkpoint, in which it asks further questions about
//! control recipients (recipients that do not exist) and known mailboxes. All replies together decide about each held answer: it
//! counts, it does not count, or another session has to ask again. The rules are in [`engine_proto::verdict::evidence`].

use super::context::ProbeContext;
use super::replies::{ask_other_hosts, finish, returned};
use super::transaction::{NextStep, SessionState};
use crate::Priority;
use crate::faults::{Fault, planted};
use crate::invariants::{Invariant, holds};
use crate::site::{SessionNotes, UnclearControl};
use crate::work::{CarriedRefusal, Work};
use engine_proto::address::Domain;
use engine_proto::decision::release::{
    CHANGED, ReleaseEffect, ReleaseFacts, UNANSWERED, UNPROVEN, UnprovenAccept, on_released,
    on_unproven_accept,
};
use engine_proto::limits::{
    CATCH_ALL_CHECKPOINTS_MIN, CHECKPOINT_ANSWERS_MIN, REFUSALS_IN_A_ROW_MIN, ROUTE_DOWN,
};
use engine_proto::retry::TRANSIENT_WAIT;
use engine_proto::verdict::Reason;
use engine_proto::verdict::catch_all::ControlFinding;
use engine_proto::verdict::evidence::{Held, Proof, Released};
use std::collections::BTreeMap;
use std::time::Instant;

/// Closes the checkpoint, and releases all held answers. `questions_answered`: all questions of the checkpoint were answered, or it
/// needed none. Returns [`NextStep::Leave`] if another session should ask about the next works.
pub(super) fn release(
    context: &ProbeContext<'_>,
    state: &mut SessionState,
    questions_answered: bool,
) -> NextStep {
    if context.works().evidence.is_empty() {
        state.notes.unclear.clear();
        return NextStep::Open;
    }
    let in_step = !state.notes.in_doubt && !state.notes.out_of_step;
    if !in_step && !planted(Fault::TrustStep) && !planted(Fault::Break(Invariant::InStep)) {
        return release_unproven(context, state);
    }
    holds(Invariant::InStep, || in_step || planted(Fault::TrustStep));
    let known = context.proof_context(state);
    learn(context, &mut state.notes);
    let mut works = context.works();
    let released = works.evidence.close(known, questions_answered);
    let changed = works.evidence.has_changed();
    let proven = works.evidence.refusals_proven();
    let (has_accepted, refused_in_a_row) = (works.evidence.has_accepted(), works.evidence.refused_in_a_row());
    drop(works);
    if changed {
        context.on_change(&released, proven);
    } else if questions_answered {
        context.state().on_no_change();
        learn_refusals(context, &released, context.now);
        context.group.on_proven(released.iter().filter(|one| is_answer(one.proof)).count());
    }
    let is_unclear = |one: &Released<Work>| one.held != Held::Accepted && one.proof == Proof::Unclear;
    let only_catch_all = only_catch_all(&released);
    let in_a_row = only_catch_all.map_or(0, |_| state.notes.catch_all_in_a_row + 1);
    state.notes.catch_all_in_a_row = in_a_row;
    let is_long = released.len() >= CHECKPOINT_ANSWERS_MIN as usize || in_a_row >= CATCH_ALL_CHECKPOINTS_MIN;
    let confirms = is_long && only_catch_all.is_some_and(|domain| is_to_confirm(context, domain));
    // After a change, every further checkpoint of this session would find the same change. So a session finds at most one.
    let leaves = changed || released.iter().any(is_unclear) || confirms;
    let (mut again, now) = (Vec::new(), context.now);
    // A session that ended at the control recipient is recorded as one failure, however many answers it held.
    let ended = state.notes.ended_at_control.take();
    let without_control =
        ended.filter(|&domain| !context.asking.knowledge.borrow_mut().on_unanswered(domain, now));
    let unclear = std::mem::take(&mut state.notes.unclear);
    if let Some((domain, control)) = without_control.and_then(|domain| Some((domain, unclear.get(&domain)?)))
    {
        context.asking.knowledge.borrow_mut().on_unclear(domain, *control, now);
    }
    let closed =
        Closed { without_control, changed, has_accepted, refused_in_a_row, questions_answered, unclear };
    for one in released {
        again.extend(settle_released(context, one, &closed, now));
    }
    let after = if leaves || !again.is_empty() { NextStep::Leave } else { NextStep::Open };
    // The works go to the front of the queue, in the order in which they were asked about.
    again.into_iter().rev().for_each(|work| context.group.put_back(work));
    if context.state().is_changing() {
        context.state().set_down(now + ROUTE_DOWN, CHANGED);
    }
    after
}

/// Returns all held answers for another session, because replies of this one may have been out of step: each of them may be about
/// another recipient. Nothing is learned from them.
fn release_unproven(context: &ProbeContext<'_>, state: &mut SessionState) -> NextStep {
    let known = context.proof_context(state);
    let released = context.works().evidence.close(known, false);
    let (out_of_step, now) = (state.notes.out_of_step, context.now);
    if !out_of_step {
        context.state().on_lost_step();
    }
    state.notes.unclear.clear();
    let proof = if out_of_step { Proof::OutOfStep } else { Proof::Lost };
    let closed = Closed::default();
    let again: Vec<Work> = released
        .into_iter()
        .filter_map(|one| settle_released(context, Released { proof, ..one }, &closed, now))
        .collect();
    again.into_iter().rev().for_each(|work| context.group.put_back(work));
    NextStep::Leave
}

/// Records how many recipients were refused in this checkpoint because they do not exist, for each domain without an accepted
/// recipient in the checkpoint. Refusals that do not count are left out. Many such refusals show that the domain does not accept
/// everyone. A smaller number is recorded only if control recipients have shown that a domain of the group accepts everyone.
fn learn_refusals(context: &ProbeContext<'_>, released: &[Released<Work>], now: Instant) {
    let is_refused = |one: &&Released<Work>| one.held == Held::Refused && is_answer(one.proof);
    if !context.group.state().catch_alls
        && released.iter().filter(is_refused).count() < REFUSALS_IN_A_ROW_MIN as usize
    {
        return;
    }
    let mut refused: BTreeMap<u64, u32> = BTreeMap::new();
    for one in released.iter().filter(is_refused) {
        *refused.entry(context.domain_key(one.item.address.domain())).or_default() += 1;
    }
    for one in released.iter().filter(|one| one.held == Held::Accepted) {
        refused.remove(&context.domain_key(one.item.address.domain()));
    }
    let mut knowledge = context.asking.knowledge.borrow_mut();
    refused.into_iter().for_each(|(domain, count)| knowledge.on_refusals(domain, count, now));
}

/// The domain of the released answers, if they all have the same domain and show that it accepts everyone. Otherwise `None`.
fn only_catch_all(released: &[Released<Work>]) -> Option<&Domain> {
    let domain = released.first()?.item.address.domain();
    let is_such = |one: &Released<Work>| one.proof == Proof::CatchAll && one.item.address.domain() == domain;
    released.iter().all(is_such).then_some(domain)
}

/// Whether another session should confirm that the domain accepts everyone, because perhaps only one server of a pool does so. This
/// is not needed if no work waits, or if two sessions in a row have shown it.
fn is_to_confirm(context: &ProbeContext<'_>, domain: &Domain) -> bool {
    context.group.waiting() > 0
        && !context.asking.knowledge.borrow().is_catch_all(context.domain_key(domain), context.now)
}

/// What the checkpoint has shown, for the decision about each answer.
#[derive(Default)]
struct Closed {
    /// The key of a domain, if too many sessions ended at the question about its control recipient, without a clear reply. For a
    /// while, no session asks about this control recipient again.
    without_control: Option<u64>,
    /// Whether the host changed its behaviour in the session.
    changed: bool,
    /// Whether the host accepted a recipient in the session, other than a control recipient.
    has_accepted: bool,
    /// The number of refusals since the last accept, or since the beginning of the session.
    refused_in_a_row: u32,
    /// As in [`release`].
    questions_answered: bool,
    /// The replies to control recipients that prove nothing, by the key of the domain.
    unclear: BTreeMap<u64, UnclearControl>,
}

/// Records what the control recipients of the checkpoint showed. If this contradicts an earlier session, withdraws the verdicts
/// about the domain that depend on this host.
pub(super) fn learn(context: &ProbeContext<'_>, notes: &mut SessionNotes) {
    let now = context.now;
    let (mut contradicted, mut accepts_all): (Vec<Domain>, bool) = (Vec::new(), false);
    let (works, mut knowledge) = (context.works(), context.asking.knowledge.borrow_mut());
    for (domain, finding) in works.evidence.findings() {
        let again = !notes.learned.insert(domain);
        if knowledge.on_shown(domain, finding, again, now) {
            let of = works.evidence.recipient(Some(domain), None);
            contradicted.extend(of.map(|work| work.address.domain().clone()));
        }
        if finding == ControlFinding::Unknown
            && let Some(control) = notes.unclear.get(&domain)
        {
            knowledge.on_unclear(domain, *control, now);
        }
        if finding == ControlFinding::RefusesUnknown {
            knowledge.on_control_refused(&context.route().host);
        }
        accepts_all |= finding == ControlFinding::AcceptsAll;
    }
    drop((works, knowledge));
    context.group.state().catch_alls |= accepts_all;
    for domain in &contradicted {
        context.asking.withdraw(context.evidence_key(domain), now);
    }
}

/// Acts on one released answer: answers the work, lets it begin anew, puts it back for other hosts, or returns it for another
/// session.
fn settle_released(
    context: &ProbeContext<'_>,
    one: Released<Work>,
    closed: &Closed,
    now: Instant,
) -> Option<Work> {
    let Released { item: mut work, held, said, proof } = one;
    let proof = with_planted_fault(held, proof);
    let (domain_key, evidence) = context.domain_keys(work.address.domain());
    let evidence = Some(evidence);
    let doubted = proof == Proof::Assumed
        && !closed.has_accepted
        && context.doubts_refusals(domain_key, work.priority == Priority::Single, closed.refused_in_a_row);
    let proof = if doubted { Proof::Changed } else { proof };
    work.note(|| format!("checkpoint: {}", in_words_of(held, proof)));
    if held == Held::Accepted && matches!(proof, Proof::CatchAll | Proof::Changed) {
        context
            .asking
            .knowledge
            .borrow_mut()
            .on_mailbox_unproven(&context.route().host, work.address.as_str());
    }
    let control = closed.unclear.get(&domain_key);
    let is_its_own = |domain| domain == domain_key;
    let facts = ReleaseFacts {
        questions_answered: closed.questions_answered,
        changed: closed.changed,
        without_control: closed.without_control.is_some_and(is_its_own),
        was_accepted: work.was_accepted,
    };
    match on_released(held, &said, proof, facts) {
        ReleaseEffect::Finish(ControlFinding::AcceptsAll)
            if context.group.stands_in(context.index, &work, now) =>
        {
            work.note(|| "checkpoint: a host that is tried before this one may know the mailbox".to_owned());
            ask_other_hosts(context, work, &said);
        }
        ReleaseEffect::Finish(finding) => {
            let rule =
                if finding == ControlFinding::AcceptsAll { "control_accepted" } else { "control_refused" };
            if finding == ControlFinding::RefusesUnknown {
                context.on_known(work.address.as_str(), true, now);
            }
            finish(work, &said, finding, rule, evidence);
        }
        ReleaseEffect::Decide(reason, rule) => work.settle_by_reply(reason, rule, None, evidence),
        ReleaseEffect::Settle(reason) => work.settle_by_reply(reason, said.rule, None, evidence),
        ReleaseEffect::Unclear => unclear(context, work, control, now),
        ReleaseEffect::WithoutControl => settle_unproven(context, work, control),
        ReleaseEffect::Return { rule, counts_twice, remembered } => {
            let control = control.filter(|_| rule == UNANSWERED);
            let rule = control.map_or(rule, |control| on_unproven_accept(Some(&control.said)).rule);
            context.remember_control_reply(&mut work, control);
            work.returns += u8::from(counts_twice);
            work.was_accepted |= remembered && held == Held::Accepted;
            work.was_refused |= remembered && held != Held::Accepted;
            return returned(work, rule, now);
        }
        ReleaseEffect::Carry => {
            work.was_refused = true;
            work.carried = Some(Box::new(CarriedRefusal { domain_key, held, said }));
            return returned(work, UNPROVEN, now);
        }
        ReleaseEffect::OtherHosts => {
            work.set_fallback_by_reply(said.rule, Some(ROUTE_DOWN));
            ask_other_hosts(context, work, &said);
        }
    }
    None
}

/// Whether the reply itself counts as the answer.
fn is_answer(proof: Proof) -> bool {
    matches!(proof, Proof::Proven | Proof::Assumed)
}

/// Returns `proof`. If a test has planted the defect of believing answers of this kind without proof, returns [`Proof::Proven`].
fn with_planted_fault(held: Held, proof: Proof) -> Proof {
    match held {
        Held::Accepted if planted(Fault::BelieveAccept) => Proof::Proven,
        Held::Refused | Held::Denied if planted(Fault::BelieveRefusals) => Proof::Proven,
        _ => proof,
    }
}

/// The words for a proof in a trace.
fn in_words_of(held: Held, proof: Proof) -> &'static str {
    match (held, proof) {
        (Held::Accepted, Proof::Proven) => "an unknown recipient of the domain was refused after the accept",
        (_, Proof::Proven | Proof::Assumed) => {
            "no change of the server's behaviour was seen after the refusal"
        }
        (_, Proof::CatchAll) => "the control recipient was accepted too",
        (_, Proof::OutOfStep) => {
            "the server sent a surplus reply, so this one may be about another recipient"
        }
        (_, Proof::Changed) => "the server changed its behaviour, so the answer proves nothing",
        (_, Proof::Unclear) => "the questions after the answer got no clear reply",
        (_, Proof::Carried) => {
            "the session ended before the answer could be proven; the next one may prove it"
        }
        (_, Proof::Lost) => "the session ended before the answer could be proven",
    }
}

/// Acts on an accepted work if the control recipient of its domain got no clear reply. After a temporary error, the work begins
/// anew, once and only if enough time is left. By then, for example, a server that verifies recipients at another server may have
/// the result. Otherwise the work is answered.
fn unclear(context: &ProbeContext<'_>, mut work: Work, control: Option<&UnclearControl>, now: Instant) {
    let UnprovenAccept { rule, retry_after, again_soon } =
        on_unproven_accept(control.map(|control| &control.said));
    if let Some(retry_after) = retry_after.filter(|_| again_soon && !work.control_asked_again) {
        work.control_asked_again = true;
        let single = work.priority == Priority::Single;
        let again = if single { context.asking.common.single_retry() } else { TRANSIENT_WAIT };
        context.remember_control_reply(&mut work, control);
        work.set_fallback_by_reply(rule, Some(retry_after));
        work.set_again(Some(again));
        work.may_begin_anew();
        return context.asking.common.give_up(work, now);
    }
    settle_unproven(context, work, control);
}

/// Answers an accepted work as unverifiable, because nothing proves the accept. `control` is the unclear reply to its control
/// recipient, if there was one.
fn settle_unproven(context: &ProbeContext<'_>, mut work: Work, control: Option<&UnclearControl>) {
    let unproven = on_unproven_accept(control.map(|control| &control.said));
    context.remember_control_reply(&mut work, control);
    work.settle_by_reply(Reason::Unverifiable, unproven.rule, unproven.retry_after, None);
}
