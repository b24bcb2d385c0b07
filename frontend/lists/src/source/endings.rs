//! How the rows of a list end: with a verdict, and for a few rows with more.
//!
//! For almost all rows, [`Row::prefix`](super::Row::prefix) is the output row up to its verdict. Other prefixes end with one of these
//! marks. No other prefix ends with these bytes, because it ends with a delimiter.
//!
//! | mark | meaning |
//! | --- | --- |
//! | [`HAS_TAIL`] | before the mark are the bytes after the verdict, with the line end, and their number in four bytes |
//! | [`IS_OPEN`] | the verdict of another address of the same row follows |

mod further;

use super::detect::LineEnd;
use super::escapes;
use crate::encoding::{ByteOrder, Encoding};
pub use further::FoundRow;
pub(super) use further::Further;

const HAS_TAIL: u8 = 0xff;
const IS_OPEN: u8 = 0xfe;

/// What the ends of rows consist of.
pub(super) struct Layout {
    /// All verdicts, by their code less one.
    pub verdicts: Vec<Vec<u8>>,
    pub delimiter: u8,
    pub line_end: LineEnd,
    pub has_quotes: bool,
    /// Whether a backslash makes the next byte a part of its value.
    pub has_escapes: bool,
    /// The number of values before the verdict; `None` if it is at the end.
    pub column: Option<usize>,
    pub encoding: Encoding,
    /// The bytes that a value has only within quotes.
    pub quoted_bytes: [bool; 256],
    pub further: Option<Further>,
}

/// The ends of rows, by the code of their verdict.
#[derive(Debug)]
pub struct Endings {
    /// Verdicts with the line end. Code 0 has an empty one.
    closed: Vec<Vec<u8>>,
    /// Verdicts alone.
    bare: Vec<Vec<u8>>,
    /// The delimiter in the encoding of the list.
    delimiter: Vec<u8>,
    delimiter_byte: u8,
    line_end_byte: u8,
    has_quotes: bool,
    has_escapes: bool,
    column: Option<usize>,
    byte_order: Option<ByteOrder>,
    longest: usize,
    encoding: Encoding,
    quoted_bytes: [bool; 256],
    further: Option<Further>,
    /// The verdicts before they are encoded, if there are further columns.
    plain: Vec<Vec<u8>>,
}

/// The parts of an output row: what is before the verdict, all possible verdicts by their code, and what is after it.
#[derive(Debug, Clone, Copy)]
pub struct RowParts<'a> {
    /// The bytes before the verdict.
    pub prefix: &'a [u8],
    /// The verdicts, by their code. Code 0 is no verdict.
    pub verdicts: &'a [Vec<u8>],
    /// The bytes after the verdict; empty for almost all rows, because the verdicts contain the line end.
    pub tail: &'a [u8],
}

/// The state of a search for the end of a row.
#[derive(Debug, Default, Clone, Copy)]
pub struct RowScan {
    /// Number of bytes that were examined.
    at: usize,
    is_quoted: bool,
}

impl Endings {
    pub(super) fn new(layout: &Layout) -> Endings {
        let encoded = |text: &[u8]| {
            let mut out = text.to_vec();
            layout.encoding.encode(&mut out, 0);
            out
        };
        let all = |end: &[u8]| -> Vec<Vec<u8>> {
            let verdicts = layout.verdicts.iter().map(|verdict| encoded(&[verdict, end].concat()));
            std::iter::once(Vec::new()).chain(verdicts).collect()
        };
        let closed = all(layout.line_end.bytes());
        Endings {
            longest: closed.iter().map(Vec::len).max().unwrap_or_default(),
            closed,
            bare: all(b""),
            delimiter: encoded(&[layout.delimiter]),
            delimiter_byte: layout.delimiter,
            line_end_byte: layout.line_end.last(),
            has_quotes: layout.has_quotes,
            has_escapes: layout.has_escapes,
            column: layout.column,
            byte_order: layout.encoding.byte_order(),
            encoding: layout.encoding,
            quoted_bytes: layout.quoted_bytes,
            plain: match &layout.further {
                Some(_) => std::iter::once(Vec::new()).chain(layout.verdicts.iter().cloned()).collect(),
                None => Vec::new(),
            },
            further: layout.further.clone(),
        }
    }

    /// The parts of a row, which is [`Row::prefix`](super::Row::prefix).
    pub fn parts<'a>(&'a self, row: &'a [u8]) -> RowParts<'a> {
        match row.split_last() {
            Some((&IS_OPEN, prefix)) => {
                RowParts { prefix, verdicts: &self.bare, tail: self.delimiter.as_slice() }
            }
            Some((&HAS_TAIL, rest)) => {
                let (rest, length) = rest.split_last_chunk::<4>().unwrap_or((rest, &[0; 4]));
                let at = rest.len().saturating_sub(u32::from_le_bytes(*length) as usize);
                RowParts { prefix: &rest[..at], verdicts: &self.bare, tail: &rest[at..] }
            }
            _ => RowParts { prefix: row, verdicts: &self.closed, tail: &[] },
        }
    }

