//! Checkpoints: what is asked to prove the answers that a session holds, and what becomes of them.

use super::context::ProbeContext;
use super::endings::{blame, ends_at_recipient, push_back};
use super::replies::{GREYLISTING_WAIT, TRANSIENT_WAIT, ask_elsewhere, in_words, mail_refused, returned};
use super::transaction::{Answered, NextStep, Recipients, ReplyEffect, SessionState, hear};
use crate::runtime::Runtime;
use crate::session::Session;
use crate::site::{DOWN, HeldAnswers, UnclearWait};
use crate::work::{CarriedRefusal, Work, unverifiable};
use crate::{Finding, Priority};
use engine_proto::address::{Address, Domain};
use engine_proto::limits::{CHANGES_MAX, CONTROL_UNKNOWN_TTL, TRANSACTION_RECIPIENTS_MAX};
use engine_proto::lists;
use engine_proto::pace::Tally;
use engine_proto::smtp::dialog::Closure;
use engine_proto::smtp::reply::Reply;
use engine_proto::verdict::catch_all::{ControlFinding, settle};
use engine_proto::verdict::classify::{Classification, classify, reason_at_rcpt};
use engine_proto::verdict::evidence::{
    CHECKPOINT_MIN, Held, Proof, ProofQuestion, REFUSALS_CARRIED_MAX, RUN_MIN, Released, SessionEvidence,
    Told,
};
use engine_proto::verdict::{Class, Reason, Scope, Stage};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

/// The rule of an address that a server gave an answer to which its own behaviour contradicts.
pub(super) const CHANGED: &str = "behaviour_changed";
/// The rule of a refusal behind which no mailbox was accepted.
const UNPROVEN: &str = "refusal_unproven";
/// The rule of an accept behind which the session ended.
const UNANSWERED: &str = "control_unanswered";

/// A checkpoint asks in so many transactions at most.
const ROUNDS_MAX: usize = 12;

/// Asks what proves the answers that the session holds, and releases them.
pub(super) async fn prove<R: Runtime>(
    context: &ProbeContext<'_, R>,
    session: &mut Session<R>,
    state: &mut SessionState,
) -> NextStep {
    for _ in 0..ROUNDS_MAX {
        let known = context.knows(state);
        let questions = state.held.evidence.borrow().questions(known);
        if questions.is_empty() {
            return release(context, state, true);
        }
        let mut asked = askable(context, state, questions);
        if asked.is_empty() {
            // Nobody is left to ask about; that was told, and the next look finds nothing to ask.
            continue;
        }
        if asked.len() > context.group.refusal_room_for_proof(context.shard.refusal_step()) {
            break;
        }
        fit(&mut asked, context.group.site.pace.borrow().left(&state.tally));
        if asked.is_empty() {
            break;
        }
        let after = ask(context, session, state, asked).await;
        if after != NextStep::Open {
            release(context, state, false);
            return after;
        }
    }
    release(context, state, false);
    NextStep::Leave
}

/// Asks about a known mailbox first, at a host that ends sessions after a refusal or two: nothing can be asked behind those.
/// `None` where there is no such host, or no such mailbox.
pub(super) async fn open_with_known<R: Runtime>(
    context: &ProbeContext<'_, R>,
    session: &mut Session<R>,
    state: &mut SessionState,
) -> Option<NextStep> {
    let ends_soon = context.group.site.pace.borrow().errors_borne() <= REFUSALS_CARRIED_MAX;
    let is_wanted = ends_soon && !context.group.is_honest() && !state.one_transaction;
    if !is_wanted || state.opened.is_some() || state.held.evidence.borrow().has_accepted() {
        return None;
    }
    state.opened = Some(0);
    let host = Rc::clone(&context.route().host);
    let recipient = context.shard.knowledge.borrow().mailbox_first(&host, R::now())?;
    if !bears_another(context, session, &state.tally) {
        return None;
    }
    state.opened = Some(1);
    let asked = AskedControls {
        question: ProofQuestion::KnownFirst,
        recipient,
        private: true,
        elsewhere: Some(Rc::clone(&host)),
    };
    let after = ask(context, session, state, vec![asked]).await;
    if state.held.evidence.borrow().has_accepted() {
        return Some(after);
    }
    context.shard.knowledge.borrow_mut().mailbox_first_failed(&host, R::now());
    Some(if after == NextStep::Open { NextStep::Leave } else { after })
}

