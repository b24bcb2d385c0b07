//! The table of all pages and forms of the dashboard: method, path, access rule, kind of body, handler. The links of the
//! navigation are `PLACES` of `page.rs`.

use super::{
    assets, attempt, authorize, batches, connections, deletion, docs, home, keys, lists, plan, sessions,
    signin, signup, usage, webhooks,
};
use crate::access::{Access, Body};
use crate::problem::Problem;
use crate::visit::Visit;
use http_core::{Method, Refusal, Reply, route};
use std::future::Future;
use std::pin::Pin;

/// A form with a few fields.
pub const FORM: Body = Body::Form { bytes_max: 16 * 1024 };

/// The type of a handler.
pub type Handler = fn(Visit) -> Pin<Box<dyn Future<Output = Result<Reply, Problem>>>>;

/// One row of the table.
pub struct Route {
    /// The method. A page also answers HEAD.
    pub method: Method,
    /// The path, which is also the name in logs. At most one segment is a parameter, in braces.
    pub path: &'static str,
    /// The access rule of the route.
    pub access: Access,
    /// The kind of body that it reads.
    pub body: Body,
    /// The function that answers.
    pub handler: Handler,
}

const fn show(path: &'static str, access: Access, handler: Handler) -> Route {
    Route { method: Method::Get, path, access, body: Body::None, handler }
}

const fn send(path: &'static str, access: Access, handler: Handler) -> Route {
    Route { method: Method::Post, path, access, body: FORM, handler }
}

/// All routes.
const ROUTES: &[Route] = &[
    show("/", Access::Anybody, |visit| Box::pin(home::show(visit))),
    show("/assets/{name}", Access::Anybody, |visit| Box::pin(assets::show(visit))),
    show("/docs", Access::Anybody, |visit| Box::pin(docs::show(visit))),
    show("/signup", Access::Anybody, |visit| Box::pin(signup::show(visit))),
    send("/signup", Access::Anybody, |visit| Box::pin(signup::submit(visit))),
    show("/signin", Access::Anybody, |visit| Box::pin(signin::show(visit))),
    send("/signin", Access::Anybody, |visit| Box::pin(signin::submit(visit))),
    show("/signin/link", Access::Anybody, |visit| Box::pin(signin::show_link(visit))),
    send("/signin/link", Access::Anybody, |visit| Box::pin(signin::submit_link(visit))),
    show("/oauth/authorize", Access::SignedIn, |visit| Box::pin(authorize::show(visit))),
    send("/oauth/authorize", Access::SignedIn, |visit| Box::pin(authorize::decide(visit))),
    show("/connections", Access::SignedIn, |visit| Box::pin(connections::show(visit))),
    send("/connections/end", Access::SignedIn, |visit| Box::pin(connections::end(visit))),
    show("/keys", Access::SignedIn, |visit| Box::pin(keys::show(visit))),
    send("/keys", Access::SignedIn, |visit| Box::pin(keys::create(visit))),
    send("/keys/revoke", Access::SignedIn, |visit| Box::pin(keys::revoke(visit))),
    show("/usage", Access::SignedIn, |visit| Box::pin(usage::show(visit))),
    show("/usage.csv", Access::SignedIn, |visit| Box::pin(usage::download(visit))),
    show("/try", Access::SignedIn, |visit| Box::pin(attempt::show(visit))),
    send("/try", Access::SignedIn, |visit| Box::pin(attempt::submit(visit))),
    show("/batches", Access::SignedIn, |visit| Box::pin(batches::list(visit))),
    show("/batches/{id}", Access::SignedIn, |visit| Box::pin(batches::show(visit))),
    show("/lists", Access::SignedIn, |visit| Box::pin(lists::pages::index(visit))),
    Route {
        method: Method::Post,
        path: "/lists",
        access: Access::SignedIn,
        body: Body::Upload,
        handler: |visit| Box::pin(lists::upload::submit(visit)),
    },
    show("/lists/{id}", Access::SignedIn, |visit| Box::pin(lists::pages::show(visit))),
    send("/lists/{id}/start", Access::SignedIn, |visit| Box::pin(lists::pages::start(visit))),
    send("/lists/{id}/cancel", Access::SignedIn, |visit| Box::pin(lists::pages::cancel(visit))),
    send("/lists/{id}/delete", Access::SignedIn, |visit| Box::pin(lists::pages::delete(visit))),
    show("/lists/{id}/download", Access::SignedIn, |visit| Box::pin(lists::download::show(visit))),
    show("/lists/{id}/report", Access::SignedIn, |visit| Box::pin(lists::download::report(visit))),
    show("/webhooks", Access::SignedIn, |visit| Box::pin(webhooks::index(visit))),
    send("/webhooks", Access::SignedIn, |visit| Box::pin(webhooks::create(visit))),
    show("/webhooks/{id}", Access::SignedIn, |visit| Box::pin(webhooks::show(visit))),
    send("/webhooks/{id}", Access::SignedIn, |visit| Box::pin(webhooks::change(visit))),
    send("/webhooks/{id}/enable", Access::SignedIn, |visit| Box::pin(webhooks::enable(visit))),
    send("/webhooks/{id}/disable", Access::SignedIn, |visit| Box::pin(webhooks::disable(visit))),
    send("/webhooks/{id}/rotate", Access::SignedIn, |visit| Box::pin(webhooks::rotate(visit))),
    send("/webhooks/{id}/test", Access::SignedIn, |visit| Box::pin(webhooks::test(visit))),
    send("/webhooks/{id}/delete", Access::SignedIn, |visit| Box::pin(webhooks::delete(visit))),
    show("/plan", Access::SignedIn, |visit| Box::pin(plan::show(visit))),
    show("/sessions", Access::SignedIn, |visit| Box::pin(sessions::show(visit))),
    send("/sessions/end", Access::SignedIn, |visit| Box::pin(sessions::end(visit))),
    send("/sessions/password", Access::SignedIn, |visit| Box::pin(sessions::set_password(visit))),
    send("/sessions/end-others", Access::SignedIn, |visit| Box::pin(sessions::end_others(visit))),
    send("/account/export", Access::SignedIn, |visit| Box::pin(deletion::export(visit))),
    show("/account/delete", Access::SignedIn, |visit| Box::pin(deletion::show(visit))),
    send("/account/delete", Access::SignedIn, |visit| Box::pin(deletion::submit(visit))),
    show("/goodbye", Access::Anybody, |visit| Box::pin(deletion::goodbye(visit))),
    send("/signout", Access::SignedIn, |visit| Box::pin(signin::sign_out(visit))),
];

