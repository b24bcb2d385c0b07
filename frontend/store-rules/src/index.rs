//! API keys, the users of gateways, and the terms of their accounts in memory: the data that every request looks up. It
//! has exactly the committed data: the writer updates it after a commit and before the answer. So a revocation applies
//! as soon as it is answered.

use crate::gateways;
use crate::row::{Codec, In, Out, row};
use crate::tables::KeyRow;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use store::rate_limit::Overrides;
use store::{AccountId, KeyId};
use store::{KeyHash, KeyInfo, KeyLookup, PlanTable, Terms, UnixMs};

/// The shortest time between two writes of a key's last use.
const USE_STEP_MS: u64 = 60_000;

/// The API keys, the terms of accounts and the users of gateways, for all threads.
#[derive(Default)]
pub struct KeyIndex {
    keys: RwLock<Keys>,
}

#[derive(Default)]
struct Keys {
    by_hash: HashMap<KeyHash, Arc<IndexedKey>>,
    by_id: HashMap<KeyId, Arc<IndexedKey>>,
    /// The keys of each account that has any, oldest first.
    by_account: HashMap<AccountId, BTreeMap<KeyId, Arc<IndexedKey>>>,
    accounts: HashMap<AccountId, IndexedAccount>,
    /// Accounts by gateway and user.
    gateway_users: HashMap<String, HashMap<String, AccountId>>,
}

#[derive(Default)]
struct IndexedAccount {
    plan: String,
    overrides: Overrides,
}

struct IndexedKey {
    id: KeyId,
    row: KeyRow,
    revoked_at: AtomicU64,
    /// The last use that was written or is being written.
    last_used_at: AtomicU64,
}

/// A committed change of the index.
#[derive(Clone, PartialEq, Eq)]
pub enum KeyChange {
    Added(KeyId, KeyRow),
    Revoked(KeyId, UnixMs),
    /// A revoked or expired key was removed.
    Removed(KeyId),
    /// The account has this plan from now on.
    Plan(AccountId, String),
    /// The account has this name permanently. Only names of gateways' users are needed.
    Named(AccountId, String),
    /// The account has these limits of its own from now on.
    Overrides(AccountId, Overrides),
    /// The account is deleted: none of its keys is known any more.
    Closed(AccountId),
}

/// The encoding in which nodes tell each other of a change.
impl Codec for KeyChange {
    fn write(&self, out: &mut Out) {
        match self {
            KeyChange::Added(id, row) => out.all(&[&0_u8, id, row]),
            KeyChange::Revoked(id, at) => out.all(&[&1_u8, id, at]),
            KeyChange::Removed(id) => out.all(&[&2_u8, id]),
            KeyChange::Plan(id, plan) => out.all(&[&3_u8, id, plan]),
            KeyChange::Named(id, name) => out.all(&[&4_u8, id, name]),
            KeyChange::Overrides(id, own) => out.all(&[&5_u8, id, own]),
            KeyChange::Closed(id) => out.all(&[&6_u8, id]),
        }
    }

    fn read(input: &mut In<'_>) -> Option<KeyChange> {
        let (kind, id) = (input.byte()?, input.array()?);
        let (key, account) = (KeyId::from_bytes(id), AccountId::from_bytes(id));
        Some(match kind {
            0 => KeyChange::Added(key, Codec::read(input)?),
            1 => KeyChange::Revoked(key, Codec::read(input)?),
            2 => KeyChange::Removed(key),
            3 => KeyChange::Plan(account, Codec::read(input)?),
            4 => KeyChange::Named(account, Codec::read(input)?),
            5 => KeyChange::Overrides(account, Codec::read(input)?),
            6 => KeyChange::Closed(account),
            _ => return None,
        })
    }
}

row!("changes", KeyChange);

impl KeyIndex {
    /// Replaces the whole content.
    pub fn reload(&self, content: Vec<KeyChange>) {
        let fresh = KeyIndex::default();
        fresh.apply(content);
        let fresh = fresh.keys.into_inner().unwrap_or_else(PoisonError::into_inner);
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = fresh;
    }

    /// Applies the changes of a commit.
    pub fn apply(&self, changes: Vec<KeyChange>) {
        if changes.is_empty() {
            return;
        }
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        for change in changes {
            match change {
                KeyChange::Added(id, row) => keys.add(id, row),
                KeyChange::Revoked(id, at) => {
                    if let Some(key) = keys.by_id.get(&id) {
                        key.revoked_at.store(at, Ordering::Release);
                    }
                }
                KeyChange::Removed(id) => keys.remove(id),
                KeyChange::Plan(id, plan) => keys.accounts.entry(id).or_default().plan = plan,
                KeyChange::Named(id, name) => keys.name(id, &name),
                KeyChange::Overrides(id, own) => keys.accounts.entry(id).or_default().overrides = own,
                KeyChange::Closed(id) => keys.close(id),
            }
        }
    }

