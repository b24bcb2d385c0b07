//! A fast check: free, for live and test keys alike, whatever the account's balance and status.

use super::full;
use crate::fast::judge;
use crate::refusal::Refusal;
use crate::worker::Worker;
use api::{FastFindings, Findings, Reason, Verification};
use engine::proto::address::Address;

/// Checks an address without asking a mail server.
///
/// # Errors
/// 503 where the answer hangs on DNS and no resolver answers, or where too much is under way.
pub async fn check(worker: &Worker, email: String) -> Result<Verification, Refusal> {
    let (reason, findings) = match Address::parse(&email) {
        Err(_) => (Reason::InvalidSyntax, FastFindings { suggestion: None, checks: None }),
        Ok(address) => {
            let hosts = worker.engine.mail_hosts(address.domain().clone()).await;
            judge(&address, hosts).map_err(full::refuse)?
        }
    };
    Ok(Verification { email, reason, credits_remaining: None, findings: Findings::Fast(findings) })
}
