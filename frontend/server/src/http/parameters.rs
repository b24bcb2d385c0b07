//! The refusal of query parameters that an operation does not know. The API description has the names.

use crate::router::Route;
use api::request::with_short_input;
use api::{Issue, IssueType, openapi};
use http_core::{Query, Refusal};
use std::collections::HashMap;
use std::sync::LazyLock;

/// The names by method and path. A test proves that the description can be read.
static NAMES: LazyLock<HashMap<String, Vec<String>>> =
    LazyLock::new(|| openapi::query_parameters().unwrap_or_default());

/// Largest number of different letters of a name that was probably meant.
const LETTERS_MAX: usize = 2;

/// Compares the names in a query with those of the operation. Operations that are not described take any.
///
/// # Errors
///
/// 400: a name is unknown, or the query cannot be decoded.
pub fn check(route: &Route, query: &str) -> Result<(), Refusal> {
    if query.is_empty() || route.ignores_unknown {
        return Ok(());
    }
    let Some(known) = NAMES.get(&format!("{} {}", route.method.as_str(), route.path)) else { return Ok(()) };
    let query = Query::parse(query).map_err(Refusal::invalid)?;
    match query.names().find(|name| !known.iter().any(|known| known == name)) {
        Some(name) => Err(Refusal::invalid(vec![unknown(name, known)])),
        None => Ok(()),
    }
}

fn unknown(name: &str, known: &[String]) -> Issue {
    let distance = |known: &&String| strsim::damerau_levenshtein(known, name);
    let nearest = known.iter().min_by_key(distance).filter(|known| distance(known) <= LETTERS_MAX);
    let msg = match nearest {
        Some(nearest) => format!("unknown parameter; did you mean `{nearest}`?"),
        None if known.is_empty() => "unknown parameter; this request has none".to_owned(),
        None => format!("unknown parameter; must be one of: {}", known.join(", ")),
    };
    with_short_input(Issue::new(&["query"], IssueType::Enum, msg).ctx("expected", known), name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router;

    fn check_query(operation: &str, query: &str, expected: Result<(), &str>) {
        let (method, path) = operation.split_once(' ').unwrap();
        let (route, _) = router::find(method, path).ok().unwrap();
        let found = check(route, query).map_err(|refusal| refusal.body.detail[0].msg.clone().into_owned());
        assert_eq!(
            found.as_ref().map_err(String::as_str),
            expected.as_ref().map_err(|msg| *msg),
            "{operation}?{query}"
        );
    }

    #[test]
    fn unknown_names_are_refused_outside_of_the_contract() {
        for operation in [
            "GET /v1/verify",
            "POST /v1/verify",
            "POST /v1/verify/batch",
            "GET /v1/verify/batch/bat_1",
            "HEAD /v1/account",
            "GET /v1/openapi.json",
            "GET /livez",
            "GET /docs",
        ] {
            check_query(operation, "moed=fast", Ok(()));
        }
        let column = Err("unknown parameter; did you mean `column`?");
        check_query("POST /v1/lists", "name=two&colum=private", column);
        check_query("POST /v1/lists", "Column=private", column);
        check_query("POST /v1/lists", "name=two&c%6flumn=private&&name=x", Ok(()));
        check_query(
            "GET /v1/lists",
            "limit=1&page=2",
            Err("unknown parameter; must be one of: limit, after"),
        );
        check_query("HEAD /v1/verify/batch", "limt=1", Err("unknown parameter; did you mean `limit`?"));
        check_query("GET /v1/lists/lst_1/results", "class=unknown&class=deliverable&format=csv", Ok(()));
        check_query("GET /v1/webhooks/whk_1/deliveries", "after=x", Ok(()));
        let none = Err("unknown parameter; this request has none");
        for operation in [
            "PATCH /v1/lists/lst_1",
            "DELETE /v1/lists/lst_1",
            "POST /v1/lists/lst_1/start",
            "POST /v1/verify/batch/bat_1/cancel",
            "POST /v1/webhooks",
            "GET /v1/account/export",
        ] {
            check_query(operation, "x", none);
        }
        check_query("GET /v1/webhooks", "", Ok(()));
        check_query("GET /v1/webhooks", "a=%", Err("a broken percent escape, or one that is not UTF-8"));
    }
}