/// Whether the session has room for recipients behind one more transaction.
fn bears_another<R: Runtime>(context: &ProbeContext<'_, R>, session: &Session<R>, tally: &Tally) -> bool {
    let (transactions, asked, answers) = (tally.transactions + 1, tally.asked + 1, tally.answers + 1);
    let behind = Tally { transactions, asked, answers, ..*tally };
    let most = session.dialog.extensions().transactions_max;
    let pace = context.group.site.pace.borrow();
    context.group.refusal_room_for_proof(context.shard.refusal_step()) > 1
        && most.is_none_or(|most| most > transactions)
        && pace.group(&behind) > 0
        && pace.left(&behind).0 > 0
}

/// A question with the recipient that it is asked about.
struct AskedControls {
    question: ProofQuestion,
    recipient: String,
    /// It is another's mailbox, of which nobody else is to hear.
    private: bool,
    /// The host that accepted it in another session.
    elsewhere: Option<Rc<str>>,
}

/// The questions of one transaction. One with nobody to ask about is answered at once: with nothing.
fn askable<R: Runtime>(
    context: &ProbeContext<'_, R>,
    state: &SessionState,
    questions: Vec<ProofQuestion>,
) -> Vec<AskedControls> {
    let mut asked: Vec<AskedControls> = Vec::new();
    for question in questions.into_iter().take(TRANSACTION_RECIPIENTS_MAX) {
        let found = recipient(context, state, question);
        let Some((recipient, private, elsewhere)) = found else {
            state.held.evidence.borrow_mut().told(question, Told::Nothing);
            continue;
        };
        let domain = |recipient: &str| recipient.rsplit('@').next().map(str::to_owned);
        let another = asked.first().is_some_and(|first| domain(&first.recipient) != domain(&recipient));
        if context.group.takes_one_domain() && another {
            // The rest is asked in the next transaction.
            break;
        }
        asked.push(AskedControls { question, recipient, private, elsewhere });
    }
    asked
}

/// Leaves what the session bears, where it may have so many more recipients and so many more refusals: a server that has
/// changed refuses known mailboxes as well. The rest is asked in another session.
fn fit(asked: &mut Vec<AskedControls>, (recipients, refusals): (usize, usize)) {
    let most = recipients.min(refusals);
    if asked.len() > most {
        asked.retain(|asked| matches!(asked.question, ProofQuestion::Control { second: false, .. }));
        asked.truncate(most);
    }
}

/// The recipient of a question, whether it is another's mailbox, and whether it was accepted in another session.
fn recipient<R: Runtime>(
    context: &ProbeContext<'_, R>,
    state: &SessionState,
    question: ProofQuestion,
) -> Option<(String, bool, Option<Rc<str>>)> {
    let evidence = state.held.evidence.borrow();
    let of = |domain: Option<u64>, held| evidence.recipient(domain, held).map(|work| &work.address);
    match question {
        ProofQuestion::Control { domain, second } => {
            let domain = of(Some(domain), None)?.domain();
            Some((context.shard.control_recipient(domain, second), false, None))
        }
        ProofQuestion::RefusedBefore { domain } => {
            of(Some(domain), Some(Held::Refused)).map(|address| (address.as_str().to_owned(), true, None))
        }
        ProofQuestion::Postmaster => {
            let domain = of(None, Some(Held::Refused)).or_else(|| of(None, Some(Held::Denied)))?.domain();
            Some((format!("postmaster@{}", domain.as_str()), false, None))
        }
        // It is chosen by whoever asks it.
        ProofQuestion::KnownFirst => None,
        ProofQuestion::Known { domain } => {
            let held =
                of(domain, Some(Held::Accepted)).map(|address| (address.as_str().to_owned(), true, None));
            let kept = || context.known_mailbox(state).map(|(address, host)| (address, true, Some(host)));
            held.or_else(|| domain.is_none().then(kept).flatten())
        }
    }
}

