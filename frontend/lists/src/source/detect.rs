//! Detects the format of a list from its name or its beginning.

use super::escapes::Scan;
use crate::Format;
use crate::columns::{self, has_address};
use crate::encoding::Encoding;
use csv::ByteRecord;
use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

/// Bytes of a list that are read at once.
pub(super) const READ_BYTES: usize = 64 * 1024;
/// The separators of values, the usual ones first.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];
/// Maximum number of records that determine the separator.
const COMPARED_RECORDS: usize = 100;

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

/// The format according to the content. A single column is CSV if its first line is a usual name for addresses, or if the user
/// named a column. Otherwise it is text, and quotes are a part of the address.
pub(super) fn by_content(head: &[u8], dialect: &Dialect, encoding: Encoding, column_wanted: bool) -> Format {
    let line = first_line(head);
    let name = line.strip_prefix(b"\"").and_then(|l| l.strip_suffix(b"\"")).unwrap_or(line);
    match () {
        () if is_json(head) => Format::Jsonl,
        () if column_wanted || columns::is_usual(&encoding.text(name)) => Format::Csv,
        () if dialect.columns > 1 || is_separated(line) => Format::Csv,
        () => Format::Text,
    }
}

/// Whether a list begins as JSON does: with an object, or with an array of objects, texts or arrays. `[section]` and `{name}` do not.
pub(super) fn is_json(head: &[u8]) -> bool {
    let mut bytes = head.iter().filter(|byte| !byte.is_ascii_whitespace());
    match bytes.next() {
        Some(b'{') => matches!(bytes.next(), None | Some(b'"' | b'}')),
        Some(b'[') => matches!(bytes.find(|&&byte| byte != b'['), None | Some(b'{' | b'"' | b']')),
        _ => false,
    }
}

/// How lines end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineEnd {
    Lf,
    CrLf,
    /// As old programs for Macintosh write.
    Cr,
}

impl LineEnd {
    /// The bytes of the line end.
    pub fn bytes(self) -> &'static [u8] {
        match self {
            LineEnd::Lf => b"\n",
            LineEnd::CrLf => b"\r\n",
            LineEnd::Cr => b"\r",
        }
    }

    /// The last byte of the line end.
    pub fn last(self) -> u8 {
        if self == LineEnd::Cr { b'\r' } else { b'\n' }
    }
}

/// The form of CSV: how values and rows are separated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dialect {
    pub delimiter: u8,
    /// Whether quotes enclose values. Without, they are a part of the values.
    pub has_quotes: bool,
    /// Whether a backslash makes the next byte a part of its value (`escapes.rs`).
    pub has_escapes: bool,
    pub line_end: LineEnd,
    /// The usual number of columns.
    pub columns: usize,
}

impl Dialect {
    /// The bytes that a value has only within quotes.
    pub fn quoted_bytes(&self) -> [bool; 256] {
        let mut bytes = [false; 256];
        for byte in [self.delimiter, b'"', b'\r', b'\n'] {
            bytes[usize::from(byte)] = self.has_quotes;
        }
        bytes
    }

    /// A reader of CSV in this form.
    pub fn reader<R: Read>(&self, input: R) -> csv::Reader<R> {
        csv::ReaderBuilder::new()
            .delimiter(self.delimiter)
            .quoting(self.has_quotes)
            .has_headers(false)
            .flexible(true)
            .buffer_capacity(READ_BYTES)
            .from_reader(input)
    }
}

