//! The node among others: its registration, its lease, and what it does for nodes that have died.
//!
//! A node renews its lease every two seconds by the clock of the database, and loses it after ten without a renewal. Whoever
//! finds a dead node raises its epoch. So a group of the dead node fails at its marker, if it was only paused. Then its
//! batches and lists are free for others, and its holds are voided.
//!
//! A failover takes longer than a lease, so after it all leases are over although all nodes live. A node therefore declares no
//! other dead until it has itself renewed its lease without a gap for as long as a lease lasts ([`Presence`]): in this time
//! each living node has renewed its own. The work of a node that has left in order is free at once.
//!
//! Before an epoch is raised, the connections of the node's lanes are ended: their transactions then end, and the rows of
//! `lanes` are free.

use crate::connect::explain;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use store::{HoldRef, StoreError, UnixMs};
use store_rules::row::{Fixed, Row as _};
use store_rules::tables::{FORMAT, META_FORMAT, split_entry_key};
use tokio_postgres::{Client, Error};

/// The number of lanes of a node.
pub const LANES: i32 = 4;
/// The life of a lease by the database's clock.
const LEASE: &str = "interval '10 s'";
/// The same, by the clock of this machine.
const LEASE_TIME: Duration = Duration::from_secs(10);
/// The longest time between two renewals of a node that sees its database without a gap. Within it, no lease of another node ends
/// that was renewed in time.
const GAP_MAX: Duration = Duration::from_secs(5);
/// How long a node trusts a lease after it has asked for it. It is shorter, so that no other node finds it over earlier.
pub const LEASE_TRUSTED: Duration = Duration::from_secs(7);
/// The time between two renewals.
pub const RENEW_EVERY: Duration = Duration::from_secs(2);
/// How long a start watches for another process with its number.
const WATCH: Duration = Duration::from_millis(2_500);
/// Holds that are read at a time.
const HOLDS_AT_A_TIME: i64 = 1000;

/// What a node says of itself.
#[derive(Debug, Clone)]
pub struct NodeSettings {
    /// Its number, which it keeps over restarts.
    pub id: i64,
    /// The name of the address that its checks come from. Nodes with the same name share the limits of mail servers.
    pub egress: String,
    /// The name of its machine, for people.
    pub host: String,
    /// The version of mailprobe, for people.
    pub version: String,
}

/// Whether a process works among the nodes, or executes one command of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A server: it has a lease, and others take over its work.
    Server,
    /// A command. It has a number and lanes, because a group of writes needs them, and no lease: so it does not count as a live
    /// node, and has no work that another node could take over. Its rows are removed at its end.
    Command,
}

/// The lease of this process, for all threads.
pub struct Lease {
    start: Instant,
    /// Milliseconds from `start` until which the lease is trusted.
    until: AtomicU64,
}

impl Lease {
    /// A lease that is over.
    pub fn new() -> Lease {
        Lease { start: Instant::now(), until: AtomicU64::new(0) }
    }

    /// Whether this node may work: no other node takes its work over at this moment.
    pub fn is_valid(&self) -> bool {
        self.now_ms() < self.until.load(Ordering::Acquire)
    }

    /// How long it has been over; zero while it is valid.
    pub fn over_for(&self) -> Duration {
        Duration::from_millis(self.now_ms().saturating_sub(self.until.load(Ordering::Acquire)))
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The lease was granted after it had been asked for at this time.
    pub fn granted(&self, asked: Instant) {
        let until = (asked + LEASE_TRUSTED).saturating_duration_since(self.start);
        self.until.store(u64::try_from(until.as_millis()).unwrap_or(u64::MAX), Ordering::Release);
    }

    /// The lease is lost.
    pub fn lost(&self) {
        // Not zero: readiness counts from the loss.
        self.until.fetch_min(self.now_ms(), Ordering::AcqRel);
    }
}

impl Default for Lease {
    fn default() -> Lease {
        Lease::new()
    }
}

/// For how long the node has renewed its lease without a gap.
#[derive(Debug, Default)]
pub struct Presence {
    since: Option<Instant>,
    last: Option<Instant>,
}

impl Presence {
    /// The database has renewed the lease.
    pub fn renewed(&mut self, now: Instant) {
        let is_next = self.last.is_some_and(|last| now.saturating_duration_since(last) <= GAP_MAX);
        if !is_next {
            self.since = Some(now);
        }
        self.last = Some(now);
    }

