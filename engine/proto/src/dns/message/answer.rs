//! Reads messages that answer the question: follows the CNAMEs, and ignores the records of names to which they do not lead.

use super::{Doubt, Exchange, FORGED, Mx, Question, RecordKind, Records, Response, record_type};
use crate::dns::{Failure, Name};
use crate::limits::{DNS_CNAMES_MAX, DNS_RECORDS_MAX, DNS_TXT_BYTES_MAX};
use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::rdata::opt::EdnsOption;
use hickory_proto::rr::{self, DNSClass, RData, Record, RecordType};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Reads a message that is known to answer the question.
pub(super) fn read(question: &Question, bytes: &[u8]) -> Response {
    // A truncated message may end within a record and be unreadable, so the TC bit is checked first.
    if bytes.get(2).is_some_and(|flags| flags & 0x02 != 0) {
        return Response::Truncated;
    }
    let Ok(message) = Message::from_vec(bytes) else {
        return Response::Failed(Failure::Malformed);
    };
    Response::Failed(match message.metadata.response_code {
        ResponseCode::NoError | ResponseCode::NXDomain => return answer(question, &message),
        // Code 16 means BADVERS in a message without TSIG. The library may give it either of its two names.
        ResponseCode::FormErr | ResponseCode::BADVERS | ResponseCode::BADSIG => Failure::FormErr,
        ResponseCode::NotImp => Failure::NotImp,
        ResponseCode::ServFail => Failure::ServFail,
        ResponseCode::Refused => Failure::Refused,
        _ => Failure::OtherCode,
    })
}

/// Reads the answer. The SOA record of a denial has to belong to a zone that contains the name to which the CNAMEs lead (RFC 6604 3).
/// Without such a record, the denial proves nothing (RFC 2308 3).
fn answer(question: &Question, message: &Message) -> Response {
    // The message repeats the question: this was checked before it was decoded.
    let Some(asked) = message.queries.first() else { return Response::Failed(Failure::Malformed) };
    let Ok((owner, cname_ttl)) = follow(asked.name(), &message.answers) else {
        return Response::Failed(Failure::CnameLoop);
    };
    let kind = record_type(question.kind);
    let found = at(&message.answers, &owner).filter(|r| r.record_type() == kind).take(DNS_RECORDS_MAX);
    let ttl = found.clone().map(|r| r.ttl).chain(cname_ttl).min();
    let exists = message.metadata.response_code == ResponseCode::NoError;
    let is_there = found.clone().next().is_some();
    let records = collect(question.kind, found);
    if records.is_some() && !exists {
        // There are records, but the response code says that the name does not exist.
        return Response::Failed(Failure::Malformed);
    }
    if let Some(code) = forged(message) {
        return Response::Unproven(Doubt::Extended(code));
    }
    match (records, ttl) {
        (Some(records), _) if is_unspecified(&records) => Response::Unproven(Doubt::Unspecified),
        (Some(records), Some(ttl)) => Response::Records(records, ttl),
        // There are records of this kind, but none can be read.
        (None, Some(ttl)) if is_there => Response::NoData(ttl),
        _ if exists && is_referral(message) => Response::Failed(Failure::Referral),
        _ => match (soa_ttl(message, &owner), cname_ttl, name(&owner)) {
            (Some(ttl), ..) if exists => Response::NoData(ttl),
            (Some(ttl), ..) => Response::NxDomain(ttl),
            (None, Some(ttl), Some(target)) => Response::Alias(target, ttl),
            (None, ..) => Response::Unproven(Doubt::NoSoa),
        },
    }
}

/// The first Extended DNS Error (RFC 8914 2) that says that the answer was forged or filtered.
fn forged(message: &Message) -> Option<u16> {
    let options = message.edns.as_ref()?.options().as_ref();
    let mut errors = options.iter().filter_map(|(_, option)| match option {
        EdnsOption::Unknown(EXTENDED_ERROR, data) => data.first_chunk().map(|code| u16::from_be_bytes(*code)),
        _ => None,
    });
    errors.find(|code| FORGED.contains(code))
}

/// The EDNS option with an Extended DNS Error (RFC 8914 2).
const EXTENDED_ERROR: u16 = 15;

/// Whether the records are only 0.0.0.0 or `::`, which no host has (RFC 1122 3.2.1.3, RFC 4291 2.5.2). Such an answer amounts to a
/// denial.
fn is_unspecified(records: &Records) -> bool {
    match records {
        Records::A(found) => found.iter().all(Ipv4Addr::is_unspecified),
        Records::Aaaa(found) => found.iter().all(Ipv6Addr::is_unspecified),
        Records::Mx(_) | Records::Txt(_) | Records::Ptr(_) => false,
    }
}

