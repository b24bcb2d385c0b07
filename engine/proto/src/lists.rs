//! The built-in lists of disposable domains, free domains and role addresses, the spam traps, and the operator's lists ([`Lists`]).
//! The operator's lists add to the built-in ones, and can exempt domains from them.
//!
//! The built-in lists are compiled in and never copied: the lists of disposable and free domains as hashes, the others as sorted
//! texts. The first lookup in a text makes a hash table of the offsets of its lines. `cargo xtask refresh-lists` writes the lists;
//! docs/lists.md has their sources and sizes.

use crate::limits::{DOMAIN_BYTES_MAX, LOCAL_PART_BYTES_MAX};
use hashbrown::HashTable;
use std::collections::HashSet;
use std::fmt;
use std::sync::OnceLock;

mod hash;
mod operator;
pub use operator::{ListKind, Lists};

static DISPOSABLE: Hashes = Hashes::new(include_bytes!(concat!(env!("OUT_DIR"), "/disposable.hashes")));
static FREE: Hashes = Hashes::new(include_bytes!(concat!(env!("OUT_DIR"), "/free.hashes")));
static ROLE: List = List::new(include_str!("../data/role.txt"));
pub(crate) static TYPO_TARGETS: List = List::new(include_str!("../data/typo_targets.txt"));

/// Whether the domain belongs to a throw-away provider, or is below such a domain, for example `sub.mailinator.com`. Letter case
/// does not matter.
pub fn is_disposable(domain: &str) -> bool {
    let mut rest = domain;
    loop {
        if DISPOSABLE.contains(rest) {
            return true;
        }
        match rest.split_once('.') {
            Some((_, parent)) if parent.contains('.') => rest = parent,
            _ => return false,
        }
    }
}

/// Whether the domain belongs to a free provider, where anyone can get a mailbox. Letter case does not matter.
pub fn is_free(domain: &str) -> bool {
    FREE.contains(domain)
}

/// Whether the local part names a function and not a person, such as `info`. Letter case and a `+tag` do not matter.
pub fn is_role(local: &str) -> bool {
    ROLE.contains(untagged(local))
}

/// A local part without its `+tag`.
fn untagged(local: &str) -> &str {
    local.bytes().position(|byte| byte == b'+').map_or(local, |at| &local[..at])
}

/// The hashes of a list's entries in rising order.
struct Hashes(&'static [[u8; 8]]);

impl Hashes {
    const fn new(bytes: &'static [u8]) -> Hashes {
        Hashes(bytes.as_chunks().0)
    }

    /// Whether the list holds `entry`. Letter case does not matter. A domain that is not on the list has the hash of a listed one
    /// with a probability of 2^-48. Somebody can choose a domain with such a hash, but this changes only the verdicts of that
    /// domain.
    fn contains(&self, entry: &str) -> bool {
        let hash = hash::fnv(entry);
        self.0.binary_search_by(|listed| u64::from_le_bytes(*listed).cmp(&hash)).is_ok()
    }
}

/// The sorted lines of a list in lower-case ASCII. In the file, a header of lines that begin with `#` precedes them.
pub(crate) struct List {
    lines: &'static str,
    /// The offset of each line, by the line's hash.
    starts: OnceLock<HashTable<u32>>,
}

impl List {
    pub(crate) const fn new(text: &'static str) -> List {
        List { lines: hash::below_header(text), starts: OnceLock::new() }
    }

    /// Whether the list holds `entry`. Letter case does not matter.
    pub(crate) fn contains(&self, entry: &str) -> bool {
        let lines = self.lines.as_bytes();
        let matches = |start: &u32| {
            let line = &lines[*start as usize..];
            line.get(..entry.len()).is_some_and(|line| line.eq_ignore_ascii_case(entry.as_bytes()))
                && matches!(line.get(entry.len()), None | Some(b'\n'))
        };
        self.starts.get_or_init(|| self.index()).find(hash(entry), matches).is_some()
    }

    fn index(&self) -> HashTable<u32> {
        let mut starts = HashTable::with_capacity(self.entries().count());
        let mut start = 0;
        for line in self.entries() {
            starts.insert_unique(hash(line), start, |_| unreachable!("there is room for every line"));
            start += line.len() as u32 + 1;
        }
        starts
    }

    /// The entries in order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &'static str> {
        self.lines.lines()
    }
}

/// The hash of an entry in a table of offsets. The lists are part of the program, so no peer can choose entries that collide.
pub(crate) fn hash(text: &str) -> u64 {
    let hash = hash::fnv(text);
    // The table uses the highest bits most, and those of FNV depend very little on the last letters.
    hash ^ hash.rotate_left(32)
}

/// The operator's spam traps: addresses and domains.
#[derive(Clone, Default)]
pub struct SpamTraps {
    entries: HashSet<Box<str>>,
}

/// A line of an operator's file that cannot be read as an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListFault {
    /// The number of the line, from 1.
    pub line: usize,
    /// What is wrong with the line.
    pub problem: &'static str,
}

