//! A minimal client for the tests: it sends the given bytes and returns the received ones.
#![expect(clippy::unwrap_used, reason = "a helper that fails shall fail its test")]

use hickory_proto::{
    op::{Edns, Message, Query, ResponseCode},
    rr::{Name, RData, RecordType},
};
use mailnet::{Mailnet, Running, Scenario};
use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UdpSocket},
    time::timeout,
};

pub const PATIENCE: Duration = Duration::from_secs(10);
/// A silence of this length counts as no answer.
pub const SILENCE: Duration = Duration::from_millis(150);

pub fn start(scenario: &str) -> Running {
    Mailnet::start(Scenario::parse(scenario).unwrap()).unwrap()
}

/// A domain `d.example` with one server and `alice`.
pub fn start_server(server: &str) -> Running {
    start(&format!(
        "[[domain]]\nname = \"d.example\"\nserver = {server}\nmailboxes.ok = [\"alice\", \"ok-#\"]\n"
    ))
}

/// Such a domain, where the server has this fault at a stage of each session.
pub fn faulty(stage: &str, does: &str) -> Running {
    start_server(&format!(
        "{{ personality = \"generic\", faults = [{{ at = \"{stage}\", does = \"{does}\" }}] }}"
    ))
}

pub fn query(name: &str, query_type: RecordType) -> Message {
    let mut message = Message::query();
    message.metadata.id = 4711;
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(Name::from_ascii(format!("{name}.")).unwrap(), query_type));
    message.edns = Some(Edns::new().set_max_payload(1232).clone());
    message
}

/// Sends a query over UDP; returns all datagrams within the time, with their senders.
pub async fn udp_all(net: &Running, query: &[u8], wait: Duration) -> Vec<(SocketAddr, Vec<u8>)> {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.send_to(query, net.dns()).await.unwrap();
    let mut all = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(Ok((bytes, from))) = timeout(wait, socket.recv_from(&mut buffer)).await {
        all.push((from, buffer[..bytes].to_vec()));
    }
    all
}

pub async fn udp(net: &Running, query: &Message) -> Message {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.send_to(&query.to_vec().unwrap(), net.dns()).await.unwrap();
    let mut buffer = [0; 4096];
    let (bytes, _) = timeout(PATIENCE, socket.recv_from(&mut buffer)).await.expect("an answer").unwrap();
    Message::from_vec(&buffer[..bytes]).unwrap()
}

pub async fn tcp(net: &Running, query: &Message) -> Message {
    let mut stream = TcpStream::connect(net.dns()).await.unwrap();
    let query = query.to_vec().unwrap();
    stream.write_all(&[&(query.len() as u16).to_be_bytes(), query.as_slice()].concat()).await.unwrap();
    let mut answer = vec![0; usize::from(stream.read_u16().await.unwrap())];
    stream.read_exact(&mut answer).await.unwrap();
    Message::from_vec(&answer).unwrap()
}

pub async fn ask(net: &Running, name: &str, query_type: RecordType) -> (ResponseCode, Vec<RData>) {
    let answer = udp(net, &query(name, query_type)).await;
    (answer.metadata.response_code, answer.answers.into_iter().map(|record| record.data).collect())
}

pub async fn addresses(net: &Running, host: &str) -> Vec<IpAddr> {
    let mut found = Vec::new();
    for query_type in [RecordType::A, RecordType::AAAA] {
        found.extend(ask(net, host, query_type).await.1.iter().filter_map(RData::ip_addr));
    }
    found
}

/// The address of the first MX host of a domain, or of its first own host if the DNS fails.
pub async fn place(net: &Running, domain: &str) -> SocketAddr {
    let host = match ask(net, domain, RecordType::MX).await.1.first() {
        Some(RData::MX(mx)) => mx.exchange.to_ascii().trim_end_matches('.').to_owned(),
        _ => format!("mx1.{domain}"),
    };
    SocketAddr::new(addresses(net, &host).await[0], net.smtp_port())
}

pub struct Client {
    pub stream: TcpStream,
    /// Received bytes that are not read yet.
    pub held: Vec<u8>,
}

impl Client {
    /// Connects to the first own host of a domain.
    pub async fn connect(net: &Running, domain: &str) -> Client {
        Client::to(place(net, domain).await).await
    }

    pub async fn to(address: SocketAddr) -> Client {
        let stream = timeout(PATIENCE, TcpStream::connect(address)).await.expect("in time").unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, held: Vec::new() }
    }

    /// Connects, reads the greeting and sends EHLO.
    pub async fn greet(net: &Running, domain: &str) -> Client {
        let mut client = Client::connect(net, domain).await;
        assert!(client.reply().await.starts_with("220"));
        assert!(client.say("EHLO client.example").await.starts_with("250"));
        client
    }

    /// Also starts a transaction.
    pub async fn mail(net: &Running, domain: &str) -> Client {
        let mut client = Client::greet(net, domain).await;
        assert!(client.say("MAIL FROM:<probe@client.example>").await.starts_with("250"));
        client
    }

    pub async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    pub async fn say(&mut self, command: &str) -> String {
        self.send(&format!("{command}\r\n")).await;
        self.reply().await
    }

    pub async fn rcpt(&mut self, address: &str) -> String {
        self.say(&format!("RCPT TO:<{address}>")).await
    }

    /// The next complete reply, or the received bytes if the server closes first.
    pub async fn reply(&mut self) -> String {
        let mut whole = Vec::new();
        loop {
            let line = self.line().await;
            let more = line.get(3) == Some(&b'-');
            let ended = !line.ends_with(b"\n");
            whole.extend(line);
            if !more || ended {
                return String::from_utf8_lossy(&whole).into_owned();
            }
        }
    }

    async fn line(&mut self) -> Vec<u8> {
        loop {
            if let Some(at) = self.held.iter().position(|&byte| byte == b'\n') {
                return self.held.drain(..=at).collect();
            }
            if self.more().await == 0 {
                return std::mem::take(&mut self.held);
            }
        }
    }

    /// Reads once; 0 at the end, and after a reset.
    pub async fn more(&mut self) -> usize {
        self.held.reserve(16 * 1024);
        let read =
            timeout(PATIENCE, self.stream.read_buf(&mut self.held)).await.expect("the server is silent");
        read.unwrap_or(0)
    }

    pub async fn is_silent(&mut self) -> bool {
        self.held.is_empty() && timeout(SILENCE, self.stream.read_buf(&mut self.held)).await.is_err()
    }

    /// The kind of the connection's end, and the bytes before it.
    pub async fn end(&mut self) -> (Vec<u8>, End) {
        loop {
            match timeout(PATIENCE, self.stream.read_buf(&mut self.held)).await.expect("it does not end") {
                Ok(0) => return (std::mem::take(&mut self.held), End::Closed),
                Ok(_) => {}
                Err(_) => return (std::mem::take(&mut self.held), End::Reset),
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Closed,
    Reset,
}
