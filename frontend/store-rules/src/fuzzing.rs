//! Rows of the store's tables as functions of bytes, for fuzzing.

use crate::lists::Texts;
use crate::results::{plain, read_plain};
use crate::row::Row;
use crate::tables::{
    AccountRow, BatchRow, ClientRow, ConnectionRow, DeliveryRow, EntryRow, HoldRow, IdempotencyRow, KeyRow,
    LinkRow, ListRow, RefusalsRow, ResultRow, RowsText, SecretRow, SessionRow, UserRow, WebhookRow,
    WebhookTexts, split_rows,
};
use store::DayCounts;
use store::rate_limit::{Bucket, Overrides, Window};
use store::webhooks::ObjectQueue;

/// Reads a kind of row; returns whether the bytes are a row.
type Read = fn(&[u8]) -> Result<bool, String>;

/// The number of kinds of rows; [`row`] takes smaller indices.
pub const ROWS: usize = READERS.len();

const READERS: [Read; 26] = [
    |bytes| read(bytes, |_: &AccountRow| {}),
    |bytes| read(bytes, |_: &KeyRow| {}),
    |bytes| read(bytes, |_: &HoldRow| {}),
    |bytes| read(bytes, |_: &EntryRow| {}),
    |bytes| {
        read(bytes, |window: &Window| {
            window.remaining(100);
            window.more_at(100);
            window.clone().take(100, 1_700_000_000_000);
        })
    },
    |bytes| read(bytes, |_: &Overrides| {}),
    |bytes| {
        read(bytes, |bucket: &Bucket| {
            let mut bucket = *bucket;
            // The row itself determines whether there is room.
            let _ = bucket.take(10, 100, 1_700_000_000_000);
        })
    },
    |bytes| read(bytes, ResultRow::expires_at),
    |bytes| {
        read(bytes, |row: &BatchRow| {
            row.sealed_under();
            row.given_up_at();
            split_rows(row, bytes);
        })
    },
    |bytes| read(bytes, |_: &RowsText| {}),
    |bytes| read(bytes, IdempotencyRow::expires_at),
    |bytes| read(bytes, |_: &ClientRow| {}),
    |bytes| read(bytes, |row: &ConnectionRow| row.secrets().count()),
    |bytes| read(bytes, |_: &SecretRow| {}),
    |bytes| read(bytes, |_: &RefusalsRow| {}),
    |bytes| read(bytes, ListRow::expires_at),
    |bytes| read(bytes, |_: &Texts| {}),
    |bytes| read(bytes, |_: &UserRow| {}),
    |bytes| read(bytes, SessionRow::expires_at),
    |bytes| read(bytes, |_: &LinkRow| {}),
    |bytes| read(bytes, |_: &DayCounts| {}),
    verdict,
    |bytes| read(bytes, |_: &WebhookRow| {}),
    |bytes| read(bytes, |_: &WebhookTexts| {}),
    |bytes| read(bytes, |_: &ObjectQueue| {}),
    |bytes| read(bytes, |_: &DeliveryRow| {}),
];

/// Reads a row of this kind; returns whether the bytes are a row.
///
/// # Errors
///
/// The name of a broken rule.
pub fn row(kind: usize, bytes: &[u8]) -> Result<bool, String> {
    READERS[kind % ROWS](bytes)
}

/// Checks that a row has the same value after writing and reading, and does not become longer.
fn read<R: Row + PartialEq, T>(bytes: &[u8], more: impl Fn(&R) -> T) -> Result<bool, String> {
    let Ok(row) = R::decode(bytes) else { return Ok(false) };
    let written = row.encode();
    if written.len() > bytes.len() {
        return Err(format!("{}: {} bytes are written as {}", R::TABLE, bytes.len(), written.len()));
    }
    match R::decode(&written) {
        Ok(again) if again == row => {}
        _ => return Err(format!("{}: written and read again it is another row", R::TABLE)),
    }
    more(&row);
    Ok(true)
}

/// Reads the sealed part of a verdict.
fn verdict(bytes: &[u8]) -> Result<bool, String> {
    let Some(verdict) = read_plain(bytes) else { return Ok(false) };
    match read_plain(&plain(&verdict, true)) {
        Some(again) if again == verdict => Ok(true),
        _ => Err("results: written and read again it is another verdict".into()),
    }
}
