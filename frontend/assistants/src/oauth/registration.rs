//! `POST /oauth/register`: registration of clients (RFC 7591).
//!
//! Anyone can register a client. So a registration proves nothing; it only ensures that codes go to one of the
//! registered URIs. Three limits apply: the number of registrations per network and hour, or of all callers together if
//! networks cannot be distinguished; the time after which an unused client is deleted; and the number of clients.

use super::client::clean_name;
use super::site::SCOPE;
use super::uri::Uri;
use super::{failed, json_error};
use crate::call::Call;
use http_core::Reply;
use serde_json::{Map, Value, json};
use store::clock;
use store::id::random_bits;
use store::{Client, ClientId, ConnectError, NewClient, REDIRECT_URIS_MAX};

/// Registers a client and answers with its id.
pub async fn register(call: Call) -> Reply {
    let now = clock::now();
    if let Err(too_often) = call.assistants.throttle.registration(call.head.peer, now) {
        let wait = too_often.wait_s;
        return json_error(429, "temporarily_unavailable", &format!("too many registrations; wait {wait} s"))
            .header("retry-after", wait.to_string());
    }
    let Ok(Value::Object(metadata)) = serde_json::from_slice(&call.body) else {
        return json_error(400, "invalid_client_metadata", "the body must be a JSON object");
    };
    let (name, redirect_uris) = match read(&metadata) {
        Ok(read) => read,
        Err((code, why)) => return json_error(400, code, why),
    };
    let id = match random_bits() {
        Ok(bits) => ClientId::new(now, bits),
        Err(error) => return failed(&error),
    };
    match call.checks.store.register_client(NewClient { id, name, redirect_uris }, now).await {
        Ok(client) => answer(&client),
        Err(ConnectError::TooMany) => {
            json_error(503, "temporarily_unavailable", "too many clients are registered")
        }
        Err(error) => failed(&error),
    }
}

/// Reads the name and the redirect URIs.
///
/// # Errors
/// An error code of RFC 7591 3.2.2 and a sentence.
pub fn read(metadata: &Map<String, Value>) -> Result<(String, Vec<String>), (&'static str, &'static str)> {
    let bad = |why| ("invalid_client_metadata", why);
    let bad_uri = |why| ("invalid_redirect_uri", why);
    let uris = metadata.get("redirect_uris").and_then(Value::as_array);
    let uris = uris.ok_or(bad_uri("redirect_uris must be an array"))?;
    if uris.is_empty() || uris.len() > REDIRECT_URIS_MAX {
        return Err(bad_uri("redirect_uris must have 1 to 10 URIs"));
    }
    let read = |uri: &Value| Uri::parse(uri.as_str()?).map(|uri| uri.as_str().to_owned());
    let uris: Option<Vec<String>> = uris.iter().map(read).collect();
    let uris =
        uris.ok_or(bad_uri("a redirect URI must be https, or http on localhost, 127.0.0.1 or [::1]"))?;
    for (name, needed) in [("grant_types", "authorization_code"), ("response_types", "code")] {
        let given = match metadata.get(name) {
            None | Some(Value::Null) => continue,
            Some(given) => given.as_array().ok_or(bad("grant_types and response_types must be arrays"))?,
        };
        if !given.iter().any(|item| item == needed) {
            return Err(bad(
                "grant_types must include authorization_code, and response_types must include code",
            ));
        }
    }
    let name = match metadata.get("client_name") {
        None | Some(Value::Null) => "",
        Some(name) => name.as_str().ok_or(bad("client_name must be a string"))?,
    };
    Ok((clean_name(name), uris))
}

/// The answer with the registered values. They can differ from the requested values (RFC 7591 3.2.1), because all clients
/// are public.
fn answer(client: &Client) -> Reply {
    super::json_reply(
        201,
        &json!({
            "client_id": client.id.to_string(),
            "client_id_issued_at": client.created_at / 1000,
            "client_name": client.name,
            "redirect_uris": client.redirect_uris,
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "scope": SCOPE,
        }),
    )
}
