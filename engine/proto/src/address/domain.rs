//! Domains: UTS 46 to A-labels, and the registrable domain by the public suffix list.

use super::AddressError;
use crate::limits::{DOMAIN_BYTES_MAX, LABEL_BYTES_MAX};
use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};
use std::fmt;
use std::sync::Arc;

/// A domain in A-label form, lower case, of two labels or more, without a root dot. A clone shares the text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Domain(Arc<str>);

impl Domain {
    /// Parses a domain in A-labels or U-labels, in any case, by UTS 46: non-transitional processing, STD3 rules. Hyphens in
    /// the third and fourth place are allowed, for registries sold such names before `xn--` was thought of.
    ///
    /// # Errors
    /// One of the `Domain...` values of [`AddressError`].
    pub fn parse(text: &str) -> Result<Domain, AddressError> {
        if text.is_empty() {
            return Err(AddressError::DomainEmpty);
        }
        if text.starts_with('[') {
            return Err(AddressError::DomainLiteral);
        }
        // The lengths are checked below, to say which one is broken.
        let ascii = Uts46::new()
            .to_ascii(text.as_bytes(), AsciiDenyList::STD3, Hyphens::CheckFirstLast, DnsLength::Ignore)
            .map_err(|_| AddressError::DomainCharacter)?;
        check(&ascii)?;
        Ok(Domain(ascii.into()))
    }

    /// The A-label form.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text of the A-label form, shared.
    pub(crate) fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }

    /// The domain under which its owner registered it, by the public suffix list: `example.co.uk` for
    /// `mail.example.co.uk`. A top-level domain that the list does not know counts as a suffix; a domain that is
    /// a suffix itself stands for itself.
    pub fn registrable(&self) -> &str {
        registrable(&self.0)
    }

    /// The U-label form, for people to read.
    pub fn to_unicode(&self) -> String {
        idna::domain_to_unicode(&self.0).0
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// [`Domain::registrable`] of any name in lower-case ASCII.
pub(crate) fn registrable(name: &str) -> &str {
    psl::domain_str(name).unwrap_or(name)
}

/// Number, length and last of the labels.
fn check(ascii: &str) -> Result<(), AddressError> {
    if ascii.split('.').any(str::is_empty) {
        return Err(AddressError::DomainDot);
    }
    if ascii.split('.').any(|label| label.len() > LABEL_BYTES_MAX) {
        return Err(AddressError::DomainLabelTooLong);
    }
    if ascii.len() > DOMAIN_BYTES_MAX {
        return Err(AddressError::DomainTooLong);
    }
    let (_, top) = ascii.rsplit_once('.').ok_or(AddressError::DomainOneLabel)?;
    // RFC 3696 2: no top-level domain is all-numeric, so that none is taken for an IPv4 address.
    if top.bytes().all(|b| b.is_ascii_digit()) { Err(AddressError::DomainNumeric) } else { Ok(()) }
}
