//! Who a client is: one that registered itself, or one whose identifier is the URL of its metadata.
//!
//! Either way all that is known of it is what it says itself, but for one thing: a URL is under the control of whoever
//! has the host. So users are shown the host that gets the code, always, and names only as what they are.

use super::document::NoDocument;
use super::uri::Uri;
use crate::call::Assistants;
use checks::Checks;
use store::clock;
use store::{CLIENT_NAME_CHARS_MAX, ClientId, StoreError};

/// What a client that has no name is called.
const NAMELESS: &str = "A program without a name";

/// A client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// Its identifier.
    pub id: String,
    /// What it calls itself.
    pub name: String,
    /// Where codes may be sent.
    pub redirect_uris: Vec<Uri>,
    /// The host that vouches for its metadata, if one does.
    pub host: Option<String>,
}

/// Why there is no client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoClient {
    /// It never registered, or so long ago that it was forgotten; or it is no identifier at all.
    Unknown,
    /// Its metadata cannot be had or is not such as it must be.
    Document(NoDocument),
    /// The store cannot be read.
    Store(StoreError),
}

/// Finds a client; its metadata is fetched if it has to be.
///
/// # Errors
/// [`NoClient`].
pub async fn find(checks: &Checks, assistants: &Assistants, id: &str) -> Result<Client, NoClient> {
    if let Ok(registered) = id.parse::<ClientId>() {
        let found = checks.store.client(registered, clock::now()).map_err(NoClient::Store)?;
        let found = found.ok_or(NoClient::Unknown)?;
        let redirect_uris = found.redirect_uris.iter().filter_map(|uri| Uri::parse(uri)).collect();
        return Ok(Client { id: id.to_owned(), name: found.name, redirect_uris, host: None });
    }
    let url = Uri::parse(id).filter(Uri::names_a_document).ok_or(NoClient::Unknown)?;
    assistants.documents.client(&url).await.map_err(NoClient::Document)
}

impl Client {
    /// The redirect URI that was asked for, if it is one of the client's.
    pub fn redirect(&self, asked: &str) -> Option<Uri> {
        let asked = Uri::parse(asked)?;
        self.redirect_uris.iter().any(|registered| asked.is(registered)).then_some(asked)
    }
}

/// A name as it can be shown: without what would change how the text around it looks, and not too long.
pub fn clean_name(name: &str) -> String {
    let name: String = name.chars().filter(|&c| !is_invisible(c)).take(CLIENT_NAME_CHARS_MAX).collect();
    let name = name.trim();
    if name.is_empty() { NAMELESS.to_owned() } else { name.to_owned() }
}

/// Control characters, and those that are not seen but turn or join text (Unicode's Bidi_Control and zero widths).
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_harmless() {
        assert_eq!(clean_name(" Büro Assistant\u{202e}\n "), "Büro Assistant");
        assert_eq!(clean_name("\u{200b}\t"), NAMELESS);
        assert_eq!(clean_name(&"é".repeat(500)).chars().count(), CLIENT_NAME_CHARS_MAX);
    }

    #[test]
    fn redirects_are_the_registered_ones() {
        let uri = |text| Uri::parse(text).unwrap();
        let redirect_uris = vec![uri("https://a.example/cb"), uri("http://127.0.0.1/cb")];
        let client = Client { id: "x".into(), name: "x".into(), redirect_uris, host: None };
        assert!(client.redirect("https://a.example/cb").is_some());
        assert!(client.redirect("http://127.0.0.1:5000/cb").is_some());
        for other in ["https://a.example/cb2", "https://evil.example/cb", "javascript:alert(1)", ""] {
            assert!(client.redirect(other).is_none(), "{other}");
        }
    }
}
