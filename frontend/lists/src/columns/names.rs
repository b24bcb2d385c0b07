//! Names of columns, in the languages of the programs that write lists.

use std::sync::LazyLock;

/// Names of columns that hold addresses, in the form of [`normal`], the best first.
static NAMES: LazyLock<Vec<&str>> = LazyLock::new(|| lines(include_str!("../../data/address_columns.txt")));
/// Other names of columns, in the form of [`normal`]. They show that a row is a header.
static OTHER_NAMES: LazyLock<Vec<&str>> =
    LazyLock::new(|| lines(include_str!("../../data/other_columns.txt")));
/// A name that is also used for streets: the content decides.
const WEAK_NAME: &str = "address";

/// The lines of a table, without its comments.
fn lines(table: &'static str) -> Vec<&'static str> {
    table.lines().filter(|line| !line.starts_with('#')).collect()
}

/// A column name in lower case, without separators and invisible characters: `E-Mail Address:` is `emailaddress`.
pub(crate) fn normal(name: &str) -> String {
    let letters = name.chars().filter(|c| c.is_alphanumeric() || is_combining(*c));
    letters.flat_map(char::to_lowercase).collect()
}

/// Vowel signs of Indian and Thai scripts are no letters of their own.
fn is_combining(c: char) -> bool {
    matches!(c, '\u{900}'..='\u{d7f}' | '\u{e00}'..='\u{e7f}')
}

/// The rank of a usual name of columns of addresses, from 0.
pub(super) fn rank(name: &str) -> Option<usize> {
    let name = normal(name);
    NAMES.iter().position(|known| *known == name)
}

/// Whether this is the name that is also used for streets.
pub(super) fn is_weak(name: &str) -> bool {
    normal(name) == WEAK_NAME
}

/// Whether this is a usual name for a column of addresses.
pub(crate) fn is_usual(name: &str) -> bool {
    is_weak(name) || rank(name).is_some()
}

/// Whether this is a usual name for any column.
pub(super) fn is_common(name: &str) -> bool {
    is_usual(name) || OTHER_NAMES.contains(&normal(name).as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_many_languages_are_known() {
        for name in [
            "email",
            "E-Mail",
            "E-mail:",
            "e-mail address",
            "Email_Address",
            "*Email",
            "E-Mail-Adresse",
            "Correo electrónico",
            "Adresse e-mail",
            "Adresse électronique",
            "メールアドレス",
            "Эл. почта",
            "E-mail 1 - Value",
            "ईमेल",
            "อีเมล",
            "\u{feff}Email\u{200b}",
            "דוא\"ל",
        ] {
            assert!(is_usual(name), "{name}");
        }
        for name in ["", "Email Opt Out", "E-mail 1 - Type", "name", "-"] {
            assert!(!is_usual(name), "{name}");
        }
    }

    #[test]
    fn the_table_has_normal_forms() {
        for name in NAMES.iter().chain(&*OTHER_NAMES) {
            assert_eq!(normal(name), *name);
        }
    }
}
