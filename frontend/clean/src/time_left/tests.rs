use super::*;

const SILENCE: u64 = 55_000;

fn facts(now: u64, progress: u64) -> RunFacts {
    RunFacts { now, progress, silence: SILENCE, ..RunFacts::default() }
}

/// The stated time in seconds.
fn stated(times: &mut TimeLeft, facts: &RunFacts) -> f64 {
    times.estimate(facts).0.map_or(f64::NAN, |left| left.time.as_secs_f64())
}

/// The line is drawn each half second up to this time.
fn draw(times: &mut TimeLeft, now: u64) {
    if now.is_multiple_of(500) {
        times.estimate(&facts(now, now));
    }
}

fn delay(times: &mut TimeLeft, domain: u32, cause: Cause, [now, due, until]: [u64; 3]) {
    times.on_delay(&AskedRow { domain, ..AskedRow::default() }, cause, now, due, until);
}

#[track_caller]
fn near(stated: f64, truth: f64) {
    assert!((stated - truth).abs() <= 0.2 * truth.max(10.0), "stated {stated} s, true {truth} s");
}

#[test]
fn an_even_pace_goes_on() {
    let mut times = TimeLeft::default();
    (0..1000).for_each(|_| times.on_new(0, 0));
    assert_eq!(times.estimate(&facts(100, 0)).0, None, "nothing is known");
    for n in 1..=900_u64 {
        times.on_reply(0, n * 100);
        // Their answers come in groups.
        if n % 100 == 0 {
            (0..100).for_each(|_| times.on_result(0, true, false, n * 100));
        }
        draw(&mut times, n * 100);
        let listed = RunFacts { read: 1000, rows: Some(1000.0), ..facts(n * 100, n * 100) };
        assert!(!(10..30).contains(&n) || stated(&mut times, &listed).is_nan(), "too few replies: {n}");
        if n > 100 && n % 10 == 0 {
            near(stated(&mut times, &facts(n * 100, n * 100)), (1000 - n) as f64 / 10.0);
        }
    }
    // A list of which a tenth is read.
    let all = RunFacts { read: 1000, rows: Some(10_000.0), ..facts(90_000, 90_000) };
    near(stated(&mut times, &all), 910.0);
}

#[test]
fn a_host_without_a_connection_is_waited_for_until_the_end_of_max_wait() {
    let mut times = TimeLeft::default();
    times.on_new(0, 0);
    let given = |now: u64| RunFacts { max_wait: 120_000, silence: 120_000, read: 1, ..facts(now, 5000) };
    near(stated(&mut times, &given(12_000)), 113.0 + CONNECTING_MS as f64 / 1000.0);
    delay(&mut times, 0, Cause::Connection, [60_000, 124_000, 125_000]);
    near(stated(&mut times, &given(62_000)), 63.0 + 60.0);
    times.on_again(0, 124_000);
    for now in [125_000, 140_000, 183_000] {
        near(stated(&mut times, &given(now)), (184_000 - now) as f64 / 1000.0);
    }
    // The number of tries ends a long wait sooner, and the next try hides nothing of it.
    let mut times = TimeLeft::default();
    times.on_new(0, 0);
    let given = |now: u64| RunFacts { max_wait: 7_200_000, ..given(now) };
    near(stated(&mut times, &given(12_000)), 8.0 * 120.0 + 60.0);
    delay(&mut times, 0, Cause::Connection, [100, 60_000, 7_200_000]);
    near(stated(&mut times, &given(1000)), 9.0 * 60.0);
    times.on_again(0, 60_100);
    near(stated(&mut times, &given(60_200)), 8.0 * 60.0);
    // If a try takes longer than the one before, the engine probably makes another one.
    let mut times = TimeLeft::default();
    times.on_new(0, 0);
    delay(&mut times, 0, Cause::Connection, [20_000, 80_000, 80_000]);
    times.on_again(0, 80_000);
    for (now, left) in [(90_000, 10.0), (105_000, 15.0), (145_000, 0.0)] {
        near(stated(&mut times, &given(now)), left);
    }
}

#[test]
fn an_outage_of_seconds_is_not_as_long_as_the_run_before_it() {
    let mut times = TimeLeft::default();
    (0..4000).for_each(|_| times.on_new(0, 0));
    for n in 1..=3600_u64 {
        times.on_result(0, false, false, n * 1000);
        draw(&mut times, n * 1000);
    }
    (0..400).for_each(|_| delay(&mut times, 0, Cause::Connection, [3_600_000, 3_605_000, 0]));
    (0..400).for_each(|_| times.on_again(0, 3_605_000));
    let left = stated(&mut times, &facts(3_606_000, 3_600_000));
    assert!(left < 600.0, "{left} s");
}

