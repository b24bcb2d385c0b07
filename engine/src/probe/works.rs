//! The transaction that asks about works (addresses on their way through the engine): which works it asks about, and what happens
//! to those without a reply. `transaction.rs` handles the events.

use super::context::{Place, ProbeContext};
use super::endings::{cut_off, out_of_time, put_back_rest};
use super::proving::Questions;
use super::replies::{answered, mail_refused};
use super::transaction::{self, NextStep, RcptReply, Recipients, SessionState};
use crate::faults::{Fault, planted};
use crate::invariants::{Invariant, holds};
use crate::refusals::SiteRefusals;
use crate::runtime::Runtime;
use crate::session::Session;
use crate::site::SessionNotes;
use crate::work::Work;
use crate::{Outage, Priority};
use engine_proto::decision::recipient::ReplyEffect;
use engine_proto::limits::{REFUSALS_KEPT_FOR_PROOF, SHARED_TRANSACTION_TIMEOUT};
use engine_proto::pace::Tally;
use engine_proto::smtp::dialog::Closure;
use engine_proto::smtp::reply::Reply;
use engine_proto::verdict::Reason;

/// Returns those of the works that the session has to ask about. The others are answered, put back, or held with a reply that an
/// earlier session got.
pub(super) fn to_ask(context: &ProbeContext<'_>, works: Vec<Work>, smtputf8: bool) -> Vec<Work> {
    let works = refuse_utf8(&context.route().host, carry(context, works), smtputf8);
    pass_over(context, answer_if_known_catch_all(context, works))
}

/// Holds the works that this host refused in an earlier session without a proof, so that this session can prove the refusals.
/// Returns the other works.
fn carry(context: &ProbeContext<'_>, works: Vec<Work>) -> Vec<Work> {
    let mut others = Vec::with_capacity(works.len());
    for mut work in works {
        let Some(carried) = work.carried.take() else {
            others.push(work);
            continue;
        };
        let domain_key = context.domain_key(work.address.domain());
        if carried.domain_key != domain_key && !planted(Fault::Break(Invariant::CarriedHere)) {
            // Another host refused the work, which shows nothing about this host.
            others.push(work);
            continue;
        }
        holds(Invariant::CarriedHere, || carried.domain_key == domain_key);
        let urgent = work.priority == Priority::Single;
        context.works().evidence.carry(work, carried.held, carried.said, domain_key, urgent);
    }
    others
}

/// If the server does not offer SMTPUTF8, answers the works with a local part that is not ASCII, because it cannot be asked about
/// them (RFC 6531 3.4). Returns the other works.
fn refuse_utf8(host: &str, works: Vec<Work>, smtputf8: bool) -> Vec<Work> {
    let (can, cannot): (Vec<_>, Vec<_>) =
        works.into_iter().partition(|work| smtputf8 || !work.address.needs_smtputf8());
    for work in cannot {
        work.settle_at(host, Reason::Unverifiable, "no_smtputf8", None);
    }
    can
}

/// Puts back, for other routes, the works of domains that this host has recently refused as a whole. Returns the other works.
fn pass_over(context: &ProbeContext<'_>, works: Vec<Work>) -> Vec<Work> {
    let now = context.now;
    let is_shut = |work: &Work| context.state().shut_by(work.address.domain(), now).is_some();
    let misses = planted(Fault::Break(Invariant::DomainShut));
    let (shut, open): (Vec<_>, Vec<_>) = works.into_iter().partition(|work| is_shut(work) && !misses);
    for mut work in shut {
        context.group.pass_over_shut(&mut work, now);
        context.group.put_back(work);
    }
    open
}

/// Answers the rows of batches and lists if this host is known to accept every recipient of their domains. Returns the other works.
fn answer_if_known_catch_all(context: &ProbeContext<'_>, works: Vec<Work>) -> Vec<Work> {
    if !context.group.state().catch_alls {
        return works;
    }
    let (host, now) = (&context.route().host, context.now);
    let unanswered = |work: Work| match context.group.stands_in(context.index, &work, now) {
        true => Some(work),
        false => context.asking.answer_if_known_catch_all_at(host, work, now),
    };
    works.into_iter().filter_map(unanswered).collect()
}

