//! Who asks: the cookie of a session, its beginning and its end.
//!
//! The cookie holds 256 random bits; the store has their SHA-256 alone. Signing in always makes a new session, so a
//! cookie that somebody planted before is worth nothing afterwards. The `__Host-` prefix (RFC 6265bis 4.1.3.2) keeps
//! other hosts of the same domain from setting it.

use super::page;
use super::page::next;
use crate::head::Head;
use crate::problem::Problem;
use data_encoding::HEXLOWER;
use http_core::{Method, Reply};
use ring::digest::{SHA256, digest};
use std::fmt;
use store::{AccountId, NewSession, SESSION_MS, SESSION_STEP_MS, Session, Store, TokenHash, UnixMs};

/// The cookie of a session.
pub const SESSION_COOKIE: &str = "__Host-mailprobe";
/// The cookie that forms of visitors without a session are tied to.
pub const FORM_COOKIE: &str = "__Host-mailprobe-form";

const TOKEN_CHARS: usize = 64;

/// Somebody who has signed in.
#[derive(Clone, PartialEq, Eq)]
pub struct SignedIn {
    /// Their account.
    pub account: AccountId,
    /// The hash of the session's token, which is what the store calls it.
    pub session: TokenHash,
    /// The token that forms of this session carry.
    pub csrf: String,
}

impl fmt::Debug for SignedIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SignedIn({})", self.account)
    }
}

/// Whose session the request's cookie is; none where there is no such session any longer. Its use is noted.
///
/// # Errors
/// The store cannot be read.
pub async fn signed_in(store: &dyn Store, head: &Head, now: UnixMs) -> Result<Option<SignedIn>, Problem> {
    let Some(token) = cookie(&head.cookies, SESSION_COOKIE).filter(|token| token.len() == TOKEN_CHARS) else {
        return Ok(None);
    };
    let hash = token_hash(token);
    let Some(Session { account, seen_at, .. }) = store.session(&hash, now)? else { return Ok(None) };
    if now >= seen_at.saturating_add(SESSION_STEP_MS) {
        // Not a reason to refuse: the session is good without the note.
        if let Err(error) = store.session_used(hash, now).await {
            tracing::warn!("the use of a session was not noted: {error}");
        }
    }
    let csrf =
        HEXLOWER.encode(digest(&SHA256, format!("mailprobe session form {token}").as_bytes()).as_ref());
    Ok(Some(SignedIn { account, session: hash, csrf }))
}

/// A session that is about to begin: what the store gets, and the cookie that the visitor gets.
pub struct Beginning {
    /// For the store.
    pub session: NewSession,
    cookie: String,
}

impl Beginning {
    /// Of random bits.
    ///
    /// # Errors
    /// There are none.
    pub fn new(head: &Head) -> Result<Beginning, Problem> {
        let token = random_token()?;
        let session = NewSession { hash: token_hash(&token), agent: agent(&head.agent) };
        Ok(Beginning { session, cookie: set_cookie(SESSION_COOKIE, &token, SESSION_MS / 1000) })
    }

    /// Sends the visitor on with the cookie. The one for forms has done its work.
    pub fn send_to(cookie: String, path: &str) -> Reply {
        page::see_other(next(path).to_owned())
            .header("set-cookie", cookie)
            .header("set-cookie", set_cookie(FORM_COOKIE, "", 0))
    }

    /// What the store gets, and what [`Beginning::send_to`] takes.
    pub fn split(self) -> (NewSession, String) {
        (self.session, self.cookie)
    }
}

/// Where somebody goes who has to sign in first; afterwards they are back.
pub fn sign_in_first(head: &Head, method: Method) -> Reply {
    let back = match (method, head.query.as_str()) {
        (Method::Post, _) => "/".to_owned(),
        (Method::Get, "") => head.path.clone(),
        (Method::Get, query) => format!("{}?{query}", head.path),
    };
    page::see_other(format!("/signin?next={}", escape(next(&back))))
}

