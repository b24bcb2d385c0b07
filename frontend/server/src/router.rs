//! The one table of what the API answers to: method, path, who may call and how often, handler.

use crate::routes::{account, batch, docs, health, openapi, verify};
use crate::worker::Worker;
use bytes::Bytes;
use checks::auth::Caller;
use http_core::{Method, Refusal, Reply, route};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use store::rate_limit::Row;

/// Who may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Anybody.
    Open,
    /// Whoever has a key.
    Key,
}

/// Which counter of the caller's key a request goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// None.
    Unlimited,
    /// This one.
    Row(Row),
    /// The one of its mode, fast or full.
    OfMode,
}

/// What a plan may leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// Starting batches. Those that were started can be polled on any plan.
    Batches,
}

/// One line of the table.
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path, and what logs call it. One segment at most is a parameter, in braces: it stands for any text.
    pub path: &'static str,
    /// Who may call.
    pub access: Access,
    /// Answers HEAD too. Not where a GET can cost a credit.
    pub safe: bool,
    /// How often.
    pub limit: Limit,
    /// What the caller's plan must have, with test keys too: they are there to try what live keys will do.
    pub feature: Option<Feature>,
    /// What answers.
    pub handler: Handler,
}

/// What a handler is.
pub type Handler = fn(Call) -> Pin<Box<dyn Future<Output = Result<Reply, Refusal>>>>;

/// One request, as handlers see it.
pub struct Call {
    /// The thread's state.
    pub worker: Rc<Worker>,
    /// Who calls; there is one wherever the route asks for a key.
    pub caller: Option<Caller>,
    /// The query, as it came.
    pub query: String,
    /// What stands in the path for the route's parameter, as it came; empty if there is none.
    pub parameter: String,
    /// The values of the header `Idempotency-Key`, as they came.
    pub idempotency_key: Vec<Vec<u8>>,
    /// The body; empty on GET.
    pub body: Bytes,
}

impl Call {
    /// Who calls.
    ///
    /// # Errors
    /// A defect: the route did not ask for a key.
    pub fn caller(&self) -> Result<Caller, Refusal> {
        self.caller.ok_or_else(|| Refusal::defect().inside("a route without a key asked who calls"))
    }
}

/// The table.
const ROUTES: &[Route] = &[
    Route {
        method: Method::Get,
        path: "/v1/verify",
        access: Access::Key,
        safe: false,
        limit: Limit::OfMode,
        feature: None,
        handler: |call| Box::pin(verify::get(call)),
    },
    Route {
        method: Method::Post,
        path: "/v1/verify",
        access: Access::Key,
        safe: false,
        limit: Limit::OfMode,
        feature: None,
        handler: |call| Box::pin(verify::post(call)),
    },
    Route {
        method: Method::Post,
        path: "/v1/verify/batch",
        access: Access::Key,
        safe: false,
        limit: Limit::Row(Row::Batch),
        feature: Some(Feature::Batches),
        handler: |call| Box::pin(batch::create(call)),
    },
    Route {
        method: Method::Get,
        path: "/v1/verify/batch/{batch_id}",
        access: Access::Key,
        safe: true,
        limit: Limit::Row(Row::Poll),
        feature: None,
        handler: |call| Box::pin(batch::show(call)),
    },
    Route {
        method: Method::Get,
        path: "/v1/account",
        access: Access::Key,
        safe: true,
        limit: Limit::Row(Row::Account),
        feature: None,
        handler: |call| Box::pin(account::show(call)),
    },
    Route {
        method: Method::Get,
        path: "/v1/openapi.json",
        access: Access::Open,
        safe: true,
        limit: Limit::Unlimited,
        feature: None,
        handler: |call| Box::pin(openapi::show(call)),
    },
    // The dashboard has these two for itself, where there is one.
    Route {
        method: Method::Get,
        path: "/docs",
        access: Access::Open,
        safe: true,
        limit: Limit::Unlimited,
        feature: None,
        handler: |call| Box::pin(docs::show(call)),
    },
    Route {
        method: Method::Get,
        path: "/assets/{name}",
        access: Access::Open,
        safe: true,
        limit: Limit::Unlimited,
        feature: None,
        handler: |call| Box::pin(docs::asset(call)),
    },
    Route {
        method: Method::Get,
        path: "/livez",
        access: Access::Open,
        safe: true,
        limit: Limit::Unlimited,
        feature: None,
        handler: |call| Box::pin(health::live(call)),
    },
    Route {
        method: Method::Get,
        path: "/readyz",
        access: Access::Open,
        safe: true,
        limit: Limit::Unlimited,
        feature: None,
        handler: |call| Box::pin(health::ready(call)),
    },
];

impl route::Route for Route {
    fn method(&self) -> Method {
        self.method
    }

    fn path(&self) -> &'static str {
        self.path
    }

    fn answers_head(&self) -> bool {
        self.safe
    }
}

/// Finds the route, and the value of its parameter (empty if it has none).
///
/// # Errors
/// 404 or 405.
pub fn find<'p>(method: &str, path: &'p str) -> Result<(&'static Route, &'p str), Refusal> {
    route::find(ROUTES, method, path).unwrap_or_else(|| Err(Refusal::no_such_path()))
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

    /// What is outside of `/v1` is for operators and no part of the contract.
    #[test]
    fn the_table_and_the_description_are_of_the_same_operations() {
        let described = serde_json::to_value(api::openapi::document("/")).unwrap();
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
        check("GET", "/v1/verify/batch", Err((405, "POST")));
        check("DELETE", "/v1/verify/batch/bat_1", Err((405, "GET, HEAD")));
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
