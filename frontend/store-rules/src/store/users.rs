//! The data of the dashboard: users with their passwords, sessions, sign-in links, and daily counts of accounts.
//!
//! An account has at most one user, with an email address and a password. The address is found by a keyed hash, and can
//! be read only with a key that is not in the tables. A session or link is stored as the hash of its token.

use super::Store;
use crate::backend::{Class, Job};
use crate::days;
use crate::rows::Rows;
use crate::shared::Shared;
use crate::tables::{EMAILS, SESSIONS, SIGN_IN_LINKS, SessionRow, USERS};
use crate::users::{email_hash, open_email, seal_email, sessions_of};
use store::*;

impl Store {
    /// Creates an account, its user and the user's first session in one transaction.
    pub fn sign_up(&self, new: NewUser, now: UnixMs) -> Pending<Account, UserError> {
        let NewUser { account, email, password, session } = new;
        let id = account.id;
        Pending::begin(|| {
            let email = seal_email(&self.shared().vault, id, &email)?;
            Ok(self.change(id, move |txn| txn.sign_up(&account, &email, &password, &session, now)))
        })
    }

    /// Sets the password of an account's user, and the email address if one is given. Creates a missing user. All
    /// sessions and links of the account end, except the session of `by`, and so do consents to connections whose code is not used
    /// yet. If `by` has a session, its password is that of the user, or `None` if there is no user.
    pub fn set_user(
        &self,
        account: AccountId,
        email: Option<String>,
        password: PasswordHash,
        by: Authority,
        now: UnixMs,
    ) -> Pending<(), UserError> {
        let seal = |email: String| seal_email(&self.shared().vault, account, &email);
        Pending::begin(|| {
            let email = email.map(seal).transpose()?;
            Ok(self.write(Job::of(account, Class::New), move |txn| {
                txn.set_user(account, email.as_ref(), &password, &by, now)
            }))
        })
    }

    /// The user of an account.
    pub fn user(&self, account: AccountId) -> Pending<Option<User>, StoreError> {
        self.read(None, move |shared, rows| read_user(shared, rows, account))
    }

    /// The user with this email address, in any letter case.
    pub fn user_of(&self, email: &str) -> Pending<Option<User>, StoreError> {
        let hash = email_hash(&self.shared().vault, email);
        self.read(None, move |shared, rows| {
            EMAILS.get(rows, &hash)?.map_or(Ok(None), |account| read_user(shared, rows, account))
        })
    }

    /// Starts a session of the account's user.
    pub fn begin_session(
        &self,
        account: AccountId,
        new: NewSession,
        by: Authority,
        now: UnixMs,
    ) -> Pending<(), UserError> {
        self.write(Job::of(account, Class::New), move |txn| txn.begin_session(account, &new, &by, now))
    }

    /// The session with this hash, if it has not ended.
    pub fn session(&self, hash: &TokenHash, now: UnixMs) -> Pending<Option<Session>, StoreError> {
        let hash = *hash;
        self.read(None, move |_, rows| {
            let row = SESSIONS.get(rows, &hash)?.filter(|row| now < row.expires_at());
            Ok(row.map(|row| view(hash, row)))
        })
    }

    /// Records a use of a session; to be called at most once in [`SESSION_STEP_MS`]. A lost record is repeated at the
    /// next use.
    pub fn session_used(&self, hash: TokenHash, now: UnixMs) -> Pending<(), StoreError> {
        self.write(Job::general(Class::New), move |txn| Ok(txn.note_session_use(hash, now)?))
    }

    /// The account's sessions that have not ended, newest first.
    pub fn sessions(&self, account: AccountId, now: UnixMs) -> Pending<Vec<Session>, StoreError> {
        self.read(None, move |_, rows| {
            let all = sessions_of(rows, account)?.into_iter();
            let open = all.filter(|(_, row)| now < row.expires_at());
            let mut found: Vec<_> = open.map(|(hash, row)| view(hash, row)).collect();
            found.sort_by_key(|session| std::cmp::Reverse(session.seen_at));
            Ok(found)
        })
    }

    /// Ends a session of this account; returns whether it existed.
    pub fn end_session(&self, account: AccountId, hash: TokenHash) -> Pending<bool, StoreError> {
        self.write(Job::of(account, Class::Answer), move |txn| Ok(txn.end_session(account, &hash)?))
    }

    /// Ends all sessions and links of the account, except the session with this hash; returns their number. If that session has ended
    /// meanwhile, nothing ends: its request has no right to it any more.
    pub fn end_sessions(&self, account: AccountId, but: Option<TokenHash>) -> Pending<u64, StoreError> {
        self.write(Job::of(account, Class::Answer), move |txn| {
            // The account's row comes first: it guards the sessions.
            let is_there = txn.has_account(account)?;
            let holds = is_there && but.map_or(Ok(true), |own| txn.has_session(account, &own))?;
            if holds { Ok(txn.end_sessions(account, but)?) } else { Ok(0) }
        })
    }

    /// Creates a link that signs in once within [`SIGN_IN_LINK_MS`].
    pub fn create_link(
        &self,
        account: AccountId,
        hash: TokenHash,
        now: UnixMs,
    ) -> Pending<Account, UserError> {
        self.write(Job::of(account, Class::New), move |txn| txn.create_link(account, hash, now))
    }

    /// The account of a valid sign-in link. The link remains valid.
    pub fn link(&self, hash: &TokenHash, now: UnixMs) -> Pending<Option<AccountId>, StoreError> {
        let hash = *hash;
        self.read(None, move |_, rows| {
            let row = SIGN_IN_LINKS.get(rows, &hash)?.filter(|row| now < row.expires_at);
            Ok(row.map(|row| row.account))
        })
    }

    /// Exchanges a link for a session; `None` if the link is not valid.
    pub fn use_link(
        &self,
        hash: TokenHash,
        new: NewSession,
        now: UnixMs,
    ) -> Pending<Option<AccountId>, StoreError> {
        self.write(Job::general(Class::New), move |txn| Ok(txn.use_link(&hash, &new, now)?))
    }

    /// The account's counts of the last [`DAYS_KEPT`] days, without empty days, oldest first.
    pub fn days(&self, account: AccountId, now: UnixMs) -> Pending<Vec<DayCounts>, StoreError> {
        self.read(None, move |_, rows| days::read(rows, account, now))
    }
}

fn read_user(shared: &Shared, rows: &dyn Rows, account: AccountId) -> Result<Option<User>, StoreError> {
    let Some(row) = USERS.get(rows, &account.to_bytes())? else { return Ok(None) };
    let email = open_email(&shared.vault, account, &row.email)?;
    Ok(Some(User { account, email, password: row.password }))
}

fn view(hash: TokenHash, row: SessionRow) -> Session {
    let SessionRow { account, created_at, seen_at, agent } = row;
    Session { hash, account, agent, created_at, seen_at }
}
