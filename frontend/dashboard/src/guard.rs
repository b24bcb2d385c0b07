//! Protection against forged forms (CSRF).
//!
//! Three values must agree: the origin that the browser reports (`Sec-Fetch-Site`, and `Origin` of RFC 6454 7), a token
//! in the form that no other site can read, and a cookie that is `SameSite=Lax`. The token of a session is derived from
//! the secret of the session. A visitor without a session gets a cookie of random bits, and the form gets a hash of
//! them.

use super::form::{Form, TOKEN};
use super::session::{FORM_COOKIE, SESSION_COOKIE, SignedIn, cookie, set_cookie};
use crate::access::Access;
use crate::head::Head;
use crate::problem::Problem;
use data_encoding::HEXLOWER;
use http_core::Header;
use ring::digest::{SHA256, digest};
use store::id::random_bits;

/// Lifetime of the form cookie, in seconds: a visitor has 12 hours to send a form.
const FORM_COOKIE_S: u64 = 12 * 60 * 60;

/// Browsers neither keep nor send `Secure` cookies over plain HTTP, except at loopback.
const NO_COOKIE: &str = "The browser sent no cookie back. Over plain HTTP it does so only at localhost or 127.0.0.1: open the \
                         page over HTTPS. If you did, allow cookies, reload the page, and send the form again.";

/// The scheme and authority of a base URL.
pub fn origin_of(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("https", url));
    format!("{scheme}://{}", rest.split('/').next().unwrap_or_default()).to_ascii_lowercase()
}

/// Refuses a form if the browser reports another origin. If a client reports no origin, only the token is checked.
///
/// # Errors
/// 403: the form is forged or too old.
pub fn same_origin(head: &Head, ours: Option<&str>) -> Result<(), Problem> {
    let site_fits = head.fetch_site.as_deref().is_none_or(|site| matches!(site, "same-origin" | "none"));
    let origin_fits = match &head.origin {
        Some(origin) => {
            let origin = origin.to_ascii_lowercase();
            let authority = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
            let host = head.host.as_deref().map(str::to_ascii_lowercase);
            ours == Some(origin.as_str()) || (authority.is_some() && authority == host.as_deref())
        }
        None => !head.has_origin,
    };
    if site_fits && origin_fits { Ok(()) } else { Err(forged()) }
}

/// Refuses a form without a valid token.
///
/// # Errors
/// 403: the form is forged or too old, or came without a cookie.
pub fn token(head: &Head, access: Access, signed_in: Option<&SignedIn>, form: &Form) -> Result<(), Problem> {
    let Some(sent) = form.get(TOKEN) else { return Err(forged()) };
    let of_session = signed_in.is_some_and(|signed_in| same(sent, &signed_in.csrf));
    let of_visitor = access == Access::Anybody
        && cookie(&head.cookies, FORM_COOKIE).is_some_and(|secret| same(sent, &visitor_token(secret)));
    // The names of both cookies begin with this one.
    let has_cookie = head.cookies.iter().any(|cookies| cookies.contains(SESSION_COOKIE));
    let refused = || if has_cookie { forged() } else { Problem::new(403, NO_COOKIE) };
    (of_session || of_visitor).then_some(()).ok_or_else(refused)
}

/// The token for a form that every visitor can send, and the cookie to set with it.
///
/// # Errors
/// The system gives no random bits.
pub fn form_token(head: &Head, signed_in: Option<&SignedIn>) -> Result<(String, Option<Header>), Problem> {
    if let Some(signed_in) = signed_in {
        return Ok((signed_in.csrf.clone(), None));
    }
    if let Some(secret) = cookie(&head.cookies, FORM_COOKIE) {
        return Ok((visitor_token(secret), None));
    }
    let bits = random_bits().map_err(|error| Problem::unready().inside(error))?;
    let secret = format!("{bits:032x}");
    let token = visitor_token(&secret);
    Ok((token, Some(("set-cookie", set_cookie(FORM_COOKIE, &secret, FORM_COOKIE_S).into()))))
}

