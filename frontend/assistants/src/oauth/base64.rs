//! Base64 (RFC 4648): what tokens and challenges are written in, and how a header carries what is not ASCII.

const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The URL-safe alphabet, without padding (RFC 4648 5, RFC 7515 2).
pub fn to_url(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let mut bits = [0; 3];
        bits[..group.len()].copy_from_slice(group);
        let bits = u32::from_be_bytes([0, bits[0], bits[1], bits[2]]);
        for digit in 0..=group.len() {
            text.push(char::from(URL_SAFE[(bits >> (18 - 6 * digit) & 63) as usize]));
        }
    }
    text
}

/// The inverse of [`to_url`], of texts that it would write and no others.
pub fn from_url(text: &str) -> Option<Vec<u8>> {
    decode(text, URL_SAFE)
}

/// The standard alphabet, with padding (RFC 4648 4).
pub fn from_standard(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    let fits = text.len().is_multiple_of(4) && padding <= 2;
    fits.then(|| decode(digits, STANDARD)).flatten()
}

fn decode(digits: &str, alphabet: &[u8; 64]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for group in digits.as_bytes().chunks(4) {
        if group.len() == 1 {
            return None;
        }
        let mut bits = 0u32;
        for digit in group {
            bits = bits << 6 | alphabet.iter().position(|known| known == digit)? as u32;
        }
        bits <<= 6 * (4 - group.len());
        let whole = bits.to_be_bytes();
        let (kept, dropped) = whole[1..].split_at(group.len() - 1);
        if dropped.iter().any(|&byte| byte != 0) {
            return None;
        }
        bytes.extend_from_slice(kept);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4648 10, and the bytes in which the alphabets differ.
    #[test]
    fn both_ways() {
        for (bytes, url, standard) in [
            (&b""[..], "", ""),
            (b"f", "Zg", "Zg=="),
            (b"fo", "Zm8", "Zm8="),
            (b"foo", "Zm9v", "Zm9v"),
            (b"foob", "Zm9vYg", "Zm9vYg=="),
            (b"\xfb\xff\xbf", "-_-_", "+/+/"),
        ] {
            assert_eq!(to_url(bytes), url);
            assert_eq!(from_url(url).as_deref(), Some(bytes));
            assert_eq!(from_standard(standard).as_deref(), Some(bytes));
        }
        for text in ["Z", "Zh", "Zg==", "Zm9=", "Z g", "Zm9v\n", "+/", "é"] {
            assert_eq!(from_url(text), None, "{text}");
        }
        for text in ["Zg", "Zg=", "Zh==", "Zm8==", "====", "Zm9v====", "-_-_"] {
            assert_eq!(from_standard(text), None, "{text}");
        }
    }
}
