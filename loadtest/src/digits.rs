//! Numbers for readers: thousands are separated.

/// A number with this many decimals, such as 12,345,678 or 1,234.5.
pub fn grouped(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let sign = if value < 0.0 && text.bytes().any(|digit| (b'1'..=b'9').contains(&digit)) { "-" } else { "" };
    let mut out = String::with_capacity(text.len() + whole.len() / 3 + 1);
    out.push_str(sign);
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) && whole.bytes().all(|byte| byte.is_ascii_digit()) {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        for (value, decimals, text) in [
            (0.0, 0, "0"),
            (999.4, 0, "999"),
            (999.6, 0, "1,000"),
            (12_345_678.0, 0, "12,345,678"),
            (1234.56, 1, "1,234.6"),
            (-1234.0, 0, "-1,234"),
            (-0.001, 1, "0.0"),
            (123_456.0, 2, "123,456.00"),
            (f64::INFINITY, 0, "inf"),
        ] {
            assert_eq!(grouped(value, decimals), text);
        }
    }
}
