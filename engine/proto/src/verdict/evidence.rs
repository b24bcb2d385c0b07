//! Decides whether the answers of one session can be believed.
//!
//! An answer means something only while the server distinguishes its mailboxes. Some servers accept every recipient while their
//! directory is down. Some refuse every recipient after a client has asked about too many unknown ones. A pool may have one node
//! that does either. So a session holds its answers until a *checkpoint*. At the checkpoint, the later replies of the session
//! decide which of these answers count:
//! - An accept counts if the domain refused another recipient later, permanently and because that recipient does not exist. The
//!   other recipient is another address of the caller, or a *control recipient*: a recipient that mailprobe makes up. An address of
//!   the caller is enough only if the domain also refused a control recipient in this session or within the last hour; or if the
//!   domain accepts the control recipient but, asked about that address again, accepts it too, which shows that it has only just
//!   begun to accept everyone. Otherwise the address may be a closed mailbox of a domain that accepts everyone else.
//! - A refusal counts if the host accepted a mailbox later: another address of the caller, or a *known mailbox*, which the host
//!   accepted before or the configuration names (a canary). If the operator of the host is trusted to distinguish its mailboxes, a
//!   refusal counts without a proof. A refusal in unclear words counts only if the host accepted a mailbox later and the domain
//!   refused the control recipient.
//! - If there is no known mailbox, mailprobe asks about `postmaster@` the domain (RFC 5321 4.5.1) after [`REFUSALS_IN_A_ROW_MIN`]
//!   refusals in a row. If the domain accepts `postmaster@`, mailprobe also asks about the control recipient: if the domain refuses
//!   it, the accept of `postmaster@` proves the refusals; if the domain accepts it too, the refusals do not count. After fewer
//!   refusals, or if `postmaster@` is not accepted, or if the reply about the control recipient is not clear, the refusals count
//!   without a proof, unless the server has changed its behaviour in this session.
//! - If the domain refuses the control recipient in unclear words, mailprobe asks about a mailbox that the domain accepted, then
//!   about a second control recipient of another shape, and then about the mailbox again. If the domain accepts the mailbox both
//!   times and refuses the second control recipient, the domain distinguishes its mailboxes.
//!
//! A session may end before its refusals are proven. If it had an accept before them, and at most [`REFUSALS_CARRIED_MAX`]
//! refusals, the next session at the host takes them over ([`SessionEvidence::carry`]), and an accept in that session proves them.
//! No other answer counts without the proof that it needs: mailprobe asks about its recipient in another session, or the recipient
//! ends as unverifiable.
//!
//! The first checkpoint is due after [`CHECKPOINT_ANSWERS_MIN`] answers, or at once if a caller waits for an answer. The last one
//! is due at the end of the session. If all questions of a checkpoint were answered and the server has not changed, the checkpoint
//! doubles the length of the next one, up to [`CHECKPOINT_ANSWERS_MAX`].
//!
//! In this file, a domain is a number (a keyed hash), and a recipient is a value of the caller.

use super::catch_all::ControlFinding;
use super::classify::Classification;
use super::{Class, Reason, Scope};
use crate::limits::{
    CHECKPOINT_ANSWERS_MAX, CHECKPOINT_ANSWERS_MIN, REFUSALS_CARRIED_MAX, REFUSALS_IN_A_ROW_MIN,
};
use std::collections::BTreeMap;

/// What the server answered about a recipient of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// The recipient was accepted.
    Accepted,
    /// The recipient was refused permanently, because there is no such mailbox.
    Refused,
    /// The recipient was refused permanently for another reason of its own: for example, the mailbox is disabled, or the domain
    /// takes no mail.
    Denied,
    /// The recipient was refused permanently with the enhanced code of a missing mailbox, but the words of the reply may contradict
    /// this code.
    Unclear,
    /// The reply, or what earlier sessions have shown, decides with this reason and rule. The answer is held only until the session
    /// shows that its replies are in step (each belongs to the command for which it counts).
    Decided(Reason, &'static str),
}

