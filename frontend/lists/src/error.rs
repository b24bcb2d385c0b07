//! Why a list cannot be read.

use crate::machine::is_of_machine;
use std::fmt;
use std::io::ErrorKind;

/// The reason why a list cannot be read, as one line with a remedy. It names columns, but no address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListError {
    /// Reading failed, or the input is not a list.
    Unreadable(String),
    /// This machine has failed: a disk, a temporary file, the memory. It says nothing about the list.
    Machine(String),
    /// The first rows have no address. The caller says how to name the column.
    NoAddress(String),
    /// Plain text has no address: it is no list. The caller may say how to name a column.
    NoList(String),
    /// The column of addresses does not exist, or none looks like it. The caller says where the user names one, or its number.
    Column(String),
    /// The user named a column by its name, and no header is recognized. The caller says where the user gives its number.
    NoHeader(String),
    /// The key of addresses does not exist in a list of JSON objects. The caller says where the user names one.
    Key(String),
    /// The user named a column of a list without columns.
    NoColumns(String),
}

impl ListError {
    pub(crate) fn unreadable(message: impl Into<String>) -> ListError {
        ListError::Unreadable(message.into())
    }

    /// A list, or what is at this place of it, cannot be read.
    pub(crate) fn reading(what: impl fmt::Display, error: &std::io::Error) -> ListError {
        let message = format!("{what}: {error}");
        if is_of_machine(error) {
            return ListError::Machine(message);
        }
        let is_damaged = matches!(
            error.kind(),
            ErrorKind::UnexpectedEof | ErrorKind::InvalidData | ErrorKind::InvalidInput
        );
        let remedy = if is_damaged { "; the file is incomplete or damaged: get it again" } else { "" };
        ListError::Unreadable(message + remedy)
    }
}

impl fmt::Display for ListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListError::Unreadable(message)
            | ListError::Machine(message)
            | ListError::NoAddress(message)
            | ListError::NoList(message)
            | ListError::Column(message)
            | ListError::NoHeader(message)
            | ListError::Key(message)
            | ListError::NoColumns(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for ListError {}