/// Detects the form of CSV from the beginning of a list, with the separator if the list names it.
pub(super) fn dialect(head: &[u8], is_whole: bool, encoding: Encoding, named: Option<u8>) -> Dialect {
    let form = |delimiter: u8, has_quotes: bool, has_escapes: bool| Dialect {
        delimiter,
        has_quotes,
        has_escapes,
        line_end: LineEnd::Lf,
        columns: 1,
    };
    let first = |form: &Dialect| records(head, form, is_whole, COMPARED_RECORDS);
    let fit_of = |form: &Dialect| Fit::of(&first(form), form.delimiter, encoding);
    let fit = |delimiter: u8, has_quotes: bool| fit_of(&form(delimiter, has_quotes, false));
    let delimiter = named.unwrap_or_else(|| {
        // Of equal ones, the last one is the maximum.
        let fits = DELIMITERS.into_iter().rev().map(|delimiter| (fit(delimiter, true), delimiter));
        match fits.max_by_key(|(fit, _)| *fit) {
            Some((best, delimiter)) if best.has_columns => delimiter,
            // Rows with one value do not show the separator; the header may.
            _ => most_frequent(first_line(head)).unwrap_or(DELIMITERS[0]),
        }
    });
    let (quoted, plain) = (fit(delimiter, true), fit(delimiter, false));
    // An open quote hides rows.
    let has_quotes = plain.address_rows <= quoted.address_rows || plain.columns != quoted.columns;
    let line_end = line_end(head, has_quotes);
    let usual = Dialect { line_end, columns: quoted.columns, ..form(delimiter, has_quotes, false) };
    if !head.contains(&b'\\') || encoding.hides_pipes() {
        return usual;
    }
    let unquoted = first(&form(delimiter, false, false));
    let has_null = unquoted.iter().flatten().any(|value| value == b"\\N");
    let is_quoted = |value: &[u8]| value.len() > 1 && value.starts_with(b"\"") && value.ends_with(b"\"");
    let is_closed = || fit_of(&form(delimiter, true, true)).address_rows >= plain.address_rows;
    // Where NULL is `\N`, a quote alone encloses nothing.
    let encloses = !has_null || unquoted.iter().flatten().any(is_quoted);
    let escaped = Dialect { has_quotes: encloses && (has_quotes || is_closed()), has_escapes: true, ..usual };
    let misplaced = |form: &Dialect| {
        let mut scan = Scan::new(form);
        scan.take(head, &mut Vec::new());
        scan.misplaced
    };
    let (fit, usual_fit) = (fit_of(&escaped), fit_of(&usual));
    let is_better = (fit.address_rows, fit.usual_rows) > (usual_fit.address_rows, usual_fit.usual_rows);
    let is_worse = (fit.address_rows, fit.usual_rows) < (usual_fit.address_rows, usual_fit.usual_rows);
    let [wrong, usual_wrong] = [&escaped, &usual].map(misplaced);
    let has_signs =
        wrong < usual_wrong || escaped.has_quotes && !has_quotes || has_null && wrong == usual_wrong;
    match is_better || !is_worse && has_signs {
        true => Dialect { columns: fit.columns, ..escaped },
        false => usual,
    }
}

/// How well a separator fits; the greatest one is the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Fit {
    /// Number of rows with a value that is an address.
    address_rows: usize,
    has_columns: bool,
    /// Number of rows with the usual number of columns.
    usual_rows: usize,
    /// The usual number of columns, of rows with an address if there are any.
    columns: usize,
}

impl Fit {
    fn of(records: &[ByteRecord], delimiter: u8, encoding: Encoding) -> Fit {
        let mut address_rows = 0;
        // A pipe may also be a part of an address.
        let separated = records.iter().filter(|record| record.len() > 1).count();
        let is_rare = delimiter == b'|' && (records.len() == 1 || separated * 2 < records.len());
        // The numbers of columns of all rows, and of those with an address: other rows may be titles or lines of dashes.
        let mut counts: [HashMap<usize, usize>; 2] = Default::default();
        for record in records {
            let is_one = is_rare && record.len() > 1 && has_address(&joined(record), encoding);
            let columns = if is_one { 1 } else { record.len() };
            let is_address_row = is_one || record.iter().any(|cell| has_address(cell, encoding));
            address_rows += usize::from(is_address_row);
            *counts[0].entry(columns).or_default() += 1;
            if is_address_row {
                *counts[1].entry(columns).or_default() += 1;
            }
        }
        let [all, with_address] = &counts;
        let usual = if address_rows > 0 { with_address } else { all };
        let columns =
            usual.iter().max_by_key(|&(&columns, &rows)| (rows, columns)).map_or(1, |(&columns, _)| columns);
        let usual_rows = all.get(&columns).copied().unwrap_or_default();
        Fit { address_rows, has_columns: columns > 1, usual_rows, columns }
    }
}

/// The record as it was before it was separated at pipes, if it is short.
fn joined(record: &ByteRecord) -> Vec<u8> {
    let cells: Vec<&[u8]> = record.iter().take(4).collect();
    if record.len() > cells.len() { Vec::new() } else { cells.join(&b'|') }
}

/// The first records. The last one is omitted if the sample may have cut it.
pub(super) fn records(head: &[u8], dialect: &Dialect, is_whole: bool, most: usize) -> Vec<ByteRecord> {
    let mut marked = Vec::new();
    if dialect.has_escapes {
        Scan::new(dialect).take(head, &mut marked);
    }
    let mut reader = dialect.reader(if dialect.has_escapes { &marked } else { head });
    let mut records: Vec<ByteRecord> = reader.byte_records().flatten().take(most).collect();
    if !is_whole && records.len() > 1 && records.len() < most {
        records.pop();
    }
    records
}

/// The line `sep=;`, by which spreadsheets name the separator: its length with its end, and the separator.
pub(super) fn separator_line(head: &[u8]) -> Option<(usize, u8)> {
    let length = head.iter().position(|byte| matches!(byte, b'\r' | b'\n'))?;
    let line = &head[..length];
    let line = line.strip_prefix(b"\"").and_then(|line| line.strip_suffix(b"\"")).unwrap_or(line);
    let &[b's' | b'S', b'e' | b'E', b'p' | b'P', b'=', separator] = line else { return None };
    let is_separator = separator.is_ascii_punctuation() || matches!(separator, b'\t' | b' ');
    let end = if head[length..].starts_with(b"\r\n") { 2 } else { 1 };
    (is_separator && separator != b'"').then_some((length + end, separator))
}