/// Asks about the works in one transaction. If the budget of refused recipients has no room for some of them, these are put back.
pub(super) async fn ask<R: Runtime>(
    place: Place<'_>,
    session: &mut Session<R>,
    mut works: Vec<Work>,
    state: &mut SessionState,
) -> NextStep {
    let now = R::now();
    let context = &place.at(now);
    let is_shut = |work: &Work| context.state().shut_by(work.address.domain(), now).is_some();
    holds(Invariant::DomainShut, || !works.iter().any(is_shut));
    let mut controls = Questions::beside(context, state, &works);
    let asked = |works: &Vec<Work>, controls: &Questions| works.len() + controls.recipients().count();
    let wanted = asked(&works, &controls);
    let mut counted = context.reserve(wanted, REFUSALS_KEPT_FOR_PROOF);
    let excess = wanted - counted.count();
    if excess > 0 {
        // The caller has not counted the control recipients, or another process has used some of the budget meanwhile.
        let over = works.split_off(works.len().saturating_sub(excess));
        if works.is_empty() && state.takes_one_transaction() {
            // There is room for a recipient, but not for its control recipient too, which no later transaction could ask about.
            counted.end();
            let wait = |budget: &mut SiteRefusals| budget.wait(context.asking.shared().since_epoch(now));
            let after = context.asking.state().budget(context.group).map(wait).unwrap_or_default();
            over.into_iter().for_each(|work| work.fail(Outage::OverBudget { after, refused_us: None }));
            return NextStep::Leave;
        }
        over.into_iter().rev().for_each(|work| context.group.put_back(work));
        if works.is_empty() {
            counted.end();
            return NextStep::Open;
        }
        controls = Questions::beside(context, state, &works);
        counted.keep(asked(&works, &controls));
    }
    session.limit = works.iter().map(|work| work.deadline).max().unwrap_or(now).max(now);
    if works.len() > 1 && works.iter().any(|work| work.priority == Priority::Single) {
        // If the server hangs at one recipient, the users of the single checks after it should not wait for long.
        session.limit = session.limit.min(now + SHARED_TRANSACTION_TIMEOUT);
    }
    let smtputf8 = works.iter().any(|work| work.address.needs_smtputf8());
    let recipients = works.iter().map(|work| work.address.as_str());
    let proven = place.state().in_step();
    session.dialog.transact(now, recipients.chain(controls.recipients()), smtputf8, proven);
    let (count, sent) = (works.len(), session.dialog.unanswered().max(1));
    context.group.on_asked(context.session, works);
    context.works().in_flight.on_sent(sent);
    transaction::run(place, session, counted, state, AskedWorks { count, controls }).await
}

/// The recipients of this transaction. The works themselves are in the state of the site (`in_flight.rs`), where the sweep of the
/// shard can answer them at their deadline.
struct AskedWorks {
    /// Number of works. They have the first places of the transaction.
    count: usize,
    /// The control recipients after them, if the session takes only one transaction. Otherwise none.
    controls: Questions,
}

impl Recipients for AskedWorks {
    fn record(&mut self, context: &ProbeContext<'_>, lines: &mut Vec<String>) {
        context.works().in_flight.each(|work| {
            if let Some(trace) = &mut work.trace {
                trace.extend(lines.iter().cloned());
            }
        });
    }

    fn on_reply(
        &mut self,
        context: &ProbeContext<'_>,
        notes: &mut SessionNotes,
        received: &RcptReply<'_>,
    ) -> ReplyEffect {
        if let Some(place) = received.place.checked_sub(self.count) {
            return self.controls.on_reply(context, notes, &RcptReply { place, ..*received });
        }
        // Without PIPELINING, this reply lets the dialog send the next RCPT.
        context.works().in_flight.on_sent(received.place + 2);
        // The sweep may have answered the work already.
        let Some(work) = context.works().in_flight.take(received.place) else { return received.too_late() };
        answered(context, work, notes, received)
    }

    fn on_mail_refused(
        &mut self,
        context: &ProbeContext<'_>,
        _notes: &mut SessionNotes,
        reply: &Reply,
    ) -> bool {
        let utf8 = context.works().in_flight.any(|work| work.address.needs_smtputf8());
        let works = context.works().in_flight.take_all();
        mail_refused(context, works, utf8, reply)
    }

    fn put_back(&mut self, context: &ProbeContext<'_>) -> bool {
        put_back_rest(context)
    }

    fn on_timeout(&mut self, context: &ProbeContext<'_>) {
        out_of_time(context);
    }

    fn on_cut_off(
        &mut self,
        context: &ProbeContext<'_>,
        _notes: &mut SessionNotes,
        closure: &Closure,
        tally: &Tally,
    ) {
        cut_off(context, closure, tally);
    }
}
