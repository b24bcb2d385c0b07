//! Alternatives. A text that names a cause and, behind an "or" or a slash, something else leaves open which of the two it is.
//!
//! If both sides are understood, [`super::lexicon`] compares their causes. If one side is not understood, its words may name any
//! cause at all, so the text proves nothing ([`is_half_understood`]).

use super::words::{APART, MAILBOX, Words};
use std::ops::Range;

/// A cause that a text names, and the range of its words.
#[derive(Debug, Clone)]
pub(super) struct Cause {
    pub(super) kind: Kind,
    pub(super) range: Range<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The mailbox is missing or disabled.
    Gone,
    /// Something is blocked: the mailbox, the sender or the mail.
    Blocked,
    /// The mailbox is full.
    Full,
}

/// The chunk of a text, with "or" for the Dutch "of", and without an "o" that is no "or". `after_comma`: whether the chunk before
/// it ends with a comma.
pub(super) fn spelled_or<'a>(chunk: &'a str, text: &str, after_comma: bool) -> &'a str {
    match chunk {
        "of" if after_comma || is_dutch(text) => "or",
        "(of" if is_dutch(text) => "(or",
        "en/of" => "en/or",
        "o" if is_portuguese(text) => "",
        "ar" if is_lithuanian(text) => "or",
        // "N'existe pas ou plus" is one cause.
        "ou" if text.contains("pas ou plus") => "",
        _ => chunk,
    }
}

/// Whether the "o" of a text is the Portuguese "the" or the Slavic or Romanian "about" or "a", and not the Spanish or Italian "or".
fn is_portuguese(text: &str) -> bool {
    const LETTERS: [char; 10] = ['ę', 'ą', 'ł', 'ż', 'ě', 'ř', 'ů', 'ă', 'ț', 'ș'];
    const WORDS: [&str; 17] = [
        "ário ",
        "ção",
        "não",
        "nao ",
        "nie ",
        "usuário",
        "destinatário",
        "utilizador",
        "endere",
        "mensagem",
        "caixa",
        "domínio",
        "conta ",
        " do ",
        " os ",
        "desativad",
        "erro ",
    ];
    WORDS.iter().any(|word| text.contains(word)) || text.contains(LETTERS)
}

/// Whether the "ar" of a text is the Lithuanian "or", and not the Swedish "är" without its dots.
fn is_lithuanian(text: &str) -> bool {
    const WORDS: [&str; 7] = ["ė", "ų", "vartotoj", "naudotoj", "paskyra", "dezut", "egzistuoja"];
    WORDS.iter().any(|word| text.contains(word))
}

/// Whether the "of" of a text is the Dutch "or": the text has one of these words and beginnings of words.
fn is_dutch(text: &str) -> bool {
    const DUTCH: [&str; 14] = [
        "niet",
        "het ",
        "geen",
        "bestaa",
        "vol of ",
        "uw ",
        "onbeken",
        "gebruiker",
        "ontvanger",
        "afzender",
        "geblok",
        "uitgeschak",
        "vereist",
        "ontbreekt",
    ];
    DUTCH.iter().any(|word| text.contains(word))
}

/// Whether the text has an "or", a slash, a vertical bar or numbers before its parts.
pub(super) fn is_alternative(words: &Words) -> bool {
    let is_numbered = |at: usize| words.word(at) == "2" && (0..at).any(|at| words.word(at) == "1");
    !words.slashes.is_empty() || (0..words.len()).any(|at| is_or(words, at) || is_numbered(at))
}

/// Whether the word is "or". The Spanish one may be "u", which is "you" in Dutch.
fn is_or(words: &Words, at: usize) -> bool {
    let is_state = |at: usize| {
        matches!(
            words.word(at),
            "unknown"
                | "invalid"
                | "exist"
                | "nonexistent"
                | "found"
                | "disabled"
                | "suspended"
                | "full"
                | "blocked"
                | "exceeded"
                | "closed"
                | "policy"
                | "quota"
                | "not"
        )
    };
    words.word(at) == "or" || at > 0 && words.word(at) == "you" && is_state(at - 1)
}

/// Whether an "or" or a slash stands between a cause and words that are not understood and name no cause of the same kind: "user
/// unknown or filtered by rule 7". `is_foreign`: whether the word is not understood.
pub(super) fn is_half_understood(
    words: &Words,
    causes: &[Cause],
    is_foreign: &dyn Fn(usize) -> bool,
) -> bool {
    let sides = Sides { words, causes, is_foreign };
    let is_inside = |at: usize| causes.iter().any(|cause| cause.range.start < at && at + 1 < cause.range.end);
    let is_open_or = |at: usize| {
        let (left, right) = (clause_before(words, at), sentence_from(words, at));
        // "User unknown, tariff unpaid or stamp missing" lists causes, and "User unknown, check the address or call us" has advice.
        let lists_causes = || {
            let is_advice = |at: usize| {
                matches!(
                    words.word(at),
                    MAILBOX | "check" | "verify" | "try" | "contact" | "spelling" | "domain" | "host"
                )
            };
            let sentence = sentence_before(words, left.end)..left.end;
            sentence.start < left.start
                && left.clone().any(is_foreign)
                && !(left.start..right.end).any(is_advice)
                && sides.are_open(&sentence, &right)
        };
        (sides.are_open(&left, &right) || sides.are_unknown_or_cause(&left, &right, 1) || lists_causes())
            && !is_inside(at)
            && !joins_nouns(words, at, at + 1)
    };
    // A slash also joins parts of a name, as in "mx/25". So it counts only close to a cause, and not behind a single unknown word.
    let is_open_slash = |at: usize| {
        let (left, right) = (clause_before(words, at), sentence_from(words, at));
        let close = right.start..right.end.min(at + 4);
        let is_number = |at: usize| words.word(at).starts_with(|c: char| c.is_ascii_digit());
        let is_close = |cause: &Cause| cause.range.end + 1 >= at && !is_number(at - 1);
        sides.causes_in(&left).any(is_close) && sides.are_open(&left, &right) && !joins_nouns(words, at, at)
            || sides.are_unknown_or_cause(&left, &close, 2)
    };
    (0..words.len()).any(|at| is_or(words, at) && is_open_or(at))
        || words.slashes.iter().any(|at| is_open_slash(*at as usize))
}

