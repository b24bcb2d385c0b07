//! The works of a session, and what the session remembers between its transactions. The rules for proofs are in
//! [`engine_proto::verdict::evidence`]; docs/glossary.md explains the words.

use crate::in_flight::InFlight;
use crate::work::Work;
use engine_proto::address::Domain;
use engine_proto::limits::GREYLISTED_DOMAINS_MAX;
use engine_proto::verdict::ObservedReply;
use engine_proto::verdict::classify::Classification;
use engine_proto::verdict::evidence::SessionEvidence;
use std::collections::{BTreeMap, BTreeSet};

/// The works of a session task. The group may take works out of here, to answer them before the server replies or the session ends.
#[derive(Default)]
pub(crate) struct SessionWorks {
    /// The number that the session got from the group when it began. Such numbers show an order, and are not times.
    pub(super) begun_at: u64,
    /// The number that the latest transaction of the session got from the group when it began.
    pub(super) asked_at: u64,
    /// The works that the present transaction asks about.
    pub(crate) in_flight: InFlight,
    /// The works with an answer that the session holds until a checkpoint decides whether the answer counts.
    pub(crate) evidence: SessionEvidence<Work>,
}

#[derive(Default)]
pub(crate) struct SessionNotes {
    /// The key of a domain, if the session ended when the host should have replied about the domain's control recipient, or about a
    /// known mailbox that was asked about for the domain.
    pub(crate) ended_at_control: Option<u64>,
    /// An accepted `postmaster@` with the key of its domain. It is kept until the control recipient of this domain is clearly
    /// accepted or refused.
    pub(crate) postmaster: Option<(u64, String)>,
    /// The keys of the domains about which an earlier checkpoint of this session has recorded a finding (such as that the domain
    /// accepts every recipient).
    pub(crate) learned: BTreeSet<u64>,
    /// The replies to control recipients that prove nothing, by the key of the domain, until the checkpoint is closed.
    pub(crate) unclear: BTreeMap<u64, UnclearControl>,
    /// The number of checkpoints in a row that each showed only that one domain accepts every recipient.
    pub(crate) catch_all_in_a_row: u32,
    /// The number of refused single checks of this session since the last accepted one.
    pub(crate) refused_in_a_row: u32,
    /// Whether the session has yet to show that its latest replies were in step (each belongs to the command for which it counts).
    pub(crate) in_doubt: bool,
    /// Whether the host sent a surplus reply.
    pub(crate) out_of_step: bool,
    /// The domains of recipients that were greylisted.
    greylisted: Vec<Domain>,
}

/// A reply to a control recipient that proves nothing. If accepts have no other proof, their verdict depends on this reply.
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

    /// Takes the domains of recipients that were greylisted since the last call.
    pub(crate) fn take_greylisted(&mut self) -> Vec<Domain> {
        std::mem::take(&mut self.greylisted)
    }
}
