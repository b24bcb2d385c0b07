//! Scenarios on a virtual clock: what a lookup sends to which resolver and when, and how it ends.

use super::*;
use crate::dns::tests::{TestReply, question};
use crate::dns::ttl;
use crate::dns::{RecordKind, Records};
use crate::limits::DNS_REFUSAL_PAUSE;
use hickory_proto::op::ResponseCode;
use hickory_proto::rr::RecordType;
use proptest::prelude::*;

const S: Duration = Duration::from_secs(1);
const AT_ONCE: Duration = Duration::ZERO;

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
    fn wait(&mut self) -> &mut TestLookup {
        self.now = self.lookup.deadline().expect("a deadline");
        self.lookup.on_timeout(self.now);
        self.send();
        self
    }

    /// The question of the n-th message, without the length bytes of TCP.
    fn question(&self, n: usize) -> Vec<u8> {
        let Transmit { transport, payload, .. } = &self.sent[n];
        payload[if *transport == Transport::Tcp { 2 } else { 0 }..].to_vec()
    }

    /// Makes the resolver answer the n-th message.
    fn answer(&mut self, n: usize, make: impl FnOnce(TestReply) -> TestReply) -> &mut TestLookup {
        let bytes = make(TestReply::to(&self.question(n))).bytes();
        let upstream = self.sent[n].upstream;
        match self.sent[n].transport {
            Transport::Udp => self.received = self.lookup.on_datagram(upstream, &bytes, self.now),
            Transport::Tcp => self.received = self.lookup.on_tcp(upstream, &bytes, self.now),
        }
        self.send();
        self
    }

    /// Checks to which resolvers the messages were sent in turn, and over which transports.
    #[track_caller]
    fn went_to(&self, expected: &[(usize, Transport)]) {
        let sent: Vec<_> = self.sent.iter().map(|t| (t.upstream, t.transport)).collect();
        assert_eq!(sent, expected);
    }

    #[track_caller]
    fn ends(&self, expected: &Outcome, after: Duration) {
        assert_eq!(self.lookup.outcome(), Some(expected));
        assert_eq!(self.now - self.start, after);
        assert_eq!(self.lookup.deadline(), None);
    }
}

use Transport::{Tcp, Udp};

fn good(reply: TestReply) -> TestReply {
    reply.a("h.example", 300, [192, 0, 2, 1])
}

fn found() -> Outcome {
    Outcome::Records { records: Records::A(vec![[192, 0, 2, 1].into()]), ttl: S * 300 }
}

fn failed(why: Failure) -> Outcome {
    Outcome::Failed { why, ttl: ttl::failure(why) }
}

fn with(code: ResponseCode) -> impl FnOnce(TestReply) -> TestReply {
    move |reply| reply.code(code)
}

#[test]
fn an_answer_ends_it() {
    let mut test = TestLookup::new(1);
    test.went_to(&[(0, Udp)]);
    assert_eq!(test.lookup.deadline(), Some(test.start + S));
    assert!(!test.lookup.has_any_answer());
    test.answer(0, good).ends(&found(), AT_ONCE);
    assert!(test.lookup.has_any_answer() && test.lookup.has_answered(0));
    test.answer(0, with(ResponseCode::NXDomain)).ends(&found(), AT_ONCE);
    assert_eq!(test.received, Received::Nothing);
    assert_eq!(test.sent.len(), 1);
}

#[test]
fn negative_answers_end_it() {
    let mut test = TestLookup::new(2);
    let soa = |reply: TestReply| reply.soa("example", 900, 800);
    test.answer(0, soa).ends(&Outcome::NoData { ttl: S * 800 }, AT_ONCE);
    let mut test = TestLookup::new(2);
    let nothing = |reply: TestReply| soa(reply).code(ResponseCode::NXDomain);
    test.answer(0, nothing).ends(&Outcome::NxDomain { ttl: S * 800 }, AT_ONCE);
}

