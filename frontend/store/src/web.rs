//! The data of the dashboard: users with their passwords, sessions, sign-in links, and daily counts of accounts.
//!
//! An account has at most one user, with an email address and a password. The address is found by a keyed hash, and can
//! be read only with a key that is not in the tables. A session or link is stored as the hash of its token.

use crate::types::*;
use crate::{AccountId, BatchError, BatchId, ListId, Pending, StoreError};
use api::Reason;

/// The methods of the store for users and sessions. The invariants of [`Store`](super::Store) apply.
pub trait WebStore {
    /// Creates an account, its user and the user's first session in one transaction.
    fn sign_up(&self, new: NewUser, now: UnixMs) -> Pending<Account, UserError>;

    /// Sets the password of an account's user, and the email address if one is given. Creates a missing user. All
    /// sessions and links of the account end, except the session of `by`, and so do consents to connections whose code is not used
    /// yet. If `by` has a session, its password is that of the user, or `None` if there is no user.
    fn set_user(
        &self,
        account: AccountId,
        email: Option<String>,
        password: PasswordHash,
        by: Authority,
        now: UnixMs,
    ) -> Pending<(), UserError>;

    /// The user of an account.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] if it cannot be read, as for every read.
    fn user(&self, account: AccountId) -> Pending<Option<User>, StoreError>;

    /// The user with this email address, in any letter case.
    ///
    /// # Errors
    ///
    /// As [`WebStore::user`].
    fn user_of(&self, email: &str) -> Pending<Option<User>, StoreError>;

    /// Starts a session of the account's user.
    fn begin_session(
        &self,
        account: AccountId,
        new: NewSession,
        by: Authority,
        now: UnixMs,
    ) -> Pending<(), UserError>;

    /// The session with this hash, if it has not ended.
    ///
    /// # Errors
    ///
    /// As [`WebStore::user`].
    fn session(&self, hash: &TokenHash, now: UnixMs) -> Pending<Option<Session>, StoreError>;

    /// Records a use of a session; to be called at most once in [`SESSION_STEP_MS`]. A lost record is repeated at the
    /// next use.
    fn session_used(&self, hash: TokenHash, now: UnixMs) -> Pending<(), StoreError>;

    /// The account's sessions that have not ended, newest first.
    ///
    /// # Errors
    ///
    /// As [`WebStore::user`].
    fn sessions(&self, account: AccountId, now: UnixMs) -> Pending<Vec<Session>, StoreError>;

    /// Ends a session of this account; returns whether it existed.
    fn end_session(&self, account: AccountId, hash: TokenHash) -> Pending<bool, StoreError>;

    /// Ends all sessions and links of the account, except the session with this hash; returns their number. If that session has ended
    /// meanwhile, nothing ends: its request has no right to it any more.
    fn end_sessions(&self, account: AccountId, but: Option<TokenHash>) -> Pending<u64, StoreError>;

    /// Creates a link that signs in once within [`SIGN_IN_LINK_MS`].
    fn create_link(&self, account: AccountId, hash: TokenHash, now: UnixMs) -> Pending<Account, UserError>;

    /// The account of a valid sign-in link. The link remains valid.
    ///
    /// # Errors
    ///
    /// As [`WebStore::user`].
    fn link(&self, hash: &TokenHash, now: UnixMs) -> Pending<Option<AccountId>, StoreError>;

    /// Exchanges a link for a session; `None` if the link is not valid.
    fn use_link(
        &self,
        hash: TokenHash,
        new: NewSession,
        now: UnixMs,
    ) -> Pending<Option<AccountId>, StoreError>;

    /// The account's counts of the last [`DAYS_KEPT`] days, without empty days, oldest first.
    ///
    /// # Errors
    ///
    /// As [`WebStore::user`].
    fn days(&self, account: AccountId, now: UnixMs) -> Pending<Vec<DayCounts>, StoreError>;
}

/// The methods of the store for lists. The invariants of [`Store`](super::Store) apply.
pub trait ListStore {
    /// Creates a list and reserves its bytes, if there is room for it. An idempotency key is looked up before the room. It is
    /// stored with a resumable list; otherwise [`ListStore::end_upload`] stores it.
    fn create_list(
        &self,
        list: &List,
        room: ListRoom,
        key: Option<Idempotency>,
        now: UnixMs,
    ) -> Pending<ListMade, StoreError>;

    /// Ends the upload of a list, which is being read from then on. Refused with [`StoreError::Outdated`] if `by` does not hold any
    /// more, since an upload can take long. `bytes` of the list becomes its offset.
    fn end_upload(
        &self,
        list: &List,
        key: Option<Idempotency>,
        by: Authority,
        now: UnixMs,
    ) -> Pending<UploadEnd, StoreError>;

    /// Replaces a list if it has the expected state; returns whether it had. The answers of the batch with the number
    /// `done - 1` are stored with it. A new state that ends or pauses the list is an event for webhooks, of the time `now`.
    fn put_list(
        &self,
        list: &List,
        expected: ListState,
        answers: Option<&[Reason]>,
        now: UnixMs,
    ) -> Pending<bool, StoreError>;

