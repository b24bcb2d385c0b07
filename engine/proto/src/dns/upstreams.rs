//! Records which resolvers answer, to decide which of them is asked first.

use super::lookup::Lookup;
use crate::limits::DNS_UPSTREAMS_MAX;

/// For each resolver, whether it answers.
#[derive(Debug, Clone)]
pub struct Upstreams {
    /// For each resolver, the number of lookups in a row in which it was asked, and did not answer or sent a denial without proof.
    failures_in_a_row: Vec<u32>,
}

impl Upstreams {
    /// A record of `count` resolvers, in the order of [`super::lookup::LookupConfig::upstreams`].
    pub fn new(count: usize) -> Upstreams {
        Upstreams { failures_in_a_row: vec![0; count.clamp(1, DNS_UPSTREAMS_MAX)] }
    }

    /// The resolver to ask first: the one that failed in the fewest lookups in a row, by giving no answer or a denial without
    /// proof. Among equals, it is the first of the list.
    pub fn first(&self) -> usize {
        let least = self.failures_in_a_row.iter().enumerate().min_by_key(|(_, failures)| **failures);
        least.map_or(0, |(at, _)| at)
    }

    /// Whether the resolver answered when it was last asked, and sent no denial without proof. True if it was never asked.
    pub fn is_well(&self, upstream: usize) -> bool {
        self.failures_in_a_row.get(upstream) == Some(&0)
    }

    /// Learns from a lookup that has ended.
    pub fn note(&mut self, lookup: &Lookup) {
        for (upstream, failures) in self.failures_in_a_row.iter_mut().enumerate() {
            if lookup.has_answered(upstream) && !lookup.has_denied_unproven(upstream) {
                *failures = 0;
            } else if lookup.has_asked(upstream) {
                *failures = failures.saturating_add(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dns::RecordKind;
    use crate::dns::lookup::LookupConfig;
    use crate::dns::tests::{TestReply, question};
    use crate::limits::DNS_TRY_TIMEOUT;
    use hickory_proto::op::ResponseCode;
    use std::time::Instant;

    /// A lookup that asks the resolver with the index `first` before the others. Only the resolver with the index `answers`
    /// replies.
    fn lookup(first: usize, answers: Option<usize>) -> Lookup {
        lookup_with(first, answers, None)
    }

    /// The same, but the resolver with the index `denies` sends a denial without proof.
    fn lookup_with(first: usize, answers: Option<usize>, denies: Option<usize>) -> Lookup {
        let mut now = Instant::now();
        let mut lookup = Lookup::new(question("h.example", RecordKind::A), &LookupConfig::new(3), first);
        while lookup.outcome().is_none() {
            if let Some(sent) = lookup.poll_transmit(now, DNS_TRY_TIMEOUT, &mut || 42) {
                if Some(sent.upstream) == answers {
                    let reply =
                        TestReply::to(&sent.payload).code(ResponseCode::NXDomain).soa("example", 60, 60);
                    lookup.on_datagram(sent.upstream, &reply.bytes(), now);
                } else if denies == Some(sent.upstream) {
                    let reply = TestReply::to(&sent.payload).code(ResponseCode::NXDomain).bytes();
                    lookup.on_datagram(sent.upstream, &reply, now);
                }
            } else if let Some(deadline) = lookup.deadline() {
                now = deadline;
                lookup.on_timeout(now);
            }
        }
        lookup
    }

    #[test]
    fn silent_resolvers_are_not_asked_first() {
        let mut upstreams = Upstreams::new(3);
        assert_eq!(upstreams.first(), 0);
        upstreams.note(&lookup(0, Some(2)));
        assert_eq!(upstreams.first(), 2);
        upstreams.note(&lookup(2, Some(2)));
        assert_eq!(upstreams.first(), 2, "nobody else was asked");
        upstreams.note(&lookup(2, Some(0)));
        assert_eq!(upstreams.first(), 0);
    }

    #[test]
    fn resolvers_that_deny_without_proof_are_not_asked_first() {
        let mut upstreams = Upstreams::new(2);
        upstreams.note(&lookup_with(0, Some(1), Some(0)));
        assert_eq!(upstreams.first(), 1);
        upstreams.note(&lookup_with(1, Some(0), Some(1)));
        assert_eq!(upstreams.first(), 0);
    }
}
