//! A measurement of batches of 200 rows: how many the store creates per second, and how many rows it answers per
//! second.
//!
//! ```text
//! cargo run --release --package frontend --example batch_bench -- [FOLDER] [BATCHES]
//! ```
//! FOLDER (default: a temporary one) selects the disk. Two threads create BATCHES batches each (default 1,000), with 16
//! under way at once, and then answer them all, 100 rows per write.

use api::Reason;
use std::collections::VecDeque;
use std::error::Error;
use std::io::Write;
use std::time::Instant;
use store::{
    AccountId, Authority, BATCH_ROWS_MAX, BatchId, BatchMode, CREDITS_MAX, Idempotency, NewAccount, NewBatch,
    NewRow, Plan, PlanTable, RowAnswer, RowOutcome,
};
use store_redb::StoreOptions;
use store_rules::Store;

const NOW: u64 = 1_801_386_000_000;
const THREADS: u128 = 2;
const UNDER_WAY: usize = 16;
const ANSWERS: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let temporary = tempfile::tempdir()?;
    let folder = args.next().map_or_else(|| temporary.path().to_owned(), Into::into).join("batch_bench");
    let batches = args.next().map_or(Ok(1_000), |text| text.parse())?;
    let plans = PlanTable::new([Plan::new("bench", "Bench", CREDITS_MAX)])?;
    let (store, _) = store_redb::open(&folder, plans, StoreOptions::default(), NOW)?;
    let account = AccountId::new(NOW, 1);
    store.create_account(NewAccount { id: account, name: "a".into(), plan: "bench".into() }, NOW).wait()?;
    let mut out = std::io::stdout();
    let (made, took) = on_all_threads(|thread| make(&store, account, thread, batches));
    writeln!(out, "made {:8.0} batches/s", f64::from(made) / took)?;
    let (answered, took) = on_all_threads(|thread| answer(&store, thread, batches));
    writeln!(out, "answered {:8.0} rows/s", f64::from(answered) / took)?;
    Ok(std::fs::remove_dir_all(&folder)?)
}

/// The amount of work of all threads, and its time in seconds.
fn on_all_threads(work: impl Fn(u128) -> u32 + Sync) -> (u32, f64) {
    let start = Instant::now();
    let work = &work;
    let done = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).sum()
    });
    (done, start.elapsed().as_secs_f64())
}

fn id(thread: u128, number: u128) -> BatchId {
    BatchId::new(NOW, 1 + thread + number * THREADS)
}

fn make(store: &Store, account: AccountId, thread: u128, batches: u128) -> u32 {
    let mut under_way = VecDeque::new();
    let mut made = 0;
    for number in 0..batches {
        let row = |row| {
            let email = format!("mailbox-{row}@domain-{number}-{thread}.example.com");
            NewRow { address: store.hash_address(&email), email }
        };
        let rows = (0..BATCH_ROWS_MAX).map(row).collect();
        let idempotency = Some(Idempotency { key: format!("{thread} {number}"), body: [1; 32] });
        let (id, name, mode) = (id(thread, number), None, BatchMode::Live);
        let new = NewBatch { id, account, name, rows, idempotency, mode };
        under_way.push_back(store.create_batch(new, Authority::OPERATOR, NOW));
        if under_way.len() == UNDER_WAY {
            made += under_way.pop_front().map_or(0, |pending| u32::from(pending.wait().is_ok()));
        }
    }
    made + under_way.into_iter().filter_map(|pending| pending.wait().ok()).count() as u32
}

fn answer(store: &Store, thread: u128, batches: u128) -> u32 {
    let mut under_way = VecDeque::new();
    let mut answered = 0;
    for number in 0..batches {
        for start in (0..BATCH_ROWS_MAX).step_by(ANSWERS) {
            let answer = |index: usize| RowAnswer {
                batch: id(thread, number),
                index: index as u32,
                outcome: RowOutcome::Verified(Reason::MailboxExists.into()),
            };
            under_way.push_back(store.answer_rows((start..start + ANSWERS).map(answer).collect(), NOW));
            if under_way.len() == UNDER_WAY && under_way.pop_front().is_some_and(|one| one.wait().is_ok()) {
                answered += ANSWERS as u32;
            }
        }
    }
    answered + (under_way.into_iter().filter_map(|one| one.wait().ok()).count() * ANSWERS) as u32
}
