//! What handlers get: the request, and what all threads share of the dashboard.

use crate::form::Form;
use crate::guard;
use crate::head::Head;
use crate::incoming::Incoming;
use crate::lists::downloads::{Downloads, Pieces};
use crate::lists::work::Lists;
use crate::password::Passwords;
use crate::problem::Problem;
use crate::session::SignedIn;
use assistants::Assistants;
use checks::Checks;
use checks::batch::NewBatches;
use checks::throttle::Throttle;
use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use store::Store;

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
    pub fn start(
        settings: Settings,
        store: &Arc<dyn Store>,
        new_batches: &Arc<NewBatches>,
    ) -> io::Result<Arc<Dashboard>> {
        Ok(Arc::new(Dashboard {
            sign_up: settings.sign_up,
            origin: settings.public_url.as_deref().map(guard::origin_of),
            passwords: Passwords::start()?,
            throttle: Throttle::new(settings.networks_are_told),
            upload_bytes_max: settings.upload_bytes_max,
            lists: Lists::start(Arc::clone(store), Arc::clone(new_batches))?,
            downloads: Downloads::start(Arc::clone(store))?,
            reference: settings.reference,
            assistants: settings.assistants,
        }))
    }
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
