//! Detects the encoding of a list from a sample.

use super::{ByteOrder, Encoding};
use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use std::collections::HashMap;

/// Escape sequences of ISO-2022-JP, in which other characters contain the bytes of separators.
const JAPANESE_ESCAPES: [&[u8]; 3] = [b"\x1b$B", b"\x1b$@", b"\x1b(J"];
/// UTF-16 has a NUL in at least this share of its units: one of five. Addresses, separators and line ends are ASCII.
const NUL_SHARE: usize = 5;

/// The reason why a sample has no encoding of a list, as the end of a sentence about the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Undetected(pub &'static str);

/// The encoding of a list that begins with this sample. `is_whole`: the sample is the list.
pub(crate) fn detect(head: &[u8], is_whole: bool) -> Result<Encoding, Undetected> {
    match head {
        [0xef, 0xbb, 0xbf, ..] => return Ok(Encoding::utf_8(true)),
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => return Err(Undetected("is UTF-32")),
        [0xff, 0xfe, ..] => return Ok(Encoding::utf_16(ByteOrder::Little, true)),
        [0xfe, 0xff, ..] => return Ok(Encoding::utf_16(ByteOrder::Big, true)),
        _ => {}
    }
    if head.contains(&0) {
        // Half a unit at the end is no UTF-16.
        let head = if is_whole && head.len() % 2 == 1 { &[] } else { head };
        return by_nuls(head).map(|order| Encoding::utf_16(order, false)).ok_or(Undetected("is not text"));
    }
    if JAPANESE_ESCAPES.iter().any(|escape| head.windows(escape.len()).any(|bytes| bytes == *escape)) {
        return Err(Undetected("is ISO-2022-JP"));
    }
    match std::str::from_utf8(head) {
        Ok(_) => return Ok(Encoding::utf_8(false)),
        // The sample may end within a character.
        Err(error) if error.error_len().is_none() && !is_whole => return Ok(Encoding::utf_8(false)),
        Err(_) => {}
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(head, is_whole);
    let country = country(head);
    Ok(Encoding::legacy(detector.guess(country.as_deref(), Utf8Detection::Deny)))
}

/// The order of the bytes of UTF-16 without a byte order mark: almost all NULs are in the same half of the units.
fn by_nuls(head: &[u8]) -> Option<ByteOrder> {
    let units = head.len() / 2;
    let nuls = |half: usize| head.iter().skip(half).step_by(2).filter(|&&byte| byte == 0).count();
    let (first, second) = (nuls(0), nuls(1));
    let is_utf_16 = |many: usize, few: usize| many > 0 && many * NUL_SHARE >= units && few * 10 <= many;
    if is_utf_16(second, first) {
        Some(ByteOrder::Little)
    } else if is_utf_16(first, second) {
        Some(ByteOrder::Big)
    } else {
        None
    }
}

/// The most frequent top-level domain of a country in the addresses of the sample, for the detector of encodings.
fn country(head: &[u8]) -> Option<Vec<u8>> {
    let mut counts: HashMap<Vec<u8>, usize> = HashMap::new();
    for after in head.split(|&byte| byte == b'@').skip(1) {
        let is_of_host = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
        let host = after.iter().position(|byte| !is_of_host(byte)).map_or(after, |end| &after[..end]);
        let label = host.rsplit(|&byte| byte == b'.').next().unwrap_or_default();
        if label.len() == 2 && label.len() < host.len() && label.iter().all(u8::is_ascii_alphabetic) {
            *counts.entry(label.to_ascii_lowercase()).or_default() += 1;
        }
    }
    counts.into_iter().max_by(|(a, some), (b, more)| some.cmp(more).then(b.cmp(a))).map(|(label, _)| label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(head: &[u8], expected: Result<&str, &'static str>) {
        assert_eq!(detect(head, true).map(Encoding::name), expected.map_err(Undetected), "{head:x?}");
    }

    #[test]
    fn encodings_are_detected() {
        check(b"", Ok("UTF-8"));
        check(b"a@b.example\n", Ok("UTF-8"));
        check("email,name\nü@b.example,ö\n".as_bytes(), Ok("UTF-8"));
        check(b"\xef\xbb\xbfemail", Ok("UTF-8"));
        check(b"\xff\xfee\0", Ok("UTF-16LE"));
        check(b"\xfe\xff\0e", Ok("UTF-16BE"));
        check(b"e\0m\0a\0i\0l\0", Ok("UTF-16LE"));
        check(b"\0e\0m\0a\0i\0l", Ok("UTF-16BE"));
        check(b"email;name\r\na@b.example;M\xfcller\r\n", Ok("windows-1252"));
        check(b"email;name\r\na@b.example;Gr\xf6\xdfe 5 \x80\r\n", Ok("windows-1252"));
        for refused in [&b"\xff\xfe\0\0a\0\0\0"[..], b"\0\0\xfe\xff\0\0\0a"] {
            check(refused, Err("is UTF-32"));
        }
        check(b"a\0b", Err("is not text"));
        check(b"name,email\n\x1b$B%a\x1b(B,a@b.example\n", Err("is ISO-2022-JP"));
    }

    #[test]
    fn a_sample_may_end_within_a_character() {
        let text = "email,name\na@b.example,ö".as_bytes();
        let cut = &text[..text.len() - 1];
        assert_eq!(detect(cut, false).map(Encoding::name), Ok("UTF-8"));
        assert_ne!(detect(cut, true).map(Encoding::name), Ok("UTF-8"));
    }

    #[test]
    fn addresses_name_their_country() {
        assert_eq!(country(b"a@b.example,a@b.RU\nc@d.ru;e@f.de"), Some(b"ru".to_vec()));
        assert_eq!(country(b"a@b.de,a@b.at"), Some(b"at".to_vec()), "always the same one of several");
        assert_eq!(country(b"a@b.example,@de,x"), None);
    }
}
