//! The deletion of an account by its user.

use crate::harness::server::Server;
use crate::web::browser::{Browser, PASSWORD};
use crate::web::keys::make;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const EMAIL: &str = "kanarienvogel@example.com";

/// The name of the account, as the page shows it.
fn name(server: &Server) -> String {
    let shown: Value = server.administer_json(&["account", "show", EMAIL]);
    shown["account"]["name"].as_str().unwrap().to_owned()
}

fn has(bytes: &[u8], needle: &str) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle.as_bytes())
}

#[test]
fn an_account_is_deleted_by_its_name_and_password_and_found_nowhere_afterwards() {
    let mut server = Server::start(&[]);
    let mut browser = Browser::signed_up(&server, EMAIL);
    let mut second = Browser::signed_up(&server, "other@example.com");
    let key = make(&mut browser, "kanarienvogel key", "live");
    let others = make(&mut second, "", "live");
    let body = json!({ "emails": ["a@example.com", "b@example.com"], "name": "kanarienvogel batch" });
    assert_eq!(server.post(&key, "/v1/verify/batch", &body.to_string()).status, 202);
    let list = "kanarienvogel@one.example\nkanarienvogel@two.example\n";
    let post = format!(
        "POST /v1/lists?name=kanarienvogel.csv HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {key}\r\nContent-Type: \
         text/csv\r\nContent-Length: {}\r\n\r\n{list}",
        list.len()
    );
    assert_eq!(server.send(post).status, 201);
    let hook = json!({ "url": "https://kanarienvogel.example/in", "label": "kanarienvogel hook" });
    assert_eq!(server.post(&key, "/v1/webhooks", &hook.to_string()).status, 201);

    let sessions = browser.get("/sessions");
    let exported = browser.press(&sessions, "/account/export");
    assert_eq!(exported.header("content-type"), Some("application/json"));
    let data: Value = serde_json::from_slice(&exported.bytes).unwrap();
    assert_eq!(data["account"]["email"], EMAIL);
    assert_eq!(data["keys"][0]["label"], "kanarienvogel key");
    assert_eq!(data["keys"][0]["last4"], key[key.len() - 4..]);
    assert_eq!(data["lists"][0]["name"], "kanarienvogel.csv");
    assert_eq!(data["batches"][0]["total"], 2);
    assert_eq!(data["webhooks"][0]["url"], "https://kanarienvogel.example/in");
    let whole: Value = server.get(&key, "/v1/openapi.json").json();
    same_fields(&whole, &json!({ "$ref": "#/components/schemas/AccountExport" }), &data, "export");
    let operators: Value = serde_json::from_str(&server.administer(&["account", "export", EMAIL])).unwrap();
    // The batch can end between both, so the credits may differ.
    assert_eq!(operators["account"]["id"], data["account"]["id"]);
    assert_eq!(operators["account"]["email"], EMAIL);
    // It has no secret and nothing of others.
    let text = exported.text();
    assert!(!text.contains(&key) && !text.contains("whsec") && !text.contains("other@example.com"), "{text}");
    let page = browser.get("/account/delete");
    page.says("cannot be undone")
        .says("API keys, which stop working at once: 1")
        .says("lists with their results: 1")
        .says("webhooks with their log: 1");
    let name = name(&server);
    for (typed, password, status) in [("other", PASSWORD, 400), (name.as_str(), "wrong password", 403)] {
        let refused = browser.submit(&page, &[("name", typed), ("password", password)]);
        assert_eq!(refused.status, status, "{}", refused.plain());
        refused.says("Nothing was deleted.");
    }
    assert_eq!(server.get(&key, "/v1/account").status, 200);
    let deleted = browser.submit(&page, &[("name", &name), ("password", PASSWORD)]);
    assert_eq!(deleted.status, 200, "{}", deleted.plain());
    deleted.says("Deleted account");
    assert_eq!(server.get(&key, "/v1/account").status, 401);
    assert!(browser.get("/keys").path.starts_with("/signin"));
    let page = browser.get("/signin");
    let page = browser.submit(&page, &[("email", EMAIL), ("password", PASSWORD)]);
    assert_ne!(page.path, "/");
    assert_eq!(server.get(&others, "/v1/account").status, 200);

    // The parts of the list are removed by the next purge, which writes cause too.
    let began = Instant::now();
    while server.administer(&["account", "list"]).contains("(deleted)") {
        assert!(began.elapsed() < Duration::from_secs(100), "the deletion does not end");
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(server.ledger().0, 0);
    let metrics = server.administer(&["metrics"]);
    assert!(!has(metrics.as_bytes(), "kanarienvogel"));
    let log = server.log();
    assert!(!log.contains("kanarienvogel") && !log.contains(&name), "{log}");
    assert!(!log.contains("ERROR"), "{log}");
    server.signal(libc::SIGTERM);
    server.wait();
    let compact = ["compact"];
    server.administer(&compact);
    for entry in std::fs::read_dir(server.data()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            assert!(!has(&std::fs::read(&path).unwrap(), "kanarienvogel"), "{}", path.display());
        }
    }
}

/// Checks that each object has the fields of its schema, and no others.
fn same_fields(whole: &Value, schema: &Value, value: &Value, place: &str) {
    let choices = ["anyOf", "allOf"].into_iter().find_map(|word| schema.get(word)?.as_array());
    let schema = choices.map_or(schema, |choices| &choices[0]);
    let pointer = schema.get("$ref").and_then(Value::as_str).and_then(|it| it.strip_prefix('#'));
    let schema = pointer.map_or(schema, |pointer| whole.pointer(pointer).unwrap());
    match (value, schema.get("properties").and_then(Value::as_object)) {
        (Value::Object(fields), Some(properties)) => {
            let names = |fields: &serde_json::Map<String, Value>| -> BTreeSet<String> {
                fields.keys().cloned().collect()
            };
            assert_eq!(names(fields), names(properties), "{place}");
            for (name, value) in fields {
                same_fields(whole, &properties[name], value, &format!("{place}.{name}"));
            }
        }
        (Value::Array(items), _) => {
            assert!(schema.get("items").is_some(), "{place}");
            items.iter().for_each(|item| same_fields(whole, &schema["items"], item, place));
        }
        _ => {}
    }
}
