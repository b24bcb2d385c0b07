//! `mailprobe serve`: starts a server from the configuration, and ends it.
//!
//! The store, the port and the engine are opened before the first request is answered, so that errors appear at the start.
//! SIGTERM or SIGINT starts a drain: the server accepts no new connections, `/readyz` answers 503, and requests in
//! progress end within [`server::threads::DRAIN_TIME_MAX`]. SIGHUP reads the configuration again (`reload.rs`). A second signal ends the process at once. The next start
//! voids the holds that remain.

use super::flags::{DATA, ENGINE, Flags, LEARNED, SERVER};
use super::notify::{ServiceState, feed_watchdog, tell, watchdog_interval};
use super::program::{Failure, StartEngine};
use super::reload::Reload;
use super::{learned, log, open_files, opened_store, self_check};
use crate::config::Config;
use assistants::Assistants;
use checks::batch::{Feeder, Limits, NewBatches};
use checks::engine_client::Backend;
use checks::engine_memory;
use checks::faults::Faults;
use checks::housekeeping::Housekeeping;
use checks::keeper::Keeper;
use checks::limiter::{self, Limiter};
use checks::own_evidence::OwnEvidence;
use checks::panics::log_panics;
use checks::runtime::{self, Choice};
use dashboard::Dashboard;
use engine::config::EngineConfig;
use engine::proto::sharing::ShareUse;
use list_work::ListWork;
use lists::shell;
use outbound::Destinations;
use server::admin::first_run::first_run;
use server::admin::server::{AdminServer, Running};
use server::connection_memory::ConnectionMemory;
use server::listen::Listeners;
use server::metrics::Metrics;
use server::metrics::endpoint::Endpoint;
use server::reference;
use server::status::{Phase, Status};
use server::threads::{Common, FrontendThread, connections};
use server::tls::Tls;
use server::worker::SharedState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use socket2::SockRef;
use std::io::{self, IsTerminal, Write};
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, RwLock};
use std::thread;
use store::clock;
use store_rules::Store;

/// The arguments of `mailprobe serve`, which are the flags of the configuration.
#[derive(clap::Args)]
pub struct ServeArgs {
    #[command(flatten)]
    flags: Flags<{ DATA | SERVER | ENGINE | LEARNED }>,
    /// For tests: let `mailprobe clock advance` move the clock of this server.
    #[arg(long, hide = true)]
    test_clock: bool,
}

/// An event for the main thread.
enum Event {
    /// A signal that ends the server.
    Signal,
    /// A signal to read the configuration again.
    Reload,
    /// A thread has ended: its name and its result.
    Ended(String, io::Result<()>),
}

/// The end of the server.
enum End {
    /// All threads have ended, with or without an error.
    Drained(Result<(), Failure>),
    /// A second signal arrived before that.
    Forced,
}

/// A frontend thread, as seen by the main thread.
struct Thread {
    /// Its socket. A shutdown here closes it for all its users.
    listener: TcpListener,
    /// The thread drains when this is dropped.
    _shutdown: UnixStream,
}

