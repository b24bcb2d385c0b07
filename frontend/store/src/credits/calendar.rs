//! The calendar of periods: UTC, proleptic Gregorian, with months counted from an account's start.
//!
//! A period begins on the start's day of the month at the start's time of day, or on the last day of a month that lacks
//! this day. The day is always computed from the start, not from the last period: Jan 31, Feb 28, Mar 31.
//!
//! The store has the numbers of periods, so this arithmetic is part of the data format and must not change with the
//! version of a library. A calendar library would only replace the conversion of days to dates, about thirty lines.

use crate::UnixMs;
use std::fmt;

/// A day in milliseconds.
pub const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Later times (after the year 9999) count as this one: they come from a broken clock.
const LATEST_MS: UnixMs = 253_402_300_799_999;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Date {
    year: u32,
    /// 1 to 12.
    month: u32,
    /// 1 to 31.
    day: u32,
}

/// The number of the period with the time `now`. Period 0 begins at `start`; earlier times belong to it.
pub fn period_at(start: UnixMs, now: UnixMs) -> u32 {
    let (from, to) = (date(start), date(now));
    let months = (to.year * 12 + to.month).saturating_sub(from.year * 12 + from.month);
    // The next period may begin later in the calendar month.
    if period_start(start, months) > now.min(LATEST_MS) { months.saturating_sub(1) } else { months }
}

/// The first millisecond of period `number`.
pub fn period_start(start: UnixMs, number: u32) -> UnixMs {
    let start = start.min(LATEST_MS);
    let from = date(start);
    let months = u64::from(from.year) * 12 + u64::from(from.month - 1) + u64::from(number);
    let (year, month) = ((months / 12).min(10_000) as u32, (months % 12) as u32 + 1);
    let day = from.day.min(days_in(year, month));
    days_since_epoch(Date { year, month, day }) * DAY_MS + start % DAY_MS
}

/// A start, not before 1970, such that period `number` begins at `at`, or as close to it as months allow.
pub fn start_of(number: u32, at: UnixMs) -> UnixMs {
    let at = at.min(LATEST_MS);
    let from = date(at);
    let months = u64::from(from.year) * 12 + u64::from(from.month - 1);
    let months = months.saturating_sub(u64::from(number)).max(1970 * 12);
    let (year, month) = ((months / 12) as u32, (months % 12) as u32 + 1);
    let day = from.day.min(days_in(year, month));
    days_since_epoch(Date { year, month, day }) * DAY_MS + at % DAY_MS
}

/// The date of a day since 1970-01-01, as in `2026-11-21`.
pub fn day_text(day: u32) -> String {
    let Date { year, month, day } = date(UnixMs::from(day) * DAY_MS);
    format!("{year:04}-{month:02}-{day:02}")
}

/// A time in the format of ISO 8601 in UTC, to the second: `2026-03-31T09:30:00+00:00`.
pub struct Iso8601(pub UnixMs);

impl fmt::Display for Iso8601 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Date { year, month, day } = date(self.0);
        let second = self.0.min(LATEST_MS) % DAY_MS / 1000;
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}+00:00")
    }
}

/// The first millisecond of a day in UTC, such as `2026-03-31`; `None` for another form, and for a day that does not exist.
pub fn day_start(text: &str) -> Option<UnixMs> {
    let digits_only = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let mut parts = text.split('-');
    let [year, month, day] = [4, 2, 2].map(|len| {
        let part = parts.next().filter(|part| part.len() == len && digits_only(part));
        part.and_then(|part| part.parse::<u32>().ok())
    });
    let date = Date { year: year?, month: month?, day: day? };
    let exists = date.year >= 1970
        && (1..=12).contains(&date.month)
        && (1..=days_in(date.year, date.month)).contains(&date.day);
    (exists && parts.next().is_none()).then(|| days_since_epoch(date) * DAY_MS)
}

fn is_leap(year: u32) -> bool {
    year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400)
}

fn days_in(year: u32, month: u32) -> u32 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The number of leap days in the years 1 to `year`.
fn leap_days(year: u64) -> u64 {
    year / 4 - year / 100 + year / 400
}

/// The days from 1970-01-01 to the first of January of `year`, which is at least 1970.
fn days_to_year(year: u32) -> u64 {
    let year = u64::from(year);
    (year - 1970) * 365 + leap_days(year - 1) - leap_days(1969)
}

fn days_since_epoch(date: Date) -> u64 {
    let months: u32 = (1..date.month).map(|month| days_in(date.year, month)).sum();
    days_to_year(date.year) + u64::from(months) + u64::from(date.day) - 1
}

