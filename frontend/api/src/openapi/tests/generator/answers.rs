//! The error responses of the description, and the headers of answers.

use super::{examples, meaning, schemas};
use crate::{ErrorBody, ErrorCode};
use serde_json::{Map, Value, json};

/// An error response: codes with the same status that occur in the same operations.
pub struct Refused {
    /// The name among the responses of the description.
    pub name: &'static str,
    /// The codes of the response.
    pub codes: &'static [ErrorCode],
    headers: &'static [&'static str],
    /// Headers that only some of the codes have.
    some: &'static [&'static str],
}

const ID: &str = "X-Request-Id";
const LIMITS: [&str; 5] =
    ["RateLimit-Policy", "RateLimit", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"];

/// The response 400 of all operations except batches.
pub const INVALID: Refused = refused("InvalidRequest", &[ErrorCode::InvalidRequest], &[]);
/// The response 400 of batches.
pub const INVALID_BATCH: Refused =
    refused("InvalidBatch", &[ErrorCode::InvalidRequest, ErrorCode::InvalidEmails], &[]);
/// The response 401 to a missing or invalid key.
pub const UNAUTHORIZED: Refused = refused(
    "Unauthorized",
    &[ErrorCode::MissingApiKey, ErrorCode::InvalidApiKey, ErrorCode::ApiKeyRevoked],
    &["WWW-Authenticate"],
);
/// The response 402 without enough credits.
pub const UNPAID: Refused =
    refused("PaymentRequired", &[ErrorCode::InsufficientCredits, ErrorCode::SubscriptionInactive], &[]);
/// The response 403 to a key without the scope of the operation.
pub const NO_SCOPE: Refused = refused("InsufficientScope", &[ErrorCode::InsufficientScope], &[]);
/// The response 403 to a key without the scope, and to a request that the plan does not include.
pub const NOT_ALLOWED: Refused =
    refused("Forbidden", &[ErrorCode::InsufficientScope, ErrorCode::PlanNotAllowed], &[]);
/// The response 403 to a key without the scope, and to a test key.
pub const LIVE_ONLY: Refused =
    refused("LiveKeyRequired", &[ErrorCode::InsufficientScope, ErrorCode::LiveKeyRequired], &[]);
/// The response 404 to an unknown path or batch.
pub const NOT_FOUND: Refused = refused("NotFound", &[ErrorCode::NotFound], &[]);
/// The response 405, which every path has.
pub const NO_METHOD: Refused = refused("MethodNotAllowed", &[ErrorCode::MethodNotAllowed], &["Allow"]);
/// The response 408, which every operation with a body has.
pub const TOO_SLOW: Refused = refused("RequestTimeout", &[ErrorCode::RequestTimeout], &[]);
/// The response 409 to a request whose idempotency key is in use.
pub const IN_PROGRESS: Refused =
    refused("IdempotencyInProgress", &[ErrorCode::IdempotencyInProgress], &["Retry-After"]);
/// The response 409 to the creation of a list.
pub const LIST_CONFLICT: Refused = Refused {
    some: &["Retry-After"],
    ..refused("ListConflict", &[ErrorCode::IdempotencyInProgress, ErrorCode::InvalidState], &[])
};
/// The response 409 to a part of a list.
pub const OFFSET_MISMATCH: Refused =
    refused("OffsetMismatch", &[ErrorCode::OffsetMismatch, ErrorCode::InvalidState], &[]);
/// The response 409 to a request that the state of the list does not allow.
pub const INVALID_STATE: Refused = refused("InvalidState", &[ErrorCode::InvalidState], &[]);
/// The response 413 to a body that is too large.
pub const TOO_LARGE: Refused = refused("RequestTooLarge", &[ErrorCode::RequestTooLarge], &[]);
/// The response 415 to a body that is not JSON.
pub const NO_JSON: Refused = refused("UnsupportedMediaType", &[ErrorCode::UnsupportedMediaType], &[]);
/// The response 422 to a reused idempotency key.
pub const KEY_REUSED: Refused = refused("IdempotencyKeyReused", &[ErrorCode::IdempotencyKeyReused], &[]);
/// The response 429 to a request over a limit.
pub const LIMITED: Refused = refused("RateLimited", &[ErrorCode::RateLimited], &["Retry-After"]);
/// The response 500, which every operation has and which is never expected.
pub const DEFECT: Refused = refused("InternalError", &[ErrorCode::InternalError], &[]);
/// The response 503 while the service is unavailable.
pub const UNAVAILABLE: Refused = refused(
    "Unavailable",
    &[ErrorCode::ProviderUnavailable, ErrorCode::TemporarilyUnavailable],
    &["Retry-After"],
);

/// The responses that no operation names, by their status: every path, body and operation has them.
pub fn of_any_request() -> Value {
    let reference = |of: &Refused| json!({ "$ref": format!("#/components/responses/{}", of.name) });
    json!({ "405": reference(&NO_METHOD), "408": reference(&TOO_SLOW), "500": reference(&DEFECT) })
}

/// All error responses. Those of every path and body are not named by an operation.
const ALL: [&Refused; 20] = [
    &INVALID,
    &INVALID_BATCH,
    &UNAUTHORIZED,
    &UNPAID,
    &NO_SCOPE,
    &NOT_ALLOWED,
    &LIVE_ONLY,
    &NOT_FOUND,
    &NO_METHOD,
    &TOO_SLOW,
    &IN_PROGRESS,
    &LIST_CONFLICT,
    &OFFSET_MISMATCH,
    &INVALID_STATE,
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
    Refused { name, codes, headers, some: &[] }
}

impl Refused {
    /// The status as the key of a response.
    pub fn status(&self) -> String {
        self.codes[0].status().to_string()
    }

    /// A reference to the response.
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
            // Requests that are refused before they are counted have no limit headers.
            401 | 403 | 405 => self.headers.to_vec(),
            _ => self.headers.iter().copied().chain(LIMITS).collect(),
        };
        let mut carried = carried(&headers);
        for name in self.some {
            // The shared header says that every answer has it.
            carried[*name] = self::headers()[*name].clone();
            carried[*name]["required"] = json!(false);
        }
        json!({
            "description": sentences.join(" Or: "),
            "headers": carried,
            "content": {
                "application/json": { "schema": schemas::of::<ErrorBody>(), "examples": examples },
            },
        })
    }
}

