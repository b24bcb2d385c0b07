//! What lookups teach about the resolvers: whom to ask first, and whether any of them answers at all.

use super::lookup::Lookup;
use crate::limits::{DNS_SILENT_LOOKUPS_MAX, DNS_UPSTREAMS_MAX};

/// The resolvers' record.
#[derive(Debug, Clone)]
pub struct Upstreams {
    /// How often in a row each was asked and did not answer.
    silent: Vec<u32>,
    /// How many lookups in a row ended without a word from anybody.
    silent_lookups: u32,
}

impl Upstreams {
    /// The record of so many resolvers, as [`super::lookup::LookupConfig::upstreams`] has it.
    pub fn new(count: usize) -> Upstreams {
        Upstreams { silent: vec![0; count.clamp(1, DNS_UPSTREAMS_MAX)], silent_lookups: 0 }
    }

    /// Whom to ask first: the first in the operator's order of those that were silent least often.
    pub fn first(&self) -> usize {
        let least = self.silent.iter().enumerate().min_by_key(|(_, silent)| **silent);
        least.map_or(0, |(at, _)| at)
    }

    /// Learns from a lookup that has ended.
    pub fn note(&mut self, lookup: &Lookup) {
        for (upstream, silent) in self.silent.iter_mut().enumerate() {
            if lookup.answered(upstream) {
                *silent = 0;
            } else if lookup.asked(upstream) {
                *silent = silent.saturating_add(1);
            }
        }
        self.silent_lookups = if lookup.any_answer() { 0 } else { self.silent_lookups.saturating_add(1) };
    }

    /// True when so many lookups in a row met with silence that the fault is the resolvers' or ours. The first
    /// answer ends it, so that looking up has to go on meanwhile.
    pub fn are_down(&self) -> bool {
        self.silent_lookups >= DNS_SILENT_LOOKUPS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dns::RecordKind;
    use crate::dns::lookup::LookupConfig;
    use crate::dns::testing::{Reply, question};
    use hickory_proto::op::ResponseCode;
    use std::time::Instant;

    /// A lookup in which the resolvers up to `answers`, which alone answers, were asked.
    fn lookup(first: usize, answers: Option<usize>) -> Lookup {
        let mut now = Instant::now();
        let mut lookup = Lookup::new(question("h.example", RecordKind::A), &LookupConfig::new(3), first, now);
        while lookup.outcome().is_none() {
            if let Some(sent) = lookup.poll_transmit(now, &mut || 42) {
                if Some(sent.upstream) == answers {
                    let reply = Reply::to(&sent.payload).code(ResponseCode::NXDomain).bytes();
                    lookup.handle_datagram(sent.upstream, &reply);
                }
            } else if let Some(deadline) = lookup.deadline() {
                now = deadline;
                lookup.handle_timeout(now);
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
    fn silence_of_all_is_an_outage_and_one_answer_ends_it() {
        let mut upstreams = Upstreams::new(3);
        for n in 0..DNS_SILENT_LOOKUPS_MAX {
            assert!(!upstreams.are_down(), "after {n}");
            upstreams.note(&lookup(0, None));
        }
        assert!(upstreams.are_down());
        upstreams.note(&lookup(0, Some(1)));
        assert!(!upstreams.are_down());
    }
}
