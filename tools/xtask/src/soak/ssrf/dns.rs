//! A resolver that answers from a zone, with a time to live of 0 (RFC 1035 4). It can change an answer from the second
//! question on.

use crate::failure::Failure;
use crate::soak::crowd::lock;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};

/// The address of the resolver: the system's resolver has no setting for another port.
pub const AT: &str = "127.0.0.1:53";

const A: u16 = 1;
const CNAME: u16 = 5;
const MX: u16 = 15;
const AAAA: u16 = 28;
const NX_DOMAIN: u8 = 3;
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
        let socket = UdpSocket::bind(AT).map_err(|error| Failure(format!("a resolver at {AT}: {error}")))?;
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
        let Some(question) = Question::read(&message[..length]) else { continue };
        let count = {
            let mut asked = lock(asked);
            let count = asked.entry((question.name.clone(), question.kind)).or_default();
            *count += 1;
            *count
        };
        reply(socket, client, &question.answer(zone, count == 1));
    }
}

fn reply(socket: &UdpSocket, client: SocketAddr, answer: &[u8]) {
    // A client that has gone asks again, or fails its check.
    let _ = socket.send_to(answer, client);
}

struct Question<'m> {
    message: &'m [u8],
    end: usize,
    name: String,
    kind: u16,
}

impl Question<'_> {
    fn read(message: &[u8]) -> Option<Question<'_>> {
        let (mut labels, mut at) = (Vec::new(), 12);
        loop {
            let length = usize::from(*message.get(at)?);
            at += 1;
            if length == 0 {
                break;
            }
            let label = message.get(at..at + length)?;
            labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
            at += length;
        }
        let kind = u16::from_be_bytes([*message.get(at)?, *message.get(at + 1)?]);
        let end = at + 4;
        (end <= message.len()).then(|| Question { message, end, name: labels.join("."), kind })
    }

    fn answer(&self, zone: &SsrfZone, is_first: bool) -> Vec<u8> {
        let Some(entry) = zone.get(&self.name) else { return self.with(NX_DOMAIN, &[]) };
        let mut records = Vec::new();
        let mut owner = self.name.clone();
        let mut holder = entry;
        if let Some((target, entry)) = entry.alias.as_ref().and_then(|name| Some((name, zone.get(name)?))) {
            records.push(record(&owner, CNAME, &written(target)));
            (owner, holder) = (target.clone(), entry);
        }
        for address in if is_first { &holder.first } else { &holder.later } {
            match address {
                IpAddr::V4(v4) if self.kind == A => records.push(record(&owner, A, &v4.octets())),
                IpAddr::V6(v6) if self.kind == AAAA => records.push(record(&owner, AAAA, &v6.octets())),
                _ => {}
            }
        }
        if let Some(host) = entry.mx.as_ref().filter(|_| self.kind == MX) {
            records.push(record(&owner, MX, &[&[0, 10], written(host).as_slice()].concat()));
        }
        self.with(0, &records)
    }

    /// The answer with these records. A denial has the SOA record of the root as its proof (RFC 2308 3).
    fn with(&self, code: u8, records: &[Vec<u8>]) -> Vec<u8> {
        // CNAME records do not count: an alias of a name without records is also a denial.
        let is_denial = records.iter().all(|record| record_kind(record) == Some(CNAME));
        let mut message = self.message[..2].to_vec();
        message.extend_from_slice(&[0x81, 0x80 | code, 0, 1]);
        message.extend_from_slice(&(records.len() as u16).to_be_bytes());
        message.extend_from_slice(&[0, u8::from(is_denial), 0, 0]);
        message.extend_from_slice(&self.message[12..self.end]);
        message.extend(records.concat());
        if is_denial {
            message.extend_from_slice(&[0, 0, 6, 0, 1, 0, 0, 0, 0, 0, 22, 0, 0]);
            message.extend_from_slice(&[0; 20]);
        }
        message
    }
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

fn record_kind(record: &[u8]) -> Option<u16> {
    let end = record.iter().position(|&byte| byte == 0)?;
    Some(u16::from_be_bytes([*record.get(end + 1)?, *record.get(end + 2)?]))
}

/// A name in the format of messages, without compression (RFC 1035 3.1).
fn written(name: &str) -> Vec<u8> {
    let mut written = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        written.push(label.len() as u8);
        written.extend_from_slice(label.as_bytes());
    }
    written.push(0);
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(zone: &SsrfZone, name: &str, kind: u16, is_first: bool) -> Vec<u8> {
        let mut message = vec![7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        message.extend(written(name));
        message.extend_from_slice(&kind.to_be_bytes());
        message.extend_from_slice(&[0, 1]);
        let question = Question::read(&message).unwrap();
        assert_eq!(question.end, message.len());
        question.answer(zone, is_first)
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