/// The end of the first row: a line end within quotes does not end it.
fn line_end(head: &[u8], has_quotes: bool) -> LineEnd {
    if !head.contains(&b'\n') && head.contains(&b'\r') {
        return LineEnd::Cr;
    }
    let mut is_quoted = false;
    for (at, &byte) in head.iter().enumerate() {
        is_quoted ^= byte == b'"' && has_quotes;
        if byte == b'\n' && !is_quoted {
            return if at > 0 && head[at - 1] == b'\r' { LineEnd::CrLf } else { LineEnd::Lf };
        }
    }
    LineEnd::Lf
}

fn first_line(head: &[u8]) -> &[u8] {
    let mut lines = head.split(|byte| matches!(byte, b'\n' | b'\r')).map(<[u8]>::trim_ascii);
    lines.find(|line| !line.is_empty()).unwrap_or_default()
}

/// Whether a line has a usual separator outside of quotes.
fn is_separated(line: &[u8]) -> bool {
    most_frequent(line).is_some()
}

/// The most frequent separator of a line outside of quotes. A pipe may be a part of an address.
fn most_frequent(line: &[u8]) -> Option<u8> {
    let count = |delimiter: u8| {
        let mut is_quoted = false;
        let is_counted = |&&byte: &&u8| {
            is_quoted ^= byte == b'"';
            byte == delimiter && !is_quoted
        };
        line.iter().filter(is_counted).count()
    };
    let counted = DELIMITERS.into_iter().rev().filter(|&it| it != b'|').map(|it| (count(it), it));
    counted.max_by_key(|&(count, _)| count).filter(|&(count, _)| count > 0).map(|(_, delimiter)| delimiter)
}

/// What to do with a file that a program can save as a list.
pub(super) const SAVE: &str = "save it as CSV in UTF-8";
const UNPACK: &str = "unpack it first; a list may be compressed with gzip or Zstandard";

