//! The reasons why there is no connection. No text contains the password.

use super::target::Host;
use std::error::Error;
use std::fmt;
use std::io;

/// The reason why one host was not used.
#[derive(Debug)]
pub enum HostError {
    /// The name of the host could not be looked up.
    Lookup(io::Error),
    /// No TCP connection came about.
    Tcp(io::Error),
    /// Connection and login took too long.
    Slow,
    /// TLS failed, or the server refused the login or a question.
    Server(String),
    /// The server has an older version than 15; the number is that of `server_version_num`.
    Old(i32),
    /// The server is a standby, or accepts no writes.
    ReadOnly,
    /// The server has no synchronous standby, so a failover could lose answered writes.
    NotSynchronous,
    /// The server is a former primary, which does not know it.
    Superseded {
        /// Its timeline.
        timeline: u32,
        /// The timeline of its successor.
        highest: u32,
    },
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostError::Lookup(error) => write!(f, "its name was not found: {error}"),
            HostError::Tcp(error) => write!(f, "no connection: {error}"),
            HostError::Slow => f.write_str("it did not answer in time"),
            HostError::Server(why) => f.write_str(why),
            HostError::Old(version) => {
                write!(f, "it runs PostgreSQL {}; mailprobe needs 15 or later", version / 10_000)
            }
            HostError::ReadOnly => f.write_str("it is read-only, like a standby"),
            HostError::NotSynchronous => f.write_str(
                "it has no synchronous standby (`synchronous_standby_names` is empty); add one, or set \
                 `require_sync = false`",
            ),
            HostError::Superseded { timeline, highest } => write!(
                f,
                "it is a former primary (its timeline is {timeline}, and another server had {highest}); if the database was \
                 replaced by an older one, restart mailprobe"
            ),
        }
    }
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

impl Error for NoServer {}
