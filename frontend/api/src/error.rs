//! The body of errors: `{error, message, ...}`.

use serde::Serialize;
use serde::Serializer;
use serde_json::{Map, Value};
use std::borrow::Cow;
#[cfg(test)]
use utoipa::ToSchema;

/// An error code for programs. A code always has the same HTTP status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// Malformed request, including an unknown `mode` or `detail`.
    InvalidRequest,
    /// The batch contains invalid addresses.
    InvalidEmails,
    /// The request has no API key.
    MissingApiKey,
    /// The API key is unknown or malformed.
    InvalidApiKey,
    /// The API key was revoked.
    ApiKeyRevoked,
    /// The account has too few credits.
    InsufficientCredits,
    /// The subscription is paused or canceled.
    SubscriptionInactive,
    /// The API key lacks the scope of the request.
    InsufficientScope,
    /// The plan does not include batches and lists.
    PlanNotAllowed,
    /// The route is not offered through an API gateway: [`NOT_AVAILABLE_ON`] and the gateway's name.
    NotAvailableOn(&'static str),
    /// The route needs a live key.
    LiveKeyRequired,
    /// There is no such path, or no such object of the account.
    NotFound,
    /// The path does not have this method.
    MethodNotAllowed,
    /// The request took too long to arrive.
    RequestTimeout,
    /// An earlier request with the same `Idempotency-Key` is still running.
    IdempotencyInProgress,
    /// The upload continues at another offset than the list has.
    OffsetMismatch,
    /// The state of the object does not allow the request, or a limit of the account is reached.
    InvalidState,
    /// The body is too large.
    RequestTooLarge,
    /// The body has another type than JSON.
    UnsupportedMediaType,
    /// The `Idempotency-Key` was used with another body.
    IdempotencyKeyReused,
    /// Too many requests.
    RateLimited,
    /// An internal error of the service.
    InternalError,
    /// The engine cannot reach mail servers or resolvers.
    ProviderUnavailable,
    /// The queue is full, or the server starts or drains.
    TemporarilyUnavailable,
}

impl ErrorCode {
    /// All codes in the order of their status, except the one with a gateway's name.
    pub const ALL: [ErrorCode; 23] = [
        ErrorCode::InvalidRequest,
        ErrorCode::InvalidEmails,
        ErrorCode::MissingApiKey,
        ErrorCode::InvalidApiKey,
        ErrorCode::ApiKeyRevoked,
        ErrorCode::InsufficientCredits,
        ErrorCode::SubscriptionInactive,
        ErrorCode::InsufficientScope,
        ErrorCode::PlanNotAllowed,
        ErrorCode::LiveKeyRequired,
        ErrorCode::NotFound,
        ErrorCode::MethodNotAllowed,
        ErrorCode::RequestTimeout,
        ErrorCode::IdempotencyInProgress,
        ErrorCode::OffsetMismatch,
        ErrorCode::InvalidState,
        ErrorCode::RequestTooLarge,
        ErrorCode::UnsupportedMediaType,
        ErrorCode::IdempotencyKeyReused,
        ErrorCode::RateLimited,
        ErrorCode::InternalError,
        ErrorCode::ProviderUnavailable,
        ErrorCode::TemporarilyUnavailable,
    ];

    /// The HTTP status of the code.
    pub fn status(self) -> u16 {
        match self {
            ErrorCode::InvalidRequest | ErrorCode::InvalidEmails => 400,
            ErrorCode::MissingApiKey | ErrorCode::InvalidApiKey | ErrorCode::ApiKeyRevoked => 401,
            ErrorCode::InsufficientCredits | ErrorCode::SubscriptionInactive => 402,
            ErrorCode::InsufficientScope
            | ErrorCode::PlanNotAllowed
            | ErrorCode::LiveKeyRequired
            | ErrorCode::NotAvailableOn(_) => 403,
            ErrorCode::NotFound => 404,
            ErrorCode::MethodNotAllowed => 405,
            ErrorCode::RequestTimeout => 408,
            ErrorCode::IdempotencyInProgress | ErrorCode::OffsetMismatch | ErrorCode::InvalidState => 409,
            ErrorCode::RequestTooLarge => 413,
            ErrorCode::UnsupportedMediaType => 415,
            ErrorCode::IdempotencyKeyReused => 422,
            ErrorCode::RateLimited => 429,
            ErrorCode::InternalError => 500,
            ErrorCode::ProviderUnavailable | ErrorCode::TemporarilyUnavailable => 503,
        }
    }

