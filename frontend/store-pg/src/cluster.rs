//! What an operator does with a whole cluster: its status, the check of keys, and a new format.

use crate::connect::{Connector, Session, Target, explain};
use crate::database::on_connection;
use crate::restore::PATIENCE;
use crate::schema;
use monoio::{LegacyDriver, RuntimeBuilder};
use std::time::{Duration, Instant};
use store::StoreError;
use store_rules::row::{Fixed, Row as _};
use store_rules::tables::{FORMAT, META_FORMAT, META_KEYS};
use thiserror::Error;
use tokio_postgres::{Client, Error};

/// Where the database of a cluster is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterPlace {
    /// The servers of the database.
    pub target: Target,
    /// The schema of the tables.
    pub schema: String,
    /// Whether a server without a synchronous standby is refused.
    pub requires_sync: bool,
}

/// The state of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterStatus {
    /// The server that accepts writes.
    pub server: ServerStatus,
    /// The state of the tables; `None`: the schema has none.
    pub database: Option<DatabaseStatus>,
}

/// The server that accepts writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerStatus {
    /// Its host and port in the URL.
    pub host: String,
    /// Its version, such as `15.14`.
    pub version: String,
    /// Its setting `synchronous_standby_names`; empty: it does not wait for standbys.
    pub synchronous_standby_names: String,
    /// Its standbys; `None` if the role may not see them.
    pub standbys: Option<Vec<Standby>>,
}

/// A standby of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standby {
    /// Its name.
    pub name: String,
    /// Its state, such as `streaming`.
    pub state: String,
    /// How the server waits for it: `sync`, `quorum`, `potential` or `async`.
    pub sync_state: String,
}

/// The tables of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseStatus {
    /// The number of their format.
    pub format: u64,
    /// The fingerprint of the keys that they are written with.
    pub fingerprint: Option<u64>,
    /// Batches that no node has.
    pub unclaimed_batches: u64,
    /// Lists that no node has.
    pub unclaimed_lists: u64,
    /// The nodes, by number.
    pub nodes: Vec<NodeStatus>,
}

/// A node of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    /// Its number.
    pub id: i64,
    /// The name of its machine.
    pub host: String,
    /// The version of its mailprobe.
    pub version: String,
    /// The name of the address that its checks come from.
    pub egress: String,
    /// Its epoch: how often it was registered or declared dead.
    pub epoch: i64,
    /// The rest of its lease in milliseconds; zero: it does not run.
    pub lease_ms: u64,
    /// The newest format that it knows.
    pub format: u32,
    /// Its batches with unanswered rows.
    pub open_batches: u64,
    /// Its lists.
    pub lists: u64,
}

impl ServerStatus {
    /// Whether the server confirms a write only after a standby has it.
    pub fn is_synchronous(&self) -> bool {
        !self.synchronous_standby_names.is_empty()
    }
}

impl ClusterPlace {
    /// Opens connections to this place.
    ///
    /// # Errors
    ///
    /// No certificate authority can be read.
    pub(crate) fn connector(&self) -> Result<Connector, StoreError> {
        Connector::new(self.target.clone(), self.requires_sync).map_err(StoreError::NotDone)
    }

    /// The fingerprint of the keys that the tables are written with; `None`: there are no tables, or they have none.
    ///
    /// # Errors
    ///
    /// The database cannot be reached or refuses.
    pub fn fingerprint(&self) -> Result<Option<u64>, StoreError> {
        let connector = self.connector()?;
        on_connection(&connector, PATIENCE, async |client| {
            schema::enter(client, &self.schema).await.map_err(failed)?;
            let exists = has_tables(client).await.map_err(failed)?;
            if exists { meta(client, META_KEYS).await.map_err(failed) } else { Ok(None) }
        })
    }

