//! `cargo xtask cluster`: a highly available PostgreSQL in one machine, for a command or for a campaign that breaks it.
//!
//! Three servers of PostgreSQL under Patroni, and etcd, run in network namespaces ([`network`]). Patroni comes from Debian as version
//! 3.0, which knows no quorum: `synchronous_mode` with `synchronous_mode_strict` acknowledges a write when one appointed standby
//! has it, and only that standby may become the primary. Nothing of an installed server is used or changed.
//!
//! [`Cluster`] starts all of it and removes it on drop. `faults` has the methods that break it, and `self_check` tests
//! that no acknowledged row is lost. The command finds the cluster in three variables:
//!
//! - `MAILPROBE_TEST_POSTGRES`: the URL with all three hosts, for the superuser;
//! - `MAILPROBE_TEST_POSTGRES_CA`: the file with the certificate, which is its own authority;
//! - `MAILPROBE_TEST_CLUSTER`: the socket by which it breaks the cluster ([`control`]).

mod control;
mod faults;
pub mod network;
mod patroni;
pub mod self_check;
pub mod setup;

use crate::failure::{Context, Failure};
use crate::interop::net;
use crate::interop::process::{self, ServerProcess};
use crate::interop::report::{self, Tally, line};
use crate::isolation::Namespace;
use crate::postgres::{id_of, newest_programs};
use clap::Args;
use network::{Member, Network};
use patroni::{ETCD_PORT, POSTGRES_PORT, SUPERUSER, ServerState};
use self_check::RoundFault;
use setup::Setup;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

/// The start of the names of namespaces and run folders, before the pid.
pub const PREFIX: &str = "mailprobe-cluster-";
const PATRONI: &str = "/usr/bin/patroni";
const ETCD: &str = "/usr/bin/etcd";
/// The certificate and its key are in this folder of the run.
const SHARED: &str = "shared";
/// A start makes one data folder and copies it twice.
const START_LIMIT: Duration = Duration::from_secs(180);
const STEP_LIMIT: Duration = Duration::from_secs(60);
const CONNECT_LIMIT: Duration = Duration::from_millis(500);

/// The options of `cargo xtask cluster`.
#[derive(Args)]
pub struct ClusterOptions {
    #[command(flatten)]
    setup: Setup,
    /// Break the cluster while clients write, and check that no acknowledged row is lost.
    #[arg(long, conflicts_with = "command", required_unless_present = "command")]
    self_check: bool,
    /// The faults of the self check, separated by commas.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_values = ["kill-primary", "partition-primary", "pause-primary"],
        requires = "self_check"
    )]
    faults: Vec<RoundFault>,
    /// The command with its arguments. It runs in the namespace of the first client.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the command or the self check. The exit code is that of the command.
pub fn main(options: &ClusterOptions) -> ExitCode {
    let mut code = None;
    let outcome = process::watch_signals().and_then(|()| run(options, &mut code));
    let end = report::end("cluster", outcome);
    code.map_or(end, ExitCode::from)
}

fn run(options: &ClusterOptions, code: &mut Option<u8>) -> Result<Tally, Failure> {
    let mut cluster = Cluster::start(options.setup.clone())?;
    for text in cluster.describe()? {
        line(&text);
    }
    if options.self_check {
        return self_check::run(&mut cluster, &options.faults);
    }
    let Some((program, arguments)) = options.command.split_first() else {
        return Err(Failure("no command".into()));
    };
    let mut command = cluster.beside(program);
    command.args(arguments);
    let status = control::accompany(&mut cluster, command)?;
    // A command that a signal has ended has no code.
    *code = status.code().and_then(|code| u8::try_from(code).ok());
    let mut tally = Tally::default();
    tally.check(&program.to_string_lossy(), report::outcome(status.success(), status.to_string()));
    Ok(tally)
}

/// A running cluster. The drop ends all its processes by their ids, and removes its namespaces and its folder.
pub struct Cluster {
    setup: Setup,
    // Fields are dropped in this order: the processes must have ended before their folder is removed.
    /// Patroni and etcd, by member. A member whose process was killed is absent.
    processes: BTreeMap<Member, ServerProcess>,
    /// The namespaces and links, which can lose packets.
    pub network: Network,
    folder: RunFolder,
    programs: PathBuf,
    /// User and group of all servers: PostgreSQL refuses to run as root.
    owner: (u32, u32),
    password: String,
    /// The number of starts, which tells the logs of one member apart.
    starts: u32,
}