#[test]
fn the_largest_domain_lasts_longest() {
    let mut times = TimeLeft::default();
    for domain in 0..10 {
        (0..if domain == 0 { 1000 } else { 100 }).for_each(|_| times.on_new(domain, 0));
    }
    for n in 1..=95_u64 {
        (0..10).for_each(|domain| times.on_result(domain, false, false, n * 250));
        draw(&mut times, n * 250);
    }
    near(stated(&mut times, &facts(24_000, 24_000)), 905.0 / 4.0);
}

#[test]
fn a_rate_that_grows_is_seen() {
    let mut times = TimeLeft::default();
    for domain in 0..8 {
        (0..300).for_each(|_| times.on_new(domain, 0));
    }
    // In each of the first twenty seconds, each domain has one more answer than in the last.
    for tick in 0..24_u64 {
        let now = tick * 500;
        (0..8 * tick / 4).for_each(|n| times.on_result((n % 8) as u32, false, false, now));
        draw(&mut times, now);
    }
    let replied = times.replies as f64;
    // 2,400 rows at 8 * t a second until 20 s, and then at 160 a second.
    let truth = (2400.0 - replied - 8.0 * (400.0 - 144.0) / 2.0).max(0.0) / 160.0 + 8.0;
    let stated = stated(&mut times, &facts(12_000, 12_000));
    assert!((truth * 0.8..truth * 1.3).contains(&stated), "stated {stated} s, true {truth} s");
}

#[test]
fn a_known_delay_is_waited_for() {
    let mut times = TimeLeft::default();
    for (domain, cause) in [(0, Cause::Greylisting), (1, Cause::Budget)] {
        times.on_new(domain, 0);
        delay(&mut times, domain, cause, [2000, 302_000, 900_000]);
    }
    for now in [2000, 50_000, 300_000] {
        let left = stated(&mut times, &facts(now, 2000));
        assert!(left >= (302_000 - now) as f64 / 1000.0, "{left} at {now}");
        near(left, (304_000 - now) as f64 / 1000.0);
    }
    let (_, awaited) = times.estimate(&facts(300_000, 2000));
    let (later, budget) = (WaitCause::RetryLater.words(), WaitCause::RefusalBudget.words());
    assert_eq!(awaited, Awaited { named: vec![(Some(0), later), (Some(1), budget)], others: 0 });
    times.on_again(0, 302_000);
    times.on_result(0, false, false, 303_000);
    let (_, awaited) = times.estimate(&facts(303_000, 303_000));
    assert_eq!(awaited.named, [(Some(1), budget)]);
}

#[test]
fn a_list_that_needs_several_budgets_waits_for_all_of_them() {
    let mut times = TimeLeft::default();
    (0..100).for_each(|_| times.on_new(0, 0));
    // An hour's budget is 30 rows, which take a minute.
    for hour in 0..3_u64 {
        let begun = hour * 3_600_000;
        let waiting = 100 - hour * 30;
        if hour > 0 {
            (0..waiting).for_each(|_| times.on_again(0, begun));
        }
        for n in 1..=30 {
            times.on_result(0, false, false, begun + n * 2000);
            if hour > 0 && n % 10 == 0 {
                near(
                    stated(&mut times, &facts(begun + n * 2000, begun)),
                    (10_800_000 + 20_000 - begun) as f64 / 1000.0,
                );
            }
        }
        let (now, due) = (begun + 60_000, begun + 3_600_000);
        (30..waiting).for_each(|_| delay(&mut times, 0, Cause::Budget, [now, due, 36_000_000]));
        near(stated(&mut times, &facts(now + 10_000, now)), (10_800_000 + 20_000 - now) as f64 / 1000.0);
    }
    // The wait ends before there is a third budget.
    let mut times = TimeLeft::default();
    (0..100).for_each(|_| times.on_new(0, 0));
    (1..=30).for_each(|n| times.on_result(0, false, false, n * 2000));
    (30..100).for_each(|_| delay(&mut times, 0, Cause::Budget, [60_000, 3_600_000, 10_000_000]));
    near(stated(&mut times, &facts(70_000, 60_000)), 7190.0);
}

