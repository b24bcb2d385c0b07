//! The memory of connections that do not go on: their peers do not read an answer, or do not send the rest of a request.
//!
//! A connection counts only while it waits for its peer, so a request that is answered at once costs nothing here. What every
//! connection needs, and what all connections share, does not count. A network has a share of the bound in all. If a connection
//! needs more than is left of its network's share, the connection of this network that has waited for longest is closed. If the
//! bound in all is met, it is the one that has waited for longest in the network that holds the most. So who waits with many
//! connections loses some of them, and nobody is refused.

use engine::proto::sharing::{Bounds, ShareUse, UsedUp};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Instant;

/// The most bytes of all connections together.
const ALL_BYTES: u64 = 64 << 20;
/// The most bytes of the connections of one network.
const NETWORK_BYTES: u64 = 16 << 20;

/// The memory that waiting connections of all threads hold.
pub struct ConnectionMemory {
    figures: Arc<ShareUse>,
    waiting: Mutex<Waiting>,
    /// The number of the next connection.
    next: AtomicU64,
}

#[derive(Default)]
struct Waiting {
    networks: HashMap<IpAddr, Network>,
    /// The networks by what they hold.
    by_bytes: BTreeSet<(u64, IpAddr)>,
    used: u64,
}

#[derive(Default)]
struct Network {
    bytes: u64,
    connections: BTreeMap<Order, Holder>,
}

/// The order in which connections are closed: the time since which they wait, and their number.
type Order = (Instant, u64);

struct Holder {
    bytes: u64,
    must_close: Arc<AtomicBool>,
    waker: Waker,
}

/// The part of one connection. It belongs to the thread of the connection.
pub struct HeldBytes {
    memory: Arc<ConnectionMemory>,
    network: IpAddr,
    number: u64,
    /// What counts now; `None` if nothing does.
    counted: Cell<Option<(Instant, u64)>>,
    must_close: Arc<AtomicBool>,
}

impl ConnectionMemory {
    /// Nothing is held yet. Behind a proxy, where all clients have one address, the share of a network is the bound in all.
    pub fn new(networks_are_told: bool) -> Arc<ConnectionMemory> {
        let share = if networks_are_told { NETWORK_BYTES } else { ALL_BYTES };
        ConnectionMemory::within(Bounds { share, all: ALL_BYTES })
    }

    fn within(bounds: Bounds) -> Arc<ConnectionMemory> {
        let figures = Arc::new(ShareUse::new("connection_bytes", bounds));
        Arc::new(ConnectionMemory { figures, waiting: Mutex::default(), next: AtomicU64::new(0) })
    }

    /// The figures for metrics.
    pub fn shares(&self) -> Vec<Arc<ShareUse>> {
        vec![Arc::clone(&self.figures)]
    }

    /// The part of a new connection from this network.
    pub fn connection(self: &Arc<ConnectionMemory>, network: IpAddr) -> HeldBytes {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (memory, counted, must_close) = (Arc::clone(self), Cell::new(None), Arc::default());
        HeldBytes { memory, network, number, counted, must_close }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn put(&mut self, network: IpAddr, order: Order, holder: Holder) {
        let bytes = holder.bytes;
        self.networks.entry(network).or_default().connections.insert(order, holder);
        self.change(network, |before| before + bytes);
        self.used += bytes;
    }

    fn take(&mut self, network: IpAddr, order: Order) -> Option<Holder> {
        let holder = self.networks.get_mut(&network)?.connections.remove(&order)?;
        self.change(network, |before| before - holder.bytes);
        self.used -= holder.bytes;
        Some(holder)
    }

    fn change(&mut self, network: IpAddr, bytes: impl FnOnce(u64) -> u64) {
        let Some(held) = self.networks.get_mut(&network) else { return };
        self.by_bytes.remove(&(held.bytes, network));
        held.bytes = bytes(held.bytes);
        match held.connections.is_empty() {
            true => drop(self.networks.remove(&network)),
            false => drop(self.by_bytes.insert((held.bytes, network))),
        }
    }

    /// The bound that is exceeded, and the network that has to give way.
    fn exceeded(&self, bounds: Bounds, network: IpAddr) -> Option<(UsedUp, IpAddr)> {
        let own = self.networks.get(&network).map_or(0, |held| held.bytes);
        if own > bounds.share {
            return Some((UsedUp::Share, network));
        }
        let most = self.by_bytes.last().filter(|_| self.used > bounds.all);
        most.map(|(_, network)| (UsedUp::All, *network))
    }

    /// Takes out the connection of a network that has waited for longest.
    fn take_longest(&mut self, network: IpAddr) -> Option<Holder> {
        let longest = self.networks.get(&network)?.connections.first_key_value().map(|(order, _)| *order)?;
        self.take(network, longest)
    }
}

impl HeldBytes {
    /// Sets what the connection holds, and since when it waits for its peer. If that exceeds a bound, the connection that has
    /// waited for longest must close: its task is woken, which may be this one.
    pub fn set(&self, bytes: u64, since: Instant, waker: &Waker) {
        let now = (bytes > 0).then_some((since, bytes));
        if self.counted.get() == now || self.must_close() {
            return;
        }
        let before = self.counted.replace(now);
        let figures = &self.memory.figures;
        let mut waiting = self.memory.lock();
        if let Some((since, _)) = before
            && waiting.take(self.network, (since, self.number)).is_none()
        {
            // Another connection has just taken its place.
            return;
        }
        if now.is_some() {
            let holder = Holder { bytes, must_close: Arc::clone(&self.must_close), waker: waker.clone() };
            waiting.put(self.network, (since, self.number), holder);
        }
        let mut closing = Vec::new();
        while let Some((by, network)) = waiting.exceeded(figures.bounds, self.network) {
            let Some(longest) = waiting.take_longest(network) else { break };
            figures.count_refusal(by);
            longest.must_close.store(true, Ordering::Relaxed);
            closing.push(longest.waker);
        }
        figures.set_used(waiting.used);
        drop(waiting);
        closing.into_iter().for_each(Waker::wake);
    }