/// A question that a checkpoint has to ask the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProofQuestion {
    /// The control recipient of a domain.
    Control {
        /// The domain.
        domain: u64,
        /// Whether to ask about the second control recipient, which has a name of another shape.
        second: bool,
    },
    /// A known mailbox, or a recipient that this session accepted.
    Known {
        /// The domain, if the mailbox must be of this domain.
        domain: Option<u64>,
    },
    /// The known mailbox of the host. At a host that ends sessions after one or two refusals, mailprobe asks about this mailbox
    /// before all recipients.
    KnownFirst,
    /// A recipient that this domain refused, before it accepted the control recipient.
    RefusedBefore {
        /// The domain.
        domain: u64,
    },
    /// `postmaster@` a domain that refused recipients.
    Postmaster {
        /// The domain: [`SessionEvidence::postmaster_domain`].
        domain: u64,
    },
}

/// The result of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuestionResult {
    /// The recipient was accepted.
    Accepted,
    /// The recipient was refused permanently because it does not exist.
    Refused,
    /// The recipient was refused permanently, in words that prove nothing by themselves.
    RefusedUnclearly,
    /// Any other outcome: a transient reply, a block, no reply, or no recipient to ask about.
    Nothing,
}

impl QuestionResult {
    /// The result for the reply to a question.
    pub fn of(said: &Classification) -> QuestionResult {
        match ControlFinding::of(said) {
            ControlFinding::AcceptsAll => QuestionResult::Accepted,
            ControlFinding::RefusesUnknown => QuestionResult::Refused,
            ControlFinding::Unknown if said.permanent && is_unclear(said) => QuestionResult::RefusedUnclearly,
            ControlFinding::Unknown => QuestionResult::Nothing,
        }
    }
}

/// Whether a permanent refusal may be about the recipient although its words do not say so: many servers answer "access denied" or
/// a bare 550 for a missing mailbox. A refusal that any recipient would get is not about the recipient. Neither is a refusal about
/// the session or about relaying.
fn is_unclear(said: &Classification) -> bool {
    matches!(said.class, Class::Unclear | Class::Policy) && !said.to_all && said.scope != Scope::Session
}

/// Facts from outside the session that decide which proofs its answers need.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Context {
    /// The operator of the host is trusted to distinguish its mailboxes at all times.
    pub trusted: bool,
    /// There is a known mailbox: the host accepted it within [`crate::limits::KNOWN_MAILBOX_TTL`], or the configuration names it.
    pub known: bool,
    /// There is no use in asking about `postmaster@` the domain, for example because it was refused within the last hour.
    pub no_postmaster: bool,
    /// Earlier sessions have proven answers, and the hosts have not changed since.
    pub distinguished: bool,
}

/// What an answer is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// The answer counts.
    Proven,
    /// A refusal that neither a later accept proves nor another reply contradicts. It counts, unless the caller knows that the host
    /// changed recently.
    Assumed,
    /// An accept that shows nothing, because the domain also accepted the control recipient.
    CatchAll,
    /// The server changed its behaviour or contradicted an earlier reply, so the answer proves nothing.
    Changed,
    /// The server sent a surplus reply, so this reply may be about another recipient.
    OutOfStep,
    /// The questions about the answer got no clear reply.
    Unclear,
    /// The session ended, or had no room for the questions, before the answer was proven. The next session at the host can still
    /// prove it: see [`SessionEvidence::carry`].
    Carried,
    /// The session ended, or had no room for the questions, before the answer was proven; or there was no question that could prove
    /// the answer.
    Lost,
}

/// An answer that a checkpoint has released to the caller.
#[derive(Debug)]
pub struct Released<T> {
    /// The caller's value for the recipient.
    pub item: T,
    /// What the server answered about the recipient.
    pub held: Held,
    /// The meaning of the reply.
    pub said: Classification,
    /// What the answer is worth, judging by the later replies.
    pub proof: Proof,
}

/// The clock value of answers of an earlier session. All answers of this session come later.
const CARRIED_AT: u32 = 0;

#[derive(Debug)]
struct Entry<T> {
    item: T,
    held: Held,
    said: Classification,
    domain: u64,
    /// The value of the clock when the answer came.
    at: u32,
}

/// What the replies have shown about one domain.
#[derive(Debug, Clone, Copy, Default)]
struct Shown {
    /// When (by the clock) the domain last refused a recipient permanently because it does not exist.
    refused: Option<u32>,
    /// Whether the domain refused a control recipient, in this session or an earlier one.
    control_refused: bool,
    /// Whether an earlier session saw the domain refuse recipients.
    refused_before: bool,
    /// The result of the first control recipient in this checkpoint; `None` if not asked about yet.
    first: Option<QuestionResult>,
    /// The result of the second control recipient in this checkpoint; `None` if not asked about yet.
    second: Option<QuestionResult>,
    /// Whether a mailbox of the domain was accepted after the first control recipient and before the second.
    accepted_between: bool,
    /// Whether a mailbox of the domain was accepted after the second control recipient.
    accepted_after_second: bool,
    /// `Some` if the domain refused a recipient, then accepted its control recipient, and was asked about the refused recipient
    /// once more. `Some(false)` if the domain accepts that recipient now, otherwise `Some(true)`.
    refused_again: Option<bool>,
}

