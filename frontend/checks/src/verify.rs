//! One address for a caller with a key: fast or full, live or test.

use crate::auth::Caller;
use crate::full::{self, Checked, Payer};
use crate::{CheckError, Checks, counters, detail, evidence, fast, test_mode};
use api::{Detail, DetailLevel, Findings, Mode, Reason, Verification};
use engine::proto::address::Address;
use std::rc::Rc;
use store::KeyMode;

/// A check of one address in a mode.
pub struct Question {
    /// The address as it was sent.
    pub email: String,
    /// The mode, fast or full.
    pub mode: Mode,
    /// The detail that is added to the verdict of a full check with a live key.
    pub detail: Option<DetailLevel>,
}

/// Answers a question, and counts the verdict.
///
/// # Errors
///
/// As [`fast::check`] and [`full::check`].
pub async fn verify(
    checks: &Rc<Checks>,
    caller: Caller,
    question: Question,
) -> Result<Verification, CheckError> {
    let asked_mode = question.mode;
    let verification = match asked_mode {
        Mode::Fast => fast::check(checks, question.email).await?,
        // Boxed, so that the future of a fast check does not have the size of a full one.
        Mode::Full => Box::pin(full_check(checks, caller, question)).await?,
    };
    let mode = match (asked_mode, caller.mode) {
        (Mode::Fast, _) => "fast",
        (Mode::Full, KeyMode::Live) => "full",
        (Mode::Full, KeyMode::Test) => "test",
    };
    checks.tally.checked(counters::CountedCheck { mode, reason: verification.reason.as_str() });
    Ok(verification)
}

async fn full_check(
    checks: &Rc<Checks>,
    caller: Caller,
    question: Question,
) -> Result<Verification, CheckError> {
    let free =
        |reason| Checked { reason, cause: None, credits_remaining: None, repeats_until: None, basis: None };
    let (checked, detail) = match (Address::parse(&question.email), caller.mode) {
        (Err(_), _) => (free(Reason::InvalidSyntax), None),
        (Ok(address), KeyMode::Test) => (free(test_mode::reason(address.local())), None),
        (Ok(address), KeyMode::Live) => {
            let payer = Payer { account: caller.account, connection: None, by: caller.authority() };
            let checked = full::check(checks, payer, address.clone()).await?;
            let detail = match question.detail {
                Some(DetailLevel::Full) => {
                    let evidence = checked.basis.as_deref().map(evidence::shown);
                    let detail = detail::gather(checks, &address, checked.reason).await;
                    Some(Box::new(Detail { evidence, ..detail }))
                }
                None => None,
            };
            (checked, detail)
        }
    };
    let Checked { reason, credits_remaining, repeats_until, .. } = checked;
    Ok(Verification {
        email: question.email,
        reason,
        credits_remaining,
        findings: Findings::Full { cached: repeats_until.is_some(), detail },
    })
}
