//! The schemas of the description: collected from the types, and converted to keywords of OpenAPI 3.0.

use super::meaning;
use crate::{
    Account, BatchBody, BatchCreated, BatchPage, Checks, DeliveryList, Detail, ErrorBody, ErrorCode, List,
    ListBody, ListPage, NOT_AVAILABLE_ON, Reason, UnverifiableCause, VerifyBody, Webhook, WebhookBody,
    WebhookChangeBody, WebhookList, WebhookTested,
};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AnyOfBuilder, ObjectBuilder, Ref, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

/// Adds or replaces the schemas that are derived from types.
pub fn add_all(schemas: &mut Map<String, Value>) {
    add::<VerifyBody>(schemas);
    add::<Checks>(schemas);
    add::<Detail>(schemas);
    add::<BatchBody>(schemas);
    add::<BatchCreated>(schemas);
    add::<WebhookBody>(schemas);
    add::<WebhookChangeBody>(schemas);
    add::<Webhook>(schemas);
    add::<WebhookList>(schemas);
    add::<WebhookTested>(schemas);
    add::<DeliveryList>(schemas);
    add::<BatchPage>(schemas);
    add::<ListBody>(schemas);
    add::<List>(schemas);
    add::<ListPage>(schemas);
    add::<Account>(schemas);
    add::<ErrorBody>(schemas);
    add::<ErrorCode>(schemas);
    add::<Reason>(schemas);
    describe::<UnverifiableCause>(schemas, &meaning::of_causes());
    describe::<Reason>(schemas, &meaning::of_reasons(&Reason::ALL));
    describe::<ErrorCode>(schemas, &meaning::of_errors(&ErrorCode::ALL));
}

/// Adds a type and all types that it refers to.
fn add<T: ToSchema>(schemas: &mut Map<String, Value>) {
    let mut found = vec![(T::name().into_owned(), T::schema())];
    T::schemas(&mut found);
    for (name, schema) in found {
        let mut schema = json!(schema);
        simplify(&mut schema);
        schemas.insert(name, schema);
    }
}

/// Appends to the description of a schema.
fn describe<T: ToSchema>(schemas: &mut Map<String, Value>, more: &str) {
    if let Some(Value::String(text)) = schemas.get_mut(&*T::name()).and_then(|it| it.get_mut("description")) {
        text.push_str(more);
    }
}

/// Replaces keywords of 3.1 that have an equivalent in 3.0.
fn simplify(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(simplify),
        Value::Object(fields) => {
            fields.remove("propertyNames");
            nullable_reference(fields);
            only_choice(fields);
            // 3.0 ignores the other fields beside a reference.
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

/// Replaces a `oneOf` with one choice by that choice, with the description of its position.
fn only_choice(fields: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = fields.get("oneOf") else { return };
    let [Value::Object(choice)] = choices.as_slice() else { return };
    let choice = choice.clone();
    fields.remove("oneOf");
    for (word, value) in choice {
        fields.entry(word).or_insert(value);
    }
}

/// Replaces a `oneOf` of null and a described schema by `anyOf`. No other choice is null, so the meaning is the same, a
/// validator needs less work, and the description applies to the whole.
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

/// A code of the table, or the code with a gateway's name.
pub fn any_code() -> AnyOfBuilder {
    let with_name = ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some("403 through an API gateway, which offers only single checks."))
        .pattern(Some(format!("^{NOT_AVAILABLE_ON}[a-z0-9_]+$")));
    AnyOfBuilder::new()
        .description(Some("The code, for programs."))
        .item(Ref::from_schema_name(ErrorCode::name()))
        .item(with_name)
}
