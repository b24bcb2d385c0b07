//! Which column of a CSV list holds the addresses, and whether the first record is a header.

use crate::ListError;
use csv::ByteRecord;
use engine_proto::address::Address;

/// What was found out from the first records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Columns {
    /// Index of the column of addresses.
    pub address: usize,
    /// The first record names the columns.
    pub header: bool,
    /// How many columns the first record has.
    pub count: usize,
}

/// Names of columns that hold addresses, as [`normal`] has them, the best first.
const NAMES: &[&str] = &["email", "emailaddress", "mail", "mailaddress", "emails"];
/// A name that is used for streets as well: the content decides.
const WEAK_NAME: &str = "address";

/// Finds the column that `wanted` names, by name or by number from 1, or the one that looks like it.
///
/// # Errors
/// When there is no such column; the columns that there are are named.
pub(super) fn find(sample: &[ByteRecord], wanted: Option<&str>) -> Result<Columns, ListError> {
    let Some(first) = sample.first() else {
        return Ok(Columns { address: 0, header: false, count: 1 });
    };
    let columns = |address, header| Ok(Columns { address, header, count: first.len() });
    if let Some(wanted) = wanted {
        let named = first.iter().position(|field| same_name(field, wanted));
        if let Some(at) = named {
            return columns(at, true);
        }
        return match wanted.trim().parse::<usize>() {
            Ok(number) if (1..=first.len()).contains(&number) => {
                columns(number - 1, is_header(sample, number - 1))
            }
            Ok(number) => Err(ListError::column(format!(
                "there is no column {number}: the list has {} ({})",
                first.len(),
                names(first)
            ))),
            Err(_) => Err(ListError::column(format!(
                "there is no column `{wanted}`: the list has {}; name one of them, or its number, with --column",
                names(first)
            ))),
        };
    }
    let named = NAMES.iter().find_map(|name| first.iter().position(|field| normal(field) == *name));
    if let Some(at) = named {
        return columns(at, true);
    }
    if let Some(at) = (0..first.len()).find(|&at| holds_addresses(sample, at)) {
        return columns(at, is_header(sample, at));
    }
    let weak = first.iter().position(|field| normal(field) == WEAK_NAME);
    match weak {
        Some(at) => columns(at, true),
        // A lone column cannot be mistaken for another one.
        None if first.len() == 1 => columns(0, false),
        None => Err(ListError::column(format!(
            "no column looks like addresses: the list has {}; name one of them, or its number, with --column",
            names(first)
        ))),
    }
}

/// Whether half of the records or more have an address there; the first one may be a header.
fn holds_addresses(sample: &[ByteRecord], at: usize) -> bool {
    let rows = if sample.len() > 1 { &sample[1..] } else { sample };
    let filled: Vec<&[u8]> =
        rows.iter().filter_map(|r| r.get(at)).filter(|f| !f.trim_ascii().is_empty()).collect();
    let addresses = filled.iter().filter(|field| is_address(field)).count();
    addresses > 0 && addresses * 2 >= filled.len()
}

/// Whether the first record is a header: it has no at sign where later ones have.
fn is_header(sample: &[ByteRecord], at: usize) -> bool {
    let has_at = |record: &ByteRecord| record.get(at).is_some_and(|field| field.contains(&b'@'));
    !has_at(&sample[0]) && sample[1..].iter().any(has_at)
}

/// The address in a field, without what stands round it.
pub(super) fn trimmed(field: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(field).ok()?;
    Some(text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}'))
}

fn is_address(field: &[u8]) -> bool {
    trimmed(field).is_some_and(|text| Address::parse(text).is_ok())
}

fn same_name(field: &[u8], wanted: &str) -> bool {
    trimmed(field).is_some_and(|name| !name.is_empty() && name.to_lowercase() == wanted.trim().to_lowercase())
}

/// A column's name without what people write it in different ways with: `E-Mail Address` is `emailaddress`.
pub(super) fn normal(field: &[u8]) -> String {
    let letters = field.iter().filter(|b| !matches!(b, b'-' | b'_' | b' ' | b'\t' | b'.'));
    letters.map(|b| b.to_ascii_lowercase() as char).collect()
}

