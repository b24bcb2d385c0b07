//! The reaction to a DNS query (RFC 1034, 1035, 2308, 6891, 7505). The server answers like a resolver (RA is set) and
//! knows only the scenario's names.

use crate::{
    spec::DnsBehaviour,
    stats::DnsKind,
    world::World,
    zone::{CHAIN_MAX, Records},
};
use hickory_proto::{
    op::{Edns, Message, MessageType, OpCode, Query, ResponseCode},
    rr::{
        DNSClass, Name, RData, Record, RecordType,
        rdata::{A, AAAA, CNAME, MX, NS, PTR, SOA, TXT, opt::EdnsOption},
    },
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The datagrams that are sent for one query.
#[derive(Debug, Default)]
pub(crate) struct Reaction {
    pub kind: Option<DnsKind>,
    /// A forged answer that is sent first, from another port if that is requested.
    pub forged: Option<(Port, Vec<u8>)>,
    pub answer: Option<Vec<u8>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Port {
    Own,
    Other,
}

/// The largest message without EDNS over UDP (RFC 1035 4.2.1), and the largest that we send with it (RFC 9715).
const UDP_BYTES_MIN: usize = 512;
const UDP_BYTES_MAX: usize = 1232;

/// The answer of an overloaded resolver.
pub(crate) fn refuse(query: &[u8]) -> Option<Vec<u8>> {
    let message = Message::from_vec(query).ok()?;
    refusal(&message, ResponseCode::Refused, true).to_vec().ok()
}

/// The reaction to a query. `lie` is the present false answer for every name, if there is one.
pub(crate) fn react(world: &World, query: &[u8], udp: bool, lie: Option<DnsBehaviour>) -> Reaction {
    let Ok(message) = Message::from_vec(query) else {
        return Reaction { answer: form_error(query), ..Reaction::default() };
    };
    if message.metadata.message_type == MessageType::Response {
        return Reaction::default();
    }
    let fail = |code| refusal(&message, code, true).to_vec().ok();
    let [question] = message.queries.as_slice() else {
        return Reaction { answer: fail(ResponseCode::FormErr), ..Reaction::default() };
    };
    let kind = Some(kind(question.query_type));
    if message.metadata.op_code != OpCode::Query {
        return Reaction { kind, answer: fail(ResponseCode::NotImp), forged: None };
    }
    let name = text(&question.name);
    let behaviour = world.zone.find(&name).map_or(DnsBehaviour::Ok, |records| records.behaviour);
    if let Some(lie) = lie.or(Some(behaviour).filter(|behaviour| behaviour.is_lie())) {
        return Reaction { kind, forged: None, answer: self::lie(world, &message, question, lie) };
    }
    let (forged, answer) = behave(world, &message, question, behaviour, udp);
    Reaction { kind, forged: forged.filter(|_| udp), answer }
}

type Sent = (Option<(Port, Vec<u8>)>, Option<Vec<u8>>);

fn behave(world: &World, message: &Message, question: &Query, behaviour: DnsBehaviour, udp: bool) -> Sent {
    let answer = || whole(world, message, question, udp);
    let fail = |code| refusal(message, code, true).to_vec().ok();
    let forge = |port, change: fn(&mut Message)| {
        let mut lie = refusal(message, ResponseCode::NXDomain, true);
        change(&mut lie);
        lie.to_vec().ok().map(|bytes| (port, bytes))
    };
    match behaviour {
        DnsBehaviour::Ok | DnsBehaviour::Nodata | DnsBehaviour::Nxdomain | DnsBehaviour::AliasOnly => {
            (None, answer())
        }
        DnsBehaviour::Servfail => (None, fail(ResponseCode::ServFail)),
        DnsBehaviour::Refused => (None, fail(ResponseCode::Refused)),
        DnsBehaviour::Timeout => (None, None),
        DnsBehaviour::Truncated if udp => (None, truncated(message).to_vec().ok()),
        DnsBehaviour::Truncated => (None, answer()),
        DnsBehaviour::Garbage => (None, answer().map(garbage)),
        DnsBehaviour::CutShort => (None, answer().map(cut_short)),
        DnsBehaviour::NoEdns if message.edns.is_some() => {
            (None, refusal(message, ResponseCode::FormErr, false).to_vec().ok())
        }
        DnsBehaviour::NoEdns => (None, answer()),
        DnsBehaviour::SpoofedId => (forge(Port::Own, |lie| lie.metadata.id ^= 0x0101), answer()),
        DnsBehaviour::SpoofedPort => (forge(Port::Other, |_| {}), answer()),
        DnsBehaviour::SpoofedQuestion => (forge(Port::Own, other_question), answer()),
        DnsBehaviour::SpoofedCase => (forge(Port::Own, other_case), answer()),
        // The caller has answered with the lie already.
        _ => (None, None),
    }
}

/// A denial that proves nothing.
fn lie(world: &World, message: &Message, question: &Query, lie: DnsBehaviour) -> Option<Vec<u8>> {
    let code = match lie {
        DnsBehaviour::NodataNoSoa | DnsBehaviour::Unspecified => ResponseCode::NoError,
        _ => ResponseCode::NXDomain,
    };
    let mut answer = refusal(message, code, true);
    let address = match question.query_type {
        RecordType::A => Some(RData::A(A(Ipv4Addr::UNSPECIFIED))),
        RecordType::AAAA => Some(RData::AAAA(AAAA(Ipv6Addr::UNSPECIFIED))),
        _ => None,
    };
    match (lie, address) {
        (DnsBehaviour::NoSoa | DnsBehaviour::NodataNoSoa, _) => {}
        (DnsBehaviour::Unspecified, Some(address)) => {
            answer.answers.push(Record::from_rdata(question.name.clone(), world.dns.ttl, address));
        }
        _ => negative(world, &text(&question.name), &mut answer),
    }
    let error: Option<u16> = match lie {
        DnsBehaviour::Forged => Some(4),
        DnsBehaviour::Blocked => Some(15),
        DnsBehaviour::Censored => Some(16),
        DnsBehaviour::Filtered => Some(17),
        DnsBehaviour::Prohibited => Some(18),
        _ => None,
    };
    if let (Some(error), Some(edns)) = (error, &mut answer.edns) {
        // The option of RFC 8914 2: a code, and an optional text.
        edns.options_mut().insert(EdnsOption::Unknown(15, error.to_be_bytes().to_vec()));
    }
    answer.to_vec().ok()
}

fn other_question(lie: &mut Message) {
    for query in &mut lie.queries {
        query.name = Name::from_labels([b"forged".as_slice(), b"example"]).unwrap_or_default();
    }
}

/// Inverts the case of every letter. DNS allows that, but the answer is wrong for a client that checks the case of its
/// question (0x20).
fn other_case(lie: &mut Message) {
    for query in &mut lie.queries {
        let labels: Vec<Vec<u8>> = query
            .name
            .iter()
            .map(|label| label.iter().map(|b| if b.is_ascii_alphabetic() { b ^ 0x20 } else { *b }).collect())
            .collect();
        let mut name = Name::from_labels(labels).unwrap_or_default();
        name.set_fqdn(true);
        query.name = name;
    }
}

fn garbage(mut answer: Vec<u8>) -> Vec<u8> {
    for (at, byte) in answer.iter_mut().enumerate().skip(12) {
        *byte = (at as u8).wrapping_mul(167) | 0xc0;
    }
    answer
}

fn cut_short(mut answer: Vec<u8>) -> Vec<u8> {
    answer.truncate(answer.len().saturating_sub(3));
    answer
}

fn kind(query_type: RecordType) -> DnsKind {
    match query_type {
        RecordType::MX => DnsKind::Mx,
        RecordType::A => DnsKind::A,
        RecordType::AAAA => DnsKind::Aaaa,
        RecordType::TXT => DnsKind::Txt,
        RecordType::PTR => DnsKind::Ptr,
        _ => DnsKind::Other,
    }
}

/// The key of a name in the zone.
fn text(name: &Name) -> String {
    let mut text = name.to_ascii().to_ascii_lowercase();
    if text.ends_with('.') {
        text.pop();
    }
    text
}

/// FORMERR for bytes of which only the id can be read (RFC 1035 4.1.1).
fn form_error(query: &[u8]) -> Option<Vec<u8>> {
    let id = u16::from_be_bytes([*query.first()?, *query.get(1)?]);
    if query.get(2)? & 0x80 != 0 {
        return None;
    }
    Message::error_msg(id, OpCode::Query, ResponseCode::FormErr).to_vec().ok()
}

/// An answer without records.
fn refusal(message: &Message, code: ResponseCode, edns: bool) -> Message {
    let mut answer = Message::response(message.metadata.id, message.metadata.op_code);
    answer.metadata.recursion_desired = message.metadata.recursion_desired;
    answer.metadata.recursion_available = true;
    answer.metadata.response_code = code;
    answer.queries.clone_from(&message.queries);
    if edns && message.edns.is_some() {
        let mut edns = Edns::new();
        edns.set_max_payload(UDP_BYTES_MAX as u16);
        answer.edns = Some(edns);
    }
    answer
}

fn truncated(message: &Message) -> Message {
    let mut answer = refusal(message, ResponseCode::NoError, true);
    answer.metadata.truncation = true;
    answer
}

/// The true answer, or TC if it does not fit.
fn whole(world: &World, message: &Message, question: &Query, udp: bool) -> Option<Vec<u8>> {
    let mut answer = refusal(message, ResponseCode::NoError, true);
    if question.query_class == DNSClass::IN && question.name.is_root() {
        root(world, question, &mut answer);
    } else if question.query_class == DNSClass::IN {
        fill(world, question, &mut answer);
    } else {
        answer.metadata.response_code = ResponseCode::NotImp;
    }
    let bytes = answer.to_vec().ok()?;
    let room = message.edns.as_ref().map_or(UDP_BYTES_MIN, |edns| usize::from(edns.max_payload()));
    if udp && bytes.len() > room.clamp(UDP_BYTES_MIN, UDP_BYTES_MAX) {
        return truncated(message).to_vec().ok();
    }
    Some(bytes)
}

fn fill(world: &World, question: &Query, answer: &mut Message) {
    let mut owner = question.name.clone();
    let mut key = text(&owner);
    let mut seen = vec![key.clone()];
    loop {
        let records = match world.zone.find(&key) {
            Some(records) if records.behaviour != DnsBehaviour::Nxdomain => records,
            known => {
                if known.is_some() || !world.zone.is_between(&key) {
                    answer.metadata.response_code = ResponseCode::NXDomain;
                }
                return negative(world, &key, answer);
            }
        };
        let ttl = records.ttl.unwrap_or(world.dns.ttl);
        let Some((target, wire)) = &records.cname else {
            if records.behaviour != DnsBehaviour::Nodata {
                answer.answers.extend(
                    of_type(records, question.query_type)
                        .map(|data| Record::from_rdata(owner.clone(), ttl, data)),
                );
            }
            if answer.answers.last().is_none_or(|record| record.record_type() != question.query_type) {
                negative(world, &key, answer);
            }
            return;
        };
        answer.answers.push(Record::from_rdata(owner, ttl, RData::CNAME(CNAME(wire.clone()))));
        // A loop is answered with its records, once around; the client must notice it.
        let is_loop = seen.iter().any(|name| **name == **target);
        let ends = is_loop || records.behaviour == DnsBehaviour::AliasOnly;
        if question.query_type == RecordType::CNAME || ends || seen.len() > CHAIN_MAX {
            return;
        }
        owner = wire.clone();
        key = target.to_string();
        seen.push(key.clone());
    }
}

fn of_type(records: &Records, query_type: RecordType) -> impl Iterator<Item = RData> + '_ {
    let only = move |wanted| query_type == wanted;
    let mx = records.mx.iter().filter(move |_| only(RecordType::MX));
    let addresses = records.addresses.iter().filter_map(move |address| match address {
        IpAddr::V4(v4) => only(RecordType::A).then_some(RData::A(A(*v4))),
        IpAddr::V6(v6) => only(RecordType::AAAA).then_some(RData::AAAA(AAAA(*v6))),
    });
    let txt = records.txt.iter().filter(move |_| only(RecordType::TXT));
    let ptr = records.ptr.iter().filter(move |_| only(RecordType::PTR));
    mx.map(|(preference, _, host)| RData::MX(MX::new(*preference, host.clone())))
        .chain(addresses)
        .chain(txt.map(|strings| RData::TXT(TXT::from_bytes(strings.iter().map(AsRef::as_ref).collect()))))
        .chain(ptr.map(|name| RData::PTR(PTR(name.clone()))))
}

/// Fills an answer about the root zone. Clients ask for it to test a resolver.
fn root(world: &World, question: &Query, answer: &mut Message) {
    let data = match question.query_type {
        RecordType::NS => RData::NS(NS(name_server())),
        RecordType::SOA => RData::SOA(soa(world)),
        _ => return answer.authorities.push(soa_record(world, Name::root())),
    };
    answer.answers.push(Record::from_rdata(Name::root(), world.dns.ttl, data));
}

/// The SOA record of a negative answer; its minimum is the time for which the answer may be cached (RFC 2308 3 and 5).
fn negative(world: &World, key: &str, answer: &mut Message) {
    let labels: Vec<&[u8]> = key.rsplit('.').take(2).map(str::as_bytes).collect();
    let zone = Name::from_labels(labels.into_iter().rev()).unwrap_or_default();
    answer.authorities.push(soa_record(world, zone));
}

fn soa_record(world: &World, zone: Name) -> Record {
    Record::from_rdata(zone, world.dns.negative_ttl, RData::SOA(soa(world)))
}

fn soa(world: &World) -> SOA {
    let keeper = Name::from_labels([b"hostmaster".as_slice(), b"mailnet", b"example"]).unwrap_or_default();
    SOA::new(name_server(), keeper, 1, 3600, 600, 86_400, world.dns.negative_ttl)
}

/// The server of all zones, by name.
fn name_server() -> Name {
    Name::from_labels([b"ns".as_slice(), b"mailnet", b"example"]).unwrap_or_default()
}
