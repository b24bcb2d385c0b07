//! Tests of the schedules, and of the advice whether to check again later.

use super::*;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn delays_follow_the_schedule() {
    // Retries so far; then, in seconds: last delay, wanted delay, time left of the wait, expected delay.
    for (schedule, retries, last_delay, wanted, left, expected) in [
        (BATCH_LATER, 0, 0, 0, 1200, Some(1)),
        (BATCH_LATER, 0, 0, 60, 1200, Some(60)),
        (BATCH_LATER, 0, 60, 60, 1140, Some(120)),
        (BATCH_LATER, 0, 60, 300, 1140, Some(300)),
        (BATCH_LATER, 200, 600, 60, 700, Some(700)),
        (BATCH_LATER, 0, 0, 60, 60, Some(60)),
        (BATCH_LATER, 0, 0, 61, 60, None),
        (BATCH_LATER, 0, 0, 0, 0, None),
        (CLEAN_LATER, 0, 0, 60, 1200, Some(60)),
        (CLEAN_LATER, 1, 60, 60, 1200, Some(60)),
        (CLEAN_LATER, 0, 0, 3600, 1200, Some(900)),
        (CLEAN_LATER, 0, 0, 3600, 5, Some(5)),
        (CLEAN_LATER, 7, 0, 60, 1200, Some(60)),
        (CLEAN_LATER, 8, 0, 60, 1200, None),
        (CLEAN_LATER, 0, 0, 60, 0, None),
        (BATCH_OUTAGE, 0, 0, 0, 3600, Some(1)),
        (BATCH_OUTAGE, 0, 1, 0, 3600, Some(2)),
        (BATCH_OUTAGE, 0, 32, 0, 3600, Some(60)),
        (BATCH_OUTAGE, 0, 60, 0, 10, Some(10)),
        (BATCH_OUTAGE, 0, 60, 0, 0, None),
        (BATCH_BUDGET, 0, 0, 3000, 3600, Some(300)),
        (BATCH_BUDGET, 0, 300, 10, 3600, Some(10)),
        (BATCH_BUDGET, 0, 0, 3000, 200, Some(200)),
        (CLEAN_BUDGET, 0, 0, 0, 3600, Some(1)),
        (CLEAN_BUDGET, 0, 0, 3000, 3600, Some(3000)),
        (CLEAN_BUDGET, 0, 0, 3000, 2999, None),
    ] {
        let tries = Tries { retries, last_delay: seconds(last_delay) };
        assert_eq!(
            schedule.delay(tries, seconds(wanted), seconds(left)),
            expected.map(seconds),
            "{schedule:?} {tries:?} {wanted} {left}"
        );
    }
}

#[test]
fn a_delay_is_never_longer_than_the_wait_and_never_zero() {
    for schedule in [BATCH_LATER, CLEAN_LATER, BATCH_OUTAGE, BATCH_BUDGET, CLEAN_BUDGET] {
        for left in [0, 1, 999, 1000, 60_000].map(Duration::from_millis) {
            for wanted in [Duration::ZERO, Duration::from_micros(5), seconds(1), seconds(3600), Duration::MAX]
            {
                let tries = Tries { retries: 0, last_delay: Duration::MAX };
                if let Some(delay) = schedule.delay(tries, wanted, left) {
                    assert!(!delay.is_zero() && delay <= left, "{schedule:?} {wanted:?} {left:?}");
                }
            }
        }
    }
}

#[test]
fn the_rest_of_a_wait_counts_from_its_beginning() {
    for (wait, since, now, expected) in
        [(0, 0, 0, 0), (900, 0, 0, 900), (900, 5, 65, 840), (900, 0, 1000, 0), (900, 70, 60, 900)]
    {
        assert_eq!(left(seconds(wait), since * 1000, now * 1000), seconds(expected));
    }
}

#[test]
fn answers_about_the_recipient_are_about_the_address() {
    let minute = Some(seconds(60));
    for (rule, retry_after, expected) in [
        ("greylisted", minute, true),
        ("blocklist", None, true),
        ("session-closing", minute, false),
        ("for-now", minute, false),
        ("hung_up", minute, false),
        ("no_connection", minute, false),
        ("", minute, false),
    ] {
        assert_eq!(is_about_address(rule, retry_after), expected, "{rule}");
    }
}

/// If the documentation advises to check again after a rule, [`may_tell_more`] has to be true for this rule, and only then.
#[test]
fn a_later_check_tells_more_where_the_documentation_says_so() {
    let docs = include_str!("../../../../docs/verdicts.md");
    let table = docs.split("## Acting on `unverifiable`").nth(1).expect("the section is missing");
    let table = table.split("\n## ").next().unwrap_or_default();
    let mut seen = 0;
    for line in table.lines().filter(|line| line.starts_with("| `")) {
        let (rules, advice) = line.trim_matches('|').split_once('|').expect("two cells");
        let helps =
            advice.to_ascii_lowercase().contains("check again") && !advice.contains("the same answer");
        // One row names `uncertain` as an exception. That rule has a row of its own.
        let rules = rules.split(", except").next().unwrap_or_default();
        for rule in rules.split('`').skip(1).step_by(2).filter(|rule| !matches!(*rule, "us" | "sender")) {
            assert_eq!(may_tell_more(rule), helps, "{rule}: {advice}");
            seen += 1;
        }
    }
    assert!(seen > 40, "{seen} rules");
    assert!(may_tell_more(""), "nothing is known, as after a fast check without DNS");
}

#[test]
fn the_documentation_has_the_delay_after_greylisting() {
    let docs = include_str!("../../../../docs/verdicts.md");
    let row = docs.lines().find(|line| line.starts_with("| GREY at RCPT |")).expect("the row is missing");
    assert!(row.contains(&format!("| {} s,", GREYLISTING_WAIT.as_secs())), "{row}");
}
