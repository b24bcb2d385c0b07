//! A connection to the writable server of a cluster.
//!
//! All hosts of the URL are asked at the same time, and of those that accept writes and have a synchronous standby, the one
//! with the highest timeline is taken (`choice.rs`). The connection is polled by a task of monoio; [`Session`] is the handle
//! to it. Dropping the session closes the socket at once, so a caller that waits no longer leaves nothing behind.

mod choice;
mod error;
mod names;
mod stream;
mod target;
mod tls;

pub use error::{HostError, NoServer, explain};
pub use target::{Host, Protection, Secret, Target, UrlError};

use futures_channel::oneshot;
use monoio::io::IntoPollIo;
use monoio::net::TcpStream;
use monoio::net::tcp::stream_poll::TcpStreamPoll;
use monoio::time::timeout;
use rustls::ClientConfig;
use std::cell::Cell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Poll, ready};
use std::time::Duration;
use stream::PgTlsStream;
use tls::Endpoint;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::Severity;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, Error, SimpleQueryMessage};

/// The oldest version of PostgreSQL, as in `server_version_num`.
const VERSION_MIN: i32 = 150_000;
/// Idle time before the kernel asks whether the server is still there, the time between two such questions, and their
/// number.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(5), Duration::from_secs(5), 3);

/// The settings of a session, which do not depend on those of the role or the database, and the question what the server
/// is: its version, whether it refuses writes, whether it has synchronous standbys, and its timeline: the first eight
/// hexadecimal digits in the name of a file of its log.
///
/// The first two timeouts end the locks of a node that was paused. There is none for a statement: it could cancel a COMMIT
/// that waits for its replication, and the commit would be visible and not safe. The keepalives end the server's side of a
/// connection to a machine that is gone.
const GREETING: &str = "\
    SET lock_timeout = '5s'; \
    SET idle_in_transaction_session_timeout = '5s'; \
    SET statement_timeout = 0; \
    SET tcp_keepalives_idle = 5; \
    SET tcp_keepalives_interval = 5; \
    SET tcp_keepalives_count = 3; \
    SET synchronous_commit = on; \
    SET default_transaction_isolation = 'read committed'; \
    SELECT current_setting('server_version_num'), current_setting('transaction_read_only'), \
    current_setting('synchronous_standby_names'), \
    CASE WHEN pg_is_in_recovery() THEN '' ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END";

/// Opens connections to the servers of one URL.
pub struct Connector {
    target: Target,
    config: Config,
    tls: Option<Arc<ClientConfig>>,
    requires_sync: bool,
    /// The highest timeline of a usable server that this process has seen; 0 for none.
    highest: AtomicU32,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Connector { target, requires_sync, .. } = self;
        f.debug_struct("Connector").field("target", target).field("requires_sync", requires_sync).finish()
    }
}

impl Connector {
    /// Reads the certificate authorities that the target names. With `requires_sync`, a server without a synchronous
    /// standby is refused.
    ///
    /// # Errors
    ///
    /// One line: no authority can be read.
    pub fn new(target: Target, requires_sync: bool) -> Result<Connector, String> {
        let tls = tls::configuration(&target.protection)?;
        let mut config = Config::new();
        config.user(&target.user).dbname(&target.database).application_name(&target.application);
        config.ssl_mode(if tls.is_some() { SslMode::Require } else { SslMode::Disable });
        if let Some(password) = &target.password {
            config.password(password.reveal());
        }
        Ok(Connector { target, config, tls, requires_sync, highest: AtomicU32::new(0) })
    }

    /// Whether this process knows no server that was made the primary after the one of this session.
    pub fn is_current(&self, session: &Session) -> bool {
        session.timeline >= self.highest.load(Ordering::Relaxed)
    }

    async fn connect_to(&self, host: &Host) -> Result<Session, HostError> {
        let patience = self.target.address_time;
        let found = timeout(patience, names::addresses(host)).await.map_err(|_| HostError::Slow)?;
        let mut last = HostError::Slow;
        for address in found.map_err(HostError::Lookup)? {
            match timeout(patience, self.log_in(host, address)).await {
                Ok(Ok(session)) => return Ok(session),
                Ok(Err(why)) => last = why,
                Err(_) => last = HostError::Slow,
            }
        }
        Err(last)
    }

    async fn log_in(&self, host: &Host, address: SocketAddr) -> Result<Session, HostError> {
        let stream = TcpStream::connect_addr(address).await.map_err(HostError::Tcp)?;
        let (idle, between, questions) = KEEPALIVE;
        stream.set_nodelay(true).map_err(HostError::Tcp)?;
        stream.set_tcp_keepalive(Some(idle), Some(between), Some(questions)).map_err(HostError::Tcp)?;
        let stream = stream.into_poll_io().map_err(HostError::Tcp)?;
        let endpoint = Endpoint::new(self.tls.clone(), &host.name);
        let (client, connection) = self.config.connect_raw(stream, endpoint).await?;
        let mut session = Session::begin(host.clone(), client, connection);
        let answers = session.client.simple_query(GREETING).await?;
        session.timeline = self.judge(&answers)?;
        session.is_synchronous = self.requires_sync;
        Ok(session)
    }

