//! Counts of rows by domain, for a bounded number of domains.

use crate::Class;
use api::Reason;
use engine_proto::limits::DOMAIN_BYTES_MAX;
use hashbrown::HashTable;
use std::cmp::Reverse;
use std::hash::{BuildHasher, RandomState};

/// Maximum number of domains with their own counts. The rows of all others are counted together.
const DOMAINS_MAX: usize = 100_000;
/// Counts of the rows of a domain.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct DomainRows {
    /// All rows.
    pub rows: u64,
    /// Deliverable rows.
    pub deliverable: u64,
    /// Unverifiable rows.
    pub unverifiable: u64,
    /// Rows of the class [`Class::Unknown`], which are not confirmed; also the unverifiable ones.
    pub unknown: u64,
}

/// The domains of a list, numbered by their first appearance. One text contains all names, because they are many and none
/// is ever removed.
#[derive(Debug, Default, Clone)]
pub struct Domains {
    names: String,
    /// The end of each name.
    ends: Vec<u32>,
    numbers: HashTable<u32>,
    keyed: RandomState,
    counts: Vec<DomainRows>,
    others: DomainRows,
}

impl Domains {
    /// The number of domains without their own counts.
    pub const OTHERS: u32 = u32::MAX;

    /// The number of a domain. A new domain gets the next number.
    // The loops over rows of a run and of a join call it. The compiler inlines it by itself only if there is one call.
    #[inline(always)]
    pub fn number(&mut self, domain: &str) -> u32 {
        let hash = self.keyed.hash_one(domain);
        let is_it = |&number: &u32| name(&self.names, &self.ends, number) == domain;
        if let Some(&number) = self.numbers.find(hash, is_it) {
            return number;
        }
        if self.counts.len() >= DOMAINS_MAX {
            return Domains::OTHERS;
        }
        let number = self.counts.len() as u32;
        self.names.push_str(domain);
        self.ends.push(self.names.len() as u32);
        let (names, ends, keyed) = (&self.names, &self.ends, &self.keyed);
        self.numbers.insert_unique(hash, number, |&number| keyed.hash_one(name(names, ends, number)));
        self.counts.push(DomainRows::default());
        number
    }

    /// Counts a row of the domain with this number.
    pub fn count(&mut self, number: u32, reason: Reason) {
        let rows = self.counts.get_mut(number as usize).unwrap_or(&mut self.others);
        rows.rows += 1;
        rows.deliverable += u64::from(reason.deliverable() == Some(true));
        rows.unverifiable += u64::from(reason == Reason::Unverifiable);
        rows.unknown += u64::from(Class::of(reason) == Class::Unknown);
    }

    /// The name of the domain with this number; `None` if it is counted among the others.
    pub fn name(&self, number: u32) -> Option<&str> {
        let is_known = (number as usize) < self.counts.len();
        is_known.then(|| name(&self.names, &self.ends, number))
    }

    /// All domains, those with the most rows first. Of those with the same number of rows, the ones with the fewest deliverable rows come
    /// first, then the order is that of their names.
    pub fn sorted(&self) -> Vec<(&str, DomainRows)> {
        let all =
            (0..).zip(&self.counts).map(|(number, rows)| (name(&self.names, &self.ends, number), *rows));
        let mut all: Vec<(&str, DomainRows)> = all.filter(|(_, rows)| rows.rows > 0).collect();
        all.sort_unstable_by_key(|(name, rows)| (Reverse(rows.rows), rows.deliverable, *name));
        all
    }

    /// The rows of all domains without their own counts.
    pub fn others(&self) -> DomainRows {
        self.others
    }
}

/// A domain for people: `müller.example (xn--mller-kva.example)`. The second form is the one that DNS has. It is always there,
/// because the letters of the first can look like those of another domain.
pub fn domain_text(domain: &str) -> String {
    let has_label = domain.split('.').any(|label| label.starts_with("xn--"));
    let (text, valid) = if has_label { idna::domain_to_unicode(domain) } else { (String::new(), Ok(())) };
    let is_same = valid.is_ok() && idna::domain_to_ascii(&text).is_ok_and(|ascii| ascii == domain);
    if has_label && is_same && text != domain { format!("{text} ({domain})") } else { domain.to_owned() }
}

