//! Messages of the Model Context Protocol, one per POST, of both ages of the protocol, and the answers to them.
//!
//! Up to revision 2025-11-25, a client starts with a handshake (`initialize`) and then names its revision in a header. Since
//! 2026-07-28, each request is independent: it names its revision in `params._meta`. It also names its revision, its
//! method and its tool in headers, which must match the body (SEP-2243, SEP-2575). The server keeps no state between
//! requests in either age, so one connection can carry both.
//!
//! JSON-RPC 2.0 without batches. <https://modelcontextprotocol.io/specification/2026-07-28/basic>.

use data_encoding::BASE64;
use serde_json::{Map, Value, json};

/// The supported revision without a handshake.
pub const MODERN: &str = "2026-07-28";
/// The supported revisions with a handshake, the newest first.
pub const LEGACY: [&str; 2] = ["2025-11-25", "2025-06-18"];

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
const SERVER_KEY: &str = "io.modelcontextprotocol/serverInfo";

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const INTERNAL_ERROR: i64 = -32603;
const HEADER_MISMATCH: i64 = -32020;
const UNSUPPORTED_VERSION: i64 = -32022;

/// The headers that repeat values of the body. A header that is missing or present twice is `None`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Headers<'h> {
    /// `MCP-Protocol-Version`.
    pub version: Option<&'h str>,
    /// `Mcp-Method`.
    pub method: Option<&'h str>,
    /// `Mcp-Name`.
    pub name: Option<&'h str>,
}

/// The age of the protocol whose rules apply to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    /// A revision of [`LEGACY`].
    Legacy,
    /// The revision [`MODERN`].
    Modern,
}

/// A well-formed message.
#[derive(Debug, PartialEq)]
pub enum Message {
    /// A message that expects an answer.
    Request(Request),
    /// A message that expects no answer.
    Notification,
}

/// A message that expects an answer.
#[derive(Debug, PartialEq)]
pub struct Request {
    /// The id, which the answer repeats: a string or an integer.
    pub id: Value,
    /// The method.
    pub method: String,
    /// The parameters.
    pub params: Map<String, Value>,
    /// The age whose rules apply.
    pub age: Age,
}

/// An answer: the HTTP status, and the body if there is one.
#[derive(Debug, PartialEq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// A JSON-RPC response.
    pub body: Option<Value>,
}

/// Reads a message.
///
/// # Errors
/// The answer to a message that is not valid.
pub fn read(body: &[u8], headers: Headers<'_>) -> Result<Message, Answer> {
    let wrong = |id, what: &str| error(400, id, INVALID_REQUEST, what, None);
    let message = match serde_json::from_slice(body) {
        Ok(Value::Object(message)) => message,
        Ok(Value::Array(_)) => {
            return Err(wrong(None, "batches are not supported: send one message per request"));
        }
        Ok(_) => return Err(wrong(None, "a message must be a JSON object")),
        Err(_) => return Err(error(400, None, PARSE_ERROR, "the body is not JSON", None)),
    };
    let id = match message.get("id") {
        None => None,
        Some(id) if id.is_string() || id.is_i64() || id.is_u64() => Some(id.clone()),
        Some(_) => return Err(wrong(None, "id must be a string or an integer")),
    };
    if message.get("jsonrpc") != Some(&json!("2.0")) {
        return Err(wrong(id, "jsonrpc must be \"2.0\""));
    }
    let Some(method) = message.get("method").and_then(Value::as_str).map(str::to_owned) else {
        return Err(wrong(id, "method must be a string; this server expects no responses"));
    };
    let params = match message.get("params") {
        None => Map::new(),
        Some(Value::Object(params)) => params.clone(),
        Some(_) => return Err(wrong(id, "params must be an object")),
    };
    let Some(id) = id else { return Ok(Message::Notification) };
    let age = age(&method, &params, headers);
    let request = Request { id, method, params, age };
    match age {
        Age::Modern => check_modern(&request, headers)?,
        Age::Legacy => check_legacy(&request, headers)?,
    }
    Ok(Message::Request(request))
}

/// The age of a message. A handshake is always legacy. Any other message is modern if a part of it is modern.
fn age(method: &str, params: &Map<String, Value>, headers: Headers<'_>) -> Age {
    let says_so = params.get("_meta").is_some_and(|meta| meta.get(VERSION_KEY).is_some())
        || method == "server/discover"
        || headers.version.is_some_and(|version| version >= MODERN);
    if says_so && method != "initialize" { Age::Modern } else { Age::Legacy }
}

fn check_legacy(request: &Request, headers: Headers<'_>) -> Result<(), Answer> {
    match headers.version {
        // A handshake names its version in the body.
        Some(version) if !LEGACY.contains(&version) && request.method != "initialize" => {
            Err(unsupported(&request.id, version))
        }
        _ => Ok(()),
    }
}

