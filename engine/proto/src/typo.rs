//! Recognizes domains that look like a mistyped domain of a popular provider.
//!
//! A wrong suggestion costs the caller an address, so the rules are strict. A slip is a letter that is left out, added, replaced,
//! or swapped with its neighbour. One slip is allowed, either in the name (the text before the first dot) or in the ending. If the
//! name of the provider has nine letters or more, two slips in the name are allowed. If it has fewer than five letters, none is
//! allowed in the name. The first letter of the name must be right, or swapped with the second. An ending that exists is no slip
//! (except `co`, `cm` and `om` in place of `com`, after a name of five letters or more). A domain gets no suggestion if it is
//! popular itself, belongs to a provider of free mail, or is allowed by the operator. A disposable domain gets a suggestion only if
//! it is one slip away from one of the largest providers: squatters own many such domains (`gmial.com`), so a typing mistake is
//! more likely.

use crate::limits::TYPO_DOMAIN_CHARS_MAX;
use crate::lists::{MailService, TYPO_TARGETS};
use crate::public_suffix::has_known_suffix;
use std::borrow::Cow;
use std::sync::LazyLock;

/// Shortest name of a target in which one slip is allowed. In a shorter name, a slip often makes another real name.
const NAME_CHARS_MIN: usize = 5;
/// Shortest name of a target in which two slips are allowed.
const NAME_CHARS_MIN_TWO: usize = 9;

/// Endings that exist, but count as mistakes for `com` after a name of at least [`NAME_CHARS_MIN`] letters.
const MISTAKES_OF_COM: [&str; 3] = ["co", "cm", "om"];

/// The targets with the most users. Among equally near targets, the earliest of these is suggested.
const FIRST_CHOICES: [&str; 6] =
    ["gmail.com", "yahoo.com", "hotmail.com", "outlook.com", "icloud.com", "googlemail.com"];

/// The domain that was probably meant by `domain` (in A-label form and lower case): a popular provider, or one of `own`. `None` if
/// there is no such domain, if `domain` is such a domain itself, if `is_right` holds for it, or if it is disposable and not near
/// one of the largest providers.
pub(crate) fn suggest(
    domain: &str,
    own: &ByLetter,
    is_right: impl Fn(&str) -> bool,
    is_disposable: impl Fn(&str) -> bool,
) -> Option<Typo> {
    let (name, ending) = domain.split_once('.')?;
    if !domain.is_ascii() || domain.len() > TYPO_DOMAIN_CHARS_MAX {
        return None;
    }
    // Few domains are near a target. So the targets are searched first, and the lists are searched only for these few domains.
    let (slips, rank, target) = BUILT_IN
        .near(name)
        .chain(own.near(name))
        .filter_map(|target| Some((slips(name, ending, target)?, target.rank, &target.domain)))
        .min()?;
    if TYPO_TARGETS.contains(domain) || own.contains(domain) || is_right(domain) {
        return None;
    }
    let near_a_large_one = slips == 1 && rank < FIRST_CHOICES.len();
    (near_a_large_one || !is_disposable(domain)).then(|| Typo { meant: target.clone(), near_a_large_one })
}

/// A domain that looks like a typing mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Typo {
    /// The domain that was probably meant.
    pub meant: Cow<'static, str>,
    /// Whether that is one slip away, and one of the largest providers.
    near_a_large_one: bool,
}

impl Typo {
    /// Whether a domain with these mail hosts is more probably a mistake than the domain of a firm. Squatters give mail hosts to
    /// the neighbours of the largest providers, but do not buy mail for them.
    pub fn is_likely(&self, service: MailService) -> bool {
        match service {
            MailService::OfFirms => false,
            MailService::Own => self.near_a_large_one,
            MailService::Unknown | MailService::Disposable(_) => true,
        }
    }
}

/// A domain that can be suggested, with the place where its name ends.
#[derive(Clone)]
struct TypoTarget {
    domain: Cow<'static, str>,
    /// The index of the first dot.
    dot: usize,
    /// The index in [`FIRST_CHOICES`]. Domains of the operator have the number after the last index, and all others have
    /// `usize::MAX`.
    rank: usize,
}

impl TypoTarget {
    fn new(domain: Cow<'static, str>, rank: usize) -> Option<TypoTarget> {
        Some(TypoTarget { dot: domain.find('.')?, domain, rank })
    }

    /// The text before the first dot.
    fn name(&self) -> &str {
        &self.domain[..self.dot]
    }

    /// The text after the first dot.
    fn ending(&self) -> &str {
        &self.domain[self.dot + 1..]
    }
}

/// The targets by the first letters of their names. A mistyped name has the first letter of its target in the first or second
/// place.
#[derive(Clone, Default)]
pub(crate) struct ByLetter(Vec<Vec<TypoTarget>>);

