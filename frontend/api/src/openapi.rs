//! The OpenAPI description of the contract: `GET /v1/openapi.json` and `mailprobe openapi`.
//!
//! The description is the file `frontend/api/openapi.json`. Its texts and operations are written by hand. Tests compare it with this
//! crate, and generate the schemas and the examples in it from the types (`tests/generator.rs`). So the program does not contain the
//! generator, whose libraries take long to compile.

#[cfg(test)]
pub(crate) mod tests;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::HashMap;

const SNAPSHOT: &str = include_str!(concat!(env!("OUT_DIR"), "/openapi.json"));

/// The base URL if none is configured: the host that serves the description.
pub const HERE: &str = "/";

/// The whole description, with its fields in the order for readers.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    openapi: String,
    info: Value,
    servers: Value,
    security: Value,
    tags: Value,
    paths: Value,
    /// The responses to any request, which no operation names.
    #[serde(rename = "x-any-request")]
    any_request: Value,
    components: Value,
}

/// The description of the API with this base URL.
///
/// # Errors
///
/// The file in the program is not a description, which a test excludes.
pub fn description(base_url: &str) -> Result<Description, serde_json::Error> {
    let mut description: Description = serde_json::from_str(SNAPSHOT)?;
    description.servers = json!([{ "url": base_url }]);
    Ok(description)
}

/// The names of the query parameters of each operation, in their order. The key is the method and the path, such as `GET /v1/lists`.
///
/// # Errors
///
/// Those of [`description`].
pub fn query_parameters() -> Result<HashMap<String, Vec<String>>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Paths {
        paths: HashMap<String, HashMap<String, Operation>>,
    }
    #[derive(Deserialize)]
    struct Operation {
        #[serde(default)]
        parameters: Vec<Parameter>,
    }
    #[derive(Deserialize)]
    struct Parameter {
        r#in: String,
        name: String,
    }
    let Paths { paths } = serde_json::from_str(SNAPSHOT)?;
    let operations = paths.into_iter().flat_map(|(path, operations)| {
        operations.into_iter().map(move |(method, operation)| {
            let in_query = operation.parameters.into_iter().filter(|parameter| parameter.r#in == "query");
            let names = in_query.map(|parameter| parameter.name).collect();
            (format!("{} {path}", method.to_ascii_uppercase()), names)
        })
    });
    Ok(operations.collect())
}

/// The description with this base URL as formatted text.
///
/// # Errors
///
/// Those of [`description`].
pub fn pretty(base_url: &str) -> Result<String, serde_json::Error> {
    Ok(serde_json::to_string_pretty(&description(base_url)?)? + "\n")
}
