//! The effects of a reply on a lookup: the reply may end the lookup, move it on to the next resolver, or have the same resolver
//! asked again in another way.

use super::{Lookup, Next, Received, Transport};
use crate::dns::message::{self, Doubt, Extension, Response, Unrelated};
use crate::dns::{Failure, Name, Outcome, Question, ttl};
use crate::limits::{DNS_CNAMES_MAX, DNS_REFUSAL_PAUSE, DNS_REFUSALS_MAX};
use std::time::Instant;

impl Lookup {
    pub(super) fn handle(
        &mut self,
        upstream: usize,
        transport: Transport,
        bytes: &[u8],
        now: Instant,
    ) -> Received {
        if self.outcome.is_some() || upstream >= self.config.upstreams {
            return Received::Nothing;
        }
        let mut result = Err(Unrelated::NotOurs);
        let mut extension = Extension::None;
        // Each try has a random id, so the response hardly ever matches more than one.
        for sent in self.sent.iter().filter(|s| s.upstream == upstream && s.transport == transport) {
            match message::decode(&sent.encoded, &self.question, bytes) {
                Err(Unrelated::NotOurs) => {}
                related => (result, extension) = (related, sent.extension),
            }
        }
        match result {
            Err(Unrelated::NotOurs) => Received::Nothing,
            Err(Unrelated::CaseDiffers) => {
                self.move_to_tcp(upstream);
                Received::CaseChanged
            }
            Ok(response) => {
                let refused = response == Response::Failed(Failure::Refused);
                self.upstreams[upstream].answered = true;
                self.apply(upstream, transport, extension, response, now);
                if refused { Received::Refusal } else { Received::Answer }
            }
        }
    }

    fn apply(
        &mut self,
        upstream: usize,
        transport: Transport,
        extension: Extension,
        response: Response,
        now: Instant,
    ) {
        self.outcome = Some(match response {
            Response::Records(records, seconds) => {
                Outcome::Records { records, ttl: ttl::positive(seconds.min(self.aliases.1)) }
            }
            Response::NoData(seconds) => Outcome::NoData { ttl: ttl::negative(seconds.min(self.aliases.1)) },
            Response::NxDomain(seconds) => {
                Outcome::NxDomain { ttl: ttl::negative(seconds.min(self.aliases.1)) }
            }
            Response::Alias(target, seconds) => return self.follow(upstream, transport, target, seconds),
            Response::Unproven(doubt) => return self.doubt(upstream, transport, extension, doubt),
            Response::Truncated if transport == Transport::Udp => return self.move_to_tcp(upstream),
            Response::Truncated => return self.spend(upstream, Failure::Malformed),
            Response::Failed(Failure::FormErr | Failure::NotImp) if extension != Extension::None => {
                return self.without_edns(upstream, transport);
            }
            Response::Failed(Failure::Refused) => return self.refused(upstream, now),
            Response::Failed(why) => return self.spend(upstream, why),
        });
    }

    /// Asks about the name to which an alias leads, which the resolver did not do itself.
    fn follow(&mut self, upstream: usize, transport: Transport, name: Name, seconds: u32) {
        self.aliases = (self.aliases.0 + 1, self.aliases.1.min(seconds));
        if self.aliases.0 > DNS_CNAMES_MAX {
            return self.spend(upstream, Failure::CnameLoop);
        }
        self.at_alias = Some(Question { name, kind: self.question.kind });
        self.again(upstream, transport);
    }

    /// Handles a denial without proof. If it lacks only the SOA record, it may come from a cache that does not keep SOA records. So
    /// a question with EDNS is repeated once, with a request for DNSSEC records, which the resolver cannot answer from that cache.
    fn doubt(&mut self, upstream: usize, transport: Transport, extension: Extension, doubt: Doubt) {
        if doubt == Doubt::NoSoa && extension == Extension::Edns {
            self.upstreams[upstream].wants_dnssec = true;
            self.again(upstream, transport);
        } else {
            self.upstreams[upstream].denied_unproven = true;
            self.spend(upstream, Failure::Unproven);
        }
    }

