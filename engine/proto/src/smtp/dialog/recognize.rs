//! What the dialog reads in replies: their codes, their first words, and a few words of greetings.

use crate::smtp::reply::Reply;

/// Words in the greetings of Cisco's appliances and of its cloud service, in lower case.
const CISCO_WORDS: [&str; 3] = ["ironport", "iphmx.com", "cisco"];

/// Whether this code says that the server has executed MAIL, RCPT or RSET. 220 and 221 belong to other commands.
pub(super) fn is_done(code: u16) -> bool {
    code / 100 == 2 && !matches!(code, 220 | 221)
}

/// Whether a 503 with this text is the refusal of a second greeting: it has a word of such refusals, and none of a command in a
/// transaction.
pub(super) fn refuses_greeting(text: &str) -> bool {
    let text = text.to_ascii_uppercase();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    has(&["HELO", "EHLO", "HELLO", "ALREADY", "DUPLICATE", "SEQUENCE"])
        && !has(&["MAIL FROM", "RCPT", "RECIPIENT", "SENDER", "AUTH"])
}

/// The word with which a reply begins, or an empty one. In a reply to EHLO it is the name of the server.
pub(super) fn first_word(reply: &Reply) -> &str {
    reply.text().split_ascii_whitespace().next().unwrap_or_default()
}

/// Whether this is the first word of a reply. This is asked about every reply, so it looks only at as many bytes as the word has.
pub(super) fn begins_with(reply: &Reply, word: &str) -> bool {
    let rest = reply.text().trim_ascii_start().strip_prefix(word);
    rest.is_some_and(|rest| rest.bytes().next().is_none_or(|byte| byte.is_ascii_whitespace()))
}

pub(super) fn names_cisco(greeting: &str) -> bool {
    let greeting = greeting.to_ascii_lowercase();
    CISCO_WORDS.iter().any(|word| greeting.contains(word))
}
