//! A fast check. It is free, for live and test keys, and independent of the account's balance and status.

mod judge;

pub use judge::{DomainName, judge};

use crate::known_domains::Known;
use crate::{CheckError, Checks};
use api::{FastFindings, Findings, Reason, Verification};
use engine::proto::address::Address;
use judge::judge_known;
use std::time::Instant;

/// Checks an address without asking a mail server.
///
/// # Errors
///
/// [`CheckError::NoFinding`] if the answer depends on DNS and no resolver answers, or if too many requests are under
/// way.
pub async fn check(checks: &Checks, email: String) -> Result<Verification, CheckError> {
    let (reason, findings) = match Address::parse(&email) {
        Err(_) => (Reason::InvalidSyntax, FastFindings { suggestion: None, checks: None }),
        Ok(address) => {
            let domain = address.domain();
            let lists = checks.engine.lists();
            let known = checks.domains.borrow_mut().get(&lists, domain, Instant::now());
            let (name, hosts) = match known {
                Some(Known { name, hosts }) => (name, Ok(hosts)),
                None => {
                    let (name, hosts) =
                        (DomainName::of(domain, &lists), checks.engine.mail_hosts(domain.clone()).await);
                    if let Ok(hosts) = hosts {
                        checks.domains.borrow_mut().put(
                            domain.clone(),
                            Known { name: name.clone(), hosts },
                            Instant::now(),
                        );
                    }
                    (name, hosts)
                }
            };
            judge_known(&address, &name, lists.is_role(address.local()), hosts)?
        }
    };
    Ok(Verification { email, reason, credits_remaining: None, findings: Findings::Fast(findings) })
}
