//! Tests on a virtual clock: how long a source rests at a site that blocks it, and rows at a slow server.

use engine::config::{EngineConfig, Network, Pace, SourceConfig};
use engine::proto::address::Address;
use engine::sim::{Connect, Link, Setup, Wire, World, run};
use engine::{Answer, Priority, Refusal, Request};
use std::collections::{HashMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

const HOST: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 5);
const TRIP: Duration = Duration::from_millis(10);

/// A world with one mail host, one resolver, and a client that asks about alice repeatedly.
#[derive(Default)]
struct Hours {
    /// When the host blocks us, in seconds.
    blocks: Vec<std::ops::Range<u64>>,
    /// How long the host takes for each reply to RCPT, in seconds.
    rcpt: u64,
    /// When the next requests come, in seconds.
    asks: VecDeque<u64>,
    /// The bytes of an incomplete command, by connection.
    heard: HashMap<u32, Vec<u8>>,
    sessions: usize,
    /// For each answer: its second, its reason or rule, whether the host was asked, the seconds until a retry, and the trace.
    said: Vec<(u64, String, bool, u64, String)>,
    sessions_before: usize,
}

impl World for Hours {
    fn connect(&mut self, link: Link, to: SocketAddr, wire: &mut Wire) -> Connect {
        assert_eq!(to.ip(), HOST);
        self.sessions += 1;
        let now = link.now.as_secs();
        let blocks = self.blocks.iter().any(|time| time.contains(&now));
        let banner = match blocks {
            true => "554 5.7.1 Service unavailable; client host blocked using zen.spamhaus.org\r\n",
            false => "220 mx.d.example ESMTP\r\n",
        };
        wire.send(TRIP, banner.into());
        Connect::Open(TRIP)
    }

    fn on_bytes(&mut self, link: Link, bytes: &[u8], wire: &mut Wire) {
        let heard = self.heard.entry(link.id).or_default();
        heard.extend_from_slice(bytes);
        while let Some(end) = heard.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = heard.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line).into_owned();
            let reply = match line.split([' ', '\r']).next() {
                Some("RCPT") if !line.contains("<alice@") => "550 5.1.1 User unknown\r\n",
                Some("QUIT") => "221 2.0.0 Bye\r\n",
                _ => "250 2.0.0 Ok\r\n",
            };
            let slow = if line.starts_with("RCPT") { self.rcpt } else { 0 };
            wire.send(TRIP + Duration::from_secs(slow), reply.into());
        }
    }

    fn hung_up(&mut self, link: Link, _is_unread: bool) {
        self.heard.remove(&link.id);
    }

    fn datagram(&mut self, _now: Duration, _to: SocketAddr, payload: &[u8]) -> Vec<(Duration, Vec<u8>)> {
        vec![(TRIP, answer(payload))]
    }

    fn answered(&mut self, now: Duration, answer: Answer) -> Option<(Duration, Request)> {
        let finding = answer.result.expect("no outage");
        let retry = finding.retry_after.map_or(0, |time| time.as_millis().div_ceil(1000) as u64);
        let what = if finding.reason.deliverable() { finding.reason.as_str() } else { finding.rule };
        let asked = self.sessions > self.sessions_before;
        self.said.push((now.as_secs(), what.to_owned(), asked, retry, answer.trace.join("\n")));
        self.sessions_before = self.sessions;
        let next = Duration::from_secs(self.asks.pop_front()?);
        Some((next.saturating_sub(now), request(1, Priority::Single)))
    }

    fn refused(&mut self, _now: Duration, _ticket: u64, refusal: Refusal) {
        panic!("{refusal:?}");
    }
}

fn request(ticket: u64, priority: Priority) -> Request {
    let address = Address::parse("alice@d.example").expect("an address");
    Request { ticket, owner: 0, address, priority, trace: true, observed: false }
}

