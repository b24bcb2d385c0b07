//! Properties of the counters for any callers and times.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

const START: UnixMs = 1_801_386_000_000;

fn id(number: u128, row: Row) -> WindowId {
    WindowId { key: KeyId::new(START, number), row }
}

/// Gaps between requests: bursts, a steady flow, and pauses.
fn gaps() -> impl Strategy<Value = Vec<u64>> {
    let gap = prop_oneof![6 => 0..3u64, 3 => 0..1_500u64, 2 => 0..20_000u64, 1 => 55_000..65_000u64];
    vec(gap, 1..400)
}

proptest! {
    #[test]
    fn no_sixty_seconds_have_more_than_the_limit(gaps in gaps(), limit in 1..40u32) {
        let counters = Counters::default();
        let (mut now, mut taken) = (START, Vec::new());
        for gap in gaps {
            now += gap;
            match counters.count(id(1, Row::Verify), limit, now) {
                Ok(standing) => {
                    taken.push(now);
                    let within = taken.iter().filter(|&&at| at + window::WINDOW_MS > now).count();
                    prop_assert!(within <= limit as usize, "{within} of {limit}");
                    // Steps make the counter too high by at most the requests of one second.
                    let sure = taken.iter().filter(|&&at| at + window::WINDOW_MS + 1_000 > now).count();
                    let left = limit as usize - standing.remaining as usize;
                    prop_assert!((within..=sure).contains(&left), "{within} <= {left} <= {sure}");
                }
                Err(RateLimited(standing)) => {
                    let sure = taken.iter().filter(|&&at| at + window::WINDOW_MS + 1_000 > now).count();
                    prop_assert!(sure >= limit as usize, "refused with room");
                    prop_assert_eq!(standing.remaining, 0);
                }
            }
        }
    }

    #[test]
    fn after_the_wait_one_passes(gaps in gaps(), limit in 1..40u32, lower in 1..40u32) {
        let counters = Counters::default();
        let mut now = START;
        for (number, gap) in gaps.into_iter().enumerate() {
            now += gap;
            // The operator lowers the limit during the sequence.
            let limit = if number > 100 { limit.min(lower) } else { limit };
            if let Err(RateLimited(standing)) = counters.count(id(1, Row::Fast), limit, now) {
                prop_assert!((1..=60).contains(&standing.wait_s()), "{}", standing.wait_s());
                now += standing.wait_s() * 1000;
                prop_assert!(counters.count(id(1, Row::Fast), limit, now).is_ok());
            }
        }
    }

    #[test]
    fn fair_use_is_a_burst_and_a_rate(gaps in gaps(), per_second in 1..9u32, burst in 1..40u32) {
        let limits = Limits { fair_use_per_second: per_second, fair_use_burst: burst, ..Limits::default() };
        let counters = Counters::default();
        let account = AccountId::new(START, 1);
        let (mut now, mut taken) = (START, Vec::new());
        for gap in gaps {
            now += gap;
            if let Err(RateLimited(standing)) = counters.take_fair_use(account, &limits, now) {
                now += standing.wait_s() * 1000;
                prop_assert!(counters.take_fair_use(account, &limits, now).is_ok());
            }
            taken.push(now);
            for (number, &since) in taken.iter().enumerate() {
                let allowed = u64::from(burst) * 1000 + (now - since) * u64::from(per_second);
                prop_assert!((taken.len() - number) as u64 * 1000 <= allowed);
            }
        }
    }

    /// By the true time, whatever the clock shows: no burst beyond the limit while the clock goes back, and no endless
    /// refusal.
    #[test]
    fn a_clock_that_goes_back_opens_and_locks_nothing(
        steps in vec((0..5_000u64, prop_oneof![8 => Just(0u64), 1 => 0..3_000u64, 1 => 0..90_000_000u64]), 1..200),
        limit in 1..20u32,
    ) {
        let limits = Limits { fair_use_burst: limit, ..Limits::default() };
        let (counters, account) = (Counters::default(), AccountId::new(START, 1));
        let (mut truth, mut lag) = (START, 0);
        let (mut taken, mut fair) = (Vec::new(), Vec::new());
        for (pass, back) in steps {
            truth += pass;
            lag += back;
            let now = truth - lag;
            if counters.count(id(1, Row::Verify), limit, now).is_ok() {
                taken.push(truth);
                let within = taken.iter().filter(|&&at| at + window::WINDOW_MS > truth).count();
                prop_assert!(within <= limit as usize);
            }
            if counters.take_fair_use(account, &limits, now).is_ok() {
                fair.push(truth);
                for (number, &since) in fair.iter().enumerate() {
                    prop_assert!((fair.len() - number) as u64 * 1000 <= u64::from(limit) * 1000 + (truth - since) * 5);
                }
            }
        }
        let later = truth - lag + window::WINDOW_MS + CLOCK_SLACK_MS;
        prop_assert!(counters.count(id(1, Row::Verify), limit, later).is_ok());
        prop_assert!(counters.take_fair_use(account, &limits, later).is_ok());
    }

    #[test]
    fn what_was_kept_goes_on_as_if_nothing_had_been(before in gaps(), after in gaps(), limit in 1..40u32) {
        let (mut counters, mut now) = (Counters::default(), START);
        let steady = Counters::default();
        for gap in before {
            now += gap;
            prop_assert_eq!(
                counters.count(id(1, Row::Poll), limit, now),
                steady.count(id(1, Row::Poll), limit, now)
            );
        }
        let mut kept = Kept::default();
        counters.collect(&mut kept, |_| Limits::default(), now);
        counters = Counters::new(kept);
        for gap in after {
            now += gap;
            prop_assert_eq!(
                counters.count(id(1, Row::Poll), limit, now),
                steady.count(id(1, Row::Poll), limit, now)
            );
        }
    }
}

