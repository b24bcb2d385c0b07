//! A resolver of the simulation: reads a question and writes an answer (RFC 1035 4), byte by byte.

use super::plan::{DnsTarget, PlannedHost, PlannedZone, WorldPlan};

pub(crate) const A: u16 = 1;
pub(crate) const AAAA: u16 = 28;
pub(crate) const MX: u16 = 15;
pub(crate) const NO_ERROR: u8 = 0;
const SERVFAIL: u8 = 2;
pub(crate) const NX_DOMAIN: u8 = 3;

/// A question of the client (RFC 1035 4.1.2), reduced to the parts that the simulation needs.
pub struct Query<'q> {
    message: &'q [u8],
    /// The offset of the byte after the question.
    end: usize,
    /// The name in lower case, without the final dot.
    pub name: String,
    pub(crate) kind: u16,
}

/// Reads the question of a message; `None` if it is malformed.
pub fn read(message: &[u8]) -> Option<Query<'_>> {
    let (mut name, mut at) = (String::new(), 12);
    loop {
        let length = usize::from(*message.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        if !name.is_empty() {
            name.push('.');
        }
        name.push_str(&String::from_utf8_lossy(message.get(at..at + length)?).to_ascii_lowercase());
        at += length;
    }
    let kind = u16::from_be_bytes([*message.get(at)?, *message.get(at + 1)?]);
    Some(Query { message, end: at + 4, name, kind })
}

/// The answer to a question; `None` if no answer is sent at all. `tcp` states the transport.
pub fn answer(query: &Query<'_>, plan: &WorldPlan, tcp: bool) -> Option<Vec<u8>> {
    match plan.by_name.get(&query.name) {
        Some(DnsTarget::Domain(index)) => {
            let domain = &plan.domains[*index as usize];
            match domain.zone {
                PlannedZone::Silent => None,
                PlannedZone::ServFail => Some(query.without(SERVFAIL)),
                PlannedZone::NoSuchName => Some(query.without(NX_DOMAIN)),
                PlannedZone::Truncated if !tcp => Some(query.truncated()),
                PlannedZone::Empty => Some(query.without(NO_ERROR)),
                PlannedZone::NullMx if query.kind == MX => Some(query.with(&[exchange(0, "")])),
                PlannedZone::NoHost if query.kind == MX => Some(query.with(&[exchange(10, "gone.example")])),
                PlannedZone::Good | PlannedZone::Truncated if query.kind == MX => {
                    let hosts = domain.hosts.iter();
                    let records: Vec<_> = hosts
                        .map(|(preference, host)| exchange(*preference, &plan.hosts[*host as usize].name))
                        .collect();
                    Some(query.with(&records))
                }
                _ => Some(query.without(NO_ERROR)),
            }
        }
        Some(DnsTarget::Host(index)) if query.kind == A => {
            Some(query.with(&[plan.hosts[*index as usize].address.octets().to_vec()]))
        }
        Some(DnsTarget::Host(index)) if query.kind == AAAA && plan.hosts[*index as usize].ipv6.is_some() => {
            Some(query.with(&[PlannedHost::ipv6_of(*index).octets().to_vec()]))
        }
        Some(DnsTarget::Host(_)) => Some(query.without(NO_ERROR)),
        None => Some(query.without(NX_DOMAIN)),
    }
}

/// The data of an MX record (RFC 1035 3.3.9).
pub(crate) fn exchange(preference: u16, host: &str) -> Vec<u8> {
    let mut data = preference.to_be_bytes().to_vec();
    for label in host.split('.').filter(|label| !label.is_empty()) {
        data.push(label.len() as u8);
        data.extend_from_slice(label.as_bytes());
    }
    data.push(0);
    data
}

impl Query<'_> {
    pub(super) fn with(&self, records: &[Vec<u8>]) -> Vec<u8> {
        let mut message = self.head(NO_ERROR, false, records.len() as u16);
        for data in records {
            // The owner is the name of the question; class IN, an hour.
            message.extend_from_slice(&[0xc0, 12]);
            message.extend_from_slice(&self.kind.to_be_bytes());
            message.extend_from_slice(&[0, 1, 0, 0, 14, 16]);
            message.extend_from_slice(&(data.len() as u16).to_be_bytes());
            message.extend_from_slice(data);
        }
        message
    }

    /// An answer without records. A denial has the SOA record of the root as its proof (RFC 2308 3).
    pub(super) fn without(&self, code: u8) -> Vec<u8> {
        let mut message = self.head(code, false, 0);
        if matches!(code, NO_ERROR | NX_DOMAIN) {
            message[9] = 1;
            // The root; SOA, class IN, an hour, 22 bytes: two names that are the root, and five numbers of a minute each.
            message.extend_from_slice(&[0, 0, 6, 0, 1, 0, 0, 14, 16, 0, 22, 0, 0]);
            message.extend_from_slice(&[0, 0, 0, 60].repeat(5));
        }
        message
    }

    fn truncated(&self) -> Vec<u8> {
        self.head(NO_ERROR, true, 0)
    }

    /// Header and question: a response, recursion desired and available.
    pub(crate) fn head(&self, code: u8, truncated: bool, answers: u16) -> Vec<u8> {
        let mut message = self.message[..2].to_vec();
        message.extend_from_slice(&[0x81 | u8::from(truncated) << 1, 0x80 | code, 0, 1]);
        message.extend_from_slice(&answers.to_be_bytes());
        message.extend_from_slice(&[0; 4]);
        message.extend_from_slice(&self.message[12..self.end]);
        message
    }
}
