//! Numbers and dates of cells as text.

/// A number with all its digits, without an exponent.
pub(super) fn number(text: &str) -> String {
    match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() && number.abs() < 1e21 => number.to_string(),
        _ => text.trim().to_owned(),
    }
}

/// A date and time of xlsx: days since the last day of 1899, or since 1904-01-01. Text that is no number stays.
pub(super) fn date(text: &str, is_1904: bool) -> String {
    const LAST_DAY: f64 = 2_958_466.0;
    let Some(serial) = text.trim().parse::<f64>().ok().filter(|days| (0.0..LAST_DAY).contains(days)) else {
        return number(text);
    };
    let seconds = (serial * 86_400.0).round() as i64;
    let (day, second) = (seconds / 86_400, seconds % 86_400);
    let time = format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
    if day == 0 && !is_1904 {
        return time;
    }
    // 1970-01-01 is day 25,569. The spreadsheet that the format continues took 1900 for a leap year.
    let unix_day = match is_1904 {
        true => day - 24_107,
        false if day < 60 => day - 25_568,
        false => day - 25_569,
    };
    let (year, month, day) = crate::time::civil(unix_day);
    let date = format!("{year:04}-{month:02}-{day:02}");
    if second == 0 { date } else { format!("{date} {time}") }
}

/// Whether a number format of xlsx shows a date or a time. Its number decides if it is built in, else its code.
pub(super) fn is_date_format(id: u32, code: Option<&str>) -> bool {
    let Some(code) = code else {
        return matches!(id, 14..=22 | 27..=36 | 45..=47 | 50..=58);
    };
    let (mut is_quoted, mut is_bracketed, mut is_escaped) = (false, false, false);
    code.chars().any(|c| {
        if std::mem::take(&mut is_escaped) {
            return false;
        }
        match c {
            '\\' | '_' | '*' if !is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            '[' if !is_quoted => is_bracketed = true,
            ']' if !is_quoted => is_bracketed = false,
            _ => {}
        }
        !is_quoted && !is_bracketed && matches!(c.to_ascii_lowercase(), 'y' | 'm' | 'd' | 'h' | 's')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_all_digits() {
        for (text, expected) in [
            ("1", "1"),
            ("1.0", "1"),
            ("0.1", "0.1"),
            ("4.91761234567E11", "491761234567"),
            ("1.1000000000000001", "1.1"),
            ("-3.5", "-3.5"),
            ("x", "x"),
            ("1e300", "1e300"),
        ] {
            assert_eq!(number(text), expected);
        }
    }

    #[test]
    fn dates_are_iso_8601() {
        for (text, is_1904, expected) in [
            ("45292", false, "2024-01-01"),
            ("45292.5", false, "2024-01-01 12:00:00"),
            ("1", false, "1900-01-01"),
            ("59", false, "1900-02-28"),
            ("61", false, "1900-03-01"),
            ("0.25", false, "06:00:00"),
            ("43830", true, "2024-01-01"),
            ("25569", false, "1970-01-01"),
            ("-1", false, "-1"),
            ("3000000", false, "3000000"),
            ("x", false, "x"),
        ] {
            assert_eq!(date(text, is_1904), expected);
        }
    }

    #[test]
    fn formats_of_dates() {
        for (id, code, expected) in [
            (0, None, false),
            (14, None, true),
            (22, None, true),
            (49, None, false),
            (164, Some("dd.mm.yyyy"), true),
            (165, Some("0.00 \"days\""), false),
            (166, Some("[Red]#,##0.00"), false),
            (167, Some("#,##0\\ _d"), false),
            (168, Some("h:mm"), true),
            (14, Some("0.0"), false),
        ] {
            assert_eq!(is_date_format(id, code), expected, "{id} {code:?}");
        }
    }
}
