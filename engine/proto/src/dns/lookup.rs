//! The lookup of one question: which resolver is asked, when, over which transport, and which message counts as the answer
//! (RFC 5452, RFC 7766, RFC 6891 7, RFC 9520).
//!
//! The caller sends the messages of [`Lookup::poll_transmit`] until there are none, hands over the messages that arrive, and calls the
//! machine at [`Lookup::deadline`], until there is an [`Lookup::outcome`]:
//!
//! - Each try differs from the one before in its id, its capitals and, by the caller, its source port.
//! - A message that does not match a try is ignored. A late answer to an earlier try of this lookup counts.
//! - A resolver that says SERVFAIL or nonsense is not asked again (RFC 9520 2: it would repeat itself). A silent one is asked again in
//!   its turn, with a doubled wait.
//! - REFUSED may be load: the resolver is asked again after a pause, a few times.
//! - A denial without proof is not believed. If only the SOA record is missing, it is asked for once; then the next resolver is
//!   asked.
//! - After truncation the try moves to TCP, and so it does for a resolver that does not keep the case of letters.

mod reply;
#[cfg(test)]
mod tests;

use super::message::{self, Encoded, Extension, Question};
use super::{Failure, Outcome};
use crate::limits::{DNS_ROUNDS, DNS_TCP_TIMEOUT, DNS_TOTAL_TIMEOUT, DNS_TRY_TIMEOUT_MAX, DNS_UPSTREAMS_MAX};
use std::time::{Duration, Instant};

/// How lookups are done; the same for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LookupConfig {
    /// How many resolvers there are. At least one; those beyond [`DNS_UPSTREAMS_MAX`] are not used.
    pub upstreams: usize,
    /// How often each is asked.
    pub rounds: u32,
    /// The longest that a try waits.
    pub try_timeout_max: Duration,
    /// How long an answer over TCP may take, connecting included.
    pub tcp_timeout: Duration,
    /// How long the whole may take, from when the question is first sent.
    pub total_timeout: Duration,
}

impl LookupConfig {
    /// The defaults of [`crate::limits`] for this many resolvers.
    pub fn new(upstreams: usize) -> LookupConfig {
        LookupConfig {
            upstreams,
            rounds: DNS_ROUNDS,
            try_timeout_max: DNS_TRY_TIMEOUT_MAX,
            tcp_timeout: DNS_TCP_TIMEOUT,
            total_timeout: DNS_TOTAL_TIMEOUT,
        }
    }
}

/// Over what a try goes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// One datagram, from a fresh socket with a random port (RFC 5452 9.2). The socket is kept open until the
    /// lookup ends.
    Udp,
    /// A TCP connection, for an answer that was truncated.
    Tcp,
}

/// A message that is to be sent to a resolver.
#[derive(Clone, PartialEq, Eq)]
pub struct Transmit {
    /// To which resolver: an index below [`LookupConfig::upstreams`].
    pub upstream: usize,
    /// The transport over which it is to be sent.
    pub transport: Transport,
    /// The bytes: over TCP with the two length bytes before them.
    pub payload: Vec<u8>,
    /// The id of the message; the answer has the same id.
    pub id: u16,
}

/// The kind of a message that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// Nothing that the resolver said to this question, or nothing that is still awaited.
    Nothing,
    /// The message is the answer of the resolver.
    Answer,
    /// The resolver's word: REFUSED, which may mean that too many questions are under way.
    Refusal,
    /// The message may come from the resolver or from a forger, so the question is repeated over TCP. The answer to the datagram is still
    /// awaited.
    Folded,
}

/// A question on its way to an answer.
pub struct Lookup {
    question: Question,
    config: LookupConfig,
    /// The resolver that is asked first.
    first: usize,
    /// Since it was first sent.
    give_up: Option<Instant>,
    /// Tries made or begun, over all resolvers; TCP does not count.
    tries: u32,
    next: Next,
    /// The messages that may still get an answer, the latest last.
    sent: Vec<Try>,
    upstreams: [Upstream; DNS_UPSTREAMS_MAX],
    failure: Option<Failure>,
    outcome: Option<Outcome>,
}

#[derive(Clone, Copy)]
enum Next {
    Send { upstream: usize, transport: Transport },
    Wait { upstream: usize, transport: Transport, until: Instant },
}

