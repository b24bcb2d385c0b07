//! Scenarios of a window, and simulations of resolvers with little room on a virtual clock.

use super::*;
use crate::tests::scenarios;
use std::collections::BTreeMap;

/// Checks a row of testdata/window.txt.
fn check(name: &str, steps: &str) {
    let window = Window::default();
    let mut under_way = std::collections::VecDeque::new();
    for (at, step) in steps.split(", ").enumerate() {
        let (step, size) = step.split_once(' ').expect(step);
        let (what, count) = step.split_at(1);
        for _ in 0..count.parse().unwrap_or(1) {
            let mut oldest = || under_way.pop_front().expect("a question under way");
            match what {
                "t" => under_way.push_back(window.take(0).expect("room")),
                "a" => window.on_answer(oldest()),
                "x" => {
                    window.on_answer(oldest());
                    under_way.push_back(window.take(0).expect("room"));
                }
                "r" => window.on_refusal(oldest()),
                "l" => window.on_loss(window.on_timeout(oldest())),
                "o" => _ = window.on_timeout(oldest()),
                "g" => window.give_back(oldest()),
                _ => assert_eq!(window.take(0), None, "{name}: step {at}"),
            }
        }
        assert_eq!(window.size().to_string(), size, "{name}: step {at}, {step}");
        assert_eq!(window.under_way() as usize, under_way.len(), "{name}: step {at}");
    }
}

#[test]
fn answers_widen_and_losses_narrow_it() {
    for (name, steps) in scenarios(include_str!("../../../testdata/window.txt")) {
        check(name, steps);
    }
}

#[test]
fn a_window_is_shared_out() {
    let window = Window::default();
    window.join();
    assert!(window.take(DNS_WINDOW_INITIAL - 1).is_some());
    window.join();
    assert_eq!(window.take(DNS_WINDOW_INITIAL / 2), None);
    assert!(window.take(DNS_WINDOW_INITIAL / 2 - 1).is_some());
    window.leave();
    assert!(window.take(DNS_WINDOW_INITIAL / 2).is_some());
    let crowd = Window::default();
    (0..1000).for_each(|_| crowd.join());
    assert!(crowd.take(0).is_some(), "everybody may have one");
    assert_eq!(crowd.take(1), None);
}

#[test]
fn timeouts_follow_round_trips() {
    let window = Window::default();
    let ms = Duration::from_millis;
    assert_eq!(window.timeout(), DNS_TRY_TIMEOUT);
    window.on_round_trip(ms(100));
    assert_eq!(window.timeout(), ms(300), "three times the first");
    (0..100).for_each(|_| window.on_round_trip(ms(100)));
    assert_eq!(window.timeout(), DNS_TRY_TIMEOUT_MIN);
    for n in 0..200 {
        window.on_round_trip(ms(if n % 2 == 0 { 20 } else { 220 }));
    }
    assert!((ms(450)..ms(600)).contains(&window.timeout()), "{:?}", window.timeout());
    (0..100).for_each(|_| window.on_round_trip(Duration::from_secs(5000)));
    assert_eq!(window.timeout(), DNS_TRY_TIMEOUT);
    (0..100).for_each(|_| window.on_round_trip(Duration::ZERO));
    assert_eq!(window.timeout(), DNS_TRY_TIMEOUT_MIN);
}

/// A resolver with room for `room` questions. It handles one after the other, each in `service` microseconds, and its answers
/// arrive `latency` microseconds later. It drops the questions for which there is no room.
struct Cramped {
    room: usize,
    latency: u64,
    service: u64,
}

/// The result of a simulation: when the last question was answered, in microseconds, and how many tries were sent and dropped.
struct Run {
    end: u64,
    sent: u64,
    dropped: u64,
}

/// A try: when it was sent, and its place in the window or, after the timeout, its mark as overdue.
type Try = (u64, Option<Place>, Option<Overdue>);

enum Event {
    Answer(usize, u32),
    Overdue(usize, u32),
    Timeout(usize, u32),
    Lost(Overdue),
}

