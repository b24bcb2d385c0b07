//! Clients. A client registers itself, or its identifier is the URL of its metadata.
//!
//! In both cases, all information about a client comes from the client itself, with one exception: the owner of a host
//! controls the URLs of that host. So users always see the host that gets the code, and a name is shown only as a name.

use super::document::NoDocument;
use super::uri::Uri;
use crate::call::Assistants;
use checks::Checks;
use std::net::IpAddr;
use store::clock;
use store::{AccountId, CLIENT_NAME_CHARS_MAX, ClientId, StoreError};

/// The name of a client without a name.
const NAMELESS: &str = "A program without a name";

/// A client of assistants as users see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// The identifier of the client.
    pub id: String,
    /// The name that the client chose.
    pub name: String,
    /// The URIs that codes can be sent to.
    pub redirect_uris: Vec<Uri>,
    /// The host of its metadata, if the identifier is a URL.
    pub host: Option<String>,
}

/// The reason why there is no client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoClient {
    /// The client never registered, or was deleted after some time, or the identifier is not valid.
    Unknown,
    /// The metadata cannot be fetched or is not valid.
    Document(NoDocument),
    /// The store cannot be read.
    Store(StoreError),
}

/// Finds a client for an account that has opened its page from this peer. Fetches its metadata if necessary.
///
/// # Errors
/// [`NoClient`].
pub async fn find(
    checks: &Checks,
    assistants: &Assistants,
    id: &str,
    account: AccountId,
    peer: IpAddr,
) -> Result<Client, NoClient> {
    if let Ok(registered) = id.parse::<ClientId>() {
        let found = checks.store.client(registered, clock::now()).await.map_err(NoClient::Store)?;
        let found = found.ok_or(NoClient::Unknown)?;
        let redirect_uris = found.redirect_uris.iter().filter_map(|uri| Uri::parse(uri)).collect();
        return Ok(Client { id: id.to_owned(), name: found.name, redirect_uris, host: None });
    }
    let url = Uri::parse(id).filter(Uri::names_a_document).ok_or(NoClient::Unknown)?;
    assistants.documents.client(&url, account, peer).await.map_err(NoClient::Document)
}

impl Client {
    /// The requested redirect URI, if the client has registered it.
    pub fn redirect(&self, asked: &str) -> Option<Uri> {
        let asked = Uri::parse(asked)?;
        self.redirect_uris.iter().any(|registered| asked.is(registered)).then_some(asked)
    }
}

/// A name that is safe to show: without characters that change the text around it, and not too long.
pub fn clean_name(name: &str) -> String {
    let name: String = name.chars().filter(|&c| !is_invisible(c)).take(CLIENT_NAME_CHARS_MAX).collect();
    let name = name.trim();
    if name.is_empty() { NAMELESS.to_owned() } else { name.to_owned() }
}

/// Control characters, and invisible characters that reverse or join text (Bidi_Control of Unicode, and zero widths).
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
