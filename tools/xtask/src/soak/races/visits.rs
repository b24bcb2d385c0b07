//! What the clients of a race do: each step is one that a program or browser takes, and says whether the server allowed it.

use crate::failure::ensure;
use crate::interop::process;
use crate::soak::assistants;
use crate::soak::client::{HttpClient, HttpReply, HttpRequest, attribute, read_reply};
use crate::soak::transport::ServerEndpoint;
use serde_json::json;
use std::collections::BTreeSet;
use std::io::{BufReader, Write};
use std::time::{Duration, Instant};

/// How often an attempt is repeated that found no place in the queue of passwords.
const TRIES_MAX: usize = 200;
const TRY_PAUSE: Duration = Duration::from_millis(50);
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// The shortest id on a page: a prefix, and the digits of 128 bits.
const ID_CHARS_MIN: usize = 26;

/// Something that a client got, or that it caused.
pub enum Thing {
    /// A browser that is signed in.
    Session(HttpClient),
    /// The secret of an API key.
    Key(String),
    /// A code of an assistant that was not redeemed.
    Code(String),
    /// The access token of an assistant.
    Token(String),
    /// An endpoint, a list or a batch.
    Object,
}

/// A step that the server allowed.
pub struct Step {
    /// The name of the step in reports.
    pub what: &'static str,
    /// The time before the request.
    pub begun: Instant,
    /// What it gave.
    pub thing: Thing,
}

/// The kinds of steps that a session allows.
pub const BY_SESSION: [&str; 4] = ["key", "consent", "webhook", "upload"];
/// The kinds of steps that a key allows.
pub const BY_KEY: [&str; 4] = ["webhook", "batch", "upload", "slow batch"];

/// The request of a form of a page: its hidden fields, and more fields.
pub fn filled(page: &HttpReply, action: &str, more: &[(&str, &str)]) -> Result<HttpRequest, String> {
    page.filled(action, more).ok_or_else(|| format!("{action}: no form: {}", page.text()))
}

/// Signs in, or signs up with an address that is in use, which does the same. `None`: the password is wrong.
pub fn enter(
    server: &ServerEndpoint,
    action: &str,
    email: &str,
    password: &str,
) -> Result<Option<HttpClient>, String> {
    for _ in 0..TRIES_MAX {
        let mut browser = HttpClient::browser(server.clone());
        let page = browser.ask(&HttpRequest::get(action))?;
        let request = filled(&page, action, &[("email", email), ("password", password)])?;
        let reply = browser.ask(&request)?;
        match reply.status {
            303 => return Ok(Some(browser)),
            401 | 409 => return Ok(None),
            // All places in the queue of passwords are taken.
            429 | 503 => process::sleep(TRY_PAUSE)?,
            _ => return Err(format!("{action}: {reply}")),
        }
    }
    Err(format!("{action}: never a place in the queue"))
}

/// Whether a session is open.
pub fn is_open(browser: &HttpClient, server: &ServerEndpoint) -> Result<bool, String> {
    let mut browser = browser.at(server);
    let reply = browser.ask(&HttpRequest::get("/sessions"))?;
    match reply.status {
        200 => Ok(true),
        303 => Ok(false),
        _ => Err(format!("/sessions: {reply}")),
    }
}

/// Whether an API key is accepted.
pub fn is_accepted(server: &ServerEndpoint, key: &str) -> Result<bool, String> {
    let mut program = HttpClient::program(server.clone());
    Ok(program.ask(&HttpRequest::get("/v1/account").bearer(key))?.status != 401)
}

/// Whether the token of an assistant is accepted.
pub fn is_connected(server: &ServerEndpoint, token: &str) -> Result<bool, String> {
    let mut program = HttpClient::program(server.clone());
    Ok(program.ask(&HttpRequest::json("/mcp", &json!({})).bearer(token))?.status != 401)
}

/// Registers the assistant of the campaign.
pub fn register(server: &ServerEndpoint) -> Result<String, String> {
    let mut program = HttpClient::program(server.clone());
    let made = program.ask(&assistants::registration())?.json();
    made["client_id"].as_str().map(str::to_owned).ok_or_else(|| format!("no client: {made}"))
}