    /// The row with the verdict of this code, in pieces; without a verdict if there is no such code.
    pub fn pieces<'a>(&'a self, row: &'a [u8], code: u8) -> [&'a [u8]; 3] {
        let RowParts { prefix, verdicts, tail } = self.parts(row);
        [prefix, verdicts.get(usize::from(code)).map_or(&[][..], Vec::as_slice), tail]
    }

    /// Length of the longest verdict with its line end, in bytes.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Searches the end of the first row in these bytes, and returns its length. If there is none yet, `scan` continues in the same
    /// bytes with more after them. A line end within quotes does not end a row.
    pub fn row_end(&self, bytes: &[u8], scan: &mut RowScan) -> Option<usize> {
        if self.byte_order.is_none() {
            while let Some(at) = self.find(self.line_end_byte, scan.is_quoted, &bytes[scan.at..]) {
                scan.at += at + 1;
                match bytes[scan.at - 1] {
                    b'"' if self.has_quotes => scan.is_quoted = !scan.is_quoted,
                    _ => return Some(scan.at),
                }
            }
            let backslashes = bytes[scan.at..].iter().rev().take_while(|&&byte| byte == b'\\').count();
            // What a backslash escapes may come later.
            scan.at = bytes.len() - usize::from(self.has_escapes && backslashes % 2 == 1);
            return None;
        }
        while let Some((byte, next)) = self.unescaped_unit(bytes, scan.at) {
            scan.at = next;
            match byte {
                Some(b'"') if self.has_quotes => scan.is_quoted = !scan.is_quoted,
                Some(byte) if byte == self.line_end_byte && !scan.is_quoted => return Some(next),
                _ => {}
            }
        }
        None
    }

    /// The position of the next quote, or of this byte if it is not within quotes.
    fn find(&self, byte: u8, is_quoted: bool, bytes: &[u8]) -> Option<usize> {
        let is_it = |it: u8| it == b'"' && self.has_quotes || it == byte && !is_quoted;
        match (self.has_quotes, is_quoted) {
            _ if self.has_escapes => escapes::position(bytes, true, is_it),
            (false, _) => memchr::memchr(byte, bytes),
            (true, false) => memchr::memchr2(b'"', byte, bytes),
            (true, true) => memchr::memchr(b'"', bytes),
        }
    }

    /// As [`Endings::unit`], and a backslash with the character that it escapes is no ASCII character.
    fn unescaped_unit(&self, bytes: &[u8], at: usize) -> Option<(Option<u8>, usize)> {
        match self.unit(bytes, at)? {
            (Some(b'\\'), next) if self.has_escapes => Some((None, self.unit(bytes, next)?.1)),
            unit => Some(unit),
        }
    }

    /// The ASCII character at this position, if it is one, and the position of the next character.
    fn unit(&self, bytes: &[u8], at: usize) -> Option<(Option<u8>, usize)> {
        match self.byte_order {
            None => bytes.get(at).map(|&byte| (Some(byte), at + 1)),
            Some(order) => {
                let unit = bytes.get(at..at + 2)?;
                let (byte, high) = match order {
                    ByteOrder::Little => (unit[0], unit[1]),
                    ByteOrder::Big => (unit[1], unit[0]),
                };
                Some(((high == 0).then_some(byte), at + 2))
            }
        }
    }

    /// Splits a row of the output, with its line end: the code of its verdict, and the row as [`Endings::parts`] takes it. `None` if
    /// it has no verdict.
    pub fn split(&self, output: &[u8]) -> Option<(u8, Vec<u8>)> {
        let code = |at: usize| u8::try_from(at).ok();
        let Some(column) = self.column else {
            let at = self.closed.iter().skip(1).position(|verdict| output.ends_with(verdict))? + 1;
            return Some((code(at)?, output[..output.len() - self.closed[at].len()].to_vec()));
        };
        let (prefix, rest) = output.split_at(self.start_of(column, output)?);
        if let Some(at) = self.closed.iter().skip(1).position(|verdict| rest == verdict.as_slice()) {
            return Some((code(at + 1)?, prefix.to_vec()));
        }
        let mut row = prefix.to_vec();
        let tail = |verdict: &Vec<u8>| {
            rest.strip_prefix(verdict.as_slice()).filter(|tail| tail.starts_with(&self.delimiter))
        };
        let at = self.bare.iter().skip(1).position(|verdict| tail(verdict).is_some())? + 1;
        row.extend_from_slice(tail(&self.bare[at])?);
        mark_tail(&mut row, prefix.len());
        Some((code(at)?, row))
    }

    /// The code of the first verdict of an output row with its line end.
    pub fn code(&self, output: &[u8]) -> Option<u8> {
        let Some(column) = self.column else {
            return match self.has_further() {
                true => Some(self.split_further(output)?.0.code),
                false => {
                    u8::try_from(self.closed.iter().skip(1).position(|it| output.ends_with(it))? + 1).ok()
                }
            };
        };
        let rest = &output[self.start_of(column, output)?..];
        let is_verdict = |(closed, bare): (&Vec<u8>, &Vec<u8>)| {
            rest == closed.as_slice()
                || rest.strip_prefix(bare.as_slice()).is_some_and(|after| after.starts_with(&self.delimiter))
        };
        let at = self.closed.iter().zip(&self.bare).skip(1).position(is_verdict)?;
        u8::try_from(at + 1).ok()
    }

    /// The position of a value in an output row.
    fn start_of(&self, column: usize, output: &[u8]) -> Option<usize> {
        let (mut at, mut passed, mut is_quoted) = (0, 0, false);
        if self.byte_order.is_none() {
            while passed < column {
                at += self.find(self.delimiter_byte, is_quoted, &output[at..])? + 1;
                match output[at - 1] {
                    b'"' if self.has_quotes => is_quoted = !is_quoted,
                    _ => passed += 1,
                }
            }
            return Some(at);
        }
        while passed < column {
            let (byte, next) = self.unescaped_unit(output, at)?;
            at = next;
            match byte {
                Some(b'"') if self.has_quotes => is_quoted = !is_quoted,
                Some(byte) if byte == self.delimiter_byte && !is_quoted => passed += 1,
                _ => {}
            }
        }
        Some(at)
    }
}

