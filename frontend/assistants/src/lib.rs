//! The endpoints that the programs of assistants call: one table of method, path, body, access rule and handler.
//!
//! [`find`] selects the route of a request, [`Route::admit`] checks its right, and [`Route::answer`] calls its handler.
//! The handlers are in [`oauth`] and [`mcp`]; [`Assistants`] is the state that all threads share.
//!
//! Invariants: a request to `/mcp` needs the access token of a connection. A secret is stored only as a hash. Every
//! fetch of a client's metadata is limited in time, size and destination ([`oauth::fetch`]).
//!
//! The endpoints are separate from the API because their formats differ: errors of OAuth, answers of JSON-RPC, and
//! tokens instead of keys. The pages that users see in a browser while they connect an assistant belong to the
//! dashboard.

mod call;
pub mod mcp;
pub mod oauth;

pub use call::{Assistants, Call, Head, Settings};

use checks::Checks;
use checks::auth::bearer_token;
use http_core::body::ContentType;
use http_core::{Method, Refusal, Reply, route};
use mcp::Visit;
use mcp::message::Headers;
use oauth::secret::Secret;
use oauth::site::{MCP, REGISTER, RESOURCE_METADATA, REVOKE, TOKEN};
use oauth::{failed, json_error, json_reply, registration, token};
use serde_json::json;
use std::future::Future;
use std::pin::Pin;
use store::Connection;
use store::clock;

type Handler = fn(Call) -> Pin<Box<dyn Future<Output = Reply>>>;

/// One row of the table.
pub struct Route {
    method: Method,
    /// The path, which is also the name in logs.
    pub path: &'static str,
    /// The type of the body, if the route reads a body.
    pub body: Option<ContentType>,
    /// Whether the route requires the access token of a connection.
    connected: bool,
    handler: Handler,
}

const fn open(method: Method, path: &'static str, body: Option<ContentType>, handler: Handler) -> Route {
    Route { method, path, body, connected: false, handler }
}

/// All routes. The metadata of the resource is at the path of RFC 9728 3.1, and at the path without `/mcp`, which some
/// clients use.
const ROUTES: &[Route] = &[
    open(Method::Get, RESOURCE_METADATA, None, |call| Box::pin(resource_metadata(call))),
    open(Method::Get, "/.well-known/oauth-protected-resource", None, |call| {
        Box::pin(resource_metadata(call))
    }),
    open(Method::Get, "/.well-known/oauth-authorization-server", None, |call| {
        Box::pin(server_metadata(call))
    }),
    open(Method::Post, REGISTER, Some(ContentType::Json), |call| Box::pin(registration::register(call))),
    open(Method::Post, TOKEN, Some(ContentType::Form), |call| Box::pin(token::exchange(call))),
    open(Method::Post, REVOKE, Some(ContentType::Form), |call| Box::pin(token::revoke(call))),
    Route {
        method: Method::Post,
        path: MCP,
        body: Some(ContentType::Json),
        connected: true,
        handler: |call| Box::pin(talk(call)),
    },
];

impl route::Route for Route {
    fn key(&self) -> (Method, &'static str) {
        (self.method, self.path)
    }
}

/// Finds the route; `None` if no route has this path.
///
/// # Errors
///
/// 405: the route has another method.
pub fn find(method: &str, path: &str) -> Option<Result<&'static Route, Refusal>> {
    route::find(ROUTES, method, path).map(|found| found.map(|(route, _)| route))
}

impl Route {
    /// Checks the access rule before the body is read. Returns the connection of the request.
    ///
    /// # Errors
    /// The answer that refuses the request.
    pub async fn admit(
        &self,
        checks: &Checks,
        assistants: &Assistants,
        head: &Head,
    ) -> Result<Option<Connection>, Reply> {
        if !self.connected {
            return Ok(None);
        }
        // If a page of another site tricks a browser into this request, `Origin` names that site.
        let ours = assistants.site.issuer().as_bytes();
        if head.origin.iter().any(|origin| !origin.eq_ignore_ascii_case(ours)) {
            let error = json!({ "code": -32600, "message": "requests from this Origin are not allowed" });
            return Err(json_reply(403, &json!({ "jsonrpc": "2.0", "error": error })));
        }
        authenticate(checks, assistants, head).await.map(Some)
    }

    /// Calls the handler of the route.
    pub async fn answer(&self, call: Call) -> Reply {
        (self.handler)(call).await
    }
}

async fn authenticate(checks: &Checks, assistants: &Assistants, head: &Head) -> Result<Connection, Reply> {
    let refuse = |with_token: bool, why: &str| {
        let code = if with_token { "invalid_token" } else { "unauthorized" };
        json_error(401, code, why).header("www-authenticate", assistants.site.challenge(with_token))
    };
    let token = match head.authorization.as_slice() {
        [one] => bearer_token(one),
        [] => None,
        _ => return Err(refuse(true, "there is more than one Authorization header")),
    };
    let Some(token) = token else { return Err(refuse(false, "connect first: an access token is required")) };
    let secret = std::str::from_utf8(token).ok().and_then(Secret::parse_access);
    let Some(secret) = secret else { return Err(refuse(true, "this is not a connection's access token")) };
    match checks.store.connection_of(&secret.hash(), clock::now()).await {
        Ok(Some(connection)) => Ok(connection),
        Ok(None) => Err(refuse(true, "the token has expired, or its connection has ended")),
        Err(error) => Err(failed(&error)),
    }
}

/// How long clients can cache metadata. Metadata changes only with the configuration.
const KEPT: &str = "public, max-age=300";

async fn resource_metadata(call: Call) -> Reply {
    json_reply(200, &call.assistants.site.resource_metadata()).header("cache-control", KEPT)
}

async fn server_metadata(call: Call) -> Reply {
    let mut metadata = call.assistants.site.server_metadata();
    metadata["client_id_metadata_document_supported"] = call.assistants.documents_usable.into();
    json_reply(200, &metadata).header("cache-control", KEPT)
}

async fn talk(call: Call) -> Reply {
    let Some(connection) = &call.connection else {
        return failed(&"a route without a connection asked for it");
    };
    let Head { version, method, name, .. } = &call.head;
    let headers = Headers { version: version.as_deref(), method: method.as_deref(), name: name.as_deref() };
    let visit = Visit { checks: &call.checks, site: &call.assistants.site, connection };
    let answer = visit.answer(headers, &call.body).await;
    let body = answer.body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
    Reply { status: answer.status, headers: Vec::new(), body }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_methods() {
        let check = |method: &str, path: &str, expected: Option<Result<(), &str>>| {
            let found = find(method, path).map(|found| found.map(drop).map_err(|refusal| refusal.headers));
            let expected =
                expected.map(|found| found.map_err(|allow| vec![("allow", allow.to_owned().into())]));
            assert_eq!(found, expected, "{method} {path}");
        };
        check("POST", "/mcp", Some(Ok(())));
        check("GET", "/mcp", Some(Err("POST")));
        check("DELETE", "/mcp", Some(Err("POST")));
        check("GET", "/oauth/token", Some(Err("POST")));
        check("HEAD", "/.well-known/oauth-protected-resource/mcp", Some(Ok(())));
        check("POST", "/.well-known/oauth-authorization-server", Some(Err("GET, HEAD")));
        for path in ["/mcp/", "/oauth/authorize", "/.well-known/openid-configuration", "/"] {
            check("GET", path, None);
        }
    }
}