impl Shown {
    /// Whether the domain refused both control recipients, even if only in unclear words, and accepted a mailbox after each of
    /// them.
    fn discriminates(&self) -> bool {
        let refused = |seen| matches!(seen, Some(QuestionResult::Refused | QuestionResult::RefusedUnclearly));
        refused(self.first) && self.accepted_between && refused(self.second) && self.accepted_after_second
    }

    /// Ends the checkpoint: forgets the results that are valid for one checkpoint only.
    fn close(&mut self) {
        let Shown { refused, control_refused, refused_before, .. } = *self;
        *self = match self.refused_again {
            // The domain accepts every recipient except mailboxes that it closed. So its refusals show nothing.
            Some(true) => Shown::default(),
            _ => Shown { refused, control_refused, refused_before, ..Shown::default() },
        };
    }

    /// Whether an accept that came when the clock was `accepted` is proven. The domain must have refused a recipient after the
    /// accept. Also, there must be a sign that the domain distinguished its mailboxes: it refused a control recipient, or it now
    /// accepts the recipient that it refused, so it has only just begun to accept everyone.
    fn is_proven(&self, accepted: u32) -> bool {
        let refused_unknown = self.control_refused || self.refused_again == Some(false);
        refused_unknown && self.refused.is_some_and(|refused| refused > accepted)
    }

    /// Whether the domain accepted the control recipient although it refused recipients before. This is no contradiction if the
    /// domain was asked about such a recipient again and still does not accept it.
    fn contradicts(&self) -> bool {
        let before = self.refused.is_some() || self.refused_before;
        self.first == Some(QuestionResult::Accepted) && before && self.refused_again != Some(true)
    }
}

/// The answers of one session, and the replies that prove them.
#[derive(Debug)]
pub struct SessionEvidence<T> {
    entries: Vec<Entry<T>>,
    shown: BTreeMap<u64, Shown>,
    /// The number of replies so far. It serves as the clock of the session.
    clock: u32,
    /// When (by the clock) a mailbox was last accepted.
    accepted: Option<u32>,
    /// The number of refusals since the last accept. Refusals of control recipients count too. Refusals in unclear words do not.
    refused_in_a_row: u32,
    /// The number of refusals before the last accept. That accept proves them.
    refusals_proven: u32,
    refusals: u32,
    since_checkpoint: u32,
    checkpoint: u32,
    urgent: bool,
    /// The result for the known mailbox in this checkpoint.
    known: Option<QuestionResult>,
    /// The domain with the `postmaster@` that was asked about in this checkpoint, and the result. If it was accepted, the control
    /// recipient of the domain has to show whether the domain accepts every recipient.
    postmaster: Option<(u64, QuestionResult)>,
    changed: bool,
}

impl<T> Default for SessionEvidence<T> {
    fn default() -> SessionEvidence<T> {
        SessionEvidence {
            entries: Vec::new(),
            shown: BTreeMap::new(),
            clock: 0,
            accepted: None,
            refused_in_a_row: 0,
            refusals_proven: 0,
            refusals: 0,
            since_checkpoint: 0,
            checkpoint: CHECKPOINT_ANSWERS_MIN,
            urgent: false,
            known: None,
            postmaster: None,
            changed: false,
        }
    }
}

impl<T> SessionEvidence<T> {
    /// Holds the answer about a recipient until the checkpoint. `urgent`: a caller waits for the answer, so a checkpoint is due at
    /// once.
    pub fn hold(&mut self, item: T, held: Held, said: Classification, domain: u64, urgent: bool) {
        let at = match held {
            Held::Accepted => self.on_accepted(),
            Held::Refused => self.on_refused(domain),
            Held::Denied => self.on_denied(),
            Held::Unclear | Held::Decided(..) => self.tick(),
        };
        self.since_checkpoint += 1;
        self.urgent |= urgent;
        self.entries.push(Entry { item, held, said, domain, at });
    }

