//! How the pace of a site adapts.

use super::*;

fn tally(transactions: u32, asked: u32, errors: u32) -> Tally {
    Tally { transactions, asked, answers: asked, errors }
}

fn polite() -> (SitePace, Instant) {
    let now = Instant::now();
    (SitePace::new(Ceiling::of(Profile::Polite, "example.org"), now), now)
}

#[test]
fn providers_override_the_profile() {
    let rows = [("google", 5, 50), ("gmx", 4, 20), ("example.org", 10, 100)];
    for (site, sessions, recipients) in rows {
        let ceiling = Ceiling::of(Profile::Polite, site);
        assert_eq!((ceiling.sessions, ceiling.session_recipients), (sessions, recipients), "{site}");
        assert!(Ceiling::of(Profile::Fast, site).sessions > sessions);
        assert_eq!(Ceiling::of(Profile::Lab, site).sessions, u32::MAX);
    }
}

#[test]
fn every_provider_is_the_site_of_an_operator() {
    let operators = include_str!("../../data/operators.txt");
    let sites: Vec<&str> = operators
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(' ').nth(1))
        .collect();
    for site in ceiling::sites() {
        assert!(sites.contains(&site), "no host belongs to the site {site}");
    }
}

#[test]
fn sessions_are_bounded_at_once_and_a_minute() {
    let (mut pace, now) = polite();
    for open in 0..10 {
        assert_eq!(pace.may_start(now, open), Start::Now);
        pace.on_started();
    }
    assert_eq!(pace.may_start(now, 10), Start::WhenOneEnds);
    // The first ten starts are used up. From now on, 100 a minute are added.
    assert_eq!(pace.may_start(now, 0), Start::At(now + Duration::from_millis(600)));
    assert_eq!(pace.may_start(now + Duration::from_millis(601), 0), Start::Now);
    let mut started = 10;
    for tick in 0..6000 {
        if pace.may_start(now + Duration::from_millis(tick * 10), 0) == Start::Now {
            pace.on_started();
            started += 1;
        }
    }
    assert!((105..=110).contains(&started), "{started} in a minute");
}

#[test]
fn nodes_at_one_address_divide_the_ceiling() {
    for (site, nodes, sessions) in [
        ("example.org", 0, 10),
        ("example.org", 1, 10),
        ("example.org", 3, 3),
        ("orange", 3, 1),
        ("gmx", u32::MAX, 1),
    ] {
        let now = Instant::now();
        let mut pace = SitePace::new(Ceiling::of(Profile::Polite, site), now);
        pace.share_among(nodes, now);
        (0..1000).for_each(|_| pace.on_transaction(1));
        assert_eq!(pace.sessions(), sessions, "{site} among {nodes}");
        let before = Ceiling::of(Profile::Polite, site);
        let ceiling = pace.ceiling();
        let of_session = |it: &Ceiling| (it.session_recipients, it.session_refusals, it.refusals);
        assert_eq!(of_session(ceiling), of_session(&before), "a session stays as it is");
    }
    let (mut pace, now) = polite();
    (0..1000).for_each(|_| pace.on_transaction(1));
    pace.share_among(4, now);
    assert_eq!(pace.may_start(now, 2), Start::WhenOneEnds, "the window shrinks at once");
    for _ in 0..2 {
        assert_eq!(pace.may_start(now, 0), Start::Now);
        pace.on_started();
    }
    let later = now + Duration::from_millis(2400);
    assert_eq!(pace.may_start(now, 0), Start::At(later), "25 starts a minute");
    pace.share_among(1, now);
    assert_eq!(pace.may_start(now, 0), Start::At(now + Duration::from_millis(600)), "alone again");
    (0..1000).for_each(|_| pace.on_transaction(1));
    assert_eq!(pace.sessions(), 10, "it grows back");
    let mut lab = SitePace::new(Ceiling::of(Profile::Lab, "example.org"), now);
    lab.share_among(3, now);
    assert_eq!(lab.ceiling().sessions, u32::MAX, "lab has no ceiling to divide");
}

#[test]
fn a_push_halves_and_pauses_and_answers_let_it_grow() {
    let (mut pace, now) = polite();
    pace.on_pushed_back(now, 8, 512);
    let Start::At(until) = pace.may_start(now, 0) else { panic!("no pause") };
    assert_eq!(until - now, Duration::from_millis(500));
    pace.on_pushed_back(now, 8, 512);
    assert_eq!(pace.may_start(now, 0), Start::At(until), "one burst counts once");
    assert_eq!(pace.may_start(until, 4), Start::WhenOneEnds);
    assert_eq!(pace.may_start(until, 3), Start::Now);
    pace.on_pushed_back(until, 4, 512);
    let Start::At(second) = pace.may_start(until, 0) else { panic!("no pause") };
    assert_eq!(second - until, Duration::from_secs(1));
    for _ in 0..5 {
        pace.on_transaction(1);
    }
    assert_eq!(pace.may_start(second, 2), Start::Now);
    assert_eq!(pace.may_start(second, 3), Start::WhenOneEnds);
    for _ in 0..1000 {
        pace.on_transaction(1);
    }
    assert_eq!(pace.may_start(second, 10), Start::WhenOneEnds, "never over the ceiling");
    for n in 0..40 {
        pace.on_pushed_back(second + Duration::from_secs(n * 100), 1, 1023);
    }
    let last = second + Duration::from_secs(3900);
    let Start::At(until) = pace.may_start(last, 0) else { panic!("no pause") };
    assert!(until - last <= PACE_PAUSE_MAX.mul_f64(1.25));
    assert_eq!(pace.may_start(until, 0), Start::Now, "one session may always be tried");
}

