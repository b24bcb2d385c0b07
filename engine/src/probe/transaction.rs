//! One transaction, whoever its recipients are: those that are asked about, or control recipients.

use super::context::ProbeContext;
use crate::egress::rest;
use crate::refusals::AskedRecipients;
use crate::runtime::Runtime;
use crate::session::Session;
use crate::site::HeldAnswers;
use engine_proto::pace::Tally;
use engine_proto::smtp::dialog::{Closure, Event};
use engine_proto::smtp::reply::Reply;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The recipients of a transaction, each named by its place in it, and what becomes of them.
pub(super) trait Recipients<R: Runtime> {
    /// Adds what was said to the wants_traces of those whom it concerns.
    fn record(&mut self, context: &ProbeContext<'_, R>, trace: &mut Vec<String>);

    /// The server answered for one.
    fn answered(&mut self, context: &ProbeContext<'_, R>, heard: &Answered<'_>) -> ReplyEffect;

    /// MAIL was refused. True when the session is to be left: it would hear the same again at once.
    fn mail_refused(&mut self, context: &ProbeContext<'_, R>, reply: &Reply) -> bool;

    /// Puts back those without an answer; true when that is nobody.
    fn put_back(&mut self, context: &ProbeContext<'_, R>) -> bool;

    /// The time of some was over, and not the server's.
    fn out_of_time(&mut self, context: &ProbeContext<'_, R>);

    /// The session ended: the host is to be blamed, and who got no answer may be asked again.
    fn cut_off(&mut self, context: &ProbeContext<'_, R>, closure: &Closure, tally: &Tally);
}

/// An answer to RCPT.
pub(super) struct Answered<'a> {
    /// Which of the recipients it is about.
    pub(super) place: usize,
    pub(super) reply: &'a Reply,
    /// Others had their answers before, in the same transaction.
    pub(super) behind_others: bool,
    /// When it was heard.
    pub(super) at: Instant,
}

impl Answered<'_> {
    /// What it shows when its recipient is not waited for any longer. A refusal may be what the host says to everyone.
    pub(super) fn too_late(&self) -> ReplyEffect {
        if self.reply.is_permanent() { ReplyEffect::Nothing } else { ReplyEffect::Answer }
    }
}

/// What an answer to RCPT was good for.
pub(super) enum ReplyEffect {
    /// It is one, whatever it says.
    Answer,
    /// It is one that the host may give to everyone.
    Refusal,
    /// Not in this transaction: it is full.
    Later,
    /// Not in this session.
    Push,
    /// Nothing, and another session would hear the same.
    Nothing,
}

/// How a session stands behind a transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NextStep {
    /// It takes another one.
    Open,
    /// It does, but what comes next had better be asked in another session: here it would hear the same again.
    Leave,
    /// It is over.
    Over,
}

/// What is known of a session so far.
#[derive(Default)]
pub(super) struct SessionState {
    pub(super) tally: Tally,
    /// The answers that are held until it is known what they are worth.
    pub(super) held: Rc<HeldAnswers>,
    /// The server takes one transaction a session: control recipients go into the one of their domain's recipients.
    pub(super) one_transaction: bool,
    /// How many known mailboxes were asked about in front of all others, once that was decided.
    pub(super) opened: Option<u32>,
    tarpit: Tarpit,
}

/// Hears the answers to a transaction of `asked` recipients that was begun.
pub(super) async fn hear<R: Runtime>(
    context: &ProbeContext<'_, R>,
    session: &mut Session<R>,
    asked: usize,
    state: &mut SessionState,
    mut recipients: impl Recipients<R>,
) -> NextStep {
    state.tally.transactions += 1;
    state.tally.asked += asked as u32;
    state.tarpit.begin(R::now());
    let (mut after, mut answers, mut refusals) = (NextStep::Open, 0, 0);
    let pace = &context.group.site.pace;
    let counted = AskedRecipients::begin(context.group.refusals.as_ref(), asked);
    let route = &context.group.routes[context.index];
    let step = |context: &ProbeContext<'_, R>| context.shard.shared.refusal_step(R::now());
    loop {
        let event = session.next().await;
        if let Some(trace) = &mut session.trace {
            recipients.record(context, trace);
            trace.clear();
        }
        match event {
            Event::Answered { index: place, reply } => {
                context.on_answer();
                state.note(&reply);
                counted.answered(&reply, context.shard.shared.refusal_step(session.answered_at));
                let at = session.answered_at;
                let behind_others = answers + refusals > 0;
                match recipients
                    .answered(context, &Answered { place: place.into(), reply: &reply, behind_others, at })
                {
                    ReplyEffect::Answer => {
                        answers += 1;
                        route.on_clear_reply();
                    }
                    ReplyEffect::Refusal => refusals += 1,
                    ReplyEffect::Later => pace.borrow_mut().full(answers + refusals),
                    ReplyEffect::Push => after = NextStep::Leave,
                    ReplyEffect::Nothing => {}
                }
                // Whatever it says of this one, it let us come as far as that.
                pace.borrow_mut().on_answer();
                let is_enough = route.is_blanket();
                if session.dialog.holds_back() && (after == NextStep::Leave || is_enough) {
                    // Those who were not asked about yet are spared what they would hear here.
                    recipients.put_back(context);
                    return NextStep::Leave;
                }
                if let Some(errors) = state.tarpit.note(at, &reply, state.tally.errors)
                    && usize::from(place) + 1 < asked
                    && !pace.borrow().ceiling().waits_out_tarpits
                {
                    pace.borrow_mut().tarpitted(errors);
                    counted.lost(session.dialog.unanswered(), step(context));
                    recipients.put_back(context);
                    return NextStep::Leave;
                }
            }
            Event::MailRefused(reply) => {
                if recipients.mail_refused(context, &reply) {
                    after = NextStep::Leave;
                }
            }
            Event::Ready => {
                if answers > 0 {
                    rest::answered(context.shard, context.group);
                }
                if answers + refusals > 0 && after == NextStep::Open {
                    pace.borrow_mut().answered(answers + refusals);
                }
                // Every recipient has its answer, or MAIL was refused and all were seen to.
                return if recipients.put_back(context) { after } else { NextStep::Leave };
            }
            Event::Over(Closure::TimedOut(_)) if session.limit <= R::now() => {
                counted.lost(session.dialog.unanswered(), step(context));
                recipients.out_of_time(context);
                return NextStep::Over;
            }
            Event::Over(closure) => {
                if !matches!(closure, Closure::Refused { .. }) {
                    counted.lost(session.dialog.unanswered(), step(context));
                }
                // That a known mailbox was accepted in front of them brought nobody further.
                let answers = state.tally.answers.saturating_sub(state.opened.unwrap_or(0));
                recipients.cut_off(context, &closure, &Tally { answers, ..state.tally });
                return NextStep::Over;
            }
            Event::StartTls => {}
        }
    }
}

impl<R: Runtime> ProbeContext<'_, R> {
    /// The server answered for a recipient.
    fn on_answer(&self) {
        self.group.routes[self.index].on_answer();
        self.shard.shared.reached(self.group.source.get());
        self.shard.answers.set(self.shard.answers.get() + 1);
    }
}

impl SessionState {
    /// Nothing is known yet.
    pub(super) fn new(one_transaction: bool) -> SessionState {
        SessionState { one_transaction, ..SessionState::default() }
    }

