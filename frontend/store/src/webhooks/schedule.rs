//! The times of attempts.

use crate::UnixMs;

const SECOND_MS: UnixMs = 1000;
const MINUTE_MS: UnixMs = 60 * SECOND_MS;
const HOUR_MS: UnixMs = 60 * MINUTE_MS;

/// The waits after failed attempts: docs/decisions/0019-webhooks.md. They are those of Standard Webhooks.
pub const WAITS_MS: [UnixMs; 9] = [
    5 * SECOND_MS,
    5 * MINUTE_MS,
    30 * MINUTE_MS,
    2 * HOUR_MS,
    5 * HOUR_MS,
    10 * HOUR_MS,
    14 * HOUR_MS,
    20 * HOUR_MS,
    24 * HOUR_MS,
];

/// The most attempts of a message.
pub const ATTEMPTS_MAX: u32 = WAITS_MS.len() as u32 + 1;

/// The largest part of a wait that is added to it, in percent. It spreads the attempts of messages that failed together.
const JITTER_PERCENT: UnixMs = 10;

/// After this time of failures without a success, an endpoint is disabled, in milliseconds.
pub const FAILING_MS_MAX: UnixMs = 72 * HOUR_MS;

/// The longest time from the first attempt of a message to its last one.
pub const TOTAL_MS_MAX: UnixMs = {
    let (mut total, mut at) = (0, 0);
    while at < WAITS_MS.len() {
        total += WAITS_MS[at] + WAITS_MS[at] * JITTER_PERCENT / 100;
        at += 1;
    }
    total
};

// The last attempt of a message is later than `FAILING_MS_MAX`. So the endpoint is disabled before its message is given up, or
// with it.
const _: () = assert!(TOTAL_MS_MAX > FAILING_MS_MAX);

/// The time of the next attempt after `failed` failed ones, the last at `now`. `jitter` is a random number. `None` if the
/// message is given up.
pub fn next_attempt(failed: u32, now: UnixMs, jitter: u16) -> Option<UnixMs> {
    let wait = *WAITS_MS.get(usize::try_from(failed.checked_sub(1)?).ok()?)?;
    let more = wait * JITTER_PERCENT / 100 * UnixMs::from(jitter) / UnixMs::from(u16::MAX);
    Some(now.saturating_add(wait).saturating_add(more))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_those_of_the_decision() {
        let waits = ["5 s", "5 min", "30 min", "2 h", "5 h", "10 h", "14 h", "20 h", "24 h"];
        for (failed, text) in (1..).zip(waits) {
            let (number, unit) = text.split_once(' ').unwrap();
            let unit = match unit {
                "s" => SECOND_MS,
                "min" => MINUTE_MS,
                _ => HOUR_MS,
            };
            let wait = number.parse::<UnixMs>().unwrap() * unit;
            assert_eq!(next_attempt(failed, 1_000, 0), Some(1_000 + wait), "{text}");
            assert_eq!(next_attempt(failed, 0, u16::MAX), Some(wait + wait / 10), "{text}");
            let middle = next_attempt(failed, 0, u16::MAX / 2).unwrap();
            assert!((wait..=wait + wait / 10).contains(&middle), "{text}");
        }
        assert_eq!(next_attempt(0, 0, 0), None);
        assert_eq!(next_attempt(ATTEMPTS_MAX, 0, 0), None);
        assert_eq!(next_attempt(u32::MAX, 0, 0), None);
        assert_eq!(next_attempt(1, UnixMs::MAX, u16::MAX), Some(UnixMs::MAX));
    }

    #[test]
    fn the_last_attempt_is_after_three_days() {
        let mut at = 0;
        for failed in 1..ATTEMPTS_MAX {
            at = next_attempt(failed, at, 0).unwrap();
        }
        assert_eq!(at, WAITS_MS.iter().sum::<UnixMs>());
        assert!((FAILING_MS_MAX..80 * HOUR_MS).contains(&at), "{at}");
    }
}