#[test]
fn the_largest_domains_are_named() {
    let of = |waits: &[(u32, u32)]| {
        let named = Awaited::of(waits.iter().map(|&(rows, domain)| (rows, Some(domain), "")).collect());
        (named.named.into_iter().filter_map(|(domain, _)| domain).collect::<Vec<_>>(), named.others)
    };
    assert_eq!(of(&[(5, 0), (9, 0), (7, 1), (8, 2)]), (vec![0, 2, 1], 0));
    assert_eq!(of(&[(5, 0), (9, 1), (7, 2), (9, 3)]), (vec![1, 3, 2], 1));
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let mut times = TimeLeft::default();
    times.on_new(0, 0);
    (0..100).for_each(|_| times.on_new(1, 0));
    (1..=100).for_each(|n| times.on_result(1, false, false, n * 100));
    // The first minute is that of connecting. Later the run waits for replies until it gives up.
    near(stated(&mut times, &facts(20_000, 10_000)), 40.0);
    near(stated(&mut times, &facts(61_000, 10_000)), 4.0);
    let patient = RunFacts { max_wait: 100_000, ..facts(61_000, 10_000) };
    near(stated(&mut times, &patient), 104.0);
    let (left, awaited) = times.estimate(&patient);
    let silent = Awaited { named: vec![(Some(0), WaitCause::NoAnswer.words())], others: 0 };
    assert_eq!((&awaited, left.map(|left| left.is_most)), (&silent, Some(true)));
    // It is one domain, even if some of its rows wait for another try.
    (0..2).for_each(|_| times.on_new(0, 61_000));
    delay(&mut times, 0, Cause::Greylisting, [61_000, 62_000, 62_000]);
    assert_eq!(times.estimate(&RunFacts { now: 90_000, ..patient }).1, silent);
}

#[test]
fn a_domain_that_never_replied_is_silent_soon_after_the_others_are_done() {
    let mut times = TimeLeft::default();
    (0..100).for_each(|_| times.on_new(0, 0));
    times.on_new(1, 0);
    (0..100).for_each(|_| times.on_result(0, false, false, 1000));
    for (now, left) in [(4_500, 55.5), (9_000, 51.0), (11_000, 49.0)] {
        near(stated(&mut times, &facts(now, 1000)), left);
    }
    // The time left does not jump if others make progress again.
    let mut times = TimeLeft::default();
    (0..3).for_each(|domain| times.on_new(domain, 0));
    times.on_result(0, false, false, 1000);
    let given = |now, progress| RunFacts { max_wait: 60_000, ..facts(now, progress) };
    let before = stated(&mut times, &given(5_000, 1000));
    times.on_result(1, false, false, 6_000);
    let after = stated(&mut times, &given(6_500, 6_000));
    assert!((before - after).abs() < 10.0 && before > 60.0, "{before} s, then {after} s");
}

#[test]
fn the_last_try_of_a_silent_domain_is_known_from_the_first_one() {
    // When other domains last make progress, `--max-wait`, when the last tries begin, and when the run ends; all in seconds.
    for [progress, max_wait, last_try, end] in [[20, 180, 200, 255], [118, 120, 182, 242]] {
        let mut times = TimeLeft::default();
        (0..40).for_each(|_| times.on_new(0, 0));
        for now in 12..end {
            let at = now * 1000;
            let mut put_off = |cause, due| delay(&mut times, 0, cause, [at, due * 1000, last_try * 1000]);
            match now {
                61 => (0..24).for_each(|_| put_off(Cause::NoAnswer, 121)),
                63 => (0..16).for_each(|_| put_off(Cause::Connection, 123)),
                121 => (0..24).for_each(|_| times.on_again(0, at)),
                123 => (0..16).for_each(|_| times.on_again(0, at)),
                _ if now == last_try => {
                    (0..40).for_each(|_| put_off(Cause::NoAnswer, now));
                    (0..40).for_each(|_| times.on_again(0, at));
                }
                _ if now == end - 6 => (0..8).for_each(|_| times.on_result(0, false, true, at)),
                _ => (),
            }
            let again = if now >= last_try { last_try * 1000 } else { 0 };
            let progress = progress.min(now);
            let known = RunFacts { max_wait: max_wait * 1000, again, ..facts(at, progress * 1000) };
            let wrong = stated(&mut times, &known) + now as f64 - end as f64;
            // While others make progress, the end of their time is not known.
            assert!(now <= progress.min(60) || wrong.abs() <= 6.0, "{wrong} s at {now} of {end}");
        }
    }
}
