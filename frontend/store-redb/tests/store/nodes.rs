//! Several nodes on one PostgreSQL. On redb these tests do nothing.
//!
//! The clock of the tests is that of the calls. Leases use the clock of the server, so a node that dies is found after ten
//! seconds; most tests end its lease by a statement instead.

mod claims;
mod deaths;
mod egress;
mod index;
mod limits;
mod money;
mod races;
mod webhooks;
mod zombies;

use crate::link::Link;
use crate::postgres::{self, InSchema};
use crate::world::{OPERATOR, World, plans};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use store::*;
use store_rules::Store;

/// How long a test waits for something that must happen.
const PATIENCE: Duration = Duration::from_secs(30);

/// Nodes on a new schema; `None` on redb.
fn nodes(count: i64) -> Option<World> {
    Some(World::of(Box::new(InSchema::of_nodes(postgres::url()?, count))))
}

/// Two nodes with an account.
fn two_nodes(plan: &str) -> Option<(World, AccountId)> {
    let mut world = nodes(2)?;
    let account = world.account("a", plan);
    Some((world, account))
}

/// Waits until something holds; returns how long it took.
#[track_caller]
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
    began.elapsed()
}

/// The answers of calls that were made at once, which must all succeed.
fn wait_all<T, E: From<StoreError> + std::fmt::Debug>(pending: Vec<Pending<T, E>>) -> Vec<T> {
    pending.into_iter().map(|pending| pending.wait().unwrap()).collect()
}

/// The answers to requests that are made at once, each to the next node in turn.
fn in_turn<R, T, E: From<StoreError>>(
    world: &World,
    requests: impl IntoIterator<Item = R>,
    call: impl Fn(&Store, R) -> Pending<T, E>,
) -> Vec<Result<T, E>> {
    let nodes = world.nodes().iter().cycle();
    let pending: Vec<_> = nodes.zip(requests).map(|(node, request)| call(node, request)).collect();
    pending.into_iter().map(Pending::wait).collect()
}

/// The time of the process. What nodes do by themselves has this time too, so it must not be long before that of the calls.
fn now() -> UnixMs {
    clock::now()
}

/// Nodes that can die: each has a connection of its own to the server. The fields are dropped in this order.
struct Mortals {
    nodes: Vec<Option<Arc<Store>>>,
    links: Vec<Link>,
    schema: Arc<InSchema>,
    next_id: u128,
    /// The names of egresses by node, where they are not those of [`InSchema::options`].
    egress: Vec<&'static str>,
}

impl Mortals {
    /// Nodes with the numbers 1, 2 and so on; `None` on redb.
    fn new(count: usize) -> Option<Mortals> {
        let mut mortals = Mortals::stopped(count, &[])?;
        for node in 0..count {
            mortals.start(node);
        }
        Some(mortals)
    }

