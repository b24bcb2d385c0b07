//! `/docs`: the API reference, inside the dashboard or without a dashboard.

use super::page;
use crate::problem::Problem;
use crate::visit::Visit;
use http_core::Reply;
use maud::PreEscaped;

const TITLE: &str = "API reference";
/// Caches ask each time whether the page is still the same, because an upgrade can change it.
const KEPT: &str = "no-cache";

/// `GET /docs`: the API reference in the frame of the dashboard.
pub async fn show(visit: Visit) -> Result<Reply, Problem> {
    let body = PreEscaped(visit.dashboard.reference.to_string());
    let page = page::page_at(TITLE, Some("/docs"), visit.signed_in.as_ref(), body);
    // The page of a user has a form to sign out, with a secret: it is not public.
    Ok(if visit.signed_in.is_none() {
        page.header("cache-control", KEPT).header("vary", "cookie")
    } else {
        page
    })
}

/// `GET /docs` on a server without a dashboard: the same reference without navigation.
pub fn without_dashboard(reference: &str) -> Reply {
    page::bare(TITLE, PreEscaped(reference.to_owned())).header("cache-control", KEPT)
}
