//! The questions of a checkpoint, and the transactions that ask them. A session holds its answers about works until a checkpoint.
//! There it asks about a control recipient (which does not exist), a known mailbox (which the host accepted before) or other
//! recipients, to prove that the host distinguishes its mailboxes. `control_replies.rs` interprets the reply to each question, and
//! `checkpoint.rs` decides about the held answers.

use super::checkpoint::{learn, release};
use super::context::{Place, ProbeContext};
use super::control_replies::{AskedQuestion, control_answered};
use super::endings::blame;
use super::replies::mail_refused;
use super::transaction::{NextStep, RcptReply, Recipients, SessionState, run};
use crate::faults::{Fault, planted};
use crate::invariants::{Invariant, holds};
use crate::runtime::Runtime;
use crate::session::Session;
use crate::site::{SessionNotes, UnclearControl};
use crate::work::Work;
use engine_proto::decision::ending::ends_at_recipient;
use engine_proto::decision::recipient::ReplyEffect;
use engine_proto::limits::{
    CHECKPOINT_ROUNDS_MAX, IN_STEP_AHEAD, REFUSALS_CARRIED_MAX, TRANSACTION_RECIPIENTS_MAX,
};
use engine_proto::pace::Tally;
use engine_proto::smtp::dialog::Closure;
use engine_proto::smtp::reply::Reply;
use engine_proto::verdict::catch_all::ControlFinding;
use engine_proto::verdict::classify::{Classification, classify};
use engine_proto::verdict::evidence::{Held, ProofQuestion, QuestionResult};
use engine_proto::verdict::{ObservedReply, Stage};
use std::rc::Rc;

/// Asks the questions of a checkpoint, round after round, and releases the held answers. The questions of a round depend on the
/// replies in the round before.
pub(super) async fn prove<R: Runtime>(
    place: Place<'_>,
    session: &mut Session<R>,
    state: &mut SessionState,
) -> NextStep {
    if listen(place, session, state).await {
        release(&place.at(R::now()), state, false);
        return NextStep::Leave;
    }
    for _ in 0..CHECKPOINT_ROUNDS_MAX {
        let context = &place.at(R::now());
        let known = context.proof_context(state);
        let questions = context.works().evidence.questions(known);
        if questions.is_empty() {
            let ended = show_no_part(place, session, state).await;
            let after = release(&place.at(R::now()), state, true);
            return ended.filter(|ended| *ended != NextStep::Open).unwrap_or(after);
        }
        let mut asked = askable(context, questions);
        if asked.is_empty() {
            // There is no recipient for any of the questions. `askable` has recorded this, so the next round does not ask them.
            continue;
        }
        if asked.len() > context.asking.refusal_room_for_proof(context.group, context.now)
            || state.transactions_left() == 0
        {
            break;
        }
        fit(&mut asked, context.group.site.state().pace.left(&state.tally));
        if asked.is_empty() {
            break;
        }
        let Some(after) = ask(place, session, state, asked).await else { break };
        if after != NextStep::Open {
            return after;
        }
    }
    release(&place.at(R::now()), state, false);
    NextStep::Leave
}

/// A server that sends a part of the replies to a group twice may answer the questions with it, if they have as many commands. The
/// true replies then come behind. So the first session with a host sends another group before it releases its answers: MAIL and EHLO.
async fn show_no_part<R: Runtime>(
    place: Place<'_>,
    session: &mut Session<R>,
    state: &mut SessionState,
) -> Option<NextStep> {
    let is_wanted = session.dialog.sends_groups()
        && state.tally.transactions > 1
        && state.transactions_left() > 0
        && !place.state().habits().repeats_no_part;
    if !is_wanted {
        return None;
    }
    let after = ask(place, session, state, Vec::new()).await?;
    if after == NextStep::Open && !state.notes.out_of_step {
        place.state().habits_mut().repeats_no_part = true;
    }
    Some(after)
}

