//! Finds the column of a CSV list that holds the addresses, and whether the first record is a header.

use crate::ListError;
use csv::ByteRecord;
use engine_proto::address::Address;

/// The findings from the first records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Columns {
    /// Index of the column of addresses, from 0.
    pub address: usize,
    /// Whether the first record is a header.
    pub header: bool,
    /// Number of columns of the first record.
    pub count: usize,
}

/// Names of columns that hold addresses, in the form of [`normal`], the best first.
const NAMES: &[&str] = &["email", "emailaddress", "mail", "mailaddress", "emails"];
/// A name that is also used for streets: the content decides.
const WEAK_NAME: &str = "address";

/// Finds the column `wanted`, by name or by number from 1. Without `wanted`, finds the column that looks like addresses.
///
/// # Errors
/// There is no such column. The error lists the existing columns.
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
            Ok(number) => Err(ListError::Column(format!(
                "there is no column {number}: the list has {} ({})",
                first.len(),
                names(first)
            ))),
            Err(_) => Err(ListError::Column(format!(
                "there is no column `{wanted}`: the list has {}",
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
        // A single column is the column of addresses.
        None if first.len() == 1 => columns(0, false),
        None => Err(ListError::Column(format!("no column has addresses: the list has {}", names(first)))),
    }
}

/// Whether at least half of the filled values in this column are addresses. The first record may be a header.
fn holds_addresses(sample: &[ByteRecord], at: usize) -> bool {
    let rows = if sample.len() > 1 { &sample[1..] } else { sample };
    let filled: Vec<&[u8]> =
        rows.iter().filter_map(|r| r.get(at)).filter(|f| !f.trim_ascii().is_empty()).collect();
    let addresses = filled.iter().filter(|field| is_address(field)).count();
    addresses > 0 && addresses * 2 >= filled.len()
}

/// Whether the first record is a header: it has no at sign in this column, but a later record has.
fn is_header(sample: &[ByteRecord], at: usize) -> bool {
    let has_at = |record: &ByteRecord| record.get(at).is_some_and(|field| field.contains(&b'@'));
    !has_at(&sample[0]) && sample[1..].iter().any(has_at)
}

/// The text of a field without surrounding white space and byte order marks.
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

/// A column name in lower case and without separators: `E-Mail Address` is `emailaddress`.
pub(super) fn normal(field: &[u8]) -> String {
    let letters = field.iter().filter(|b| !matches!(b, b'-' | b'_' | b' ' | b'\t' | b'.'));
    letters.map(|b| b.to_ascii_lowercase() as char).collect()
}

/// Whether this is a usual name for a column of addresses.
pub(super) fn is_usual_name(field: &[u8]) -> bool {
    let name = normal(field);
    name == WEAK_NAME || NAMES.contains(&name.as_str())
}

/// The first columns, for a message. It omits values that look like addresses.
fn names(first: &ByteRecord) -> String {
    listed(first.iter().map(|field| {
        let name = String::from_utf8_lossy(field);
        if name.contains('@') { "(an address)".to_owned() } else { name.trim().to_owned() }
    }))
}

/// Joins names as `a, b, c`. Long names and long lists are cut.
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
            "there is no column `email`: the list has id, name"
        );
        assert_eq!(said("id,name\n1,Joe", Some("3")), "there is no column 3: the list has 2 (id, name)");
        assert_eq!(said("id,name\n1,Joe", Some("0")), "there is no column 0: the list has 2 (id, name)");
        assert!(said("id,name\n1,Joe", None).ends_with("the list has id, name"));
        assert!(!said("a@b.co,x", Some("email")).contains('@'), "no address in an error");
    }

    #[test]
    fn an_empty_list_is_one() {
        assert_eq!(find(&[], None), Ok(Columns { address: 0, header: false, count: 1 }));
    }
}
