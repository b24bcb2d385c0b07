use super::*;

const V4: Families = Families { ipv4: true, ipv6: false };
const V6: Families = Families { ipv4: false, ipv6: true };

/// The source that is chosen from these addresses.
fn choose_of(sources: &[&'static str], site: &str, hosts: Families) -> Option<&'static str> {
    let pool = sources.iter().map(|name| (*name, Families::of(name.parse().unwrap())));
    choose(pool, site, hosts).map(|index| sources[index])
}

fn sites() -> Vec<String> {
    (0..10_000).map(|n| format!("site-{n}.example")).collect()
}

#[test]
fn the_choice_never_changes() {
    let sources = ["192.0.2.1", "192.0.2.2", "192.0.2.3"];
    // Computed with another implementation of the hash. If the choice changes, greylisting hosts do not know the new source.
    for (site, expected) in [
        ("google", "192.0.2.1"),
        ("microsoft", "192.0.2.1"),
        ("example.org", "192.0.2.3"),
        ("a.example", "192.0.2.2"),
        ("b.example", "192.0.2.1"),
        ("", "192.0.2.1"),
    ] {
        assert_eq!(choose_of(&sources, site, V4), Some(expected), "{site}");
    }
}

#[test]
fn neighbouring_addresses_share_the_sites_evenly() {
    let sources = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"];
    let chosen: Vec<_> = sites().iter().map(|site| choose_of(&sources, site, V4).unwrap()).collect();
    for source in sources {
        let share = chosen.iter().filter(|chosen| **chosen == source).count();
        assert!((2300..2700).contains(&share), "{source}: {share}");
    }
}

#[test]
fn a_source_that_comes_takes_its_share_and_moves_nobody_else() {
    let before = ["192.0.2.1", "192.0.2.2", "192.0.2.3"];
    let after = ["192.0.2.9", "192.0.2.3", "192.0.2.2", "192.0.2.1"];
    let mut moved = 0;
    for site in sites() {
        let (old, new) = (choose_of(&before, &site, V4), choose_of(&after, &site, V4));
        moved += usize::from(old != new);
        assert!(old == new || new == Some("192.0.2.9"), "{site}: {old:?} -> {new:?}");
    }
    assert!((2300..2700).contains(&moved), "{moved}");
}

#[test]
fn only_a_source_that_reaches_a_host_is_chosen() {
    let mixed = ["192.0.2.1", "192.0.2.2", "2001:db8::1"];
    for site in sites().iter().take(200) {
        assert!(choose_of(&mixed, site, V4).is_some_and(|source| source != "2001:db8::1"));
        assert_eq!(choose_of(&mixed, site, V6), Some("2001:db8::1"));
        assert!(choose_of(&mixed, site, Families::ALL).is_some());
        assert_eq!(choose_of(&mixed, site, Families::default()), None, "no address at all");
    }
    assert_eq!(choose_of(&["192.0.2.1"], "a.example", V6), None);
    assert_eq!(choose_of(&[], "a.example", V4), None);
}

/// Checks steps of a minute, an event and its expected number. `b`: the site blocks; the minutes of the new rest, 0 if none begins.
/// `?`: the minutes that are left. `a`: the site answers; 1 if an earlier rest is over. `e`: the number of rests that have ended.
fn check(name: &str, steps: &[(u64, char, u64)]) {
    let start = Instant::now();
    let minutes = |time: Option<Duration>| time.map_or(0, |time| time.as_secs() / 60);
    let mut rests = Rests::default();
    for (at, (minute, step, expected)) in steps.iter().enumerate() {
        let now = start + Duration::from_secs(minute * 60);
        let got = match step {
            'b' => minutes(rests.on_blocked(1, "a.example", now)),
            '?' => minutes(rests.left(1, "a.example", now)),
            'a' => u64::from(rests.on_answer(1, "a.example", now)),
            _ => rests.take_ended(now).len() as u64,
        };
        assert_eq!(got, *expected, "{name}, step {at}");
    }
    assert_eq!(rests.left(0, "a.example", start), None, "another source");
    assert_eq!(rests.left(1, "b.example", start), None, "another site");
}

#[test]
fn rests_double_up_to_six_hours_and_begin_anew_behind_an_answer() {
    check(
        "one",
        &[
            (0, '?', 0),
            (0, 'b', 5),
            (0, 'b', 0),
            (2, '?', 3),
            (4, 'b', 0),
            (5, '?', 0),
            (5, 'e', 1),
            (6, 'e', 0),
        ],
    );
    check(
        "doubled",
        &[(0, 'b', 5), (5, 'b', 10), (15, 'b', 20), (35, 'b', 40), (75, 'b', 80), (155, 'b', 160)],
    );
    check(
        "most",
        &[
            (0, 'b', 5),
            (5, 'b', 10),
            (15, 'b', 20),
            (35, 'b', 40),
            (75, 'b', 80),
            (155, 'b', 160),
            (315, 'b', 320),
            (635, 'b', 360),
            (995, 'b', 360),
        ],
    );
    check("told as ended between", &[(0, 'b', 5), (5, 'e', 1), (6, 'b', 10), (16, 'e', 1)]);
    check("answered", &[(0, 'b', 5), (3, 'a', 0), (6, 'a', 1), (7, 'b', 5), (8, '?', 4)]);
    check(
        "answered and told",
        &[(0, 'b', 5), (6, 'e', 1), (6, 'a', 1), (6, 'e', 0), (6, 'a', 0), (7, 'b', 5)],
    );
    check(
        "forgotten",
        &[
            (0, 'b', 5),
            (5, 'e', 1),
            (364, 'e', 0),
            (364, 'b', 10),
            (374, 'e', 1),
            (735, 'e', 0),
            (735, 'b', 5),
        ],
    );
}

#[test]
fn the_table_has_an_end() {
    let now = Instant::now();
    let mut rests = Rests::default();
    for n in 0..SOURCE_RESTS_MAX {
        assert!(rests.on_blocked(0, &n.to_string(), now).is_some());
    }
    assert_eq!(rests.on_blocked(0, "one more", now), None);
    assert_eq!(rests.take_ended(now + SOURCE_REST_MIN).len(), SOURCE_RESTS_MAX);
    assert_eq!(rests.take_ended(now + SOURCE_REST_MIN + SOURCE_REST_MAX).len(), 0);
    assert!(rests.on_blocked(0, "one more", now).is_some());
}