/// What is known of the two sides of an "or".
struct Sides<'a> {
    words: &'a Words,
    causes: &'a [Cause],
    is_foreign: &'a dyn Fn(usize) -> bool,
}

impl Sides<'_> {
    fn causes_in<'a>(&'a self, side: &'a Range<usize>) -> impl Iterator<Item = &'a Cause> {
        let is_in = |cause: &&Cause| side.start <= cause.range.start && cause.range.end <= side.end;
        self.causes.iter().filter(is_in)
    }

    /// Whether a cause is said of a mailbox. In "or the stamp does not exist", it is said of something else.
    fn is_of_mailbox(&self, cause: &Cause, side: &Range<usize>) -> bool {
        let start = cause.range.start;
        start == side.start
            || !(self.is_foreign)(start - 1)
            || side.clone().any(|at| self.words.word(at) == MAILBOX)
    }

    /// Whether the left side has a cause, and the right one has unknown words or a cause, but no cause of the same kind.
    fn are_open(&self, left: &Range<usize>, right: &Range<usize>) -> bool {
        let alike = |one: Kind, other: Kind| one == other || (one, other) == (Kind::Blocked, Kind::Gone);
        let agrees = |cause: &Cause| self.causes_in(left).any(|one| alike(one.kind, cause.kind));
        self.causes_in(left).next().is_some()
            && (right.clone().any(self.is_foreign) || self.causes_in(right).next().is_some())
            && !self.causes_in(right).any(|cause| agrees(cause) && self.is_of_mailbox(cause, right))
    }

    /// Whether the left side has `least` unknown words and no cause, and the right side has a cause.
    fn are_unknown_or_cause(&self, left: &Range<usize>, right: &Range<usize>, least: usize) -> bool {
        let is_content = |at: &usize| (self.is_foreign)(*at) && !is_noun(self.words.word(*at));
        left.clone().filter(is_content).count() >= least
            && !self.causes_in(left).any(|cause| self.is_of_mailbox(cause, left))
            && self.causes_in(&self.clause_from(right)).next().is_some()
    }

    /// The part of a side up to the next comma or colon.
    fn clause_from(&self, side: &Range<usize>) -> Range<usize> {
        let breaks = self.words.breaks.iter().map(|at| *at as usize).filter(|at| *at > side.start + 1);
        side.start..breaks.min().map_or(side.end, |at| at.min(side.end))
    }
}

/// The words of the clause that ends before this word. A comma, a semicolon or an opening bracket directly before the word is not
/// the end of the clause.
fn clause_before(words: &Words, at: usize) -> Range<usize> {
    let end = if at > 0 && words.word(at - 1) == APART { at - 1 } else { at };
    let clause = words.breaks.iter().map(|at| *at as usize).filter(|at| *at < end).max();
    sentence_before(words, end).max(clause.unwrap_or(0))..end
}

/// The index of the first word of the sentence that this word is in.
fn sentence_before(words: &Words, at: usize) -> usize {
    (0..at).rev().find(|at| words.word(*at) == APART).map_or(0, |at| at + 1)
}

/// The words from this one to the end of the sentence.
fn sentence_from(words: &Words, start: usize) -> Range<usize> {
    let end = (start..words.len()).find(|at| words.word(*at) == APART);
    start..end.unwrap_or(words.len())
}

/// Whether two nouns have one predicate: "no such user or distribution list in our tables". `end`: the index after the first
/// noun, `start`: the index of the second one.
fn joins_nouns(words: &Words, end: usize, start: usize) -> bool {
    let is_end = |at: usize| {
        words.breaks.contains(&(at as u32))
            || matches!(
                words.word(at),
                "" | APART | "or" | "in" | "on" | "at" | "of" | "for" | "with" | "by" | "here"
            )
    };
    let nouns = (start..).take_while(|at| is_noun(words.word(*at))).count();
    end > 0 && is_noun(words.word(end - 1)) && nouns > 0 && is_end(start + nouns)
}

/// Whether the word names something that has an address, or a part of an address.
fn is_noun(word: &str) -> bool {
    matches!(
        word,
        MAILBOX
            | "domain"
            | "name"
            | "host"
            | "email"
            | "person"
            | "list"
            | "mailing"
            | "distribution"
            | "group"
            | "one"
            | "team"
    )
}
