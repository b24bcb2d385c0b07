//! Results of addresses: found by the keyed hash of the address, the reason sealed.
//!
//! Sealing and opening happen on the caller's thread; the writer moves bytes.

use super::reason;
use super::row::Row;
use super::tables::{Expiring, ResultRow, expiry_key, join, result_key};
use super::txn::Txn;
use super::types::{AddressHash, Known, ResultRecord, StoredResult, UnixMs, retention};
use super::types::{REPEAT_MS, RETENTION_SHORT_MS};
use super::vault::{Place, Vault};
use super::{AccountId, StoreError};
use ::redb::ReadableTable;

/// How many accounts' results of one address are looked at for one to share. More are of an address that all the
/// world asks for, and say the same.
const SHARED_SCAN_MAX: usize = 32;

/// A result that is ready to be written.
pub(super) struct SealedResult {
    key: [u8; 32],
    row: ResultRow,
    /// The code of the reason, for what is counted of it.
    pub code: u8,
}

fn place(key: &[u8; 32]) -> Place<'_> {
    Place { table: ResultRow::TABLE, row: key }
}

/// Seals the record of an account. `verdict_at` is `now` for a fresh verdict, and earlier for one that is used again.
pub(super) fn seal(
    vault: &Vault,
    account: AccountId,
    record: ResultRecord,
    verdict_at: UnixMs,
    now: UnixMs,
) -> Result<SealedResult, StoreError> {
    let key = result_key(&record.address, account);
    let short = retention(record.reason) == RETENTION_SHORT_MS;
    let mut row = ResultRow { short, checked_at: now, verdict_at, sealed: Vec::new() };
    let sealing_key = vault.sealing_key(row.class(), row.expires_at())?;
    let code = reason::code(record.reason);
    row.sealed = sealing_key.seal(place(&key), &[code])?;
    Ok(SealedResult { key, row, code })
}

/// The reason of a row; `None` when its key is gone.
fn open(vault: &Vault, key: &[u8; 32], row: &ResultRow) -> Option<api::Reason> {
    let opening_key = vault.opening_key(row.class(), row.expires_at())?;
    let plain = opening_key.open(place(key), &row.sealed)?;
    reason::of_code(*plain.first()?)
}

/// The table of results, of a read or a write transaction.
pub(super) trait ResultTable: ReadableTable<&'static [u8; 32], &'static [u8]> {}
impl<T: ReadableTable<&'static [u8; 32], &'static [u8]>> ResultTable for T {}

/// The account's own result of the last 24 hours.
pub(super) fn own(
    results: &impl ResultTable,
    vault: &Vault,
    account: AccountId,
    address: &AddressHash,
    now: UnixMs,
) -> Result<Option<StoredResult>, StoreError> {
    let key = result_key(address, account);
    let Some(row) = results.get(&key)? else { return Ok(None) };
    let row = ResultRow::decode(row.value())?;
    if now >= row.repeats_until() {
        return Ok(None);
    }
    Ok(open(vault, &key, &row).map(|reason| StoredResult { reason, checked_at: row.checked_at }))
}

/// The newest verdict on an address that is still retained, whoever asked for it.
pub(super) fn shared(
    results: &impl ResultTable,
    vault: &Vault,
    address: &AddressHash,
    now: UnixMs,
) -> Result<Option<StoredResult>, StoreError> {
    let first = join(address.0, [0; 16]);
    let last = join(address.0, [0xff; 16]);
    let mut retained = Vec::new();
    for next in results.range::<&[u8; 32]>(&first..=&last)?.take(SHARED_SCAN_MAX) {
        let (key, row) = next?;
        let row = ResultRow::decode(row.value())?;
        if now < row.shared_until() {
            retained.push((*key.value(), row));
        }
    }
    retained.sort_by_key(|(_, row)| std::cmp::Reverse(row.verdict_at));
    let mut opened = retained.iter().filter_map(|(key, row)| {
        open(vault, key, row).map(|reason| StoredResult { reason, checked_at: row.verdict_at })
    });
    Ok(opened.next())
}

/// What is known, for this account.
pub(super) fn known(
    results: &impl ResultTable,
    vault: &Vault,
    account: AccountId,
    address: &AddressHash,
    reuse: bool,
    now: UnixMs,
) -> Result<Known, StoreError> {
    if let Some(result) = own(results, vault, account, address, now)? {
        return Ok(Known::Own(result));
    }
    if !reuse {
        return Ok(Known::Nothing);
    }
    Ok(shared(results, vault, address, now)?.map_or(Known::Nothing, Known::Shared))
}

/// When a verdict that is used again was found. One that is not there any longer (it expired a moment ago) is not to
/// be used a third time.
pub(super) fn verdict_at(
    results: &impl ResultTable,
    vault: &Vault,
    record: &ResultRecord,
    now: UnixMs,
) -> Result<UnixMs, StoreError> {
    let source = shared(results, vault, &record.address, now)?;
    let source = source.filter(|source| source.reason == record.reason);
    let spent = now.saturating_sub(retention(record.reason).max(REPEAT_MS));
    Ok(source.map_or(spent, |source| source.checked_at))
}

impl Txn<'_> {
    /// Writes a result in place of the account's last one.
    pub fn put_result(&mut self, result: &SealedResult) -> Result<(), StoreError> {
        let SealedResult { key, row, code: _ } = result;
        let before = self.results.insert(key, row.encode().as_slice())?;
        let before = before.map(|row| ResultRow::decode(row.value())).transpose()?;
        if let Some(before) = before {
            self.unexpire(Expiring::Result, before.expires_at(), key)?;
        }
        self.expire_at(Expiring::Result, row.expires_at(), key, row.checked_at)
    }

    /// Notes that a row expires then.
    pub fn expire_at(
        &mut self,
        what: Expiring,
        at: UnixMs,
        row: &[u8; 32],
        now: UnixMs,
    ) -> Result<(), StoreError> {
        self.latest = self.latest.max(now);
        self.expiries_added += 1;
        self.expiries.insert(&expiry_key(what, at, row), ())?;
        Ok(())
    }

    /// Takes the note of a row's expiry back.
    pub fn unexpire(&mut self, what: Expiring, at: UnixMs, row: &[u8; 32]) -> Result<(), StoreError> {
        self.expiries.remove(&expiry_key(what, at, row))?;
        Ok(())
    }
}
