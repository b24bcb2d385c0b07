//! Conversions from the types of the engine and the store to those of the API. The matches are exhaustive, so that a
//! new reason or status does not compile before its form in the API is decided.

mod webhooks;

pub use webhooks::{delivery, webhook};

use crate::evidence;
use engine::Finding;
use engine::proto::verdict::Reason as Found;
use lists::words;
use std::sync::Arc;
use store;
use store::credits::calendar::Iso8601;

/// The API's reason for a verdict.
pub fn reason(found: Found) -> api::Reason {
    match found {
        Found::MailboxExists => api::Reason::MailboxExists,
        Found::RoleAccount => api::Reason::RoleAccount,
        Found::InvalidSyntax => api::Reason::InvalidSyntax,
        Found::Disposable => api::Reason::Disposable,
        Found::Spamtrap => api::Reason::Spamtrap,
        Found::InboxFull => api::Reason::InboxFull,
        Found::MailboxDisabled => api::Reason::MailboxDisabled,
        Found::CatchAll => api::Reason::CatchAll,
        Found::MailboxNotFound => api::Reason::MailboxNotFound,
        Found::Unverifiable => api::Reason::Unverifiable,
    }
}

/// The API's status of a list.
pub fn list_status(state: store::ListState) -> api::ListStatus {
    match state {
        store::ListState::Uploading => api::ListStatus::Uploading,
        store::ListState::Reading => api::ListStatus::Reading,
        store::ListState::Unfit => api::ListStatus::Unfit,
        store::ListState::Ready => api::ListStatus::Ready,
        store::ListState::Running => api::ListStatus::Running,
        store::ListState::Paused => api::ListStatus::Paused,
        store::ListState::Completed => api::ListStatus::Completed,
        store::ListState::Cancelled => api::ListStatus::Cancelled,
    }
}

/// Where the addresses of a list were found, as the API shows it: empty texts and zeros are null.
pub fn found_addresses(found: &store::FoundAddresses) -> api::FoundAddresses {
    let text = |text: &String| (!text.is_empty()).then(|| text.clone());
    let number = |number: u32| (number > 0).then_some(number);
    api::FoundAddresses {
        column: text(&found.column),
        column_number: number(found.column_number),
        columns: number(found.columns),
        header: found.header,
        sheet: text(&found.sheet),
        sheet_number: number(found.sheet_number),
        sheets: number(found.sheets),
        read_at: Iso8601(found.read_at).to_string(),
        other_columns: found.others.clone(),
        cells_with_more: Some(found.cells_with_more).filter(|more| more.count > 0),
    }
}

/// The part of a finding that the store keeps. `now`: the time of the verdict.
pub fn verdict(finding: &Finding, now: store::UnixMs) -> store::Verdict {
    let cause = if finding.reason == Found::Unverifiable { words::cause(finding.rule) } else { None };
    let basis = Some(Arc::new(evidence::of_finding(finding, now)));
    store::Verdict { reason: reason(finding.reason), cause, evidence: finding.evidence, basis }
}

/// What an address waits for that is to be asked about again, by the rule of its finding. The progress of `clean` reads it too.
pub fn wait_cause(rule: &str) -> api::WaitCause {
    match rule {
        "no_connection" | "no_answer_in_time" | "hung_up" | "control_unanswered" => api::WaitCause::NoAnswer,
        _ if rule.starts_with("dns_") => api::WaitCause::NoAnswer,
        _ => api::WaitCause::RetryLater,
    }
}

/// The verdict for a reason. Reasons of fast mode have none, since the mailbox was not checked.
pub fn found(reason: api::Reason) -> Found {
    match reason {
        api::Reason::MailboxExists => Found::MailboxExists,
        api::Reason::RoleAccount => Found::RoleAccount,
        api::Reason::InvalidSyntax => Found::InvalidSyntax,
        api::Reason::Disposable => Found::Disposable,
        api::Reason::Spamtrap => Found::Spamtrap,
        api::Reason::InboxFull => Found::InboxFull,
        api::Reason::MailboxDisabled => Found::MailboxDisabled,
        api::Reason::CatchAll => Found::CatchAll,
        api::Reason::MailboxNotFound => Found::MailboxNotFound,
        api::Reason::Unverifiable
        | api::Reason::PossibleTypo
        | api::Reason::NoMx
        | api::Reason::FastCheckPassed => Found::Unverifiable,
    }
}

/// An account with its plan. A plan that is missing in the configuration is shown by its id.
pub fn account(account: store::Account, plan: Option<&store::Plan>) -> api::Account {
    let name = plan.map_or(&account.plan, |plan| &plan.name).clone();
    api::Account {
        plan_name: name,
        status: account.status,
        credits_remaining: account.balance.available(),
        credits_total: plan.map_or(account.balance.allowance, |plan| plan.monthly_credits),
        pack_credits: account.balance.pack_left,
        period_end: account.period_end.map(|end| Iso8601(end).to_string()),
        cancel_at_period_end: account.cancel_at_period_end,
        plan: account.plan,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_and_statuses_keep_their_names_and_verdicts() {
        for found in Found::ALL {
            assert_eq!(reason(found).as_str(), found.as_str());
            assert_eq!(super::found(reason(found)), found);
            assert_eq!(reason(found).deliverable(), Some(found.deliverable()));
        }
        for status in api::SubscriptionStatus::ALL {
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
    }
}
