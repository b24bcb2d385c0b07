//! `/lists` and `/lists/{id}`: the upload of a list, the start and the end of its check, and its state.

use super::download;
use crate::form::token_field;
use crate::page::{UNASKED, notice, time, with_code};
use crate::problem::Problem;
use crate::redirect;
use crate::visit::Visit;
use crate::{chart, page, plan};
use api::{Reason, UnverifiableCause};
use http_core::Reply;
use list_work::actions::{Progress, StartError, remaining_price};
use list_work::in_words_of_the_form;
use lists::Notes;
use lists::numbers::{counted, grouped};
use maud::{Markup, html};
use store::clock;
use store::{Account, Authority, FoundAddresses, KeyMode, List, ListId, ListState};

/// `GET /lists`: all lists of the account.
pub async fn index(visit: Visit) -> Result<Reply, Problem> {
    render(&visit, None).await
}

/// `GET /lists/{id}`: the state of a list.
pub async fn show(visit: Visit) -> Result<Reply, Problem> {
    let list = find(&visit).await?;
    show_list(&visit, &list, None).await
}

fn credits_text(number: u64) -> String {
    counted(number, "credit", "credits")
}

/// `POST /lists/{id}/start`. Each batch checks the credits again.
pub async fn start(visit: Visit) -> Result<Reply, Problem> {
    let list = find(&visit).await?;
    let by = Authority::session(visit.signed_in()?.session);
    if list.state == ListState::Completed {
        return unchanged(&visit, &list, "There is nothing to start").await;
    }
    let why = match visit.dashboard.lists.actions.start(list.clone(), by).await {
        Ok(_) => return Ok(redirect::see_other(format!("/lists/{}", list.id))),
        Err(StartError::State(_)) => return unchanged(&visit, &list, "The check cannot start").await,
        Err(StartError::Insufficient { required, available }) => format!(
            "The addresses that are left cost about {}, and the account has {}. Get more credits, then start the list again.",
            credits_text(required),
            grouped(available)
        ),
        Err(StartError::Inactive { status, .. }) => status.refusal(),
        Err(StartError::Gone) => return Err(Problem::not_found()),
        Err(StartError::Store(error)) => return Err(error.into()),
    };
    Ok(page::with_status(show_list(&visit, &list, Some(&why)).await?, 402))
}

/// `POST /lists/{id}/cancel`: ends the check of a list of the account.
pub async fn cancel(visit: Visit) -> Result<Reply, Problem> {
    let list = find(&visit).await?;
    if matches!(list.state, ListState::Completed | ListState::Cancelled | ListState::Unfit) {
        return unchanged(&visit, &list, "There is nothing to cancel").await;
    }
    visit.dashboard.lists.actions.cancel(list.account, list.id).await?;
    Ok(redirect::see_other(format!("/lists/{}", list.id)))
}

/// The page of a list that is in a state in which the wanted action has no effect: the state, and what to do.
async fn unchanged(visit: &Visit, list: &List, what: &str) -> Result<Reply, Problem> {
    let why = match list.state {
        ListState::Uploading => "the upload is not complete yet. Wait for its end",
        ListState::Reading => "the list is being read. Wait until its cost is shown",
        ListState::Unfit => "the list cannot be checked. Correct it, and upload it again",
        ListState::Completed => "the check is complete. Its results can be downloaded below",
        ListState::Cancelled => {
            "the check was cancelled, which is final. Upload the list again to check the rest"
        }
        ListState::Ready | ListState::Running | ListState::Paused => "the state of the list has just changed",
    };
    Ok(page::with_status(show_list(visit, list, Some(&format!("{what}: {why}."))).await?, 409))
}

/// `POST /lists/{id}/delete`: deletes a list of the account.
pub async fn delete(visit: Visit) -> Result<Reply, Problem> {
    let list = find(&visit).await?;
    visit.dashboard.lists.actions.delete(list.account, list.id).await?;
    Ok(redirect::see_other("/lists"))
}

/// The list that the path names, if it belongs to the visitor.
pub async fn find(visit: &Visit) -> Result<List, Problem> {
    let id: ListId = visit.parameter.parse().map_err(|_| Problem::not_found())?;
    let account = visit.signed_in()?.account;
    visit.checks.store.list(account, id, clock::now()).await?.ok_or_else(Problem::not_found)
}

