//! What reasons and error codes mean, as tables for the description. The matches are exhaustive on purpose.

use crate::{ErrorCode, Reason};
use std::fmt::Write;

/// A table in Markdown.
pub fn of_reasons(reasons: &[Reason]) -> String {
    let mut text = "\n\n| reason | deliverable | meaning |\n| --- | --- | --- |".to_owned();
    for reason in reasons {
        let deliverable = reason.deliverable().map_or("null".to_owned(), |it| it.to_string());
        let _ = write!(text, "\n| `{}` | {deliverable} | {} |", reason.as_str(), meaning_of_reason(*reason));
    }
    text
}

/// A table in Markdown.
pub fn of_errors(codes: &[ErrorCode]) -> String {
    let mut text = "\n\n| error | status | meaning |\n| --- | --- | --- |".to_owned();
    for code in codes {
        let _ = write!(text, "\n| `{}` | {} | {} |", code.as_str(), code.status(), of_error(*code));
    }
    text
}

fn meaning_of_reason(reason: Reason) -> &'static str {
    match reason {
        Reason::MailboxExists => "The mailbox is confirmed to accept mail.",
        Reason::RoleAccount => "Deliverable, but a role inbox, as `info` or `sales`.",
        Reason::InvalidSyntax => "Not a valid address; free.",
        Reason::Disposable => "A temporary or throw-away provider.",
        Reason::Spamtrap => "A known spam trap.",
        Reason::InboxFull => "The mailbox is full.",
        Reason::MailboxDisabled => "The mailbox is disabled by its provider.",
        Reason::CatchAll => "The domain accepts every recipient, so the mailbox cannot be confirmed.",
        Reason::MailboxNotFound => "The mailbox does not exist; mail to it would bounce.",
        Reason::Unverifiable => "It could not be confirmed, as with greylisting or a time-out.",
        Reason::PossibleTypo => "Fast mode only: the domain looks like a typo; see `suggestion`.",
        Reason::NoMx => "Fast mode only: the domain has no mail server.",
        Reason::FastCheckPassed => "Fast mode only: no problem was found; nobody asked for the mailbox.",
    }
}

/// What a code means, in a sentence.
pub fn of_error(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::InvalidRequest => "The request is malformed, or a value is unknown; `detail` says where.",
        ErrorCode::InvalidEmails => "The batch has addresses that are not valid; nothing was charged.",
        ErrorCode::MissingApiKey => "No key was sent.",
        ErrorCode::InvalidApiKey => "The key is unknown or malformed.",
        ErrorCode::ApiKeyRevoked => "The key was revoked.",
        ErrorCode::InsufficientCredits => "Too few credits are left.",
        ErrorCode::SubscriptionInactive => "The subscription is paused or canceled.",
        ErrorCode::PlanNotAllowed => "The plan has no batches.",
        ErrorCode::NotAvailableOn(_) => "This API gateway offers no more than single checks.",
        ErrorCode::NotFound => "There is no such batch on the account, or nothing at this path.",
        ErrorCode::MethodNotAllowed => "The path has no such method; `Allow` says which it has.",
        ErrorCode::RequestTimeout => "The request took too long to arrive.",
        ErrorCode::IdempotencyInProgress => {
            "A request with this `Idempotency-Key` is under way; retry shortly."
        }
        ErrorCode::RequestTooLarge => "The body has more than 256 KiB.",
        ErrorCode::UnsupportedMediaType => "The body says that it is not JSON.",
        ErrorCode::IdempotencyKeyReused => "This `Idempotency-Key` came before with another body.",
        ErrorCode::RateLimited => "Too many requests; `Retry-After` says when to come again.",
        ErrorCode::InternalError => "A defect of the service.",
        ErrorCode::ProviderUnavailable => {
            "Mail servers cannot be asked just now; nothing was charged and a retry is safe."
        }
        ErrorCode::TemporarilyUnavailable => {
            "The service is busy, starting or stopping, or asks the recipient's mail server no more for now; nothing was \
             charged, and a retry after `Retry-After` is safe."
        }
    }
}
