//! Relative clauses about us. "The account that you are sending to is disabled" is a statement about the account, and "the account
//! that you are sending from is disabled" is one about us.

use super::echo::Echo;
use super::words::{MAILBOX, Words};
use std::ops::Range;

/// A relative clause about us, behind a mailbox, a person or a domain. No phrase begins in it, and it names no party.
pub(super) struct Clause {
    pub(super) range: Range<usize>,
    /// Whether it says that mail comes from there, so that the mailbox is ours.
    pub(super) ours: bool,
}

pub(super) fn clause(words: &Words) -> Option<Clause> {
    (0..words.len()).find_map(|start| clause_at(words, start).or_else(|| clause_before_head(words, start)))
}

/// The clause that begins at this word and ends before a mailbox, as in Chinese: "you send to mailbox". Without "to", the
/// mailbox may be ours.
fn clause_before_head(words: &Words, start: usize) -> Option<Clause> {
    let word = |at: usize| words.word(at);
    let end = start + 1 + (start + 1..).take_while(|at| is_of_clause(word(*at))).count();
    let is_to = |at: usize| {
        matches!(word(at), "contact" | "reach")
            || at + 1 == end && word(at) == "to" && is_sending(word(at - 1))
    };
    let is_clause = matches!(word(start), "you" | "your") && word(end) == MAILBOX;
    (is_clause && (start + 1..end).any(is_to)).then_some(Clause { range: start..end, ours: false })
}

/// The clause that begins at this word: "to which you sent your message", "you tried to reach", "your server sends to".
fn clause_at(words: &Words, start: usize) -> Option<Clause> {
    let word = |at: usize| words.word(at);
    if !(is_preposition(word(start)) || is_relative(word(start)) || matches!(word(start), "you" | "your")) {
        return None;
    }
    let prepositions = (start..).take_while(|at| is_preposition(word(*at))).count();
    let relative = usize::from(is_relative(word(start + prepositions)));
    let from = start + prepositions + relative;
    let is_carrier = |word| matches!(word, "message" | "mail" | "email" | "server" | "system" | "host");
    let of_us = word(from) == "you" || (word(from) == "your" && is_carrier(word(from + 1)));
    let bare = prepositions > 0 && is_sending(word(from));
    if !(relative > 0 || of_us || bare) || !has_head(words, start) {
        return None;
    }
    let end = from + (from..).take_while(|at| is_of_clause(word(*at))).count();
    let away = |at: usize| matches!(word(at), "from" | "of" | "with");
    // In "som du skickar till", the words become "of send to".
    let ours = (prepositions > 0 && away(from - relative - 1) && word(end - 1) != "to")
        || (start..start + prepositions).any(|at| word(at) == "from")
        || (of_us && is_of_sender(word(end)));
    ((from..end).any(|at| is_sending(word(at))) || ours).then_some(Clause { range: start..end, ours })
}

/// Whether a word or an echo directly before the clause is something that mail can be sent to.
fn has_head(words: &Words, start: usize) -> bool {
    let echoed = words.marks.iter().any(|mark| mark.at as usize == start && mark.echo != Echo::Us);
    let before = start.checked_sub(1).map_or("", |at| words.word(at));
    matches!(before, MAILBOX | "domain" | "email" | "person")
        || (echoed && !words.breaks.contains(&(start as u32)))
}

fn is_preposition(word: &str) -> bool {
    matches!(word, "to" | "for" | "on" | "in" | "at" | "of" | "from" | "with")
}

fn is_relative(word: &str) -> bool {
    matches!(word, "which" | "whom" | "who" | "que")
}

fn is_sending(word: &str) -> bool {
    matches!(
        word,
        "reach"
            | "contact"
            | "send"
            | "sent"
            | "sending"
            | "write"
            | "writing"
            | "wrote"
            | "mailing"
            | "deliver"
    )
}

fn is_of_clause(word: &str) -> bool {
    let of_us = matches!(word, "you" | "your" | "server" | "system" | "host" | "message" | "mail" | "email");
    let wish = matches!(
        word,
        "try" | "tried" | "trying" | "want" | "wanted" | "wish" | "attempt" | "attempting" | "attempted"
    );
    of_us || wish || is_sending(word) || is_relative(word) || matches!(word, "to" | "for" | "on")
}

/// Whether the clause goes on as one about a sender: "you are sending from", "you logged in with".
fn is_of_sender(word: &str) -> bool {
    ["from", "with", "as", "using", "use", "used", "through", "via", "own", "claim", "log", "logged", "login"]
        .contains(&word)
        || word.starts_with("auth")
}