/// Runs `mailprobe serve` until a signal ends it.
///
/// # Errors
///
/// One line for standard error: the server could not start, or a part of it failed.
pub fn run(args: &ServeArgs, quiet: bool, start_engine: StartEngine) -> Result<(), Failure> {
    let config = args.flags.config()?;
    let plans = config.plan_table()?;
    config.gateways()?;
    config.check_data_folder()?;
    let engine_config = config.engine_config()?;
    let _log = log::start(config.log, config.log_level);
    log_panics();
    if args.test_clock {
        clock::make_movable();
        tracing::warn!(
            "--test-clock is for tests: every user of the admin socket can move the clock of this server"
        );
    }
    let (events, inbox) = channel();
    let tls = load_tls(&config)?;
    open_files::raise(config.connections + config.engine.sessions);
    watch_signals(events.clone())?;
    let choice = runtime::choose(config.engine.driver).map_err(Failure::failed)?;
    // Before the store: an occupied port then leaves no data folder behind. New connections wait until they are accepted.
    let listeners = Listeners::open(config.listen, config.frontend_threads()).map_err(Failure::failed)?;
    let address = listeners.address;
    let mut endpoint = config.metrics.map(Endpoint::bind).transpose().map_err(Failure::failed)?;
    let store = opened_store::open(&config, plans, clock::now())?;
    let limiter = Limiter::open(Arc::clone(&store)).map_err(|error| Failure::failed(error.to_string()))?;
    let limiter = Arc::new(limiter);
    let keeper = limiter::keep(Arc::clone(&limiter), clock::now).map_err(|error| {
        Failure::failed(format!("cannot start the thread that keeps rate limits: {error}"))
    })?;
    let lists = engine_config.lists.clone();
    let identities = config.self_checks.then(|| engine::identities(&engine_config)).transpose();
    let identities = identities.map_err(|error| Failure::failed(error.0))?;
    let (engine, memory) = start_remembering(start_engine, engine_config, &store)?;
    let metrics = Metrics::new(
        listeners.sockets.len(),
        config.connections,
        Arc::clone(&store),
        engine.gauge(),
        log::dropped,
        clock::now(),
    );
    let metrics = Arc::new(metrics);
    let base_url = reference::base(config.public_url.as_deref(), tls.is_some(), address);
    let running = Running { metrics: Arc::clone(&metrics), base_url };
    let admin = AdminServer::start(&config.data, Arc::clone(&store), clock::now, Some(running))
        .map_err(|error| Failure::failed(error.to_string()))?;
    announce_first_keys(&config, &store)?;
    let housekeeping = Housekeeping::start(Arc::clone(&store), clock::now)
        .map_err(|error| Failure::failed(format!("cannot start the housekeeping thread: {error}")))?;

    let status = Arc::new(Status::default());
    let new_batches = Arc::<NewBatches>::default();
    let faults = Arc::<Faults>::default();
    let own_evidence = Arc::<OwnEvidence>::default();
    let learned = learned::serve(&config, &store, &own_evidence)?;
    let crew = Crew {
        config: &config,
        choice: &choice,
        engine: &*engine,
        store: &store,
        limiter: &limiter,
        metrics: &metrics,
        events: &events,
        tls: &tls,
        faults: &faults,
        own_evidence: &own_evidence,
    };
    crew.start_feeder(&new_batches)?;
    let webhooks = crew.start_webhooks()?;
    let (threads, shared) = crew.start_frontends(listeners, &new_batches, &status, webhooks.shares())?;
    let reload = Reload { running: &config, lists, store: &store, shared: &shared, tls: tls.as_deref() };
    metrics.set_shares(shared.shares.clone());
    status.enter(Phase::Ready);
    if let Some(endpoint) = &mut endpoint {
        endpoint.start(metrics).map_err(|error| Failure::failed(format!("cannot serve metrics: {error}")))?;
        if !quiet {
            writeln!(io::stdout(), "metrics: http://{}/metrics", endpoint.address)?;
        }
    }
    warn_of_sign_up(&config, address);
    if !quiet {
        announce(&config, &choice, &*engine, address)?;
    }

    let _self_check = identities
        .map(|identities| self_check::start(&config, identities, engine.gauge(), &faults))
        .transpose()
        .map_err(|error| Failure::failed(format!("cannot start the thread of self-checks: {error}")))?;
    let gauge = engine.gauge();
    tell(ServiceState::Ready);
    let on_reload = || {
        tell(ServiceState::Reloading);
        reload.run(args.flags.config());
        tell(ServiceState::Ready);
    };
    let is_alive = || feed_watchdog(&gauge());
    let open = OpenServer { threads, status: &status, new_batches: &new_batches, webhooks: &webhooks };
    let End::Drained(outcome) = until_the_end(open, &inbox, on_reload, is_alive) else {
        // An orderly end of these takes too long. The next start continues from the state that they leave.
        std::mem::forget((admin, endpoint, engine, housekeeping, keeper, learned, memory, webhooks));
        return Err(Failure::failed("ended by a second signal; unfinished work was abandoned"));
    };
    // Messages that are not sent by now wait for the next start.
    drop(webhooks);
    drop((admin, endpoint, housekeeping, learned));
    engine.stop();
    // After the engine, so that its latest findings are stored too.
    drop((keeper, memory));
    outcome
}