    /// The timeline of a usable server.
    fn judge(&self, answers: &[SimpleQueryMessage]) -> Result<u32, HostError> {
        let row = answers.iter().find_map(|answer| match answer {
            SimpleQueryMessage::Row(row) => {
                Some((row.get(0)?.parse().ok()?, row.get(1)?, row.get(2)?, row.get(3)?))
            }
            _ => None,
        });
        let unclear = || HostError::Server("it does not say what it is".into());
        match row {
            None => Err(unclear()),
            Some((version, ..)) if version < VERSION_MIN => Err(HostError::Old(version)),
            Some((_, read_only, ..)) if read_only != "off" => Err(HostError::ReadOnly),
            Some((_, _, "", _)) if self.requires_sync => Err(HostError::NotSynchronous),
            // Without a timeline it has become a standby, or a primary, during the question.
            Some((.., timeline)) => u32::from_str_radix(timeline, 16).map_err(|_| unclear()),
        }
    }
}

/// The result of [`Session::confirm`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "what was read is not certain without the proof"]
pub enum Proof {
    /// The server was the primary.
    Given,
    /// The server has acknowledged the commit with a warning.
    Missing,
}

/// An open connection. Its socket is closed when this is dropped, whatever is under way.
pub struct Session {
    host: Host,
    client: Client,
    timeline: u32,
    is_synchronous: bool,
    warnings: Rc<Cell<u64>>,
    /// The task of the connection ends when this is dropped.
    _end: oneshot::Sender<()>,
}

impl Session {
    /// Starts the task that polls the connection.
    fn begin(
        host: Host,
        client: Client,
        connection: Connection<TcpStreamPoll, PgTlsStream<TcpStreamPoll>>,
    ) -> Session {
        let (end, ended) = oneshot::channel();
        let warnings = Rc::new(Cell::new(0));
        monoio::spawn(drive(host.to_string(), connection, ended, Rc::clone(&warnings)));
        Session { host, client, timeline: 0, is_synchronous: false, warnings, _end: end }
    }

    /// The host of the URL that the connection leads to.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The client of this connection, for statements.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The timeline of the server: the number of promotions in the history of its data. It stays the same while the
    /// connection is open, because a server that stops being the primary ends its connections.
    pub fn timeline(&self) -> u32 {
        self.timeline
    }

    /// Whether a commit is acknowledged only when a synchronous standby has it. Then [`Session::confirm`] can tell a primary
    /// from a former one.
    pub fn is_synchronous(&self) -> bool {
        self.is_synchronous
    }

    /// Proves that what is read from the server after this call is not out of date: it has every write that was
    /// acknowledged to anybody before the call. Without a synchronous standby it does nothing.
    ///
    /// If the Patroni of a server has died, the server does not know that another one is the primary now. It still accepts
    /// connections and shows its old rows. But it cannot acknowledge a commit: that needs the standby which is the primary now. So an
    /// acknowledged commit proves that there was no other primary at that time, and so no acknowledged write that this
    /// server lacks. The commit has an empty message in the log and no row: PostgreSQL waits for no standby if a transaction
    /// has written nothing. A lease that the server has granted would not be enough: it grants leases until the other server is
    /// promoted, and the next write may be acknowledged there at once.
    ///
    /// # Errors
    ///
    /// The server did not answer, or refused the statement.
    pub async fn confirm(&self) -> Result<Proof, Error> {
        if !self.is_synchronous {
            return Ok(Proof::Given);
        }
        let warnings = self.warnings();
        self.client.batch_execute("SELECT pg_logical_emit_message(true, 'mailprobe', ''::text)").await?;
        // A warning means that the wait for the standby was cancelled.
        Ok(if self.warnings() == warnings { Proof::Given } else { Proof::Missing })
    }

    /// The number of warnings that the server has sent. It rises before the statement that caused one is answered.
    pub fn warnings(&self) -> u64 {
        self.warnings.get()
    }
}

/// Polls the connection until it ends or its session is dropped.
async fn drive(
    host: String,
    mut connection: Connection<TcpStreamPoll, PgTlsStream<TcpStreamPoll>>,
    mut ended: oneshot::Receiver<()>,
    warnings: Rc<Cell<u64>>,
) {
    let reason = poll_fn(|cx| {
        if Pin::new(&mut ended).poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        loop {
            match ready!(connection.poll_message(cx)) {
                // Without a severity that is known, the worst is assumed.
                Some(Ok(AsyncMessage::Notice(notice)))
                    if matches!(notice.parsed_severity(), None | Some(Severity::Warning)) =>
                {
                    warnings.set(warnings.get() + 1);
                    tracing::warn!("PostgreSQL at {host} warns: {}", notice.message());
                }
                Some(Ok(_)) => {}
                end => return Poll::Ready(end.and_then(Result::err)),
            }
        }
    })
    .await;
    if let Some(error) = reason {
        tracing::warn!("the connection to PostgreSQL at {host} ended: {}", explain(&error));
    }
}
