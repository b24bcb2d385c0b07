//! Every table and every row of the file, and nothing else. docs/storage.md describes them for people; a change here
//! is a change of the format and needs a step in migrations.rs.

use super::row::{In, Out, Row};
use super::types::{EntryKind, KeyHash, KeyMode, SubscriptionStatus, UnixMs};
use super::{AccountId, EntryId, HoldRef};
use crate::credits::{Balance, Portions, Step, Subscription};
use ::redb::{Key, TableDefinition, Value};

/// Facts about the file, by name.
pub(super) const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
/// Accounts with their balances, by id.
pub(super) const ACCOUNTS: TableDefinition<&[u8; 16], &[u8]> = TableDefinition::new("accounts");
/// Account ids by name.
pub(super) const NAMES: TableDefinition<&str, &[u8; 16]> = TableDefinition::new("names");
/// API keys, by id.
pub(super) const KEYS: TableDefinition<&[u8; 16], &[u8]> = TableDefinition::new("keys");
/// Holds without an answer, by account and hold.
pub(super) const HOLDS: TableDefinition<&[u8; 32], &[u8]> = TableDefinition::new("holds");
/// What happened to credits, by account and entry; append-mostly within an account, as ids begin with their time.
pub(super) const LEDGER: TableDefinition<&[u8; 32], &[u8]> = TableDefinition::new("ledger");

/// The name in [`META`] of the format's number.
pub(super) const META_FORMAT: &str = "format";

/// The format that this version writes.
pub(super) const FORMAT: u32 = 1;

/// What is to be done with every table, whatever its types.
pub(super) trait TableVisitor {
    /// Why it was not done.
    type Error;

    /// Does it with one.
    fn table<K: Key + 'static, V: Value + 'static>(
        &mut self,
        definition: TableDefinition<'static, K, V>,
    ) -> Result<(), Self::Error>;
}

/// All tables, one after another. Backups are made by it: a table that is missing here is missing there.
pub(super) fn for_each_table<T: TableVisitor>(visitor: &mut T) -> Result<(), T::Error> {
    visitor.table(META)?;
    visitor.table(ACCOUNTS)?;
    visitor.table(NAMES)?;
    visitor.table(KEYS)?;
    visitor.table(HOLDS)?;
    visitor.table(LEDGER)
}

/// Key of [`HOLDS`] and [`LEDGER`].
pub(super) fn entry_key(account: AccountId, id: EntryId) -> [u8; 32] {
    let mut key = [0; 32];
    key[..16].copy_from_slice(&account.to_bytes());
    key[16..].copy_from_slice(&id.to_bytes());
    key
}

/// The inverse of [`entry_key`].
pub(super) fn split_entry_key(key: &[u8; 32]) -> HoldRef {
    let (mut account, mut id) = ([0; 16], [0; 16]);
    account.copy_from_slice(&key[..16]);
    id.copy_from_slice(&key[16..]);
    HoldRef { account: AccountId::from_bytes(account), id: EntryId::from_bytes(id) }
}

/// All keys of one account.
pub(super) fn account_range(account: AccountId) -> std::ops::RangeInclusive<[u8; 32]> {
    entry_key(account, EntryId::from_bytes([0; 16]))..=entry_key(account, EntryId::from_bytes([0xff; 16]))
}

