//! The number of the file's format, and the steps from each format to the next.

use super::rows::{ReadRows, WriteRows};
use ::redb::{Database, ReadableDatabase, TableHandle, WriteTransaction};
use std::path::Path;
use store::{OpenError, StoreError};
use store_rules::row::Fixed;
use store_rules::rows::Table;
use store_rules::tables::{FORMAT, META, META_FORMAT};

/// Changes a file from one format to the next, within one transaction.
type Step = fn(&WriteTransaction) -> Result<(), StoreError>;

/// `STEPS[n]` changes format n + 1 to n + 2.
const STEPS: [Step; FORMAT as usize - 1] = [to_2, to_3, to_4, to_5, to_6, to_7, to_8, to_9, to_10];

/// Creates the tables of a new file, or changes those of an old file to the current format.
pub(super) fn migrate(database: &Database, path: &Path) -> Result<(), OpenError> {
    migrate_by(&STEPS, database, path)
}

fn migrate_by(steps: &[Step], database: &Database, path: &Path) -> Result<(), OpenError> {
    let known = steps.len() as u32 + 1;
    let found = match read_format(database)? {
        None => return Ok(create(database, known)?),
        Some(found) => u32::try_from(found).unwrap_or(u32::MAX),
    };
    if found > known {
        return Err(OpenError::Newer { path: path.to_owned(), found, known });
    }
    if found == 0 {
        return Err(OpenError::NotADatabase(path.to_owned(), "format 0".into()));
    }
    for (format, step) in (1..).zip(steps).skip(found as usize - 1) {
        apply(database, step, format + 1)?;
    }
    Ok(())
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

/// Creates tables that are not there.
fn create_tables(transaction: &WriteTransaction, tables: &[Table]) -> Result<(), StoreError> {
    tables.iter().try_for_each(|&table| WriteRows::create(transaction, table))
}

fn create(database: &Database, format: u32) -> Result<(), StoreError> {
    let make = |transaction: &WriteTransaction| {
        create_tables(
            transaction,
            &[Table::Accounts, Table::Names, Table::Keys, Table::Holds, Table::Ledger],
        )?;
        to_2(transaction)?;
        to_3(transaction)?;
        to_4(transaction)?;
        to_5(transaction)?;
        to_6(transaction)?;
        to_7(transaction)?;
        to_8(transaction)?;
        to_9(transaction)?;
        to_10(transaction)
    };
    apply(database, make, format)
}

/// From format 1 to 2: new tables only.
fn to_2(transaction: &WriteTransaction) -> Result<(), StoreError> {
    use Table::{BatchRows, Batches, Expiries, FairUse, Idempotency, Limits, OpenBatches, Results, Windows};
    let checks = [Results, Batches, BatchRows, OpenBatches, Idempotency, Expiries];
    create_tables(transaction, &checks)?;
    create_tables(transaction, &[Limits, Windows, FairUse])
}

/// From format 2 to 3: new tables only.
fn to_3(transaction: &WriteTransaction) -> Result<(), StoreError> {
    use Table::{Days, Emails, Sessions, SessionsOf, SignInLinks, Users};
    create_tables(transaction, &[Users, Emails, Sessions, SessionsOf, SignInLinks, Days])
}

/// From format 3 to 4: the tables of assistants.
fn to_4(transaction: &WriteTransaction) -> Result<(), StoreError> {
    create_tables(transaction, &[Table::Clients, Table::Connections, Table::Tokens])
}

/// From format 4 to 5: the tables of lists.
fn to_5(transaction: &WriteTransaction) -> Result<(), StoreError> {
    create_tables(transaction, &[Table::Lists, Table::ListParts, Table::ListCodes])
}

/// From format 5 to 6: the tables of the engine's knowledge. A result of format 5 has no evidence.
fn to_6(transaction: &WriteTransaction) -> Result<(), StoreError> {
    create_tables(transaction, &[Table::Refusals, Table::Withdrawn])
}

/// From format 6 to 7: the tables of webhooks. Batches of lists that were created before end like other batches. Rows of lists, of
/// their batches and of limits can be longer; rows of format 6 are read as they are.
fn to_7(transaction: &WriteTransaction) -> Result<(), StoreError> {
    use Table::{Deliveries, Outbox, OutboxDue, WebhookTurns, Webhooks};
    create_tables(transaction, &[Webhooks, Outbox, OutboxDue, WebhookTurns, Deliveries])
}

/// From format 7 to 8: rows of keys can be longer, and rows of format 7 are read as they are.
fn to_8(_: &WriteTransaction) -> Result<(), StoreError> {
    Ok(())
}

/// From format 8 to 9: the code of an unanswered row can say what the row waits for.
fn to_9(_: &WriteTransaction) -> Result<(), StoreError> {
    Ok(())
}

/// From format 9 to 10: tables of what accounts take. That of lists is filled when it is first needed; batches of before do not count.
fn to_10(transaction: &WriteTransaction) -> Result<(), StoreError> {
    create_tables(transaction, &[Table::ListUse, Table::StoredBytes])
}

/// Runs a step and writes its format in one transaction.
fn apply(
    database: &Database,
    step: impl FnOnce(&WriteTransaction) -> Result<(), StoreError>,
    format: u32,
) -> Result<(), StoreError> {
    let mut transaction = database.begin_write()?;
    transaction.set_quick_repair(true);
    step(&transaction)?;
    META.put(&mut WriteRows::new(&transaction), META_FORMAT, &Fixed(format.into()))?;
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::redb::{ReadableTable, TableDefinition, TableHandle, backends::InMemoryBackend};
    use store::AccountId;
    use store_rules::tables::{CLIENTS, CONNECTIONS, NAMES, TOKENS, USERS, WEBHOOKS};

    const JOE: AccountId = AccountId::from_bytes([7; 16]);
    const NOTES: TableDefinition<&str, u64> = TableDefinition::new("notes");

    fn database() -> Database {
        Database::builder().create_with_backend(InMemoryBackend::new()).unwrap()
    }

    fn add_one(transaction: &WriteTransaction) -> Result<(), StoreError> {
        let mut notes = transaction.open_table(NOTES)?;
        let before = notes.get("steps")?.map_or(0, |steps| steps.value());
        notes.insert("steps", before + 1)?;
        Ok(())
    }

    fn fail(transaction: &WriteTransaction) -> Result<(), StoreError> {
        add_one(transaction)?;
        Err(StoreError::Failed("on purpose".into()))
    }

    fn steps_done(database: &Database) -> u64 {
        let transaction = database.begin_read().unwrap();
        transaction.open_table(NOTES).unwrap().get("steps").unwrap().unwrap().value()
    }

    fn run(steps: &[Step], database: &Database) -> Result<(), OpenError> {
        migrate_by(steps, database, Path::new("x"))
    }

    #[test]
    fn a_new_file_gets_the_newest_format_and_no_steps() {
        let database = database();
        run(&[fail, fail], &database).unwrap();
        assert_eq!(read_format(&database), Ok(Some(3)));
    }

    #[test]
    fn an_old_file_goes_through_the_steps_it_lacks_once() {
        let database = database();
        run(&[], &database).unwrap();
        run(&[add_one], &database).unwrap();
        run(&[fail, add_one, add_one], &database).unwrap();
        run(&[fail, fail, fail], &database).unwrap();
        assert_eq!((read_format(&database), steps_done(&database)), (Ok(Some(4)), 3));
    }

    #[test]
    fn a_step_that_fails_leaves_the_file_as_it_was() {
        let database = database();
        run(&[], &database).unwrap();
        assert!(run(&[add_one, fail], &database).is_err());
        assert_eq!((read_format(&database), steps_done(&database)), (Ok(Some(2)), 1));
    }

    #[test]
    fn a_file_of_format_1_keeps_what_it_has_and_gets_every_table() {
        let database = database();
        let old = |transaction: &WriteTransaction| {
            create_tables(transaction, &[Table::Accounts, Table::Keys, Table::Holds, Table::Ledger])?;
            name_joe(transaction)
        };
        apply(&database, old, 1).unwrap();
        migrate(&database, Path::new("x")).unwrap();
        assert_eq!(read_format(&database), Ok(Some(FORMAT.into())));
        let new = self::database();
        migrate(&new, Path::new("x")).unwrap();
        let names = |database: &Database| {
            let mut names: Vec<_> =
                database.begin_read().unwrap().list_tables().unwrap().map(|t| t.name().to_owned()).collect();
            names.sort();
            names
        };
        assert_eq!(names(&database), names(&new));
        assert_eq!(NAMES.get(&rows(&database), "joe"), Ok(Some(JOE)));
    }

    /// A file of this format with a name in it. `remove` takes away what its steps did not make at that time.
    fn older(format: u32, remove: impl FnOnce(&WriteTransaction)) -> Database {
        let database = database();
        migrate_by(&STEPS[..format as usize - 1], &database, Path::new("x")).unwrap();
        let transaction = database.begin_write().unwrap();
        remove(&transaction);
        name_joe(&transaction).unwrap();
        transaction.commit().unwrap();
        assert_eq!(read_format(&database), Ok(Some(format.into())));
        database
    }

    /// Migrates a file of [`older`], and gives what can be read of it then.
    fn migrated(database: &Database) -> ReadRows {
        migrate(database, Path::new("x")).unwrap();
        assert_eq!(read_format(database), Ok(Some(FORMAT.into())));
        let read = rows(database);
        assert_eq!(NAMES.get(&read, "joe"), Ok(Some(JOE)));
        read
    }

    fn rows(database: &Database) -> ReadRows {
        ReadRows::new(database.begin_read().unwrap())
    }

    fn name_joe(transaction: &WriteTransaction) -> Result<(), StoreError> {
        NAMES.put(&mut WriteRows::new(transaction), "joe", &JOE)
    }

    fn remove(transaction: &WriteTransaction, name: &str) {
        let mut tables = transaction.list_tables().unwrap();
        let table = tables.find(|table| table.name() == name).unwrap();
        drop(tables);
        assert!(transaction.delete_table(table).unwrap());
    }

    #[test]
    fn a_file_of_format_2_keeps_what_it_has_and_gets_users_and_sessions() {
        let database = older(2, |transaction| {
            remove(transaction, "users");
        });
        assert_eq!(USERS.is_empty(&migrated(&database)), Ok(true));
    }

    #[test]
    fn a_file_of_format_3_keeps_what_it_has_and_gets_assistants() {
        let database = older(3, |transaction| {
            remove(transaction, "clients");
            remove(transaction, "connections");
            remove(transaction, "tokens");
        });
        let read = migrated(&database);
        assert_eq!(CLIENTS.is_empty(&read), Ok(true));
        assert_eq!(CONNECTIONS.is_empty(&read), Ok(true));
        assert_eq!(TOKENS.is_empty(&read), Ok(true));
    }

    #[test]
    fn a_file_of_format_6_keeps_what_it_has_and_gets_webhooks() {
        let database = older(6, |_| {});
        assert_eq!(WEBHOOKS.is_empty(&migrated(&database)), Ok(true));
    }

    #[test]
    fn a_newer_file_is_left_alone() {
        let database = database();
        run(&[add_one], &database).unwrap();
        let refused = run(&[], &database);
        assert_eq!(refused, Err(OpenError::Newer { path: "x".into(), found: 2, known: 1 }));
    }

    #[test]
    fn tables_of_somebody_else_are_refused() {
        let database = database();
        let transaction = database.begin_write().unwrap();
        META.put(&mut WriteRows::new(&transaction), "other", &Fixed(1)).unwrap();
        transaction.commit().unwrap();
        assert!(matches!(migrate(&database, Path::new("x")), Err(OpenError::NotADatabase(..))));
    }
}
