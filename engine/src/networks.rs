//! The sessions of a shard by the network of their hosts: see [`engine_proto::pace::NetworkPace`]. No I/O.

use crate::invariants::{Invariant, holds};
use crate::seed::HashMap;
use crate::site::{Group, QueuedGroup};
use crate::turns::{Turn, Waiting};
use engine_proto::pace::{NetworkPace, network_of};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Instant;

/// The networks with which the shard has sessions, or of which it knows a limit.
#[derive(Default)]
pub(crate) struct Networks {
    known: HashMap<IpAddr, NetworkState>,
}

#[derive(Default)]
struct NetworkState {
    pace: NetworkPace,
    open: u32,
    /// The groups that wait for a session only because the network has as many as it may have.
    waiting: Waiting<QueuedGroup>,
}

impl NetworkState {
    fn has_room(&self) -> bool {
        self.open < self.pace.sessions()
    }
}

impl Networks {
    fn of(&mut self, host: IpAddr) -> &mut NetworkState {
        self.known.entry(network_of(host)).or_default()
    }

    pub(crate) fn has_room(&mut self, host: IpAddr) -> bool {
        self.of(host).has_room()
    }

    /// Counts a session task for the network of the host, until [`Networks::on_ended`].
    pub(crate) fn on_begun(&mut self, host: IpAddr) {
        let network = self.of(host);
        holds(Invariant::NetworkRoom, || network.has_room());
        network.open += 1;
    }

    /// Whether a session task that counts for the network of the host may open another session with it.
    pub(crate) fn may_go_on(&mut self, host: IpAddr) -> bool {
        let network = self.of(host);
        network.open <= network.pace.sessions() && network.waiting.is_empty()
    }

    pub(crate) fn on_ended(&mut self, host: IpAddr) {
        self.of(host).open -= 1;
    }

    /// Lets a group wait for a session with the network of the host.
    pub(crate) fn queue(&mut self, host: IpAddr, turn: Turn, group: QueuedGroup) {
        self.of(host).waiting.push(turn, group);
    }

    /// The group that is next to get a session with the network of the host, if there is room for one.
    pub(crate) fn next_waiting(&mut self, host: IpAddr) -> Option<QueuedGroup> {
        let network = self.of(host);
        if network.has_room() { network.waiting.pop() } else { None }
    }

    /// The groups that wait for a session with the network of the host.
    pub(crate) fn waiting(&self, host: IpAddr) -> impl Iterator<Item = Rc<Group>> {
        let network = self.known.get(&network_of(host));
        network.into_iter().flat_map(|network| network.waiting.iter().filter_map(QueuedGroup::group))
    }

    pub(crate) fn on_transaction(&mut self, host: IpAddr) {
        self.of(host).pace.on_transaction();
    }

    /// The host, of the site with this number, has too many connections. Returns whether the sessions with other sites of its network
    /// are the cause.
    pub(crate) fn on_too_many(&mut self, host: IpAddr, site: u64, now: Instant) -> bool {
        let network = self.of(host);
        network.pace.on_too_many(now, network.open, site)
    }

    /// The limit that hosts of the network have shown.
    pub(crate) fn shown(&self, host: IpAddr, now: Instant) -> Option<u32> {
        let network = self.known.get(&network_of(host))?;
        (!network.pace.is_fresh(now)).then(|| network.pace.sessions())
    }

    /// Forgets the networks without sessions of which no limit is known.
    pub(crate) fn forget(&mut self, now: Instant) {
        self.known.retain(|_, network| {
            network.open > 0 || !network.waiting.is_empty() || !network.pace.is_fresh(now)
        });
    }
}
