//! The dashboard: pages for people, rendered here, by the same binary and over the same store as the API.
//!
//! The way of a request: [`find`] looks its path up in [`routes`], [`Asked::answer`] sees who asks ([`session`]), holds
//! forms to their origin and token ([`guard`]) and calls the page's handler. A handler returns a whole [`page`]; what
//! it refuses becomes a page too. Nothing works through script alone: forms and links do all, and a small script
//! copies a key and keeps progress fresh.
//!
//! Pages load nothing but our own style and script ([`assets`]), and the policy of each page says so. All text goes
//! through maud, which escapes it.

pub mod assets;
pub mod attempt;
pub mod authorize;
pub mod batches;
pub mod chart;
pub mod connections;
pub mod docs;
pub mod form;
pub mod guard;
pub mod home;
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

pub use problem::Problem;
pub use routes::{Access, Body, Found, find};

use assistants::Assistants;
use bytes::Bytes;
use checks::Checks;
use checks::batch::Door;
use checks::throttle::Throttle;
use form::Form;
use http_core::Reply;
use lists::downloads::{Downloads, Pieces};
use lists::upload::Incoming;
use lists::work::Lists;
use password::Passwords;
use session::SignedIn;
use std::cell::Cell;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use store::Store;
use store::clock;

/// What all threads share of the dashboard.
pub struct Dashboard {
    /// Anybody may make an account.
    pub sign_up: bool,
    /// The scheme and authority under which callers reach us, where the operator says it.
    pub origin: Option<String>,
    /// Makes and checks hashes of passwords.
    pub passwords: Passwords,
    /// Attempts to sign in and up.
    pub throttle: Throttle,
    /// Longest list that is taken in.
    pub upload_bytes_max: u64,
    /// The thread that has lists checked.
    pub lists: Lists,
    /// The thread that makes downloads.
    pub downloads: Downloads,
    /// The reference of the API, as a page's content.
    pub reference: Arc<str>,
    /// What connects assistants, where they can be.
    pub assistants: Option<Arc<Assistants>>,
}

/// What the operator has set, and what the pages show of the rest of the server.
pub struct Settings {
    /// Anybody may make an account.
    pub sign_up: bool,
    /// The URL under which users reach the server.
    pub public_url: Option<String>,
    /// Whether peers have addresses of their own. Behind a proxy all have the same, and nothing can be said of their networks.
    pub networks_are_told: bool,
    /// Longest list that is taken in, in bytes.
    pub upload_bytes_max: u64,
    /// The reference of the API, as a page's content.
    pub reference: Arc<str>,
    /// What connects assistants, where they can be.
    pub assistants: Option<Arc<Assistants>>,
}

impl Dashboard {
    /// Starts what the dashboard needs.
    ///
    /// # Errors
    /// A thread could not be started, or there are no random bits.
    pub fn start(settings: Settings, store: &Arc<dyn Store>, door: &Arc<Door>) -> io::Result<Arc<Dashboard>> {
        Ok(Arc::new(Dashboard {
            sign_up: settings.sign_up,
            origin: settings.public_url.as_deref().map(guard::origin_of),
            passwords: Passwords::start()?,
            throttle: Throttle::new(settings.networks_are_told),
            upload_bytes_max: settings.upload_bytes_max,
            lists: Lists::start(Arc::clone(store), Arc::clone(door))?,
            downloads: Downloads::start(Arc::clone(store))?,
            reference: settings.reference,
            assistants: settings.assistants,
        }))
    }
}

/// What the head of a request says, as far as pages care.
pub struct Head {
    /// The path.
    pub path: String,
    /// The query, as it came.
    pub query: String,
    /// `Host`.
    pub host: Option<String>,
    /// There is an `Origin`, whether it can be read or not.
    pub has_origin: bool,
    /// `Origin`.
    pub origin: Option<String>,
    /// `Sec-Fetch-Site`.
    pub fetch_site: Option<String>,
    /// The values of `Cookie`.
    pub cookies: Vec<String>,
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// `User-Agent`.
    pub agent: String,
    /// Who connected.
    pub peer: IpAddr,
}

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

/// One request, as handlers see it.
pub struct Visit {
    /// What charges and asks.
    pub checks: Rc<Checks>,
    /// What all threads share.
    pub dashboard: Arc<Dashboard>,
    /// The head.
    pub head: Head,
    /// What stands in the path for the route's parameter.
    pub parameter: String,
    /// Who asks; somebody wherever the route wants it.
    pub signed_in: Option<SignedIn>,
    /// The fields of the form that was sent; none on GET.
    pub form: Form,
    /// The file that is uploaded.
    pub incoming: Option<Box<dyn Incoming>>,
    /// For an answer whose body is made while it is sent, in place of the reply's.
    pub pieces: Rc<Cell<Option<Pieces>>>,
}

impl Visit {
    /// Who asks.
    ///
    /// # Errors
    /// A defect: the route did not ask for it.
    pub fn signed_in(&self) -> Result<&SignedIn, Problem> {
        let missing = || Problem::defect().inside("a route without a session asked who it is");
        self.signed_in.as_ref().ok_or_else(missing)
    }

    /// A field of the query, decoded.
    pub fn query(&self, name: &'static str) -> Option<String> {
        Form::parse(self.head.query.as_bytes()).ok()?.get(name).map(str::to_owned)
    }
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
