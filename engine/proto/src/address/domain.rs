//! Domains: conversion to A-labels by UTS 46, and the registrable domain by the public suffix list.

use super::AddressError;
use crate::limits::{DOMAIN_BYTES_MAX, LABEL_BYTES_MAX};
use crate::public_suffix;
use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};
use std::fmt;
use std::sync::Arc;

/// A domain in A-label form and lower case, with at least two labels and without the dot of the root. A clone shares the text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Domain(Arc<str>);

impl Domain {
    /// Parses a domain in A-labels or U-labels, in any letter case, by UTS 46: non-transitional processing, STD3 rules. Hyphens in
    /// the third and fourth place are allowed, because registries sold such names before `xn--` was invented.
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
        if is_plain(text) {
            check(text)?;
            return Ok(Domain(text.into()));
        }
        Domain::by_uts46(text)
    }

    fn by_uts46(text: &str) -> Result<Domain, AddressError> {
        // The library need not check lengths: `check` does, and reports which limit is exceeded.
        let ascii = Uts46::new()
            .to_ascii(text.as_bytes(), AsciiDenyList::STD3, Hyphens::CheckFirstLast, DnsLength::Ignore)
            .map_err(|_| AddressError::DomainCharacter)?;
        check(&ascii)?;
        Ok(Domain(ascii.into()))
    }

    /// The domain in A-label form and lower case.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text of [`Domain::as_str`], shared and not copied.
    pub(crate) fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }

    /// The registrable domain by the public suffix list: `example.co.uk` for `mail.example.co.uk`. A top-level domain that the list
    /// does not have counts as a suffix. The registrable domain of a suffix is the suffix itself.
    pub fn registrable(&self) -> &str {
        registrable(&self.0)
    }

    /// Whether the host with this name, in lower case, has the same registrable domain as this domain.
    pub fn shares_registrable(&self, host: &str) -> bool {
        self.registrable() == registrable(host)
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
    public_suffix::registrable(name).unwrap_or(name)
}

/// The kinds of bytes in a plain domain.
const LETTER: u8 = 1;
const HYPHEN: u8 = 2;
const DOT: u8 = 4;
/// The kinds that may follow a byte of each kind.
const MAY_FOLLOW: [u8; 5] = {
    let mut follow = [LETTER | HYPHEN | DOT; 5];
    follow[HYPHEN as usize] = LETTER;
    follow[DOT as usize] = LETTER | DOT;
    follow
};
/// The kind of each byte; zero for a byte that no plain domain has.
const KINDS: [u8; 256] = {
    let mut kinds = [0; 256];
    let mut byte = 0;
    while byte < 128 {
        if matches!(byte as u8, b'a'..=b'z' | b'0'..=b'9') {
            kinds[byte] = LETTER;
        }
        byte += 1;
    }
    (kinds[b'-' as usize], kinds[b'.' as usize]) = (HYPHEN, DOT);
    kinds
};

/// Whether UTS 46 certainly leaves the text as it is: each label has only lower-case letters, digits, and single hyphens between
/// them. Such a label cannot be an A-label, because that has two hyphens in a row. The caller still has to [`check`] the text. A
/// table is faster than comparisons.
fn is_plain(text: &str) -> bool {
    let mut before = DOT;
    let good = text.bytes().all(|byte| {
        let kind = KINDS[usize::from(byte)];
        let is_good = kind & MAY_FOLLOW[usize::from(before)] != 0;
        before = kind;
        is_good
    });
    good && before != HYPHEN
}

/// Checks the lengths of the labels and of the domain, the number of labels, and that the last label is not a number.
fn check(ascii: &str) -> Result<(), AddressError> {
    let bytes = ascii.as_bytes();
    let (mut start, mut shortest, mut longest) = (0, usize::MAX, 0);
    for (at, &byte) in bytes.iter().enumerate() {
        if byte == b'.' {
            (shortest, longest) = (shortest.min(at - start), longest.max(at - start));
            start = at + 1;
        }
    }
    let top = &bytes[start..];
    if shortest.min(top.len()) == 0 {
        return Err(AddressError::DomainDot);
    }
    if longest.max(top.len()) > LABEL_BYTES_MAX {
        return Err(AddressError::DomainLabelTooLong);
    }
    if ascii.len() > DOMAIN_BYTES_MAX {
        return Err(AddressError::DomainTooLong);
    }
    if start == 0 {
        return Err(AddressError::DomainOneLabel);
    }
    // RFC 3696 2: no top-level domain is all-numeric, so that no domain can be mistaken for an IPv4 address.
    if top.iter().all(|b| b.is_ascii_digit()) { Err(AddressError::DomainNumeric) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_taken_as_it_stands_is_what_uts_46_makes_of_it(text in "[a-z0-9.-]{1,24}|(xn-{1,2}|[a-z]-?){1,4}\\.[a-z0-9-]{1,4}") {
            if is_plain(&text) {
                prop_assert_eq!(check(&text).map(|()| Domain(text.as_str().into())), Domain::by_uts46(&text));
            }
        }
    }

    #[test]
    fn usual_domains_are_taken_as_they_stand() {
        for (text, plain) in [
            ("example.com", true),
            ("a-b.example.co.uk", true),
            ("1.example", true),
            ("Example.com", false),
            ("xn--bcher-kva.example", false),
            ("ab--c.example", false),
            ("-a.example", false),
            ("a-.example", false),
            ("a.example-", false),
            ("b\u{fc}cher.example", false),
            ("a_b.example", false),
        ] {
            assert_eq!(is_plain(text), plain, "{text}");
        }
    }
}
