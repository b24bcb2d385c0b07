//! The address of a cell: spreadsheets, directories, mail programs and people write more than the address.
//!
//! `testdata/cells.txt` is the table of what comes off, with examples. The order is:
//!
//! 1. invisible characters anywhere; full-width forms become ASCII, entities (`&lt;`) and `%40` become what they mean
//! 2. markup: tags, links, and a formula with a link ([`markup`]) become the address of the link in angle brackets
//! 3. one after another: the pair of marks around the text, a name before angle brackets, a prefix such as `mailto:`, `SMTP:` or
//!    `E-Mail:`, and at last single marks at the ends that no address has there
//!
//! What is left is the address, letter by letter. A cell with other words has no address: to take the last word of
//! `john smith@b.example` would mean to check the mailbox of another person. If what is left begins with a remnant of a link or with a
//! mark that an address may have, but hardly has ([`is_doubtful`]), it is no address either, and the address without it is a
//! suggestion.

mod markup;

use crate::columns::is_usual;
use engine_proto::address::Address;

/// The result of a look at a cell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CellAddress {
    /// The address, or the first one of several.
    pub address: Option<Address>,
    /// Whether the cell has several addresses.
    pub has_more: bool,
    /// What is perhaps meant, if there is no address.
    pub suggestion: Option<Address>,
}

/// What a text without its marks is.
enum Found {
    Address(Address),
    Doubtful(Option<Address>),
}

/// Longest cell that is examined further if it is no address, in bytes. The longest display name and many addresses fit.
const UNWRAPPED_BYTES_MAX: usize = 4096;
/// How many marks are removed from a cell, one after another.
const MARKS_MAX: usize = 16;
/// Prefixes of addresses in links, directories and headers of messages. The usual names of columns of addresses are others.
const PREFIXES: [&str; 8] = ["mailto", "smtp", "to", "cc", "bcc", "from", "e", "m"];
/// Prefixes of addresses that are no mail addresses. Directories list them beside `SMTP:`.
const FOREIGN: [&str; 14] = [
    "sip", "sips", "xmpp", "im", "eum", "x500", "x400", "spo", "notes", "gwise", "ms", "ccmail", "fax",
    "skype",
];
/// Marks around a text. Their full-width forms are ASCII already.
const PAIRS: [(&str, &str); 25] = [
    ("=\"", "\""),
    ("\\\"", "\\\""),
    ("\\'", "\\'"),
    ("\"", "\""),
    ("'", "'"),
    ("`", "`"),
    ("`", "'"),
    ("*", "*"),
    ("|", "|"),
    ("(", ")"),
    ("[", "]"),
    ("{", "}"),
    ("“", "”"),
    ("„", "“"),
    ("„", "”"),
    ("”", "”"),
    ("«", "»"),
    ("»", "«"),
    ("‘", "’"),
    ("‚", "‘"),
    ("´", "´"),
    ("‹", "›"),
    ("「", "」"),
    ("『", "』"),
    ("【", "】"),
];

/// The address of a cell.
pub(crate) fn in_cell(text: &str) -> CellAddress {
    let ends = [text.as_bytes().first(), text.as_bytes().last()];
    let text = match ends.into_iter().flatten().all(u8::is_ascii_graphic) {
        true => text,
        false => text.trim_matches(|c: char| c.is_whitespace() || is_invisible(c)),
    };
    if text.is_ascii()
        && let Ok(address) = Address::parse(text)
        && !is_doubtful(address.local())
    {
        return CellAddress { address: Some(address), ..CellAddress::default() };
    }
    if text.len() > UNWRAPPED_BYTES_MAX || text.is_empty() {
        return CellAddress::default();
    }
    let visible = markup::without_links(markup::decoded(visible(text)));
    if visible.contains('@') { unwrapped(&visible) } else { CellAddress::default() }
}

/// What the text is, if it is an address. A character that could not be decoded is in no address.
fn parse(text: &str) -> Option<Found> {
    // The international form of a domain would contain such a mark.
    let has_mark =
        |domain: &str| domain.rsplit(['.', '。']).next().is_some_and(|label| label.contains(is_symbol));
    if text.contains(char::REPLACEMENT_CHARACTER) || text.rsplit_once('@').is_some_and(|it| has_mark(it.1)) {
        return None;
    }
    let address = Address::parse(text).ok()?;
    Some(match is_doubtful(address.local()) {
        true => Found::Doubtful(suggestion(text)),
        false => Found::Address(address),
    })
}

