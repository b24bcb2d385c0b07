//! The lookup of one question: which resolver is asked, when, over which transport, and which message counts as the answer (RFC
//! 5452, RFC 7766, RFC 6891 7, RFC 9520). The resolvers are asked one after the other, in several rounds.
//!
//! The caller sends the messages of [`Lookup::poll_transmit`] until there are none, hands over the messages that arrive, and calls
//! [`Lookup::on_timeout`] at [`Lookup::deadline`], until [`Lookup::outcome`] is set. The rules:
//!
//! - Each UDP try has a random id and random capital letters in the name, and the caller chooses a random source port.
//! - A message that matches no try is ignored. A late answer to an earlier try counts, unless its resolver has since refused, been
//!   given up, or been asked again without EDNS or for DNSSEC records.
//! - A resolver that answers with SERVFAIL or nonsense is not asked again, because it would repeat its answer (RFC 9520 2). A
//!   silent resolver is asked again in each round, and each round waits twice as long for its answer, up to a maximum.
//! - REFUSED may mean that the resolver is overloaded, so it is asked again in further rounds, a few times. If the resolver is the
//!   last of its round, a pause comes before the next round.
//! - A denial without proof is not believed. If only the SOA record is missing and the resolver can do EDNS, the same resolver is
//!   asked once more, with a request for DNSSEC records. To get these, the resolver has to fetch the denial anew. In all other
//!   cases, the next resolver is asked.
//! - If an answer ends at an alias, the name to which the alias leads is asked about instead.
//! - If an answer is truncated or changes the case of letters in the question, the same question is asked over TCP.

mod reply;
#[cfg(test)]
mod tests;

use super::message::{self, Encoded, Extension, Question};
use super::{Failure, Outcome};
use crate::limits::{DNS_ROUNDS, DNS_TCP_TIMEOUT, DNS_TOTAL_TIMEOUT, DNS_TRY_TIMEOUT_MAX, DNS_UPSTREAMS_MAX};
use std::time::{Duration, Instant};

/// The settings of all lookups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LookupConfig {
    /// Number of resolvers. 0 counts as 1, and resolvers beyond [`DNS_UPSTREAMS_MAX`] are not used.
    pub upstreams: usize,
    /// Number of rounds over all resolvers. In each round, a resolver gets one turn, unless this lookup has already given it up.
    pub rounds: u32,
    /// The longest wait for the answer to a UDP try.
    pub try_timeout_max: Duration,
    /// How long an answer over TCP may take, including the time to connect.
    pub tcp_timeout: Duration,
    /// How long the whole lookup may take, from its first message.
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

/// The transport of a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// One datagram, from one of several sockets with random ports (RFC 5452 9.2). The caller keeps the socket until the lookup
    /// ends.
    Udp,
    /// A TCP connection, after an answer was truncated or did not keep the case of the letters in the question.
    Tcp,
}

/// A message to send to a resolver.
#[derive(Clone, PartialEq, Eq)]
pub struct Transmit {
    /// The index of the resolver, below [`LookupConfig::upstreams`].
    pub upstream: usize,
    /// The transport over which it is to be sent.
    pub transport: Transport,
    /// The bytes of the message. For TCP, they begin with its two length bytes.
    pub payload: Vec<u8>,
    /// The id of the message; the answer has the same id.
    pub id: u16,
}

/// What a message that arrived means for its lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// The message is ignored: it matches no try that still awaits an answer, or the lookup has ended.
    Nothing,
    /// The resolver has answered, perhaps with an error other than REFUSED.
    Answer,
    /// The resolver has answered REFUSED, which may mean that it has too many questions under way.
    Refusal,
    /// The case of letters in the message's question is not the one that we sent. The message may come from the resolver or from a
    /// forger, so the question is repeated over TCP if possible. Meanwhile an answer to the datagram still counts.
    CaseChanged,
}

/// The state of one lookup.
pub struct Lookup {
    question: Question,
    /// The question about the name at the end of the aliases that a resolver did not follow, if there are any.
    at_alias: Option<Question>,
    /// The number of times that such an alias was followed, and the lowest TTL of these aliases, in seconds.
    aliases: (usize, u32),
    config: LookupConfig,
    /// The resolver that is asked first.
    first: usize,
    /// When the whole lookup ends at the latest. Set when the first message is sent.
    give_up: Option<Instant>,
    /// Number of turns so far, including the present one and those that were skipped because their resolver was spent. Asking the
    /// same resolver in another way, such as over TCP, does not count as a new turn.
    turns: u32,
    next: Next,
    /// Messages to which an answer may still come, the latest last.
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
    /// The lookup does not ask this resolver any more, for example because the resolver would only repeat its answer, or because
    /// the caller left it out.
    spent: bool,
    asked: bool,
    answered: bool,
    no_edns: bool,
    no_tcp: bool,
    /// The resolver's denial had no SOA record. So the next question asks for DNSSEC records: to get these, the resolver has to
    /// fetch the denial anew, with the SOA record.
    wants_dnssec: bool,
    denied_unproven: bool,
    refusals: u8,
    /// The transport over which the resolver is asked at its next turn. Set if a reply that came after the resolver's turn calls
    /// for another transport or another form of the question.
    due: Option<Transport>,
}

impl Lookup {
    /// A lookup that asks the resolver `first` (modulo the number of resolvers) before the others.
    pub fn new(question: Question, config: &LookupConfig, first: usize) -> Lookup {
        let count = config.upstreams.clamp(1, DNS_UPSTREAMS_MAX);
        let config = LookupConfig { upstreams: count, ..*config };
        let first = first % count;
        Lookup {
            question,
            at_alias: None,
            aliases: (0, u32::MAX),
            config,
            first,
            give_up: None,
            turns: 1,
            next: Next::Send { upstream: first, transport: Transport::Udp },
            sent: Vec::new(),
            upstreams: [Upstream::default(); DNS_UPSTREAMS_MAX],
            failure: None,
            outcome: None,
        }
    }