/// One transaction of questions.
async fn ask<R: Runtime>(
    context: &ProbeContext<'_, R>,
    session: &mut Session<R>,
    state: &mut SessionState,
    asked: Vec<AskedControls>,
) -> NextStep {
    let (shard, now) = (context.shard, R::now());
    session.limit = now + shard.session_limit;
    let smtputf8 = asked.iter().any(|asked| !asked.recipient.is_ascii());
    session.dialog.transact(now, asked.iter().map(|asked| asked.recipient.as_str()), smtputf8);
    let (count, held) = (asked.len(), Rc::clone(&state.held));
    let recipients = Questions { asked: asked.into_iter().map(Some).collect(), held, private: false };
    hear(context, session, count, state, recipients).await
}

/// Questions by their places in the transaction, until they have their answers.
pub(super) struct Questions {
    asked: Vec<Option<AskedControls>>,
    held: Rc<HeldAnswers>,
    /// The transaction names another's mailbox.
    private: bool,
}

impl Questions {
    /// The control recipients of the works' domains, where they have to be asked in the works' own transaction.
    pub(super) fn beside<R: Runtime>(
        context: &ProbeContext<'_, R>,
        state: &SessionState,
        works: &[Work],
    ) -> Questions {
        let mut asked: Vec<Option<AskedControls>> = Vec::new();
        for work in works.iter().filter(|_| state.one_transaction) {
            let domain = work.address.domain();
            let question = ProofQuestion::Control { domain: context.number(domain), second: false };
            if !asked.iter().flatten().any(|asked| asked.question == question) {
                let recipient = context.shard.control_recipient(domain, false);
                asked.push(Some(AskedControls { question, recipient, private: false, elsewhere: None }));
            }
        }
        Questions { asked, held: Rc::clone(&state.held), private: false }
    }

    /// The recipients of those that have no answer yet.
    pub(super) fn recipients(&self) -> impl Iterator<Item = &str> {
        self.asked.iter().flatten().map(|asked| asked.recipient.as_str())
    }
}

impl<R: Runtime> Recipients<R> for Questions {
    fn record(&mut self, _context: &ProbeContext<'_, R>, trace: &mut Vec<String>) {
        self.private |= self.asked.iter().flatten().any(|asked| asked.private);
        let lines: Vec<String> = match self.private {
            false => trace.clone(),
            // What is said in such a transaction may name the mailbox: the replies are told by their codes alone.
            true => trace.iter().filter_map(|line| without_names(line)).collect(),
        };
        self.held.evidence.borrow_mut().each(|work| {
            if let Some(trace) = &mut work.trace {
                trace.extend(lines.iter().cloned());
            }
        });
    }

    fn answered(&mut self, context: &ProbeContext<'_, R>, heard: &Answered<'_>) -> ReplyEffect {
        let Some(asked) = self.asked.get_mut(heard.place).and_then(Option::take) else {
            return heard.too_late();
        };
        self.private |= asked.private;
        answered(context, &self.held, &asked, heard)
    }

    fn mail_refused(&mut self, context: &ProbeContext<'_, R>, reply: &Reply) -> bool {
        // Those who are held are released behind this.
        mail_refused(context, Vec::new(), false, reply);
        true
    }

    fn put_back(&mut self, _context: &ProbeContext<'_, R>) -> bool {
        // What got no answer is asked again in the next transaction.
        self.asked.iter_mut().for_each(|asked| *asked = None);
        true
    }

