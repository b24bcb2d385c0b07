//! A running mail internet: its sockets, its threads and its state about clients.

use crate::{
    Event, ExpectedVerdict, Journal, Scenario, What, connection,
    dns::{serve_tcp, serve_udp},
    listen::{self, Sockets},
    random::{Random, hash},
    spec::DnsBehaviour,
    stats::{Counters, HostCounters, HostStats, Stats},
    tls::Certificates,
    values::Certificate,
    world::{Domain, World},
};
use std::{
    collections::HashMap,
    fmt,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};
use tokio::{net::TcpListener, runtime::Runtime, sync::oneshot, time::sleep};

/// The entry point that starts a mail internet.
pub struct Mailnet;

impl Mailnet {
    /// Binds the sockets of a scenario and serves them on separate threads until the handle is dropped.
    ///
    /// # Errors
    ///
    /// [`StartError`]: an address or a port is in use, or the system has no threads.
    pub fn start(scenario: Scenario) -> Result<Running, StartError> {
        let sockets = listen::bind(scenario.listen(), scenario.world()).map_err(StartError::Bind)?;
        let net = Arc::new(Net::new(scenario.world().clone())?);
        let threads = scenario.listen().threads.clamp(1, 64);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("mailnet")
            .enable_all()
            .build()
            .map_err(StartError::Threads)?;
        let (dns, smtp_port) = (sockets.dns, sockets.smtp_port);
        let (stop, stopped) = oneshot::channel();
        let served = net.clone();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("mailnet-main".into())
            .spawn(move || run(&runtime, served, sockets, &ready, stopped))
            .map_err(StartError::Threads)?;
        let running = Running { dns, smtp_port, net, scenario, stop: Some(stop), thread: Some(thread) };
        // The channel breaks only if the thread ends before it is ready.
        is_ready
            .recv()
            .map_err(|_| StartError::Threads(std::io::Error::other("a thread ended at its start")))??;
        Ok(running)
    }
}

