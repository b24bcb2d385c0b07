//! Clients that are known by the URL of their metadata (draft-ietf-oauth-client-id-metadata-document).
//!
//! A document is fetched when a signed-in user opens the consent page of its client, and is kept for some time. So only users
//! with an account can make this server fetch a document, and the [`Fetcher`] limits the number of fetches of each.

use super::client::{Client, clean_name};
use super::fetch::{FetchError, Fetched, Fetcher};
use super::uri::Uri;
use engine::proto::sharing::ShareUse;
use serde_json::Value;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::clock;
use store::{AccountId, REDIRECT_URIS_MAX, UnixMs};

/// How long a document is kept if its answer sets no time, and the bounds for a time that it sets.
const KEEP_MS: UnixMs = 10 * 60 * 1000;
const KEEP_MS_MIN: UnixMs = 60 * 1000;
const KEEP_MS_MAX: UnixMs = 60 * 60 * 1000;
/// How long a failure is kept.
const KEEP_FAILURE_MS: UnixMs = 30 * 1000;
/// Most documents and failures that are kept.
const KEPT_MAX: usize = 256;

/// The reason why a URL gives no client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoDocument {
    /// The document could not be fetched.
    Fetch(FetchError),
    /// The document is not valid, for this reason.
    Bad(&'static str),
}

/// The documents that are kept, shared by all threads.
pub struct Documents {
    fetcher: Fetcher,
    kept: Mutex<HashMap<String, Kept>>,
}

struct Kept {
    until: UnixMs,
    outcome: Result<Client, NoDocument>,
}

impl Documents {
    /// An empty store of documents.
    pub fn new(fetcher: Fetcher) -> Documents {
        Documents { fetcher, kept: Mutex::default() }
    }

    /// The fetches under way.
    pub fn shares(&self) -> Vec<Arc<ShareUse>> {
        self.fetcher.shares()
    }

    /// The client whose metadata is at a URL, for an account that has opened its page from this peer.
    ///
    /// # Errors
    /// [`NoDocument`].
    pub async fn client(&self, url: &Uri, account: AccountId, peer: IpAddr) -> Result<Client, NoDocument> {
        let now = clock::now();
        if let Some(outcome) = self.kept(url, now) {
            return outcome;
        }
        let fetched = self.fetcher.fetch(url.clone(), account, peer).await;
        // It does not concern this document, so the failure is not kept.
        if let Err(refusal) = fetched.as_ref()
            && refusal.is_refusal()
        {
            return Err(NoDocument::Fetch(refusal.clone()));
        }
        let (keep_ms, outcome) = match fetched {
            Ok(fetched) => (keep_ms(&fetched), read(url, &fetched.body)),
            Err(error) => (KEEP_FAILURE_MS, Err(NoDocument::Fetch(error))),
        };
        let keep_ms = if outcome.is_ok() { keep_ms } else { KEEP_FAILURE_MS };
        self.keep(url, Kept { until: now.saturating_add(keep_ms), outcome: outcome.clone() }, now);
        outcome
    }

    fn kept(&self, url: &Uri, now: UnixMs) -> Option<Result<Client, NoDocument>> {
        self.lock().get(url.as_str()).filter(|kept| now < kept.until).map(|kept| kept.outcome.clone())
    }

