//! An assistant's client: it registers, sends its user to the consent page, and calls tools.

use crate::harness::client::{Answer, escape};
use crate::harness::server::Server;
use crate::web::browser::{Browser, Page};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

pub const CALLBACK: &str = "http://127.0.0.1:49152/callback";
pub const VERIFIER: &str = "a-verifier-of-at-least-forty-three-characters.";
pub const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// The tokens of a connected client.
#[derive(Debug, Clone)]
pub struct Tokens {
    pub client: String,
    pub code: String,
    pub access: String,
    pub refresh: String,
}

pub fn base(server: &Server) -> String {
    format!("http://{}", server.address)
}

pub fn resource(server: &Server) -> String {
    format!("{}/mcp", base(server))
}

/// Sends one request with these headers, each with its line end.
pub fn request(server: &Server, method: &str, path: &str, headers: &str, body: &str) -> Answer {
    let length = body.len();
    server.send(format!(
        "{method} {path} HTTP/1.1\r\nHost: t\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    ))
}

pub fn post_json(server: &Server, path: &str, body: &Value) -> Answer {
    request(server, "POST", path, "Content-Type: application/json\r\n", &body.to_string())
}

pub fn post_form(server: &Server, path: &str, fields: &[(&str, &str)]) -> Answer {
    let kind = "Content-Type: application/x-www-form-urlencoded\r\n";
    request(server, "POST", path, kind, &encode(fields))
}

pub fn encode(fields: &[(&str, &str)]) -> String {
    let pairs: Vec<String> =
        fields.iter().map(|(name, value)| format!("{}={}", escape(name), escape(value))).collect();
    pairs.join("&")
}

/// Registers a client; returns its id.
pub fn register(server: &Server, redirect: &str) -> String {
    let metadata = json!({ "client_name": "Test assistant", "redirect_uris": [redirect] });
    let answer = post_json(server, "/oauth/register", &metadata);
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()["client_id"].as_str().unwrap().to_owned()
}

/// SHA-256 of a verifier in base64url.
pub fn challenge(verifier: &str) -> String {
    let hash = digest(&SHA256, verifier.as_bytes());
    data_encoding::BASE64URL_NOPAD.encode(hash.as_ref())
}

/// The fields of a good request for consent.
pub fn asking(server: &Server, client: &str) -> Vec<(&'static str, String)> {
    vec![
        ("response_type", "code".into()),
        ("client_id", client.into()),
        ("redirect_uri", CALLBACK.into()),
        ("state", "a state&more".into()),
        ("code_challenge", challenge(VERIFIER)),
        ("code_challenge_method", "S256".into()),
        ("resource", resource(server)),
        ("scope", "verify".into()),
    ]
}

/// The path to which a client sends its user.
pub fn consent_path(fields: &[(&'static str, String)]) -> String {
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    format!("/oauth/authorize?{}", encode(&fields))
}

/// Sends the consent form; the answer redirects to the client, which the browser does not follow.
pub fn decide(browser: &mut Browser, page: &Page, full_checks: &str, days: &str, decision: &str) -> Page {
    let form = page.forms().into_iter().find(|(action, _)| action == "/oauth/authorize");
    let (action, mut fields) = form.unwrap_or_else(|| panic!("no consent form: {}", page.text()));
    for (name, value) in [("full_checks", full_checks), ("days", days), ("decision", decision)] {
        fields.push((name.to_owned(), value.to_owned()));
    }
    let fields: Vec<(&str, &str)> =
        fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    browser.post(&action, &encode(&fields))
}

/// The parameters in the redirect to a client.
pub fn sent_back(page: &Page) -> Vec<(String, String)> {
    let location = page.header("location").unwrap_or_else(|| panic!("sent nowhere: {}", page.text()));
    let query =
        location.strip_prefix(&format!("{CALLBACK}?")).unwrap_or_else(|| panic!("sent to {location}"));
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap());
    pairs.map(|(name, value)| (name.to_owned(), unescape(value))).collect()
}

fn unescape(text: &str) -> String {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        bytes.push(u8::from_str_radix(&piece[..2], 16).unwrap());
        bytes.extend_from_slice(&piece.as_bytes()[2..]);
    }
    String::from_utf8(bytes).unwrap()
}

pub fn value(pairs: &[(String, String)], name: &str) -> Option<String> {
    pairs.iter().find(|(found, _)| found == name).map(|(_, value)| value.clone())
}

/// Asks the user of the browser for consent; returns the code.
pub fn allowed(server: &Server, browser: &mut Browser, client: &str, checks: u32, days: u32) -> String {
    let page = browser.get(&consent_path(&asking(server, client)));
    assert_eq!(page.status, 200, "{}", page.text());
    let page = decide(browser, &page, &checks.to_string(), &days.to_string(), "allow");
    value(&sent_back(&page), "code").unwrap()
}

pub fn redeem(server: &Server, client: &str, code: &str) -> Answer {
    redeem_with(server, client, code, &[])
}

/// Redeems a code, with these fields instead of the right ones; fields without a value are left out.
pub fn redeem_with(server: &Server, client: &str, code: &str, changes: &[(&str, &str)]) -> Answer {
    let resource = resource(server);
    let mut fields = vec![
        ("grant_type", "authorization_code"),
        ("code", code),
        ("client_id", client),
        ("redirect_uri", CALLBACK),
        ("code_verifier", VERIFIER),
        ("resource", &resource),
    ];
    for (name, value) in changes {
        fields.retain(|(known, _)| known != name);
        if !value.is_empty() {
            fields.push((name, value));
        }
    }
    post_form(server, "/oauth/token", &fields)
}

pub fn renew(server: &Server, client: &str, refresh: &str) -> Answer {
    let fields = [("grant_type", "refresh_token"), ("refresh_token", refresh), ("client_id", client)];
    post_form(server, "/oauth/token", &fields)
}

/// The tokens in an answer.
pub fn tokens(client: &str, code: &str, answer: &Answer) -> Tokens {
    assert_eq!(answer.status, 200, "{answer:?}");
    let body = answer.json();
    let text = |name: &str| body[name].as_str().unwrap().to_owned();
    let (access, refresh) = (text("access_token"), text("refresh_token"));
    Tokens { client: client.into(), code: code.into(), access, refresh }
}

/// All steps from a new client to its tokens.
pub fn connect(server: &Server, browser: &mut Browser, checks: u32, days: u32) -> Tokens {
    let client = register(server, CALLBACK);
    let code = allowed(server, browser, &client, checks, days);
    let answer = redeem(server, &client, &code);
    tokens(&client, &code, &answer)
}

/// Sends a message under the rules of 2025-11-25.
pub fn legacy(server: &Server, token: &str, method: &str, params: Value) -> Answer {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    speak(server, token, "MCP-Protocol-Version: 2025-11-25\r\n", &body.to_string())
}

/// Sends a message under the rules of 2026-07-28.
pub fn modern(server: &Server, token: &str, method: &str, mut params: Value) -> Answer {
    let name = params["name"].as_str().map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let headers = format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{name}");
    speak(server, token, &headers, &body.to_string())
}

pub fn speak(server: &Server, token: &str, headers: &str, body: &str) -> Answer {
    let headers = format!("Authorization: Bearer {token}\r\nContent-Type: application/json\r\n{headers}");
    request(server, "POST", "/mcp", &headers, body)
}

/// The result of a tool: its structured content, or the text of its error.
pub fn call(server: &Server, token: &str, name: &str, arguments: Value) -> Result<Value, String> {
    let answer = modern(server, token, "tools/call", json!({ "name": name, "arguments": arguments }));
    assert_eq!(answer.status, 200, "{answer:?}");
    let result = answer.json()["result"].clone();
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer:?}")).to_owned();
    if result["isError"] == json!(true) {
        return Err(text);
    }
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), result["structuredContent"]);
    Ok(result["structuredContent"].clone())
}

pub fn full(server: &Server, token: &str, address: &str) -> Result<Value, String> {
    call(server, token, "verify_email", json!({ "email": address, "mode": "full" }))
}

pub fn fast(server: &Server, token: &str, address: &str) -> Result<Value, String> {
    call(server, token, "verify_email", json!({ "email": address, "mode": "fast" }))
}

/// Whether the token is valid for any request.
pub fn is_alive(server: &Server, token: &str) -> bool {
    let status = modern(server, token, "tools/list", json!({})).status;
    assert!(status == 200 || status == 401, "{status}");
    status == 200
}