    /// Gives a list that has the expected state the state of `list`, as its owner wants; returns whether it had. Refused with
    /// [`StoreError::Outdated`] if `by` does not hold any more.
    fn start_list(
        &self,
        list: &List,
        expected: ListState,
        by: Authority,
        now: UnixMs,
    ) -> Pending<bool, StoreError>;

    /// Creates the next batch of a running list and updates the list in one transaction, so that no batch of a deleted
    /// list is charged.
    fn submit_batch_of_list(
        &self,
        list: &List,
        new: NewBatch,
        now: UnixMs,
    ) -> Pending<BatchOfList, BatchError>;

    /// Writes a part of the content of a list during its upload, with the new offset of the list.
    fn put_list_part(
        &self,
        list: &List,
        part: NewPart<'_>,
        room: ListRoom,
        now: UnixMs,
    ) -> Pending<PartPut, StoreError>;

    /// Writes a part of the index of a list while it is read: see [`ListStore::list_index`].
    fn put_list_index(&self, list: &List, number: u32, plain: &[u8]) -> Pending<bool, StoreError>;

    /// A part of the index of a list's addresses; `None` after the last. The index says for each row with an address which of the
    /// different addresses it has. A list without duplicates has none.
    ///
    /// # Errors
    ///
    /// As [`WebStore::user`].
    fn list_index(&self, list: &List, number: u32) -> Pending<Option<Vec<u8>>, StoreError>;

    /// For each of these addresses, whether the account has checked it within 24 hours, so that a list gets it for free.
    ///
    /// # Errors
    ///
    /// As [`WebStore::user`].
    fn is_own(
        &self,
        account: AccountId,
        addresses: Vec<AddressHash>,
        now: UnixMs,
    ) -> Pending<Vec<bool>, StoreError>;

    /// A part of the content; `None` after the last.
    ///
    /// # Errors
    ///
    /// As [`WebStore::user`].
    fn list_part(&self, list: &List, number: u32) -> Pending<Option<Vec<u8>>, StoreError>;

    /// The answers of a batch in the order of its addresses; `None` before they are stored. An address that was not asked before
    /// the cancellation of the list has no answer.
    ///
    /// # Errors
    ///
    /// As [`WebStore::user`].
    fn list_answers(&self, list: &List, number: u32) -> Pending<Option<Vec<Option<Reason>>>, StoreError>;

    /// A list of this account.
    ///
    /// # Errors
    /// As [`WebStore::user`].
    fn list(&self, account: AccountId, id: ListId, now: UnixMs) -> Pending<Option<List>, StoreError>;

    /// The progress of a list: what it has taken of its batches, and the answers in its other batches. It reads one row for each of
    /// these, and none of their addresses.
    ///
    /// # Errors
    /// As [`WebStore::user`].
    fn list_progress(&self, list: &List, now: UnixMs) -> Pending<ListProgress, StoreError>;

    /// The account's lists, newest first.
    ///
    /// # Errors
    ///
    /// As [`WebStore::user`].
    fn lists(&self, account: AccountId, now: UnixMs) -> Pending<Vec<List>, StoreError>;

    /// Every list that is being read or checked.
    ///
    /// # Errors
    ///
    /// As [`WebStore::user`].
    fn lists_at_work(&self, now: UnixMs) -> Pending<Vec<List>, StoreError>;

    /// Ends the check of a list, in any state except those that are final. Rows without an answer are refunded, and a later
    /// answer to them is ignored. `None` if there is no such list.
    fn cancel_list(
        &self,
        account: AccountId,
        id: ListId,
        now: UnixMs,
    ) -> Pending<Option<CancelledList>, StoreError>;

    /// Ends a list as unfit for this reason, as [`ListStore::cancel_list`] ends it: what was answered stays charged, and the rest is
    /// refunded.
    fn give_up_list(
        &self,
        account: AccountId,
        id: ListId,
        why: String,
        now: UnixMs,
    ) -> Pending<Option<CancelledList>, StoreError>;

    /// Deletes a list, whose check is cancelled first. Returns the batches that this ended; `None` if there is no such list.
    fn delete_list(
        &self,
        account: AccountId,
        id: ListId,
        now: UnixMs,
    ) -> Pending<Option<Vec<BatchId>>, StoreError>;

    /// Claims the lists that nobody works on: those from before the start, and those of nodes that have died. `None`: all lists
    /// are this process's.
    ///
    /// # Errors
    ///
    /// As [`WebStore::user`].
    fn claim_lists(&self) -> Pending<Option<ClaimedLists>, StoreError>;

    /// Deletes lists whose upload was interrupted by the end of a process and cannot continue, of these or of all; returns their
    /// number.
    fn delete_unfinished_lists(&self, of: Option<Vec<ListId>>) -> Pending<usize, StoreError>;

    /// The id of the list's batch with this number, whether or not it exists.
    fn batch_of_list(&self, list: &List, number: u32) -> BatchId;
}