impl SpamTraps {
    /// Reads one address or domain per line. A `#` at the beginning of a line or after white space begins a comment. A domain
    /// covers all its addresses, but not those of its subdomains.
    ///
    /// # Errors
    /// [`ListFault`] names the first line that cannot be read. Such a line is never skipped, because a mail server would then be
    /// asked about the trap.
    pub fn parse(text: &str) -> Result<SpamTraps, ListFault> {
        let read =
            lines(text).map(|(line, entry)| canonical(entry).map_err(|problem| ListFault { line, problem }));
        Ok(SpamTraps { entries: read.collect::<Result<_, _>>()? })
    }

    /// Whether the address `local@domain` or its domain is a trap. `domain` is in A-label form. The case of ASCII letters does not
    /// matter.
    pub fn matches(&self, local: &str, domain: &str) -> bool {
        if self.entries.is_empty() {
            return false;
        }
        let mut address = format!("{local}@{domain}");
        address.make_ascii_lowercase();
        self.entries.contains(&address[local.len() + 1..]) || self.entries.contains(address.as_str())
    }

    /// Number of entries of the list.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if the list has no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl fmt::Debug for SpamTraps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Spam traps are secret, so they never reach a log.
        write!(f, "SpamTraps({})", self.entries.len())
    }
}

impl fmt::Display for ListFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

impl std::error::Error for ListFault {}

/// The entries of a file with the numbers of their lines, from 1.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.trim_start_matches('\u{feff}').lines().map(|line| without_comment(line).trim());
    (1..).zip(lines).filter(|(_, entry)| !entry.is_empty())
}

fn without_comment(line: &str) -> &str {
    let comment = line.char_indices().find(|&(at, c)| {
        c == '#' && (at == 0 || line[..at].ends_with(|before: char| before.is_whitespace()))
    });
    comment.map_or(line, |(at, _)| &line[..at])
}

/// The entry as [`SpamTraps::matches`] looks for it.
fn canonical(entry: &str) -> Result<Box<str>, &'static str> {
    if entry.contains(char::is_whitespace) {
        return Err("more than one word");
    }
    let (local, domain) = match entry.rsplit_once('@') {
        Some((local, domain)) => (Some(local), domain),
        None => (None, entry),
    };
    let domain = canonical_domain(domain)?;
    match local {
        None => Ok(domain.into()),
        Some(local) if local.is_empty() || local.len() > LOCAL_PART_BYTES_MAX => Err("not an address"),
        Some(local) => Ok(format!("{}@{domain}", local.to_ascii_lowercase()).into()),
    }
}

