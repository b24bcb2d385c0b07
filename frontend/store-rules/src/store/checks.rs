//! Checks: holds and charges of credits, results, and the ledger.

use super::{Prepared, Store};
use crate::audit;
use crate::backend::{Class, Job, Want};
use crate::days;
use crate::ledger::HoldEnd;
use crate::results::{self, Results, SHARED_SCAN_MAX, SealedResult, results_of};
use crate::rows::{Rows, Table, Walk};
use crate::shared::Shared;
use crate::tables::{LEDGER, account_range, connection_key, day_key, entry_key, result_key, split_entry_key};
use crate::txn::Txn;
use std::sync::Arc;
use store::credits::Balance;
use store::*;

impl Store {
    /// Holds credits, plan credits first, then pack credits. The answer is the balance after it. Refused with
    /// [`StoreError::Busy`] if too many writes are waiting.
    pub fn hold(&self, request: HoldRequest, now: UnixMs) -> Pending<Balance, HoldError> {
        Pending::begin(|| {
            self.shared().vault.prepare_for_result(now)?;
            let hold = request.hold;
            let job = Job::of(hold.account, Class::New).with_wants(move |out| want_entry(hold, out));
            Ok(self.write(job, move |txn| txn.hold(request, now)))
        })
    }

    /// Turns a hold into a charge, permanently, together with the data that must be durable with it. It is accepted
    /// even if the queue is full, so every hold can be answered.
    pub fn settle(&self, hold: HoldRef, with: Settlement, now: UnixMs) -> Pending<Balance, SettleError> {
        Pending::begin(|| {
            let shared = self.shared();
            let seal = |record| results::seal(shared, hold.account, record, now, now);
            let result = with.result.map(seal).transpose()?;
            let (key, has_nodes) = (result.as_ref().map(|result| result.key), shared.has_nodes);
            let job = Job::of(hold.account, Class::Answer).with_wants(move |out| {
                want_entry(hold, out);
                if let Some(key) = key {
                    out.push(Want::row(Table::Results, &key));
                    if has_nodes {
                        out.push(Want::row(Table::UnderWay, &key));
                    }
                    out.push(Want::row(Table::Days, &day_key(hold.account, days::day(now))));
                }
            });
            Ok(self.write(job, move |txn| txn.settle(hold, result.as_ref(), now)))
        })
    }

    /// Returns the credits of a hold to their source; plan credits of a past period expire. It is accepted even if the
    /// queue is full.
    pub fn void(&self, hold: HoldRef, now: UnixMs) -> Pending<Balance, SettleError> {
        let job = Job::of(hold.account, Class::Answer).with_wants(move |out| want_entry(hold, out));
        self.write(job, move |txn| txn.end_hold(hold, HoldEnd::Void, now))
    }

    /// The keyed hash of an address in its canonical form (ASCII in lower case, the domain in A-labels). It reads
    /// memory only.
    pub fn hash_address(&self, canonical: &str) -> AddressHash {
        AddressHash(self.shared().vault.hash("address", &[canonical.as_bytes()]))
    }

    /// The stored result of an address for this account.
    pub fn known(
        &self,
        account: AccountId,
        address: &AddressHash,
        now: UnixMs,
    ) -> Pending<Known, StoreError> {
        let address = *address;
        self.read(Some(Box::new(move |out| want_known(account, &address, out))), move |shared, rows| {
            Results(rows).known(&shared.vault, account, &address, shared.reuse, now)
        })
    }

    /// [`Store::known`] for each of these accounts and addresses, in their order, by one snapshot.
    pub fn known_many(
        &self,
        questions: Vec<(AccountId, AddressHash)>,
        now: UnixMs,
    ) -> Pending<Vec<Known>, StoreError> {
        let questions: Arc<[_]> = questions.into();
        let wanted = Arc::clone(&questions);
        let wants = move |out: &mut Vec<Want>| {
            wanted.iter().for_each(|(account, address)| want_known(*account, address, out));
        };
        self.read(Some(Box::new(wants)), move |shared, rows| {
            let results = Results(rows);
            let known = |(account, address): &(AccountId, AddressHash)| {
                results.known(&shared.vault, *account, address, shared.reuse, now)
            };
            questions.iter().map(known).collect()
        })
    }

    /// The account's own verdict on each of these addresses, in their order, as long as it is kept.
    pub fn kept_verdicts(
        &self,
        account: AccountId,
        addresses: Vec<AddressHash>,
        now: UnixMs,
    ) -> Pending<Vec<Option<Verdict>>, StoreError> {
        self.read(None, move |shared, rows| {
            let results = Results(rows);
            results.expect_own(account, addresses.iter());
            addresses.iter().map(|address| results.kept(&shared.vault, account, address, now)).collect()
        })
    }

