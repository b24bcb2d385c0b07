//! One SMTP session: drives the state machine of engine-proto ([`Dialog`]) over a connection.
//!
//! [`Dialog`] decides what is sent, and to which command a reply belongs. This module carries the bytes, does the TLS handshake,
//! and keeps the deadlines. The task of a session (`probe.rs`) uses a [`Session`] in these steps:
//!
//! - [`Session::connect`] opens the connection. The task then calls [`Session::next`] until the session is ready.
//! - The task starts a transaction on [`Session::dialog`], and then calls [`Session::next`] until the transaction has ended. During
//!   a transaction, only `next` reads and writes. It returns at [`Session::limit`] at the latest.
//! - Between transactions, [`Session::is_quiet`] tells whether the session can go on. Before the task ends a session, it asks
//!   [`Session::take_closure`] whether the server has already ended the session.
//! - [`Session::quit`] ends the session, and returns the trace.
//!
//! A failure on an open connection is reported not as an error but as an event: [`Event::Over`]. No other event follows, not even
//! for the recipients without a reply.

use crate::egress::Source;
use crate::egress::connect::Unconnected;
use crate::faults::{Fault, sometimes};
use crate::runtime::Runtime;
use crate::tls::Transport;
use engine_proto::limits::{
    SESSION_QUIET, SESSION_READ_BYTES, SESSION_READ_BYTES_A_REPLY, SESSION_READ_BYTES_MAX,
};
use engine_proto::smtp::dialog::{Closure, Dialog, Event};
use engine_proto::smtp::habits::Habits;
use rustls::ClientConfig;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What all sessions of a shard from the same source share.
pub(crate) struct SessionConfig {
    pub(crate) source: Arc<Source>,
    pub(crate) tls: Arc<ClientConfig>,
}

/// An SMTP session: a connection to a mail server, with the dialog on it.
pub(crate) struct Session<R: Runtime> {
    transport: Transport<R::Stream>,
    pub(crate) dialog: Dialog,
    config: Rc<SessionConfig>,
    host: Rc<str>,
    address: IpAddr,
    /// The latest time at which [`Session::next`] returns, whatever the server does. It is set for the opening of the session, and
    /// again for each transaction.
    pub(crate) limit: Instant,
    /// The lines of the trace that the task has not taken yet, if a trace is wanted.
    pub(crate) trace: Option<Vec<String>>,
    /// When bytes from the server last arrived. All replies in these bytes have this time. Before the first bytes: when the
    /// connection was made.
    pub(crate) answered_at: Instant,
    /// The beginning of a line that the server has not completed yet. It is empty if no trace is wanted.
    received: Vec<u8>,
}

impl<R: Runtime> Session<R> {
    /// Connects to a host. The caller then waits with [`Session::next`] for the greeting and the reply to EHLO.
    ///
    /// # Errors
    /// Those of [`Source::connect`], each with the trace.
    pub(crate) async fn connect(
        config: Rc<SessionConfig>,
        host: Rc<str>,
        destination: SocketAddr,
        habits: Habits,
        limit: Instant,
        mut trace: Option<Vec<String>>,
    ) -> Result<Box<Session<R>>, (Unconnected, Option<Vec<String>>)> {
        let result = config.source.connect::<R>(destination, limit).await;
        if let Some(trace) = &mut trace {
            let from = config.source.in_traces();
            trace.push(match &result {
                Ok(_) => format!("connect {host} [{destination}]{from}: open"),
                Err(error) => format!("connect {host} [{destination}]{from}: {error}"),
            });
        }
        let (stream, early) = match result {
            Ok(connected) => connected,
            Err(error) => return Err((error, trace)),
        };
        let now = R::now();
        let mut session = Box::new(Session {
            transport: Transport::Plain(stream),
            dialog: Dialog::new(Arc::clone(&config.source.dialog), habits, now),
            config,
            host,
            address: destination.ip(),
            limit,
            trace,
            answered_at: now,
            received: Vec::new(),
        });
        if !early.is_empty() {
            session.on_bytes(&early);
        }
        Ok(session)
    }

    /// Reads and writes until the dialog has an event, and returns this event. A TLS handshake is done here and is no event.
    pub(crate) async fn next(&mut self) -> Event {
        loop {
            match self.dialog.poll_event() {
                // The future is boxed, because otherwise each session would reserve memory for a handshake, although few sessions
                // are in one at the same time.
                Some(Event::StartTls) => Box::pin(self.start_tls()).await,
                Some(event) => return event,
                None if self.dialog.wants_write() => self.write().await,
                None => self.read().await,
            }
        }
    }

    /// Whether [`Session::next`] returns at once.
    pub(crate) fn has_event(&self) -> bool {
        self.dialog.has_event()
    }

