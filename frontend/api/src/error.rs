//! The error envelope: `{error, message, ...}`.

use serde::Serialize;
use serde::Serializer;
use serde_json::{Map, Value};
use std::borrow::Cow;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AnyOfBuilder, ObjectBuilder, Ref, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

/// What went wrong, for programs. A code always comes with the same HTTP status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// Malformed request, including an unknown `mode` or `detail`.
    InvalidRequest,
    /// A batch contains invalid addresses.
    InvalidEmails,
    /// No key sent.
    MissingApiKey,
    /// Unknown or malformed key.
    InvalidApiKey,
    /// Revoked key.
    ApiKeyRevoked,
    /// Out of credits.
    InsufficientCredits,
    /// Subscription paused or canceled.
    SubscriptionInactive,
    /// Batches are not included in the plan.
    PlanNotAllowed,
    /// Not offered through an API gateway: [`NOT_AVAILABLE_ON`] and the gateway's name.
    NotAvailableOn(&'static str),
    /// Nothing there: an unknown path, or no such batch on the account.
    NotFound,
    /// The path is known, the method is not one of its own.
    MethodNotAllowed,
    /// The request took too long to arrive.
    RequestTimeout,
    /// Same `Idempotency-Key` still running.
    IdempotencyInProgress,
    /// The body is too large.
    RequestTooLarge,
    /// The body says that it is not JSON.
    UnsupportedMediaType,
    /// The `Idempotency-Key` was used with another body.
    IdempotencyKeyReused,
    /// Too many requests.
    RateLimited,
    /// A defect of the service.
    InternalError,
    /// Verification backend unavailable.
    ProviderUnavailable,
    /// Queue full, starting or draining.
    TemporarilyUnavailable,
}

impl ErrorCode {
    /// All of them, by status, but for the one that has a gateway's name in it.
    pub const ALL: [ErrorCode; 19] = [
        ErrorCode::InvalidRequest,
        ErrorCode::InvalidEmails,
        ErrorCode::MissingApiKey,
        ErrorCode::InvalidApiKey,
        ErrorCode::ApiKeyRevoked,
        ErrorCode::InsufficientCredits,
        ErrorCode::SubscriptionInactive,
        ErrorCode::PlanNotAllowed,
        ErrorCode::NotFound,
        ErrorCode::MethodNotAllowed,
        ErrorCode::RequestTimeout,
        ErrorCode::IdempotencyInProgress,
        ErrorCode::RequestTooLarge,
        ErrorCode::UnsupportedMediaType,
        ErrorCode::IdempotencyKeyReused,
        ErrorCode::RateLimited,
        ErrorCode::InternalError,
        ErrorCode::ProviderUnavailable,
        ErrorCode::TemporarilyUnavailable,
    ];

    /// The HTTP status it travels with.
    pub fn status(self) -> u16 {
        match self {
            ErrorCode::InvalidRequest | ErrorCode::InvalidEmails => 400,
            ErrorCode::MissingApiKey | ErrorCode::InvalidApiKey | ErrorCode::ApiKeyRevoked => 401,
            ErrorCode::InsufficientCredits | ErrorCode::SubscriptionInactive => 402,
            ErrorCode::PlanNotAllowed | ErrorCode::NotAvailableOn(_) => 403,
            ErrorCode::NotFound => 404,
            ErrorCode::MethodNotAllowed => 405,
            ErrorCode::RequestTimeout => 408,
            ErrorCode::IdempotencyInProgress => 409,
            ErrorCode::RequestTooLarge => 413,
            ErrorCode::UnsupportedMediaType => 415,
            ErrorCode::IdempotencyKeyReused => 422,
            ErrorCode::RateLimited => 429,
            ErrorCode::InternalError => 500,
            ErrorCode::ProviderUnavailable | ErrorCode::TemporarilyUnavailable => 503,
        }
    }

    /// The code on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorCode::InvalidRequest => "invalid_request",
            ErrorCode::InvalidEmails => "invalid_emails",
            ErrorCode::MissingApiKey => "missing_api_key",
            ErrorCode::InvalidApiKey => "invalid_api_key",
            ErrorCode::ApiKeyRevoked => "api_key_revoked",
            ErrorCode::InsufficientCredits => "insufficient_credits",
            ErrorCode::SubscriptionInactive => "subscription_inactive",
            ErrorCode::PlanNotAllowed => "plan_not_allowed",
            ErrorCode::NotAvailableOn(code) => code,
            ErrorCode::NotFound => "not_found",
            ErrorCode::MethodNotAllowed => "method_not_allowed",
            ErrorCode::RequestTimeout => "request_timeout",
            ErrorCode::IdempotencyInProgress => "idempotency_in_progress",
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

/// How the code of [`ErrorCode::NotAvailableOn`] begins; `a-z`, `0-9` and `_` follow.
pub const NOT_AVAILABLE_ON: &str = "not_available_on_";

impl Serialize for ErrorCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl PartialSchema for ErrorCode {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some(
                "What went wrong, for programs. A code always comes with the same HTTP status.",
            ))
            .enum_values(Some(ErrorCode::ALL.map(ErrorCode::as_str)))
            .into()
    }
}

