//! A connection to the writable server of a cluster.
//!
//! The hosts of the URL are tried in turn, until one accepts writes and has a synchronous standby. The connection is
//! polled by a task of monoio; [`Session`] is the handle to it. Dropping the session closes the socket at once, so a
//! caller that waits no longer leaves nothing behind.

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
use std::task::Poll;
use std::time::Duration;
use stream::PgTlsStream;
use tls::Endpoint;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::Severity;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, SimpleQueryMessage};

/// The oldest version of PostgreSQL, as in `server_version_num`.
const VERSION_MIN: i32 = 150_000;
/// Idle time before the kernel asks whether the server is still there, the time between two such questions, and their
/// number.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(5), Duration::from_secs(5), 3);

/// The settings of a session, which do not depend on those of the role or the database, and the question what the server
/// is: its version, whether it refuses writes, and whether it has synchronous standbys.
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
    current_setting('synchronous_standby_names')";

/// Opens connections to the servers of one URL.
pub struct Connector {
    target: Target,
    config: Config,
    tls: Option<Arc<ClientConfig>>,
    requires_sync: bool,
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
        Ok(Connector { target, config, tls, requires_sync })
    }

    /// Connects to the first usable host. It needs a runtime of monoio with a timer.
    ///
    /// # Errors
    ///
    /// No host is usable, each for its own reason.
    pub async fn connect(&self) -> Result<Session, NoServer> {
        let mut tried = Vec::new();
        for host in &self.target.hosts {
            match self.connect_to(host).await {
                Ok(session) => return Ok(session),
                Err(why) => tried.push((host.clone(), why)),
            }
        }
        Err(NoServer { tried })
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
        let session = Session::begin(host.clone(), client, connection);
        let answers = session.client.simple_query(GREETING).await?;
        self.is_usable(&answers)?;
        Ok(session)
    }

    fn is_usable(&self, answers: &[SimpleQueryMessage]) -> Result<(), HostError> {
        let row = answers.iter().find_map(|answer| match answer {
            SimpleQueryMessage::Row(row) => Some((row.get(0)?.parse().ok()?, row.get(1)?, row.get(2)?)),
            _ => None,
        });
        match row {
            None => Err(HostError::Server("it does not say what it is".into())),
            Some((version, ..)) if version < VERSION_MIN => Err(HostError::Old(version)),
            Some((_, read_only, _)) if read_only != "off" => Err(HostError::ReadOnly),
            Some((_, _, "")) if self.requires_sync => Err(HostError::NotSynchronous),
            Some(_) => Ok(()),
        }
    }
}

/// An open connection. Its socket is closed when this is dropped, whatever is under way.
pub struct Session {
    host: Host,
    client: Client,
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
        Session { host, client, warnings, _end: end }
    }

    /// The host of the URL that the connection leads to.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The client of this connection, for statements.
    pub fn client(&self) -> &Client {
        &self.client
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
            match connection.poll_message(cx) {
                Poll::Ready(Some(Ok(AsyncMessage::Notice(notice)))) => {
                    // Without a severity that is known, the worst is assumed.
                    if matches!(notice.parsed_severity(), None | Some(Severity::Warning)) {
                        warnings.set(warnings.get() + 1);
                        tracing::warn!("PostgreSQL at {host} warns: {}", notice.message());
                    }
                }
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(error)),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await;
    if let Some(error) = reason {
        tracing::warn!("the connection to PostgreSQL at {host} ended: {}", explain(&error));
    }
}