#[test]
fn a_group_fits_the_error_budget() {
    let (mut pace, _) = polite();
    assert_eq!(pace.next_transaction(&tally(0, 0, 0)), 10);
    assert_eq!(pace.next_transaction(&tally(1, 7, 3)), 7);
    assert_eq!(pace.next_transaction(&tally(1, 10, 10)), 0);
    assert_eq!(pace.next_transaction(&tally(1, 95, 0)), 5);
    pace.on_spent(&tally(1, 10, 10));
    assert_eq!(pace.next_transaction(&tally(0, 0, 0)), 10, "polite never asks for more");
    pace.on_cut_off(&tally(1, 1, 1), End::Between, 1);
    assert_eq!(pace.next_transaction(&tally(0, 0, 0)), 1);
    assert_eq!(pace.next_transaction(&tally(1, 1, 1)), 0);
}

fn lab() -> (SitePace, Instant) {
    let now = Instant::now();
    (SitePace::new(Ceiling::of(Profile::Lab, "example.org"), now), now)
}

#[test]
fn in_the_lab_the_budget_grows_until_a_hang_up() {
    let (mut pace, _) = lab();
    assert_eq!(pace.next_transaction(&tally(0, 0, 0)), 20);
    pace.on_spent(&tally(1, 20, 20));
    pace.on_spent(&tally(1, 40, 40));
    assert_eq!(pace.next_transaction(&tally(0, 0, 0)), 80);
    pace.on_spent(&tally(9, 800, 79));
    assert_eq!(pace.next_transaction(&tally(0, 0, 0)), 80, "it was not used up");
    pace.on_cut_off(&tally(1, 20, 20), End::Recipient, 1);
    assert_eq!(pace.next_transaction(&tally(0, 0, 0)), 20);
    for _ in 0..PACE_TRY_AFTER {
        assert_eq!(pace.next_transaction(&tally(0, 0, 0)), 20);
        pace.on_spent(&tally(1, 20, 20));
    }
    assert_eq!(pace.next_transaction(&tally(0, 0, 0)), 40, "a limit is forgotten in steps");
}

#[test]
fn what_turns_out_to_hold_is_tried_less_often() {
    let (mut pace, _) = lab();
    let mut tries = Vec::new();
    for _ in 0..4 {
        pace.on_tarpitted(10);
        let mut kept = 0;
        while pace.next_transaction(&tally(0, 0, 0)) == 10 {
            pace.on_spent(&tally(1, 10, 10));
            kept += 1;
        }
        tries.push(kept);
    }
    assert_eq!(tries, [8, 16, 32, 64]);
}

#[test]
fn limits_without_errors_are_told_apart_by_where_the_session_ended() {
    let (mut pace, _) = lab();
    pace.on_cut_off(&tally(4, 12, 0), End::Between, 1);
    assert_eq!((pace.transactions_allowed(Room::default), pace.next_transaction(&tally(3, 9, 0))), (3, 20));
    let (mut pace, _) = lab();
    pace.on_cut_off(&tally(2, 12, 6), End::Mail, 1);
    assert!(
        pace.transactions_allowed(Room::default) == 1 && !pace.bounds_errors(),
        "it took RSET after six refusals"
    );
    (0..PACE_TRY_AFTER).for_each(|_| pace.on_spent(&tally(1, 6, 0)));
    (0..PACE_TRY_AFTER).for_each(|_| pace.on_spent(&tally(1, 6, 0)));
    assert_eq!(
        pace.transactions_allowed(Room::default),
        4,
        "a session keeps its last transaction for a proof"
    );
    let (mut pace, _) = lab();
    pace.on_cut_off(&Tally { transactions: 1, asked: 20, answers: 12, errors: 0 }, End::Recipient, 1);
    assert_eq!((pace.next_transaction(&tally(0, 0, 0)), pace.next_transaction(&tally(7, 12, 0))), (12, 0));
    let (mut pace, _) = lab();
    pace.on_transaction_full(3);
    assert_eq!(pace.next_transaction(&tally(0, 0, 0)), 3);
    (0..2 * PACE_TRY_AFTER).for_each(|_| pace.on_transaction(3));
    assert_eq!(pace.next_transaction(&tally(0, 0, 0)), 6);
    pace.on_transaction_full(0);
    assert_eq!(pace.next_transaction(&tally(0, 0, 0)), 1, "nobody is never asked");
}