    fn out_of_time(&mut self, _context: &ProbeContext<'_, R>) {}

    fn cut_off(&mut self, context: &ProbeContext<'_, R>, closure: &Closure, tally: &Tally) {
        blame(context, closure, tally);
        let at = self.asked.iter().flatten().next();
        let domain = match at.map(|asked| asked.question) {
            Some(ProofQuestion::Control { domain, .. } | ProofQuestion::Known { domain: Some(domain) }) => {
                domain
            }
            _ => return,
        };
        if ends_at_recipient(closure) {
            self.held.ended_at_control.set(Some(domain));
        }
    }
}

/// A line of a session's trace without the names in it; `None` for one that is better left out.
fn without_names(line: &str) -> Option<String> {
    let (who, said) = line.split_once(": ")?;
    match who {
        "S" => {
            let code = said.split([' ', '-']).next().filter(|code| code.len() == 3)?;
            Some(format!("S: {code} (the text may name another mailbox and is left out)"))
        }
        "C" if said.starts_with("RCPT") => Some("C: RCPT TO:<a mailbox that is known here>".to_owned()),
        _ => Some(line.to_owned()),
    }
}

/// What the answer to a question means.
fn answered<R: Runtime>(
    context: &ProbeContext<'_, R>,
    held: &HeldAnswers,
    asked: &AskedControls,
    heard: &Answered<'_>,
) -> ReplyEffect {
    let Answered { reply, behind_others, at, .. } = *heard;
    let said: Classification = classify(&context.view(Stage::Control, reply, Some(&asked.recipient)));
    if said.class == Class::Throttled && said.scope == Scope::Session && behind_others {
        // RFC 5321 4.5.3.1.10: a transaction that is full; the rest goes into the next.
        return ReplyEffect::Later;
    }
    let shard = context.shard;
    if shard.wants_traces.get() {
        let line = format!("{}: {}", name(asked.question), in_words(&said));
        held.evidence.borrow_mut().each(|work| work.note(|| line.clone()));
    }
    if said.class == Class::Throttled || said.scope == Scope::Session {
        push_back(context, said.rule);
        return ReplyEffect::Push;
    }
    let mut told = Told::of(&said);
    if let Some(host) = &asked.elsewhere
        && told == Told::Refused
        && !shard.knowledge.borrow_mut().refused_mailbox(host, at)
    {
        // It may have been accepted by a server that accepts everyone: that it is refused here shows nothing.
        told = Told::Nothing;
    }
    match (asked.question, told) {
        (ProofQuestion::Control { .. }, Told::Nothing) => held.on_unclear_control(&said),
        (ProofQuestion::Control { domain, .. }, Told::Refused | Told::Accepted) => {
            let postmaster = held.postmaster.borrow_mut().take_if(|(at, _)| *at == domain);
            match postmaster {
                Some((_, postmaster)) if told == Told::Refused => context.on_known(&postmaster, true, at),
                // It was accepted as everyone is.
                Some((_, postmaster)) => {
                    shard.knowledge.borrow_mut().unproven_mailbox(&context.route().host, &postmaster);
                }
                None => {}
            }
        }
        // This host has accepted it now, whichever did before.
        (ProofQuestion::Known { .. } | ProofQuestion::KnownFirst, Told::Accepted) => {
            context.on_known_again(&asked.recipient, at);
        }
        (ProofQuestion::Postmaster, Told::Accepted) => {
            let recipient = Address::parse(&asked.recipient).ok();
            let domain = recipient.map(|address| context.number(address.domain()));
            held.postmaster.replace(domain.map(|domain| (domain, asked.recipient.clone())));
            context.on_known(&asked.recipient, false, at);
        }
        (ProofQuestion::Postmaster, _) => {
            if let Some(domain) =
                Address::parse(&asked.recipient).ok().map(|address| address.domain().clone())
            {
                let number = context.number(&domain);
                shard.knowledge.borrow_mut().learned_no_postmaster(number, at);
            }
        }
        _ => {}
    }
    if told == Told::Accepted {
        context.route().on_accepted();
        shard.knowledge.borrow_mut().on_mailbox_accepted(&context.route().host);
    }
    held.evidence.borrow_mut().told(asked.question, told);
    // A refusal that proves nothing may be what the host says to everyone.
    let is_answer = matches!(told, Told::Accepted | Told::Refused) || reply.is_transient();
    if is_answer { ReplyEffect::Answer } else { ReplyEffect::Refusal }
}

fn name(question: ProofQuestion) -> &'static str {
    match question {
        ProofQuestion::Control { second: false, .. } => "control recipient",
        ProofQuestion::Control { second: true, .. } => "second control recipient",
        ProofQuestion::Known { .. } => "a mailbox that was accepted before, asked again",
        ProofQuestion::KnownFirst => "a mailbox that was accepted before, asked first",
        ProofQuestion::RefusedBefore { .. } => "a recipient that was refused before, asked again",
        ProofQuestion::Postmaster => "postmaster",
    }
}

