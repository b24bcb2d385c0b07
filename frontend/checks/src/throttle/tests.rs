use super::*;
use counts::ENTRIES_MAX;
use std::net::Ipv6Addr;

const NOW: UnixMs = 1_800_000_000_000;

fn ip(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

fn v6(network: u64) -> IpAddr {
    Ipv6Addr::from_bits((0x2001_0db8 << 96) | (u128::from(network) << 64)).into()
}

/// A stranger who tries to sign in as this user.
fn stranger(user: u8, peer: IpAddr) -> Claimant {
    Claimant { user: [user; 32], peer, password: Some([user; 32]), is_known_browser: false }
}

/// Attempts with a wrong password, until one is refused.
fn wrong(throttle: &Throttle, claimant: &Claimant, now: UnixMs) -> u32 {
    (0..10_000).take_while(|_| throttle.sign_in(claimant, now).is_ok()).count() as u32
}

fn right(throttle: &Throttle, claimant: &Claimant, now: UnixMs) -> bool {
    throttle.sign_in(claimant, now).map(|attempt| throttle.signed_in(claimant, attempt, now)).is_ok()
}

#[test]
fn a_user_has_so_many_attempts_from_a_network_and_from_all() {
    let throttle = Throttle::new(true);
    let wait_s = PASSWORD.window_ms / 1000;
    assert_eq!(wrong(&throttle, &stranger(1, ip(0)), NOW), PASSWORD.attempts);
    let refused = |now| throttle.sign_in(&stranger(1, ip(0)), now).err();
    assert_eq!(refused(NOW), Some(TooOften { wait_s }));
    assert_eq!(refused(NOW + 1500), Some(TooOften { wait_s: wait_s - 1 }));
    assert_eq!(wrong(&throttle, &stranger(2, ip(0)), NOW), PASSWORD.attempts, "another user has attempts");
    let elsewhere: u32 = (1..50).map(|last| wrong(&throttle, &stranger(1, ip(last)), NOW)).sum();
    assert_eq!(elsewhere, USER.attempts - PASSWORD.attempts);
    assert_eq!(wrong(&throttle, &stranger(1, ip(0)), NOW + PASSWORD.window_ms), 0);
    assert_eq!(wrong(&throttle, &stranger(1, ip(0)), NOW + USER.window_ms), PASSWORD.attempts);
}

#[test]
fn a_stranger_guesses_as_often_in_a_day_as_documented() {
    let throttle = Throttle::new(true);
    let day = |peers: u8| -> u32 {
        let steps = (0..24 * 60).map(|minute| NOW + minute * 60 * 1000);
        steps
            .map(|now| (0..peers).map(|last| wrong(&throttle, &stranger(1, ip(last)), now)).sum::<u32>())
            .sum()
    };
    assert_eq!(day(20), 1440);
}

#[test]
fn strangers_do_not_lock_out_who_has_signed_in_before() {
    let throttle = Throttle::new(true);
    let owner = stranger(1, ip(100));
    assert!(right(&throttle, &owner, NOW));
    let guesses: u32 = (0..50).map(|last| wrong(&throttle, &stranger(1, ip(last)), NOW)).sum();
    assert_eq!(guesses, USER.attempts);
    assert!(throttle.sign_in(&stranger(1, ip(99)), NOW).is_err(), "as a stranger");
    assert!(right(&throttle, &owner, NOW), "from a known network");
    assert!(
        right(&throttle, &Claimant { is_known_browser: true, peer: ip(0), ..owner }, NOW),
        "in a known browser"
    );
    assert!(throttle.in_session([7; 32], NOW).is_ok(), "in a session");
    let after_a_new_password = Claimant { password: Some([9; 32]), ..owner };
    assert!(throttle.sign_in(&after_a_new_password, NOW).is_err(), "what is known ends with the password");
}

#[test]
fn guesses_from_what_is_known_are_bounded_too() {
    let throttle = Throttle::new(true);
    let owner = stranger(1, ip(100));
    assert!(right(&throttle, &owner, NOW));
    assert_eq!(wrong(&throttle, &owner, NOW), PASSWORD.attempts);
    // A browser has its own count, and that of its network and user besides.
    let browser = Claimant { is_known_browser: true, ..owner };
    assert_eq!(wrong(&throttle, &browser, NOW), PASSWORD.attempts);
    assert_eq!(wrong(&throttle, &Claimant { peer: ip(1), ..browser }, NOW), PASSWORD.attempts);
    let guesses = (0..99).filter(|_| throttle.in_session([7; 32], NOW).is_ok()).count();
    assert_eq!(guesses as u32, PASSWORD.attempts);
    assert!(throttle.in_session([8; 32], NOW).is_ok(), "another session");
}

#[test]
fn what_is_given_back_does_not_count() {
    for networks in [true, false] {
        let throttle = Throttle::new(networks);
        for claimant in [stranger(1, ip(1)), Claimant { is_known_browser: true, ..stranger(1, ip(1)) }] {
            for _ in 0..100 {
                throttle.give_back(throttle.sign_in(&claimant, NOW).unwrap());
                throttle.give_back(throttle.sign_up(ip(1), NOW).unwrap());
            }
        }
        let nothing_left = throttle.lock().counts.lens().iter().all(|len| *len == 0);
        assert!(nothing_left);
    }
}

#[test]
fn a_refused_attempt_counts_nowhere() {
    let throttle = Throttle::new(true);
    assert_eq!(wrong(&throttle, &stranger(1, ip(1)), NOW), PASSWORD.attempts);
    assert!((0..1000).all(|_| throttle.sign_in(&stranger(1, ip(1)), NOW).is_err()));
    assert!(throttle.sign_in(&stranger(2, ip(1)), NOW).is_ok(), "the network has attempts left");
}

#[test]
fn the_right_password_clears_the_user_and_not_the_network() {
    let throttle = Throttle::new(true);
    for n in 0..NETWORK.attempts {
        assert!(right(&throttle, &stranger((n / 5) as u8, ip(1)), NOW));
    }
    assert!(throttle.sign_in(&stranger(99, ip(1)), NOW).is_err());
    assert!(throttle.sign_in(&stranger(99, ip(2)), NOW).is_ok());
}

#[test]
fn behind_a_proxy_a_known_browser_is_not_locked_out() {
    let throttle = Throttle::new(false);
    for n in 0..200u8 {
        assert!(right(&throttle, &stranger(n, ip(1)), NOW));
        assert!(throttle.sign_up(ip(1), NOW).is_ok());
    }
    assert_eq!(wrong(&throttle, &stranger(1, ip(1)), NOW), USER.attempts);
    assert!(right(&throttle, &Claimant { is_known_browser: true, ..stranger(1, ip(1)) }, NOW));
    assert!(throttle.in_session([7; 32], NOW).is_ok());
}

#[test]
fn registrations_are_bounded_for_each_network_or_all_together() {
    let check = |networks: bool, allowance: Allowance, other_may: bool| {
        let throttle = Throttle::new(networks);
        for _ in 0..allowance.attempts {
            assert_eq!(throttle.registration(ip(1), NOW), Ok(()));
        }
        assert!(throttle.registration(ip(1), NOW).is_err());
        assert_eq!(throttle.registration(ip(2), NOW).is_ok(), other_may);
        assert_eq!(throttle.registration(ip(1), NOW + allowance.window_ms), Ok(()));
    };
    check(true, REGISTRATION, true);
    check(false, REGISTRATIONS, false);
}

#[test]
fn a_network_of_ipv6_is_one() {
    let throttle = Throttle::new(true);
    let of = |last: u16| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, last]);
    for n in 0..SIGN_UP.attempts as u16 {
        assert!(throttle.sign_up(of(n), NOW).is_ok());
    }
    assert!(throttle.sign_up(of(99), NOW).is_err());
}