#[test]
fn silence_is_asked_again_with_more_patience() {
    let mut test = TestLookup::new(1);
    test.wait().wait().went_to(&[(0, Udp), (0, Udp), (0, Udp)]);
    assert_eq!(test.lookup.deadline(), Some(test.start + S * 7), "1 + 2 + 4 s");
    test.wait().wait().ends(&failed(Failure::Timeout), DNS_TOTAL_TIMEOUT);
    assert!(!test.lookup.has_any_answer());
}

#[test]
fn patience_has_a_limit() {
    let mut test =
        TestLookup::with(LookupConfig { rounds: 5, total_timeout: S * 60, ..LookupConfig::new(1) });
    test.wait().wait().wait().wait().wait().ends(&failed(Failure::Timeout), S * (1 + 2 + 4 + 4 + 4));
}

#[test]
fn the_whole_has_a_limit() {
    let mut test = TestLookup::new(3);
    while test.lookup.outcome().is_none() {
        test.wait();
    }
    // Three tries of 1 s and two of 2 s. The sixth is cut off after 1 s, because the lookup may take 8 s.
    test.went_to(&[(0, Udp), (1, Udp), (2, Udp), (0, Udp), (1, Udp), (2, Udp)]);
    test.ends(&failed(Failure::Timeout), DNS_TOTAL_TIMEOUT);
}

#[test]
fn waking_early_changes_nothing() {
    let mut test = TestLookup::new(2);
    test.lookup.on_timeout(test.start + S - Duration::from_nanos(1));
    test.send();
    test.went_to(&[(0, Udp)]);
    test.wait().went_to(&[(0, Udp), (1, Udp)]);
}

#[test]
fn tries_differ() {
    let mut test = TestLookup::new(1);
    test.wait().wait();
    let (a, b, c) = (&test.sent[0], &test.sent[1], &test.sent[2]);
    assert!(a.id != b.id && b.id != c.id);
    let name = |n: usize| test.question(n)[12..23].to_vec();
    assert!(name(0) != name(1) || name(1) != name(2));
    assert!(name(0).eq_ignore_ascii_case(&name(1)));
}

#[test]
fn an_earlier_try_may_be_answered_late() {
    let mut test = TestLookup::new(2);
    test.wait().answer(0, good).ends(&found(), S);
    assert!(test.lookup.has_answered(0) && !test.lookup.has_answered(1));
}

#[test]
fn forged_answers_are_ignored() {
    let mut test = TestLookup::new(2);
    let id = test.sent[0].id;
    test.answer(0, |r| good(r).id(id ^ 1)).answer(0, |r| good(r).asking("g.example", RecordType::A));
    let bytes = good(TestReply::to(&test.question(0))).bytes();
    test.lookup.on_datagram(1, &bytes, test.now);
    test.lookup.on_tcp(0, &bytes, test.now);
    test.lookup.on_datagram(7, &bytes, test.now);
    test.lookup.on_datagram(0, &[], test.now);
    test.lookup.on_datagram(0, &bytes[..11], test.now);
    assert_eq!(test.lookup.outcome(), None);
    assert!(!test.lookup.has_any_answer());
    test.went_to(&[(0, Udp)]);
    test.answer(0, good).ends(&found(), AT_ONCE);
}

#[test]
fn a_resolver_that_folds_case_is_asked_over_tcp() {
    let mut test = TestLookup::new(2);
    let folded = |r: TestReply| good(r).asking("h.example", RecordType::A);
    test.answer(0, folded).answer(0, folded).went_to(&[(0, Udp), (0, Tcp)]);
    assert_eq!(test.lookup.deadline(), Some(test.start + DNS_TCP_TIMEOUT));
    test.answer(1, good).ends(&found(), AT_ONCE);
}

#[test]
fn truncation_moves_to_tcp() {
    let mut test = TestLookup::new(2);
    test.answer(0, TestReply::truncated).went_to(&[(0, Udp), (0, Tcp)]);
    let length = usize::from(u16::from_be_bytes([test.sent[1].payload[0], test.sent[1].payload[1]]));
    assert_eq!(length, test.sent[1].payload.len() - 2);
    test.answer(1, good).ends(&found(), AT_ONCE);
}