/// The reason why a mail internet did not start.
#[derive(Debug)]
pub enum StartError {
    /// A socket could not be bound.
    Bind(std::io::Error),
    /// A thread could not be created.
    Threads(std::io::Error),
    /// A certificate could not be created.
    Certificate(Box<dyn std::error::Error + Send + Sync>),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Bind(error) => write!(f, "cannot listen: {error}"),
            StartError::Threads(error) => write!(f, "cannot start threads: {error}"),
            StartError::Certificate(error) => write!(f, "cannot create a certificate: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

/// A running mail internet, which stops on drop.
pub struct Running {
    dns: SocketAddr,
    smtp_port: u16,
    net: Arc<Net>,
    scenario: Scenario,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// The address of its DNS server, for UDP and TCP.
    pub fn dns(&self) -> SocketAddr {
        self.dns
    }

    /// The port of all its mail hosts.
    pub fn smtp_port(&self) -> u16 {
        self.smtp_port
    }

    /// The scenario that it serves.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// The expected verdicts about an address.
    pub fn expected(&self, address: &str) -> ExpectedVerdict {
        self.scenario.expected(address)
    }

    /// The current values of the counters.
    pub fn stats(&self) -> Stats {
        self.net.counters.picture()
    }

    /// The counters of a mail host by its name; `None` if no host has this name.
    pub fn host_stats(&self, name: &str) -> Option<HostStats> {
        let at = *self.net.world.by_host_name.get(name)?;
        Some(self.net.hosts[at as usize].picture())
    }

    /// The sum of the counters of a domain's hosts; its peak is the greatest of theirs.
    pub fn domain_stats(&self, name: &str) -> Option<HostStats> {
        let domain = self.net.domain(name)?;
        let mut sum = HostStats::default();
        for &at in &domain.hosts {
            let host = self.net.hosts[at as usize].picture();
            sum.sessions += host.sessions;
            sum.sessions_open += host.sessions_open;
            sum.sessions_peak = sum.sessions_peak.max(host.sessions_peak);
            sum.rcpt += host.rcpt;
            sum.rcpt_refused += host.rcpt_refused;
        }
        Some(sum)
    }

    /// The events of the clients so far; empty unless the scenario has `journal = true`.
    pub fn journal(&self) -> Journal {
        lock(&self.net.journal).clone()
    }

    /// Ends all sessions, frees the ports and returns the last counters.
    pub fn stop(mut self) -> Stats {
        self.halt();
        self.stats()
    }

    fn halt(&mut self) {
        // A thread may already have ended.
        self.stop.take().map(|stop| stop.send(()).ok());
        self.thread.take().map(|thread| thread.join().ok());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.halt();
    }
}

type Ready = std::sync::mpsc::Sender<Result<(), StartError>>;

fn run(runtime: &Runtime, net: Arc<Net>, sockets: Sockets, ready: &Ready, stopped: oneshot::Receiver<()>) {
    runtime.block_on(async move {
        let blackholes = match serve(net, sockets) {
            Ok(blackholes) => blackholes,
            Err(error) => {
                ready.send(Err(StartError::Bind(error))).ok();
                return;
            }
        };
        ready.send(Ok(())).ok();
        // A dropped sender has the effect of a message.
        stopped.await.ok();
        drop(blackholes);
    });
}

fn serve(net: Arc<Net>, sockets: Sockets) -> std::io::Result<Vec<socket2::Socket>> {
    let udp = Arc::new(tokio::net::UdpSocket::from_std(sockets.udp)?);
    for _ in 0..2 {
        tokio::spawn(serve_udp(net.clone(), udp.clone()));
    }
    tokio::spawn(serve_tcp(net.clone(), TcpListener::from_std(sockets.tcp)?));
    for listener in sockets.smtp {
        tokio::spawn(accept(net.clone(), TcpListener::from_std(listener)?));
    }
    Ok(sockets.blackholes)
}

async fn accept(net: Arc<Net>, listener: TcpListener) {
    loop {
        let Ok((stream, client)) = listener.accept().await else {
            // Probably no file descriptor is free: some session will end.
            sleep(Duration::from_millis(20)).await;
            continue;
        };
        let host = stream.local_addr().ok().and_then(|local| net.world.by_address.get(&local.ip()).copied());
        match host {
            Some(host) if stream.set_nodelay(true).is_ok() => {
                tokio::spawn(connection::serve(net.clone(), host, stream, client.ip()));
            }
            // The client has already closed.
            Some(_) => {}
            // Only the wildcard listener gets connections to addresses without a host.
            None => {
                connection::reset_on_close(&stream).ok();
            }
        }
    }
}

/// The state that all sessions share.
pub(crate) struct Net {
    pub world: Arc<World>,
    pub counters: Counters,
    pub hosts: Vec<HostCounters>,
    certificates: Certificates,
    /// The time at which each greylisted triple was first seen, by its hash.
    greylist: Mutex<HashMap<u64, Instant>>,
    clients: Mutex<HashMap<(u32, IpAddr), Client>>,
    /// The times of refused unknown recipients in order, for hosts whose conduct depends on them.
    refusals: Mutex<HashMap<(u32, Whose), Vec<Instant>>>,
    journal: Mutex<Journal>,
    started: Instant,
    draws: AtomicU64,
    /// The number of UDP queries that wait for their latency.
    queries: Arc<AtomicU64>,
}

/// A UDP query that waits for its latency.
pub(crate) struct Query(Arc<AtomicU64>);

impl Drop for Query {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// The scope of a common count of refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Whose {
    Host,
    Client(IpAddr),
    Node(u32),
}

/// The state of a host about a client.
#[derive(Default)]
struct Client {
    open: u64,
    not_found: u64,
}

/// With this many triples the greylist is cleared.
const GREYLIST_MAX: usize = 4_000_000;
/// The largest number of recorded events.
const EVENTS_MAX: usize = 4_000_000;

impl Net {
    fn new(world: Arc<World>) -> Result<Net, StartError> {
        Ok(Net {
            hosts: world.hosts.iter().map(|_| HostCounters::default()).collect(),
            world,
            counters: Counters::default(),
            certificates: Certificates::new().map_err(StartError::Certificate)?,
            greylist: Mutex::default(),
            clients: Mutex::default(),
            refusals: Mutex::default(),
            journal: Mutex::default(),
            started: Instant::now(),
            draws: AtomicU64::new(0),
            queries: Arc::default(),
        })
    }

    /// Accepts a query, unless the largest number of queries waits already.
    pub(crate) fn takes_query(&self) -> Option<Query> {
        let query = Query(Arc::clone(&self.queries));
        let waiting = query.0.fetch_add(1, Relaxed);
        let most = self.world.dns.under_way_max;
        (most == 0 || waiting < most).then_some(query)
    }

    /// The present false answer for every name, if there is one.
    pub(crate) fn lie(&self) -> Option<DnsBehaviour> {
        let dns = &self.world.dns;
        let lie = dns.lie?;
        let now = self.started.elapsed();
        let is_over = dns.lie_until_ms.is_some_and(|until| now >= Duration::from_millis(until));
        (now >= Duration::from_millis(dns.lie_from_ms) && !is_over).then_some(lie)
    }

    pub(crate) fn tls_config(&self, kind: Certificate) -> Arc<rustls::ServerConfig> {
        self.certificates.find(kind)
    }

    pub(crate) fn domain(&self, name: &str) -> Option<&Domain> {
        let at = if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            self.world.by_domain.get(name.to_ascii_lowercase().as_str())
        } else {
            self.world.by_domain.get(name)
        };
        at.map(|&at| &self.world.domains[at as usize])
    }

    pub(crate) fn dns_latency(&self) -> Duration {
        let span = self.world.dns.latency_ms;
        if span.most == 0 {
            return Duration::ZERO;
        }
        let draw = self.draws.fetch_add(1, Relaxed);
        Duration::from_millis(Random::new(self.world.seed ^ draw).between(span.least, span.most))
    }

    /// Whether the triple (client, sender, recipient; unused parts are empty) was first seen at least `wait` ago.
    pub(crate) fn is_past_greylist(&self, counts: [&str; 3], now: Instant, wait: Duration) -> bool {
        let key = hash(0, &counts.map(str::as_bytes));
        let mut greylist = lock(&self.greylist);
        if greylist.len() >= GREYLIST_MAX {
            greylist.clear();
        }
        let first = *greylist.entry(key).or_insert(now);
        now.duration_since(first) >= wait && !wait.is_zero()
    }

    /// Counts a session of a client at a host; returns the client's number of sessions.
    pub(crate) fn client_enters(&self, host: u32, client: IpAddr) -> u64 {
        let mut clients = lock(&self.clients);
        let client = clients.entry((host, client)).or_default();
        client.open += 1;
        client.open
    }

    pub(crate) fn client_leaves(&self, host: u32, client: IpAddr) {
        let mut clients = lock(&self.clients);
        if let Some(known) = clients.get_mut(&(host, client)) {
            known.open -= 1;
            if known.open == 0 && known.not_found == 0 {
                clients.remove(&(host, client));
            }
        }
    }

    /// Counts an unknown recipient that a node of a host has refused for a client.
    pub(crate) fn refused(&self, host: u32, client: IpAddr, node: u32) {
        let (now, mut refusals) = (Instant::now(), lock(&self.refusals));
        for whose in [Whose::Host, Whose::Client(client), Whose::Node(node)] {
            refusals.entry((host, whose)).or_default().push(now);
        }
    }

    /// How many unknown recipients a host has refused, within a period or in all.
    pub(crate) fn refusals(&self, host: u32, whose: Whose, within: Option<Duration>) -> u64 {
        let now = Instant::now();
        let refusals = lock(&self.refusals);
        let Some(times) = refusals.get(&(host, whose)) else { return 0 };
        let old = within.map_or(0, |within| times.partition_point(|&at| now.duration_since(at) >= within));
        (times.len() - old) as u64
    }

    /// Records an event, if the scenario requires it. Events are in the order of their times, since the clock is read
    /// under the lock.
    pub(crate) fn note(&self, session: u64, (host, node): (u32, u32), client: IpAddr, what: What) {
        if !self.world.journal {
            return;
        }
        let host = self.world.hosts[host as usize].name.clone();
        let mut journal = lock(&self.journal);
        if journal.events.len() >= EVENTS_MAX {
            journal.lost += 1;
            return;
        }
        let at_ms = self.started.elapsed().as_millis() as u64;
        journal.events.push(Event { at_ms, session, host, node, client, what });
    }

    /// How many unknown recipients a client has asked a host about; one more if `one_more`.
    pub(crate) fn not_found(&self, key: (u32, IpAddr), one_more: bool) -> u64 {
        let mut clients = lock(&self.clients);
        let client = clients.entry(key).or_default();
        client.not_found += u64::from(one_more);
        client.not_found
    }
}

/// After a panic of a session under the lock, the counters are still consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
