//! What the parts of the server that speak HTTP have in common: methods, replies and refusals, the table of routes, queries
//! and bodies.
//!
//! The API, assistants and the dashboard have a table of routes each ([`route`]), and handlers of their own. A handler gives a
//! [`Reply`], or a [`Refusal`] in the form of the API's errors. Bodies are read within bounds of length and time ([`body`]).

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
    /// Reads. Not always free of effects: a GET can cost a credit.
    Get,
    /// Sends a JSON body.
    Post,
}

impl Method {
    /// As requests spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
        }
    }
}

/// A header of an answer.
pub type Header = (&'static str, Cow<'static, str>);

/// What a handler answers.
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// Headers that go with it.
    pub headers: Vec<Header>,
    /// The JSON, or what the header `content-type` says.
    pub body: Vec<u8>,
}

/// What most answers fit into.
const JSON_BYTES: usize = 384;

impl Reply {
    /// JSON with a status.
    ///
    /// # Errors
    /// A defect: the value cannot be rendered.
    pub fn json(status: u16, value: &impl serde::Serialize) -> Result<Reply, Refusal> {
        let mut body = Vec::with_capacity(JSON_BYTES);
        serde_json::to_writer(&mut body, value).map_err(|error| Refusal::defect().inside(error))?;
        Ok(Reply { status, headers: Vec::new(), body })
    }

    /// Adds a header.
    pub fn header(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Reply {
        self.headers.push((name, value.into()));
        self
    }
}