/// The value of a cookie; none where it is set twice.
pub fn cookie<'c>(cookies: &'c [String], name: &str) -> Option<&'c str> {
    let pairs = cookies.iter().flat_map(|cookies| cookies.split(';'));
    let mut values = pairs
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(found, _)| *found == name)
        .map(|(_, value)| value);
    let first = values.next();
    first.filter(|_| values.next().is_none())
}

/// The header that sets a cookie for so many seconds; for none it is removed.
pub fn set_cookie(name: &str, value: &str, seconds: u64) -> String {
    format!("{name}={value}; Path=/; Max-Age={seconds}; Secure; HttpOnly; SameSite=Lax")
}

/// 256 random bits.
///
/// # Errors
/// There are none.
pub fn random_token() -> Result<String, Problem> {
    let mut bits = [0; TOKEN_CHARS / 2];
    getrandom::fill(&mut bits).map_err(|error| Problem::unready().inside(error))?;
    Ok(HEXLOWER.encode(&bits))
}

/// What is stored of a token.
pub fn token_hash(token: &str) -> TokenHash {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    hash
}

/// For a value in a query (RFC 3986 2.1).
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'/') {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

/// A browser and system as its owner knows them again, from what it says of itself.
fn agent(said: &str) -> String {
    let first = |known: &[(&str, &'static str)]| {
        known.iter().find(|(mark, _)| said.contains(mark)).map(|(_, name)| *name)
    };
    // In this order: each later one's mark is in what an earlier one says too.
    let browser = first(&[
        ("Edg/", "Edge"),
        ("OPR/", "Opera"),
        ("Firefox/", "Firefox"),
        ("Chrome/", "Chrome"),
        ("Safari/", "Safari"),
        ("curl/", "curl"),
    ]);
    let system = first(&[
        ("Android", "Android"),
        ("iPhone", "iPhone"),
        ("iPad", "iPad"),
        ("Windows", "Windows"),
        ("Mac OS X", "macOS"),
        ("Linux", "Linux"),
    ]);
    match (browser, system) {
        (Some(browser), Some(system)) => format!("{browser} on {system}"),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => "Unknown browser".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl SignedIn {
        /// For tests.
        pub fn sample(csrf: &str) -> SignedIn {
            SignedIn { account: AccountId::new(1, 1), session: [1; 32], csrf: csrf.into() }
        }
    }

    #[test]
    fn a_cookie_is_found_once() {
        let cookies = ["a=1; __Host-mailprobe=x;b=2".to_owned(), "c=3".to_owned()];
        assert_eq!(cookie(&cookies, SESSION_COOKIE), Some("x"));
        assert_eq!(cookie(&cookies, "c"), Some("3"));
        assert_eq!(cookie(&cookies, "__Host-mail"), None);
        assert_eq!(cookie(&["a=1".to_owned(), "a=2".to_owned()], "a"), None);
        assert_eq!(cookie(&[String::new()], "a"), None);
    }

    #[test]
    fn cookies_are_for_this_host_and_no_script() {
        let header = set_cookie(SESSION_COOKIE, "x", 9);
        assert_eq!(header, "__Host-mailprobe=x; Path=/; Max-Age=9; Secure; HttpOnly; SameSite=Lax");
    }

    #[test]
    fn browsers_are_known_again() {
        let chrome = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/120.0 Safari/537.36";
        assert_eq!(agent(chrome), "Chrome on Linux");
        assert_eq!(agent(&format!("{chrome} Edg/120.0")), "Edge on Linux");
        assert_eq!(agent("curl/8"), "curl");
        assert_eq!(agent("<script>"), "Unknown browser");
    }

    #[test]
    fn escapes() {
        assert_eq!(escape("/a?b=c&d=e f"), "/a%3Fb%3Dc%26d%3De%20f");
    }
}