/// Releases the answers that a session still holds at its end. It can ask no further questions, but if it has ended with QUIT in
/// place of EHLO, it may have asked them all.
pub(super) fn release_at_end<R: Runtime>(place: Place<'_>, session: &Session<R>, state: &mut SessionState) {
    let context = &place.at(R::now());
    let known = context.proof_context(state);
    let is_answered = session.dialog.has_quit() && context.works().evidence.questions(known).is_empty();
    release(context, state, is_answered);
}

/// If the session before this one ended early, or the host ends its sessions after a refusal, nothing may show later whether the
/// replies are in step (each belongs to the command for which it counts). So the session shows it before the first recipient, by
/// MAIL and EHLO again, and before further recipients it listens. `None` if this is not needed.
pub(super) async fn show_in_step<R: Runtime>(
    place: Place<'_>,
    session: &mut Session<R>,
    state: &mut SessionState,
) -> Option<NextStep> {
    if state.tally.transactions > 0 {
        return listen(place, session, state).await.then_some(NextStep::Leave);
    }
    let is_wanted = place.state().has_lost_step() || is_to_listen(place, session, state);
    if !is_wanted || state.takes_one_transaction() {
        return None;
    }
    let after = ask(place, session, state, Vec::new()).await?;
    let leaves = after == NextStep::Open && listen(place, session, state).await;
    Some(if leaves { NextStep::Leave } else { after })
}

/// Whether the host ends its sessions after a refusal, and it is not known that no surplus replies come before that.
fn is_to_listen<R: Runtime>(place: Place<'_>, session: &Session<R>, state: &SessionState) -> bool {
    let known = place.state();
    let is_known = || session.dialog.is_known_in_step(known.in_step(), R::now());
    known.habits().ends_at_refusal && !state.notes.in_doubt && !is_known()
}

/// Waits for surplus replies, if this is needed. Returns whether it has waited. Then the next session should ask about recipients,
/// because the refusal has to come sooner than that.
async fn listen<R: Runtime>(place: Place<'_>, session: &mut Session<R>, state: &SessionState) -> bool {
    if !is_to_listen(place, session, state) {
        return false;
    }
    if session.is_quiet_for(2 * IN_STEP_AHEAD).await {
        place.state().on_quiet(session.dialog.in_step(R::now()));
    }
    true
}

/// Waits until no copy of the replies to an earlier group is expected any more. Then the groups of all sessions with the host may have
/// equal numbers of commands.
pub(super) async fn listen_for_copies<R: Runtime>(
    place: Place<'_>,
    session: &mut Session<R>,
    state: &SessionState,
) -> NextStep {
    let time = session.dialog.time_to_listen(R::now());
    if !session.is_quiet_for(time).await || state.notes.in_doubt {
        return NextStep::Leave;
    }
    place.state().on_quiet(session.dialog.in_step(R::now()));
    NextStep::Open
}

/// If the site allows at most two refusals in a session, asks about the known mailbox of the host before the works, because after
/// the refusals it would be too late. A session does this at most once. `None` if nothing was asked, for example because the site
/// allows more refusals, the host has no known mailbox, the operator is trusted, or there is no room.
pub(super) async fn open_with_known<R: Runtime>(
    place: Place<'_>,
    session: &mut Session<R>,
    state: &mut SessionState,
) -> Option<NextStep> {
    let ends_soon = place.group.site.state().pace.errors_allowed() <= REFUSALS_CARRIED_MAX;
    let is_wanted = ends_soon && !place.group.is_trusted() && !state.takes_one_transaction();
    if !is_wanted || state.known_asked_first.is_some() || place.works().evidence.has_accepted() {
        return None;
    }
    // `Some` means that this session does not try again. It contains the number of mailboxes that were asked about.
    state.known_asked_first = Some(0);
    let context = &place.at(R::now());
    let host = Rc::clone(&context.route().host);
    let recipient = context.asking.knowledge.borrow().mailbox_first(&host, context.now)?;
    if !has_room_after_one_more(context, state) {
        return None;
    }
    state.known_asked_first = Some(1);
    let asked = AskedQuestion {
        question: ProofQuestion::KnownFirst,
        recipient: recipient.clone(),
        private: true,
        accepted_by: Some(Rc::clone(&host)),
    };
    let Some(after) = ask(place, session, state, vec![asked]).await else {
        state.known_asked_first = Some(0);
        return None;
    };
    if place.works().evidence.has_accepted() {
        return Some(after);
    }
    place.asking.knowledge.borrow_mut().on_mailbox_first_failed(&host, &recipient, R::now());
    Some(if after == NextStep::Open { NextStep::Leave } else { after })
}

