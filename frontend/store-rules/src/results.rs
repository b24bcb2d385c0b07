//! Results of addresses: found by the keyed hash of the address, with the reason and the evidence sealed.
//!
//! The caller's thread seals and opens; the writer only stores bytes.

use crate::reason;
use crate::row::Row;
use crate::rows::{Rows, Table, Walk, Want};
use crate::tables::{EXPIRIES, Expiring, RESULTS, ResultRow, expiry_key, join, result_key};
use crate::txn::Txn;
use crate::withdrawn::is_withdrawn;
use std::ops::RangeInclusive;
use store::{AccountId, StoreError};
use store::{AddressHash, Known, ResultRecord, StoredResult, UnixMs, Verdict, is_shared, retention};
use store::{REPEAT_MS, RETENTION_SHORT_MS};
use vault::{Place, Vault};

/// How many accounts' results of an address are examined for a shared one. More results exist only for addresses that
/// many accounts check. If all that are examined are `unverifiable`, a verdict among the others is not found, and the address
/// is asked about.
pub(crate) const SHARED_SCAN_MAX: usize = 32;

/// A result that is ready to be written.
pub(crate) struct SealedResult {
    pub key: [u8; 32],
    row: ResultRow,
    /// The code of the reason, for the daily counts.
    pub code: u8,
}

/// The keys of all results of an address.
pub(crate) fn results_of(address: &AddressHash) -> RangeInclusive<[u8; 32]> {
    join(address.0, [0; 16])..=join(address.0, [0xff; 16])
}

fn place(key: &[u8; 32]) -> Place<'_> {
    Place { table: ResultRow::TABLE, row: key }
}

/// Seals the record of an account. `verdict_at` is `now` for a new verdict, and earlier for a shared one.
pub(crate) fn seal(
    vault: &Vault,
    account: AccountId,
    record: ResultRecord,
    verdict_at: UnixMs,
    now: UnixMs,
) -> Result<SealedResult, StoreError> {
    let key = result_key(&record.address, account);
    let short = retention(record.verdict.reason) == RETENTION_SHORT_MS;
    let mut row = ResultRow { short, checked_at: now, verdict_at, sealed: Vec::new() };
    let sealing_key = vault.sealing_key(row.class(), row.expires_at())?;
    let code = reason::verdict_code(record.verdict);
    row.sealed = sealing_key.seal(place(&key), &plain(record.verdict))?;
    Ok(SealedResult { key, row, code })
}

/// The sealed content of a verdict: the code of its reason, whether it has evidence (1 byte), and the evidence. The
/// length is constant, so it reveals nothing.
pub(crate) fn plain(verdict: Verdict) -> [u8; 10] {
    let mut plain = [0; 10];
    plain[0] = reason::verdict_code(verdict);
    plain[1] = u8::from(verdict.evidence.is_some());
    plain[2..].copy_from_slice(&verdict.evidence.unwrap_or(0).to_be_bytes());
    plain
}

/// The inverse of [`plain`]. Up to format 5 there was only the code.
pub(crate) fn read_plain(plain: &[u8]) -> Option<Verdict> {
    let (&code, rest) = plain.split_first()?;
    let evidence = match *rest {
        [] => None,
        [0, ..] => None,
        [1, ref evidence @ ..] => Some(u64::from_be_bytes(evidence.try_into().ok()?)),
        _ => return None,
    };
    Some(Verdict { reason: reason::of_code(code)?, cause: reason::cause_of(code), evidence })
}

/// The verdict of a row; `None` if its key is gone.
fn open(vault: &Vault, key: &[u8; 32], row: &ResultRow) -> Option<Verdict> {
    let opening_key = vault.opening_key(row.class(), row.expires_at())?;
    read_plain(&opening_key.open(place(key), &row.sealed)?)
}

/// Results and withdrawals, as of one snapshot or transaction.
#[derive(Clone, Copy)]
pub(crate) struct Results<'r>(pub &'r dyn Rows);

