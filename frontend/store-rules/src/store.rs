//! The methods of [`Store`], over any database.

mod lists;
mod web;
mod webhooks;

use crate::accounts::view_account;
use crate::backend::{Backend, Class, Job, Lock, Prepared, Want};
use crate::batches::{self, Batches};
use crate::connections::{read_connection, view, view_client};
use crate::ledger::HoldEnd;
use crate::results::{self, Results, SHARED_SCAN_MAX, SealedResult, results_of};
use crate::rows::{Rows, Table, Walk};
use crate::shared::Shared;
use crate::tables::{
    ACCOUNTS, AccountRow, CLIENTS, CONNECTIONS, LEDGER, NAMES, SecretKind, TOKENS, account_range, batch_key,
    connection_key, day_key, entry_key, result_key, split, split_entry_key, window_key,
};
use crate::txn::{Txn, find_plan, read_account};
use crate::write_error::{WriteError, refuse};
use crate::{audit, clock_check, days, deletion, limits, refusals};
use engine::KeptRefusals;
use engine::proto::sharing::ShareUse;
use std::io::Write;
use std::ops::{Bound, Deref};
use std::sync::Arc;
use store::backup::{BackupError, BackupSummary, Sizes};
use store::credits::Balance;
use store::rate_limit::{Kept, Leased, Overrides, WindowId};
use store::*;

/// A node is not ready if its clock differs this much from the database's.
const CLOCK_OFF_MS: u64 = 2_000;

/// The store over one kind of database.
pub struct RowStore<B>(pub B);

impl<B> Deref for RowStore<B> {
    type Target = B;

    fn deref(&self) -> &B {
        &self.0
    }
}

/// The fault of this machine's clock, and its remedy, if the database's clock is ahead of it by so much that the node is not ready.
pub fn clock_fault(ahead_ms: i64) -> Option<String> {
    let way = if ahead_ms > 0 { "behind" } else { "ahead of" };
    let seconds = ahead_ms.unsigned_abs() / 1000;
    let fault = || format!("the clock of this machine is {seconds} s {way} that of the database: correct it");
    (ahead_ms.unsigned_abs() >= CLOCK_OFF_MS).then(fault)
}

/// What is known of a check's address before its write.
enum PreparedCheck {
    Shared(StoredResult, SealedResult),
    New,
}

impl<B: Backend> RowStore<B> {
    /// Queues a change of an account, or of its keys and limits, which the index of keys has.
    fn change<T: Send + 'static>(
        &self,
        account: AccountId,
        work: impl Fn(&mut Txn<'_>) -> Result<T, WriteError<ChangeError>> + Send + 'static,
    ) -> Pending<T, ChangeError> {
        self.write(Job::of(account, Class::New).with_lock(Lock::Index), work)
    }
}

/// The wants of a write that opens an account and uses an id.
fn want_entry(hold: HoldRef, out: &mut Vec<Want>) {
    let key = entry_key(hold.account, hold.id);
    out.push(Want::Row(Table::Accounts, hold.account.to_bytes().to_vec()));
    out.push(Want::Row(Table::Ledger, key.to_vec()));
    out.push(Want::Row(Table::Holds, key.to_vec()));
}

/// The wants of a look at what is known of an address.
fn want_known(account: AccountId, address: &AddressHash, out: &mut Vec<Want>) {
    out.push(Want::Peek(Table::Results, result_key(address, account).to_vec()));
    let (from, to) = results_of(address).into_inner();
    let (from, to) = (from.to_vec(), to.to_vec());
    out.push(Want::Range { table: Table::Results, from, to, backwards: false, most: SHARED_SCAN_MAX });
}

fn want(table: Table, key: &[u8], out: &mut Vec<Want>) {
    out.push(Want::Row(table, key.to_vec()));
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
            let record = ResultRecord { address: check.address, verdict: result.verdict };
            let sealed = results::seal(vault, account, record, result.checked_at, now)?;
            Prepared::Write(PreparedCheck::Shared(result, sealed))
        }
        Known::Nothing => {
            // Not after a credit is held: the key may be impossible to make.
            vault.prepare_for_result(now)?;
            Prepared::Write(PreparedCheck::New)
        }
    })
}