    /// Whether it is long enough that every living node has renewed its lease too.
    pub fn is_long(&self, now: Instant) -> bool {
        let is_recent = self.last.is_some_and(|last| now.saturating_duration_since(last) <= GAP_MAX);
        is_recent && self.since.is_some_and(|since| now.saturating_duration_since(since) >= LEASE_TIME)
    }
}

/// The result of a registration.
#[derive(Debug, Clone)]
pub struct Registration {
    /// The epoch of the node from now on.
    pub epoch: i64,
    /// The number of the last committed group of each lane.
    pub last_groups: Vec<i64>,
}

/// A refusal to register.
#[derive(Debug)]
pub enum NotRegistered {
    /// Another process renews the lease of this number.
    InUse {
        /// The machine of that process.
        host: String,
    },
    /// The database has this format, which this version does not know.
    Newer(u64),
    /// The database could not do it.
    Database(Error),
}

impl From<Error> for NotRegistered {
    fn from(error: Error) -> NotRegistered {
        NotRegistered::Database(error)
    }
}

/// Refuses a number if another process renews its lease. This happens after a data folder was copied.
///
/// # Errors
///
/// [`NotRegistered`].
pub async fn watch_for_another(client: &Client, id: i64) -> Result<(), NotRegistered> {
    let text = "SELECT until::text, host FROM nodes WHERE id = $1 AND until > clock_timestamp()";
    let Some(first) = client.query_opt(text, &[&id]).await? else { return Ok(()) };
    monoio::time::sleep(WATCH).await;
    let Some(second) = client.query_opt(text, &[&id]).await? else { return Ok(()) };
    if first.try_get::<_, String>(0)? == second.try_get::<_, String>(0)? {
        return Ok(());
    }
    Err(NotRegistered::InUse { host: second.try_get(1)? })
}

/// Registers the node in a new epoch, which ends everything of its earlier epochs.
///
/// # Errors
///
/// The database could not do it, which can be tried again, or has a newer format.
pub async fn register(client: &Client, node: &NodeSettings) -> Result<Registration, NotRegistered> {
    end_lanes(client, node.id).await?;
    client.batch_execute("BEGIN").await?;
    let registered = register_within(client, node).await;
    client.batch_execute(if registered.is_ok() { "COMMIT" } else { "ROLLBACK" }).await?;
    registered
}

async fn register_within(client: &Client, node: &NodeSettings) -> Result<Registration, NotRegistered> {
    let NodeSettings { id, egress, host, version } = node;
    let format = i32::try_from(FORMAT).unwrap_or(i32::MAX);
    let text = format!(
        "INSERT INTO nodes (id, epoch, until, format, version, egress, host) \
         VALUES ($1, 1, clock_timestamp() + {LEASE}, $2, $3, $4, $5) \
         ON CONFLICT (id) DO UPDATE SET epoch = nodes.epoch + 1, until = excluded.until, \
         format = excluded.format, version = excluded.version, egress = excluded.egress, host = excluded.host \
         RETURNING epoch"
    );
    let epoch: i64 = client.query_one(&text, &[id, &format, version, egress, host]).await?.try_get(0)?;
    // `cluster upgrade` locks the table of nodes while it looks for those that do not know a format. This node may have read the
    // format before that, and inserted its row after it.
    let found = client.query_opt("SELECT v FROM meta WHERE k = $1", &[&META_FORMAT.as_bytes()]).await?;
    let found: Option<Vec<u8>> = found.map(|row| row.try_get(0)).transpose()?;
    if let Some(newer) = found.and_then(|v| Fixed::decode(&v).ok()).filter(|found| found.0 > FORMAT.into()) {
        return Err(NotRegistered::Newer(newer.0));
    }
    let text = "INSERT INTO lanes (node, lane, epoch, seq) SELECT $1, lane, $2, 0 FROM generate_series(0, $3) AS lane \
                ON CONFLICT (node, lane) DO UPDATE SET epoch = excluded.epoch";
    client.execute(text, &[id, &epoch, &(LANES - 1)]).await?;
    let rows = client.query("SELECT seq FROM lanes WHERE node = $1 ORDER BY lane", &[id]).await?;
    let last_groups = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, Error>>()?;
    Ok(Registration { epoch, last_groups })
}

async fn end_lanes(client: &Client, id: i64) -> Result<(), Error> {
    let text = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE starts_with(application_name, 'mailprobe ' || current_schema() || ' {id}/') AND usename = current_user \
         AND datname = current_database()"
    );
    client.batch_execute(&text).await
}

/// Renews the lease. Returns the time of the database, or `None` if the node was declared dead.
///
/// # Errors
///
/// The database could not do it.
pub async fn renew(client: &Client, id: i64, epoch: i64) -> Result<Option<UnixMs>, Error> {
    let text = format!(
        "UPDATE nodes SET until = clock_timestamp() + {LEASE} WHERE id = $1 AND epoch = $2 \
         RETURNING (extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    );
    let row = client.query_opt(&text, &[&id, &epoch]).await?;
    row.map(|row| row.try_get(0).map(i64::unsigned_abs)).transpose()
}

/// Numbers of nodes with a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveNodes {
    /// Number of all live nodes.
    pub all: u32,
    /// Number of those with the same name of an egress, this node among them.
    pub of_egress: u32,
}

