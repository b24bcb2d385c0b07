//! The proof of the answers of one session.
//!
//! A reply has a meaning only while the server tells mailboxes apart. Some servers accept everyone when their directory is down.
//! Some refuse everyone to a client that asked about too many unknown recipients. A pool may have a node that does either. So a
//! session holds its answers until a *checkpoint*, and releases them because of later replies of the same session:
//! - An accept counts if a recipient of the same domain was refused permanently, for itself, after it: another row, or the control
//!   recipient if no row was refused. A row serves only if a control recipient of the domain was refused within the last hour,
//!   because a domain that accepts everyone may still refuse a mailbox that it closed.
//! - Refusals count if a mailbox was accepted after them: another row, or a *known mailbox*, which this host accepted before. If none
//!   is known, a run of [`RUN_MIN`] refusals asks about `postmaster@` the domain (RFC 5321 4.5.1). If that is refused too, the refusals
//!   count. If it is accepted, the control recipient shows whether it is a mailbox.
//! - A control recipient with an unclear refusal also shows discrimination, if a mailbox of the domain is accepted again after it, and
//!   once more after a second control recipient of another shape.
//!
//! If a session ends after few refusals, before they are proven, they are carried into the next session at the host
//! ([`SessionEvidence::carry`]): an accept there proves them. Everything else is no proof. Then the recipients are asked about in
//! another session, or end as unverifiable.
//!
//! A checkpoint closes after [`CHECKPOINT_MIN`] answers and at the end of the session. Each checkpoint that finds the server
//! unchanged doubles the next one, up to [`CHECKPOINT_MAX`].
//!
//! Domains are keyed hashes. Recipients are values of the caller.

use super::catch_all::ControlFinding;
use super::classify::Classification;
use super::{Class, Scope};
use crate::limits::{CHECKPOINT_MAX, CHECKPOINT_MIN, REFUSALS_CARRIED_MAX, RUN_MIN};
use std::collections::BTreeMap;

/// The kind of an answer to a recipient of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// The recipient was accepted.
    Accepted,
    /// It was refused permanently and for itself: there is no such mailbox.
    Refused,
    /// It was refused permanently and for itself, for another reason: it is disabled, or its domain takes no mail.
    Denied,
    /// It was refused permanently, with a code that is of the recipient and words that were not understood.
    Unclear,
}

/// A question that the checkpoint needs an answer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProofQuestion {
    /// The control recipient of this domain. `second`: one of another shape.
    Control {
        /// The domain.
        domain: u64,
        /// Of another shape than the first.
        second: bool,
    },
    /// A mailbox that was accepted before: of this domain, or any of the host.
    Known {
        /// The domain, where it has to be this one.
        domain: Option<u64>,
    },
    /// A mailbox that was accepted before, in front of recipients that the session may end at.
    KnownFirst,
    /// A recipient of this domain that was refused before: the control recipient was accepted behind it.
    RefusedBefore {
        /// The domain.
        domain: u64,
    },
    /// `postmaster@` the domain of the last refusal.
    Postmaster,
}

/// The result of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// The recipient of the question was accepted.
    Accepted,
    /// It was refused permanently and for itself.
    Refused,
    /// It was refused permanently in words that prove nothing alone.
    RefusedUnclearly,
    /// Neither: a transient reply, a block, no reply.
    Nothing,
}

impl Told {
    /// The result that a reply to a question gives.
    pub fn of(said: &Classification) -> Told {
        match ControlFinding::of(said) {
            ControlFinding::AcceptsAll => Told::Accepted,
            ControlFinding::RefusesUnknown => Told::Refused,
            ControlFinding::Unknown if said.permanent && is_unclear(said) => Told::RefusedUnclearly,
            ControlFinding::Unknown => Told::Nothing,
        }
    }
}

