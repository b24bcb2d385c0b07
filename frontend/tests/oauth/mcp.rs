//! The protocol: both of its ages at one endpoint, and invalid messages.

use crate::harness::server::Server;
use crate::oauth::assistant::*;
use crate::web::browser::{Browser, signed_up};
use serde_json::{Value, json};

fn connected() -> (Server, String) {
    let (server, mut browser) = signed_up();
    let tokens = connect(&server, &mut browser, 2, 1);
    (server, tokens.access)
}

fn code(answer: &crate::harness::client::Answer) -> (u16, i64) {
    (answer.status, answer.json()["error"]["code"].as_i64().unwrap_or_default())
}

#[test]
fn a_client_of_2025_shakes_hands_first() {
    let (server, token) = connected();
    for (asked, got) in [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2024-11-05", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
    ] {
        let params = json!({ "protocolVersion": asked, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let answer = speak(&server, &token, "", &body.to_string());
        let result = answer.json()["result"].clone();
        assert_eq!((answer.status, &result["protocolVersion"]), (200, &json!(got)));
        assert!(result["capabilities"]["tools"].is_object() && result["serverInfo"]["name"] == "mailprobe");
        assert_eq!(answer.header("mcp-session-id"), None);
    }
    let initialized = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}";
    let answer = speak(&server, &token, "MCP-Protocol-Version: 2025-11-25\r\n", initialized);
    assert_eq!((answer.status, answer.body.as_str()), (202, ""));
    assert_eq!(legacy(&server, &token, "ping", json!({})).json()["result"], json!({}));
    let tools = legacy(&server, &token, "tools/list", json!({})).json()["result"]["tools"].clone();
    let names: Vec<&str> =
        tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["verify_email", "account"]);
    let arguments = json!({ "email": "mailbox_exists@example.com", "mode": "full" });
    let answer =
        legacy(&server, &token, "tools/call", json!({ "name": "verify_email", "arguments": arguments }));
    let result = answer.json()["result"].clone();
    assert_eq!(result["structuredContent"]["reason"], "mailbox_exists");
    assert!(result.get("resultType").is_none() && result.get("_meta").is_none());
    assert_eq!(code(&legacy(&server, &token, "server/discover", json!({}))), (400, -32602));
    assert_eq!(code(&legacy(&server, &token, "resources/list", json!({}))), (200, -32601));
}

#[test]
fn a_client_of_2026_says_all_in_each_request() {
    let (server, token) = connected();
    let result = modern(&server, &token, "server/discover", json!({})).json()["result"].clone();
    assert_eq!(result["supportedVersions"], json!(["2026-07-28", "2025-11-25", "2025-06-18"]));
    assert_eq!((&result["resultType"], &result["cacheScope"]), (&json!("complete"), &json!("public")));
    assert!(result["ttlMs"].is_u64() && result["capabilities"]["tools"].is_object());
    let result = modern(&server, &token, "tools/list", json!({})).json()["result"].clone();
    assert_eq!(
        (result["tools"].as_array().map(Vec::len), &result["resultType"]),
        (Some(2), &json!("complete"))
    );
    for gone in ["ping", "initialize2", "subscriptions/listen", "resources/read"] {
        assert_eq!(code(&modern(&server, &token, gone, json!({}))), (404, -32601), "{gone}");
    }
    let unknown = modern(&server, &token, "tools/call", json!({ "name": "x", "arguments": {} }));
    assert_eq!(code(&unknown), (200, -32602));
    let list = modern(&server, &token, "tools/call", json!({ "name": "account", "arguments": [] }));
    assert_eq!(code(&list), (200, -32602));
}

#[test]
fn headers_that_say_something_else_are_refused() {
    let (server, token) = connected();
    let params = json!({ "name": "account", "arguments": {}, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    } });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
    let good = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: account\r\n";
    assert_eq!(speak(&server, &token, good, &body).status, 200);
    for (there, instead) in [
        ("MCP-Protocol-Version: 2026-07-28\r\n", ""),
        ("2026-07-28", "2025-11-25"),
        ("Mcp-Method: tools/call\r\n", ""),
        ("tools/call", "tools/list"),
        ("Mcp-Name: account\r\n", ""),
        ("Mcp-Name: account\r\n", "Mcp-Name: verify_email\r\n"),
        ("Mcp-Name: account\r\n", "Mcp-Name: account\r\nMcp-Name: account\r\n"),
    ] {
        let answer = speak(&server, &token, &good.replacen(there, instead, 1), &body);
        assert_eq!(code(&answer), (400, -32020), "{there:?} {instead:?}");
    }
    let future = (good.replace("2026-07-28", "2099-01-01"), body.replace("2026-07-28", "2099-01-01"));
    let answer = speak(&server, &token, &future.0, &future.1);
    assert_eq!(code(&answer), (400, -32022));
    assert_eq!(answer.json()["error"]["data"]["requested"], "2099-01-01");
}

#[test]
fn arguments_that_do_not_fit_are_told_to_the_model() {
    let (server, token) = connected();
    for arguments in [
        json!({}),
        json!({ "email": "a@b.example" }),
        json!({ "email": "a@b.example", "mode": "slow" }),
        json!({ "email": ["a@b.example"], "mode": "fast" }),
        json!({ "email": "a@b.example", "mode": "fast", "detail": "full" }),
        json!({ "email": "x".repeat(321), "mode": "fast" }),
    ] {
        assert!(call(&server, &token, "verify_email", arguments.clone()).is_err(), "{arguments}");
    }
    assert!(call(&server, &token, "account", json!({ "x": 1 })).is_err());
}

#[test]
fn what_is_no_message_is_refused() {
    let (server, token) = connected();
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    assert_eq!(code(&speak(&server, &token, "", &json!([list]).to_string())), (400, -32600));
    assert_eq!(code(&speak(&server, &token, "", "{")), (400, -32700));
    assert_eq!(
        code(&speak(&server, &token, "", "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}")),
        (400, -32600)
    );
    let large = format!("{{\"x\":\"{}\"}}", "x".repeat(300 * 1024));
    assert_eq!(speak(&server, &token, "", &large).status, 413);
    let headers = format!("Authorization: Bearer {token}\r\nContent-Type: text/plain\r\n");
    assert_eq!(request(&server, "POST", "/mcp", &headers, &list.to_string()).status, 415);
    for method in ["GET", "DELETE", "PUT"] {
        let answer = request(&server, method, "/mcp", &headers, "");
        assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")), "{method}");
    }
}

#[test]
fn pages_of_other_sites_may_not_come_here() {
    let (server, token) = connected();
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
    let with = |origin: &str| speak(&server, &token, &format!("Origin: {origin}\r\n"), &list).status;
    assert_eq!(with(&base(&server)), 200);
    for origin in ["https://evil.example", "null", "http://127.0.0.1", "http://localhost:1"] {
        assert_eq!(with(origin), 403, "{origin}");
    }
}

#[test]
fn a_connection_is_under_the_limits_of_its_account() {
    let plan = "[[plan]]\nid = \"free\"\nname = \"Free\"\nmonthly_credits = 9\nlimits = { fast = 2 }\n";
    let server = Server::start_with(plan, &[]);
    let mut browser = Browser::signed_up(&server, "joe@example.com");
    let token = connect(&server, &mut browser, 1, 1).access;
    let mut told: Vec<Result<Value, String>> =
        (0..3).map(|_| fast(&server, &token, "joe@example.com")).collect();
    let last = told.pop().unwrap().unwrap_err();
    assert!(last.starts_with("rate_limited: ") && told.iter().all(Result::is_ok), "{last}");
}
