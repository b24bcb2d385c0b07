//! The number of the file's format.
//!
//! Every row of an older format is read as it is, so a file of an older format only lacks tables, which are created here. A table
//! whose rows follow from other rows is filled when it is first needed, because that must work in PostgreSQL too: see `has_list_use`
//! in `store-rules/src/lists.rs`.

use super::rows::{ReadRows, WriteRows};
use ::redb::{Database, ReadableDatabase, TableHandle};
use std::cmp::Ordering;
use std::path::Path;
use store::{OpenError, StoreError};
use store_rules::row::Fixed;
use store_rules::rows::Table;
use store_rules::tables::{FORMAT, META, META_FORMAT};

/// Creates the tables that the file lacks, unless it has the current format.
pub(super) fn migrate(database: &Database, path: &Path) -> Result<(), OpenError> {
    if let Some(found) = read_format(database)? {
        let found = u32::try_from(found).unwrap_or(u32::MAX);
        if found == 0 {
            return Err(OpenError::NotADatabase(path.to_owned(), "format 0".into()));
        }
        match found.cmp(&FORMAT) {
            Ordering::Less => {}
            Ordering::Equal => return Ok(()),
            Ordering::Greater => {
                return Err(OpenError::Newer { path: path.to_owned(), found, known: FORMAT });
            }
        }
    }
    Ok(create(database, &Table::KEPT, FORMAT)?)
}

/// `None` for a file without tables.
fn read_format(database: &Database) -> Result<Option<u64>, StoreError> {
    let transaction = database.begin_read()?;
    if !transaction.list_tables()?.any(|table| table.name() == META.table.name()) {
        return Ok(None);
    }
    let format = META.get(&ReadRows::new(transaction), META_FORMAT)?;
    // A file of mailprobe always has a number: it is written together with the tables.
    Ok(Some(format.map_or(0, |format| format.0)))
}

/// Creates those of the tables that are missing, and writes the format in the same transaction.
fn create(database: &Database, tables: &[Table], format: u32) -> Result<(), StoreError> {
    let mut transaction = database.begin_write()?;
    transaction.set_quick_repair(true);
    for &table in tables {
        WriteRows::create(&transaction, table)?;
    }
    META.put(&mut WriteRows::new(&transaction), META_FORMAT, &Fixed(format.into()))?;
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::redb::backends::InMemoryBackend;
    use store::AccountId;
    use store_rules::tables::NAMES;

    /// The tables that each format added, to make databases of older formats; formats that are missing here changed rows only.
    const ADDED: [(u32, &[Table]); 8] = [
        (1, &[Table::Meta, Table::Accounts, Table::Names, Table::Keys, Table::Holds, Table::Ledger]),
        (
            2,
            &[
                Table::Results,
                Table::Batches,
                Table::BatchRows,
                Table::OpenBatches,
                Table::Idempotency,
                Table::Expiries,
                Table::Limits,
                Table::Windows,
                Table::FairUse,
            ],
        ),
        (
            3,
            &[
                Table::Users,
                Table::Emails,
                Table::Sessions,
                Table::SessionsOf,
                Table::SignInLinks,
                Table::Days,
            ],
        ),
        (4, &[Table::Clients, Table::Connections, Table::Tokens]),
        (5, &[Table::Lists, Table::ListParts, Table::ListCodes]),
        (6, &[Table::Refusals, Table::Withdrawn]),
        (7, &[Table::Webhooks, Table::Outbox, Table::OutboxDue, Table::WebhookTurns, Table::Deliveries]),
        (10, &[Table::ListUse, Table::StoredBytes]),
    ];

    fn database() -> Database {
        Database::builder().create_with_backend(InMemoryBackend::new()).unwrap()
    }

    fn migrate(database: &Database) -> Result<(), OpenError> {
        super::migrate(database, Path::new("x"))
    }

    fn rows(database: &Database) -> ReadRows {
        ReadRows::new(database.begin_read().unwrap())
    }

    /// The sorted names of the tables of a file.
    fn tables(database: &Database) -> Vec<String> {
        let transaction = database.begin_read().unwrap();
        let mut names: Vec<_> =
            transaction.list_tables().unwrap().map(|table| table.name().to_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_of_each_format_keeps_what_it_has_and_gets_every_table() {
        let joe = AccountId::from_bytes([7; 16]);
        let new = database();
        migrate(&new).unwrap();
        assert_eq!(read_format(&new), Ok(Some(FORMAT.into())));
        let mut known: Vec<_> =
            ADDED.iter().flat_map(|(_, added)| *added).map(|table| table.name()).collect();
        known.sort_unstable();
        assert_eq!(tables(&new), known);
        for format in 1..=FORMAT {
            let old = database();
            let had: Vec<Table> = ADDED
                .iter()
                .filter(|(since, _)| *since <= format)
                .flat_map(|(_, added)| *added)
                .copied()
                .collect();
            create(&old, &had, format).unwrap();
            let transaction = old.begin_write().unwrap();
            NAMES.put(&mut WriteRows::new(&transaction), "joe", &joe).unwrap();
            transaction.commit().unwrap();
            assert_eq!(tables(&old).len(), had.len());
            for _ in 0..2 {
                migrate(&old).unwrap();
                assert_eq!(read_format(&old), Ok(Some(FORMAT.into())), "{format}");
                assert_eq!(tables(&old), tables(&new), "{format}");
                assert_eq!(NAMES.get(&rows(&old), "joe"), Ok(Some(joe)), "{format}");
            }
        }
    }

    #[test]
    fn a_newer_file_is_left_alone() {
        let database = database();
        create(&database, &[], FORMAT + 1).unwrap();
        let newer = OpenError::Newer { path: "x".into(), found: FORMAT + 1, known: FORMAT };
        assert_eq!(migrate(&database), Err(newer));
        assert_eq!((tables(&database).len(), read_format(&database)), (1, Ok(Some(u64::from(FORMAT) + 1))));
    }

    #[test]
    fn tables_of_somebody_else_are_refused() {
        let database = database();
        let transaction = database.begin_write().unwrap();
        META.put(&mut WriteRows::new(&transaction), "other", &Fixed(1)).unwrap();
        transaction.commit().unwrap();
        assert!(matches!(migrate(&database), Err(OpenError::NotADatabase(..))));
    }
}
