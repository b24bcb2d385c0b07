//! Who may ask for a page, and what is read of the body.

/// Who may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Anybody; a form has the token of a session, or of a visitor without one.
    Anybody,
    /// Whoever has signed in; a form has the session's token.
    SignedIn,
}

/// What is read of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// Nothing.
    None,
    /// The fields of a form, whose origin and token are checked before the handler runs.
    Form {
        /// The longest that is read.
        bytes_max: usize,
    },
    /// A form with a file, which the handler takes in as it comes; the handler checks its token.
    Upload,
}