/// The page of all lists, with the form for an upload.
pub async fn render(visit: &Visit, wrong: Option<&str>) -> Result<Reply, Problem> {
    let signed_in = visit.signed_in()?;
    let lists = visit.checks.store.lists(signed_in.account, clock::now()).await?;
    let allowed = visit.checks.store.terms(signed_in.account).is_some_and(|terms| terms.batches_allowed);
    let mib = visit.dashboard.lists.bytes_max >> 20;
    let body = html! {
        h1 { "Lists" }
        (notice(wrong))
        @if allowed {
            section.card {
                h2 { "List upload" }
                form method="post" action="/lists" enctype="multipart/form-data" {
                    (token_field(&signed_in.csrf))
                    label for="column" { "Address column" }
                    input #column name="column" autocomplete="off" maxlength="200" aria-describedby="column-hint";
                    p.hint #column-hint { "The name of the column, or its number, starting at 1. If this field is empty, the column is found by its name or content." }
                    label for="header" { "Header" }
                    select #header name="header" {
                        option value="" { "found by its content" }
                        option value="yes" { "the first row is a header" }
                        option value="no" { "no header: the first row is checked too" }
                    }
                    label for="file" { "File" }
                    input #file name="file" type="file" required accept=".csv,.tsv,.txt,.jsonl,.xlsx,.ods,.gz,.zst,text/csv,text/plain" aria-describedby="file-hint";
                    p.hint #file-hint { "CSV, a spreadsheet (xlsx or ods), JSON lines or one address per line, compressed or not, at most " (mib) " MiB. You see the cost before the check starts." }
                    button type="submit" { "Upload" }
                }
            }
        } @else {
            p.notice.warn { "Lists are not included in this account's plan. See " a href="/plan" { "your plan" } "." }
        }
        @if lists.is_empty() {
            p.empty { "No lists yet." }
        } @else {
            (table(visit, &lists).await?)
            p.soft { "A list is deleted 7 days after its upload." }
        }
    };
    Ok(page::page_at("Lists", Some("/lists"), Some(signed_in), body))
}

/// A table of lists.
///
/// # Errors
/// The store failed.
pub async fn table(visit: &Visit, lists: &[List]) -> Result<Markup, Problem> {
    let mut rows = Vec::new();
    for list in lists {
        let (list, progress) = visit.dashboard.lists.actions.progress(list.clone()).await?;
        rows.push((list, progress.checked));
    }
    Ok(html! {
        (page::table("Lists", &["List", "Uploaded", "#Different addresses", "#Different addresses checked", "State"], html! {
            @for (list, checked) in rows { tr {
                td.wrap data-label="List" { a href={ "/lists/" (list.id) } { (name(&list)) } @if list.mode == KeyMode::Test { " " span.tag { "test" } } }
                td data-label="Uploaded" { (time(list.created_at)) }
                td.number data-label="Different addresses" { (grouped(list.to_check())) }
                td.number data-label="Different addresses checked" { (grouped(checked)) }
                td data-label="State" { (state(list.state)) }
            } }
        }))
    })
}

/// The name of a list; programs need not name theirs.
pub fn name(list: &List) -> &str {
    if list.name.is_empty() { "no name" } else { &list.name }
}

/// The state by its name in the API, with what it means if the name does not say it.
fn state(state: ListState) -> Markup {
    let (class, name) = match state {
        ListState::Uploading => ("tag", "uploading"),
        ListState::Reading => ("tag", "reading"),
        ListState::Unfit => ("tag bad", "unfit: cannot be checked"),
        ListState::Ready => ("tag warn", "ready: not started"),
        ListState::Running => ("tag", "running"),
        ListState::Paused => ("tag warn", "paused: could not be charged"),
        ListState::Completed => ("tag good", "completed"),
        ListState::Cancelled => ("tag warn", "cancelled"),
    };
    html! { span class=(class) { (name) } }
}

async fn show_list(visit: &Visit, list: &List, wrong: Option<&str>) -> Result<Reply, Problem> {
    let signed_in = visit.signed_in()?;
    let account = visit.checks.store.account(signed_in.account, clock::now()).await?;
    let account = account.ok_or_else(Problem::not_found)?;
    let (list, progress) = visit.dashboard.lists.actions.progress(list.clone()).await?;
    let at_work = matches!(list.state, ListState::Uploading | ListState::Reading | ListState::Running);
    let body = html! {
        h1.wrap { (name(&list)) }
        (notice(wrong))
        div #progress data-refresh=[at_work.then(|| format!("/lists/{}", list.id))] {
            p { (state(list.state)) }
            (standing(visit, &list, &account, &progress)?)
            // The card of a ready list has this beside the column that is checked.
            @if list.state != ListState::Ready && let Some(found) = &list.found {
                @if let Some(others) = left_out(found) { p.soft { (OTHER_COLUMNS) ": " (others) "." } }
                @if let Some(unusual) = unusual(found) { p.soft { (unusual) "." } }
            }
            @if matches!(list.state, ListState::Running | ListState::Paused) {
                form method="post" action={ "/lists/" (list.id) "/cancel" } {
                    (token_field(&signed_in.csrf))
                    button.small.quiet type="submit" { "Cancel check" }
                }
                p.soft { "A cancelled check cannot be continued. Addresses that were not checked are not charged, and the results so far can then be downloaded." }
            }
        }
        details.confirm {
            summary { "Delete list" }
            form method="post" action={ "/lists/" (list.id) "/delete" } {
                (token_field(&signed_in.csrf))
                p.soft { "The list and its results cannot be restored." }
                button.danger.small type="submit" { "Delete list" }
            }
        }
        p.soft { "The list is deleted automatically at " (time(list.expires_at())) "." }
    };
    Ok(page::page_at("List", Some("/lists"), Some(signed_in), body))
}

