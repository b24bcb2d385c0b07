//! Numbers as text without `fmt`, for what every request writes.

use std::fmt;

/// Writes a number in decimal.
///
/// # Errors
/// That of the writer; a string has none.
pub fn write(out: &mut impl fmt::Write, number: u64) -> fmt::Result {
    let mut digits = [0; 20];
    let mut first = digits.len();
    let mut rest = number;
    loop {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.write_str(std::str::from_utf8(&digits[first..]).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_read_as_display_writes_them() {
        for number in [0, 1, 9, 10, 99, 100, 1_234_567_890, u64::MAX - 1, u64::MAX] {
            let mut text = String::new();
            super::write(&mut text, number).unwrap();
            assert_eq!(text, number.to_string());
        }
    }
}
