//! The parameters of requests for a page of a list of things.

use api::{Issue, IssueType};
use http_core::{Query, Refusal};
use std::str::FromStr;

/// The most things of a page.
const LIMIT_MAX: usize = 100;
const LIMIT_DEFAULT: usize = 20;

/// Reads `limit` and `after`.
///
/// # Errors
///
/// 400: a value is not allowed.
pub fn parameters<T: FromStr>(query: &str) -> Result<(usize, Option<T>), Refusal> {
    let query = Query::parse(query).map_err(Refusal::invalid)?;
    let mut issues = Vec::new();
    let mut read = |name: &'static str| {
        query.get(name).unwrap_or_else(|issue| {
            issues.push(issue);
            None
        })
    };
    let (limit, after) = (read("limit"), read("after"));
    let mut page = (LIMIT_DEFAULT, None);
    if let Some(text) = limit {
        match text.parse() {
            Ok(limit) if (1..=LIMIT_MAX).contains(&limit) => page.0 = limit,
            _ => {
                let msg = format!("must be a number from 1 to {LIMIT_MAX}");
                let issue = Issue::new(&["query", "limit"], IssueType::OutOfRange, msg);
                issues.push(issue.ctx("minimum", 1).ctx("maximum", LIMIT_MAX));
            }
        }
    }
    if let Some(text) = after {
        match text.parse() {
            Ok(after) => page.1 = Some(after),
            Err(_) => {
                let msg = "must be the value of `next` of another page";
                issues.push(Issue::new(&["query", "after"], IssueType::StringPatternMismatch, msg));
            }
        }
    }
    if issues.is_empty() { Ok(page) } else { Err(Refusal::invalid(issues)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::ListId;

    #[test]
    fn pages_have_bounds() {
        let id = ListId::new(1, 2);
        let read = |query: &str| parameters::<ListId>(query).map_err(|refusal| refusal.body.detail.len());
        assert_eq!(read(""), Ok((20, None)));
        assert_eq!(read(&format!("limit=100&after={id}")), Ok((100, Some(id))));
        for (query, issues) in
            [("limit=0", 1), ("limit=101", 1), ("limit=x&after=y", 2), ("limit=1&limit=1", 1), ("after=", 1)]
        {
            assert_eq!(read(query), Err(issues), "{query}");
        }
    }
}