/// Where the addresses of a list are, so that its owner sees what is left out.
fn found_in(found: &FoundAddresses) -> Markup {
    let named = |name: &str, number: u32, of: u32| {
        html! { @if !name.is_empty() { (name) " (" (number) " of " (of) ")" } @else { (number) " of " (of) } }
    };
    html! {
        @if found.sheets > 0 { dt { "Sheet" } dd.wrap { (named(&found.sheet, found.sheet_number, found.sheets)) } }
        @if found.columns > 0 {
            dt { "Column of the addresses" } dd.wrap { (named(&found.column, found.column_number, found.columns)) }
        } @else if !found.column.is_empty() {
            dt { "Key of the addresses" } dd.wrap { (found.column) }
        }
        @if let Some(header) = found.header { dt { "Header" } dd { (if header { "yes" } else { "no" }) } }
        @if let Some(others) = left_out(found) { dt { (OTHER_COLUMNS) } dd.wrap { (others) } }
        @if let Some(unusual) = unusual(found) { dt { "Unusual" } dd { (unusual) } }
    }
}

const OTHER_COLUMNS: &str = "Other columns with addresses";

/// The columns with addresses that are not checked, and how to check one.
fn left_out(found: &FoundAddresses) -> Option<String> {
    let how = "not checked: to check one, upload the list again, and name it in the field Address column";
    (!found.others.is_empty()).then(|| format!("{} ({how})", found.others.join(", ")))
}

/// What the report and the summary of `clean` say too about cells with several addresses.
fn unusual(found: &FoundAddresses) -> Option<String> {
    Notes { cells_with_more: found.cells_with_more, ..Notes::default() }.lines("").pop()
}

