//! A lane: one connection that executes groups of writes, one group after another, each in one transaction.
//!
//! A group takes two round trips. The first begins the transaction, writes the marker and fetches the rows; the second
//! writes the rows and commits. Between them, each round trip fetches rows that the jobs of the group turned out to read
//! (`group.rs`). The row of the lane in the table `lanes` has two purposes:
//!
//! - The marker: `seq` is the number of the last committed group. After a connection broke, it shows whether the group was
//!   committed.
//! - The fence: the group fails if `epoch` is no longer that of this lane, because another node has declared this one dead.
//!
//! BEGIN and the marker are one message of the simple protocol. Each statement of the extended protocol ends with its own
//! Sync in tokio-postgres, so after a BEGIN that failed (a late cancellation is enough) the marker would be committed
//! alone, and a group that never happened would look done. The server skips the rest of a simple message after an error.

mod group;
mod statements;

pub use group::{GroupEnd, GroupJob, GroupReport, Jobs, UnsureGroup};
pub(crate) use statements::{Fetch, PLANS, Statements, TableWrite};

use crate::connect::{Session, explain};
use crate::feed::{Feed, READ_CHANGES, WRITE_CHANGES};
use crate::overlay::{Overlay, TableChanges};
use crate::schema;
use futures_util::future::{join, join3};
use monoio::time::timeout;
use std::cell::{Cell, OnceCell};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;
use store::StoreError;
use store_rules::backend::Lock;
use store_rules::txn::Effects;
use thiserror::Error;
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
        // Several clusters may have one database.
        let name = format!("'mailprobe ' || current_schema() || ' {node}/{lane}'");
        format!(
            "SELECT set_config('application_name', {name}, false); \
             SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = {name} \
             AND usename = current_user AND datname = current_database() AND pid <> pg_backend_pid() \
             AND EXISTS (SELECT FROM lanes WHERE node = {node} AND lane = {lane} AND epoch = {epoch})"
        )
    }
}

/// The reason why a group changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotDone {
    /// Another transaction was in the way (SQLSTATE 23505, 40001 or 40P01): the group can run again.
    #[error("another transaction was in the way")]
    Conflict,
    /// The server had no time or no room for a statement, or somebody has cancelled it (SQLSTATE of the classes 53, 55, 57
    /// and 58): the group can run again. With the message.
    #[error("{0}")]
    Busy(String),
    /// The node was declared dead: the epoch in `lanes` is another one.
    #[error("the node was declared dead")]
    Fenced,
    /// The server refused a statement; with its message.
    #[error("{0}")]
    Refused(String),
    /// There is no connection any more: the group can run on a new one.
    #[error("{0}")]
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
    /// Whether a transaction must be rolled back before the next one.
    is_open: bool,
    place: LanePlace,
    statements: Statements,
    /// The changes of the index, which some transactions read and write.
    feed: Option<Rc<Feed>>,
    /// The statements for the changes. A text in their place would be prepared first, and executed after COMMIT.
    read_changes: OnceCell<Statement>,
    write_changes: OnceCell<Statement>,
    look: Statement,
    patience: Duration,
    trips: Cell<u64>,
}

impl Lane {
    /// Opens a lane. `patience` is the longest time of a round trip; after it, the connection is closed.
    ///
    /// The session takes the name of the lane in `pg_stat_activity`, and other connections with this name are ended: a
    /// connection that broke unnoticed by the server keeps its locks. `idle_in_transaction_session_timeout` does not help
    /// if the server has received a part of a flush only, since it then waits in the middle of a statement.
    ///
    /// # Errors
    ///
    /// [`NotDone::Away`], [`NotDone::Busy`] or [`NotDone::Refused`].
    pub async fn open(session: Session, place: LanePlace, patience: Duration) -> Result<Lane, NotDone> {
        let client = session.client();
        // Whoever reads the row without a write could see a commit that a failover loses.
        let look =
            client.prepare("UPDATE lanes SET seq = seq WHERE node = $1 AND lane = $2 RETURNING seq, epoch");
        let takeover = format!("{PLANS}{}", place.takeover());
        let both = join(client.batch_execute(&takeover), look);
        let Ok((ended, look)) = timeout(patience, both).await else { return Err(slow()) };
        ended.map_err(|error| judge(&error))?;
        let look = look.map_err(|error| judge(&error))?;
        Ok(Lane {
            session: Some(session),
            is_open: false,
            place,
            statements: Statements::default(),
            feed: None,
            read_changes: OnceCell::new(),
            write_changes: OnceCell::new(),
            look,
            patience,
            trips: Cell::new(0),
        })
    }

