//! The methods of the dashboard: reads are here, writes in `users.rs`.

use super::RowStore;
use crate::backend::{Backend, Class, Job, Lock};
use crate::days;
use crate::rows::Rows;
use crate::shared::Shared;
use crate::tables::{EMAILS, SESSIONS, SIGN_IN_LINKS, SessionRow, USERS};
use crate::users::{email_hash, open_email, seal_email, sessions_of};
use store::*;

impl<B: Backend> WebStore for RowStore<B> {
    fn sign_up(&self, new: NewUser, now: UnixMs) -> Pending<Account, UserError> {
        let NewUser { account, email, password, session } = new;
        let email = match seal_email(&self.shared().vault, account.id, &email) {
            Ok(email) => email,
            Err(error) => return Pending::ready(Err(error.into())),
        };
        let job = Job::of(account.id, Class::New).with_lock(Lock::Index);
        self.write(job, move |txn| txn.sign_up(&account, &email, &password, &session, now))
    }

    fn set_user(
        &self,
        account: AccountId,
        email: Option<String>,
        password: PasswordHash,
        by: Authority,
        now: UnixMs,
    ) -> Pending<(), UserError> {
        let seal = |email: String| seal_email(&self.shared().vault, account, &email);
        match email.map(seal).transpose() {
            Ok(email) => self.write(Job::of(account, Class::New), move |txn| {
                txn.set_user(account, email.as_ref(), &password, &by, now)
            }),
            Err(error) => Pending::ready(Err(error.into())),
        }
    }

    fn user(&self, account: AccountId) -> Pending<Option<User>, StoreError> {
        self.read(None, move |shared, rows| read_user(shared, rows, account))
    }

    fn user_of(&self, email: &str) -> Pending<Option<User>, StoreError> {
        let hash = email_hash(&self.shared().vault, email);
        self.read(None, move |shared, rows| {
            EMAILS.get(rows, &hash)?.map_or(Ok(None), |account| read_user(shared, rows, account))
        })
    }

    fn begin_session(
        &self,
        account: AccountId,
        new: NewSession,
        by: Authority,
        now: UnixMs,
    ) -> Pending<(), UserError> {
        self.write(Job::of(account, Class::New), move |txn| txn.begin_session(account, &new, &by, now))
    }

    fn session(&self, hash: &TokenHash, now: UnixMs) -> Pending<Option<Session>, StoreError> {
        let hash = *hash;
        self.read(None, move |_, rows| {
            let row = SESSIONS.get(rows, &hash)?.filter(|row| now < row.expires_at());
            Ok(row.map(|row| view(hash, row)))
        })
    }

    fn session_used(&self, hash: TokenHash, now: UnixMs) -> Pending<(), StoreError> {
        self.write(Job::general(Class::New), move |txn| Ok(txn.note_session_use(hash, now)?))
    }

    fn sessions(&self, account: AccountId, now: UnixMs) -> Pending<Vec<Session>, StoreError> {
        self.read(None, move |_, rows| {
            let all = sessions_of(rows, account)?.into_iter();
            let open = all.filter(|(_, row)| now < row.expires_at());
            let mut found: Vec<_> = open.map(|(hash, row)| view(hash, row)).collect();
            found.sort_by_key(|session| std::cmp::Reverse(session.seen_at));
            Ok(found)
        })
    }

    fn end_session(&self, account: AccountId, hash: TokenHash) -> Pending<bool, StoreError> {
        self.write(Job::of(account, Class::Answer), move |txn| Ok(txn.end_session(account, &hash)?))
    }

    fn end_sessions(&self, account: AccountId, but: Option<TokenHash>) -> Pending<u64, StoreError> {
        self.write(Job::of(account, Class::Answer), move |txn| {
            // The account's row comes first: it guards the sessions.
            let is_there = txn.has_account(account)?;
            let holds = is_there && but.map_or(Ok(true), |own| txn.has_session(account, &own))?;
            if holds { Ok(txn.end_sessions(account, but)?) } else { Ok(0) }
        })
    }

    fn create_link(&self, account: AccountId, hash: TokenHash, now: UnixMs) -> Pending<Account, UserError> {
        self.write(Job::of(account, Class::New), move |txn| txn.create_link(account, hash, now))
    }

    fn link(&self, hash: &TokenHash, now: UnixMs) -> Pending<Option<AccountId>, StoreError> {
        let hash = *hash;
        self.read(None, move |_, rows| {
            let row = SIGN_IN_LINKS.get(rows, &hash)?.filter(|row| now < row.expires_at);
            Ok(row.map(|row| row.account))
        })
    }

    fn use_link(
        &self,
        hash: TokenHash,
        new: NewSession,
        now: UnixMs,
    ) -> Pending<Option<AccountId>, StoreError> {
        self.write(Job::general(Class::New), move |txn| Ok(txn.use_link(&hash, &new, now)?))
    }

    fn days(&self, account: AccountId, now: UnixMs) -> Pending<Vec<DayCounts>, StoreError> {
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