#[test]
fn tcp_that_fails_is_not_the_end() {
    let mut test = TestLookup::new(2);
    test.answer(0, TestReply::truncated);
    test.lookup.on_tcp_failed(0);
    test.send();
    test.went_to(&[(0, Udp), (0, Tcp), (1, Udp)]);
    test.answer(2, good).ends(&found(), AT_ONCE);

    let mut test = TestLookup::new(1);
    test.answer(0, TestReply::truncated).wait().went_to(&[(0, Udp), (0, Tcp), (0, Udp)]);
    assert_eq!(test.now - test.start, DNS_TCP_TIMEOUT);
    test.answer(2, TestReply::truncated).ends(&failed(Failure::Malformed), DNS_TCP_TIMEOUT);

    let mut test = TestLookup::new(1);
    test.answer(0, TestReply::truncated)
        .answer(1, TestReply::truncated)
        .ends(&failed(Failure::Malformed), AT_ONCE);
}

#[test]
fn errors_go_to_the_next_resolver() {
    for (code, why) in
        [(ResponseCode::ServFail, Failure::ServFail), (ResponseCode::NotAuth, Failure::OtherCode)]
    {
        let mut test = TestLookup::new(2);
        test.answer(0, with(code)).went_to(&[(0, Udp), (1, Udp)]);
        assert!(test.lookup.has_any_answer());
        test.answer(1, good).ends(&found(), AT_ONCE);

        let mut test = TestLookup::new(2);
        test.answer(0, with(code)).answer(1, with(code)).ends(&failed(why), AT_ONCE);
    }
    let mut test = TestLookup::new(1);
    test.answer(0, |r| r.cname("h.example", 1, "h.example")).ends(&failed(Failure::CnameLoop), AT_ONCE);
}

#[test]
fn who_failed_once_is_not_asked_again() {
    let mut test = TestLookup::new(2);
    test.answer(0, with(ResponseCode::ServFail)).wait().wait();
    test.went_to(&[(0, Udp), (1, Udp), (1, Udp), (1, Udp)]);
    test.wait().wait().ends(&failed(Failure::ServFail), DNS_TOTAL_TIMEOUT);
}

#[test]
fn a_late_error_does_not_disturb() {
    let mut test = TestLookup::new(2);
    test.wait().answer(0, with(ResponseCode::ServFail)).went_to(&[(0, Udp), (1, Udp)]);
    assert_eq!(test.lookup.outcome(), None);
    test.answer(1, good).ends(&found(), S);
}

#[test]
fn without_edns_where_it_is_not_understood() {
    for code in [ResponseCode::FormErr, ResponseCode::NotImp] {
        let mut test = TestLookup::new(2);
        test.answer(0, with(code)).went_to(&[(0, Udp), (0, Udp)]);
        assert_eq!(test.question(0)[10..12], [0, 1]);
        assert_eq!(test.question(1)[10..12], [0, 0], "no OPT record");
        test.answer(1, good).ends(&found(), AT_ONCE);
    }
    let mut test = TestLookup::new(2);
    let mut bare = test.question(0)[..12].to_vec();
    (bare[2], bare[3], bare[5], bare[11]) = (0x80, 1, 0, 0);
    test.lookup.on_datagram(0, &bare, test.now);
    test.send();
    test.went_to(&[(0, Udp), (0, Udp)]);
    test.answer(1, with(ResponseCode::FormErr)).went_to(&[(0, Udp), (0, Udp), (1, Udp)]);
    test.answer(2, good).ends(&found(), AT_ONCE);
}

#[test]
fn unreachable_resolvers() {
    let mut test = TestLookup::new(2);
    test.lookup.on_unreachable(0);
    test.send();
    test.went_to(&[(0, Udp), (1, Udp)]);
    test.lookup.on_unreachable(1);
    test.send();
    assert_eq!(test.sent.len(), 2, "the last of a round is waited out");
    test.wait().went_to(&[(0, Udp), (1, Udp), (0, Udp)]);
    test.answer(2, good).ends(&found(), S);

    let mut test = TestLookup::new(1);
    while test.lookup.outcome().is_none() {
        test.lookup.on_unreachable(0);
        test.wait();
    }
    test.ends(&failed(Failure::Unreachable), DNS_TOTAL_TIMEOUT);
    assert!(!test.lookup.has_any_answer());
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
    assert_eq!(lookup.outcome(), Some(&failed(Failure::Timeout)));
}

