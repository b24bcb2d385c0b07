//! CSV in which a backslash makes the next byte a part of the value, as MySQL, PostgreSQL (`COPY`, with `\\N` for NULL) and Sequel write it.
//!
//! Values keep their backslashes, in the list and in the output. So that the reader of CSV splits the rows, the bytes that it would take
//! for their ends are marked while the list is read: a quote within quotes is doubled, and a separator or line end outside of quotes is
//! another byte. [`write`] reverses it.

use super::detect::Dialect;
use std::io::{Read, Result};

/// The bytes that stand for an escaped separator, line feed and carriage return.
const MARKS: [u8; 3] = [0x1d, 0x1e, 0x1f];

/// The state of a text that is scanned for quotes and backslashes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scan {
    delimiter: u8,
    has_quotes: bool,
    has_escapes: bool,
    is_start: bool,
    is_quoted: bool,
    is_escaped: bool,
    is_behind_quote: bool,
    /// Number of quotes that end a value and are followed by something else than a separator.
    pub misplaced: usize,
}

impl Scan {
    /// A scan of a list in this dialect from its beginning.
    pub fn new(dialect: &Dialect) -> Scan {
        let Dialect { delimiter, has_quotes, has_escapes, .. } = *dialect;
        let (is_quoted, is_escaped, is_behind_quote) = (false, false, false);
        Scan {
            delimiter,
            has_quotes,
            has_escapes,
            is_start: true,
            is_quoted,
            is_escaped,
            is_behind_quote,
            misplaced: 0,
        }
    }

    /// Takes the next bytes, and appends them with their marks.
    pub fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for &byte in bytes {
            let is_behind_quote = std::mem::take(&mut self.is_behind_quote);
            if std::mem::take(&mut self.is_escaped) {
                match byte {
                    b'"' if self.is_quoted => out.extend_from_slice(b"\"\""),
                    _ if self.is_quoted => out.push(byte),
                    _ => {
                        let mark = self.ends().iter().position(|&end| end == byte);
                        out.push(mark.map_or(byte, |at| MARKS[at]));
                    }
                }
                continue;
            }
            out.push(byte);
            match byte {
                b'\\' if self.has_escapes => {
                    self.misplaced += usize::from(is_behind_quote);
                    (self.is_escaped, self.is_start) = (true, false);
                }
                b'"' if self.is_quoted => (self.is_quoted, self.is_behind_quote) = (false, true),
                b'"' if is_behind_quote || self.is_start && self.has_quotes => {
                    (self.is_quoted, self.is_start) = (true, false);
                }
                _ if self.is_quoted => {}
                _ => {
                    self.is_start = self.ends().contains(&byte);
                    self.misplaced += usize::from(is_behind_quote && !self.is_start);
                }
            }
        }
    }

    fn ends(&self) -> [u8; 3] {
        [self.delimiter, b'\n', b'\r']
    }
}

/// A reader that marks what is escaped.
pub(super) struct Marked<R> {
    input: R,
    scan: Scan,
    raw: Vec<u8>,
    marked: Vec<u8>,
    at: usize,
}

impl<R: Read> Marked<R> {
    /// Reads a list in this dialect.
    pub fn new(input: R, dialect: &Dialect) -> Marked<R> {
        let raw = vec![0; super::detect::READ_BYTES];
        Marked { input, scan: Scan::new(dialect), raw, marked: Vec::new(), at: 0 }
    }
}

impl<R: Read> Read for Marked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if self.at == self.marked.len() {
            self.at = 0;
            self.marked.clear();
            let count = self.input.read(&mut self.raw)?;
            self.scan.take(&self.raw[..count], &mut self.marked);
        }
        let count = buffer.len().min(self.marked.len() - self.at);
        buffer[..count].copy_from_slice(&self.marked[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// Writes a value with its backslashes as it was, with quotes if it needs them.
pub(super) fn write(value: &[u8], dialect: &Dialect, out: &mut Vec<u8>) {
    let ends = [dialect.delimiter, b'\n', b'\r'];
    let is_quoted = dialect.has_quotes
        && (value.contains(&b'"') || position(value, true, |byte| ends.contains(&byte)).is_some());
    let (mut is_escaped, quote) = (false, &b"\""[..usize::from(is_quoted)]);
    out.extend_from_slice(quote);
    for &byte in value {
        let mark = MARKS.iter().position(|&mark| mark == byte).filter(|_| is_escaped);
        if byte == b'"' && !is_escaped {
            out.extend_from_slice(quote);
        }
        out.push(mark.map_or(byte, |at| ends[at]));
        is_escaped = byte == b'\\' && !is_escaped;
    }
    out.extend_from_slice(quote);
}

/// The position of the first byte of this kind that has no backslash before it.
pub(super) fn position(text: &[u8], has_escapes: bool, is_it: impl Fn(u8) -> bool) -> Option<usize> {
    if !has_escapes {
        return text.iter().position(|&byte| is_it(byte));
    }
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'\\' => at += 2,
            _ if is_it(byte) => return Some(at),
            _ => at += 1,
        }
    }
    None
}

/// What a value means, without its backslashes.
pub(super) fn unescaped(value: &str) -> String {
    if value == "\\N" {
        return String::new();
    }
    let (mut out, mut rest) = (String::with_capacity(value.len()), value.chars());
    while let Some(c) = rest.next() {
        out.push(match c {
            '\\' => match rest.next() {
                Some('t' | '\u{1d}') => '\t',
                Some('n' | '\u{1e}') => '\n',
                Some('r' | '\u{1f}') => '\r',
                Some(other) => other,
                None => c,
            },
            c => c,
        });
    }
    out
}
