//! Public suffixes: the domains below which registries and providers let others register names (<https://publicsuffix.org/list/>).
//!
//! The rules are a sorted list like those of `lists.rs`. A rule `*.name` covers all names that are one label longer than `name`,
//! and a rule `!name` is an exception to such a rule. The crate `psl` gives the same answers. But it consists of 105,000 lines of
//! generated code, which took a ninth of the processor time of a release build and two megabytes of the program.

use crate::tables::{List, hash};
use hashbrown::HashTable;
use std::sync::LazyLock;

pub(crate) static RULES: List = List::new(include_str!("../data/suffixes.txt"));
static NAMES: LazyLock<HashTable<RuleName>> = LazyLock::new(index);

/// The largest number of labels of a rule. Names with more labels need not be looked up.
const LABELS_OF_RULES: usize = 7;

/// All rules about one name, so that one lookup finds them.
#[derive(Default)]
struct RuleName {
    name: &'static str,
    /// There is a rule `name`.
    is_suffix: bool,
    /// There is a rule `*.name`.
    is_wildcard: bool,
    /// There is a rule `!name`.
    is_exception: bool,
}

/// Whether a rule makes this domain a public suffix. Letter case does not matter. `domain` must not end in a dot.
pub fn is_public_suffix(domain: &str) -> bool {
    known_suffix(domain) == Some(domain)
}

/// Whether the domain has a public suffix by a rule of the list.
pub(crate) fn has_known_suffix(domain: &str) -> bool {
    known_suffix(domain).is_some()
}

/// The domain that was registered at a registry or a provider: the public suffix and one more label before it. `None` if the domain
/// is itself a suffix. Without a rule, the last label is the suffix.
pub fn registrable(domain: &str) -> Option<&str> {
    let suffix = known_suffix(domain).unwrap_or_else(|| last_label(domain));
    let above = domain.strip_suffix(suffix)?.strip_suffix('.')?;
    let label = last_label(above);
    (!label.is_empty() && !suffix.is_empty()).then(|| &domain[above.len() - label.len()..])
}

/// The public suffix of the domain by the rules of the list. The longest rule counts, but an exception counts before all others: it
/// makes the domain above it the suffix.
fn known_suffix(domain: &str) -> Option<&str> {
    let (mut found, mut parent, mut is_below_wildcard) = (None, "", false);
    let starts = domain.rmatch_indices('.').map(|(dot, _)| dot + 1).chain([0]);
    for start in starts.take(LABELS_OF_RULES) {
        let name = &domain[start..];
        let rules = NAMES.find(hash(name), |rule| rule.name.eq_ignore_ascii_case(name));
        if rules.is_some_and(|rules| rules.is_exception) {
            return Some(parent);
        }
        if is_below_wildcard || rules.is_some_and(|rules| rules.is_suffix) {
            found = Some(name);
        }
        is_below_wildcard = rules.is_some_and(|rules| rules.is_wildcard);
        parent = name;
    }
    found
}

fn index() -> HashTable<RuleName> {
    let key = |rule: &RuleName| hash(rule.name);
    let mut names: HashTable<RuleName> = HashTable::with_capacity(RULES.entries().count());
    for line in RULES.entries() {
        let name = line.trim_start_matches(['!', '*', '.']);
        let of_name = names.entry(hash(name), |rule| rule.name == name, key);
        let rule = of_name.or_insert_with(|| RuleName { name, ..RuleName::default() }).into_mut();
        match line.len() - name.len() {
            0 => rule.is_suffix = true,
            1 => rule.is_exception = true,
            _ => rule.is_wildcard = true,
        }
    }
    names
}

fn last_label(domain: &str) -> &str {
    domain.rsplit('.').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::registrable_rows;

    #[test]
    fn suffixes_and_registrable_domains() {
        for [domain, suffix, expected] in registrable_rows() {
            let found = [known_suffix(domain), registrable(domain)];
            assert_eq!(found.map(|found| found.unwrap_or("-")), [suffix, expected], "{domain}");
            assert_eq!(is_public_suffix(domain), suffix == domain, "{domain}");
        }
        assert_eq!((known_suffix(""), registrable(""), is_public_suffix("")), (None, None, false));
    }

    #[test]
    fn no_rule_is_longer_than_what_is_looked_up() {
        let labels = |rule: &str| rule.trim_start_matches('!').split('.').count();
        let most = RULES.entries().map(labels).max();
        assert!(most.is_some_and(|most| most <= LABELS_OF_RULES), "{most:?}");
        for start in ["!", "*."] {
            assert!(RULES.entries().any(|rule| rule.starts_with(start)), "{start}");
        }
    }
}
