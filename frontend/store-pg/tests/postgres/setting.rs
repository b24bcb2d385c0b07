//! What the tests share: the server, both drivers, tables and lanes.

use io_uring::IoUring;
use monoio::{IoUringDriver, LegacyDriver, RuntimeBuilder};
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use store_pg::connect::{Connector, Session, Target};
use store_pg::lane::{Lane, LanePlace, Rows, TableChanges};

/// The longest time of a round trip in tests.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// The tables of the groups, by their index in keys and changes.
pub const TABLES: [&str; 2] = ["accounts", "holds"];
/// The lane of all tests.
pub const PLACE: LanePlace = LanePlace { node: 1, lane: 2, epoch: 3 };

/// The tests share settings of the server, so they run one after another.
static ALONE: Mutex<()> = Mutex::new(());

/// A server for tests, used by one test at a time.
pub struct TestServer {
    url: String,
    _alone: MutexGuard<'static, ()>,
}

impl TestServer {
    /// The server; without one a line is printed.
    pub fn get(test: &str) -> Option<TestServer> {
        let Ok(url) = std::env::var("MAILPROBE_TEST_POSTGRES") else {
            println!("skipped: {test} needs MAILPROBE_TEST_POSTGRES");
            return None;
        };
        Some(TestServer { url, _alone: ALONE.lock().unwrap_or_else(PoisonError::into_inner) })
    }

    /// The URL without its parameters.
    fn place(&self) -> &str {
        self.url.split('?').next().unwrap()
    }

    /// The URL with these parameters.
    pub fn url(&self, parameters: &str) -> String {
        format!("{}?{parameters}", self.place())
    }

    /// The host and the port.
    pub fn address(&self) -> &str {
        let (_, rest) = self.place().split_once('@').unwrap();
        rest.split('/').next().unwrap()
    }

    /// The URL of another address in front of the server, without TLS.
    pub fn url_at(&self, address: &str) -> String {
        self.url("sslmode=disable").replace(self.address(), address)
    }

    /// A connection without TLS.
    pub async fn session(&self) -> Session {
        connect(&self.url("sslmode=disable")).await
    }

    /// Makes the tables in a schema of its own, with the lane at group 0.
    pub async fn fresh_tables(&self, schema: &str) -> Session {
        let session = self.session().await;
        let mut sql = format!(
            "DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema}; SET search_path = {schema}; \
             CREATE TABLE lanes (node bigint, lane int, epoch bigint NOT NULL, seq bigint NOT NULL, \
             PRIMARY KEY (node, lane)) WITH (fillfactor = 40); INSERT INTO lanes VALUES (1, 2, 3, 0);"
        );
        for table in TABLES {
            write!(sql, "CREATE TABLE {table} (k bytea PRIMARY KEY, v bytea NOT NULL);").unwrap();
        }
        session.client().batch_execute(&sql).await.unwrap();
        session
    }

    /// A new lane over these tables.
    pub async fn lane(&self, schema: &str) -> Lane {
        lane_over(self.session().await, schema).await
    }
}

/// Opens a connection that works.
pub async fn connect(url: &str) -> Session {
    let connector = Connector::new(Target::parse(url).unwrap(), false).unwrap();
    connector.connect().await.unwrap_or_else(|error| panic!("{error}"))
}

/// A lane over the tables of a schema, on this connection.
pub async fn lane_over(session: Session, schema: &str) -> Lane {
    session.client().batch_execute(&format!("SET search_path = {schema}")).await.unwrap();
    Lane::open(session, PLACE, &TABLES, PATIENCE).await.unwrap()
}

/// Runs the test on each driver, on a thread of its own: io_uring as the server uses it (deferred), io_uring as on older
/// kernels, and epoll.
pub fn on_each_driver(test: impl AsyncFn(&'static str) + Sync) {
    let mut deferred = IoUring::builder();
    deferred.setup_single_issuer().setup_defer_taskrun();
    let rings = [("io_uring, deferred", deferred), ("io_uring", IoUring::builder())];
    let test = &test;
    thread::scope(|scope| {
        for (driver, ring) in rings {
            let run = move || match RuntimeBuilder::<IoUringDriver>::new()
                .uring_builder(ring)
                .enable_timer()
                .build()
            {
                Ok(mut runtime) => runtime.block_on(test(driver)),
                Err(error) => println!("skipped: no {driver} here: {error}"),
            };
            scope.spawn(run).join().unwrap();
        }
        let epoll = scope.spawn(|| {
            RuntimeBuilder::<LegacyDriver>::new().enable_timer().build().unwrap().block_on(test("epoll"));
        });
        epoll.join().unwrap();
    });
}

/// The keys of a group of holds: the account.
pub fn account_keys(account: &str) -> Vec<Vec<Vec<u8>>> {
    vec![vec![account.into()], vec![]]
}

/// A group that holds credits: it raises the account's number by `count` and adds as many holds.
pub fn hold(account: &str, group: i64, count: usize) -> impl FnOnce(&[Rows]) -> Vec<TableChanges> {
    let account = account.to_owned();
    move |locked| {
        let held: usize = match locked[0].values.as_slice() {
            [value] => String::from_utf8(value.clone()).unwrap().parse().unwrap(),
            _ => 0,
        };
        let mut changes = vec![TableChanges::default(), TableChanges::default()];
        let row = (held + count).to_string();
        let accounts = &mut changes[0];
        if locked[0].keys.is_empty() { &mut accounts.inserts } else { &mut accounts.updates }
            .push(account, row);
        for at in 0..count {
            changes[1].inserts.push(format!("{group}/{at}"), vec![b'h'; 64]);
        }
        changes
    }
}

/// The number of holds of a group that are visible.
pub async fn holds_of(session: &Session, group: i64) -> i64 {
    let text = "SELECT count(*) FROM holds WHERE convert_from(k, 'UTF8') LIKE $1";
    session.client().query_one(text, &[&format!("{group}/%")]).await.unwrap().get(0)
}

/// The number in the account's row.
pub async fn held_by(session: &Session, account: &str) -> i64 {
    let text = "SELECT convert_from(v, 'UTF8')::bigint FROM accounts WHERE k = $1";
    let row = session.client().query_opt(text, &[&account.as_bytes()]).await.unwrap();
    row.map_or(0, |row| row.get(0))
}