/// Starts the engine with the stored state of earlier runs, and the thread that stores its new state.
fn start_remembering(
    start_engine: StartEngine,
    mut config: EngineConfig,
    store: &Arc<Store>,
) -> Result<(Box<dyn Backend>, Keeper), Failure> {
    let place = store.place();
    let kept = engine_memory::counts_of_node(store, place.node, clock::now());
    let kept = kept.map_err(|error| Failure::failed(error.to_string()))?;
    config.installation = store.installation();
    (config.node, config.egress_nodes) = (place.node, place.egress_nodes);
    config.refusals = kept.clone();
    let engine = start_engine(config)?;
    let memory = engine_memory::start(store, &*engine, kept).map_err(|error| {
        Failure::failed(format!("cannot start the thread that keeps counts of refusals: {error}"))
    })?;
    Ok((engine, memory))
}

/// The certificate, if the API uses TLS.
fn load_tls(config: &Config) -> Result<Option<Arc<Tls>>, Failure> {
    let Some((certificate, key)) = config.tls_files()? else { return Ok(None) };
    let tls = Tls::load(certificate.to_owned(), key.to_owned()).map_err(Failure::failed)?;
    Ok(Some(Arc::new(tls)))
}

/// SIGTERM and SIGINT end the server. SIGHUP reads the configuration again.
fn watch_signals(events: Sender<Event>) -> Result<(), Failure> {
    let cannot = |error: io::Error| Failure::failed(format!("cannot watch for signals: {error}"));
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(cannot)?;
    let watch = move || {
        for signal in signals.forever() {
            let event = if signal == SIGHUP { Event::Reload } else { Event::Signal };
            // The receiver is closed only when the server ends anyway.
            let _ = events.send(event);
        }
    };
    thread::Builder::new().name("signals".into()).spawn(watch).map(drop).map_err(cannot)
}

/// The shared arguments of all threads.
struct Crew<'s> {
    config: &'s Config,
    choice: &'s Choice,
    engine: &'s dyn Backend,
    store: &'s Arc<Store>,
    limiter: &'s Arc<Limiter>,
    metrics: &'s Metrics,
    events: &'s Sender<Event>,
    tls: &'s Option<Arc<Tls>>,
    faults: &'s Arc<Faults>,
    own_evidence: &'s Arc<OwnEvidence>,
}