struct Try {
    upstream: usize,
    transport: Transport,
    extension: Extension,
    encoded: Encoded,
}

#[derive(Clone, Copy, Default)]
struct Upstream {
    /// It said something that it would only repeat.
    spent: bool,
    asked: bool,
    answered: bool,
    no_edns: bool,
    no_tcp: bool,
    /// It denied without an SOA record and is asked for DNSSEC records, with which it has to have one.
    wants_dnssec: bool,
    /// It denied without proof.
    doubted: bool,
    refusals: u8,
}

impl Lookup {
    /// A lookup that begins with the resolver `first` (taken modulo their number).
    pub fn new(question: Question, config: &LookupConfig, first: usize) -> Lookup {
        let count = config.upstreams.clamp(1, DNS_UPSTREAMS_MAX);
        let config = LookupConfig { upstreams: count, ..*config };
        let first = first % count;
        Lookup {
            question,
            config,
            first,
            give_up: None,
            tries: 1,
            next: Next::Send { upstream: first, transport: Transport::Udp },
            sent: Vec::new(),
            upstreams: [Upstream::default(); DNS_UPSTREAMS_MAX],
            failure: None,
            outcome: None,
        }
    }

    /// Does not ask this resolver, unless there is no other. Holds for a lookup of which nothing was sent.
    pub fn leave_out(&mut self, upstream: usize) {
        let mut others = (0..self.config.upstreams).map(|after| (self.first + after) % self.config.upstreams);
        let other = others.find(|&other| other != upstream && !self.upstreams[other].spent);
        let (Some(other), Some(known)) = (other, self.upstreams.get_mut(upstream)) else { return };
        known.spent = true;
        if self.waits_for_any(upstream) {
            self.first = other;
            self.next = Next::Send { upstream: other, transport: Transport::Udp };
        }
    }

    /// The question of this lookup.
    pub fn question(&self) -> &Question {
        &self.question
    }

    /// To which resolver and over what the next message goes, if one is due. It may be held back: time counts from when
    /// it is sent.
    pub fn wants(&self) -> Option<(usize, Transport)> {
        match self.next {
            Next::Send { upstream, transport } if self.outcome.is_none() => Some((upstream, transport)),
            _ => None,
        }
    }

    /// Whether anything was sent so far.
    pub fn is_sent(&self) -> bool {
        self.give_up.is_some()
    }

