//! The keys of the file, and the message about one that is unknown.

use super::values::number;
use std::fmt::Display;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use usage::values::grouped_bound;

/// A key and its value, with their positions.
pub type Entry<'t, 'i> = (&'t Spanned<std::borrow::Cow<'i, str>>, &'t Spanned<DeValue<'i>>);

/// An error at a byte of the file.
pub struct Fault {
    /// The position in bytes.
    pub at: usize,
    /// The message.
    pub why: String,
}

/// The tables `[[name]]`, each with its position.
pub fn tables<'t, 'i>(
    name: &str,
    value: &'t Spanned<DeValue<'i>>,
) -> Result<Vec<(usize, &'t DeTable<'i>)>, Fault> {
    let wrong = |at: usize| Fault { at, why: format!("{name}: write each {name} as a table [[{name}]]") };
    let items = value.get_ref().as_array().ok_or_else(|| wrong(value.span().start))?;
    let table = |item: &'t Spanned<DeValue<'i>>| {
        let at = item.span().start;
        item.get_ref().as_table().map(|table| (at, table)).ok_or_else(|| wrong(at))
    };
    items.iter().map(table).collect()
}

/// Parses a number of a table, from `min` to `max`.
pub fn integer<T>(value: &DeValue<'_>, min: T, max: T) -> Result<T, String>
where
    T: TryFrom<u64> + PartialOrd + Display,
{
    match value.as_integer() {
        Some(digits) if digits.radix() == 10 => number(digits.as_str(), min, max),
        _ => Err(format!("must be a number from {} to {}", grouped_bound(&min), grouped_bound(&max))),
    }
}

/// Replaces dashes with underscores: flags have dashes, and users copy them.
pub fn canonical(key: &str) -> String {
    key.replace('-', "_")
}

/// The error for an unknown key.
pub fn unknown<'k>(at: usize, key: &str, known: impl Iterator<Item = &'k str>) -> Fault {
    // The message repeats only printable characters of the key.
    let shown: String = key.chars().filter(|c| !c.is_control()).take(64).collect();
    let known: Vec<&str> = known.collect();
    let near = meant(&canonical(key), &known);
    let near: Vec<String> = near.into_iter().map(|known| format!("`{known}`")).collect();
    let advice = match near.is_empty() {
        true => "docs/configuration.md has all keys".to_owned(),
        false => format!("did you mean {}?", near.join(" or ")),
    };
    Fault { at, why: format!("unknown key `{shown}`; {advice}") }
}

/// Words of other programs for the address of the API.
const LISTEN_WORDS: [&str; 6] = ["port", "host", "bind", "address", "addr", "listen_address"];
/// Largest number of different letters of a key that was probably meant, and largest number of keys in a message.
const LETTERS_MAX: usize = 2;
const MEANT_MAX: usize = 3;

/// The known keys that were probably meant with this one, in the order of the signs: a word of other programs, one wrong letter, the
/// first word of longer keys, two wrong letters, a longer form of a key, and a word of longer keys.
fn meant<'k>(name: &str, known: &[&'k str]) -> Vec<&'k str> {
    let all = |fits: &dyn Fn(&str) -> bool| -> Vec<&'k str> {
        known.iter().copied().filter(|known| fits(known)).take(MEANT_MAX).collect()
    };
    let distance = |known: &str| strsim::damerau_levenshtein(known, name);
    let nearest = known.iter().map(|known| distance(known)).min().filter(|&near| near <= LETTERS_MAX);
    let is_nearest = |known: &str| nearest == Some(distance(known));
    let first_word = format!("{name}_");
    let signs: [&dyn Fn(&str) -> bool; 6] = [
        &|known| known == "listen" && LISTEN_WORDS.contains(&name),
        &|known| nearest == Some(1) && is_nearest(known),
        &|known| known.starts_with(&first_word),
        &is_nearest,
        &|known| name.strip_prefix(known).is_some_and(|rest| rest.starts_with('_')),
        &|known| known.split('_').any(|word| word == name),
    ];
    signs.into_iter().map(all).find(|found| !found.is_empty()).unwrap_or_default()
}
