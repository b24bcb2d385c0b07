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
use crate::interop::process::interrupted;
use crate::isolation::{Namespace, ip};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fmt;
use std::net::Ipv4Addr;
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

/// The namespaces, which are removed on drop with all processes in them.
pub struct Network {
    members: Vec<Member>,
    /// Members whose link is down.
    isolated: BTreeSet<Member>,
    /// Directions in which packets are lost: from, to.
    cuts: BTreeSet<(Member, Member)>,
}

impl Network {
    /// Makes the namespaces and links.
    ///
    /// # Errors
    ///
    /// A command of `ip` fails, which needs root.
    pub fn make(members: Vec<Member>) -> Result<Network, Failure> {
        net::sweep()?;
        let (isolated, cuts) = Default::default();
        // From here on, the drop removes what is there.
        let network = Network { members, isolated, cuts };
        let bridge = network.bridge();
        ip(&format!("netns add {bridge}"))?;
        ip(&format!("-n {bridge} link add bridge type bridge"))?;
        ip(&format!("-n {bridge} link set bridge up"))?;
        for member in &network.members {
            interrupted()?;
            let space = network.space(*member);
            ip(&format!("netns add {space}"))?;
            ip(&format!("-n {space} link set lo up"))?;
            ip(&format!("link add name eth0 netns {space} type veth peer name {member} netns {bridge}"))?;
            ip(&format!("-n {space} address add {}/24 dev eth0", member.address()))?;
            ip(&format!("-n {space} link set eth0 up"))?;
            ip(&format!("-n {bridge} link set {member} master bridge up"))?;
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

    /// The namespace of a member, for commands and for threads of this process.
    pub fn namespace(&self, member: Member) -> Namespace {
        Namespace(self.space(member))
    }

    /// Takes the link of a member down at the bridge. All packets from and to it are lost, and no side gets an error: connections
    /// stay open until a side gives up.
    pub fn isolate(&mut self, member: Member) -> Result<(), Failure> {
        ip(&format!("-n {} link set {member} down", self.bridge()))?;
        self.isolated.insert(member);
        Ok(())
    }

    /// Loses all packets from `from` to `to`, and no packet of the other direction. The sender gets no error.
    pub fn cut_one_way(&mut self, from: Member, to: Member) -> Result<(), Failure> {
        let (space, address) = (self.space(from), to.address());
        ip(&format!("-n {space} neigh replace {address} lladdr {NOBODY} dev eth0 nud permanent"))?;
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
            ip(&format!("-n {} link set {member} up", self.bridge()))?;
        }
        for (from, to) in std::mem::take(&mut self.cuts) {
            ip(&format!("-n {} neigh del {} dev eth0", self.space(from), to.address()))?;
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

    /// Sends SIGSTOP to all processes of a member, as the pause of a virtual machine does, until a second look finds no new one.
    /// Connections stay open, and the kernel still acknowledges packets. The clocks go on: after [`Network::resume_all`], all timeouts
    /// have passed at once.
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
