//! Two nodes on a cluster with failover, while its servers are killed, paused and cut off.
//!
//! `cargo xtask cluster -- cargo test -p store-pg --test postgres cluster:: -- --nocapture` starts the cluster. Without it, the
//! test prints a line and passes. `MAILPROBE_TEST_FAULTS` selects the faults, separated by commas.
//!
//! Clients hold and settle credits at both nodes. After each acknowledged settlement the account is read at the other node. For
//! each fault:
//!
//! - no read lacks an acknowledged write;
//! - every call is answered within [`ANSWER_MAX`], and no answer is an error except for those of a database that is away;
//! - both nodes work again after the failover, and none was declared dead: its epoch stays, and a hold that was placed before
//!   the fault can be settled after it. A third node, which is only a row, comes back some seconds after the others, and is not
//!   declared dead either;
//! - at the end, every acknowledged settlement is there, and a node that has died is found in time.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints its figures"
)]

mod clients;
mod control;

use clients::{Figures, Log, run_client};
use control::Control;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use store::{AccountId, EntryId, HoldRef, HoldRequest, NewAccount, PlanTable, Settlement, clock};
use store_pg::connect::{Connector, Target};
use store_pg::{NodeSettings, PgOptions};
use store_rules::Store;
use vault::Vault;

/// The faults if the environment names none: a primary that dies, is cut off or pauses, and one that goes on as a former primary.
const FAULTS: &str =
    "kill-primary,partition-primary,isolate-primary,pause-primary,kill-patroni,stop-primary,kill-standby";
/// The longest time of a call.
const ANSWER_MAX: Duration = Duration::from_secs(16);
/// The clients of each node.
const CLIENTS: u64 = 3;
/// Holds that no node has settled become void at this age.
const HOLD_TIME: Duration = Duration::from_secs(170);
const FAILOVER_MAX: Duration = Duration::from_secs(90);
/// The number of the node that is only a row.
const LATE: i64 = 9;
/// How much later than the others it comes back.
const LATE_BY: Duration = Duration::from_secs(5);
/// The longest time from the end of a lease until the node is declared dead.
const FOUND_MAX: Duration = Duration::from_secs(15);
/// How long a former primary is left beside the new one.
const BESIDE: Duration = Duration::from_secs(15);
const SCHEMA: &str = "cluster_nodes";

#[test]
fn two_nodes_lose_nothing() {
    let Some(control) = Control::connect() else { return };
    let faults = std::env::var("MAILPROBE_TEST_FAULTS").unwrap_or_else(|_| FAULTS.into());
    let (url, authority) = ("MAILPROBE_TEST_POSTGRES", "MAILPROBE_TEST_POSTGRES_CA");
    let (url, authority) = (std::env::var(url).unwrap(), std::env::var(authority).unwrap());
    let target = Target::parse(&format!("{url}?sslmode=verify-full&sslrootcert={authority}")).unwrap();
    let vault = Arc::new(Vault::in_memory().unwrap());
    let stores: Vec<Arc<Store>> = (1..=2).map(|node| open(node, &target, &vault)).collect();
    let accounts: Vec<AccountId> = (0..2 * CLIENTS).map(|number| account(&stores[0], number)).collect();
    let (log, stop) = (Mutex::new(Log::default()), AtomicBool::new(false));
    let rows = thread::scope(|scope| {
        for (number, account) in accounts.iter().enumerate() {
            let (own, other) = (&*stores[number % 2], &*stores[(number + 1) % 2]);
            let (log, stop) = (&log, &stop);
            scope.spawn(move || run_client(number, (own, other), *account, log, stop));
        }
        let stop = StopOnDrop(&stop);
        let late = LateNode::register(&target);
        let mut cluster = TestCluster { control, stores: &stores, late, log: &log };
        let epochs = query(&target, EPOCHS);
        let rows: Vec<String> = faults.split(',').map(|fault| cluster.round(fault, accounts[0])).collect();
        assert_eq!(query(&target, EPOCHS), epochs, "a living node was declared dead");
        cluster.late.die();
        drop(stop);
        rows
    });
    println!("{}", Figures::HEAD);
    rows.iter().for_each(|row| println!("{row}"));
    let log = log.into_inner().unwrap();
    check_settlements(&stores, &log);
    println!("{} settlements are there", log.settled.len());
    assert!(log.defects.is_empty(), "{:#?}", log.defects);
}

/// Tells the clients to end, also if a round panics: the scope waits for them.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn open(node: i64, target: &Target, vault: &Arc<Vault>) -> Arc<Store> {
    let options = PgOptions {
        target: target.clone(),
        schema: SCHEMA.into(),
        requires_sync: true,
        node: NodeSettings { id: node, egress: format!("e{node}"), host: "test".into(), version: "0".into() },
        vault: Arc::clone(vault),
        keys: "keys".into(),
        reuse: true,
        clock: store::clock::now,
    };
    store_pg::open(options, PlanTable::standard(), clock::now()).unwrap().0
}

fn account(store: &Store, number: u64) -> AccountId {
    let id = AccountId::new(clock::now(), 1 << 61 | u128::from(number));
    let new = NewAccount { id, name: format!("client {number}"), plan: "scale".into() };
    store.create_account(new, clock::now()).wait().unwrap().id
}

/// The epochs of all nodes.
const EPOCHS: &str = "SELECT id, epoch FROM nodes ORDER BY id";

