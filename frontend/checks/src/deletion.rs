//! The removal of the rows of a deleted account, after [`Store::close_account`].

use store::{AccountId, DeletionStep, StoreError, UnixMs};
use store_rules::Store;

/// Removes rows of a closed account as long as `may_continue` is true. Returns whether no rows are left; otherwise the periodic work
/// of the server continues.
///
/// # Errors
///
/// The store cannot be read or written. The account is closed in any case.
pub async fn remove_rows(
    store: &Store,
    id: AccountId,
    clock: fn() -> UnixMs,
    mut may_continue: impl FnMut() -> bool,
) -> Result<bool, StoreError> {
    while may_continue() {
        match store.delete_step(id, clock()).await? {
            DeletionStep::More => {}
            DeletionStep::ChecksUnderWay => return Ok(false),
            DeletionStep::Complete => return Ok(true),
        }
    }
    Ok(false)
}
