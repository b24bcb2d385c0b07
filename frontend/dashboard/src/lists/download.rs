//! `GET /lists/{id}/download`: the list as it came, with `deliverable` and `reason` behind every row.
//!
//! It is made piece by piece as the caller takes it, so that memory does not depend on its length, and on a thread of its own
//! ([`downloads`](super::downloads)).

use super::downloads::Opened;
use crate::problem::Problem;
use crate::visit::Visit;
use http_core::Reply;
use lists::Format;
use store::{ListState, StoreError};

/// `GET /lists/{id}/download`.
pub async fn show(visit: Visit) -> Result<Reply, Problem> {
    let list = super::pages::find(&visit)?;
    if list.state != ListState::Completed {
        return Err(Problem::new(409, "The list is not checked to its end yet."));
    }
    let not_opened = |error| match error {
        StoreError::Busy => {
            Problem::new(503, "Too many downloads are open just now. Wait until one ends, then try again.")
                .header("retry-after", "10")
        }
        error => Problem::unready().inside(format!("a list cannot be read: {error}")),
    };
    let Opened { format, pieces } = visit.dashboard.downloads.open(list).await.map_err(not_opened)?;
    let (kind, file) = match format {
        Format::Jsonl => ("application/x-ndjson", "mailprobe-list.jsonl"),
        Format::Csv | Format::Text => ("text/csv; charset=utf-8", "mailprobe-list.csv"),
    };
    visit.pieces.set(Some(pieces));
    let reply = Reply { status: 200, headers: Vec::new(), body: Vec::new() };
    Ok(reply
        .header("content-type", kind)
        .header("content-disposition", format!("attachment; filename=\"{file}\"")))
}
