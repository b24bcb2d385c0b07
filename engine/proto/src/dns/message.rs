//! Encodes questions and decodes their answers. No other module knows the wire format (RFC 1035 4, RFC 6891).
//!
//! A message counts as the answer only if its id, its question and the case of every letter in the question are those that were
//! sent. This is checked before the message is decoded. If only the case differs, the lookup repeats the question over TCP. All
//! other messages are ignored, because the resolver did not send them, or not for this question. There is one exception: a bare
//! header with FORMERR or NOTIMP needs no question.

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
    /// Names of an IP address (RFC 1035 3.3.12).
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
    /// One text for each TXT record: its strings are joined, and bytes that are not UTF-8 become U+FFFD.
    Txt(Vec<Box<str>>),
    /// The names of the IP address.
    Ptr(Vec<Name>),
}

/// One MX record: a preference and an exchange (RFC 1035 3.3.9).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mx {
    /// The preference. A lower number is tried earlier (RFC 5321 5.1).
    pub preference: u16,
    /// The exchange: the name of a host, the root, or neither.
    pub exchange: Exchange,
}

/// The target of an MX record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exchange {
    /// The root. A domain without any other MX record takes no mail (RFC 7505).
    Null,
    /// The name of a mail host.
    Host(Name),
    /// Something that cannot be the name of a host.
    Invalid,
}

/// The content of a message that answers the question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    /// The records, and the lowest TTL among them and the CNAMEs that led to them, in seconds.
    Records(Records, u32),
    /// The name has no such record, or none that can be read. The lifetime, in seconds, is that of the SOA record (RFC 2308 5), or
    /// the TTL of the unreadable records.
    NoData(u32),
    /// The name does not exist. The lifetime, in seconds, is that of the SOA record.
    NxDomain(u32),
    /// The CNAMEs lead to this name, and the message neither has its records nor proves that there are none: the resolver did not
    /// follow the CNAMEs to their end. With the lowest TTL of the CNAMEs, in seconds.
    Alias(Name, u32),
    /// The name or its records are denied without proof that the zone does so, or the answer may be forged or filtered.
    Unproven(Doubt),
    /// The answer is truncated, so the question has to be asked over TCP (RFC 7766 5).
    Truncated,
    /// The message has no usable answer. The cause of [`Failure::FormErr`] and [`Failure::NotImp`] may be EDNS (RFC 6891 7).
    Failed(Failure),
}

/// Why a denial proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// The denial lacks the SOA record of a zone that contains the name, which RFC 2308 3 demands. Some resolvers, such as old
    /// versions of dnsmasq, leave out this record if they answer from their cache.
    NoSoa,
    /// The message itself says that the answer was forged or filtered. The value is its code, one of [`FORGED`].
    Extended(u16),
    /// All addresses are 0.0.0.0 or `::`. Filters send such answers for names that they block.
    Unspecified,
}

/// The Extended DNS Errors that say that an answer was forged or filtered: Forged Answer, Blocked, Censored, Filtered, Prohibited
/// (RFC 8914 4).
pub const FORGED: [u16; 5] = [4, 15, 16, 17, 18];

/// How a question uses EDNS (RFC 6891).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extension {
    /// The question has no EDNS record.
    None,
    /// The EDNS record says how long a datagram may be, and lets the resolver add Extended DNS Errors.
    Edns,
    /// The EDNS record also asks for DNSSEC records (DO, RFC 3225). We do not read these. But if the cache of the resolver has the
    /// answer without these records, the resolver has to fetch the answer anew.
    Dnssec,
}

/// Why a message is not an answer to the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unrelated {
    /// The message has another id or another question, or is not a response.
    NotOurs,
    /// Only the case of letters in the question differs: a forger guessed it wrong, or the resolver does not preserve it.
    CaseDiffers,
}

/// An encoded question, with what is needed to recognize its answer.
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

    /// The message with its length in two bytes before it, as TCP needs it (RFC 1035 4.2.2). Both are sent in one piece, as RFC
    /// 7766 8 asks.
    pub fn framed(&self) -> Vec<u8> {
        // A question has fewer than 300 bytes.
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
/// hickory_proto is used only to decode, because it needs more time to encode a message than the kernel needs to send it. Encoding
/// a question is simple: it consists of a fixed header, a name with checked labels, its kind and class, and a fixed record for
/// EDNS.
pub fn encode(question: &Question, id: u16, capitals: [u64; 4], extension: Extension) -> Encoded {
    let room = HEADER_BYTES + question.name.as_str().len() + 2 + 4 + OPT_BYTES;
    let mut bytes = Vec::with_capacity(room);
    bytes.extend_from_slice(&id.to_be_bytes());
    // A query that desires recursion, with one question and perhaps one additional record: RFC 1035 4.1.1.
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

/// The EDNS record (RFC 6891 6.1.2): OPT at the root, the longest datagram that we take, version 0, no flags and no options.
const OPT: [u8; OPT_BYTES] = {
    let [high, low] = DNS_UDP_PAYLOAD_BYTES.to_be_bytes();
    [0, 0, 41, high, low, 0, 0, 0, 0, 0, 0]
};
const OPT_BYTES: usize = 11;
/// The offset of the flags in OPT: RFC 6891 6.1.3.
const OPT_FLAGS: usize = 7;
const DO: u8 = 0x80;

/// Reads a message that came from the resolver to which `sent` was sent.
///
/// # Errors
/// [`Unrelated`] if it does not answer `sent`.
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
    /// Only a header, which says FORMERR or NOTIMP. Servers that cannot read EDNS send this (RFC 6891 7).
    Rejected,
}

/// Compares a message with the question that was sent: RFC 5452 9.1.
fn relation(sent: &Encoded, bytes: &[u8]) -> Result<Relation, Unrelated> {
    let header = bytes.get(..HEADER_BYTES).ok_or(Unrelated::NotOurs)?;
    let [_, _, flags, code, rest @ ..] = header else { return Err(Unrelated::NotOurs) };
    // The QR bit has to be set, and the opcode has to be 0 (QUERY).
    if header[..2] != sent.bytes[..2] || flags & 0xf8 != 0x80 {
        return Err(Unrelated::NotOurs);
    }
    if rest[..2] == [0, 0] && bytes.len() == HEADER_BYTES && matches!(code & 15, 1 | 4) {
        return Ok(Relation::Rejected);
    }
    // There has to be one question, equal to ours byte by byte: its name is never compressed, because no other name precedes it.
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

/// Divides a TCP stream into messages (RFC 1035 4.2.2). The reader holds at most one message, so the caller should not read more
/// than [`FrameReader::wanted`] bytes at once.
#[derive(Debug, Default)]
pub struct FrameReader {
    buffer: Vec<u8>,
}

impl FrameReader {
    /// Takes the next bytes of the stream, up to the end of the present message. Returns how many bytes it has taken.
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

    /// How many bytes are missing, first of the length and then of the message. 0 if the message is whole.
    pub fn wanted(&self) -> usize {
        match self.buffer[..] {
            [] => 2,
            [_] => 1,
            [a, b, ..] => 2 + usize::from(u16::from_be_bytes([a, b])) - self.buffer.len(),
        }
    }

    /// Takes the message, once it is whole. The reader is empty afterwards.
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
