//! Numbers and times for people.

use std::time::Duration;
pub use usage::values::grouped;

/// A number with its noun: `1 credit`, `1,200 credits`.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

/// A number, such as a rate, without its fraction.
pub fn rounded(number: f64) -> String {
    grouped(number.round() as u64)
}

/// A rate per second in words, per minute if it is below one per second: `310/s`, `18/min`.
pub fn rate_text(per_second: f64) -> String {
    match per_second > 0.0 && per_second < 1.0 {
        true => rounded(per_second * 60.0) + "/min",
        false => rounded(per_second) + "/s",
    }
}

/// A span of time in words: `20 minutes`, or `90 seconds` if it has no whole minutes.
pub fn duration_text(span: Duration) -> String {
    let (number, unit) = match span.as_secs() {
        seconds if seconds > 0 && seconds.is_multiple_of(60) => (seconds / 60, "minute"),
        seconds => (seconds, "second"),
    };
    format!("{number} {unit}{}", if number == 1 { "" } else { "s" })
}

/// A duration in its two largest units. Seconds are rounded up, so that the text is never below the duration.
pub fn time_text(duration: Duration) -> String {
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    match (seconds / 86_400, seconds / 3600, seconds / 60) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min {} s", seconds % 60),
        (0, hours, minutes) => format!("{hours} h {} min", minutes % 60),
        (days, hours, _) => format!("{days} d {} h", hours % 24),
    }
}

/// A share of a whole, with one decimal.
pub fn percent(part: u64, whole: u64) -> String {
    format!("{:.1} %", 100.0 * part as f64 / whole.max(1) as f64)
}

/// A share of a whole in percent, rounded down: 100 % is the whole. The sum makes up for the error of a quotient that is a whole number.
pub fn whole_percent(part: f64, whole: u64) -> u64 {
    (part * 100.0 / whole.max(1) as f64 + 1e-6) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_rate_is_not_nothing() {
        let texts = [0.0, 0.3, 0.999, 1.0, 1234.5].map(rate_text);
        assert_eq!(texts, ["0/s", "18/min", "60/min", "1/s", "1,235/s"]);
    }

    #[test]
    fn a_whole_share_is_not_one_too_low() {
        for whole in [1501_u64, 38_003, 1_000_000_007] {
            for (done, rows, share) in
                [(15, 1500, 1), (1380, 1500, 92), (288, 300, 96), (64, 1500, 4), (299, 300, 99)]
            {
                let part = f64::from(done) / f64::from(rows) * whole as f64;
                assert_eq!(whole_percent(part, whole), share, "{done} of {rows}");
            }
        }
    }

    #[test]
    fn a_span_is_in_minutes_if_it_has_whole_ones() {
        for (seconds, text) in
            [(1200, "20 minutes"), (60, "1 minute"), (90, "90 seconds"), (1, "1 second"), (0, "0 seconds")]
        {
            assert_eq!(duration_text(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn durations_have_units_and_are_never_too_short() {
        for (millis, text) in [
            (0, "0 s"),
            (59_001, "1 min 0 s"),
            (61_000, "1 min 1 s"),
            (3_600_000, "1 h 0 min"),
            (90_000_000, "1 d 1 h"),
        ] {
            assert_eq!(time_text(Duration::from_millis(millis)), text);
        }
    }
}
