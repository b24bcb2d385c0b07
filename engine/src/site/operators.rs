//! What is known in advance about the operators of some sites.

/// Sites that accept only one domain in each transaction. To a recipient of another domain they reply 451 4.3.0 ("Multiple
/// destination domains per transaction is unsupported"), even if both domains have the same hosts.
const ONE_DOMAIN_SITES: &[&str] = &["google"];

/// Trusted operators: they have never been seen to say different things about the same mailbox. No known report says that one of
/// them accepts every recipient under load, or silently refuses every recipient of a client. If they object to a client, their
/// replies say so (421, 550 5.7.1).
const TRUSTED_SITES: &[&str] = &["google", "microsoft365", "outlook", "icloud", "zoho", "fastmail", "proton"];

/// Whether the operator of the site is trusted to distinguish its mailboxes at all times.
pub(super) fn is_trusted(site: &str) -> bool {
    TRUSTED_SITES.contains(&site)
}

/// Whether all recipients of a transaction must have the same domain.
pub(super) fn wants_one_domain(site: &str) -> bool {
    ONE_DOMAIN_SITES.contains(&site)
}
