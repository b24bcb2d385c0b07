//! `GET /v1/lists/{list_id}/results`: the rows of a list with their verdicts, made while they are sent.

use super::{find, flag, invalid_state};
use crate::call::Call;
use api::request::{Choice, choice};
use http_core::Reply;
use http_core::{Query, Refusal};
use list_work::downloads::Opened;
use list_work::results::{ResultFormat, Selection, Wanted};
use lists::Class;
use store::{ListState, StoreError};

/// A value of the parameter `format`.
#[derive(Clone, Copy, PartialEq)]
struct WantedFormat(ResultFormat);

impl Choice for WantedFormat {
    const VALUES: &'static [(&'static str, WantedFormat)] = &[
        ("csv", WantedFormat(ResultFormat::Csv)),
        ("jsonl", WantedFormat(ResultFormat::Jsonl)),
        ("xlsx", WantedFormat(ResultFormat::Xlsx)),
    ];
}

/// A value of the parameter `class`: a class of verdicts.
#[derive(Clone, Copy, PartialEq)]
struct WantedClass(Class);

impl Choice for WantedClass {
    const VALUES: &'static [(&'static str, WantedClass)] = &[
        (Class::Deliverable.as_str(), WantedClass(Class::Deliverable)),
        (Class::Undeliverable.as_str(), WantedClass(Class::Undeliverable)),
        (Class::Unknown.as_str(), WantedClass(Class::Unknown)),
    ];
}

/// Opens the results of a list after its check.
pub async fn results(call: Call) -> Result<Reply, Refusal> {
    let selection = selection(&call.query)?;
    let list = find(&call).await?;
    match list.state {
        ListState::Completed => {}
        ListState::Cancelled if list.addresses > 0 => {}
        ListState::Cancelled => return Err(invalid_state("The list was cancelled before it was read.")),
        ListState::Unfit if list.done > 0 => {}
        ListState::Unfit => {
            return Err(invalid_state(
                "The list cannot be checked, so it has no results. `problem` says why.",
            ));
        }
        ListState::Paused => {
            return Err(invalid_state(
                "The list is paused. Its results can be read when it is `completed`: start it again, or cancel it to get the results so far.",
            ));
        }
        _ => {
            return Err(invalid_state(
                "The results of a list can be read when its `status` is `completed` or `cancelled`, or `unfit` after it was `running`. Until then, its `counts` has the verdicts so far.",
            ));
        }
    }
    let (name, wanted) = (list.name.clone(), Wanted::Rows(selection.clone()));
    let by = call.caller()?.authority();
    let opened = call.worker.shared.lists.downloads.open(list, wanted, by).await;
    let Opened { content_type, ending, pieces } = opened.map_err(|error| match error {
        StoreError::Busy => {
            let message = "Too many downloads are open now; retry when one has ended.";
            Refusal::new(api::ErrorCode::TemporarilyUnavailable, message).header("retry-after", "10")
        }
        over @ (StoreError::OverShare(_) | StoreError::OverQuota(_) | StoreError::Outdated) => over.into(),
        error => Refusal::unready().inside(format!("a list cannot be read: {error}")),
    })?;
    let place = call.pieces.as_ref().ok_or_else(|| Refusal::defect().inside("results have no place"))?;
    place.set(Some(pieces));
    let reply = Reply { status: 200, headers: Vec::new(), body: Vec::new() };
    let file = selection.file_name(&name, ending);
    Ok(reply
        .header("content-type", content_type)
        .header("content-disposition", format!("attachment; filename=\"{file}\"")))
}

fn selection(query: &str) -> Result<Selection, Refusal> {
    let query = Query::parse(query).map_err(Refusal::invalid)?;
    let mut issues = Vec::new();
    let format = query
        .get("format")
        .and_then(|text| text.map(|text| choice::<WantedFormat>(["query", "format"], text)).transpose());
    let format = format.unwrap_or_else(|issue| {
        issues.push(issue);
        None
    });
    let mut classes = Vec::new();
    for text in query.all("class") {
        match choice::<WantedClass>(["query", "class"], text) {
            Ok(WantedClass(class)) => classes.push(class),
            Err(issue) => issues.push(issue),
        }
    }
    let evidence = flag(&query, "evidence", &mut issues) == Some(true);
    if !issues.is_empty() {
        issues.truncate(10);
        return Err(Refusal::invalid(issues));
    }
    let format = format.map_or(ResultFormat::Own, |WantedFormat(format)| format);
    Ok(Selection { format, classes, evidence })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_selected_by_format_and_class() {
        let read = |query: &str| selection(query).map_err(|refusal| refusal.body.detail.len());
        assert_eq!(read(""), Ok(Selection::ALL));
        let classes = vec![Class::Unknown, Class::Deliverable];
        let (format, evidence) = (ResultFormat::Jsonl, true);
        let query = "class=unknown&format=jsonl&class=deliverable&evidence=true";
        assert_eq!(read(query), Ok(Selection { format, classes, evidence }));
        assert_eq!(read("evidence=false"), Ok(Selection::ALL));
        for (query, issues) in [
            ("evidence=yes", 1),
            ("format=ods", 1),
            ("format=csv&format=csv", 1),
            ("class=good&format=", 2),
            ("class=", 1),
        ] {
            assert_eq!(read(query), Err(issues), "{query}");
        }
    }
}
