//! `/v1/openapi.json`: an OpenAPI 3 description that agrees with the documentation.

use crate::contract::world::shared;
use crate::harness::client::get;
use serde_json::Value;

fn description() -> Value {
    shared().call(&get("/v1/openapi.json")).ok()
}

/// Each operation that needs a key.
const OPERATIONS: [(&str, &str); 5] = [
    ("/v1/verify", "get"),
    ("/v1/verify", "post"),
    ("/v1/verify/batch", "post"),
    ("/v1/verify/batch/{batch_id}", "get"),
    ("/v1/account", "get"),
];

#[test]
fn it_is_an_openapi_3_document() {
    let version = description()["openapi"].as_str().unwrap().to_owned();
    assert!(version.starts_with("3."), "{version}");
}

#[test]
fn every_endpoint_declares_its_answers() {
    let description = description();
    let common = OPERATIONS.map(|operation| (operation, &["400", "401", "402", "429", "503"][..]));
    let further = [
        (("/v1/verify/batch", "post"), &["202", "409", "422"][..]),
        (("/v1/verify/batch/{batch_id}", "get"), &["404"]),
    ];
    for ((path, method), statuses) in common.into_iter().chain(further) {
        for status in statuses {
            let declared = &description["paths"][path][method]["responses"][status];
            assert!(declared.is_object(), "{method} {path} {status}");
        }
    }
}

#[test]
fn it_declares_the_bearer_credential() {
    let schemes = description()["components"]["securitySchemes"].clone();
    let bearer = |scheme: &Value| scheme["type"] == "http" && scheme["scheme"] == "bearer";
    assert!(schemes.as_object().unwrap().values().any(bearer), "{schemes}");
}
