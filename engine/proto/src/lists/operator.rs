//! The lists of the operator, which add to the built-in lists. A domain that the operator allows counts neither as disposable nor
//! as a typing mistake, whatever the other lists say.

use super::{ListFault, Listing, MailService, ROLE, SpamTraps, canonical_domain, lines, parent};
use crate::limits::LOCAL_PART_BYTES_MAX;
use crate::typo::{self, ByLetter, Typo};
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

/// All lists that a check uses: those of the operator and the built-in ones.
#[derive(Clone, Default)]
pub struct Lists {
    traps: SpamTraps,
    allowed: HashSet<Box<str>>,
    disposable: HashSet<Box<str>>,
    role: HashSet<Box<str>>,
    free: HashSet<Box<str>>,
    typo_targets: ByLetter,
}

/// The kinds of files that an operator can give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListKind {
    /// Addresses and domains that are never contacted. A domain does not cover its subdomains.
    SpamTraps,
    /// Domains that are neither disposable nor typing mistakes. A domain covers its subdomains.
    Allowed,
    /// Domains of throw-away providers. A domain covers its subdomains.
    Disposable,
    /// Local parts that name a function.
    Role,
    /// Domains of free providers.
    Free,
    /// Domains that can be suggested in place of a typing mistake.
    TypoTargets,
}

impl Lists {
    /// Reads the entries of a file, one per line. They replace earlier entries of this kind. A `#` at the beginning of a line or
    /// after white space begins a comment.
    ///
    /// # Errors
    /// [`ListFault`] names the first line that cannot be read. Then the lists do not change.
    pub fn set(&mut self, kind: ListKind, text: &str) -> Result<(), ListFault> {
        match kind {
            ListKind::SpamTraps => self.traps = SpamTraps::parse(text)?,
            ListKind::Allowed => self.allowed = entries(text, canonical_domain)?,
            ListKind::Disposable => self.disposable = entries(text, canonical_domain)?,
            ListKind::Role => self.role = entries(text, canonical_local)?,
            ListKind::Free => self.free = entries(text, canonical_domain)?,
            ListKind::TypoTargets => {
                self.typo_targets = ByLetter::of_operator(entries(text, canonical_domain)?);
            }
        }
        Ok(())
    }

    /// Whether the address `local@domain` or its domain is a spam trap. In this and the other methods, letter case does not matter.
    /// Domains must be in A-label form, and for [`Lists::suggest`] in lower case.
    pub fn is_spam_trap(&self, local: &str, domain: &str) -> bool {
        self.traps.matches(local, domain)
    }

    /// What the lists say about the domain and those above it. A domain that the operator allows is never disposable.
    pub fn listing(&self, domain: &str) -> Listing {
        if covers(&self.allowed, domain) {
            Listing::Allowed
        } else if covers(&self.disposable, domain) {
            Listing::Operator
        } else {
            Listing::built_in(domain)
        }
    }

    /// Whether the domain belongs to a free provider, where anyone can get a mailbox.
    pub fn is_free(&self, domain: &str) -> bool {
        contains(&self.free, domain) || super::is_free(domain)
    }

    /// Whether the local part names a function and not a person, such as `info`. A `+tag` does not matter.
    pub fn is_role(&self, local: &str) -> bool {
        let local = super::untagged(local);
        contains(&self.role, local) || ROLE.contains(local)
    }

    /// The domain that was probably meant, if `domain` looks like a typing mistake.
    pub fn suggest(&self, domain: &str) -> Option<Cow<'static, str>> {
        self.typo(domain).map(|typo| typo.meant)
    }

    /// The typing mistake that `domain` looks like.
    pub fn typo(&self, domain: &str) -> Option<Typo> {
        let is_right = |domain: &str| self.is_free(domain) || covers(&self.allowed, domain);
        let is_disposable = |domain: &str| self.listing(domain).at(MailService::Unknown).is_some();
        typo::suggest(domain, &self.typo_targets, is_right, is_disposable)
    }
}

impl fmt::Debug for Lists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Spam traps are secret, so only the sizes of the lists are shown.
        f.debug_struct("Lists")
            .field("traps", &self.traps)
            .field("allowed", &self.allowed.len())
            .field("disposable", &self.disposable.len())
            .field("role", &self.role.len())
            .field("free", &self.free.len())
            .finish_non_exhaustive()
    }
}

