//! Local parts: RFC 5321 4.1.2 `Dot-string` and `Quoted-string`, with the UTF-8 that RFC 6531 3.3 adds to both.

use super::AddressError;
use crate::limits::LOCAL_PART_BYTES_MAX;
use std::borrow::Cow;

/// Parses a local part, and returns it with as few quotes and backslashes as possible.
pub(super) fn parse(text: &str) -> Result<Cow<'_, str>, AddressError> {
    if text.is_empty() {
        return Err(AddressError::LocalEmpty);
    }
    if text.len() > LOCAL_PART_BYTES_MAX {
        return Err(AddressError::LocalTooLong);
    }
    match text.strip_prefix('"') {
        Some(rest) => quoted(rest),
        None => dot_string(text).map(|()| Cow::Borrowed(text)),
    }
}

/// Checks that the whole of `text` is a `Dot-string`.
fn dot_string(text: &str) -> Result<(), AddressError> {
    if is_plain(text) {
        return Ok(());
    }
    for atom in text.split('.') {
        if atom.is_empty() {
            return Err(AddressError::LocalDot);
        }
        if !atom.chars().all(is_atext) {
            return Err(AddressError::LocalCharacter);
        }
    }
    Ok(())
}

/// The kinds of bytes in a plain local part.
const ATOM: u8 = 1;
const DOT: u8 = 2;
/// The kind of each byte; zero for a byte that no plain local part has.
const KINDS: [u8; 256] = {
    let mut kinds = [0; 256];
    let mut byte = 0;
    while byte < 128 {
        let letter = byte as u8;
        if letter.is_ascii_alphanumeric() || matches!(letter, b'-' | b'_') {
            kinds[byte] = ATOM;
        }
        byte += 1;
    }
    kinds[b'.' as usize] = DOT;
    kinds
};

/// Whether `text` is a `Dot-string` of ASCII letters, digits, hyphens and underscores. Nearly all local parts are, so this fast
/// check comes before the full one. A table is faster than comparisons.
fn is_plain(text: &str) -> bool {
    let mut before = DOT;
    let good = text.bytes().all(|byte| {
        let kind = KINDS[usize::from(byte)];
        let is_good = kind != 0 && kind & before != DOT;
        before = kind;
        is_good
    });
    good && before != DOT
}

/// Reads a `Quoted-string`. `text` begins after the opening quote.
fn quoted(text: &str) -> Result<Cow<'static, str>, AddressError> {
    let mut content = String::with_capacity(text.len());
    let mut chars = text.chars();
    loop {
        match chars.next() {
            None => return Err(AddressError::LocalQuote),
            Some('"') => break,
            // quoted-pairSMTP: only a printable ASCII character, or a space, may follow the backslash.
            Some('\\') => match chars.next() {
                Some(c @ ' '..='~') => content.push(c),
                Some(_) => return Err(AddressError::LocalCharacter),
                None => return Err(AddressError::LocalQuote),
            },
            Some(c) if is_qtext(c) => content.push(c),
            Some(_) => return Err(AddressError::LocalCharacter),
        }
    }
    if !chars.as_str().is_empty() {
        return Err(AddressError::LocalQuote);
    }
    if dot_string(&content).is_ok() {
        return Ok(Cow::Owned(content));
    }
    let mut quoted = String::with_capacity(content.len() + 2);
    quoted.push('"');
    for c in content.chars() {
        if matches!(c, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted.push('"');
    Ok(Cow::Owned(quoted))
}

/// `atext` of RFC 5322 3.2.3 and the UTF-8 of RFC 6531 3.3.
fn is_atext(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || is_international(c)
}

/// `qtextSMTP` (with the space, but without the tab) and the UTF-8 of RFC 6531 3.3.
fn is_qtext(c: char) -> bool {
    matches!(c, ' ' | '!' | '#'..='[' | ']'..='~') || is_international(c)
}

/// Whether this is a visible character beyond ASCII. RFC 6531 allows all of Unicode. But characters that are invisible, that change
/// the direction of the text, or that have no standard meaning serve only to deceive (RFC 6530 13). The zero-width joiners are
/// allowed, because Persian and the scripts of India need them.
fn is_international(c: char) -> bool {
    let refused = matches!(c,
        '\0'..='\u{9f}'                          // ASCII, and the C1 controls
        | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}' | '\u{200e}' | '\u{200f}'
        | '\u{2028}'..='\u{202e}'                // separators and embeddings
        | '\u{2060}'..='\u{206f}'                // invisible operators and isolates
        | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{ffff}'                // annotations, replacement, noncharacters
        | '\u{fdd0}'..='\u{fdef}'                // noncharacters
        | '\u{e000}'..='\u{f8ff}'                // private use
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}'              // tags and variation selectors
        | '\u{f0000}'..='\u{10ffff}'             // private use
    );
    // The last two code points of each plane are noncharacters.
    !refused && !c.is_whitespace() && u32::from(c) & 0xfffe != 0xfffe
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_plain_is_a_dot_string(text in "[a-zA-Z0-9._-]{1,12}") {
            let atoms = text.split('.').all(|atom| !atom.is_empty());
            prop_assert_eq!(is_plain(&text), atoms);
            prop_assert_eq!(dot_string(&text).is_ok(), atoms);
        }
    }

    #[test]
    fn what_has_other_characters_is_looked_at_again() {
        for text in ["a+b", "a b", "", "a@b", "\u{e4}", "a/b"] {
            assert!(!is_plain(text), "{text:?}");
        }
    }
}
