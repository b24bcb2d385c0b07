//! A reader that gives no more than one row's worth of bytes until it is told that the row has ended.

use std::io::{Error, ErrorKind, Read, Result};

/// Longest row. An opening quote that is never closed would otherwise swallow the rest of the list.
pub const ROW_BYTES_MAX: usize = 1024 * 1024;

/// See the module. What is read ahead counts too, so that a row may be somewhat shorter than the bound.
pub(super) struct Bounded<R> {
    input: R,
    left: usize,
}

impl<R: Read> Bounded<R> {
    pub fn new(input: R) -> Bounded<R> {
        Bounded { input, left: 0 }
    }

    /// A new row begins.
    pub fn refill(&mut self) {
        self.left = ROW_BYTES_MAX;
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
        Ok(count)
    }
}

/// The error for a row without an end.
pub(super) fn too_long() -> Error {
    Error::from(ErrorKind::FileTooLarge)
}

/// Whether it is that error.
pub(super) fn is_too_long(error: &Error) -> bool {
    error.kind() == ErrorKind::FileTooLarge
}