#[test]
fn the_window_opens_fast_until_the_first_push_and_closes_under_stress() {
    let (mut pace, now) = lab();
    assert_eq!(pace.sessions(), PACE_SESSIONS_INITIAL);
    (0..90).for_each(|_| pace.on_transaction(1));
    assert_eq!(pace.sessions(), 100);
    pace.on_cut_off(&tally(1, 20, 20), End::Between, 100);
    assert_eq!(pace.sessions(), 100, "a limit that was to be expected");
    pace.on_cut_off(&tally(1, 1, 1), End::Between, 80);
    assert_eq!(pace.sessions(), 40);
    pace.on_cut_off(&tally(1, 1, 1), End::Between, 79);
    assert_eq!(pace.sessions(), 40, "the same again says nothing new");
    (0..45).for_each(|_| pace.on_transaction(1));
    assert_eq!(pace.sessions(), 41, "slowly from now on");
    assert_eq!(pace.pause(now), None);
}

#[test]
fn where_few_are_refused_a_transaction_takes_more_than_the_budget() {
    let (mut pace, _) = lab();
    let rows = [((1, 20, 0), 100), ((1, 20, 2), 60), ((1, 20, 10), 10), ((9, 200, 5), 100), ((1, 19, 0), 20)];
    for ((transactions, asked, errors), expected) in rows {
        assert_eq!(
            pace.next_transaction(&tally(transactions, asked, errors)),
            expected,
            "{asked} asked, {errors} refused"
        );
    }
    assert_eq!(pace.next_transaction(&tally(1, 20, 20)), 0, "what is spent is spent");
    pace.on_cut_off(&tally(2, 50, 25), End::Recipient, 1);
    assert_eq!(pace.next_transaction(&tally(1, 20, 0)), 25, "the site hung up at its limit");
    assert_eq!(pace.next_transaction(&tally(1, 30, 12)), 9);
    let (pace, _) = polite();
    assert_eq!(pace.next_transaction(&tally(1, 30, 1)), 9, "a ceiling holds whatever is likely");
}

#[test]
fn a_site_that_says_that_we_are_too_fast_gets_half_as_many_sessions_a_minute_and_no_burst() {
    let (mut pace, now) = polite();
    (0..5).for_each(|_| pace.on_started());
    pace.on_too_fast(now, 5, 0);
    assert_eq!(pace.may_start(now, 0), Start::At(now + PACE_PAUSE_TOO_FAST));
    let begun = |pace: &mut SitePace, from: Duration, span: Duration| {
        let step = Duration::from_millis(10);
        let mut count = 0;
        for n in 0..(span.as_millis() / step.as_millis()) as u32 {
            if pace.may_start(now + from + step * n, 0) == Start::Now {
                pace.on_started();
                count += 1;
            }
        }
        count
    };
    assert_eq!(begun(&mut pace, PACE_PAUSE_TOO_FAST, Duration::from_secs(60)), 50);
    let idle = PACE_PAUSE_TOO_FAST + Duration::from_secs(600);
    assert_eq!(begun(&mut pace, idle, Duration::from_millis(10)), 1);
    let later = begun(&mut pace, idle + Duration::from_millis(10), Duration::from_secs(60));
    assert!((53..=54).contains(&later), "four are left of half a burst, and {later} began");
    pace.on_too_fast(now + Duration::from_secs(900), 1, 0);
    let later = Duration::from_secs(900) + PACE_PAUSE_TOO_FAST;
    assert_eq!(begun(&mut pace, later, Duration::from_secs(60)), 25, "and half of that the next time");
}

#[test]
fn limits_of_another_host_of_the_site_leave_room_for_a_proof() {
    let (mut one, _) = polite();
    one.on_transaction_full(1);
    one.on_broke_between(&tally(2, 1, 0));
    let (mut full, _) = polite();
    full.on_session_full(1);
    let mut host = Room::default();
    for ((transactions, recipients), is_more, (of_one, of_full)) in [
        ((0, 0), false, (true, true)),
        ((1, 1), true, (true, true)),
        ((1, 2), true, (true, false)),
        ((2, 2), true, (false, false)),
        ((1, 1), false, (false, false)),
    ] {
        assert_eq!(host.on_answers(transactions, recipients), is_more, "{transactions} {recipients}");
        assert_eq!(one.has_no_room_for_proof(|| host), of_one, "{host:?}");
        assert_eq!(one.transactions_allowed(|| host), if of_one { 1 } else { 2 }, "{host:?}");
        assert_eq!(full.has_no_room_for_proof(|| host), of_full, "{host:?}");
    }
}
