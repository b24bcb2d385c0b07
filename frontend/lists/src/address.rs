//! The address of a cell: spreadsheets, mail programs and people write more than the address.
//!
//! | cell | address |
//! | --- | --- |
//! | ` a@b.example `, with any white space, and with invisible characters anywhere | `a@b.example` |
//! | `Name <a@b.example>`, `"Last, First" <a@b.example>` | the one in the angle brackets |
//! | `mailto:a@b.example?subject=x` | without `mailto:` and the part after `?` |
//! | `"a@b.example"`, `'a@b.example'`, `(a@b.example)`, `[a@b.example]` | without the pair of marks |
//! | `a@b.example,`, `a@b.example;`, `a@b.example.` | without the mark at the end |
//! | `a@b.example; c@d.example`, also separated by `,`, `|`, `/` or white space | the first one, if each piece is an address |
//!
//! A cell with other words has no address. To take the last word of `john smith@b.example` would mean to check the mailbox of
//! another person.

use engine_proto::address::Address;

/// The result of a look at a cell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CellAddress {
    /// The address, or the first one of several.
    pub address: Option<Address>,
    /// Whether the cell has several addresses.
    pub has_more: bool,
}

/// Longest cell that is examined further if it is no address, in bytes. The longest display name and many addresses fit.
const UNWRAPPED_BYTES_MAX: usize = 4096;
/// How many marks are removed from a cell, one after another.
const MARKS_MAX: usize = 8;

/// The address of a cell.
pub(crate) fn in_cell(text: &str) -> CellAddress {
    let text = text.trim_matches(|c: char| c.is_whitespace() || is_invisible(c));
    if text.is_ascii() {
        return match Address::parse(text) {
            Ok(address) => CellAddress { address: Some(address), has_more: false },
            Err(_) => unwrapped(text),
        };
    }
    // Without these characters, the cell is the address that people see.
    let visible: String = text.chars().filter(|&c| !is_invisible(c)).collect();
    match parse(without_typographic_marks(&visible)) {
        Some(address) => CellAddress { address: Some(address), has_more: false },
        None => unwrapped(&visible),
    }
}

/// The address that the text is. A character that could not be decoded is in no address.
fn parse(text: &str) -> Option<Address> {
    if text.contains(char::REPLACEMENT_CHARACTER) {
        return None;
    }
    Address::parse(text).ok()
}

/// Characters that have no width: nobody types them, and copies from web pages and documents contain them.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180e}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}' | '\u{2066}'..='\u{2069}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
}

/// The address of a cell that has more than an address.
fn unwrapped(text: &str) -> CellAddress {
    if !text.contains('@') || text.len() > UNWRAPPED_BYTES_MAX {
        return CellAddress::default();
    }
    if let Some(address) = piece(text) {
        return CellAddress { address: Some(address), has_more: false };
    }
    for is_separator in [is_strong_mark as fn(char) -> bool, is_mark, is_mark_or_space] {
        if let Some(first) = first_of(text, is_separator) {
            return first;
        }
    }
    CellAddress::default()
}

/// Separators that occur in no name.
fn is_strong_mark(c: char) -> bool {
    matches!(c, ';' | '|' | '\n' | '\r' | '；')
}

fn is_mark(c: char) -> bool {
    is_strong_mark(c) || matches!(c, ',' | '/' | '、' | '，')
}

fn is_mark_or_space(c: char) -> bool {
    is_mark(c) || c.is_whitespace()
}

/// The first of several addresses, if each piece between separators is one. Separators in quotes and in angle brackets separate
/// nothing.
fn first_of(text: &str, is_separator: fn(char) -> bool) -> Option<CellAddress> {
    let (mut first, mut count) = (None, 0);
    for part in pieces(text, is_separator) {
        // Google separates the values of a cell by colons.
        if matches!(part.trim(), "" | ":::") {
            continue;
        }
        let address = piece(part)?;
        count += 1;
        if first.is_none() {
            first = Some(address);
        }
    }
    Some(CellAddress { address: Some(first?), has_more: count > 1 })
}

fn pieces(text: &str, is_separator: fn(char) -> bool) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_angled) = (false, false);
    text.split(move |c: char| {
        match c {
            '"' => is_quoted = !is_quoted,
            '<' if !is_quoted => is_angled = true,
            '>' if !is_quoted => is_angled = false,
            _ => {}
        }
        !is_quoted && !is_angled && is_separator(c)
    })
}