    /// The key with this hash, and its account.
    pub fn look_up(&self, hash: &KeyHash) -> Option<KeyLookup> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let key = keys.by_hash.get(hash)?;
        Some(KeyLookup {
            id: key.id,
            account: key.row.account,
            mode: key.row.mode,
            revoked: key.revoked_at.load(Ordering::Acquire) != 0,
            scopes: key.row.scopes,
            expires_at: some_time(key.row.expires_at),
        })
    }

    /// Whether the account has this key, and it is neither revoked nor expired.
    pub fn is_in_force(&self, id: KeyId, account: AccountId, now: UnixMs) -> bool {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        keys.by_id.get(&id).is_some_and(|key| {
            let is_expired = some_time(key.row.expires_at).is_some_and(|at| at <= now);
            key.row.account == account && key.revoked_at.load(Ordering::Acquire) == 0 && !is_expired
        })
    }

    /// The account's terms. Its plan is in the table: opening the store and changing a plan ensure that.
    pub fn terms(&self, account: AccountId, plans: &PlanTable) -> Option<Terms> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let IndexedAccount { plan, overrides } = keys.accounts.get(&account)?;
        let plan = plans.find(plan)?;
        Some(Terms {
            batches_allowed: plan.batches_allowed,
            limits: plan.limits.with(overrides),
            overrides: *overrides,
        })
    }

    /// The account of a gateway's user, if it exists and has this plan.
    pub fn gateway_account(&self, gateway: &str, user: &str, plan: &str) -> Option<AccountId> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let id = keys.gateway_users.get(gateway)?.get(user)?;
        (keys.accounts.get(id)?.plan == plan).then_some(*id)
    }

    /// The number of users of a gateway.
    pub fn gateway_users(&self, gateway: &str) -> usize {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        keys.gateway_users.get(gateway).map_or(0, HashMap::len)
    }

    /// The keys of an account, oldest first.
    pub fn of_account(&self, account: AccountId) -> Vec<KeyInfo> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let of_account = keys.by_account.get(&account);
        of_account.into_iter().flat_map(BTreeMap::values).map(|key| key.info()).collect()
    }

    /// Whether this use must be written; true once in `USE_STEP_MS` for each key.
    pub fn note_use(&self, id: KeyId, now: UnixMs) -> bool {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let Some(key) = keys.by_id.get(&id) else { return false };
        let last = key.last_used_at.load(Ordering::Relaxed);
        (last == 0 || now >= last.saturating_add(USE_STEP_MS))
            && key.last_used_at.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl Keys {
    fn add(&mut self, id: KeyId, row: KeyRow) {
        let key = Arc::new(IndexedKey {
            id,
            revoked_at: AtomicU64::new(row.revoked_at),
            last_used_at: AtomicU64::new(row.last_used_at),
            row,
        });
        self.by_hash.insert(key.row.hash, Arc::clone(&key));
        self.by_account.entry(key.row.account).or_default().insert(id, Arc::clone(&key));
        self.by_id.insert(id, key);
    }

    fn remove(&mut self, id: KeyId) {
        let Some(key) = self.by_id.remove(&id) else { return };
        self.by_hash.remove(&key.row.hash);
        if let Some(of_account) = self.by_account.get_mut(&key.row.account) {
            of_account.remove(&id);
        }
    }

    fn close(&mut self, id: AccountId) {
        for key in self.by_account.remove(&id).into_iter().flat_map(BTreeMap::into_values) {
            self.by_hash.remove(&key.row.hash);
            self.by_id.remove(&key.id);
        }
        self.accounts.remove(&id);
        for users in self.gateway_users.values_mut() {
            users.retain(|_, account| *account != id);
        }
    }

    fn name(&mut self, id: AccountId, name: &str) {
        if let Some((gateway, user)) = gateways::split_name(name) {
            self.gateway_users.entry(gateway.to_owned()).or_default().insert(user.to_owned(), id);
        }
    }
}

impl IndexedKey {
    fn info(&self) -> KeyInfo {
        let row = KeyRow {
            revoked_at: self.revoked_at.load(Ordering::Acquire),
            last_used_at: self.last_used_at.load(Ordering::Relaxed),
            ..self.row.clone()
        };
        key_info(self.id, &row)
    }
}

/// A key as it is shown in lists.
pub(crate) fn key_info(id: KeyId, row: &KeyRow) -> KeyInfo {
    KeyInfo {
        id,
        account: row.account,
        mode: row.mode,
        last4: String::from_utf8_lossy(&row.last4).into_owned(),
        label: row.label.clone(),
        created_at: row.created_at,
        revoked_at: some_time(row.revoked_at),
        last_used_at: some_time(row.last_used_at),
        scopes: row.scopes,
        expires_at: some_time(row.expires_at),
    }
}

fn some_time(at: UnixMs) -> Option<UnixMs> {
    (at != 0).then_some(at)
}
