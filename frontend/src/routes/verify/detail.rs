//! `detail=full` on a full check of a live key: gathered behind the verdict, free, and never what a check fails for.

use crate::detail::detail;
use crate::worker::Worker;
use api::{Detail, Reason};
use engine::proto::address::Address;

/// The detail of an address that was checked.
pub async fn gather(worker: &Worker, address: &Address, reason: Reason) -> Detail {
    let facts = worker.engine.facts(address.domain().clone()).await;
    detail(address, reason, facts)
}