fn check_modern(request: &Request, headers: Headers<'_>) -> Result<(), Answer> {
    let Request { id, method, params, .. } = request;
    let mismatch = |name: &str, what: &str| {
        let message = format!("Header mismatch: {name} {what}");
        error(400, Some(id.clone()), HEADER_MISMATCH, &message, None)
    };
    let missing = |key: &str| {
        let message = format!("params._meta must have {key}");
        error(400, Some(id.clone()), INVALID_PARAMS, &message, None)
    };
    let meta = params.get("_meta");
    let version = meta.and_then(|meta| meta.get(VERSION_KEY)).and_then(Value::as_str);
    let Some(version) = version else { return Err(missing(VERSION_KEY)) };
    match headers.version {
        None => return Err(mismatch("MCP-Protocol-Version", "is missing")),
        Some(header) if header != version => {
            return Err(mismatch("MCP-Protocol-Version", "does not match the body"));
        }
        Some(_) => {}
    }
    if version != MODERN {
        return Err(unsupported(id, version));
    }
    if !meta.and_then(|meta| meta.get(CAPABILITIES_KEY)).is_some_and(Value::is_object) {
        return Err(missing(CAPABILITIES_KEY));
    }
    match headers.method {
        None => return Err(mismatch("Mcp-Method", "is missing")),
        Some(header) if header != method => {
            return Err(mismatch("Mcp-Method", "does not match the body"));
        }
        Some(_) => {}
    }
    if method == "tools/call" {
        let name = params.get("name").and_then(Value::as_str);
        match headers.name.map(decode_name) {
            None => return Err(mismatch("Mcp-Name", "is missing")),
            Some(header) if header.as_deref() != name => {
                return Err(mismatch("Mcp-Name", "does not match the body"));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// The value of a header: plain, or `=?base64?...?=`; `None` if the encoding is broken.
fn decode_name(header: &str) -> Option<String> {
    match header.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(encoded) => String::from_utf8(BASE64.decode(encoded.as_bytes()).ok()?).ok(),
        None => Some(header.to_owned()),
    }
}

impl Request {
    /// The answer with a result, and with the fields that the age requires.
    pub fn result(&self, mut result: Value) -> Answer {
        if let (Age::Modern, Some(fields)) = (self.age, result.as_object_mut()) {
            fields.insert("resultType".into(), "complete".into());
            fields.insert("_meta".into(), json!({ SERVER_KEY: server_info() }));
        }
        let body = json!({ "jsonrpc": "2.0", "id": self.id, "result": result });
        Answer { status: 200, body: Some(body) }
    }

    /// The answer to an unknown method.
    pub fn unknown_method(&self) -> Answer {
        let status = if self.age == Age::Modern { 404 } else { 200 };
        error(status, Some(self.id.clone()), METHOD_NOT_FOUND, "there is no such method", None)
    }

    /// The answer to parameters that do not fit the method.
    pub fn invalid_params(&self, what: &str) -> Answer {
        error(200, Some(self.id.clone()), INVALID_PARAMS, what, None)
    }

    /// The answer after an internal error.
    pub fn internal_error(&self) -> Answer {
        let what = "internal error; the header X-Request-Id helps to find its cause";
        error(200, Some(self.id.clone()), INTERNAL_ERROR, what, None)
    }
}

/// The name and version of this software.
pub fn server_info() -> Value {
    json!({ "name": "mailprobe", "title": "mailprobe", "version": env!("CARGO_PKG_VERSION") })
}

/// All supported revisions, the newest first.
pub fn versions() -> Vec<&'static str> {
    std::iter::once(MODERN).chain(LEGACY).collect()
}

fn unsupported(id: &Value, requested: &str) -> Answer {
    let data = json!({ "supported": versions(), "requested": requested });
    error(400, Some(id.clone()), UNSUPPORTED_VERSION, "Unsupported protocol version", Some(data))
}

/// An error response, without an id if the id of the request is not known.
fn error(status: u16, id: Option<Value>, code: i64, message: &str, data: Option<Value>) -> Answer {
    let mut error = json!({ "code": code, "message": message });
    if let Some(data) = data {
        error["data"] = data;
    }
    let mut body = json!({ "jsonrpc": "2.0", "error": error });
    if let Some(id) = id {
        body["id"] = id;
    }
    Answer { status, body: Some(body) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modern(method: &str, name: Option<&str>) -> Value {
        let meta = json!({ VERSION_KEY: MODERN, CAPABILITIES_KEY: {} });
        let mut params = json!({ "_meta": meta });
        if let Some(name) = name {
            params["name"] = name.into();
        }
        json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
    }

    const LIST: Headers<'_> = Headers { version: Some(MODERN), method: Some("tools/list"), name: None };

    fn check(body: &Value, headers: Headers<'_>, expected: Result<Age, (u16, i64)>) {
        let got = match read(body.to_string().as_bytes(), headers) {
            Ok(Message::Request(request)) => Ok(request.age),
            Ok(Message::Notification) => panic!("no request: {body}"),
            Err(answer) => {
                let body = answer.body.unwrap();
                assert!(body["error"]["message"].as_str().is_some_and(|text| !text.is_empty()));
                Err((answer.status, body["error"]["code"].as_i64().unwrap()))
            }
        };
        assert_eq!(got, expected, "{body} {headers:?}");
    }

    #[test]
    fn the_age_is_told_by_the_request_alone() {
        let call = json!({ "jsonrpc": "2.0", "id": "a", "method": "tools/list" });
        check(&call, Headers::default(), Ok(Age::Legacy));
        check(&call, Headers { version: Some("2025-06-18"), ..Headers::default() }, Ok(Age::Legacy));
        check(&call, Headers { version: Some("2025-03-26"), ..Headers::default() }, Err((400, -32022)));
        check(&call, Headers { version: Some("x"), ..Headers::default() }, Err((400, -32602)));
        check(&modern("tools/list", None), LIST, Ok(Age::Modern));
        let initialize = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {} });
        check(&initialize, Headers { version: Some(MODERN), ..Headers::default() }, Ok(Age::Legacy));
    }

    #[test]
    fn headers_and_body_have_to_agree() {
        let list = modern("tools/list", None);
        check(&list, Headers { version: None, ..LIST }, Err((400, -32020)));
        check(&list, Headers { version: Some("2025-11-25"), ..LIST }, Err((400, -32020)));
        check(&list, Headers { method: None, ..LIST }, Err((400, -32020)));
        check(&list, Headers { method: Some("tools/call"), ..LIST }, Err((400, -32020)));
        check(&list, Headers { method: Some("Tools/List"), ..LIST }, Err((400, -32020)));
        let call = modern("tools/call", Some("vérify"));
        let with = |name| Headers { method: Some("tools/call"), name, ..LIST };
        check(&call, with(None), Err((400, -32020)));
        check(&call, with(Some("verify")), Err((400, -32020)));
        check(&call, with(Some("=?base64?dsOpcmlmeQ==?=")), Ok(Age::Modern));
        check(&call, with(Some("=?base64?dsOpcmlmeQ?=")), Err((400, -32020)));
        check(&modern("tools/call", None), with(Some("x")), Err((400, -32020)));
    }

    #[test]
    fn what_each_request_must_say() {
        let without = |key: &str| {
            let mut body = modern("tools/list", None);
            body["params"]["_meta"].as_object_mut().unwrap().remove(key);
            body
        };
        check(&without(CAPABILITIES_KEY), LIST, Err((400, -32602)));
        check(&without(VERSION_KEY), LIST, Err((400, -32602)));
        let mut future = modern("tools/list", None);
        future["params"]["_meta"][VERSION_KEY] = "2099-01-01".into();
        check(&future, Headers { version: Some("2099-01-01"), ..LIST }, Err((400, -32022)));
        let discover = json!({ "jsonrpc": "2.0", "id": 1, "method": "server/discover" });
        check(&discover, Headers::default(), Err((400, -32602)));
    }

    #[test]
    fn malformed_messages_are_refused() {
        for (body, code) in [
            ("", -32700),
            ("{", -32700),
            ("[]", -32600),
            ("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", -32600),
            ("1", -32600),
            ("{}", -32600),
            ("{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", -32600),
            ("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", -32600),
            ("{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", -32600),
            ("{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}", -32600),
            ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":2}", -32600),
            ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":[]}", -32600),
            ("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", -32600),
        ] {
            let Err(answer) = read(body.as_bytes(), Headers::default()) else { panic!("{body}") };
            assert_eq!(
                (answer.status, answer.body.unwrap()["error"]["code"].as_i64()),
                (400, Some(code)),
                "{body}"
            );
        }
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(read(deep.as_bytes(), Headers::default()).is_err());
        let notification = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}";
        assert_eq!(read(notification, Headers::default()), Ok(Message::Notification));
    }

    #[test]
    fn results_have_what_their_age_wants() {
        let request = |age| Request { id: json!(7), method: "x".into(), params: Map::new(), age };
        let modern = request(Age::Modern).result(json!({ "a": 1 })).body.unwrap();
        assert_eq!(modern["result"]["resultType"], "complete");
        assert_eq!(modern["result"]["_meta"][SERVER_KEY]["name"], "mailprobe");
        let legacy = request(Age::Legacy).result(json!({ "a": 1 })).body.unwrap();
        assert_eq!(legacy, json!({ "jsonrpc": "2.0", "id": 7, "result": { "a": 1 } }));
        assert_eq!(request(Age::Modern).unknown_method().status, 404);
        assert_eq!(request(Age::Legacy).unknown_method().status, 200);
    }
}
