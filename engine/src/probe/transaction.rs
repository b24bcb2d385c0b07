//! The events of one transaction, whatever its recipients are: works, control recipients, or those of other questions of a
//! checkpoint.

use super::context::{Place, ProbeContext};
use crate::egress::rest;
use crate::faults::{Fault, planted, sometimes};
use crate::invariants::{Invariant, holds};
use crate::refusals::AskedRecipients;
use crate::runtime::Runtime;
use crate::session::Session;
use crate::site::SessionNotes;
use engine_proto::decision::recipient::ReplyEffect;
use engine_proto::limits::{TARPIT_QUICK, TARPIT_QUICK_REPLIES_MIN, TARPIT_SLOW, TARPIT_SLOW_REPLIES_MIN};
use engine_proto::pace::Tally;
use engine_proto::smtp::dialog::{Closure, Event};
use engine_proto::smtp::reply::Reply;
use std::time::{Duration, Instant};

/// The recipients of a transaction, each named by its place in it, and the effect of each event on them.
pub(super) trait Recipients {
    /// Adds the lines of the session to the traces of the recipients that they concern.
    fn record(&mut self, context: &ProbeContext<'_>, trace: &mut Vec<String>);

    /// The server replied to one of the recipients.
    fn on_reply(
        &mut self,
        context: &ProbeContext<'_>,
        notes: &mut SessionNotes,
        heard: &Answered<'_>,
    ) -> ReplyEffect;

    /// MAIL was refused. True if the session is to end, because the next MAIL would get the same reply.
    fn on_mail_refused(
        &mut self,
        context: &ProbeContext<'_>,
        notes: &mut SessionNotes,
        reply: &Reply,
    ) -> bool;

    /// Puts back the recipients without an answer. True if the session may go on, because there were none or because they can be
    /// asked about again in this session.
    fn put_back(&mut self, context: &ProbeContext<'_>) -> bool;

    /// The time of the transaction is over. This is not held against the server.
    fn on_timeout(&mut self, context: &ProbeContext<'_>);

    /// The session ended before the transaction did. Depending on how, this may count against the host, and recipients without an
    /// answer may be asked about again.
    fn on_cut_off(
        &mut self,
        context: &ProbeContext<'_>,
        notes: &mut SessionNotes,
        closure: &Closure,
        tally: &Tally,
    );
}

/// An answer to RCPT.
pub(super) struct Answered<'a> {
    /// Which of the recipients it is about.
    pub(super) place: usize,
    pub(super) reply: &'a Reply,
    /// Other recipients of the same transaction were answered before this one.
    pub(super) behind_others: bool,
    /// When it arrived.
    pub(super) at: Instant,
}

impl Answered<'_> {
    /// The effect of a reply that came after the deadline of its work. A permanent refusal has none, because the host may give it
    /// to everyone.
    pub(super) fn too_late(&self) -> ReplyEffect {
        if self.reply.is_permanent() { ReplyEffect::Nothing } else { ReplyEffect::Answer }
    }
}

/// The state of a session after a transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NextStep {
    /// The session may have another transaction.
    Open,
    /// The session is open, but the next works should be asked about in another one.
    Leave,
    /// The session has ended.
    Over,
}

/// The state of a session from its first transaction on.
#[derive(Default)]
pub(super) struct SessionState {
    pub(super) tally: Tally,
    pub(super) notes: SessionNotes,
    /// The server takes one transaction per session, so control recipients go into the same transaction as the recipients of their
    /// domain.
    pub(super) one_transaction: bool,
    /// How many known mailboxes were asked about before all others; `None` until that is decided.
    pub(super) known_asked_first: Option<u32>,
    tarpit: Tarpit,
}

