//! Denials without proof: whether a resolver denies one name or everything ([`engine_proto::dns::denials`]).
//!
//! After the first such denial, the root and the top-level domain of the name are asked for, which an honest resolver never denies.
//! The denied question waits a moment for these answers. While everything counts as denied, some of the names are asked for again,
//! so that the service recovers by itself.

use super::all;
use super::{Inner, PendingLookup};
use crate::runtime::Runtime;
use engine_proto::dns::denials::Asked;
use engine_proto::dns::lookup::Lookup;
use engine_proto::dns::{Failure, Name, Outcome, Question, RecordKind};
use engine_proto::limits::{
    DNS_DENIAL_PROBE_INTERVAL, DNS_DENIAL_PROBE_TIMEOUT, DNS_DENIED_NAMES_MAX, DNS_DISPUTED_NAMES_MAX,
    DNS_UPSTREAMS_MAX,
};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::hash::BuildHasher;
use std::rc::{Rc, Weak};
use std::time::Instant;

/// The denials in doubt of a shard.
pub(super) struct Doubts<R: Runtime> {
    /// Denied questions that wait until the root has answered.
    held: RefCell<Vec<Held<R>>>,
    /// When the root was last asked for.
    checked: Cell<Option<Instant>>,
    /// The questions that were denied last.
    remembered: RefCell<VecDeque<Question>>,
    /// Questions that one resolver denied without proof and another did not.
    disputed: RefCell<VecDeque<Dispute>>,
    /// A task asks for them again.
    watching: Cell<bool>,
    hashing: crate::seed::Hashing,
}

/// The addresses of a name were denied without proof by some resolvers, and not by another.
struct Dispute {
    name: Name,
    denied_by: Vec<usize>,
}

struct Held<R: Runtime> {
    question: Question,
    pending: Rc<PendingLookup<R>>,
    outcome: Outcome,
}

impl<R: Runtime> Default for Doubts<R> {
    fn default() -> Doubts<R> {
        Doubts {
            held: RefCell::default(),
            checked: Cell::new(None),
            remembered: RefCell::default(),
            disputed: RefCell::default(),
            watching: Cell::new(false),
            hashing: crate::seed::Hashing::default(),
        }
    }
}

impl<R: Runtime> Inner<R> {
    /// All resolvers that answered denied a name without proof.
    pub(super) fn doubt(
        self: &Rc<Self>,
        asked: Asked,
        question: Question,
        pending: &Rc<PendingLookup<R>>,
        outcome: Outcome,
        now: Instant,
    ) {
        let (doubts, denials) = (&self.doubts, &self.health.denials);
        doubts.remember(&question);
        denials.on_denied(asked, doubts.hashing.hash_one(&question.name));
        let is_checking = !doubts.held.borrow().is_empty();
        let is_checked = doubts
            .checked
            .get()
            .is_some_and(|at| now.saturating_duration_since(at) < DNS_DENIAL_PROBE_INTERVAL);
        if denials.are_down() || is_checked && !is_checking {
            self.watch();
            return self.settle(question, pending, outcome, now);
        }
        let top_level = question.name.top_level();
        let pending = Rc::clone(pending);
        doubts.held.borrow_mut().push(Held { question, pending, outcome });
        if !is_checking {
            R::spawn(check(Rc::clone(self), top_level));
        }
    }

    /// Starts a task that tests, while everything counts as denied, whether it still is.
    fn watch(self: &Rc<Self>) {
        if self.health.denials.are_down() && !self.doubts.watching.replace(true) {
            R::spawn(watch(Rc::downgrade(self)));
        }
    }
}

impl<R: Runtime> Doubts<R> {
    /// The resolvers that denied the addresses of a name which another one did not; that is forgotten then.
    pub(super) fn take_dispute(&self, name: &Name) -> Option<Vec<usize>> {
        let mut disputed = self.disputed.borrow_mut();
        let mut denied_by = Vec::new();
        while let Some(at) = disputed.iter().position(|dispute| dispute.name == *name) {
            denied_by.extend(disputed.remove(at).into_iter().flat_map(|dispute| dispute.denied_by));
        }
        (!denied_by.is_empty()).then_some(denied_by)
    }

