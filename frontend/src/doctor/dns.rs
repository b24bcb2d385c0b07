//! Questions to one resolver, one at a time. The engine's resolver hides what a diagnosis needs: which resolver answered, with
//! what proof, and how fast.

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::opt::EdnsOption;
use hickory_proto::rr::{Name, RData, RecordType};
use socket2::SockRef;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// Time for one try, and the number of tries. A resolver that needs longer is too slow for checks.
const TRY: Duration = Duration::from_secs(2);
const TRIES: u32 = 2;
/// How much a datagram may carry: RFC 9715 3.
const PAYLOAD_BYTES: u16 = 1232;
/// The option of RFC 8914 2.
const EXTENDED_ERROR: u16 = 15;
/// The receive buffer of the engine's sockets for DNS, in bytes.
const BUFFER_WANTED: usize = 1 << 20;

/// A message that answers a question.
pub struct Reply {
    message: Message,
    /// The time from the question to the answer.
    pub took: Duration,
}

impl Reply {
    /// The response code (RFC 1035 4.1.1). The library takes 16 for a failure of TSIG, which these questions do not use.
    pub fn code(&self) -> ResponseCode {
        match self.message.metadata.response_code {
            ResponseCode::BADSIG => ResponseCode::BADVERS,
            code => code,
        }
    }

    /// Whether the cause of the answer may be that the resolver does not understand EDNS (RFC 6891 7).
    fn is_about_edns(&self) -> bool {
        matches!(self.code(), ResponseCode::FormErr | ResponseCode::NotImp | ResponseCode::BADVERS)
    }

    /// The addresses in the answer.
    pub fn addresses(&self) -> Vec<IpAddr> {
        let address = |data: &RData| match data {
            RData::A(address) => Some(IpAddr::V4(address.0)),
            RData::AAAA(address) => Some(IpAddr::V6(address.0)),
            _ => None,
        };
        self.message.answers.iter().filter_map(|record| address(&record.data)).collect()
    }

    /// The names in the answer to a question for PTR, in lower case and without the last dot.
    pub fn names(&self) -> Vec<String> {
        let name = |data: &RData| match data {
            RData::PTR(name) => Some(plain(&name.0)),
            _ => None,
        };
        self.message.answers.iter().filter_map(|record| name(&record.data)).collect()
    }

    /// The names of the mail hosts in the answer to a question for MX, without that of a null MX (RFC 7505).
    pub fn exchanges(&self) -> Vec<String> {
        let exchange = |data: &RData| match data {
            RData::MX(mx) => Some(plain(&mx.exchange)).filter(|name| !name.is_empty()),
            _ => None,
        };
        self.message.answers.iter().filter_map(|record| exchange(&record.data)).collect()
    }

    /// Whether the answer has a record of the kind that was asked for.
    pub fn has(&self, kind: RecordType) -> bool {
        self.message.answers.iter().any(|record| record.record_type() == kind)
    }

    /// Whether a denial has the SOA record that RFC 2308 3 demands.
    pub fn has_soa(&self) -> bool {
        self.message.authorities.iter().any(|record| record.record_type() == RecordType::SOA)
    }

    /// The codes of Extended DNS Errors (RFC 8914).
    pub fn extended_errors(&self) -> Vec<u16> {
        let options = self.message.edns.as_ref().map(|edns| edns.options().as_ref());
        let code = |(_, option): &(_, EdnsOption)| match option {
            EdnsOption::Unknown(EXTENDED_ERROR, data) => {
                data.first_chunk().map(|code| u16::from_be_bytes(*code))
            }
            _ => None,
        };
        options.into_iter().flatten().filter_map(code).collect()
    }

    /// The inception and the expiration of each signature, in seconds since 1970 modulo 2^32 (RFC 4034 3.1.5).
    pub fn signature_times(&self) -> Vec<(u32, u32)> {
        let records = self.message.answers.iter().filter(|record| record.record_type() == RecordType::RRSIG);
        records.filter_map(|record| signature_times(&record.data)).collect()
    }
}

fn signature_times(data: &RData) -> Option<(u32, u32)> {
    let RData::Unknown { rdata, .. } = data else { return None };
    // Type covered 2, algorithm 1, labels 1, TTL 4, expiration 4, inception 4: RFC 4034 3.1.
    let bytes = &rdata.anything;
    let number = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
    Some((number(12)?, number(8)?))
}

fn plain(name: &Name) -> String {
    name.to_ascii().trim_end_matches('.').to_ascii_lowercase()
}

/// Asks a resolver, over UDP, and over TCP if the answer does not fit. As the engine does, it asks without EDNS if the resolver does
/// not understand EDNS.
///
/// # Errors
/// One phrase about why there is no answer.
pub fn ask(resolver: SocketAddr, name: &str, kind: RecordType) -> Result<Reply, String> {
    let mut name = Name::from_ascii(name).map_err(|_| format!("`{name}` is not a name"))?;
    name.set_fqdn(true);
    let mut message = Message::new(fastrand_id(), MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(name, kind));
    let mut edns = Edns::new();
    edns.set_max_payload(PAYLOAD_BYTES).set_dnssec_ok(true);
    message.set_edns(edns);
    let reply = send(resolver, &message)?;
    if !reply.is_about_edns() {
        return Ok(reply);
    }
    message.edns = None;
    send(resolver, &message)
}

fn send(resolver: SocketAddr, message: &Message) -> Result<Reply, String> {
    let question = message.to_vec().map_err(|error| error.to_string())?;
    let mut why = String::new();
    for _ in 0..TRIES {
        let began = Instant::now();
        match exchange(resolver, &question, message) {
            Ok(message) => return Ok(Reply { message, took: began.elapsed() }),
            Err(error) => why = explain(&error),
        }
    }
    Err(why)
}