fn view_at(shared: &Shared, id: AccountId, mut row: AccountRow, now: UnixMs) -> Result<Account, StoreError> {
    let plans = shared.plans.get();
    let plan = find_plan(&plans, &row)?;
    row.subscription.roll(plan, shared.clock_check.of_periods(now));
    Ok(view_account(id, &row, plan))
}

impl<B: Backend> Store for RowStore<B> {
    fn plans(&self) -> Arc<PlanTable> {
        self.shared().plans.get()
    }

    fn replace_plans(&self, plans: PlanTable) -> Result<(), OpenError> {
        self.0.replace_plans(plans)
    }

    fn health(&self) -> Result<(), StoreError> {
        self.0.health()?;
        self.shared().vault.health()
    }

    fn readiness(&self) -> Result<(), StoreError> {
        self.health()?;
        clock_fault(self.0.clock_ahead()).map_or(Ok(()), |fault| Err(StoreError::Away(fault)))
    }

    fn account(&self, id: AccountId, now: UnixMs) -> Pending<Option<Account>, StoreError> {
        self.read(None, move |shared, rows| {
            read_account(rows, id)?.map(|row| view_at(shared, id, row, now)).transpose()
        })
    }

    fn account_named(&self, name: &str, now: UnixMs) -> Pending<Option<Account>, StoreError> {
        let name = name.to_owned();
        self.read(None, move |shared, rows| {
            let Some(id) = NAMES.get(rows, name.as_str())? else { return Ok(None) };
            read_account(rows, id)?.map(|row| view_at(shared, id, row, now)).transpose()
        })
    }

    fn accounts(
        &self,
        after: Option<AccountId>,
        limit: usize,
        now: UnixMs,
    ) -> Pending<Vec<Account>, StoreError> {
        self.read(None, move |shared, rows| {
            let start = after.map_or(Bound::Unbounded, |id| Bound::Excluded(id.to_bytes()));
            let mut page = Vec::new();
            ACCOUNTS.walk(rows, (start, Bound::Unbounded), limit, |id, row| {
                page.push(view_at(shared, AccountId::from_bytes(id), row, now));
                Walk::On
            })?;
            page.into_iter().collect()
        })
    }

    fn create_account(&self, new: NewAccount, now: UnixMs) -> Pending<Account, ChangeError> {
        self.change(new.id, move |txn| txn.create_account(&new, now))
    }

    fn set_plan(&self, id: AccountId, plan: String, now: UnixMs) -> Pending<Account, ChangeError> {
        self.change(id, move |txn| txn.set_plan(id, &plan, now))
    }

    fn set_status(
        &self,
        id: AccountId,
        status: SubscriptionStatus,
        now: UnixMs,
    ) -> Pending<Account, ChangeError> {
        self.write(Job::of(id, Class::New), move |txn| txn.set_status(id, status, now))
    }

    fn set_cancel_at_period_end(
        &self,
        id: AccountId,
        cancel: bool,
        now: UnixMs,
    ) -> Pending<Account, ChangeError> {
        self.write(Job::of(id, Class::New), move |txn| txn.set_cancel_at_period_end(id, cancel, now))
    }

    fn grant(&self, grant: Grant, now: UnixMs) -> Pending<Account, ChangeError> {
        self.write(Job::of(grant.account, Class::New), move |txn| txn.grant(&grant, now))
    }

    fn first_run(&self, first: FirstRun, now: UnixMs) -> Pending<Option<Account>, ChangeError> {
        self.change(first.account.id, move |txn| txn.first_run(&first, now))
    }

    fn gateway_account(&self, gateway: &str, user: &str, plan: &str) -> Option<AccountId> {
        self.shared().index.gateway_account(gateway, user, plan)
    }

    fn open_gateway_account(&self, user: GatewayUser, now: UnixMs) -> Pending<Account, ChangeError> {
        self.change(user.id, move |txn| txn.open_gateway_account(&user, now))
    }