/// The result of a search for a route.
pub enum Found {
    /// A route, and the value of its parameter.
    Route(&'static Route, String),
    /// The path is that of a form alone. A browser that loads it again gets the page of the form instead.
    Moved(String),
    /// The path has no route with this method.
    Refused(Refusal),
}

impl Found {
    /// The name in logs.
    pub fn path(&self) -> &'static str {
        match self {
            Found::Route(route, _) => route.path,
            Found::Moved(_) | Found::Refused(_) => "-",
        }
    }
}

impl route::Route for Route {
    fn key(&self) -> (Method, &'static str) {
        (self.method, self.path)
    }
}

/// Finds the route; `None` if the path does not belong to the dashboard.
pub fn find(method: &str, path: &str) -> Option<Found> {
    Some(match route::find(ROUTES, method, path)? {
        Ok((route, parameter)) => Found::Route(route, parameter.to_owned()),
        Err(_) if is_form_alone(method, path) => Found::Moved(parent(path).to_owned()),
        Err(refusal) => Found::Refused(refusal),
    })
}

/// Whether a browser asks for the page of a path that only takes a form.
fn is_form_alone(method: &str, path: &str) -> bool {
    matches!(method, "GET" | "HEAD") && matches!(route::find(ROUTES, "POST", path), Some(Ok(_)))
}

/// The path without its last segment.
fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((parent, _)) => parent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_methods() {
        let check = |method: &str, path: &str, expected: Option<Result<&str, &str>>| {
            let got = find(method, path);
            match (&got, expected) {
                (None, None) => {}
                (Some(Found::Route(route, _)), Some(Ok(path))) => assert_eq!(route.path, path),
                (Some(Found::Moved(to)), Some(Err(page))) => assert_eq!(to, page),
                (Some(Found::Refused(refusal)), Some(Err(allow))) => {
                    assert_eq!(refusal.headers, [("allow", allow.to_owned().into())]);
                }
                _ => panic!("{method} {path}"),
            }
        };
        check("GET", "/", Some(Ok("/")));
        check("HEAD", "/signin", Some(Ok("/signin")));
        check("POST", "/signin", Some(Ok("/signin")));
        check("GET", "/assets/x.css", Some(Ok("/assets/{name}")));
        check("GET", "/signout", Some(Err("/")));
        check("GET", "/sessions/password", Some(Err("/sessions")));
        check("HEAD", "/lists/lst_1/start", Some(Err("/lists/lst_1")));
        check("PUT", "/signout", Some(Err("POST")));
        check("PUT", "/signin", Some(Err("GET, HEAD, POST")));
        for path in ["/v1/verify", "/livez", "/nothing", "/assets/", "/assets/a/b", "//", "/signin/"] {
            check("GET", path, None);
        }
    }

    /// A link or an image on a page of another site never reaches a handler that changes something.
    #[test]
    fn every_post_is_a_guarded_form() {
        for route in ROUTES {
            assert_eq!(route.method == Method::Post, route.body != Body::None, "{}", route.path);
        }
    }
}