#[test]
fn nobody_to_ask_ends_it() {
    let mut lookup = Lookup::new(question("h.example", RecordKind::A), &LookupConfig::new(1), 0);
    lookup.abandon();
    assert_eq!((lookup.outcome(), lookup.wants()), (Some(&failed(Failure::Timeout)), None));
    let mut test = TestLookup::new(1);
    test.answer(0, good);
    test.lookup.abandon();
    test.ends(&found(), AT_ONCE);
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

#[test]
fn a_refusal_may_be_load() {
    let refused = || with(ResponseCode::Refused);
    let mut test = TestLookup::new(1);
    test.answer(0, refused()).went_to(&[(0, Udp)]);
    assert_eq!(test.received, Received::Refusal);
    assert_eq!(test.lookup.deadline(), Some(test.start + DNS_REFUSAL_PAUSE));
    test.wait().answer(1, good).ends(&found(), DNS_REFUSAL_PAUSE);
    assert_eq!(test.received, Received::Answer);

    // Another resolver is asked at once.
    let mut test = TestLookup::new(2);
    test.answer(0, refused()).went_to(&[(0, Udp), (1, Udp)]);
    test.answer(1, good).ends(&found(), AT_ONCE);

    // Resolvers that always refuse are asked four times.
    let mut test = TestLookup::new(1);
    for n in 0..4 {
        test.answer(n, refused());
        if n < 3 {
            test.wait();
        }
    }
    test.ends(&failed(Failure::Refused), DNS_REFUSAL_PAUSE * (1 + 2 + 4));
    let mut test = TestLookup::new(2);
    for n in 0..4 {
        test.answer(2 * n, refused()).answer(2 * n + 1, refused());
        if n < 3 {
            test.wait();
        }
    }
    assert_eq!(test.sent.len(), 8);
    test.ends(&failed(Failure::Refused), DNS_REFUSAL_PAUSE * (1 + 2 + 4));
}

#[test]
fn a_denial_without_soa_is_asked_again_for_dnssec_records() {
    let nothing = |reply: TestReply| reply.code(ResponseCode::NXDomain);
    let mut test = TestLookup::new(2);
    test.answer(0, nothing).went_to(&[(0, Udp), (0, Udp)]);
    let flags = |test: &TestLookup, n: usize| test.question(n)[test.question(n).len() - 4];
    assert_eq!((flags(&test, 0), flags(&test, 1)), (0, 0x80));
    test.answer(1, |r| nothing(r).soa("example", 900, 800))
        .ends(&Outcome::NxDomain { ttl: S * 800 }, AT_ONCE);
    assert!(!test.lookup.has_denied_unproven(0));
}

/// If a late reply makes it necessary to ask in another way, this waits until the turn of the other resolver is over.
#[test]
fn a_late_reply_takes_no_turn_of_another_resolver() {
    type Make = fn(TestReply) -> TestReply;
    let late: [(Make, Transport); 4] = [
        (|r| r.code(ResponseCode::NXDomain), Udp),
        (|r| r.code(ResponseCode::FormErr), Udp),
        (TestReply::truncated, Tcp),
        (|r| good(r).asking("h.example", RecordType::A), Tcp),
    ];
    for (make, over) in late {
        let mut test = TestLookup::new(2);
        test.wait().answer(0, make).went_to(&[(0, Udp), (1, Udp)]);
        assert_eq!(test.lookup.deadline(), Some(test.start + S * 2), "the other one has its full time");
        test.wait().went_to(&[(0, Udp), (1, Udp), (0, over)]);
        test.answer(2, good).ends(&found(), S * 2);

        // In the last round, the resolver is asked again after the last turn.
        let mut test = TestLookup::with(LookupConfig { rounds: 1, ..LookupConfig::new(2) });
        test.wait().answer(0, make).wait().went_to(&[(0, Udp), (1, Udp), (0, over)]);
        test.answer(1, good).ends(&found(), S * 2);

        // If the other resolver fails during its turn, the first one is asked again at once.
        let mut test = TestLookup::new(2);
        test.wait().answer(0, make).answer(1, with(ResponseCode::ServFail));
        test.went_to(&[(0, Udp), (1, Udp), (0, over)]);
    }
}

#[test]
fn denials_without_proof_go_to_the_next_resolver() {
    let nothing = |reply: TestReply| reply.code(ResponseCode::NXDomain);
    let zero = |reply: TestReply| reply.a("h.example", 60, [0, 0, 0, 0]);
    let mut test = TestLookup::new(2);
    test.answer(0, nothing).answer(1, nothing).went_to(&[(0, Udp), (0, Udp), (1, Udp)]);
    assert!(test.lookup.has_denied_unproven(0) && !test.lookup.has_denied_unproven(1));
    test.answer(2, good).ends(&found(), AT_ONCE);

    let mut test = TestLookup::new(2);
    test.answer(0, zero).went_to(&[(0, Udp), (1, Udp)]);
    test.answer(1, |r| nothing(r).soa("example", 900, 800))
        .ends(&Outcome::NxDomain { ttl: S * 800 }, AT_ONCE);

    // If no resolver gives a proof, the failure is `Unproven`, even if another resolver fails or is silent.
    let mut test = TestLookup::new(1);
    test.answer(0, zero).ends(&failed(Failure::Unproven), AT_ONCE);
    assert!(test.lookup.has_any_answer());
    let mut test = TestLookup::new(2);
    test.answer(0, zero).answer(1, with(ResponseCode::ServFail)).ends(&failed(Failure::Unproven), AT_ONCE);
    let mut test = TestLookup::new(2);
    test.answer(0, zero);
    while test.lookup.outcome().is_none() {
        test.wait();
    }
    test.ends(&failed(Failure::Unproven), DNS_TOTAL_TIMEOUT);
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
                test.answer(test.sent.len() - 1, good);
            }
        }
        answered += u32::from(test.lookup.outcome() == Some(&found()));
        assert!(test.now - test.start <= DNS_TOTAL_TIMEOUT);
        assert!(test.sent.len() <= 10);
    }
    // Five tries fit into 8 s: 1 + 1 + 2 + 2 s, and 2 s of the next 4. Each is answered in 1/4 of the cases: 76 % together.
    assert!((700..850).contains(&answered), "{answered}");
}