/// Whether a local part is more likely a remnant of a link or of marks than the name of a mailbox.
fn is_doubtful(local: &str) -> bool {
    if local.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'+')) {
        // Nearly all addresses end here.
        return after_scheme(local).is_some_and(|rest| !rest.is_empty());
    }
    let is_plain = |c: char| c.is_alphanumeric() || !c.is_ascii() || matches!(c, '"' | '_' | '-' | '+');
    let path = local.rsplit_once('/').map_or("", |(path, _)| path);
    !local.starts_with('"')
        && (!local.starts_with(is_plain)
            || !local.ends_with(is_plain)
            || local.contains(is_symbol)
            || path.contains(['.', '=', '/'])
            || has_prefix(local).is_some()
            || markup::percent_decoded(local).is_some())
}

/// The rest of a local part behind a prefix that has lost its colon, or that ends with an equals sign.
fn has_prefix(local: &str) -> Option<&str> {
    let labelled = || local.split_once('=').filter(|(label, _)| is_prefix(label)).map(|(_, rest)| rest);
    after_scheme(local).or_else(labelled).filter(|rest| !rest.is_empty())
}

fn after_scheme(local: &str) -> Option<&str> {
    local.get(..6).filter(|start| start.eq_ignore_ascii_case("mailto"))?;
    local[6..].strip_prefix(|c: char| !c.is_alphanumeric())
}

/// The address that a doubtful one perhaps means.
fn suggestion(text: &str) -> Option<Address> {
    let (mut local, domain) = text.rsplit_once('@')?;
    let decoded = markup::percent_decoded(local);
    local = decoded.as_deref().unwrap_or(local);
    for _ in 0..MARKS_MAX {
        local = local.trim_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '-' | '+'));
        local = local.rsplit('/').next().unwrap_or_default();
        match has_prefix(local) {
            Some(rest) => local = rest,
            None => break,
        }
    }
    Address::parse(&format!("{local}@{domain}")).ok().filter(|address| !is_doubtful(address.local()))
}

/// Characters that have no width: nobody types them, and copies from web pages and documents contain them.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{0}'..='\u{8}' | '\u{e}'..='\u{1b}' | '\u{7f}'..='\u{84}' | '\u{86}'..='\u{9f}' | '\u{ad}' | '\u{34f}' | '\u{61c}'
        | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Marks beyond ASCII that stand around addresses, such as quotes, bullets and arrows, and pictures. No mailbox has them in its name.
fn is_symbol(c: char) -> bool {
    !c.is_alphanumeric()
        && matches!(c, '\u{80}'..='\u{bf}' | '×' | '÷' | '\u{2000}'..='\u{2bff}' | '\u{2e00}'..='\u{2e7f}' | '\u{3000}'..='\u{303f}'
            | '\u{e000}'..='\u{f8ff}' | '\u{fe10}'..='\u{fe6f}' | '\u{ff00}'..='\u{ffff}' | '\u{1f000}'..='\u{1faff}')
}

/// The text that people see, with ASCII in place of full-width forms.
fn visible(text: &str) -> String {
    let is_foreign = |c: Option<char>| c.is_some_and(|c| !c.is_ascii() && c.is_alphanumeric());
    let (mut before, mut visible) = (None, String::with_capacity(text.len()));
    for (at, c) in text.char_indices() {
        // In scripts that need them, joiners make another name.
        let is_joiner = matches!(c, '\u{200c}' | '\u{200d}')
            && is_foreign(before)
            && is_foreign(text[at + c.len_utf8()..].chars().next());
        match c {
            _ if is_invisible(c) && !is_joiner => continue,
            '\u{ff01}'..='\u{ff5e}' => visible.extend(char::from_u32(u32::from(c) - 0xfee0)),
            '\u{85}' | '\u{2028}' | '\u{2029}' => visible.push('\n'),
            _ if c.is_whitespace() && !c.is_ascii() => visible.push(' '),
            _ => visible.push(c),
        }
        before = Some(c);
    }
    visible
}

