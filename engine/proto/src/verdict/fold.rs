//! Prepares the text of a reply: one spelling of its letters, and no addresses or quoted tokens.

use super::echo::Parties;
use super::translate::is_unspaced;
use crate::limits::{ADDRESS_BYTES_MAX, LOCAL_PART_BYTES_MAX};

/// Converts the text to lower case, with a space for every line end and control character. An apostrophe is removed inside an
/// English word ("doesn't"), and becomes a space between two words of another language ("l'adresse").
pub(super) fn fold(text: &str) -> Vec<u8> {
    let mut folded = String::with_capacity(text.len());
    let (mut after_letter, mut after_unspaced) = (false, false);
    for (at, c) in text.char_indices() {
        // "域名example.com不存在": no space separates an address or a host from the words around it.
        if !folded.is_empty() && is_unspaced(c) != after_unspaced {
            folded.push(' ');
        }
        after_unspaced = is_unspaced(c);
        match c {
            // U+FFFD stands for the apostrophe of Windows-1252 in a text that was decoded as UTF-8 only.
            '\'' | '\u{2019}' | '\u{2018}' | '`' | '\u{b4}' | '\u{fffd}' if after_letter => {
                match ending(&text[at + c.len_utf8()..]) {
                    Ending::None => folded.push(c),
                    Ending::English => {}
                    Ending::Word => folded.push(' '),
                }
            }
            c if c.is_whitespace() || c.is_control() => {
                if !folded.ends_with(' ') {
                    folded.push(' ');
                }
            }
            // The tone marks of Thai.
            '\u{e47}'..='\u{e4e}' => {}
            c if c.is_ascii() => folded.push(c.to_ascii_lowercase()),
            c => folded.extend(c.to_lowercase()),
        }
        after_letter = c.is_alphabetic();
    }
    folded.into_bytes()
}

/// What follows an apostrophe.
enum Ending {
    /// No letter.
    None,
    /// The end of an English word: "doesn't", "user's".
    English,
    /// A word of its own: "l'adresse".
    Word,
}

fn ending(rest: &str) -> Ending {
    let end = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
    let english = ["t", "s", "re", "ve", "ll", "d", "m"];
    match &rest[..end] {
        "" => Ending::None,
        letters if english.iter().any(|known| letters.eq_ignore_ascii_case(known)) => Ending::English,
        _ => Ending::Word,
    }
}

/// Overwrites addresses, and tokens in angle brackets or quotation marks, with spaces. In place of each address, and of each token
/// that names a party, leaves the control character of the echo.
pub(super) fn blank_echoes(text: &mut [u8], parties: &Parties<'_>) {
    let mut at = 0;
    while let Some(sign) = memchr::memchr(b'@', &text[at..]).map(|found| at + found) {
        let start = local_part_start(text, sign);
        let domain = text[sign + 1..].iter().take_while(|byte| is_domain_byte(**byte)).count();
        let end = sign + 1 + domain;
        let echo = parties.of_address(&text[start..end]);
        text[start..end].fill(b' ');
        text[start] = echo.char();
        at = end;
    }
    for (open, close) in [(b'<', b'>'), (b'"', b'"'), (b'\'', b'\'')] {
        blank_tokens(text, open, close, parties);
    }
}

fn local_part_start(text: &[u8], sign: usize) -> usize {
    let before = &text[..sign];
    if before.last() == Some(&b'"')
        && let floor = before.len().saturating_sub(LOCAL_PART_BYTES_MAX + 2)
        && let Some(open) = memchr::memrchr(b'"', &before[floor..before.len() - 1])
    {
        return floor + open;
    }
    sign - before.iter().rev().take_while(|byte| is_local_byte(**byte)).count()
}

fn is_local_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b".!#$%&'*+/=?^_`{|}~-".contains(&byte) || !byte.is_ascii()
}

fn is_domain_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b".-[".contains(&byte) || !byte.is_ascii()
}

/// Overwrites every `open token close` without a space in it. If the token names a party, leaves the control character of the echo.
fn blank_tokens(text: &mut [u8], open: u8, close: u8, parties: &Parties<'_>) {
    let mut at = 0;
    while let Some(start) = memchr::memchr(open, &text[at..]).map(|found| at + found) {
        let rest = text[start + 1..].iter().take(ADDRESS_BYTES_MAX);
        let token = rest.take_while(|byte| ![open, close, b' '].contains(byte)).count();
        let end = start + 1 + token;
        if text.get(end) == Some(&close) {
            let echo = parties.of_token(&text[start + 1..end]);
            text[start..=end].fill(b' ');
            if let Some(echo) = echo {
                text[start] = echo.char();
            }
        }
        at = start + 1;
    }
}
