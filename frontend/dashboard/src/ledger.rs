//! The newest entries of the ledger, in words, on the page `/usage`.

use super::page::{self, time};
use crate::lists::pages as list_pages;
use crate::problem::Problem;
use crate::visit::Visit;
use lists::numbers::grouped;
use maud::{Markup, html};
use std::collections::HashMap;
use store::{
    AccountId, BatchId, BatchSummary, ChargedFor, Entry, EntryKind, LEDGER_ENTRIES_READ, LedgerLine, List,
    ListId, UnixMs, ledger_lines,
};

/// How many lines the table has at most.
const LINES_SHOWN: usize = 20;

/// How many batches are read for their names: those of the lines are among the newest.
const BATCHES_READ: usize = 100;

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
    let entries = store.entries(account, LEDGER_ENTRIES_READ).await?;
    let read = entries.len();
    let mut lines = ledger_lines(entries);
    let batches = store.batches(account, None, BATCHES_READ, now).await?.batches;
    let lists = store.lists(account, now).await?;
    let named = Named {
        batches: batches.into_iter().map(|batch| (batch.batch, batch)).collect(),
        lists: lists.into_iter().map(|list| (list.id, list)).collect(),
    };
    let is_cut = read == LEDGER_ENTRIES_READ || lines.len() > LINES_SHOWN;
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

fn row(line: &LedgerLine, named: &Named) -> Markup {
    html! {
        tr {
            td data-label="Time" { (time(line.sum.at)) }
            td.wrap data-label="For" { (words(line, named)) }
            td.number data-label="Credits" { (numbers(line)) }
        }
    }
}

/// The changes of the credits: most lines have one.
fn numbers(line: &LedgerLine) -> String {
    let Entry { spent, expired, granted, .. } = line.sum;
    let changes = [(spent, "spent"), (expired, "expired"), (granted, "granted")];
    let changes = changes.iter().filter(|(number, _)| *number > 0);
    changes.map(|(number, what)| format!("{} {what}", grouped(*number))).collect::<Vec<_>>().join(", ")
}

fn words(line: &LedgerLine, named: &Named) -> Markup {
    match (line.sum.kind, line.sum.charged_for()) {
        (_, Some(ChargedFor::Batch(id))) => html! {
            "Batch "
            @match named.batches.get(&id) {
                Some(BatchSummary { name: Some(name), .. }) => a href={ "/batches/" (id) } { (name) },
                Some(_) => a.mono href={ "/batches/" (id) } { (id) },
                None => { span.mono { (id) } ", not kept any longer" },
            }
        },
        (_, Some(ChargedFor::List(id))) => html! {
            "List "
            @match named.lists.get(&id) {
                Some(list) => a href={ "/lists/" (id) } { (list_pages::name(list)) },
                None => { span.mono { (id) } ", not kept any longer" },
            }
        },
        (EntryKind::Settled | EntryKind::Voided, None) => html! {
            @match line.entries {
                _ if !line.is_single_checks() => "Batch or list",
                1 => "Single check",
                many => { (grouped(many)) " single checks" },
            }
        },
        (EntryKind::Period, None) => html! { "New period of the plan" },
        (EntryKind::PlanChange, None) => html! { "Change of the plan or its status" },
        (EntryKind::Pack, None) => {
            html! { "Pack credits" @if !line.sum.note.is_empty() { ": " (line.sum.note) } }
        }
        (EntryKind::Carried, None) => html! { "Sum of older entries" },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::EntryId;
    use store::credits::calendar::DAY_MS;

    fn entry(at: UnixMs, kind: EntryKind, spent: u64, note: &str) -> Entry {
        Entry { id: EntryId::new(at, 1), kind, at, granted: 0, spent, expired: 0, note: note.into() }
    }

    #[test]
    fn entries_of_one_purpose_and_day_are_one_line() {
        let list = ListId::new(1, 1);
        let (of_list, of_batch) = (format!("list {list}"), format!("batch {}", BatchId::new(1, 2)));
        let mut entries = vec![
            entry(DAY_MS + 9, EntryKind::Settled, 200, &of_list),
            entry(DAY_MS + 8, EntryKind::Settled, 7, &of_list),
            entry(DAY_MS + 7, EntryKind::Settled, 1, ""),
            entry(DAY_MS + 6, EntryKind::Voided, 0, ""),
            entry(DAY_MS + 5, EntryKind::Settled, 1, ""),
            entry(DAY_MS - 1, EntryKind::Settled, 1, ""),
            entry(4, EntryKind::Settled, 3, &of_batch),
            entry(3, EntryKind::Settled, 3, &of_batch),
            entry(2, EntryKind::Settled, 2, ""),
            Entry { granted: 5_000, expired: 12, ..entry(1, EntryKind::Pack, 0, "invoice-1") },
        ];
        // A cancelled list returns what it held for its parts: no sum changes.
        entries.extend((0..20).map(|n| entry(DAY_MS + 10 + n, EntryKind::Voided, 0, &of_list)));
        let lines = ledger_lines(entries);
        let shown: Vec<_> = lines.iter().map(|line| (line.entries, line.sum.spent)).collect();
        assert_eq!(shown, [(2, 207), (2, 2), (1, 1), (1, 3), (1, 3), (1, 2), (1, 0)]);
        assert_eq!(lines[0].sum.at, DAY_MS + 9);
        let named = Named { batches: HashMap::new(), lists: HashMap::new() };
        let said: Vec<_> = lines.iter().map(|line| words(line, &named).into_string()).collect();
        let expected = ["2 single checks", "Single check", "Batch or list", "Pack credits: invoice-1"];
        assert_eq!([&said[1], &said[2], &said[5], &said[6]], expected);
        let numbers = [&lines[0], &lines[6]].map(numbers);
        assert_eq!(numbers, ["207 spent", "12 expired, 5,000 granted"]);
    }

    #[test]
    fn only_what_still_exists_has_a_link() {
        let (list, batch) = (ListId::new(1, 1), BatchId::new(1, 2));
        let lines = ledger_lines(vec![
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
