//! What the lists say about an address, independently of its check: its suggestion, and whether it is one of a function, a free or a
//! throw-away provider. A row carries these marks before its bytes until it is written.
//!
//! ```text
//! flags (1 byte) | length of the suggestion (2 bytes) | suggestion | the row
//! ```

use crate::{Domains, ResultColumn, Results};
use engine_proto::address::Address;
use engine_proto::lists::Lists;
use std::sync::Arc;

const HAS_ADDRESS: u8 = 1;
const IS_ROLE: u8 = 2;
const IS_FREE: u8 = 4;
const IS_DISPOSABLE: u8 = 8;
const HEADER: usize = 3;

/// Looks addresses up in the lists.
pub struct Marker {
    lists: Arc<Lists>,
    columns: Vec<ResultColumn>,
    /// What the lists say about each domain, by its number in the summary.
    domains: Vec<Option<DomainMarks>>,
    /// The marks and the bytes of the last row.
    row: Vec<u8>,
}

#[derive(Clone)]
struct DomainMarks {
    flags: u8,
    suggestion: Option<Box<str>>,
}

impl Marker {
    /// A marker for these columns.
    pub fn new(lists: Arc<Lists>, columns: &[ResultColumn]) -> Marker {
        Marker { lists, columns: columns.to_vec(), domains: Vec::new(), row: Vec::new() }
    }

    /// Marks a row. `domain` is the number of the domain in the summary. A row without an address may have a suggestion.
    pub fn mark(&mut self, address: Option<(&Address, u32)>, suggestion: Option<&Address>, row: &[u8]) {
        self.row.clear();
        match address {
            None => {
                let wanted = self.columns.contains(&ResultColumn::Suggestion);
                let text = suggestion.filter(|_| wanted).map_or("", Address::as_str);
                self.row.push(0);
                self.row.extend_from_slice(&(text.len() as u16).to_le_bytes());
                self.row.extend_from_slice(text.as_bytes());
            }
            Some((address, domain)) => self.write(address, domain),
        }
        self.row.extend_from_slice(row);
    }

    /// The last row with its marks.
    pub fn row(&self) -> &[u8] {
        &self.row
    }

    fn write(&mut self, address: &Address, domain: u32) {
        let name = address.domain().as_str();
        let slot = usize::try_from(domain).unwrap_or(usize::MAX);
        // Domains without a number of their own are looked up each time.
        if domain != Domains::OTHERS && self.domains.len() <= slot {
            self.domains.resize(slot + 1, None);
        }
        let known = self.domains.get(slot).cloned().flatten();
        let marks = known.unwrap_or_else(|| DomainMarks::of(name, &self.lists, &self.columns));
        let is_role = self.columns.contains(&ResultColumn::Role) && self.lists.is_role(address.local());
        self.row.push(marks.flags | HAS_ADDRESS | if is_role { IS_ROLE } else { 0 });
        let local = address.local();
        let length = marks.suggestion.as_ref().map_or(0, |domain| local.len() + 1 + domain.len());
        self.row.extend_from_slice(&(length as u16).to_le_bytes());
        if let Some(domain) = &marks.suggestion {
            self.row.extend([local.as_bytes(), b"@", domain.as_bytes()].into_iter().flatten());
        }
        if let Some(kept) = self.domains.get_mut(slot) {
            *kept = Some(marks);
        }
    }
}

impl DomainMarks {
    /// Looks up what the columns need.
    fn of(domain: &str, lists: &Lists, columns: &[ResultColumn]) -> DomainMarks {
        let has = |column| columns.contains(&column);
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        DomainMarks {
            flags: flag(has(ResultColumn::Free) && lists.is_free(domain), IS_FREE)
                | flag(
                    has(ResultColumn::Disposable) && lists.listing(domain).settled().is_some(),
                    IS_DISPOSABLE,
                ),
            suggestion: match has(ResultColumn::Suggestion) {
                true => lists.suggest(domain).map(|domain| domain.into()),
                false => None,
            },
        }
    }
}

/// Splits a marked row: what the lists say about its address, and its bytes.
pub fn split(marked: &[u8]) -> (Results<'_>, &[u8]) {
    let Some((&[flags, low, high], rest)) = marked.split_first_chunk::<HEADER>() else {
        return (Results::default(), marked);
    };
    let length = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
    let (suggestion, row) = rest.split_at(length);
    let flag = |flag: u8| (flags & HAS_ADDRESS != 0).then_some(flags & flag != 0);
    let results = Results {
        suggestion: std::str::from_utf8(suggestion).unwrap_or_default(),
        role: flag(IS_ROLE),
        free: flag(IS_FREE),
        disposable: flag(IS_DISPOSABLE),
        ..Results::default()
    };
    (results, row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_come_back() {
        let mut marker = Marker::new(Arc::default(), &ResultColumn::ALL);
        for (n, text, suggestion, flags) in [
            (0, "info@gmail.com", "", [true, true, false]),
            (1, "Joe.X@gmial.com", "Joe.X@gmail.com", [false, false, false]),
            (2, "joe@mailinator.com", "", [false, false, true]),
            (1, "ann@gmial.com", "ann@gmail.com", [false, false, false]),
            (u32::MAX, "ann@gmial.com", "ann@gmail.com", [false, false, false]),
        ] {
            let address = Address::parse(text).unwrap();
            marker.mark(Some((&address, n)), None, b"row");
            let (results, row) = split(marker.row());
            assert_eq!((results.suggestion, row), (suggestion, &b"row"[..]), "{text}");
            assert_eq!([results.role, results.free], [Some(flags[0]), Some(flags[1])], "{text}");
            // The wrong name of a free provider may also be one of throw-away addresses.
            assert!(results.disposable == Some(flags[2]) || text.ends_with("gmial.com"), "{text}");
        }
        marker.mark(None, None, b"row");
        assert_eq!(split(marker.row()), (Results::default(), &b"row"[..]));
        let suggestion = Address::parse("a@b.example").unwrap();
        marker.mark(None, Some(&suggestion), b"row");
        assert_eq!(split(marker.row()).0, Results { suggestion: "a@b.example", ..Results::default() });
        assert_eq!(split(b"x"), (Results::default(), &b"x"[..]));
    }
}
