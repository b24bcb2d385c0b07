//! The table of all routes of the API: method, path, access, limit and handler.

use crate::call::Call;
use crate::routes::{account, batch, docs, health, lists, openapi, verify, webhooks};
use api::ErrorCode;
use http_core::{Method, Refusal, Reply, route};
use std::future::Future;
use std::pin::Pin;
use store::KeyScope::{self, Account, Batches, Lists};
use store::rate_limit::Row;

/// The authentication that a route needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// The route is public.
    Open,
    /// The route needs a key with this scope.
    Key(KeyScope),
    /// The route needs a key with the scope of the request's mode, fast or full.
    KeyOfMode,
}

impl Access {
    /// The scope that a request needs, which counts in this row; `None` for a public route.
    pub fn scope(self, row: Row) -> Option<KeyScope> {
        match self {
            Access::Open => None,
            Access::Key(scope) => Some(scope),
            Access::KeyOfMode if row == Row::Fast => Some(KeyScope::Fast),
            Access::KeyOfMode => Some(KeyScope::Full),
        }
    }
}

/// The counter of the caller's key that a request uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// The route is not limited.
    Unlimited,
    /// The route counts in this row.
    Row(Row),
    /// The route counts in the row of the request's mode, fast or full.
    OfMode,
}

/// A feature that a plan may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// Submitting batches, and uploading and starting lists. Existing ones can be read on any plan.
    Batches,
}

/// The body that a route reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// None: a body is ignored.
    None,
    /// JSON, which is read completely.
    Json,
    /// Content of any type, which the handler reads piece by piece.
    Content,
    /// JSON if the request states it, otherwise content.
    JsonOrContent,
}

/// One row of the table of routes.
pub struct Route {
    /// The method of the route, which must match exactly.
    pub method: Method,
    /// The path, and its name in logs. At most one segment is a parameter in braces, which matches any text.
    pub path: &'static str,
    /// The authentication that it needs.
    pub access: Access,
    /// Whether HEAD is answered as well; not if a GET can cost a credit.
    pub safe: bool,
    /// The body that it reads.
    pub body: Body,
    /// The limit that it counts against.
    pub limit: Limit,
    /// The feature that the caller's plan must have. It also applies to test keys, which are for trying what live keys
    /// do.
    pub feature: Option<Feature>,
    /// Whether it is an operation of the first contract, which ignores query parameters that it does not know. The operations that
    /// were added later refuse them, because a misspelt parameter can cost credits.
    pub ignores_unknown: bool,
    /// The function that answers.
    pub handler: Handler,
}

/// An asynchronous function from a request to a reply or a refusal.
pub type Handler = fn(Call) -> Pin<Box<dyn Future<Output = Result<Reply, Refusal>>>>;

/// The authentication and the limit of a public route.
const OPEN: (Access, Limit) = (Access::Open, Limit::Unlimited);
/// The authentication and the limit of a check, which depend on its mode.
const OF_MODE: (Access, Limit) = (Access::KeyOfMode, Limit::OfMode);

/// The authentication and the limit of a route that needs a key with this scope.
const fn key(scope: KeyScope, row: Row) -> (Access, Limit) {
    (Access::Key(scope), Limit::Row(row))
}

/// A route for GET, and for HEAD.
const fn get(path: &'static str, terms: (Access, Limit), handler: Handler) -> Route {
    Route { safe: true, ..route(Method::Get, path, Body::None, terms, handler) }
}

const fn post(path: &'static str, body: Body, terms: (Access, Limit), handler: Handler) -> Route {
    route(Method::Post, path, body, terms, handler)
}

const fn patch(path: &'static str, body: Body, terms: (Access, Limit), handler: Handler) -> Route {
    route(Method::Patch, path, body, terms, handler)
}

const fn delete(path: &'static str, terms: (Access, Limit), handler: Handler) -> Route {
    route(Method::Delete, path, Body::None, terms, handler)
}

const fn route(
    method: Method,
    path: &'static str,
    body: Body,
    (access, limit): (Access, Limit),
    handler: Handler,
) -> Route {
    Route { method, path, access, safe: false, body, limit, feature: None, ignores_unknown: false, handler }
}

/// A route of the first contract.
const fn of_contract(route: Route) -> Route {
    Route { ignores_unknown: true, ..route }
}

/// A route for which the plan must have batches and lists.
const fn needs_batches(route: Route) -> Route {
    Route { feature: Some(Feature::Batches), ..route }
}

