//! `GET /docs` and its assets, on a server without a dashboard.

use crate::call::Call;
use dashboard::{assets, docs};
use http_core::{Refusal, Reply};

/// `GET /docs`: the reference of the API as a page.
pub async fn show(call: Call) -> Result<Reply, Refusal> {
    Ok(docs::without_dashboard(&call.worker.shared.reference))
}

/// `GET /assets/{name}`: the style and the script of the reference.
pub async fn asset(call: Call) -> Result<Reply, Refusal> {
    assets::find(&call.parameter).ok_or_else(Refusal::no_such_path)
}
