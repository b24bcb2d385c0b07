//! Detects the encoding of a list from a sample.

use super::{ByteOrder, Encoding};
use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use std::collections::HashMap;

/// Escape sequences of ISO-2022-JP, in which other characters contain the bytes of separators.
const JAPANESE_ESCAPES: [&[u8]; 3] = [b"\x1b$B", b"\x1b$@", b"\x1b(J"];
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
        return utf_16(head).map(|order| Encoding::utf_16(order, false)).ok_or(Undetected("is not text"));
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

/// The order of the bytes of UTF-16 without a byte order mark: the one that gives more ASCII, of which addresses and separators
/// consist, and hardly any unit that no text has. Lists of other scripts have few NULs.
fn utf_16(head: &[u8]) -> Option<ByteOrder> {
    let counts = |unit: fn([u8; 2]) -> u16| {
        let units = || head.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
        let ascii = units().filter(|unit| matches!(unit, 9 | 10 | 13 | 0x20..=0x7e)).count();
        let others = char::decode_utf16(units()).filter(|it| it.as_ref().map_or(true, |c| is_no_text(*c)));
        // A list without an address in its first rows has a header.
        let least =
            if units().any(|unit| unit == u16::from(b'@')) { head.len() / 40 } else { head.len() / 4 };
        (ascii, ascii > least.max(3).max(others.count() * 20))
    };
    let (little, big) = (counts(u16::from_le_bytes), counts(u16::from_be_bytes));
    let order = if little.0 > big.0 { ByteOrder::Little } else { ByteOrder::Big };
    little.max(big).1.then_some(order)
}

/// Whether a character is in no list: a control character, or one that does not exist.
fn is_no_text(c: char) -> bool {
    c.is_control() && !matches!(c, '\t' | '\n' | '\r')
        || matches!(c, '\u{fdd0}'..='\u{fdef}' | '\u{fffe}' | '\u{ffff}')
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
        // Also if other scripts have few NULs, and after tools that split lines at bytes.
        for text in [
            "a@b.cn\t\u{5f20}\u{4e09}\u{3000}\u{4e30}\n",
            "a@b.ru;\u{440}\u{443}\u{441}\u{441}\u{43a}\u{438}\u{439} \u{442}\u{435}\u{43a}\u{441}\u{442}\n",
        ] {
            let text = text.to_owned() + &"\u{5f20}\u{4e09}\u{674e}\u{56db}".repeat(20);
            let bytes = |unit: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(unit).collect::<Vec<u8>>();
            check(&bytes(u16::to_le_bytes), Ok("UTF-16LE"));
            check(&bytes(u16::to_be_bytes), Ok("UTF-16BE"));
        }
        check(b"a\0@\0b\0.\0c\0o\0\n", Ok("UTF-16LE"));
        check(b"\0a\0@\0b\0.\0c\0o\0\n\0", Ok("UTF-16BE"));
        check(b"a@b.example\0\nc@d.example\0\n", Err("is not text"));
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