/// The id of the entry that carries what was too old to keep: before any other of its account.
pub(super) fn carried_id() -> EntryId {
    EntryId::from_bytes([0; 16])
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AccountRow {
    pub name: String,
    pub plan: String,
    pub subscription: Subscription,
    /// How many entries the store has made of itself, for their ids.
    pub serial: u64,
}

impl Row for AccountRow {
    const TABLE: &'static str = "accounts";

    fn write(&self, out: &mut Out) {
        let Subscription { status, cancel_at_period_end, start, period, renewed, balance } =
            self.subscription;
        out.byte(match status {
            SubscriptionStatus::Active => 0,
            SubscriptionStatus::PastDue => 1,
            SubscriptionStatus::Paused => 2,
            SubscriptionStatus::Canceled => 3,
        });
        out.byte(u8::from(cancel_at_period_end) | u8::from(renewed) << 1);
        out.number(start);
        out.number(u64::from(period));
        write_balance(&balance, out);
        out.number(self.serial);
        out.text(&self.plan);
        out.text(&self.name);
    }

    fn read(input: &mut In<'_>) -> Option<AccountRow> {
        let status = match input.byte()? {
            0 => SubscriptionStatus::Active,
            1 => SubscriptionStatus::PastDue,
            2 => SubscriptionStatus::Paused,
            3 => SubscriptionStatus::Canceled,
            _ => return None,
        };
        let flags = input.byte().filter(|&flags| flags < 4)?;
        let subscription = Subscription {
            status,
            cancel_at_period_end: flags & 1 != 0,
            renewed: flags & 2 != 0,
            start: input.number()?,
            period: u32::try_from(input.number()?).ok()?,
            balance: read_balance(input)?,
        };
        Some(AccountRow { subscription, serial: input.number()?, plan: input.text()?, name: input.text()? })
    }
}

fn write_balance(balance: &Balance, out: &mut Out) {
    let Balance { allowance, plan_left, plan_spent, plan_held, pack_left, held, granted, spent, expired } =
        *balance;
    for number in [allowance, plan_left, plan_spent, plan_held, pack_left, held, granted, spent, expired] {
        out.number(number);
    }
}

fn read_balance(input: &mut In<'_>) -> Option<Balance> {
    Some(Balance {
        allowance: input.number()?,
        plan_left: input.number()?,
        plan_spent: input.number()?,
        plan_held: input.number()?,
        pack_left: input.number()?,
        held: input.number()?,
        granted: input.number()?,
        spent: input.number()?,
        expired: input.number()?,
    })
}

#[derive(Clone, PartialEq, Eq)]
pub(super) struct KeyRow {
    pub account: AccountId,
    pub mode: KeyMode,
    pub hash: KeyHash,
    pub last4: [u8; 4],
    pub created_at: UnixMs,
    /// 0: it was not.
    pub revoked_at: UnixMs,
    /// 0: never.
    pub last_used_at: UnixMs,
    pub label: String,
}

impl Row for KeyRow {
    const TABLE: &'static str = "keys";

    fn write(&self, out: &mut Out) {
        out.bytes(&self.account.to_bytes());
        out.byte(match self.mode {
            KeyMode::Live => 0,
            KeyMode::Test => 1,
        });
        out.bytes(&self.hash);
        out.bytes(&self.last4);
        out.number(self.created_at);
        out.number(self.revoked_at);
        out.number(self.last_used_at);
        out.text(&self.label);
    }

    fn read(input: &mut In<'_>) -> Option<KeyRow> {
        Some(KeyRow {
            account: AccountId::from_bytes(input.array()?),
            mode: match input.byte()? {
                0 => KeyMode::Live,
                1 => KeyMode::Test,
                _ => return None,
            },
            hash: input.array()?,
            last4: input.array()?,
            created_at: input.number()?,
            revoked_at: input.number()?,
            last_used_at: input.number()?,
            label: input.text()?,
        })
    }
}

impl Row for Portions {
    const TABLE: &'static str = "holds";

    fn write(&self, out: &mut Out) {
        out.number(self.plan);
        out.number(self.pack);
        out.number(u64::from(self.period));
    }

    fn read(input: &mut In<'_>) -> Option<Portions> {
        Some(Portions {
            plan: input.number()?,
            pack: input.number()?,
            period: u32::try_from(input.number()?).ok()?,
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EntryRow {
    pub kind: EntryKind,
    pub at: UnixMs,
    pub step: Step,
    pub note: String,
}

impl Row for EntryRow {
    const TABLE: &'static str = "ledger";

    fn write(&self, out: &mut Out) {
        out.byte(match self.kind {
            EntryKind::Period => 0,
            EntryKind::PlanChange => 1,
            EntryKind::Pack => 2,
            EntryKind::Settled => 3,
            EntryKind::Voided => 4,
            EntryKind::Carried => 5,
        });
        out.number(self.at);
        out.number(self.step.granted);
        out.number(self.step.spent);
        out.number(self.step.expired);
        out.text(&self.note);
    }

    fn read(input: &mut In<'_>) -> Option<EntryRow> {
        let kind = match input.byte()? {
            0 => EntryKind::Period,
            1 => EntryKind::PlanChange,
            2 => EntryKind::Pack,
            3 => EntryKind::Settled,
            4 => EntryKind::Voided,
            5 => EntryKind::Carried,
            _ => return None,
        };
        let at = input.number()?;
        let step = Step { granted: input.number()?, spent: input.number()?, expired: input.number()? };
        Some(EntryRow { kind, at, step, note: input.text()? })
    }
}