/// Handles the events of a transaction that has begun, up to its end or that of the session. `counted` is the reservation for its
/// recipients in the budget of refusals.
pub(super) async fn hear<R: Runtime>(
    place: Place<'_>,
    session: &mut Session<R>,
    mut counted: AskedRecipients,
    state: &mut SessionState,
    mut recipients: impl Recipients,
) -> NextStep {
    state.tally.transactions += 1;
    if !sometimes(Fault::Break(Invariant::TallyAnswers)) {
        state.tally.asked += counted.count() as u32;
    }
    state.tarpit.on_begin(R::now());
    let (mut after, mut answers, mut refusals) = (NextStep::Open, 0, 0);
    let (site, host) = (&place.group.site, &place.route().host);
    let waits_out_tarpits = site.state().pace.ceiling().waits_out_tarpits;
    let end = loop {
        let event = session.next().await;
        let context = &place.at(R::now());
        if let Some(trace) = &mut session.trace {
            recipients.record(context, trace);
            trace.clear();
        }
        match event {
            Event::Answered { index: recipient, reply } => {
                context.on_answer();
                state.on_reply(&reply);
                counted.on_answer(&reply, context.asking.shared().refusal_step(session.answered_at));
                let at = session.answered_at;
                let behind_others = answers + refusals > 0;
                match recipients.on_reply(
                    context,
                    &mut state.notes,
                    &Answered { place: recipient.into(), reply: &reply, behind_others, at },
                ) {
                    ReplyEffect::Answer => {
                        answers += 1;
                        place.state().on_clear_reply();
                    }
                    ReplyEffect::Refusal => refusals += 1,
                    ReplyEffect::Later => site.state().pace.on_transaction_full(answers + refusals),
                    ReplyEffect::Push => after = NextStep::Leave,
                    ReplyEffect::Nothing => {}
                }
                // Whatever the reply says, the site replied to a RCPT, so it is not only pushing back.
                site.state().pace.on_answer();
                let is_enough = place.state().is_blanket(host);
                if session.dialog.holds_back() && (after == NextStep::Leave || is_enough) {
                    // The remaining recipients would get the same reply here, so they are not asked about.
                    recipients.put_back(context);
                    break NextStep::Leave;
                }
                if let Some(errors) = state.tarpit.on_reply(at, &reply, state.tally.errors)
                    && !waits_out_tarpits
                {
                    site.state().pace.on_tarpitted(errors);
                    counted.on_lost(session.dialog.unanswered(), context.refusal_step());
                    recipients.put_back(context);
                    break NextStep::Leave;
                }
            }
            Event::MailRefused(reply) => {
                if recipients.on_mail_refused(context, &mut state.notes, &reply) {
                    after = NextStep::Leave;
                }
            }
            Event::Ready => {
                if answers > 0 {
                    rest::on_answer(context.asking, context.group, context.now);
                }
                if answers + refusals > 0 && after == NextStep::Open {
                    site.state().pace.on_transaction(answers + refusals);
                }
                // Every recipient has its answer, or MAIL was refused and `on_mail_refused` has dealt with all of them.
                break if recipients.put_back(context) { after } else { NextStep::Leave };
            }
            Event::Over(Closure::TimedOut(_)) if session.limit <= context.now => {
                counted.on_lost(session.dialog.unanswered(), context.refusal_step());
                recipients.on_timeout(context);
                break NextStep::Over;
            }
            Event::Over(closure) => {
                // A server that ends a session with a reply has not looked at the recipients that it left unanswered. If it just
                // hangs up, it may have refused them.
                if !matches!(closure, Closure::Refused { .. }) {
                    counted.on_lost(session.dialog.unanswered(), context.refusal_step());
                }
                // The known mailbox that was asked about first is not a work, so its answer does not count here.
                let answers = state.tally.answers.saturating_sub(state.known_asked_first.unwrap_or(0));
                let tally = Tally { answers, ..state.tally };
                recipients.on_cut_off(context, &mut state.notes, &closure, &tally);
                break NextStep::Over;
            }
            Event::StartTls => {}
        }
    };
    counted.end();
    end
}

impl ProbeContext<'_> {
    /// The server replied to a RCPT.
    fn on_answer(&self) {
        self.state().on_answer();
        self.asking.shared().on_reached(self.group.source);
        self.asking.state().answers += 1;
    }
}

impl SessionState {
    /// The state of a session that has not asked about anything yet.
    pub(super) fn new(one_transaction: bool) -> SessionState {
        SessionState { one_transaction, ..SessionState::default() }
    }

    fn on_reply(&mut self, reply: &Reply) {
        self.tally.answers += 1;
        let is_error = !reply.is_positive() || planted(Fault::Break(Invariant::TallyErrors));
        self.tally.errors += u32::from(is_error) << u32::from(planted(Fault::Break(Invariant::TallyErrors)));
        holds(Invariant::TallyAnswers, || self.tally.answers <= self.tally.asked);
        holds(Invariant::TallyErrors, || self.tally.errors <= self.tally.answers);
    }
}

