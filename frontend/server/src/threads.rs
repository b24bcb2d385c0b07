//! The frontend threads: each accepts on its own socket and serves its connections until the drain ends.

use crate::connection_limit::ConnectionLimit;
use crate::http;
use crate::listen;
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
use checks::own_evidence::OwnEvidence;
use checks::panics::catch_panic;
use checks::peers::network;
use checks::runtime::{self, Driver};
use engine::proto::sharing::{Bounds, Quota};
use monoio::io::AsyncReadRent;
use monoio::net::{TcpListener, UnixStream};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use store_rules::Store;

/// How long requests under way may take after the start of a drain: slightly longer than a check.
pub const DRAIN_TIME_MAX: Duration = Duration::from_secs(65);
const _: () = assert!(DRAIN_TIME_MAX.as_secs() > PROBE_TIME_MAX.as_secs());
/// The pause after a failed accept, such as without free file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The values that all threads get.
#[derive(Clone)]
pub struct Common {
    /// The driver of the threads' runtime.
    pub driver: Driver,
    /// Accounts, keys and credits.
    pub store: Arc<Store>,
    /// The limits on requests of keys and accounts.
    pub limiter: Arc<Limiter>,
    /// The learned events of the operator's own mail.
    pub own_evidence: Arc<OwnEvidence>,
    /// The phase of the server.
    pub status: Arc<Status>,
    /// Charged checks under way on all threads.
    pub shared_checks: Arc<SharedChecks>,
    /// The state that all threads share.
    pub shared: Arc<SharedState>,
    /// The largest number of simultaneous connections of a thread.
    pub connections: usize,
    /// The connections of each network.
    pub networks: Arc<Quota<IpAddr>>,
    /// The certificate for HTTPS; `None` for plain HTTP.
    pub tls: Option<Arc<Tls>>,
}

/// The quota of connections: `per_network` for each network, and no limit for 0. Each of the threads has this many at most, and
/// accepts one more that waits for its place.
pub fn connections(per_network: usize, threads: usize, per_thread: usize) -> Arc<Quota<IpAddr>> {
    let all = (threads * (per_thread + 1)) as u64;
    let share = if per_network == 0 { all } else { per_network as u64 };
    Quota::new("connections", Bounds { share, all })
}

/// A thread before its start.
pub struct FrontendThread {
    /// The socket on which it accepts.
    pub listener: std::net::TcpListener,
    /// The connection to the engine.
    pub line: Box<dyn EngineHandle + Send>,
    /// The counters of this thread.
    pub tally: Arc<Tally>,
    /// The thread drains when the other end is dropped.
    pub shutdown: StdUnixStream,
    /// The values that all threads get.
    pub common: Common,
}

impl FrontendThread {
    /// Serves on the calling thread until the drain has ended, or its time limit is reached.
    ///
    /// # Errors
    ///
    /// There is no runtime, or it refuses the sockets.
    pub fn serve(self) -> io::Result<()> {
        runtime::run(self.common.driver, |driver| self.main(driver))?
    }

    async fn main(self, driver: Driver) -> io::Result<()> {
        // epoll needs sockets that do not block. A ring asks the kernel to wait, and would get EAGAIN from such a
        // socket.
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
                own_evidence: self.common.own_evidence,
                tally: self.tally,
            }),
            status: self.common.status,
            limit: Rc::clone(&limit),
            shared: self.common.shared,
        });
        monoio::spawn(async move { engine.deliver().await });
        first(accept(&listener, &worker, &self.common.networks, &self.common.tls), released(shutdown)).await;
        limit.drain();
        let ended = async {
            limit.empty().await;
            drain.done().await;
        };
        if monoio::time::timeout(DRAIN_TIME_MAX, ended).await.is_err() {
            tracing::warn!("some requests did not end in time; their credits are returned at the next start");
        }
        Ok(())
    }
}

async fn accept(
    listener: &TcpListener,
    worker: &Rc<Worker>,
    networks: &Arc<Quota<IpAddr>>,
    tls: &Option<Arc<Tls>>,
) {
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            // This socket is shut down, and those of the other threads perhaps not yet. A client that is refused here
            // must not be accepted there. All sockets are shut down once the shutdown begins.
            Err(_) if worker.status.phase() == Phase::Draining => std::future::pending().await,
            Err(error) => {
                tracing::warn!("a connection was not accepted: {error}");
                monoio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        if worker.status.phase() == Phase::Draining
            && let Err(error) = listen::take_all_hops(stream.as_raw_fd(), peer.is_ipv6())
        {
            tracing::debug!("a connection of the drain may stay silent: {error}");
        }
        let tally = Arc::clone(&worker.checks.tally);
        count(&tally.accepted);
        let Ok(admitted) = networks.take(network(peer.ip()), 1) else {
            count(&tally.refused);
            count(&tally.ended);
            continue;
        };
        // The permit is requested only after a connection has arrived, since another one may have to close for it.
        let permit = worker.limit.acquire().await;
        let (worker, tls) = (Rc::clone(worker), tls.clone());
        monoio::spawn(async move {
            let served = pin!(http::serve(stream, peer.ip(), worker, permit, tls.as_deref()));
            let _ = catch_panic(served).await;
            drop(admitted);
            count(&tally.ended);
        });
    }
}

/// Waits until the other end is dropped.
async fn released(mut shutdown: UnixStream) {
    let _ = shutdown.read(vec![0; 1]).await;
}

/// Waits until one of the two ends.
async fn first(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|cx| match one.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => other.as_mut().poll(cx),
    })
    .await;
}