/// The records of class IN at a name.
fn at<'a>(records: &'a [Record], owner: &'a rr::Name) -> impl Iterator<Item = &'a Record> + Clone {
    records.iter().filter(move |r| r.dns_class == DNSClass::IN && r.name == *owner)
}

struct EndlessCnames;

/// Follows the CNAMEs from the name that was asked for. Returns the last name, and the lowest TTL of these CNAMEs if there are any.
fn follow(asked: &rr::Name, answers: &[Record]) -> Result<(rr::Name, Option<u32>), EndlessCnames> {
    let mut owner = asked.clone();
    let mut least: Option<u32> = None;
    for _ in 0..=DNS_CNAMES_MAX {
        let next = at(answers, &owner).find_map(|r| match &r.data {
            RData::CNAME(target) => Some((target.0.clone(), r.ttl)),
            _ => None,
        });
        let Some((target, ttl)) = next else { return Ok((owner, least)) };
        least = Some(least.map_or(ttl, |l| l.min(ttl)));
        owner = target;
    }
    Err(EndlessCnames)
}

/// The lifetime of a denial: the TTL or the MINIMUM of the SOA record, whichever is lower (RFC 2308 5). The name has to be in the
/// zone of the record, because a zone can deny no other names.
fn soa_ttl(message: &Message, name: &rr::Name) -> Option<u32> {
    message.authorities.iter().find_map(|r| match &r.data {
        RData::SOA(soa) if r.name.zone_of(name) => Some(r.ttl.min(soa.minimum)),
        _ => None,
    })
}

/// Whether the message refers us to other servers (RFC 2308 2.2): it is not authoritative, its answer section is empty, and its
/// authority section has NS records but no SOA record.
fn is_referral(message: &Message) -> bool {
    let has = |kind| message.authorities.iter().any(|r| r.record_type() == kind);
    let empty = message.answers.is_empty() && !message.metadata.authoritative;
    empty && has(RecordType::NS) && !has(RecordType::SOA)
}

/// The records in our own types; `None` if none of them can be read.
fn collect<'a>(kind: RecordKind, records: impl Iterator<Item = &'a Record>) -> Option<Records> {
    let data = records.map(|r| &r.data);
    match kind {
        RecordKind::Mx => some(data.filter_map(mx)).map(Records::Mx),
        RecordKind::A => some(data.filter_map(a)).map(Records::A),
        RecordKind::Aaaa => some(data.filter_map(aaaa)).map(Records::Aaaa),
        RecordKind::Txt => some(data.filter_map(txt)).map(Records::Txt),
        RecordKind::Ptr => some(data.filter_map(ptr)).map(Records::Ptr),
    }
}

fn some<T>(items: impl Iterator<Item = T>) -> Option<Vec<T>> {
    let items: Vec<T> = items.collect();
    (!items.is_empty()).then_some(items)
}

fn mx(data: &RData) -> Option<Mx> {
    let RData::MX(mx) = data else { return None };
    let exchange = match name(&mx.exchange) {
        Some(host) => Exchange::Host(host),
        None if mx.exchange.is_root() => Exchange::Null,
        None => Exchange::Invalid,
    };
    Some(Mx { preference: mx.preference, exchange })
}

fn a(data: &RData) -> Option<Ipv4Addr> {
    if let RData::A(address) = data { Some(address.0) } else { None }
}

fn aaaa(data: &RData) -> Option<Ipv6Addr> {
    if let RData::AAAA(address) = data { Some(address.0) } else { None }
}

fn ptr(data: &RData) -> Option<Name> {
    if let RData::PTR(host) = data { name(&host.0) } else { None }
}

/// The strings of the record, joined without spaces (RFC 7208 3.3); `None` if they are longer than [`DNS_TXT_BYTES_MAX`].
fn txt(data: &RData) -> Option<Box<str>> {
    let RData::TXT(txt) = data else { return None };
    let bytes = txt.txt_data.concat();
    (bytes.len() <= DNS_TXT_BYTES_MAX).then(|| String::from_utf8_lossy(&bytes).into())
}

fn name(name: &rr::Name) -> Option<Name> {
    let mut text = String::with_capacity(name.len());
    for label in name.iter() {
        // A dot within a label would be taken for the end of the label.
        if label.contains(&b'.') {
            return None;
        }
        text.push_str(std::str::from_utf8(label).ok()?);
        text.push('.');
    }
    Name::parse(&text)
}
