//! What the tests share: the server, both drivers, tables and lanes.

use io_uring::IoUring;
use monoio::{IoUringDriver, LegacyDriver, RuntimeBuilder};
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use store::StoreError;
use store_pg::connect::{Connector, Session, Target};
use store_pg::lane::{GroupEnd, GroupJob, GroupReport, Jobs, Lane, LanePlace};
use store_rules::backend::{Lock, Want};
use store_rules::rows::{Rows, RowsMut, Table};
use store_rules::txn::Effects;

/// The longest time of a round trip in tests.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// The tables of the groups.
pub const TABLES: [Table; 5] = [Table::Accounts, Table::Holds, Table::Ledger, Table::Results, Table::Clients];
/// The lane of most tests.
pub const PLACE: LanePlace = LanePlace { node: 1, lane: 2, epoch: 3 };
/// A second lane.
pub const OTHER_PLACE: LanePlace = LanePlace { lane: 4, ..PLACE };

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

    /// Makes the tables in a schema of its own, with the lanes at group 0.
    pub async fn fresh_tables(&self, schema: &str) -> Session {
        let session = self.session().await;
        let mut sql = format!(
            "DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema}; SET search_path = {schema}; \
             CREATE TABLE lanes (node bigint, lane int, epoch bigint NOT NULL, seq bigint NOT NULL, \
             PRIMARY KEY (node, lane)) WITH (fillfactor = 40); INSERT INTO lanes VALUES (1, 2, 3, 0), (1, 4, 3, 0);"
        );
        for table in TABLES {
            write!(
                sql,
                "CREATE TABLE {table} (k bytea PRIMARY KEY, v bytea NOT NULL);",
                table = table.name()
            )
            .unwrap();
        }
        session.client().batch_execute(&sql).await.unwrap();
        session
    }

    /// A new lane over these tables.
    pub async fn lane(&self, schema: &str) -> Lane {
        lane_over(self.session().await, schema).await
    }

    /// A new second lane.
    pub async fn other_lane(&self, schema: &str) -> Lane {
        lane_at(OTHER_PLACE, self.session().await, schema).await
    }
}

/// Opens a connection that works.
pub async fn connect(url: &str) -> Session {
    connect_as(url, false).await
}

/// As [`connect`], to a server with synchronous standbys.
pub async fn connect_synchronously(url: &str) -> Session {
    connect_as(url, true).await
}

async fn connect_as(url: &str, requires_sync: bool) -> Session {
    let connector = Connector::new(Target::parse(url).unwrap(), requires_sync).unwrap();
    connector.connect().await.unwrap_or_else(|error| panic!("{error}"))
}

/// A setting of the whole server, which a test must take back.
pub struct StandbyWanted;

impl StandbyWanted {
    /// Every commit waits for a standby that does not exist.
    pub async fn set(session: &Session) -> StandbyWanted {
        set_standbys(session, "nobody").await;
        StandbyWanted
    }

    pub async fn unset(self, session: &Session) {
        set_standbys(session, "").await;
    }
}

