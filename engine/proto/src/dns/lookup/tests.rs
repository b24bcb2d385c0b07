//! Scenarios on a virtual clock: what a lookup sends to which resolver and when, and how it ends.

use super::Transport::Udp;
use super::*;
use crate::dns::tests::{TestReply, question};
use crate::dns::ttl;
use crate::dns::{RecordKind, Records};
use crate::tests::rows;
use hickory_proto::op::ResponseCode;
use hickory_proto::rr::RecordType;
use proptest::prelude::*;

const S: Duration = Duration::from_secs(1);

/// A lookup of the A records of `h.example` on a virtual clock, with all messages that it has sent.
struct TestLookup {
    lookup: Lookup,
    start: Instant,
    now: Instant,
    random: u64,
    sent: Vec<Transmit>,
    /// What the latest reply meant for the lookup.
    received: Received,
}

impl TestLookup {
    fn new(upstreams: usize) -> TestLookup {
        TestLookup::with(LookupConfig::new(upstreams))
    }

    fn with(config: LookupConfig) -> TestLookup {
        let start = Instant::now();
        let lookup = Lookup::new(question("h.example", RecordKind::A), &config, 0);
        let mut test = TestLookup {
            lookup,
            start,
            now: start,
            random: 1,
            sent: Vec::new(),
            received: Received::Nothing,
        };
        test.send();
        test
    }

    fn send(&mut self) {
        let random = &mut self.random;
        let mut draw = || {
            *random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            *random ^ *random >> 31
        };
        while let Some(transmit) = self.lookup.poll_transmit(self.now, S, &mut draw) {
            self.sent.push(transmit);
        }
    }

    /// Lets time pass until the deadline of the lookup.
    fn wait(&mut self) {
        self.now = self.lookup.deadline().expect("a deadline");
        self.lookup.on_timeout(self.now);
        self.send();
    }

    /// The question of the n-th message, without the length bytes of TCP.
    fn question(&self, n: usize) -> Vec<u8> {
        let Transmit { transport, payload, .. } = &self.sent[n];
        if *transport == Udp {
            return payload.clone();
        }
        assert_eq!(usize::from(u16::from_be_bytes([payload[0], payload[1]])), payload.len() - 2);
        payload[2..].to_vec()
    }

    /// Makes the resolver answer the n-th message.
    fn answer(&mut self, n: usize, kind: &str) {
        let (bytes, upstream) = (reply(kind, &self.question(n)), self.sent[n].upstream);
        match self.sent[n].transport {
            Transport::Udp => self.received = self.lookup.on_datagram(upstream, &bytes, self.now),
            Transport::Tcp => self.received = self.lookup.on_tcp(upstream, &bytes, self.now),
        }
        self.send();
    }

    /// Carries out a step of a scenario.
    fn step(&mut self, step: &str) {
        let words: Vec<&str> = step.split(' ').collect();
        let number = |at: usize| words.get(at).map_or(1, |word| word.parse::<usize>().expect(step));
        let (now, first) = (self.now, self.question(0));
        match words[0] {
            "wait" => (0..number(1)).for_each(|_| self.wait()),
            "early" => {
                self.lookup.on_timeout(self.lookup.deadline().expect("a deadline") - Duration::from_nanos(1))
            }
            "unreachable" => self.lookup.on_unreachable(number(1)),
            "tcp-failed" => self.lookup.on_tcp_failed(number(1)),
            "abandon" => self.lookup.abandon(),
            "bare" => {
                let mut bare = first[..12].to_vec();
                (bare[2], bare[3], bare[5], bare[11]) = (0x80, 1, 0, 0);
                self.received = self.lookup.on_datagram(0, &bare, now);
            }
            "forged" => {
                let bytes = reply("good", &first);
                self.lookup.on_tcp(0, &bytes, now);
                for (upstream, bytes) in [(1, &bytes[..]), (7, &bytes), (0, &[]), (0, &bytes[..11])] {
                    self.lookup.on_datagram(upstream, bytes, now);
                }
            }
            _ => self.answer(number(0), words[1]),
        }
        self.send();
    }

