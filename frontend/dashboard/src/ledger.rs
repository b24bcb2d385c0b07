//! The newest entries of the ledger, in words, on the page `/usage`.

use super::page::{self, time};
use crate::lists::pages as list_pages;
use crate::problem::Problem;
use crate::visit::Visit;
use lists::numbers::grouped;
use maud::{Markup, html};
use std::collections::HashMap;
use store::credits::calendar::DAY_MS;
use store::{AccountId, BatchId, BatchSummary, ChargedFor, Entry, EntryKind, List, ListId, UnixMs};

/// How many entries are read: a large list has one for each of its batches.
const ENTRIES_READ: usize = 1_000;

/// How many lines the table has at most.
const LINES_SHOWN: usize = 20;

/// How many batches are read for their names: those of the lines are among the newest.
const BATCHES_READ: usize = 100;

/// What the entries of a line have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Purpose {
    Charge(ChargedFor),
    /// Single checks of one day, or returned credits of such checks.
    Single,
    /// A batch, or a part of a list, that ended in an earlier version.
    Unnamed,
    Period,
    PlanChange,
    /// Pack credits, with the note of the operator.
    Pack(String),
    Carried,
}

/// Entries that follow one another and have the same purpose.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    purpose: Purpose,
    /// The time of the newest entry.
    at: UnixMs,
    entries: u64,
    granted: u64,
    spent: u64,
    expired: u64,
}

fn purpose(entry: &Entry) -> Purpose {
    match (entry.kind, entry.charged_for()) {
        (_, Some(charge)) => Purpose::Charge(charge),
        (EntryKind::Settled | EntryKind::Voided, None) if entry.spent > 1 => Purpose::Unnamed,
        (EntryKind::Settled | EntryKind::Voided, None) => Purpose::Single,
        (EntryKind::Period, None) => Purpose::Period,
        (EntryKind::PlanChange, None) => Purpose::PlanChange,
        (EntryKind::Pack, None) => Purpose::Pack(entry.note.clone()),
        (EntryKind::Carried, None) => Purpose::Carried,
    }
}

/// The lines of these entries, newest first. Entries that changed no sum are left out.
fn lines(entries: &[Entry]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for entry in entries {
        let &Entry { at, granted, spent, expired, .. } = entry;
        if granted == 0 && spent == 0 && expired == 0 {
            continue;
        }
        let purpose = purpose(entry);
        let is_sum = matches!(purpose, Purpose::Charge(ChargedFor::List(_)) | Purpose::Single);
        let last = lines
            .last_mut()
            .filter(|last| is_sum && last.purpose == purpose && last.at / DAY_MS == at / DAY_MS);
        match last {
            Some(last) => {
                last.entries += 1;
                last.granted += granted;
                last.spent += spent;
                last.expired += expired;
            }
            None => lines.push(Line { purpose, at, entries: 1, granted, spent, expired }),
        }
    }
    lines
}

/// The batches and lists that still exist, for the links.
struct Named {
    batches: HashMap<BatchId, BatchSummary>,
    lists: HashMap<ListId, List>,
}

/// The table of the newest changes of the account's credits.
///
/// # Errors
/// The store failed.
pub async fn table(visit: &Visit, account: AccountId, now: UnixMs) -> Result<Markup, Problem> {
    let store = &visit.checks.store;
    let mut entries = store.entries(account, ENTRIES_READ).await?;
    // They are in the order of their ids. The ids of a list's batches have the time of its upload.
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.at));
    let batches = store.batches(account, None, BATCHES_READ, now).await?.batches;
    let lists = store.lists(account, now).await?;
    let named = Named {
        batches: batches.into_iter().map(|batch| (batch.batch, batch)).collect(),
        lists: lists.into_iter().map(|list| (list.id, list)).collect(),
    };
    let mut lines = lines(&entries);
    let is_cut = entries.len() == ENTRIES_READ || lines.len() > LINES_SHOWN;
    lines.truncate(LINES_SHOWN);
    Ok(html! {
        @if lines.is_empty() {
            p.empty { "No credits were granted or spent." }
        } @else {
            (page::table("Credits", &["Time", "For", "#Credits"], html! { @for line in &lines { (row(line, &named)) } }))
        }
        p.soft {
            "The charge of a batch or of a part of a list has the time of its last result. "
            @if is_cut { "Earlier changes are not shown. " }
            "The " a href="/sessions" { "export of the account" } " has each change by itself."
        }
    })
}

fn row(line: &Line, named: &Named) -> Markup {
    html! {
        tr {
            td data-label="Time" { (time(line.at)) }
            td.wrap data-label="For" { (words(line, named)) }
            td.number data-label="Credits" { (numbers(line)) }
        }
    }
}

