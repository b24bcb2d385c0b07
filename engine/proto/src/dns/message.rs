//! The boundary to the wire format (RFC 1035 4, RFC 6891): questions are encoded, and their answers are decoded.
//!
//! The first bytes of a message decide whether it answers a question: the id, the question and the case of every letter (0x20) are
//! compared with those that were sent. Other messages did not come from the resolver, or not for us, and are ignored. Only an answer
//! is decoded.

mod answer;
#[cfg(test)]
mod tests;

use super::{Failure, Name};
use crate::limits::{DNS_TCP_MESSAGE_BYTES_MAX, DNS_UDP_PAYLOAD_BYTES};
use hickory_proto::rr::{DNSClass, RecordType};
use std::net::{Ipv4Addr, Ipv6Addr};

/// A kind of records that can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordKind {
    /// Mail exchanges (RFC 1035 3.3.9).
    Mx,
    /// IPv4 addresses (RFC 1035 3.4.1).
    A,
    /// IPv6 addresses (RFC 3596).
    Aaaa,
    /// Texts (RFC 1035 3.3.14).
    Txt,
    /// Names of an address (RFC 1035 3.3.12).
    Ptr,
}

/// A question in class IN.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Question {
    /// The name that is asked about.
    pub name: Name,
    /// The kind of records that are asked for.
    pub kind: RecordKind,
}

/// The records of an answer, all of the kind that was asked for; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Records {
    /// Mail exchanges, in the order of the answer.
    Mx(Vec<Mx>),
    /// The IPv4 addresses of the name.
    A(Vec<Ipv4Addr>),
    /// The IPv6 addresses of the name.
    Aaaa(Vec<Ipv6Addr>),
    /// Texts, the strings of each record joined, bytes that are no UTF-8 as U+FFFD.
    Txt(Vec<Box<str>>),
    /// The names of an address.
    Ptr(Vec<Name>),
}

/// One MX record: a preference and an exchange (RFC 1035 3.3.9).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mx {
    /// The preference. A lower number is tried earlier (RFC 5321 5.1).
    pub preference: u16,
    /// The exchange of the record: a host, or none.
    pub exchange: Exchange,
}

/// The target of an MX record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exchange {
    /// At the root: alone, it says that the domain takes no mail (RFC 7505).
    Null,
    /// The name of a mail host.
    Host(Name),
    /// At something that cannot be a host's name.
    Invalid,
}

/// The content of a message that answers the question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    /// There are records; the TTL is the least of theirs and of the CNAMEs that led to them, in seconds.
    Records(Records, u32),
    /// The name has no such record; the TTL is the SOA record's, in seconds (RFC 2308 5).
    NoData(u32),
    /// There is no such name; the TTL as with [`Response::NoData`].
    NxDomain(u32),
    /// The name or its records are denied, or forged, and nothing shows that the zone says so.
    Unproven(Doubt),
    /// The answer is longer than a datagram: ask over TCP (RFC 7766 5).
    Truncated,
    /// There is no answer in it. [`Failure::FormErr`] and [`Failure::NotImp`] may be about EDNS (RFC 6891 7).
    Failed(Failure),
}

/// Why a denial proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// It has no SOA record of a zone of the name, which RFC 2308 3 demands. Some caches, old ones of dnsmasq among them, leave it out where they answer
    /// from what they keep.
    NoSoa,
    /// It says itself that a filter or a failure made it: one of the codes of [`FORGED`].
    Extended(u16),
    /// The address is 0.0.0.0 or `::`, as filters answer for what they block.
    Unspecified,
}

/// The Extended DNS Errors that say so: Forged Answer, Blocked, Censored, Filtered, Prohibited (RFC 8914 4).
pub const FORGED: [u16; 5] = [4, 15, 16, 17, 18];

/// How a question speaks of EDNS (RFC 6891).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extension {
    /// Not at all.
    None,
    /// It says how long a datagram may be, and that Extended DNS Errors are understood.
    Edns,
    /// It also asks for DNSSEC records (DO, RFC 3225). They are not read; but what a resolver has in its cache without them it
    /// has to ask for anew.
    Dnssec,
}

/// Why a message is no answer to the question and is to be ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unrelated {
    /// The id, the kind of message or the question is another.
    NotOurs,
    /// All is right but the case of the question's letters: it was guessed, or the resolver does not keep case.
    CaseDiffers,
}

/// A question as it goes over the wire, with what is needed to know its answer.
#[derive(Clone, PartialEq, Eq)]
pub struct Encoded {
    bytes: Vec<u8>,
    question_end: usize,
}

impl Encoded {
    /// The message in wire format.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The message behind its two length bytes, as it goes over TCP (RFC 1035 4.2.2); in one piece, as RFC 7766 8
    /// asks.
    pub fn framed(&self) -> Vec<u8> {
        // A question has 300 bytes at most.
        let length = u16::try_from(self.bytes.len()).unwrap_or(u16::MAX).to_be_bytes();
        [length.as_slice(), &self.bytes].concat()
    }

    /// The id of the message.
    pub fn id(&self) -> u16 {
        u16::from_be_bytes([self.bytes[0], self.bytes[1]])
    }
}