/// The question that a session asks in place of the works if it can ask about one recipient only, so that other sessions can answer
/// the works. `None` if it need not.
pub(super) fn alone(context: &ProbeContext<'_>, works: &[Work]) -> Option<AskedQuestion> {
    if !context.has_no_room_for_proof() {
        return None;
    }
    let (work, host) = (works.first()?, &context.route().host);
    let domain = context.domain_key(work.address.domain());
    let knowledge = context.asking.knowledge.borrow();
    let is_known = match knowledge.believed(domain, context.group.is_trusted(), context.now) {
        Some(ControlFinding::RefusesUnknown) => knowledge.control_refusal_counts(host),
        finding => finding.is_some(),
    };
    if !is_known {
        let recipient = context.asking.control_recipient(work.address.domain(), false, context.now);
        let question = ProofQuestion::Control { domain, second: false };
        return Some(AskedQuestion { question, recipient, private: false, accepted_by: None });
    }
    // After many refusals in a row, the known mailbox shows whether the host still accepts any.
    let recipient = knowledge.is_long_run(host).then(|| knowledge.mailbox_first(host, context.now))??;
    let accepted_by = Some(Rc::clone(host));
    Some(AskedQuestion { question: ProofQuestion::KnownFirst, recipient, private: true, accepted_by })
}

/// Asks a question in a session of its own, and remembers what the reply shows.
pub(super) async fn ask_alone<R: Runtime>(
    place: Place<'_>,
    session: &mut Session<R>,
    state: &mut SessionState,
    asked: AskedQuestion,
) -> NextStep {
    let (question, recipient) = (asked.question, asked.recipient.clone());
    let after = ask(place, session, state, vec![asked]).await.unwrap_or(NextStep::Leave);
    let context = &place.at(R::now());
    let counts = !state.notes.in_doubt && !state.notes.out_of_step;
    let mut knowledge = context.asking.knowledge.borrow_mut();
    match question {
        ProofQuestion::Control { domain, .. } => {
            let is_shown = counts && context.works().evidence.findings().any(|(of, _)| of == domain);
            if !is_shown {
                knowledge.on_unanswered(domain, context.now);
            }
        }
        _ if !context.works().evidence.has_accepted() => {
            knowledge.on_mailbox_first_failed(&context.route().host, &recipient, context.now);
        }
        _ => {}
    }
    drop(knowledge);
    if counts {
        learn(context, &mut state.notes);
    }
    if after == NextStep::Over { NextStep::Over } else { NextStep::Leave }
}

/// Whether the session would have room for works after a transaction with one recipient.
fn has_room_after_one_more(context: &ProbeContext<'_>, state: &SessionState) -> bool {
    let tally = state.tally;
    let (transactions, asked, answers) = (tally.transactions + 1, tally.asked + 1, tally.answers + 1);
    let behind = Tally { transactions, asked, answers, ..tally };
    // After the transaction about the works, the proof needs another one.
    let has_transactions = state.transactions_left() > 2;
    let pace = &context.group.site.state().pace;
    // The budget needs room for two: the known mailbox, which may be refused, and a recipient of the next transaction.
    has_transactions
        && context.asking.refusal_room_for_proof(context.group, context.now) > 1
        && pace.next_transaction(&behind) > 0
        && pace.left(&behind).0 > 0
}

