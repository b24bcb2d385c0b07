//! The driver of a session: it moves bytes, waits, and breaks the connection if the scenario requires it.

use crate::{
    What,
    misdeed::{Next, commit, pause, surplus},
    running::Net,
    session::{Outcome, Session, Step, replaces},
    spec::{HostState, Misdeed, Stage},
    stats::{Violation, add},
};
use socket2::SockRef;
use std::{io, net::IpAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, error::Elapsed, sleep, timeout, timeout_at},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// A client that is silent for this time is disconnected (RFC 5321 4.5.3.2.7).
const IDLE: Duration = Duration::from_secs(300);
/// How long bytes of a disconnected client are read, so that a reset does not lose the last reply.
const LINGER: Duration = Duration::from_secs(1);
/// The longest hang; a peer that waits longer is disconnected.
const HANG: Duration = Duration::from_secs(900);
/// More bytes than this without a line end are not a command.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// A buffer larger than this is not kept for an idle session.
const BUFFER_BYTES_KEPT: usize = 4 * 1024;

/// A plain or an encrypted connection.
pub(crate) enum Wire {
    Clear(TcpStream),
    Secure(Box<TlsStream<TcpStream>>),
    /// The connection was lost in a handshake.
    Gone,
}

impl Wire {
    async fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        if buffer.capacity() - buffer.len() < 1024 {
            buffer.reserve(2048);
        }
        match self {
            Wire::Clear(stream) => stream.read_buf(buffer).await,
            Wire::Secure(stream) => stream.read_buf(buffer).await,
            Wire::Gone => Ok(0),
        }
    }

    /// Writes all bytes, unless the peer reads nothing for a long time.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        timeout(IDLE, async {
            match self {
                Wire::Clear(stream) => stream.write_all(bytes).await,
                Wire::Secure(stream) => {
                    stream.write_all(bytes).await?;
                    stream.flush().await
                }
                Wire::Gone => Err(io::ErrorKind::NotConnected.into()),
            }
        })
        .await?
    }

    async fn shutdown(&mut self) -> io::Result<()> {
        match self {
            Wire::Clear(stream) => stream.shutdown().await,
            Wire::Secure(stream) => stream.shutdown().await,
            Wire::Gone => Ok(()),
        }
    }

    /// Reads the bytes that are available without waiting. Under TLS it reads none.
    fn read_now(&mut self, buffer: &mut Vec<u8>) -> bool {
        match self {
            Wire::Clear(stream) => {
                let mut room = [0; 1024];
                match stream.try_read(&mut room) {
                    Ok(bytes) => {
                        buffer.extend_from_slice(&room[..bytes]);
                        bytes > 0
                    }
                    Err(_) => false,
                }
            }
            Wire::Secure(_) | Wire::Gone => false,
        }
    }

    /// Ends the connection with a reset.
    fn reset(&mut self) -> io::Result<()> {
        match std::mem::replace(self, Wire::Gone) {
            Wire::Clear(stream) => reset_on_close(&stream),
            Wire::Secure(stream) => reset_on_close(stream.get_ref().0),
            Wire::Gone => Ok(()),
        }
    }
}

/// Makes closing the socket a reset.
pub(crate) fn reset_on_close(stream: &TcpStream) -> io::Result<()> {
    SockRef::from(stream).set_linger(Some(Duration::ZERO))
}

/// Serves one connection to a host.
pub(crate) async fn serve(net: Arc<Net>, host: u32, stream: TcpStream, client: IpAddr) {
    if net.world.hosts[host as usize].state != HostState::Up {
        // Only a wildcard listener has such connections. A reset is the closest equivalent of a refusal.
        reset_on_close(&stream).ok();
        return;
    }
    let guard = Guard::enter(net, host, client);
    let mut connection = Connection {
        session: Session::new(guard.net.clone(), host, client, (guard.number, guard.ordinal)),
        wire: Wire::Clear(stream),
        input: Vec::new(),
        output: Vec::new(),
        offered: false,
        late: Vec::new(),
        again: None,
    };
    // A client that breaks the connection ends only its own session.
    connection.run(guard.of_client).await.ok();
    connection.session.note(What::Ends);
}

/// Counts a session while it lasts.
struct Guard {
    net: Arc<Net>,
    host: u32,
    client: IpAddr,
    /// The number among all sessions of the net, from 1.
    number: u64,
    ordinal: u64,
    of_client: u64,
}

impl Guard {
    fn enter(net: Arc<Net>, host: u32, client: IpAddr) -> Guard {
        let number = net.counters.all.enter() + 1;
        let ordinal = net.hosts[host as usize].sessions.enter();
        let of_client = net.client_enters(host, client);
        Guard { net, host, client, number, ordinal, of_client }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.net.counters.all.leave();
        self.net.hosts[self.host as usize].sessions.leave();
        self.net.client_leaves(self.host, self.client);
    }
}

