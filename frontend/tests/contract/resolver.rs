//! A resolver that can be silent or lie: it forwards questions to the mail internet's resolver, drops them, or denies
//! them.

use crate::contract::world::net;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

pub struct Resolver {
    pub address: SocketAddr,
    says: Arc<Mutex<Says>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The behaviour of a resolver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Says {
    /// It never answers.
    Nothing,
    /// It forwards the answer of the mail internet.
    Truth,
    /// It denies every name with this proof.
    Denial(Lie),
    /// It denies this domain and the names below it, and forwards the answers for all others.
    DenialOf(&'static str, Lie),
}

/// The kinds of denials without proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// NXDOMAIN without an SOA record, as many filters send it.
    Bare,
    /// NXDOMAIN with an SOA and an Extended DNS Error of this code (RFC 8914).
    Error(u16),
    /// The addresses 0.0.0.0 and `::`, and no records of other types, without an SOA.
    Null,
}

impl Lie {
    pub const ALL: [Lie; 7] =
        [Lie::Bare, Lie::Null, Lie::Error(4), Lie::Error(15), Lie::Error(16), Lie::Error(17), Lie::Error(18)];
}

impl Resolver {
    /// A resolver that does not answer.
    pub fn silent() -> Resolver {
        Resolver::that(Says::Nothing)
    }

    /// A resolver with this behaviour.
    pub fn that(says: Says) -> Resolver {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let address = socket.local_addr().unwrap();
        let (says, ends) = (Arc::new(Mutex::new(says)), Arc::<AtomicBool>::default());
        let (saying, ending) = (Arc::clone(&says), Arc::clone(&ends));
        let thread = std::thread::spawn(move || {
            while !ending.load(Ordering::SeqCst) {
                answer(&socket, &saying);
            }
        });
        Resolver { address, says, ends, thread: Some(thread) }
    }

    pub fn say(&self, says: Says) {
        *self.says.lock().unwrap() = says;
    }

    pub fn answer(&self, answer: bool) {
        self.say(if answer { Says::Truth } else { Says::Nothing });
    }
}

fn answer(socket: &UdpSocket, says: &Mutex<Says>) {
    let mut message = [0; 4096];
    let Ok((length, client)) = socket.recv_from(&mut message) else { return };
    let question = &message[..length];
    let says = says.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let denial = match says {
        Says::Nothing => return,
        Says::Truth => None,
        Says::Denial(lie) => Some(lie),
        Says::DenialOf(domain, lie) => is_below(&name(question), domain).then_some(lie),
    };
    match denial {
        Some(lie) => drop(socket.send_to(&deny(question, lie), client).unwrap()),
        None => forward(socket, question, client),
    }
}

fn forward(socket: &UdpSocket, question: &[u8], client: SocketAddr) {
    let upstream = UdpSocket::bind("127.0.0.1:0").unwrap();
    upstream.connect(net().dns()).unwrap();
    upstream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    upstream.send(question).unwrap();
    let mut message = [0; 4096];
    if let Ok(length) = upstream.recv(&mut message) {
        socket.send_to(&message[..length], client).unwrap();
    }
}

/// The length of a message's header (RFC 1035 4.1.1).
const HEADER: usize = 12;
const A: u16 = 1;
const SOA: u16 = 6;
const AAAA: u16 = 28;
const OPT: u16 = 41;
/// The option that has an Extended DNS Error.
const EXTENDED_ERROR: u16 = 15;

/// The name in a question, in lower case, without a final dot.
fn name(question: &[u8]) -> String {
    let (mut labels, mut at) = (Vec::new(), HEADER);
    while question[at] != 0 {
        let end = at + 1 + usize::from(question[at]);
        labels.push(String::from_utf8_lossy(&question[at + 1..end]).to_ascii_lowercase());
        at = end;
    }
    labels.join(".")
}

fn is_below(name: &str, domain: &str) -> bool {
    name.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// The answer of a resolver that denies the name.
fn deny(question: &[u8], lie: Lie) -> Vec<u8> {
    let end = HEADER + name(question).len() + 6 - usize::from(question[HEADER] == 0);
    let kind = u16::from_be_bytes([question[end - 4], question[end - 3]]);
    let mut answer = question[..end].to_vec();
    // A response with recursion available, one question and no records.
    answer[2] |= 0x80;
    answer[3] = 0x80;
    answer[4..HEADER].copy_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
    match lie {
        Lie::Bare => answer[3] |= 3,
        Lie::Null => {
            let address: &[u8] = match kind {
                A => &[0; 4],
                AAAA => &[0; 16],
                _ => return answer,
            };
            answer[7] = 1;
            record(&mut answer, &[0xc0, 0x0c], kind, 1, 60, address);
        }
        Lie::Error(code) => {
            answer[3] |= 3;
            answer[9] = 1;
            answer[11] = 1;
            // Of the root, with names of one byte.
            let soa = [&[0, 0][..], &[0; 16], &60u32.to_be_bytes()].concat();
            record(&mut answer, &[0], SOA, 1, 60, &soa);
            let option = [EXTENDED_ERROR.to_be_bytes(), 2u16.to_be_bytes(), code.to_be_bytes()].concat();
            record(&mut answer, &[0], OPT, 1232, 0, &option);
        }
    }
    answer
}

fn record(message: &mut Vec<u8>, name: &[u8], kind: u16, class: u16, ttl: u32, data: &[u8]) {
    message.extend_from_slice(name);
    message.extend_from_slice(&kind.to_be_bytes());
    message.extend_from_slice(&class.to_be_bytes());
    message.extend_from_slice(&ttl.to_be_bytes());
    message.extend_from_slice(&(data.len() as u16).to_be_bytes());
    message.extend_from_slice(data);
}

impl Drop for Resolver {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        self.thread.take().map(JoinHandle::join);
    }
}
