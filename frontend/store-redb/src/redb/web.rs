//! The methods of the dashboard: reads are here, writes in `users.rs`.

use super::super::days;
use super::super::row::Row;
use super::super::tables::{
    BATCHES, BatchRow, DAYS, EMAILS, LinkRow, SESSIONS, SESSIONS_OF, SIGN_IN_LINKS, SessionRow, USERS,
    UserRow, account_range, session_in, session_of, split,
};
use super::super::users::{email_hash, open_email, seal_email};
use super::super::writer::Class;
use super::RedbStore;
use ::redb::ReadableDatabase;
use store::*;
use store::{AccountId, BatchId, Pending, StoreError};

impl WebStore for RedbStore {
    fn sign_up(&self, new: NewUser, now: UnixMs) -> Pending<Account, UserError> {
        let NewUser { account, email, password, session } = new;
        match seal_email(&self.vault, account.id, &email) {
            Ok(email) => {
                self.writer.submit(Class::New, move |txn| txn.sign_up(account, email, password, session, now))
            }
            Err(error) => Pending::ready(Err(error.into())),
        }
    }

    fn set_user(
        &self,
        account: AccountId,
        email: Option<String>,
        password: PasswordHash,
        but: Option<TokenHash>,
        now: UnixMs,
    ) -> Pending<(), UserError> {
        match email.map(|email| seal_email(&self.vault, account, &email)).transpose() {
            Ok(email) => {
                self.writer.submit(Class::New, move |txn| txn.set_user(account, email, password, but, now))
            }
            Err(error) => Pending::ready(Err(error.into())),
        }
    }

    fn user(&self, account: AccountId) -> Pending<Option<User>, StoreError> {
        Pending::of(|| {
            let users = self.database.begin_read()?.open_table(USERS)?;
            let Some(row) = users.get(&account.to_bytes())? else { return Ok(None) };
            let row = UserRow::decode(row.value())?;
            let email = open_email(&self.vault, account, &row.email)?;
            Ok(Some(User { account, email, password: row.password }))
        })
    }

    fn user_of(&self, email: &str) -> Pending<Option<User>, StoreError> {
        Pending::of(|| {
            let emails = self.database.begin_read()?.open_table(EMAILS)?;
            let account = emails.get(&email_hash(&self.vault, email))?.map(|account| *account.value());
            account.map_or(Ok(None), |account| self.user(AccountId::from_bytes(account)).wait())
        })
    }

    fn begin_session(&self, account: AccountId, new: NewSession, now: UnixMs) -> Pending<(), UserError> {
        self.writer.submit(Class::New, move |txn| txn.begin_session(account, new, now))
    }

    fn session(&self, hash: &TokenHash, now: UnixMs) -> Pending<Option<Session>, StoreError> {
        Pending::of(|| {
            let sessions = self.database.begin_read()?.open_table(SESSIONS)?;
            let row = sessions.get(hash)?.map(|row| SessionRow::decode(row.value())).transpose()?;
            Ok(row.filter(|row| now < row.expires_at()).map(|row| view(*hash, row)))
        })
    }

    fn session_used(&self, hash: TokenHash, now: UnixMs) -> Pending<(), StoreError> {
        self.writer.submit(Class::New, move |txn| Ok(txn.note_session_use(hash, now)?))
    }

    fn sessions(&self, account: AccountId, now: UnixMs) -> Pending<Vec<Session>, StoreError> {
        Pending::of(|| {
            let transaction = self.database.begin_read()?;
            let (of, sessions) = (transaction.open_table(SESSIONS_OF)?, transaction.open_table(SESSIONS)?);
            let (first, last) = (session_of(account, &[0; 32]), session_of(account, &[0xff; 32]));
            let mut found = Vec::new();
            for next in of.range::<&[u8; 48]>(&first..=&last)? {
                let hash = session_in(next?.0.value());
                let row = sessions.get(&hash)?.map(|row| SessionRow::decode(row.value())).transpose()?;
                found.extend(row.filter(|row| now < row.expires_at()).map(|row| view(hash, row)));
            }
            found.sort_by_key(|session| std::cmp::Reverse(session.seen_at));
            Ok(found)
        })
    }

    fn end_session(&self, account: AccountId, hash: TokenHash) -> Pending<bool, StoreError> {
        self.writer.submit(Class::Answer, move |txn| Ok(txn.end_session(account, &hash)?))
    }

    fn end_sessions(&self, account: AccountId, but: Option<TokenHash>) -> Pending<u64, StoreError> {
        self.writer.submit(Class::Answer, move |txn| Ok(txn.end_sessions(account, but)?))
    }

    fn create_link(&self, account: AccountId, hash: TokenHash, now: UnixMs) -> Pending<Account, UserError> {
        self.writer.submit(Class::New, move |txn| txn.create_link(account, hash, now))
    }

    fn link(&self, hash: &TokenHash, now: UnixMs) -> Pending<Option<AccountId>, StoreError> {
        Pending::of(|| {
            let links = self.database.begin_read()?.open_table(SIGN_IN_LINKS)?;
            let row = links.get(hash)?.map(|row| LinkRow::decode(row.value())).transpose()?;
            Ok(row.filter(|row| now < row.expires_at).map(|row| row.account))
        })
    }

    fn use_link(
        &self,
        hash: TokenHash,
        new: NewSession,
        now: UnixMs,
    ) -> Pending<Option<AccountId>, StoreError> {
        self.writer.submit(Class::New, move |txn| Ok(txn.use_link(&hash, new, now)?))
    }

    fn recent_batches(
        &self,
        account: AccountId,
        limit: usize,
        now: UnixMs,
    ) -> Pending<Vec<BatchSummary>, StoreError> {
        Pending::of(|| {
            let batches = self.database.begin_read()?.open_table(BATCHES)?;
            let range = account_range(account);
            let (first, last) = (range.start(), range.end());
            let mut found = Vec::new();
            for next in batches.range::<&[u8; 32]>(first..=last)?.rev() {
                let (key, row) = next?;
                let row = BatchRow::decode(row.value())?;
                if row.is_open() || now < row.expires_at() {
                    let completed = !row.is_open();
                    let BatchRow { created_at, total, answered, .. } = row;
                    let batch = BatchId::from_bytes(split(key.value()).1);
                    found.push(BatchSummary { batch, created_at, completed, total, checked: answered });
                }
                if found.len() >= limit {
                    break;
                }
            }
            Ok(found)
        })
    }

    fn days(&self, account: AccountId, now: UnixMs) -> Pending<Vec<DayCounts>, StoreError> {
        Pending::of(|| days::read(&self.database.begin_read()?.open_table(DAYS)?, account, now))
    }
}

fn view(hash: TokenHash, row: SessionRow) -> Session {
    let SessionRow { account, created_at, seen_at, agent } = row;
    Session { hash, account, agent, created_at, seen_at }
}