/// Marks the bytes from `at` on as those after the verdict.
pub(super) fn mark_tail(row: &mut Vec<u8>, at: usize) {
    let length = (row.len() - at) as u32;
    row.extend_from_slice(&length.to_le_bytes());
    row.push(HAS_TAIL);
}

/// Marks that another verdict of the same row follows.
pub(super) fn mark_open(row: &mut Vec<u8>) {
    row.push(IS_OPEN);
}

/// Writes one value, with quotes if it has one of the bytes that need them (RFC 4180 2).
#[inline]
pub(super) fn csv_value(field: &[u8], quoted_bytes: &[bool; 256], out: &mut Vec<u8>) {
    if !field.iter().any(|&byte| quoted_bytes[usize::from(byte)]) {
        return out.extend_from_slice(field);
    }
    out.push(b'"');
    for &byte in field {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endings(encoding: Encoding, column: Option<usize>) -> Endings {
        Endings::new(&Layout {
            verdicts: vec![b"true;a".to_vec(), b"false;bc".to_vec()],
            delimiter: b';',
            line_end: LineEnd::CrLf,
            has_quotes: true,
            has_escapes: false,
            column,
            encoding,
            quoted_bytes: [false; 256],
            further: None,
        })
    }

    #[track_caller]
    fn check(row: &[u8], expected: &str) {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let plain = endings(Encoding::utf_8(false), Some(2));
        assert_eq!(text(&plain.pieces(row, 2).concat()), expected);
        let tail = plain.parts(row).tail;
        if tail.is_empty() || tail.len() > 1 {
            assert_eq!(plain.split(expected.as_bytes()), Some((2, row.to_vec())));
        }
    }

    #[test]
    fn rows_are_put_together_and_split() {
        check(b"1;2;", "1;2;false;bc\r\n");
        check(b"\"1;2\r\n\";\"\"\"\";", "\"1;2\r\n\";\"\"\"\";false;bc\r\n");
        let mut row = b"1;2;;x;\"y;\"\r\n".to_vec();
        mark_tail(&mut row, 4);
        check(&row, "1;2;false;bc;x;\"y;\"\r\n");
        let mut row = b"1;2;".to_vec();
        mark_open(&mut row);
        check(&row, "1;2;false;bc;");
        let end = endings(Encoding::utf_8(false), None);
        assert_eq!(end.split(b"{x,true;a\r\n"), Some((1, b"{x,".to_vec())));
        assert_eq!(end.split(b"{x,true;b\r\n"), None);
        assert_eq!(endings(Encoding::utf_8(false), Some(2)).split(b"1;true;a\r\n"), None);
    }

    #[test]
    fn ends_of_rows_are_found_in_each_encoding() {
        for order in [None, Some(ByteOrder::Little), Some(ByteOrder::Big)] {
            let encoding = order.map_or(Encoding::utf_8(false), |order| Encoding::utf_16(order, true));
            let endings = endings(encoding, Some(1));
            // The second half of one character is a line end, the first half of the other too.
            let mut bytes = "\"\u{a0a}\u{10a}\n\r\n\";true;a\r\nx".as_bytes().to_vec();
            encoding.encode(&mut bytes, 0);
            let x = bytes.len() - if order.is_some() { 2 } else { 1 };
            let mut scan = RowScan::default();
            let mut found = None;
            for end in 0..=bytes.len() {
                found = found.or_else(|| endings.row_end(&bytes[..end], &mut scan));
            }
            assert_eq!(found, Some(x));
            let (code, prefix) = endings.split(&bytes[..x]).unwrap();
            assert_eq!((code, endings.pieces(&prefix, 1).concat()), (1, bytes[..x].to_vec()));
        }
    }
}
