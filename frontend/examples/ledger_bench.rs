//! A measurement of the ledger: how many writes it takes per second, and how long each waits, by the number of writes
//! under way.
//!
//! ```text
//! cargo run --release --package frontend --example ledger_bench -- [FOLDER] [SECONDS] [ACCOUNTS]
//! ```
//! FOLDER (default: a temporary one) selects the disk, which determines the result. Each write is a hold or its
//! settlement, on ACCOUNTS accounts (default 100) in turn. SECONDS (default 5) is the time of each row.

use hdrhistogram::Histogram;
use std::collections::VecDeque;
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};
use store::credits::Balance;
use store::{
    AccountId, CREDITS_MAX, EntryId, HoldError, HoldRef, HoldRequest, NewAccount, Pending, Plan, PlanTable,
    SettleError, Settlement,
};
use store_redb::StoreOptions;

const NOW: u64 = 1_801_386_000_000;
const DEPTHS: [usize; 5] = [1, 10, 100, 1_000, 4_000];

enum UnderWay {
    Hold(HoldRef, Pending<Balance, HoldError>),
    Settlement(Pending<Balance, SettleError>),
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let temporary = tempfile::tempdir()?;
    let folder = args.next().map_or_else(|| temporary.path().to_owned(), Into::into);
    let seconds = args.next().map_or(Ok(5), |text| text.parse())?;
    let accounts = args.next().map_or(Ok(100), |text| text.parse())?;
    let mut out = std::io::stdout();
    writeln!(out, "under way   writes/s    p50 ms    p99 ms    max ms")?;
    for depth in DEPTHS {
        let path = folder.join(format!("ledger_bench_{depth}"));
        let (writes, waits) = run(&path, depth, Duration::from_secs(seconds), accounts)?;
        std::fs::remove_dir_all(&path)?;
        let ms = |quantile| waits.value_at_quantile(quantile) as f64 / 1000.0;
        let rate = writes as f64 / seconds as f64;
        writeln!(out, "{depth:9} {rate:10.0} {:9.2} {:9.2} {:9.2}", ms(0.5), ms(0.99), ms(1.0))?;
    }
    Ok(())
}

/// Keeps `depth` writes under way. Returns how many were done, and the microseconds of each.
fn run(
    folder: &Path,
    depth: usize,
    time: Duration,
    accounts: u128,
) -> Result<(u64, Histogram<u64>), Box<dyn Error>> {
    let plans = PlanTable::new([Plan::new("bench", "Bench", CREDITS_MAX)])?;
    let (store, _) = store_redb::open(folder, plans, StoreOptions::default(), NOW)?;
    let ids: Vec<_> = (0..accounts).map(|n| AccountId::new(NOW, n)).collect();
    for (n, &id) in ids.iter().enumerate() {
        store.create_account(NewAccount { id, name: format!("n{n}"), plan: "bench".into() }, NOW).wait()?;
    }
    let mut waits = Histogram::new(3)?;
    let mut under_way = VecDeque::with_capacity(depth);
    let (start, mut placed, mut done) = (Instant::now(), 0u128, 0);
    while start.elapsed() < time || !under_way.is_empty() {
        while under_way.len() < depth && start.elapsed() < time {
            let account = ids[(placed % accounts) as usize];
            let hold = HoldRef { account, id: EntryId::new(NOW + placed as u64 / 1000, placed) };
            placed += 1;
            let pending = store.hold(HoldRequest { hold, credits: 1 }, NOW);
            under_way.push_back((Instant::now(), UnderWay::Hold(hold, pending)));
        }
        let Some((since, first)) = under_way.pop_front() else { break };
        let next = match first {
            UnderWay::Hold(hold, pending) => {
                pending.wait()?;
                Some(hold)
            }
            UnderWay::Settlement(pending) => {
                pending.wait()?;
                None
            }
        };
        waits.record(since.elapsed().as_micros().try_into()?)?;
        done += u64::from(start.elapsed() < time);
        if let Some(hold) = next {
            let pending = store.settle(hold, Settlement::default(), NOW);
            under_way.push_back((Instant::now(), UnderWay::Settlement(pending)));
        }
    }
    Ok((done, waits))
}
