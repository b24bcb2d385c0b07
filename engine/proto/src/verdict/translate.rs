//! Translates words of other languages into English, with the dictionary data/words.txt: the phrases by which replies are
//! classified are in English.
//!
//! Each known word is replaced by its meaning, and the order of the words stays the same: "Der Benutzer ist hier nicht bekannt"
//! becomes "mailbox not known". So one phrase serves all languages.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::LazyLock;

/// A map with words of this program as its keys. Text from mail servers is only looked up and never added, so a simple hash is
/// safe.
pub(super) type WordMap<T> = HashMap<&'static str, T, BuildHasherDefault<WordHasher>>;

/// The hash FNV-1a, which is fast for short words.
#[derive(Clone, Copy)]
pub(super) struct WordHasher(u64);

impl Default for WordHasher {
    fn default() -> WordHasher {
        WordHasher(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for WordHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        // The table takes its buckets from the low bits and its tags from the high bits, so the high bits are mixed into the low
        // ones.
        self.0 ^ (self.0 >> 29)
    }
}

/// The words of other languages and their meanings.
const WORDS: &str = include_str!("../../data/words.txt");

/// The shortest beginning, in bytes, by which a word is recognized.
const PREFIX_BYTES_MIN: usize = 5;

#[derive(Default)]
struct Dictionary {
    exact: WordMap<&'static str>,
    /// The meanings of words by their beginnings.
    prefixes: WordMap<&'static str>,
    prefix_bytes_max: usize,
    /// Forms that are found inside runs of characters without spaces.
    runs: WordMap<&'static str>,
    run_chars_max: usize,
}

static DICTIONARY: LazyLock<Dictionary> = LazyLock::new(|| {
    let mut dictionary = Dictionary::default();
    for (meaning, form) in entries(WORDS) {
        if form.starts_with(is_unspaced) {
            dictionary.run_chars_max = dictionary.run_chars_max.max(form.chars().count());
            dictionary.runs.insert(form, meaning);
        } else if let Some(prefix) = form.strip_suffix('*') {
            dictionary.prefix_bytes_max = dictionary.prefix_bytes_max.max(prefix.len());
            dictionary.prefixes.insert(prefix, meaning);
        } else {
            dictionary.exact.insert(form, meaning);
        }
    }
    dictionary
});

/// All pairs of a meaning and a foreign word, or its beginning, in a file of words. The meaning is empty for words without one,
/// such as articles.
pub(super) fn entries(words: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = words.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(" = ")).flat_map(|(meaning, forms)| {
        let meaning = if meaning == "." { "" } else { meaning };
        forms.split(' ').map(move |form| (meaning, form))
    })
}

/// Whether the character is Chinese, Japanese, Korean or Thai. Such characters are matched in runs, because Chinese, Japanese and
/// Thai have no spaces between words. Korean has spaces, but adds particles to its words without a space.
pub(super) fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{e7f}' | '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}')
}

/// The meaning of a word: empty if the word says nothing, `None` if it is not known.
pub(super) fn meaning(word: &str) -> Option<&'static str> {
    let dictionary = &*DICTIONARY;
    if let Some(meaning) = dictionary.exact.get(word) {
        return Some(meaning);
    }
    let ends = (PREFIX_BYTES_MIN..=word.len().min(dictionary.prefix_bytes_max))
        .rev()
        .filter(|end| word.is_char_boundary(*end));
    ends.into_iter().find_map(|end| dictionary.prefixes.get(&word[..end]).copied())
}

/// The longest known form at the beginning of a run of unspaced characters: its length in bytes and its meaning.
pub(super) fn run_meaning(run: &str) -> Option<(usize, &'static str)> {
    let dictionary = &*DICTIONARY;
    let ends: Vec<usize> =
        run.char_indices().map(|(at, c)| at + c.len_utf8()).take(dictionary.run_chars_max).collect();
    ends.into_iter().rev().find_map(|end| dictionary.runs.get(&run[..end]).map(|meaning| (end, *meaning)))
}

/// Every form that is a whole word, with its meaning.
pub(super) fn exact() -> impl Iterator<Item = (&'static str, &'static str)> {
    DICTIONARY.exact.iter().map(|(form, meaning)| (*form, *meaning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_has_one_meaning() {
        let mut seen = HashMap::new();
        for (meaning, form) in entries(WORDS) {
            assert_eq!(seen.insert(form, meaning), None, "{form}");
            assert!(
                form.trim_end_matches('*').chars().all(char::is_alphanumeric) || form.contains('ー'),
                "{form}"
            );
            let prefix = form.strip_suffix('*');
            assert!(prefix.is_none_or(|prefix| prefix.len() >= PREFIX_BYTES_MIN), "{form} is too short");
        }
        assert!(seen.len() > 1_000);
    }

    #[test]
    fn words_are_found_whole_by_their_beginning_and_in_runs() {
        for (word, expected) in [
            ("benutzer", Some("mailbox")),
            ("benutzers", Some("mailbox")),
            ("пользователя", Some("mailbox")),
            ("die", Some("")),
            ("neexistuje", Some("not exist")),
            ("xyzzy", None),
            ("", None),
        ] {
            assert_eq!(meaning(word), expected, "{word}");
        }
        assert_eq!(run_meaning("收件人不存在"), Some(("收件人".len(), "mailbox")));
        assert_eq!(run_meaning("不存在"), Some(("不存在".len(), "not exist")));
        assert_eq!(run_meaning("龍"), None);
    }
}
