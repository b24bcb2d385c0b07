//! A store with something of every kind, and what can be compared of it.

use api::Reason::{CatchAll, MailboxExists, RoleAccount};
use std::collections::BTreeMap;
use store::RowOutcome::Verified;
use store::*;
use store_rules::Store;

/// The rows of both batches.
const ROWS: [&str; 3] = ["one@example.com", "two@example.com", "three@example.net"];

/// What a test compares.
#[derive(Debug, PartialEq, Eq)]
pub struct Content {
    /// Available, held and spent credits by account.
    pub balances: BTreeMap<String, [u64; 3]>,
    /// The rows of the complete batch.
    pub complete: Vec<(String, api::Reason)>,
    /// The rows of the open batch that have no answer.
    pub unanswered: Vec<String>,
    /// The own result of an address.
    pub known: Option<api::Reason>,
    /// The email address of the user.
    pub user: Option<String>,
    /// The number of keys of all accounts.
    pub keys: usize,
    /// The number of rows by table, without those that the store itself adds as time passes.
    pub rows: BTreeMap<String, u64>,
}

/// The accounts and batches of a store that was filled.
#[derive(Debug, Clone, Copy)]
pub struct Ids {
    pub account: AccountId,
    pub complete: BatchId,
    pub open: BatchId,
}

/// The random bits of ids.
struct Random(u128);

impl Random {
    fn next(&mut self) -> u128 {
        self.0 += 1;
        1 << 61 | self.0
    }
}

/// Fills an empty store.
pub fn fill(store: &Store, now: UnixMs) -> Ids {
    let mut random = Random(1);
    let mut account = |name: &str| {
        let id = AccountId::new(now, random.next());
        let new = NewAccount { id, name: name.into(), plan: "free".into() };
        store.create_account(new, now).wait().unwrap().id
    };
    let (account, _other) = (account("a"), account("b"));
    let mut random = Random(1000);
    let grant = Grant { id: EntryId::new(now, random.next()), account, credits: 5000, note: "x".into() };
    store.grant(grant, now).wait().unwrap();
    for n in 0..2500u64 {
        let hold = HoldRef { account, id: EntryId::new(now, random.next()) };
        store.hold(HoldRequest { hold, credits: 1 }, now).wait().unwrap();
        let address = store.hash_address(&format!("{n}@example.org"));
        let result = Some(ResultRecord { address, verdict: RoleAccount.into() });
        store.settle(hold, Settlement { result }, now).wait().unwrap();
    }
    let key = NewKey {
        id: KeyId::new(now, random.next()),
        account,
        mode: KeyMode::Live,
        hash: [7; 32],
        last4: *b"abcd",
        label: "website".into(),
        scopes: KeyScopes::ALL,
        expires_at: None,
    };
    store.create_key(key, Authority::OPERATOR, now).wait().unwrap();
    let password = PasswordHash { memory_kib: 8, passes: 1, lanes: 1, salt: [1; 16], tag: [2; 32] };
    store
        .set_user(account, Some("user@example.com".into()), password, Authority::OPERATOR, now)
        .wait()
        .unwrap();
    let mut batch = || {
        let rows = ROWS.map(|email| NewRow { email: email.into(), address: store.hash_address(email) });
        let id = BatchId::new(now, random.next());
        let new = NewBatch {
            id,
            account,
            name: Some("spring".into()),
            rows: rows.into(),
            idempotency: None,
            mode: BatchMode::Live,
        };
        store.create_batch(new, Authority::OPERATOR, now).wait().unwrap();
        id
    };
    let (open, complete) = (batch(), batch());
    let answer = |batch, index, reason: api::Reason| {
        let outcome = Verified(reason.into());
        store.answer_rows(vec![RowAnswer { batch, index, outcome }], now).wait().unwrap()
    };
    answer(open, 0, MailboxExists);
    answer(complete, 0, MailboxExists);
    answer(complete, 1, CatchAll);
    assert_eq!(answer(complete, 2, RoleAccount), [complete]);
    Ids { account, complete, open }
}

/// Reads what can be compared.
pub fn read(store: &Store, ids: Ids, now: UnixMs) -> Content {
    let accounts = store.accounts(None, 100, now).wait().unwrap();
    let audit = store.audit(None).wait().unwrap();
    assert!(audit.faults.is_empty(), "{:?}", audit.faults);
    let balance = |account: &Account| {
        let balance = &account.balance;
        (account.name.clone(), [balance.available(), balance.held, balance.spent])
    };
    let view = store.batch(ids.account, ids.complete, now).wait().unwrap().unwrap();
    assert_eq!((view.completed, view.name.as_deref()), (true, Some("spring")));
    let unanswered = store.unanswered(ids.open).wait().unwrap();
    let known = store.known(ids.account, &store.hash_address("17@example.org"), now).wait().unwrap();
    let rows = store.sizes().wait().unwrap().rows;
    // Chores change these: facts about the database, and notes of holds that a start voids.
    let is_compared = |name: &str| !["meta", "windows", "fair_use", "under_way"].contains(&name);
    Content {
        balances: accounts.iter().map(balance).collect(),
        complete: view.results.unwrap(),
        unanswered: unanswered.into_iter().map(|row| row.email).collect(),
        known: match known {
            Known::Own(own) => Some(own.verdict.reason),
            _ => None,
        },
        user: store.user_of("user@example.com").wait().unwrap().map(|user| user.email),
        keys: accounts.iter().map(|account| store.keys(account.id).wait().unwrap().len()).sum(),
        rows: rows.into_iter().filter(|(name, _)| is_compared(name)).collect(),
    }
}