impl ToSchema for ErrorCode {
    fn name() -> Cow<'static, str> {
        "ErrorCode".into()
    }
}

/// A code of the table, or the one that has a gateway's name in it.
fn any_code() -> AnyOfBuilder {
    let with_name = ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some("403, through an API gateway: it offers no more than single checks."))
        .pattern(Some(format!("^{NOT_AVAILABLE_ON}[a-z0-9_]+$")));
    AnyOfBuilder::new()
        .description(Some("The code, for programs."))
        .item(Ref::from_schema_name(ErrorCode::name()))
        .item(with_name)
}

/// Every error has this form. Fields that a code does not use are absent; there may be more fields one day.
#[derive(Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = Error)]
pub struct ErrorBody {
    /// The code, for programs.
    #[schema(schema_with = any_code)]
    pub error: ErrorCode,
    /// What is wrong, for people.
    #[schema(value_type = String)]
    pub message: Cow<'static, str>,
    /// 400 `invalid_request`: what is wrong, where.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub detail: Vec<Issue>,
    /// 402: the balance.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub credits_remaining: Option<u64>,
    /// 402 of a batch: what it would have cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub credits_required: Option<u64>,
    /// 400 `invalid_emails`: the first of the invalid addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 10)]
    pub invalid: Vec<Offender>,
    /// 400 `invalid_emails`: how many invalid addresses there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub invalid_count: Option<usize>,
}

/// Most invalid addresses of a batch that are listed.
pub const OFFENDERS_MAX: usize = 10;

/// An invalid address of a batch.
#[derive(Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Offender {
    /// Its place in `emails`, from 0.
    pub index: usize,
    /// As submitted.
    pub email: String,
}

impl ErrorBody {
    /// An envelope with code and message alone.
    pub fn new(error: ErrorCode, message: impl Into<Cow<'static, str>>) -> ErrorBody {
        ErrorBody {
            error,
            message: message.into(),
            detail: Vec::new(),
            credits_remaining: None,
            credits_required: None,
            invalid: Vec::new(),
            invalid_count: None,
        }
    }
}

/// One thing that is wrong with a request.
#[derive(Clone, PartialEq, Serialize, ToSchema)]
pub struct Issue {
    /// Where in the request, as `["query", "mode"]` or `["body", "emails", 3]`.
    pub loc: Vec<Loc>,
    /// What is wrong, for people.
    #[schema(value_type = String)]
    pub msg: Cow<'static, str>,
    /// What kind of thing is wrong, for programs.
    #[serde(rename = "type")]
    pub kind: IssueType,
    /// What was found there. Absent where it is long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// What would have been right, where that can be said.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub ctx: Map<String, Value>,
}

impl Issue {
    /// An issue without input and ctx.
    pub fn new(loc: &[&'static str], kind: IssueType, msg: impl Into<Cow<'static, str>>) -> Issue {
        let loc = loc.iter().map(|name| Loc::Name(name)).collect();
        Issue { loc, msg: msg.into(), kind, input: None, ctx: Map::new() }
    }

    /// Adds what was found.
    pub fn input(mut self, input: Value) -> Issue {
        self.input = Some(input);
        self
    }

    /// Adds what would have been right.
    pub fn ctx(mut self, key: &str, value: impl Into<Value>) -> Issue {
        self.ctx.insert(key.to_owned(), value.into());
        self
    }
}

/// One step on the way into a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum Loc {
    /// A part of the request, or the name of a field.
    Name(&'static str),
    /// An item of an array, from 0.
    Index(usize),
}

/// The closed set of kinds of issue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum IssueType {
    /// A required field or parameter is absent.
    Missing,
    /// The body is no JSON text, or one with a duplicate key.
    JsonInvalid,
    /// An object was expected.
    ObjectType,
    /// A string was expected.
    StringType,
    /// The string is too long.
    StringTooLong,
    /// The string has a character that may not stand there, or none at all.
    StringPatternMismatch,
    /// An array was expected.
    ListType,
    /// The array has too few items.
    TooShort,
    /// The array has too many items.
    TooLong,
    /// None of the allowed values.
    Enum,
    /// Given more than once.
    Duplicate,
    /// Given in two places, differently.
    Conflict,
    /// Not UTF-8, or a broken percent escape.
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
