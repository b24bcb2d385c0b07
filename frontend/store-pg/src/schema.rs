//! The tables in PostgreSQL, in a schema of their own. They are created under a lock, so several nodes may start at once.
//!
//! A table of the rules has the columns `k` and `v`, the bytes of key and row, as in redb and in backups. Some have more
//! columns, which the server fills in: the node that inserted a row, and the time.

use crate::connect::explain;
use std::fmt::Write;
use store::StoreError;
use store_rules::row::{Fixed, Row};
use store_rules::rows::Table;
use store_rules::tables::{FORMAT, META_FORMAT, META_KEYS};
use tokio_postgres::{Client, Error};

/// The schema if the operator names none.
pub const SCHEMA: &str = "mailprobe";

/// The longest name of a schema: the name of a connection has it, with two numbers, and may have 63 bytes.
const NAME_BYTES_MAX: usize = 24;

/// The oldest format from which a database is used as it is, with the tables that it lacks, until `mailprobe cluster upgrade`
/// raises it.
pub const FORMAT_OLDEST: u32 = 6;

/// What the schema has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// It was created now.
    New,
    /// It was there, with this format.
    Format(u64),
}

/// Whether a schema may have this name. It is part of statements, so it has letters, digits and `_` only.
pub fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(fits)
}

/// Creates what is missing, and sets the schema for this connection. New tables get the fingerprint of the keys that they will
/// be written with, in the same transaction: a node with other keys may start at the same moment.
///
/// # Errors
///
/// The server refuses it, for example because the role has no right to create a schema.
pub async fn ensure(client: &Client, schema: &str, fingerprint: Option<u64>) -> Result<Found, StoreError> {
    let failed = |error: Error| StoreError::Failed(explain(&error));
    let exists = client
        .query_opt("SELECT FROM pg_namespace WHERE nspname = $1", &[&schema])
        .await
        .map_err(failed)?
        .is_some();
    if !exists {
        // Another node may be doing the same: the lock must end with the transaction, and not in front of its end.
        let text = format!(
            "BEGIN; SELECT pg_advisory_xact_lock(hashtext('mailprobe {schema}'), 0); \
             CREATE SCHEMA IF NOT EXISTS {schema}; COMMIT"
        );
        client.batch_execute(&text).await.map_err(failed)?;
    }
    enter(client, schema).await.map_err(failed)?;
    let begin = format!("BEGIN; SELECT {}", lock(0));
    client.batch_execute(&begin).await.map_err(failed)?;
    let found = create(client, fingerprint).await;
    let end = if found.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = client.batch_execute(end).await;
    let found = found.map_err(failed)?;
    ended.map_err(failed)?;
    found.ok_or_else(|| StoreError::Failed("the table meta of the schema has no format".into()))
}

/// Sets the schema for this connection.
///
/// # Errors
///
/// The server refuses it.
pub async fn enter(client: &Client, schema: &str) -> Result<(), Error> {
    client.batch_execute(&format!("SET search_path = {schema}")).await
}

/// Notes the fingerprint of the keys that the database is written with.
///
/// # Errors
///
/// The server refuses it.
pub async fn note_keys(client: &Client, fingerprint: u64) -> Result<(), Error> {
    let value = Fixed(fingerprint).encode();
    let text = "INSERT INTO meta (k, v) VALUES ($1, $2) ON CONFLICT (k) DO UPDATE SET v = excluded.v";
    client.execute(text, &[&META_KEYS.as_bytes(), &value]).await.map(drop)
}

/// The call that takes an advisory lock until the end of the transaction. Each schema has its own: several clusters may have one
/// database.
pub fn lock(number: i32) -> String {
    format!("pg_advisory_xact_lock(hashtext('mailprobe ' || current_schema()), {number})")
}

async fn create(client: &Client, fingerprint: Option<u64>) -> Result<Option<Found>, Error> {
    let is_there = client.query_one("SELECT to_regclass('meta') IS NOT NULL", &[]).await?;
    if is_there.try_get::<_, bool>(0)? {
        let row = client.query_opt("SELECT v FROM meta WHERE k = $1", &[&META_FORMAT.as_bytes()]).await?;
        let bytes: Option<Vec<u8>> = row.map(|row| row.try_get(0)).transpose()?;
        let format = bytes.and_then(|bytes| Fixed::decode(&bytes).ok());
        if format.is_some_and(|format| is_older(format.0)) {
            // Nodes of an older version use the same schema, and ignore the new tables.
            create_missing_tables(client).await?;
        }
        keep_no_samples(client).await?;
        return Ok(format.map(|format| Found::Format(format.0)));
    }
    client.batch_execute(&definition()).await?;
    keep_no_samples(client).await?;
    let format = Fixed(FORMAT.into()).encode();
    client.execute("INSERT INTO meta (k, v) VALUES ($1, $2)", &[&META_FORMAT.as_bytes(), &format]).await?;
    if let Some(fingerprint) = fingerprint {
        note_keys(client, fingerprint).await?;
    }
    Ok(Some(Found::New))
}

/// Whether this is the format of an older version, and this version can use it as it is.
pub fn is_older(format: u64) -> bool {
    (u64::from(FORMAT_OLDEST)..u64::from(FORMAT)).contains(&format)
}

