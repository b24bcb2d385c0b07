//! Errors as the description's responses, and the headers that answers carry.

use super::{examples, meaning, schemas};
use crate::{ErrorBody, ErrorCode};
use serde_json::{Map, Value, json};

/// An error response: codes of one status that come in the same places.
pub struct Refused {
    /// Its name among the description's responses.
    pub name: &'static str,
    /// Its codes.
    pub codes: &'static [ErrorCode],
    headers: &'static [&'static str],
}

const ID: &str = "X-Request-Id";
const LIMITS: [&str; 5] =
    ["RateLimit-Policy", "RateLimit", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"];

/// 400 of everything but batches.
pub const INVALID: Refused = refused("InvalidRequest", &[ErrorCode::InvalidRequest], &[]);
/// 400 of batches.
pub const INVALID_BATCH: Refused =
    refused("InvalidBatch", &[ErrorCode::InvalidRequest, ErrorCode::InvalidEmails], &[]);
/// 401.
pub const UNAUTHORIZED: Refused = refused(
    "Unauthorized",
    &[ErrorCode::MissingApiKey, ErrorCode::InvalidApiKey, ErrorCode::ApiKeyRevoked],
    &["WWW-Authenticate"],
);
/// 402.
pub const UNPAID: Refused =
    refused("PaymentRequired", &[ErrorCode::InsufficientCredits, ErrorCode::SubscriptionInactive], &[]);
/// 403.
pub const NOT_ALLOWED: Refused = refused("Forbidden", &[ErrorCode::PlanNotAllowed], &[]);
/// 404.
pub const NOT_FOUND: Refused = refused("NotFound", &[ErrorCode::NotFound], &[]);
/// 405, of every path.
pub const NO_METHOD: Refused = refused("MethodNotAllowed", &[ErrorCode::MethodNotAllowed], &["Allow"]);
/// 408, of every body.
pub const TOO_SLOW: Refused = refused("RequestTimeout", &[ErrorCode::RequestTimeout], &[]);
/// 409.
pub const IN_PROGRESS: Refused =
    refused("IdempotencyInProgress", &[ErrorCode::IdempotencyInProgress], &["Retry-After"]);
/// 413.
pub const TOO_LARGE: Refused = refused("RequestTooLarge", &[ErrorCode::RequestTooLarge], &[]);
/// 415.
pub const NO_JSON: Refused = refused("UnsupportedMediaType", &[ErrorCode::UnsupportedMediaType], &[]);
/// 422.
pub const KEY_REUSED: Refused = refused("IdempotencyKeyReused", &[ErrorCode::IdempotencyKeyReused], &[]);
/// 429.
pub const LIMITED: Refused = refused("RateLimited", &[ErrorCode::RateLimited], &["Retry-After"]);
/// 500, of everything and never to be expected.
pub const DEFECT: Refused = refused("InternalError", &[ErrorCode::InternalError], &[]);
/// 503.
pub const UNAVAILABLE: Refused = refused(
    "Unavailable",
    &[ErrorCode::ProviderUnavailable, ErrorCode::TemporarilyUnavailable],
    &["Retry-After"],
);

/// All of them. Those of every path and body stand among the responses without an operation that names them.
const ALL: [&Refused; 15] = [
    &INVALID,
    &INVALID_BATCH,
    &UNAUTHORIZED,
    &UNPAID,
    &NOT_ALLOWED,
    &NOT_FOUND,
    &NO_METHOD,
    &TOO_SLOW,
    &IN_PROGRESS,
    &TOO_LARGE,
    &NO_JSON,
    &KEY_REUSED,
    &LIMITED,
    &DEFECT,
    &UNAVAILABLE,
];

const fn refused(
    name: &'static str,
    codes: &'static [ErrorCode],
    headers: &'static [&'static str],
) -> Refused {
    Refused { name, codes, headers }
}

impl Refused {
    /// The status, as responses are keyed by.
    pub fn status(&self) -> String {
        self.codes[0].status().to_string()
    }

    /// A reference to it.
    pub fn reference(&self) -> Value {
        json!({ "$ref": format!("#/components/responses/{}", self.name) })
    }