/// Converts a domain to A-labels in lower case.
fn canonical_domain(entry: &str) -> Result<String, &'static str> {
    match idna::domain_to_ascii_strict(entry) {
        Ok(domain) if domain.contains('.') && domain.len() <= DOMAIN_BYTES_MAX => Ok(domain),
        _ => Err("not a domain"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::public_suffix::{RULES, is_public_suffix, registrable};

    /// The lists from which the hashes were made.
    static DISPOSABLE_TEXT: List = List::new(include_str!("../data/disposable.txt"));
    static FREE_TEXT: List = List::new(include_str!("../data/free.txt"));

    #[test]
    fn no_public_suffix_is_disposable() {
        let listed: Vec<&str> = DISPOSABLE_TEXT.entries().filter(|domain| is_public_suffix(domain)).collect();
        assert!(listed.is_empty(), "everybody below these is called disposable: {listed:?}");
        for domain in ["example.za.com", "joe.pp.ua", "shop.msk.ru", "home.ddns.net"] {
            assert!(!is_disposable(domain), "{domain}");
        }
        assert!(is_disposable("mailinator.com") && is_disposable("x.yopmail.com"));
    }

    #[test]
    fn no_provider_with_lasting_mailboxes_is_disposable() {
        let lasting = || {
            let lines = include_str!("../data/permanent.txt").lines();
            lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
        };
        let listed: Vec<&str> = lasting().filter(|domain| is_disposable(domain)).collect();
        assert!(listed.is_empty(), "{listed:?}");
        for domain in ["consultant.com", "dr.com", "writeme.com", "21cn.com", "tom.com", "safe-mail.net"] {
            assert!(lasting().any(|line| line == domain), "{domain}");
        }
        for domain in lasting() {
            let registrable = registrable(domain);
            assert!(registrable.is_some() && domain.to_ascii_lowercase() == domain, "{domain} is no domain");
        }
    }

    #[test]
    fn the_lists_are_sorted_and_lower_case() {
        for (list, least) in [
            (&DISPOSABLE_TEXT, 50_000),
            (&FREE_TEXT, 4_000),
            (&ROLE, 900),
            (&TYPO_TARGETS, 250),
            (&RULES, 9_000),
        ] {
            let entries: Vec<&str> = list.entries().collect();
            assert!(entries.len() >= least, "{} entries", entries.len());
            assert!(entries.is_sorted_by(|a, b| a < b));
            for entry in &entries {
                assert!(!entry.is_empty() && !entry.starts_with('#') && *entry == entry.to_ascii_lowercase());
                assert!(entry.bytes().all(|byte| byte.is_ascii_graphic()), "{entry}");
            }
        }
    }

    #[test]
    fn every_entry_is_found_and_its_neighbours_are_not() {
        for list in [&DISPOSABLE_TEXT, &FREE_TEXT, &ROLE, &TYPO_TARGETS, &RULES] {
            for entry in list.entries() {
                assert!(list.contains(entry), "{entry}");
                assert!(
                    !list.contains(&format!("{entry}!")) && !list.contains(&format!("!{entry}")),
                    "{entry}"
                );
            }
            assert!(!list.contains("") && !list.contains("\n") && !list.contains("zzzzzzzz"));
        }
    }

    #[test]
    fn hashes_are_those_of_the_list_and_differ() {
        for (hashes, list) in [(&DISPOSABLE, &DISPOSABLE_TEXT), (&FREE, &FREE_TEXT)] {
            let numbers: Vec<u64> = hashes.0.iter().map(|listed| u64::from_le_bytes(*listed)).collect();
            assert!(numbers.is_sorted_by(|a, b| a < b));
            assert_eq!(numbers.len(), list.entries().count());
            for entry in list.entries() {
                assert!(hashes.contains(entry) && hashes.contains(&entry.to_ascii_uppercase()), "{entry}");
                let (wrong, longer) = (format!("!{entry}"), format!("{entry}!"));
                assert!(!hashes.contains(&wrong) && !hashes.contains(&longer), "{entry}");
            }
            for domain in RULES.entries().chain(ROLE.entries()) {
                assert!(!hashes.contains(domain), "{domain}");
            }
            assert!(!hashes.contains("") && !hashes.contains("\n"));
        }
    }

    #[test]
    fn disposable_domains_are_told() {
        for domain in
            ["mailinator.com", "MAILINATOR.com", "sub.mailinator.com", "a.b.mailinator.com", "yopmail.com"]
        {
            assert!(is_disposable(domain), "{domain}");
        }
        for domain in
            ["gmail.com", "com", "", ".", "xmailinator.com", "mailinator.com.example.org", "example.com"]
        {
            assert!(!is_disposable(domain), "{domain}");
        }
        // The addresses of relay and alias services lead to permanent mailboxes.
        for domain in ["duck.com", "simplelogin.com", "mozmail.com", "anonaddy.com", "passmail.net"] {
            assert!(!is_disposable(domain), "{domain}");
        }
    }

    #[test]
    fn free_domains_are_told() {
        for domain in
            ["gmail.com", "Yahoo.com", "outlook.com", "tutanota.com", "hey.com", "web.de", "gmx.net"]
        {
            assert!(is_free(domain), "{domain}");
        }
        for domain in ["mailinator.com", "example.com", "", "mail.gmail.com"] {
            assert!(!is_free(domain), "{domain}");
        }
        for domain in FREE_TEXT.entries() {
            assert!(!DISPOSABLE.contains(domain), "{domain} is free and disposable");
        }
    }

    #[test]
    fn role_accounts_are_told() {
        for local in ["info", "INFO", "sales", "Postmaster", "abuse", "support+de", "no-reply", "noreply"] {
            assert!(is_role(local), "{local}");
        }
        for local in ["anna.schmidt", "", "+info", "infos.x", "j.doe"] {
            assert!(!is_role(local), "{local}");
        }
    }

    #[test]
    fn spam_traps_are_addresses_or_domains() {
        let text = "\u{feff}# traps\n\nTrap@Example.com # seen 2020\nbad.example\r\n  müll.example  \na#b@example.org\n";
        let traps = SpamTraps::parse(text).expect("a good file");
        assert_eq!(traps.len(), 4);
        for (local, domain, found) in [
            ("trap", "example.com", true),
            ("TRAP", "EXAMPLE.com", true),
            ("other", "example.com", false),
            ("anyone", "bad.example", true),
            ("anyone", "sub.bad.example", false),
            ("x", "xn--mll-hoa.example", true),
            ("a#b", "example.org", true),
            ("", "", false),
        ] {
            assert_eq!(traps.matches(local, domain), found, "{local} {domain}");
        }
        assert_eq!(format!("{traps:?}"), "SpamTraps(4)");
        assert!(SpamTraps::default().is_empty() && !SpamTraps::default().matches("a", "b.example"));
    }

    #[test]
    fn a_bad_line_is_named() {
        for (text, line) in [
            ("ok.example\n@example.com", 2),
            ("localhost", 1),
            ("\n\na b", 3),
            ("a@", 1),
            ("a@-x-.example..com", 1),
            ("x@y_z!.example", 1),
        ] {
            assert_eq!(SpamTraps::parse(text).map(|_| ()).map_err(|error| error.line), Err(line), "{text:?}");
        }
    }
}