impl Results<'_> {
    /// The account's own result of the last 24 hours, unless it was withdrawn.
    pub(crate) fn own(
        &self,
        vault: &Vault,
        account: AccountId,
        address: &AddressHash,
        now: UnixMs,
    ) -> Result<Option<StoredResult>, StoreError> {
        let key = result_key(address, account);
        let Some(row) = RESULTS.peek(self.0, &key)? else { return Ok(None) };
        if now >= row.repeats_until() {
            return Ok(None);
        }
        self.stands(open(vault, &key, &row), &row, row.checked_at)
    }

    /// Says that [`Results::own`] will be called for these addresses.
    pub fn expect_own<'h>(&self, account: AccountId, addresses: impl Iterator<Item = &'h AddressHash>) {
        let mut wants =
            addresses.map(|address| Want::Peek(Table::Results, result_key(address, account).to_vec()));
        self.0.expect(&mut wants);
    }

    /// The newest retained verdict on an address that may answer other accounts. If it was withdrawn there is none: older
    /// verdicts may be wrong as well.
    pub(crate) fn shared(
        &self,
        vault: &Vault,
        address: &AddressHash,
        now: UnixMs,
    ) -> Result<Option<StoredResult>, StoreError> {
        let mut retained = Vec::new();
        RESULTS.walk(self.0, results_of(address), SHARED_SCAN_MAX, |key, row| {
            if now < row.shared_until() {
                retained.push((key, row));
            }
            Walk::On
        })?;
        retained.sort_by_key(|(_, row)| std::cmp::Reverse(row.verdict_at));
        let mut opened = retained.iter().filter_map(|(key, row)| Some((open(vault, key, row)?, row)));
        let newest = opened.find(|(verdict, _)| is_shared(verdict.reason));
        newest.map_or(Ok(None), |(verdict, row)| self.stands(Some(verdict), row, row.verdict_at))
    }

    /// The verdict of a row, unless it was withdrawn.
    fn stands(
        &self,
        verdict: Option<Verdict>,
        row: &ResultRow,
        checked_at: UnixMs,
    ) -> Result<Option<StoredResult>, StoreError> {
        let Some(verdict) = verdict else { return Ok(None) };
        if let Some(evidence) = verdict.evidence
            && is_withdrawn(self.0, evidence, row.verdict_at)?
        {
            return Ok(None);
        }
        Ok(Some(StoredResult { verdict, checked_at }))
    }

    /// The stored result for this account.
    pub(crate) fn known(
        &self,
        vault: &Vault,
        account: AccountId,
        address: &AddressHash,
        reuse: bool,
        now: UnixMs,
    ) -> Result<Known, StoreError> {
        if let Some(result) = self.own(vault, account, address, now)? {
            return Ok(Known::Own(result));
        }
        if !reuse {
            return Ok(Known::Nothing);
        }
        Ok(self.shared(vault, address, now)?.map_or(Known::Nothing, Known::Shared))
    }

    /// The time at which a shared verdict was found. A verdict that has just expired or was withdrawn must not be used
    /// again.
    pub(crate) fn verdict_at(
        &self,
        vault: &Vault,
        record: &ResultRecord,
        now: UnixMs,
    ) -> Result<UnixMs, StoreError> {
        let source = self.shared(vault, &record.address, now)?;
        let source = source.filter(|source| source.verdict == record.verdict);
        let spent = now.saturating_sub(retention(record.verdict.reason).max(REPEAT_MS));
        Ok(source.map_or(spent, |source| source.checked_at))
    }
}

impl Txn<'_> {
    /// Writes a result, which replaces the account's last one.
    pub(crate) fn put_result(&mut self, result: &SealedResult) -> Result<(), StoreError> {
        let SealedResult { key, row, code: _ } = result;
        let before = RESULTS.get(self.rows(), key)?;
        RESULTS.put(self.rows, key, row)?;
        if let Some(before) = before {
            self.unexpire(Expiring::Result, before.expires_at(), key)?;
        }
        self.expire_at(Expiring::Result, row.expires_at(), key, row.checked_at)
    }

    /// Notes the expiry of a row.
    pub(crate) fn expire_at(
        &mut self,
        what: Expiring,
        at: UnixMs,
        row: &[u8; 32],
        now: UnixMs,
    ) -> Result<(), StoreError> {
        self.effects.latest = self.effects.latest.max(now);
        self.effects.expiries_added += 1;
        EXPIRIES.put(self.rows, &expiry_key(what, at, row), &())
    }

    /// Removes the note of a row's expiry.
    pub(crate) fn unexpire(&mut self, what: Expiring, at: UnixMs, row: &[u8; 32]) -> Result<(), StoreError> {
        EXPIRIES.remove(self.rows, &expiry_key(what, at, row))
    }
}