/// Lets time pass until all requests are answered. Returns the world as it is then.
fn play(world: Hours, sources: &[&str], requests: impl IntoIterator<Item = Request>) -> Hours {
    let source = |text: &&str| SourceConfig::parse_address(text).expect("an address");
    let config = EngineConfig {
        resolvers: vec![SocketAddr::from((Ipv4Addr::new(192, 0, 2, 53), 53))],
        allow_net: vec![Network::parse("203.0.113.0/24").expect("a network")],
        ehlo: Some("probe.example".into()),
        sources: sources.iter().map(source).collect(),
        shards: 1,
        pace: Pace::Lab,
        ..EngineConfig::default()
    };
    let setup = Setup { seed: 1, config, ipv6: false, fault: None, limit: Duration::from_secs(10_000) };
    let first = requests.into_iter().map(|request| (Duration::ZERO, request)).collect();
    let (ending, world) = run(setup, world, first).expect("it runs");
    assert_eq!((ending.under_way, ending.panics, ending.connections), (0, 0, 0));
    world
}

/// The response to a DNS query: an MX record or an A record of the domain and its host, or that there is no such record or name.
fn answer(question: &[u8]) -> Vec<u8> {
    let end = 12 + question[12..].iter().position(|&byte| byte == 0).expect("a name") + 1;
    let name = question[13..end].to_ascii_lowercase();
    let ours = name.ends_with(b"\x01d\x07example\0") || name.starts_with(b"d\x07example");
    let data: Option<Vec<u8>> = match question[end..end + 2] {
        [0, 15] if ours => Some(b"\0\x0a\x02mx\x01d\x07example\0".to_vec()),
        [0, 1] if ours => Some(HOST.octets().to_vec()),
        _ => None,
    };
    let mut message = question[..2].to_vec();
    message.extend([0x81, if ours { 0x80 } else { 0x83 }, 0, 1, 0, u8::from(data.is_some()), 0, 0, 0, 0]);
    message.extend_from_slice(&question[12..end + 4]);
    if let Some(data) = data {
        message.extend([0xc0, 0x0c]);
        message.extend_from_slice(&question[end..end + 4]);
        message.extend([0, 0, 1, 44, 0, data.len() as u8]);
        message.extend(data);
    }
    message
}

#[test]
fn a_block_is_sat_out_for_longer_each_time_until_the_site_answers() {
    let asks = [200, 299, 302, 800, 899, 905, 1000, 2000, 2299, 2302];
    let world = Hours { blocks: vec![0..900, 1500..u64::MAX], asks: asks.into(), ..Hours::default() };
    let sources = ["192.0.2.1=a.example", "192.0.2.2=b.example", "192.0.2.3=c.example"];
    let world = play(world, &sources, [request(1, Priority::Single)]);
    let expected = [
        (0, "blocklist", true, 300),
        (200, "source_rested", false, 101),
        (299, "source_rested", false, 2),
        (302, "blocklist", true, 600),
        (800, "source_rested", false, 102),
        (899, "source_rested", false, 4),
        (905, "mailbox_exists", true, 0),
        (1000, "mailbox_exists", true, 0),
        (2000, "blocklist", true, 300),
        (2299, "source_rested", false, 2),
        (2302, "blocklist", true, 600),
    ];
    let said: Vec<_> = world
        .said
        .iter()
        .map(|(when, what, asked, retry, _)| (*when, what.as_str(), *asked, *retry))
        .collect();
    assert_eq!(said, expected);
    // All sessions came from the same source.
    let from =
        |trace: &str| trace.split(" from ").nth(1).and_then(|rest| rest.split(':').next().map(str::to_owned));
    let mut sources: Vec<_> = world.said.iter().filter_map(|(.., trace)| from(trace)).collect();
    sources.dedup();
    assert_eq!(sources.len(), 1, "{sources:?}");
}

#[test]
fn a_row_that_was_not_asked_about_in_time_may_be_asked_about_later() {
    let rows = (0..40).map(|row| request(row, Priority::List));
    let world = play(Hours { rcpt: 50, ..Hours::default() }, &[], rows);
    let late: Vec<_> = world.said.iter().filter(|(_, what, ..)| what == "no_answer_in_time").collect();
    assert!(
        late.len() > 9 && late.iter().all(|(when, .., retry, _)| (*when, *retry) == (600, 60)),
        "{late:?}"
    );
}
