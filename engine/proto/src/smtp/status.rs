//! Finds enhanced status codes (RFC 3463, RFC 5248) in the text of a reply, and compares them with its reply code.
//!
//! RFC 2034 puts the code directly after the reply code. Many servers put it elsewhere ("#5.1.0 Address rejected", "User unknown
//! (#5.1.1)", "rejected: 5.7.1 ..."), and many texts have dotted numbers that are not codes: IP addresses, versions, sizes, local
//! parts. So a number counts as a code only if it is a separate word, its class agrees with the reply code (RFC 2034 4), and no
//! word beside it shows that it is something else. The first such number counts.

use crate::limits::STATUS_SUBJECT_MAX;
use crate::smtp::reply::Reply;
use std::fmt;

/// An enhanced status code, `class.subject.detail`, such as 5.1.1 (RFC 3463 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EnhancedCode {
    /// The class: 2 for success, 4 for a transient failure, 5 for a permanent one.
    pub class: u8,
    /// The subject, from 0 to [`STATUS_SUBJECT_MAX`] (RFC 3463 3).
    pub subject: u16,
    /// The detail, 0 to 999.
    pub detail: u16,
}

/// A dotted number after one of these words is a version, an address or a name, and not a code.
const NOT_AFTER: &str = "version ver v release rev build exim postfix sendmail smtpd esmtp qmail milter ip user mailbox \
    account recipient address addr";

/// A dotted number before one of these words is a size or a time, and not a code.
const NOT_BEFORE: &str = "b byte bytes k kb kib m mb mib gb s seconds";

impl EnhancedCode {
    /// Makes a code from its three numbers.
    pub const fn new(class: u8, subject: u16, detail: u16) -> EnhancedCode {
        EnhancedCode { class, subject, detail }
    }

    /// The first code in the text of the reply that agrees with the reply code.
    pub fn find(reply: &Reply) -> Option<EnhancedCode> {
        EnhancedCode::find_in(reply.text(), reply.code())
    }

    /// Like [`EnhancedCode::find`], for a text and a reply code.
    pub fn find_in(text: &str, reply_code: u16) -> Option<EnhancedCode> {
        let bytes = text.as_bytes();
        let mut at = 0;
        while let Some(dot) = memchr::memchr(b'.', &bytes[at..]).map(|found| at + found) {
            at = dot + 1;
            let Some(start) = dot.checked_sub(1) else { continue };
            let Some((code, end)) = parse_at(bytes, start) else { continue };
            if u16::from(code.class) == reply_code / 100 && stands_alone(text, start, end) {
                return Some(code);
            }
        }
        None
    }
}

impl fmt::Display for EnhancedCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.class, self.subject, self.detail)
    }
}

/// Parses the code that has its class digit at `start` and a dot after it. Returns the code and the index after it.
fn parse_at(bytes: &[u8], start: usize) -> Option<(EnhancedCode, usize)> {
    let class = match bytes[start] {
        digit @ (b'2' | b'4' | b'5') => digit - b'0',
        _ => return None,
    };
    let (subject, at) = number(bytes, start + 2)?;
    if bytes.get(at) != Some(&b'.') || subject > STATUS_SUBJECT_MAX {
        return None;
    }
    let (detail, end) = number(bytes, at + 1)?;
    Some((EnhancedCode { class, subject, detail }, end))
}

/// Parses a number of one to three digits at `start`. Returns the number and the index after it.
fn number(bytes: &[u8], start: usize) -> Option<(u16, usize)> {
    let digits = bytes.get(start..)?.iter().take(4).take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 || digits > 3 {
        return None;
    }
    let value = bytes[start..start + digits].iter().fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'));
    Some((value, start + digits))
}

fn stands_alone(text: &str, start: usize, end: usize) -> bool {
    let bytes = text.as_bytes();
    let (before, after) = (&bytes[..start], &bytes[end..]);
    begins_a_word(before) && ends_a_word(after) && !is_number_of_something(before, after)
}

fn begins_a_word(before: &[u8]) -> bool {
    match before.last() {
        None => true,
        // "550-5.1.1" occurs in a text that quotes the reply of another server. "pool-5.1.1" is a name.
        Some(b'-') => {
            let digits = before[..before.len() - 1].iter().rev().take_while(|b| b.is_ascii_digit()).count();
            let lead = before.len() - 1 - digits;
            digits == 3 && (lead == 0 || !before[lead - 1].is_ascii_alphanumeric())
        }
        Some(byte) => byte.is_ascii_whitespace() || b"#([{:;,=|\"".contains(byte),
    }
}