    /// All that can be seen of the lookup, as the scenarios show it.
    fn shown(&self) -> String {
        let mut shown: Vec<String> = (0..self.sent.len())
            .map(|n| {
                let (question, Transmit { upstream, transport, .. }) = (self.question(n), &self.sent[n]);
                let form = match (question[11], question[question.len() - 4]) {
                    (0, _) => "-",
                    (_, 0x80) => "+",
                    _ => "",
                };
                format!("{upstream}{}{form}", if *transport == Udp { "" } else { "t" })
            })
            .collect();
        shown.push(match (self.lookup.outcome(), self.lookup.deadline()) {
            (None, Some(deadline)) => format!("until {:?}", deadline - self.start),
            (Some(outcome), None) => format!("end {:?} {}", self.now - self.start, told(outcome)),
            other => panic!("{other:?}"),
        });
        if self.received != Received::Nothing {
            shown.push(format!("{:?}", self.received));
        }
        let of = |n: usize| (self.lookup.has_answered(n), self.lookup.has_denied_unproven(n));
        let answered: Vec<usize> = (0..DNS_UPSTREAMS_MAX).filter(|&n| of(n).0).collect();
        assert_eq!(self.lookup.has_any_answer(), !answered.is_empty());
        shown.extend((0..DNS_UPSTREAMS_MAX).filter(|&n| of(n) != (false, false)).map(|n| match of(n).1 {
            true => format!("unproven:{n}"),
            false => format!("answered:{n}"),
        }));
        shown.join(" ")
    }
}

fn told(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Failed { why, ttl } => {
            assert_eq!(*ttl, ttl::failure(*why));
            format!("{why:?}")
        }
        Outcome::Records { ttl, .. } if *outcome == found(200) => format!("found for {ttl:?}"),
        Outcome::Records { .. } => {
            assert_eq!(outcome, &found(300));
            "found".to_owned()
        }
        _ => format!("{outcome:?}"),
    }
}

fn found(seconds: u32) -> Outcome {
    Outcome::Records { records: Records::A(vec![[192, 0, 2, 1].into()]), ttl: S * seconds }
}

/// The reply of this kind to a question, as the head of `testdata/lookup.txt` describes it.
fn reply(kind: &str, question: &[u8]) -> Vec<u8> {
    use ResponseCode::{FormErr, NXDomain, NotAuth, NotImp, Refused, ServFail};
    let reply = TestReply::to(question);
    let good = |reply: TestReply| reply.a("h.example", 300, [192, 0, 2, 1]);
    let reply = match kind {
        "good" => good(reply),
        "truncated" => reply.truncated(),
        "no-data" => reply.soa("example", 900, 800),
        "nobody" => reply.soa("example", 900, 800).code(NXDomain),
        "zero" => reply.a("h.example", 60, [0, 0, 0, 0]),
        "loop" => reply.cname("h.example", 1, "h.example"),
        "alias" => reply.cname("h.example", 200, "i.test"),
        "alias-back" => reply.cname("i.test", 200, "h.example"),
        "target-gone" => reply.soa("test", 900, 800).code(NXDomain),
        "target" => reply.a("i.test", 300, [192, 0, 2, 1]),
        "folded" => good(reply).asking("h.example", RecordType::A),
        "other-name" => good(reply).asking("g.example", RecordType::A),
        "other-id" => good(reply).id(u16::from_be_bytes([question[0], question[1] ^ 1])),
        code => {
            let codes = [FormErr, NXDomain, NotAuth, NotImp, Refused, ServFail];
            reply.code(codes.into_iter().find(|one| format!("{one:?}") == code).expect(code))
        }
    };
    reply.bytes()
}

#[test]
fn lookups_go_as_the_scenarios_say() {
    let (mut title, mut test) = ("", TestLookup::new(1));
    for line in rows(include_str!("../../../testdata/lookup.txt")) {
        if let Some(name) = line.strip_prefix("= ") {
            title = name;
        } else if let Some(settings) = line.strip_prefix("resolvers ") {
            let mut numbers = settings.split(' ').map(|word| word.parse::<u32>().expect(line));
            let mut config = LookupConfig::new(numbers.next().expect(line) as usize);
            config.rounds = numbers.next().unwrap_or(config.rounds);
            config.total_timeout = numbers.next().map_or(config.total_timeout, |seconds| S * seconds);
            test = TestLookup::with(config);
        } else {
            let (steps, expected) = line.split_once(" -> ").expect(line);
            test.received = Received::Nothing;
            steps.split(", ").for_each(|step| test.step(step));
            assert_eq!(test.shown(), expected, "{title}: {steps}");
        }
    }
}

#[test]
fn tries_differ() {
    let mut test = TestLookup::new(1);
    test.step("wait 2");
    let (a, b, c) = (&test.sent[0], &test.sent[1], &test.sent[2]);
    assert!(a.id != b.id && b.id != c.id);
    let name = |n: usize| test.question(n)[12..23].to_vec();
    assert!(name(0) != name(1) || name(1) != name(2));
    assert!(name(0).eq_ignore_ascii_case(&name(1)));
}

#[test]
fn the_first_resolver_can_be_chosen() {
    let config = LookupConfig::new(3);
    let now = Instant::now();
    let mut lookup = Lookup::new(question("h.example", RecordKind::A), &config, 5);
    assert_eq!(lookup.poll_transmit(now, S, &mut || 7).map(|t| t.upstream), Some(2));
    lookup.on_timeout(now + S);
    assert_eq!(lookup.poll_transmit(now + S, S, &mut || 7).map(|t| t.upstream), Some(0));
}