#[test]
fn a_burst_up_to_the_limit_passes_and_is_told() {
    let counters = Counters::default();
    for left in (0..600).rev() {
        let standing = counters.count(id(1, Row::Verify), 600, START).unwrap();
        assert_eq!((standing.remaining, standing.wait_s()), (left, 60));
    }
    let RateLimited(standing) = counters.count(id(1, Row::Verify), 600, START + 10_500).unwrap_err();
    assert_eq!((standing.policy, standing.quota, standing.window_s), ("verify", 600, 60));
    assert_eq!((standing.remaining, standing.wait_s()), (0, 50), "never too early");
    assert!(counters.count(id(1, Row::Verify), 600, START + 59_999).is_err());
    assert!(counters.count(id(1, Row::Verify), 600, START + 60_000).is_ok());
}

#[test]
fn each_row_of_each_key_has_a_counter_of_its_own() {
    let counters = Counters::default();
    for key in 1..4 {
        for row in Row::ALL {
            assert!(counters.count(id(key, row), 1, START).is_ok());
            assert!(counters.count(id(key, row), 1, START).is_err());
        }
    }
}

#[test]
fn fair_use_says_when_and_takes_back() {
    let (counters, account, limits) = (Counters::default(), AccountId::new(START, 1), Limits::default());
    for _ in 0..600 {
        counters.take_fair_use(account, &limits, START).unwrap();
    }
    let RateLimited(standing) = counters.take_fair_use(account, &limits, START).unwrap_err();
    assert_eq!((standing.policy, standing.quota, standing.window_s), ("fair_use", 600, 120));
    assert_eq!((standing.remaining, standing.wait_s(), standing.more_at), (0, 1, START + 200));
    counters.give_back_fair_use(account);
    counters.take_fair_use(account, &limits, START).unwrap();
    assert!(counters.take_fair_use(AccountId::new(START, 2), &limits, START).is_ok(), "another account");
    // A lowered burst does not prolong the wait.
    let lower = Limits { fair_use_burst: 1, ..limits };
    let RateLimited(standing) = counters.take_fair_use(account, &lower, START).unwrap_err();
    assert_eq!(standing.more_at, START + 200);
}

#[test]
fn only_what_changed_is_kept_and_what_is_idle_forgotten() {
    let counters = Counters::default();
    let account = AccountId::new(START, 1);
    let collect = |now| {
        let mut kept = Kept::default();
        counters.collect(&mut kept, |_| Limits::default(), now);
        kept
    };
    for key in 0..100 {
        counters.count(id(key, Row::Fast), 5, START).unwrap();
    }
    counters.take_fair_use(account, &Limits::default(), START).unwrap();
    let kept = collect(START + 100);
    assert_eq!((kept.windows.len(), kept.fair_use.len()), (100, 1));
    assert!(collect(START + 100).is_empty());
    counters.count(id(7, Row::Fast), 5, START + 30_000).unwrap();
    let kept = collect(START + 30_000);
    assert_eq!(kept.windows.keys().collect::<Vec<_>>(), [&id(7, Row::Fast)]);
    assert_eq!(kept.fair_use[&account], Bucket::default(), "dry, so to be forgotten");
    let kept = collect(START + 60_000);
    assert!(kept.windows.len() == 99 && kept.windows.values().all(|window| *window == Window::default()));
    assert_eq!((counters.windows.len(), counters.fair_use.len()), (1, 0));
    // No counter remains for ever, even if the clock was far ahead when it was created.
    assert_eq!(collect(START - 1_000_000).windows.len(), 0);
    assert_eq!(collect(START - 1_000_000 + 60_000).windows.len(), 1);
    assert_eq!(counters.windows.len(), 0);
}

#[test]
fn steps_are_few_whatever_the_times() {
    let mut window = Window::default();
    for number in 0..100_000u64 {
        // Regularly the clock goes back by several seconds.
        let now = START + number * 97 - number / 50 * 2_500;
        window.take(u32::MAX, now);
        assert!(window.steps().len() <= 130, "{}", window.steps().len());
    }
    assert!(Window::from_steps(window.steps().copied()).is_some());
}

#[test]
fn threads_share_one_counter() {
    let counters = Counters::default();
    let passed: usize = std::thread::scope(|scope| {
        let ask = || (0..1000).filter(|_| counters.count(id(1, Row::Batch), 1500, START).is_ok()).count();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(passed, 1500);
}
