//! `/livez`: the process answers. `/readyz`: requests are welcome, 503 while starting or draining.

use crate::refusal::Refusal;
use crate::router::{Call, Reply};
use crate::status::Phase;
use serde::Serialize;

#[derive(Serialize)]
struct Health {
    status: &'static str,
}

/// `GET /livez`.
pub async fn live(_call: Call) -> Result<Reply, Refusal> {
    Reply::json(200, &Health { status: "ok" })
}

/// `GET /readyz`.
pub async fn ready(call: Call) -> Result<Reply, Refusal> {
    match call.worker.status.phase() {
        Phase::Ready => Reply::json(200, &Health { status: "ok" }),
        Phase::Starting | Phase::Draining => Err(Refusal::unready()),
    }
}
