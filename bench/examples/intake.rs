//! How fast the store accepts batches of 200 addresses, each with its charge, rows and idempotency key in one commit,
//! compared with redb alone for the same bytes in groups of the same size.
//!
//! ```text
//! cargo run --release --package bench --example intake -- FOLDER BATCHES UNDER_WAY
//! ```
//! FOLDER selects the disk; its files are removed. The program prints one line each for `store` and `redb`: batches,
//! seconds, CPU seconds of the process, p50 and p99 in milliseconds, batches per commit. `cargo xtask measure intake`
//! prints a table of them.

use bench::cpu_s;
use hdrhistogram::Histogram;
use redb::{Database, TableDefinition};
use std::collections::VecDeque;
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::time::Instant;
use store::{
    AccountId, Authority, BATCH_ROWS_MAX, BatchId, BatchMode, CREDITS_MAX, Idempotency, NewAccount, NewBatch,
    NewRow, Plan, PlanTable,
};
use store_redb::StoreOptions;

// The allocator of the product.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NOW: u64 = 1_801_386_000_000;

type Table = TableDefinition<'static, &'static [u8], &'static [u8]>;

/// The rows of a batch in the store (docs/storage.md), by table: bytes of key and value. The value of `batch_rows` has
/// a hash of 16 bytes for each address, and the sealed texts: 28 bytes and the addresses, each with its length.
const OTHER_ROWS: [(Table, usize, usize); 5] = [
    (TableDefinition::new("accounts"), 16, 60),
    (TableDefinition::new("batches"), 32, 40 + BATCH_ROWS_MAX),
    (TableDefinition::new("open_batches"), 16, 16),
    (TableDefinition::new("idempotency"), 32, 60),
    (TableDefinition::new("expiries"), 41, 0),
];
const ROWS: Table = TableDefinition::new("batch_rows");

struct Figures {
    batches: u64,
    seconds: f64,
    cpu_s: f64,
    latency_us: Histogram<u64>,
    group: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [folder, batches, under_way] = &words[..] else {
        return Err("usage: intake FOLDER BATCHES UNDER_WAY".into());
    };
    let folder = Path::new(folder).join("intake");
    let (batches, under_way) = (batches.parse()?, under_way.parse()?);
    let store = through_the_store(&folder.join("store"), batches, under_way)?;
    show("store", &store)?;
    show("redb", &by_redb(&folder.join("raw.redb"), batches, store.group)?)?;
    Ok(std::fs::remove_dir_all(&folder)?)
}

fn show(name: &str, figures: &Figures) -> std::io::Result<()> {
    let Figures { batches, seconds, cpu_s, latency_us, group } = figures;
    let ms = |quantile| latency_us.value_at_quantile(quantile) as f64 / 1000.0;
    let (p50, p99) = (ms(0.5), ms(0.99));
    writeln!(std::io::stdout(), "{name} {batches} {seconds:.3} {cpu_s:.3} {p50:.2} {p99:.2} {group:.1}")
}

fn email(batch: u64, row: usize) -> String {
    format!("user-{row}@domain-{batch}.example.com")
}

fn through_the_store(folder: &Path, batches: u64, under_way: usize) -> Result<Figures, Box<dyn Error>> {
    let plans = PlanTable::new([Plan::new("bench", "Bench", CREDITS_MAX)])?;
    let (store, _) = store_redb::open(folder, plans, StoreOptions::default(), NOW)?;
    let account = AccountId::new(NOW, 1);
    store.create_account(NewAccount { id: account, name: "a".into(), plan: "bench".into() }, NOW).wait()?;
    let groups_before = store.figures().group.count();
    let mut latency_us = Histogram::new(3)?;
    let (began, cpu_before) = (Instant::now(), cpu_s());
    let mut waiting = VecDeque::new();
    for number in 0..=batches + under_way as u64 {
        if waiting.len() == under_way || number >= batches {
            let Some((since, pending)) = waiting.pop_front() else { break };
            let since: Instant = since;
            let pending: store::Pending<_, store::BatchError> = pending;
            pending.wait()?;
            latency_us.record(since.elapsed().as_micros() as u64)?;
        }
        if number < batches {
            let since = Instant::now();
            let row = |row| {
                let email = email(number, row);
                NewRow { address: store.hash_address(&email), email }
            };
            let rows = (0..BATCH_ROWS_MAX).map(row).collect();
            let idempotency = Some(Idempotency { key: format!("key {number}"), body: [1; 32] });
            // Far from the numbers of the store's own entries.
            let id = BatchId::new(NOW, 1 << 60 | u128::from(number));
            let new = NewBatch { id, account, name: None, rows, idempotency, mode: BatchMode::Live };
            waiting.push_back((since, store.create_batch(new, Authority::OPERATOR, NOW)));
        }
    }
    let (seconds, cpu_s) = (began.elapsed().as_secs_f64(), cpu_s() - cpu_before);
    let groups = store.figures().group.count() - groups_before;
    Ok(Figures { batches, seconds, cpu_s, latency_us, group: batches as f64 / groups.max(1) as f64 })
}

/// Writes the same rows as bytes, with the same number of batches per commit and the same durability.
fn by_redb(path: &Path, batches: u64, group: f64) -> Result<Figures, Box<dyn Error>> {
    let database = Database::create(path)?;
    let rows: usize = (0..BATCH_ROWS_MAX).map(|row| 16 + 1 + email(0, row).len()).sum();
    let rows = vec![7; rows + 28 + 4];
    let group = group.round().max(1.0) as u64;
    let mut latency_us = Histogram::new(3)?;
    let (began, cpu_before) = (Instant::now(), cpu_s());
    for first in (0..batches).step_by(group as usize) {
        let since = Instant::now();
        let mut transaction = database.begin_write()?;
        transaction.set_quick_repair(true);
        {
            let mut rows_table = transaction.open_table(ROWS)?;
            for number in first..batches.min(first + group) {
                rows_table.insert(key(number, 32).as_slice(), rows.as_slice())?;
            }
            for (table, key_bytes, value_bytes) in OTHER_ROWS {
                let mut table = transaction.open_table(table)?;
                for number in first..batches.min(first + group) {
                    // There is one account.
                    let number = if value_bytes == 60 && key_bytes == 16 { 0 } else { number };
                    table.insert(key(number, key_bytes).as_slice(), vec![7; value_bytes].as_slice())?;
                }
            }
        }
        transaction.commit()?;
        latency_us.record_n(since.elapsed().as_micros() as u64, batches.min(first + group) - first)?;
    }
    let (seconds, cpu_s) = (began.elapsed().as_secs_f64(), cpu_s() - cpu_before);
    Ok(Figures { batches, seconds, cpu_s, latency_us, group: group as f64 })
}

/// A key in the order of its number, as ids are in the order of their creation.
fn key(number: u64, bytes: usize) -> Vec<u8> {
    let mut key = vec![0; bytes];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}