/// An id that differs between questions. Nobody forges answers to a diagnosis, so it need not be secret.
fn fastrand_id() -> u16 {
    let now = Instant::now();
    let spread = std::collections::hash_map::RandomState::new();
    std::hash::BuildHasher::hash_one(&spread, now) as u16
}

fn exchange(resolver: SocketAddr, question: &[u8], asked: &Message) -> io::Result<Message> {
    let socket = connected(resolver)?;
    socket.send(question)?;
    let end = Instant::now() + TRY;
    let mut buffer = [0; 65_535];
    loop {
        let left = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
        socket.set_read_timeout(Some(left.ok_or(io::ErrorKind::TimedOut)?))?;
        let length = socket.recv(&mut buffer)?;
        // TC: the message need not be readable.
        if length > 3 && buffer[..2] == question[..2] && buffer[2] & 2 != 0 {
            return over_tcp(resolver, question, asked);
        }
        if let Some(message) = answer(&buffer[..length], asked) {
            return Ok(message);
        }
    }
}

fn over_tcp(resolver: SocketAddr, question: &[u8], asked: &Message) -> io::Result<Message> {
    let mut stream = TcpStream::connect_timeout(&resolver, TRY)?;
    stream.set_read_timeout(Some(TRY))?;
    stream.set_write_timeout(Some(TRY))?;
    let length = (question.len() as u16).to_be_bytes();
    stream.write_all(&[&length, question].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut bytes = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut bytes)?;
    answer(&bytes, asked).ok_or_else(|| io::Error::other("the answer is malformed"))
}

/// The message, if it answers what was asked. FORMERR and NOTIMP need not repeat the question.
fn answer(bytes: &[u8], asked: &Message) -> Option<Message> {
    let message = Message::from_vec(bytes).ok()?;
    let code = message.metadata.response_code;
    let bare = message.queries.is_empty() && matches!(code, ResponseCode::FormErr | ResponseCode::NotImp);
    let ours = message.metadata.id == asked.metadata.id && (bare || message.queries == asked.queries);
    (ours && message.metadata.message_type == MessageType::Response).then_some(message)
}

fn connected(resolver: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = if resolver.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.connect(resolver)?;
    Ok(socket)
}

fn explain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => "no answer".into(),
        io::ErrorKind::ConnectionRefused => "nothing listens there".into(),
        _ => error.to_string(),
    }
}

/// The receive buffer that the kernel allows, and the one that the engine wants, in bytes.
///
/// # Errors
/// No socket can be made.
pub fn receive_buffer() -> io::Result<(usize, usize)> {
    let socket = UdpSocket::bind(("127.0.0.1", 0))?;
    let socket = SockRef::from(&socket);
    // The kernel cuts the value to its limit, and reports twice what it keeps.
    let _ = socket.set_recv_buffer_size(BUFFER_WANTED);
    Ok((socket.recv_buffer_size()? / 2, BUFFER_WANTED))
}

/// The name under which the records of an address stand, such as `1.2.0.192.in-addr.arpa`, with this zone at its end.
pub fn reversed(address: IpAddr, zone_v4: &str, zone_v6: &str) -> String {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.{zone_v4}")
        }
        IpAddr::V6(address) => {
            let nibbles = address.octets().into_iter().rev().flat_map(|octet| [octet & 15, octet >> 4]);
            let name: String = nibbles.map(|nibble| format!("{nibble:x}.")).collect();
            format!("{name}{zone_v6}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_reversed() {
        let reversed = |address: &str| reversed(address.parse().unwrap(), "in-addr.arpa", "ip6.arpa");
        assert_eq!(reversed("192.0.2.1"), "1.2.0.192.in-addr.arpa");
        assert!(reversed("2001:db8::1").starts_with("1.0.0.0.0."));
        assert!(reversed("2001:db8::1").ends_with(".8.b.d.0.1.0.0.2.ip6.arpa"));
    }

    #[test]
    fn a_port_without_a_resolver_is_no_answer() {
        // Not one that was just closed: it may already be that of another test.
        let free = SocketAddr::from(([127, 0, 0, 1], 9));
        let why = ask(free, "example.com", RecordType::A).err().unwrap();
        assert_eq!(why, "nothing listens there");
        assert!(ask(free, "not a name\u{e9}", RecordType::A).is_err());
    }
    #[test]
    fn a_resolver_without_edns_is_asked_without_it() {
        for form in ["FORMERR", "NOTIMP without a question", "BADVERS"] {
            let server = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
            let at = server.local_addr().unwrap();
            let serve = std::thread::spawn(move || {
                let mut buffer = [0; 512];
                for _ in 0..2 {
                    let (length, from) = server.recv_from(&mut buffer).unwrap();
                    let mut reply = buffer[..length].to_vec();
                    reply[2] |= 0x80;
                    match (form, reply[11]) {
                        (_, 0) => {}
                        // The OPT record at the end has the upper bits of the code before its version and flags.
                        ("BADVERS", _) => reply[length - 6] = 1,
                        (form, _) => {
                            reply[3] |= if form == "FORMERR" { 1 } else { 4 };
                            reply[11] = 0;
                            reply[5] = u8::from(form == "FORMERR");
                            reply.truncate(if form == "FORMERR" { length - 11 } else { 12 });
                        }
                    }
                    server.send_to(&reply, from).unwrap();
                }
            });
            let reply = ask(at, "example.com", RecordType::A);
            assert_eq!(reply.map(|reply| reply.code()), Ok(ResponseCode::NoError), "{form}");
            serve.join().unwrap();
        }
    }
}