/// Executes a statement, and returns its rows of two numbers.
fn query(target: &Target, text: &str) -> Vec<(i64, i64)> {
    let connector = Connector::new(target.clone(), true).unwrap();
    let mut runtime = monoio::RuntimeBuilder::<monoio::LegacyDriver>::new().enable_timer().build().unwrap();
    runtime.block_on(async {
        let session = connector.connect().await.unwrap();
        session.client().batch_execute(&format!("SET search_path = {SCHEMA}")).await.unwrap();
        let rows = session.client().query(text, &[]).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    })
}

/// A node that is only a row: it renews its lease when the test says so.
struct LateNode<'a>(&'a Target);

impl LateNode<'_> {
    fn register(target: &Target) -> LateNode<'_> {
        let text = format!(
            "INSERT INTO nodes SELECT {LATE}, 1, '-infinity', format, version, egress, host FROM nodes WHERE id = 1 \
             RETURNING id, epoch"
        );
        assert_eq!(query(target, &text), [(LATE, 1)]);
        LateNode(target)
    }

    /// The lease ends after this time. Returns the epoch.
    fn renew(&self, until: &str) -> i64 {
        let text = format!("UPDATE nodes SET until = {until} WHERE id = {LATE} RETURNING id, epoch");
        query(self.0, &text)[0].1
    }

    /// Waits until one of the others has renewed its lease.
    fn await_others(&self) {
        let text = format!("SELECT id, epoch FROM nodes WHERE id <> {LATE} AND until > clock_timestamp()");
        while query(self.0, &text).is_empty() {}
    }

    /// The node renews its lease no more: another one declares it dead.
    fn die(&self) {
        let epoch = self.renew("clock_timestamp()");
        let began = Instant::now();
        while !query(self.0, EPOCHS).contains(&(LATE, epoch + 1)) {
            assert!(began.elapsed() < FOUND_MAX, "a dead node was not found");
            thread::sleep(Duration::from_millis(200));
        }
        println!("a dead node was found {:.1} s after the end of its lease", began.elapsed().as_secs_f64());
    }
}

/// What a round needs.
struct TestCluster<'a> {
    control: Control,
    stores: &'a [Arc<Store>],
    late: LateNode<'a>,
    log: &'a Mutex<Log>,
}

impl TestCluster<'_> {
    /// Lets one fault happen; returns the row of its figures.
    fn round(&mut self, fault: &str, account: AccountId) -> String {
        let (stores, log) = (self.stores, self.log);
        await_settlements(log);
        let began = Instant::now();
        let holds: Vec<HoldRef> = stores.iter().map(|store| hold(store, account)).collect();
        // After these, no primary accepts writes for longer than a lease.
        let is_long =
            ["kill-primary", "partition-primary", "isolate-primary", "pause-primary"].contains(&fault);
        let epoch = is_long.then(|| self.late.renew("clock_timestamp() + interval '10 s'"));
        log.lock().unwrap().begin_round();
        let (start, target) = (Instant::now(), self.control.begin(fault));
        if target.fails_over {
            let is_over = |primary: &str| primary != "none" && primary != target.name;
            while !is_over(&self.control.ask("primary")) {
                assert!(start.elapsed() < FAILOVER_MAX, "{fault}: there is no other primary");
            }
        }
        if let Some(epoch) = epoch {
            self.late.await_others();
            thread::sleep(LATE_BY);
            let now = self.late.renew("'-infinity'");
            assert_eq!(now, epoch, "{fault}: a node that came back late was declared dead");
        }
        await_settlements(log);
        if fault == "kill-patroni" {
            thread::sleep(BESIDE);
        }
        self.control.ask("end");
        self.control.ask("whole");
        await_settlements(log);
        for (store, hold) in stores.iter().zip(holds) {
            let settled = store.settle(hold, Settlement::default(), clock::now()).wait();
            assert!(
                settled.is_ok() || began.elapsed() > HOLD_TIME,
                "{fault}: a hold of a check: {settled:?}"
            );
        }
        let log = log.lock().unwrap();
        let longest = log.figures.longest_call;
        assert!(longest < ANSWER_MAX, "{fault}: a call was answered after {longest:?}");
        log.figures.row(fault, &target.name, start)
    }
}

fn hold(store: &Store, account: AccountId) -> HoldRef {
    let hold = HoldRef { account, id: EntryId::new(clock::now(), 1 << 62 | unique()) };
    store.hold(HoldRequest { hold, credits: 1 }, clock::now()).wait().unwrap();
    hold
}

/// A number that was not returned before.
pub fn unique() -> u128 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed).into()
}

/// Waits until each client has settled holds that it placed after this call: two, because one may be under way.
fn await_settlements(log: &Mutex<Log>) {
    let (began, before) = (Instant::now(), log.lock().unwrap().settled_by_client());
    loop {
        let now = log.lock().unwrap().settled_by_client();
        if now.iter().zip(before).all(|(now, before)| *now >= before + 2) {
            return;
        }
        let errors = || log.lock().unwrap().errors.clone();
        assert!(began.elapsed() < FAILOVER_MAX, "clients are stuck: {now:?}, {:?}", errors());
        thread::sleep(Duration::from_millis(50));
    }
}

/// Settles each acknowledged settlement again, which must be refused as settled.
fn check_settlements(stores: &[Arc<Store>], log: &Log) {
    for holds in log.settled.chunks(500) {
        let settle = |hold: &HoldRef| stores[1].settle(*hold, Settlement::default(), clock::now());
        let again: Vec<_> = holds.iter().map(settle).collect();
        for (hold, again) in holds.iter().zip(again) {
            let again = again.wait();
            assert_eq!(again, Err(store::SettleError::AlreadySettled), "{hold:?} was acknowledged");
        }
    }
}
