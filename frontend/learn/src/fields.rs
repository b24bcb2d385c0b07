//! The fields of headers and delivery reports (RFC 5322 2.2, RFC 3464 2.1), and the values in them.

use encoding_rs::{ISO_2022_JP, WINDOWS_1252};
use engine_proto::smtp::status::EnhancedCode;
use mail_parser::DateTime;
use std::borrow::Cow;

/// Maximum number of fields of one block. Further fields are not read.
const FIELDS_MAX: usize = 500;
/// Longest value of a field in bytes. The rest of a longer value is not read.
const VALUE_BYTES_MAX: usize = 8 * 1024;

/// A field with its name in lower case. The lines of a folded value are separated by `\n`.
pub(crate) struct Field {
    pub name: String,
    pub value: String,
}

/// The fields of one block: those before the first empty line.
#[derive(Default)]
pub(crate) struct Fields(Vec<Field>);

impl Fields {
    /// Reads the block at the beginning of the bytes. Also returns the bytes after the empty line.
    pub fn read(bytes: &[u8]) -> (Fields, &[u8]) {
        let mut fields = Fields::default();
        let mut rest = bytes;
        while !rest.is_empty() {
            let line = next_line(&mut rest);
            if line.trim_ascii().is_empty() {
                break;
            }
            fields.add(line);
        }
        (fields, rest)
    }

    fn add(&mut self, line: &[u8]) {
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            if let Some(last) = self.0.last_mut() {
                let more = text(line.trim_ascii());
                if last.value.len() + more.len() < VALUE_BYTES_MAX {
                    last.value.push('\n');
                    last.value.push_str(&more);
                }
            }
            return;
        }
        let Some(colon) = memchr::memchr(b':', line) else { return };
        let name = line[..colon].trim_ascii_end();
        let is_name = !name.is_empty() && name.iter().all(|byte| byte.is_ascii_graphic());
        if is_name && self.0.len() < FIELDS_MAX {
            let value = line[colon + 1..].trim_ascii();
            let value = text(&value[..value.len().min(VALUE_BYTES_MAX)]).into_owned();
            self.0.push(Field { name: String::from_utf8_lossy(name).to_ascii_lowercase(), value });
        }
    }

    /// The value of the first field of this name, which is in lower case.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.iter().find(|field| field.name == name).map(|field| field.value.as_str())
    }

    /// The fields in the order in which the header has them.
    pub fn iter(&self) -> impl Iterator<Item = &Field> {
        self.0.iter()
    }

    /// The fields themselves, in the same order.
    pub fn into_vec(self) -> Vec<Field> {
        self.0
    }
}

/// Takes the next line without its line break, which is LF, CRLF or CR CR LF.
pub(crate) fn next_line<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let (line, after) = match memchr::memchr(b'\n', rest) {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => (*rest, &rest[rest.len()..]),
    };
    *rest = after;
    let end = line.iter().rposition(|byte| *byte != b'\r').map_or(0, |at| at + 1);
    &line[..end]
}

/// Bytes as text: ISO-2022-JP if they have its escape, UTF-8 (RFC 6533), else Windows-1252, which gives each byte a meaning.
pub(crate) fn text(bytes: &[u8]) -> Cow<'_, str> {
    if memchr::memmem::find(bytes, b"\x1b$").is_some() {
        return ISO_2022_JP.decode_without_bom_handling(bytes).0;
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        // The last character is cut off.
        Err(error) if error.error_len().is_none() && !bytes[..error.valid_up_to()].is_ascii() => {
            String::from_utf8_lossy(bytes)
        }
        Err(_) => WINDOWS_1252.decode_without_bom_handling(bytes).0,
    }
}

/// The time of a date of RFC 5322 in seconds since 1970.
pub(crate) fn date(text: &str) -> Option<u64> {
    let date = DateTime::parse_rfc822(&text.replace('\n', " ")).filter(DateTime::is_valid)?;
    u64::try_from(date.to_timestamp()).ok()
}

/// The status at the beginning of a value, such as `5.1.1 (unknown user)`.
pub(crate) fn status(value: &str) -> Option<EnhancedCode> {
    let word = value.split(|c: char| c.is_whitespace() || c == '(').next()?;
    let class = word.bytes().next().filter(u8::is_ascii_digit)? - b'0';
    EnhancedCode::find_in(word, u16::from(class) * 100)
}

/// The first status of a failure anywhere in a text, such as `(#5.1.1)`.
pub(crate) fn status_in(text: &str) -> Option<EnhancedCode> {
    [500, 400].into_iter().find_map(|code| EnhancedCode::find_in(text, code))
}

/// The value after its type, as in `rfc822; joe@example.com` (RFC 3464 2.1.2).
pub(crate) fn after_type(value: &str) -> (&str, &str) {
    match value.split_once(';') {
        Some((kind, value)) if kind.len() < 40 && !kind.contains([' ', '@', '\n']) => (kind, value.trim()),
        _ => ("", value.trim()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_unfolded_and_end_at_an_empty_line() {
        let (fields, rest) =
            Fields::read(b"A: 1\r\nb :  two\r\n\tmore\n  and\r\r\n: x\nno field\nC:\xe9\n\r\nbody\n");
        let read: Vec<_> = fields.iter().map(|field| (field.name.as_str(), field.value.as_str())).collect();
        assert_eq!(read, [("a", "1"), ("b", "two\nmore\nand"), ("c", "\u{e9}")]);
        assert_eq!(rest, b"body\n");
        assert_eq!(Fields::read(b"").0.iter().count(), 0);
    }

    #[test]
    fn values_have_bounds() {
        let long = format!("a: {}\n {}\n", "x".repeat(VALUE_BYTES_MAX * 2), "y".repeat(100));
        assert_eq!(Fields::read(long.as_bytes()).0.value("a").unwrap().len(), VALUE_BYTES_MAX);
        let many = "a: 1\n".repeat(FIELDS_MAX * 2);
        assert_eq!(Fields::read(many.as_bytes()).0.iter().count(), FIELDS_MAX);
    }

    #[test]
    fn dates_and_statuses_are_read() {
        for (text, expected) in [
            ("Thu, 26 Nov 2026 10:00:00 +0100", Some(1_795_683_600)),
            ("26 Nov 2026 09:00:00 GMT", Some(1_795_683_600)),
            ("Thu, 26 Nov 2026\n10:00:00 +0100 (CET)", Some(1_795_683_600)),
            ("yesterday", None),
            ("", None),
        ] {
            assert_eq!(date(text), expected, "{text}");
        }
        for (text, expected) in [
            ("5.1.1", Some((5, 1, 1))),
            ("5.1.1 (bad destination)", Some((5, 1, 1))),
            ("4.4.7(expired)", Some((4, 4, 7))),
            ("2.1.5", Some((2, 1, 5))),
            ("5.1", None),
            ("none", None),
            ("", None),
        ] {
            let found = status(text).map(|code| (code.class, code.subject, code.detail));
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn types_are_cut_off() {
        for (value, expected) in [
            ("rfc822; a@b.example", ("rfc822", "a@b.example")),
            ("RFC822;a@b.example", ("RFC822", "a@b.example")),
            ("a@b.example", ("", "a@b.example")),
            ("smtp; 550 5.1.1 x; y", ("smtp", "550 5.1.1 x; y")),
            ("550 no; such user", ("", "550 no; such user")),
        ] {
            assert_eq!(after_type(value), expected);
        }
    }
}