/// The one address of a text.
fn piece(text: &str) -> Option<Address> {
    let mut text = text.trim();
    for _ in 0..MARKS_MAX {
        text = without_typographic_marks(text);
        if let Some(address) = parse(text) {
            return Some(address);
        }
        text = without_mark(text)?.trim();
    }
    None
}

/// The text without its outermost mark, if it has one.
fn without_mark(text: &str) -> Option<&str> {
    if let Some(inner) = angled(text) {
        return Some(inner);
    }
    for (open, close) in [('"', '"'), ('\'', '\''), ('(', ')'), ('[', ']')] {
        if let Some(inner) = text.strip_prefix(open).and_then(|rest| rest.strip_suffix(close)) {
            return Some(inner);
        }
    }
    if text.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("mailto:")) {
        let address = &text[7..];
        return Some(address.split_once('?').map_or(address, |(address, _)| address));
    }
    text.strip_suffix([',', ';', '.', ':'])
}

/// The text without marks that the international form of a domain would contain.
fn without_typographic_marks(text: &str) -> &str {
    let text = text.trim_end_matches(['，', '；', '、', '。']);
    let pairs =
        [('“', '”'), ('„', '“'), ('”', '”'), ('«', '»'), ('»', '«'), ('‘', '’'), ('‚', '‘'), ('＜', '＞')];
    let inner = |(open, close)| text.strip_prefix(open).and_then(|rest: &str| rest.strip_suffix(close));
    pairs.into_iter().find_map(inner).unwrap_or(text)
}

/// The text in the angle brackets, if nothing but a name is outside.
fn angled(text: &str) -> Option<&str> {
    let (name, inner) = text.strip_suffix('>')?.rsplit_once('<')?;
    (!name.contains(['<', '>'])).then_some(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cell: &str, expected: Option<&str>) {
        let found = in_cell(cell);
        assert_eq!(found.address.as_ref().map(Address::as_str), expected, "{cell:?}");
        assert!(!found.has_more, "{cell:?}");
    }

    #[test]
    fn cells_are_unwrapped() {
        let a = Some("a@b.example");
        for cell in [
            "a@b.example",
            " a@b.example\t",
            "\u{a0}a@b.example\u{a0}",
            "\u{feff}a@b.example",
            "a@b\u{200b}.example\u{200e}",
            "a\u{ad}@b.example",
            "\u{202a}a@b.example\u{202c}",
            "<a@b.example>",
            "Name <a@b.example>",
            "Näme <a@b.example>",
            "N\u{fffd}me <a@b.example>",
            "\"Last, First\" <a@b.example>",
            "Last, First <a@b.example>",
            "'Name' < a@b.example >,",
            "c@d.example <a@b.example>",
            "mailto:a@b.example",
            "MAILTO:a@b.example?subject=x%20y&body=c@d.example",
            "<mailto:a@b.example>",
            "'a@b.example'",
            "\"a@b.example\"",
            "(a@b.example)",
            "“a@b.example”",
            "a@b.example,",
            "a@b.example;",
            "a@b.example.",
            "a@b.example.; ",
        ] {
            check(cell, a);
        }
        check("\"a b\"@b.example", Some("\"a b\"@b.example"));
        check("ü@b.example", Some("ü@b.example"));
    }

    #[test]
    fn other_cells_have_no_address() {
        for cell in [
            "",
            "nobody",
            "@",
            "a@b",
            "john smith@b.example",
            "write to a@b.example",
            "a@b.example or c@d.example",
            "a@@b.example",
            "m\u{fffd}ller@b.example",
            "<>",
            "<a@b.example",
            "\u{feff}",
        ] {
            check(cell, None);
        }
        check(&format!("{} <a@b.example>", "x".repeat(UNWRAPPED_BYTES_MAX)), None);
    }

    #[test]
    fn the_first_of_several_addresses_counts() {
        for cell in [
            "a@b.example; c@d.example",
            "a@b.example,c@d.example",
            "a@b.example c@d.example",
            "a@b.example\nc@d.example\n",
            "a@b.example | c@d.example | e@f.example",
            "a@b.example ::: c@d.example",
            "\"A, B\" <a@b.example>, C <c@d.example>",
            "A, B <a@b.example>; C <c@d.example>",
            ";a@b.example;;c@d.example;",
        ] {
            let found = in_cell(cell);
            assert_eq!(found.address.as_ref().map(Address::as_str), Some("a@b.example"), "{cell:?}");
            assert!(found.has_more, "{cell:?}");
        }
    }
}
