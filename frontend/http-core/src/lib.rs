//! The shared HTTP types of the server's parts: methods, replies and refusals, the table of routes, queries and bodies.
//!
//! The API, assistants and the dashboard each have a table of routes, which [`route::find`] searches, and their own
//! handlers. A handler returns a [`Reply`], or a [`Refusal`] in the form of the API's errors. [`body::Unread`] reads
//! bodies, and [`Query`] reads queries and forms.
//!
//! Invariants: a body is read only within limits of length and time. A refusal has no key, and its line for the log has
//! no address. The crate has no socket and no table of its own.

pub mod body;
pub mod query;
pub mod refusal;
pub mod route;

pub use query::Query;
pub use refusal::Refusal;

use std::borrow::Cow;

/// The methods in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Reads data. It may have effects: a GET can cost a credit.
    Get,
    /// Sends a body.
    Post,
    /// Changes an object by a body.
    Patch,
    /// Deletes an object.
    Delete,
}

impl Method {
    /// The name in requests.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
        }
    }
}

/// The name and the value of an answer's header.
pub type Header = (&'static str, Cow<'static, str>);

/// The answer of a handler.
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// Further headers of the answer.
    pub headers: Vec<Header>,
    /// The body: JSON, or the type in the header `content-type`.
    pub body: Vec<u8>,
}

/// A capacity that most answers fit into.
const JSON_BYTES: usize = 384;

impl Reply {
    /// A JSON answer with a status.
    ///
    /// # Errors
    ///
    /// A defect: the value cannot be rendered.
    pub fn json(status: u16, value: &impl serde::Serialize) -> Result<Reply, Refusal> {
        let mut body = Vec::with_capacity(JSON_BYTES);
        serde_json::to_writer(&mut body, value).map_err(|error| Refusal::defect().inside(error))?;
        Ok(Reply { status, headers: Vec::new(), body })
    }

    /// Adds a header to the answer.
    pub fn header(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Reply {
        self.headers.push((name, value.into()));
        self
    }
}