    /// The code as answers have it.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorCode::InvalidRequest => "invalid_request",
            ErrorCode::InvalidEmails => "invalid_emails",
            ErrorCode::MissingApiKey => "missing_api_key",
            ErrorCode::InvalidApiKey => "invalid_api_key",
            ErrorCode::ApiKeyRevoked => "api_key_revoked",
            ErrorCode::InsufficientCredits => "insufficient_credits",
            ErrorCode::SubscriptionInactive => "subscription_inactive",
            ErrorCode::InsufficientScope => "insufficient_scope",
            ErrorCode::PlanNotAllowed => "plan_not_allowed",
            ErrorCode::LiveKeyRequired => "live_key_required",
            ErrorCode::NotAvailableOn(code) => code,
            ErrorCode::NotFound => "not_found",
            ErrorCode::MethodNotAllowed => "method_not_allowed",
            ErrorCode::RequestTimeout => "request_timeout",
            ErrorCode::IdempotencyInProgress => "idempotency_in_progress",
            ErrorCode::OffsetMismatch => "offset_mismatch",
            ErrorCode::InvalidState => "invalid_state",
            ErrorCode::RequestTooLarge => "request_too_large",
            ErrorCode::UnsupportedMediaType => "unsupported_media_type",
            ErrorCode::IdempotencyKeyReused => "idempotency_key_reused",
            ErrorCode::RateLimited => "rate_limited",
            ErrorCode::InternalError => "internal_error",
            ErrorCode::ProviderUnavailable => "provider_unavailable",
            ErrorCode::TemporarilyUnavailable => "temporarily_unavailable",
        }
    }
}

/// The start of the code of [`ErrorCode::NotAvailableOn`], before the gateway's name of `a-z`, `0-9` and `_`.
pub const NOT_AVAILABLE_ON: &str = "not_available_on_";

impl Serialize for ErrorCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// The body of every error. Fields that a code does not use are absent; new fields may be added.
#[derive(Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
#[cfg_attr(test, schema(as = Error))]
pub struct ErrorBody {
    /// The code for programs.
    #[cfg_attr(test, schema(schema_with = crate::openapi::tests::generator::schemas::any_code))]
    pub error: ErrorCode,
    /// The message for people.
    #[cfg_attr(test, schema(value_type = String))]
    pub message: Cow<'static, str>,
    /// 400 `invalid_request`: all errors in the request, with their positions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub detail: Vec<Issue>,
    /// 402: the balance.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(nullable = false))]
    pub credits_remaining: Option<u64>,
    /// 402 of a batch or list: its price; for a list, the estimated price of the rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(nullable = false))]
    pub credits_required: Option<u64>,
    /// 400 `invalid_emails`: the first invalid addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, schema(max_items = 10))]
    pub invalid: Vec<Offender>,
    /// 400 `invalid_emails`: the number of invalid addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(nullable = false))]
    pub invalid_count: Option<usize>,
    /// 409 `offset_mismatch`: the offset of the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(nullable = false))]
    pub offset: Option<u64>,
}

/// The largest number of invalid addresses that are listed.
pub const OFFENDERS_MAX: usize = 10;

/// An invalid address of a batch.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
pub struct Offender {
    /// The index in `emails`, from 0.
    pub index: usize,
    /// The address as submitted.
    pub email: String,
}

impl ErrorBody {
    /// An error with only a code and a message.
    pub fn new(error: ErrorCode, message: impl Into<Cow<'static, str>>) -> ErrorBody {
        ErrorBody {
            error,
            message: message.into(),
            detail: Vec::new(),
            credits_remaining: None,
            credits_required: None,
            invalid: Vec::new(),
            invalid_count: None,
            offset: None,
        }
    }
}