#[test]
fn a_site_of_ipv6_with_many_networks_has_few_attempts() {
    let throttle = Throttle::new(true);
    let sign_ups = (0..60_000).filter(|network| throttle.sign_up(v6(*network), NOW).is_ok()).count();
    assert_eq!(sign_ups as u32, SIGN_UP_OF_SITE.attempts);
    let sign_ins =
        (0..60_000).filter(|network| throttle.sign_in(&stranger(*network as u8, v6(*network)), NOW).is_ok());
    assert_eq!(sign_ins.count() as u32, NETWORK_OF_SITE.attempts);
    let registrations =
        (0..60_000).filter(|network| throttle.registration(v6(*network), NOW).is_ok()).count();
    assert_eq!(registrations as u32, REGISTRATION_OF_SITE.attempts);
    assert!(throttle.sign_up(v6(1 << 16), NOW).is_ok(), "another site");
    assert!(throttle.lock().counts.lens().iter().all(|len| *len <= NETWORK_OF_SITE.attempts as usize));
}

#[test]
fn a_full_table_forgets_no_count_and_is_bounded() {
    let throttle = Throttle::new(true);
    let sign_ups = |peer, now| (0..99).take_while(|_| throttle.sign_up(peer, now).is_ok()).count() as u32;
    assert_eq!(sign_ups(ip(1), NOW), SIGN_UP.attempts);
    // Sites of IPv6 that one stranger has, all of one provider.
    for number in 0..3 * ENTRIES_MAX as u64 {
        let _ = throttle.sign_up(v6(number << 16), NOW + number / 100);
    }
    let later = NOW + 3 * ENTRIES_MAX as u64 / 100;
    assert!(throttle.lock().counts.lens().iter().all(|len| *len <= ENTRIES_MAX));
    assert_eq!(sign_ups(ip(1), later), 0, "the count of somebody else");
    // Somebody new is counted in the buckets, during a whole window at least.
    let fresh = IpAddr::from([198, 51, 100, 1]);
    assert!(sign_ups(fresh, later) < SIGN_UP.attempts, "others share its count");
    let window = SIGN_UP.window_ms;
    assert_eq!(sign_ups(fresh, later + window - 1), 0, "the table has room again, and the count stays");
    assert_eq!(sign_ups(fresh, later + 2 * window), SIGN_UP.attempts);
}

#[test]
fn attempts_in_shared_buckets_are_given_back() {
    let throttle = Throttle::new(true);
    (0..ENTRIES_MAX as u64).for_each(|number| drop(throttle.sign_up(v6(number << 16), NOW)));
    for now in [NOW, NOW + SIGN_UP.window_ms - 1] {
        for _ in 0..100 {
            throttle.give_back(throttle.sign_up(ip(1), now).unwrap());
        }
        // It was counted in the period before.
        let before = throttle.sign_up(ip(2), now).unwrap();
        drop(throttle.sign_up(ip(2), now + SIGN_UP.window_ms - 1));
        throttle.give_back(before);
    }
}
