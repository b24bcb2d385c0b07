//! Sessions: their cookie, their beginning and their end.
//!
//! The cookie holds 256 random bits. The store holds only their SHA-256. Sign-in always creates a new session, so a cookie
//! that an attacker planted before sign-in has no use. The `__Host-` prefix (RFC 6265bis 4.1.3.2) prevents other hosts of
//! the same domain from setting the cookie.

use crate::head::Head;
use crate::problem::Problem;
use crate::redirect::{self, next};
use data_encoding::HEXLOWER;
use http_core::{Method, Reply};
use ring::digest::{SHA256, digest};
use std::fmt;
use store::{AccountId, NewSession, SESSION_MS, SESSION_STEP_MS, Session, TokenHash, UnixMs};
use store_rules::Store;

/// The cookie of a session.
pub const SESSION_COOKIE: &str = "__Host-mailprobe";
/// The cookie that binds the forms of visitors without a session.
pub const FORM_COOKIE: &str = "__Host-mailprobe-form";

const TOKEN_CHARS: usize = 64;

/// A signed-in user.
#[derive(Clone, PartialEq, Eq)]
pub struct SignedIn {
    /// The account of the user.
    pub account: AccountId,
    /// The hash of the session's token. The store finds the session by it.
    pub session: TokenHash,
    /// The token against forgery in the forms of this session.
    pub csrf: String,
}

impl fmt::Debug for SignedIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SignedIn({})", self.account)
    }
}

/// Finds the session of the request's cookie; `None` if there is no such session or it has ended. Records its use.
///
/// # Errors
/// The store cannot be read.
pub async fn signed_in(store: &Store, head: &Head, now: UnixMs) -> Result<Option<SignedIn>, Problem> {
    let Some(token) = cookie(&head.cookies, SESSION_COOKIE).filter(|token| token.len() == TOKEN_CHARS) else {
        return Ok(None);
    };
    let hash = token_hash(token);
    let Some(Session { account, seen_at, .. }) = store.session(&hash, now).await? else { return Ok(None) };
    if now >= seen_at.saturating_add(SESSION_STEP_MS) {
        // Not a reason to refuse: the session is valid without the record.
        if let Err(error) = store.session_used(hash, now).await {
            tracing::warn!("the use of a session was not noted: {error}");
        }
    }
    let csrf =
        HEXLOWER.encode(digest(&SHA256, format!("mailprobe session form {token}").as_bytes()).as_ref());
    Ok(Some(SignedIn { account, session: hash, csrf }))
}

/// A session that is about to begin: a record for the store, and a cookie for the visitor.
pub struct Beginning {
    /// The record for the store.
    pub session: NewSession,
    cookie: String,
}

impl Beginning {
    /// Creates a session from random bits.
    ///
    /// # Errors
    /// The system gives no random bits.
    pub fn new(head: &Head) -> Result<Beginning, Problem> {
        let token = random_token()?;
        let session = NewSession { hash: token_hash(&token), agent: agent(&head.agent) };
        Ok(Beginning { session, cookie: set_cookie(SESSION_COOKIE, &token, SESSION_MS / 1000) })
    }

    /// Redirects the visitor to `path` and sets the cookie. Removes the cookie for forms, which is no longer needed.
    pub fn send_to(cookie: String, path: &str) -> Reply {
        redirect::see_other(next(path).to_owned())
            .header("set-cookie", cookie)
            .header("set-cookie", set_cookie(FORM_COOKIE, "", 0))
    }

    /// Returns the record for the store, and the cookie for [`Beginning::send_to`].
    pub fn split(self) -> (NewSession, String) {
        (self.session, self.cookie)
    }
}

/// Redirects to the sign-in page. After sign-in, the visitor returns to the page of this request.
pub fn sign_in_first(head: &Head, method: Method) -> Reply {
    let back = match (method, head.query.as_str()) {
        (Method::Post | Method::Patch | Method::Delete, _) => "/".to_owned(),
        (Method::Get, "") => head.path.clone(),
        (Method::Get, query) => format!("{}?{query}", head.path),
    };
    redirect::see_other(format!("/signin?next={}", escape(next(&back))))
}

/// The value of a cookie; `None` if the cookie is missing or set twice.
pub fn cookie<'c>(cookies: &'c [String], name: &str) -> Option<&'c str> {
    let pairs = cookies.iter().flat_map(|cookies| cookies.split(';'));
    let mut values = pairs
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(found, _)| *found == name)
        .map(|(_, value)| value);
    let first = values.next();
    first.filter(|_| values.next().is_none())
}

/// The value of a `Set-Cookie` header with a lifetime in seconds. A lifetime of 0 removes the cookie.
pub fn set_cookie(name: &str, value: &str, seconds: u64) -> String {
    format!("{name}={value}; Path=/; Max-Age={seconds}; Secure; HttpOnly; SameSite=Lax")
}

/// 256 random bits, in hexadecimal digits.
///
/// # Errors
/// The system gives no random bits.
pub fn random_token() -> Result<String, Problem> {
    let mut bits = [0; TOKEN_CHARS / 2];
    getrandom::fill(&mut bits).map_err(|error| Problem::unready().inside(error))?;
    Ok(HEXLOWER.encode(&bits))
}

/// The hash of a token, which the store keeps.
pub fn token_hash(token: &str) -> TokenHash {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    hash
}

/// Escapes a value for a query (RFC 3986 2.1).
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

/// The names of the browser and the system, from the `User-Agent` header.
fn agent(said: &str) -> String {
    let first = |known: &[(&str, &'static str)]| {
        known.iter().find(|(mark, _)| said.contains(mark)).map(|(_, name)| *name)
    };
    // The order matters: the mark of a later browser is also in the header of some earlier ones.
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
        /// A signed-in user for tests.
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