    /// The bytes that count now.
    #[cfg(test)]
    pub fn bytes(&self) -> u64 {
        self.counted.get().map_or(0, |(_, bytes)| bytes)
    }

    /// Whether something counts now.
    pub fn is_counted(&self) -> bool {
        self.counted.get().is_some()
    }

    /// Whether the connection must close, because others need the memory.
    pub fn must_close(&self) -> bool {
        self.must_close.load(Ordering::Relaxed)
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        if let Some((since, _)) = self.counted.get() {
            self.set(0, since, Waker::noop());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    struct World {
        memory: Arc<ConnectionMemory>,
        began: Instant,
    }

    impl World {
        fn new(share: u64, all: u64) -> World {
            World { memory: ConnectionMemory::within(Bounds { share, all }), began: Instant::now() }
        }

        /// A connection of the network with this number, which waits since this second.
        fn holds(&self, network: u8, second: u64, bytes: u64) -> HeldBytes {
            let held = self.memory.connection(IpAddr::from([192, 0, 2, network]));
            self.set(&held, second, bytes);
            held
        }

        fn set(&self, held: &HeldBytes, second: u64, bytes: u64) {
            held.set(bytes, self.began + Duration::from_secs(second), Waker::noop());
        }

        fn used(&self) -> u64 {
            self.memory.figures.used()
        }
    }

    #[track_caller]
    fn close(held: &[&HeldBytes], expected: &[bool]) {
        let closing: Vec<bool> = held.iter().map(|held| held.must_close()).collect();
        assert_eq!(closing, expected);
    }

    #[test]
    fn a_network_closes_its_own_connection_that_waits_for_longest() {
        let world = World::new(100, 1000);
        let (second, first) = (world.holds(1, 2, 40), world.holds(1, 1, 40));
        let other = world.holds(2, 0, 90);
        close(&[&first, &second, &other], &[false; 3]);
        let third = world.holds(1, 3, 40);
        close(&[&first, &second, &third, &other], &[true, false, false, false]);
        assert_eq!(world.used(), 170);
        assert_eq!(world.memory.figures.refused(UsedUp::Share), 1);
        // Who needs more than its network may have closes all of them.
        world.set(&third, 3, 101);
        close(&[&second, &third, &other], &[true, true, false]);
        assert_eq!(world.used(), 90);
    }

    #[test]
    fn at_the_bound_in_all_the_network_with_the_most_gives_way() {
        let world = World::new(100, 150);
        let honest = world.holds(1, 0, 50);
        let (greedy, more) = (world.holds(2, 5, 40), world.holds(2, 6, 40));
        let newcomer = world.holds(3, 7, 30);
        close(&[&honest, &greedy, &more, &newcomer], &[false, true, false, false]);
        assert_eq!((world.used(), world.memory.figures.refused(UsedUp::All)), (120, 1));
    }

    #[test]
    fn nothing_is_left_of_connections_that_go_on_or_end() {
        let world = World::new(100, 150);
        let (one, two) = (world.holds(1, 0, 50), world.holds(1, 0, 50));
        world.set(&one, 4, 20);
        assert_eq!((world.used(), one.is_counted()), (70, true));
        world.set(&one, 4, 0);
        assert!(!one.is_counted());
        let three = world.holds(1, 1, 60);
        close(&[&one, &two, &three], &[false, true, false]);
        // A connection that must close does not count again.
        world.set(&two, 9, 50);
        assert_eq!(world.used(), 60);
        drop((one, two, three));
        let waiting = world.memory.lock();
        assert!(waiting.networks.is_empty() && waiting.by_bytes.is_empty());
        assert_eq!((waiting.used, world.memory.figures.used()), (0, 0));
    }

    #[test]
    fn behind_a_proxy_all_clients_share_one_bound() {
        assert_eq!(ConnectionMemory::new(false).figures.bounds.share, ALL_BYTES);
        assert!(ConnectionMemory::new(true).figures.bounds.share < ALL_BYTES);
    }
}