    /// Begins a check for one credit: looks at what is known of the address, and charges or holds the credit accordingly. With
    /// a connection, one of its full checks is used in the same transaction. The caller begins no other check of this account
    /// and address before this one has ended. Refused as [`Store::hold`] is.
    pub fn begin_check(&self, check: NewCheck, now: UnixMs) -> Pending<Begun, AttemptError> {
        let NewCheck { hold, connection, address, fair_use, by } = check;
        let has_nodes = self.shared().has_nodes;
        let job = Job::of(hold.account, Class::New).with_wants(move |out| {
            want_entry(hold, out);
            want_known(hold.account, &address, out);
            if has_nodes {
                out.push(Want::row(Table::UnderWay, &result_key(&address, hold.account)));
            }
            if fair_use.is_some() {
                out.push(Want::row(Table::FairUse, &hold.account.to_bytes()));
            }
            if let Some(id) = connection {
                out.push(Want::row(Table::Connections, &connection_key(hold.account, id)));
            }
        });
        let prepare = move |shared: &Shared, rows: &dyn Rows| Ok(prepare_check(shared, rows, &check, now)?);
        self.write_prepared(job, prepare, move |txn, prepared| {
            txn.check_caller(hold.account, &by, now).map_err(|error| error.map(AttemptError::from))?;
            let take = |fair_use| txn.take_fair_use(hold.account, fair_use, now);
            let bucket = fair_use.map(take).transpose()?;
            let begun = match prepared {
                PreparedCheck::Shared(result, sealed) => {
                    let charge = |txn: &mut Txn<'_>| txn.charge_known(hold, sealed, now).map(Some);
                    let charged = txn.begin(connection, hold.account, now, charge)?;
                    charged.map_or(Begun::UnderWay, |balance| Begun::Charged(result.clone(), balance))
                }
                PreparedCheck::New => {
                    let hold_one = |txn: &mut Txn<'_>| txn.hold_check(hold, address, now);
                    let held = txn.begin(connection, hold.account, now, hold_one)?;
                    held.map_or(Begun::UnderWay, Begun::Held)
                }
            };
            if let Some(bucket) = bucket.filter(|_| begun != Begun::UnderWay) {
                txn.put_fair_use(hold.account, &bucket)?;
            }
            Ok(begun)
        })
    }

    /// The account's last entries, newest first, at most `limit`.
    pub fn entries(&self, account: AccountId, limit: usize) -> Pending<Vec<Entry>, StoreError> {
        self.read(None, move |_, rows| {
            let mut entries = Vec::new();
            LEDGER.walk_back(rows, account_range(account), limit, |key, row| {
                entries.push(Entry {
                    id: split_entry_key(&key).id,
                    kind: row.kind,
                    at: row.at,
                    granted: row.step.granted,
                    spent: row.step.spent,
                    expired: row.step.expired,
                    note: row.note,
                });
                Walk::On
            })?;
            Ok(entries)
        })
    }

    /// Adds up the entries and open holds of one account or of all, and compares the sums with the balances.
    pub fn audit(&self, account: Option<AccountId>) -> Pending<Audit, StoreError> {
        self.scan(move |_, rows| audit::audit(rows, account))
    }
}

/// What is known of a check's address before its write.
enum PreparedCheck {
    Shared(StoredResult, SealedResult),
    New,
}

/// The wants of a write that opens an account and uses an id.
fn want_entry(hold: HoldRef, out: &mut Vec<Want>) {
    let key = entry_key(hold.account, hold.id);
    out.push(Want::row(Table::Accounts, &hold.account.to_bytes()));
    out.push(Want::row(Table::Ledger, &key));
    out.push(Want::row(Table::Holds, &key));
}

/// The wants of a look at what is known of an address.
fn want_known(account: AccountId, address: &AddressHash, out: &mut Vec<Want>) {
    out.push(Want::peek(Table::Results, &result_key(address, account)));
    let (from, to) = results_of(address).into_inner();
    let (from, to) = (from.to_vec(), to.to_vec());
    out.push(Want::Range { table: Table::Results, from, to, backwards: false, most: SHARED_SCAN_MAX });
}

/// Looks at what is known of a check's address. Nothing that happens before the write makes it wrong: no other check of this
/// account and address begins, and a withdrawal covers a shared verdict by the time at which it was found.
fn prepare_check(
    shared: &Shared,
    rows: &dyn Rows,
    check: &NewCheck,
    now: UnixMs,
) -> Result<Prepared<PreparedCheck, Begun>, StoreError> {
    let (vault, account) = (&shared.vault, check.hold.account);
    Ok(match Results(rows).known(vault, account, &check.address, shared.reuse, now)? {
        Known::Own(result) => Prepared::Done(Begun::Own(result)),
        Known::Shared(result) => {
            let record = ResultRecord { address: check.address, verdict: result.verdict.clone() };
            let sealed = results::seal(shared, account, record, result.checked_at, now)?;
            Prepared::Write(PreparedCheck::Shared(result, sealed))
        }
        Known::Nothing => {
            // Not after a credit is held: the key may be impossible to make.
            vault.prepare_for_result(now)?;
            Prepared::Write(PreparedCheck::New)
        }
    })
}