fn standing(visit: &Visit, list: &List, account: &Account, done: &Progress) -> Result<Markup, Problem> {
    let signed_in = visit.signed_in()?;
    let credits = account.balance.available();
    let (left, duplicates) = (list.to_check() - list.submitted, list.addresses - list.to_check());
    let start = |name: &str| {
        html! {
            form method="post" action={ "/lists/" (list.id) "/start" } {
                (token_field(&signed_in.csrf))
                button type="submit" { (name) }
            }
        }
    };
    Ok(html! {
        @match list.state {
            ListState::Uploading => p { "The upload is not complete yet." },
            ListState::Reading => {
                @if !list.why.is_empty() { p.notice.warn { (list.why) } }
                p { "The list is being read. Reload the page to see the cost." }
            },
            ListState::Unfit if list.done > 0 => {
                p.notice.bad {
                    (with_code(&in_words_of_the_form(&list.why))) " " (grouped(done.checked)) " of " (grouped(list.to_check()))
                    " different addresses were checked, the others cost nothing. " (charged(list, done))
                }
                (results(list))
                @if done.checked > 0 { section.card { (verdicts(list, done)) } }
            },
            ListState::Unfit => {
                p.notice.bad { (with_code(&in_words_of_the_form(&list.why))) }
                p { "To upload the list again, use the form on the page " a href="/lists" { "Lists" } "." }
            },
            ListState::Ready => {
                section.card {
                    dl {
                        @if let Some(found) = &list.found { (found_in(found)) }
                        dt { "Rows" } dd { (grouped(list.rows)) }
                        dt { "Rows with an address" } dd { (grouped(list.addresses)) }
                        dt { "Different addresses" } dd { (grouped(list.to_check())) }
                        dt { "Rows with a duplicate" } dd { (grouped(duplicates)) ", free" }
                        dt { "Different addresses checked within 24 hours" } dd { (grouped(list.known)) ", free: they get their earlier answers, and no mail server is asked about them" }
                        dt { "Rows without an address" } dd { (grouped(list.rows - list.addresses)) ", free" }
                        dt { "Cost" } dd { strong { "about " (credits_text(list.price())) } "; the account has " (grouped(credits)) "." @if let Some(found) = &list.found { " The cost is as of " (time(found.read_at)) ", when the list was read." } }
                    }
                    @if list.by_row {
                        p.soft { "Each row with an address costs one credit, including duplicates and repeats." }
                    } @else {
                        p.soft { "Each different address that you have not checked within 24 hours costs one credit. The check is charged while it runs." }
                    }
                    @if list.mode == KeyMode::Live && list.price() > credits {
                        p.notice.warn { "The account lacks " (credits_text(list.price() - credits)) ". The check can start when it has them. " (plan::more_credits(account)) }
                    }
                    (start("Start the check"))
                }
            }
            ListState::Running => {
                @if !done.problem.is_empty() {
                    p.notice.warn { (with_code(&done.problem)) @if !list.why.is_empty() && lacks_credits(list, account) { " " (plan::more_credits(account)) } }
                }
                (progress(list, done))
            },
            ListState::Paused => {
                p.notice.warn {
                    (with_code(&list.why)) " " (counted(left, "different address is", "different addresses are")) " left, at about " (credits_text(remaining_price(list))) ". "
                    @if account.status.is_usable() {
                        "The account has " (grouped(credits)) ". "
                        @if lacks_credits(list, account) { (plan::more_credits(account)) " " } @else { "That is enough: the check can go on. " }
                    }
                    "The list does not go on by itself: the button " strong { (CONTINUE) } " starts it again. What is checked stays checked."
                }
                (progress(list, done))
                (start(CONTINUE))
            }
            ListState::Completed => {
                (results(list))
                section.card {
                    h2 { (grouped(list.to_check())) " different addresses checked" }
                    p { (sum_of_rows(list)) " " (charged(list, done)) }
                    (verdicts(list, done))
                }
            }
            ListState::Cancelled if list.rows == 0 => p.notice.warn { "The list was cancelled before it was read." },
            ListState::Cancelled => {
                p.notice.warn {
                    "The check was cancelled after " (grouped(done.checked)) " of " (grouped(list.to_check()))
                    " different addresses; " (counted(list.to_check() - done.checked, "was", "were")) " not checked. " (sum_of_rows(list)) " " (charged(list, done))
                }
                @if list.addresses > 0 {
                    (results(list))
                }
                @if done.checked > 0 { section.card { (verdicts(list, done)) } }
            }
        }
    })
}

/// The button that starts a list again.
const CONTINUE: &str = "Continue the check";

/// Whether the rest of a list cannot be charged because of its price alone.
fn lacks_credits(list: &List, account: &Account) -> bool {
    let is_live = list.mode == KeyMode::Live && account.status.is_usable();
    is_live && account.balance.available() < remaining_price(list)
}

/// The verdicts by reason, and those that are unverifiable by cause.
fn verdicts(list: &List, done: &Progress) -> Markup {
    html! {
        (chart::verdicts(&done.counts))
        @if list.mode == KeyMode::Live { (chart::causes(&done.causes, unverifiable(done), (0, ""))) }
    }
}

fn unverifiable(done: &Progress) -> u64 {
    done.counts.iter().filter(|(reason, _)| *reason == Reason::Unverifiable).map(|(_, count)| count).sum()
}

/// The report and the form for a download.
fn results(list: &List) -> Markup {
    let all = if list.state == ListState::Completed { "All rows" } else { "All rows with a result" };
    let classes = [
        ("", all),
        ("deliverable", "Deliverable"),
        ("undeliverable", "Undeliverable"),
        ("unknown", "Unknown"),
    ];
    html! {
        section.card {
            h2 { "Results" }
            p { a.button href={ "/lists/" (list.id) "/report" } { "Open report" } }
            form method="get" action={ "/lists/" (list.id) "/download" } {
                label for="class" { "Rows" }
                select #class name="class" {
                    @for (value, words) in classes { option value=(value) { (words) } }
                }
                label for="format" { "Format" }
                select #format name="format" {
                    @for (value, words, _) in download::FORMATS { option value=(value) { (words) } }
                }
                button type="submit" { "Download result" }
            }
        }
    }
}

/// The rows of a list as a sum.
fn sum_of_rows(list: &List) -> String {
    let (duplicates, without) = (list.addresses - list.to_check(), list.rows - list.addresses);
    format!(
        "{}: {}, {}, {} without an address.",
        counted(list.rows, "row", "rows"),
        counted(list.to_check(), "different address", "different addresses"),
        counted(duplicates, "duplicate", "duplicates"),
        grouped(without)
    )
}

