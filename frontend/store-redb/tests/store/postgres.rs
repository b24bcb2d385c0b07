//! The store in PostgreSQL, for the same tests: with `MAILPROBE_TEST_STORE=postgres` and the URL of a superuser in
//! `MAILPROBE_TEST_POSTGRES`. Each test has a schema of its own.
//!
//! With `MAILPROBE_TEST_SYNC=1`, the server must have a synchronous standby, as those of `cargo xtask cluster`.
//!
//! `cargo xtask postgres --no-fsync -- env MAILPROBE_TEST_STORE=postgres cargo test -p store-redb --test store`

use crate::world::Kind;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use store::{OpenError, PlanTable, Store, UnixMs};
use store_pg::{NodeSettings, PgOptions, Target};
use store_rules::vault::Vault;

static NEXT: AtomicU32 = AtomicU32::new(1);

/// The URL, if the tests are to use PostgreSQL.
pub fn url() -> Option<String> {
    match std::env::var("MAILPROBE_TEST_STORE").as_deref() {
        Err(_) | Ok("redb") => None,
        Ok("postgres") => Some(std::env::var("MAILPROBE_TEST_POSTGRES").unwrap()),
        Ok(other) => panic!("MAILPROBE_TEST_STORE is {other:?}; it must be redb or postgres"),
    }
}

/// A schema of its own, which is removed at the end.
pub struct InSchema {
    url: String,
    schema: String,
    vault: Arc<Vault>,
}

impl InSchema {
    pub fn new(url: String) -> InSchema {
        let schema = format!("t{}_{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        InSchema { url, schema, vault: Arc::new(Vault::in_memory().unwrap()) }
    }

    /// The options of one of several nodes.
    pub fn options(&self, node: i64, reuse: bool) -> PgOptions {
        let plain = self.url.split('?').next().unwrap();
        PgOptions {
            target: Target::parse(&format!("{plain}?sslmode=disable")).unwrap(),
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
        }
    }
}

impl Kind for InSchema {
    fn open(&self, plans: PlanTable, reuse: bool, now: UnixMs) -> Result<(Arc<dyn Store>, u64), OpenError> {
        let (store, opening) = store_pg::open(self.options(1, reuse), plans, now)?;
        Ok((Arc::new(store), opening.voided_holds))
    }
}
