//! Tests of the description against the snapshot, the types and the parsers.

pub(crate) mod generator;

use super::{HERE, description, pretty};
use crate::request::{
    BATCH_EMAILS_MAX, BATCH_NAME_CHARS_MAX, Choice, EMAIL_CHARS_MAX, LIST_BYTES_MAX, LIST_COLUMN_CHARS_MAX,
    LIST_NAME_CHARS_MAX,
};
use crate::webhook::{EVENTS_MAX, LABEL_CHARS_MAX, URL_CHARS_MAX};
use crate::{
    BatchBody, DetailLevel, ErrorCode, ListBody, Mode, Reason, VerifyBody, WebhookBody, WebhookChangeBody,
    error::OFFENDERS_MAX,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

fn described() -> Value {
    serde_json::to_value(description(HERE).unwrap()).unwrap()
}

/// Visits every value in a JSON text with its path.
fn visit(value: &Value, way: &str, look: &mut dyn FnMut(&str, &Value)) {
    look(way, value);
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, item)| visit(item, &format!("{way}/{i}"), look));
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(name, field)| visit(field, &format!("{way}/{name}"), look));
        }
        _ => {}
    }
}

/// The target of a reference, or the value itself.
fn resolve<'a>(whole: &'a Value, value: &'a Value) -> &'a Value {
    match value.get("$ref").and_then(Value::as_str) {
        Some(reference) => {
            let target = whole.pointer(reference.strip_prefix('#').unwrap());
            resolve(whole, target.unwrap_or_else(|| panic!("{reference} leads nowhere")))
        }
        None => value,
    }
}

/// Method, path and operation.
fn operations(whole: &Value) -> Vec<(String, String, &Value)> {
    let mut found = Vec::new();
    for (path, item) in whole["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            found.push((method.clone(), path.clone(), operation));
        }
    }
    found
}

#[test]
fn the_snapshot_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
    let kept = std::fs::read_to_string(&path).unwrap();
    let now = serde_json::to_string_pretty(&generator::updated(&kept)).unwrap() + "\n";
    if std::env::var_os("UPDATE").is_some() {
        return std::fs::write(&path, &now).unwrap();
    }
    assert!(
        kept == now,
        "frontend/api/openapi.json does not agree with the types; look at what changes for callers, then run\n\
         UPDATE=1 cargo test -p api openapi"
    );
}

#[test]
fn the_program_changes_only_the_base_url_of_the_snapshot() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
    let kept = std::fs::read_to_string(path).unwrap();
    assert_eq!(pretty(HERE).unwrap(), kept);
    let other = kept.replacen("\"url\": \"/\"", "\"url\": \"https://api.example.com\"", 1);
    assert_eq!(pretty("https://api.example.com").unwrap(), other);
}

#[test]
fn every_reference_leads_somewhere_and_every_schema_is_used() {
    let whole = described();
    let mut used = BTreeSet::new();
    visit(&whole, "", &mut |_, value| {
        if let Some(reference) = value.get("$ref").and_then(Value::as_str) {
            resolve(&whole, value);
            used.insert(reference.to_owned());
        }
    });
    for kind in ["schemas", "headers"] {
        for name in whole["components"][kind].as_object().unwrap().keys() {
            assert!(used.contains(&format!("#/components/{kind}/{name}")), "{kind}: {name} is used nowhere");
        }
    }
}

#[test]
fn only_null_needs_version_3_1() {
    let new = [
        "const",
        "prefixItems",
        "propertyNames",
        "if",
        "contains",
        "patternProperties",
        "$defs",
        "webhooks",
        "unevaluatedProperties",
        "examples",
        "exclusiveMinimum",
        "exclusiveMaximum",
    ];
    let whole = described();
    visit(&whole["components"]["schemas"], "", &mut |way, value| {
        let Some(fields) = value.as_object() else { return };
        if way.ends_with("/properties") || way.contains("/example") || way.contains("/default") {
            return;
        }
        for word in new {
            assert!(!fields.contains_key(word), "{way}: {word}");
        }
        assert!(
            !fields.contains_key("$ref") || fields.len() == 1,
            "{way}: 3.0 ignores what stands beside $ref"
        );
        if let Some(types) = fields.get("type").and_then(Value::as_array) {
            assert_eq!((types.len(), &types[1]), (2, &json!("null")), "{way}");
        }
    });
}

