//! The store: a hold and its settlement, alone and in a group commit, and the look-up of a key. The disk of the
//! temporary folder determines the first two.

use checks::auth::ApiKey;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::cell::Cell;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use store::{
    AccountId, CREDITS_MAX, EntryId, HoldRef, HoldRequest, KeyId, KeyMode, KeyScopes, NewAccount, NewKey,
    Plan, PlanTable, Settlement,
};
use store_redb::StoreOptions;
use store_rules::Store;

const NOW: u64 = 1_801_386_000_000;
const ACCOUNTS: u128 = 100;
/// How many writes share a commit.
const GROUP: u128 = 100;
const KEYS: u128 = 1_000;

fn open(folder: &Path) -> Arc<Store> {
    let plans = PlanTable::new([Plan::new("bench", "Bench", CREDITS_MAX)]).expect("a plan table");
    let (store, _) = store_redb::open(folder, plans, StoreOptions::default(), NOW).expect("a store");
    for number in 0..ACCOUNTS {
        let account = NewAccount { id: account(number), name: format!("n{number}"), plan: "bench".into() };
        store.create_account(account, NOW).wait().expect("an account");
    }
    store
}

fn account(number: u128) -> AccountId {
    AccountId::new(NOW, number % ACCOUNTS)
}

fn ledger(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let placed = Cell::new(0u128);
    let pairs = |count: u128| {
        let holds: Vec<HoldRef> = (0..count)
            .map(|_| {
                let number = placed.replace(placed.get() + 1);
                HoldRef { account: account(number), id: EntryId::new(NOW + number as u64 / 1000, number) }
            })
            .collect();
        let held: Vec<_> =
            holds.iter().map(|&hold| store.hold(HoldRequest { hold, credits: 1 }, NOW)).collect();
        for pending in held {
            black_box(pending.wait().expect("a hold"));
        }
        let settled: Vec<_> =
            holds.into_iter().map(|hold| store.settle(hold, Settlement::default(), NOW)).collect();
        for pending in settled {
            black_box(pending.wait().expect("a settlement"));
        }
    };
    let mut group = criterion.benchmark_group("ledger");
    group.sample_size(20);
    for (name, count) in [("hold_settle_alone", 1), ("hold_settle_in_group", GROUP)] {
        group.throughput(Throughput::Elements(count as u64));
        group.bench_function(name, |bench| bench.iter(|| pairs(count)));
    }
}

fn keys(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let key = |number: u128| {
        let mut secret = [7; 32];
        secret[..16].copy_from_slice(&number.to_be_bytes());
        ApiKey::from_secret(KeyMode::Live, secret)
    };
    let made: Vec<_> = (0..KEYS)
        .map(|number| {
            let key = key(number);
            let (hash, last4) = (key.hash(), key.last4());
            let id = KeyId::new(NOW, number);
            let new = NewKey {
                id,
                account: account(number),
                mode: KeyMode::Live,
                hash,
                last4,
                label: String::new(),
                scopes: KeyScopes::ALL,
                expires_at: None,
            };
            store.create_key(new, store::Authority::OPERATOR, NOW)
        })
        .collect();
    made.into_iter().for_each(|pending| drop(pending.wait().expect("a key")));
    let hash = key(KEYS / 2).hash();
    assert!(store.key_by_hash(&hash).is_some(), "the bench looks up a key that is there");
    let mut group = criterion.benchmark_group("key");
    group.throughput(Throughput::Elements(1));
    group.bench_function("look_up", |bench| bench.iter(|| store.key_by_hash(black_box(&hash))));
}

criterion_group!(name = benches; config = bench::brief(); targets = ledger, keys);
criterion_main!(benches);
