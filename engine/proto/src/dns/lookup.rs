//! The machine that gets one question answered: which resolver is asked when, over what, and what counts as the
//! answer (RFC 5452, RFC 7766, RFC 6891 7, RFC 9520).
//!
//! The caller sends what [`Lookup::poll_transmit`] gives until it gives nothing, feeds what comes back and wakes
//! the machine at [`Lookup::deadline`], until there is an [`Lookup::outcome`]:
//!
//! - Each try is unlike the one before in id, capitals and, by the caller's doing, source port.
//! - A message that does not match a try is as if it had never come; waiting goes on. A late answer to an earlier
//!   try of this lookup counts.
//! - A resolver that says SERVFAIL, REFUSED or nonsense is not asked again (RFC 9520 2: it would repeat itself),
//!   one that is silent is, with doubled patience, when its turn comes.
//! - Truncation moves the try to TCP, and so does a resolver that does not keep the case of letters.

#[cfg(test)]
mod tests;

use super::message::{self, Encoded, Question, Response, Unrelated};
use super::{Failure, Outcome, ttl};
use crate::limits::{
    DNS_ROUNDS, DNS_TCP_TIMEOUT, DNS_TOTAL_TIMEOUT, DNS_TRY_TIMEOUT, DNS_TRY_TIMEOUT_MAX, DNS_UPSTREAMS_MAX,
};
use std::time::{Duration, Instant};

/// How lookups are done; the same for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LookupConfig {
    /// How many resolvers there are. At least one; those beyond [`DNS_UPSTREAMS_MAX`] are not used.
    pub upstreams: usize,
    /// How often each is asked.
    pub rounds: u32,
    /// How long the first round waits for each; doubled with each round.
    pub try_timeout: Duration,
    /// The longest that a try waits.
    pub try_timeout_max: Duration,
    /// How long an answer over TCP may take, connecting included.
    pub tcp_timeout: Duration,
    /// How long the whole may take.
    pub total_timeout: Duration,
}