fn ends_a_word(after: &[u8]) -> bool {
    let run = after.iter().take_while(|byte| is_address_byte(**byte)).count();
    // Before an `@`, the number belongs to a local part.
    if after.get(run) == Some(&b'@') {
        return false;
    }
    match after.first() {
        None => true,
        // A dot may end a sentence. With a letter or digit after it, the number is part of an IP address or a host name.
        Some(b'.') => !after.get(1).is_some_and(|byte| byte.is_ascii_alphanumeric()),
        Some(byte) => !byte.is_ascii_alphanumeric() && !b"_/%+>".contains(byte) && byte.is_ascii(),
    }
}

fn is_address_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b".!#$%&'*+/=?^_`{|}~-".contains(&byte) || !byte.is_ascii()
}

fn is_number_of_something(before: &[u8], after: &[u8]) -> bool {
    let plain = before.last().is_some_and(|byte| byte.is_ascii_whitespace() || *byte == b'=');
    let word_before = word(before.trim_ascii_end().rsplit(|byte| !byte.is_ascii_alphanumeric()).next());
    let word_after = match after.first() {
        Some(b' ' | b'\t' | b'\n') => {
            word(after.trim_ascii_start().split(|byte| !byte.is_ascii_alphanumeric()).next())
        }
        _ => "",
    };
    let is_in = |word: &str, list: &str| list.split(' ').any(|entry| entry.eq_ignore_ascii_case(word));
    (plain && is_in(word_before, NOT_AFTER)) || is_in(word_after, NOT_BEFORE)
}

fn word(bytes: Option<&[u8]>) -> &str {
    bytes.and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(code: u16, text: &str, expected: Option<(u8, u16, u16)>) {
        let expected = expected.map(|(class, subject, detail)| EnhancedCode { class, subject, detail });
        assert_eq!(EnhancedCode::find(&Reply::new(code, text)), expected, "{code} {text:?}");
    }

    #[test]
    fn codes_are_found_where_servers_put_them() {
        check(550, "5.1.1 no such user", Some((5, 1, 1)));
        check(550, "5.1.1", Some((5, 1, 1)));
        check(550, "#5.1.0 Address rejected.", Some((5, 1, 0)));
        check(550, "sorry, no mailbox here by that name (#5.1.1)", Some((5, 1, 1)));
        check(550, "(5.1.1) unknown", Some((5, 1, 1)));
        check(550, "[5.1.1] unknown", Some((5, 1, 1)));
        check(554, "rejected: 5.7.1 spam", Some((5, 7, 1)));
        check(550, "host mx.example.com said: 550-5.1.1 gone", Some((5, 1, 1)));
        check(550, "5.7.606 Access denied", Some((5, 7, 606)));
        check(450, "4.7.1: try later", Some((4, 7, 1)));
        check(550, "first line\n5.2.1 second", Some((5, 2, 1)));
        check(550, "It is over, 5.2.2.", Some((5, 2, 2)));
        check(250, "2.1.5 Ok", Some((2, 1, 5)));
    }

    #[test]
    fn the_class_must_agree_with_the_reply_code() {
        check(550, "4.2.2 full", None);
        check(450, "5.1.1 no", None);
        check(550, "4.2.2 then 5.2.2", Some((5, 2, 2)));
        check(550, "3.1.1 no", None);
    }

    #[test]
    fn numbers_that_are_no_code_are_let_be() {
        for text in include_str!("../../testdata/no_codes.txt").lines().skip(1).chain([""]) {
            check(550, text, None);
        }
    }

    proptest! {
        #[test]
        fn the_finder_never_panics(code in 200u16..600, text in ".{0,200}") {
            let _ = EnhancedCode::find_in(&text, code);
        }

        #[test]
        fn the_finder_never_panics_on_what_looks_like_codes(code in 200u16..600, text in "[0-9.@<># \n-]{0,60}") {
            if let Some(found) = EnhancedCode::find_in(&text, code) {
                prop_assert_eq!(u16::from(found.class), code / 100);
            }
        }

        #[test]
        fn a_code_up_front_is_always_found(class in prop::sample::select(vec![2u8, 4, 5]), subject in 0u16..=7, detail in 0u16..1000, text in "[a-z]{3,9} [a-z ]{0,20}") {
            let code = EnhancedCode { class, subject, detail };
            prop_assume!(!NOT_BEFORE.split(' ').any(|word| Some(word) == text.split(' ').next()));
            prop_assert_eq!(EnhancedCode::find_in(&format!("{code} {text}"), u16::from(class) * 100 + 50), Some(code));
        }
    }
}
