//! The bounded, incremental reply parser (RFC 5321 4.2).
//!
//! Peers are hostile, so the length of a line, the length of a reply and the number of its lines are bounded. A reply that exceeds
//! a bound or violates the grammar is an error, and the session must not be used afterwards. The result does not depend on how the
//! bytes are divided among the calls of [`ReplyParser::feed`].

use crate::limits::{REPLY_BYTES_MAX, REPLY_LINE_BYTES_MAX, REPLY_LINES_MAX};
use std::fmt;

/// One complete reply of a server.
#[derive(Clone, PartialEq, Eq)]
pub struct Reply {
    code: u16,
    text: Box<str>,
}

impl Reply {
    /// Makes a reply from a code (200 to 599) and a text with lines that are separated by `\n`. Checks neither of them.
    pub fn new(code: u16, text: &str) -> Reply {
        Reply { code, text: text.into() }
    }

    /// Parses a text that is one reply, such as `550-5.1.1 no\r\n550 5.1.1 such user` from a log. The last line end may be missing.
    ///
    /// # Errors
    /// The error of the incremental parser, or [`ReplyError::NotAReply`] if the text ends within the reply or continues after it.
    pub fn parse(text: &str) -> Result<Reply, ReplyError> {
        let mut parser = ReplyParser::default();
        parser.feed(text.trim_end_matches(['\r', '\n']).as_bytes());
        parser.feed(b"\r\n");
        match parser.next()? {
            Some(reply) if parser.is_empty() => Ok(reply),
            _ => Err(ReplyError::NotAReply),
        }
    }

    /// The reply code, from 200 to 599.
    pub fn code(&self) -> u16 {
        self.code
    }

    /// The text after the code, with lines that are separated by `\n`. A byte that is not UTF-8 is read as Windows-1252. Control
    /// characters other than tabs, truncated UTF-8 sequences of several bytes, and bytes without a printable character in
    /// Windows-1252 become U+FFFD, so a terminal can show the text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The lines of the text.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.text.split('\n')
    }

    /// Whether the code is 2yz: the command succeeded (RFC 5321 4.2.1).
    pub fn is_positive(&self) -> bool {
        self.code / 100 == 2
    }

    /// Whether the code is 4yz: a later try may succeed.
    pub fn is_transient(&self) -> bool {
        self.code / 100 == 4
    }

    /// Whether the code is 5yz: the same command will fail again.
    pub fn is_permanent(&self) -> bool {
        self.code / 100 == 5
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The text may repeat an address, so `{:?}` must not bring it into a log.
        write!(f, "Reply({}, {} bytes)", self.code, self.text.len())
    }
}

/// Why the bytes of a server are not a valid reply. After any of these errors, the session must not be used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyError {
    /// A line does not begin with three digits (200 to 599) and a space, a hyphen or the line's end.
    NotAReply,
    /// A line with its line end is longer than [`REPLY_LINE_BYTES_MAX`] bytes.
    LineTooLong,
    /// A reply has more than [`REPLY_LINES_MAX`] lines, or more than [`REPLY_BYTES_MAX`] bytes of text.
    TooLong,
    /// The lines of one reply have different codes.
    CodesDiffer,
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReplyError::NotAReply => "the server sent something that is no SMTP reply",
            ReplyError::LineTooLong => "the server sent a reply line that is too long",
            ReplyError::TooLong => "the server sent a reply without end",
            ReplyError::CodesDiffer => "the lines of one reply carry different codes",
        })
    }
}

impl std::error::Error for ReplyError {}

/// Cuts a stream of bytes into replies.
#[derive(Default)]
pub struct ReplyParser {
    buffer: Vec<u8>,
    /// The number of bytes at the front of `buffer` that have been parsed.
    start: usize,
    /// The number of bytes at the front of `buffer` that have been searched for a line end.
    scanned: usize,
    code: u16,
    lines: usize,
    text: String,
    failed: Option<ReplyError>,
}