/// The changes of the credits: most lines have one.
fn numbers(line: &Line) -> String {
    let changes = [(line.spent, "spent"), (line.expired, "expired"), (line.granted, "granted")];
    let changes = changes.iter().filter(|(number, _)| *number > 0);
    changes.map(|(number, what)| format!("{} {what}", grouped(*number))).collect::<Vec<_>>().join(", ")
}

fn words(line: &Line, named: &Named) -> Markup {
    match &line.purpose {
        Purpose::Charge(ChargedFor::Batch(id)) => html! {
            "Batch "
            @match named.batches.get(id) {
                Some(BatchSummary { name: Some(name), .. }) => a href={ "/batches/" (id) } { (name) },
                Some(_) => a.mono href={ "/batches/" (id) } { (id) },
                None => { span.mono { (id) } ", not kept any longer" },
            }
        },
        Purpose::Charge(ChargedFor::List(id)) => html! {
            "List "
            @match named.lists.get(id) {
                Some(list) => a href={ "/lists/" (id) } { (list_pages::name(list)) },
                None => { span.mono { (id) } ", not kept any longer" },
            }
        },
        Purpose::Single if line.entries == 1 => html! { "Single check" },
        Purpose::Single => html! { (grouped(line.entries)) " single checks" },
        Purpose::Unnamed => html! { "Batch or list" },
        Purpose::Period => html! { "New period of the plan" },
        Purpose::PlanChange => html! { "Change of the plan or its status" },
        Purpose::Pack(note) => html! { "Pack credits" @if !note.is_empty() { ": " (note) } },
        Purpose::Carried => html! { "Sum of older entries" },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::EntryId;

    fn entry(at: UnixMs, kind: EntryKind, spent: u64, note: &str) -> Entry {
        Entry { id: EntryId::new(at, 1), kind, at, granted: 0, spent, expired: 0, note: note.into() }
    }

    fn line_of(entry: &Entry) -> Line {
        lines(std::slice::from_ref(entry)).remove(0)
    }

    #[test]
    fn entries_of_one_purpose_and_day_are_one_line() {
        let list = ListId::new(1, 1);
        let (of_list, of_batch) = (format!("list {list}"), format!("batch {}", BatchId::new(1, 2)));
        let entries = [
            entry(DAY_MS + 9, EntryKind::Settled, 200, &of_list),
            entry(DAY_MS + 8, EntryKind::Settled, 7, &of_list),
            entry(DAY_MS + 7, EntryKind::Settled, 1, ""),
            entry(DAY_MS + 6, EntryKind::Voided, 0, ""),
            entry(DAY_MS + 5, EntryKind::Settled, 1, ""),
            entry(DAY_MS - 1, EntryKind::Settled, 1, ""),
            entry(4, EntryKind::Settled, 3, &of_batch),
            entry(3, EntryKind::Settled, 3, &of_batch),
            entry(2, EntryKind::Settled, 2, ""),
        ];
        let lines = lines(&entries);
        let shown: Vec<_> = lines.iter().map(|line| (line.entries, line.spent)).collect();
        assert_eq!(shown, [(2, 207), (2, 2), (1, 1), (1, 3), (1, 3), (1, 2)]);
        assert_eq!((lines[0].at, &lines[5].purpose), (DAY_MS + 9, &Purpose::Unnamed));
        let line = Line { granted: 5_000, expired: 12, spent: 0, ..line_of(&entries[0]) };
        assert_eq!(
            (numbers(&lines[0]), numbers(&line)),
            ("207 spent".into(), "12 expired, 5,000 granted".into())
        );
    }

    #[test]
    fn only_what_still_exists_has_a_link() {
        let (list, batch) = (ListId::new(1, 1), BatchId::new(1, 2));
        let lines = lines(&[
            entry(2, EntryKind::Settled, 200, &format!("list {list}")),
            entry(1, EntryKind::Settled, 7, &format!("batch {batch}")),
        ]);
        let named = Named { batches: HashMap::new(), lists: HashMap::new() };
        let shown: String = lines.iter().map(|line| words(line, &named).into_string()).collect();
        assert!(!shown.contains("href") && shown.contains(&batch.to_string()), "{shown}");
        let of_account = List::new(list, AccountId::new(1, 3), 1, "spring.csv".into());
        let named = Named { lists: HashMap::from([(list, of_account)]), ..named };
        let shown = words(&lines[0], &named).into_string();
        assert_eq!(shown, format!("List <a href=\"/lists/{list}\">spring.csv</a>"));
    }
}