impl Cluster {
    /// Starts etcd and the servers, and waits until there is a primary, all standbys follow it, and one of them is synchronous.
    ///
    /// # Errors
    ///
    /// A package is missing (`.ci/cluster` installs them), this process is not root, or a member does not start.
    pub fn start(setup: Setup) -> Result<Cluster, Failure> {
        if !rustix::process::geteuid().is_root() {
            return Err(Failure("network namespaces need root".into()));
        }
        for program in [PATRONI, ETCD] {
            if !Path::new(program).exists() {
                return Err(Failure(format!("{program} is missing: run .ci/cluster")));
            }
        }
        let programs = newest_programs()?;
        let owner = (id_of("-u")?, id_of("-g")?);
        net::sweep()?;
        let folder = RunFolder::make(&setup)?;
        let network = Network::make(setup.members())?;
        let password = std::iter::repeat_with(fastrand::alphanumeric).take(20).collect();
        let processes = BTreeMap::new();
        let mut cluster = Cluster { setup, processes, network, folder, programs, owner, password, starts: 0 };
        cluster.prepare()?;
        for member in cluster.setup.etcd_members() {
            cluster.launch(member)?;
        }
        process::wait_until("etcd answers", STEP_LIMIT, || cluster.etcd_answers())?;
        for member in cluster.setup.servers() {
            cluster.launch(member)?;
        }
        cluster.await_whole(START_LIMIT)?;
        Ok(cluster)
    }

    /// The URL with all three hosts, for the superuser. It works in the namespaces of clients.
    pub fn url(&self) -> String {
        self.url_from(0)
    }

    /// The same URL for each host as the first one.
    pub fn urls(&self) -> Vec<String> {
        (0..self.setup.servers().len()).map(|first| self.url_from(first)).collect()
    }

    fn url_from(&self, first: usize) -> String {
        let mut servers = self.setup.servers();
        servers.rotate_left(first);
        let hosts: Vec<String> =
            servers.iter().map(|server| format!("{}:{POSTGRES_PORT}", server.address())).collect();
        format!("postgres://{SUPERUSER}:{}@{}/postgres", self.password, hosts.join(","))
    }

    /// The certificate of all servers, which is its own authority.
    pub fn certificate(&self) -> PathBuf {
        self.folder.path.join(SHARED).join("server.crt")
    }

    /// The namespace of a member, for commands and for threads of this process.
    pub fn namespace(&self, member: Member) -> Namespace {
        self.network.namespace(member)
    }

    /// A command that runs `program` in the namespace of a member.
    pub fn command(&self, member: Member, program: impl AsRef<std::ffi::OsStr>) -> Command {
        self.namespace(member).command(program)
    }

    /// A command that runs `program` in the namespace of the first client, with the variables for the URL and the certificate.
    pub fn beside(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = self.command(self.setup.client_members()[0], program);
        command.env("MAILPROBE_TEST_POSTGRES", self.url());
        command.env("MAILPROBE_TEST_POSTGRES_CA", self.certificate());
        command
    }

    /// What the Patroni of each server says. A server is absent if its Patroni does not answer.
    pub fn states(&self) -> Result<BTreeMap<Member, ServerState>, Failure> {
        process::interrupted()?;
        let servers = self.setup.servers();
        // All are asked at the same time: a paused one answers only after the limit.
        let answers: Vec<_> = std::thread::scope(|scope| {
            let ask = |server: Member| {
                scope.spawn(move || self.namespace(server).inside(|| patroni::state(server.address())).ok())
            };
            let asked: Vec<_> = servers.iter().map(|server| ask(*server)).collect();
            asked.into_iter().map(|answer| answer.join().unwrap_or_default()).collect()
        });
        Ok(servers.into_iter().zip(answers).filter_map(|(server, state)| Some((server, state?))).collect())
    }

    /// The primary, if there is one. After a failover, the former primary may still regard itself as one, until it hears of its
    /// successor: the one with the longer history of promotions counts.
    pub fn primary(&self) -> Result<Option<Member>, Failure> {
        let states = self.states()?;
        let primaries = states.iter().filter(|(_, state)| state.is_running && state.is_primary);
        Ok(primaries.max_by_key(|(_, state)| state.timeline).map(|(server, _)| *server))
    }

    /// The synchronous standby that etcd names, if there is one.
    pub fn sync_standby(&self) -> Result<Option<Member>, Failure> {
        Ok(self.states()?.into_iter().find(|(_, state)| state.is_sync_standby).map(|(server, _)| server))
    }

