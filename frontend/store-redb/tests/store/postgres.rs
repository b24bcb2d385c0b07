//! The store in PostgreSQL, for the same tests: with `MAILPROBE_TEST_STORE=postgres` and the URL of a superuser in
//! `MAILPROBE_TEST_POSTGRES`. Each test has a schema of its own.
//!
//! With `MAILPROBE_TEST_SYNC=1`, the server must have a synchronous standby, as those of `cargo xtask cluster`.
//!
//! `cargo xtask postgres --no-fsync -- env MAILPROBE_TEST_STORE=postgres cargo test -p store-redb --test store`

use crate::world::{Kind, Nodes};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use store::{OpenError, PlanTable, UnixMs, clock};
use store_pg::{NodeSettings, PgOptions, Target};
use store_rules::Store;
use vault::Vault;

static NEXT: AtomicU32 = AtomicU32::new(1);

/// The URL, if the tests are to use PostgreSQL.
pub fn url() -> Option<String> {
    match std::env::var("MAILPROBE_TEST_STORE").as_deref() {
        Err(_) | Ok("redb") => None,
        Ok("postgres") => Some(std::env::var("MAILPROBE_TEST_POSTGRES").unwrap()),
        Ok(other) => panic!("MAILPROBE_TEST_STORE is {other:?}; it must be redb or postgres"),
    }
}

/// A schema of its own, which is removed at the end, with one or more nodes.
pub struct InSchema {
    url: String,
    schema: String,
    vault: Arc<Vault>,
    nodes: i64,
    /// The clock of what the nodes write by themselves.
    pub clock: fn() -> UnixMs,
}

impl InSchema {
    pub fn new(url: String) -> InSchema {
        InSchema::of_nodes(url, 1)
    }

    /// A schema that so many nodes use.
    pub fn of_nodes(url: String, nodes: i64) -> InSchema {
        let schema = format!("t{}_{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        InSchema { url, schema, vault: Arc::new(Vault::in_memory().unwrap()), nodes, clock: clock::now }
    }

    fn target(&self) -> Target {
        let plain = self.url.split('?').next().unwrap();
        Target::parse(&format!("{plain}?sslmode=disable")).unwrap()
    }

    /// The host and the port of the server.
    pub fn address(&self) -> String {
        self.target().hosts[0].to_string()
    }

    /// Executes statements beside the nodes; returns the rows.
    pub fn execute(&self, statements: &str) -> Vec<Vec<String>> {
        let statements = format!("SET search_path = {}; {statements}", self.schema);
        store_pg::sql::execute(self.target(), &statements).unwrap()
    }

    /// The options of one of several nodes.
    pub fn options(&self, node: i64, reuse: bool) -> PgOptions {
        PgOptions {
            target: self.target(),
            schema: self.schema.clone(),
            requires_sync: std::env::var("MAILPROBE_TEST_SYNC").is_ok_and(|text| text == "1"),
            node: NodeSettings {
                id: node,
                egress: format!("e{node}"),
                host: "test".into(),
                version: "0".into(),
            },
            vault: Arc::clone(&self.vault),
            keys: "keys".into(),
            reuse,
            clock: self.clock,
        }
    }

    fn open_node(
        &self,
        node: i64,
        plans: PlanTable,
        reuse: bool,
        now: UnixMs,
    ) -> Result<(Arc<Store>, u64), OpenError> {
        let (store, opening) = store_pg::open(self.options(node, reuse), plans, now)?;
        Ok((store, opening.voided_holds))
    }
}

impl Drop for InSchema {
    fn drop(&mut self) {
        // The server of the tests ends anyway.
        let drop_it = format!("SET lock_timeout = '5s'; DROP SCHEMA IF EXISTS {} CASCADE", self.schema);
        let _ = store_pg::sql::execute(self.target(), &drop_it);
    }
}

impl Kind for InSchema {
    fn open(&self, plans: PlanTable, reuse: bool, now: UnixMs) -> Result<(Arc<Store>, u64), OpenError> {
        self.open_node(1, plans, reuse, now)
    }

    fn open_all(&self, plans: PlanTable, reuse: bool, now: UnixMs) -> Result<(Nodes, u64), OpenError> {
        // At once: a node looks for what others have left two seconds after its start.
        let open = |node| self.open_node(node, plans.clone(), reuse, now);
        let open = &open;
        thread::scope(|scope| {
            let opened: Vec<_> = (1..=self.nodes).map(|node| scope.spawn(move || open(node))).collect();
            let opened = opened.into_iter().map(|node| node.join().unwrap());
            let opened = opened.collect::<Result<Vec<_>, _>>()?;
            let (nodes, voided): (Vec<_>, Vec<u64>) = opened.into_iter().unzip();
            Ok((nodes, voided.into_iter().sum()))
        })
    }
}