impl ReplyParser {
    /// Takes in bytes as they arrive, and keeps them until [`ReplyParser::next`] has parsed them. Ignores them after an error.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.failed.is_none() {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// Returns the next complete reply, or `None` if more bytes are needed.
    ///
    /// # Errors
    /// After the first error, every call returns this error.
    #[expect(clippy::should_implement_trait, reason = "an iterator would have to yield errors for ever")]
    pub fn next(&mut self) -> Result<Option<Reply>, ReplyError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.advance().inspect_err(|&error| {
            self.failed = Some(error);
            self.buffer = Vec::new();
        })
    }

    /// Whether the parser holds no bytes and no part of a reply. If no reply is due and the parser is not empty, the server sent
    /// bytes before a command (RFC 5321 4.3.1), or after its reply to STARTTLS (RFC 3207 4).
    pub fn is_empty(&self) -> bool {
        self.start == self.buffer.len() && self.lines == 0
    }

    /// Discards all bytes and lines, as RFC 3207 4.2 requires of a client after STARTTLS.
    pub fn clear(&mut self) {
        *self = ReplyParser::default();
    }

    fn advance(&mut self) -> Result<Option<Reply>, ReplyError> {
        loop {
            let unread = &self.buffer[self.scanned.max(self.start)..];
            let Some(at) = memchr::memchr(b'\n', unread) else {
                self.scanned = self.buffer.len();
                if self.buffer.len() - self.start >= REPLY_LINE_BYTES_MAX {
                    return Err(ReplyError::LineTooLong);
                }
                self.compact();
                return Ok(None);
            };
            let end = self.scanned.max(self.start) + at;
            let (start, next) = (self.start, end + 1);
            if next - start > REPLY_LINE_BYTES_MAX {
                return Err(ReplyError::LineTooLong);
            }
            let last = self.line(start, end)?;
            self.start = next;
            self.scanned = next;
            if last {
                let reply = Reply { code: self.code, text: std::mem::take(&mut self.text).into_boxed_str() };
                self.lines = 0;
                if self.start == self.buffer.len() {
                    self.compact();
                }
                return Ok(Some(reply));
            }
        }
    }

    /// Parses the line `start..end` of `buffer`, without its LF. Returns whether the line ends the reply.
    fn line(&mut self, start: usize, end: usize) -> Result<bool, ReplyError> {
        let line = &self.buffer[start..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let (code, rest) = line.split_at_checked(3).ok_or(ReplyError::NotAReply)?;
        let code = match code {
            [a @ b'2'..=b'5', b @ b'0'..=b'9', c @ b'0'..=b'9'] => {
                u16::from(a - b'0') * 100 + u16::from(b - b'0') * 10 + u16::from(c - b'0')
            }
            _ => return Err(ReplyError::NotAReply),
        };
        let (last, rest) = match rest {
            [] => (true, rest),
            [b' ', rest @ ..] => (true, rest),
            [b'-', rest @ ..] => (false, rest),
            _ => return Err(ReplyError::NotAReply),
        };
        if self.lines > 0 && code != self.code {
            return Err(ReplyError::CodesDiffer);
        }
        self.code = code;
        self.lines += 1;
        if self.lines > REPLY_LINES_MAX || self.text.len() + rest.len() > REPLY_BYTES_MAX {
            return Err(ReplyError::TooLong);
        }
        if self.lines > 1 {
            self.text.push('\n');
        }
        push_printable(&mut self.text, rest);
        Ok(last)
    }

    /// Removes the parsed bytes. If all bytes are parsed, frees the buffer, so that the parser of an idle session holds no memory.
    fn compact(&mut self) {
        if self.start == self.buffer.len() {
            self.buffer = Vec::new();
        } else if self.start > 0 {
            self.buffer.drain(..self.start);
        }
        self.scanned -= self.start;
        self.start = 0;
    }
}

fn push_printable(text: &mut String, bytes: &[u8]) {
    // Nearly every reply is printable ASCII. A check without an early exit lets the processor compare many bytes at once.
    let plain = |byte: &u8| matches!(byte, b' '..=b'~' | b'\t');
    if bytes.iter().fold(true, |all, byte| all & plain(byte)) {
        text.extend(std::str::from_utf8(bytes));
        return;
    }
    if let Ok(ascii) = std::str::from_utf8(bytes)
        && !ascii.chars().any(|c| c.is_control() && c != '\t')
    {
        text.push_str(ascii);
        return;
    }
    let printable = |c: char| if c.is_control() && c != '\t' { '\u{fffd}' } else { c };
    for chunk in bytes.utf8_chunks() {
        text.extend(chunk.valid().chars().map(printable));
        match chunk.invalid() {
            [] => {}
            [byte] => text.push(printable(from_windows_1252(*byte))),
            // A truncated UTF-8 sequence of several bytes.
            _ => text.push('\u{fffd}'),
        }
    }
}

/// The characters of the bytes 0x80 to 0x9f in Windows-1252 (index "windows-1252" of the WHATWG encoding standard). Five of these
/// bytes have no printable character there and become U+FFFD. A byte above 0x9f is the character with the same number in Unicode.
const WINDOWS_1252_HIGH: [char; 32] = [
    '€', '\u{fffd}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{fffd}', 'Ž', '\u{fffd}',
    '\u{fffd}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{fffd}', 'ž', 'Ÿ',
];