    /// Holds a refusal of an earlier session at the host. That session ended before the refusal was proven ([`Proof::Carried`]).
    pub fn carry(&mut self, item: T, held: Held, said: Classification, domain: u64, urgent: bool) {
        self.since_checkpoint += 1;
        self.urgent |= urgent;
        self.entries.push(Entry { item, held, said, domain, at: CARRIED_AT });
    }

    /// Whether a mailbox was accepted in this session.
    pub fn has_accepted(&self) -> bool {
        self.accepted.is_some()
    }

    /// Records an answer that the caller has used already. It is not held, but it can prove answers that are held.
    pub fn note(&mut self, held: Held, domain: u64) {
        match held {
            Held::Accepted => self.on_accepted(),
            Held::Refused => self.on_refused(domain),
            Held::Denied => self.on_denied(),
            Held::Unclear | Held::Decided(..) => self.tick(),
        };
    }

    /// Records that an earlier session saw the domain refuse a control recipient.
    pub fn on_control_refused_before(&mut self, domain: u64) {
        self.on_refused_before(domain);
        self.shown.entry(domain).or_default().control_refused = true;
    }

    /// Records that an earlier session saw the domain refuse recipients.
    pub fn on_refused_before(&mut self, domain: u64) {
        self.shown.entry(domain).or_default().refused_before = true;
    }

    /// Whether a checkpoint is due.
    pub fn is_due(&self) -> bool {
        !self.entries.is_empty() && (self.urgent || self.since_checkpoint >= self.checkpoint)
    }

    /// Whether the session holds no answers.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of refusals since the last accept.
    pub fn refused_in_a_row(&self) -> u32 {
        self.refused_in_a_row
    }

    /// The number of refusals in the session before its last accept, which proves them.
    pub fn refusals_proven(&self) -> u32 {
        self.refusals_proven
    }

    /// Whether the server changed its behaviour in this session.
    pub fn has_changed(&self) -> bool {
        self.changed
    }

    /// The newest recipient with an answer that is held. If `domain` or `held` is given, only recipients of this domain, or with
    /// this answer, count.
    pub fn recipient(&self, domain: Option<u64>, held: Option<Held>) -> Option<&T> {
        let fits = |entry: &&Entry<T>| {
            domain.is_none_or(|domain| domain == entry.domain) && held.is_none_or(|held| held == entry.held)
        };
        self.entries.iter().rev().find(fits).map(|entry| &entry.item)
    }

    /// Up to `most` of the newest recipients with an answer that is held.
    pub fn newest(&self, most: usize) -> impl Iterator<Item = &T> {
        self.entries.iter().rev().take(most).map(|entry| &entry.item)
    }

    /// The domain for a question about `postmaster@`: that of the newest answer [`Held::Refused`], or else of the newest answer
    /// [`Held::Denied`].
    pub fn postmaster_domain(&self) -> Option<u64> {
        let newest = |held| self.entries.iter().rfind(|entry| entry.held == held).map(|entry| entry.domain);
        newest(Held::Refused).or_else(|| newest(Held::Denied))
    }

    /// Calls `change` for every recipient with an answer that is held.
    pub fn each(&mut self, change: impl FnMut(&mut T)) {
        self.entries.iter_mut().map(|entry| &mut entry.item).for_each(change);
    }

    /// Removes the answers about the recipients for which `is_such` returns true, without proving them. Returns these recipients.
    pub fn take_where(&mut self, mut is_such: impl FnMut(&T) -> bool) -> Vec<T> {
        self.entries.extract_if(.., |entry| is_such(&entry.item)).map(|entry| entry.item).collect()
    }

    /// The number of domains with answers that need a control recipient as a proof.
    pub fn domains_unproven_count(&self) -> usize {
        self.domains_unproven().len()
    }

    /// The next questions, which are to be asked in one transaction and in this order. Empty if the checkpoint can be closed.
    pub fn questions(&self, context: Context) -> Vec<ProofQuestion> {
        let mut questions = self.first_controls();
        if questions.is_empty() {
            questions = self.second_controls();
        }
        if questions.is_empty() {
            questions.extend(self.refused_before());
        }
        if !self.has_known_question(&questions) {
            questions.extend(self.question_after_refusals(context, !questions.is_empty()));
        }
        questions
    }

