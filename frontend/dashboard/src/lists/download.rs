//! `GET /lists/{id}/download`: the uploaded list, with `deliverable` and `reason` after each row.
//!
//! The download is made piece by piece while it is sent, so the use of memory does not depend on its length. A separate
//! thread makes it ([`list_work::downloads`]).

use crate::problem::Problem;
use crate::visit::Visit;
use http_core::Reply;
use list_work::downloads::Opened;
use list_work::results::Selection;
use lists::Format;
use store::{ListState, StoreError};

/// `GET /lists/{id}/download`: opens the download of a list whose check has ended.
pub async fn show(visit: Visit) -> Result<Reply, Problem> {
    let list = super::pages::find(&visit).await?;
    let has_results = match list.state {
        ListState::Completed => true,
        ListState::Cancelled => list.addresses > 0,
        _ => false,
    };
    if !has_results {
        return Err(Problem::new(409, "The check of this list is not complete yet."));
    }
    let not_opened = |error| match error {
        StoreError::Busy => {
            Problem::new(503, "Too many downloads are open now. Wait until one ends, then try again.")
                .header("retry-after", "10")
        }
        error => Problem::unready().inside(format!("a list cannot be read: {error}")),
    };
    let Opened { format, encoding, pieces } =
        visit.dashboard.lists.downloads.open(list, Selection::ALL).await.map_err(not_opened)?;
    let (kind, file) = match format {
        Format::Jsonl => ("application/x-ndjson".to_owned(), "mailprobe-list.jsonl"),
        Format::Csv | Format::Text => {
            (format!("text/csv; charset={}", encoding.name().to_ascii_lowercase()), "mailprobe-list.csv")
        }
    };
    visit.pieces.set(Some(pieces));
    let reply = Reply { status: 200, headers: Vec::new(), body: Vec::new() };
    Ok(reply
        .header("content-type", kind)
        .header("content-disposition", format!("attachment; filename=\"{file}\"")))
}