/// The table itself.
const ROUTES: &[Route] = &[
    of_contract(Route { safe: false, ..get("/v1/verify", OF_MODE, |call| Box::pin(verify::get(call))) }),
    of_contract(post("/v1/verify", Body::Json, OF_MODE, |call| Box::pin(verify::post(call)))),
    of_contract(needs_batches(post("/v1/verify/batch", Body::Json, key(Batches, Row::Batch), |call| {
        Box::pin(batch::create(call))
    }))),
    get("/v1/verify/batch", key(Batches, Row::Poll), |call| Box::pin(batch::index(call))),
    of_contract(get("/v1/verify/batch/{batch_id}", key(Batches, Row::Poll), |call| {
        Box::pin(batch::show(call))
    })),
    post("/v1/webhooks", Body::Json, key(Account, Row::Account), |call| Box::pin(webhooks::create(call))),
    get("/v1/webhooks", key(Account, Row::Account), |call| Box::pin(webhooks::list(call))),
    get("/v1/webhooks/{webhook_id}", key(Account, Row::Account), |call| Box::pin(webhooks::show(call))),
    patch("/v1/webhooks/{webhook_id}", Body::Json, key(Account, Row::Account), |call| {
        Box::pin(webhooks::change(call))
    }),
    delete("/v1/webhooks/{webhook_id}", key(Account, Row::Account), |call| Box::pin(webhooks::delete(call))),
    post("/v1/webhooks/{webhook_id}/rotate", Body::None, key(Account, Row::Account), |call| {
        Box::pin(webhooks::rotate(call))
    }),
    post("/v1/webhooks/{webhook_id}/test", Body::None, key(Account, Row::Batch), |call| {
        Box::pin(webhooks::test(call))
    }),
    get("/v1/webhooks/{webhook_id}/deliveries", key(Account, Row::Account), |call| {
        Box::pin(webhooks::deliveries(call))
    }),
    post("/v1/verify/batch/{batch_id}/cancel", Body::None, key(Batches, Row::Poll), |call| {
        Box::pin(batch::cancel(call))
    }),
    needs_batches(post("/v1/lists", Body::JsonOrContent, key(Lists, Row::List), |call| {
        Box::pin(lists::create(call))
    })),
    get("/v1/lists", key(Lists, Row::Poll), |call| Box::pin(lists::index(call))),
    get("/v1/lists/{list_id}", key(Lists, Row::Poll), |call| Box::pin(lists::show(call))),
    needs_batches(patch("/v1/lists/{list_id}", Body::Content, key(Lists, Row::List), |call| {
        Box::pin(lists::append(call))
    })),
    delete("/v1/lists/{list_id}", key(Lists, Row::List), |call| Box::pin(lists::delete(call))),
    needs_batches(post("/v1/lists/{list_id}/start", Body::None, key(Lists, Row::List), |call| {
        Box::pin(lists::start(call))
    })),
    post("/v1/lists/{list_id}/cancel", Body::None, key(Lists, Row::List), |call| {
        Box::pin(lists::cancel(call))
    }),
    Route {
        safe: false,
        ..get("/v1/lists/{list_id}/results", key(Lists, Row::List), |call| Box::pin(lists::results(call)))
    },
    of_contract(get("/v1/account", key(Account, Row::Account), |call| Box::pin(account::show(call)))),
    Route {
        safe: false,
        ..get("/v1/account/export", key(Account, Row::List), |call| Box::pin(account::export(call)))
    },
    of_contract(get("/v1/openapi.json", OPEN, |call| Box::pin(openapi::show(call)))),
    // The dashboard, if there is one, has its own versions of these two.
    get("/docs", OPEN, |call| Box::pin(docs::show(call))),
    get("/assets/{name}", OPEN, |call| Box::pin(docs::asset(call))),
    get("/livez", OPEN, |call| Box::pin(health::live(call))),
    get("/readyz", OPEN, |call| Box::pin(health::ready(call))),
];

impl route::Route for Route {
    fn key(&self) -> (Method, &'static str) {
        (self.method, self.path)
    }

    fn answers_head(&self) -> bool {
        self.safe
    }
}

