//! The network of a cluster: one namespace per member, joined by a bridge in another namespace. A campaign needs it to lose packets
//! between any two members without a change of the machine's own network.
//!
//! ```text
//!   pg-1 10.80.0.1    pg-2 .2    pg-3 .3    etcd-1 .11 ...    node-1 .101 ...
//!     eth0              eth0       eth0       eth0              eth0
//!       +-----------------+---- bridge -------+-----------------+
//! ```
//! No namespace has a route to another network. The names contain the pid of the run, as those of [`crate::interop::net`], and the
//! sweep there removes what a killed run has left.

use super::PREFIX;
use crate::failure::Failure;
use crate::interop::net;
use crate::isolation::ip;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// No member has this hardware address: a frame to it reaches nobody, and its sender gets no error.
const NOBODY: &str = "02:00:00:00:00:01";
/// A killed process ends within milliseconds, unless it waits for the disk.
const END_LIMIT: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(10);

/// A member of the network. The number begins with 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Member {
    /// A PostgreSQL server with its Patroni.
    Server(u8),
    /// A process of etcd.
    Etcd(u8),
    /// A namespace for clients.
    Client(u8),
}

impl Member {
    /// The address in the network.
    pub fn address(self) -> Ipv4Addr {
        let last = match self {
            Member::Server(number) => number,
            Member::Etcd(number) => 10 + number,
            Member::Client(number) => 100 + number,
        };
        Ipv4Addr::new(10, 80, 0, last)
    }
}

/// The name, which is also the name of the link at the bridge.
impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Member::Server(number) => format!("pg-{number}"),
            Member::Etcd(number) => format!("etcd-{number}"),
            Member::Client(number) => format!("node-{number}"),
        };
        f.pad(&name)
    }
}

/// The namespace of a member, by its file.
#[derive(Debug, Clone)]
pub struct Namespace(PathBuf);

impl Namespace {
    /// Moves this thread into the namespace, for the rest of its life. The threads that it starts are in the namespace too.
    ///
    /// # Errors
    ///
    /// There is no such namespace, or this process is not root.
    pub fn enter(&self) -> Result<(), Failure> {
        let wrong = |error: &dyn fmt::Display| Failure(format!("{}: {error}", self.0.display()));
        let space = File::open(&self.0).map_err(|error| wrong(&error))?;
        move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|error| wrong(&error))
    }
}

/// The namespaces, which are removed on drop with all processes in them.
pub struct Network {
    members: Vec<Member>,
    folder: PathBuf,
    /// Members whose link is down.
    isolated: BTreeSet<Member>,
    /// Directions in which packets are lost: from, to.
    cuts: BTreeSet<(Member, Member)>,
}

impl Network {
    /// Makes the namespaces and links. `folder` is for the outputs of commands.
    ///
    /// # Errors
    ///
    /// A command of `ip` fails, which needs root.
    pub fn make(members: Vec<Member>, folder: &Path) -> Result<Network, Failure> {
        net::sweep()?;
        let (isolated, cuts) = Default::default();
        // From here on, the drop removes what is there.
        let network = Network { members, folder: folder.into(), isolated, cuts };
        let bridge = network.bridge();
        network.ip(&format!("netns add {bridge}"))?;
        network.ip(&format!("-n {bridge} link add bridge type bridge"))?;
        network.ip(&format!("-n {bridge} link set bridge up"))?;
        for member in &network.members {
            let space = network.space(*member);
            network.ip(&format!("netns add {space}"))?;
            network.ip(&format!("-n {space} link set lo up"))?;
            network.ip(&format!(
                "link add name eth0 netns {space} type veth peer name {member} netns {bridge}"
            ))?;
            network.ip(&format!("-n {space} address add {}/24 dev eth0", member.address()))?;
            network.ip(&format!("-n {space} link set eth0 up"))?;
            network.ip(&format!("-n {bridge} link set {member} master bridge up"))?;
        }
        Ok(network)
    }

    /// The name of a member's namespace for `ip netns`.
    pub fn space(&self, member: Member) -> String {
        format!("{PREFIX}{}-{member}", std::process::id())
    }

    fn bridge(&self) -> String {
        format!("{PREFIX}{}-bridge", std::process::id())
    }

