//! Parsers that are private, as pure functions of bytes. tools/fuzz feeds them with malformed input.
//!
//! Each function calls the parser that the server uses and gives its result in plain types. The rules that a result
//! must keep are in tools/fuzz, except for rows of the store: their types do not leave the store.

use crate::config::{Config, file};
use crate::oauth::client::Client;
use crate::oauth::fetch::{FetchError, Fetched};
use crate::oauth::site::Site;
use crate::oauth::uri::Uri;
use crate::oauth::{authorize, document, fetch, registration, token};
use crate::web::form::Form;
use serde_json::{Map, Value};
use std::path::Path;

pub use crate::web::lists::upload::fuzzing::{Upload, upload};
pub use store::fuzzing::{ROWS, row};

/// Reads a configuration file.
///
/// # Errors
/// At which byte it is wrong, and why.
pub fn configuration(text: &str) -> Result<Config, (usize, String)> {
    let mut config = Config::default();
    file::apply(text, Path::new("/etc/mailprobe"), &mut config).map_err(|fault| (fault.at, fault.why))?;
    Ok(config)
}

/// Reads the metadata of a client that registers itself: its name and redirect URIs.
///
/// # Errors
/// A code of OAuth's, and a sentence.
pub fn registration(
    metadata: &Map<String, Value>,
) -> Result<(String, Vec<String>), (&'static str, &'static str)> {
    registration::read(metadata)
}

/// Reads what a host answers that is asked for a client's metadata.
///
/// # Errors
/// Why it is no such answer.
pub fn document_answer(answer: &[u8]) -> Result<Fetched, FetchError> {
    fetch::read(answer)
}

/// Reads a client's metadata that was found at this URL.
///
/// # Errors
/// One sentence.
pub fn client_document(url: &Uri, body: &[u8]) -> Result<Client, String> {
    document::read(url, body).map_err(|error| format!("{error:?}"))
}

/// Reads a request for authorization: its challenge.
///
/// # Errors
/// A code of OAuth's, and a sentence.
pub fn authorization(fields: &Form, site: &Site) -> Result<[u8; 32], (&'static str, &'static str)> {
    authorize::challenge(fields, site)
}

/// Reads a form that is sent to the token endpoint, and a field of it that must be there.
///
/// # Errors
/// The body of the answer that says what is wrong.
pub fn token_field(form: &[u8], name: &'static str) -> Result<String, Vec<u8>> {
    let fields = token::Fields::read(form).map_err(|reply| reply.body)?;
    fields.required(name).map(str::to_owned).map_err(|reply| reply.body)
}