    /// Waits until there is one primary, all other servers stream from it, and enough of them are synchronous.
    ///
    /// # Errors
    ///
    /// `patience` is over. The text has what each server says, and the end of its log.
    pub fn await_whole(&mut self, patience: Duration) -> Result<(), Failure> {
        let mut last = BTreeMap::new();
        let waited = process::wait_until("a primary with all standbys", patience, || {
            for (member, started) in &mut self.processes {
                started.running().map_err(|Failure(why)| started.complain(&why).0).about(member)?;
            }
            last = self.states()?;
            let is_whole = self.is_whole(&last);
            if !is_whole {
                process::sleep(Duration::from_millis(200))?;
            }
            Ok(is_whole)
        });
        process::interrupted()?;
        waited.map_err(|Failure(why)| {
            let logs = self.processes.values().map(|started| started.complain("").0);
            Failure(format!("{why}\n{last:#?}\n{}", logs.collect::<Vec<_>>().join("\n")))
        })
    }

    fn is_whole(&self, states: &BTreeMap<Member, ServerState>) -> bool {
        let count = self.setup.servers().len();
        let (primaries, standbys): (Vec<_>, Vec<_>) = states.values().partition(|state| state.is_primary);
        let [primary] = primaries[..] else { return false };
        let synchronous = standbys.iter().filter(|standby| standby.is_sync_standby).count();
        states.len() == count
            && states.values().all(|state| state.is_running)
            && primary.streaming == count - 1
            && standbys.iter().all(|standby| standby.timeline == primary.timeline)
            && (self.setup.no_sync || synchronous >= usize::from(self.setup.sync_standbys))
    }

    /// One line for each member.
    fn describe(&self) -> Result<Vec<String>, Failure> {
        let states = self.states()?;
        let role = |member: &Member| match states.get(member) {
            Some(state) if state.is_primary => "primary",
            Some(state) if state.is_sync_standby => "synchronous standby",
            Some(_) => "standby",
            None => "does not answer",
        };
        let name = |member: &Member| format!("{member:<7} {:<11}", member.address().to_string());
        let servers = self
            .setup
            .servers()
            .into_iter()
            .map(|member| format!("{} {} {}", name(&member), self.network.space(member), role(&member)));
        let others = [self.setup.etcd_members(), self.setup.client_members()].concat();
        let others = others.iter().map(|member| format!("{} {}", name(member), self.network.space(*member)));
        Ok(servers.chain(others).collect())
    }

    /// Runs SQL at a server, over its socket in the file system, and returns the rows.
    ///
    /// # Errors
    ///
    /// The server does not answer, or refuses it.
    pub fn sql(&self, server: Member, text: &str) -> Result<String, Failure> {
        let mut psql = self.psql(server);
        psql.arg("-h").arg(self.folder_of(server)).args(["-U", SUPERUSER, "-d", "postgres", "-c", text]);
        psql.env("PGPASSWORD", &self.password);
        process::run(psql, "", &self.folder.path, STEP_LIMIT)?.success(&format!("psql at {server}"))
    }

    /// psql in the namespace of a member. Its output has the rows alone.
    fn psql(&self, member: Member) -> Command {
        let mut command = self.command(member, self.programs.join("psql"));
        command.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1"]);
        command
    }

