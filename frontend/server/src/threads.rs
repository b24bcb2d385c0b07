//! The frontend threads: each accepts on its own socket and serves its connections, until told to drain.

use crate::connection_limit::ConnectionLimit;
use crate::http;
use crate::status::{Phase, Status};
use crate::tls::Tls;
use crate::worker::{SharedState, Worker};
use checks::Checks;
use checks::counters::{Tally, count};
use checks::drain::Drain;
use checks::engine_client::{EngineClient, EngineHandle};
use checks::full::PROBE_TIME_MAX;
use checks::full::shared::SharedChecks;
use checks::limiter::Limiter;
use checks::panics::catch_panic;
use checks::peers::Peers;
use checks::runtime::{self, Driver};
use monoio::io::AsyncReadRent;
use monoio::net::{TcpListener, UnixStream};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use store::Store;

/// How long what is under way may take to end once a drain has begun: a little more than a check may take.
pub const DRAIN_TIME_MAX: Duration = Duration::from_secs(65);
const _: () = assert!(DRAIN_TIME_MAX.as_secs() > PROBE_TIME_MAX.as_secs());
/// After an accept that failed, as it does when the process is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What all threads are started with.
#[derive(Clone)]
pub struct Common {
    /// What they run on.
    pub driver: Driver,
    /// Accounts, keys and credits.
    pub store: Arc<dyn Store>,
    /// How much keys and accounts may ask.
    pub limiter: Arc<Limiter>,
    /// The server's phase.
    pub status: Arc<Status>,
    /// Charged checks under way, on all threads.
    pub shared_checks: Arc<SharedChecks>,
    /// What all threads share.
    pub shared: Arc<SharedState>,
    /// Most connections of a thread at once.
    pub connections: usize,
    /// Who has how many of them.
    pub peers: Arc<Peers>,
    /// For HTTPS.
    pub tls: Option<Arc<Tls>>,
}

/// What a thread is started with.
pub struct FrontendThread {
    /// Its socket.
    pub listener: std::net::TcpListener,
    /// Its way to the engine.
    pub line: Box<dyn EngineHandle + Send>,
    /// What it counts.
    pub tally: Arc<Tally>,
    /// When its other end is dropped, the thread drains.
    pub shutdown: StdUnixStream,
    /// What it shares with the others.
    pub common: Common,
}

impl FrontendThread {
    /// Serves on this thread until drained; then what was under way has ended, or its time has.
    ///
    /// # Errors
    /// When there is no runtime, or it refuses the sockets.
    pub fn serve(self) -> io::Result<()> {
        runtime::run(self.common.driver, |driver| self.main(driver))?
    }

    async fn main(self, driver: Driver) -> io::Result<()> {
        // epoll wants sockets that do not block; a ring asks the kernel to wait and would be told EAGAIN.
        self.listener.set_nonblocking(driver == Driver::Epoll)?;
        self.shutdown.set_nonblocking(driver == Driver::Epoll)?;
        let listener = TcpListener::from_std(self.listener)?;
        let shutdown = UnixStream::from_std(self.shutdown)?;
        let limit = ConnectionLimit::new(self.common.connections);
        let drain = Rc::<Drain>::default();
        let engine = EngineClient::new(self.line);
        let worker = Rc::new(Worker {
            checks: Rc::new(Checks {
                store: self.common.store,
                limiter: self.common.limiter,
                engine: Rc::clone(&engine),
                domains: RefCell::default(),
                shared_checks: self.common.shared_checks,
                drain: Rc::clone(&drain),
                tally: self.tally,
            }),
            status: self.common.status,
            limit: Rc::clone(&limit),
            shared: self.common.shared,
        });
        monoio::spawn(async move { engine.deliver().await });
        first(accept(&listener, &worker, &self.common.peers, &self.common.tls), released(shutdown)).await;
        limit.drain();
        let ended = async {
            limit.empty().await;
            drain.done().await;
        };
        if monoio::time::timeout(DRAIN_TIME_MAX, ended).await.is_err() {
            tracing::warn!(
                "some requests did not end in time; their credits are given back at the next start"
            );
        }
        Ok(())
    }
}

async fn accept(listener: &TcpListener, worker: &Rc<Worker>, peers: &Arc<Peers>, tls: &Option<Arc<Tls>>) {
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            // The socket is shut, and perhaps not yet those of the other threads: nobody who is turned away here
            // shall be let in there. All are shut once the shutdown begins.
            Err(_) if worker.status.phase() == Phase::Draining => std::future::pending().await,
            Err(error) => {
                tracing::warn!("a connection was not accepted: {error}");
                monoio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let tally = Arc::clone(&worker.checks.tally);
        count(&tally.accepted);
        let Some(guest) = peers.enter(peer.ip()) else {
            count(&tally.refused);
            count(&tally.ended);
            continue;
        };
        // Only now, when somebody is there for whom another one may have to give way.
        let place = worker.limit.place().await;
        let (worker, tls) = (Rc::clone(worker), tls.clone());
        monoio::spawn(async move {
            let _ = catch_panic(http::serve(stream, peer.ip(), worker, place, tls.as_deref())).await;
            drop(guest);
            count(&tally.ended);
        });
    }
}

/// Until the other end is dropped.
async fn released(mut shutdown: UnixStream) {
    let _ = shutdown.read(vec![0; 1]).await;
}

/// Until one of the two ends.
async fn first(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|cx| match one.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => other.as_mut().poll(cx),
    })
    .await;
}