/// Whether a name is one that addresses stand under.
pub(super) fn is_usual_name(field: &[u8]) -> bool {
    let name = normal(field);
    name == WEAK_NAME || NAMES.contains(&name.as_str())
}

/// The first columns, for people to read; values that look like addresses stay unsaid.
fn names(first: &ByteRecord) -> String {
    listed(first.iter().map(|field| {
        let name = String::from_utf8_lossy(field);
        if name.contains('@') { "(an address)".to_owned() } else { name.trim().to_owned() }
    }))
}

/// `a, b, c`, cut after some.
pub(super) fn listed(names: impl Iterator<Item = String>) -> String {
    const SHOWN: usize = 20;
    const LONGEST: usize = 40;
    let shown = |name: String| -> String {
        let clean = name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
        clean.take(LONGEST).collect()
    };
    let all: Vec<String> = names.collect();
    let more = if all.len() > SHOWN { ", ..." } else { "" };
    all.into_iter().take(SHOWN).map(shown).collect::<Vec<_>>().join(", ") + more
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(text: &str) -> Vec<ByteRecord> {
        text.lines().map(|line| ByteRecord::from(line.split(',').collect::<Vec<_>>())).collect()
    }

    #[track_caller]
    fn check(text: &str, wanted: Option<&str>, address: usize, header: bool) {
        let sample = sample(text);
        assert_eq!(find(&sample, wanted), Ok(Columns { address, header, count: sample[0].len() }));
    }

    #[test]
    fn the_column_is_found_by_its_name() {
        for name in ["email", "E-Mail", "e-mail address", "Email_Address", "MAIL", "mail", " Email "] {
            check(&format!("id,{name},x\n1,a@b.co,2"), None, 1, true);
        }
        check("mail,email\nx,a@b.co", None, 1, true);
        check("email", None, 0, true);
        check("id,email\n1,nobody", None, 1, true);
    }

    #[test]
    fn the_column_is_found_by_its_content() {
        check("1,Joe,joe@x.com\n2,Ann,ann@x.com", None, 2, false);
        check("id,name,contact\n1,Joe,joe@x.com\n2,Ann,ann@x.com", None, 2, true);
        check("name,address,contact\nJoe,Main St 1,joe@x.com", None, 2, true);
        check("name,address\nJoe,joe@x.com", None, 1, true);
        check("name,address\nJoe,nobody", None, 1, true);
        check("x@y.com", None, 0, false);
        check("nonsense", None, 0, false);
        check("nonsense\nmore", None, 0, false);
        check("x,a@b.co\ny,\nz,c@d.co\n,broken", None, 1, false);
    }

    #[test]
    fn the_column_can_be_named() {
        check("id,Work Mail,email\n1,a@x.com,b@x.com", Some("work mail"), 1, true);
        check("id,w,email\n1,a@x.com,b@x.com", Some("2"), 1, true);
        check("1,a@x.com,b@x.com\n2,c@x.com,d@x.com", Some("3"), 2, false);
        check("7,2,email\n1,a@x.com,b@x.com", Some("2"), 1, true);
    }

    #[test]
    fn errors_name_the_columns() {
        let said =
            |text: &str, wanted: Option<&str>| find(&sample(text), wanted).expect_err("an error").to_string();
        assert_eq!(
            said("id,name\n1,Joe", Some("email")),
            "there is no column `email`: the list has id, name; name one of them, or its number, with --column"
        );
        assert_eq!(said("id,name\n1,Joe", Some("3")), "there is no column 3: the list has 2 (id, name)");
        assert_eq!(said("id,name\n1,Joe", Some("0")), "there is no column 0: the list has 2 (id, name)");
        assert!(said("id,name\n1,Joe", None).contains("the list has id, name;"));
        assert!(!said("a@b.co,x", Some("email")).contains('@'), "no address in an error");
    }

    #[test]
    fn an_empty_list_is_one() {
        assert_eq!(find(&[], None), Ok(Columns { address: 0, header: false, count: 1 }));
    }
}