impl LookupConfig {
    /// The defaults of [`crate::limits`] for this many resolvers.
    pub fn new(upstreams: usize) -> LookupConfig {
        LookupConfig {
            upstreams,
            rounds: DNS_ROUNDS,
            try_timeout: DNS_TRY_TIMEOUT,
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
    /// A connection.
    Tcp,
}

/// Something to send.
#[derive(Clone, PartialEq, Eq)]
pub struct Transmit {
    /// To which resolver: an index below [`LookupConfig::upstreams`].
    pub upstream: usize,
    /// Over what.
    pub transport: Transport,
    /// The octets: over TCP with the two length octets before them.
    pub payload: Vec<u8>,
    /// The message's id.
    pub id: u16,
}

/// A question on its way to an answer.
pub struct Lookup {
    question: Question,
    config: LookupConfig,
    /// The resolver that is asked first.
    first: usize,
    give_up: Instant,
    /// Tries made or begun, over all resolvers; TCP does not count.
    tries: u32,
    next: Next,
    /// What was sent and may yet be answered, the latest last.
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
    edns: bool,
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
}

impl Lookup {
    /// A lookup that begins at `now`, with the resolver `first` (taken modulo their number).
    pub fn new(question: Question, config: &LookupConfig, first: usize, now: Instant) -> Lookup {
        let count = config.upstreams.clamp(1, DNS_UPSTREAMS_MAX);
        let config = LookupConfig { upstreams: count, ..*config };
        let first = first % count;
        Lookup {
            question,
            config,
            first,
            give_up: now + config.total_timeout,
            tries: 1,
            next: Next::Send { upstream: first, transport: Transport::Udp },
            sent: Vec::new(),
            upstreams: [Upstream::default(); DNS_UPSTREAMS_MAX],
            failure: None,
            outcome: None,
        }
    }

    /// What is asked.
    pub fn question(&self) -> &Question {
        &self.question
    }

    /// The next message to send, if one is due. `random` has to be unpredictable to others: an id and the capitals
    /// are drawn from it.
    pub fn poll_transmit(&mut self, now: Instant, random: &mut dyn FnMut() -> u64) -> Option<Transmit> {
        let Next::Send { upstream, transport } = self.next else { return None };
        if self.outcome.is_some() {
            return None;
        }
        let edns = !self.upstreams[upstream].no_edns;
        let capitals = match transport {
            Transport::Udp => [random(), random(), random(), random()],
            // Nobody can forge an answer within a connection without seeing it.
            Transport::Tcp => [0; 4],
        };
        let id = (random() >> 48) as u16;
        let encoded = message::encode(&self.question, id, capitals, edns);
        let payload = match transport {
            Transport::Udp => encoded.bytes().to_vec(),
            Transport::Tcp => encoded.framed(),
        };
        self.upstreams[upstream].asked = true;
        self.sent.push(Try { upstream, transport, edns, encoded });
        let until = (now + self.patience(transport)).min(self.give_up);
        self.next = Next::Wait { upstream, transport, until };
        Some(Transmit { upstream, transport, payload, id })
    }

    /// When [`Lookup::handle_timeout`] has to be called; `None` when the lookup has ended or something is to be
    /// sent first.
    pub fn deadline(&self) -> Option<Instant> {
        match self.next {
            Next::Wait { until, .. } if self.outcome.is_none() => Some(until),
            _ => None,
        }
    }

    /// How it ended, once it has.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// As [`Lookup::outcome`], by value.
    pub fn into_outcome(self) -> Option<Outcome> {
        self.outcome
    }

    /// Whether any resolver answered so far, be it with an error: when none does for all lookups, the fault is
    /// ours or theirs and not the domain's.
    pub fn any_answer(&self) -> bool {
        self.upstreams.iter().any(|u| u.answered)
    }

    /// Whether this resolver was asked so far.
    pub fn asked(&self, upstream: usize) -> bool {
        self.upstreams.get(upstream).is_some_and(|u| u.asked)
    }

    /// Whether this resolver answered so far.
    pub fn answered(&self, upstream: usize) -> bool {
        self.upstreams.get(upstream).is_some_and(|u| u.answered)
    }

    /// Takes a datagram that came from a resolver's address and port to a socket of this lookup.
    pub fn handle_datagram(&mut self, upstream: usize, bytes: &[u8]) {
        self.handle(upstream, Transport::Udp, bytes);
    }

    /// Takes a message, without its length octets, that came over a connection of this lookup.
    pub fn handle_tcp(&mut self, upstream: usize, bytes: &[u8]) {
        self.handle(upstream, Transport::Tcp, bytes);
    }

    /// The connection could not be made, or ended before a message had come.
    pub fn handle_tcp_failed(&mut self, upstream: usize) {
        if let Some(known) = self.upstreams.get_mut(upstream) {
            known.no_tcp = true;
        }
        if self.waits_for(upstream, Transport::Tcp) {
            self.go_on();
        }
    }

    /// The network says that the resolver cannot be reached (such as ICMP "port unreachable"). The next one is
    /// asked at once; where there is none, the try's time is waited out, for a resolver may be restarting.
    pub fn handle_unreachable(&mut self, upstream: usize) {
        if self.outcome.is_some() || !self.waits_for(upstream, Transport::Udp) {
            return;
        }
        self.failure.get_or_insert(Failure::Unreachable);
        if !self.tries.is_multiple_of(self.count()) {
            self.go_on();
        }
    }

    /// Time has passed; nothing happens before [`Lookup::deadline`].
    pub fn handle_timeout(&mut self, now: Instant) {
        let Next::Wait { upstream, transport, until } = self.next else { return };
        if now < until || self.outcome.is_some() {
            return;
        }
        if now >= self.give_up {
            return self.fail();
        }
        if transport == Transport::Tcp {
            self.upstreams[upstream].no_tcp = true;
        }
        self.go_on();
    }

    fn handle(&mut self, upstream: usize, transport: Transport, bytes: &[u8]) {
        if self.outcome.is_some() || upstream >= self.config.upstreams {
            return;
        }
        let mut result = Err(Unrelated::NotOurs);
        let mut edns = false;
        for sent in self.sent.iter().filter(|s| s.upstream == upstream && s.transport == transport) {
            match message::decode(&sent.encoded, &self.question, bytes) {
                Err(Unrelated::NotOurs) => {}
                related => (result, edns) = (related, sent.edns),
            }
        }
        match result {
            Err(Unrelated::NotOurs) => {}
            Err(Unrelated::CaseDiffers) => self.move_to_tcp(upstream),
            Ok(response) => {
                self.upstreams[upstream].answered = true;
                self.take(upstream, transport, edns, response);
            }
        }
    }

    fn take(&mut self, upstream: usize, transport: Transport, edns: bool, response: Response) {
        self.outcome = Some(match response {
            Response::Records(records, seconds) => Outcome::Records { records, ttl: ttl::positive(seconds) },
            Response::NoData(seconds) => Outcome::NoData { ttl: ttl::negative(seconds) },
            Response::NxDomain(seconds) => Outcome::NxDomain { ttl: ttl::negative(seconds) },
            Response::Truncated if transport == Transport::Udp => return self.move_to_tcp(upstream),
            Response::Truncated => return self.spend(upstream, Failure::Malformed),
            Response::Failed(Failure::FormErr | Failure::NotImp) if edns => {
                return self.without_edns(upstream, transport);
            }
            Response::Failed(why) => return self.spend(upstream, why),
        });
    }

    /// The same question over TCP, unless that was tried.
    fn move_to_tcp(&mut self, upstream: usize) {
        let under_way = self.sent.iter().any(|s| s.upstream == upstream && s.transport == Transport::Tcp);
        if self.upstreams[upstream].no_tcp || under_way && !self.waits_for(upstream, Transport::Tcp) {
            self.spend(upstream, Failure::Malformed);
        } else if !under_way {
            self.next = Next::Send { upstream, transport: Transport::Tcp };
        }
    }

    /// The same question without EDNS: RFC 6891 7.
    fn without_edns(&mut self, upstream: usize, transport: Transport) {
        if !std::mem::replace(&mut self.upstreams[upstream].no_edns, true) {
            self.sent.retain(|s| s.upstream != upstream);
            self.next = Next::Send { upstream, transport };
        }
    }

    /// The resolver has had its say and is not asked again.
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

    /// The next resolver's turn, over the rounds; the end when nobody is left to ask.
    fn go_on(&mut self) {
        while !self.all_spent() && self.tries < self.count() * self.config.rounds {
            let upstream = (self.first + self.tries as usize) % self.config.upstreams;
            self.tries += 1;
            if !self.upstreams[upstream].spent {
                self.next = Next::Send { upstream, transport: Transport::Udp };
                return;
            }
        }
        self.fail();
    }

    fn fail(&mut self) {
        let why = self.failure.unwrap_or(Failure::Timeout);
        self.outcome = Some(Outcome::Failed { why, ttl: ttl::failure() });
    }

    fn patience(&self, transport: Transport) -> Duration {
        let round = (self.tries - 1) / self.count();
        match transport {
            Transport::Tcp => self.config.tcp_timeout,
            Transport::Udp => {
                let doubled = self.config.try_timeout.saturating_mul(1 << round.min(16));
                doubled.min(self.config.try_timeout_max)
            }
        }
    }

    fn waits_for(&self, upstream: usize, transport: Transport) -> bool {
        matches!(self.next, Next::Wait { upstream: u, transport: t, .. } if u == upstream && t == transport)
    }

    fn all_spent(&self) -> bool {
        self.upstreams[..self.config.upstreams].iter().all(|u| u.spent)
    }

    fn count(&self) -> u32 {
        self.config.upstreams as u32
    }
}
