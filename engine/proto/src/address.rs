//! Mail addresses: the `Mailbox` of RFC 5321 4.1.2. The local part may contain characters beyond ASCII, in UTF-8 (RFC 6531 3.3),
//! and the domain may be in Unicode (UTS 46).
//!
//! Some forms are refused although an RFC allows them:
//! - address literals and domains of one label, because no public mailbox has such an address;
//! - comments, folding white space and obsolete forms, because they belong to message headers (RFC 5322);
//! - domains that end in a dot, or that have a number as their last label.
//!
//! An address is kept in one form: the domain in lower-case A-labels, and the local part with as few quotes and backslashes as
//! possible, as RFC 5321 4.1.2 asks of senders. So `"joe"@Example.COM` and `joe@example.com` are equal.

mod domain;
mod local;
#[cfg(test)]
mod tests;

use crate::limits::{ADDRESS_BYTES_MAX, ADDRESS_INPUT_BYTES_MAX};
pub use domain::Domain;
pub(crate) use domain::registrable;
use std::fmt;

/// A syntactically valid mail address.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The whole address, `local@domain`.
    text: Box<str>,
    domain: Domain,
}

impl Address {
    /// Parses an address. White space around it is an error and is not trimmed.
    ///
    /// # Errors
    /// [`AddressError`] names the first rule that the text breaks.
    pub fn parse(text: &str) -> Result<Address, AddressError> {
        if text.is_empty() {
            return Err(AddressError::Empty);
        }
        if text.len() > ADDRESS_INPUT_BYTES_MAX {
            return Err(AddressError::TooLong);
        }
        // A quoted local part may contain an at sign, and a domain may not. So the last at sign separates them.
        let at = text.bytes().rposition(|byte| byte == b'@').ok_or(AddressError::NoAtSign)?;
        let local = local::parse(&text[..at])?;
        let domain = Domain::parse(&text[at + 1..])?;
        let length = local.len() + 1 + domain.as_str().len();
        if length > ADDRESS_BYTES_MAX {
            return Err(AddressError::TooLong);
        }
        let mut text = String::with_capacity(length);
        text.push_str(&local);
        text.push('@');
        text.push_str(domain.as_str());
        Ok(Address { text: text.into_boxed_str(), domain })
    }

    /// The whole address as it goes into RCPT: the local part, `@`, and the domain in A-labels.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The local part, in quotes only if it needs them. Its letter case is kept.
    pub fn local(&self) -> &str {
        &self.text[..self.text.len() - self.domain.as_str().len() - 1]
    }

    /// The domain, in lower case and A-label form.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// [`Address::as_str`] with its ASCII letters in lower case. Two addresses count as the same if their canonical forms are
    /// equal. RFC 5321 2.4 lets a server distinguish `Joe` from `joe`, but no major provider does. Letters beyond ASCII keep their
    /// case, because only the server can define how to fold it (RFC 6530 10.1).
    pub fn canonical(&self) -> String {
        self.text.to_ascii_lowercase()
    }

    /// Whether mailprobe can ask about the address only at servers that offer SMTPUTF8 (RFC 6531). The local part alone decides
    /// this, because a domain is sent in A-labels.
    pub fn needs_smtputf8(&self) -> bool {
        !self.text.is_ascii()
    }
}

/// Shows only the domain, because an address is personal data and the output of `Debug` ends up in logs.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address(..@{})", self.domain.as_str())
    }
}

/// Why a text is not an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressError {
    /// The text is empty.
    Empty,
    /// There is no at sign.
    NoAtSign,
    /// The address is longer than a path may be (RFC 5321 4.5.3.1.3), or its text is longer than [`ADDRESS_INPUT_BYTES_MAX`].
    TooLong,
    /// The local part is empty.
    LocalEmpty,
    /// The local part is longer than RFC 5321 4.5.3.1.1 allows.
    LocalTooLong,
    /// A dot begins or ends the local part, or follows another dot.
    LocalDot,
    /// The local part has a character that is not allowed, or allowed only in quotes.
    LocalCharacter,
    /// The closing quote of a quoted local part is missing, or more text follows it.
    LocalQuote,
    /// The domain is empty.
    DomainEmpty,
    /// The domain is an address literal, such as `[192.0.2.1]`.
    DomainLiteral,
    /// The domain has one label only.
    DomainOneLabel,
    /// A dot begins or ends the domain, or follows another dot.
    DomainDot,
    /// A label of the domain is longer than RFC 1035 2.3.4 allows.
    DomainLabelTooLong,
    /// The domain is longer than RFC 1035 2.3.4 allows.
    DomainTooLong,
    /// The last label of the domain has only digits.
    DomainNumeric,
    /// The domain has a character or a label that UTS 46 does not allow.
    DomainCharacter,
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AddressError::Empty => "the address is empty",
            AddressError::NoAtSign => "there is no at sign",
            AddressError::TooLong => "the address is longer than 254 bytes",
            AddressError::LocalEmpty => "there is nothing before the at sign",
            AddressError::LocalTooLong => "the part before the at sign is longer than 64 bytes",
            AddressError::LocalDot => {
                "the part before the at sign has a dot at its start, its end or after a dot"
            }
            AddressError::LocalCharacter => "the part before the at sign has a character that is not allowed",
            AddressError::LocalQuote => "the quotes in the part before the at sign do not enclose it",
            AddressError::DomainEmpty => "there is nothing after the at sign",
            AddressError::DomainLiteral => "there is an address literal in place of a domain",
            AddressError::DomainOneLabel => "the domain has no dot",
            AddressError::DomainDot => "the domain has a dot at its start, its end or after a dot",
            AddressError::DomainLabelTooLong => "a label of the domain is longer than 63 bytes",
            AddressError::DomainTooLong => "the domain is longer than 253 bytes",
            AddressError::DomainNumeric => "the domain ends in a number",
            AddressError::DomainCharacter => "the domain has a character or a label that is not allowed",
        })
    }
}

impl std::error::Error for AddressError {}
