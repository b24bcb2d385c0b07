//! DNS: a lookup ends in time for any input, accepts only answers that match its questions, and limits their size.
//!
//! An input is a byte for the question, one for the number of resolvers, and operations: a byte for the kind
//! (`Op::of`), two bytes of length, and a message. A message of a resolver gets the id and the question that were
//! sent last, so that its records are parsed; a forged one is used unchanged.

use crate::input::{cut, one};
use engine_proto::dns::lookup::{Lookup, LookupConfig, Transmit, Transport};
use engine_proto::dns::message::FrameReader;
use engine_proto::dns::{Name, Outcome, Question, RecordKind, Records};
use engine_proto::limits::{
    DNS_RECORDS_MAX, DNS_TOTAL_TIMEOUT, DNS_TRY_TIMEOUT, DNS_TTL_MAX, DNS_TXT_BYTES_MAX,
};
use fastrand::Rng;
use std::time::Instant;

const KINDS: [RecordKind; 5] =
    [RecordKind::Mx, RecordKind::A, RecordKind::Aaaa, RecordKind::Txt, RecordKind::Ptr];
const RESOLVERS_MAX: usize = 3;
/// More than three rounds of three resolvers over UDP, TCP and without EDNS.
const TRANSMITS_MAX: usize = 2 * 3 * 5 + 3 * 4;
const HEADER_BYTES: usize = 12;

/// An event of a lookup.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Op {
    Answer(Transport),
    Forged(Transport),
    TimePasses,
    TcpFails,
    Unreachable,
}

impl Op {
    fn of(byte: u8) -> Op {
        match byte & 15 {
            0..=5 => Op::Answer(Transport::Udp),
            6..=8 => Op::Answer(Transport::Tcp),
            9 => Op::Forged(Transport::Udp),
            10 => Op::Forged(Transport::Tcp),
            11 => Op::TcpFails,
            12 => Op::Unreachable,
            _ => Op::TimePasses,
        }
    }
}

