//! The generator of `frontend/api/openapi.json`, the description of the API.
//!
//! Schemas are derived from the types that are rendered. A type with a renderer of its own has a mirror in `wire.rs`.
//! Every example is a rendered value of such a type. So the description always agrees with the code, and the tests
//! compare it with the routes, the error codes and the request parsers.
//!
//! The version is OpenAPI 3.1 (<https://spec.openapis.org/oas/v3.1.1.html>) with only the keywords of 3.0, so that
//! older tools can read it: no `const`, no `prefixItems`, no keyword beside `$ref`, and a single type where one is
//! enough. For null alone the two versions have no common form. It is written in the form of 3.1, `type: [string,
//! "null"]` or `anyOf` with the type `null`.

mod answers;
mod examples;
pub mod export;
mod meaning;
mod operations;
pub mod schemas;
pub mod wire;

use crate::openapi::{Description, HERE};
use serde_json::{Value, json};

/// The version in the description: that of the contract, not of the program.
const VERSION: &str = "1.0.0";
const TITLE: &str = "Email Deliverability Verification API";

/// The description of the API for a server without a configured base URL.
pub fn description() -> Description {
    Description {
        openapi: "3.1.0".to_owned(),
        info: info(),
        servers: json!([{ "url": HERE }]),
        security: json!([{ "bearer": [] }]),
        tags: tags(),
        paths: operations::paths(),
        any_request: answers::of_any_request(),
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

fn info() -> Value {
    json!({
        "title": TITLE,
        "version": VERSION,
        "description": OVERVIEW,
        "contact": { "name": "The operator of this service" },
        "license": { "name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0" },
    })
}

fn tags() -> Value {
    json!([
        { "name": "Verify", "description": "Check one address and wait for the answer." },
        { "name": "Batch", "description": "Check up to 200 addresses and poll for the results." },
        { "name": "Webhooks", "description": "Hear of the end of batches and lists without polling.\n\nAnybody \
            with your URL can send requests to it, so verify each message with the secret. The messages follow Standard Webhooks, \
            which has libraries for many languages. Without a library:\n\n\
            - Remove `whsec_` from the secret, and decode the rest as base64: this is the key.\n\
            - Join the headers `webhook-id` and `webhook-timestamp` and the raw body with dots.\n\
            - Compute the HMAC-SHA256 of this text with the key, and encode it as base64.\n\
            - `webhook-signature` has parts separated by spaces. One of them must be `v1,` and this result.\n\
            - Refuse a message if `webhook-timestamp` differs from your clock by more than five minutes.\n\n\
            The body has `type`, `timestamp` and `data`, with the id of the batch or list, its status, and counts. It has no \
            address." },
        { "name": "Lists", "description": "Upload a file of addresses, see the price, start the check, and download \
            the rows with their verdicts. A list is deleted 7 days after its creation." },
        { "name": "Account", "description": "Plan and credits." },
        { "name": "Description", "description": "This document." },
    ])
}

const OVERVIEW: &str = "\
Can mail be sent to an address without bouncing? `deliverable` says yes or no, strictly: it is true only for \
confirmed mailboxes. `reason` says why.

A full check asks the recipient's mail servers, usually takes 1 to 5 seconds and costs 1 credit. These requests are \
free:

- a fast check (`mode=fast`), which asks no mail server and can only prove that mail to an address would bounce;
- a repeated single check of an address within 24 hours (a batch charges each of its rows; a list charges each different \
address that was not checked within 24 hours);
- a text that is not an address;
- the account;
- every request with a test key;
- an answer of 503, because the service returns the credit.

Test keys never ask mail servers. The local part chooses the answer; the domain and a `+tag` do not matter: \
`deliverable`, `role`, `disposable`, `spamtrap`, `inbox_full`, `mailbox_disabled`, `catch_all`, `unverifiable`; any \
other local part gets `mailbox_not_found`.

A key can be limited to scopes, and can have an expiry. The scopes are `fast` and `full` (single checks in this mode), \
`batches`, `lists`, and `account` (the account and its webhooks; the export needs `batches` and `lists` as well). A request without its scope gets 403 \
`insufficient_scope`, costs nothing and is not counted.

Each key has a limit of requests in any 60 seconds for each endpoint. The headers `RateLimit` and `X-RateLimit-*` \
show how many requests remain. `RateLimit-Policy` names the limit: `verify`, `fast`, `batch` (creation), `poll` \
(progress and results), `list`, `account`, or `fair_use`, which limits the full checks of an account in the long run. `Retry-After` of 429 and 503 is the number of seconds to wait before the next try. \
Every answer has an `X-Request-Id`; quote it in questions about an answer.

Within `/v1`, new versions only add fields: ignore fields that you do not know.";