/// A permanent refusal that may still be about the recipient: "access denied" and a bare 550 are used loosely. A refusal for everyone
/// is not, and a host that does not relay refuses domains.
fn is_unclear(said: &Classification) -> bool {
    matches!(said.class, Class::Unclear | Class::Policy) && !said.to_all && said.scope != Scope::Session
}

/// The facts beside the session that its proofs depend on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Context {
    /// The host's operator is known to tell mailboxes apart at all times.
    pub honest: bool,
    /// The host has a known mailbox: it accepted one within [`crate::limits::KNOWN_MAILBOX_TTL`].
    pub known: bool,
    /// `postmaster@` the domain was refused within the last hour.
    pub no_postmaster: bool,
}

/// The value of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// The answer counts.
    Proven,
    /// A refusal without a contradiction and without an accept after it. It counts if nothing else is known of the host.
    Assumed,
    /// An accept that shows nothing: the domain accepts everyone.
    CatchAll,
    /// The server changed its behaviour, or contradicts what it showed before: it proves nothing.
    Changed,
    /// The questions after it got no clear reply.
    Unclear,
    /// The session ended before it could be proven, and the next one at the host can still prove it: see
    /// [`SessionEvidence::carry`].
    Carried,
    /// The session ended before it could be proven.
    Lost,
}

/// An answer that was released.
#[derive(Debug)]
pub struct Released<T> {
    /// The caller's value for the recipient.
    pub item: T,
    /// The kind of the answer.
    pub held: Held,
    /// The reply as it was read.
    pub said: Classification,
    /// The value of the answer, by the replies after it.
    pub proof: Proof,
}

/// The time of answers of an earlier session: before all of this one.
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

/// What a session has shown about a domain.
#[derive(Debug, Clone, Copy, Default)]
struct Shown {
    /// When a recipient of the domain was last refused, permanently and for itself.
    refused: Option<u32>,
    /// Whether a control recipient of the domain was refused, in this session or an earlier one.
    control_refused: bool,
    refused_elsewhere: bool,
    /// The results of the control recipients in this checkpoint.
    first: Option<Told>,
    second: Option<Told>,
    /// A mailbox of the domain was accepted behind the first, and behind the second.
    accepted_between: bool,
    accepted_behind: bool,
    /// A recipient that was refused before the first control recipient was accepted: whether it still is.
    refused_again: Option<bool>,
}

impl Shown {
    /// Two control recipients were refused in unclear words, with an accept behind each.
    fn discriminates(&self) -> bool {
        let refused = |told| matches!(told, Some(Told::Refused | Told::RefusedUnclearly));
        refused(self.first) && self.accepted_between && refused(self.second) && self.accepted_behind
    }

    /// Forgets what holds for one checkpoint alone.
    fn close(&mut self) {
        let Shown { refused, control_refused, refused_elsewhere, .. } = *self;
        *self = match self.refused_again {
            // It accepts everyone but those that it closed.
            Some(true) => Shown::default(),
            _ => Shown { refused, control_refused, refused_elsewhere, ..Shown::default() },
        };
    }

    /// Whether a refusal of the domain followed an accept at this time, and the domain refused unknown recipients then: a
    /// control recipient, or one that it accepts now that it accepts everyone.
    fn is_proven(&self, accepted: u32) -> bool {
        let refused_unknown = self.control_refused || self.refused_again == Some(false);
        refused_unknown && self.refused.is_some_and(|refused| refused > accepted)
    }

    /// Whether the control recipient was accepted although the domain refused recipients before.
    fn contradicts(&self) -> bool {
        let before = self.refused.is_some() || self.refused_elsewhere;
        self.first == Some(Told::Accepted) && before && self.refused_again != Some(true)
    }
}

