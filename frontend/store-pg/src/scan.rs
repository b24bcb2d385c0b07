//! Reads of a large part of the database: audits, backups, the index at the start.
//!
//! A thread of its own with a connection of its own executes them one after another. It blocks for each page of rows, so a
//! scan needs no more memory than its rule. As for other reads, [`Session::confirm`] precedes the snapshot.

use crate::connect::{Connector, Proof, Session, explain};
use crate::job::WAIT_MAX;
use crate::lane::caught;
use crate::schema;
use monoio::{LegacyDriver, Runtime, RuntimeBuilder, time::TimeDriver};
use std::cell::RefCell;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use store::StoreError;
use store_rules::rows::{Each, KeyRange, Rows, Table, Walk};
use store_rules::task::ReadTask;
use tokio_postgres::types::ToSql;

/// Rows of one page.
const PAGE: usize = 1000;
/// How long one page may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time in which the task of a dropped session ends: it is ready at once.
const CLOSING: Duration = Duration::from_millis(1);
/// The longest time of an attempt to begin one. A former primary gives no proof; then all hosts are asked again.
const OPEN_MAX: Duration = Duration::from_secs(10);
/// The shortest time of an attempt to begin a scan.
const TRY_MIN: Duration = Duration::from_secs(1);
/// The pause between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(200);

/// A scan that waits, since this instant.
type QueuedScan = (Instant, Box<dyn ReadTask>);

/// The thread of scans, which ends on drop after the scan in progress.
pub struct Scanner {
    queue: Option<Sender<QueuedScan>>,
    thread: Option<JoinHandle<()>>,
}

impl Scanner {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// The operating system has no thread for it.
    pub fn start(connector: Arc<Connector>, schema: String) -> std::io::Result<Scanner> {
        let (queue, tasks) = channel();
        let main = move || serve(&connector, &schema, &tasks);
        let thread = thread::Builder::new().name("store-pg-scan".into()).spawn(main)?;
        Ok(Scanner { queue: Some(queue), thread: Some(thread) })
    }

    /// Queues a scan. If the thread has ended, the scan is dropped.
    pub fn submit(&self, task: Box<dyn ReadTask>) {
        if let Some(queue) = &self.queue {
            let _ = queue.send((Instant::now(), task));
        }
    }
}

impl Drop for Scanner {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A panic has dropped the replies of all scans, which are answered as closed.
            let _ = thread.join();
        }
    }
}

fn serve(connector: &Connector, schema: &str, queue: &Receiver<QueuedScan>) {
    while let Ok((since, mut task)) = queue.recv() {
        // Those that wait behind a scan that found no database do not wait for as long again.
        let patience = WAIT_MAX.saturating_sub(since.elapsed()).max(TRY_MIN);
        // A panic drops the reply of its scan, which is answered as closed.
        let _ = caught(|| {
            let failure = Scan::begin(connector, schema, patience).map(|scan| task.run(&scan)).err();
            task.finish(failure.as_ref());
        });
    }
}

type BlockingRuntime = Runtime<TimeDriver<LegacyDriver>>;

/// One snapshot on a connection of its own, for a thread that may block.
pub struct Scan {
    /// `None` during the drop only.
    session: Option<Session>,
    runtime: RefCell<BlockingRuntime>,
}

impl Scan {
    /// Connects and begins a snapshot; tries again for this long.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`].
    pub fn begin(connector: &Connector, schema: &str, patience: Duration) -> Result<Scan, StoreError> {
        let unable = |error: std::io::Error| StoreError::NotDone(format!("no runtime for a scan: {error}"));
        let mut runtime = RuntimeBuilder::<LegacyDriver>::new().enable_timer().build().map_err(unable)?;
        let end = Instant::now() + patience;
        let session = runtime.block_on(async {
            loop {
                let left = end.saturating_duration_since(Instant::now());
                let opened = monoio::time::timeout(left.min(OPEN_MAX), open(connector, schema)).await;
                match opened.unwrap_or_else(|_| Err("the server did not answer in time".into())) {
                    Ok(session) => return Ok(session),
                    Err(error) if Instant::now() >= end => return Err(StoreError::Away(error)),
                    Err(_) => monoio::time::sleep(PAUSE).await,
                }
            }
        })?;
        Ok(Scan { session: Some(session), runtime: RefCell::new(runtime) })
    }

