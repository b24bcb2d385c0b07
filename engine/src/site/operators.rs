//! What is known in advance of the operators of some sites.

/// Sites that answer 451 4.3.0 to recipients of a second domain in one transaction ("Multiple destination domains per
/// transaction is unsupported"), although the domains share their hosts.
const ONE_DOMAIN_SITES: &[&str] = &["google"];

/// Operators that have not been seen to change what they say about a mailbox. No known report names one of them as accepting every
/// recipient under load, or as refusing every recipient of a client without saying so. If they object to us, their replies say so
/// (421, 550 5.7.1).
const TRUSTED_SITES: &[&str] = &["google", "microsoft365", "outlook", "icloud", "zoho", "fastmail", "proton"];

/// Whether the operator of a site is known to tell mailboxes apart at all times.
pub(super) fn is_trusted(site: &str) -> bool {
    TRUSTED_SITES.contains(&site)
}

/// Whether all recipients of a transaction must have one domain.
pub(super) fn wants_one_domain(site: &str) -> bool {
    ONE_DOMAIN_SITES.contains(&site)
}
