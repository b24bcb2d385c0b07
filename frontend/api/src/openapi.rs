//! The OpenAPI description of the contract: `GET /v1/openapi.json` and `mailprobe openapi`.
//!
//! The description is the file `frontend/api/openapi.json`. Its texts and operations are written by hand. Tests compare it with this
//! crate, and generate the schemas and the examples in it from the types (`tests/generator.rs`). So the program does not contain the
//! generator, whose libraries take long to compile.

#[cfg(test)]
pub(crate) mod tests;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

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

/// The description with this base URL as formatted text.
///
/// # Errors
///
/// Those of [`description`].
pub fn pretty(base_url: &str) -> Result<String, serde_json::Error> {
    Ok(serde_json::to_string_pretty(&description(base_url)?)? + "\n")
}
