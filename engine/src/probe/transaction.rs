//! Handles the events of one transaction (the commands from MAIL to RSET). Its recipients may be those of works, those of the
//! questions that prove answers, both of these, or the control recipients of greylisted domains. Each kind implements
//! [`Recipients`].

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

/// The recipients of a transaction, and how each event affects them. A recipient is named by its place in the order of the RCPT
/// commands.
pub(super) trait Recipients {
    /// Adds new lines of the session to the traces of all works that these recipients concern.
    fn record(&mut self, context: &ProbeContext<'_>, trace: &mut Vec<String>);

    /// The server has replied to RCPT for one of the recipients. Returns what the reply means for the transaction.
    fn on_reply(
        &mut self,
        context: &ProbeContext<'_>,
        notes: &mut SessionNotes,
        received: &RcptReply<'_>,
    ) -> ReplyEffect;

    /// The server has refused MAIL. True if the session should end.
    fn on_mail_refused(
        &mut self,
        context: &ProbeContext<'_>,
        notes: &mut SessionNotes,
        reply: &Reply,
    ) -> bool;

    /// Puts back the recipients without a reply. True if the session may go on: there were none, or they need no other session.
    fn put_back(&mut self, context: &ProbeContext<'_>) -> bool;

    /// The transaction has taken too long, and we end the session. This does not count against the host.
    fn on_timeout(&mut self, _context: &ProbeContext<'_>) {}

    /// The session ended during the transaction, as `closure` says. This may count against the host. Works without a reply are put
    /// back or answered.
    fn on_cut_off(
        &mut self,
        context: &ProbeContext<'_>,
        notes: &mut SessionNotes,
        closure: &Closure,
        tally: &Tally,
    );
}

/// The reply to one RCPT.
pub(super) struct RcptReply<'a> {
    /// The place of the recipient.
    pub(super) place: usize,
    pub(super) reply: &'a Reply,
    /// Whether an earlier reply of the transaction was an answer or a refusal: see [`ReplyEffect`].
    pub(super) behind_others: bool,
    /// Whether this is the first reply of its transaction, and an earlier one has got answers. If the recipient is refused as one too
    /// many, the limit is one of the session.
    pub(super) behind_taken: bool,
    /// When the reply arrived.
    pub(super) at: Instant,
    /// Whether the host is known to be in step here: see [`Event::Answered`].
    pub(super) in_step: bool,
}

impl RcptReply<'_> {
    /// The effect of a reply about a work that the sweep has already answered. A permanent refusal has none, because it may be one
    /// that the host gives to everyone. Other replies count as clear ones.
    pub(super) fn too_late(&self) -> ReplyEffect {
        if self.reply.is_permanent() { ReplyEffect::Nothing } else { ReplyEffect::Answer }
    }
}

/// How a session goes on after a transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NextStep {
    /// The session may have another transaction.
    Open,
    /// The session is open, but another session should ask about the next works.
    Leave,
    /// The session has ended.
    Over,
}

/// The state of a session between its transactions.
#[derive(Default)]
pub(super) struct SessionState {
    pub(super) tally: Tally,
    pub(super) notes: SessionNotes,
    /// The highest number of transactions that the session may have: the lower of the limit that the server declares (MAILMAX of
    /// RFC 9422) and the limit that the site had shown when the session began.
    transactions_max: u32,
    /// How many known mailboxes the session asked about before its works: 0 or 1. `None` until this is decided.
    pub(super) known_asked_first: Option<u32>,
    /// The number of recipients for which the server answered. 452 for a further one is no answer.
    taken: u32,
    pub(super) tarpit: Tarpit,
}

