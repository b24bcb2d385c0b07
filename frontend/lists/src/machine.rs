//! Errors of this machine: its temporary files, its memory, its disk. They say nothing about the content of a list.

use std::fmt;
use std::io::{Error, ErrorKind};

/// Marks an error, since many errors have no number of the operating system.
#[derive(Debug)]
struct OfMachine(Error);

impl fmt::Display for OfMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for OfMachine {}

/// The error, as one of this machine.
pub(crate) fn of_machine(error: Error) -> Error {
    Error::new(error.kind(), OfMachine(error))
}

/// Whether this machine is the cause of an error.
pub(crate) fn is_of_machine(error: &Error) -> bool {
    error.raw_os_error().is_some()
        || error.kind() == ErrorKind::OutOfMemory
        || error.get_ref().is_some_and(|inner| inner.is::<OfMachine>())
}
