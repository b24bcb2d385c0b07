//! Denials without proof: a resolver denies a name or its records, but a filter may have made up the answer
//! ([`engine_proto::dns::message::Doubt`]). Such a filter may deny only some names, or it may deny everything
//! ([`engine_proto::dns::denials`]).
//!
//! To tell these cases apart, the shard checks the resolvers: it looks up the root and the top-level domain of the name, which
//! honest resolvers never deny without proof. The denied question waits for the end of the check. For [`DNS_DENIAL_TEST_INTERVAL`]
//! after a check, no other check begins. While the resolvers count as denying everything, a task repeats some of the denied
//! questions, to notice when the resolvers are honest again.

use super::all;
use super::{Inner, PendingLookup, RaisedFlag};
use crate::runtime::Runtime;
use engine_proto::dns::denials::Asked;
use engine_proto::dns::lookup::Lookup;
use engine_proto::dns::{Failure, Name, Outcome, Question, RecordKind};
use engine_proto::limits::{
    DNS_DENIAL_TEST_INTERVAL, DNS_DENIAL_TEST_TIMEOUT, DNS_DENIED_NAMES_MAX, DNS_DISPUTED_NAMES_MAX,
    DNS_UPSTREAMS_MAX,
};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::hash::BuildHasher;
use std::rc::{Rc, Weak};
use std::time::Instant;

/// The denials without proof that a shard has seen.
pub(super) struct Doubts<R: Runtime> {
    /// Denied questions that wait for the end of the running check. If its task panics, they wait for the end of the next one.
    held: RefCell<Vec<Held<R>>>,
    /// Whether the task [`check`] runs.
    pub(super) checking: Cell<bool>,
    /// When the last check ended.
    checked: Cell<Option<Instant>>,
    /// Different questions that were denied, at most [`DNS_DENIED_NAMES_MAX`], in the order of their latest denials. A further one
    /// replaces the first.
    remembered: RefCell<VecDeque<Question>>,
    disputed: RefCell<VecDeque<Dispute>>,
    /// Whether the task [`watch`] runs.
    pub(super) watching: Cell<bool>,
    hashing: crate::seed::Hashing,
}

/// Some resolvers denied the addresses of a name without proof, and another resolver gave a credible answer.
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
            checking: Cell::new(false),
            checked: Cell::new(None),
            remembered: RefCell::default(),
            disputed: RefCell::default(),
            watching: Cell::new(false),
            hashing: crate::seed::Hashing::default(),
        }
    }
}

impl<R: Runtime> Inner<R> {
    /// Handles a question that some resolver denied without proof, while no resolver gave a credible answer. If the resolvers
    /// already count as denying everything, or a check ended less than [`DNS_DENIAL_TEST_INTERVAL`] ago, the failure is passed on
    /// at once. Otherwise the question waits for the check that is running, or for a new one.
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
        let is_checking = doubts.checking.get();
        let is_checked = doubts
            .checked
            .get()
            .is_some_and(|at| now.saturating_duration_since(at) < DNS_DENIAL_TEST_INTERVAL);
        if denials.are_down() || is_checked && !is_checking {
            self.watch();
            return self.settle(question, pending, outcome, now);
        }
        let top_level = question.name.top_level();
        let pending = Rc::clone(pending);
        doubts.held.borrow_mut().push(Held { question, pending, outcome });
        if let Some(checking) = self.raise(|inner| &inner.doubts.checking) {
            R::spawn(check(Rc::clone(self), checking, top_level));
        }
    }

    /// If the resolvers count as denying everything, starts the task [`watch`], unless it is already running.
    fn watch(self: &Rc<Self>) {
        if self.health.denials.are_down()
            && let Some(watching) = self.raise(|inner| &inner.doubts.watching)
        {
            R::spawn(watch(Rc::downgrade(self), watching));
        }
    }
}

impl<R: Runtime> Doubts<R> {
    /// If some resolvers denied the addresses of this name without proof and another resolver gave a credible answer, returns the
    /// resolvers that denied them, and forgets the dispute.
    pub(super) fn take_dispute(&self, name: &Name) -> Option<Vec<usize>> {
        let mut disputed = self.disputed.borrow_mut();
        let mut denied_by = Vec::new();
        while let Some(at) = disputed.iter().position(|dispute| dispute.name == *name) {
            denied_by.extend(disputed.remove(at).into_iter().flat_map(|dispute| dispute.denied_by));
        }
        (!denied_by.is_empty()).then_some(denied_by)
    }