impl Crew<'_> {
    fn start_feeder(&self, new_batches: &Arc<NewBatches>) -> Result<(), Failure> {
        let room = self.config.batch_rows_max();
        let feeder = Feeder {
            driver: self.choice.driver,
            line: self.engine.line(room),
            store: Arc::clone(self.store),
            new_batches: Arc::clone(new_batches),
            limits: Limits { under_way_max: room, ..self.config.batch },
            tally: self.metrics.tally_of_batches(),
        };
        self.start("batches".into(), || feeder.run())
    }

    fn start_webhooks(&self) -> Result<webhooks::Sender, Failure> {
        let settings =
            webhooks::Settings { destinations: webhook_destinations(self.config), clock: clock::now };
        webhooks::Sender::start(Arc::clone(self.store), settings)
            .map_err(|error| Failure::failed(format!("cannot start the thread of webhooks: {error}")))
    }

    /// The dashboard and the assistants. Users consent in the dashboard, so assistants need it to connect.
    fn start_dashboard(
        &self,
        listen: SocketAddr,
        reference: &Arc<str>,
        lists: &Arc<ListWork>,
    ) -> io::Result<Option<Arc<Dashboard>>> {
        let config = self.config;
        if !config.dashboard.enabled {
            return Ok(None);
        }
        // Behind a proxy all clients have one address.
        let networks_are_told = config.connections_per_peer != 0;
        let assistants = Assistants::start(assistants::Settings {
            public_url: config.public_url.clone(),
            listen,
            tls: config.tls_cert.is_some(),
            allowed_networks: config.engine.allow_net.clone(),
            networks_are_told,
        })?;
        let settings = dashboard::Settings {
            sign_up: config.dashboard.sign_up,
            public_url: config.public_url.clone(),
            base: reference::base(config.public_url.as_deref(), self.tls.is_some(), listen),
            networks_are_told,
            lists: Arc::clone(lists),
            reference: Arc::clone(reference),
            assistants,
            faults: Arc::clone(self.faults),
            webhook_destinations: webhook_destinations(config),
        };
        Dashboard::start(settings).map(Some)
    }

    fn start_frontends(
        &self,
        listeners: Listeners,
        new_batches: &Arc<NewBatches>,
        status: &Arc<Status>,
        mut shares: Vec<Arc<ShareUse>>,
    ) -> Result<(Vec<Thread>, Arc<SharedState>), Failure> {
        let cannot = |error: io::Error| Failure::failed(format!("cannot prepare a thread: {error}"));
        let count = listeners.sockets.len();
        let room = self.config.engine.tickets_max - self.config.batch_rows_max();
        let unfit = |error| Failure::failed(format!("cannot render the API description: {error}"));
        let description = api::openapi::description(self.config.base_url()).map_err(unfit)?;
        let base = reference::base(self.config.public_url.as_deref(), self.tls.is_some(), listeners.address);
        let reference: Arc<str> = reference::render(
            &serde_json::to_value(&description).map_err(unfit)?,
            &base,
            self.config.batch.wait,
        )
        .into_string()
        .into();
        let bytes_max = self.config.dashboard.upload_mib << 20;
        let lists = ListWork::start(self.store, new_batches, &self.config.data, bytes_max, self.config.batch)
            .map_err(cannot)?;
        let dashboard = self.start_dashboard(listeners.address, &reference, &lists).map_err(cannot)?;
        let per_thread = self.config.connections.div_ceil(count);
        let networks = connections(self.config.connections_per_peer, count, per_thread);
        // Behind a proxy all clients have one address.
        let memory = ConnectionMemory::new(self.config.connections_per_peer != 0);
        shares.push(networks.figures());
        shares.extend(memory.shares());
        shares.extend(self.store.shares());
        shares.extend(lists.shares());
        shares.extend(outbound::shares());
        shares.extend(dashboard.iter().flat_map(|dashboard| dashboard.shares()));
        let shared = Arc::new(SharedState {
            shares,
            memory,
            in_progress: Arc::default(),
            new_batches: Arc::clone(new_batches),
            faults: Arc::clone(self.faults),
            gateways: RwLock::new(Arc::new(self.config.gateways()?)),
            webhook_destinations: webhook_destinations(self.config),
            description: serde_json::to_vec(&description).map_err(unfit)?,
            reference,
            lists,
            dashboard,
        });
        let common = Common {
            driver: self.choice.driver,
            store: Arc::clone(self.store),
            limiter: Arc::clone(self.limiter),
            shared_checks: Arc::default(),
            own_evidence: Arc::clone(self.own_evidence),
            status: Arc::clone(status),
            shared: Arc::clone(&shared),
            connections: per_thread,
            networks,
            tls: self.tls.clone(),
        };
        let mut threads = Vec::with_capacity(count);
        for (number, listener) in listeners.sockets.into_iter().enumerate() {
            let (ours, shutdown) = UnixStream::pair().map_err(cannot)?;
            threads.push(Thread { listener: listener.try_clone().map_err(cannot)?, _shutdown: ours });
            let frontend_thread = FrontendThread {
                listener,
                line: self.engine.line((room / count).max(1)),
                tally: self.metrics.tally(number),
                shutdown,
                common: common.clone(),
            };
            self.start(format!("frontend-{number}"), || frontend_thread.serve())?;
        }
        Ok((threads, shared))
    }

    /// Starts a thread that reports its end.
    fn start(
        &self,
        name: String,
        main: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> Result<(), Failure> {
        let (events, own_name) = (self.events.clone(), name.clone());
        let main = move || {
            let ended = catch_unwind(AssertUnwindSafe(main));
            let ended = ended.unwrap_or_else(|_| Err(io::Error::other("it panicked")));
            let _ = events.send(Event::Ended(own_name, ended));
        };
        let started = thread::Builder::new().name(name).spawn(main);
        started.map(drop).map_err(|error| Failure::failed(format!("cannot start a thread: {error}")))
    }
}

/// The addresses that webhooks may contact.
fn webhook_destinations(config: &Config) -> Destinations {
    Destinations::new(config.webhook_allow_net.clone())
}

/// Prints the first keys on a terminal only, so that no journal contains them.
fn announce_first_keys(config: &Config, store: &Store) -> Result<(), Failure> {
    let made =
        first_run(store, &config.data, clock::now()).map_err(|error| Failure::failed(error.to_string()))?;
    let Some(keys) = made else { return Ok(()) };
    let mut output = io::stdout().lock();
    if output.is_terminal() {
        writeln!(
            output,
            "created the account {:?} on the plan {}; its keys are shown only once:",
            keys.account.name, keys.account.plan
        )?;
        writeln!(output, "  live: {}\n  test: {}", keys.live.reveal(), keys.test.reveal())?;
        writeln!(
            output,
            "to sign in to it in the dashboard: mailprobe account sign-in-link {} --data {}",
            shell::quoted(&keys.account.name),
            shell::path(&config.data)
        )?;
        output.flush()?;
        keys.remove_file().map_err(|error| {
            Failure::failed(format!("cannot remove {}: {error}; remove it yourself", keys.path.display()))
        })
    } else {
        writeln!(
            output,
            "created the account {:?}; its keys are in {}",
            keys.account.name,
            keys.path.display()
        )?;
        Ok(output.flush()?)
    }
}

