//! A resolver that answers from a zone, with a time to live of 0 (RFC 1035 4). It can change an answer from the second
//! question on.

use crate::failure::{Context, Failure};
use crate::sim::dns::{A, AAAA, MX, NO_ERROR, NX_DOMAIN, Query, exchange, read};
use crate::soak::crowd::lock;
use std::collections::HashMap;
use std::net::{IpAddr, UdpSocket};
use std::sync::{Arc, Mutex};

/// The address of the resolver: the system's resolver has no setting for another port.
pub const AT: &str = "127.0.0.1:53";

const CNAME: u16 = 5;
const MESSAGE_BYTES_MAX: usize = 512;

/// The records of a name.
#[derive(Debug, Clone, Default)]
pub struct Entry {
    /// The host of its MX record.
    pub mx: Option<String>,
    /// The target of its CNAME record.
    pub alias: Option<String>,
    /// The addresses in the answer to the first question of each type.
    pub first: Vec<IpAddr>,
    /// The addresses in all later answers.
    pub later: Vec<IpAddr>,
}

/// The entries of names in lower case.
pub type SsrfZone = HashMap<String, Entry>;

/// The resolver, with counts of its questions. It runs until the process ends.
pub struct SsrfResolver {
    asked: Arc<Mutex<HashMap<(String, u16), usize>>>,
}

impl SsrfResolver {
    /// Starts a resolver at [`AT`].
    ///
    /// # Errors
    ///
    /// The address cannot be bound.
    pub fn start(zone: SsrfZone) -> Result<SsrfResolver, Failure> {
        let socket = UdpSocket::bind(AT).about(format!("a resolver at {AT}"))?;
        let asked = Arc::default();
        let resolver = SsrfResolver { asked: Arc::clone(&asked) };
        std::thread::spawn(move || serve(&socket, &zone, &asked));
        Ok(resolver)
    }

    /// How often the addresses of a name were asked for: the count of the more frequent type, A or AAAA.
    pub fn asked(&self, name: &str) -> usize {
        let asked = lock(&self.asked);
        let of = |kind| asked.get(&(name.to_owned(), kind)).copied().unwrap_or(0);
        of(A).max(of(AAAA))
    }
}

fn serve(socket: &UdpSocket, zone: &SsrfZone, asked: &Mutex<HashMap<(String, u16), usize>>) {
    let mut message = [0; MESSAGE_BYTES_MAX];
    loop {
        // An error of one client, such as a closed port, must not stop the resolver.
        let Ok((length, client)) = socket.recv_from(&mut message) else { continue };
        let Some(question) = read(&message[..length]) else { continue };
        let count = {
            let mut asked = lock(asked);
            let count = asked.entry((question.name.clone(), question.kind)).or_default();
            *count += 1;
            *count
        };
        // A client that has gone asks again, or fails its check.
        let _ = socket.send_to(&answer(&question, zone, count == 1), client);
    }
}

fn answer(question: &Query<'_>, zone: &SsrfZone, is_first: bool) -> Vec<u8> {
    let Some(entry) = zone.get(&question.name) else { return denial(question, NX_DOMAIN, &[]) };
    let mut alias = Vec::new();
    let (mut owner, mut holder) = (&question.name, entry);
    if let Some((target, entry)) = entry.alias.as_ref().and_then(|name| Some((name, zone.get(name)?))) {
        alias = record(owner, CNAME, &written(target));
        (owner, holder) = (target, entry);
    }
    let mut records = Vec::new();
    for address in if is_first { &holder.first } else { &holder.later } {
        match address {
            IpAddr::V4(v4) if question.kind == A => records.push(record(owner, A, &v4.octets())),
            IpAddr::V6(v6) if question.kind == AAAA => records.push(record(owner, AAAA, &v6.octets())),
            _ => {}
        }
    }
    if let Some(host) = entry.mx.as_ref().filter(|_| question.kind == MX) {
        records.push(record(owner, MX, &exchange(10, host)));
    }
    if records.is_empty() {
        return denial(question, NO_ERROR, &alias);
    }
    let count = records.len() + usize::from(!alias.is_empty());
    [question.head(NO_ERROR, false, count as u16), alias, records.concat()].concat()
}

/// An answer without records of the requested type; the alias of a name may be before it. It has the SOA record of the root as its
/// proof (RFC 2308 3).
fn denial(question: &Query<'_>, code: u8, alias: &[u8]) -> Vec<u8> {
    let mut head = question.head(code, false, u16::from(!alias.is_empty()));
    head[9] = 1;
    [head.as_slice(), alias, &[0, 0, 6, 0, 1, 0, 0, 0, 0, 0, 22], &[0; 22]].concat()
}

/// A record of class IN with a time to live of 0.
fn record(owner: &str, kind: u16, data: &[u8]) -> Vec<u8> {
    let mut record = written(owner);
    record.extend_from_slice(&kind.to_be_bytes());
    record.extend_from_slice(&[0, 1, 0, 0, 0, 0]);
    record.extend_from_slice(&(data.len() as u16).to_be_bytes());
    record.extend_from_slice(data);
    record
}

/// A name in the format of messages, without compression (RFC 1035 3.1): that of an MX record is behind its preference.
fn written(name: &str) -> Vec<u8> {
    exchange(0, name).split_off(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(zone: &SsrfZone, name: &str, kind: u16, is_first: bool) -> Vec<u8> {
        let mut message = vec![7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        message.extend(written(name));
        message.extend_from_slice(&kind.to_be_bytes());
        message.extend_from_slice(&[0, 1]);
        answer(&read(&message).unwrap(), zone, is_first)
    }

    #[test]
    fn answers_change_with_the_second_question() {
        let both = Entry {
            first: vec!["8.8.8.8".parse().unwrap()],
            later: vec!["10.0.0.1".parse().unwrap(), "::1".parse().unwrap()],
            ..Entry::default()
        };
        let alias = Entry { alias: Some("a.example".into()), ..Entry::default() };
        let zone = SsrfZone::from([("a.example".into(), both), ("b.example".into(), alias)]);
        assert!(ask(&zone, "A.example", A, true).ends_with(&[0, 4, 8, 8, 8, 8]));
        assert!(ask(&zone, "b.example", A, false).ends_with(&[0, 4, 10, 0, 0, 1]));
        // The counts of answers and of authority records.
        assert_eq!(ask(&zone, "b.example", A, false)[6..10], [0, 2, 0, 0]);
        assert_eq!(ask(&zone, "b.example", AAAA, true)[6..10], [0, 1, 0, 1]);
        assert_eq!(ask(&zone, "a.example", MX, true)[6..10], [0, 0, 0, 1]);
        assert_eq!(ask(&zone, "c.example", A, true)[3] & 15, NX_DOMAIN);
    }
}
