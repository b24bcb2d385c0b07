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
fn it_describes_every_endpoint() {
    let description = description();
    for (path, method) in OPERATIONS {
        assert!(description["paths"][path][method].is_object(), "{method} {path}");
    }
}

#[test]
fn every_endpoint_declares_400_401_402_429_and_503() {
    let description = description();
    for (path, method) in OPERATIONS {
        let responses = &description["paths"][path][method]["responses"];
        for status in ["400", "401", "402", "429", "503"] {
            assert!(responses[status].is_object(), "{method} {path} {status}");
        }
    }
}

#[test]
fn batch_creation_declares_202_409_and_422_and_polling_404() {
    let description = description();
    for (path, method, status) in [
        ("/v1/verify/batch", "post", "202"),
        ("/v1/verify/batch", "post", "409"),
        ("/v1/verify/batch", "post", "422"),
        ("/v1/verify/batch/{batch_id}", "get", "404"),
    ] {
        assert!(
            description["paths"][path][method]["responses"][status].is_object(),
            "{method} {path} {status}"
        );
    }
}

#[test]
fn it_declares_the_bearer_credential() {
    let schemes = description()["components"]["securitySchemes"].clone();
    let bearer = |scheme: &Value| scheme["type"] == "http" && scheme["scheme"] == "bearer";
    assert!(schemes.as_object().unwrap().values().any(bearer), "{schemes}");
}
