//! What the dashboard keeps in the store: users with their passwords, sessions, sign-in links, and what accounts did
//! on each day.
//!
//! An account has one user at most: an address and a password. The address is found by a keyed hash and readable only
//! with a key that is not in the tables; of a session or a link only the hash of its token is there.

use crate::types::*;
use crate::{AccountId, BatchError, BatchId, ListId, Pending, StoreError};
use api::Reason;

/// The part of the store that is the dashboard's. The rules of [`Store`](super::Store) hold.
pub trait WebStore {
    /// Makes an account, its user and the user's first session, at once.
    fn sign_up(&self, new: NewUser, now: UnixMs) -> Pending<Account, UserError>;

    /// Sets the password of an account's user, and the address where one is given; makes the user where there is
    /// none. Every session and link of the account ends, but for the one of this hash.
    fn set_user(
        &self,
        account: AccountId,
        email: Option<String>,
        password: PasswordHash,
        but: Option<TokenHash>,
        now: UnixMs,
    ) -> Pending<(), UserError>;

    /// The user of an account.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when it cannot be read, as for every read.
    fn user(&self, account: AccountId) -> Result<Option<User>, StoreError>;

    /// The user of this address, whatever its case.
    ///
    /// # Errors
    /// As [`WebStore::user`].
    fn user_of(&self, email: &str) -> Result<Option<User>, StoreError>;

    /// Begins a session.
    fn begin_session(&self, account: AccountId, new: NewSession, now: UnixMs) -> Pending<(), UserError>;

    /// The session of this hash, if it is not over.
    ///
    /// # Errors
    /// As [`WebStore::user`].
    fn session(&self, hash: &TokenHash, now: UnixMs) -> Result<Option<Session>, StoreError>;

    /// Notes that a session was used; to be called at most each [`SESSION_STEP_MS`]. The next use makes up for a note
    /// that is lost.
    fn session_used(&self, hash: TokenHash, now: UnixMs) -> Pending<(), StoreError>;

    /// The account's sessions that are not over, the newest first.
    ///
    /// # Errors
    /// As [`WebStore::user`].
    fn sessions(&self, account: AccountId, now: UnixMs) -> Result<Vec<Session>, StoreError>;

    /// Ends a session of this account; says whether there was one.
    fn end_session(&self, account: AccountId, hash: TokenHash) -> Pending<bool, StoreError>;

    /// Ends all sessions and links of the account but the session of this hash; says how many.
    fn end_sessions(&self, account: AccountId, but: Option<TokenHash>) -> Pending<u64, StoreError>;

    /// Makes a link that signs in once within [`SIGN_IN_LINK_MS`].
    fn create_link(&self, account: AccountId, hash: TokenHash, now: UnixMs) -> Pending<Account, UserError>;

    /// The account that a link signs in to, if it is still good. It stays so.
    ///
    /// # Errors
    /// As [`WebStore::user`].
    fn link(&self, hash: &TokenHash, now: UnixMs) -> Result<Option<AccountId>, StoreError>;

    /// Uses a link up for a session; none when it is not good any longer.
    fn use_link(
        &self,
        hash: TokenHash,
        new: NewSession,
        now: UnixMs,
    ) -> Pending<Option<AccountId>, StoreError>;

    /// The account's last batches that can be read, the newest first, at most `limit`.
    ///
    /// # Errors
    /// As [`WebStore::user`].
    fn recent_batches(
        &self,
        account: AccountId,
        limit: usize,
        now: UnixMs,
    ) -> Result<Vec<BatchSummary>, StoreError>;

    /// What the account did on each day of the last [`DAYS_KEPT`] on which it did anything, the oldest first.
    ///
    /// # Errors
    /// As [`WebStore::user`].
    fn days(&self, account: AccountId, now: UnixMs) -> Result<Vec<DayCounts>, StoreError>;
}

/// The part of the store that keeps lists for the dashboard. The rules of [`Store`](super::Store) hold.
pub trait ListStore {
    /// Makes a list of so many bytes at most, if there is room for it.
    fn create_list(&self, list: &List, room: ListRoom, now: UnixMs) -> Pending<ListMade, StoreError>;

    /// Writes a list in place of what it was, if it stands as expected; says whether it did. With it go the answers of
    /// the batch of number `done - 1`.
    fn put_list(
        &self,
        list: &List,
        expected: ListState,
        answers: Option<&[Reason]>,
    ) -> Pending<bool, StoreError>;

    /// Makes the next batch of a list that runs, and writes the list as it stands with it: both or neither, so that nothing is
    /// charged for a list that is gone.
    fn submit_batch_of_list(
        &self,
        list: &List,
        new: NewBatch,
        now: UnixMs,
    ) -> Pending<BatchOfList, BatchError>;

    /// Writes a part of the content of a list that is uploading; `false` when it is not any longer.
    fn put_list_part(&self, list: &List, number: u32, plain: &[u8]) -> Pending<bool, StoreError>;

    /// A part of the content; none after the last.
    ///
    /// # Errors
    /// As [`WebStore::user`].
    fn list_part(&self, list: &List, number: u32) -> Result<Option<Vec<u8>>, StoreError>;

    /// The answers of a batch, in the order of its addresses; none as long as there are none.
    ///
    /// # Errors
    /// As [`WebStore::user`].
    fn list_answers(&self, list: &List, number: u32) -> Result<Option<Vec<Reason>>, StoreError>;

    /// A list of this account.
    ///
    /// # Errors
    /// As [`WebStore::user`].
    fn list(&self, account: AccountId, id: ListId, now: UnixMs) -> Result<Option<List>, StoreError>;

    /// The account's lists, the newest first.
    ///
    /// # Errors
    /// As [`WebStore::user`].
    fn lists(&self, account: AccountId, now: UnixMs) -> Result<Vec<List>, StoreError>;

    /// Every list that is read or checked.
    ///
    /// # Errors
    /// As [`WebStore::user`].
    fn lists_at_work(&self, now: UnixMs) -> Result<Vec<List>, StoreError>;

    /// Takes a list away; says whether it was there. Batches that were made of it go on.
    fn delete_list(&self, account: AccountId, id: ListId) -> Pending<bool, StoreError>;

    /// Takes the lists away that were uploading when the process ended; says how many those were.
    fn delete_unfinished_lists(&self) -> Pending<usize, StoreError>;

    /// The id of the list's batch of this number, whether it is made or not.
    fn batch_of_list(&self, list: &List, number: u32) -> BatchId;
}
