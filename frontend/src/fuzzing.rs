//! Parsers that are private, as pure functions of bytes. tools/fuzz feeds them with malformed input.
//!
//! Each function calls the parser that the server uses and gives its result in plain types. The rules that a result
//! must keep are in tools/fuzz, except for rows of the store: their types do not leave the store.

use crate::cli::clean::source::{Limits, Row, Source};
use crate::config::{Config, file};
use crate::oauth::client::Client;
use crate::oauth::fetch::{FetchError, Fetched};
use crate::oauth::site::Site;
use crate::oauth::uri::Uri;
use crate::oauth::{authorize, document, fetch, registration, token};
use crate::web::form::Form;
use serde_json::{Map, Value};
use std::io::Read;
use std::path::Path;

pub use crate::web::lists::upload::fuzzing::{Upload, upload};
pub use store::fuzzing::{ROWS, row};

/// What is taken of a list here. The server takes more; smaller limits reach the same code sooner.
const LIST_LIMITS: Limits =
    Limits { bytes: 256 * 1024, packed_without_output: 4096, window_log: 20, columns: 64 };

/// What came of reading a list.
#[derive(Debug, PartialEq, Eq)]
pub struct List {
    /// The rows in their order.
    pub rows: Vec<ListRow>,
    /// The list as `mailprobe clean` and the dashboard write it, each row with the same verdict.
    pub output: Vec<u8>,
    /// Which column of the output has the address; none where the output is JSON lines.
    pub column: Option<usize>,
    /// What parts the values of the output.
    pub delimiter: u8,
    /// Whether the output begins with a record that names the columns.
    pub header: bool,
    /// What went wrong, if reading ended before the end.
    pub broken: Option<String>,
}

/// A row of a list.
#[derive(Debug, PartialEq, Eq)]
pub struct ListRow {
    /// The address, as it is asked about.
    pub address: Option<String>,
    /// How many octets of the input came before the next row.
    pub end: u64,
}

/// Reads a list to its end.
///
/// # Errors
/// One line that says why it is none.
pub fn list(input: impl Read + 'static, column: Option<&str>) -> Result<List, String> {
    let opened = Source::new(Box::new(input), "The list", None, None, column, Some(LIST_LIMITS));
    let mut source = opened.map_err(|error| error.message)?;
    let shape = source.shape();
    let (suffixes, head) = (shape.suffixes(), shape.head());
    let mut list = List {
        rows: Vec::new(),
        output: head,
        column: shape.address_column(),
        delimiter: shape.delimiter,
        header: !shape.header.is_empty(),
        broken: None,
    };
    let mut row = Row::default();
    loop {
        match source.next(&mut row) {
            Ok(true) => {}
            Ok(false) => return Ok(list),
            Err(error) => {
                list.broken = Some(error.message);
                return Ok(list);
            }
        }
        list.output.extend_from_slice(&row.prefix);
        list.output.extend_from_slice(suffixes.last().map_or(&[], Vec::as_slice));
        let address = row.address.as_ref().map(|address| address.as_str().to_owned());
        list.rows.push(ListRow { address, end: row.end });
    }
}

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
