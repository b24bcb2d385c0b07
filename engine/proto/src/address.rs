//! Mail addresses: RFC 5321 4.1.2 with RFC 6531 and IDNA.

/// A mail address that obeys the grammar.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    local: Box<str>,
    domain: Domain,
}

/// A domain in A-label form, lower case, without a root dot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Domain(Box<str>);

impl Address {
    /// The local part as given, quotes included.
    pub fn local(&self) -> &str {
        &self.local
    }

    /// The domain.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }
}

impl Domain {
    /// The A-label form.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
