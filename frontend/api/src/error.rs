//! The body of errors: `{error, message, ...}`.

use serde::Serialize;
use serde::Serializer;
use serde_json::{Map, Value};
use std::borrow::Cow;
#[cfg(test)]
use utoipa::ToSchema;

/// Defines the error codes, each with its HTTP status and its name.
macro_rules! error_codes {
    ($($(#[$doc:meta])* $code:ident = $status:literal, $name:literal;)*) => {
        /// An error code for programs. A code always has the same HTTP status.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $($(#[$doc])* $code,)*
            /// The route is not offered through an API gateway: [`NOT_AVAILABLE_ON`] and the gateway's name.
            NotAvailableOn(&'static str),
        }

        impl ErrorCode {
            /// All codes in the order of their status, except the one with a gateway's name.
            pub const ALL: [ErrorCode; [$($name),*].len()] = [$(ErrorCode::$code),*];

            /// The HTTP status of the code.
            pub fn status(self) -> u16 {
                match self {
                    $(ErrorCode::$code => $status,)*
                    ErrorCode::NotAvailableOn(_) => 403,
                }
            }

            /// The code as answers have it.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(ErrorCode::$code => $name,)*
                    ErrorCode::NotAvailableOn(code) => code,
                }
            }
        }
    };
}

error_codes! {
    /// Malformed request, including an unknown `mode` or `detail`.
    InvalidRequest = 400, "invalid_request";
    /// The batch contains invalid addresses.
    InvalidEmails = 400, "invalid_emails";
    /// The request has no API key.
    MissingApiKey = 401, "missing_api_key";
    /// The API key is unknown or malformed.
    InvalidApiKey = 401, "invalid_api_key";
    /// The API key was revoked.
    ApiKeyRevoked = 401, "api_key_revoked";
    /// The account has too few credits.
    InsufficientCredits = 402, "insufficient_credits";
    /// The subscription is paused or canceled.
    SubscriptionInactive = 402, "subscription_inactive";
    /// The API key lacks the scope of the request.
    InsufficientScope = 403, "insufficient_scope";
    /// The plan does not include batches and lists.
    PlanNotAllowed = 403, "plan_not_allowed";
    /// The route needs a live key.
    LiveKeyRequired = 403, "live_key_required";
    /// There is no such path, or no such object of the account.
    NotFound = 404, "not_found";
    /// The path does not have this method.
    MethodNotAllowed = 405, "method_not_allowed";
    /// The request took too long to arrive.
    RequestTimeout = 408, "request_timeout";
    /// An earlier request with the same `Idempotency-Key` is still running.
    IdempotencyInProgress = 409, "idempotency_in_progress";
    /// The upload continues at another offset than the list has.
    OffsetMismatch = 409, "offset_mismatch";
    /// The state of the object does not allow the request, or a limit of the account is reached.
    InvalidState = 409, "invalid_state";
    /// The body is too large.
    RequestTooLarge = 413, "request_too_large";
    /// The body has another type than JSON.
    UnsupportedMediaType = 415, "unsupported_media_type";
    /// The `Idempotency-Key` was used with another body.
    IdempotencyKeyReused = 422, "idempotency_key_reused";
    /// Too many requests.
    RateLimited = 429, "rate_limited";
    /// An internal error of the service.
    InternalError = 500, "internal_error";
    /// The engine cannot reach mail servers or resolvers.
    ProviderUnavailable = 503, "provider_unavailable";
    /// The queue is full, or the server starts or drains.
    TemporarilyUnavailable = 503, "temporarily_unavailable";
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
