//! The meaning of reasons and error codes, as tables in the description. The matches are exhaustive, so that a new
//! value needs a text.

use crate::{AFTER_REPEATS, ErrorCode, Reason, UnverifiableCause};
use serde_json::json;
use std::fmt::Write;

/// A table of reasons in Markdown.
pub fn of_reasons(reasons: &[Reason]) -> String {
    let mut text = "\n\n| reason | deliverable | meaning |\n| --- | --- | --- |".to_owned();
    for reason in reasons {
        let deliverable = reason.deliverable().map_or("null".to_owned(), |it| it.to_string());
        let _ = write!(text, "\n| `{}` | {deliverable} | {} |", reason.as_str(), meaning_of_reason(*reason));
    }
    text
}

/// A table of causes with their next steps in Markdown.
pub fn of_causes() -> String {
    let mut text = " A new check repeats the answers of the last 24 hours. It asks about an address that has no answer: with \
        `refusal_budget` or `outage`, or left unanswered by a cancelled list or batch. mailprobe's commands and options are for \
        the operator of the server.\n\n| cause | meaning | next step |\n| --- | --- | --- |"
        .to_owned();
    for cause in UnverifiableCause::ALL {
        let (name, advice) = (json!(cause), cause.advice_of_server(AFTER_REPEATS));
        let _ = write!(text, "\n| `{}` | {} | {advice} |", name.as_str().unwrap(), cause.words().meaning);
    }
    text
}

/// A table of error codes in Markdown.
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
        Reason::RoleAccount => "Deliverable, but a role address such as `info` or `sales`.",
        Reason::InvalidSyntax => "The text is not a valid address. The check is free.",
        Reason::Disposable => "The domain belongs to a provider of temporary addresses.",
        Reason::Spamtrap => "The address is a known spam trap.",
        Reason::InboxFull => "The mailbox is full.",
        Reason::MailboxDisabled => "The mailbox is disabled by its provider.",
        Reason::CatchAll => "The domain accepts every recipient, so the mailbox cannot be confirmed.",
        Reason::MailboxNotFound => "The mailbox does not exist; mail to it would bounce.",
        Reason::Unverifiable => {
            "The mailbox could not be confirmed, for example because of greylisting or a \
            time-out."
        }
        Reason::PossibleTypo => "Fast mode only: the domain looks like a typo; see `suggestion`.",
        Reason::NoMx => "Fast mode only: the domain has no mail server.",
        Reason::FastCheckPassed => "Fast mode only: no problem was found, but no mail server was asked.",
    }
}

/// The meaning of a code in one sentence.
pub fn of_error(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::InvalidRequest => {
            "The request is malformed or a value is unknown; `detail` has the \
            positions."
        }
        ErrorCode::InvalidEmails => "The batch has addresses that are not valid; nothing was charged.",
        ErrorCode::MissingApiKey => "No key was sent.",
        ErrorCode::InvalidApiKey => "The key is unknown or malformed.",
        ErrorCode::ApiKeyRevoked => "The key was revoked or has expired.",
        ErrorCode::InsufficientCredits => "Too few credits are left.",
        ErrorCode::SubscriptionInactive => "The subscription is paused or canceled.",
        ErrorCode::InsufficientScope => "The key lacks the scope of the request; `message` names the scope.",
        ErrorCode::PlanNotAllowed => "The plan does not include batches and lists.",
        ErrorCode::NotAvailableOn(_) => "This API gateway offers no more than single checks.",
        ErrorCode::LiveKeyRequired => "Only live keys may use this path.",
        ErrorCode::NotFound => "The account has no such batch, list or endpoint, or the path does not exist.",
        ErrorCode::MethodNotAllowed => "The path does not have this method; `Allow` lists its methods.",
        ErrorCode::RequestTimeout => "The request took too long to arrive.",
        ErrorCode::IdempotencyInProgress => {
            "A request with this `Idempotency-Key` is in progress; retry after `Retry-After`."
        }
        ErrorCode::OffsetMismatch => {
            "The upload continues at another byte than the list has; continue at `offset`."
        }
        ErrorCode::InvalidState => {
            "The state of the list or endpoint does not allow this, or the account has as many or as large lists, or \
                as many endpoints, as it may have."
        }
        ErrorCode::RequestTooLarge => {
            "The body has more than 256 KiB; the content of a list has more bytes than a list may have, or than \
                were announced."
        }
        ErrorCode::UnsupportedMediaType => {
            "The `Content-Type` of the body is not JSON, or the content of a list is sent as a form."
        }
        ErrorCode::IdempotencyKeyReused => "This `Idempotency-Key` was used with another request.",
        ErrorCode::RateLimited => "Too many requests; retry after `Retry-After`.",
        ErrorCode::InternalError => "A defect of the service.",
        ErrorCode::ProviderUnavailable => {
            "The service cannot reach mail servers at present; nothing was charged, and a retry is safe."
        }
        ErrorCode::TemporarilyUnavailable => {
            "The service is busy, starts or stops, or has asked the recipient's mail server as often as it \
                may for now; nothing was charged, and a retry after `Retry-After` is safe."
        }
    }
}