#[test]
fn time_counts_from_when_it_is_sent() {
    let config = LookupConfig::new(1);
    let mut lookup = Lookup::new(question("h.example", RecordKind::A), &config, 0);
    let now = Instant::now();
    lookup.on_timeout(now + S * 600);
    assert_eq!((lookup.wants(), lookup.deadline(), lookup.is_sent()), (Some((0, Udp)), None, false));
    let sent = now + S * 600;
    assert!(lookup.poll_transmit(sent, S, &mut || 7).is_some());
    assert_eq!((lookup.wants(), lookup.deadline(), lookup.is_sent()), (None, Some(sent + S), true));
    // The caller holds back the second try until the time of the lookup is over.
    lookup.on_timeout(sent + S);
    assert_eq!((lookup.wants(), lookup.deadline()), (Some((0, Udp)), Some(sent + DNS_TOTAL_TIMEOUT)));
    lookup.on_timeout(sent + DNS_TOTAL_TIMEOUT);
    assert_eq!(lookup.outcome().map(told).as_deref(), Some("Timeout"));
}

#[test]
fn nobody_to_ask_ends_it() {
    let mut lookup = Lookup::new(question("h.example", RecordKind::A), &LookupConfig::new(1), 0);
    lookup.abandon();
    assert_eq!((lookup.outcome().map(told).as_deref(), lookup.wants()), (Some("Timeout"), None));
}

#[test]
fn the_retransmission_time_is_the_resolver_s() {
    let mut lookup = Lookup::new(question("h.example", RecordKind::A), &LookupConfig::new(2), 0);
    let (mut now, fast, slow) = (Instant::now(), S / 5, S / 2);
    for (timeout, waits) in [(fast, S / 5), (slow, S / 2), (fast, S * 2 / 5), (slow, S), (fast, S * 4 / 5)] {
        lookup.poll_transmit(now, timeout, &mut || 7).expect("a message");
        assert_eq!(lookup.deadline(), Some(now + waits));
        now += waits;
        lookup.on_timeout(now);
    }
}

/// If half of the datagrams are lost in each direction, every lookup ends in time, and three in four with an answer.
#[test]
fn a_lossy_network() {
    let mut answered = 0;
    for seed in 0..1000u64 {
        let mut test = TestLookup::new(2);
        let mut coin = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut lost = || {
            coin ^= coin << 13;
            coin ^= coin >> 7;
            coin ^= coin << 17;
            coin & 1 == 0
        };
        while test.lookup.outcome().is_none() {
            if lost() || lost() {
                test.wait();
            } else {
                test.answer(test.sent.len() - 1, "good");
            }
        }
        answered += u32::from(test.lookup.outcome() == Some(&found(300)));
        assert!(test.now - test.start <= DNS_TOTAL_TIMEOUT);
        assert!(test.sent.len() <= 10);
    }
    // Five tries fit into 8 s: 1 + 1 + 2 + 2 s, and 2 s of the next 4. Each is answered in 1/4 of the cases: 76 % together.
    assert!((700..850).contains(&answered), "{answered}");
}

proptest! {
    /// Whatever replies come in whatever order, the lookup ends in time and after a bounded number of messages.
    #[test]
    fn it_always_ends(steps in proptest::collection::vec((0..12u8, any::<proptest::sample::Index>()), 0..40)) {
        let mut test = TestLookup::new(3);
        for (what, which) in steps {
            if test.lookup.outcome().is_some() {
                break;
            }
            let n = which.index(test.sent.len());
            let upstream = test.sent[n].upstream;
            match what {
                0 => test.wait(),
                1 => test.lookup.on_unreachable(upstream),
                2 => test.lookup.on_tcp_failed(upstream),
                3 => _ = test.lookup.on_datagram(upstream, &[0x12; 40], test.now),
                _ => {
                    let kinds = ["truncated", "FormErr", "ServFail", "Refused", "NXDomain", "folded", "loop", "alias"];
                    test.answer(n, kinds[usize::from(what) - 4]);
                }
            }
            test.send();
            prop_assert!(test.lookup.outcome().is_some() || test.lookup.deadline().is_some(), "it never hangs");
        }
        while test.lookup.outcome().is_none() {
            test.wait();
        }
        prop_assert!(test.now - test.start <= DNS_TOTAL_TIMEOUT);
        // A try in each turn, one more without EDNS for each resolver, one for each alias, and each of these again over TCP:
        // (15 + 3 + 8) * 2.
        prop_assert!(test.sent.len() <= 52, "{}", test.sent.len());
    }
}
