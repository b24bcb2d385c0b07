//! The requests of an assistant: its connection by OAuth 2.1 with PKCE (RFC 7636), and its tools over MCP.

use super::client::{HttpReply, HttpRequest, escape};
use serde_json::{Value, json};

/// Where an assistant takes its codes.
pub const CALLBACK: &str = "http://127.0.0.1:49152/callback";
/// The example of RFC 7636, appendix B.
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

/// The version of MCP.
const REVISION: &str = "2026-07-28";

/// The registration of an assistant.
pub fn registration() -> HttpRequest {
    let metadata = json!({ "client_name": "A program", "redirect_uris": [CALLBACK] });
    HttpRequest::json("/oauth/register", &metadata)
}

/// The page on which a user consents to an assistant.
pub fn consent_path(client: &str, resource: &str) -> String {
    let query = [
        ("response_type", "code"),
        ("client_id", client),
        ("redirect_uri", CALLBACK),
        ("state", "s"),
        ("code_challenge", CHALLENGE),
        ("code_challenge_method", "S256"),
        ("resource", resource),
        ("scope", "verify"),
    ];
    let query = query.map(|(name, value)| format!("{name}={}", escape(value)));
    format!("/oauth/authorize?{}", query.join("&"))
}

/// The consent on that page to this many full checks.
pub fn consent(page: &HttpReply, full_checks: u64) -> Option<HttpRequest> {
    let full_checks = full_checks.to_string();
    let decision = [("full_checks", full_checks.as_str()), ("days", "1"), ("decision", "allow")];
    page.filled("/oauth/authorize", &decision)
}

/// The code in the answer to a consent.
pub fn code(reply: &HttpReply) -> Option<String> {
    let location = reply.header("location")?;
    location.split(['?', '&']).find_map(|pair| pair.strip_prefix("code=")).map(str::to_owned)
}

/// The exchange of a code for tokens.
pub fn redemption(client: &str, code: &str, resource: &str) -> HttpRequest {
    let fields = [
        ("grant_type", "authorization_code"),
        ("code", code),
        ("client_id", client),
        ("redirect_uri", CALLBACK),
        ("code_verifier", VERIFIER),
        ("resource", resource),
    ];
    HttpRequest::form("/oauth/token", &fields)
}

/// A request for the list of tools: it is free, and needs a valid token.
pub fn tools(token: &str) -> HttpRequest {
    message(token, "tools/list", "", json!({}))
}

/// A check of an address by a tool of MCP.
pub fn tool(token: &str, arguments: &Value) -> HttpRequest {
    message(token, "tools/call", "verify_email", json!({ "name": "verify_email", "arguments": arguments }))
}

fn message(token: &str, method: &str, name: &str, mut params: Value) -> HttpRequest {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": REVISION,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let request = HttpRequest::json("/mcp", &body).bearer(token).header("MCP-Protocol-Version", REVISION);
    let request = request.header("Mcp-Method", method);
    if name.is_empty() { request } else { request.header("Mcp-Name", name) }
}
