//! Results of addresses: found by the keyed hash of the address, with the reason and the evidence sealed.
//!
//! The caller's thread seals and opens; the writer only stores bytes.

use crate::reason;
use crate::row::{Codec, In, Out, Row, codes, fields, row};
use crate::rows::{Rows, Table, Walk, Want};
use crate::shared::Shared;
use crate::tables::{EXPIRIES, Expiring, FORMAT_OF_BASES, RESULTS, ResultRow, expiry_key, join, result_key};
use crate::txn::Txn;
use crate::withdrawn::is_withdrawn;
use engine::proto::limits::DOMAIN_BYTES_MAX;
use engine::proto::smtp::status::EnhancedCode;
use engine::proto::verdict::Scope;
use std::ops::RangeInclusive;
use std::sync::Arc;
use store::{AccountId, Basis, BasisReply, StoreError};
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
    shared: &Shared,
    account: AccountId,
    record: ResultRecord,
    verdict_at: UnixMs,
    now: UnixMs,
) -> Result<SealedResult, StoreError> {
    let key = result_key(&record.address, account);
    let short = retention(record.verdict.reason) == RETENTION_SHORT_MS;
    let mut row = ResultRow { short, checked_at: now, verdict_at, sealed: Vec::new() };
    let sealing_key = shared.vault.sealing_key(row.class(), row.expires_at())?;
    let verdict = shared.kept(record.verdict);
    row.sealed = sealing_key.seal(place(&key), &plain(&verdict, shared.has(FORMAT_OF_BASES)))?;
    let code = reason::verdict_code(&verdict);
    Ok(SealedResult { key, row, code })
}

/// The longest name of a rule that is stored, in bytes.
const RULE_BYTES_MAX: usize = 64;
/// The least length of a sealed content, and the steps by which longer ones grow, in bytes: the length reveals at most that the name of
/// the host or of the rule is long.
const CONTENT_BYTES: usize = 64;
const CONTENT_STEP: usize = 16;

/// The sealed content of a result. Up to format 5 it had only the code, and up to format 11 no basis.
struct Content {
    code: u8,
    more: Option<Evidence>,
}

/// Whether there is evidence about a host, its hash, and the basis.
struct Evidence {
    is_some: bool,
    hash: [u8; 8],
    basis: Option<Padded>,
}

/// The basis, and zeros. They are there without a basis, too.
struct Padded(Option<Arc<Basis>>);

row!("results", Content { code; more });
fields!(Evidence { is_some, hash; basis });
fields!(Basis { rule, host, reply, observed_at });
fields!(BasisReply { scope, code, status });
fields!(EnhancedCode { class, subject, detail });
codes!(Scope { Recipient = 1, Sender = 2, Session = 3, Host = 4, Site = 5, Us = 6 });

impl Codec for Padded {
    fn write(&self, out: &mut Out) {
        self.0.write(out);
        out.pad(CONTENT_BYTES, CONTENT_STEP);
    }

    fn read(input: &mut In<'_>) -> Option<Padded> {
        let basis = Codec::read(input)?;
        while input.byte().is_some() {}
        Some(Padded(basis))
    }
}

/// Whether a basis is short enough to be stored.
pub(crate) fn fits(basis: &Basis) -> bool {
    basis.rule.len() <= RULE_BYTES_MAX
        && basis.host.as_ref().is_none_or(|host| host.len() <= DOMAIN_BYTES_MAX)
}

/// The sealed content of a verdict, with its basis or, for a database of an older format, without.
pub(crate) fn plain(verdict: &Verdict, has_basis: bool) -> Vec<u8> {
    let basis = has_basis.then(|| Padded(verdict.basis.clone()));
    let hash = verdict.evidence.unwrap_or(0).to_be_bytes();
    let more = Some(Evidence { is_some: verdict.evidence.is_some(), hash, basis });
    Content { code: reason::verdict_code(verdict), more }.encode()
}

/// The inverse of [`plain`].
pub(crate) fn read_plain(plain: &[u8]) -> Option<Verdict> {
    let Content { code, more } = Content::decode(plain).ok()?;
    let (reason, cause) = (reason::of_code(code)?, reason::cause_of(code));
    let Some(Evidence { is_some, hash, basis }) = more else {
        return Some(Verdict { cause, ..reason.into() });
    };
    let basis = basis.and_then(|Padded(basis)| basis);
    Some(Verdict { reason, cause, evidence: is_some.then_some(u64::from_be_bytes(hash)), basis })
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

    /// The account's own verdict as long as it is kept, also after its repeats have ended.
    pub(crate) fn kept(
        &self,
        vault: &Vault,
        account: AccountId,
        address: &AddressHash,
        now: UnixMs,
    ) -> Result<Option<Verdict>, StoreError> {
        let key = result_key(address, account);
        let row = RESULTS.peek(self.0, &key)?.filter(|row| now < row.expires_at());
        Ok(row.and_then(|row| open(vault, &key, &row)))
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
        let Some((mut verdict, row)) = newest else { return Ok(None) };
        // The time of another account's check is not told.
        verdict.basis.iter_mut().for_each(|basis| Arc::make_mut(basis).observed_at = now);
        self.stands(Some(verdict), row, row.verdict_at)
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
        address: &AddressHash,
        verdict: &Verdict,
        now: UnixMs,
    ) -> Result<UnixMs, StoreError> {
        let source = self.shared(vault, address, now)?;
        let what = |verdict: &Verdict| (verdict.reason, verdict.evidence);
        let source = source.filter(|source| what(&source.verdict) == what(verdict));
        let spent = now.saturating_sub(retention(verdict.reason).max(REPEAT_MS));
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

#[cfg(test)]
mod tests {
    use super::*;
    use api::Reason::MailboxNotFound;

    #[test]
    fn the_length_of_a_content_tells_only_that_a_host_is_long() {
        let basis = |rule: &str, host: usize| {
            let host = (host > 0).then(|| "h".repeat(host));
            Basis { rule: rule.to_owned().into(), host, reply: None, observed_at: 1_801_386_000_000 }
        };
        for (basis, length) in [
            (None, 64),
            (Some(basis("nxdomain", 0)), 64),
            (Some(basis("google-no-such-user", 22)), 64),
            (Some(basis("unknown", 60)), 96),
            (Some(basis(&"r".repeat(RULE_BYTES_MAX), DOMAIN_BYTES_MAX)), 352),
        ] {
            let verdict = Verdict { evidence: Some(7), basis: basis.map(Arc::new), ..MailboxNotFound.into() };
            let written = plain(&verdict, true);
            assert_eq!((written.len(), read_plain(&written)), (length, Some(verdict.clone())));
            let before = Verdict { basis: None, ..verdict };
            assert_eq!(read_plain(&plain(&before, false)), Some(before.clone()));
            assert_eq!(plain(&before, false), written[..10]);
            assert_eq!(read_plain(&written[..1]), Some(MailboxNotFound.into()));
        }
    }
}