    /// Records the result of a question.
    pub fn on_result(&mut self, question: ProofQuestion, result: QuestionResult) {
        match question {
            ProofQuestion::Control { domain, second } => self.on_control(domain, second, result),
            ProofQuestion::Known { domain } => self.on_known(domain, result),
            ProofQuestion::KnownFirst if result == QuestionResult::Accepted => {
                // The accept came before the answers that are to be proven, so it must not count as the result of the checkpoint.
                self.on_accepted();
            }
            ProofQuestion::KnownFirst => self.on_known(None, result),
            ProofQuestion::RefusedBefore { domain } => {
                let still = result != QuestionResult::Accepted;
                self.shown.entry(domain).or_default().refused_again = Some(still);
                self.tick();
            }
            // An accept counts as that of a mailbox only once the domain has refused its control recipient: see `on_control`.
            ProofQuestion::Postmaster { domain } => {
                self.postmaster = Some((domain, result));
                self.tick();
            }
        }
    }

    /// The findings of the control recipients in this checkpoint, by domain.
    pub fn findings(&self) -> impl Iterator<Item = (u64, ControlFinding)> {
        self.shown.iter().filter_map(|(&domain, shown)| {
            let finding = match shown.first? {
                QuestionResult::Refused => ControlFinding::RefusesUnknown,
                QuestionResult::Accepted => ControlFinding::AcceptsAll,
                QuestionResult::RefusedUnclearly if shown.discriminates() => ControlFinding::RefusesUnknown,
                // The second control recipient has not been asked about yet. Another session has to do that.
                QuestionResult::RefusedUnclearly if shown.second.is_none() => return None,
                QuestionResult::RefusedUnclearly | QuestionResult::Nothing => ControlFinding::Unknown,
            };
            Some((domain, finding))
        })
    }

    /// Closes the checkpoint, and releases all answers that are held, in the order of their arrival. `questions_answered`: all
    /// questions were answered, or none was needed. If it is false, the session ended first or could not ask all questions.
    pub fn close(&mut self, context: Context, questions_answered: bool) -> Vec<Released<T>> {
        let changed =
            self.known == Some(QuestionResult::Refused) || self.shown.values().any(Shown::contradicts);
        self.changed |= changed;
        let proofs: Vec<Proof> =
            self.entries.iter().map(|entry| self.proof(entry, context, questions_answered)).collect();
        let entries = std::mem::take(&mut self.entries);
        if questions_answered && !changed {
            self.checkpoint = (self.checkpoint * 2).min(CHECKPOINT_ANSWERS_MAX);
        }
        self.since_checkpoint = 0;
        self.urgent = false;
        self.known = None;
        self.postmaster = None;
        self.shown.values_mut().for_each(Shown::close);
        let release = |(entry, proof): (Entry<T>, Proof)| Released {
            item: entry.item,
            held: entry.held,
            said: entry.said,
            proof,
        };
        entries.into_iter().zip(proofs).map(release).collect()
    }

    fn proof(&self, entry: &Entry<T>, context: Context, questions_answered: bool) -> Proof {
        let shown = self.shown.get(&entry.domain).copied().unwrap_or_default();
        // The host refuses a known mailbox, and has accepted no recipient after a refusal. Perhaps it first accepted everyone.
        let turned = self.known == Some(QuestionResult::Refused) && self.refusals_proven == 0;
        let turned = turned && !context.distinguished && shown.first != Some(QuestionResult::Accepted);
        match entry.held {
            Held::Accepted if turned => Proof::Lost,
            Held::Accepted => self.proof_of_accept(entry, &shown, questions_answered),
            Held::Refused | Held::Denied => self.proof_of_refusal(entry, context, questions_answered),
            Held::Decided(..) => Proof::Proven,
            Held::Unclear if !questions_answered && shown.first.is_none() => Proof::Lost,
            Held::Unclear => {
                let refused =
                    matches!(shown.first, Some(QuestionResult::Refused | QuestionResult::RefusedUnclearly));
                let distinguishes = refused && self.accepted.is_some_and(|accepted| accepted > entry.at);
                if distinguishes { Proof::Proven } else { Proof::Unclear }
            }
        }
    }

    fn proof_of_accept(&self, entry: &Entry<T>, shown: &Shown, questions_answered: bool) -> Proof {
        match shown.first {
            _ if shown.is_proven(entry.at) || shown.discriminates() => Proof::Proven,
            Some(QuestionResult::Accepted) if shown.contradicts() => Proof::Changed,
            Some(QuestionResult::Accepted) => Proof::CatchAll,
            Some(_) if questions_answered => Proof::Unclear,
            _ => Proof::Lost,
        }
    }

