//! Clauses that leave open what they name. "If the mailbox is full, try again later" does not say that the mailbox is full, and
//! "this does not mean that the mailbox is full" says less still.
//!
//! Such a clause is read apart from the rest of the text. It names no cause, but what it says of us or of a policy counts.

use super::words::{APART, Words};
use std::ops::Range;

/// Stands before a clause, in any language: "if", "in case", "when".
pub(super) const IF: &str = "if";

/// Stands behind a clause, as conditions do in Japanese, Korean and Turkish.
pub(super) const IF_SO: &str = "ifso";

/// With a "not" beside it, denies the clause behind it: "this does not mean that", "it is not that".
pub(super) const MEAN: &str = "mean";

/// How many words may part "not" from "mean".
const NOT_WORDS: usize = 3;

/// The words before which a word is "if" that means something else in another language: the Spanish "si" is "himself" in Italian
/// and "and" in Romanian, and the Hungarian "ha" is "has" in Spanish. `None` if the word has one meaning only.
pub(super) fn behind_if(word: &str) -> Option<&'static [&'static str]> {
    Some(match word {
        "si" => &[
            "il",
            "el",
            "la",
            "los",
            "las",
            "su",
            "sus",
            "tu",
            "usted",
            "le",
            "les",
            "l",
            "votre",
            "vous",
            "ce",
            "cette",
            "cet",
            "un",
            "une",
            "una",
            "esta",
            "este",
            "ese",
            "esa",
            "aucun",
            "aucune",
            "no",
            "dicha",
            "dicho",
            "nous",
            "utilisateur",
            "boite",
            "compte",
            "destinataire",
            "adresse",
            "buzon",
            "cuenta",
            "usuario",
            "destinatario",
            "direccion",
            "tal",
        ],
        "se" => &[
            "il",
            "lo",
            "l",
            "i",
            "gli",
            "un",
            "uno",
            "questo",
            "questa",
            "tale",
            "o",
            "a",
            "os",
            "as",
            "nao",
            "um",
            "uma",
            "este",
            "non",
            "esse",
            "essa",
            "la",
            "le",
            "sua",
            "seu",
            "suo",
            "vostro",
            "voce",
            "utente",
            "casella",
            "account",
            "indirizzo",
            "destinatario",
            "caixa",
            "conta",
            "usuario",
            "endereco",
        ],
        "s" | "qu" => &["il", "ils"],
        "ha" => &["a", "az", "nem", "egy", "ez", "nincs", "ilyen"],
        "als" => &["het", "de", "dit", "deze", "uw", "er", "u", "je", "geen"],
        "o" => &["ile"],
        _ => return None,
    })
}

/// Whether the word is "if" at the beginning of a sentence or clause, and something else within it, as the Swedish "om" is in
/// Dutch.
pub(super) fn is_if_in_front(word: &str) -> bool {
    matches!(
        word,
        "om" | "caso"
            | "should"
            | "nar"
            | "ja"
            | "kai"
            | "kun"
            | "ak"
            | "ked"
            | "gdy"
            | "once"
            | "poate"
            | "sollte"
            | "sollten"
            | "mocht"
            | "bei"
    )
}

/// Whether the word behind "in", "in the" or the like makes "in case".
pub(super) fn is_case(word: &str) -> bool {
    matches!(
        word,
        "case"
            | "event"
            | "caso"
            | "cas"
            | "caz"
            | "cazul"
            | "fall"
            | "falle"
            | "geval"
            | "tilfalle"
            | "tilfaelde"
            | "tilfelle"
            | "razie"
            | "przypadku"
            | "pripade"
            | "περιπτωση"
    )
}

/// The clauses of a text that leave open what they name.
pub(super) fn clauses(words: &Words) -> Vec<Range<usize>> {
    let marks = words.conditions.iter().map(|at| *at as usize);
    marks.filter_map(|at| clause(words, at)).collect()
}

fn clause(words: &Words, at: usize) -> Option<Range<usize>> {
    let sentence_end = (at..words.len()).find(|at| words.word(*at) == APART).unwrap_or(words.len());
    let breaks = || words.breaks.iter().map(|at| *at as usize);
    match words.word(at) {
        // In "if, however, the mailbox is full", the first comma is not the end.
        IF => {
            let end = breaks().filter(|end| *end > at + 2).min();
            Some(asked_from(words, at)..end.map_or(sentence_end, |end| end.min(sentence_end)))
        }
        IF_SO => {
            let sentence = (0..at).rev().find(|at| words.word(*at) == APART).map_or(0, |at| at + 1);
            Some(
                breaks().filter(|start| *start < at).max().map_or(sentence, |start| start.max(sentence))
                    ..at + 1,
            )
        }
        _ => {
            let near = at.saturating_sub(NOT_WORDS)..(at + NOT_WORDS).min(sentence_end);
            let is_not = |at: usize| matches!(words.word(at), "not" | "no" | "neither" | "nor" | "nobody");
            let is_parted = |other: usize| (other..at).any(|at| words.word(at) == APART);
            near.into_iter().any(|near| is_not(near) && !is_parted(near)).then_some(at..sentence_end)
        }
    }
}

/// The beginning of "we do not know" or the like directly before the "if" at this index, which asks then; otherwise the index.
/// The "if" of a Slavic question stands behind its verb: "exist if mailbox".
fn asked_from(words: &Words, at: usize) -> usize {
    let is_asked = |at: usize| match words.word(at) {
        "know" | "known" | "tell" | "see" | "clear" | "sure" | "find" | "verify" | "possible" | "not"
        | "no" => true,
        "exist" => at > 0 && !matches!(words.word(at - 1), "not" | "no"),
        _ => false,
    };
    let start = (0..at).rev().take_while(|at| is_asked(*at)).last().unwrap_or(at);
    if (start..at).any(|at| matches!(words.word(at), "not" | "no")) { start } else { at }
}