    fn etcd_answers(&self) -> Result<bool, Failure> {
        for member in self.setup.etcd_members() {
            let connect = || {
                let address = SocketAddr::from((member.address(), ETCD_PORT));
                Ok(TcpStream::connect_timeout(&address, CONNECT_LIMIT).is_ok())
            };
            if !self.namespace(member).inside(connect)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes the certificate, and a folder with the configuration for each member.
    fn prepare(&self) -> Result<(), Failure> {
        self.make_folder(&self.folder.path.join(SHARED))?;
        let names = self.setup.servers().into_iter().map(|server| server.address().to_string());
        let made = rcgen::generate_simple_self_signed(names.collect::<Vec<_>>());
        let made = made.about("no certificate")?;
        let shared = self.folder.path.join(SHARED);
        self.write(&shared.join("server.crt"), 0o644, &made.cert.pem())?;
        self.write(&shared.join("server.key"), 0o600, &made.signing_key.serialize_pem())?;
        for member in self.setup.etcd_members() {
            self.make_folder(&self.folder_of(member))?;
        }
        for server in self.setup.servers() {
            let folder = self.folder_of(server);
            self.make_folder(&folder)?;
            let (programs, password) = (&self.programs, &self.password);
            let text = patroni::configuration(&self.setup, server, &folder, &shared, programs, password);
            self.write(&folder.join("patroni.json"), 0o600, &text)?;
        }
        Ok(())
    }

    /// The primary, and the other servers.
    ///
    /// # Errors
    ///
    /// There is no primary.
    pub fn primary_and_standbys(&self) -> Result<(Member, Vec<Member>), Failure> {
        let primary = self.primary()?.ok_or_else(|| Failure("there is no primary".into()))?;
        Ok((primary, self.setup.servers().into_iter().filter(|server| *server != primary).collect()))
    }

    /// The folder of a member, with its data and its logs. Each process of PostgreSQL works in a folder below it.
    pub fn folder_of(&self, member: Member) -> PathBuf {
        self.folder.path.join(member.to_string())
    }

    fn make_folder(&self, path: &Path) -> Result<(), Failure> {
        fs::create_dir(path).at(path)?;
        self.give(path)
    }

    fn write(&self, path: &Path, mode: u32, text: &str) -> Result<(), Failure> {
        let mode = fs::Permissions::from_mode(mode);
        let written = fs::write(path, text).and_then(|()| fs::set_permissions(path, mode));
        written.at(path)?;
        self.give(path)
    }

    fn give(&self, path: &Path) -> Result<(), Failure> {
        let (user, group) = self.owner;
        chown(path, Some(user), Some(group)).at(path)
    }

    /// Starts the process of a member: Patroni, which then starts PostgreSQL, or etcd.
    fn launch(&mut self, member: Member) -> Result<(), Failure> {
        let folder = self.folder_of(member);
        let (user, group) = self.owner;
        // A server that was killed leaves its shared memory behind. In an IPC namespace and a file system of its own, the memory
        // ends with the last process.
        let mut command = self.command(member, "unshare");
        command.args(["--ipc", "sh", "-euc"]);
        command.arg("mount -t tmpfs tmpfs /dev/shm; exec setpriv \"$@\"").arg("sh");
        command.arg(format!("--reuid={user}")).arg(format!("--regid={group}")).arg("--clear-groups");
        match member {
            Member::Etcd(_) => command.arg(ETCD).args(self.etcd_arguments(member)),
            _ => command.arg(PATRONI).arg(folder.join("patroni.json")),
        };
        // The servers write in the language of the machine otherwise, and Patroni reads what they write.
        command.current_dir(&folder).env("HOME", &folder).env("LC_ALL", "C.UTF-8");
        self.starts += 1;
        let log = folder.join(format!("log-{}", self.starts));
        let started = ServerProcess::start(&member.to_string(), command, &log)?;
        self.processes.insert(member, started);
        Ok(())
    }

    fn etcd_arguments(&self, member: Member) -> Vec<OsString> {
        let url = |of: Member, port: u16| format!("http://{}:{port}", of.address());
        let peer_port = ETCD_PORT + 1;
        let peers = self.setup.etcd_members();
        let peers: Vec<String> =
            peers.iter().map(|peer| format!("{peer}={}", url(*peer, peer_port))).collect();
        let arguments = [
            ("--name", member.to_string()),
            ("--data-dir", self.folder_of(member).join("data").display().to_string()),
            ("--listen-client-urls", url(member, ETCD_PORT)),
            ("--advertise-client-urls", url(member, ETCD_PORT)),
            ("--listen-peer-urls", url(member, peer_port)),
            ("--initial-advertise-peer-urls", url(member, peer_port)),
            ("--initial-cluster", peers.join(",")),
            ("--initial-cluster-state", "new".into()),
        ];
        let arguments = arguments.map(|(name, value)| format!("{name}={value}").into());
        arguments.into_iter().chain(["--enable-v2".into()]).collect()
    }
}

/// The folder of a run, which is removed on drop.
struct RunFolder {
    path: PathBuf,
    is_kept: bool,
}

impl RunFolder {
    fn make(setup: &Setup) -> Result<RunFolder, Failure> {
        let path = std::env::temp_dir().join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&path).at(&path)?;
        let folder = RunFolder { path, is_kept: setup.keep };
        let path = &folder.path;
        if setup.tmpfs {
            let mut mount = Command::new("mount");
            mount.args(["-t", "tmpfs", "tmpfs"]).arg(path);
            let status = mount.status().about("mount")?;
            if !status.success() {
                return Err(status).about("mount of a tmpfs");
            }
        }
        // The servers run as their own user and read below it.
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).at(path)?;
        if setup.keep {
            // The sweep of the next run skips a folder with this file.
            fs::write(path.join("keep"), "").at(path)?;
            line(&format!("folder {}", path.display()));
        }
        Ok(folder)
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        net::unmount(&self.path);
        // The next run finds what cannot be removed now.
        let _ = fs::remove_dir_all(&self.path);
    }
}