fn visitor_token(secret: &str) -> String {
    HEXLOWER.encode(digest(&SHA256, format!("mailprobe form {secret}").as_bytes()).as_ref())
}

/// Compares hashes of the texts, so the time does not reveal the position of the first difference.
fn same(one: &str, other: &str) -> bool {
    digest(&SHA256, one.as_bytes()).as_ref() == digest(&SHA256, other.as_bytes()).as_ref()
}

fn forged() -> Problem {
    let message = "This form did not come from a page of this site, or the page is too old. Go back, reload the \
                   page, and send the form again.";
    Problem::new(403, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn head(origin: Option<&str>, fetch_site: Option<&str>) -> Head {
        Head {
            path: "/".into(),
            query: String::new(),
            host: Some("app.example:8080".into()),
            has_origin: origin.is_some(),
            origin: origin.map(str::to_owned),
            fetch_site: fetch_site.map(str::to_owned),
            cookies: Vec::new(),
            content_type: None,
            agent: String::new(),
            peer: Ipv4Addr::LOCALHOST.into(),
        }
    }

    #[test]
    fn only_our_own_pages_send_forms() {
        let fits = |origin, site, ours| same_origin(&head(origin, site), ours).is_ok();
        assert!(fits(None, None, None));
        assert!(fits(Some("https://app.example:8080"), Some("same-origin"), None));
        assert!(fits(Some("http://APP.example:8080"), None, None));
        assert!(fits(Some("https://public.example"), None, Some("https://public.example")));
        for (origin, site) in [
            (Some("null"), None),
            (Some("https://evil.example"), None),
            (Some("https://app.example"), None),
            (Some("ftp://app.example:8080"), None),
            (Some("https://app.example:8080.evil.example"), Some("same-origin")),
            (None, Some("cross-site")),
            (None, Some("same-site")),
            (Some("https://app.example:8080"), Some("cross-site")),
        ] {
            assert!(!fits(origin, site, Some("https://public.example")), "{origin:?} {site:?}");
        }
    }

    #[test]
    fn an_origin_is_the_beginning_of_an_address() {
        assert_eq!(origin_of("https://API.example/base/"), "https://api.example");
        assert_eq!(origin_of("http://127.0.0.1:8080"), "http://127.0.0.1:8080");
    }

    #[test]
    fn tokens_are_of_their_session_or_visitor() {
        let signed_in = SignedIn::sample("secret");
        let form = |token: &str| Form::parse(format!("csrf={token}").as_bytes()).unwrap();
        let check = |cookies: &[&str], access, signed_in, form: &Form| {
            let cookies = cookies.iter().map(|it| (*it).to_owned()).collect();
            let refused = token(&Head { cookies, ..head(None, None) }, access, signed_in, form).err();
            refused.map(|problem| problem.message().contains("no cookie"))
        };
        let visitor = format!("{FORM_COOKIE}=abc");
        let (own, of_abc) = (form(&signed_in.csrf), form(&visitor_token("abc")));
        assert_eq!(check(&[], Access::SignedIn, Some(&signed_in), &own), None);
        assert_eq!(check(&[&visitor], Access::Anybody, None, &of_abc), None);
        assert_eq!(check(&[&visitor], Access::SignedIn, Some(&signed_in), &of_abc), Some(false));
        assert_eq!(check(&[], Access::Anybody, None, &of_abc), Some(true), "a token without its cookie");
        assert_eq!(check(&["theme=dark"], Access::Anybody, None, &own), Some(true));
        assert_eq!(check(&[&visitor], Access::Anybody, Some(&signed_in), &form("")), Some(false));
        assert_eq!(check(&[&visitor], Access::Anybody, Some(&signed_in), &Form::default()), Some(false));
    }
}
