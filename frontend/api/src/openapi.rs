//! The OpenAPI description of the contract: `GET /v1/openapi.json` and `mailprobe openapi`.
//!
//! Schemas are derived from the types that are rendered, or from their mirrors in [`wire`] where a type renders itself
//! by hand; every example is such a type, rendered. So the description cannot fall behind: `frontend/api/openapi.json`
//! is a checked snapshot of it, and tests compare it with the routes, the error codes and the request parsers.
//!
//! It is OpenAPI 3.1 (<https://spec.openapis.org/oas/v3.1.1.html>) in the words of 3.0, so that older tools can read
//! it: no `const`, no `prefixItems`, no keyword beside `$ref`, one type where there is one. Null alone has no form that
//! both versions know; it is written as 3.1 has it, `type: [string, "null"]` or `anyOf` with the type `null`.

mod answers;
mod examples;
mod meaning;
mod operations;
mod schemas;
#[cfg(test)]
mod tests;
pub(crate) mod wire;

use serde::Serialize;
use serde_json::{Value, json};

/// The version that the description carries: that of the contract, not of the program.
pub const VERSION: &str = "1.0.0";
const TITLE: &str = "Email Deliverability Verification API";
/// Where the server's description says it is when nobody has said: on the host that the description comes from.
pub const HERE: &str = "/";

/// The whole description; its fields are in the order in which people read them.
#[derive(Serialize)]
pub struct Document {
    openapi: &'static str,
    info: Value,
    servers: Value,
    security: Value,
    tags: Value,
    paths: Value,
    components: Value,
}

/// Describes the API that is served at this base address.
pub fn document(base_url: &str) -> Document {
    Document {
        openapi: "3.1.0",
        info: info(),
        servers: json!([{ "url": base_url }]),
        security: json!([{ "bearer": [] }]),
        tags: tags(),
        paths: operations::paths(),
        components: json!({
            "schemas": schemas::all(),
            "responses": answers::all(),
            "headers": answers::headers(),
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API key: live keys start with `mp_live_`, test keys with `mp_test_`. Keep it on \
                        your server, never in a browser.",
                },
            },
        }),
    }
}

/// The description as a text for people and files.
///
/// # Errors
/// None that is known: everything in it can be rendered.
pub fn pretty(base_url: &str) -> Result<String, serde_json::Error> {
    Ok(serde_json::to_string_pretty(&document(base_url))? + "\n")
}

fn info() -> Value {
    json!({
        "title": TITLE,
        "version": VERSION,
        "description": OVERVIEW,
        "license": { "name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0" },
    })
}

fn tags() -> Value {
    json!([
        { "name": "Verify", "description": "One address, answered at once." },
        { "name": "Batch", "description": "Up to 200 addresses, answered when you poll." },
        { "name": "Account", "description": "Plan and credits." },
        { "name": "Description", "description": "This document." },
    ])
}

const OVERVIEW: &str = "\
Can mail be sent to an address without bouncing? `deliverable` says yes or no, strictly: it is true only for confirmed \
mailboxes. `reason` says why.

A full check asks the recipient's mail servers, takes usually 1 to 5 seconds and costs 1 credit. Free are: fast checks \
(`mode=fast`), which ask no mail server and can prove an address bad but never good; repeats of an address within 24 \
hours; answers about what is no address; the account; and everything done with a test key. When verification itself is \
unavailable (503), the charge is given back.

Test keys never ask mail servers. The local part chooses the answer, any domain will do and a `+tag` is ignored: \
`deliverable`, `role`, `disposable`, `spamtrap`, `inbox_full`, `mailbox_disabled`, `catch_all`, `unverifiable`; anything \
else is `mailbox_not_found`.

Limits count per key and endpoint in any 60 seconds. `RateLimit` and `X-RateLimit-*` headers tell where you stand; 429 \
and 503 say in `Retry-After` when to come again. Every answer has an `X-Request-Id`; quote it when you ask about one.

Within `/v1` changes only add: ignore fields that you do not know.";
