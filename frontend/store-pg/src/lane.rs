//! A lane: one connection that executes groups of writes, one group after another, each in one transaction.
//!
//! A group takes two round trips. The first begins the transaction, writes the marker and locks the rows; the second
//! writes the rows and commits. The row of the lane in the table `lanes` has two purposes:
//!
//! - The marker: `seq` is the number of the last committed group. After a connection broke, it shows whether the group was
//!   committed.
//! - The fence: the group fails if `epoch` is no longer that of this lane, because another node has declared this one dead.
//!
//! BEGIN and the marker are one message of the simple protocol. Each statement of the extended protocol ends with its own
//! Sync in tokio-postgres, so after a BEGIN that failed (a late cancellation is enough) the marker would be committed
//! alone, and a group that never happened would look done. The server skips the rest of a simple message after an error.

use crate::connect::{Session, explain};
use futures_util::future::{join, join_all, join3};
use monoio::time::timeout;
use std::time::Duration;
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::{Client, Error, Row, SimpleQueryMessage, Statement};

/// The lane's place in the table `lanes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LanePlace {
    /// The number of the node.
    pub node: i64,
    /// The number of the lane within the node.
    pub lane: i32,
    /// The epoch in which the node registered itself.
    pub epoch: i64,
}

impl LanePlace {
    /// Gives the connection the name of the lane, and ends earlier connections with this name. A node with an old epoch must not
    /// end those of its successor.
    fn takeover(self) -> String {
        let LanePlace { node, lane, epoch } = self;
        let name = format!("mailprobe node {node} lane {lane}");
        format!(
            "SET application_name = '{name}'; \
             SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{name}' \
             AND usename = current_user AND datname = current_database() AND pid <> pg_backend_pid() \
             AND EXISTS (SELECT FROM lanes WHERE node = {node} AND lane = {lane} AND epoch = {epoch})"
        )
    }
}

/// Keys and values of rows of one table; both lists have the same length and order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rows {
    /// The column `k` of each row.
    pub keys: Vec<Vec<u8>>,
    /// The column `v` of each row.
    pub values: Vec<Vec<u8>>,
}

impl Rows {
    /// Adds a row at the end.
    pub fn push(&mut self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        self.keys.push(key.into());
        self.values.push(value.into());
    }
}

/// What a group does to one table.
#[derive(Debug, Clone, Default)]
pub struct TableChanges {
    /// New rows. If a key exists, the whole group is refused with [`NotDone::Conflict`].
    pub inserts: Rows,
    /// New values of rows that the group has locked.
    pub updates: Rows,
    /// The keys of rows that are removed.
    pub removes: Vec<Vec<u8>>,
}

/// The result of a group.
#[derive(Debug, PartialEq, Eq)]
pub enum GroupEnd {
    /// It is committed, and replicated as far as the server requires.
    Done,
    /// It has changed nothing, for this reason.
    NotDone(NotDone),
    /// It may be committed. [`Lane::believe`] of a new lane tells.
    Unknown,
}

/// The reason why a group changed nothing.
#[derive(Debug, PartialEq, Eq)]
pub enum NotDone {
    /// Another transaction was in the way (SQLSTATE 23505, 40001 or 40P01): the group can run again.
    Conflict,
    /// The node was declared dead: the epoch in `lanes` is another one.
    Fenced,
    /// The server refused a statement; with its message.
    Refused(String),
    /// There is no connection any more: the group can run on a new one.
    Away(String),
}

/// What the marker says of a group with an unknown result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truth {
    /// It is committed, safely.
    Done,
    /// It has changed nothing and never will: it can run again.
    NotDone,
    /// It has changed nothing, and must not run again: the node was declared dead.
    Fenced,
}

/// A lane with its prepared statements.
pub struct Lane {
    /// `None` once the connection cannot be used any more.
    session: Option<Session>,
    place: LanePlace,
    tables: Vec<TableStatements>,
    look: Statement,
    patience: Duration,
}

struct TableStatements {
    lock: Statement,
    insert: Statement,
    update: Statement,
    remove: Statement,
}