/// Releases what the session holds. `alive`: all questions were answered, or there was none. Tells whether what comes next
/// had better be asked in another session.
pub(super) fn release<R: Runtime>(
    context: &ProbeContext<'_, R>,
    state: &SessionState,
    alive: bool,
) -> NextStep {
    if state.held.evidence.borrow().is_empty() {
        return NextStep::Open;
    }
    let known = context.knows(state);
    let mut evidence = state.held.evidence.borrow_mut();
    learn(context, &state.held, &evidence);
    let released = evidence.close(known, alive);
    let changed = evidence.has_changed();
    let proven = evidence.refusals_proven();
    let (has_accepted, refused_in_a_row) = (evidence.has_accepted(), evidence.run());
    drop(evidence);
    if changed {
        context.on_change(&released, proven);
    } else if alive {
        context.route().changes.set(0);
        learn_refusals(context, &released, R::now());
        context.group.on_proven(released.iter().filter(|one| is_answer(one.proof)).count());
    }
    let is_untold = |one: &Released<Work>| one.held != Held::Accepted && one.proof == Proof::Unclear;
    let only_catch_all = only_catch_all(&released);
    let in_a_row = only_catch_all.map_or(0, |_| state.held.catch_all_in_a_row.get() + 1);
    state.held.catch_all_in_a_row.set(in_a_row);
    let is_long = released.len() >= CHECKPOINT_MIN as usize || in_a_row >= CATCH_ALL_IN_A_ROW;
    let confirms = is_long && only_catch_all.is_some_and(|domain| is_to_confirm(context, domain));
    let leaves = released.iter().any(is_untold) || confirms;
    let after = if leaves { NextStep::Leave } else { NextStep::Open };
    let (mut again, now) = (Vec::new(), R::now());
    // Sessions that end there are counted, not the answers that they held.
    let ended = state.held.ended_at_control.take();
    let without_control =
        ended.filter(|&domain| !context.shard.knowledge.borrow_mut().unanswered(domain, now));
    for one in released {
        let wait = state.held.unclear_wait.get();
        let closed = Closed { without_control, changed, has_accepted, refused_in_a_row, alive, wait };
        again.extend(settle_released(context, one, &closed, now));
    }
    // In front of those who wait, in the order in which they were asked about.
    again.into_iter().rev().for_each(|work| context.group.put_back(work));
    if context.route().changes.get() >= CHANGES_MAX {
        context.route().set_down(now + DOWN, CHANGED);
    }
    after
}

/// Remembers of which domains recipients were refused, and none accepted: where that adds up they cannot be domains that accept
/// everyone.
fn learn_refusals<R: Runtime>(context: &ProbeContext<'_, R>, released: &[Released<Work>], now: Instant) {
    let is_refused = |one: &&Released<Work>| one.held == Held::Refused && is_answer(one.proof);
    if !context.group.catch_alls.get() && released.iter().filter(is_refused).count() < RUN_MIN as usize {
        return;
    }
    let mut refused: BTreeMap<u64, u32> = BTreeMap::new();
    for one in released.iter().filter(is_refused) {
        *refused.entry(context.number(one.item.address.domain())).or_default() += 1;
    }
    for one in released.iter().filter(|one| one.held == Held::Accepted) {
        refused.remove(&context.number(one.item.address.domain()));
    }
    let mut knowledge = context.shard.knowledge.borrow_mut();
    refused.into_iter().for_each(|(domain, count)| knowledge.learned_refusals(domain, count, now));
}

/// Checkpoints of few recipients that are as good as a long one.
const CATCH_ALL_IN_A_ROW: u32 = 3;

/// The domain, where all that was released shows that this one domain accepts everyone, and nothing else.
fn only_catch_all(released: &[Released<Work>]) -> Option<&Domain> {
    let domain = released.first()?.item.address.domain();
    let is_such = |one: &Released<Work>| one.proof == Proof::CatchAll && one.item.address.domain() == domain;
    released.iter().all(is_such).then_some(domain)
}