    /// The lane of a node: its statements also write the columns of `schema.rs`, and the changes of the index.
    #[must_use]
    pub fn with_feed(self, feed: Rc<Feed>) -> Lane {
        let LanePlace { node, epoch, .. } = self.place;
        Lane { statements: Statements::for_node(node, epoch), feed: Some(feed), ..self }
    }

    /// Whether the lane has a connection for another group.
    pub fn is_connected(&self) -> bool {
        self.session.as_ref().is_some_and(|session| !session.client().is_closed())
    }

    /// The connection of the lane, until it cannot be used any more.
    pub fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// The number of round trips so far, without those of [`Lane::open`].
    pub fn round_trips(&self) -> u64 {
        self.trips.get() + self.statements.trips()
    }

    /// The first round trip: BEGIN, marker and fence, locks of what belongs to no account, and fetches.
    async fn begin(
        &self,
        client: &Client,
        seq: i64,
        locks: &BTreeSet<Lock>,
        overlay: &mut Overlay,
    ) -> Result<(), NotDone> {
        let LanePlace { node, lane, epoch } = self.place;
        let mut begin = format!(
            "BEGIN; UPDATE lanes SET seq = {seq} WHERE node = {node} AND lane = {lane} AND epoch = {epoch}"
        );
        for lock in locks {
            let _ = write!(begin, "; SELECT {}", schema::lock(number_of(*lock)));
        }
        let fetches = self.statements.fetches(client, Fetch::all(overlay.take_lacks()));
        let fetches = self.wait(fetches).await?;
        self.trips.set(self.trips.get() + 1);
        let feed = match self.feed.as_ref().filter(|_| locks.contains(&Lock::Index)) {
            Some(feed) => Some((feed, self.prepared(client, &self.read_changes, READ_CHANGES).await?)),
            None => None,
        };
        let changes = async {
            let Some((feed, statement)) = &feed else { return Ok(Vec::new()) };
            client.query(statement, &[&feed.last()]).await
        };
        // `join` polls in this order, so the messages leave in this order.
        let all = join3(client.simple_query(&begin), fetches.send(client), changes);
        let Ok((marked, read, changes)) = timeout(self.patience, all).await else { return Err(slow()) };
        let marked = marked.map_err(|error| judge(&error))?;
        let mut tags = marked.iter().filter_map(|message| match message {
            SimpleQueryMessage::CommandComplete(rows) => Some(*rows),
            _ => None,
        });
        // The second tag is that of UPDATE.
        if tags.nth(1) != Some(1) {
            return Err(NotDone::Fenced);
        }
        let read = read.map_err(|error| judge(&error))?;
        if let Some((feed, _)) = feed {
            let pair = |row: &Row| Ok((row.try_get(0)?, row.try_get(1)?));
            let changes: Result<Vec<_>, Error> = changes.and_then(|rows| rows.iter().map(pair).collect());
            // With a gap the group waits until the index was read again.
            feed.apply(changes.map_err(|error| judge(&error))?)
                .map_err(|error| NotDone::Away(error.to_string()))?;
        }
        fetches.add_to(overlay, &read).map_err(|error| judge(&error))
    }

    /// A statement of this connection, which is prepared when it is needed for the first time.
    async fn prepared(
        &self,
        client: &Client,
        statement: &OnceCell<Statement>,
        text: &str,
    ) -> Result<Statement, NotDone> {
        if let Some(statement) = statement.get() {
            return Ok(statement.clone());
        }
        self.trips.set(self.trips.get() + 1);
        let new = self.wait(client.prepare(text)).await?;
        Ok(statement.get_or_init(|| new).clone())
    }

    /// Another round trip: fetches what is lacking.
    async fn fetch(&self, client: &Client, overlay: &mut Overlay) -> Result<(), NotDone> {
        let fetches = self.statements.fetches(client, Fetch::all(overlay.take_lacks()));
        let fetches = self.wait(fetches).await?;
        self.trips.set(self.trips.get() + 1);
        let read = self.wait(fetches.send(client)).await?;
        fetches.add_to(overlay, &read).map_err(|error| judge(&error))
    }