impl TableStatements {
    async fn prepare(client: &Client, table: &str) -> Result<TableStatements, Error> {
        let lock = format!("SELECT k, v FROM {table} WHERE k = ANY($1) ORDER BY k FOR UPDATE");
        let new = "unnest($1::bytea[], $2::bytea[]) AS new(k, v)";
        let insert = format!("INSERT INTO {table} (k, v) SELECT new.k, new.v FROM {new}");
        let update = format!("UPDATE {table} AS old SET v = new.v FROM {new} WHERE old.k = new.k");
        let remove = format!("DELETE FROM {table} WHERE k = ANY($1)");
        let texts = [lock, insert, update, remove];
        let mut prepared = join_all(texts.iter().map(|text| client.prepare(text))).await.into_iter();
        let mut next = || prepared.next().unwrap_or_else(|| unreachable!("one statement for each text"));
        Ok(TableStatements { lock: next()?, insert: next()?, update: next()?, remove: next()? })
    }
}

impl Lane {
    /// Prepares the statements for `tables`, in one round trip. `patience` is the longest time of a round trip; after it,
    /// the connection is closed.
    ///
    /// The session takes the name of the lane in `pg_stat_activity`, and other connections with this name are ended: a
    /// connection that broke unnoticed by the server keeps its locks. `idle_in_transaction_session_timeout` does not help
    /// if the server has received a part of a flush only, since it then waits in the middle of a statement.
    ///
    /// # Errors
    ///
    /// [`NotDone::Away`] or [`NotDone::Refused`].
    pub async fn open(
        session: Session,
        place: LanePlace,
        tables: &[&str],
        patience: Duration,
    ) -> Result<Lane, NotDone> {
        let client = session.client();
        // Whoever reads the row without a write could see a commit that a failover loses.
        let look =
            client.prepare("UPDATE lanes SET seq = seq WHERE node = $1 AND lane = $2 RETURNING seq, epoch");
        let each = join_all(tables.iter().map(|table| TableStatements::prepare(client, table)));
        let takeover = place.takeover();
        let all = join3(client.batch_execute(&takeover), look, each);
        let Ok((ended, look, each)) = timeout(patience, all).await else { return Err(slow()) };
        ended.map_err(|error| judge(&error))?;
        let tables: Result<Vec<TableStatements>, Error> = each.into_iter().collect();
        let (look, tables) = (look.map_err(|error| judge(&error))?, tables.map_err(|error| judge(&error))?);
        Ok(Lane { session: Some(session), place, tables, look, patience })
    }

    /// Whether the lane has a connection for another group.
    pub fn is_connected(&self) -> bool {
        self.session.as_ref().is_some_and(|session| !session.client().is_closed())
    }

    /// The connection of the lane, until it cannot be used any more.
    pub fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// Executes the group with the number `seq`. It locks the rows with the keys of each table, gives those that exist to
    /// `work`, in the order of their keys, and writes the changes that this returns for each table.
    pub async fn run(
        &mut self,
        seq: i64,
        keys: &[Vec<Vec<u8>>],
        work: impl FnOnce(&[Rows]) -> Vec<TableChanges>,
    ) -> GroupEnd {
        let Some(session) = self.session.take() else {
            return GroupEnd::NotDone(NotDone::Away("the lane has no connection".into()));
        };
        let (end, is_open) = match self.lock(session.client(), seq, keys).await {
            Ok(rows) => self.write(&session, &work(&rows)).await,
            Err(why) => (GroupEnd::NotDone(why), true),
        };
        self.session = match &end {
            GroupEnd::Unknown | GroupEnd::NotDone(NotDone::Away(_)) => None,
            _ if is_open => self.roll_back(session).await,
            _ => Some(session),
        };
        end
    }

    /// The first round trip: BEGIN, marker and fence, locks.
    async fn lock(&self, client: &Client, seq: i64, keys: &[Vec<Vec<u8>>]) -> Result<Vec<Rows>, NotDone> {
        let LanePlace { node, lane, epoch } = self.place;
        let begin = format!(
            "BEGIN; UPDATE lanes SET seq = {seq} WHERE node = {node} AND lane = {lane} AND epoch = {epoch}"
        );
        let reads = self.tables.iter().zip(keys).map(|(table, keys)| async move {
            if keys.is_empty() { Ok(Vec::new()) } else { client.query(&table.lock, &[keys]).await }
        });
        // `join` polls in this order, so the messages leave in this order.
        let both = join(client.simple_query(&begin), join_all(reads));
        let Ok((marked, read)) = timeout(self.patience, both).await else { return Err(slow()) };
        let marked = marked.map_err(|error| judge(&error))?;
        if !matches!(marked.last(), Some(SimpleQueryMessage::CommandComplete(1))) {
            return Err(NotDone::Fenced);
        }
        let read: Result<Vec<Rows>, Error> = read.into_iter().map(|rows| to_rows(&rows?)).collect();
        read.map_err(|error| judge(&error))
    }