    fn keep(&self, url: &Uri, outcome: Kept, now: UnixMs) {
        let mut kept = self.lock();
        if kept.len() >= KEPT_MAX {
            kept.retain(|_, kept| now < kept.until);
        }
        // Only one gives way, so nobody makes all others be fetched again at once.
        if kept.len() >= KEPT_MAX {
            let next = kept.iter().min_by_key(|(_, kept)| kept.until).map(|(url, _)| url.clone());
            next.map(|url| kept.remove(&url));
        }
        kept.insert(url.as_str().to_owned(), outcome);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn keep_ms(fetched: &Fetched) -> UnixMs {
    let said = fetched.max_age_s.map_or(KEEP_MS, |seconds| seconds.saturating_mul(1000));
    said.clamp(KEEP_MS_MIN, KEEP_MS_MAX)
}

/// Reads the document of this URL.
///
/// # Errors
/// [`NoDocument::Bad`].
pub fn read(url: &Uri, body: &[u8]) -> Result<Client, NoDocument> {
    let bad = NoDocument::Bad;
    let Ok(Value::Object(document)) = serde_json::from_slice(body) else {
        return Err(bad("it is not a JSON object"));
    };
    let text = |name: &str| document.get(name).and_then(Value::as_str);
    if text("client_id") != Some(url.as_str()) {
        return Err(bad("its client_id is not its URL"));
    }
    let name = text("client_name").ok_or(bad("it has no client_name"))?;
    if !matches!(document.get("token_endpoint_auth_method").map(Value::as_str), None | Some(Some("none"))) {
        return Err(bad("its client wants to authenticate itself, and only public clients are accepted"));
    }
    if document.contains_key("client_secret") {
        return Err(bad("it has a client_secret, which anyone could read"));
    }
    let uris = document.get("redirect_uris").and_then(Value::as_array);
    let uris = uris.filter(|uris| uris.len() <= REDIRECT_URIS_MAX * 4);
    let uris = uris.ok_or(bad("it has no redirect_uris, or too many"))?;
    // URIs of other kinds, for example with a private scheme, are ignored.
    let redirect_uris: Vec<Uri> = uris.iter().filter_map(|uri| Uri::parse(uri.as_str()?)).collect();
    if redirect_uris.is_empty() {
        return Err(bad("none of its redirect_uris is https or http on the user's computer"));
    }
    let host = Some(url.host().to_owned());
    Ok(Client { id: url.as_str().to_owned(), name: clean_name(name), redirect_uris, host })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const URL: &str = "https://client.example/metadata.json";

    fn good() -> Value {
        json!({
            "client_id": URL,
            "client_name": "Assistant",
            "redirect_uris": ["http://127.0.0.1:3000/cb", "assistant://cb"],
            "token_endpoint_auth_method": "none",
        })
    }

    #[test]
    fn a_document_says_who_its_client_is() {
        let url = Uri::parse(URL).unwrap();
        let client = read(&url, good().to_string().as_bytes()).unwrap();
        assert_eq!((client.id.as_str(), client.name.as_str()), (URL, "Assistant"));
        assert_eq!(client.redirect_uris, [Uri::parse("http://127.0.0.1:3000/cb").unwrap()]);
        assert_eq!(client.host.as_deref(), Some("client.example"));
    }

    #[test]
    fn what_it_must_be() {
        let url = Uri::parse(URL).unwrap();
        type Change = fn(&mut Value);
        let changes: [Change; 8] = [
            |it| it["client_id"] = "https://client.example/other.json".into(),
            |it| drop(it.as_object_mut().unwrap().remove("client_id")),
            |it| drop(it.as_object_mut().unwrap().remove("client_name")),
            |it| it["redirect_uris"] = json!([]),
            |it| it["redirect_uris"] = json!(["javascript:alert(1)"]),
            |it| it["token_endpoint_auth_method"] = "private_key_jwt".into(),
            |it| it["client_secret"] = "x".into(),
            |it| *it = json!([]),
        ];
        for change in changes {
            let mut document = good();
            change(&mut document);
            assert!(read(&url, document.to_string().as_bytes()).is_err(), "{document}");
        }
        assert!(read(&url, b"{").is_err());
    }

    #[test]
    fn it_is_kept_for_as_long_as_it_says_within_bounds() {
        let check = |max_age_s, expected| {
            assert_eq!(keep_ms(&Fetched { body: Vec::new(), max_age_s }), expected, "{max_age_s:?}");
        };
        check(None, KEEP_MS);
        check(Some(0), KEEP_MS_MIN);
        check(Some(120), 120_000);
        check(Some(u64::MAX), KEEP_MS_MAX);
    }
}