/// Notices when a server that answered quickly slows down after a number of refusals. Postfix, for example, delays every reply,
/// even an accept, by a second (`smtpd_error_sleep_time`) after 10 refusals (`smtpd_soft_error_limit`). Then a new session is
/// quicker than waiting.
#[derive(Default)]
struct Tarpit {
    last: Option<Instant>,
    quick: u32,
    /// The number of transactions with a quick first reply. This reply also waits for the reply to MAIL, which is slow at some
    /// servers from the start.
    quick_firsts: u32,
    /// Whether the next reply is the first one of a transaction.
    is_first: bool,
    /// Slow replies in a row, counted across transactions. Only a refusal starts the run, because accepts may be slow for another
    /// reason: some servers ask a second server about each recipient.
    slow: u32,
    /// Number of refusals before the first slow one.
    errors: u32,
}

impl Tarpit {
    fn on_begin(&mut self, now: Instant) {
        self.last = Some(now);
        self.is_first = true;
    }

    /// A reply has come; `errors` is the number of refusals in the session, including this one. Returns how many there were before
    /// the server became slow, once that is certain.
    fn on_reply(&mut self, now: Instant, reply: &Reply, errors: u32) -> Option<u32> {
        let wait = self.last.map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        self.last = Some(now);
        let is_first = std::mem::take(&mut self.is_first);
        if wait < TARPIT_QUICK {
            self.quick += 1;
            if is_first {
                self.quick_firsts += 1;
                self.slow = 0;
            }
            // Replies that arrive in one read share the pause before the first of them, so a quick one does not end a run of slow
            // ones.
            return None;
        }
        let quick = if is_first { self.quick_firsts } else { self.quick };
        let begins = self.slow == 0;
        if wait < TARPIT_SLOW || quick < TARPIT_QUICK_REPLIES_MIN || (begins && reply.is_positive()) {
            self.slow = 0;
            return None;
        }
        if self.slow == 0 {
            self.errors = errors.saturating_sub(1);
        }
        self.slow += 1;
        (self.slow >= TARPIT_SLOW_REPLIES_MIN).then_some(self.errors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays refusals (or accepts, where negative) with these pauses before them, in milliseconds.
    fn play(pauses: &[i64]) -> Option<u32> {
        play_all(&[pauses])
    }

    /// As `play`, over several transactions.
    fn play_all(transactions: &[&[i64]]) -> Option<u32> {
        let mut now = Instant::now();
        let mut tarpit = Tarpit::default();
        let mut errors = 0;
        transactions.iter().find_map(|pauses| {
            tarpit.on_begin(now);
            pauses.iter().find_map(|&pause| {
                now += Duration::from_millis(pause.unsigned_abs());
                errors += u32::from(pause >= 0);
                let reply = Reply::new(if pause < 0 { 250 } else { 550 }, "text");
                tarpit.on_reply(now, &reply, errors)
            })
        })
    }

    #[test]
    fn a_tarpit_that_holds_back_every_reply_shows_also_in_transactions_of_one_recipient() {
        let quick: [&[i64]; 6] = [&[-1], &[1], &[-1], &[1], &[-1], &[1]];
        let behind = |slow: &[&'static [i64]]| play_all(&[&quick, slow].concat());
        assert_eq!(behind(&[&[1000], &[-2000]]), Some(3), "a refusal, and an accept in the next transaction");
        assert_eq!(behind(&[&[1000, -1000]]), Some(3));
        assert_eq!(behind(&[&[-2000], &[-2000], &[-2000]]), None, "accepts alone may take their time");
        assert_eq!(behind(&[&[1000], &[-1], &[1000]]), None, "once is chance");
        assert_eq!(behind(&[&[1000], &[-300], &[1000]]), None);
        let slow_mail: [&[i64]; 8] = [&[-1000, -1, -1, 1]; 8];
        assert_eq!(play_all(&slow_mail), None, "MAIL takes its time from the start");
        let slow_mail: [&[i64]; 8] = [&[1000, 1, 1, 1]; 8];
        assert_eq!(play_all(&slow_mail), None);
    }

    #[test]
    fn a_tarpit_is_told_from_a_slow_server() {
        assert_eq!(play(&[1, 1, 1, 1, 1, 1000, 1000]), Some(5));
        assert_eq!(play(&[1, 1, 1, 1, 1, 1000, 1, 1000]), Some(5), "several replies may come at once");
        assert_eq!(play(&[1000; 20]), None, "slow from the start");
        assert_eq!(play(&[1, 1, 1, 1, 1, 1000, 300, 1000]), None, "once is chance");
        assert_eq!(play(&[1, 1, 1, 1, 1, -1000, -1000, -1000]), None, "accepts may take their time");
    }
}
