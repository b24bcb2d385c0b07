//! Tables of routes: the search for the row that answers a method and a path.

use crate::{Method, Refusal};

/// A row of a table of routes.
pub trait Route {
    /// The method, and the path, which is also the name in logs. At most one segment of the path is a parameter, in braces, which
    /// matches any text.
    fn key(&self) -> (Method, &'static str);

    /// Whether the route also answers HEAD. RFC 9110 9.3.2 expects it of every GET. A GET with effects is the exception.
    fn answers_head(&self) -> bool {
        self.key().0 == Method::Get
    }
}

/// Finds the route of a request, and the value of its parameter (empty if it has none). `None` if no route has this
/// path.
///
/// # Errors
///
/// 405: there are routes with this path, but none with this method.
pub fn find<'t, 'p, R: Route>(
    table: &'t [R],
    method: &str,
    path: &'p str,
) -> Option<Result<(&'t R, &'p str), Refusal>> {
    let here = || table.iter().filter_map(move |route| Some((route, parameter(route.key().1, path)?)));
    let fits = |route: &R| route.key().0.as_str() == method || (method == "HEAD" && route.answers_head());
    if let Some(found) = here().find(|(route, _)| fits(route)) {
        return Some(Ok(found));
    }
    let mut allow = Vec::new();
    for (route, _) in here() {
        allow.push(route.key().0.as_str());
        if route.answers_head() {
            allow.push("HEAD");
        }
    }
    (!allow.is_empty()).then(|| Err(Refusal::method(allow.join(", "))))
}

/// The value of a pattern's parameter, if the path matches the pattern.
fn parameter<'p>(pattern: &str, path: &'p str) -> Option<&'p str> {
    let Some((before, rest)) = pattern.split_once('{') else { return (pattern == path).then_some("") };
    let (_, after) = rest.split_once('}')?;
    let value = path.strip_prefix(before)?.strip_suffix(after)?;
    (!value.is_empty() && !value.contains('/')).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters() {
        assert_eq!(parameter("/a/{x}", "/a/b"), Some("b"));
        assert_eq!(parameter("/a/{x}/c", "/a/{x}/c"), Some("{x}"));
        for path in ["/a", "/a/", "/a//c", "/a/b/", "/a/b/d", "/a/b/b/c"] {
            assert_eq!(parameter("/a/{x}/c", path), None, "{path}");
        }
    }
}
