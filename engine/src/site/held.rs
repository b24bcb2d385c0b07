//! The answers that a session holds until it is known what they are worth. The rules are
//! [`engine_proto::verdict::evidence`].

use crate::work::Work;
use engine_proto::address::Domain;
use engine_proto::limits::GREYLISTED_DOMAINS_MAX;
use engine_proto::verdict::Class;
use engine_proto::verdict::classify::Classification;
use engine_proto::verdict::evidence::SessionEvidence;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// The evidence of a session, with the works that it is about.
pub(crate) type SharedEvidence = Rc<RefCell<SessionEvidence<Work>>>;

/// The answers that a session holds until it is known what they are worth.
#[derive(Default)]
pub(crate) struct HeldAnswers {
    /// Shared with the group, which takes works out of it to answer them before the session ends.
    pub(crate) evidence: SharedEvidence,
    /// The session ended at the control recipient of this domain.
    pub(crate) ended_at_control: Option<u64>,
    /// `postmaster@` this domain was accepted, and the control recipient was not asked behind it yet.
    pub(crate) postmaster: Option<(u64, String)>,
    /// The domains of which the session showed how they treat unknown recipients.
    pub(crate) learned: BTreeSet<u64>,
    /// When to ask again, if the control recipient got a reply that proves nothing.
    pub(crate) unclear_wait: UnclearWait,
    /// Checkpoints in a row that showed nothing but that one domain accepts everyone.
    pub(crate) catch_all_in_a_row: u32,
    /// Single checks that this session refused in a row.
    pub(crate) refused_in_a_row: u32,
    /// The domains that recipients were greylisted of.
    greylisted: Vec<Domain>,
}

/// How soon an unclear reply to a control recipient may turn into a clear one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum UnclearWait {
    /// The reply was transient: another reply may come soon.
    Soon,
    /// The reply was not transient.
    #[default]
    Long,
    /// The reply was greylisting.
    Greylisting,
}

impl HeldAnswers {
    /// The control recipient got a reply that proves nothing.
    pub(crate) fn on_unclear_control(&mut self, said: &Classification) {
        self.unclear_wait = match said.class {
            Class::Greylisted => UnclearWait::Greylisting,
            Class::Temporary => UnclearWait::Soon,
            _ => UnclearWait::Long,
        };
    }

    /// A recipient of the domain was greylisted.
    pub(crate) fn on_greylisted(&mut self, domain: &Domain) {
        if self.greylisted.len() < GREYLISTED_DOMAINS_MAX && !self.greylisted.contains(domain) {
            self.greylisted.push(domain.clone());
        }
    }

    /// The domains that recipients were greylisted of since this was last asked.
    pub(crate) fn take_greylisted(&mut self) -> Vec<Domain> {
        std::mem::take(&mut self.greylisted)
    }
}

/// Takes the works for which the condition holds, unproven. A session that is handling them at this moment keeps them.
pub(super) fn take_where(evidence: &SharedEvidence, is_such: impl FnMut(&Work) -> bool) -> Vec<Work> {
    evidence.try_borrow_mut().map(|mut held| held.take_where(is_such)).unwrap_or_default()
}
