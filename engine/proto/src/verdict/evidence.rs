//! The proof of the answers of one session.
//!
//! An answer means something only while the server distinguishes its mailboxes. Some servers accept every recipient while their
//! directory is down. Some refuse every recipient if the client has asked about too many unknown ones. A pool may have one node
//! that does either. So a session holds its answers until a *checkpoint*. There, the later replies of the session decide whether
//! the answers count:
//! - An accept counts if a recipient of the same domain was refused after it, permanently and because it does not exist: another
//!   row, or the control recipient if no row was refused. A row is enough only if the domain refused a control recipient within the
//!   last hour, because a domain that accepts every recipient may still refuse a mailbox that it closed.
//! - A refusal counts if a mailbox was accepted after it: another row, or a *known mailbox*, which this host accepted before. If
//!   there is no known mailbox, mailprobe asks about `postmaster@` the domain (RFC 5321 4.5.1) after [`REFUSALS_IN_A_ROW_MIN`]
//!   refusals in a row; fewer count without a question. If `postmaster@` is refused too, the refusals count. If it is accepted, the
//!   reply to the control recipient shows whether it is a mailbox.
//! - If the control recipient is refused in unclear words, mailprobe asks about a mailbox of the domain, then about a second
//!   control recipient of another shape, and then about the mailbox again. If the mailbox is accepted both times and the second
//!   control recipient is refused, the domain distinguishes its mailboxes.
//!
//! If a session ends after few refusals, before they are proven, the next session at the host takes them over
//! ([`SessionEvidence::carry`]), and an accept there proves them. All other answers without a proof do not count: mailprobe asks
//! about these recipients in another session, or they end as unverifiable.
//!
//! The first checkpoint is due after [`CHECKPOINT_MIN`] answers, and the last one at the end of the session. Each checkpoint that
//! finds the server unchanged doubles the length of the next one, up to [`CHECKPOINT_MAX`].
//!
//! Here, a domain is a keyed hash, and a recipient is a value of the caller.

use super::catch_all::ControlFinding;
use super::classify::Classification;
use super::{Class, Scope};
use crate::limits::{CHECKPOINT_MAX, CHECKPOINT_MIN, REFUSALS_CARRIED_MAX, REFUSALS_IN_A_ROW_MIN};
use std::collections::BTreeMap;

/// The kind of an answer about a recipient of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// The recipient was accepted.
    Accepted,
    /// The recipient was refused permanently, because there is no such mailbox.
    Refused,
    /// The recipient was refused permanently for another reason of its own, for example because it is disabled, or because its
    /// domain takes no mail.
    Denied,
    /// The recipient was refused permanently with the enhanced code of a missing mailbox, but in words that mailprobe does not
    /// understand.
    Unclear,
}

/// A question to the server. The checkpoint needs the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProofQuestion {
    /// The control recipient of a domain.
    Control {
        /// The domain.
        domain: u64,
        /// Whether it is the second control recipient, which has another shape.
        second: bool,
    },
    /// A mailbox that was accepted before, at one domain or at any domain of the host.
    Known {
        /// The domain, if the mailbox must be of this domain.
        domain: Option<u64>,
    },
    /// A mailbox that was accepted before. It is asked about before all others if the host may end the session after the first
    /// refusal.
    KnownFirst,
    /// A recipient of this domain. The domain refused it earlier, and then accepted the control recipient.
    RefusedBefore {
        /// The domain.
        domain: u64,
    },
    /// `postmaster@` the domain of the last refusal.
    Postmaster,
}

/// The result of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuestionResult {
    /// The recipient was accepted.
    Accepted,
    /// The recipient was refused permanently, because it does not exist.
    Refused,
    /// The recipient was refused permanently, in words that prove nothing by themselves.
    RefusedUnclearly,
    /// Anything else: a transient reply, a block, no reply, or no recipient to ask about.
    Nothing,
}

