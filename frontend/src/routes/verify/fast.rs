//! A fast check: free, for live and test keys alike, whatever the account's balance and status.

use super::full;
use crate::fast::{DomainName, judge_known};
use crate::known_domains::Known;
use crate::refusal::Refusal;
use crate::worker::Worker;
use api::{FastFindings, Findings, Reason, Verification};
use engine::proto::address::Address;
use std::time::Instant;

/// Checks an address without asking a mail server.
///
/// # Errors
/// 503 where the answer hangs on DNS and no resolver answers, or where too much is under way.
pub async fn check(worker: &Worker, email: String) -> Result<Verification, Refusal> {
    let (reason, findings) = match Address::parse(&email) {
        Err(_) => (Reason::InvalidSyntax, FastFindings { suggestion: None, checks: None }),
        Ok(address) => {
            let domain = address.domain();
            let known = worker.domains.borrow().get(domain, Instant::now());
            let (name, hosts) = match known {
                Some(Known { name, hosts }) => (name, Ok(hosts)),
                None => {
                    let (name, hosts) =
                        (DomainName::of(domain), worker.engine.mail_hosts(domain.clone()).await);
                    if let Ok(hosts) = hosts {
                        worker.domains.borrow_mut().put(
                            domain.clone(),
                            Known { name, hosts },
                            Instant::now(),
                        );
                    }
                    (name, hosts)
                }
            };
            judge_known(&address, name, hosts).map_err(full::refuse)?
        }
    };
    Ok(Verification { email, reason, credits_remaining: None, findings: Findings::Fast(findings) })
}
