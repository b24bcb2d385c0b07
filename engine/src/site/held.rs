//! The works of a session, and what it notes until it is known what its answers are worth. The rules are
//! [`engine_proto::verdict::evidence`].

use crate::in_flight::InFlight;
use crate::work::Work;
use engine_proto::address::Domain;
use engine_proto::limits::GREYLISTED_DOMAINS_MAX;
use engine_proto::verdict::Class;
use engine_proto::verdict::classify::Classification;
use engine_proto::verdict::evidence::SessionEvidence;
use std::collections::BTreeSet;

/// The works of a session task. The group takes works out of them to answer them before the server does, or before the session ends.
#[derive(Default)]
pub(crate) struct SessionWorks {
    /// When the session and its latest transaction began, in the order of the group.
    pub(super) begun_at: u64,
    pub(super) asked_at: u64,
    /// The recipients under way.
    pub(crate) in_flight: InFlight,
    /// The answers that the session holds until it is known what they are worth.
    pub(crate) evidence: SessionEvidence<Work>,
}

/// What a session notes for itself until it is known what its answers are worth.
#[derive(Default)]
pub(crate) struct SessionNotes {
    /// The session ended at the control recipient of this domain.
    pub(crate) ended_at_control: Option<u64>,
    /// The postmaster of this domain was accepted, and the control recipient was not asked about after that yet.
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

impl SessionNotes {
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
