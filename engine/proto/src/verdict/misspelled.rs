//! English words as servers misspell them.

use super::words::CANONICAL;

/// Words that servers often misspell.
const MISSPELLED: &str = "recipient mailbox account address unknown invalid unavailable disabled suspended inactive \
    deactivated blocked expired exceeded full";

/// These words with one letter doubled, left out, or swapped with the next one. The first letter stays, and short words are only
/// doubled in a letter, because other changes make other words of them.
pub(super) fn misspelled() -> impl Iterator<Item = (&'static str, &'static str)> {
    MISSPELLED.split(' ').flat_map(|word| {
        let meaning = CANONICAL.get(word).copied().unwrap_or(word);
        let forms = (1..word.len()).flat_map(move |at| {
            let (head, letter, tail) = (&word[..at], &word[at..=at], &word[at + 1..]);
            let (next, rest) = tail.split_at(tail.len().min(1));
            let others = [format!("{head}{tail}"), format!("{head}{next}{letter}{rest}")];
            let others = others.into_iter().filter(|_| word.len() > 6);
            others.chain([format!("{head}{letter}{letter}{tail}")])
        });
        forms.map(move |form| (&*form.leak(), meaning))
    })
}