struct Connection {
    session: Session,
    wire: Wire,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Whether a sent reply offered PIPELINING.
    offered: bool,
    /// Surplus replies, with the times at which they are sent if the server waits for a command then.
    late: Vec<(Instant, Vec<u8>)>,
    /// The replies to the commands that were read together, if they are sent again so long after the last of them.
    again: Option<(Duration, Vec<u8>)>,
}

/// The driver's step after a reply.
enum NextStep {
    Go,
    End,
}

impl Connection {
    async fn run(&mut self, of_client: u64) -> io::Result<()> {
        if let Some(at) = self.session.fault(Stage::Connect) {
            return self.at_connect(at).await;
        }
        if let NextStep::End = self.greet(of_client).await? {
            return Ok(());
        }
        loop {
            if let NextStep::End = self.answer_input().await? {
                return Ok(());
            }
            if self.input.contains(&b'\n') {
                // The bytes arrived while a reply was delayed.
                continue;
            }
            self.free_buffers();
            match self.read().await {
                Ok(Ok(0)) | Ok(Err(_)) => {
                    add(&self.session.place().net.counters.sessions_without_quit);
                    return Ok(());
                }
                Ok(Ok(_)) => {}
                Err(_) => {
                    self.output.extend_from_slice(b"421 4.4.2 Error: timeout exceeded\r\n");
                    return self.close().await;
                }
            }
        }
    }

    /// Waits for bytes of the client, and sends the surplus replies that are due meanwhile.
    async fn read(&mut self) -> Result<io::Result<usize>, Elapsed> {
        loop {
            let next = self.late.iter().enumerate().min_by_key(|(_, (at, _))| *at).map(|(index, _)| index);
            let Some(next) = next else { return timeout(IDLE, self.wire.read(&mut self.input)).await };
            if let Ok(read) = timeout_at(self.late[next].0, self.wire.read(&mut self.input)).await {
                return Ok(read);
            }
            let (_, replies) = self.late.remove(next);
            if let Err(error) = self.wire.write(&replies).await {
                return Ok(Err(error));
            }
        }
    }

    async fn at_connect(&mut self, fault: usize) -> io::Result<()> {
        add(&self.session.place().net.counters.misdeeds);
        match self.session.place().behaviour.faults[fault].spec.does {
            Misdeed::Hang => self.hang().await,
            Misdeed::Reset => self.wire.reset(),
            _ => Ok(()),
        }
    }

    async fn greet(&mut self, of_client: u64) -> io::Result<NextStep> {
        let place = self.session.place();
        let personality = &place.behaviour.personality;
        if personality.sessions_max > 0 && of_client > personality.sessions_max {
            self.session.crowded(&mut self.output);
            self.close().await?;
            return Ok(NextStep::End);
        }
        if personality.banner_delay_ms > 0 {
            sleep(Duration::from_millis(personality.banner_delay_ms)).await;
        }
        self.latency().await;
        if self.wire.read_now(&mut self.input) {
            self.session.violation(Violation::EarlyTalker);
        }
        let outcome = self.session.banner(&mut self.output);
        self.take(outcome, 0).await
    }

    /// Answers all complete lines, in as few writes as possible.
    async fn answer_input(&mut self) -> io::Result<NextStep> {
        let mut at = 0;
        while let Some(length) = self.input[at..].iter().position(|&byte| byte == b'\n') {
            let end = at + length + 1;
            let start = self.output.len();
            let more = end < self.input.len();
            let outcome = self.session.line(&self.input[at..end], more, &mut self.output);
            at = end;
            if outcome == (Outcome { step: Step::Go, fault: None }) {
                continue;
            }
            self.input.drain(..at);
            at = 0;
            if let NextStep::End = self.take(outcome, start).await? {
                return Ok(NextStep::End);
            }
        }
        self.input.drain(..at);
        if self.input.len() > LINE_BYTES_MAX {
            self.session.violation(Violation::LineTooLong);
            self.output.extend_from_slice(b"500 5.5.2 Line too long\r\n");
            self.close().await?;
            return Ok(NextStep::End);
        }
        if !self.output.is_empty() {
            self.latency().await;
            self.flush().await?;
        }
        if let Some((pause, replies)) = self.again.take() {
            if pause.is_zero() {
                // Before the next commands are read, so that the client may take them for the replies to these.
                self.wire.write(&replies).await?;
            } else {
                self.late.push((Instant::now() + pause, replies));
            }
        }
        Ok(NextStep::Go)
    }

    /// Executes the session's step after the reply that begins at `start` of the output.
    async fn take(&mut self, outcome: Outcome, start: usize) -> io::Result<NextStep> {
        if let Some(fault) = outcome.fault {
            return Box::pin(self.misbehave(fault, outcome.step, start)).await;
        }
        self.step(outcome.step, start).await
    }

    async fn step(&mut self, step: Step, start: usize) -> io::Result<NextStep> {
        match step {
            Step::Go => {
                self.flush().await?;
                return Ok(NextStep::Go);
            }
            Step::Pause(time) => {
                let reply = self.output.split_off(start);
                self.write_output().await?;
                sleep(time).await;
                self.output = reply;
                self.flush().await?;
                return Ok(NextStep::Go);
            }
            Step::StartTls => return Box::pin(self.start_tls()).await,
            Step::Close => self.close().await?,
            Step::Reset => {
                self.flush().await?;
                self.wire.reset()?;
            }
            Step::Hang => {
                self.flush().await?;
                self.hang().await?;
            }
        }
        Ok(NextStep::End)
    }