fn from_windows_1252(byte: u8) -> char {
    match byte {
        0x80..=0x9f => WINDOWS_1252_HIGH[usize::from(byte - 0x80)],
        _ => char::from(byte),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &[u8], expected: &[(u16, &str)], error: Option<ReplyError>) {
        for cut in 1..=input.len() {
            let mut parser = ReplyParser::default();
            let mut replies = Vec::new();
            let mut failed = None;
            for piece in input.chunks(cut) {
                parser.feed(piece);
                loop {
                    match parser.next() {
                        Ok(Some(reply)) => replies.push((reply.code(), reply.text().to_owned())),
                        Ok(None) => break,
                        Err(error) => {
                            failed = Some(error);
                            break;
                        }
                    }
                }
            }
            let replies: Vec<(u16, &str)> = replies.iter().map(|(c, t)| (*c, t.as_str())).collect();
            assert_eq!(replies, expected, "pieces of {cut}");
            assert_eq!(failed, error, "pieces of {cut}");
        }
    }

    #[test]
    fn replies_are_cut_out_of_the_stream() {
        check(b"250 OK\r\n", &[(250, "OK")], None);
        check(b"250\r\n", &[(250, "")], None);
        check(b"250 \r\n221 bye\r\n", &[(250, ""), (221, "bye")], None);
        check(b"250-a\r\n250-b\r\n250 c\r\n", &[(250, "a\nb\nc")], None);
        check(b"220 only LF\n250 x\n", &[(220, "only LF"), (250, "x")], None);
        check(b"550-5.1.1 no\r\n550", &[], None);
        check(b"250-\r\n250 \r\n", &[(250, "\n")], None);
        check(b"250 a\0b\x1b[2J\r\n", &[(250, "a\u{fffd}b\u{fffd}[2J")], None);
        check(b"250 caf\xe9 \x93\x80\x94 \x81\x00\r\n", &[(250, "café “€” \u{fffd}\u{fffd}")], None);
        check(b"250-gr\xf6\xdfe\r\n250 gr\xc3\xb6\xc3\x9fe\r\n", &[(250, "größe\ngröße")], None);
        check("250 größe\r\n".as_bytes(), &[(250, "größe")], None);
    }

    #[test]
    fn what_is_no_reply_is_an_error() {
        for input in [
            "hello\r\n",
            "\r\n",
            "25\r\n",
            "250x\r\n",
            "199 a\r\n",
            "650 a\r\n",
            " 250 a\r\n",
            "2\u{b2}0 a\r\n",
        ] {
            check(input.as_bytes(), &[], Some(ReplyError::NotAReply));
        }
        check(b"250 ok\r\nHTTP/1.1 400\r\n", &[(250, "ok")], Some(ReplyError::NotAReply));
        check(b"550-a\r\n250 b\r\n", &[], Some(ReplyError::CodesDiffer));
    }

    fn first(input: &[u8]) -> Result<Option<Reply>, ReplyError> {
        let mut parser = ReplyParser::default();
        parser.feed(input);
        parser.next()
    }

    #[test]
    fn bounds_hold_to_the_byte() {
        let line = |n: usize| [b"250 ", vec![b'a'; n - 6].as_slice(), b"\r\n"].concat();
        assert!(first(&line(REPLY_LINE_BYTES_MAX)).expect("fits").is_some());
        assert_eq!(first(&line(REPLY_LINE_BYTES_MAX + 1)), Err(ReplyError::LineTooLong));
        assert_eq!(first(&vec![b'2'; REPLY_LINE_BYTES_MAX]), Err(ReplyError::LineTooLong));
        assert_eq!(first(&vec![b'2'; REPLY_LINE_BYTES_MAX - 1]), Ok(None));

        let lines = |n: usize| ["250-a\r\n".repeat(n - 1).as_bytes(), b"250 a\r\n"].concat();
        assert!(first(&lines(REPLY_LINES_MAX)).expect("fits").is_some());
        assert_eq!(first(&lines(REPLY_LINES_MAX + 1)), Err(ReplyError::TooLong));
    }

    #[test]
    fn an_error_stays_and_frees_the_buffer() {
        let mut parser = ReplyParser::default();
        parser.feed(b"garbage\r\n250 ok\r\n");
        assert_eq!(parser.next(), Err(ReplyError::NotAReply));
        parser.feed(b"250 ok\r\n");
        assert_eq!(parser.next(), Err(ReplyError::NotAReply));
        assert_eq!(parser.buffer.capacity(), 0);
    }

    #[test]
    fn a_lone_reply_is_parsed_whole() {
        assert_eq!(Reply::parse("550-a\r\n550 b"), Ok(Reply::new(550, "a\nb")));
        assert_eq!(Reply::parse("550-a"), Err(ReplyError::NotAReply));
        assert_eq!(Reply::parse("250 a\r\n250 b"), Err(ReplyError::NotAReply));
    }
}