/// The address of a cell that has more than an address.
fn unwrapped(text: &str) -> CellAddress {
    let mut doubtful = CellAddress::default();
    let mut text = text.trim();
    for _ in 0..3 {
        match piece(text) {
            Some(Found::Address(address)) => {
                return CellAddress { address: Some(address), ..CellAddress::default() };
            }
            Some(Found::Doubtful(suggestion)) => doubtful.suggestion = doubtful.suggestion.or(suggestion),
            None => {}
        }
        for is_separator in [is_strong_mark as fn(char) -> bool, is_mark, is_mark_or_space] {
            match first_of(text, is_separator) {
                Some(found) if found.address.is_some() => return found,
                Some(found) => doubtful.suggestion = doubtful.suggestion.or(found.suggestion),
                None => {}
            }
        }
        // Brackets may enclose several addresses.
        let inner = |(open, close)| text.strip_prefix(open).and_then(|rest: &str| rest.strip_suffix(close));
        match [('{', '}'), ('[', ']'), ('(', ')')].into_iter().find_map(inner) {
            Some(inner) => text = inner.trim(),
            None => break,
        }
    }
    doubtful
}

/// Separators that occur in no name.
fn is_strong_mark(c: char) -> bool {
    matches!(c, ';' | '|' | '\n' | '\r')
}

fn is_mark(c: char) -> bool {
    is_strong_mark(c) || matches!(c, ',' | '/' | '、')
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
        if matches!(part.trim(), "" | ":::") || foreign(part).is_some() {
            continue;
        }
        match piece(part)? {
            Found::Address(address) => first = first.or(Some(address)),
            Found::Doubtful(suggestion) => return Some(CellAddress { suggestion, ..CellAddress::default() }),
        }
        count += 1;
    }
    Some(CellAddress { address: Some(first?), has_more: count > 1, suggestion: None })
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
fn piece(text: &str) -> Option<Found> {
    let mut text = text.trim();
    for _ in 0..MARKS_MAX {
        if !text.ends_with(is_symbol) {
            text = text.trim_start_matches(is_symbol).trim_start();
        }
        // Spreadsheets write this mark before a text.
        if !text.ends_with('\'') {
            text = text.strip_prefix('\'').unwrap_or(text);
        }
        if let Some(found) = parse(text) {
            return Some(found);
        }
        if let Some(rest) = foreign(text) {
            let Some(Found::Address(address)) = piece(rest) else { return Some(Found::Doubtful(None)) };
            return Some(Found::Doubtful(Some(address)));
        }
        if let Some(inner) = text.strip_prefix('_').and_then(|text| text.strip_suffix('_')) {
            // No domain ends with this mark, so both may be those of emphasis, and the first one also a part of the name.
            return Some(Found::Doubtful(suggestion(inner.trim_matches('_'))));
        }
        text = without_mark(text)?.trim();
    }
    None
}

/// The text behind the prefix of an address that is no mail address.
fn foreign(text: &str) -> Option<&str> {
    let (prefix, rest) = text.trim_start().split_once(':')?;
    FOREIGN.iter().any(|known| known.eq_ignore_ascii_case(prefix)).then_some(rest)
}

fn is_prefix(text: &str) -> bool {
    let text = text.trim();
    PREFIXES.iter().any(|known| known.eq_ignore_ascii_case(text)) || text.len() < 80 && is_usual(text)
}

/// The text without its outermost mark, if it has one.
fn without_mark(text: &str) -> Option<&str> {
    if let Some(inner) = named(text) {
        return Some(inner);
    }
    let inner = |(open, close): &(&str, &str)| text.strip_prefix(*open)?.strip_suffix(*close);
    if let Some(inner) = PAIRS.iter().find_map(inner) {
        return Some(inner);
    }
    if let Some((prefix, rest)) = text.split_once(':').filter(|(prefix, _)| is_prefix(prefix)) {
        let rest = rest.trim_start().trim_start_matches("//");
        return Some(if prefix.eq_ignore_ascii_case("mailto") { markup::target(rest) } else { rest });
    }
    // A comment (RFC 5322 3.2.2).
    if let Some((before, comment)) = text.strip_suffix(')').and_then(|text| text.rsplit_once(" ("))
        && !comment.contains(['@', ')'])
    {
        return Some(before);
    }
    let is_end = |c: char| !c.is_alphanumeric();
    let is_start =
        |c: char| is_symbol(c) || matches!(c, '(' | ')' | '<' | '>' | '[' | ']' | ':' | ';' | ',' | '"');
    text.strip_suffix(is_end).or_else(|| text.strip_prefix(is_start))
}

