//! Denials without proof: finds out whether the resolvers deny one name or everything ([`engine_proto::dns::denials`]).
//!
//! After such a denial the root and the top-level domain of the name are looked up, at most once in [`DNS_DENIAL_PROBE_INTERVAL`],
//! because honest resolvers never deny these. The denied question waits a moment for the result. While the resolvers count as
//! denying everything, the names that were denied last are looked up again, so that the engine notices by itself when this has
//! passed.

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

/// The denials of a shard that may be false.
pub(super) struct Doubts<R: Runtime> {
    /// Denied questions that wait for the result of a check.
    held: RefCell<Vec<Held<R>>>,
    /// When the last check ended.
    checked: Cell<Option<Instant>>,
    /// The questions that were denied last.
    remembered: RefCell<VecDeque<Question>>,
    /// The names that some resolvers denied without proof and another did not.
    disputed: RefCell<VecDeque<Dispute>>,
    /// Whether a task runs that looks up the denied names again.
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
    /// Handles a question that all resolvers that answered denied without proof. If a check ended recently or there is an outage,
    /// the question is settled at once; otherwise after a check.
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

    /// If the resolvers count as denying everything, starts the task that tests whether they still do, unless it runs already.
    fn watch(self: &Rc<Self>) {
        if self.health.denials.are_down() && !self.doubts.watching.replace(true) {
            R::spawn(watch(Rc::downgrade(self)));
        }
    }
}

impl<R: Runtime> Doubts<R> {
    /// If the resolvers disagreed about the addresses of a name, returns those that denied them without proof, and forgets the
    /// dispute.
    pub(super) fn take_dispute(&self, name: &Name) -> Option<Vec<usize>> {
        let mut disputed = self.disputed.borrow_mut();
        let mut denied_by = Vec::new();
        while let Some(at) = disputed.iter().position(|dispute| dispute.name == *name) {
            denied_by.extend(disputed.remove(at).into_iter().flat_map(|dispute| dispute.denied_by));
        }
        (!denied_by.is_empty()).then_some(denied_by)
    }

    /// If some resolvers denied the addresses of a name without proof and another one answered, remembers the former.
    pub(super) fn note_dispute(&self, lookup: &Lookup) {
        let Question { name, kind } = lookup.question();
        let has_failed = matches!(lookup.outcome(), Some(Outcome::Failed { .. }));
        if !lookup.has_any_unproven_denial()
            || has_failed
            || !matches!(kind, RecordKind::A | RecordKind::Aaaa)
        {
            return;
        }
        let mut disputed = self.disputed.borrow_mut();
        if disputed.len() >= DNS_DISPUTED_NAMES_MAX {
            disputed.pop_front();
        }
        let denied_by =
            (0..DNS_UPSTREAMS_MAX).filter(|&upstream| lookup.has_denied_unproven(upstream)).collect();
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

/// Looks up the root and a top-level domain, and then settles the questions that waited for that.
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

/// Looks up the names that were denied last, their top-level domains and the root, again and again until the resolvers no longer
/// count as denying everything, or the shard ends.
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

/// Looks questions up without the cache, and returns for each whether it was denied without proof. `None`: there was no answer in
/// time, or a failure.
async fn ask<R: Runtime>(inner: &Rc<Inner<R>>, questions: &[Question]) -> Vec<Option<bool>> {
    let now = R::now();
    let deadline = now + DNS_DENIAL_PROBE_TIMEOUT;
    let probes: Vec<_> = questions.iter().map(|question| inner.probe(question, &[], now)).collect();
    let answers = all(probes.iter().map(|probe| R::before(deadline, probe.outcome())).collect()).await;
    let is_denied = |outcome: &Outcome| match outcome {
        Outcome::Failed { why: Failure::Unproven, .. } => Some(true),
        Outcome::Failed { .. } => None,
        Outcome::Records { .. } | Outcome::NoData { .. } | Outcome::NxDomain { .. } => Some(false),
    };
    answers.into_iter().map(|answer| answer.and_then(|(outcome, _)| is_denied(&outcome))).collect()
}