    /// Looks at the server, the tables and the nodes. A server without a synchronous standby is not refused.
    ///
    /// # Errors
    ///
    /// No server that accepts writes can be reached.
    pub fn status(&self) -> Result<ClusterStatus, StoreError> {
        let connector = Connector::new(self.target.clone(), false).map_err(StoreError::NotDone)?;
        let unable =
            |error: std::io::Error| StoreError::NotDone(format!("no runtime for the database: {error}"));
        let mut runtime = RuntimeBuilder::<LegacyDriver>::new().enable_timer().build().map_err(unable)?;
        let end = Instant::now() + PATIENCE;
        runtime.block_on(async {
            loop {
                match connector.connect().await {
                    Ok(session) => return self.look(&session).await.map_err(failed),
                    Err(error) if Instant::now() >= end => return Err(StoreError::Away(error.to_string())),
                    Err(_) => monoio::time::sleep(Duration::from_millis(200)).await,
                }
            }
        })
    }

    async fn look(&self, session: &Session) -> Result<ClusterStatus, Error> {
        let client = session.client();
        schema::enter(client, &self.schema).await?;
        let text = "SELECT current_setting('server_version'), current_setting('synchronous_standby_names')";
        let row = client.query_one(text, &[]).await?;
        let version: String = row.try_get(0)?;
        let server = ServerStatus {
            host: session.host().to_string(),
            version: version.split(' ').next().unwrap_or_default().to_owned(),
            synchronous_standby_names: row.try_get(1)?,
            standbys: standbys(client).await?,
        };
        let database = if has_tables(client).await? { Some(tables(client).await?) } else { None };
        Ok(ClusterStatus { server, database })
    }

    /// Raises the format of the database to `to`, if all live nodes know it.
    ///
    /// # Errors
    ///
    /// [`UpgradeError`]: nothing was changed.
    pub fn upgrade(&self, to: u32) -> Result<Upgraded, UpgradeError> {
        let connector = self.connector()?;
        let done = on_connection(&connector, PATIENCE, async |client| {
            schema::enter(client, &self.schema).await.map_err(failed)?;
            if !has_tables(client).await.map_err(failed)? {
                return Ok(Err(UpgradeError::NoTables(self.schema.clone())));
            }
            // Meanwhile no node can register: the registration waits for this lock on the table.
            let begin =
                format!("BEGIN; SELECT {}; LOCK TABLE nodes IN SHARE ROW EXCLUSIVE MODE", schema::lock(0));
            client.batch_execute(&begin).await.map_err(failed)?;
            let raised = raise(client, to).await.map_err(failed)?;
            let end = if matches!(raised, Ok(Upgraded::From(_))) { "COMMIT" } else { "ROLLBACK" };
            client.batch_execute(end).await.map_err(failed)?;
            Ok(raised)
        });
        done?
    }
}

/// The newest format that this version of mailprobe knows.
pub const KNOWN_FORMAT: u32 = FORMAT;

/// The result of [`ClusterPlace::upgrade`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upgraded {
    /// The database has this format already.
    Already,
    /// The database had this format before.
    From(u64),
}

/// The reason why a format was not raised.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UpgradeError {
    /// The schema with this name has no tables.
    #[error("the schema {0} has no tables; create them with `mailprobe cluster init`")]
    NoTables(String),
    /// The database has this format, which is newer.
    #[error(
        "the database has format {0}, and this mailprobe knows formats up to {FORMAT}; upgrade this mailprobe"
    )]
    Newer(u64),
    /// These live nodes do not know the format.
    #[error("these nodes do not know the new format: {}; upgrade or stop them first", names(.0))]
    Nodes(Vec<NodeStatus>),
    /// The database cannot be reached or refuses.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn names(nodes: &[NodeStatus]) -> String {
    let name = |node: &NodeStatus| format!("{} on {} ({})", node.id, node.host, node.version);
    nodes.iter().map(name).collect::<Vec<_>>().join(", ")
}