/// An address for people: as it was given, with the other form of its domain if that has letters outside ASCII. The form with such
/// letters comes first, as in [`domain_text`].
pub fn address_text(address: &str) -> String {
    let Some((local, given)) = address.rsplit_once('@') else { return address.to_owned() };
    let Ok(ascii) = idna::domain_to_ascii(given) else { return address.to_owned() };
    let (unicode, _) = idna::domain_to_unicode(&ascii);
    if domain_text(&ascii) == ascii {
        return address.to_owned();
    }
    format!("{local}@{unicode} ({local}@{ascii})")
}

/// The name of the domain with this number.
fn name<'a>(names: &'a str, ends: &[u32], number: u32) -> &'a str {
    let number = number as usize;
    let begin = number.checked_sub(1).map_or(0, |before| ends[before]);
    &names[begin as usize..ends[number] as usize]
}

// All ends fit into 32 bits.
const _: () = assert!(DOMAINS_MAX * DOMAIN_BYTES_MAX < u32::MAX as usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_both_forms_of_a_domain() {
        for (domain, text) in [
            ("example.com", "example.com"),
            ("xn--mller-kva.example", "müller.example (xn--mller-kva.example)"),
            // The first letter is Cyrillic.
            ("xn--pple-43d.com", "аpple.com (xn--pple-43d.com)"),
            ("mail.xn--bcher-kva.example", "mail.bücher.example (mail.xn--bcher-kva.example)"),
            // No label that decodes, or that is the form of its own text.
            ("xn--a.example", "xn--a.example"),
            ("xn--example-.com", "xn--example-.com"),
        ] {
            assert_eq!(domain_text(domain), text);
        }
    }

    #[test]
    fn people_read_both_forms_of_the_domain_of_an_address() {
        let both = "info@müller.example (info@xn--mller-kva.example)";
        for (address, text) in [
            ("info@müller.example", both),
            ("info@xn--mller-kva.example", both),
            ("Joe@Example.com", "Joe@Example.com"),
            ("no address", "no address"),
            ("a@xn--a.example", "a@xn--a.example"),
        ] {
            assert_eq!(address_text(address), text);
        }
    }

    #[test]
    fn domains_with_as_many_rows_begin_with_those_that_need_a_look() {
        let mut domains = Domains::default();
        for (domain, reasons) in [
            ("z.example", [Reason::MailboxExists, Reason::MailboxExists]),
            ("c.example", [Reason::MailboxExists, Reason::Unverifiable]),
            ("b.example", [Reason::MailboxNotFound, Reason::MailboxExists]),
            ("y.example", [Reason::Unverifiable, Reason::MailboxNotFound]),
        ] {
            let number = domains.number(domain);
            reasons.into_iter().for_each(|reason| domains.count(number, reason));
        }
        let number = domains.number("most.example");
        (0..3).for_each(|_| domains.count(number, Reason::MailboxExists));
        let names: Vec<&str> = domains.sorted().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["most.example", "y.example", "b.example", "c.example", "z.example"]);
    }

    #[test]
    fn the_first_domains_are_told_apart() {
        let mut domains = Domains::default();
        for n in 0..DOMAINS_MAX + 2 {
            let number = domains.number(&format!("d{n}.example"));
            domains.count(number, Reason::Unverifiable);
        }
        let number = domains.number("d7.example");
        domains.count(number, Reason::MailboxExists);
        let sorted = domains.sorted();
        assert_eq!(sorted.len(), DOMAINS_MAX);
        assert_eq!(
            sorted[0],
            ("d7.example", DomainRows { rows: 2, deliverable: 1, unverifiable: 1, unknown: 1 })
        );
        assert_eq!(domains.others(), DomainRows { rows: 2, deliverable: 0, unverifiable: 2, unknown: 2 });
    }
}
