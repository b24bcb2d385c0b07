//! The input of handlers: the request, and the dashboard state that all threads share.

use crate::form::Form;
use crate::guard;
use crate::head::Head;
use crate::password::Passwords;
use crate::problem::Problem;
use crate::session::SignedIn;
use assistants::Assistants;
use checks::Checks;
use checks::faults::Faults;
use checks::throttle::Throttle;
use engine::proto::sharing::ShareUse;
use list_work::ListWork;
use list_work::downloads::Pieces;
use list_work::upload::Incoming;
use outbound::Destinations;
use std::cell::Cell;
use std::io;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

/// The dashboard state that all threads share: its settings, and what was made of them.
pub struct Dashboard {
    settings: Settings,
    /// The scheme and authority under which users reach the server, if the operator configured them.
    pub origin: Option<String>,
    /// Computes and checks password hashes.
    pub passwords: Passwords,
    /// Limits on the attempts to sign in and to sign up.
    pub throttle: Throttle,
}

impl Deref for Dashboard {
    type Target = Settings;

    fn deref(&self) -> &Settings {
        &self.settings
    }
}

/// The settings of the operator, and the parts of other crates that the pages show.
pub struct Settings {
    /// Whether visitors can create accounts.
    pub sign_up: bool,
    /// The URL under which users reach the server.
    pub public_url: Option<String>,
    /// The URL of the API in examples, without a slash at its end.
    pub base: String,
    /// Whether each peer connects from its own address. Behind a proxy, all peers have the same address, so networks
    /// cannot be distinguished.
    pub networks_are_told: bool,
    /// The work on lists.
    pub lists: Arc<ListWork>,
    /// The API reference, as the content of a page.
    pub reference: Arc<str>,
    /// The state of assistants; `None` if assistants cannot connect.
    pub assistants: Option<Arc<Assistants>>,
    /// The faults of this machine.
    pub faults: Arc<Faults>,
    /// The addresses that webhooks may contact.
    pub webhook_destinations: Destinations,
}

impl Dashboard {
    /// Starts the threads of the dashboard.
    ///
    /// # Errors
    /// A thread could not be started, or the system gives no random bits.
    pub fn start(settings: Settings) -> io::Result<Arc<Dashboard>> {
        Ok(Arc::new(Dashboard {
            origin: settings.public_url.as_deref().map(guard::origin_of),
            passwords: Passwords::start()?,
            throttle: Throttle::new(settings.networks_are_told),
            settings,
        }))
    }

    /// What accounts and networks share, of the dashboard and of assistants.
    pub fn shares(&self) -> Vec<Arc<ShareUse>> {
        let of_assistants = self.assistants.as_ref().map(|assistants| assistants.shares());
        self.passwords.shares().into_iter().chain(of_assistants.into_iter().flatten()).collect()
    }
}

/// One request, as the handler gets it.
pub struct Visit {
    /// Charges credits and runs checks.
    pub checks: Rc<Checks>,
    /// The state that all threads share.
    pub dashboard: Arc<Dashboard>,
    /// The head of the request.
    pub head: Head,
    /// The value of the route's parameter in the path.
    pub parameter: String,
    /// The signed-in user; always `Some` if the route requires it.
    pub signed_in: Option<SignedIn>,
    /// The fields of the form; empty for GET.
    pub form: Form,
    /// The uploaded file, while it arrives.
    pub incoming: Option<Box<dyn Incoming>>,
    /// The body of an answer that is made while it is sent. It replaces the body of the reply.
    pub pieces: Rc<Cell<Option<Pieces>>>,
}

impl Visit {
    /// The signed-in user.
    ///
    /// # Errors
    /// A defect: the route does not require a signed-in user.
    pub fn signed_in(&self) -> Result<&SignedIn, Problem> {
        let missing = || Problem::defect().inside("a route without a session asked who it is");
        self.signed_in.as_ref().ok_or_else(missing)
    }

    /// A field of the query, decoded.
    pub fn query(&self, name: &'static str) -> Option<String> {
        Form::parse(self.head.query.as_bytes()).ok()?.get(name).map(str::to_owned)
    }
}