#[test]
fn every_operation_declares_what_the_contract_says() {
    let whole = described();
    for (method, path, operation) in operations(&whole) {
        let statuses: BTreeSet<&str> =
            operation["responses"].as_object().unwrap().keys().map(String::as_str).collect();
        let mut expected = BTreeSet::from(["400", "401", "402", "429", "503"]);
        if path != "/v1/openapi.json" {
            expected.insert("403");
        }
        expected.extend(match (method.as_str(), path.as_str()) {
            ("post", "/v1/verify") => &["200", "413", "415"][..],
            ("post", "/v1/verify/batch") => &["202", "409", "413", "415", "422"],
            ("get", "/v1/verify/batch/{batch_id}") => &["200", "404"],
            ("post", "/v1/verify/batch/{batch_id}/cancel") => &["202", "404"],
            ("post", "/v1/lists") => &["201", "404", "409", "413", "415", "422"],
            ("get", "/v1/lists/{list_id}") => &["200", "404"],
            ("patch", "/v1/lists/{list_id}") => &["200", "404", "409", "413", "415"],
            ("delete", "/v1/lists/{list_id}") => &["204", "404"],
            ("post", "/v1/lists/{list_id}/start") => &["202", "404", "409"],
            ("post", "/v1/lists/{list_id}/cancel") => &["202", "404"],
            ("get", "/v1/lists/{list_id}/results") => &["200", "404", "409"],
            ("post", "/v1/webhooks") => &["201", "409", "413", "415"],
            ("patch", "/v1/webhooks/{webhook_id}") => &["200", "404", "413", "415"],
            ("delete", "/v1/webhooks/{webhook_id}") => &["204", "404"],
            ("post", "/v1/webhooks/{webhook_id}/rotate") => &["200", "404", "409"],
            ("post", "/v1/webhooks/{webhook_id}/test") => &["202", "404", "409"],
            ("get", path) if path.starts_with("/v1/webhooks/") => &["200", "404"],
            _ => &["200"],
        });
        assert_eq!(statuses, expected, "{method} {path}");
        let open = operation.get("security") == Some(&json!([]));
        assert_eq!(open, path == "/v1/openapi.json", "{path}");
        for field in ["operationId", "summary", "description", "tags"] {
            assert!(operation.get(field).is_some(), "{method} {path} has no {field}");
        }
    }
    assert_eq!(whole["security"], json!([{ "bearer": [] }]));
    assert_eq!(whole["components"]["securitySchemes"]["bearer"]["scheme"], "bearer");
    assert_eq!(whole["info"]["version"], "1.0.0");
}

#[test]
fn every_error_code_stands_with_its_status() {
    let whole = described();
    let responses = whole["components"]["responses"].as_object().unwrap();
    let mut found: Vec<String> = Vec::new();
    for response in responses.values() {
        for (name, example) in response["content"]["application/json"]["examples"].as_object().unwrap() {
            assert_eq!(example["value"]["error"], *name);
            found.push(name.clone());
        }
    }
    for code in ErrorCode::ALL {
        assert!(found.iter().any(|name| name == code.as_str()), "{} has no example", code.as_str());
    }
    // The key of a response is the status of all its codes.
    for (_, path, operation) in operations(&whole) {
        for (status, response) in operation["responses"].as_object().unwrap() {
            let response = resolve(&whole, response);
            for (name, example) in
                response["content"]["application/json"]["examples"].as_object().into_iter().flatten()
            {
                let code = ErrorCode::ALL.into_iter().find(|code| code.as_str() == name);
                let expected = code.map(|code| code.status().to_string());
                if example["value"].get("error").is_some() {
                    assert_eq!(expected.as_deref(), Some(status.as_str()), "{path}: {name}");
                }
            }
        }
    }
    let described = &whole["components"]["schemas"];
    let names = |schema: &str| described[schema]["enum"].clone();
    assert_eq!(names("ErrorCode"), json!(ErrorCode::ALL));
    assert_eq!(names("Reason"), json!(Reason::ALL));
}