proptest! {
    /// Whatever replies come in whatever order, the lookup ends in time and after a bounded number of messages.
    #[test]
    fn it_always_ends(steps in proptest::collection::vec((0..11u8, any::<proptest::sample::Index>()), 0..40)) {
        let mut test = TestLookup::new(3);
        for (what, which) in steps {
            if test.lookup.outcome().is_some() {
                break;
            }
            let n = which.index(test.sent.len());
            let upstream = test.sent[n].upstream;
            match what {
                0 => _ = test.wait(),
                1 => test.lookup.on_unreachable(upstream),
                2 => test.lookup.on_tcp_failed(upstream),
                3 => _ = test.answer(n, TestReply::truncated),
                4 => _ = test.answer(n, with(ResponseCode::FormErr)),
                5 => _ = test.answer(n, with(ResponseCode::ServFail)),
                9 => _ = test.answer(n, with(ResponseCode::Refused)),
                10 => _ = test.answer(n, with(ResponseCode::NXDomain)),
                6 => _ = test.answer(n, |r| good(r).asking("h.example", RecordType::A)),
                7 => _ = test.lookup.on_datagram(upstream, &[0x12; 40], test.now),
                _ => _ = test.answer(n, |r| r.cname("h.example", 1, "h.example")),
            }
            test.send();
            prop_assert!(test.lookup.outcome().is_some() || test.lookup.deadline().is_some(), "it never hangs");
        }
        while test.lookup.outcome().is_none() {
            test.wait();
        }
        prop_assert!(test.now - test.start <= DNS_TOTAL_TIMEOUT);
        // A try in each turn, one more without EDNS for each resolver, and each of these again over TCP: (15 + 3) * 2.
        prop_assert!(test.sent.len() <= 36, "{}", test.sent.len());
    }
}