    /// The last round trip: the changes and COMMIT. The transaction may still be open afterwards: a cancellation that hits
    /// COMMIT makes it fail and does not end it.
    async fn commit(&self, session: &Session, changes: &[TableChanges], effects: &Effects) -> (Ended, bool) {
        let client = session.client();
        let writes = self.statements.writes(client, TableWrite::all(changes));
        let writes = match self.wait(writes).await {
            Ok(writes) => writes,
            Err(why) => return (Ended::NotDone(why), true),
        };
        let feed = match self.feed.as_ref().filter(|_| !effects.key_changes.is_empty()) {
            Some(feed) => match self.prepared(client, &self.write_changes, WRITE_CHANGES).await {
                Ok(statement) => Some((feed, statement)),
                Err(why) => return (Ended::NotDone(why), true),
            },
            None => None,
        };
        self.trips.set(self.trips.get() + 1);
        let warnings = session.warnings();
        let told = async {
            let Some((feed, statement)) = &feed else { return Ok(()) };
            client.execute(statement, &[&feed.last(), &Feed::encode(effects)]).await.map(drop)
        };
        let all = join3(writes.send(client), told, client.batch_execute("COMMIT"));
        let Ok((written, told, committed)) = timeout(self.patience, all).await else {
            return (Ended::Unknown, true);
        };
        let is_open = committed.is_err();
        // If a write was refused, COMMIT has rolled back. All writes after it were refused for that reason.
        let failed = written.err().or(told.err()).or(committed.err());
        let end = match failed.as_ref().map(judge) {
            Some(NotDone::Away(_)) => Ended::Unknown,
            Some(why) => Ended::NotDone(why),
            // The wait for the replication was cancelled: the commit is visible, and a failover may lose it.
            None if session.warnings() != warnings => Ended::Unknown,
            None => Ended::Committed,
        };
        (end, is_open)
    }

    /// Ends a transaction that is still open. If this fails, the connection is closed, which ends it too.
    async fn roll_back(&mut self) {
        if !mem::take(&mut self.is_open) {
            return;
        }
        let Some(session) = self.session.take() else { return };
        self.trips.set(self.trips.get() + 1);
        let ended = self.wait(session.client().batch_execute("ROLLBACK")).await;
        self.session = ended.is_ok().then_some(session);
    }

    async fn wait<T>(&self, answer: impl Future<Output = Result<T, Error>>) -> Result<T, NotDone> {
        match timeout(self.patience, answer).await {
            Ok(answer) => answer.map_err(|error| judge(&error)),
            Err(_) => Err(slow()),
        }
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

/// The end of a transaction.
enum Ended {
    Committed,
    /// It had nothing to commit.
    Unchanged,
    NotDone(NotDone),
    Unknown,
}

fn number_of(lock: Lock) -> i32 {
    match lock {
        Lock::Index => 1,
        Lock::Clients => 2,
        Lock::Lists => 3,
    }
}

/// The result of work, or `None` if it has panicked. A panic is a defect of the work of one caller; without this it would end
/// the thread of all lanes.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Option<T> {
    // What the work has changed is undone or dropped by the caller.
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// The answer to the caller of work that has panicked. The hook of panics has written where.
pub(crate) fn panicked(what: &str) -> StoreError {
    StoreError::Failed(format!("a defect: {what} has panicked"))
}

pub(crate) fn slow() -> NotDone {
    NotDone::Away("the server did not answer in time".into())
}

/// What an error of the client says of a transaction. Only an error of the severity ERROR is an answer to a statement;
/// after FATAL the server ends the connection, and may have committed before.
pub(crate) fn judge(error: &Error) -> NotDone {
    match error.as_db_error() {
        Some(refusal) if refusal.parsed_severity() == Some(Severity::Error) => {
            let again = [
                SqlState::UNIQUE_VIOLATION,
                SqlState::T_R_SERIALIZATION_FAILURE,
                SqlState::T_R_DEADLOCK_DETECTED,
            ];
            let is_busy =
                ["53", "55", "57", "58"].iter().any(|class| refusal.code().code().starts_with(class));
            match refusal.code() {
                code if again.contains(code) => NotDone::Conflict,
                _ if is_busy => NotDone::Busy(explain(error)),
                _ => NotDone::Refused(explain(error)),
            }
        }
        _ => NotDone::Away(explain(error)),
    }
}