    fn close_account(&self, id: AccountId, by: Authority, now: UnixMs) -> Pending<(), ChangeError> {
        self.change(id, move |txn| txn.close_account(id, &by, now))
    }

    fn closed_accounts(&self) -> Pending<Vec<AccountId>, StoreError> {
        self.read(None, |_, rows| deletion::deleted_accounts(rows))
    }

    fn delete_step(&self, id: AccountId, now: UnixMs) -> Pending<DeletionStep, StoreError> {
        let finishing_key = match batches::finishing_key(&self.shared().vault, now) {
            Ok(key) => key,
            Err(error) => return Pending::ready(Err(error)),
        };
        self.write(Job::of(id, Class::Answer), move |txn| Ok(txn.delete_step(id, &finishing_key, now)?))
    }

    fn key_by_hash(&self, hash: &KeyHash) -> Option<KeyLookup> {
        self.shared().index.look_up(hash)
    }

    fn is_key_in_force(&self, id: KeyId, account: AccountId, now: UnixMs) -> bool {
        self.shared().index.is_in_force(id, account, now)
    }

    fn keys(&self, account: AccountId) -> Pending<Vec<KeyInfo>, StoreError> {
        Pending::of(|| Ok(self.shared().index.of_account(account)))
    }

    fn create_key(&self, new: NewKey, by: Authority, now: UnixMs) -> Pending<KeyInfo, ChangeError> {
        self.change(new.account, move |txn| txn.create_key(&new, &by, now))
    }

    fn revoke_key(&self, id: KeyId, now: UnixMs) -> Pending<KeyInfo, ChangeError> {
        let job = Job::general(Class::New).with_lock(Lock::Index);
        self.write(job, move |txn| txn.revoke_key(id, now))
    }

    fn key_used(&self, id: KeyId, now: UnixMs) {
        if !self.is_crowded() && self.shared().index.note_use(id, now) {
            // No caller waits for it, and a lost record is repeated at the next use.
            drop(self.write(Job::general(Class::New), move |txn| -> Result<(), WriteError<StoreError>> {
                Ok(txn.note_key_use(id, now)?)
            }));
        }
    }

    fn terms(&self, account: AccountId) -> Option<Terms> {
        self.shared().index.terms(account, &self.shared().plans.get())
    }

    fn set_overrides(
        &self,
        account: AccountId,
        reset: bool,
        set: Overrides,
    ) -> Pending<Overrides, ChangeError> {
        self.change(account, move |txn| txn.set_overrides(account, reset, &set))
    }

    fn lease_permits(&self, id: WindowId, limit: u32, want: u32, now: UnixMs) -> Pending<Leased, StoreError> {
        let job = Job::general(Class::New).with_wants(move |out| {
            out.push(Want::Row(Table::Windows, window_key(&id).to_vec()));
        });
        self.write(job, move |txn| Ok(txn.lease_permits(id, limit, want, now)?))
    }

    fn live_nodes(&self) -> u32 {
        self.0.live_nodes()
    }

    fn place(&self) -> NodePlace {
        self.0.place()
    }

    fn keep_counters(&self, changed: Kept) -> Pending<(), StoreError> {
        self.write(Job::general(Class::New), move |txn| Ok(txn.keep_counters(&changed)?))
    }

    fn kept_counters(&self) -> Pending<Kept, StoreError> {
        self.scan(|_, rows| limits::read_counters(rows))
    }

    fn installation(&self) -> [u8; 32] {
        self.shared().vault.derive("installation")
    }

    fn keep_refusals(&self, changed: Vec<KeptRefusals>) -> Pending<(), StoreError> {
        self.write(Job::general(Class::New), move |txn| Ok(txn.keep_refusals(&changed)?))
    }

    fn forget_refusals(&self, keys: Vec<u64>, now: UnixMs) -> Pending<(), StoreError> {
        self.write(Job::general(Class::New), move |txn| Ok(txn.forget_refusals(&keys, now)?))
    }

    fn kept_refusals(&self) -> Pending<Vec<KeptRefusals>, StoreError> {
        self.scan(|_, rows| refusals::read_refusals(rows))
    }