    /// Leaves out this resolver, unless no other is left. Has to be called before the first message is sent.
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

    /// The resolver and the transport of the next message, if one is due. The caller may delay the message. The time of the lookup
    /// begins when [`Lookup::poll_transmit`] returns the first message; after that, a delay counts towards
    /// [`LookupConfig::total_timeout`].
    pub fn wants(&self) -> Option<(usize, Transport)> {
        match self.next {
            Next::Send { upstream, transport } if self.outcome.is_none() => Some((upstream, transport)),
            _ => None,
        }
    }

    /// Whether a message has been sent so far.
    pub fn is_sent(&self) -> bool {
        self.give_up.is_some()
    }

    /// The next message to send, if one is due. `timeout` is the resolver's retransmission time. A UDP try waits that long in the
    /// first round, and each further round doubles the wait, up to [`LookupConfig::try_timeout_max`]. The id and the capital
    /// letters come from `random`, which therefore has to be unpredictable for others.
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
            // A forger cannot answer on a connection that it does not see, so capitals add nothing.
            Transport::Tcp => [0; 4],
        };
        let id = (random() >> 48) as u16;
        let encoded =
            message::encode(self.at_alias.as_ref().unwrap_or(&self.question), id, capitals, extension);
        let payload = match transport {
            Transport::Udp => encoded.bytes().to_vec(),
            Transport::Tcp => encoded.framed(),
        };
        self.upstreams[upstream].asked = true;
        self.sent.push(Try { upstream, transport, extension, encoded });
        let give_up = *self.give_up.get_or_insert(now + self.config.total_timeout);
        let until = (now + self.try_timeout(transport, timeout)).min(give_up);
        self.next = Next::Wait { upstream, transport, until };
        Some(Transmit { upstream, transport, payload, id })
    }

    /// When [`Lookup::on_timeout`] has to be called; `None` if the lookup has ended, or if nothing has been sent yet.
    pub fn deadline(&self) -> Option<Instant> {
        match self.next {
            _ if self.outcome.is_some() => None,
            Next::Wait { until, .. } => Some(until),
            Next::Send { .. } => self.give_up,
        }
    }

    /// Ends the lookup with a failure, unless it has ended already.
    pub fn abandon(&mut self) {
        if self.outcome.is_none() {
            self.fail();
        }
    }

    /// The outcome, once the lookup has ended.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// Takes the outcome, once the lookup has ended.
    pub fn into_outcome(self) -> Option<Outcome> {
        self.outcome
    }

    /// Whether any resolver has answered so far, even with an error. If no resolver answers any lookup, the cause is the network or
    /// the resolvers and not the domains.
    pub fn has_any_answer(&self) -> bool {
        self.upstreams.iter().any(|u| u.answered)
    }

    /// The cause of failure that is known so far; [`Failure::Timeout`] if there is none.
    pub fn failure(&self) -> Failure {
        self.failure.unwrap_or(Failure::Timeout)
    }

    /// Whether this resolver has been asked so far.
    pub fn has_asked(&self, upstream: usize) -> bool {
        self.upstreams.get(upstream).is_some_and(|u| u.asked)
    }

    /// Whether this resolver has answered so far.
    pub fn has_answered(&self, upstream: usize) -> bool {
        self.upstreams.get(upstream).is_some_and(|u| u.answered)
    }

    /// Whether this resolver denied the name or its records without proof.
    pub fn has_denied_unproven(&self, upstream: usize) -> bool {
        self.upstreams.get(upstream).is_some_and(|u| u.denied_unproven)
    }

    /// Whether any resolver denied the name or its records without proof.
    pub fn has_any_unproven_denial(&self) -> bool {
        self.upstreams.iter().any(|u| u.denied_unproven)
    }

    /// Takes a datagram that came from a resolver's address and port to a socket of this lookup.
    pub fn on_datagram(&mut self, upstream: usize, bytes: &[u8], now: Instant) -> Received {
        self.handle(upstream, Transport::Udp, bytes, now)
    }

    /// Takes a message, without its length bytes, that came over a TCP connection of this lookup.
    pub fn on_tcp(&mut self, upstream: usize, bytes: &[u8], now: Instant) -> Received {
        self.handle(upstream, Transport::Tcp, bytes, now)
    }

    /// The TCP connection could not be made, or ended before a message came. The lookup stops waiting for it.
    pub fn on_tcp_failed(&mut self, upstream: usize) {
        if let Some(known) = self.upstreams.get_mut(upstream) {
            known.no_tcp = true;
        }
        if self.waits_for(upstream, Transport::Tcp) {
            self.go_on();
        }
    }

    /// The network says that the resolver cannot be reached, for example by ICMP "port unreachable". The next resolver is asked at
    /// once. But if this resolver was the last one of the round, the lookup first waits until its try times out, because a resolver
    /// may be restarting.
    pub fn on_unreachable(&mut self, upstream: usize) {
        if self.outcome.is_some() || !self.waits_for(upstream, Transport::Udp) {
            return;
        }
        self.failure.get_or_insert(Failure::Unreachable);
        if !self.turns.is_multiple_of(self.count()) {
            self.go_on();
        }
    }

    /// Time has passed. From [`Lookup::deadline`] on, this asks the next resolver or ends the lookup; before, it does nothing.
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

    fn try_timeout(&self, transport: Transport, timeout: Duration) -> Duration {
        let round = (self.turns - 1) / self.count();
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
