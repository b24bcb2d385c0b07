//! The messages of an mbox (RFC 4155, and the forms mboxo and mboxrd), one after another in bounded memory.

use std::io::{self, BufRead, Read};

/// A line is read in pieces of at most this many bytes.
const PIECE_BYTES: u64 = 64 * 1024;

/// Reads messages. Of each message, the first bytes are kept, and the rest is skipped.
pub(crate) struct Mailbox<R> {
    input: R,
    bytes_max: usize,
    /// The piece of a line that was read last.
    piece: Vec<u8>,
    /// The next piece begins a line.
    begins_line: bool,
    /// The last line was empty, or there is none.
    after_empty: bool,
}

impl<R: BufRead> Mailbox<R> {
    /// Reads the messages of an mbox. Of each message it keeps at most `bytes_max` bytes.
    pub fn new(input: R, bytes_max: usize) -> Mailbox<R> {
        Mailbox { input, bytes_max, piece: Vec::new(), begins_line: true, after_empty: true }
    }

    /// The next message; `None` at the end.
    ///
    /// # Errors
    /// Reading fails.
    pub fn next_message(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut message = Vec::new();
        let mut is_read = false;
        loop {
            self.piece.clear();
            if self.input.by_ref().take(PIECE_BYTES).read_until(b'\n', &mut self.piece)? == 0 {
                return Ok(is_read.then_some(message));
            }
            let is_separator = self.begins_line && self.after_empty && is_separator(&self.piece);
            self.after_empty = self.begins_line && self.piece.trim_ascii().is_empty();
            self.begins_line = self.piece.ends_with(b"\n");
            if is_separator && is_read {
                return Ok(Some(message));
            }
            is_read = true;
            if !is_separator {
                let piece = unquoted(&self.piece);
                let room = self.bytes_max.saturating_sub(message.len());
                message.extend_from_slice(&piece[..piece.len().min(room)]);
            }
        }
    }
}

/// Whether the line begins a message: `From sender date`, with a time in the date. Other lines that begin so are text, which not
/// every program quotes.
pub(crate) fn is_separator(line: &[u8]) -> bool {
    let is_time =
        |w: &[u8]| w[0].is_ascii_digit() && w[1].is_ascii_digit() && w[2] == b':' && w[3].is_ascii_digit();
    line.starts_with(b"From ") && line.len() < 1000 && line.windows(4).any(is_time)
}

/// Without one `>` of a quoted line `>From `.
fn unquoted(line: &[u8]) -> &[u8] {
    let rest = line.trim_ascii_start();
    let marks = line.iter().take_while(|byte| **byte == b'>').count();
    if marks > 0 && rest.len() == line.len() && line[marks..].starts_with(b"From ") {
        &line[1..]
    } else {
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(text: &str, bytes_max: usize) -> Vec<String> {
        let mut mailbox = Mailbox::new(text.as_bytes(), bytes_max);
        let mut found = Vec::new();
        while let Some(message) = mailbox.next_message().unwrap() {
            found.push(String::from_utf8(message).unwrap());
        }
        found
    }

    const FROM: &str = "From a@b Thu Nov 26 10:00:00 2026\n";

    #[test]
    fn messages_begin_at_separators() {
        let text = format!("{FROM}A: 1\n\none\n\n{FROM}B: 2\n\n>From x\n>>From y\nFrom here on\n\n");
        let second = "B: 2\n\nFrom x\n>From y\nFrom here on\n\n";
        assert_eq!(messages(&text, 1000), ["A: 1\n\none\n\n", second]);
        let glued = format!("{FROM}A: 1\n\none\n{FROM}two\n");
        assert_eq!(messages(&glued, 1000).len(), 1, "a separator follows an empty line");
        assert!(messages("", 9).is_empty());
    }

    #[test]
    fn long_messages_are_cut() {
        let text = format!("{FROM}{}\n\n{FROM}b\n", "a".repeat(3 * PIECE_BYTES as usize));
        let found = messages(&text, 100);
        assert_eq!(found, ["a".repeat(100), "b\n".to_owned()]);
    }
}