fn entries(
    text: &str,
    canonical: impl Fn(&str) -> Result<String, &'static str>,
) -> Result<HashSet<Box<str>>, ListFault> {
    lines(text)
        .map(|(line, entry)| Ok(canonical(entry).map_err(|problem| ListFault { line, problem })?.into()))
        .collect()
}

fn canonical_local(entry: &str) -> Result<String, &'static str> {
    if entry.contains(char::is_whitespace) {
        Err("more than one word")
    } else if entry.contains('@') || entry.len() > LOCAL_PART_BYTES_MAX {
        Err("not the part of an address before its @")
    } else {
        Ok(entry.to_ascii_lowercase())
    }
}

fn contains(entries: &HashSet<Box<str>>, text: &str) -> bool {
    if entries.is_empty() {
        return false;
    }
    match text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => entries.contains(text.to_ascii_lowercase().as_str()),
        false => entries.contains(text),
    }
}

/// Whether the domain or one above it is among the entries.
fn covers(entries: &HashSet<Box<str>>, domain: &str) -> bool {
    let mut rest = Some(domain);
    while let (false, Some(name)) = (entries.is_empty(), rest) {
        if contains(entries, name) {
            return true;
        }
        rest = parent(name);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Lists {
        fn is_disposable(&self, domain: &str) -> bool {
            self.listing(domain).at(MailService::Unknown).is_some()
        }
    }

    fn lists(files: &[(ListKind, &str)]) -> Lists {
        let mut lists = Lists::default();
        files.iter().for_each(|(kind, text)| lists.set(*kind, text).unwrap());
        lists
    }

    #[test]
    fn without_files_the_built_in_lists_answer() {
        let lists = Lists::default();
        assert!(lists.is_disposable("x.mailinator.com") && !lists.is_disposable("example.com"));
        assert!(lists.is_free("GMail.com") && lists.is_role("Info+x") && !lists.is_role("joe"));
        assert_eq!(lists.suggest("gmial.com").as_deref(), Some("gmail.com"));
        assert!(!lists.is_spam_trap("a", "example.com"));
    }

    #[test]
    fn the_files_come_first() {
        let lists = lists(&[
            (ListKind::Allowed, "# ours\nmailinator.com\nGmial.com\n"),
            (ListKind::Disposable, "Throw.example # seen in May\n\n  below.example\r\n"),
            (ListKind::Role, "Kasse\nempfang"),
            (ListKind::Free, "m\u{fc}ller.example"),
            (ListKind::TypoTargets, "ourcompany.example\nemployer.test"),
            (ListKind::SpamTraps, "trap.example"),
        ]);
        assert!(!lists.is_disposable("mailinator.com") && !lists.is_disposable("x.MAILINATOR.com"));
        assert!(lists.is_disposable("a.b.throw.example") && lists.is_disposable("BELOW.example"));
        assert!(!lists.is_disposable("example") && lists.is_disposable("yopmail.com"));
        assert!(lists.is_role("KASSE+1") && lists.is_role("info") && !lists.is_role("joe"));
        assert!(lists.is_free("xn--mller-kva.example") && lists.is_free("gmail.com"));
        assert!(lists.is_spam_trap("a", "trap.example"));
        for (domain, expected) in [
            ("ourcompnay.example", Some("ourcompany.example")),
            ("ourcompany.exmaple", Some("ourcompany.example")),
            ("ourcompany.example", None),
            ("gmial.com", None),
            ("gmal.com", Some("gmail.com")),
            ("employr.test", Some("employer.test")),
        ] {
            assert_eq!(lists.suggest(domain).as_deref(), expected, "{domain}");
        }
        let shown = format!("{lists:?}");
        assert!(!shown.contains("example"), "{shown}");
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named_and_nothing_changes() {
        for (kind, text, line) in [
            (ListKind::Allowed, "example.com\na@example.com", 2),
            (ListKind::Disposable, "a b.example", 1),
            (ListKind::Free, "com", 1),
            (ListKind::TypoTargets, "\n\nnot_a domain", 3),
            (ListKind::Role, "info\nsales@example.com", 2),
        ] {
            let mut lists = Lists::default();
            assert_eq!(lists.set(kind, text).unwrap_err().line, line, "{text:?}");
            assert!(!lists.is_disposable("example.com") && lists.role.is_empty());
        }
    }
}