async fn raise(client: &Client, to: u32) -> Result<Result<Upgraded, UpgradeError>, Error> {
    let found = meta(client, META_FORMAT).await?.unwrap_or(0);
    if found > u64::from(to) {
        return Ok(Err(UpgradeError::Newer(found)));
    }
    if found == u64::from(to) {
        return Ok(Ok(Upgraded::Already));
    }
    let mut nodes = nodes(client).await?;
    nodes.retain(|node| node.lease_ms > 0 && node.format < to);
    if !nodes.is_empty() {
        return Ok(Err(UpgradeError::Nodes(nodes)));
    }
    let format = Fixed(to.into()).encode();
    client.execute("UPDATE meta SET v = $2 WHERE k = $1", &[&META_FORMAT.as_bytes(), &format]).await?;
    Ok(Ok(Upgraded::From(found)))
}

async fn has_tables(client: &Client) -> Result<bool, Error> {
    client.query_one("SELECT to_regclass('meta') IS NOT NULL", &[]).await?.try_get(0)
}

/// A fact about the database.
pub(crate) async fn meta(client: &Client, name: &str) -> Result<Option<u64>, Error> {
    let row = client.query_opt("SELECT v FROM meta WHERE k = $1", &[&name.as_bytes()]).await?;
    let bytes: Option<Vec<u8>> = row.map(|row| row.try_get(0)).transpose()?;
    Ok(bytes.and_then(|bytes| Fixed::decode(&bytes).ok()).map(|number| number.0))
}

/// `None` if the role may not see them: it needs the rights of `pg_monitor`.
async fn standbys(client: &Client) -> Result<Option<Vec<Standby>>, Error> {
    let text = "SELECT application_name, state, sync_state FROM pg_stat_replication ORDER BY 1";
    let mut found = Vec::new();
    for row in client.query(text, &[]).await? {
        let (name, state, sync_state) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let (Some(name), Some(state), Some(sync_state)) = (name, state, sync_state) else { return Ok(None) };
        found.push(Standby { name, state, sync_state });
    }
    Ok(Some(found))
}

async fn tables(client: &Client) -> Result<DatabaseStatus, Error> {
    let text = "SELECT (SELECT count(*) FROM open_batches WHERE node IS NULL), (SELECT count(*) FROM lists WHERE node IS NULL)";
    let row = client.query_one(text, &[]).await?;
    let count = |at| row.try_get::<usize, i64>(at).map(i64::unsigned_abs);
    Ok(DatabaseStatus {
        format: meta(client, META_FORMAT).await?.unwrap_or(0),
        fingerprint: meta(client, META_KEYS).await?,
        unclaimed_batches: count(0)?,
        unclaimed_lists: count(1)?,
        nodes: nodes(client).await?,
    })
}

/// The nodes without commands, which have no egress.
async fn nodes(client: &Client) -> Result<Vec<NodeStatus>, Error> {
    let text = "SELECT id, host, version, egress, epoch, \
                greatest(0, ceil(extract(epoch FROM CASE WHEN until > '-infinity' THEN until - clock_timestamp() END) * 1000))::bigint, \
                format, (SELECT count(*) FROM open_batches AS o WHERE o.node = nodes.id), \
                (SELECT count(*) FROM lists AS l WHERE l.node = nodes.id) \
                FROM nodes WHERE egress <> '' ORDER BY id";
    let rows = client.query(text, &[]).await?;
    let status = |row: &tokio_postgres::Row| {
        let number = |at| row.try_get::<usize, i64>(at).map(i64::unsigned_abs);
        Ok(NodeStatus {
            id: row.try_get(0)?,
            host: row.try_get(1)?,
            version: row.try_get(2)?,
            egress: row.try_get(3)?,
            epoch: row.try_get(4)?,
            lease_ms: number(5)?,
            format: row.try_get::<_, i32>(6)?.unsigned_abs(),
            open_batches: number(7)?,
            lists: number(8)?,
        })
    };
    rows.iter().map(status).collect()
}

fn failed(error: Error) -> StoreError {
    let why = explain(&error);
    if error.as_db_error().is_some() { StoreError::NotDone(why) } else { StoreError::Away(why) }
}
