//! Requests of assistants, genuine or not, to the endpoints of OAuth: forms, registrations, metadata and URIs.
//!
//! An input is a byte for the kind, and its bytes.

use crate::grammar::Grammar;
use assistants::oauth::client::clean_name;
use assistants::oauth::secret::{RefreshToken, Secret};
use assistants::oauth::site::Site;
use assistants::oauth::uri::{self, Uri};
use assistants::oauth::{document, fetch, pkce, registration, token};
use dashboard::authorize::challenge;
use dashboard::form::Form;
use data_encoding::BASE64URL_NOPAD;
use fastrand::Rng;
use http_core::Query;
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::LazyLock;
use store::{CLIENT_NAME_CHARS_MAX, REDIRECT_URIS_MAX, URI_BYTES_MAX};

static GRAMMAR: LazyLock<Grammar> = LazyLock::new(|| {
    Grammar::of(concat!(include_str!("../../grammars/oauth.txt"), include_str!("../../grammars/values.txt")))
});
const FIELDS: [&str; 8] = [
    "grant_type",
    "code",
    "refresh_token",
    "token",
    "client_id",
    "redirect_uri",
    "code_verifier",
    "resource",
];
const DOCUMENT: &str = "https://a.example/client.json";

pub fn grow(random: &mut Rng) -> Vec<u8> {
    if random.u8(..6) > 0 {
        return GRAMMAR.grow("start", random).into_bytes();
    }
    let [body, age] = ["document", "age"].map(|rule| GRAMMAR.grow(rule, random));
    let length = body.len();
    let (header, body) = match random.u8(..4) {
        0 => (String::new(), body),
        1 => (format!("Content-Length: {length}\r\n"), body),
        _ => ("Transfer-Encoding: chunked\r\n".to_owned(), format!("{length:x}\r\n{body}\r\n0\r\n\r\n")),
    };
    format!("\u{1}HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{age}{header}\r\n{body}").into_bytes()
}

pub fn feed(input: &[u8]) -> Result<(), String> {
    let Some((&kind, bytes)) = input.split_first() else { return Ok(()) };
    let text = std::str::from_utf8(bytes);
    match (kind % 6, text) {
        (0, _) => register(bytes),
        (1, _) => document(bytes),
        (2, _) => token(bytes),
        (3, _) => authorize(bytes),
        (4, Ok(text)) => redirect(text),
        (5, Ok(text)) => secrets(text),
        _ => Ok(()),
    }
}

fn register(body: &[u8]) -> Result<(), String> {
    let Ok(Value::Object(metadata)) = serde_json::from_slice(body) else { return Ok(()) };
    match registration::read(&metadata) {
        Ok((name, uris)) => {
            if !(1..=REDIRECT_URIS_MAX).contains(&uris.len()) {
                return Err(format!("{} redirect URIs", uris.len()));
            }
            if !uris.iter().all(|uri| Uri::parse(uri).is_some_and(|read| read.as_str() == uri)) {
                return Err("a redirect URI that is none".into());
            }
            name_holds(&name)
        }
        Err((code, why)) if code.is_empty() || why.is_empty() => Err("an error without words".into()),
        Err(_) => Ok(()),
    }
}

/// Checks that a name can be shown, and is not changed by a second cleaning.
fn name_holds(name: &str) -> Result<(), String> {
    let shown = !name.trim().is_empty() && !name.chars().any(char::is_control);
    if !shown || name.chars().count() > CLIENT_NAME_CHARS_MAX || clean_name(name) != name {
        return Err(format!("a name that cannot be shown: {name:?}"));
    }
    Ok(())
}

fn document(answer: &[u8]) -> Result<(), String> {
    let Ok(fetched) = fetch::read(answer) else { return Ok(()) };
    if fetched.body.len() > answer.len() {
        return Err("a body that is longer than the answer".into());
    }
    let Some(url) = Uri::parse(DOCUMENT) else { return Err("no URL".into()) };
    let Ok(client) = document::read(&url, &fetched.body) else { return Ok(()) };
    if client.id != DOCUMENT || client.host.as_deref() != Some("a.example") {
        return Err(format!("the document at {DOCUMENT} speaks for {}", client.id));
    }
    if !(1..=4 * REDIRECT_URIS_MAX).contains(&client.redirect_uris.len()) {
        return Err(format!("{} redirect URIs", client.redirect_uris.len()));
    }
    if client.redirect_uris.iter().any(|uri| client.redirect(uri.as_str()).as_ref() != Some(uri)) {
        return Err("a redirect URI that the client is not sent to".into());
    }
    name_holds(&client.name)
}

