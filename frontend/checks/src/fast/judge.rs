//! The fast check: syntax, typing mistakes, MX and lists. It never contacts a mail server, so it can prove an address
//! bad and never that a mailbox exists.
//!
//! The reasons in their order: a typing mistake, a disposable domain, no mail host, nothing found. A typing mistake
//! is told from the name alone: that a mistyped domain takes mail says nothing for it, since those who register such
//! names do so for the mail. What is itself a popular or free provider is never called a mistake of another.

use api::{Checks, FastFindings, Reason};
use engine::MailHosts;
use engine::proto::address::{Address, Domain};
use engine::proto::{lists, typo};

/// What the name of a domain alone tells: the same for all its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DomainName {
    /// What it looks like a mistyping of.
    meant: Option<&'static str>,
    disposable: bool,
    free: bool,
}

impl DomainName {
    /// Looks it up.
    pub fn of(domain: &Domain) -> DomainName {
        let name = domain.as_str();
        let meant = typo::suggest(name);
        DomainName { meant, disposable: lists::is_disposable(name), free: lists::is_free(name) }
    }
}

/// What is said of an address when DNS has said `hosts` of its domain. DNS that did not tell proves nothing.
///
/// # Errors
/// That of `hosts`, where the answer hangs on it.
pub fn judge<E>(address: &Address, hosts: Result<MailHosts, E>) -> Result<(Reason, FastFindings), E> {
    judge_known(address, DomainName::of(address.domain()), hosts)
}

/// The same where the name of the domain was looked up before.
///
/// # Errors
/// That of `hosts`, where the answer hangs on it.
pub fn judge_known<E>(
    address: &Address,
    name: DomainName,
    hosts: Result<MailHosts, E>,
) -> Result<(Reason, FastFindings), E> {
    let local = address.local();
    let DomainName { meant, disposable, free } = name;
    let suggestion = meant.map(|target| format!("{local}@{target}"));
    let mx = matches!(hosts, Ok(MailHosts::Seen));
    let reason = if suggestion.is_some() {
        Reason::PossibleTypo
    } else if disposable {
        Reason::Disposable
    } else {
        match hosts? {
            MailHosts::Absent => Reason::NoMx,
            MailHosts::Seen | MailHosts::Unknown => Reason::FastCheckPassed,
        }
    };
    let checks = Checks { mx, disposable, role_account: lists::is_role(local), free_email: free };
    Ok((reason, FastFindings { suggestion, checks: Some(checks) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_counts() {
        use MailHosts::{Absent, Seen, Unknown};
        // mx, disposable, role account, free mail.
        for (address, hosts, reason, suggestion, checks) in [
            (
                "Joe.X@gmial.com",
                Ok(Seen),
                "possible_typo",
                Some("Joe.X@gmail.com"),
                [true, true, false, false],
            ),
            ("joe@hotmail.con", Err(()), "possible_typo", Some("joe@hotmail.com"), [false; 4]),
            ("info@mailinator.com", Ok(Absent), "disposable", None, [false, true, true, false]),
            ("a@x.mailinator.com", Err(()), "disposable", None, [false, true, false, false]),
            ("a@example.com", Ok(Absent), "no_mx", None, [false; 4]),
            ("a@example.com", Ok(Unknown), "fast_check_passed", None, [false; 4]),
            ("sales@example.com", Ok(Seen), "fast_check_passed", None, [true, false, true, false]),
            ("joe@gmail.com", Ok(Seen), "fast_check_passed", None, [true, false, false, true]),
        ] {
            let parsed = Address::parse(address).unwrap();
            let (got, findings) = judge(&parsed, hosts).unwrap();
            let c = findings.checks.unwrap();
            assert_eq!(got.as_str(), reason, "{address}");
            assert_eq!(findings.suggestion.as_deref(), suggestion, "{address}");
            assert_eq!([c.mx, c.disposable, c.role_account, c.free_email], checks, "{address}");
        }
        let address = Address::parse("a@example.com").unwrap();
        assert!(judge(&address, Err(())).is_err(), "the answer hangs on DNS");
    }
}