/// The headers that tell a caller about its limit.
const LIMITS: [&str; 5] =
    ["RateLimit-Policy", "RateLimit", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"];

#[test]
fn every_response_says_what_it_carries() {
    let whole = described();
    let check = |response: &Value, status: &str, creates: bool, counts: bool, place: &str| {
        let headers = resolve(&whole, response)["headers"].as_object().unwrap();
        let has = |name: &str| headers.contains_key(name);
        assert!(has("X-Request-Id"), "{place} {status}");
        assert_eq!(has("WWW-Authenticate"), status == "401", "{place} {status}");
        assert_eq!(has("Allow"), status == "405", "{place} {status}");
        assert_eq!(has("Idempotent-Replayed"), creates && status.starts_with('2'), "{place} {status}");
        assert!(has("Retry-After") || !["429", "503"].contains(&status), "{place} {status}");
        // A request that is refused before it is counted has no headers of a limit.
        let counted = !["401", "403", "405"].contains(&status) && (counts || !status.starts_with('2'));
        assert!(LIMITS.iter().all(|name| has(name) == counted), "{place} {status}");
    };
    for (method, path, operation) in operations(&whole) {
        let creates = method == "post" && matches!(path.as_str(), "/v1/verify/batch" | "/v1/lists");
        for (status, response) in operation["responses"].as_object().unwrap() {
            check(response, status, creates, path != "/v1/openapi.json", &path);
        }
    }
    for (status, response) in whole["x-any-request"].as_object().unwrap() {
        check(response, status, false, true, "any request");
    }
}

#[test]
fn links_lead_to_operations_and_states() {
    let whole = described();
    let ids: Vec<&Value> =
        operations(&whole).iter().map(|(_, _, operation)| &operation["operationId"]).collect();
    let mut polls = 0;
    for (_, path, operation) in operations(&whole) {
        for response in operation["responses"].as_object().unwrap().values() {
            for link in
                response.get("links").and_then(Value::as_object).into_iter().flat_map(|it| it.values())
            {
                assert!(ids.contains(&&link["operationId"]), "{path}: {link}");
                let Some(poll) = link.get("x-poll") else { continue };
                assert!(ids.contains(&&poll["operationId"]), "{path}: {poll}");
                let schema = resolve(&whole, &response["content"]["application/json"]["schema"]);
                let field = &schema["properties"][poll["field"].as_str().unwrap()];
                // A reference with a description.
                let field = resolve(&whole, field.get("allOf").map_or(field, |all| &all[0]));
                assert!(field["enum"].as_array().unwrap().contains(&poll["while"]), "{path}: {poll}");
                polls += 1;
            }
        }
    }
    assert_eq!(polls, 2);
}

/// A validator for the part of JSON Schema that the description uses. An unknown keyword is a failure, so that nothing
/// is skipped.
fn conforms(whole: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let fields = resolve(whole, schema).as_object().ok_or("a schema that is no object")?;
    let one_of = |choices: &Value| {
        let choices = choices.as_array().unwrap();
        choices.iter().filter(|choice| conforms(whole, choice, value).is_ok()).count()
    };
    let number = |field: &Value| field.as_f64().unwrap();
    let length = |field: &Value| usize::try_from(field.as_u64().unwrap()).unwrap();
    for (word, field) in fields {
        let fits = match word.as_str() {
            "description" | "format" | "default" | "example" | "required" | "additionalProperties" => true,
            // This validator has no patterns; the server's own tests check them.
            "pattern" => true,
            "type" => match field {
                Value::Array(types) => types.iter().any(|it| has_type(it.as_str().unwrap(), value)),
                one => has_type(one.as_str().unwrap(), value),
            },
            "enum" => field.as_array().unwrap().contains(value),
            "minimum" => value.as_f64().is_none_or(|it| it >= number(field)),
            "maximum" => value.as_f64().is_none_or(|it| it <= number(field)),
            "minLength" => value.as_str().is_none_or(|it| it.chars().count() >= length(field)),
            "maxLength" => value.as_str().is_none_or(|it| it.chars().count() <= length(field)),
            "minItems" => value.as_array().is_none_or(|it| it.len() >= length(field)),
            "maxItems" => value.as_array().is_none_or(|it| it.len() <= length(field)),
            "anyOf" => one_of(field) > 0,
            "oneOf" => one_of(field) == 1,
            "allOf" => one_of(field) == field.as_array().unwrap().len(),
            "items" => {
                for item in value.as_array().into_iter().flatten() {
                    conforms(whole, field, item)?;
                }
                true
            }
            "properties" => {
                for (name, value) in value.as_object().into_iter().flatten() {
                    // A rendered field without a description was forgotten in the schema.
                    let schema = field.get(name).ok_or_else(|| format!("{name} is not described"))?;
                    conforms(whole, schema, value).map_err(|why| format!("{name}: {why}"))?;
                }
                true
            }
            other => return Err(format!("{other}: this test does not know it")),
        };
        if !fits {
            return Err(format!("{value} is against {word}: {field}"));
        }
    }
    for name in fields.get("required").and_then(Value::as_array).into_iter().flatten() {
        if value.is_object() && value.get(name.as_str().unwrap()).is_none() {
            return Err(format!("{name} is absent"));
        }
    }
    Ok(())
}

fn has_type(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

#[test]
fn every_example_is_what_its_schema_says() {
    let whole = described();
    let mut count = 0;
    let mut check = |place: &str, media: &Value| {
        let examples = media["examples"].as_object().unwrap_or_else(|| panic!("{place} has no example"));
        assert!(!examples.is_empty(), "{place} has no example");
        for (name, example) in examples {
            if let Err(why) = conforms(&whole, &media["schema"], &example["value"]) {
                panic!("{place}, {name}: {why}");
            }
            count += 1;
        }
    };
    for (method, path, operation) in operations(&whole) {
        let place = format!("{method} {path}");
        let bodies = operation.get("requestBody").map(|body| body["content"].as_object().unwrap());
        for (kind, media) in bodies.into_iter().flatten() {
            check(&format!("{place}, request of {kind}"), media);
        }
        for parameter in operation.get("parameters").and_then(Value::as_array).into_iter().flatten() {
            check(&format!("{place}, {}", parameter["name"]), parameter);
        }
        for (status, response) in operation["responses"].as_object().unwrap() {
            let content =
                resolve(&whole, response).get("content").map(|content| content.as_object().unwrap());
            assert!(content.is_some() || status == "204", "{place}, {status}");
            for (kind, media) in content.into_iter().flatten() {
                check(&format!("{place}, {status} of {kind}"), media);
            }
        }
    }
    for (name, response) in whole["components"]["responses"].as_object().unwrap() {
        check(name, &response["content"]["application/json"]);
    }
    for (name, header) in whole["components"]["headers"].as_object().unwrap() {
        conforms(&whole, &header["schema"], &header["example"]).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
    assert!(count > 60, "{count} examples");
}

#[test]
fn answers_have_rendered_examples() {
    let whole = described();
    let rendered = generator::examples::of_answers();
    for (method, path, operation) in operations(&whole) {
        for (status, response) in operation["responses"].as_object().unwrap() {
            let is_json = response["content"].get("application/json").is_some();
            let is_rendered =
                rendered.iter().any(|(of, by, with, _)| (*of, *by, *with) == (&path, &method, status));
            // No type of this crate renders these two.
            let by_hand = ["/v1/account/export", "/v1/openapi.json"].contains(&path.as_str());
            assert_eq!(is_rendered, is_json && !by_hand, "{method} {path} {status}");
        }
    }
}

/// The examples of a schema together show every described field.
#[test]
fn examples_show_every_field_of_an_answer() {
    let whole = described();
    let mut shown: BTreeSet<(String, String)> = BTreeSet::new();
    fn note(whole: &Value, schema: &Value, value: &Value, shown: &mut BTreeSet<(String, String)>) {
        for choice in ["allOf", "anyOf"] {
            for choice in schema.get(choice).and_then(Value::as_array).into_iter().flatten() {
                note(whole, choice, value, shown);
            }
        }
        let reference = schema.get("$ref").and_then(Value::as_str).unwrap_or_default();
        let schema = resolve(whole, schema);
        for (name, value) in value.as_object().into_iter().flatten() {
            if let Some(property) = schema["properties"].get(name) {
                shown.insert((reference.to_owned(), name.clone()));
                note(whole, property, value, shown);
            }
        }
        for item in value.as_array().into_iter().flatten() {
            note(whole, &schema["items"], item, shown);
        }
    }
    visit(&whole, "", &mut |_, value| {
        let (Some(schema), Some(examples)) = (value.get("schema"), value.get("examples")) else { return };
        for example in examples.as_object().into_iter().flatten() {
            note(&whole, schema, &example.1["value"], &mut shown);
        }
    });
    for (name, schema) in whole["components"]["schemas"].as_object().unwrap() {
        for property in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let key = (format!("#/components/schemas/{name}"), property.0.clone());
            assert!(shown.contains(&key), "no example shows {}.{}", name, property.0);
        }
    }
}

#[test]
fn requests_of_the_examples_are_read() {
    let whole = described();
    let examples = |path: &str| {
        let body = &whole["paths"][path]["post"]["requestBody"]["content"]["application/json"]["examples"];
        let bodies = body.as_object().unwrap().values();
        bodies.map(|example| example["value"].to_string()).collect::<Vec<String>>()
    };
    for body in examples("/v1/verify") {
        assert!(VerifyBody::parse(body.as_bytes()).is_ok(), "{body}");
    }
    for body in examples("/v1/lists") {
        assert!(ListBody::parse(body.as_bytes()).is_ok(), "{body}");
    }
    for body in examples("/v1/webhooks") {
        assert!(WebhookBody::parse(body.as_bytes()).is_ok(), "{body}");
    }
    let changes =
        &whole["paths"]["/v1/webhooks/{webhook_id}"]["patch"]["requestBody"]["content"]["application/json"];
    for change in changes["examples"].as_object().unwrap().values() {
        assert!(WebhookChangeBody::parse(change["value"].to_string().as_bytes()).is_ok(), "{change}");
    }
    for body in examples("/v1/verify/batch") {
        assert!(BatchBody::parse(body.as_bytes()).is_ok(), "{body}");
    }
}

#[test]
fn bounds_are_those_of_the_parsers() {
    let whole = described();
    let schemas = &whole["components"]["schemas"];
    let bound = |schema: &str, field: &str, word: &str| schemas[schema]["properties"][field][word].clone();
    assert_eq!(bound("VerifyRequest", "email", "maxLength"), EMAIL_CHARS_MAX);
    assert_eq!(bound("BatchRequest", "emails", "maxItems"), BATCH_EMAILS_MAX);
    assert_eq!(bound("BatchRequest", "emails", "minItems"), 1);
    assert_eq!(bound("BatchRequest", "name", "maxLength"), BATCH_NAME_CHARS_MAX);
    for schema in ["WebhookRequest", "WebhookChangeRequest"] {
        assert_eq!(bound(schema, "url", "maxLength"), URL_CHARS_MAX);
        assert_eq!(bound(schema, "label", "maxLength"), LABEL_CHARS_MAX);
        assert_eq!(bound(schema, "events", "maxItems"), EVENTS_MAX);
        assert_eq!(bound(schema, "events", "minItems"), 1);
    }
    assert_eq!(bound("ListRequest", "bytes", "minimum"), 1);
    assert_eq!(bound("ListRequest", "bytes", "maximum"), LIST_BYTES_MAX);
    assert_eq!(bound("ListRequest", "name", "maxLength"), LIST_NAME_CHARS_MAX);
    assert_eq!(bound("ListRequest", "column", "maxLength"), LIST_COLUMN_CHARS_MAX);
    assert_eq!(bound("Error", "invalid", "maxItems"), OFFENDERS_MAX);
    let parameter = |method: &str, path: &str, name: &str| {
        let parameters = whole["paths"][path][method]["parameters"].as_array().unwrap();
        parameters.iter().find(|parameter| parameter["name"] == name).unwrap()["schema"].clone()
    };
    for method in ["get", "post"] {
        let mode = parameter(method, "/v1/verify", "mode");
        assert_eq!((&mode["enum"], &mode["default"]), (&names::<Mode>(), &json!(Mode::default())));
        assert_eq!(parameter(method, "/v1/verify", "detail")["enum"], names::<DetailLevel>());
    }
    assert_eq!(parameter("patch", "/v1/lists/{list_id}", "Upload-Offset")["maximum"], LIST_BYTES_MAX);
    assert_eq!(parameter("post", "/v1/lists", "name")["maxLength"], LIST_NAME_CHARS_MAX);
    assert_eq!(parameter("post", "/v1/lists", "column")["maxLength"], LIST_COLUMN_CHARS_MAX);
}

/// The names of a parameter's values.
fn names<T: Choice>() -> Value {
    T::VALUES.iter().map(|(name, _)| *name).collect()
}