    /// Notes where one resolver denied something without proof, and another answered.
    pub(super) fn note_dispute(&self, lookup: &Lookup) {
        let Question { name, kind } = lookup.question();
        let has_failed = matches!(lookup.outcome(), Some(Outcome::Failed { .. }));
        if !lookup.has_any_doubt() || has_failed || !matches!(kind, RecordKind::A | RecordKind::Aaaa) {
            return;
        }
        let mut disputed = self.disputed.borrow_mut();
        if disputed.len() >= DNS_DISPUTED_NAMES_MAX {
            disputed.pop_front();
        }
        let denied_by = (0..DNS_UPSTREAMS_MAX).filter(|&upstream| lookup.has_doubted(upstream)).collect();
        disputed.push_back(Dispute { name: name.clone(), denied_by });
    }

    fn remember(&self, question: &Question) {
        let mut remembered = self.remembered.borrow_mut();
        if remembered.contains(question) {
            return;
        }
        if remembered.len() >= DNS_DENIED_NAMES_MAX {
            remembered.pop_front();
        }
        remembered.push_back(question.clone());
    }
}

/// Asks for the root and a top-level domain, and answers what has waited for that.
async fn check<R: Runtime>(inner: Rc<Inner<R>>, top_level: Name) {
    let denied = ask::<R>(&inner, &[Name::root(), top_level].map(address_of)).await;
    let (denials, now) = (&inner.health.denials, R::now());
    if denied[0] == Some(true) {
        denials.on_root_denied();
    } else if denied[1] == Some(true) {
        denials.on_top_level_denied(inner.age(now));
    }
    inner.doubts.checked.set(Some(now));
    for Held { question, pending, outcome } in inner.doubts.held.take() {
        inner.settle(question, &pending, outcome, now);
    }
    inner.watch();
}

/// Asks again for what was denied, for its top-level domains and for the root, until that ends or the shard does.
async fn watch<R: Runtime>(inner: Weak<Inner<R>>) {
    loop {
        R::sleep(DNS_DENIAL_PROBE_INTERVAL).await;
        let Some(inner) = inner.upgrade() else { return };
        let denials = &inner.health.denials;
        if !denials.are_down() {
            inner.doubts.watching.set(false);
            return;
        }
        if !denials.may_probe(inner.age(R::now())) {
            continue;
        }
        let mut questions: Vec<Question> = inner.doubts.remembered.borrow().iter().cloned().collect();
        let top_levels: BTreeSet<Name> = questions.iter().map(|question| question.name.top_level()).collect();
        questions.extend(top_levels.into_iter().chain([Name::root()]).map(address_of));
        let answers = ask::<R>(&inner, &questions).await;
        let count = |wanted| answers.iter().filter(|denied| **denied == Some(wanted)).count() as u32;
        let denied = questions.iter().zip(&answers).filter(|(_, denied)| **denied == Some(true));
        let denied_names: BTreeSet<&Name> = denied.map(|(question, _)| &question.name).collect();
        denials.on_probe(count(false), count(true), denied_names.len() == 1);
    }
}

fn address_of(name: Name) -> Question {
    Question { name, kind: RecordKind::A }
}

/// Asks the resolvers without the cache: whether each question is denied without proof; `None` without an answer in time.
async fn ask<R: Runtime>(inner: &Rc<Inner<R>>, questions: &[Question]) -> Vec<Option<bool>> {
    let now = R::now();
    let deadline = now + DNS_DENIAL_PROBE_TIMEOUT;
    let probes: Vec<_> = questions.iter().map(|question| inner.probe(question, &[], now)).collect();
    let answers = all(probes.iter().map(|probe| R::before(deadline, probe.end())).collect()).await;
    let is_denied = |outcome: &Outcome| match outcome {
        Outcome::Failed { why: Failure::Unproven, .. } => Some(true),
        Outcome::Failed { .. } => None,
        Outcome::Records { .. } | Outcome::NoData { .. } | Outcome::NxDomain { .. } => Some(false),
    };
    answers.into_iter().map(|answer| answer.and_then(|(outcome, _)| is_denied(&outcome))).collect()
}