    fn withdraw(&self, evidence: Vec<u64>, now: UnixMs) -> Pending<(), StoreError> {
        self.write(Job::general(Class::New), move |txn| Ok(txn.withdraw(&evidence, now)?))
    }

    fn hold(&self, request: HoldRequest, now: UnixMs) -> Pending<Balance, HoldError> {
        if let Err(error) = self.shared().vault.prepare_for_result(now) {
            return Pending::ready(Err(error.into()));
        }
        let hold = request.hold;
        let job = Job::of(hold.account, Class::New).with_wants(move |out| want_entry(hold, out));
        self.write(job, move |txn| txn.hold(request, now))
    }

    fn settle(&self, hold: HoldRef, with: Settlement, now: UnixMs) -> Pending<Balance, SettleError> {
        let seal = |record| results::seal(&self.shared().vault, hold.account, record, now, now);
        let result = match with.result.map(seal).transpose() {
            Ok(result) => result,
            Err(error) => return Pending::ready(Err(error.into())),
        };
        let (key, has_nodes) = (result.as_ref().map(|result| result.key), self.shared().has_nodes);
        let job = Job::of(hold.account, Class::Answer).with_wants(move |out| {
            want_entry(hold, out);
            if let Some(key) = key {
                want(Table::Results, &key, out);
                if has_nodes {
                    want(Table::UnderWay, &key, out);
                }
                want(Table::Days, &day_key(hold.account, days::day(now)), out);
            }
        });
        self.write(job, move |txn| txn.settle(hold, result.as_ref(), now))
    }

    fn void(&self, hold: HoldRef, now: UnixMs) -> Pending<Balance, SettleError> {
        let job = Job::of(hold.account, Class::Answer).with_wants(move |out| want_entry(hold, out));
        self.write(job, move |txn| txn.end_hold(hold, HoldEnd::Void, now))
    }

    fn hash_address(&self, canonical: &str) -> AddressHash {
        AddressHash(self.shared().vault.hash("address", &[canonical.as_bytes()]))
    }

    fn known(&self, account: AccountId, address: &AddressHash, now: UnixMs) -> Pending<Known, StoreError> {
        let address = *address;
        self.read(Some(Box::new(move |out| want_known(account, &address, out))), move |shared, rows| {
            Results(rows).known(&shared.vault, account, &address, shared.reuse, now)
        })
    }