    fn render(&self) -> Value {
        let sentences: Vec<&str> = self.codes.iter().map(|code| meaning::of_error(*code)).collect();
        let mut examples = Map::new();
        for code in self.codes {
            let value = json!({ "summary": meaning::of_error(*code), "value": examples::error(*code) });
            examples.insert(code.as_str().into(), value);
        }
        let headers: Vec<&str> = match self.codes[0].status() {
            // Whoever is refused before the count is not told of it.
            401 | 403 | 405 => self.headers.to_vec(),
            _ => self.headers.iter().copied().chain(LIMITS).collect(),
        };
        json!({
            "description": sentences.join(" Or: "),
            "headers": carried(&headers),
            "content": {
                "application/json": { "schema": schemas::of::<ErrorBody>(), "examples": examples },
            },
        })
    }
}

/// The error responses by their names.
pub fn all() -> Value {
    ALL.iter().map(|refused| (refused.name.to_owned(), refused.render())).collect::<Map<_, _>>().into()
}

/// A successful response with JSON.
pub fn answer(
    description: &str,
    schema: &Value,
    examples: Vec<examples::Example>,
    headers: &[&str],
) -> Value {
    let mut shown = Map::new();
    for (name, summary, value) in examples {
        shown.insert(name.into(), json!({ "summary": summary, "value": value }));
    }
    json!({
        "description": description,
        "headers": carried(headers),
        "content": { "application/json": { "schema": schema, "examples": shown } },
    })
}

/// Names of the headers that tell of limits, beside these.
pub fn with_limits(headers: &[&'static str]) -> Vec<&'static str> {
    headers.iter().copied().chain(LIMITS).collect()
}

/// References to these headers, and to the one that every answer has.
fn carried(names: &[&str]) -> Value {
    let reference =
        |name: &&str| ((*name).to_owned(), json!({ "$ref": format!("#/components/headers/{name}") }));
    std::iter::once(&ID).chain(names).map(reference).collect::<Map<_, _>>().into()
}

/// Every header by its name.
pub fn headers() -> Value {
    let header = |required: bool, description: &str, schema: Value, example: Value| json!({ "description": description, "required": required, "schema": schema, "example": example });
    let text = || json!({ "type": "string" });
    let number = || json!({ "type": "integer", "minimum": 0 });
    json!({
        "X-Request-Id": header(
            true,
            "Names the request in the server's log. Yours, if you sent 1 to 64 characters of `A-Z a-z 0-9 . _ -`.",
            json!({ "type": "string", "minLength": 1, "maxLength": 64 }),
            json!("0199f8a1c4d27c3e9a5b6f708192a3b4"),
        ),
        "WWW-Authenticate": header(true, "How to authenticate.", text(), json!("Bearer realm=\"mailprobe\"")),
        "Cache-Control": header(true, "How long it may be kept.", text(), json!("public, max-age=300")),
        "Allow": header(true, "The methods of this path.", text(), json!("GET, POST")),
        "Retry-After": header(true, "Seconds after which to come again.", number(), json!(2)),
        "Idempotent-Replayed": header(
            false,
            "`true` when this is the answer of an earlier request with the same `Idempotency-Key`; else absent.",
            json!({ "type": "string", "enum": ["true"] }),
            json!("true"),
        ),
        "RateLimit-Policy": header(
            false,
            "The limit that applies: its name, requests `q` and window `w` in seconds.",
            text(),
            json!("\"verify\";q=600;w=60"),
        ),
        "RateLimit": header(
            false,
            "Requests `r` that are left, and seconds `t` until there are more.",
            text(),
            json!("\"verify\";r=599;t=60"),
        ),
        "X-RateLimit-Limit": header(false, "Requests that the limit allows in its window.", number(), json!(600)),
        "X-RateLimit-Remaining": header(false, "Requests that are left.", number(), json!(599)),
        "X-RateLimit-Reset": header(
            false,
            "When there are more, in seconds since 1970.",
            number(),
            json!(1_767_225_600),
        ),
    })
}
