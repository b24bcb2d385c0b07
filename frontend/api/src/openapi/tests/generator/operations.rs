//! The paths of the description: one operation for every route of `/v1`.
//!
//! The contract requires that every operation declares 400, 401, 402, 429 and 503, even if it never answers with some
//! of them.

mod lists;
mod webhooks;

use super::answers::{self, Refused, answer, with_limits};
use super::export::AccountExport;
use super::{examples, schemas, wire};
use crate::request::Choice;
use crate::{Account, BatchBody, BatchCreated, BatchPage, DetailLevel, Mode, VerifyBody};
use serde_json::{Map, Value, json};

/// Every path with its operations.
pub fn paths() -> Value {
    json!({
        "/v1/verify": { "get": verify_by_query(), "post": verify() },
        "/v1/verify/batch": { "post": create_batch(), "get": list_batches() },
        "/v1/verify/batch/{batch_id}": { "get": poll_batch() },
        "/v1/webhooks": { "post": webhooks::create(), "get": webhooks::list() },
        "/v1/webhooks/{webhook_id}": {
            "get": webhooks::show(), "patch": webhooks::change(), "delete": webhooks::delete()
        },
        "/v1/webhooks/{webhook_id}/rotate": { "post": webhooks::rotate() },
        "/v1/webhooks/{webhook_id}/test": { "post": webhooks::test() },
        "/v1/webhooks/{webhook_id}/deliveries": { "get": webhooks::deliveries() },
        "/v1/verify/batch/{batch_id}/cancel": { "post": cancel_batch() },
        "/v1/lists": { "post": lists::create(), "get": lists::index() },
        "/v1/lists/{list_id}": { "get": lists::show(), "patch": lists::append(), "delete": lists::delete() },
        "/v1/lists/{list_id}/start": { "post": lists::start() },
        "/v1/lists/{list_id}/cancel": { "post": lists::cancel() },
        "/v1/lists/{list_id}/results": { "get": lists::results() },
        "/v1/account": { "get": account() },
        "/v1/account/export": { "get": export() },
        "/v1/openapi.json": { "get": description() },
    })
}

fn verify_by_query() -> Value {
    let mut email = parameter(
        ("query", "email"),
        "The address to check. A text that is not an address gets the reason `invalid_syntax` \
            and costs nothing. Write a plus sign as `%2B`.",
        json!({ "type": "string" }),
        ("address", json!(examples::ADDRESS)),
    );
    email["required"] = true.into();
    json!({
        "operationId": "verifyByQuery",
        "tags": ["Verify"],
        "summary": "Verify one address",
        "description": "The same as `POST /v1/verify`. Prefer `POST`: queries are often logged, and \
            addresses are personal data.",
        "parameters": [email, mode(), detail()],
        "responses": responses("200", verification(), &answers::INVALID, &[]),
    })
}

fn verify() -> Value {
    json!({
        "operationId": "verify",
        "tags": ["Verify"],
        "summary": "Verify one address",
        "description": "Costs 1 credit. It is free if the address is not valid, this account checked it in \
            the last 24 hours, `mode` is `fast` or the key is a test key. An answer of 503 costs nothing. If \
            a result of the last 24 hours proves to be wrong, the next request checks the address again and \
            costs 1 credit. `mode` and `detail` can be in the query or in the body. If they are in both, \
            they must be equal.",
        "parameters": [mode(), detail()],
        "requestBody": body::<VerifyBody>(examples::verify_requests()),
        "responses":
            responses("200", verification(), &answers::INVALID, &[&answers::TOO_LARGE, &answers::NO_JSON]),
    })
}

fn verification() -> Value {
    let schema = schemas::of::<wire::VerificationSchema>();
    answer("The result of the check.", &schema, examples::verifications(), &with_limits(&[]))
}

fn idempotency_key(example: &str, description: &str) -> Value {
    let schema =
        json!({ "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]([ -~]*[!-~])?$" });
    parameter(("header", "Idempotency-Key"), description, schema, ("key", json!(example)))
}

