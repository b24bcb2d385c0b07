//! The rules of a fast check: syntax, typos, MX and lists. It never contacts a mail server, so it can prove that an
//! address is bad, and never that a mailbox exists.
//!
//! The order of the reasons: a typo, a disposable domain, no mail host, no fault found. A typo is detected from the
//! name. Mail hosts of its own, or of a provider where firms buy mail, show that a domain is right. But the neighbours of the
//! largest providers are registered to get their mail, so only bought mail shows that they are right. A popular or free
//! provider is never the typo of another.

use api::{Checks, FastFindings, Reason};
use engine::MailHosts;
use engine::proto::address::{Address, Domain};
use engine::proto::lists::{Listing, Lists, MailService, Typo};

/// The facts that follow from the name of a domain, for all its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainName {
    /// The typo that it may be.
    typo: Option<Typo>,
    listing: Listing,
    free: bool,
}

impl DomainName {
    /// Looks the name up in the lists.
    pub fn of(domain: &Domain, lists: &Lists) -> DomainName {
        let name = domain.as_str();
        DomainName { typo: lists.typo(name), listing: lists.listing(name), free: lists.is_free(name) }
    }
}

/// The result for an address, from DNS's answer about the mail hosts of its domain. A failure of DNS proves nothing.
///
/// # Errors
///
/// The error in `hosts`, if the result depends on it.
pub fn judge<E>(
    address: &Address,
    lists: &Lists,
    hosts: Result<MailHosts, E>,
) -> Result<(Reason, FastFindings), E> {
    let name = DomainName::of(address.domain(), lists);
    judge_known(address, &name, lists.is_role(address.local()), hosts)
}

/// The result for an address whose domain name and local part were already looked up.
///
/// # Errors
///
/// The error in `hosts`, if the result depends on it.
pub fn judge_known<E>(
    address: &Address,
    name: &DomainName,
    role: bool,
    hosts: Result<MailHosts, E>,
) -> Result<(Reason, FastFindings), E> {
    let local = address.local();
    let (mx, service) = match hosts {
        Ok(MailHosts::Seen(service)) => (true, service),
        _ => (false, MailService::Unknown),
    };
    let typo = name.typo.as_ref().filter(|typo| typo.is_likely(service));
    let suggestion = typo.map(|typo| format!("{local}@{}", typo.meant));
    let disposable = name.listing.at(service).is_some();
    let reason = if suggestion.is_some() {
        Reason::PossibleTypo
    } else if disposable {
        Reason::Disposable
    } else {
        match hosts? {
            MailHosts::Absent => Reason::NoMx,
            MailHosts::Seen(_) | MailHosts::Unknown => Reason::FastCheckPassed,
        }
    };
    let checks = Checks { mx, disposable, role_account: role, free_email: name.free };
    Ok((reason, FastFindings { suggestion, checks: Some(checks) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_counts() {
        use MailHosts::{Absent, Unknown};
        let seen = |service| Ok(MailHosts::Seen(service));
        let (elsewhere, own) = (seen(MailService::Unknown), seen(MailService::Own));
        let (bought, thrown) = (seen(MailService::OfFirms), seen(MailService::Disposable("throw.example")));
        // Columns: mx, disposable, role account, free mail.
        for (address, hosts, reason, suggestion, checks) in [
            (
                "Joe.X@gmial.com",
                elsewhere,
                "possible_typo",
                Some("Joe.X@gmail.com"),
                [true, true, false, false],
            ),
            ("joe@hotmail.con", Err(()), "possible_typo", Some("joe@hotmail.com"), [false; 4]),
            ("info@mailinator.com", Ok(Absent), "disposable", None, [false, true, true, false]),
            ("a@x.mailinator.com", Err(()), "disposable", None, [false, true, false, false]),
            ("a@example.com", Ok(Absent), "no_mx", None, [false; 4]),
            // One list alone has the domain.
            ("a@0-attorney.com", elsewhere, "disposable", None, [true, true, false, false]),
            ("a@0-attorney.com", Ok(Absent), "disposable", None, [false, true, false, false]),
            ("a@0-attorney.com", Err(()), "disposable", None, [false, true, false, false]),
            ("a@0-attorney.com", own, "disposable", None, [true, true, false, false]),
            ("a@0-attorney.com", bought, "fast_check_passed", None, [true, false, false, false]),
            ("a@mailinator.com", bought, "disposable", None, [true, true, false, false]),
            ("a@example.com", thrown, "disposable", None, [true, true, false, false]),
            // A neighbour of a provider, and one of the largest ones.
            ("a@rambles.ru", Ok(Absent), "possible_typo", Some("a@rambler.ru"), [false; 4]),
            ("a@rambles.ru", Err(()), "possible_typo", Some("a@rambler.ru"), [false; 4]),
            ("a@rambles.ru", elsewhere, "possible_typo", Some("a@rambler.ru"), [true, false, false, false]),
            ("a@rambles.ru", own, "fast_check_passed", None, [true, false, false, false]),
            ("a@rambles.ru", bought, "fast_check_passed", None, [true, false, false, false]),
            ("a@hotmaul.com", own, "possible_typo", Some("a@hotmail.com"), [true, false, false, false]),
            ("a@hotmaul.com", bought, "fast_check_passed", None, [true, false, false, false]),
            ("a@example.com", Ok(Unknown), "fast_check_passed", None, [false; 4]),
            ("sales@example.com", elsewhere, "fast_check_passed", None, [true, false, true, false]),
            ("joe@gmail.com", elsewhere, "fast_check_passed", None, [true, false, false, true]),
        ] {
            let parsed = Address::parse(address).unwrap();
            let (got, findings) = judge(&parsed, &Lists::default(), hosts).unwrap();
            let c = findings.checks.unwrap();
            assert_eq!(got.as_str(), reason, "{address}");
            assert_eq!(findings.suggestion.as_deref(), suggestion, "{address}");
            assert_eq!([c.mx, c.disposable, c.role_account, c.free_email], checks, "{address}");
        }
        let address = Address::parse("a@example.com").unwrap();
        assert!(judge(&address, &Lists::default(), Err(())).is_err(), "the answer hangs on DNS");
    }
}