    /// A command that runs `program` in the namespace of a member.
    pub fn command(&self, member: Member, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.space(member)]).arg(program);
        command
    }

    /// The namespace of a member, for threads of this process.
    pub fn namespace(&self, member: Member) -> Namespace {
        Namespace(Path::new("/run/netns").join(self.space(member)))
    }

    /// Runs `work` on a thread in the namespace of a member, so that the sockets it opens are in that namespace.
    ///
    /// # Errors
    ///
    /// The thread cannot enter the namespace, or `work` fails.
    pub fn inside<T: Send>(
        &self,
        member: Member,
        work: impl FnOnce() -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        let namespace = self.namespace(member);
        let enter = || namespace.enter().and_then(|()| work());
        std::thread::scope(|scope| scope.spawn(enter).join())
            .unwrap_or_else(|_| Err(Failure(format!("the thread in {member} panicked"))))
    }

    /// Takes the link of a member down at the bridge. All packets from and to it are lost, and no side gets an error: connections
    /// stay open until a side gives up.
    pub fn isolate(&mut self, member: Member) -> Result<(), Failure> {
        self.ip(&format!("-n {} link set {member} down", self.bridge()))?;
        self.isolated.insert(member);
        Ok(())
    }

    /// Loses all packets from `from` to `to`, and no packet of the other direction. The sender gets no error.
    pub fn cut_one_way(&mut self, from: Member, to: Member) -> Result<(), Failure> {
        let (space, address) = (self.space(from), to.address());
        self.ip(&format!("-n {space} neigh replace {address} lladdr {NOBODY} dev eth0 nud permanent"))?;
        self.cuts.insert((from, to));
        Ok(())
    }

    /// Loses all packets between each member of one side and each of the other, in both directions.
    pub fn cut(&mut self, one_side: &[Member], other_side: &[Member]) -> Result<(), Failure> {
        for one in one_side {
            for other in other_side {
                self.cut_one_way(*one, *other)?;
                self.cut_one_way(*other, *one)?;
            }
        }
        Ok(())
    }

    /// Ends all isolations and cuts. TCP sends again what was lost, after a pause that has grown with the duration of the cut.
    pub fn heal(&mut self) -> Result<(), Failure> {
        for member in std::mem::take(&mut self.isolated) {
            self.ip(&format!("-n {} link set {member} up", self.bridge()))?;
        }
        for (from, to) in std::mem::take(&mut self.cuts) {
            self.ip(&format!("-n {} neigh del {} dev eth0", self.space(from), to.address()))?;
        }
        Ok(())
    }

    /// The processes of a member.
    pub fn pids(&self, member: Member) -> Result<Vec<Pid>, Failure> {
        net::pids(&self.space(member))
    }

    /// Sends SIGKILL to all processes of a member until none is left.
    pub fn kill_all(&self, member: Member) -> Result<(), Failure> {
        let end = Instant::now() + END_LIMIT;
        loop {
            let pids = self.pids(member)?;
            if pids.is_empty() {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(Failure(format!("{member}: {pids:?} survive SIGKILL")));
            }
            for pid in pids {
                signal(pid, Signal::KILL)?;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Sends SIGSTOP to all processes of a member, until a second look finds no new one.
    pub fn pause_all(&self, member: Member) -> Result<(), Failure> {
        let mut stopped = BTreeSet::new();
        loop {
            let pids = self.pids(member)?;
            let new: Vec<Pid> =
                pids.into_iter().filter(|pid| stopped.insert(pid.as_raw_nonzero().get())).collect();
            if new.is_empty() {
                return if stopped.is_empty() {
                    Err(Failure(format!("{member} has no process")))
                } else {
                    Ok(())
                };
            }
            for pid in new {
                signal(pid, Signal::STOP)?;
            }
        }
    }

    /// Sends SIGCONT to all processes of a member.
    pub fn resume_all(&self, member: Member) -> Result<(), Failure> {
        self.pids(member)?.into_iter().try_for_each(|pid| signal(pid, Signal::CONT))
    }

    fn ip(&self, words: &str) -> Result<(), Failure> {
        ip(&self.folder, words)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for member in &self.members {
            net::remove_space(&self.space(*member));
        }
        net::remove_space(&self.bridge());
    }
}

/// Sends a signal to a process. A process that has ended meanwhile is no error.
pub fn signal(pid: Pid, signal: Signal) -> Result<(), Failure> {
    match kill_process(pid, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(Failure(format!("signal {signal:?} to {pid:?}: {error}"))),
    }
}