    fn note(&mut self, reply: &Reply) {
        self.tally.answers += 1;
        self.tally.errors += u32::from(!reply.is_positive());
    }
}

/// Notices that a server which answered quickly takes its time with each further refusal (Postfix: a second after 10,
/// `smtpd_error_sleep_time`). Then a new session is quicker than to wait.
#[derive(Default)]
struct Tarpit {
    last: Option<Instant>,
    quick: u32,
    slow: u32,
    /// Refusals before the first slow one.
    errors: u32,
}

/// A reply that comes so soon after the one before is no tarpit's.
const QUICK: Duration = Duration::from_millis(250);
/// One that comes so late may be.
const SLOW: Duration = Duration::from_millis(700);
/// So many quick ones, and then so many slow ones in a row. A server that is slow from the start is just slow.
const QUICK_MIN: u32 = 4;
const SLOW_MIN: u32 = 2;

impl Tarpit {
    fn begin(&mut self, now: Instant) {
        self.last = Some(now);
        self.slow = 0;
    }

    /// A reply has come; `errors`: refusals in the session, with this one. How many there were before the server
    /// became slow, once that is certain.
    fn note(&mut self, now: Instant, reply: &Reply, errors: u32) -> Option<u32> {
        let wait = self.last.map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        self.last = Some(now);
        if wait < QUICK {
            self.quick += 1;
            // The replies of one read come at once, behind the pause that was made before the first of them.
            return None;
        }
        if wait < SLOW || reply.is_positive() || self.quick < QUICK_MIN {
            self.slow = 0;
            return None;
        }
        if self.slow == 0 {
            self.errors = errors.saturating_sub(1);
        }
        self.slow += 1;
        (self.slow >= SLOW_MIN).then_some(self.errors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays refusals (or accepts, where negative) with these pauses before them, in milliseconds.
    fn play(pauses: &[i64]) -> Option<u32> {
        let mut now = Instant::now();
        let mut tarpit = Tarpit::default();
        tarpit.begin(now);
        let mut errors = 0;
        pauses.iter().find_map(|&pause| {
            now += Duration::from_millis(pause.unsigned_abs());
            errors += u32::from(pause >= 0);
            let reply = Reply::new(if pause < 0 { 250 } else { 550 }, "text");
            tarpit.note(now, &reply, errors)
        })
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