/// Known files that are no lists, by their first bytes: the end of a sentence about the file, and what to do.
pub(super) fn known_file(head: &[u8]) -> Option<(&'static str, &'static str)> {
    const KNOWN: [(&[u8], &str, &str); 12] = [
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "is an old Excel file (.xls), or has a password", SAVE),
        (b"%PDF-", "is a PDF file", SAVE),
        (b"{\\rtf", "is a document in rich text (.rtf)", SAVE),
        (b"PAR1", "is a Parquet file", SAVE),
        (b"SQLite format 3\0", "is a database of SQLite", SAVE),
        (b"\x89PNG", "is a picture", "it has no text"),
        (b"\xff\xd8\xff", "is a picture", "it has no text"),
        (b"PK\x05\x06", "is an empty archive", UNPACK),
        (b"BZh91AY&SY", "is compressed with bzip2", UNPACK),
        (b"\xfd7zXZ\0", "is compressed with xz", UNPACK),
        (b"7z\xbc\xaf\x27\x1c", "is an archive (.7z)", UNPACK),
        (b"Rar!\x1a\x07", "is an archive (.rar)", UNPACK),
    ];
    KNOWN.iter().find(|(start, ..)| head.starts_with(start)).map(|(_, what, advice)| (*what, *advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UTF_8: Encoding = Encoding::utf_8(false);

    fn dialect_of(head: &str) -> Dialect {
        dialect(head.as_bytes(), true, UTF_8, None)
    }

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
        let by_content = |head: &str, wanted| by_content(head.as_bytes(), &dialect_of(head), UTF_8, wanted);
        for (head, expected) in [
            ("", Format::Text),
            ("a@b.co\n", Format::Text),
            ("\"a,b\"@c.co\n", Format::Text),
            ("a|b@c.co\n", Format::Text),
            ("\n\n {\"email\":\"x\"}\n", Format::Jsonl),
            ("[\n", Format::Jsonl),
            ("[{\"email\":\"x\"}]\n", Format::Jsonl),
            (" [ \"a@b.co\" ]", Format::Jsonl),
            ("[[\"a@b.co\"]]", Format::Jsonl),
            ("[john] a@b.co\n", Format::Text),
            ("[section]\nkey = 1\n", Format::Text),
            ("[[table]]\n", Format::Text),
            ("[a@b.co]\n[c@d.co]\n", Format::Text),
            ("[john],a@b.co\n", Format::Csv),
            ("{name},a@b.co\n", Format::Csv),
            ("{a@b.co}\n", Format::Text),
            ("a@b.co,1\n", Format::Csv),
            ("a@b.co;1\n", Format::Csv),
            ("a@b.co|1\n", Format::Csv),
            ("1|a@b.co\n2|c@d.co\n", Format::Csv),
            ("a@b.co\na|b@c.co\nd@e.co\n", Format::Text),
            ("Title\na@b.co|1\nc@d.co|2\n", Format::Csv),
            ("email\na@b.co\n", Format::Csv),
            ("\"E-Mail\"\r\na@b.co\n", Format::Csv),
            ("E-Mail\ra@b.co\r", Format::Csv),
        ] {
            assert_eq!(by_content(head, false), expected, "{head:?}");
        }
        assert_eq!(by_content("contact\na@b.co", true), Format::Csv);
    }

    #[test]
    fn delimiters() {
        for (head, expected) in [
            ("a,b", b','),
            ("a;b", b';'),
            ("a\tb", b'\t'),
            ("a|b", b'|'),
            ("a", b','),
            ("a;b;c,d", b';'),
            ("\"a,b,c,d\";e", b';'),
            ("a,b;c", b','),
            ("id;note;email\n1,5;x, y, z;a@b.co\n2,5;x, y, z;c@d.co\n", b';'),
            ("id,emails\n1,a@b.co;c@d.co\n2,e@f.co;g@h.co\n", b','),
            ("name|email\nMeier, Joe; Dr.|a@b.co\nKlein, Ann; Dr.|c@d.co\n", b'|'),
            ("email,name,city\na@b.co\nc@d.co\n", b','),
            ("email;name\na@b.co\n", b';'),
            ("List, made; by\tJoe\n\nname\temail\nMeier, Joe\ta@b.co\n", b'\t'),
        ] {
            assert_eq!(dialect_of(head).delimiter, expected, "{head:?}");
        }
        assert_eq!(dialect(b"a,b", true, UTF_8, Some(b';')).delimiter, b';');
    }

    #[test]
    fn quotes_that_are_not_closed_are_a_part_of_values() {
        for (head, expected) in [
            ("n,email\n\"1\",a@b.co\n", true),
            ("n,email\n\"1\n2\",a@b.co\n3,c@d.co\n", true),
            ("n\temail\n\"1\ta@b.co\n2\tc@d.co\n3\te@f.co\n", false),
            ("n\temail\n1\"\ta@b.co\n", true),
        ] {
            assert_eq!(dialect_of(head).has_quotes, expected, "{head:?}");
        }
    }

    #[test]
    fn backslashes_are_detected() {
        for (head, expected) in [
            ("1,\"Tom \\\"T, junior\\\" Berg\",a@b.co\n", "backslash"),
            ("1,\"Tom \\\"T\\\" Berg\",a@b.co\n", "backslash"),
            ("n,email\n\"x\\\"\",a@b.co\n2,c@d.co\n", "backslash"),
            ("1\ta\\\tb\ta@b.co\n2\tc\tc@d.co\n3\td\td@d.co\n", "backslash"),
            ("1\tsay \"hi\ta@b.co\n2\t\\N\tc@d.co\n", "backslash"),
            ("1,\"C:\\dir\\\",a@b.co\n2,\"C:\\dir\\\",c@d.co\n", "doubled"),
            ("1,\"Tom \"\"T, junior\"\" Berg\\\",a@b.co\n", "doubled"),
            ("1,C:\\dir,a@b.co\n", "doubled"),
            ("1\tC:\\dir\\\ta@b.co\n2\tC:\\\tc@d.co\n", "doubled"),
        ] {
            let dialect = dialect_of(head);
            let found = if dialect.has_escapes { "backslash" } else { "doubled" };
            assert_eq!(found, expected, "{head:?}");
        }
        assert!(!dialect_of("1\tsay \"hi\ta@b.co\n2\t\\N\tc@d.co\n").has_quotes);
    }

    #[test]
    fn line_ends() {
        for (head, expected) in [
            ("", LineEnd::Lf),
            ("a\nb\r\n", LineEnd::Lf),
            ("a\r\nb\n", LineEnd::CrLf),
            ("a\rb\r", LineEnd::Cr),
            ("\"a\nb\",c\r\n1,2\r\n", LineEnd::CrLf),
        ] {
            assert_eq!(dialect_of(head).line_end, expected, "{head:?}");
        }
    }

    #[test]
    fn separator_lines() {
        for (head, expected) in [
            ("sep=;\r\na;b", Some((7, b';'))),
            ("SEP=\t\na", Some((6, b'\t'))),
            ("\"sep=,\"\na", Some((8, b','))),
            ("sep=;", None),
            ("sep=x\n", None),
            ("sep=;;\n", None),
            ("separator\n", None),
        ] {
            assert_eq!(separator_line(head.as_bytes()), expected, "{head:?}");
        }
    }
}
