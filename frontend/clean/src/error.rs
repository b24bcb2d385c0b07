//! The errors of `mailprobe clean`.

use lists::ListError;
use spill::SpillError;
use std::fmt;
use std::io::ErrorKind;
use std::path::Path;

/// The reason why a list was not cleaned: one line that says what is wrong and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CleanError {
    /// The exit code: 1 for a failure, 2 for wrong usage, also for a named file that cannot be used.
    pub exit: u8,
    /// The message: one line.
    pub message: String,
}

impl CleanError {
    /// A failure: exit code 1.
    pub fn failed(message: impl Into<String>) -> CleanError {
        CleanError { exit: 1, message: message.into() }
    }

    /// Wrong arguments, or a list that does not fit them: exit code 2.
    pub fn usage(message: impl Into<String>) -> CleanError {
        CleanError { exit: 2, message: message.into() }
    }

    /// A file, or the stream with this name, cannot be written.
    pub(super) fn unwritable(path: &Path, why: impl fmt::Display) -> CleanError {
        CleanError::failed(format!("{} cannot be written: {why}", path.display()))
    }

    /// A file that the option `flag` names cannot be opened for writing. Nothing was checked yet.
    pub(super) fn unopenable(flag: &str, path: &Path, error: &std::io::Error) -> CleanError {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = folder.display();
        CleanError::usage(match folder.metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                format!("the folder {name} does not exist: create it, or name another file with {flag}")
            }
            Ok(found) if !found.is_dir() => format!("{name} is no folder: name another file with {flag}"),
            _ => format!("{} cannot be written: {error}: name another file with {flag}", path.display()),
        })
    }

    /// The option `flag` names a folder in place of a file.
    pub(super) fn is_folder(flag: &str, path: &Path) -> CleanError {
        CleanError::usage(format!(
            "{} cannot be written: it is a folder; name a file with {flag}",
            path.display()
        ))
    }

    /// A file that the command line names cannot be read from its beginning, or is no list. Nothing was checked yet.
    pub(super) fn unopened(error: ListError) -> CleanError {
        match error {
            ListError::Unreadable(message) => CleanError::usage(message),
            error => error.into(),
        }
    }

    /// A file cannot be read.
    pub(super) fn unreadable(path: &Path, error: &std::io::Error) -> CleanError {
        CleanError::failed(format!("{} cannot be read: {error}", path.display()))
    }

    /// The error with this text at its end.
    #[must_use]
    pub(super) fn with(mut self, more: &str) -> CleanError {
        self.message += more;
        self
    }
}

impl fmt::Display for CleanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CleanError {}

impl From<SpillError> for CleanError {
    fn from(error: SpillError) -> CleanError {
        CleanError::failed(error.message)
    }
}

impl From<ListError> for CleanError {
    fn from(error: ListError) -> CleanError {
        match error {
            ListError::Unreadable(message) | ListError::Machine(message) => CleanError::failed(message),
            ListError::NoList(message) => CleanError::usage(message),
            ListError::NoAddress(message) => CleanError::usage(format!(
                "{message}: name the column of the addresses with --column, or save the list as CSV with a column of addresses"
            )),
            ListError::Column(message) => CleanError::usage(format!(
                "{message}; name one of them, or its number, with --column (once for each column)"
            )),
            ListError::NoHeader(message) => {
                CleanError::usage(format!("{message}; give its number, such as --column 1"))
            }
            ListError::Key(message) => {
                CleanError::usage(format!("{message}; name one of them with --column"))
            }
            ListError::NoColumns(message) => {
                CleanError::usage(format!("{message}: omit --column, or use --format csv"))
            }
        }
    }
}