fn create_batch() -> Value {
    let key = idempotency_key(
        "5f0c9a52-newsletter-june",
        "Makes a retry safe: for 24 hours, the same key with the same body gets the first answer again, \
            with `Idempotent-Replayed: true` and without a second charge.",
    );
    let mut accepted = answer(
        "The batch is accepted.",
        &schemas::of::<BatchCreated>(),
        examples::batches_created(),
        &with_limits(&["Idempotent-Replayed"]),
    );
    accepted["links"] = json!({
        "poll": link("pollBatch", "batch_id", "Poll every few seconds until `status` is `completed`."),
        "cancel": link("cancelBatch", "batch_id", "End the batch before its completion."),
    });
    let refused = [
        &answers::NOT_ALLOWED,
        &answers::IN_PROGRESS,
        &answers::TOO_LARGE,
        &answers::NO_JSON,
        &answers::KEY_REUSED,
    ];
    json!({
        "operationId": "createBatch",
        "tags": ["Batch"],
        "summary": "Start a batch",
        "description": "Costs 1 credit for each submitted address, charged at once. If one address is not \
            valid, the whole batch is refused and nothing is charged. The credits of rows without an answer are \
            returned: if the service itself reaches no mail server or no DNS resolver at all, if its budget of \
            refused recipients of a site is used up, or if the batch is cancelled. Such rows have the reason \
            `unverifiable`. An `unverifiable` row with an answer is charged.",
        "parameters": [key],
        "requestBody": body::<BatchBody>(examples::batch_requests()),
        "responses": responses("202", accepted, &answers::INVALID_BATCH, &refused),
    })
}

fn batch_id() -> Value {
    path_id("batch_id", "The id in the answer that accepted the batch.", examples::BATCH_ID)
}

/// A link from an answer to an operation on what it shows. `id` is the name of the parameter and of the field of the answer.
fn link(operation: &str, id: &str, description: &str) -> Value {
    json!({
        "operationId": operation,
        "parameters": { id: format!("$response.body#/{id}") },
        "description": description,
    })
}

/// The id in a path.
fn path_id(name: &str, description: &str, example: &str) -> Value {
    parameter(("path", name), description, json!({ "type": "string" }), ("id", json!(example)))
}

/// A parameter at this place with this name, and an example with its own name. Those in a path are required.
fn parameter(
    (place, name): (&str, &str),
    description: &str,
    schema: Value,
    (example, value): (&str, Value),
) -> Value {
    json!({
        "name": name,
        "in": place,
        "required": place == "path",
        "description": description,
        "schema": schema,
        "examples": { example: { "value": value } },
    })
}

/// The parameters of a page, with the prefix of its ids and an example.
fn page(prefix: &str, id: &str) -> [Value; 2] {
    [
        limit(
            "The most entries of the page. A page can have fewer although there is a next one.",
            ("limit", 20),
        ),
        after(prefix, "The value of `next` of the page before.", ("next", id)),
    ]
}

fn limit(description: &str, (example, value): (&str, u32)) -> Value {
    let schema = json!({ "type": "integer", "minimum": 1, "maximum": 100, "default": 20 });
    parameter(("query", "limit"), description, schema, (example, json!(value)))
}

fn after(prefix: &str, description: &str, (example, id): (&str, &str)) -> Value {
    let schema = json!({ "type": "string", "pattern": id_pattern(prefix) });
    parameter(("query", "after"), description, schema, (example, json!(id)))
}

/// The form of ids, which are 128 bits in Crockford's base 32.
fn id_pattern(prefix: &str) -> String {
    format!("^{prefix}_[0-7][0-9a-hjkmnp-tv-z]{{25}}$")
}

fn list_batches() -> Value {
    let schema = schemas::of::<BatchPage>();
    let shown = answer("A page of batches.", &schema, examples::batch_pages(), &with_limits(&[]));
    json!({
        "operationId": "listBatches",
        "tags": ["Batch"],
        "summary": "List batches",
        "description": "Free. The batches of the account without their results, the newest first. The \
            parts of lists are not among them.",
        "parameters": page("bat", examples::BATCH_ID),
        "responses": responses("200", shown, &answers::INVALID, &[]),
    })
}

fn cancel_batch() -> Value {
    let schema = schemas::of::<wire::BatchStatusSchema>();
    let status = answer("The state of the batch.", &schema, examples::batch_statuses(), &with_limits(&[]));
    json!({
        "operationId": "cancelBatch",
        "tags": ["Batch"],
        "summary": "Cancel a batch",
        "description": "Free. Addresses without an answer get the reason `unverifiable`, and their credits \
            are returned. A completed batch stays as it is. A test key cannot cancel a batch of a live key.",
        "parameters": [batch_id()],
        "responses": responses("202", status, &answers::INVALID, &[&answers::LIVE_ONLY, &answers::NOT_FOUND]),
    })
}