    /// Whether the connection is open, and the server has sent nothing since its last reply. If not, the session must end:
    /// unexpected bytes would count as the reply to the next command, and every later reply would count for the wrong command.
    pub(crate) async fn is_quiet(&mut self) -> bool {
        self.is_quiet_for(SESSION_QUIET).await
    }

    /// The same, for this time.
    pub(crate) async fn is_quiet_for(&mut self, time: Duration) -> bool {
        let buffer = Vec::with_capacity(SESSION_READ_BYTES);
        match self.transport.read(buffer, R::now() + time).await {
            (Err(error), _) if error.kind() == io::ErrorKind::TimedOut => true,
            (Ok(length), bytes) if length > 0 => {
                self.on_bytes(&bytes);
                false
            }
            _ => {
                self.dialog.on_closed();
                false
            }
        }
    }

    /// Takes the reason why the session is over; `None` if it is not over. Discards all other events.
    pub(crate) fn take_closure(&mut self) -> Option<Closure> {
        std::iter::from_fn(|| self.dialog.poll_event()).find_map(|event| match event {
            Event::Over(closure) => Some(closure),
            _ => None,
        })
    }

    /// Sends QUIT if the dialog allows it, closes the connection, and returns the trace.
    pub(crate) async fn quit(mut self: Box<Self>) -> Option<Vec<String>> {
        self.dialog.quit();
        if self.dialog.wants_write() {
            self.write().await;
        }
        if sometimes(Fault::LeakSession) {
            std::mem::forget(self.transport);
        }
        self.trace
    }

    fn deadline(&self) -> Instant {
        self.dialog.deadline().unwrap_or(self.limit).min(self.limit)
    }

    async fn write(&mut self) {
        let mut bytes = self.dialog.take_outgoing(Vec::new());
        if sometimes(Fault::WriteTwice) {
            bytes.extend_from_within(..);
        }
        self.trace_lines('C', &bytes);
        let (result, _) = self.transport.write(bytes, self.deadline()).await;
        if let Err(error) = result {
            self.on_error(&error);
        }
    }

    async fn read(&mut self) {
        let room = match self.dialog.replies_due() {
            0 => SESSION_READ_BYTES,
            behind_the_next => SESSION_READ_BYTES_A_REPLY * (behind_the_next + 1),
        };
        let buffer = Vec::with_capacity(room.min(SESSION_READ_BYTES_MAX));
        let (result, bytes) = self.transport.read(buffer, self.deadline()).await;
        match result {
            Ok(0) => self.dialog.on_closed(),
            Ok(_) => self.on_bytes(&bytes),
            Err(error) => self.on_error(&error),
        }
    }

    fn on_bytes(&mut self, bytes: &[u8]) {
        self.trace_received(bytes);
        self.answered_at = R::now();
        self.dialog.receive(self.answered_at, bytes);
    }

    async fn start_tls(&mut self) {
        let deadline = self.deadline();
        let (tls, host, address) = (&self.config.tls, &self.host, self.address);
        let result = self.transport.start_tls(tls, host, address, deadline).await;
        if let Some(trace) = &mut self.trace {
            trace.push(match &result {
                Ok(()) => "tls: handshake done".to_owned(),
                Err(error) => format!("tls: handshake failed: {error}"),
            });
        }
        self.dialog.on_tls_done(R::now(), result.is_ok());
    }

    fn on_error(&mut self, error: &io::Error) {
        if error.kind() == io::ErrorKind::TimedOut {
            // `limit` may come before the deadline of the dialog, so the dialog gets a time at which its own deadline has passed.
            let deadline = self.dialog.deadline().unwrap_or_else(R::now);
            self.dialog.on_timeout(deadline.max(R::now()));
        }
        self.dialog.on_closed();
    }

    /// Adds the complete lines from the server to the trace, and keeps an incomplete line until the rest arrives. Such a line
    /// cannot grow without bound, because the dialog ends the session if a line is too long.
    fn trace_received(&mut self, bytes: &[u8]) {
        if self.trace.is_none() {
            return;
        }
        let end = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let mut lines = Vec::new();
        if end > 0 {
            lines = std::mem::take(&mut self.received);
        }
        lines.extend_from_slice(&bytes[..end]);
        self.received.extend_from_slice(&bytes[end..]);
        self.trace_lines('S', &lines);
    }

    /// Adds the lines in `bytes` to the trace. `who` is C for us, and S for the server.
    fn trace_lines(&mut self, who: char, bytes: &[u8]) {
        let Some(trace) = &mut self.trace else { return };
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            let line = String::from_utf8_lossy(line);
            let line = line.trim_end_matches(['\r', '\n']);
            let line: String = line.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
            trace.push(format!("{who}: {line}"));
        }
    }
}
