//! Filling an empty schema: with nothing, for a new cluster, or with the rows of a backup.
//!
//! Everything is one transaction, which also notes the fingerprint of the keys. So the schema has all rows and its keys, or
//! none. The transaction locks the tables that a node reads at its start, so that no node starts meanwhile.

use crate::cluster::ClusterPlace;
use crate::connect::explain;
use crate::database::on_connection;
use crate::lane::{Statements, TableWrite};
use crate::overlay::{RowList, TableChanges};
use crate::schema;
use std::collections::BTreeSet;
use std::io::BufRead;
use std::time::Duration;
use store::StoreError;
use store::backup::{BackupError, BackupSummary};
use store_rules::backup::{BackupReader, DAMAGED, Record};
use store_rules::rows::Table;
use store_rules::tables::{FORMAT, META_FORMAT, META_KEYS};
use tokio_postgres::Client;

/// The most rows of one statement, and the bytes after which it is sent.
const ROWS_MAX: usize = 1000;
const BYTES_MAX: usize = 1 << 20;
/// How long a command waits for a database that is away.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// The node and the epoch in restored rows. No node has this number, so open holds are voided, and batches are claimed, when
/// the first node starts.
const NOBODY: (i64, i64) = (0, 0);

/// Creates the tables if they are missing, and fills them with the rows of a backup, if there is one. The key files of the
/// backup are skipped. The database gets this fingerprint of keys.
///
/// # Errors
///
/// [`BackupError`]: the schema has no rows, as before. After [`StoreError::Unknown`] it may have all of them.
pub fn fill(
    place: &ClusterPlace,
    backup: Option<&mut BackupReader<impl BufRead>>,
    fingerprint: u64,
) -> Result<BackupSummary, BackupError> {
    let connector = place.connector()?;
    on_connection(&connector, PATIENCE, async |client| {
        schema::ensure(client, &place.schema, None).await?;
        // The rows may come slower than a lane's.
        let begin = format!(
            "SET idle_in_transaction_session_timeout = '10min'; BEGIN; \
             SELECT {}; LOCK TABLE meta, nodes, accounts IN ACCESS EXCLUSIVE MODE",
            schema::lock(0)
        );
        client.batch_execute(&begin).await.map_err(failed)?;
        let filled = fill_tables(client, &place.schema, backup, fingerprint).await;
        let Ok(summary) = filled else {
            // The end of the connection does the same.
            let _ = client.batch_execute("ROLLBACK").await;
            return Ok(filled);
        };
        let unknown = |error: tokio_postgres::Error| StoreError::Unknown(explain(&error));
        client.batch_execute("COMMIT").await.map_err(unknown)?;
        // Without statistics the first plans would be those of empty tables.
        let _ = client.batch_execute("ANALYZE").await;
        Ok(Ok(summary))
    })?
}

async fn fill_tables(
    client: &Client,
    schema: &str,
    backup: Option<&mut BackupReader<impl BufRead>>,
    fingerprint: u64,
) -> Result<BackupSummary, BackupError> {
    if let Some(has) = content(client).await.map_err(failed)? {
        return Err(BackupError::SchemaInUse { schema: schema.to_owned(), has });
    }
    client.execute("DELETE FROM meta WHERE k = $1", &[&META_KEYS.as_bytes()]).await.map_err(failed)?;
    let mut summary = BackupSummary::default();
    if let Some(reader) = backup {
        copy(client, reader).await?;
        summary = reader.summary();
    }
    schema::note_keys(client, fingerprint).await.map_err(failed)?;
    Ok(summary)
}

/// What makes a schema one that must not be filled.
async fn content(client: &Client) -> Result<Option<&'static str>, tokio_postgres::Error> {
    let live = "SELECT EXISTS (SELECT FROM nodes WHERE until > clock_timestamp())";
    if client.query_one(live, &[]).await?.try_get(0)? {
        return Ok(Some("a running node"));
    }
    let tables = Table::ALL.into_iter().filter(|table| *table != Table::Meta);
    let tests = tables.map(|table| format!("EXISTS (SELECT FROM {})", table.name()));
    let text = format!("SELECT {}", tests.collect::<Vec<_>>().join(" OR "));
    let has_rows: bool = client.query_one(&text, &[]).await?.try_get(0)?;
    Ok(has_rows.then_some("data already"))
}

async fn copy(client: &Client, reader: &mut BackupReader<impl BufRead>) -> Result<(), BackupError> {
    // The same statements as those of a node write the further columns.
    let statements = Statements::for_node(NOBODY.0, NOBODY.1);
    let mut missing: BTreeSet<Table> = Table::KEPT.into_iter().collect();
    let mut group: Option<RowGroup> = None;
    while let Some(record) = reader.next_record()? {
        match record {
            Record::KeyFile { .. } => {}
            Record::Table { name } => {
                let table = Table::KEPT.into_iter().find(|table| table.name() == name);
                let table = table.filter(|table| missing.remove(table)).ok_or(DAMAGED)?;
                if let Some(group) = group.replace(RowGroup::new(table)) {
                    group.send(client, &statements).await?;
                }
            }
            Record::Row { key, value } => {
                let group = group.as_mut().ok_or(DAMAGED)?;
                if group.changes.table == Table::Meta {
                    if key == META_KEYS.as_bytes() {
                        continue;
                    }
                    if key == META_FORMAT.as_bytes() {
                        check_format(&value)?;
                    }
                }
                group.bytes += key.len() + value.len();
                let rows = group.rows();
                rows.keys.push(key);
                rows.values.push(value);
                if rows.keys.len() >= ROWS_MAX || group.bytes >= BYTES_MAX {
                    std::mem::replace(group, RowGroup::new(group.changes.table))
                        .send(client, &statements)
                        .await?;
                }
            }
        }
    }
    if let Some(group) = group {
        group.send(client, &statements).await?;
    }
    Ok(())
}

/// Rows that are sent at once.
struct RowGroup {
    changes: TableChanges,
    bytes: usize,
}

impl RowGroup {
    fn new(table: Table) -> RowGroup {
        let (inserts, updates, upserts) = (RowList::default(), RowList::default(), RowList::default());
        RowGroup { changes: TableChanges { table, inserts, updates, upserts, removes: Vec::new() }, bytes: 0 }
    }

    fn rows(&mut self) -> &mut RowList {
        // The creation of the tables has written the number of the format.
        let is_meta = self.changes.table == Table::Meta;
        if is_meta { &mut self.changes.upserts } else { &mut self.changes.inserts }
    }

    async fn send(self, client: &Client, statements: &Statements) -> Result<(), BackupError> {
        let changes = [self.changes];
        let writes = statements.writes(client, TableWrite::all(&changes)).await.map_err(failed)?;
        Ok(writes.send(client).await.map_err(failed)?)
    }
}

/// Only redb has steps from the oldest formats. The rows of later ones are read as they are.
fn check_format(value: &[u8]) -> Result<(), BackupError> {
    let found = u64::from_le_bytes(value.try_into().map_err(|_| DAMAGED)?);
    match found.cmp(&u64::from(FORMAT)) {
        _ if schema::is_older(found) => Ok(()),
        std::cmp::Ordering::Less => Err(BackupError::Older { found, needed: FORMAT }),
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => Err(BackupError::Newer),
    }
}

fn failed(error: tokio_postgres::Error) -> StoreError {
    let why = explain(&error);
    if error.as_db_error().is_some() { StoreError::Failed(why) } else { StoreError::Away(why) }
}