    /// The next message to send, if one is due. `timeout` is the resolver's retransmission time: how long the first round waits
    /// for it; doubled with each round. `random` has to be unpredictable to others: an id and the capitals are drawn from it.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        timeout: Duration,
        random: &mut dyn FnMut() -> u64,
    ) -> Option<Transmit> {
        let (upstream, transport) = self.wants()?;
        let extension = match &self.upstreams[upstream] {
            Upstream { no_edns: true, .. } => Extension::None,
            Upstream { wants_dnssec: true, .. } => Extension::Dnssec,
            _ => Extension::Edns,
        };
        let capitals = match transport {
            Transport::Udp => [random(), random(), random(), random()],
            // A forger cannot answer in a connection that it does not see.
            Transport::Tcp => [0; 4],
        };
        let id = (random() >> 48) as u16;
        let encoded = message::encode(&self.question, id, capitals, extension);
        let payload = match transport {
            Transport::Udp => encoded.bytes().to_vec(),
            Transport::Tcp => encoded.framed(),
        };
        self.upstreams[upstream].asked = true;
        self.sent.push(Try { upstream, transport, extension, encoded });
        let give_up = *self.give_up.get_or_insert(now + self.config.total_timeout);
        let until = (now + self.patience(transport, timeout)).min(give_up);
        self.next = Next::Wait { upstream, transport, until };
        Some(Transmit { upstream, transport, payload, id })
    }

    /// When [`Lookup::on_timeout`] has to be called; `None` when the lookup has ended, or was not yet sent.
    pub fn deadline(&self) -> Option<Instant> {
        match self.next {
            _ if self.outcome.is_some() => None,
            Next::Wait { until, .. } => Some(until),
            Next::Send { .. } => self.give_up,
        }
    }

    /// Ends the lookup, because no resolver would answer.
    pub fn abandon(&mut self) {
        if self.outcome.is_none() {
            self.fail();
        }
    }

    /// How it ended, once it has.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// The outcome by value, as [`Lookup::outcome`].
    pub fn into_outcome(self) -> Option<Outcome> {
        self.outcome
    }

    /// Whether any resolver answered so far, be it with an error: when none does for all lookups, the fault is
    /// ours or theirs and not the domain's.
    pub fn has_any_answer(&self) -> bool {
        self.upstreams.iter().any(|u| u.answered)
    }

    /// Why it will fail if no resolver answers: nobody has, or the network cannot reach one.
    pub fn failure(&self) -> Failure {
        self.failure.unwrap_or(Failure::Timeout)
    }

    /// Whether this resolver was asked so far.
    pub fn has_asked(&self, upstream: usize) -> bool {
        self.upstreams.get(upstream).is_some_and(|u| u.asked)
    }

    /// Whether this resolver answered so far.
    pub fn has_answered(&self, upstream: usize) -> bool {
        self.upstreams.get(upstream).is_some_and(|u| u.answered)
    }

    /// Whether this resolver denied the name or its records without proof.
    pub fn has_doubted(&self, upstream: usize) -> bool {
        self.upstreams.get(upstream).is_some_and(|u| u.doubted)
    }

    /// Whether any resolver did so.
    pub fn has_any_doubt(&self) -> bool {
        self.upstreams.iter().any(|u| u.doubted)
    }

    /// Takes a datagram that came from a resolver's address and port to a socket of this lookup.
    pub fn on_datagram(&mut self, upstream: usize, bytes: &[u8], now: Instant) -> Received {
        self.handle(upstream, Transport::Udp, bytes, now)
    }

    /// Takes a message, without its length bytes, that came over a connection of this lookup.
    pub fn on_tcp(&mut self, upstream: usize, bytes: &[u8], now: Instant) -> Received {
        self.handle(upstream, Transport::Tcp, bytes, now)
    }

    /// The connection could not be made, or ended before a message had come.
    pub fn on_tcp_failed(&mut self, upstream: usize) {
        if let Some(known) = self.upstreams.get_mut(upstream) {
            known.no_tcp = true;
        }
        if self.waits_for(upstream, Transport::Tcp) {
            self.go_on();
        }
    }

    /// The network says that the resolver cannot be reached (such as ICMP "port unreachable"). The next one is
    /// asked at once; where there is none, the try's time is waited out, for a resolver may be restarting.
    pub fn on_unreachable(&mut self, upstream: usize) {
        if self.outcome.is_some() || !self.waits_for(upstream, Transport::Udp) {
            return;
        }
        self.failure.get_or_insert(Failure::Unreachable);
        if !self.tries.is_multiple_of(self.count()) {
            self.go_on();
        }
    }

    /// Time has passed; nothing happens before [`Lookup::deadline`].
    pub fn on_timeout(&mut self, now: Instant) {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        if self.give_up.is_some_and(|give_up| now >= give_up) {
            return self.fail();
        }
        if let Next::Wait { upstream, transport: Transport::Tcp, .. } = self.next {
            self.upstreams[upstream].no_tcp = true;
        }
        self.go_on();
    }

    fn patience(&self, transport: Transport, timeout: Duration) -> Duration {
        let round = (self.tries - 1) / self.count();
        match transport {
            Transport::Tcp => self.config.tcp_timeout,
            Transport::Udp => {
                let doubled = timeout.saturating_mul(1 << round.min(16));
                doubled.min(self.config.try_timeout_max)
            }
        }
    }

    fn waits_for(&self, upstream: usize, transport: Transport) -> bool {
        matches!(self.next, Next::Wait { upstream: u, transport: t, .. } if u == upstream && t == transport)
    }

    fn waits_for_any(&self, upstream: usize) -> bool {
        matches!(self.next, Next::Wait { upstream: u, .. } | Next::Send { upstream: u, .. } if u == upstream)
    }

    fn all_spent(&self) -> bool {
        self.upstreams[..self.config.upstreams].iter().all(|u| u.spent)
    }

    fn count(&self) -> u32 {
        self.config.upstreams as u32
    }
}