fn announce(
    config: &Config,
    choice: &Choice,
    engine: &dyn Backend,
    address: SocketAddr,
) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    let threads = config.frontend_threads();
    writeln!(output, "frontend: monoio on {} ({}), threads: {threads}", choice.driver.name(), choice.why)?;
    writeln!(output, "engine: {}", engine.describe())?;
    writeln!(output, "data: {}", config.data.display())?;
    if let Some(place) = config.cluster_place()? {
        let hosts: Vec<String> = place.target.hosts.iter().map(ToString::to_string).collect();
        let database = &place.target.database;
        writeln!(
            output,
            "store: PostgreSQL {}, database {database}, schema {}",
            hosts.join(","),
            place.schema
        )?;
    }
    writeln!(output, "listening on {}", config.listening_at(address))?;
    Ok(output.flush()?)
}

/// Strangers who can reach the server can get an account with the credits of the free plan.
fn warn_of_sign_up(config: &Config, address: SocketAddr) {
    if config.dashboard.enabled && config.dashboard.sign_up && !address.ip().is_loopback() {
        tracing::warn!(
            "visitors can create accounts, because the server listens on {address} and sign-up is on; if strangers must not, set \
             --dashboard-sign-up false"
        );
    }
}

/// What takes new work until the drain.
struct OpenServer<'s> {
    threads: Vec<Thread>,
    status: &'s Status,
    new_batches: &'s NewBatches,
    webhooks: &'s webhooks::Sender,
}

fn until_the_end(
    open: OpenServer<'_>,
    inbox: &Receiver<Event>,
    on_reload: impl Fn(),
    is_alive: impl Fn(),
) -> End {
    let OpenServer { threads, status, new_batches, webhooks } = open;
    let interval = watchdog_interval();
    // The frontend threads and the batch feeder.
    let mut running = threads.len() + 1;
    let mut threads = Some(threads);
    let mut outcome = Ok(());
    while running > 0 {
        let event = match interval {
            Some(interval) => inbox.recv_timeout(interval),
            None => inbox.recv().map_err(RecvTimeoutError::from),
        };
        match event {
            Err(RecvTimeoutError::Timeout) => {
                is_alive();
                continue;
            }
            Ok(Event::Reload) => {
                on_reload();
                is_alive();
                continue;
            }
            Ok(Event::Signal) if threads.is_none() => return End::Forced,
            Ok(Event::Signal) => tracing::info!("draining; a second signal ends the server at once"),
            Ok(Event::Ended(name, result)) => {
                running -= 1;
                if let Err(error) = result {
                    outcome = Err(Failure::failed(format!("the thread {name} failed: {error}")));
                }
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
        // After a signal or the end of a thread, the other threads end too.
        if let Some(threads) = threads.take() {
            drain(&threads, status);
            new_batches.close();
            webhooks.close();
        }
    }
    End::Drained(outcome)
}

/// Closes all sockets before it informs a thread, so that no thread accepts a connection that another has refused.
///
/// The kernel resets the connections that a closed socket has not accepted yet, with the requests that their clients have sent. So
/// first no further connection begins, and the threads accept those that wait.
fn drain(threads: &[Thread], status: &Status) {
    status.enter(Phase::Draining);
    tell(ServiceState::Stopping);
    let refused: Vec<io::Result<()>> =
        threads.iter().map(|thread| server::listen::refuse_new(&thread.listener)).collect();
    match refused.into_iter().collect::<io::Result<()>>() {
        Ok(()) => std::thread::sleep(server::listen::QUEUE_TIME),
        Err(error) => tracing::debug!("connections that wait will be reset: {error}"),
    }
    for thread in threads {
        if let Err(error) = SockRef::from(&thread.listener).shutdown(Shutdown::Both) {
            tracing::warn!("cannot close a listening socket: {error}");
        }
    }
}