    fn proof_of_refusal(&self, entry: &Entry<T>, context: Context, questions_answered: bool) -> Proof {
        let accepted_after = self.accepted.is_some_and(|accepted| accepted > entry.at);
        let result = self.known.or_else(|| self.postmaster_result());
        let is_carried = entry.at == CARRIED_AT;
        let needs_none = context.trusted || !(is_carried || self.is_run_to_prove(context));
        match result {
            _ if accepted_after => Proof::Proven,
            // The host refuses a known mailbox.
            _ if self.known == Some(QuestionResult::Refused) => Proof::Changed,
            None if context.trusted => Proof::Proven,
            None if needs_none => Proof::Assumed,
            None if self.changed => Proof::Changed,
            None if !questions_answered && (is_carried || self.may_be_carried(entry)) => Proof::Carried,
            None => Proof::Lost,
            Some(_) if self.known.is_some() => Proof::Unclear,
            Some(_) if self.changed => Proof::Changed,
            // The domain accepts everyone else now. So it may have begun to do so after the refusals, and no accept shows what they
            // were worth.
            Some(QuestionResult::Accepted) => Proof::Unclear,
            // There is no known mailbox, and nothing shows that `postmaster@` is one. So no reply shows whether the host refuses
            // everyone.
            Some(_) => Proof::Assumed,
        }
    }

    /// The result for `postmaster@`. If it was accepted, the result for the control recipient of its domain, which decides what the
    /// accept shows. `None` if one of them was not asked about.
    fn postmaster_result(&self) -> Option<QuestionResult> {
        match self.postmaster? {
            (domain, QuestionResult::Accepted) => self.shown.get(&domain)?.first,
            (_, result) => Some(result),
        }
    }

    /// The domain that accepted `postmaster@` in this checkpoint.
    fn postmaster_accepted_at(&self) -> Option<u64> {
        self.postmaster.filter(|(_, result)| *result == QuestionResult::Accepted).map(|(domain, _)| domain)
    }

    /// Whether the next session can still prove this refusal ([`REFUSALS_CARRIED_MAX`]): this session had few refusals, and it had
    /// an accept before this refusal.
    fn may_be_carried(&self, entry: &Entry<T>) -> bool {
        self.refusals <= REFUSALS_CARRIED_MAX && self.accepted.is_some_and(|accepted| accepted < entry.at)
    }

    /// Whether the refusals since the last accept need a proof: if the server has changed, if there is a known mailbox to ask
    /// about, or if the refusals are many and `postmaster@` can be asked about.
    fn is_run_to_prove(&self, context: Context) -> bool {
        let long = self.refused_in_a_row >= REFUSALS_IN_A_ROW_MIN && !context.no_postmaster;
        self.refused_in_a_row > 0 && (self.changed || self.has_known(context) || long)
    }

    fn has_known(&self, context: Context) -> bool {
        context.known || self.recipient(None, Some(Held::Accepted)).is_some()
    }

    /// The domains with unproven accepts or with refusals in unclear words, the newest first. A domain that accepted `postmaster@`
    /// comes before them.
    fn domains_unproven(&self) -> Vec<u64> {
        let mut domains: Vec<u64> = self.postmaster_accepted_at().into_iter().collect();
        for entry in self.entries.iter().rev() {
            let is_proven = || self.shown.get(&entry.domain).is_some_and(|shown| shown.is_proven(entry.at));
            let needs_control = matches!(entry.held, Held::Accepted | Held::Unclear);
            let unproven = || needs_control && (entry.held == Held::Unclear || !is_proven());
            // Most recipients have the domain of the one before them, and this is called before each transaction.
            if domains.last() != Some(&entry.domain) && unproven() && !domains.contains(&entry.domain) {
                domains.push(entry.domain);
            }
        }
        domains
    }

    fn first_controls(&self) -> Vec<ProofQuestion> {
        let unasked = |domain: &u64| self.shown.get(domain).is_none_or(|shown| shown.first.is_none());
        let control = |domain| ProofQuestion::Control { domain, second: false };
        self.domains_unproven().into_iter().filter(unasked).map(control).collect()
    }

