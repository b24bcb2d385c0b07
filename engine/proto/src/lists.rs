//! The built-in lists of disposable domains, free domains and role addresses, the spam traps, and the operator's lists ([`Lists`]).
//! The operator's lists add to the built-in ones, and can exempt domains from them.
//!
//! The built-in lists are compiled in and never copied: the lists of disposable and free domains as hashes, the others as sorted
//! texts. The first lookup in a text makes a hash table of the offsets of its lines. `cargo xtask refresh-lists` writes the lists;
//! docs/lists.md has their sources and sizes.

use crate::limits::{DOMAIN_BYTES_MAX, LOCAL_PART_BYTES_MAX};
use crate::tables::{Hashes, List};
pub use crate::typo::Typo;
use memchr::memchr;
use std::collections::HashSet;
use std::fmt;

mod disposable;
mod operator;
pub use disposable::{Disposable, Listing, MailService};
pub use operator::{ListKind, Lists};

static DISPOSABLE: Hashes = Hashes::new(include_bytes!(concat!(env!("OUT_DIR"), "/disposable.hashes")));
static FREE: Hashes = Hashes::new(include_bytes!(concat!(env!("OUT_DIR"), "/free.hashes")));
static ROLE: List = List::new(include_str!("../data/role.txt"));
pub(crate) static TYPO_TARGETS: List = List::new(include_str!("../data/typo_targets.txt"));

/// Whether the domain belongs to a free provider, where anyone can get a mailbox. Letter case does not matter.
pub fn is_free(domain: &str) -> bool {
    FREE.bits(domain).is_some()
}

/// Whether the local part names a function and not a person, such as `info`. Letter case and a `+tag` do not matter.
pub fn is_role(local: &str) -> bool {
    ROLE.contains(untagged(local))
}

/// A local part without its `+tag`.
fn untagged(local: &str) -> &str {
    memchr(b'+', local.as_bytes()).map_or(local, |at| &local[..at])
}

/// The domain above this one.
fn parent(domain: &str) -> Option<&str> {
    memchr(b'.', domain.as_bytes()).map(|at| &domain[at + 1..])
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

    /// The entries of a list without the letters of their sources.
    fn entries(list: &List) -> impl Iterator<Item = &'static str> {
        list.entries().filter_map(|line| line.split(' ').next())
    }

    fn is_disposable(domain: &str) -> bool {
        Listing::built_in(domain) != Listing::Absent
    }

    fn lines_of(text: &'static str) -> impl Iterator<Item = &'static str> {
        text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
    }

    #[test]
    fn no_public_suffix_is_disposable() {
        let listed: Vec<&str> = entries(&DISPOSABLE_TEXT).filter(|domain| is_public_suffix(domain)).collect();
        assert!(listed.is_empty(), "everybody below these is called disposable: {listed:?}");
        for domain in ["example.za.com", "joe.pp.ua", "shop.msk.ru", "home.ddns.net"] {
            assert!(!is_disposable(domain), "{domain}");
        }
        assert!(is_disposable("mailinator.com") && is_disposable("x.yopmail.com"));
    }

    #[test]
    fn no_provider_with_lasting_mailboxes_is_disposable() {
        let lasting = || lines_of(include_str!("../data/permanent.txt"));
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
    fn no_exception_is_disposable_and_agreement_is_kept() {
        let exceptions: Vec<&str> = lines_of(include_str!("../data/exceptions.txt")).collect();
        assert_eq!(exceptions.len(), 339);
        let listed: Vec<&&str> = exceptions.iter().filter(|domain| is_disposable(domain)).collect();
        assert!(listed.is_empty(), "{listed:?}");
        for domain in
            ["nus.edu.sg", "x.nus.edu.sg", "lsmu.com", "feedspot.com", "test.de", "forwardemail.net"]
        {
            assert!(!is_disposable(domain), "{domain}");
        }
        let of = |letters| {
            DISPOSABLE_TEXT.entries().filter(|line| line.split(' ').nth(1) == Some(letters)).count()
        };
        let (both, alone, other) = (of("mc"), of("m"), of("c"));
        assert!(both > 3_700 && alone > 50_000 && other > 6_000, "{both} {alone} {other}");
        assert_eq!(both + alone + other, DISPOSABLE_TEXT.entries().count());
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
            let entries: Vec<&str> = entries(list).collect();
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
                let (entry, letters) = entry.split_once(' ').unwrap_or((entry, ""));
                let bits = u8::from(letters.contains('m')) | u8::from(letters.contains('c')) << 1;
                assert_eq!(hashes.bits(entry), Some(bits), "{entry}");
                assert_eq!(hashes.bits(&entry.to_ascii_uppercase()), Some(bits), "{entry}");
                let (wrong, longer) = (format!("!{entry}"), format!("{entry}!"));
                assert!(hashes.bits(&wrong).is_none() && hashes.bits(&longer).is_none(), "{entry}");
            }
            for domain in RULES.entries().chain(ROLE.entries()) {
                assert!(hashes.bits(domain).is_none(), "{domain}");
            }
            assert!(hashes.bits("").is_none() && hashes.bits("\n").is_none());
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
            assert!(DISPOSABLE.bits(domain).is_none(), "{domain} is free and disposable");
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
