//! The operations of `/v1/lists`.

use super::super::answers::{self, answer, rows, with_limits};
use super::super::{examples, schemas};
use super::{body, idempotency_key, page, parameter, path_id, responses};
use crate::request::LIST_BYTES_MAX;
use crate::{List, ListBody, ListPage};
use serde_json::{Value, json};

fn id() -> Value {
    path_id("list_id", "The id in the answer that created the list.", examples::LIST_ID)
}

/// A parameter of text in the query.
fn text(name: &str, description: &str, length: usize, example: &str) -> Value {
    let schema = json!({ "type": "string", "maxLength": length });
    parameter(("query", name), description, schema, (name, json!(example)))
}

/// Content of any type.
fn content(description: &str) -> Value {
    let example = json!({ "summary": description, "value": examples::CONTENT });
    json!({ "schema": { "type": "string", "format": "binary" }, "examples": { "content": example } })
}

fn one(description: &str, shown: Vec<examples::Example>, headers: &[&'static str]) -> Value {
    answer(description, &schemas::of::<List>(), shown, &with_limits(headers))
}

/// A link from an answer with a list to an operation on this list.
fn link(operation: &str, description: &str) -> Value {
    super::link(operation, "list_id", description)
}

/// A link to an operation that is not possible while the list has this status. The API reference makes a loop of `x-poll`.
fn link_after(status: &str, operation: &str, description: &str) -> Value {
    let mut link = link(operation, description);
    link["x-poll"] = json!({ "operationId": "showList", "field": "status", "while": status });
    link
}

pub fn create() -> Value {
    let key = idempotency_key(
        "c81e728d-customers-june",
        "Makes a retry safe: for 24 hours, the same key with the same query and JSON gets the list that the \
            first request created, with `Idempotent-Replayed: true`, or 404 after the deletion of this list. The \
            content is not compared.",
    );
    let name = text("name", "A name that you choose.", 100, "june.csv");
    let column = text(
        "column",
        "The column with the addresses, by its name or number, starting at 1. Without it, the column is found \
            by its name or content.",
        200,
        "email",
    );
    let mut created = one("The list is created.", examples::lists_created(), &["Idempotent-Replayed"]);
    created["links"] = json!({
        "append": link("appendToList", "Upload the content in parts."),
        "show": link("showList", "Poll until `status` is `ready`, and later until it is `completed`."),
        "start": link_after("reading", "startList", "Start the check when `status` is `ready`."),
        "cancel": link("cancelList", "End the check."),
        "delete": link("deleteList", "Delete the list."),
    });
    let mut request = body::<ListBody>(examples::list_requests());
    request["content"]["text/csv"] = content("The content, in one request");
    let refused = [
        &answers::NOT_ALLOWED,
        &answers::NOT_FOUND,
        &answers::LIST_CONFLICT,
        &answers::TOO_LARGE,
        &answers::NO_JSON,
        &answers::KEY_REUSED,
    ];
    json!({
        "operationId": "createList",
        "tags": ["Lists"],
        "summary": "Upload a list",
        "description": "Free. The body is the content of the list: CSV, a spreadsheet (xlsx or ods), JSON lines or one address per line. \
            It may be compressed with gzip or Zstandard. The server finds the format from the content; the type of the body \
            does not matter, except for `application/json`. With `Content-Type: application/json`, the body \
            announces an upload in parts, and `PATCH /v1/lists/{list_id}` sends the content. After the upload, \
            the list is read: `status` is first `reading`, then `ready` with the price in `credits_required`.",
        "parameters": [key, name, column],
        "requestBody": request,
        "responses": responses("201", created, &answers::INVALID, &refused),
    })
}

pub fn index() -> Value {
    let schema = schemas::of::<ListPage>();
    let shown = answer("A page of lists.", &schema, examples::list_pages(), &with_limits(&[]));
    json!({
        "operationId": "listLists",
        "tags": ["Lists"],
        "summary": "List lists",
        "description": "Free. The lists of the account, with those of the dashboard, the newest first. A test \
            key has lists of its own.",
        "parameters": page("lst", examples::LIST_ID),
        "responses": responses("200", shown, &answers::INVALID, &[]),
    })
}

pub fn show() -> Value {
    json!({
        "operationId": "showList",
        "tags": ["Lists"],
        "summary": "Show a list",
        "description": "Free. Poll every few seconds.",
        "parameters": [id()],
        "responses": responses("200", one("The list.", examples::lists(), &[]), &answers::INVALID, &[&answers::NOT_FOUND]),
    })
}

pub fn append() -> Value {
    let header = |name: &str, required: bool, description: &str, schema: Value, example: Value| {
        let mut header = parameter(("header", name), description, schema, ("value", example));
        header["required"] = required.into();
        header
    };
    let number = json!({ "type": "integer", "minimum": 0, "maximum": LIST_BYTES_MAX });
    let offset = header(
        "Upload-Offset",
        true,
        "The number of bytes that the list has. If the list has another number, the answer is 409 with \
            this number in `offset`.",
        number,
        json!(0),
    );
    let flag = json!({ "type": "string", "enum": ["?1", "?0"] });
    let complete = header(
        "Upload-Complete",
        false,
        "`?1` with the last bytes. The list must then have as many bytes as were announced.",
        flag,
        json!("?1"),
    );
    let refused = [
        &answers::NOT_ALLOWED,
        &answers::NOT_FOUND,
        &answers::OFFSET_MISMATCH,
        &answers::TOO_LARGE,
        &answers::NO_JSON,
    ];
    json!({
        "operationId": "appendToList",
        "tags": ["Lists"],
        "summary": "Upload the next part of a list",
        "description": "Free. The body is the next bytes of the content. Bytes that the list has need not be \
            sent again: after a broken connection, continue at the `offset` of the list. An upload that \
            gets no byte for 24 hours is removed.",
        "parameters": [id(), offset, complete],
        "requestBody": {
            "required": true,
            "content": { "application/octet-stream": content("The next bytes of the content") },
        },
        "responses": responses("200", one("The list.", examples::lists_created(), &[]), &answers::INVALID, &refused),
    })
}

pub fn delete() -> Value {
    json!({
        "operationId": "deleteList",
        "tags": ["Lists"],
        "summary": "Delete a list",
        "description": "Free. A running list is cancelled first.",
        "parameters": [id()],
        "responses": responses(
            "204",
            answers::empty("The list is deleted.", &with_limits(&[])),
            &answers::INVALID,
            &[&answers::NOT_FOUND],
        ),
    })
}

pub fn start() -> Value {
    let mut started = one("The list is started.", examples::lists_started(), &[]);
    started["links"] = json!({
        "results": link_after("running", "listResults", "Download the results when `status` is `completed`."),
    });
    let refused = [&answers::NOT_ALLOWED, &answers::NOT_FOUND, &answers::INVALID_STATE];
    json!({
        "operationId": "startList",
        "tags": ["Lists"],
        "summary": "Start a list",
        "description": "Costs 1 credit for each different address that the account has not checked within 24 \
            hours. The list is charged while it runs. If the credits run out, `status` becomes `paused`: get \
            credits, and start the list again. A repeated start changes nothing.",
        "parameters": [id()],
        "responses": responses("202", started, &answers::INVALID, &refused),
    })
}

pub fn cancel() -> Value {
    let cancelled = one("The check has ended.", examples::lists_cancelled(), &[]);
    json!({
        "operationId": "cancelList",
        "tags": ["Lists"],
        "summary": "Cancel a list",
        "description": "Free. Addresses without an answer cost nothing, and the results so far can be read. A \
            list that is `completed`, `cancelled` or `unfit` stays as it is.",
        "parameters": [id()],
        "responses": responses("202", cancelled, &answers::INVALID, &[&answers::NOT_FOUND]),
    })
}

pub fn results() -> Value {
    let format = parameter(
        ("query", "format"),
        "The format of the results. Without it, the results have the format of the list; a \
            list of one address per line becomes CSV without a header. JSON lines of CSV have the names of \
            the columns as keys. CSV of JSON lines has the address only. \
            A spreadsheet has texts in all cells.",
        json!({ "type": "string", "enum": ["csv", "jsonl", "xlsx"] }),
        ("csv", json!("csv")),
    );
    let class = parameter(
        ("query", "class"),
        "Only rows of this class; can be repeated. `deliverable`: `deliverable` is true. `unknown`: \
            `catch_all` and `unverifiable`. `undeliverable`: all other rows.",
        json!({ "type": "array", "items": { "type": "string", "enum": ["deliverable", "undeliverable", "unknown"] } }),
        ("deliverable", json!(["deliverable"])),
    );
    let shown = rows(
        "The rows of the list, with `deliverable` and `reason` at their ends.",
        examples::RESULTS_CSV,
        examples::RESULTS_JSONL,
        &with_limits(&[]),
    );
    json!({
        "operationId": "listResults",
        "tags": ["Lists"],
        "summary": "Download the results of a list",
        "description": "Free. Each row of the list with its verdict, in the order of the list; rows without an \
            address get `invalid_syntax`. A cancelled list has only the rows that were checked.",
        "parameters": [id(), format, class],
        "responses": responses("200", shown, &answers::INVALID, &[&answers::NOT_FOUND, &answers::INVALID_STATE]),
    })
}
