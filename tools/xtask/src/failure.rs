//! Why a task failed.

use std::fmt::Display;
use std::path::Path;

/// The description of a failure for the terminal.
#[derive(Debug)]
pub struct Failure(pub String);

impl Failure {
    /// The failure with the words of an error alone.
    pub fn of(error: impl Display) -> Failure {
        Failure(error.to_string())
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure(message)
    }
}

impl From<Failure> for String {
    fn from(failure: Failure) -> String {
        failure.0
    }
}

/// Errors as failures that say what they are about.
pub trait Context<T> {
    /// Makes a failure with this name before the error.
    fn about(self, what: impl Display) -> Result<T, Failure>;
    /// Makes a failure with this path before the error.
    fn at(self, path: &Path) -> Result<T, Failure>;
}

impl<T, E: Display> Context<T> for Result<T, E> {
    fn about(self, what: impl Display) -> Result<T, Failure> {
        self.map_err(|error| Failure(format!("{what}: {error}")))
    }

    fn at(self, path: &Path) -> Result<T, Failure> {
        self.about(path.display())
    }
}

/// Returns an error with this text unless the condition holds, from a function whose error is a [`Failure`] or a text.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err(format!($($text)+).into());
        }
    };
}
pub(crate) use ensure;

/// The result of a thread that has ended. A panic is a failure, with the name of the thread.
pub fn thread_result<T>(ended: std::thread::Result<Result<T, Failure>>, name: &str) -> Result<T, Failure> {
    ended.unwrap_or_else(|_| Err(Failure(format!("{name} panicked"))))
}
