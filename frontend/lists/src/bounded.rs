//! A reader that returns at most the bytes of one row until the caller reports the end of the row.

use crate::machine::is_of_machine;
use std::io::{Error, ErrorKind, Read, Result};

/// Longest row in bytes. Without this limit an unclosed quote would make the rest of the list one row.
pub const ROW_BYTES_MAX: usize = 1024 * 1024;

/// A reader with a limit per row. Bytes read ahead count too, so the effective limit may be somewhat lower.
pub(crate) struct Bounded<R> {
    input: R,
    left: usize,
    has_ended: bool,
    /// The last byte that is not a line end.
    last: u8,
    /// Whether a line end follows it, or nothing was read.
    has_line_end: bool,
}

impl<R: Read> Bounded<R> {
    /// A reader with the full limit for its first row.
    pub fn new(input: R) -> Bounded<R> {
        Bounded { input, left: 0, has_ended: false, last: 0, has_line_end: true }
    }

    /// Resets the limit at the beginning of a row.
    pub fn refill(&mut self) {
        self.left = ROW_BYTES_MAX;
    }

    /// Whether the end of the input was reached.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Whether the last byte so far is a quote, without line ends.
    pub fn ends_with_quote(&self) -> bool {
        self.last == b'"'
    }

    /// Whether the last line so far has its end.
    pub fn ends_with_line(&self) -> bool {
        self.has_line_end
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if self.left == 0 {
            return Err(too_long());
        }
        let room = buffer.len().min(self.left);
        let count = self.input.read(&mut buffer[..room])?;
        self.left -= count;
        self.has_ended |= count == 0 && room > 0;
        let last = buffer[..count].iter().rfind(|byte| !matches!(byte, b'\n' | b'\r'));
        self.last = *last.unwrap_or(&self.last);
        self.has_line_end = buffer[..count].last().map_or(self.has_line_end, |byte| *byte == b'\n');
        Ok(count)
    }
}

/// The error for a row that is too long.
pub(crate) fn too_long() -> Error {
    Error::from(ErrorKind::FileTooLarge)
}

/// Whether this is the error of [`too_long`].
pub(crate) fn is_too_long(error: &Error) -> bool {
    error.kind() == ErrorKind::FileTooLarge && !is_of_machine(error)
}