/// Encodes a question. The n-th letter of the name is a capital if the n-th bit of `capitals` is set, so a forger has to guess
/// those bits too.
///
/// The library decodes messages, but it takes longer to encode one than the kernel takes to send it. A question is a fixed header, a
/// name with checked labels, and a fixed record for EDNS, so it is encoded here.
pub fn encode(question: &Question, id: u16, capitals: [u64; 4], extension: Extension) -> Encoded {
    let room = HEADER_BYTES + question.name.as_str().len() + 2 + 4 + OPT_BYTES;
    let mut bytes = Vec::with_capacity(room);
    bytes.extend_from_slice(&id.to_be_bytes());
    // A query that desires recursion, with one question and perhaps a record: RFC 1035 4.1.1.
    let records = u8::from(extension != Extension::None);
    bytes.extend_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, records]);
    for label in question.name.labels() {
        bytes.push(label.len() as u8);
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.push(0);
    let letters = bytes[HEADER_BYTES..].iter_mut().filter(|octet| octet.is_ascii_lowercase());
    for (n, letter) in letters.enumerate() {
        if capitals[n / 64 % 4] >> (n % 64) & 1 == 1 {
            *letter = letter.to_ascii_uppercase();
        }
    }
    bytes.extend_from_slice(&u16::from(record_type(question.kind)).to_be_bytes());
    bytes.extend_from_slice(&u16::from(DNSClass::IN).to_be_bytes());
    let question_end = bytes.len();
    match extension {
        Extension::None => {}
        Extension::Edns => bytes.extend_from_slice(&OPT),
        Extension::Dnssec => {
            bytes.extend_from_slice(&OPT);
            bytes[question_end + OPT_FLAGS] |= DO;
        }
    }
    Encoded { bytes, question_end }
}

/// OPT at the root, how much we take over UDP, version 0, no flags and no options: RFC 6891 6.1.2.
const OPT: [u8; OPT_BYTES] = {
    let [high, low] = DNS_UDP_PAYLOAD_BYTES.to_be_bytes();
    [0, 0, 41, high, low, 0, 0, 0, 0, 0, 0]
};
const OPT_BYTES: usize = 11;
/// The offset of the flags in OPT: RFC 6891 6.1.3.
const OPT_FLAGS: usize = 7;
const DO: u8 = 0x80;

/// Reads a message that came from where `sent` went.
///
/// # Errors
/// [`Unrelated`] when it does not answer `sent`.
pub fn decode(sent: &Encoded, question: &Question, bytes: &[u8]) -> Result<Response, Unrelated> {
    match relation(sent, bytes)? {
        Relation::Answer => Ok(answer::read(question, bytes)),
        Relation::Rejected => Ok(Response::Failed(Failure::FormErr)),
    }
}

/// Length of a message's header: RFC 1035 4.1.1.
const HEADER_BYTES: usize = 12;

enum Relation {
    Answer,
    /// A bare header that says FORMERR or NOTIMP, as servers send it that cannot read EDNS (RFC 6891 7).
    Rejected,
}

/// Compares a message with the question that was sent: RFC 5452 9.1.
fn relation(sent: &Encoded, bytes: &[u8]) -> Result<Relation, Unrelated> {
    let header = bytes.get(..HEADER_BYTES).ok_or(Unrelated::NotOurs)?;
    let [_, _, flags, code, rest @ ..] = header else { return Err(Unrelated::NotOurs) };
    // QR has to be set, and the opcode to be 0, QUERY.
    if header[..2] != sent.bytes[..2] || flags & 0xf8 != 0x80 {
        return Err(Unrelated::NotOurs);
    }
    if rest[..2] == [0, 0] && bytes.len() == HEADER_BYTES && matches!(code & 15, 1 | 4) {
        return Ok(Relation::Rejected);
    }
    // One question: a name is never compressed there, for nothing precedes it.
    let asked = &sent.bytes[HEADER_BYTES..sent.question_end];
    let echoed = bytes.get(HEADER_BYTES..sent.question_end).ok_or(Unrelated::NotOurs)?;
    if rest[..2] != [0, 1] || !asked.eq_ignore_ascii_case(echoed) {
        return Err(Unrelated::NotOurs);
    }
    if asked == echoed { Ok(Relation::Answer) } else { Err(Unrelated::CaseDiffers) }
}

fn record_type(kind: RecordKind) -> RecordType {
    match kind {
        RecordKind::Mx => RecordType::MX,
        RecordKind::A => RecordType::A,
        RecordKind::Aaaa => RecordType::AAAA,
        RecordKind::Txt => RecordType::TXT,
        RecordKind::Ptr => RecordType::PTR,
    }
}

/// Cuts messages out of a TCP stream (RFC 1035 4.2.2). It holds one message at most: no more than
/// [`FrameReader::wanted`] bytes should be read at once.
#[derive(Debug, Default)]
pub struct FrameReader {
    buffer: Vec<u8>,
}

impl FrameReader {
    /// Takes bytes as they came, and returns how many of them were used: those behind the end of a message are
    /// left to the caller.
    pub fn feed(&mut self, bytes: &[u8]) -> usize {
        let mut used = 0;
        while used < bytes.len() {
            let take = self.wanted().min(bytes.len() - used);
            if take == 0 {
                break;
            }
            self.buffer.extend_from_slice(&bytes[used..used + take]);
            used += take;
        }
        used
    }

    /// How many bytes are missing: of the length first, then of the message; 0 when there is a message.
    pub fn wanted(&self) -> usize {
        match self.buffer[..] {
            [] => 2,
            [_] => 1,
            [a, b, ..] => 2 + usize::from(u16::from_be_bytes([a, b])) - self.buffer.len(),
        }
    }

    /// The message, once it is whole; the reader is empty then.
    pub fn message(&mut self) -> Option<Vec<u8>> {
        if self.wanted() > 0 {
            return None;
        }
        let mut message = std::mem::take(&mut self.buffer);
        message.drain(..2);
        Some(message)
    }
}

const _: () = assert!(DNS_TCP_MESSAGE_BYTES_MAX == u16::MAX as usize);
