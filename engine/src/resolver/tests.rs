//! A resolver and its sockets against servers on loopback that these tests make.

use super::*;
use crate::runtime::testing::{Driver, Monoio, run};
use engine_proto::limits::DNS_DENIED_NAMES_MAX;
use std::collections::HashSet;
use std::net::UdpSocket;

const EACH: usize = 150;

/// The answer that a name does not exist: a response, with recursion available, NXDOMAIN and the root's SOA record in place of
/// EDNS.
fn nothing(question: &[u8]) -> Vec<u8> {
    let mut answer = question[..question.len() - 11].to_vec();
    answer[2..4].copy_from_slice(&[0x81, 0x83]);
    answer[8..12].copy_from_slice(&[0, 1, 0, 0]);
    answer.extend_from_slice(&[0, 0, 6, 0, 1, 0, 0, 1, 0, 0, 22, 0, 0]);
    answer.extend_from_slice(&[0, 0, 1, 0].repeat(5));
    answer
}

/// A resolver that says of every name that it does not exist, and its thread. The thread ends after this number of questions, and
/// returns the port and the first label of each question, in order.
fn nothing_exists(questions: usize) -> (SocketAddr, std::thread::JoinHandle<Vec<(u16, String)>>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let answer = move || {
        let mut buffer = [0; 512];
        let mut asked = Vec::new();
        for _ in 0..questions {
            let (length, from) = socket.recv_from(&mut buffer).expect("a question is missing");
            let label = &buffer[13..13 + usize::from(buffer[12])];
            asked.push((from.port(), String::from_utf8_lossy(label).to_lowercase()));
            socket.send_to(&nothing(&buffer[..length]), from).unwrap();
        }
        asked
    };
    (address, std::thread::spawn(answer))
}

fn resolver(upstreams: &[SocketAddr]) -> Resolver<Monoio> {
    let config = EngineConfig { resolvers: upstreams.to_vec(), ..EngineConfig::default() };
    Resolver::new(&config, Arc::default(), 1, Instant::now())
}

fn question(text: &str) -> Question {
    Question { name: Name::parse(text).unwrap(), kind: RecordKind::Mx }
}

async fn all_are_absent(resolver: &Resolver<Monoio>, names: Vec<String>) {
    let questions: Vec<Question> = names.iter().map(|name| question(name)).collect();
    let outcomes =
        super::all(questions.iter().map(|question| resolver.look_up(question, false)).collect()).await;
    for (outcome, name) in outcomes.iter().zip(names) {
        assert!(matches!(**outcome, Outcome::NxDomain { .. }), "{name}: {outcome:?}");
    }
}

#[test]
fn questions_that_come_together_are_told_apart() {
    let (address, answers) = nothing_exists(3 * EACH);
    run(Driver::Epoll, async move {
        let resolver = resolver(&[address]);
        let of = |n: usize| format!("{}{n}.example", "d".repeat(1 + n % 3));
        let names: Vec<String> = (1000..1000 + 3 * EACH).map(of).collect();
        all_are_absent(&resolver, names.clone()).await;
        // Of the cache: nobody is there to answer any more.
        all_are_absent(&resolver, names).await;
        assert!(resolver.inner.ports.takes_many(), "loopback takes many at once");
        assert!(resolver.inner.pending.borrow().is_empty());
    })
    .unwrap();
    let ports: HashSet<u16> = answers.join().unwrap().into_iter().map(|(port, _)| port).collect();
    // Three lengths, 32 at a time.
    assert!(ports.len() >= 8, "{ports:?}");
}

#[test]
fn one_call_for_many_is_done_without_where_it_fails() {
    let (address, answers) = nothing_exists(EACH);
    run(Driver::Epoll, async move {
        let resolver = resolver(&[address]);
        resolver.inner.ports.sends_one_by_one();
        all_are_absent(&resolver, (1000..1000 + EACH).map(|n| format!("d{n}.example")).collect()).await;
    })
    .unwrap();
    answers.join().unwrap();
}

#[test]
fn a_resolver_that_is_not_there_is_passed_over() {
    let (address, answers) = nothing_exists(EACH);
    let gone = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    run(Driver::Epoll, async move {
        let resolver = resolver(&[gone, address]);
        let began = Instant::now();
        all_are_absent(&resolver, (1000..1000 + EACH).map(|n| format!("d{n}.example")).collect()).await;
        assert!(began.elapsed() < Duration::from_secs(10));
    })
    .unwrap();
    answers.join().unwrap();
}

#[test]
fn a_lookup_of_a_list_gets_room_first_once_somebody_waits_for_it() {
    let (address, answers) = nothing_exists(EACH);
    run(Driver::Epoll, async move {
        let resolver = resolver(&[address]);
        let questions: Vec<Question> =
            (1000..1000 + EACH).map(|n| question(&format!("d{n}.example"))).collect();
        let last = questions.last().unwrap();
        let patient = questions.iter().map(|question| (question, false));
        let asked = patient.chain([(last, true)]);
        super::all(asked.map(|(question, urgent)| resolver.look_up(question, urgent)).collect()).await;
    })
    .unwrap();
    let asked = answers.join().unwrap();
    let at = asked.iter().position(|(_, label)| *label == format!("d{}", 1000 + EACH - 1)).unwrap();
    assert!(at < EACH / 2, "asked as number {at}");
}

#[test]
fn a_lookup_that_leaves_out_a_resolver_joins_none_that_asks_it() {
    let (address, answers) = nothing_exists(2);
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let upstreams = [silent.local_addr().unwrap(), address];
    run(Driver::Epoll, async move {
        let resolver = resolver(&upstreams);
        let (question, other) = (question("d.example"), resolver.clone());
        let began = Instant::now();
        let both = futures_lite::future::zip(async { other.look_up(&question, false).await }, async {
            let outcome = resolver.look_up_without(&question, &[0]).await;
            assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
            outcome
        });
        let (joined, without) = both.await;
        assert!(matches!((&*joined, &*without), (Outcome::NxDomain { .. }, Outcome::NxDomain { .. })));
    })
    .unwrap();
    assert_eq!(answers.join().unwrap().len(), 2);
}

#[test]
fn a_task_that_panics_clears_its_flag() {
    let resolver = resolver(&[]);
    let flags: [Flag<Monoio>; 3] =
        [|inner| &inner.ticking, |inner| &inner.doubts.checking, |inner| &inner.doubts.watching];
    for flag in flags {
        let raised = resolver.inner.raise(flag).expect("no task runs");
        assert!(resolver.inner.raise(flag).is_none(), "one task is enough");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _raised = raised;
            panic!("planted");
        }));
        assert!(panicked.is_err() && !flag(&resolver.inner).get());
    }
}

#[test]
fn the_names_that_were_denied_last_are_remembered() {
    let doubts = Doubts::<Monoio>::default();
    let of = |n: usize| question(&format!("d{n}.example"));
    (0..DNS_DENIED_NAMES_MAX).for_each(|n| doubts.remember(&of(n)));
    // The first one is denied again, so the second one has to make room.
    doubts.remember(&of(0));
    doubts.remember(&of(DNS_DENIED_NAMES_MAX));
    let remembered = doubts.remembered();
    assert_eq!(remembered.len(), DNS_DENIED_NAMES_MAX);
    assert!(remembered.contains(&of(0)) && !remembered.contains(&of(1)));
}