/// Finds the route, and the value of its parameter (empty if it has none).
///
/// # Errors
///
/// 404 for an unknown path, 405 for another method.
pub fn find<'p>(method: &str, path: &'p str) -> Result<(&'static Route, &'p str), Refusal> {
    let found = route::find(ROUTES, method, path).unwrap_or_else(|| Err(Refusal::no_such_path()));
    found.map_err(|mut refusal| {
        // Lists are deleted in this way, and batches are not.
        let is_batch = path.strip_prefix("/v1/verify/batch/").is_some_and(|id| !id.contains('/'));
        if method == "DELETE" && is_batch && refusal.body.error == ErrorCode::MethodNotAllowed {
            let message = &refusal.body.message;
            refusal.body.message =
                format!("{message} To cancel a batch, send a POST to {path}/cancel.").into();
        }
        refusal
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: &str, path: &str, expected: Result<&str, (u16, &str)>) {
        let allow = |refusal: &Refusal| {
            refusal
                .headers
                .iter()
                .find(|(name, _)| *name == "allow")
                .map_or(String::new(), |(_, v)| v.to_string())
        };
        match (find(method, path), expected) {
            (Ok((route, _)), Ok(path)) => assert_eq!(route.path, path),
            (Err(refusal), Err((status, allowed))) => {
                assert_eq!(
                    (refusal.body.error.status(), allow(&refusal).as_str()),
                    (status, allowed),
                    "{path}"
                );
            }
            (got, _) => panic!("{method} {path}: {}", got.is_ok()),
        }
    }

    /// Routes outside of `/v1` are for operators, and not part of the contract.
    #[test]
    fn the_table_and_the_description_are_of_the_same_operations() {
        let described = serde_json::to_value(api::openapi::description("/").unwrap()).unwrap();
        let mut expected = Vec::new();
        for (path, item) in described["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let open = operation.get("security").and_then(|it| it.as_array()).is_some_and(Vec::is_empty);
                expected.push((path.clone(), method.to_ascii_uppercase(), open));
            }
        }
        let mut table: Vec<(String, String, bool)> = ROUTES
            .iter()
            .filter(|route| route.path.starts_with("/v1/"))
            .map(|route| (route.path.into(), route.method.as_str().into(), route.access == Access::Open))
            .collect();
        expected.sort();
        table.sort();
        assert_eq!(table, expected);
    }

    #[test]
    fn paths_and_methods() {
        check("GET", "/v1/verify", Ok("/v1/verify"));
        check("POST", "/v1/verify", Ok("/v1/verify"));
        check("HEAD", "/v1/account", Ok("/v1/account"));
        check("POST", "/v1/verify/batch", Ok("/v1/verify/batch"));
        check("GET", "/v1/verify/batch/bat_1", Ok("/v1/verify/batch/{batch_id}"));
        check("HEAD", "/v1/verify/batch/%2F", Ok("/v1/verify/batch/{batch_id}"));
        check("POST", "/v1/webhooks", Ok("/v1/webhooks"));
        check("PATCH", "/v1/webhooks/whk_1", Ok("/v1/webhooks/{webhook_id}"));
        check("HEAD", "/v1/webhooks/whk_1", Ok("/v1/webhooks/{webhook_id}"));
        check("POST", "/v1/webhooks/whk_1/test", Ok("/v1/webhooks/{webhook_id}/test"));
        check("PUT", "/v1/webhooks/whk_1", Err((405, "GET, HEAD, PATCH, DELETE")));
        check("GET", "/v1/verify/batch", Ok("/v1/verify/batch"));
        check("PUT", "/v1/verify/batch", Err((405, "POST, GET, HEAD")));
        check("PATCH", "/v1/lists/lst_1", Ok("/v1/lists/{list_id}"));
        check("POST", "/v1/lists/lst_1/start", Ok("/v1/lists/{list_id}/start"));
        check("HEAD", "/v1/lists/lst_1/results", Err((405, "GET")));
        check("DELETE", "/v1/verify/batch/bat_1", Err((405, "GET, HEAD")));
        let message = |path| find("DELETE", path).err().map(|refusal| refusal.body.message.into_owned());
        assert_eq!(
            message("/v1/verify/batch/bat_1").as_deref(),
            Some(
                "This path accepts only GET, HEAD. To cancel a batch, send a POST to /v1/verify/batch/bat_1/cancel."
            )
        );
        assert_eq!(message("/v1/verify/batch/bat_1/cancel").as_deref(), Some("This path accepts only POST."));
        check("HEAD", "/v1/verify", Err((405, "GET, POST")));
        check("PUT", "/v1/account", Err((405, "GET, HEAD")));
        check("get", "/v1/account", Err((405, "GET, HEAD")));
        for path in [
            "/",
            "/v1",
            "/v1/verify/",
            "/V1/verify",
            "/v1/verifyx",
            "*",
            "/v1/verify/batch/",
            "/v1/verify/batch/a/b",
        ] {
            check("GET", path, Err((404, "")));
        }
    }
}