    /// Handles REFUSED. If it came during the turn of this resolver, the next resolver of the round is asked at once. If this was
    /// the last one of the round, the next round begins after a pause. A resolver that has refused [`DNS_REFUSALS_MAX`] times is
    /// not asked again.
    fn refused(&mut self, upstream: usize, now: Instant) {
        let known = &mut self.upstreams[upstream];
        known.refusals += 1;
        if known.refusals >= DNS_REFUSALS_MAX {
            return self.spend(upstream, Failure::Refused);
        }
        let pause = DNS_REFUSAL_PAUSE.saturating_mul(1 << (known.refusals - 1));
        self.failure.get_or_insert(Failure::Refused);
        self.sent.retain(|s| s.upstream != upstream);
        if !self.waits_for_any(upstream) {
            return;
        }
        if self.turns.is_multiple_of(self.count()) {
            let until = self.give_up.map_or(now, |give_up| (now + pause).min(give_up));
            self.next = Next::Wait { upstream, transport: Transport::Udp, until };
        } else {
            self.go_on();
        }
    }

    /// Asks the same question over TCP, unless that is under way. A resolver is not asked again if TCP has already failed with it,
    /// or if its turn over TCP has passed without an answer.
    fn move_to_tcp(&mut self, upstream: usize) {
        let under_way = self.sent.iter().any(|s| s.upstream == upstream && s.transport == Transport::Tcp);
        if self.upstreams[upstream].no_tcp || under_way && !self.waits_for(upstream, Transport::Tcp) {
            self.spend(upstream, Failure::Malformed);
        } else if !under_way {
            self.ask_in_another_way(upstream, Transport::Tcp);
        }
    }

    /// Asks the same question without EDNS (RFC 6891 7).
    fn without_edns(&mut self, upstream: usize, transport: Transport) {
        if !std::mem::replace(&mut self.upstreams[upstream].no_edns, true) {
            self.again(upstream, transport);
        }
    }

    /// Asks the resolver in another way. Answers to earlier messages to this resolver no longer count.
    fn again(&mut self, upstream: usize, transport: Transport) {
        self.sent.retain(|s| s.upstream != upstream);
        self.ask_in_another_way(upstream, transport);
    }

    /// Repeats the question at once if it is the turn of this resolver. If its reply came late, and it is the turn of another
    /// resolver now, the question waits for the next turn of this resolver, so that the other one gets its full time to answer.
    fn ask_in_another_way(&mut self, upstream: usize, transport: Transport) {
        if self.waits_for_any(upstream) {
            self.next = Next::Send { upstream, transport };
        } else {
            self.upstreams[upstream].due = Some(transport);
        }
    }

    /// Ends the turns of a resolver: this lookup does not ask it again.
    fn spend(&mut self, upstream: usize, why: Failure) {
        self.failure = Some(why);
        self.upstreams[upstream].spent = true;
        self.sent.retain(|s| s.upstream != upstream);
        let turn = match self.next {
            Next::Send { upstream, .. } | Next::Wait { upstream, .. } => upstream,
        };
        if turn == upstream || self.all_spent() {
            self.go_on();
        }
    }

    /// Moves on to the next resolver that is not spent, round after round. After the last round, asks those that are still due to
    /// be asked in another way. Ends the lookup if there are none, or if all are spent.
    pub(super) fn go_on(&mut self) {
        while !self.all_spent() && self.turns < self.count() * self.config.rounds {
            let upstream = (self.first + self.turns as usize) % self.config.upstreams;
            self.turns += 1;
            if !self.upstreams[upstream].spent {
                let transport = self.upstreams[upstream].due.take().unwrap_or(Transport::Udp);
                self.next = Next::Send { upstream, transport };
                return;
            }
        }
        let mut left = self.upstreams.iter_mut().enumerate().filter(|(_, known)| !known.spent);
        match left.find_map(|(upstream, known)| Some((upstream, known.due.take()?))) {
            Some((upstream, transport)) => self.next = Next::Send { upstream, transport },
            None => self.fail(),
        }
    }

    pub(super) fn fail(&mut self) {
        // A denial that lacks a proof says more about the domain than any other failure.
        let why = if self.has_any_unproven_denial() {
            Failure::Unproven
        } else {
            self.failure.unwrap_or(Failure::Timeout)
        };
        self.outcome = Some(Outcome::Failed { why, ttl: ttl::failure(why) });
    }
}