impl LiveNodes {
    /// The numbers by which limits are divided, after they were `before`. After a failover, most leases are over although the nodes
    /// live. So a number falls only if this node `knows_others`.
    pub fn since(self, before: LiveNodes, knows_others: bool) -> LiveNodes {
        let after =
            |found: u32, before: u32| if knows_others { found.max(1) } else { found.max(before).max(1) };
        LiveNodes { all: after(self.all, before.all), of_egress: after(self.of_egress, before.of_egress) }
    }
}

/// Counts the nodes with a lease.
///
/// # Errors
///
/// The database could not do it.
pub async fn count_live(client: &Client, egress: &str) -> Result<LiveNodes, Error> {
    let text =
        "SELECT count(*), count(*) FILTER (WHERE egress = $1) FROM nodes WHERE until > clock_timestamp()";
    let row = client.query_one(text, &[&egress]).await?;
    let number = |column| row.try_get::<_, i64>(column).map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    Ok(LiveNodes { all: number(0)?, of_egress: number(1)? })
}

/// Registers a command. It has an empty egress and a lease that is over.
///
/// # Errors
///
/// The database could not do it; it can be tried again.
pub async fn register_command(client: &Client, node: &NodeSettings) -> Result<Registration, Error> {
    let NodeSettings { id, host, version, .. } = node;
    let format = i32::try_from(FORMAT).unwrap_or(i32::MAX);
    // One statement, so one transaction.
    let text = "WITH node AS (INSERT INTO nodes (id, epoch, until, format, version, egress, host) \
                VALUES ($1, 1, '-infinity', $2, $3, '', $4) \
                ON CONFLICT (id) DO UPDATE SET epoch = nodes.epoch + 1 RETURNING epoch), \
                lane AS (INSERT INTO lanes (node, lane, epoch, seq) \
                SELECT $1, lane, epoch, 0 FROM node, generate_series(0, $5) AS lane \
                ON CONFLICT (node, lane) DO UPDATE SET epoch = excluded.epoch RETURNING lane, seq) \
                SELECT node.epoch, lane.seq FROM node, lane ORDER BY lane.lane";
    let rows = client.query(text, &[id, &format, version, host, &(LANES - 1)]).await?;
    let epoch = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
    let last_groups = rows.iter().map(|row| row.try_get(1)).collect::<Result<_, _>>()?;
    Ok(Registration { epoch, last_groups })
}

/// Removes the rows of a command at its end.
///
/// # Errors
///
/// The database could not do it; [`remove_commands`] does it later.
pub async fn remove_command(client: &Client, id: i64) -> Result<(), Error> {
    let text =
        "WITH lane AS (DELETE FROM lanes WHERE node = $1) DELETE FROM nodes WHERE id = $1 AND egress = ''";
    client.execute(text, &[&id]).await.map(drop)
}

/// Removes the rows of commands that have ended without doing it. A command that is alive and has no connection at this moment
/// registers again.
///
/// # Errors
///
/// The database could not do it; a later call does.
pub async fn remove_commands(client: &Client) -> Result<(), Error> {
    let text = "WITH gone AS (DELETE FROM nodes WHERE egress = '' AND NOT EXISTS \
                (SELECT FROM pg_stat_activity WHERE datname = current_database() AND starts_with(application_name, \
                'mailprobe ' || current_schema() || ' ' || nodes.id || '/')) RETURNING id) \
                DELETE FROM lanes USING gone WHERE lanes.node = gone.id";
    client.execute(text, &[]).await.map(drop)
}

/// Ends the lease, at the end of the process.
///
/// # Errors
///
/// The database could not do it; the lease then ends by itself.
pub async fn leave(client: &Client, id: i64, epoch: i64) -> Result<(), Error> {
    let text = "UPDATE nodes SET until = '-infinity' WHERE id = $1 AND epoch = $2";
    client.execute(text, &[&id, &epoch]).await.map(drop)
}

