//! The parts of `frontend/api/openapi.json` that follow from the code: the schemas of the types that are rendered or read, the
//! meaning of reasons and errors, and the examples of answers, which are rendered values. Everything else in the file is written by
//! hand: the texts, the operations with their parameters, the headers, and the schemas of answers without a type that derives one
//! (`Verification`, `BatchStatus`, `AccountExport`). The tests compare the file with the routes, the error codes and the request
//! parsers, and each example with its schema.
//!
//! The version is OpenAPI 3.1 (<https://spec.openapis.org/oas/v3.1.1.html>) with only the keywords of 3.0, so that
//! older tools can read it: no `const`, no `prefixItems`, no keyword beside `$ref`, and a single type where one is
//! enough. For null alone the two versions have no common form. It is written in the form of 3.1, `type: [string,
//! "null"]` or `anyOf` with the type `null`.

pub mod examples;
mod meaning;
pub mod schemas;
pub mod wire;

use crate::ErrorCode;
use crate::openapi::Description;
use serde_json::{Value, json};

/// The description with the parts that follow from the code. `kept` is the text of the file.
pub fn updated(kept: &str) -> Description {
    let mut description: Description = serde_json::from_str(kept).unwrap();
    schemas::add_all(description.components["schemas"].as_object_mut().unwrap());
    for response in description.components["responses"].as_object_mut().unwrap().values_mut() {
        explain_errors(response);
    }
    for (path, method, status, examples) in examples::of_answers() {
        let content = &mut description.paths[path][method]["responses"][status]["content"];
        content["application/json"]["examples"] = examples::shown(examples);
    }
    description
}

/// Describes a response to errors by the codes that its examples have as names.
fn explain_errors(response: &mut Value) {
    let named = response["content"]["application/json"]["examples"].as_object().unwrap();
    let codes = ErrorCode::ALL.into_iter().filter(|code| named.contains_key(code.as_str()));
    let codes: Vec<(ErrorCode, &str)> = codes.map(|code| (code, meaning::of_error(code))).collect();
    let meanings: Vec<&str> = codes.iter().map(|(_, meaning)| *meaning).collect();
    response["description"] = json!(meanings.join(" Or: "));
    let shown = codes.into_iter().map(|(code, meaning)| (code.as_str(), meaning, examples::error(code)));
    response["content"]["application/json"]["examples"] = examples::shown(shown.collect());
}