/// Takes a step with a session. `None`: the server refused it because the session has ended.
pub fn by_session(
    browser: &HttpClient,
    server: &ServerEndpoint,
    what: &'static str,
    client: &str,
    pause: Duration,
) -> Result<Option<Step>, String> {
    let mut browser = browser.at(server);
    let resource = format!("{}/mcp", server.origin());
    let (path, action) = match what {
        "key" => ("/keys".to_owned(), "/keys"),
        "consent" => (assistants::consent_path(client, &resource), "/oauth/authorize"),
        "webhook" => ("/webhooks".to_owned(), "/webhooks"),
        _ => ("/lists".to_owned(), "/lists"),
    };
    let page = browser.ask(&HttpRequest::get(path))?;
    if page.status == 303 {
        return Ok(None);
    }
    process::sleep(pause)?;
    let begun = Instant::now();
    let reply = match what {
        "key" => {
            let more = [("label", ""), ("mode", "test"), ("expires", ""), ("account", "1"), ("fast", "1")];
            browser.ask(&filled(&page, action, &more)?)?
        }
        "consent" => browser.ask(&assistants::consent(&page, 1).ok_or("no form of consent")?)?,
        "webhook" => {
            let more = [("url", "https://hooks.example/"), ("label", ""), ("batch.completed", "1")];
            browser.ask(&filled(&page, action, &more)?)?
        }
        _ => {
            let csrf = page.hidden(action, "csrf").ok_or("no form for a list")?;
            let fields = [("csrf", csrf.as_str()), ("column", "")];
            let content = b"one@example.com\ntwo@example.com\n";
            let request = HttpRequest::upload(action, &fields, ("list.csv", content));
            let reply = slowly(server, &browser.encode(&request), pause)?;
            let is_made = reply.header("location").is_some_and(|location| location.starts_with("/lists/"));
            return match (reply.status, is_made) {
                (303, true) => Ok(Some(Step { what, begun, thing: Thing::Object })),
                (303 | 403, _) => Ok(None),
                _ => Err(format!("{what}: {reply}")),
            };
        }
    };
    let thing = match (what, reply.status) {
        (_, 403) => return Ok(None),
        ("key", 200) => {
            let text = reply.text();
            let field = text.split("<input").find(|input| input.contains("id=\"new-key\""));
            let key = field.and_then(|field| attribute(field, "value"));
            Thing::Key(key.ok_or_else(|| format!("a new key is not shown: {text}"))?)
        }
        ("webhook", 200) => Thing::Object,
        ("consent", 303) => match assistants::code(&reply) {
            Some(code) => Thing::Code(code),
            None => return Ok(None),
        },
        (_, 303) => return Ok(None),
        _ => return Err(format!("{what}: {reply}")),
    };
    Ok(Some(Step { what, begun, thing }))
}

/// Redeems the code of an assistant. `None`: it is not valid.
pub fn redeem(server: &ServerEndpoint, client: &str, code: &str) -> Result<Option<Step>, String> {
    let resource = format!("{}/mcp", server.origin());
    let begun = Instant::now();
    let reply = HttpClient::program(server.clone()).ask(&assistants::redemption(client, code, &resource))?;
    match (reply.status, reply.json()["access_token"].as_str()) {
        (200, Some(token)) => Ok(Some(Step { what: "token", begun, thing: Thing::Token(token.to_owned()) })),
        (400, _) => Ok(None),
        _ => Err(format!("token: {reply}")),
    }
}

/// Takes a step with an API key. `None`: the server refused the key.
pub fn by_key(
    server: &ServerEndpoint,
    key: &str,
    what: &'static str,
    pause: Duration,
) -> Result<Option<Step>, String> {
    let emails = json!({ "emails": ["one@example.com"] });
    let request = match what {
        "webhook" => HttpRequest::json("/v1/webhooks", &json!({ "url": "https://hooks.example/" })),
        "upload" => HttpRequest::content("/v1/lists?name=list.csv", b"one@example.com\ntwo@example.com\n"),
        _ => HttpRequest::json("/v1/verify/batch", &emails),
    };
    let request = request.bearer(key).header("Connection", "close");
    let bytes = HttpClient::program(server.clone()).encode(&request);
    let pause = if what == "batch" || what == "webhook" { Duration::ZERO } else { pause };
    let begun = Instant::now();
    let reply = slowly(server, &bytes, pause)?;
    match reply.status {
        200..=299 => Ok(Some(Step { what, begun, thing: Thing::Object })),
        401 => Ok(None),
        _ => Err(format!("{what}: {reply}")),
    }
}

/// Sends a request with a pause before its last bytes.
fn slowly(server: &ServerEndpoint, bytes: &[u8], pause: Duration) -> Result<HttpReply, String> {
    let exchange = || {
        let mut stream = server.connect(CONNECT_LIMIT)?;
        let (first, last) = bytes.split_at(bytes.len().saturating_sub(8));
        stream.write_all(first)?;
        std::thread::sleep(pause);
        // A server that has refused may have closed.
        let _ = stream.write_all(last);
        read_reply(&mut BufReader::new(stream))
    };
    exchange().map_err(|error: std::io::Error| error.to_string())
}

/// The ids of all that an account has: keys, connections, endpoints, lists and batches.
pub fn possessions(browser: &HttpClient, server: &ServerEndpoint) -> Result<BTreeSet<String>, String> {
    let mut browser = browser.at(server);
    let mut found = BTreeSet::new();
    for path in ["/keys", "/connections", "/webhooks", "/lists", "/batches"] {
        let page = browser.ask(&HttpRequest::get(path))?;
        ensure!(page.status == 200, "{path}: {}", page.status);
        let nonce = page.hidden(path, "nonce");
        let text = page.text();
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let is_id = |word: &&str| word.len() >= ID_CHARS_MIN && word.contains('_');
        found.extend(words.filter(is_id).filter(|id| Some(*id) != nonce.as_deref()).map(str::to_owned));
    }
    Ok(found)
}