/// Declares nodes dead if their leases are over, and frees their work; returns their numbers. Without `knows_others`, it does so
/// only with nodes that have left in order.
///
/// # Errors
///
/// The database could not do it; another node or a later look does.
pub async fn bury_dead(client: &Client, own: i64, knows_others: bool) -> Result<Vec<i64>, Error> {
    let text = "SELECT id, epoch FROM nodes \
                WHERE id <> $1 AND until < clock_timestamp() AND ($2 OR until = '-infinity') \
                AND (until > '-infinity' \
                OR EXISTS (SELECT FROM holds WHERE holds.node = nodes.id AND holds.epoch <= nodes.epoch) \
                OR EXISTS (SELECT FROM open_batches AS o WHERE o.node = nodes.id) \
                OR EXISTS (SELECT FROM lists AS l WHERE l.node = nodes.id))";
    let mut buried = Vec::new();
    for row in client.query(text, &[&own, &knows_others]).await? {
        let (id, epoch): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        end_lanes(client, id).await?;
        client.batch_execute("BEGIN").await?;
        let done = bury(client, id, epoch).await;
        client.batch_execute(if done.is_ok() { "COMMIT" } else { "ROLLBACK" }).await?;
        if done? {
            buried.push(id);
        }
    }
    Ok(buried)
}

async fn bury(client: &Client, id: i64, epoch: i64) -> Result<bool, Error> {
    let text = "UPDATE nodes SET epoch = epoch + 1, until = '-infinity' \
                WHERE id = $1 AND epoch = $2 AND until < clock_timestamp()";
    // Another node was faster, or the node lives again.
    if client.execute(text, &[&id, &epoch]).await? == 0 {
        return Ok(false);
    }
    client.execute("UPDATE lanes SET epoch = $2::bigint + 1 WHERE node = $1", &[&id, &epoch]).await?;
    for table in ["open_batches", "lists"] {
        client.execute(&format!("UPDATE {table} SET node = NULL WHERE node = $1"), &[&id]).await?;
    }
    Ok(true)
}

/// Holds that nobody will answer: those of earlier epochs of any node, and those that are older than a check can be.
///
/// # Errors
///
/// The database could not do it.
pub async fn orphaned_holds(client: &Client) -> Result<Vec<HoldRef>, StoreError> {
    let text = "SELECT k FROM holds LEFT JOIN nodes ON nodes.id = holds.node \
                WHERE nodes.id IS NULL OR nodes.epoch > holds.epoch \
                OR holds.since < clock_timestamp() - interval '180 s' LIMIT $1";
    let rows = client.query(text, &[&HOLDS_AT_A_TIME]).await;
    let rows = rows.map_err(|error| StoreError::Away(explain(&error)))?;
    let key = |row: &tokio_postgres::Row| row.try_get::<_, &[u8]>(0).ok()?.try_into().ok();
    let keys = rows.iter().map(|row| key(row).map(|key: [u8; 32]| split_entry_key(&key)));
    keys.collect::<Option<_>>().ok_or_else(|| StoreError::Failed("a hold has no key of 32 bytes".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_known_after_a_lease_without_a_gap() {
        let zero = Instant::now();
        let at = |seconds: u64| zero + Duration::from_secs(seconds);
        let mut presence = Presence::default();
        assert!(!presence.is_long(at(0)));
        let renew = |presence: &mut Presence, from: u64, to: u64| {
            (from..=to).step_by(2).for_each(|second| presence.renewed(at(second)));
        };
        renew(&mut presence, 0, 8);
        assert!(!presence.is_long(at(9)));
        renew(&mut presence, 10, 10);
        assert!(presence.is_long(at(10)));
        // The database is away from here on: what its rows say is old.
        assert!(!presence.is_long(at(16)));
        renew(&mut presence, 32, 40);
        assert!(!presence.is_long(at(41)));
        renew(&mut presence, 42, 42);
        assert!(presence.is_long(at(42)));
    }

    #[test]
    fn the_numbers_of_nodes_rise_at_once_and_fall_with_knowledge() {
        let numbers = |(all, of_egress)| LiveNodes { all, of_egress };
        for (found, before, knows_others, expected) in [
            ((5, 3), (1, 1), false, (5, 3)),
            ((5, 3), (1, 1), true, (5, 3)),
            ((1, 1), (5, 3), false, (5, 3)),
            ((1, 1), (5, 3), true, (1, 1)),
            ((4, 3), (5, 2), false, (5, 3)),
            ((0, 0), (1, 1), true, (1, 1)),
            ((0, 0), (0, 0), false, (1, 1)),
        ] {
            let live = numbers(found).since(numbers(before), knows_others);
            assert_eq!(live, numbers(expected), "{found:?} after {before:?}, {knows_others}");
        }
    }

    #[test]
    fn a_lost_lease_counts_from_its_loss() {
        let lease = Lease::new();
        lease.granted(Instant::now());
        assert!(lease.is_valid() && lease.over_for() == Duration::ZERO);
        lease.lost();
        assert!(!lease.is_valid() && lease.over_for() < Duration::from_secs(5));
    }
}