/// The credits that the ledger has charged and holds for a list, as the API and the page of the account have them, and how many of the
/// checked addresses were free.
fn charged(list: &List, done: &Progress) -> String {
    let free = done.checked.saturating_sub(done.cost);
    let mut credits = format!("{} charged", counted(done.charged, "credit", "credits"));
    if done.reserved > 0 {
        credits += &format!(", {} reserved for checks under way", grouped(done.reserved));
    }
    if done.returns > 0 {
        credits += &match done.returns {
            1 => ", of which 1 comes back for a free address".to_owned(),
            returns => format!(", of which {} come back for free addresses", grouped(returns)),
        };
    }
    match list.mode {
        KeyMode::Live if free > 0 => {
            format!("{credits}; {}", why_free(free, &done.causes, unverifiable(done)))
        }
        KeyMode::Live | KeyMode::Test => format!("{credits}."),
    }
}

/// Why addresses with a verdict were free. Those that nobody was asked about are `unverifiable`, and have a cause, unless an earlier
/// version has ended their check: so free addresses beyond those and the ones without a cause were checked before.
fn why_free(free: u64, causes: &[(UnverifiableCause, u64)], unverifiable: u64) -> String {
    let before = "checked within 24 hours before";
    let of =
        |wanted| causes.iter().filter(|(cause, _)| *cause == wanted).map(|(_, count)| count).sum::<u64>();
    let unasked = [of(UnverifiableCause::Outage), of(UnverifiableCause::RefusalBudget)];
    let without_cause = unverifiable.saturating_sub(causes.iter().map(|(_, count)| count).sum());
    let others = free.saturating_sub(unasked.iter().sum());
    let unsure = others.min(without_cause);
    let known = [(others - unsure, before), (unasked[0], UNASKED[0]), (unasked[1], UNASKED[1])];
    let known = known.into_iter().filter(|(count, _)| *count > 0);
    let mut parts: Vec<String> = known.map(|(count, why)| format!("{} {why}", grouped(count))).collect();
    if unsure > 0 {
        parts.push(format!("{} {before}, {}", grouped(unsure), UNASKED.join(", or ")));
    }
    format!("{} free: {}.", counted(free, "address was", "addresses were"), parts.join("; "))
}

fn progress(list: &List, done: &Progress) -> Markup {
    let left = list.to_check().saturating_sub(done.checked);
    html! {
        section.card {
            label for="bar" {
                (grouped(done.checked)) " of " (grouped(list.to_check())) " different addresses checked, "
                (grouped(left)) " not checked yet"
            }
            progress #bar max=(list.to_check()) value=(done.checked) {}
            p { (sum_of_rows(list)) " " (charged(list, done)) }
            @if !done.waiting.is_empty() { (page::waiting(&done.waiting, "Different addresses")) }
            @if done.checked > 0 { (verdicts(list, done)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_address_whose_credit_is_still_reserved_counts_once() {
        let list = List::new(ListId::new(0, 1), store::AccountId::new(0, 1), 0, String::new());
        let done = Progress {
            checked: 90,
            counts: Vec::new(),
            causes: Vec::new(),
            cost: 82,
            charged: 0,
            reserved: 95,
            returns: 3,
            waiting: Vec::new(),
            problem: String::new(),
        };
        assert_eq!(
            charged(&list, &done),
            "0 credits charged, 95 reserved for checks under way, of which 3 come back for free addresses; \
             8 addresses were free: 8 checked within 24 hours before."
        );
        let done = Progress { checked: 9, cost: 8, returns: 1, ..done };
        assert!(
            charged(&list, &done).contains("of which 1 comes back for a free address; 1 address was free")
        );
    }

    #[test]
    fn each_cause_of_a_free_address_is_named() {
        use UnverifiableCause::{Greylisted, Outage, RefusalBudget};
        let said =
            |free, causes: &[(UnverifiableCause, u64)], unverifiable| why_free(free, causes, unverifiable);
        assert_eq!(said(1, &[], 0), "1 address was free: 1 checked within 24 hours before.");
        assert_eq!(
            said(6, &[(Greylisted, 9), (RefusalBudget, 2), (Outage, 1)], 12),
            "6 addresses were free: 3 checked within 24 hours before; 1 not answered in an outage of the service; 2 not asked because \
             the budget of refused recipients was used up."
        );
        // An earlier version has stored no cause of three addresses.
        let partly = said(5, &[(Greylisted, 2)], 5);
        assert!(
            partly.starts_with("5 addresses were free: 2 checked within 24 hours before; 3 checked within"),
            "{partly}"
        );
        assert!(partly.contains("outage") && partly.contains("budget"), "{partly}");
    }
}
