//! `GET /lists/{id}/download` and `GET /lists/{id}/report`: the rows of a list with their verdicts, and the report about them.
//!
//! Both are made piece by piece while they are sent, so the use of memory does not depend on the length of the list. A separate
//! thread makes them ([`list_work::downloads`]).

use crate::page;
use crate::problem::Problem;
use crate::visit::Visit;
use http_core::Reply;
use list_work::downloads::Opened;
use list_work::results::{ReportRequest, ResultFormat, Selection, Wanted};
use lists::Class;
use store::{Authority, List, ListState, StoreError, UnixMs, clock};

/// The values of the field `format`, with the words for people. The first one is the default.
pub const FORMATS: [(&str, &str, ResultFormat); 4] = [
    ("", "Format of the list", ResultFormat::Own),
    ("csv", "CSV", ResultFormat::Csv),
    ("xlsx", "Spreadsheet (xlsx)", ResultFormat::Xlsx),
    ("jsonl", "JSON lines", ResultFormat::Jsonl),
];

/// Opens the download of rows of a list after its check. The query has the fields `class` and `format`, which can be empty.
pub async fn show(visit: Visit) -> Result<Reply, Problem> {
    let unknown = || Problem::new(400, "Choose the rows and the format on the page of the list.");
    let class = visit.query("class").filter(|name| !name.is_empty());
    let class = class.map(|name| Class::parse(&name).ok_or_else(unknown)).transpose()?;
    let wanted = visit.query("format").unwrap_or_default();
    let format = FORMATS.iter().find(|(value, ..)| *value == wanted).ok_or_else(unknown)?.2;
    let list = checked_list(&visit).await?;
    let selection = Selection { format, classes: Vec::from_iter(class), evidence: false };
    let (name, wanted) = (list.name.clone(), Wanted::Rows(selection.clone()));
    let Opened { content_type, ending, pieces } = open(&visit, list, wanted).await?;
    let file = selection.file_name(&name, ending);
    visit.pieces.set(Some(pieces));
    let reply = Reply { status: 200, headers: Vec::new(), body: Vec::new() };
    Ok(reply
        .header("content-type", content_type)
        .header("content-disposition", format!("attachment; filename=\"{file}\"")))
}

/// Opens the report about a list after its check.
pub async fn report(visit: Visit) -> Result<Reply, Problem> {
    let list = checked_list(&visit).await?;
    let request = ReportRequest {
        lists: visit.checks.engine.lists(),
        name: super::pages::name(&list).to_owned(),
        date: date(&list, clock::now()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        back: format!("/lists/{}", list.id),
    };
    let opened = open(&visit, list, Wanted::Report(request)).await?;
    visit.pieces.set(Some(opened.pieces));
    Ok(page::report_reply().header("content-type", opened.content_type))
}

/// When the check of a list ended. Of lists that an earlier version has ended, only the time at which the report is opened is known.
fn date(list: &List, now: UnixMs) -> String {
    let text = |at: UnixMs| lists::utc_text(at / 1000).replace('T', " ").replace('Z', " UTC");
    match list.ended_at {
        0 => format!("Opened at {}", text(now)),
        ended_at => text(ended_at),
    }
}

/// The list that the path names, if it has results.
async fn checked_list(visit: &Visit) -> Result<List, Problem> {
    let list = super::pages::find(visit).await?;
    let has_results = match list.state {
        ListState::Completed => true,
        ListState::Cancelled => list.addresses > 0,
        ListState::Unfit => list.done > 0,
        _ => false,
    };
    if has_results { Ok(list) } else { Err(Problem::new(409, "The check of this list is not complete yet.")) }
}

async fn open(visit: &Visit, list: List, wanted: Wanted) -> Result<Opened, Problem> {
    let by = Authority::session(visit.signed_in()?.session);
    visit.dashboard.lists.downloads.open(list, wanted, by).await.map_err(|error| match error {
        StoreError::Busy => {
            Problem::new(503, "Too many downloads are open now. Wait until one ends, then try again.")
                .header("retry-after", "10")
        }
        over @ (StoreError::OverShare(_) | StoreError::OverQuota(_) | StoreError::Outdated) => over.into(),
        error => Problem::unready().inside(format!("a list cannot be read: {error}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::{AccountId, ListId};

    #[test]
    fn the_date_of_a_report_is_the_end_of_the_check() {
        let list = List::new(ListId::new(0, 1), AccountId::new(0, 1), 0, String::new());
        assert_eq!(date(&list, 86_400_000), "Opened at 1970-01-02 00:00:00 UTC");
        let list = List { ended_at: 61_000, ..list };
        assert_eq!(date(&list, 86_400_000), "1970-01-01 00:01:01 UTC");
    }
}
