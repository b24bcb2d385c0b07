//! Numbers and times for people.

use std::time::Duration;
pub use usage::values::grouped;

/// A number with its noun: `1 credit`, `1,200 credits`.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

/// A span of time in words: `20 minutes`, or `90 seconds` if it has no whole minutes.
pub fn duration_text(span: Duration) -> String {
    let (number, unit) = match span.as_secs() {
        seconds if seconds > 0 && seconds.is_multiple_of(60) => (seconds / 60, "minute"),
        seconds => (seconds, "second"),
    };
    format!("{number} {unit}{}", if number == 1 { "" } else { "s" })
}

/// A share of a whole, with one decimal.
pub fn percent(part: u64, whole: u64) -> String {
    format!("{:.1} %", 100.0 * part as f64 / whole.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_in_minutes_if_it_has_whole_ones() {
        for (seconds, text) in
            [(1200, "20 minutes"), (60, "1 minute"), (90, "90 seconds"), (1, "1 second"), (0, "0 seconds")]
        {
            assert_eq!(duration_text(Duration::from_secs(seconds)), text);
        }
    }
}
