//! The dashboard: pages for users, rendered on the server, in the same binary and with the same store as the API.
//!
//! The steps of a request: [`find`] looks up its path in [`routes`]. [`Asked::answer`] identifies the user
//! ([`session`]), checks the origin and the token of a form ([`guard`]) and calls the handler of the page. A handler
//! returns a whole [`page`]; a refusal becomes a page too. [`Dashboard`] is the state that all threads share.
//!
//! Invariants: a POST reaches its handler only with a valid token, except an upload, whose handler checks the token
//! first. Every function works without script, through forms and links; a small script copies a key and updates the
//! progress of a check. Pages load only the style and the script of this crate ([`assets`]), and the policy of each
//! page enforces this. maud escapes all text.

mod access;
pub mod assets;
pub mod attempt;
pub mod authorize;
pub mod batches;
pub mod chart;
pub mod connections;
pub mod deletion;
pub mod docs;
pub mod form;
pub mod guard;
mod head;
pub mod home;
pub mod keys;
mod ledger;
pub mod lists;
pub mod page;
pub mod password;
pub mod plan;
pub mod problem;
mod proof;
mod redirect;
pub mod routes;
pub mod session;
pub mod sessions;
pub mod signin;
pub mod signup;
pub mod usage;
mod visit;
pub mod webhooks;

pub use access::{Access, Body};
pub use head::Head;
pub use problem::Problem;
pub use routes::{Found, find};
pub use visit::{Dashboard, Settings, Visit};

use bytes::Bytes;
use checks::Checks;
use form::Form;
use http_core::Reply;
use list_work::downloads::Pieces;
use list_work::upload::Incoming;
use session::SignedIn;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use store::clock;

/// A request to the dashboard before its body is read.
pub struct Asked {
    /// Charges credits and runs checks.
    pub checks: Rc<Checks>,
    /// The state that all threads share.
    pub dashboard: Arc<Dashboard>,
    /// The head of the request.
    pub head: Head,
    /// The route that answers.
    pub found: Found,
    /// The body that is produced during sending: see [`Visit::pieces`].
    pub pieces: Rc<Cell<Option<Pieces>>>,
}

/// The body of a request, after or during its reading.
pub enum Given {
    /// A form, or an empty body.
    Form(Result<Bytes, Problem>),
    /// A form with a file that is still arriving.
    Upload(Box<dyn Incoming>),
}

impl Asked {
    /// The kind of body that the route reads.
    pub fn body(&self) -> Body {
        match &self.found {
            Found::Route(route, _) => route.body,
            Found::Moved(_) | Found::Refused(_) => Body::None,
        }
    }

    /// Returns the answer, and a line for the log if the server failed.
    pub async fn answer(self, given: Given) -> (Reply, Option<String>) {
        let signed_in = match session::signed_in(&self.checks.store, &self.head, clock::now()).await {
            Ok(signed_in) => signed_in,
            Err(problem) => return page::of_problem(problem, None),
        };
        let shown = signed_in.clone();
        match self.admit(signed_in, given).await {
            Ok(reply) => (reply, None),
            Err(problem) => page::of_problem(problem, shown.as_ref()),
        }
    }

    async fn admit(self, signed_in: Option<SignedIn>, given: Given) -> Result<Reply, Problem> {
        let Asked { checks, dashboard, head, found, pieces } = self;
        let (route, parameter) = match found {
            Found::Route(route, parameter) => (route, parameter),
            Found::Moved(page) => return Ok(redirect::see_other(page)),
            Found::Refused(refusal) => return Err(refusal.into()),
        };
        if route.access == Access::SignedIn && signed_in.is_none() {
            return Ok(session::sign_in_first(&head, route.method));
        }
        if route.body != Body::None {
            guard::same_origin(&head, dashboard.origin.as_deref())?;
        }
        let (form, incoming) = match (route.body, given) {
            (Body::Form { .. }, Given::Form(body)) => {
                let unreadable = |_| Problem::new(400, "The form cannot be read.");
                let form = Form::parse(&body?).map_err(unreadable)?;
                guard::token(&head, route.access, signed_in.as_ref(), &form)?;
                (form, None)
            }
            // The token is in the body. The handler checks it before everything else.
            (Body::Upload, Given::Upload(incoming)) => (Form::default(), Some(incoming)),
            _ => (Form::default(), None),
        };
        (route.handler)(Visit { checks, dashboard, head, parameter, signed_in, form, incoming, pieces }).await
    }
}