/// Handles the events of a transaction that the caller has begun, until the transaction or the session ends, or until the session
/// should be left. `counted` reserves room for the recipients in the budget of refused recipients.
pub(super) async fn run<R: Runtime>(
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
    let (mut after, mut answers, mut refusals, mut is_left_out) = (NextStep::Open, 0, 0, false);
    // Whether a reply of this transaction has shown the tarpit. The questions of a later proof wait for their replies.
    let mut is_tarpit_new = false;
    // Replies that have arrived together are counted in the same step.
    let mut step = (session.answered_at, place.asking.shared().refusal_step(session.answered_at));
    let (site, host) = (&place.group.site, &place.route().host);
    site.state().pace.on_asked(R::now());
    let waits_out_tarpits = site.state().pace.ceiling().waits_out_tarpits;
    let end = loop {
        // Slow replies that came together, for example all replies to a group, are used. Further ones are not waited for.
        if is_tarpit_new && !session.has_event() && session.is_quiet().await {
            counted.on_lost(session.dialog.unanswered(), place.at(R::now()).refusal_step());
            recipients.put_back(&place.at(R::now()));
            break NextStep::Leave;
        }
        let event = session.next().await;
        let context = &place.at(R::now());
        if let Some(trace) = &mut session.trace {
            recipients.record(context, trace);
            trace.clear();
        }
        match event {
            Event::Answered { index: recipient, reply, in_step } => {
                state.notes.in_doubt |= !in_step;
                context.on_answer();
                state.on_reply(&reply);
                let at = session.answered_at;
                if step.0 != at {
                    step = (at, context.asking.shared().refusal_step(at));
                }
                counted.on_answer(&reply, step.1);
                let behind_others = answers + refusals > 0;
                let behind_taken = !behind_others && state.taken > 0;
                match recipients.on_reply(
                    context,
                    &mut state.notes,
                    &RcptReply {
                        place: recipient.into(),
                        reply: &reply,
                        behind_others,
                        behind_taken,
                        at,
                        in_step,
                    },
                ) {
                    ReplyEffect::Answer => {
                        (answers, state.taken) = (answers + 1, state.taken + 1);
                        place.state().on_clear_reply();
                    }
                    ReplyEffect::Refusal => (refusals, state.taken) = (refusals + 1, state.taken + 1),
                    ReplyEffect::Later => {
                        site.state().pace.on_transaction_full(answers + refusals);
                        // The next recipients would get the same reply, and the host may count it as an error.
                        let left_out = session.dialog.leave_out_rest(context.now);
                        state.tally.asked -= left_out as u32;
                        is_left_out |= left_out > 0;
                    }
                    ReplyEffect::SessionFull => {
                        site.state().pace.on_session_full(state.taken);
                        after = NextStep::Leave;
                    }
                    ReplyEffect::Push => after = NextStep::Leave,
                    ReplyEffect::Nothing => {}
                }
                // Any reply about a recipient, even a refusal, shows that the site does more than push back.
                site.state().pace.on_answer();
                let is_enough = place.state().is_blanket(host) || state.notes.out_of_step;
                let is_rest_left_out = session.dialog.holds_back() && (after == NextStep::Leave || is_enough);
                if is_rest_left_out || state.notes.out_of_step {
                    // Some RCPT commands are not sent yet. They would get the same reply, so they are left out.
                    if !is_rest_left_out {
                        counted.on_lost(session.dialog.unanswered(), context.refusal_step());
                    }
                    recipients.put_back(context);
                    break NextStep::Leave;
                }
                if let Some(errors) = state.tarpit.on_reply(at, &reply, state.tally.errors)
                    && !waits_out_tarpits
                    && !state.tarpit.is_known
                {
                    site.state().pace.on_tarpitted(errors);
                    (state.tarpit.is_known, is_tarpit_new) = (true, true);
                }
            }
            Event::InStep(shown) => {
                state.notes.in_doubt = false;
                if let Some(shown) = shown {
                    place.state().on_in_step(shown);
                }
            }
            // A surplus reply has come behind the last one, and the next event tells it.
            Event::Ready if session.dialog.is_out_of_step() => {}
            // The server takes no further transaction in this session.
            Event::MailRefused(_) if state.tally.transactions > 1 && state.tally.answers > 0 => {
                site.state().pace.on_broke_between(&state.tally);
                recipients.put_back(context);
                after = NextStep::Leave;
            }
            Event::MailRefused(reply) => {
                if recipients.on_mail_refused(context, &mut state.notes, &reply) {
                    after = NextStep::Leave;
                }
            }
            Event::Ready => {
                let more = answers + refusals > 0;
                if let Some(room) = more.then(|| place.state().on_room(&state.tally, state.taken)).flatten() {
                    place.asking.knowledge.borrow_mut().on_room(host, room);
                }
                if answers + refusals > 0 && session.dialog.sends_groups() {
                    place.state().habits_mut().on_group_answered();
                }
                if answers > 0 {
                    rest::on_answer(context.asking, context.group, context.now);
                }
                if answers + refusals > 0 && after == NextStep::Open {
                    site.state().pace.on_transaction(answers + refusals);
                    place.asking.state().networks.on_transaction(place.route().address);
                }
                // Normally no work is left: each has got its reply, or `on_mail_refused` has taken them all.
                break if recipients.put_back(context) || is_left_out { after } else { NextStep::Leave };
            }
            Event::Over(Closure::TimedOut(_)) if session.limit <= context.now => {
                counted.on_lost(session.dialog.unanswered(), context.refusal_step());
                recipients.on_timeout(context);
                break NextStep::Over;
            }
            Event::Over(_) if learns_habit(place, session) => {
                counted.on_lost(session.dialog.unanswered(), context.refusal_step());
                recipients.put_back(context);
                break NextStep::Over;
            }
            // The dialog has ended the session with QUIT in place of EHLO.
            Event::Over(Closure::Quit) => {
                let is_new = session.dialog.refuses_second_ehlo();
                if is_new && !std::mem::replace(&mut place.state().habits_mut().ends_at_ehlo, true) {
                    site.state().pace.on_broke_between(&state.tally);
                }
                recipients.put_back(context);
                break NextStep::Over;
            }
            Event::Over(closure) => {
                state.notes.out_of_step |= session.dialog.is_out_of_step();
                // If a server ends the session with a reply, it has not looked at the other recipients. If it just hangs up, it may
                // have counted them as refused.
                if !matches!(closure, Closure::Refused { .. }) {
                    counted.on_lost(session.dialog.unanswered(), context.refusal_step());
                }
                // The reply about the known mailbox that the session asked about first does not count here. If no other reply came,
                // the session counts as one without answers.
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

/// Whether the session ended because the host does not answer a command as it should, and further sessions do without it. Such an
/// end says nothing else about the host.
fn learns_habit<R: Runtime>(place: Place<'_>, session: &Session<R>) -> bool {
    let habits = &mut *place.state();
    let habits = habits.habits_mut();
    let before = *habits;
    habits.hangs_at_rset |= session.dialog.has_hung_at_rset();
    habits.one_at_a_time |= session.dialog.is_group_unanswered() && !habits.answers_groups;
    *habits != before
}

impl ProbeContext<'_> {
    fn on_answer(&self) {
        self.state().on_answer();
        self.asking.shared().on_reached(self.group.source);
        self.asking.state().answers += 1;
    }
}

impl SessionState {
    pub(super) fn new(transactions_max: u32) -> SessionState {
        SessionState { transactions_max, ..SessionState::default() }
    }

    /// Whether the server takes only one transaction in a session. Then this transaction also asks about the control recipients
    /// (recipients that do not exist) of its domains.
    pub(super) fn takes_one_transaction(&self) -> bool {
        self.transactions_max == 1
    }

    /// How many more transactions the session may have.
    pub(super) fn transactions_left(&self) -> u32 {
        self.transactions_max.saturating_sub(self.tally.transactions)
    }

    fn on_reply(&mut self, reply: &Reply) {
        self.tally.answers += 1;
        let is_error = !reply.is_positive() || planted(Fault::Break(Invariant::TallyErrors));
        self.tally.errors += u32::from(is_error) << u32::from(planted(Fault::Break(Invariant::TallyErrors)));
        holds(Invariant::TallyAnswers, || self.tally.answers <= self.tally.asked);
        holds(Invariant::TallyErrors, || self.tally.errors <= self.tally.answers);
    }
}

/// Notices that a server that replied quickly becomes slow after a number of refusals. For example, after 10 refusals
/// (`smtpd_soft_error_limit`), Postfix delays every reply by a second (`smtpd_error_sleep_time`), even an accept. A new session is
/// then quicker.
#[derive(Default)]
pub(super) struct Tarpit {
    /// When the last reply arrived, or when the transaction began if that was later.
    last: Option<Instant>,
    /// Number of quick replies in the session.
    quick: u32,
    /// Number of transactions with a quick first reply. They are counted separately, because the first reply also waits for the
    /// reply to MAIL, which is always slow at some servers.
    quick_firsts: u32,
    /// Whether the next reply is the first one of a transaction.
    is_first: bool,
    /// Number of slow replies in a row, over all transactions. The first of them must be a refusal, because accepts may be slow for
    /// another reason: some servers ask a second server about each recipient.
    slow: u32,
    /// Number of refusals before the first of these slow replies.
    errors: u32,
    /// Whether the server has become slow. The session then asks about no further works.
    pub(super) is_known: bool,
}

impl Tarpit {
    fn on_begin(&mut self, now: Instant) {
        self.last = Some(now);
        self.is_first = true;
    }

    /// A reply has arrived. `errors` is the number of refusals in the session, including this reply if it is one. Once it is
    /// certain that the server has become slow, returns how many refusals there were before.
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
            // A slow reply may arrive in one read with the next ones, which then look quick. So a quick reply does not end a run of
            // slow replies, unless it is the first one of its transaction.
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

    /// Plays one transaction. Each number stands for a reply after a pause of that many milliseconds: a refusal, or an accept if
    /// the number is negative.
    fn play(pauses: &[i64]) -> Option<u32> {
        play_all(&[pauses])
    }

    /// Plays several transactions of one session.
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