    /// Nodes that are not started, with these names of egresses; `None` on redb.
    fn stopped(count: usize, egress: &[&'static str]) -> Option<Mortals> {
        let schema = Arc::new(InSchema::new(postgres::url()?));
        let links = (0..count).map(|_| Link::to(&schema.address())).collect();
        Some(Mortals { nodes: vec![None; count], links, schema, next_id: 1, egress: egress.to_vec() })
    }

    /// Starts a node; returns how many holds that voided.
    fn start(&mut self, node: usize) -> u64 {
        let mut options = self.schema.options(number(node), true);
        options.target.hosts[0].name = "127.0.0.1".into();
        options.target.hosts[0].port = self.links[node].port;
        if let Some(egress) = self.egress.get(node) {
            options.node.egress = (*egress).into();
        }
        let (store, opening) = store_pg::open(options, plans(), now()).unwrap();
        self.nodes[node] = Some(store);
        opening.voided_holds
    }

    fn node(&self, node: usize) -> &Store {
        self.nodes[node].as_deref().unwrap()
    }

    /// The node ends without a word to the server.
    fn kill(&mut self, node: usize) {
        self.links[node].cut();
        self.nodes[node] = None;
    }

    /// The node ends without a word, and its lease lasts until [`Mortals::end_lease`], however slow the machine is.
    fn kill_with_lease(&mut self, node: usize) {
        self.links[node].cut();
        self.end_lease_in(node, "1 h");
        self.nodes[node] = None;
        // A renewal of the lease may have been under way.
        self.end_lease_in(node, "1 h");
    }

    /// Ends the lease of a dead node, so that the others need not wait for it.
    fn end_lease(&self, node: usize) {
        self.end_lease_in(node, "0 s");
    }

    fn end_lease_in(&self, node: usize, time: &str) {
        let id = number(node);
        self.schema.execute(&format!(
            "UPDATE nodes SET until = clock_timestamp() + interval '{time}' WHERE id = {id}"
        ));
    }

    /// Declares a node dead, as another node does, and nobody tells it.
    fn declare_dead(&self, node: usize) {
        let id = number(node);
        self.schema.execute(&format!(
            "BEGIN; UPDATE nodes SET epoch = epoch + 1, until = '-infinity' WHERE id = {id}; \
             UPDATE lanes SET epoch = epoch + 1 WHERE node = {id}; COMMIT"
        ));
    }

    fn epoch(&self, node: usize) -> i64 {
        self.number_of(&format!("SELECT epoch FROM nodes WHERE id = {}", number(node)))
    }

    /// The number that a query returns.
    fn number_of(&self, query: &str) -> i64 {
        self.schema.execute(query)[0][0].parse().unwrap()
    }

    fn random(&mut self) -> u128 {
        self.next_id += 1;
        1 << 61 | self.next_id
    }

    fn account(&mut self, node: usize, name: &str) -> AccountId {
        let id = AccountId::new(now(), self.random());
        let new = NewAccount { id, name: name.into(), plan: "growth".into() };
        self.node(node).create_account(new, now()).wait().unwrap().id
    }

    fn new_hold(&mut self, account: AccountId) -> HoldRef {
        HoldRef { account, id: EntryId::new(now(), self.random()) }
    }

    fn hold(&mut self, node: usize, account: AccountId) -> HoldRef {
        let hold = self.new_hold(account);
        self.node(node).hold(HoldRequest { hold, credits: 1 }, now()).wait().unwrap();
        hold
    }

    fn settle(&self, node: usize, hold: HoldRef) -> Result<store::credits::Balance, SettleError> {
        self.node(node).settle(hold, Settlement::default(), now()).wait()
    }

    fn batch(&mut self, node: usize, account: AccountId, addresses: &[&str]) -> BatchId {
        let store = self.nodes[node].clone().unwrap();
        let row = |address: &&str| NewRow { email: (*address).into(), address: store.hash_address(address) };
        let (id, rows) = (BatchId::new(now(), self.random()), addresses.iter().map(row).collect());
        let new = NewBatch { id, account, name: None, rows, idempotency: None, mode: BatchMode::Live };
        store.create_batch(new, OPERATOR, now()).wait().unwrap().batch
    }

    fn balance(&self, node: usize, account: AccountId) -> store::credits::Balance {
        self.node(node).account(account, now()).wait().unwrap().unwrap().balance
    }

    /// How often an id is in the ledger, with this kind.
    fn entries(&self, node: usize, hold: HoldRef, kind: EntryKind) -> usize {
        let entries = self.node(node).entries(hold.account, usize::MAX).wait().unwrap();
        entries.iter().filter(|entry| entry.id == hold.id && entry.kind == kind).count()
    }

    #[track_caller]
    fn check_sums(&self, node: usize) {
        assert_eq!(self.node(node).audit(None).wait().unwrap().faults, Vec::<String>::new());
    }
}

fn number(node: usize) -> i64 {
    i64::try_from(node).unwrap() + 1
}
