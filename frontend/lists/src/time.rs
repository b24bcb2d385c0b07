//! Times of checks: RFC 3339 in UTC, as seconds since 1970-01-01.

/// The time as text, for example `2026-11-25T15:10:59Z`. Lists have it in each row, so it is written without `format!`.
pub fn utc_text(seconds: u64) -> String {
    let (day, second) = ((seconds / 86_400) as i64, seconds % 86_400);
    let (year, month, day) = civil(day);
    let mut text = String::with_capacity(20);
    push_digits(&mut text, year as u64, 4);
    for (mark, number) in [
        ('-', month as u64),
        ('-', day as u64),
        ('T', second / 3600),
        (':', second / 60 % 60),
        (':', second % 60),
    ] {
        text.push(mark);
        push_digits(&mut text, number, 2);
    }
    text.push('Z');
    text
}

/// Appends the last digits of a number.
fn push_digits(text: &mut String, number: u64, count: u32) {
    for place in (0..count).rev() {
        text.push(char::from(b'0' + (number / 10_u64.pow(place) % 10) as u8));
    }
}

/// Reads such a text. Programs may have replaced the `T` by a space, and removed the `Z` and the seconds.
pub fn utc_seconds(text: &str) -> Option<u64> {
    let text = text.trim().trim_end_matches('Z');
    let (date, time) = text.split_once(['T', ' '])?;
    let [year, month, day] = numbers(date, '-')?[..] else { return None };
    let [hour, minute, second] = match numbers(time, ':')?[..] {
        [hour, minute] => [hour, minute, 0],
        [hour, minute, second] => [hour, minute, second],
        _ => return None,
    };
    let is_time = hour < 24 && minute < 60 && second <= 60;
    let is_date = (1970..10_000).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    (is_date && is_time)
        .then(|| u64::try_from(unix_day(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second).ok())
        .flatten()
}

fn numbers(text: &str, separator: char) -> Option<Vec<i64>> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.split(separator).map(|text| is_number(text).then(|| text.parse().ok()).flatten()).collect()
}

/// Year, month and day of a day since 1970-01-01 (H. Hinnant, chrono-Compatible Low-Level Date Algorithms, `civil_from_days`).
pub(crate) fn civil(unix_day: i64) -> (i64, i64, i64) {
    let shifted = unix_day + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The day since 1970-01-01 (the same source, `days_from_civil`).
fn unix_day(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let shifted_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_and_read() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_795_619_459, "2026-11-25T15:10:59Z"),
            (4_102_444_800, "2100-01-01T00:00:00Z"),
        ] {
            assert_eq!((utc_text(seconds).as_str(), utc_seconds(text)), (text, Some(seconds)));
        }
        assert_eq!(utc_seconds("2026-11-25 15:10"), Some(1_795_619_400));
        for text in ["", "2026-11-25", "x", "2026-13-01T00:00:00Z", "2026-01-01T24:00:00Z", "1-1-1T1:1:-1"] {
            assert_eq!(utc_seconds(text), None, "{text}");
        }
    }
}