impl QuestionResult {
    /// The result that a reply to a question gives.
    pub fn of(said: &Classification) -> QuestionResult {
        match ControlFinding::of(said) {
            ControlFinding::AcceptsAll => QuestionResult::Accepted,
            ControlFinding::RefusesUnknown => QuestionResult::Refused,
            ControlFinding::Unknown if said.permanent && is_unclear(said) => QuestionResult::RefusedUnclearly,
            ControlFinding::Unknown => QuestionResult::Nothing,
        }
    }
}

/// Whether a permanent refusal may still be about the recipient: many servers say "access denied" or send a bare 550 for a missing
/// mailbox. A refusal that everyone may get is not about the recipient, and neither is one about the session or about relaying.
fn is_unclear(said: &Classification) -> bool {
    matches!(said.class, Class::Unclear | Class::Policy) && !said.to_all && said.scope != Scope::Session
}

/// Facts from outside the session on which its proofs depend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Context {
    /// The operator of the host is trusted to distinguish its mailboxes at all times.
    pub trusted: bool,
    /// There is a known mailbox to ask about, which was accepted within [`crate::limits::KNOWN_MAILBOX_TTL`] or is a canary.
    pub known: bool,
    /// `postmaster@` the domain need not be asked about, for example because it was refused within the last hour.
    pub no_postmaster: bool,
}

/// What an answer is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// The answer counts.
    Proven,
    /// A refusal without an accept after it, and without a contradiction. It counts, unless the caller knows of a recent change of
    /// the host.
    Assumed,
    /// An accept that shows nothing, because the domain accepts every recipient.
    CatchAll,
    /// The server changed its behaviour, or contradicted what it showed before, so the answer proves nothing.
    Changed,
    /// The questions that were to prove the answer got no clear reply.
    Unclear,
    /// The session ended before the answer was proven, but the next session at the host can still prove it: see
    /// [`SessionEvidence::carry`].
    Carried,
    /// The session ended before the answer was proven.
    Lost,
}

/// An answer that was released.
#[derive(Debug)]
pub struct Released<T> {
    /// The caller's value for the recipient.
    pub item: T,
    /// The kind of the answer.
    pub held: Held,
    /// The meaning of the reply.
    pub said: Classification,
    /// What the answer is worth, by the later replies.
    pub proof: Proof,
}

/// The time of answers of an earlier session. It is before all answers of this session.
const CARRIED_AT: u32 = 0;

/// An answer that is held.
#[derive(Debug)]
struct Entry<T> {
    item: T,
    held: Held,
    said: Classification,
    domain: u64,
    at: u32,
}

/// What a session has shown about one domain.
#[derive(Debug, Clone, Copy, Default)]
struct Shown {
    /// The time at which the domain last refused a recipient permanently because it does not exist.
    refused: Option<u32>,
    /// Whether the domain refused a control recipient, in this session or an earlier one.
    control_refused: bool,
    /// Whether an earlier session saw the domain refuse recipients.
    refused_elsewhere: bool,
    /// The results of the first and the second control recipient in this checkpoint.
    first: Option<QuestionResult>,
    second: Option<QuestionResult>,
    /// Whether a mailbox of the domain was accepted between the two control recipients, and after the second.
    accepted_between: bool,
    accepted_after_second: bool,
    /// If the domain refused a recipient and then accepted its control recipient: whether it still refuses that recipient. `None`
    /// if it was not asked again.
    refused_again: Option<bool>,
}

impl Shown {
    /// Whether both control recipients were refused, if only in unclear words, and a mailbox was accepted after each.
    fn discriminates(&self) -> bool {
        let refused = |told| matches!(told, Some(QuestionResult::Refused | QuestionResult::RefusedUnclearly));
        refused(self.first) && self.accepted_between && refused(self.second) && self.accepted_after_second
    }

    /// Forgets the results that are valid for one checkpoint only.
    fn close(&mut self) {
        let Shown { refused, control_refused, refused_elsewhere, .. } = *self;
        *self = match self.refused_again {
            // The domain accepts every recipient except mailboxes that it closed. So its refusals show nothing.
            Some(true) => Shown::default(),
            _ => Shown { refused, control_refused, refused_elsewhere, ..Shown::default() },
        };
    }

