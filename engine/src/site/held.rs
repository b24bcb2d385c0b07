//! The works of a session, and what it remembers between its transactions. The rules are in [`engine_proto::verdict::evidence`].

use crate::in_flight::InFlight;
use crate::work::Work;
use engine_proto::address::Domain;
use engine_proto::limits::GREYLISTED_DOMAINS_MAX;
use engine_proto::verdict::ObservedReply;
use engine_proto::verdict::classify::Classification;
use engine_proto::verdict::evidence::SessionEvidence;
use std::collections::{BTreeMap, BTreeSet};

/// The works of a session task. The group may take works out, to answer them before the server replies or the session ends.
#[derive(Default)]
pub(crate) struct SessionWorks {
    /// When the session and its latest transaction began, as numbers of the group that show the order.
    pub(super) begun_at: u64,
    pub(super) asked_at: u64,
    /// The works that the present transaction asks about.
    pub(crate) in_flight: InFlight,
    /// The answers that the session holds until they are proven.
    pub(crate) evidence: SessionEvidence<Work>,
}

/// What a session remembers between its transactions.
#[derive(Default)]
pub(crate) struct SessionNotes {
    /// The key of the domain, if the session ended at its control recipient or its known mailbox.
    pub(crate) ended_at_control: Option<u64>,
    /// The key of a domain and its `postmaster@`, which was accepted, until the control recipient of the domain is asked about.
    pub(crate) postmaster: Option<(u64, String)>,
    /// The keys of the domains for which the session has shown how they treat unknown recipients.
    pub(crate) learned: BTreeSet<u64>,
    /// The replies to control recipients that prove nothing, by domain, until the checkpoint is closed.
    pub(crate) unclear: BTreeMap<u64, UnclearControl>,
    /// The number of checkpoints in a row that showed only that one domain accepts everyone.
    pub(crate) catch_all_in_a_row: u32,
    /// The number of single checks in a row that were refused in this session.
    pub(crate) refused_in_a_row: u32,
    /// The domains with recipients that were greylisted.
    greylisted: Vec<Domain>,
}

/// A reply to a control recipient that proves nothing. The verdicts of the accepts that it leaves without a proof depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnclearControl {
    pub(crate) said: Classification,
    pub(crate) reply: ObservedReply,
}

impl SessionNotes {
    /// A recipient of the domain was greylisted.
    pub(crate) fn on_greylisted(&mut self, domain: &Domain) {
        if self.greylisted.len() < GREYLISTED_DOMAINS_MAX && !self.greylisted.contains(domain) {
            self.greylisted.push(domain.clone());
        }
    }

    /// Takes the domains with recipients that were greylisted since the last call.
    pub(crate) fn take_greylisted(&mut self) -> Vec<Domain> {
        std::mem::take(&mut self.greylisted)
    }
}
