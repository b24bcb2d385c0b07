//! Why a task failed.

/// The description of a failure for the terminal.
#[derive(Debug)]
pub struct Failure(pub String);