    fn known_many(
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

    fn begin_check(&self, check: NewCheck, now: UnixMs) -> Pending<Begun, AttemptError> {
        let NewCheck { hold, connection, address, fair_use, by } = check;
        let has_nodes = self.shared().has_nodes;
        let job = Job::of(hold.account, Class::New).with_wants(move |out| {
            want_entry(hold, out);
            want_known(hold.account, &address, out);
            if has_nodes {
                want(Table::UnderWay, &result_key(&address, hold.account), out);
            }
            if fair_use.is_some() {
                want(Table::FairUse, &hold.account.to_bytes(), out);
            }
            if let Some(id) = connection {
                want(Table::Connections, &connection_key(hold.account, id), out);
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
                    charged.map_or(Begun::UnderWay, |balance| Begun::Charged(*result, balance))
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

    fn create_batch(&self, new: NewBatch, by: Authority, now: UnixMs) -> Pending<BatchCreated, BatchError> {
        let account = new.account;
        let prepare = move |shared: &Shared, rows: &dyn Rows| {
            batches::prepare(Results(rows), &shared.vault, &new, None, now).map(Prepared::Write)
        };
        self.write_prepared(Job::of(account, Class::New), prepare, move |txn, batch| {
            txn.check_caller(account, &by, now).map_err(|error| error.map(BatchError::from))?;
            txn.create_batch(batch, now)
        })
    }

    fn open_batches(&self) -> Pending<Vec<OpenBatch>, StoreError> {
        self.scan(|_, rows| Batches(rows).open_batches())
    }

    fn claim_batches(&self, most: usize) -> Pending<Vec<OpenBatch>, StoreError> {
        self.0.claim_batches(most)
    }

    fn has_nodes(&self) -> bool {
        self.shared().has_nodes
    }

    fn may_work(&self) -> bool {
        self.0.may_work()
    }

    fn unanswered(&self, batch: BatchId) -> Pending<Vec<OpenRow>, StoreError> {
        self.read(None, move |shared, rows| Batches(rows).unanswered(&shared.vault, batch))
    }

    fn answer_rows(&self, answers: Vec<RowAnswer>, now: UnixMs) -> Pending<Vec<BatchId>, StoreError> {
        let job = Job::general(Class::Answer);
        let prepare = move |shared: &Shared, rows: &dyn Rows| {
            Batches(rows).prepare(&shared.vault, &answers, now).map(Prepared::Write)
        };
        self.write_prepared(job, prepare, move |txn, answers| Ok(txn.answer_rows(answers, now)?))
    }

    fn batch(&self, account: AccountId, id: BatchId, now: UnixMs) -> Pending<Option<BatchView>, StoreError> {
        let wants = move |out: &mut Vec<Want>| {
            let key = batch_key(account, id);
            out.push(Want::Peek(Table::Batches, key.to_vec()));
            out.push(Want::Peek(Table::BatchRows, key.to_vec()));
        };
        self.read(Some(Box::new(wants)), move |shared, rows| {
            batches::view(rows, &shared.vault, account, id, now)
        })
    }

    fn batches(
        &self,
        account: AccountId,
        after: Option<BatchId>,
        limit: usize,
        now: UnixMs,
    ) -> Pending<BatchPage, StoreError> {
        self.read(None, move |shared, rows| batches::page(rows, &shared.vault, account, after, limit, now))
    }

    fn cancel_batch(
        &self,
        account: AccountId,
        id: BatchId,
        now: UnixMs,
    ) -> Pending<Option<BatchView>, StoreError> {
        let finishing_key = match batches::finishing_key(&self.shared().vault, now) {
            Ok(key) => key,
            Err(error) => return Pending::ready(Err(error)),
        };
        let job = Job::of(account, Class::New).with_wants(move |out| {
            let key = batch_key(account, id);
            want(Table::Batches, &key, out);
            want(Table::BatchRows, &key, out);
        });
        self.write(job, move |txn| Ok(txn.cancel_batch(account, id, &finishing_key, now)?))
    }

    fn still_open(&self, batches: Vec<BatchId>) -> Pending<Vec<BatchId>, StoreError> {
        self.read(None, move |_, rows| Batches(rows).still_open(&batches))
    }

    fn purge(&self, now: UnixMs) -> Pending<Purged, StoreError> {
        let shared = self.shared();
        // Rows are removed even if a key file cannot be created or destroyed: that must not fail a write.
        let prepared = shared.vault.prepare(now);
        if !shared.clock_check.removes(now) {
            return Pending::ready(prepared.map(|()| Purged::default()));
        }
        let finishing_key = batches::finishing_key(&shared.vault, now).ok();
        self.write(Job::general(Class::Answer), move |txn| {
            clock_check::note(txn.rows, now)?;
            let purged = txn.purge(finishing_key.as_ref(), now)?;
            let expired = txn.shared.vault.expire(now);
            // The tables are in order whatever the key files are.
            match prepared.clone().and(expired) {
                Ok(vault_keys) => Ok(Purged { vault_keys, ..purged }),
                Err(error) => refuse(error),
            }
        })
    }

    fn entries(&self, account: AccountId, limit: usize) -> Pending<Vec<Entry>, StoreError> {
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

    fn audit(&self, account: Option<AccountId>) -> Pending<Audit, StoreError> {
        self.scan(move |_, rows| audit::audit(rows, account))
    }

    fn backup(&self, sink: &mut dyn Write, now: UnixMs) -> Result<BackupSummary, BackupError> {
        self.0.backup(sink, now)
    }

    fn sizes(&self) -> Pending<Sizes, StoreError> {
        self.0.sizes()
    }

    fn figures(&self) -> StoreFigures {
        self.0.figures()
    }

    fn shares(&self) -> Vec<Arc<ShareUse>> {
        self.shared().disk.figures().into_iter().collect()
    }
}

impl<B: Backend> Connections for RowStore<B> {
    fn register_client(&self, new: NewClient, now: UnixMs) -> Pending<Client, ConnectError> {
        let job = Job::general(Class::New).with_lock(Lock::Clients);
        self.write(job, move |txn| txn.register_client(&new, now))
    }

    fn client(&self, id: ClientId, now: UnixMs) -> Pending<Option<Client>, StoreError> {
        self.read(None, move |_, rows| {
            let row = CLIENTS.get(rows, &id.to_bytes())?.filter(|row| now < row.expires_at);
            Ok(row.map(|row| view_client(id, row)))
        })
    }

    fn consent(&self, new: NewConnection, by: Authority, now: UnixMs) -> Pending<(), ConnectError> {
        self.write(Job::of(new.account, Class::New), move |txn| txn.consent(&new, &by, now))
    }

    fn redeem(&self, redemption: Redemption, now: UnixMs) -> Pending<Granted, GrantError> {
        self.if_known(redemption.code, move |txn| txn.redeem(&redemption, now))
    }

    fn renew(&self, renewal: Renewal, now: UnixMs) -> Pending<Granted, GrantError> {
        self.if_known(renewal.family, move |txn| txn.renew(&renewal, now))
    }

    fn connection_of(&self, access: &SecretHash, now: UnixMs) -> Pending<Option<Connection>, StoreError> {
        let access = *access;
        self.read(None, move |_, rows| {
            let secret = TOKENS.get(rows, &access)?;
            let is_valid = |kind, until| kind == SecretKind::Access && now < until;
            let Some(secret) = secret.filter(|row| is_valid(row.kind, row.expires_at)) else {
                return Ok(None);
            };
            let row = read_connection(rows, secret.account, secret.connection, now)?;
            Ok(row.map(|row| view(secret.account, secret.connection, row)))
        })
    }

    fn connections(&self, account: AccountId, now: UnixMs) -> Pending<Vec<Connection>, StoreError> {
        self.read(None, move |_, rows| {
            let mut found = Vec::new();
            CONNECTIONS.walk_back(rows, account_range(account), usize::MAX, |key, row| {
                if row.tokens.is_some() && now < row.expires_at {
                    found.push(view(account, ConnectionId::from_bytes(split(&key).1), row));
                }
                Walk::On
            })?;
            Ok(found)
        })
    }

    fn end_connection(&self, account: AccountId, id: ConnectionId) -> Pending<(), GrantError> {
        self.write(Job::of(account, Class::New), move |txn| {
            if txn.end_connection(account, id)? { Ok(()) } else { refuse(GrantError::Unknown) }
        })
    }

    fn give_back(&self, secret: SecretHash, client: String) -> Pending<(), GrantError> {
        self.if_known(secret, move |txn| txn.give_back(secret, &client))
    }
}

impl<B: Backend> RowStore<B> {
    /// Queues a write about a secret if the secret exists.
    fn if_known<T: Send + 'static>(
        &self,
        secret: SecretHash,
        work: impl Fn(&mut Txn<'_>) -> Result<T, WriteError<GrantError>> + Send + 'static,
    ) -> Pending<T, GrantError> {
        let prepare = move |_: &Shared, rows: &dyn Rows| match TOKENS.has(rows, &secret)? {
            true => Ok(Prepared::Write(())),
            false => Err(GrantError::Unknown),
        };
        self.write_prepared(Job::general(Class::New), prepare, move |txn, ()| work(txn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_wrong_from_two_seconds_on() {
        for (ahead, expected) in [
            (0, None),
            (1_999, None),
            (-1_999, None),
            (2_000, Some("2 s behind that")),
            (-3_500, Some("3 s ahead of that")),
            (i64::MIN, Some("ahead of that")),
        ] {
            let fault = clock_fault(ahead);
            assert_eq!(fault.is_some(), expected.is_some(), "{ahead}");
            assert!(fault.zip(expected).is_none_or(|(fault, part)| fault.contains(part)), "{ahead}");
        }
    }
}