fn token(form: &[u8]) -> Result<(), String> {
    for name in FIELDS {
        match token_field(form, name) {
            Ok(value) => {
                if value.is_empty() || value.len() > URI_BYTES_MAX {
                    return Err(format!("{name} has {} bytes", value.len()));
                }
                secrets(&value)?;
                redirect(&value)?;
                encoded(name, &value)?;
            }
            Err(body) => {
                let error: Value = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
                if error["error"] != "invalid_request" {
                    return Err(format!("the error is {error}"));
                }
            }
        }
    }
    Ok(())
}

/// Checks that a value written to a query is read again.
fn encoded(name: &'static str, value: &str) -> Result<(), String> {
    let written = uri::query(&[(name, value)]);
    match Query::parse(&written).ok().and_then(|query| query.get(name).ok().flatten().map(str::to_owned)) {
        Some(again) if again == value => Ok(()),
        _ => Err(format!("{name} is another value once it was written")),
    }
}

fn authorize(bytes: &[u8]) -> Result<(), String> {
    let Ok(form) = Form::parse(bytes) else { return Ok(()) };
    let site = Site::new(None, SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)), false)?;
    let Ok(challenge) = challenge(&form, &site) else { return Ok(()) };
    let asked = form.text("code_challenge");
    if BASE64URL_NOPAD.encode(&challenge) != asked
        || !form.text("resource").to_ascii_lowercase().ends_with("/mcp")
    {
        return Err("a request is taken that is none".into());
    }
    Ok(())
}

/// Checks that a URI has one host, which does not change with an answer in its query.
fn redirect(text: &str) -> Result<(), String> {
    let Some(uri) = Uri::parse(text) else { return Ok(()) };
    if uri.as_str() != text || !uri.is(&uri) || uri.port() == 0 {
        return Err(format!("{text} is read as {uri:?}"));
    }
    let state = "x y&=#é\r\n";
    let with = uri.with(&[("state", state)]);
    if with.len() > URI_BYTES_MAX {
        return Ok(());
    }
    let answered = Uri::parse(&with).ok_or_else(|| format!("{with} is no URI"))?;
    if (answered.host(), answered.port()) != (uri.host(), uri.port()) {
        return Err(format!("{with} leads to another host than {text}"));
    }
    let query = with.split_once('?').map(|(_, query)| query).unwrap_or_default();
    let last = query.rsplit('&').next().unwrap_or_default();
    match Query::parse(last) {
        Ok(query) if query.get("state").ok().flatten() == Some(state) => Ok(()),
        _ => Err(format!("{with} does not carry the state")),
    }
}

/// Checks that a secret or a challenge is written as it was read.
fn secrets(text: &str) -> Result<(), String> {
    let code = Secret::parse_code(text).or_else(|| Secret::parse_access(text));
    let refresh = RefreshToken::parse(text);
    if code.is_some_and(|secret| secret.reveal() != text || refresh.is_some()) {
        return Err("a secret is read as another one".into());
    }
    if refresh.is_some_and(|token| token.reveal() != text) {
        return Err("a refresh token is read as another one".into());
    }
    let challenge = pkce::challenge(text).map(|bytes| BASE64URL_NOPAD.encode(&bytes));
    if challenge.is_some_and(|again| again != text) {
        return Err("a challenge is read that would not be written".into());
    }
    if pkce::answer(text).is_some() != ((43..=128).contains(&text.len()) && text.bytes().all(unreserved)) {
        return Err("a verifier is read that cannot be one, or one is not".into());
    }
    Ok(())
}

/// RFC 3986 2.3.
fn unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}
/// A required field of a form for the token endpoint, or the body of the error.
fn token_field(form: &[u8], name: &'static str) -> Result<String, Vec<u8>> {
    let fields = token::Fields::read(form).map_err(|reply| reply.body)?;
    fields.required(name).map(str::to_owned).map_err(|reply| reply.body)
}