    /// Whether an accept at this time is proven. The domain must have refused a recipient after it, and must have distinguished its
    /// mailboxes until then: it refused a control recipient, or it now accepts the recipient that it refused, so it has only just
    /// begun to accept everyone.
    fn is_proven(&self, accepted: u32) -> bool {
        let refused_unknown = self.control_refused || self.refused_again == Some(false);
        refused_unknown && self.refused.is_some_and(|refused| refused > accepted)
    }

    /// Whether the control recipient was accepted although the domain refused recipients before. It is no contradiction if the
    /// domain was asked again and still refuses.
    fn contradicts(&self) -> bool {
        let before = self.refused.is_some() || self.refused_elsewhere;
        self.first == Some(QuestionResult::Accepted) && before && self.refused_again != Some(true)
    }
}

/// The answers of one session, and the replies that prove them.
#[derive(Debug)]
pub struct SessionEvidence<T> {
    entries: Vec<Entry<T>>,
    shown: BTreeMap<u64, Shown>,
    /// The number of replies so far, which serves as a clock.
    clock: u32,
    /// The time of the last accept.
    accepted: Option<u32>,
    /// The number of refusals since the last accept, with those of control recipients.
    refused_in_a_row: u32,
    /// The number of refusals before the last accept. Until that accept, the server was unchanged.
    refusals_proven: u32,
    refusals: u32,
    since_checkpoint: u32,
    checkpoint: u32,
    urgent: bool,
    /// The results of the known mailbox and of `postmaster@` in this checkpoint.
    known: Option<QuestionResult>,
    postmaster: Option<QuestionResult>,
    /// The domain at which `postmaster@` was accepted. Only its control recipient shows whether that accept means anything.
    postmaster_at: Option<u64>,
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
            checkpoint: CHECKPOINT_MIN,
            urgent: false,
            known: None,
            postmaster: None,
            postmaster_at: None,
            changed: false,
        }
    }
}

