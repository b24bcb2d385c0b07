//! One SMTP session: the dialog machine of engine-proto, driven over a connection.

use crate::egress::Source;
use crate::egress::connect::Unconnected;
use crate::runtime::Runtime;
use crate::tls::Transport;
use engine_proto::smtp::dialog::{Closure, Dialog, Event};
use rustls::ClientConfig;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Room for one read where a single reply is due, as to EHLO. A waiting read holds its buffer, and most sessions of a
/// large list wait.
const READ_BYTES_ALONE: usize = 512;
/// Room for each of several replies that are due.
const READ_BYTES_A_REPLY: usize = 96;
/// Room for one read, at most: the replies of a group of 100 recipients fit in two.
const READ_BYTES_MAX: usize = 4096;

/// What has come is read within this.
const QUIET: Duration = Duration::from_millis(1);

/// What all sessions of a shard from one source share.
pub(crate) struct SessionConfig {
    pub(crate) source: Arc<Source>,
    pub(crate) tls: Arc<ClientConfig>,
}

/// A connection to a mail server with the dialog on it.
pub(crate) struct Session<R: Runtime> {
    transport: Transport<R::Stream>,
    pub(crate) dialog: Dialog,
    config: Rc<SessionConfig>,
    host: Rc<str>,
    address: IpAddr,
    /// Nothing of this session goes on after this instant, whatever the server does.
    pub(crate) limit: Instant,
    /// What was said, a line each, while somebody wants to know.
    pub(crate) trace: Option<Vec<String>>,
    /// When the server was last received: what it said in one breath came at one time.
    pub(crate) answered_at: Instant,
    /// The begin of a line of the server's whose end has not come yet.
    received: Vec<u8>,
}

impl<R: Runtime> Session<R> {
    /// Connects to a host. `starttls`: use TLS where the host offers it.
    ///
    /// # Errors
    /// As [`Source::connect`].
    pub(crate) async fn connect(
        config: Rc<SessionConfig>,
        host: Rc<str>,
        destination: SocketAddr,
        starttls: bool,
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
            dialog: Dialog::new(Arc::clone(&config.source.dialog), starttls, now),
            config,
            host,
            address: destination.ip(),
            limit,
            trace,
            answered_at: now,
            received: Vec::new(),
        });
        if !early.is_empty() {
            session.hear(&early);
        }
        Ok(session)
    }

    /// The next event of the dialog.
    pub(crate) async fn next(&mut self) -> Event {
        loop {
            match self.dialog.poll_event() {
                // Boxed: few sessions are in a handshake at a time, and all would have room for it.
                Some(Event::StartTls) => Box::pin(self.start_tls()).await,
                Some(event) => return event,
                None if self.dialog.wants_write() => self.write().await,
                None => self.read().await,
            }
        }
    }

    /// Whether the server has kept silent while nothing was asked. What it says unasked would be taken for the answer
    /// to what comes next, and all answers behind it for others' answers: such a session is over.
    pub(crate) async fn is_quiet(&mut self) -> bool {
        let buffer = Vec::with_capacity(READ_BYTES_ALONE);
        match self.transport.read(buffer, R::now() + QUIET).await {
            (Err(error), _) if error.kind() == io::ErrorKind::TimedOut => true,
            (Ok(length), bytes) if length > 0 => {
                self.hear(&bytes);
                false
            }
            _ => {
                self.dialog.closed();
                false
            }
        }
    }

    /// Why the server has ended the session, where that was heard already.
    pub(crate) fn ending(&mut self) -> Option<Closure> {
        std::iter::from_fn(|| self.dialog.poll_event()).find_map(|event| match event {
            Event::Over(closure) => Some(closure),
            _ => None,
        })
    }

    /// Says QUIT and closes.
    pub(crate) async fn quit(mut self: Box<Self>) -> Option<Vec<String>> {
        self.dialog.quit();
        if self.dialog.wants_write() {
            self.write().await;
        }
        #[cfg(feature = "sim")]
        if crate::sim::sometimes(crate::sim::Fault::LeakSession) {
            std::mem::forget(self.transport);
        }
        self.trace
    }

    fn deadline(&self) -> Instant {
        self.dialog.deadline().unwrap_or(self.limit).min(self.limit)
    }

    async fn write(&mut self) {
        let bytes = self.dialog.take_outgoing(Vec::new());
        self.note('C', &bytes);
        let (result, _) = self.transport.write(bytes, self.deadline()).await;
        self.judge(result.err());
    }

    async fn read(&mut self) {
        let room = match self.dialog.replies_due() {
            0 => READ_BYTES_ALONE,
            behind_the_next => READ_BYTES_A_REPLY * (behind_the_next + 1),
        };
        let buffer = Vec::with_capacity(room.min(READ_BYTES_MAX));
        let (result, bytes) = self.transport.read(buffer, self.deadline()).await;
        match result {
            Ok(0) => self.dialog.closed(),
            Ok(_) => self.hear(&bytes),
            Err(error) => self.judge(Some(error)),
        }
    }

    fn hear(&mut self, bytes: &[u8]) {
        self.listen(bytes);
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
        self.dialog.tls_done(R::now(), result.is_ok());
    }

    fn judge(&mut self, error: Option<io::Error>) {
        match error {
            None => {}
            Some(error) if error.kind() == io::ErrorKind::TimedOut => {
                // The limit of all the works may come before the deadline of the dialog.
                let deadline = self.dialog.deadline().unwrap_or_else(R::now);
                self.dialog.handle_timeout(deadline.max(R::now()));
                self.dialog.closed();
            }
            Some(_) => self.dialog.closed(),
        }
    }

    /// The whole lines of what the server says, for the trace. What has no end yet waits for it, in bounds: the
    /// dialog ends a session whose line is too long.
    fn listen(&mut self, bytes: &[u8]) {
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
        self.note('S', &lines);
    }

    /// The lines of `bytes`, for the trace.
    fn note(&mut self, who: char, bytes: &[u8]) {
        let Some(trace) = &mut self.trace else { return };
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            let line = String::from_utf8_lossy(line);
            let line = line.trim_end_matches(['\r', '\n']);
            let line: String = line.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
            trace.push(format!("{who}: {line}"));
        }
    }
}
