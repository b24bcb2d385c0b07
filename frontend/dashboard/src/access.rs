//! The access rule of a page, and the kind of body that it reads.

/// The access rule of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everyone. A form carries the token of a session, or of a visitor without a session.
    Anybody,
    /// Signed-in users only. A form carries the token of the session.
    SignedIn,
}

/// The kind of body that a page reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// No body.
    None,
    /// The fields of a form. The origin and the token are checked before the handler runs.
    Form {
        /// Longest body, in bytes.
        bytes_max: usize,
    },
    /// A form with a file. The handler reads the file while it arrives, and checks the token.
    Upload,
}
