//! Descriptions of schemas in words.

use super::prose::prose;
use super::{list, plain, table, text};
use maud::{Markup, html};
use serde_json::Value;

/// The id of a schema on the page.
pub fn name_of(name: &str) -> String {
    format!("schema-{name}")
}

/// A table of the fields of an object. `always` is the tag of fields that cannot be left out.
pub fn fields(label: &str, schema: &Value, always: &str) -> Markup {
    let required: Vec<&str> = list(schema, "/required").filter_map(Value::as_str).collect();
    let rows = html! {
        thead { tr { th scope="col" { "Field" } th scope="col" { "Description" } } }
        tbody {
            @for (name, field) in super::entries(schema, "/properties") {
                tr {
                    th scope="row" {
                        code { (name) }
                        @if required.contains(&name.as_str()) { " " span.tag { (always) } }
                    }
                    td { p.hint { (kind(field)) } (prose(text(field, "/description"))) }
                }
            }
        }
    };
    table(label, rows)
}

/// The type and the bounds of a schema, in one line.
pub fn kind(schema: &Value) -> Markup {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let name = reference.rsplit('/').next().unwrap_or_default();
        return html! { a href={ "#" (name_of(name)) } { (name) } };
    }
    for choices in ["allOf", "anyOf", "oneOf"] {
        let choices: Vec<&Value> = list(schema, &format!("/{choices}")).collect();
        if !choices.is_empty() {
            return joined(choices.into_iter().map(kind).collect());
        }
    }
    html! { (types(schema)) (bounds(schema)) }
}

fn joined(kinds: Vec<Markup>) -> Markup {
    html! { @for (number, kind) in kinds.iter().enumerate() { @if number > 0 { " or " } (kind) } }
}

fn types(schema: &Value) -> Markup {
    let values: Vec<String> = list(schema, "/enum").map(|value| plain(Some(value))).collect();
    if !values.is_empty() {
        return joined(values.iter().map(|value| html! { code { (value) } }).collect());
    }
    let names: Vec<&str> = match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => vec!["any value"],
    };
    let one = |name: &&str| match (*name, schema.get("items")) {
        ("array", Some(items)) => html! { "array of " (kind(items)) },
        (name, _) => html! { (name) },
    };
    joined(names.iter().map(one).collect())
}

/// The keywords that are shown after the type, and their words.
const BOUNDS: [(&str, &str); 10] = [
    ("format", "format"),
    ("minimum", "at least"),
    ("maximum", "at most"),
    ("minLength", "minimum length"),
    ("maxLength", "maximum length"),
    ("minItems", "minimum items"),
    ("maxItems", "maximum items"),
    ("pattern", "pattern"),
    ("default", "default"),
    ("example", "example"),
];

fn bounds(schema: &Value) -> Markup {
    html! {
        @for (key, words) in BOUNDS {
            // The width of an integer does not matter to readers.
            @if let Some(value) = schema.get(key).filter(|value| !matches!(value.as_str(), Some("int32" | "int64"))) {
                "; " (words) " " code { (plain(Some(value))) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn kinds() {
        let check =
            |schema: Value, expected: &str| assert_eq!(kind(&schema).into_string(), expected, "{schema}");
        check(json!({ "type": "string" }), "string");
        check(json!({}), "any value");
        check(
            json!({ "type": ["integer", "null"], "format": "int64", "minimum": 0 }),
            "integer or null; at least <code>0</code>",
        );
        let link = "<a href=\"#schema-Mode\">Mode</a>";
        check(json!({ "$ref": "#/components/schemas/Mode" }), link);
        check(json!({ "allOf": [{ "$ref": "#/components/schemas/Mode" }] }), link);
        check(
            json!({ "type": "array", "items": { "$ref": "#/x/Mode" }, "maxItems": 2 }),
            &format!("array of {link}; maximum items <code>2</code>"),
        );
        check(json!({ "anyOf": [{ "$ref": "#/x/Mode" }, { "type": "null" }] }), &format!("{link} or null"));
        check(
            json!({ "type": "string", "enum": ["a", "b"], "default": "a" }),
            "<code>a</code> or <code>b</code>; default <code>a</code>",
        );
    }
}
