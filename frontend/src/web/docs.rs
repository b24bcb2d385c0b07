//! `/docs`: the API reference ([`reference`](crate::reference)), with and without a dashboard around it.

use super::{Problem, Visit, assets, page};
use crate::router::Call;
use http_core::Refusal;
use http_core::Reply;
use maud::PreEscaped;

const TITLE: &str = "API reference";

/// `GET /docs`.
pub async fn show(visit: Visit) -> Result<Reply, Problem> {
    let body = PreEscaped(visit.worker.commons.reference.clone());
    Ok(page::page_at(TITLE, Some("/docs"), visit.signed_in.as_ref(), body))
}

/// `GET /docs` of a server without a dashboard.
pub async fn show_alone(call: Call) -> Result<Reply, Refusal> {
    Ok(page::bare(TITLE, PreEscaped(call.worker.commons.reference.clone())))
}

/// `GET /assets/{name}` of a server without a dashboard: what the reference needs.
pub async fn asset(call: Call) -> Result<Reply, Refusal> {
    assets::find(&call.parameter).ok_or_else(Refusal::no_such_path)
}
