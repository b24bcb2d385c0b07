//! The reasons why there is no connection. No text contains the password.

use super::target::Host;
use std::error::Error as _;
use std::fmt;
use std::io;
use thiserror::Error;

/// The reason why one host was not used.
#[derive(Debug, Error)]
pub enum HostError {
    /// The name of the host could not be looked up.
    #[error("its name was not found: {0}")]
    Lookup(io::Error),
    /// No TCP connection came about.
    #[error("no connection: {0}")]
    Tcp(io::Error),
    /// Connection and login took too long.
    #[error("it did not answer in time")]
    Slow,
    /// TLS failed, or the server refused the login or a question.
    #[error("{0}")]
    Server(String),
    /// The server has an older version than 15; the number is that of `server_version_num`.
    #[error("it runs PostgreSQL {}; mailprobe needs 15 or later", .0 / 10_000)]
    Old(i32),
    /// The server is a standby, or accepts no writes.
    #[error("it is read-only, like a standby")]
    ReadOnly,
    /// The server has no synchronous standby, so a failover could lose answered writes.
    #[error(
        "it has no synchronous standby (`synchronous_standby_names` is empty); add one, or set \
        `require_sync = false`"
    )]
    NotSynchronous,
    /// The server is a former primary, which does not know it.
    #[error(
        "it is a former primary (its timeline is {timeline}, and another server had {highest}); if the database was \
        replaced by an older one, restart mailprobe"
    )]
    Superseded {
        /// Its timeline.
        timeline: u32,
        /// The timeline of its successor.
        highest: u32,
    },
}

impl From<tokio_postgres::Error> for HostError {
    fn from(error: tokio_postgres::Error) -> HostError {
        HostError::Server(explain(&error))
    }
}

/// An error of the client in one line. It has the message of the server without details, which may quote rows.
pub fn explain(error: &tokio_postgres::Error) -> String {
    if let Some(refusal) = error.as_db_error() {
        let message = refusal.message().lines().next().unwrap_or_default();
        return format!("{message} (SQLSTATE {})", refusal.code().code());
    }
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// No host was usable: each with its reason.
#[derive(Debug)]
pub struct NoServer {
    /// The hosts in the order of the URL.
    pub tried: Vec<(Host, HostError)>,
}

impl fmt::Display for NoServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no PostgreSQL server is usable")?;
        for (at, (host, why)) in self.tried.iter().enumerate() {
            write!(f, "{} {host}: {why}", if at == 0 { ":" } else { ";" })?;
        }
        Ok(())
    }
}

impl std::error::Error for NoServer {}
