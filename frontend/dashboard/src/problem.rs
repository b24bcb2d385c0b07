//! A page that was refused: its status and what the visitor can do about it, and what the log is told.

use super::page;
use super::session::SignedIn;
use checks::CheckError;
use http_core::Refusal;
use http_core::Reply;
use maud::html;
use std::borrow::Cow;
use store::{HoldError, StoreError};

/// See the module. Neither text carries an address, a key or a password.
#[derive(Clone)]
pub struct Problem {
    status: u16,
    message: Cow<'static, str>,
    headers: Vec<(&'static str, Cow<'static, str>)>,
    inside: Option<String>,
}

impl Problem {
    /// A problem without more to say.
    pub fn new(status: u16, message: impl Into<Cow<'static, str>>) -> Problem {
        Problem { status, message: message.into(), headers: Vec::new(), inside: None }
    }

    /// 404: not there, or somebody else's, which is the same.
    pub fn not_found() -> Problem {
        Problem::new(404, "There is no such page, or not any longer.")
    }

    /// 429.
    pub fn too_often(wait_s: u64) -> Problem {
        let message = format!("Too many attempts. Wait {wait_s} seconds, then try again.");
        Problem::new(429, message).header("retry-after", wait_s.to_string())
    }

    /// 500.
    pub fn defect() -> Problem {
        Refusal::defect().into()
    }

    /// 503.
    pub fn unready() -> Problem {
        Problem::new(503, "The service cannot take this now. Try again in a few seconds.")
            .header("retry-after", "5")
    }

    /// Adds a header.
    pub fn header(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Problem {
        self.headers.push((name, value.into()));
        self
    }

    /// Adds what the log is told.
    pub fn inside(mut self, what: impl ToString) -> Problem {
        self.inside = Some(what.to_string());
        self
    }

    /// What the visitor is told.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The HTTP status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The page, and what the log is told.
    pub fn render(self, signed_in: Option<&SignedIn>) -> (Reply, Option<String>) {
        let Problem { status, message, headers, inside } = self;
        let title = match status {
            403 => "Not allowed",
            404 => "Not found",
            429 => "Too many attempts",
            500.. => "Out of order",
            _ => "That did not work",
        };
        let body = html! {
            h1 { (title) }
            p.notice.bad role="alert" { (message) }
            p { a href="/" { "Back to the start" } }
        };
        let mut reply = page::page(title, signed_in, body);
        reply.status = status;
        reply.headers.extend(headers);
        (reply, inside)
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Problem {
        let Refusal { body, headers, inside } = refusal;
        Problem { status: body.error.status(), message: body.message, headers, inside }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        Refusal::from(error).into()
    }
}

impl From<CheckError> for Problem {
    fn from(error: CheckError) -> Problem {
        Refusal::from(error).into()
    }
}

impl From<HoldError> for Problem {
    fn from(error: HoldError) -> Problem {
        Refusal::from(error).into()
    }
}