async fn set_standbys(session: &Session, names: &str) {
    let client = session.client();
    client.execute(&format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'"), &[]).await.unwrap();
    client.execute("SELECT pg_reload_conf()", &[]).await.unwrap();
    // The processes of the server read the setting one after another.
    monoio::time::sleep(Duration::from_millis(300)).await;
}

/// Calls this function of PostgreSQL with the connection that waits for a standby.
pub async fn end_waiting(server: &TestServer, function: &str) {
    let session = server.session().await;
    let text = format!("SELECT count({function}(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
    for _ in 0..100 {
        if session.client().query_one(&text, &[]).await.unwrap().get::<_, i64>(0) > 0 {
            return;
        }
        monoio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("nobody waits for a standby");
}

/// A lane over the tables of a schema, on this connection.
pub async fn lane_over(session: Session, schema: &str) -> Lane {
    lane_at(PLACE, session, schema).await
}

async fn lane_at(place: LanePlace, session: Session, schema: &str) -> Lane {
    session.client().batch_execute(&format!("SET search_path = {schema}")).await.unwrap();
    Lane::open(session, place, PATIENCE).await.unwrap()
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

/// New tables of a test.
pub struct SchemaTest<'s> {
    pub driver: &'static str,
    pub server: &'s TestServer,
    pub schema: &'s str,
    /// Sees what is committed.
    pub witness: Session,
}

/// Runs the test on each driver, with new tables in this schema. Without a server a line is printed.
pub fn on_schema(schema: &str, test: impl AsyncFn(SchemaTest<'_>) + Sync) {
    let Some(server) = TestServer::get(schema) else { return };
    on_each_driver(async |driver| {
        let witness = server.fresh_tables(schema).await;
        test(SchemaTest { driver, server: &server, schema, witness }).await;
    });
}

/// Tables of a test, with a lane over them.
pub struct LaneTest<'s> {
    pub server: &'s TestServer,
    pub schema: &'s str,
    /// Sees what is committed.
    pub witness: Session,
    pub lane: Lane,
    pub answers: Answers,
}

/// As [`on_schema`], with a lane over the tables.
pub fn on_tables(schema: &str, test: impl AsyncFn(LaneTest<'_>) + Sync) {
    on_schema(schema, async |SchemaTest { server, schema, witness, .. }| {
        let (lane, answers) = (server.lane(schema).await, Answers::default());
        test(LaneTest { server, schema, witness, lane, answers }).await;
    });
}

/// Runs a group that comes to its end.
pub async fn run(lane: &mut Lane, seq: i64, jobs: Jobs) -> GroupReport {
    let report = lane.run_group(seq, jobs).await;
    assert!(matches!(report.end, GroupEnd::Done), "{report:?}");
    report
}

/// What a job of a test does.
pub type Work = Box<dyn FnMut(&mut dyn RowsMut) -> Result<(), StoreError> + Send>;

/// The name of a job and its failure.
pub type Answer = (String, Option<StoreError>);

/// The answers of jobs in their order.
#[derive(Clone, Default)]
pub struct Answers(Arc<Mutex<Vec<Answer>>>);

impl Answers {
    /// Takes all answers.
    pub fn take(&self) -> Vec<Answer> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    /// Adds one.
    pub fn add(&self, name: &str, failure: Option<&StoreError>) {
        let failure = failure.map(|failure| StoreError::NotDone(failure.to_string()));
        self.0.lock().unwrap().push((name.to_owned(), failure));
    }

    /// Takes the answers, which must all be without a failure; returns the names.
    pub fn take_done(&self) -> Vec<String> {
        let answers = self.take().into_iter();
        answers
            .inspect(|(name, failure)| assert!(failure.is_none(), "{name}: {failure:?}"))
            .map(|(name, _)| name)
            .collect()
    }
}

/// A job with a name.
pub struct TestJob {
    pub name: String,
    pub wants: Vec<Want>,
    pub lock: Option<Lock>,
    pub work: Work,
    pub answers: Answers,
}

impl TestJob {
    /// A job that names nothing of what it reads.
    pub fn boxed(
        name: impl Into<String>,
        answers: &Answers,
        work: impl FnMut(&mut dyn RowsMut) -> Result<(), StoreError> + Send + 'static,
    ) -> Box<dyn GroupJob> {
        let (name, answers) = (name.into(), answers.clone());
        Box::new(TestJob { name, wants: Vec::new(), lock: None, work: Box::new(work), answers })
    }
}

impl GroupJob for TestJob {
    fn wants(&self, out: &mut Vec<Want>) {
        out.extend(self.wants.iter().cloned());
    }

    fn lock(&self) -> Option<Lock> {
        self.lock
    }

    fn run(&mut self, rows: &mut dyn RowsMut, _: &mut Effects) -> Result<(), StoreError> {
        (self.work)(rows)
    }

    fn finish(self: Box<Self>, failure: Option<&StoreError>) {
        self.answers.add(&self.name, failure);
    }
}

/// The number in a row, which is decimal text; 0 without a row.
pub fn number(rows: &dyn Rows, table: Table, key: &str) -> Result<u64, StoreError> {
    let mut number = 0;
    rows.get(table, key.as_bytes(), &mut |value| {
        number = std::str::from_utf8(value).unwrap().parse().unwrap()
    })?;
    Ok(number)
}

/// Adds to the number in a row.
pub fn add(rows: &mut dyn RowsMut, table: Table, key: &str, more: u64) -> Result<(), StoreError> {
    let sum = number(rows, table, key)? + more;
    rows.put(table, key.as_bytes(), sum.to_string().as_bytes())
}

/// A job that holds one credit: it raises the account's number, and adds a hold and no ledger row.
pub fn hold_job(account: &str, group: i64, at: usize, answers: &Answers) -> TestJob {
    let (name, account) = (format!("{group}/{at}"), account.to_owned());
    let wants = vec![
        Want::Row(Table::Accounts, account.clone().into()),
        Want::Row(Table::Ledger, name.clone().into()),
        Want::Row(Table::Holds, name.clone().into()),
    ];
    let key = name.clone();
    let work = move |rows: &mut dyn RowsMut| {
        add(rows, Table::Accounts, &account, 1)?;
        assert!(!rows.get(Table::Ledger, key.as_bytes(), &mut |_| {})?);
        assert!(!rows.get(Table::Holds, key.as_bytes(), &mut |_| {})?, "{key} is held twice");
        rows.put(Table::Holds, key.as_bytes(), &[b'h'; 64])
    };
    TestJob { name, wants, lock: None, work: Box::new(work), answers: answers.clone() }
}

/// A group of such jobs.
pub fn holds(account: &str, group: i64, count: usize, answers: &Answers) -> Jobs {
    (0..count).map(|at| Box::new(hold_job(account, group, at, answers)) as Box<dyn GroupJob>).collect()
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
