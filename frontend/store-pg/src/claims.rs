//! Claims of batches and lists: which node works on them.
//!
//! A row of `open_batches` or `lists` has the node that inserted it. When a node dies, its rows lose their node, and any node
//! may claim them. A lost claim costs a second question to a mail server and never a second charge, because a row of a batch
//! is answered once.

use crate::connect::explain;
use store::{BatchId, ClaimedLists, ListId, OpenBatch, StoreError};
use store_rules::row::Row as _;
use store_rules::tables::{BatchRow, split};
use tokio_postgres::{Client, Error, Row};

/// Claims unfinished batches without a live node, oldest first, and those that an earlier process of this node had: their
/// epochs are below `first_epoch`, the first one of this process.
///
/// # Errors
///
/// [`StoreError::Away`], or a row cannot be read.
pub async fn batches(
    client: &Client,
    (node, epoch): (i64, i64),
    most: usize,
    first_epoch: i64,
) -> Result<Vec<OpenBatch>, StoreError> {
    let text = "WITH free AS (SELECT k FROM open_batches WHERE node IS NULL OR (node = $2 AND epoch < $4) \
                ORDER BY k LIMIT $1 FOR UPDATE SKIP LOCKED), \
                claimed AS (UPDATE open_batches AS o SET node = $2, epoch = $3 FROM free WHERE o.k = free.k \
                RETURNING o.k, o.v) \
                SELECT batches.k, batches.v FROM claimed JOIN batches ON batches.k = claimed.v || claimed.k \
                ORDER BY claimed.k";
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let rows = client.query(text, &[&most, &node, &epoch, &first_epoch]).await.map_err(away)?;
    rows.iter().map(open_batch).collect()
}

fn open_batch(row: &Row) -> Result<OpenBatch, StoreError> {
    let (account, id) = split(&key(row)?);
    let BatchRow { created_at, total, answered, .. } = BatchRow::decode(row.try_get(1).map_err(away)?)?;
    let (batch, account) = (BatchId::from_bytes(id), store::AccountId::from_bytes(account));
    Ok(OpenBatch { batch, account, created_at, total, answered })
}

/// Claims lists without a live node, and names all lists of this node.
///
/// # Errors
///
/// [`StoreError::Away`], or a row cannot be read.
pub async fn lists(
    client: &Client,
    (node, epoch): (i64, i64),
    first_epoch: i64,
) -> Result<ClaimedLists, StoreError> {
    let text =
        "UPDATE lists SET node = $1, epoch = $2 WHERE node IS NULL OR (node = $1 AND epoch < $3) RETURNING k";
    let new = client.query(text, &[&node, &epoch, &first_epoch]).await.map_err(away)?;
    let own = client.query("SELECT k FROM lists WHERE node = $1", &[&node]).await.map_err(away)?;
    Ok(ClaimedLists { own: list_ids(&own)?, new: list_ids(&new)? })
}

fn list_ids(rows: &[Row]) -> Result<Vec<ListId>, StoreError> {
    rows.iter().map(|row| Ok(ListId::from_bytes(split(&key(row)?).1))).collect()
}

fn key(row: &Row) -> Result<[u8; 32], StoreError> {
    let bytes: &[u8] = row.try_get(0).map_err(away)?;
    bytes.try_into().map_err(|_| StoreError::Failed("a batch or list has no key of 32 bytes".into()))
}

fn away(error: Error) -> StoreError {
    StoreError::Away(explain(&error))
}
