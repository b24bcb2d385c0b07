//! `/docs`: the API reference, inside the dashboard or without a dashboard.

use super::page;
use crate::problem::Problem;
use crate::visit::Visit;
use http_core::Reply;
use maud::PreEscaped;

const TITLE: &str = "API reference";

/// `GET /docs`: the API reference in the frame of the dashboard.
pub async fn show(visit: Visit) -> Result<Reply, Problem> {
    let body = PreEscaped(visit.dashboard.reference.to_string());
    Ok(page::page_at(TITLE, Some("/docs"), visit.signed_in.as_ref(), body))
}

/// `GET /docs` on a server without a dashboard: the same reference without navigation.
pub fn without_dashboard(reference: &str) -> Reply {
    page::bare(TITLE, PreEscaped(reference.to_owned()))
}