/// Creates the tables that an older format lacks.
async fn create_missing_tables(client: &Client) -> Result<(), Error> {
    let names = Table::ALL.map(Table::name);
    let text = "SELECT name FROM unnest($1::text[]) AS name WHERE to_regclass(name) IS NULL";
    let missing = client.query(text, &[&names.as_slice()]).await?;
    let missing: Vec<&str> = missing.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    let tables = Table::ALL.into_iter().filter(|table| missing.contains(&table.name()));
    client.batch_execute(&tables.map(table_definition).collect::<String>()).await
}

/// Turns off the statistics of all columns of bytes. ANALYZE would copy values of rows to the catalog, where they stay after the rows:
/// names of accounts, labels of keys. The planner needs no statistics for a search by the primary key.
///
/// A server that refuses it, for example because the tables have another owner, keeps its statistics: the node starts with a warning.
async fn keep_no_samples(client: &Client) -> Result<(), Error> {
    let text = "SELECT format('ALTER TABLE %I ', c.relname) \
         || string_agg(format('ALTER COLUMN %I SET STATISTICS 0', a.attname), ', ') \
         FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid \
         WHERE c.relnamespace = to_regnamespace(current_schema()::text) AND c.relname = ANY($1) AND a.attnum > 0 \
         AND NOT a.attisdropped AND a.atttypid = 'bytea'::regtype AND coalesce(a.attstattarget, -1) <> 0 \
         GROUP BY c.relname";
    let mut tables: Vec<&str> = Table::ALL.iter().map(|table| table.name()).collect();
    tables.push("changes");
    let mut statements = Vec::new();
    for row in client.query(text, &[&tables]).await? {
        statements.push(row.try_get::<_, String>(0)?);
    }
    if statements.is_empty() {
        return Ok(());
    }
    client.batch_execute("SAVEPOINT samples").await?;
    if let Err(error) = client.batch_execute(&statements.join(";")).await {
        tracing::warn!("PostgreSQL keeps copies of values in its statistics: {}", explain(&error));
        client.batch_execute("ROLLBACK TO samples").await?;
    }
    Ok(())
}

/// The statements that create all tables.
fn definition() -> String {
    let tables: String = Table::ALL.into_iter().map(table_definition).collect();
    format!(
        "CREATE TABLE nodes (id bigint PRIMARY KEY, epoch bigint NOT NULL, until timestamptz NOT NULL, \
         format int NOT NULL, version text NOT NULL, egress text NOT NULL, host text NOT NULL) \
         WITH (fillfactor = 40); \
         CREATE TABLE lanes (node bigint, lane int, epoch bigint NOT NULL, seq bigint NOT NULL, \
         PRIMARY KEY (node, lane)) WITH (fillfactor = 40); \
         CREATE TABLE changes (seq bigint PRIMARY KEY, v bytea NOT NULL); {tables}"
    )
}

fn table_definition(table: Table) -> String {
    let (name, more) = (table.name(), columns(table));
    let mut text = format!("CREATE TABLE {name} (k bytea PRIMARY KEY, v bytea NOT NULL{more})");
    text.push_str(match table {
        // Their rows are updated in place, so that a page keeps room for the next version.
        Table::Accounts
        | Table::Batches
        | Table::Keys
        | Table::Days
        | Table::Webhooks
        | Table::ListUse
        | Table::StoredBytes => " WITH (fillfactor = 40);",
        _ => ";",
    });
    if matches!(table, Table::BatchRows | Table::ListParts | Table::ListCodes) {
        // Sealed bytes cannot be compressed.
        let _ = write!(text, "ALTER TABLE {name} ALTER COLUMN v SET STORAGE EXTERNAL;");
    }
    text
}

/// The further columns of a table.
fn columns(table: Table) -> &'static str {
    match table {
        Table::Holds => {
            ", node bigint NOT NULL, epoch bigint NOT NULL, since timestamptz NOT NULL DEFAULT clock_timestamp()"
        }
        Table::OpenBatches | Table::Lists => ", node bigint, epoch bigint",
        Table::Accounts => {
            ", plan_left bigint NOT NULL, pack_left bigint NOT NULL, held bigint NOT NULL, spent bigint NOT NULL, \
             expired bigint NOT NULL, granted bigint NOT NULL, \
             CHECK (plan_left + pack_left + held + spent + expired = granted), \
             CHECK (plan_left >= 0 AND pack_left >= 0 AND held >= 0 AND spent >= 0 AND expired >= 0)"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_names_the_formats() {
        let page = include_str!("../../../docs/cluster.md");
        for text in [format!("formats {FORMAT_OLDEST} to {FORMAT}"), format!("{FORMAT}, the newest")] {
            assert!(page.contains(&text), "docs/cluster.md lacks: {text}");
        }
    }

    #[test]
    fn only_plain_names_are_schemas() {
        for name in ["mailprobe", "t1", "a_b"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "1a", "A", "a-b", "a b", "a;b", "ä", &"a".repeat(64)] {
            assert!(!is_name(name), "{name}");
        }
    }
}