/// Whether another session is to confirm that the domain accepts everyone: this one may have met the one node of a pool that does.
fn is_to_confirm<R: Runtime>(context: &ProbeContext<'_, R>, domain: &Domain) -> bool {
    context.group.waiting() > 0
        && !context.shard.knowledge.borrow().accepts_all(context.number(domain), R::now())
}

/// How the checkpoint was closed.
struct Closed {
    /// The domain whose control recipient ended so many sessions that it is not asked again.
    without_control: Option<u64>,
    changed: bool,
    /// The session has accepted somebody.
    has_accepted: bool,
    /// What it refused since, or in all.
    refused_in_a_row: u32,
    /// All questions were answered.
    alive: bool,
    /// How long to wait where the control recipient got a reply that proves nothing.
    wait: UnclearWait,
}

/// Remembers what the checkpoint showed of its domains.
fn learn<R: Runtime>(context: &ProbeContext<'_, R>, held: &HeldAnswers, evidence: &SessionEvidence<Work>) {
    let now = R::now();
    let (mut knowledge, mut contradicted) = (context.shard.knowledge.borrow_mut(), Vec::new());
    for (domain, finding) in evidence.findings() {
        let again = !held.learned.borrow_mut().insert(domain);
        if knowledge.learned(domain, finding, again, now) {
            contradicted.push(domain);
        }
        if finding == ControlFinding::Unknown && held.unclear_wait.get() == UnclearWait::Soon {
            knowledge.learned_transient(domain, now);
        }
        if finding == ControlFinding::RefusesUnknown {
            knowledge.on_control_refused(&context.route().host);
        }
        if finding == ControlFinding::AcceptsAll {
            context.group.catch_alls.set(true);
        }
    }
    drop(knowledge);
    for work in contradicted.into_iter().filter_map(|domain| evidence.recipient(Some(domain), None)) {
        context.shard.withdraw(context.evidence_key(work.address.domain()));
    }
}

/// Answers a work whose answer was released, or gives it back to be asked again in another session.
fn settle_released<R: Runtime>(
    context: &ProbeContext<'_, R>,
    one: Released<Work>,
    closed: &Closed,
    now: Instant,
) -> Option<Work> {
    let Released { item: mut work, held, said, proof } = one;
    #[cfg(feature = "sim")]
    let proof = mistaken(held, proof);
    let evidence = Some(context.evidence_key(work.address.domain()));
    let doubted = proof == Proof::Assumed
        && !closed.has_accepted
        && context.doubts_refusals(work.priority == Priority::Single, closed.refused_in_a_row);
    let proof = if doubted { Proof::Changed } else { proof };
    work.note(|| format!("checkpoint: {}", in_words_of(held, proof)));
    if held == Held::Accepted && matches!(proof, Proof::CatchAll | Proof::Changed) {
        context.shard.knowledge.borrow_mut().unproven_mailbox(&context.route().host, work.address.as_str());
    }
    match (held, proof) {
        (Held::Accepted, Proof::Proven) => {
            context.on_known(work.address.as_str(), true, now);
            finish(work, &said, ControlFinding::RefusesUnknown, "control_refused", evidence);
            None
        }
        (Held::Accepted, Proof::CatchAll) => {
            finish(work, &said, ControlFinding::AcceptsAll, "control_accepted", evidence);
            None
        }
        (Held::Accepted, Proof::Unclear) => {
            unclear(context, work, closed.wait, now);
            None
        }
        (Held::Accepted, Proof::Lost)
            if closed.without_control == Some(context.number(work.address.domain())) =>
        {
            work.finish(unverifiable("control_unclear", Some(CONTROL_UNKNOWN_TTL)));
            None
        }
        (Held::Accepted, Proof::Lost | Proof::Carried | Proof::Assumed) => {
            work.was_accepted = true;
            returned(work, UNANSWERED, now)
        }
        // It contradicts an earlier session, and the session ended before anybody could be asked about it.
        (Held::Refused | Held::Denied, Proof::Proven | Proof::Assumed)
            if work.was_accepted && !closed.alive =>
        {
            returned(work, UNPROVEN, now)
        }
        (Held::Refused | Held::Denied, Proof::Proven | Proof::Assumed) => {
            let reason = reason_at_rcpt(&said);
            work.finish(Finding { reason, rule: said.rule, retry_after: None, evidence });
            None
        }
        (_, Proof::Changed) => {
            // The next session may meet the same: not for ever.
            work.returns += 1;
            returned(work, CHANGED, now)
        }
        (Held::Refused | Held::Denied, Proof::Carried) => {
            work.was_refused = true;
            let number = context.number(work.address.domain());
            work.carried = Some(Box::new(CarriedRefusal { number, held, said }));
            returned(work, UNPROVEN, now)
        }
        (Held::Refused | Held::Denied, proof) => {
            work.was_refused = true;
            // Where nobody could tell, another session can hardly: not for ever.
            work.returns += u8::from(proof == Proof::Unclear);
            returned(work, if closed.changed { CHANGED } else { UNPROVEN }, now)
        }
        (Held::Unclear, Proof::Proven) => {
            work.finish(Finding {
                reason: Reason::MailboxNotFound,
                rule: said.rule,
                retry_after: None,
                evidence,
            });
            None
        }
        (Held::Unclear, Proof::Lost) => returned(work, said.rule, now),
        (Held::Unclear, _) => {
            work.leave(said.rule, Some(DOWN));
            ask_elsewhere(context, work, &said);
            None
        }
    }
}