/// An input with mostly readable answers.
pub fn grow(random: &mut Rng) -> Vec<u8> {
    let mut bytes = vec![random.u8(..), random.u8(..)];
    for _ in 0..random.usize(1..6) {
        let wanted = [15, 1, 28, 16, 12][usize::from(bytes[0]) % KINDS.len()];
        let message = message(random, wanted);
        // The first resolver is asked first, over UDP.
        bytes.push(if random.bool() { random.u8(..6) } else { random.u8(..) });
        bytes.extend_from_slice(&(message.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&message);
    }
    bytes
}

/// A header and records; the question is inserted between them later.
fn message(random: &mut Rng, wanted: u16) -> Vec<u8> {
    let counts: [u8; 3] = [random.u8(..6), random.u8(..3), random.u8(..2)];
    let flags = if random.u8(..12) == 0 { random.u8(..) } else { 0x81 };
    let code = if random.u8(..3) == 0 { random.u8(..) } else { 0x80 | [0, 0, 0, 3][random.usize(..4)] };
    let mut bytes =
        vec![random.u8(..), random.u8(..), flags, code, 0, 1, 0, counts[0], 0, counts[1], 0, counts[2]];
    for _ in 0..counts.iter().sum() {
        record(random, wanted, &mut bytes);
    }
    bytes
}

fn record(random: &mut Rng, wanted: u16, bytes: &mut Vec<u8>) {
    name(random, bytes);
    let kinds = [15, 1, 28, 16, 12, 5, 5, 6, 2, 41, 46];
    let kind = if random.bool() { wanted } else { kinds[random.usize(..kinds.len())] };
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(&[0, if random.u8(..20) == 0 { random.u8(..) } else { 1 }]);
    bytes.extend_from_slice(&if random.bool() { 300 } else { random.u32(..) }.to_be_bytes());
    let mut data = Vec::new();
    match kind {
        15 => {
            data.extend_from_slice(&random.u16(..).to_be_bytes());
            name(random, &mut data);
        }
        1 => data.extend_from_slice(&random.u32(..).to_be_bytes()),
        28 => data.extend_from_slice(&random.u128(..).to_be_bytes()),
        16 => {
            for _ in 0..random.usize(..20) {
                let length = random.u8(..);
                data.push(length);
                data.extend((0..length).map(|_| random.u8(..)));
            }
        }
        6 => {
            name(random, &mut data);
            name(random, &mut data);
            (0..5).for_each(|_| data.extend_from_slice(&random.u32(..100_000).to_be_bytes()));
        }
        2 | 5 | 12 => name(random, &mut data),
        _ => data.extend((0..random.usize(..30)).map(|_| random.u8(..))),
    }
    let length = if random.u8(..24) == 0 { random.u16(..64) } else { data.len() as u16 };
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(&data);
}

/// A name that is mostly a pointer to the question.
fn name(random: &mut Rng, bytes: &mut Vec<u8>) {
    match random.u8(..12) {
        0..=6 => bytes.extend_from_slice(&[0xc0, HEADER_BYTES as u8]),
        7 => bytes.push(0),
        8 => bytes.extend_from_slice(&[0xc0 | random.u8(..2), random.u8(..)]),
        _ => {
            for _ in 0..random.usize(1..5) {
                let label = one(random, &["mx", "a", "example", "com", "x.y", "*", "_25", "\u{fc}", "A-1"]);
                bytes.push(label.len() as u8);
                bytes.extend_from_slice(label.as_bytes());
            }
            bytes.extend_from_slice(if random.bool() { &[0] } else { &[0xc0, HEADER_BYTES as u8] });
        }
    }
}

pub fn feed(input: &[u8]) -> Result<(), String> {
    frames(input)?;
    look_up(input).map(|_| ())
}

/// Plays a lookup; returns its outcome.
fn look_up(input: &[u8]) -> Result<Option<Outcome>, String> {
    let [kind, resolvers, operations @ ..] = input else { return Ok(None) };
    let Some(name) = Name::parse("mail-1.example.com") else { return Err("no name".into()) };
    let question = Question { name, kind: KINDS[usize::from(*kind) % KINDS.len()] };
    let mut scene = Scene::new(question, 1 + usize::from(*resolvers) % RESOLVERS_MAX);
    scene.send()?;
    let mut rest = operations;
    while let [op, high, low, more @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(more.len());
        let (message, behind) = more.split_at(length);
        scene.happens(Op::of(*op), usize::from(op >> 4) % (RESOLVERS_MAX + 1), message)?;
        rest = behind;
    }
    scene.ends()?;
    Ok(scene.lookup.into_outcome())
}

struct Scene {
    lookup: Lookup,
    start: Instant,
    now: Instant,
    random: Rng,
    sent: Vec<Transmit>,
}

impl Scene {
    fn new(question: Question, resolvers: usize) -> Scene {
        let start = Instant::now();
        let lookup = Lookup::new(question, &LookupConfig::new(resolvers), resolvers);
        Scene { lookup, start, now: start, random: Rng::with_seed(1), sent: Vec::new() }
    }

    fn send(&mut self) -> Result<(), String> {
        let random = &mut self.random;
        while let Some(transmit) =
            self.lookup.poll_transmit(self.now, DNS_TRY_TIMEOUT, &mut || random.u64(..))
        {
            self.sent.push(transmit);
            if self.sent.len() > TRANSMITS_MAX {
                return Err(format!("{} messages for one question", self.sent.len()));
            }
        }
        if self.lookup.outcome().is_some() == self.lookup.deadline().is_some() {
            return Err("it neither waits nor has ended, or does both".into());
        }
        Ok(())
    }

    fn happens(&mut self, op: Op, upstream: usize, message: &[u8]) -> Result<(), String> {
        let before = self.lookup.outcome().cloned();
        match op {
            Op::Answer(transport) => {
                let message = self.answer(upstream, transport, message);
                self.receive(upstream, transport, &message);
            }
            Op::Forged(transport) => {
                self.receive(upstream, transport, message);
                let id = message.get(..2);
                let guessed = self.sent.iter().any(|sent| id == Some(&sent.id.to_be_bytes()));
                if !guessed && self.lookup.outcome() != before.as_ref() {
                    return Err("a message with another id was taken".into());
                }
            }
            Op::TimePasses => self.wait(),
            Op::TcpFails => self.lookup.on_tcp_failed(upstream),
            Op::Unreachable => self.lookup.on_unreachable(upstream),
        }
        if before.is_some() && self.lookup.outcome() != before.as_ref() {
            return Err("an outcome that changes".into());
        }
        self.send()
    }

    fn wait(&mut self) {
        if let Some(deadline) = self.lookup.deadline() {
            self.now = deadline;
            self.lookup.on_timeout(deadline);
        }
    }

    fn receive(&mut self, upstream: usize, transport: Transport, message: &[u8]) {
        let _ = match transport {
            Transport::Udp => self.lookup.on_datagram(upstream, message, self.now),
            Transport::Tcp => self.lookup.on_tcp(upstream, message, self.now),
        };
    }

    /// The message as an answer to the last question there.
    fn answer(&self, upstream: usize, transport: Transport, message: &[u8]) -> Vec<u8> {
        let to = |sent: &&Transmit| sent.upstream == upstream && sent.transport == transport;
        let Some(sent) = self.sent.iter().rev().find(to) else { return message.to_vec() };
        let asked = &sent.payload[if transport == Transport::Tcp { 2 } else { 0 }..];
        let [_, _, flags, code, _, _, counts @ ..] = message else { return message.to_vec() };
        let Some((counts, records)) = counts.split_at_checked(6) else { return message.to_vec() };
        // Behind an alias, the last question is for another name than the first. The name ends at the first zero.
        let name_length = asked[HEADER_BYTES..].iter().position(|byte| *byte == 0).unwrap_or_default() + 1;
        let question_end = HEADER_BYTES + name_length + 4;
        let head = [asked[0], asked[1], flags & 0x87 | 0x80, *code, 0, 1];
        [&head, counts, &asked[HEADER_BYTES..question_end], records].concat()
    }

    /// Checks that it ends in time without further answers, with a limited result.
    fn ends(&mut self) -> Result<(), String> {
        for _ in 0..TRANSMITS_MAX {
            self.wait();
            self.send()?;
        }
        let Some(outcome) = self.lookup.outcome() else { return Err("it never ends".into()) };
        if self.now - self.start > DNS_TOTAL_TIMEOUT {
            return Err(format!("it ends after {} ms", (self.now - self.start).as_millis()));
        }
        if outcome.ttl() > DNS_TTL_MAX {
            return Err(format!("a lifetime of {} s", outcome.ttl().as_secs()));
        }
        let Outcome::Records { records, .. } = outcome else { return Ok(()) };
        let count = match records {
            Records::Mx(list) => list.len(),
            Records::A(list) => list.len(),
            Records::Aaaa(list) => list.len(),
            Records::Ptr(list) => list.len(),
            // A byte that is not UTF-8 becomes a character of three bytes.
            Records::Txt(list) if list.iter().any(|text| text.len() > 3 * DNS_TXT_BYTES_MAX) => usize::MAX,
            Records::Txt(list) => list.len(),
        };
        if (1..=DNS_RECORDS_MAX).contains(&count) { Ok(()) } else { Err(format!("{count} records")) }
    }
}

/// Checks that the messages of a TCP stream do not depend on its pieces.
fn frames(stream: &[u8]) -> Result<(), String> {
    let read = |pieces: &[&[u8]]| {
        let (mut reader, mut messages) = (FrameReader::default(), Vec::new());
        for mut piece in pieces.iter().copied() {
            while !piece.is_empty() {
                let used = reader.feed(piece);
                piece = &piece[used..];
                messages.extend(reader.message());
            }
        }
        (messages, reader.wanted())
    };
    let whole = read(&[stream]);
    match read(&cut(stream)) == whole {
        true => Ok(()),
        false => Err("the pieces of a TCP stream change its messages".into()),
    }
}

/// Whether the look-up finds records.
#[cfg(test)]
pub fn passes(input: &[u8]) -> bool {
    matches!(look_up(input), Ok(Some(Outcome::Records { .. })))
}
