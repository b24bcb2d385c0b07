//! The dashboard: pages for people, rendered here, by the same binary and over the same store as the API.
//!
//! The way of a request: [`find`] looks its path up in [`routes`], [`Asked::answer`] sees who asks ([`session`]), holds
//! forms to their origin and token ([`guard`]) and calls the page's handler. A handler returns a whole [`page`]; what
//! it refuses becomes a page too. Nothing works through script alone: forms and links do all, and a small script
//! copies a key and keeps progress fresh.
//!
//! Pages load nothing but our own style and script ([`assets`]), and the policy of each page says so. All text goes
//! through maud, which escapes it.

mod access;
pub mod assets;
pub mod attempt;
pub mod authorize;
pub mod batches;
pub mod chart;
pub mod connections;
pub mod docs;
pub mod form;
pub mod guard;
mod head;
pub mod home;
mod incoming;
pub mod keys;
pub mod lists;
pub mod page;
pub mod password;
pub mod plan;
pub mod problem;
pub mod routes;
pub mod session;
pub mod sessions;
pub mod signin;
pub mod signup;
pub mod usage;
mod visit;

pub use access::{Access, Body};
pub use head::Head;
pub use incoming::Incoming;
pub use problem::Problem;
pub use routes::{Found, find};
pub use visit::{Dashboard, Settings, Visit};

use bytes::Bytes;
use checks::Checks;
use form::Form;
use http_core::Reply;
use lists::downloads::Pieces;
use session::SignedIn;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use store::clock;

/// A request to the dashboard whose body is not read yet.
pub struct Asked {
    /// What charges and asks.
    pub checks: Rc<Checks>,
    /// What all threads share.
    pub dashboard: Arc<Dashboard>,
    /// The head.
    pub head: Head,
    /// What answers.
    pub found: Found,
    /// See [`Visit::pieces`].
    pub pieces: Rc<Cell<Option<Pieces>>>,
}

/// What came of a body.
pub enum Given {
    /// A form, or nothing.
    Form(Result<Bytes, Problem>),
    /// A file that is still coming.
    Upload(Box<dyn Incoming>),
}

impl Asked {
    /// What is to be read of the body.
    pub fn body(&self) -> Body {
        match &self.found {
            Found::Route(route, _) => route.body,
            Found::Refused(_) => Body::None,
        }
    }

    /// The answer, and what the log is told where something went wrong here.
    pub async fn answer(self, given: Given) -> (Reply, Option<String>) {
        let signed_in = match session::signed_in(&*self.checks.store, &self.head, clock::now()).await {
            Ok(signed_in) => signed_in,
            Err(problem) => return problem.render(None),
        };
        let shown = signed_in.clone();
        match self.admit(signed_in, given).await {
            Ok(reply) => (reply, None),
            Err(problem) => problem.render(shown.as_ref()),
        }
    }

    async fn admit(self, signed_in: Option<SignedIn>, given: Given) -> Result<Reply, Problem> {
        let Asked { checks, dashboard, head, found, pieces } = self;
        let (route, parameter) = match found {
            Found::Route(route, parameter) => (route, parameter),
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
            // Its token is in it, and looked at by the handler before anything else.
            (Body::Upload, Given::Upload(incoming)) => (Form::default(), Some(incoming)),
            _ => (Form::default(), None),
        };
        (route.handler)(Visit { checks, dashboard, head, parameter, signed_in, form, incoming, pieces }).await
    }
}