/// The text in the brackets at the end, if nothing but a name is outside. Several addresses are no name.
fn named(text: &str) -> Option<&str> {
    [('<', '>'), ('(', ')'), ('[', ']')].into_iter().find_map(|(open, close)| {
        let (name, inner) = text.strip_suffix(close)?.rsplit_once(open)?;
        let has_more = |name: &str| pieces(name, is_mark).count() > 1;
        let is_name = match name.contains('@') {
            true => open == '<' && !has_more(name),
            false => !name.is_empty() && inner.contains('@') || open == '<',
        };
        (is_name && !name.contains(['<', '>', open, close])).then_some(inner)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found, as `testdata/cells.txt` shows it.
    fn shown(cell: &str) -> String {
        let text = |address: Option<Address>| address.map(|address| address.as_str().to_owned());
        let CellAddress { address, has_more, suggestion } = in_cell(cell);
        assert!(address.is_none() || suggestion.is_none(), "{cell:?}");
        let more = if has_more { " and more" } else { "" };
        let suggested =
            || text(suggestion).map_or("none".to_owned(), |suggested| format!("none, perhaps {suggested}"));
        text(address).map_or_else(suggested, |address| address + more)
    }

    #[test]
    fn cells_are_unwrapped_as_the_table_says() {
        let (mut wrong, lines) = (Vec::new(), include_str!("../testdata/cells.txt").lines());
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let text: String = serde_json::from_str(&format!("\"{line}\"")).expect(line);
            let (cell, expected) = text.rsplit_once(" -> ").unwrap();
            if shown(cell) != expected {
                wrong.push(format!("{line} | but: {}", shown(cell)));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// The address of a random cell is a part of the cell, and nothing of a name is cut off before or behind it.
    #[test]
    fn no_other_mailbox_is_asked_for() {
        const PIECES: [&str; 46] = [
            "a@b.example",
            "joe@c.example",
            "x",
            "Tom",
            "é",
            ".",
            "-",
            "_",
            "+",
            "/",
            "//",
            "=",
            "'",
            "\"",
            "`",
            "*",
            "|",
            "#",
            "%",
            "%20",
            "%40",
            "%2F",
            "&lt;",
            "&",
            ";",
            ",",
            " ",
            "\n",
            "<",
            ">",
            "(",
            ")",
            "[",
            "]",
            "{",
            "}",
            "mailto:",
            "SMTP:",
            "sip:",
            ":",
            "@",
            "“",
            "•",
            "\u{200b}",
            "＠",
            "=HYPERLINK(\"",
        ];
        let mut random = fastrand::Rng::with_seed(11);
        let mut found = 0;
        for _ in 0..40_000 {
            let (before, behind) = (random.usize(..4), random.usize(..4));
            let mut pick =
                |count| (0..count).map(|_| PIECES[random.usize(..PIECES.len())]).collect::<String>();
            let cell = pick(before) + ["a@b.example", ""][usize::from(before == 3)] + &pick(behind);
            let Some(address) = in_cell(&cell).address else { continue };
            found += 1;
            let text = markup::without_links(markup::decoded(visible(&cell))).to_lowercase();
            let is_whole = |(at, part): (usize, &str)| {
                let (before, behind) =
                    (text[..at].chars().next_back(), text[at + part.len()..].chars().next());
                let is_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '+' | '-');
                !before.is_some_and(is_name) && !behind.is_some_and(char::is_alphanumeric)
            };
            let lower = address.as_str().to_lowercase();
            let mut parts = text.match_indices(&lower);
            // Only the domain is written in another form.
            assert!(
                !address.as_str().is_ascii() || address.as_str().contains("xn--") || parts.any(is_whole),
                "{cell:?}: {address:?}"
            );
        }
        assert!(found > 4000, "{found}");
    }

    #[test]
    fn a_long_cell_has_no_address() {
        assert_eq!(shown(&format!("{} <a@b.example>", "x".repeat(UNWRAPPED_BYTES_MAX))), "none");
    }
}