fn poll_batch() -> Value {
    let id = batch_id();
    let schema = schemas::of::<wire::BatchStatusSchema>();
    let status = answer("The state of the batch.", &schema, examples::batch_statuses(), &with_limits(&[]));
    json!({
        "operationId": "pollBatch",
        "tags": ["Batch"],
        "summary": "Poll a batch",
        "description": "Free. The results are available for 7 days after `status` becomes `completed`.",
        "parameters": [id],
        "responses": responses("200", status, &answers::INVALID, &[&answers::NOT_FOUND]),
    })
}

fn account() -> Value {
    let schema = schemas::of::<Account>();
    let shown = answer("The account.", &schema, examples::accounts(), &with_limits(&[]));
    json!({
        "operationId": "showAccount",
        "tags": ["Account"],
        "summary": "Show plan and credits",
        "description": "Free. Live and test keys get the same answer.",
        "responses": responses("200", shown, &answers::INVALID, &[]),
    })
}

fn export() -> Value {
    let schema = schemas::of::<AccountExport>();
    let shown = answer("The data of the account.", &schema, examples::exports(), &with_limits(&[]));
    json!({
        "operationId": "exportAccount",
        "tags": ["Account"],
        "summary": "Export the data of the account",
        "description": "Free; needs a live key, and counts against the limit of downloads of lists. The answer has \
            the account, its ledger, the usage by day, keys, lists, batches with their results, connections and \
            webhooks, without any secret. It has at most 10,000 entries of the ledger, 1,000 batches and 10,000 \
            rows of batches, the newest ones.",
        "responses": responses("200", shown, &answers::INVALID, &[&answers::LIVE_ONLY]),
    })
}

fn description() -> Value {
    let schema = json!({ "type": "object" });
    let document = answer("An OpenAPI 3 document.", &schema, examples::descriptions(), &["Cache-Control"]);
    json!({
        "operationId": "describe",
        "tags": ["Description"],
        "summary": "Show this description",
        "description": "Needs no key.",
        "security": [],
        "responses": open_responses("200", document, &answers::INVALID, &[]),
    })
}

/// The responses of an operation with a key. A further response 403 replaces the one about the scopes of the key.
fn responses(status: &str, success: Value, invalid: &Refused, more: &[&Refused]) -> Value {
    let more: Vec<&Refused> = std::iter::once(&answers::NO_SCOPE).chain(more.iter().copied()).collect();
    open_responses(status, success, invalid, &more)
}

/// A successful response, the errors that every operation declares, and further ones.
fn open_responses(status: &str, success: Value, invalid: &Refused, more: &[&Refused]) -> Value {
    let everywhere =
        [invalid, &answers::UNAUTHORIZED, &answers::UNPAID, &answers::LIMITED, &answers::UNAVAILABLE];
    let refused = everywhere.iter().chain(more).map(|refused| (refused.status(), refused.reference()));
    std::iter::once((status.to_owned(), success)).chain(refused).collect::<Map<_, _>>().into()
}

fn body<T: utoipa::ToSchema>(examples: Vec<examples::Example>) -> Value {
    let mut shown = Map::new();
    for (name, summary, value) in examples {
        shown.insert(name.into(), json!({ "summary": summary, "value": value }));
    }
    json!({
        "required": true,
        "content": { "application/json": { "schema": schemas::of::<T>(), "examples": shown } },
    })
}

fn mode() -> Value {
    let mut mode = choice::<Mode>(
        "mode",
        "`full` asks the recipient's mail servers. `fast` is free and asks no mail server. It checks the \
            syntax, typos in the domain, its MX records, disposable providers and role addresses.",
    );
    mode["schema"]["default"] = json!(Mode::default());
    mode
}

fn detail() -> Value {
    let description = "`full` adds the `detail` block to a full check with a live key, at the same price.";
    choice::<DetailLevel>("detail", description)
}

/// A query parameter with a closed set of values.
fn choice<T: Choice>(name: &str, description: &str) -> Value {
    let values: Vec<&str> = T::VALUES.iter().map(|(value, _)| *value).collect();
    let schema = json!({ "type": "string", "enum": values });
    parameter(("query", name), description, schema, (values[0], json!(values[0])))
}