    /// For one domain at a time: questions about a mailbox of the domain, the second control recipient, and the mailbox again.
    fn second_controls(&self) -> Vec<ProofQuestion> {
        let wants = |domain: &u64| {
            let shown = self.shown.get(domain).copied().unwrap_or_default();
            let accepts = self.recipient(Some(*domain), Some(Held::Accepted)).is_some();
            accepts && shown.first == Some(QuestionResult::RefusedUnclearly) && shown.second.is_none()
        };
        let Some(domain) = self.domains_unproven().into_iter().find(wants) else { return Vec::new() };
        let known = ProofQuestion::Known { domain: Some(domain) };
        vec![known, ProofQuestion::Control { domain, second: true }, known]
    }

    /// A question about a recipient that its domain refused, before the domain accepted the control recipient. If the domain
    /// accepts the recipient now, the domain has changed. Otherwise the domain may always have accepted everyone else.
    fn refused_before(&self) -> Option<ProofQuestion> {
        let wants = |shown: &Shown| {
            shown.first == Some(QuestionResult::Accepted)
                && shown.refused.is_some()
                && shown.refused_again.is_none()
        };
        let wants = |(domain, shown): (&u64, &Shown)| {
            let held = self.recipient(Some(*domain), Some(Held::Refused)).is_some();
            (held && wants(shown)).then_some(*domain)
        };
        self.shown.iter().find_map(wants).map(|domain| ProofQuestion::RefusedBefore { domain })
    }

    fn has_known_question(&self, questions: &[ProofQuestion]) -> bool {
        questions.iter().any(|question| matches!(question, ProofQuestion::Known { .. }))
    }

    /// The question that shows whether the host still accepts mailboxes after its last refusals, if they need a proof. `more`:
    /// other questions come before it.
    fn question_after_refusals(&self, context: Context, more: bool) -> Option<ProofQuestion> {
        let waits = |entry: &Entry<T>| {
            let unproven = self.accepted.is_none_or(|accepted| accepted < entry.at);
            unproven && !matches!(entry.held, Held::Accepted | Held::Decided(..))
        };
        // An accepted `postmaster@` may already be recorded as the known mailbox, before the control recipient has shown that its
        // accept proves anything. So it is not asked about here.
        let has_result = self.known.is_some() || self.postmaster_accepted_at().is_some();
        if context.trusted || has_result || !self.entries.iter().any(waits) {
            return None;
        }
        if self.has_known(context) {
            return Some(ProofQuestion::Known { domain: None });
        }
        let asked = self.postmaster.is_some() || context.no_postmaster;
        let is_wanted = !more && !asked && self.refused_in_a_row >= REFUSALS_IN_A_ROW_MIN;
        let domain = self.postmaster_domain().filter(|_| is_wanted)?;
        Some(ProofQuestion::Postmaster { domain })
    }

    fn on_control(&mut self, domain: u64, second: bool, result: QuestionResult) {
        match result {
            QuestionResult::Refused => {
                if !second && self.postmaster_accepted_at() == Some(domain) {
                    // The domain distinguishes `postmaster@` from a recipient that does not exist.
                    self.on_accepted();
                }
                self.on_refused(domain);
                self.shown.entry(domain).or_default().control_refused = true;
            }
            // A control recipient does not exist. So neither its accept nor an unclear refusal of it says anything about real
            // mailboxes.
            _ => {
                self.tick();
            }
        }
        let shown = self.shown.entry(domain).or_default();
        *(if second { &mut shown.second } else { &mut shown.first }) = Some(result);
    }

    fn on_known(&mut self, domain: Option<u64>, result: QuestionResult) {
        self.known = Some(result);
        if result != QuestionResult::Accepted {
            self.tick();
            return;
        }
        self.on_accepted();
        if let Some(shown) = domain.and_then(|domain| self.shown.get_mut(&domain)) {
            if shown.second.is_some() {
                shown.accepted_after_second = true;
            } else {
                shown.accepted_between = true;
            }
        }
    }

    fn on_accepted(&mut self) -> u32 {
        let at = self.tick();
        self.accepted = Some(at);
        self.refused_in_a_row = 0;
        self.refusals_proven = self.refusals;
        at
    }

    fn on_refused(&mut self, domain: u64) -> u32 {
        let at = self.on_denied();
        self.shown.entry(domain).or_default().refused = Some(at);
        at
    }

    fn on_denied(&mut self) -> u32 {
        self.refused_in_a_row += 1;
        self.refusals += 1;
        self.tick()
    }

    fn tick(&mut self) -> u32 {
        self.clock += 1;
        self.clock
    }
}

#[cfg(test)]
mod tests;