impl<T> SessionEvidence<T> {
    /// Holds the answer about a recipient until the checkpoint. `urgent`: a caller waits for the answer, so the checkpoint is due
    /// at once.
    pub fn hold(&mut self, item: T, held: Held, said: Classification, domain: u64, urgent: bool) {
        let at = match held {
            Held::Accepted => self.on_accepted(),
            Held::Refused => self.on_refused(domain),
            Held::Denied => self.on_denied(),
            Held::Unclear => self.tick(),
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

    /// Records an answer that the caller has used already, and does not hold it. It is evidence for the answers that are held.
    pub fn note(&mut self, held: Held, domain: u64) {
        match held {
            Held::Accepted => self.on_accepted(),
            Held::Refused => self.on_refused(domain),
            Held::Denied => self.on_denied(),
            Held::Unclear => self.tick(),
        };
    }

    /// Records that an earlier session saw the domain refuse a control recipient.
    pub fn on_control_refused_elsewhere(&mut self, domain: u64) {
        self.on_refused_elsewhere(domain);
        self.shown.entry(domain).or_default().control_refused = true;
    }

    /// Records that an earlier session saw the domain refuse recipients.
    pub fn on_refused_elsewhere(&mut self, domain: u64) {
        self.shown.entry(domain).or_default().refused_elsewhere = true;
    }

    /// Whether a checkpoint is due.
    pub fn is_due(&self) -> bool {
        !self.entries.is_empty() && (self.urgent || self.since_checkpoint >= self.checkpoint)
    }

    /// Whether the session holds no answers.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of refusals in a row, since the last accept.
    pub fn refused_in_a_row(&self) -> u32 {
        self.refused_in_a_row
    }

    /// The number of refusals in the session up to its last accept. They are proven, because the server was unchanged then.
    pub fn refusals_proven(&self) -> u32 {
        self.refusals_proven
    }

    /// Whether the server changed its behaviour in this session.
    pub fn has_changed(&self) -> bool {
        self.changed
    }

    /// The newest recipient that is held, of this domain and with this kind of answer if they are given.
    pub fn recipient(&self, domain: Option<u64>, held: Option<Held>) -> Option<&T> {
        let fits = |entry: &&Entry<T>| {
            domain.is_none_or(|domain| domain == entry.domain) && held.is_none_or(|held| held == entry.held)
        };
        self.entries.iter().rev().find(fits).map(|entry| &entry.item)
    }

    /// Calls the function for every recipient that is held.
    pub fn each(&mut self, change: impl FnMut(&mut T)) {
        self.entries.iter_mut().map(|entry| &mut entry.item).for_each(change);
    }

    /// Takes the recipients for which the condition holds, without a proof.
    pub fn take_where(&mut self, mut is_such: impl FnMut(&T) -> bool) -> Vec<T> {
        self.entries.extract_if(.., |entry| is_such(&entry.item)).map(|entry| entry.item).collect()
    }

    /// The number of domains with answers that need a control recipient as a proof.
    pub fn domains_unproven_count(&self) -> usize {
        self.domains_unproven().len()
    }

    /// The next questions, for one transaction and in this order. Empty if the checkpoint can close.
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
    pub fn on_told(&mut self, question: ProofQuestion, told: QuestionResult) {
        match question {
            ProofQuestion::Control { domain, second } => self.on_control(domain, second, told),
            ProofQuestion::Known { domain } => self.on_known(domain, told),
            ProofQuestion::KnownFirst if told == QuestionResult::Accepted => {
                // This accept says nothing about later answers, so it is not recorded as the result of the checkpoint.
                self.on_accepted();
            }
            ProofQuestion::KnownFirst => self.on_known(None, told),
            ProofQuestion::RefusedBefore { domain } => {
                let still = told != QuestionResult::Accepted;
                self.shown.entry(domain).or_default().refused_again = Some(still);
                self.tick();
            }
            ProofQuestion::Postmaster => {
                self.postmaster = Some(told);
                if told == QuestionResult::Accepted {
                    let refused = |entry: &&Entry<T>| entry.held != Held::Accepted;
                    self.postmaster_at = self.entries.iter().rfind(refused).map(|entry| entry.domain);
                    self.on_accepted();
                }
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
                // Another session has to ask about the second control recipient.
                QuestionResult::RefusedUnclearly if shown.second.is_none() => return None,
                QuestionResult::RefusedUnclearly | QuestionResult::Nothing => ControlFinding::Unknown,
            };
            Some((domain, finding))
        })
    }

    /// Closes the checkpoint, and releases all held answers in the order of their arrival. `questions_answered`: all questions were
    /// answered, or none was needed. Otherwise the session ended first, or had no room for the questions.
    pub fn close(&mut self, context: Context, questions_answered: bool) -> Vec<Released<T>> {
        let changed =
            self.known == Some(QuestionResult::Refused) || self.shown.values().any(Shown::contradicts);
        self.changed |= changed;
        let proofs: Vec<Proof> =
            self.entries.iter().map(|entry| self.proof(entry, context, questions_answered)).collect();
        let entries = std::mem::take(&mut self.entries);
        if questions_answered && !changed {
            self.checkpoint = (self.checkpoint * 2).min(CHECKPOINT_MAX);
        }
        self.since_checkpoint = 0;
        self.urgent = false;
        self.known = None;
        self.postmaster = None;
        self.postmaster_at = None;
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
        match entry.held {
            Held::Accepted => self.proof_of_accept(entry, &shown, questions_answered),
            Held::Refused | Held::Denied => self.proof_of_refusal(entry, context, questions_answered),
            Held::Unclear if !questions_answered && shown.first.is_none() => Proof::Lost,
            Held::Unclear => {
                let refused =
                    matches!(shown.first, Some(QuestionResult::Refused | QuestionResult::RefusedUnclearly));
                let told_apart = refused && self.accepted.is_some_and(|accepted| accepted > entry.at);
                if told_apart { Proof::Proven } else { Proof::Unclear }
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
        let told = self.known.or(self.postmaster);
        let is_carried = entry.at == CARRIED_AT;
        let needs_none = context.trusted || !(is_carried || self.is_run_to_prove(context));
        match told {
            _ if accepted_after => Proof::Proven,
            // The host refuses a mailbox that it accepted before.
            _ if self.known == Some(QuestionResult::Refused) => Proof::Changed,
            None if context.trusted => Proof::Proven,
            None if needs_none => Proof::Assumed,
            None if self.changed => Proof::Changed,
            None if !questions_answered && (is_carried || self.may_be_carried(entry)) => Proof::Carried,
            None => Proof::Lost,
            // There is no known mailbox, and `postmaster@` was not accepted either. So nothing shows whether the host refuses
            // everyone.
            Some(_) if self.known.is_none() && !self.changed => Proof::Assumed,
            Some(_) if self.known.is_none() => Proof::Changed,
            Some(_) => Proof::Unclear,
        }
    }

    /// Whether the next session can still prove this refusal ([`REFUSALS_CARRIED_MAX`]): this session had few refusals, and an
    /// accept before this one.
    fn may_be_carried(&self, entry: &Entry<T>) -> bool {
        self.refusals <= REFUSALS_CARRIED_MAX && self.accepted.is_some_and(|accepted| accepted < entry.at)
    }

    /// Whether the refusals since the last accept need a proof. They do if the server has changed, if there is a known mailbox to
    /// ask about, or if they are many and `postmaster@` can be asked about.
    fn is_run_to_prove(&self, context: Context) -> bool {
        let long = self.refused_in_a_row >= REFUSALS_IN_A_ROW_MIN && !context.no_postmaster;
        self.refused_in_a_row > 0 && (self.changed || self.has_known(context) || long)
    }

    fn has_known(&self, context: Context) -> bool {
        context.known || self.recipient(None, Some(Held::Accepted)).is_some()
    }

    /// The domains with unproven accepts or with refusals that were not understood, the newest first. A domain at which
    /// `postmaster@` was accepted comes before them.
    fn domains_unproven(&self) -> Vec<u64> {
        let mut domains: Vec<u64> = self.postmaster_at.into_iter().collect();
        for entry in self.entries.iter().rev() {
            let shown = self.shown.get(&entry.domain);
            let unproven = match entry.held {
                Held::Accepted => shown.is_none_or(|shown| !shown.is_proven(entry.at)),
                Held::Refused | Held::Denied => false,
                Held::Unclear => true,
            };
            if unproven && !domains.contains(&entry.domain) {
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

    /// Questions about a mailbox of the domain, about the second control recipient, and about the mailbox again. For one domain at
    /// a time.
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

    /// Asks again about a refused recipient of a domain that has since accepted its control recipient. If the domain accepts the
    /// recipient now, it has changed. Otherwise it may always have accepted everyone else.
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

    /// The question that shows whether the host still accepts mailboxes after its last refusals. `more`: other questions come
    /// before it.
    fn question_after_refusals(&self, context: Context, more: bool) -> Option<ProofQuestion> {
        let waits = |entry: &Entry<T>| {
            let unproven = self.accepted.is_none_or(|accepted| accepted < entry.at);
            unproven && entry.held != Held::Accepted
        };
        if context.trusted || self.known.is_some() || !self.entries.iter().any(waits) {
            return None;
        }
        if self.has_known(context) {
            return Some(ProofQuestion::Known { domain: None });
        }
        let asked = self.postmaster.is_some() || context.no_postmaster;
        (!more && !asked && self.refused_in_a_row >= REFUSALS_IN_A_ROW_MIN)
            .then_some(ProofQuestion::Postmaster)
    }

    fn on_control(&mut self, domain: u64, second: bool, told: QuestionResult) {
        match told {
            QuestionResult::Refused => {
                self.on_refused(domain);
                self.shown.entry(domain).or_default().control_refused = true;
            }
            // Neither an accept nor an unclear reply for a nonexistent recipient says anything about real mailboxes.
            _ => {
                self.tick();
            }
        }
        let shown = self.shown.entry(domain).or_default();
        *(if second { &mut shown.second } else { &mut shown.first }) = Some(told);
    }

    fn on_known(&mut self, domain: Option<u64>, told: QuestionResult) {
        self.known = Some(told);
        if told != QuestionResult::Accepted {
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