    /// If some resolvers denied the addresses of a name without proof and another resolver gave a credible answer, remembers which
    /// resolvers denied them.
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

    pub(super) fn remembered(&self) -> Vec<Question> {
        self.remembered.borrow().iter().cloned().collect()
    }

    pub(super) fn remember(&self, question: &Question) {
        let mut remembered = self.remembered.borrow_mut();
        if let Some(at) = remembered.iter().position(|known| known == question) {
            remembered.remove(at);
        } else if remembered.len() >= DNS_DENIED_NAMES_MAX {
            remembered.pop_front();
        }
        remembered.push_back(question.clone());
    }
}

/// Checks the resolvers: looks up the root and a top-level domain, records the result, and passes on the outcomes of the questions
/// that waited.
async fn check<R: Runtime>(inner: Rc<Inner<R>>, checking: RaisedFlag<R>, top_level: Name) {
    let denied = ask::<R>(&inner, &[Name::root(), top_level].map(address_of)).await;
    let (denials, now) = (&inner.health.denials, R::now());
    if denied[0] == Some(true) {
        denials.on_root_denied();
    } else if denied[1] == Some(true) {
        denials.on_top_level_denied(inner.age(now));
    }
    inner.doubts.checked.set(Some(now));
    drop(checking);
    for Held { question, pending, outcome } in inner.doubts.held.take() {
        inner.settle(question, &pending, outcome, now);
    }
    inner.watch();
}

/// While the resolvers count as denying everything, looks up the remembered questions, their top-level domains and the root. Of all
/// shards, only one does so in each [`DNS_DENIAL_TEST_INTERVAL`]. The task ends when the resolvers no longer count as denying
/// everything, or when its shard ends.
async fn watch<R: Runtime>(inner: Weak<Inner<R>>, _watching: RaisedFlag<R>) {
    loop {
        R::sleep(DNS_DENIAL_TEST_INTERVAL).await;
        let Some(inner) = inner.upgrade() else { return };
        let denials = &inner.health.denials;
        if !denials.are_down() {
            return;
        }
        if !denials.may_test(inner.age(R::now())) {
            continue;
        }
        let mut questions: Vec<Question> = inner.doubts.remembered();
        let top_levels: BTreeSet<Name> = questions.iter().map(|question| question.name.top_level()).collect();
        questions.extend(top_levels.into_iter().chain([Name::root()]).map(address_of));
        let answers = ask::<R>(&inner, &questions).await;
        let count = |wanted| answers.iter().filter(|denied| **denied == Some(wanted)).count() as u32;
        let denied = questions.iter().zip(&answers).filter(|(_, denied)| **denied == Some(true));
        let denied_names: BTreeSet<&Name> = denied.map(|(question, _)| &question.name).collect();
        denials.on_test(count(false), count(true), denied_names.len() == 1);
    }
}

fn address_of(name: Name) -> Question {
    Question { name, kind: RecordKind::A }
}

/// Looks questions up without the cache, and returns for each question whether it was denied without proof. `None` if it got no
/// answer within [`DNS_DENIAL_TEST_TIMEOUT`], or failed in another way.
async fn ask<R: Runtime>(inner: &Rc<Inner<R>>, questions: &[Question]) -> Vec<Option<bool>> {
    let now = R::now();
    let deadline = now + DNS_DENIAL_TEST_TIMEOUT;
    let lookups: Vec<_> =
        questions.iter().map(|question| inner.look_up_uncached(question, &[], now)).collect();
    let answers = all(lookups.iter().map(|lookup| R::before(deadline, lookup.outcome())).collect()).await;
    let is_denied = |outcome: &Outcome| match outcome {
        Outcome::Failed { why: Failure::Unproven, .. } => Some(true),
        Outcome::Failed { .. } => None,
        Outcome::Records { .. } | Outcome::NoData { .. } | Outcome::NxDomain { .. } => Some(false),
    };
    answers.into_iter().map(|answer| answer.and_then(|(outcome, _)| is_denied(&outcome))).collect()
}
