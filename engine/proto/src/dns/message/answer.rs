//! What a message says that answers the question: its CNAMEs are followed, and what is not on their way is ignored.

use super::{Doubt, Exchange, FORGED, Mx, Question, RecordKind, Records, Response, record_type};
use crate::dns::{Failure, Name};
use crate::limits::{DNS_CNAMES_MAX, DNS_RECORDS_MAX, DNS_TXT_BYTES_MAX};
use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::rdata::opt::EdnsOption;
use hickory_proto::rr::{self, DNSClass, RData, Record, RecordType};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Reads a message that is known to answer the question.
pub(super) fn read(question: &Question, bytes: &[u8]) -> Response {
    // A cut message may end within a record and need not be readable: its TC bit is looked at first.
    if bytes.get(2).is_some_and(|flags| flags & 0x02 != 0) {
        return Response::Truncated;
    }
    let Ok(message) = Message::from_vec(bytes) else {
        return Response::Failed(Failure::Malformed);
    };
    Response::Failed(match message.metadata.response_code {
        ResponseCode::NoError | ResponseCode::NXDomain => return answer(question, &message),
        // 16 is BADVERS in a message without TSIG, under whichever of its two names the library has it.
        ResponseCode::FormErr | ResponseCode::BADVERS | ResponseCode::BADSIG => Failure::FormErr,
        ResponseCode::NotImp => Failure::NotImp,
        ResponseCode::ServFail => Failure::ServFail,
        ResponseCode::Refused => Failure::Refused,
        _ => Failure::OtherCode,
    })
}

fn answer(question: &Question, message: &Message) -> Response {
    // It echoes the question, as was seen before it was decoded.
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
        // Records of a name that does not exist: one of the two is wrong.
        return Response::Failed(Failure::Malformed);
    }
    if let Some(code) = forged(message) {
        return Response::Unproven(Doubt::Extended(code));
    }
    match (records, ttl) {
        (Some(records), _) if is_unspecified(&records) => Response::Unproven(Doubt::Unspecified),
        (Some(records), Some(ttl)) => Response::Records(records, ttl),
        // There are records, and none that is read.
        (None, Some(ttl)) if is_there => Response::NoData(ttl),
        _ if exists && is_referral(message) => Response::Failed(Failure::Referral),
        _ => denial(exists, soa_ttl(message, &owner)),
    }
}

/// "No" to the last name of the CNAMEs (RFC 6604 3), which is where the mail would go. Without an SOA record it is no
/// proof (RFC 2308 3).
fn denial(exists: bool, soa_ttl: Option<u32>) -> Response {
    match soa_ttl {
        Some(ttl) if exists => Response::NoData(ttl),
        Some(ttl) => Response::NxDomain(ttl),
        None => Response::Unproven(Doubt::NoSoa),
    }
}

/// The first Extended DNS Error that says that a filter made the answer (RFC 8914 2).
fn forged(message: &Message) -> Option<u16> {
    let options = message.edns.as_ref()?.options().as_ref();
    let mut errors = options.iter().filter_map(|(_, option)| match option {
        EdnsOption::Unknown(EXTENDED_ERROR, data) => data.first_chunk().map(|code| u16::from_be_bytes(*code)),
        _ => None,
    });
    errors.find(|code| FORGED.contains(code))
}

/// The option of RFC 8914 2.
const EXTENDED_ERROR: u16 = 15;

/// No host has this address (RFC 1122 3.2.1.3, RFC 4291 2.5.2), so such an answer is a denial.
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

/// The name at the end of the CNAMEs of the one that was asked for, and the least TTL on the way.
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

/// The lifetime of a "no": the lesser of the SOA record's TTL and its MINIMUM (RFC 2308 5). A zone can speak only
/// of the names under it.
fn soa_ttl(message: &Message, name: &rr::Name) -> Option<u32> {
    message.authorities.iter().find_map(|r| match &r.data {
        RData::SOA(soa) if r.name.zone_of(name) => Some(r.ttl.min(soa.minimum)),
        _ => None,
    })
}

/// RFC 2308 2.2: NS records and no SOA record, from a server without authority.
fn is_referral(message: &Message) -> bool {
    let has = |kind| message.authorities.iter().any(|r| r.record_type() == kind);
    let empty = message.answers.is_empty() && !message.metadata.authoritative;
    empty && has(RecordType::NS) && !has(RecordType::SOA)
}

/// The records in our own types; `None` when none is left.
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

/// Joined without a space: RFC 7208 3.3.
fn txt(data: &RData) -> Option<Box<str>> {
    let RData::TXT(txt) = data else { return None };
    let bytes = txt.txt_data.concat();
    (bytes.len() <= DNS_TXT_BYTES_MAX).then(|| String::from_utf8_lossy(&bytes).into())
}

fn name(name: &rr::Name) -> Option<Name> {
    let mut text = String::with_capacity(name.len());
    for label in name.iter() {
        // A dot in a label would be read as its end.
        if label.contains(&b'.') {
            return None;
        }
        text.push_str(std::str::from_utf8(label).ok()?);
        text.push('.');
    }
    Name::parse(&text)
}