static BUILT_IN: LazyLock<ByLetter> = LazyLock::new(|| {
    let rank = |domain: &str| FIRST_CHOICES.iter().position(|choice| *choice == domain).unwrap_or(usize::MAX);
    ByLetter::new(TYPO_TARGETS.entries().map(|domain| (domain.into(), rank(domain))))
});

impl ByLetter {
    fn new(domains: impl Iterator<Item = (Cow<'static, str>, usize)>) -> ByLetter {
        let mut targets = vec![Vec::new(); 256];
        for target in domains.filter_map(|(domain, rank)| TypoTarget::new(domain, rank)) {
            if let Some(&first) = target.name().as_bytes().first() {
                targets[usize::from(first)].push(target);
            }
        }
        ByLetter(targets)
    }

    /// The targets of an operator's file.
    pub(crate) fn of_operator(domains: impl IntoIterator<Item = Box<str>>) -> ByLetter {
        let domains = domains.into_iter().map(|domain| Cow::Owned(String::from(domain)));
        ByLetter::new(domains.map(|domain| (domain, FIRST_CHOICES.len())))
    }

    /// The targets with a name that begins with one of the first two letters of `name`.
    fn near(&self, name: &str) -> impl Iterator<Item = &TypoTarget> {
        let mut letters = name.bytes().take(2);
        let first = letters.next();
        let second = letters.next().filter(|second| Some(*second) != first);
        first
            .into_iter()
            .chain(second)
            .flat_map(|letter| self.0.get(usize::from(letter)).into_iter().flatten())
    }

    fn contains(&self, domain: &str) -> bool {
        self.near(domain).any(|target| target.domain.eq_ignore_ascii_case(domain))
    }
}

/// The number of slips between the target and `name.ending`. `None` if there are none, or more than allowed.
fn slips(name: &str, ending: &str, target: &TypoTarget) -> Option<usize> {
    if name == target.name() {
        return ending_slips(name, ending, target.ending());
    }
    (ending == target.ending()).then(|| name_slips(name, target.name())).flatten()
}

fn name_slips(name: &str, target: &str) -> Option<usize> {
    let most = match target.len() {
        NAME_CHARS_MIN_TWO.. => 2,
        NAME_CHARS_MIN.. => 1,
        _ => return None,
    };
    if name.len().abs_diff(target.len()) > most || !begins_alike(name, target) {
        return None;
    }
    let slips = strsim::osa_distance(name, target);
    (slips <= most).then_some(slips)
}

/// Whether both names have the same first letter, or their first two letters are swapped.
fn begins_alike(name: &str, target: &str) -> bool {
    match (name.as_bytes(), target.as_bytes()) {
        ([a, ..], [b, ..]) if a == b => true,
        ([a, b, ..], [c, d, ..]) => a == d && b == c,
        _ => false,
    }
}

/// The number of slips in the ending of a domain with the right name: one, or `None`. An ending that exists is no slip, except for
/// [`MISTAKES_OF_COM`].
fn ending_slips(name: &str, ending: &str, target: &str) -> Option<usize> {
    if ending == target {
        return None;
    }
    if target == "com" && name.len() >= NAME_CHARS_MIN && MISTAKES_OF_COM.contains(&ending) {
        return Some(1);
    }
    let exists = has_known_suffix(ending);
    let slips = strsim::osa_distance(ending, target);
    (!exists && slips == 1).then_some(slips)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lists::Lists;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn suggest(domain: &str) -> Option<Cow<'static, str>> {
        Lists::default().suggest(domain)
    }

    #[test]
    fn mistypings_of_popular_providers_are_seen_and_other_domains_are_let_be() {
        let tables: BTreeMap<String, BTreeMap<String, Vec<String>>> =
            toml::from_str(include_str!("../testdata/typos.toml")).unwrap();
        for (target, domains) in &tables["mistypings"] {
            for domain in domains {
                assert_eq!(suggest(domain).as_deref(), Some(&**target), "{domain}");
            }
        }
        for domain in tables["right"].values().flatten() {
            assert_eq!(suggest(domain), None, "{domain}");
        }
    }

    #[test]
    fn no_known_domain_gets_a_suggestion() {
        for target in TYPO_TARGETS.entries() {
            assert_eq!(suggest(target), None);
        }
    }

    proptest! {
        #[test]
        fn anything_may_be_asked(domain in "\\PC{0,60}") {
            if let Some(target) = suggest(&domain) {
                prop_assert!(target != domain && !TYPO_TARGETS.contains(&domain) && !Lists::default().is_free(&domain));
            }
        }

        #[test]
        fn a_suggestion_is_near(domain in "(gmail|yahoo|hotmail|outlook){1}[a-z]{0,2}\\.[a-z]{2,3}") {
            if let Some(target) = suggest(&domain) {
                prop_assert!(strsim::osa_distance(&domain, &target) <= 2);
            }
        }
    }
}