    /// Executes a query, and waits for its rows.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`].
    pub fn query(
        &self,
        text: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<tokio_postgres::Row>, StoreError> {
        let Some(session) = &self.session else { return Err(StoreError::Closed) };
        // The timer belongs to the runtime.
        let answer = self.runtime.borrow_mut().block_on(async {
            monoio::time::timeout(PATIENCE, session.client().query(text, parameters)).await
        });
        match answer {
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(error)) => Err(StoreError::Away(explain(&error))),
            Err(_) => Err(StoreError::Away("the server did not answer in time".into())),
        }
    }
}

/// Closes the connection. A runtime that is dropped keeps the sockets of its tasks open, and the snapshot would keep the server
/// from removing old versions of rows.
impl Drop for Scan {
    fn drop(&mut self) {
        let session = self.session.take();
        self.runtime.get_mut().block_on(close(session));
    }
}

/// Drops a session and lets its task end.
pub async fn close(session: Option<Session>) {
    drop(session);
    monoio::time::sleep(CLOSING).await;
}

async fn open(connector: &Connector, schema: &str) -> Result<Session, String> {
    let session = connector.connect().await.map_err(|error| error.to_string())?;
    debug_assert!(schema::is_name(schema));
    if session.confirm().await.map_err(|error| explain(&error))? == Proof::Missing {
        return Err("the server has warned of a commit".into());
    }
    // A scan may take long, and nothing waits for it.
    let text = format!(
        "SET search_path = {schema}; SET idle_in_transaction_session_timeout = '10min'; \
         BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    );
    session.client().batch_execute(&text).await.map_err(|error| explain(&error))?;
    Ok(session)
}

impl Rows for Scan {
    fn get(&self, table: Table, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError> {
        let rows = self.query(&format!("SELECT v FROM {} WHERE k = $1", table.name()), &[&key])?;
        let Some(row) = rows.first() else { return Ok(false) };
        read(column(row, 0)?);
        Ok(true)
    }

    fn walk(&self, table: Table, range: KeyRange<'_>, each: &mut Each<'_>) -> Result<(), StoreError> {
        let KeyRange { from, to, backwards, mut most } = range;
        let (mut from, mut to) = (from.map(<[u8]>::to_vec), to.map(<[u8]>::to_vec));
        while most > 0 {
            let page = most.min(PAGE);
            let rows = self.page(table, (&from, &to), backwards, page)?;
            for row in &rows {
                if each(column(row, 0)?, column(row, 1)?)? == Walk::Stop {
                    return Ok(());
                }
            }
            let Some(last) = rows.last().filter(|_| rows.len() == page) else { return Ok(()) };
            most -= page;
            let next = Bound::Excluded(column(last, 0)?.to_vec());
            if backwards { to = next } else { from = next }
        }
        Ok(())
    }

    fn count(&self, table: Table) -> Result<u64, StoreError> {
        let rows = self.query(&format!("SELECT count(*) FROM {}", table.name()), &[])?;
        let count: Option<i64> = rows.first().and_then(|row| row.try_get(0).ok());
        count.map(i64::unsigned_abs).ok_or_else(|| StoreError::Failed("a count has no row".into()))
    }
}

impl Scan {
    fn page(
        &self,
        table: Table,
        (from, to): (&Bound<Vec<u8>>, &Bound<Vec<u8>>),
        backwards: bool,
        most: usize,
    ) -> Result<Vec<tokio_postgres::Row>, StoreError> {
        let mut conditions = Vec::new();
        let mut parameters: Vec<&(dyn ToSql + Sync)> = Vec::new();
        for (bound, open, closed) in [(from, ">", ">="), (to, "<", "<=")] {
            let (operator, key) = match bound {
                Bound::Included(key) => (closed, key),
                Bound::Excluded(key) => (open, key),
                Bound::Unbounded => continue,
            };
            parameters.push(key);
            conditions.push(format!("k {operator} ${}", parameters.len()));
        }
        let condition = if conditions.is_empty() { "true".to_owned() } else { conditions.join(" AND ") };
        let order = if backwards { "DESC" } else { "ASC" };
        let text =
            format!("SELECT k, v FROM {} WHERE {condition} ORDER BY k {order} LIMIT {most}", table.name());
        self.query(&text, &parameters)
    }
}

fn column(row: &tokio_postgres::Row, at: usize) -> Result<&[u8], StoreError> {
    row.try_get(at).map_err(|error| StoreError::Failed(explain(&error)))
}