/// Finds the recipients of the questions for one transaction. A question without a recipient gets the result
/// [`QuestionResult::Nothing`].
fn askable(context: &ProbeContext<'_>, questions: Vec<ProofQuestion>) -> Vec<AskedQuestion> {
    let mut asked: Vec<AskedQuestion> = Vec::new();
    for question in questions.into_iter().take(TRANSACTION_RECIPIENTS_MAX) {
        let found = recipient(context, question);
        let Some((recipient, private, accepted_by)) = found else {
            context.works().evidence.on_result(question, QuestionResult::Nothing);
            continue;
        };
        let domain = |recipient: &str| recipient.rsplit('@').next().map(str::to_owned);
        let another = asked.first().is_some_and(|first| domain(&first.recipient) != domain(&recipient));
        if context.group.is_one_domain() && another {
            // The next transaction asks the other questions.
            break;
        }
        asked.push(AskedQuestion { question, recipient, private, accepted_by });
    }
    asked
}

/// Limits the questions to the room of the session. Each question needs room for a recipient and for a refusal, because a server
/// that has changed may refuse even known mailboxes. If not all questions fit, only those about the first control recipient of a
/// domain are kept, as many as fit, because they decide about the most answers. The others are left to a later round or to another
/// session.
fn fit(asked: &mut Vec<AskedQuestion>, (recipients, refusals): (usize, usize)) {
    let most = recipients.min(refusals);
    if asked.len() > most {
        asked.retain(|asked| matches!(asked.question, ProofQuestion::Control { second: false, .. }));
        asked.truncate(most);
    }
}

/// Finds the recipient of a question. Returns it with [`AskedQuestion::private`] and [`AskedQuestion::accepted_by`].
fn recipient(context: &ProbeContext<'_>, question: ProofQuestion) -> Option<(String, bool, Option<Rc<str>>)> {
    let works = context.works();
    let of = |domain: Option<u64>, held| works.evidence.recipient(domain, held).map(|work| &work.address);
    match question {
        ProofQuestion::Control { domain, second } => {
            let asked = of(Some(domain), None)?;
            let control = match planted(Fault::Break(Invariant::ControlOther)) {
                true => asked.as_str().to_owned(),
                false => context.asking.control_recipient(asked.domain(), second, context.now),
            };
            holds(Invariant::ControlOther, || control != asked.as_str());
            Some((control, false, None))
        }
        ProofQuestion::RefusedBefore { domain } => {
            of(Some(domain), Some(Held::Refused)).map(|address| (address.as_str().to_owned(), true, None))
        }
        ProofQuestion::Postmaster { domain } => {
            let domain = of(Some(domain), None)?.domain();
            Some((format!("postmaster@{}", domain.as_str()), false, None))
        }
        // [`open_with_known`] asks this question, and chooses the recipient.
        ProofQuestion::KnownFirst => None,
        ProofQuestion::Known { domain } => {
            let held =
                of(domain, Some(Held::Accepted)).map(|address| (address.as_str().to_owned(), true, None));
            drop(works);
            let kept = || context.known_mailbox().map(|(address, host)| (address, true, Some(host)));
            held.or_else(|| domain.is_none().then(kept).flatten())
        }
    }
}

/// Asks the questions in one transaction. `None` if the budget of refused recipients has no room for all of them, for example
/// because another process has just used the room.
async fn ask<R: Runtime>(
    place: Place<'_>,
    session: &mut Session<R>,
    state: &mut SessionState,
    asked: Vec<AskedQuestion>,
) -> Option<NextStep> {
    let now = R::now();
    let counted = place.at(now).reserve(asked.len(), 0);
    if counted.count() < asked.len() {
        counted.end();
        return None;
    }
    session.limit = now + place.asking.session_limit;
    let smtputf8 = asked.iter().any(|asked| !asked.recipient.is_ascii());
    let recipients = asked.iter().map(|asked| asked.recipient.as_str());
    session.dialog.transact(now, recipients, smtputf8, place.state().in_step());
    let recipients = Questions { asked: asked.into_iter().map(Some).collect(), private: false };
    Some(run(place, session, counted, state, recipients).await)
}

/// The questions of a transaction, in the order of the RCPT commands. A place is empty after the reply.
pub(super) struct Questions {
    asked: Vec<Option<AskedQuestion>>,
    /// Whether a recipient was private ([`AskedQuestion::private`]). Traces then leave out the recipients and the texts of replies.
    private: bool,
}

