//! Detects the format of a list from its name or its beginning.

use crate::columns;
use crate::{Format, ListError};
use std::path::Path;

/// The byte order mark in UTF-8. Spreadsheets write it at the beginning of a CSV file.
pub(super) const BOM: &[u8] = b"\xef\xbb\xbf";

/// The format according to the extension of the file name, without `.gz` or `.zst`. `.txt` may be any format.
pub(super) fn by_name(path: &Path) -> Option<Format> {
    let packed = path.extension().is_some_and(|ending| ending == "gz" || ending == "zst");
    let plain = if packed { path.with_extension("") } else { path.to_owned() };
    match plain.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "csv" | "tsv" => Some(Format::Csv),
        "jsonl" | "ndjson" | "json" => Some(Format::Jsonl),
        _ => None,
    }
}

/// The format according to the first line that is not blank. A single column is CSV if its first line is a usual name for
/// addresses, or if the user named a column. Otherwise it is text, and quotes are a part of the address.
pub(super) fn by_content(head: &[u8], column_wanted: bool) -> Format {
    let line = first_line(head);
    let name = line.strip_prefix(b"\"").and_then(|l| l.strip_suffix(b"\"")).unwrap_or(line);
    match line.first() {
        Some(b'{' | b'[') => Format::Jsonl,
        _ if column_wanted || columns::is_usual_name(name) => Format::Csv,
        _ if DELIMITERS.iter().any(|&d| count(line, d) > 0) => Format::Csv,
        _ => Format::Text,
    }
}

const DELIMITERS: [u8; 3] = [b',', b';', b'\t'];

/// The delimiter of the values: the most frequent one in the first line.
pub(super) fn delimiter(head: &[u8]) -> u8 {
    let line = first_line(head);
    DELIMITERS.into_iter().rev().max_by_key(|&d| count(line, d)).unwrap_or(b',')
}

/// Whether lines end with CR LF.
pub(super) fn is_crlf(head: &[u8]) -> bool {
    head.iter().position(|&b| b == b'\n').is_some_and(|at| at > 0 && head[at - 1] == b'\r')
}

/// Refuses UTF-16 and binary files, such as spreadsheets.
pub(super) fn refuse_what_is_no_text(name: &str, head: &[u8]) -> Result<(), ListError> {
    let what = if head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff") {
        "is UTF-16"
    } else if head.starts_with(b"PK\x03\x04") {
        "is a spreadsheet or an archive"
    } else if head.contains(&0) {
        "is not text"
    } else {
        return Ok(());
    };
    Err(ListError::unreadable(format!("{name} {what}: save it as CSV in UTF-8")))
}

fn first_line(head: &[u8]) -> &[u8] {
    head.split(|&b| b == b'\n').map(<[u8]>::trim_ascii).find(|line| !line.is_empty()).unwrap_or_default()
}

/// Number of delimiters outside of quotes.
fn count(line: &[u8], delimiter: u8) -> usize {
    let mut quoted = false;
    let mut count = 0;
    for &byte in line {
        quoted ^= byte == b'"';
        count += usize::from(byte == delimiter && !quoted);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats() {
        for (name, expected) in [
            ("a.csv", Some(Format::Csv)),
            ("a.TSV", Some(Format::Csv)),
            ("a.jsonl", Some(Format::Jsonl)),
            ("a.ndjson", Some(Format::Jsonl)),
            ("a.csv.gz", Some(Format::Csv)),
            ("a.jsonl.zst", Some(Format::Jsonl)),
            ("a.gz", None),
            ("a.txt", None),
            ("a", None),
            (".csv", None),
        ] {
            assert_eq!(by_name(Path::new(name)), expected, "{name}");
        }
        for (head, expected) in [
            ("", Format::Text),
            ("a@b.co\n", Format::Text),
            ("\"a,b\"@c.co\n", Format::Text),
            ("\n\n {\"email\":\"x\"}\n", Format::Jsonl),
            ("[\n", Format::Jsonl),
            ("a@b.co,1\n", Format::Csv),
            ("a@b.co;1\n", Format::Csv),
            ("email\na@b.co\n", Format::Csv),
            ("\"E-Mail\"\r\na@b.co\n", Format::Csv),
        ] {
            assert_eq!(by_content(head.as_bytes(), false), expected, "{head:?}");
        }
        assert_eq!(by_content(b"contact\na@b.co", true), Format::Csv);
    }

    #[test]
    fn delimiters() {
        for (head, expected) in [
            ("a,b", b','),
            ("a;b", b';'),
            ("a\tb", b'\t'),
            ("a", b','),
            ("a;b;c,d", b';'),
            ("\"a,b,c,d\";e", b';'),
            ("a,b;c", b','),
        ] {
            assert_eq!(delimiter(head.as_bytes()), expected, "{head:?}");
        }
    }

    #[test]
    fn binary_files_are_refused() {
        for head in [&b"\xff\xfea\0"[..], b"\xfe\xff\0a", b"PK\x03\x04", b"a\0b"] {
            assert!(refuse_what_is_no_text("x", head).is_err());
        }
        assert_eq!(refuse_what_is_no_text("x", b"\xef\xbb\xbfa,\xfc"), Ok(()));
    }
}