/// All error responses by their names.
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

/// A successful response with rows as CSV, JSON lines or a spreadsheet.
pub fn rows(description: &str, csv: &str, jsonl: &str, headers: &[&str]) -> Value {
    let media = |summary: &str, value: &str| {
        let example = json!({ "rows": { "summary": summary, "value": value } });
        json!({ "schema": { "type": "string" }, "examples": example })
    };
    json!({
        "description": description,
        "headers": carried(headers),
        "content": {
            "text/csv": media("Rows as CSV", csv),
            "application/x-ndjson": media("Rows as JSON lines", jsonl),
            "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": {
                "schema": { "type": "string", "format": "binary" },
                "examples": { "rows": { "summary": "The bytes of a spreadsheet", "value": "PK..." } },
            },
        },
    })
}

/// A successful response without a body.
pub fn empty(description: &str, headers: &[&str]) -> Value {
    json!({ "description": description, "headers": carried(headers) })
}

/// The names of these headers, and of those for limits.
pub fn with_limits(headers: &[&'static str]) -> Vec<&'static str> {
    headers.iter().copied().chain(LIMITS).collect()
}

/// References to these headers, and to the one that every answer has.
fn carried(names: &[&str]) -> Value {
    let reference =
        |name: &&str| ((*name).to_owned(), json!({ "$ref": format!("#/components/headers/{name}") }));
    std::iter::once(&ID).chain(names).map(reference).collect::<Map<_, _>>().into()
}

/// All headers by their names.
pub fn headers() -> Value {
    let header = |required: bool, description: &str, schema: Value, example: Value| json!({ "description": description, "required": required, "schema": schema, "example": example });
    let text = || json!({ "type": "string" });
    let number = || json!({ "type": "integer", "minimum": 0 });
    json!({
        "X-Request-Id": header(
            true,
            "The name of the request in the server's log. It is the value of the request's `X-Request-Id` if \
                that has 1 to 64 characters of `A-Z a-z 0-9 . _ -`.",
            json!({ "type": "string", "minLength": 1, "maxLength": 64 }),
            json!("0199f8a1c4d27c3e9a5b6f708192a3b4"),
        ),
        "WWW-Authenticate": header(true, "How to authenticate.", text(), json!("Bearer realm=\"mailprobe\"")),
        "Cache-Control": header(true, "The time that caches may keep the answer.", text(), json!("public, \
            max-age=300")),
        "Allow": header(true, "The methods of this path.", text(), json!("GET, POST")),
        "Retry-After": header(true, "The seconds to wait before the next try.", number(), json!(2)),
        "Idempotent-Replayed": header(
            false,
            "`true` if this is the answer to an earlier request with the same `Idempotency-Key`, otherwise \
                absent.",
            json!({ "type": "string", "enum": ["true"] }),
            json!("true"),
        ),
        "RateLimit-Policy": header(
            false,
            "The limit that applies: its name, its requests `q` and its window `w` in seconds.",
            text(),
            json!("\"verify\";q=600;w=60"),
        ),
        "RateLimit": header(
            false,
            "The remaining requests `r`, and the seconds `t` until more are allowed.",
            text(),
            json!("\"verify\";r=599;t=60"),
        ),
        "X-RateLimit-Limit": header(false, "The requests that the limit allows in its \
            window.", number(), json!(600)),
        "X-RateLimit-Remaining": header(false, "The remaining requests.", number(), json!(599)),
        "X-RateLimit-Reset": header(
            false,
            "The time at which more requests are allowed, in seconds since 1970.",
            number(),
            json!(1_767_225_600),
        ),
    })
}