/// Whether an answer counts, as far as its session shows.
fn is_answer(proof: Proof) -> bool {
    matches!(proof, Proof::Proven | Proof::Assumed)
}

/// Takes an answer for proven, where such a defect is planted.
#[cfg(feature = "sim")]
fn mistaken(held: Held, proof: Proof) -> Proof {
    use crate::sim::{Fault, planted};
    match held {
        Held::Accepted if planted(Fault::BelieveAccept) => Proof::Proven,
        Held::Refused | Held::Denied if planted(Fault::BelieveRefusals) => Proof::Proven,
        _ => proof,
    }
}

/// What a proof is called in a trace.
fn in_words_of(held: Held, proof: Proof) -> &'static str {
    match (held, proof) {
        (Held::Accepted, Proof::Proven) => "an unknown recipient of the domain was refused behind the accept",
        (_, Proof::Proven | Proof::Assumed) => {
            "no change of the server's behaviour was seen behind the refusal"
        }
        (_, Proof::CatchAll) => "the control recipient was accepted, too",
        (_, Proof::Changed) => "the server changed its behaviour, so the answer proves nothing",
        (_, Proof::Unclear) => "what was asked behind the answer brought no clear reply",
        (_, Proof::Carried) => {
            "the session ended before the answer could be proven; the next one may prove it"
        }
        (_, Proof::Lost) => "the session ended before the answer could be proven",
    }
}

/// The control recipient told nothing. Where that may pass soon (a server that verifies recipients has not heard of this
/// one before), the address is asked about once more.
fn unclear<R: Runtime>(context: &ProbeContext<'_, R>, mut work: Work, wait: UnclearWait, now: Instant) {
    let single = work.priority == Priority::Single;
    let after = match wait {
        UnclearWait::Soon if !std::mem::replace(&mut work.control_asked_again, true) => {
            let again = if single { context.shard.single_retry() } else { TRANSIENT_WAIT };
            work.leave_for_now("control_unclear", CONTROL_UNKNOWN_TTL, again);
            work.may_begin_anew();
            return context.shard.give_up(work, now);
        }
        UnclearWait::Soon | UnclearWait::Long => CONTROL_UNKNOWN_TTL,
        UnclearWait::Greylisting => GREYLISTING_WAIT,
    };
    work.finish(unverifiable("control_unclear", Some(after)));
}

/// Answers a work that was accepted.
pub(super) fn finish(
    work: Work,
    said: &Classification,
    finding: ControlFinding,
    rule: &'static str,
    evidence: Option<u64>,
) {
    let role = lists::is_role(work.address.local());
    let reason = settle(said, Some(finding), role);
    // What was not clear may be, once it is asked again.
    let retry_after = (finding == ControlFinding::Unknown).then_some(CONTROL_UNKNOWN_TTL);
    work.finish(Finding { reason, rule, retry_after, evidence });
}