/// The answers of one session, and what they prove.
#[derive(Debug)]
pub struct SessionEvidence<T> {
    entries: Vec<Entry<T>>,
    shown: BTreeMap<u64, Shown>,
    /// Number of answers so far: the time of this machine.
    clock: u32,
    /// When a mailbox was last accepted.
    accepted: Option<u32>,
    /// Refusals since then, control recipients among them.
    run: u32,
    /// Refusals in the session before the last accept: it was unchanged until then.
    refusals_proven: u32,
    refusals: u32,
    since_checkpoint: u32,
    checkpoint: u32,
    urgent: bool,
    /// The results of a known mailbox and of `postmaster@` in this checkpoint.
    known: Option<Told>,
    postmaster: Option<Told>,
    /// The domain of which `postmaster@` was accepted: its control recipient shows whether that means anything.
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
            run: 0,
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
    /// Holds the answer to a recipient. `urgent`: a caller waits for it, so the checkpoint closes at once.
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

    /// Takes in a refusal that an earlier session at the host ended behind ([`Proof::Carried`]).
    pub fn carry(&mut self, item: T, held: Held, said: Classification, domain: u64, urgent: bool) {
        self.since_checkpoint += 1;
        self.urgent |= urgent;
        self.entries.push(Entry { item, held, said, domain, at: CARRIED_AT });
    }

    /// Whether a mailbox was accepted in this session.
    pub fn has_accepted(&self) -> bool {
        self.accepted.is_some()
    }

    /// The caller got an answer and does not hold it: it counts as evidence for the others.
    pub fn note(&mut self, held: Held, domain: u64) {
        match held {
            Held::Accepted => self.on_accepted(),
            Held::Refused => self.on_refused(domain),
            Held::Denied => self.on_denied(),
            Held::Unclear => self.tick(),
        };
    }

    /// An earlier session saw the domain refuse a control recipient.
    pub fn on_control_refused_elsewhere(&mut self, domain: u64) {
        self.on_refused_elsewhere(domain);
        self.shown.entry(domain).or_default().control_refused = true;
    }

    /// An earlier session saw the domain refuse a recipient that this one accepts.
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

    /// Refusals in a row since the last accept.
    pub fn run(&self) -> u32 {
        self.run
    }

    /// Number of refusals in the session before it was last seen to be unchanged.
    pub fn refusals_proven(&self) -> u32 {
        self.refusals_proven
    }

    /// Whether the server changed its behaviour in this session.
    pub fn has_changed(&self) -> bool {
        self.changed
    }

    /// A recipient of the domain that is held: of those that were accepted or refused, if that is asked for. The newest.
    pub fn recipient(&self, domain: Option<u64>, held: Option<Held>) -> Option<&T> {
        let fits = |entry: &&Entry<T>| {
            domain.is_none_or(|domain| domain == entry.domain) && held.is_none_or(|held| held == entry.held)
        };
        self.entries.iter().rev().find(fits).map(|entry| &entry.item)
    }

    /// Changes all that are held.
    pub fn each(&mut self, change: impl FnMut(&mut T)) {
        self.entries.iter_mut().map(|entry| &mut entry.item).for_each(change);
    }

    /// Takes the items for which the condition holds, unproven.
    pub fn take_where(&mut self, mut is_such: impl FnMut(&T) -> bool) -> Vec<T> {
        self.entries.extract_if(.., |entry| is_such(&entry.item)).map(|entry| entry.item).collect()
    }

    /// How many control recipients would be asked now.
    pub fn controls_wanted(&self) -> usize {
        self.domains_unproven().len()
    }

    /// The next questions, all for one transaction and in this order; none if the checkpoint can close.
    pub fn questions(&self, context: Context) -> Vec<ProofQuestion> {
        let mut questions = self.first_controls();
        if questions.is_empty() {
            questions = self.second_controls();
        }
        if questions.is_empty() {
            questions.extend(self.refused_before());
        }
        if !self.has_known_question(&questions) {
            questions.extend(self.behind_refusals(context, !questions.is_empty()));
        }
        questions
    }

