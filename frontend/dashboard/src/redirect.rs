//! Redirects to other pages of this server, never to other sites.

use http_core::Reply;
use std::borrow::Cow;

/// Longest path for the redirect after sign-in, in bytes. A request for consent has a long query.
const NEXT_BYTES_MAX: usize = 8 * 1024;

/// Returns `path` if it is a local path, otherwise `/`. A path that browsers can read as the address of another site is
/// not local: `//host`, and any path with backslashes or control characters, which browsers correct or remove.
pub fn next(path: &str) -> &str {
    let is_local = path.starts_with('/')
        && !path.starts_with("//")
        && path.len() <= NEXT_BYTES_MAX
        && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_local { path } else { "/" }
}

/// Redirects the visitor to another page of this server (303, RFC 9110 15.4.4).
pub fn see_other(path: impl Into<Cow<'static, str>>) -> Reply {
    Reply { status: 303, headers: vec![("location", path.into())], body: Vec::new() }
        .header("content-type", "text/plain; charset=utf-8")
        .header("referrer-policy", "same-origin")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visitor_is_sent_to_a_path_of_ours_alone() {
        for good in ["/", "/keys", "/oauth/authorize?client_id=https%3A%2F%2Fx", "/a//b"] {
            assert_eq!(next(good), good);
        }
        let long = format!("/{}", "a".repeat(NEXT_BYTES_MAX));
        for bad in [
            "",
            "keys",
            "//evil.example",
            "/\\evil.example",
            "\\\\evil.example",
            "https://evil.example",
            "javascript:alert(1)",
            "/\t/evil.example",
            "/\r\nSet-Cookie: a=b",
            "/a b",
            "/é",
            &long,
        ] {
            assert_eq!(next(bad), "/", "{bad}");
        }
    }
}