fn date(at: UnixMs) -> Date {
    let days = at.min(LATEST_MS) / DAY_MS;
    // Years of 365 days give a year that is slightly too late, by at most six in 9999.
    let mut year = 1970 + (days / 365) as u32;
    while days_to_year(year) > days {
        year -= 1;
    }
    let mut rest = (days - days_to_year(year)) as u32;
    let mut month = 1;
    while rest >= days_in(year, month) {
        rest -= days_in(year, month);
        month += 1;
    }
    Date { year, month, day: rest + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(year: u32, month: u32, day: u32) -> UnixMs {
        days_since_epoch(Date { year, month, day }) * DAY_MS
    }

    #[test]
    fn known_days() {
        // From `date -u -d DATE +%s`.
        for (date, seconds) in [
            ((1970, 1, 1), 0),
            ((1999, 12, 31), 946_598_400),
            ((2000, 2, 29), 951_782_400),
            ((2024, 2, 29), 1_709_164_800),
            ((2026, 11, 20), 1_795_132_800),
            ((2100, 3, 1), 4_107_542_400),
            ((9999, 12, 31), 253_402_214_400),
        ] {
            assert_eq!(at(date.0, date.1, date.2), seconds * 1000, "{date:?}");
        }
    }

    proptest! {
        #[test]
        fn a_period_can_begin_at_any_time(number in 0..2_000u32, now in 0..LATEST_MS) {
            let start = start_of(number, now);
            prop_assert!(start <= now);
            let current = period_at(start, now);
            prop_assert!(period_start(start, current) <= now && now < period_start(start, current + 1));
            // The start is not before 1970, and never far from the requested one.
            prop_assert!(current == number || start < 32 * DAY_MS, "{current}");
        }
    }

    #[test]
    fn every_day_to_9999_comes_back() {
        let mut expected = Date { year: 1970, month: 1, day: 1 };
        for day in 0..=LATEST_MS / DAY_MS {
            assert_eq!(date(day * DAY_MS), expected);
            assert_eq!(days_since_epoch(expected), day);
            expected.day += 1;
            if expected.day > days_in(expected.year, expected.month) {
                expected = Date { day: 1, month: expected.month + 1, ..expected };
            }
            if expected.month > 12 {
                expected = Date { year: expected.year + 1, month: 1, day: 1 };
            }
        }
    }

    #[test]
    fn periods_clamp_from_the_start() {
        let start = at(2027, 1, 31) + 9 * 3_600_000;
        let days = [(2027, 1, 31), (2027, 2, 28), (2027, 3, 31), (2027, 4, 30), (2027, 5, 31)];
        for (number, (year, month, day)) in days.into_iter().enumerate() {
            let begin = at(year, month, day) + 9 * 3_600_000;
            assert_eq!(period_start(start, number as u32), begin);
            assert_eq!(period_at(start, begin), number as u32);
            assert_eq!(period_at(start, begin - 1), number.saturating_sub(1) as u32);
        }
        assert_eq!(period_start(at(2023, 12, 30), 2), at(2024, 2, 29));
        assert_eq!(period_start(at(2024, 2, 29), 12), at(2025, 2, 28));
        assert_eq!(period_start(at(2024, 2, 29), 48), at(2028, 2, 29));
    }

    #[test]
    fn times_are_shown_as_iso_8601() {
        assert_eq!(Iso8601(0).to_string(), "1970-01-01T00:00:00+00:00");
        assert_eq!(Iso8601(at(2028, 2, 29) + 86_399_999).to_string(), "2028-02-29T23:59:59+00:00");
        assert_eq!(Iso8601(u64::MAX).to_string(), "9999-12-31T23:59:59+00:00");
    }

    #[test]
    fn days_are_read_from_text() {
        for day in ["1970-01-01", "2026-11-20", "2028-02-29", "9999-12-31"] {
            let start = day_start(day).unwrap();
            assert_eq!(Iso8601(start).to_string(), format!("{day}T00:00:00+00:00"));
        }
        let wrong = [
            "",
            "2026",
            "2026-11",
            "26-11-20",
            "2026-11-2",
            "2026-13-01",
            "2026-00-10",
            "2026-04-31",
            "2027-02-29",
            "2026-11-20-",
            "2026-11-20 ",
            "+026-11-20",
            "1969-12-31",
            "2026-11-00",
            "٢٠٢٦-11-20",
            "2026/11/20",
        ];
        for text in wrong {
            assert_eq!(day_start(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_time_lies_in_its_period(start in 0..LATEST_MS / 2, later in 0..LATEST_MS / 2) {
            let now = start + later;
            let number = period_at(start, now);
            prop_assert!(period_start(start, number) <= now);
            prop_assert!(period_start(start, number + 1) > now);
        }

        #[test]
        fn no_time_panics(start: u64, now: u64, number: u32) {
            period_at(start, now);
            period_start(start, number);
        }
    }
}