    /// A question has its result.
    pub fn on_told(&mut self, question: ProofQuestion, told: Told) {
        match question {
            ProofQuestion::Control { domain, second } => self.on_control(domain, second, told),
            ProofQuestion::Known { domain } => self.on_known(domain, told),
            ProofQuestion::KnownFirst if told == Told::Accepted => {
                // It says nothing of what comes behind it.
                self.on_accepted();
            }
            ProofQuestion::KnownFirst => self.on_known(None, told),
            ProofQuestion::RefusedBefore { domain } => {
                let still = told != Told::Accepted;
                self.shown.entry(domain).or_default().refused_again = Some(still);
                self.tick();
            }
            ProofQuestion::Postmaster => {
                self.postmaster = Some(told);
                if told == Told::Accepted {
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
                Told::Refused => ControlFinding::RefusesUnknown,
                Told::Accepted => ControlFinding::AcceptsAll,
                Told::RefusedUnclearly if shown.discriminates() => ControlFinding::RefusesUnknown,
                // The second one has yet to be asked, in another session.
                Told::RefusedUnclearly if shown.second.is_none() => return None,
                Told::RefusedUnclearly | Told::Nothing => ControlFinding::Unknown,
            };
            Some((domain, finding))
        })
    }

    /// Closes the checkpoint, and releases all held answers in the order of their arrival. `alive`: the session continues, or we ended
    /// it; otherwise it ended before the questions were answered.
    pub fn close(&mut self, context: Context, alive: bool) -> Vec<Released<T>> {
        let changed = self.known == Some(Told::Refused) || self.shown.values().any(Shown::contradicts);
        self.changed |= changed;
        let proofs: Vec<Proof> = self.entries.iter().map(|entry| self.proof(entry, context, alive)).collect();
        let entries = std::mem::take(&mut self.entries);
        if alive && !changed {
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

    fn proof(&self, entry: &Entry<T>, context: Context, alive: bool) -> Proof {
        let shown = self.shown.get(&entry.domain).copied().unwrap_or_default();
        match entry.held {
            Held::Accepted => self.proof_of_accept(entry, &shown, alive),
            Held::Refused | Held::Denied => self.proof_of_refusal(entry, context, alive),
            Held::Unclear if !alive && shown.first.is_none() => Proof::Lost,
            Held::Unclear => {
                let refused = matches!(shown.first, Some(Told::Refused | Told::RefusedUnclearly));
                let told_apart = refused && self.accepted.is_some_and(|accepted| accepted > entry.at);
                if told_apart { Proof::Proven } else { Proof::Unclear }
            }
        }
    }

    fn proof_of_accept(&self, entry: &Entry<T>, shown: &Shown, alive: bool) -> Proof {
        match shown.first {
            _ if shown.is_proven(entry.at) || shown.discriminates() => Proof::Proven,
            Some(Told::Accepted) if shown.contradicts() => Proof::Changed,
            Some(Told::Accepted) => Proof::CatchAll,
            Some(_) if alive => Proof::Unclear,
            _ => Proof::Lost,
        }
    }

    fn proof_of_refusal(&self, entry: &Entry<T>, context: Context, alive: bool) -> Proof {
        let accepted_behind = self.accepted.is_some_and(|accepted| accepted > entry.at);
        let told = self.known.or(self.postmaster);
        let is_carried = entry.at == CARRIED_AT;
        let needs_none = context.honest || !(is_carried || self.is_run_to_prove(context));
        match told {
            _ if accepted_behind => Proof::Proven,
            // A mailbox that was accepted before is refused.
            _ if self.known == Some(Told::Refused) => Proof::Changed,
            None if context.honest => Proof::Proven,
            None if needs_none => Proof::Assumed,
            None if self.changed => Proof::Changed,
            None if !alive && (is_carried || self.may_be_carried(entry)) => Proof::Carried,
            None => Proof::Lost,
            // `postmaster@` is refused like the others, or brought no clear answer: no mailbox is known that could tell.
            Some(_) if self.known.is_none() && !self.changed => Proof::Assumed,
            Some(_) if self.known.is_none() => Proof::Changed,
            Some(_) => Proof::Unclear,
        }
    }

    /// Whether the next session can prove a refusal of this one: see [`REFUSALS_CARRIED_MAX`].
    fn may_be_carried(&self, entry: &Entry<T>) -> bool {
        self.refusals <= REFUSALS_CARRIED_MAX && self.accepted.is_some_and(|accepted| accepted < entry.at)
    }

    /// Whether the refusals after the last accept need a proof, and there is a recipient for the question.
    fn is_run_to_prove(&self, context: Context) -> bool {
        let long = self.run >= RUN_MIN && !context.no_postmaster;
        self.run > 0 && (self.changed || self.has_known(context) || long)
    }

    fn has_known(&self, context: Context) -> bool {
        context.known || self.recipient(None, Some(Held::Accepted)).is_some()
    }

    /// The domains with accepts that no refusal has followed, or with refusals that were not understood.
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

    /// A mailbox of the domain, a control recipient of another shape, and the mailbox again: one domain at a time.
    fn second_controls(&self) -> Vec<ProofQuestion> {
        let wants = |domain: &u64| {
            let shown = self.shown.get(domain).copied().unwrap_or_default();
            let accepts = self.recipient(Some(*domain), Some(Held::Accepted)).is_some();
            accepts && shown.first == Some(Told::RefusedUnclearly) && shown.second.is_none()
        };
        let Some(domain) = self.domains_unproven().into_iter().find(wants) else { return Vec::new() };
        let known = ProofQuestion::Known { domain: Some(domain) };
        vec![known, ProofQuestion::Control { domain, second: true }, known]
    }

    fn refused_before(&self) -> Option<ProofQuestion> {
        let wants = |shown: &Shown| {
            shown.first == Some(Told::Accepted) && shown.refused.is_some() && shown.refused_again.is_none()
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

    /// The question that shows that the refusals after the last accept were no change of behaviour. `more`: control recipients are asked
    /// about before it.
    fn behind_refusals(&self, context: Context, more: bool) -> Option<ProofQuestion> {
        let waits = |entry: &Entry<T>| {
            let unproven = self.accepted.is_none_or(|accepted| accepted < entry.at);
            unproven && entry.held != Held::Accepted
        };
        if context.honest || self.known.is_some() || !self.entries.iter().any(waits) {
            return None;
        }
        if self.has_known(context) {
            return Some(ProofQuestion::Known { domain: None });
        }
        let asked = self.postmaster.is_some() || context.no_postmaster;
        (!more && !asked && self.run >= RUN_MIN).then_some(ProofQuestion::Postmaster)
    }

    fn on_control(&mut self, domain: u64, second: bool, told: Told) {
        match told {
            Told::Refused => {
                self.on_refused(domain);
                self.shown.entry(domain).or_default().control_refused = true;
            }
            // Accepted or not, it says nothing about mailboxes that exist.
            _ => {
                self.tick();
            }
        }
        let shown = self.shown.entry(domain).or_default();
        *(if second { &mut shown.second } else { &mut shown.first }) = Some(told);
    }

    fn on_known(&mut self, domain: Option<u64>, told: Told) {
        self.known = Some(told);
        if told != Told::Accepted {
            self.tick();
            return;
        }
        self.on_accepted();
        if let Some(shown) = domain.and_then(|domain| self.shown.get_mut(&domain)) {
            if shown.second.is_some() {
                shown.accepted_behind = true;
            } else {
                shown.accepted_between = true;
            }
        }
    }

    fn on_accepted(&mut self) -> u32 {
        let at = self.tick();
        self.accepted = Some(at);
        self.run = 0;
        self.refusals_proven = self.refusals;
        at
    }

    fn on_refused(&mut self, domain: u64) -> u32 {
        let at = self.on_denied();
        self.shown.entry(domain).or_default().refused = Some(at);
        at
    }

    fn on_denied(&mut self) -> u32 {
        self.run += 1;
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