impl Questions {
    /// The control recipients of the works' domains, if the session has only one transaction. Otherwise none: a later transaction
    /// asks about them.
    pub(super) fn beside(context: &ProbeContext<'_>, state: &SessionState, works: &[Work]) -> Questions {
        let mut asked: Vec<Option<AskedQuestion>> = Vec::new();
        for work in works.iter().filter(|_| state.takes_one_transaction()) {
            let domain = work.address.domain();
            let question = ProofQuestion::Control { domain: context.domain_key(domain), second: false };
            if !asked.iter().flatten().any(|asked| asked.question == question) {
                let recipient = context.asking.control_recipient(domain, false, context.now);
                asked.push(Some(AskedQuestion { question, recipient, private: false, accepted_by: None }));
            }
        }
        Questions { asked, private: false }
    }

    /// Records a reply with which the server refused to go on, as the unclear reply to each control recipient without a reply.
    fn note_unclear(
        &self,
        context: &ProbeContext<'_>,
        notes: &mut SessionNotes,
        reply: &Reply,
        said: &Classification,
    ) {
        let control = UnclearControl { said: *said, reply: ObservedReply::new(reply, said, context.now) };
        for asked in self.asked.iter().flatten() {
            if let ProofQuestion::Control { domain, .. } = asked.question {
                notes.unclear.insert(domain, control);
            }
        }
    }

    /// The recipients of the questions without a reply.
    pub(super) fn recipients(&self) -> impl Iterator<Item = &str> {
        self.asked.iter().flatten().map(|asked| asked.recipient.as_str())
    }
}

impl Recipients for Questions {
    fn record(&mut self, context: &ProbeContext<'_>, trace: &mut Vec<String>) {
        self.private |= self.asked.iter().flatten().any(|asked| asked.private);
        let lines: Vec<String> = match self.private {
            false => trace.clone(),
            // The text of a reply may name the recipient.
            true => trace.iter().filter_map(|line| without_names(line)).collect(),
        };
        context.works().evidence.each(|work| {
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
        let Some(asked) = self.asked.get_mut(received.place).and_then(Option::take) else {
            return received.too_late();
        };
        self.private |= asked.private;
        control_answered(context, notes, &asked, received)
    }

    fn on_mail_refused(
        &mut self,
        context: &ProbeContext<'_>,
        notes: &mut SessionNotes,
        reply: &Reply,
    ) -> bool {
        self.note_unclear(context, notes, reply, &classify(&context.view(Stage::Mail, reply, None)));
        // There are no works here. `prove` releases the held answers after this transaction.
        mail_refused(context, Vec::new(), false, reply);
        true
    }

    fn put_back(&mut self, _context: &ProbeContext<'_>) -> bool {
        // The next round asks the questions without a reply again.
        self.asked.iter_mut().for_each(|asked| *asked = None);
        true
    }

    fn on_cut_off(
        &mut self,
        context: &ProbeContext<'_>,
        notes: &mut SessionNotes,
        closure: &Closure,
        tally: &Tally,
    ) {
        if let Some((reply, said)) = blame(context, closure, tally) {
            self.note_unclear(context, notes, reply, &said);
        }
        let at = self.asked.iter().flatten().next();
        let domain = match at.map(|asked| asked.question) {
            Some(ProofQuestion::Control { domain, .. } | ProofQuestion::Known { domain: Some(domain) }) => {
                domain
            }
            _ => return,
        };
        if ends_at_recipient(closure) {
            notes.ended_at_control = Some(domain);
        }
    }
}

/// A line of a trace without a recipient and without the text of a reply. `None` if the line cannot be shown.
fn without_names(line: &str) -> Option<String> {
    let (who, said) = line.split_once(": ")?;
    match who {
        "S" => {
            let code = said.split([' ', '-']).next().filter(|code| code.len() == 3)?;
            Some(format!("S: {code} (the text is not shown, because it may name another mailbox)"))
        }
        "C" if said.starts_with("RCPT") => Some("C: RCPT TO:<a known mailbox>".to_owned()),
        _ => Some(line.to_owned()),
    }
}
