//! The schemas: collected from the types, and put into words that OpenAPI 3.0 knows too.

use super::{meaning, wire};
use crate::{Account, BatchBody, BatchCreated, ErrorBody, ErrorCode, Reason, VerifyBody};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

/// Every schema by its name.
pub fn all() -> Value {
    let mut schemas = Map::new();
    add::<VerifyBody>(&mut schemas);
    add::<wire::Verification>(&mut schemas);
    add::<BatchBody>(&mut schemas);
    add::<BatchCreated>(&mut schemas);
    add::<wire::BatchStatus>(&mut schemas);
    add::<Account>(&mut schemas);
    add::<ErrorBody>(&mut schemas);
    add::<ErrorCode>(&mut schemas);
    describe::<Reason>(&mut schemas, &meaning::of_reasons(&Reason::ALL));
    describe::<ErrorCode>(&mut schemas, &meaning::of_errors(&ErrorCode::ALL));
    Value::Object(schemas)
}

/// A reference to a schema.
pub fn of<T: ToSchema>() -> Value {
    json!({ "$ref": format!("#/components/schemas/{}", T::name()) })
}

/// Adds a type and all that it refers to.
fn add<T: ToSchema>(schemas: &mut Map<String, Value>) {
    let mut found = vec![(T::name().into_owned(), T::schema())];
    T::schemas(&mut found);
    for (name, schema) in found {
        let mut schema = json!(schema);
        simplify(&mut schema);
        schemas.insert(name, schema);
    }
}

/// Adds to a schema's description.
fn describe<T: ToSchema>(schemas: &mut Map<String, Value>, more: &str) {
    if let Some(Value::String(text)) = schemas.get_mut(&*T::name()).and_then(|it| it.get_mut("description")) {
        text.push_str(more);
    }
}

/// Rewrites what only 3.1 understands and what can be said otherwise.
fn simplify(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(simplify),
        Value::Object(fields) => {
            fields.remove("propertyNames");
            nullable_reference(fields);
            only_choice(fields);
            // 3.0 ignores what stands beside a reference.
            if fields.len() > 1
                && let Some(reference) = fields.remove("$ref")
            {
                fields.insert("allOf".into(), json!([{ "$ref": reference }]));
            }
            fields.values_mut().for_each(simplify);
        }
        _ => {}
    }
}

/// `oneOf` with one choice is that choice, with the description of where it stands.
fn only_choice(fields: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = fields.get("oneOf") else { return };
    let [Value::Object(choice)] = choices.as_slice() else { return };
    let choice = choice.clone();
    fields.remove("oneOf");
    for (word, value) in choice {
        fields.entry(word).or_insert(value);
    }
}

/// `oneOf` of null and something described: nothing else is null, so `anyOf` says the same and is cheaper to check,
/// and the description belongs to the whole.
fn nullable_reference(fields: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = fields.get("oneOf") else { return };
    let [null, other] = choices.as_slice() else { return };
    if *null != json!({ "type": "null" }) {
        return;
    }
    let (null, mut other) = (null.clone(), other.clone());
    if let Some(description) = other.as_object_mut().and_then(|other| other.remove("description")) {
        fields.insert("description".into(), description);
    }
    fields.remove("oneOf");
    fields.insert("anyOf".into(), Value::Array(vec![other, null]));
}