/// Asks the resolver `count` questions as the engine does. It never answers `silent` of a hundred.
fn ask(resolver: &Cramped, count: usize, silent: usize) -> Run {
    let window = Window::default();
    let mut events: BTreeMap<(u64, u64), Event> = BTreeMap::new();
    let (mut order, mut now, mut inside, mut free_at) = (0, 0, 0, 0);
    let mut queue: std::collections::VecDeque<usize> = (0..count).collect();
    let mut tries: Vec<Vec<Try>> = (0..count).map(|_| Vec::new()).collect();
    let mut done = vec![false; count];
    let is_silent = |n: usize| n % 100 < silent;
    let mut run = Run { end: 0, sent: 0, dropped: 0 };
    loop {
        while let Some(&next) = queue.front() {
            if done[next] {
                queue.pop_front();
                continue;
            }
            let Some(place) = window.take(0) else { break };
            queue.pop_front();
            let number = tries[next].len() as u32;
            tries[next].push((now, Some(place), None));
            run.sent += 1;
            let wait = window.timeout().as_micros() as u64 * (1 << number.min(6));
            order += 2;
            events
                .insert((now + window.timeout().as_micros() as u64, order - 1), Event::Overdue(next, number));
            events.insert((now + wait, order), Event::Timeout(next, number));
            if inside >= resolver.room {
                run.dropped += 1;
            } else if !is_silent(next) {
                inside += 1;
                free_at = now.max(free_at) + resolver.service;
                order += 1;
                events.insert((free_at + resolver.latency, order), Event::Answer(next, number));
            }
        }
        let Some(((at, _), event)) = events.pop_first() else { return run };
        now = at;
        match event {
            Event::Answer(n, number) => {
                inside -= 1;
                let answered = &mut tries[n][number as usize];
                if let Some(place) = answered.1.take() {
                    window.on_answer(place);
                }
                answered.2 = None;
                if number == 0 {
                    window.on_round_trip(Duration::from_micros(now - answered.0));
                }
                if !std::mem::replace(&mut done[n], true) {
                    run.end = now;
                    for (_, place, overdue) in &mut tries[n] {
                        place.take().into_iter().for_each(|place| window.give_back(place));
                        if let Some(overdue) = overdue.take() {
                            order += 1;
                            events.insert((now + 50_000, order), Event::Lost(overdue));
                        }
                    }
                }
            }
            Event::Overdue(n, number) => {
                if let Some(place) = tries[n][number as usize].1.take() {
                    tries[n][number as usize].2 = Some(window.on_timeout(place));
                }
            }
            Event::Timeout(n, number) if number < 4 => queue.push_back(n),
            Event::Timeout(..) => {}
            Event::Lost(overdue) => window.on_loss(overdue),
        }
    }
}

#[test]
fn cramped_resolvers_answer_everything_soon() {
    // Room; latency and service in microseconds; the most seconds for 2,000 questions; the most drops in percent.
    for (name, room, latency, service, seconds, drops) in [
        ("a socket with the default buffer", 277, 100, 50, 0.2, 0),
        ("a slow one", 277, 100, 1000, 2.1, 0),
        ("dnsmasq", 150, 2000, 20, 0.3, 0),
        ("64 and no more, near", 64, 500, 10, 1.5, 12),
        ("64 and no more, far", 64, 20_000, 10, 3.0, 12),
        ("a small one, far", 16, 20_000, 10, 6.0, 40),
        ("much room, very far", 5000, 200_000, 10, 4.0, 0),
    ] {
        let run = ask(&Cramped { room, latency, service }, 2000, 0);
        let took = run.end as f64 / 1e6;
        let share = run.dropped as f64 * 100.0 / run.sent as f64;
        assert!(
            took <= seconds && share <= f64::from(drops),
            "{name}: {took:.2} s, {share:.1} % of {} dropped",
            run.sent
        );
    }
}

#[test]
fn silent_names_do_not_narrow_it() {
    let without = ask(&Cramped { room: 277, latency: 20_000, service: 20 }, 10_000, 0);
    let with = ask(&Cramped { room: 277, latency: 20_000, service: 20 }, 10_000, 5);
    assert_eq!((without.dropped, with.dropped), (0, 0));
    // The five tries of a silent name take 6.2 s. Meanwhile, the questions about other names are answered.
    let (without, with) = (without.end as f64 / 1e6, with.end as f64 / 1e6);
    assert!(with < without * 12.0, "{without:.2} s without and {with:.2} s with silent names");
}