    /// The second round trip: the changes and COMMIT. The transaction may still be open afterwards: a cancellation that hits
    /// COMMIT makes it fail and does not end it.
    async fn write(&self, session: &Session, changes: &[TableChanges]) -> (GroupEnd, bool) {
        let client = session.client();
        let warnings = session.warnings();
        let writes = self.tables.iter().zip(changes).flat_map(|(table, changes)| {
            let TableChanges { inserts, updates, removes } = changes;
            [
                (&table.insert, &inserts.keys, Some(&inserts.values)),
                (&table.update, &updates.keys, Some(&updates.values)),
                (&table.remove, removes, None),
            ]
        });
        let writes = writes.filter(|(_, keys, _)| !keys.is_empty());
        let writes = writes.map(|(statement, keys, values)| async move {
            match values {
                Some(values) => client.execute(statement, &[keys, values]).await,
                None => client.execute(statement, &[keys]).await,
            }
        });
        let both = join(join_all(writes), client.batch_execute("COMMIT"));
        let Ok((written, committed)) = timeout(self.patience, both).await else {
            return (GroupEnd::Unknown, true);
        };
        let is_open = committed.is_err();
        // If a write was refused, COMMIT has rolled back. All writes after it were refused for that reason.
        let failed = written.into_iter().find_map(Result::err).or(committed.err());
        let end = match failed.as_ref().map(judge) {
            Some(NotDone::Away(_)) => GroupEnd::Unknown,
            Some(why) => GroupEnd::NotDone(why),
            // The wait for the replication was cancelled: the commit is visible, and a failover may lose it.
            None if session.warnings() != warnings => GroupEnd::Unknown,
            None => GroupEnd::Done,
        };
        (end, is_open)
    }

    async fn roll_back(&self, session: Session) -> Option<Session> {
        let ended = timeout(self.patience, session.client().batch_execute("ROLLBACK")).await;
        matches!(ended, Ok(Ok(()))).then_some(session)
    }

    /// Finds out on a new connection whether the group with the number `seq` was committed, by a write to the same row.
    /// This waits for a transaction of the old connection that still has the lock.
    ///
    /// # Errors
    ///
    /// It is still unknown, for this reason: ask again on a new lane.
    pub async fn believe(&mut self, seq: i64) -> Result<Truth, String> {
        let Some(session) = self.session.take() else { return Err("the lane has no connection".into()) };
        let warnings = session.warnings();
        let LanePlace { node, lane, epoch } = self.place;
        let asked = async { session.client().query_opt(&self.look, &[&node, &lane]).await };
        let row = match timeout(self.patience, asked).await {
            Ok(Ok(row)) => row,
            Ok(Err(error)) => return Err(explain(&error)),
            Err(_) => return Err("the server did not answer in time".into()),
        };
        if session.warnings() != warnings {
            return Err("the server has warned of this commit".into());
        }
        self.session = Some(session);
        let Some(row) = row else { return Ok(Truth::Fenced) };
        let read = |column| row.try_get::<usize, i64>(column).map_err(|error| explain(&error));
        Ok(match (read(0)?, read(1)?) {
            (last, _) if last == seq => Truth::Done,
            (_, now) if now == epoch => Truth::NotDone,
            _ => Truth::Fenced,
        })
    }
}

fn to_rows(found: &[Row]) -> Result<Rows, Error> {
    let mut rows = Rows::default();
    for row in found {
        rows.push(row.try_get::<_, &[u8]>(0)?, row.try_get::<_, &[u8]>(1)?);
    }
    Ok(rows)
}

fn slow() -> NotDone {
    NotDone::Away("the server did not answer in time".into())
}

/// What an error of the client says of a transaction. Only an error of the severity ERROR is an answer to a statement;
/// after FATAL the server ends the connection, and may have committed before.
fn judge(error: &Error) -> NotDone {
    match error.as_db_error() {
        Some(refusal) if refusal.parsed_severity() == Some(Severity::Error) => {
            let again = [
                SqlState::UNIQUE_VIOLATION,
                SqlState::T_R_SERIALIZATION_FAILURE,
                SqlState::T_R_DEADLOCK_DETECTED,
            ];
            if again.contains(refusal.code()) { NotDone::Conflict } else { NotDone::Refused(explain(error)) }
        }
        _ => NotDone::Away(explain(error)),
    }
}
