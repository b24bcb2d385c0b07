//! Batches as their owners see them: one with its rows, or a page of summaries.

use crate::reason;
use crate::rows::{Rows, Walk};
use crate::tables::{BATCH_ROWS, BATCHES, BatchRow, RowsText, account_range, batch_key, split};
use std::ops::Bound;
use store::{AccountId, BatchId, BatchPage, BatchSummary, BatchView, StoreError, UnixMs, count_wait};
use vault::Vault;

/// A batch from the view of its owner.
pub(crate) fn view(
    tables: &dyn Rows,
    vault: &Vault,
    account: AccountId,
    id: BatchId,
    now: UnixMs,
) -> Result<Option<BatchView>, StoreError> {
    let key = batch_key(account, id);
    let Some(row) = BATCHES.peek(tables, &key)? else { return Ok(None) };
    let BatchRow { total, answered: checked, .. } = row;
    let (refunded, is_test) = (row.refunded, row.is_test());
    let mut open = BatchView {
        completed: false,
        total,
        checked,
        refunded,
        is_test,
        is_given_up: row.completed_at >= row.given_up_at(),
        charged: 0,
        name: None,
        results: None,
        causes: Vec::new(),
        waiting: Vec::new(),
    };
    if row.is_open() {
        let codes = super::codes_of(tables, vault, &key, &row)?.unwrap_or_default();
        let causes = codes.into_iter().filter_map(reason::wait_of);
        causes.for_each(|cause| count_wait(&mut open.waiting, cause, row.created_at));
        return Ok(Some(open));
    }
    if now >= row.expires_at() {
        return Ok(None);
    }
    let text = BATCH_ROWS.read(tables, &key, |rows| super::open_rows(vault, &key, &row, rows))?;
    let Some(text) = text.transpose()? else { return Err(super::damaged()) };
    let Some(RowsText { name, emails, answers }) = text else { return Ok(None) };
    let causes = answers.iter().map(|&answer| reason::cause_of(answer)).collect();
    let reasons: Option<Vec<_>> = answers.into_iter().map(reason::of_answer).collect();
    let reasons = reasons.filter(|reasons| reasons.len() == emails.len()).ok_or_else(super::damaged)?;
    let results = emails.into_iter().zip(reasons).collect();
    let name = own_name(&row, name);
    Ok(Some(BatchView {
        completed: true,
        charged: row.charged(),
        name,
        results: Some(results),
        causes,
        ..open
    }))
}

/// The most rows that are examined for a page, since those of lists' batches are left out.
const PAGE_ROWS_MAX: usize = 2_000;

/// The account's readable batches before `after`, newest first, without those of lists.
pub(crate) fn page(
    rows: &dyn Rows,
    vault: &Vault,
    account: AccountId,
    after: Option<BatchId>,
    limit: usize,
    now: UnixMs,
) -> Result<BatchPage, StoreError> {
    let (first, last) = account_range(account).into_inner();
    let end = after.map_or(Bound::Included(last), |after| Bound::Excluded(batch_key(account, after)));
    let (mut page, mut examined, mut passed) = (BatchPage::default(), 0, None);
    let mut found = Vec::new();
    BATCHES.walk_back(rows, (Bound::Included(first), end), PAGE_ROWS_MAX, |key, row| {
        if page.batches.len() == limit {
            page.next = passed;
            return Walk::Stop;
        }
        let batch = BatchId::from_bytes(split(&key).1);
        (examined, passed) = (examined + 1, Some(batch));
        if !row.of_list && (row.is_open() || now < row.expires_at()) {
            let completed = !row.is_open();
            let is_test = row.is_test();
            let BatchRow { created_at, total, answered: checked, refunded, .. } = row;
            page.batches.push(BatchSummary {
                batch,
                created_at,
                completed,
                total,
                checked,
                refunded,
                is_test,
                name: None,
            });
            found.push((key, row));
        }
        Walk::On
    })?;
    if examined == PAGE_ROWS_MAX {
        page.next = passed;
    }
    // A walk must not use other tables.
    BATCH_ROWS.expect(rows, found.iter().map(|(key, _)| key));
    for (summary, (key, row)) in page.batches.iter_mut().zip(&found) {
        let text = BATCH_ROWS.read(rows, key, |rows| super::open_rows(vault, key, row, rows))?;
        // The key of an expired batch may be gone.
        summary.name = text.transpose()?.flatten().and_then(|text| own_name(row, text.name));
    }
    Ok(page)
}

/// The name that the caller gave a batch. In a batch of a list, the id of the list is in its place.
fn own_name(row: &BatchRow, name: Option<String>) -> Option<String> {
    name.filter(|_| !row.of_list)
}
