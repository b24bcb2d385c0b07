//! Tables of routes: which line answers to a method and a path.

use crate::{Method, Refusal};

/// A line of a table of routes.
pub trait Route {
    /// The method that it answers to.
    fn method(&self) -> Method;

    /// The path, and what logs call it. One segment at most is a parameter, in braces: it stands for any text.
    fn path(&self) -> &'static str;

    /// Whether it answers to HEAD as well.
    fn answers_head(&self) -> bool;
}

/// Finds the route of a request, and the value of its parameter (empty if it has none). `None` where no route of the table has
/// this path.
///
/// # Errors
/// 405: there are routes with this path, and none with this method.
pub fn find<'t, 'p, R: Route>(
    table: &'t [R],
    method: &str,
    path: &'p str,
) -> Option<Result<(&'t R, &'p str), Refusal>> {
    let here = || table.iter().filter_map(move |route| Some((route, parameter(route.path(), path)?)));
    let fits = |route: &R| route.method().as_str() == method || (method == "HEAD" && route.answers_head());
    if let Some(found) = here().find(|(route, _)| fits(route)) {
        return Some(Ok(found));
    }
    let mut allow = Vec::new();
    for (route, _) in here() {
        allow.push(route.method().as_str());
        if route.answers_head() {
            allow.push("HEAD");
        }
    }
    (!allow.is_empty()).then(|| Err(Refusal::method(allow.join(", "))))
}

/// The value of the parameter of a pattern, if the path fits it at all.
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