    async fn misbehave(&mut self, fault: usize, step: Step, start: usize) -> io::Result<NextStep> {
        add(&self.session.place().net.counters.misdeeds);
        let reply = self.output.split_off(start);
        self.latency().await;
        self.flush().await?;
        let place = self.session.place();
        let fault = &place.behaviour.faults[fault].spec;
        if fault.does == Misdeed::Closing {
            self.session.note(What::Closing);
        }
        if fault.does == Misdeed::Late {
            self.late.push((Instant::now() + pause(fault), surplus(fault)));
        }
        if fault.does == Misdeed::Again {
            let (_, replies) = self.again.get_or_insert_with(|| (pause(fault), Vec::new()));
            replies.extend_from_slice(&reply);
        }
        match commit(&mut self.wire, fault, &reply).await? {
            Next::Go if replaces(fault.does) && step != Step::Close => Ok(NextStep::Go),
            Next::Go => self.step(step, 0).await,
            Next::Hang => self.step(Step::Hang, 0).await,
            Next::Close => self.step(Step::Close, 0).await,
            Next::Reset => self.step(Step::Reset, 0).await,
        }
    }

    async fn start_tls(&mut self) -> io::Result<NextStep> {
        self.flush().await?;
        // Plain bytes after the command must not be read as commands under TLS (RFC 3207 5).
        self.input = Vec::new();
        if let Some(fault) = self.session.fault(Stage::Tls) {
            return self.break_handshake(fault).await;
        }
        let config = self.session.place().net.tls_config(self.session.place().behaviour.certificate);
        let Wire::Clear(stream) = std::mem::replace(&mut self.wire, Wire::Gone) else {
            return Ok(NextStep::End);
        };
        let secure = timeout(IDLE, TlsAcceptor::from(config).accept(stream)).await??;
        self.wire = Wire::Secure(Box::new(secure));
        self.session.secured();
        Ok(NextStep::Go)
    }

    async fn break_handshake(&mut self, fault: usize) -> io::Result<NextStep> {
        add(&self.session.place().net.counters.misdeeds);
        let does = self.session.place().behaviour.faults[fault].spec.does;
        // The connection breaks after the ClientHello, in the middle of the handshake.
        timeout(IDLE, self.wire.read(&mut self.input)).await??;
        match does {
            Misdeed::Hang => self.step(Step::Hang, 0).await,
            Misdeed::Reset => self.step(Step::Reset, 0).await,
            Misdeed::Garbage => {
                self.wire.write(&b"250 this is no ServerHello\r\n".repeat(50)).await?;
                self.step(Step::Close, 0).await
            }
            _ => self.step(Step::Close, 0).await,
        }
    }

    async fn latency(&mut self) {
        let span = self.session.place().behaviour.latency;
        if span.most > 0 {
            sleep(Duration::from_millis(self.session.random.between(span.least, span.most))).await;
        }
    }

    /// Sends the replies to all commands so far.
    async fn flush(&mut self) -> io::Result<()> {
        self.write_output().await?;
        self.session.on_written();
        Ok(())
    }

    async fn write_output(&mut self) -> io::Result<()> {
        if self.output.is_empty() {
            return Ok(());
        }
        if !self.offered && self.input.is_empty() && self.wire.read_now(&mut self.input) {
            // The reply is not sent yet, so the client cannot have read it.
            self.session.violation(Violation::PipeliningNotOffered);
        }
        self.offered = self.session.offers_pipelining();
        self.wire.write(&self.output).await?;
        if let Some((_, replies)) = &mut self.again {
            replies.extend_from_slice(&self.output);
        }
        self.output.clear();
        Ok(())
    }

    /// Sends the remaining bytes and ends the session such that the client can read all of them.
    async fn close(&mut self) -> io::Result<()> {
        if !self.output.is_empty() {
            self.wire.write(&self.output).await?;
            self.session.on_written();
        }
        self.wire.shutdown().await?;
        timeout(LINGER, self.drain()).await.unwrap_or(Ok(()))
    }

    async fn hang(&mut self) -> io::Result<()> {
        timeout(HANG, self.drain()).await.unwrap_or(Ok(()))
    }

    /// Reads until the client closes.
    async fn drain(&mut self) -> io::Result<()> {
        loop {
            self.input.clear();
            if self.wire.read(&mut self.input).await? == 0 {
                return Ok(());
            }
        }
    }

    fn free_buffers(&mut self) {
        if self.input.is_empty() && self.input.capacity() > BUFFER_BYTES_KEPT {
            self.input = Vec::new();
        }
        if self.output.capacity() > BUFFER_BYTES_KEPT {
            self.output = Vec::new();
        }
    }
}
