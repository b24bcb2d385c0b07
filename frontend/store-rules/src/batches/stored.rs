//! The bytes that the batches of an account take, by the day on which they expire.

use crate::days;
use crate::row::Fixed;
use crate::rows::Walk;
use crate::tables::{BatchRow, FORMAT_OF_SHARES, STORED_BYTES, day_key, day_of};
use crate::txn::{Txn, find_plan, read_account};
use crate::write_error::{WriteError, refuse};
use store::{AccountId, BATCH_KEEP_MS, BatchError, HoldError, StoreError, UnixMs};

/// What a batch takes besides its sealed rows and answers: its row, its expiry and their keys.
const BATCH_OVERHEAD_BYTES: u64 = 256;
/// The bytes that a batch may have for each of its credits without counting: more than a row with the longest address. So what limits
/// batches with a price is the credits, and the quota limits the others, which are those of test keys.
const BYTES_OF_CREDIT: u64 = 512;

impl Txn<'_> {
    /// Counts the bytes of a new batch until the day on which it expires.
    pub(super) fn count_stored(
        &mut self,
        account: AccountId,
        row: &BatchRow,
        rows_bytes: usize,
        price: u64,
        now: UnixMs,
    ) -> Result<(), WriteError<BatchError>> {
        let store = |error: StoreError| WriteError::Refused(BatchError::Store(error));
        self.shared.disk.check().map_err(store)?;
        let bytes = (rows_bytes + row.answers.len()) as u64 + BATCH_OVERHEAD_BYTES;
        let bytes = bytes.saturating_sub(price.saturating_mul(BYTES_OF_CREDIT));
        if self.lacks_format(FORMAT_OF_SHARES)?.is_some() {
            return Ok(());
        }
        let plan = match read_account(self.rows(), account)? {
            Some(found) => find_plan(self.plans, &found)?.stored_mib,
            None => return refuse(BatchError::Hold(HoldError::UnknownAccount)),
        };
        let last =
            if row.is_open() { row.given_up_at().saturating_add(BATCH_KEEP_MS) } else { row.expires_at() };
        let (mut stored, mut same, mut past) = (bytes, bytes, Vec::new());
        let all = day_key(account, 0)..=day_key(account, u32::MAX);
        STORED_BYTES.walk(self.rows(), all, usize::MAX, |key, Fixed(counted)| {
            let day = day_of(&key);
            match day < days::day(now) {
                true => past.push(key),
                false => stored = stored.saturating_add(counted),
            }
            if day == days::day(last) {
                same = same.saturating_add(counted);
            }
            Walk::On
        })?;
        let share = self.shared.disk.share().min(plan << 20);
        // What test keys have filled keeps no batch with a price out. Such a batch may give its credits back, so it has a limit too.
        let most = if bytes == 0 { share.saturating_mul(2) } else { share };
        if stored > most {
            return Err(store(StoreError::OverQuota(format!(
                "The batches of this account take {} MiB, which is its share; each is removed 7 days after its end.",
                share >> 20
            ))));
        }
        for key in past {
            STORED_BYTES.remove(self.rows, &key)?;
        }
        if bytes == 0 {
            return Ok(());
        }
        Ok(STORED_BYTES.put(self.rows, &day_key(account, days::day(last)), &Fixed(same))?)
    }

    /// Counts the bytes that a batch had for credits which it gives back at its end. The batch exists, so nothing is refused; the next
    /// one may be.
    pub(super) fn count_refunded(
        &mut self,
        account: AccountId,
        row: &BatchRow,
        rows_bytes: usize,
    ) -> Result<(), StoreError> {
        let (price, charged) = (row.held.credits(), row.charged());
        if row.of_list || charged >= price || self.lacks_format(FORMAT_OF_SHARES)?.is_some() {
            return Ok(());
        }
        let bytes = rows_bytes as u64 + BATCH_OVERHEAD_BYTES;
        let beyond = |credits: u64| bytes.saturating_sub(credits.saturating_mul(BYTES_OF_CREDIT));
        let key = day_key(account, days::day(row.expires_at()));
        let Fixed(before) = STORED_BYTES.get(self.rows(), &key)?.unwrap_or(Fixed(0));
        let more = beyond(charged) - beyond(price);
        STORED_BYTES.put(self.rows, &key, &Fixed(before.saturating_add(more)))
    }
}