/// One error in a request.
#[derive(Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
pub struct Issue {
    /// The position in the request, such as `["query", "mode"]` or `["body", "emails", 3]`.
    pub loc: Vec<Loc>,
    /// The error, for people.
    #[cfg_attr(test, schema(value_type = String))]
    pub msg: Cow<'static, str>,
    /// The kind of the error, for programs.
    #[serde(rename = "type")]
    pub kind: IssueType,
    /// The value at this position. Absent if it is long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// The allowed values, if they can be listed.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub ctx: Map<String, Value>,
}

impl Issue {
    /// An issue without `input` and `ctx`.
    pub fn new(loc: &[&'static str], kind: IssueType, msg: impl Into<Cow<'static, str>>) -> Issue {
        let loc = loc.iter().map(|name| Loc::Name(name)).collect();
        Issue { loc, msg: msg.into(), kind, input: None, ctx: Map::new() }
    }

    /// Adds the value that was found.
    pub fn input(mut self, input: Value) -> Issue {
        self.input = Some(input);
        self
    }

    /// Adds an allowed value or limit.
    pub fn ctx(mut self, key: &str, value: impl Into<Value>) -> Issue {
        self.ctx.insert(key.to_owned(), value.into());
        self
    }
}

/// One step of the path to a position in a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
#[serde(untagged)]
pub enum Loc {
    /// A part of the request, or the name of a field.
    Name(&'static str),
    /// An item of an array, from 0.
    Index(usize),
}

/// The closed set of kinds of issues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum IssueType {
    /// A required field or parameter is missing.
    Missing,
    /// The body is not JSON, or has a duplicate key.
    JsonInvalid,
    /// An object was expected.
    ObjectType,
    /// A string was expected.
    StringType,
    /// True or false was expected.
    BoolType,
    /// The string is too long.
    StringTooLong,
    /// The string has a character that is not allowed, or is empty.
    StringPatternMismatch,
    /// An integer was expected.
    IntType,
    /// The number is smaller or larger than allowed.
    OutOfRange,
    /// An array was expected.
    ListType,
    /// The array has too few items.
    TooShort,
    /// The array has too many items.
    TooLong,
    /// The value is not one of the allowed ones.
    Enum,
    /// The value is given more than once.
    Duplicate,
    /// The value is given in two places, with a difference.
    Conflict,
    /// The text is not UTF-8, or has an invalid percent escape.
    Encoding,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_and_wire_agree() {
        for code in ErrorCode::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        }
        assert!(ErrorCode::ALL.is_sorted_by_key(|code| code.status()));
    }

    #[test]
    fn the_envelope_is_flat_and_lean() {
        let mut body = ErrorBody::new(ErrorCode::InsufficientCredits, "out");
        body.credits_remaining = Some(0);
        assert_eq!(
            serde_json::to_string(&body).unwrap(),
            r#"{"error":"insufficient_credits","message":"out","credits_remaining":0}"#
        );
        body.credits_required = Some(3);
        assert!(
            serde_json::to_string(&body).unwrap().ends_with(r#""credits_remaining":0,"credits_required":3}"#)
        );
        let mut body = ErrorBody::new(ErrorCode::InvalidEmails, "bad");
        body.invalid.push(Offender { index: 2, email: "a b".into() });
        body.invalid_count = Some(1);
        assert_eq!(
            serde_json::to_string(&body).unwrap(),
            r#"{"error":"invalid_emails","message":"bad","invalid":[{"index":2,"email":"a b"}],"invalid_count":1}"#
        );
        let mut body = ErrorBody::new(ErrorCode::InvalidRequest, "bad");
        body.detail.push(
            Issue::new(&["query", "mode"], IssueType::Enum, "unknown")
                .input("x".into())
                .ctx("expected", "fast, full"),
        );
        assert_eq!(
            serde_json::to_string(&body).unwrap(),
            r#"{"error":"invalid_request","message":"bad","detail":[{"loc":["query","mode"],"msg":"unknown","type":"enum","input":"x","ctx":{"expected":"fast, full"}}]}"#
        );
    }
}
