//! Writes to users, their sessions and sign-in links.

use crate::row::Row;
use crate::rows::Rows;
use crate::tables::{
    EMAILS, Expiring, LinkRow, SESSIONS, SESSIONS_OF, SIGN_IN_LINKS, SessionRow, USERS, UserRow, session_in,
    session_of,
};
use crate::txn::Txn;
use crate::write_error::{WriteError, refuse};
use store::*;
use store::{AccountId, ChangeError, StoreError};
use vault::{Place, Vault};

/// An email address that is ready to be written: its keyed hash, and its sealed text.
#[derive(Clone)]
pub(crate) struct SealedEmail {
    hash: [u8; 16],
    sealed: Vec<u8>,
}

/// The hash ignores letter case, since users write their address in any case.
pub(crate) fn email_hash(vault: &Vault, email: &str) -> [u8; 16] {
    vault.hash("user", &[email.to_lowercase().as_bytes()])
}

pub(crate) fn seal_email(vault: &Vault, account: AccountId, email: &str) -> Result<SealedEmail, StoreError> {
    let row = account.to_bytes();
    let sealed = vault.users_key()?.seal(email_place(&row), email.as_bytes())?;
    Ok(SealedEmail { hash: email_hash(vault, email), sealed })
}

pub(crate) fn open_email(vault: &Vault, account: AccountId, sealed: &[u8]) -> Result<String, StoreError> {
    let row = account.to_bytes();
    let plain = vault.users_key()?.open(email_place(&row), sealed);
    // If the file of the key was lost or replaced, the user can still sign in, since the hash finds the row.
    Ok(plain.and_then(|plain| String::from_utf8(plain).ok()).unwrap_or_default())
}

fn email_place(account: &[u8; 16]) -> Place<'_> {
    Place { table: UserRow::TABLE, row: account }
}

/// The sessions of an account, also those that have ended.
pub(crate) fn sessions_of(
    rows: &dyn Rows,
    account: AccountId,
) -> Result<Vec<(TokenHash, SessionRow)>, StoreError> {
    let range = session_of(account, &[0; 32])..=session_of(account, &[0xff; 32]);
    let mut found = Vec::new();
    let keys = SESSIONS_OF.keys(rows, range, usize::MAX)?;
    SESSIONS.expect(rows, keys.iter().map(session_in).collect::<Vec<_>>().iter());
    for key in keys {
        let hash = session_in(&key);
        found.extend(SESSIONS.get(rows, &hash)?.map(|row| (hash, row)));
    }
    Ok(found)
}

impl Txn<'_> {
    /// Creates an account, its user and the user's first session.
    pub(crate) fn sign_up(
        &mut self,
        account: &NewAccount,
        email: &SealedEmail,
        password: &PasswordHash,
        session: &NewSession,
        now: UnixMs,
    ) -> Result<Account, WriteError<UserError>> {
        // All checks precede the first write: a refusal must leave no changes.
        if self.holder(email)?.is_some() {
            return refuse(UserError::EmailTaken);
        }
        let id = account.id;
        let account = self.create_account(account, now).map_err(|error| error.map(UserError::Account))?;
        self.put_user(id, email.clone(), *password, now, now)?;
        self.add_session(id, session, now)?;
        Ok(account)
    }

    /// Whether what was verified before still holds. The caller has read the account's row, which guards its user and sessions on
    /// all nodes.
    pub(crate) fn holds(&self, by: &Authority, account: AccountId, now: UnixMs) -> Result<bool, StoreError> {
        if let Some(session) = &by.session
            && !self
                .read_session(session)?
                .is_some_and(|row| row.account == account && now < row.expires_at())
        {
            return Ok(false);
        }
        // The index has every revocation that was answered on this node. It learns of those of other nodes within 2 seconds.
        if by.key.is_some_and(|key| !self.shared.index.is_in_force(key, account, now)) {
            return Ok(false);
        }
        let Some(verified) = by.password else { return Ok(true) };
        Ok(USERS.get(self.rows(), &account.to_bytes())?.is_some_and(|user| user.password == verified))
    }

    /// Refuses what a session or key began that has ended meanwhile: a request can take long.
    pub(crate) fn check_caller(
        &mut self,
        account: AccountId,
        by: &Authority,
        now: UnixMs,
    ) -> Result<(), WriteError<StoreError>> {
        // The account's row comes first: it guards the sessions. A deleted account has neither sessions nor keys.
        let is_guarded = by.session.is_none() || self.has_account(account)?;
        if is_guarded && self.holds(by, account, now)? { Ok(()) } else { refuse(StoreError::Outdated) }
    }

    /// Sets the password and the email address of a user, and ends all sessions except that of `by`.
    pub(crate) fn set_user(
        &mut self,
        account: AccountId,
        email: Option<&SealedEmail>,
        password: &PasswordHash,
        by: &Authority,
        now: UnixMs,
    ) -> Result<(), WriteError<UserError>> {
        if !self.has_account(account)? {
            return refuse(UserError::Account(ChangeError::UnknownAccount));
        }
        let before = USERS.get(self.rows(), &account.to_bytes())?;
        // Without a password, the session saw an account without a user.
        let is_new_user = by.session.is_some() && by.password.is_none();
        if !self.holds(by, account, now)? || is_new_user && before.is_some() {
            return refuse(UserError::Outdated);
        }
        let email = match (email, &before) {
            (Some(email), _) if self.holder(email)?.is_some_and(|holder| holder != account) => {
                return refuse(UserError::EmailTaken);
            }
            (Some(email), _) => email.clone(),
            (None, Some(row)) => SealedEmail { hash: row.email_hash, sealed: row.email.clone() },
            (None, None) => return refuse(UserError::EmailMissing),
        };
        let created_at = before.as_ref().map_or(now, |row| row.created_at);
        if let Some(before) = before {
            EMAILS.remove(self.rows, &before.email_hash)?;
        }
        self.put_user(account, email, *password, created_at, now)?;
        self.end_sessions(account, by.session)?;
        Ok(())
    }

    fn holder(&self, email: &SealedEmail) -> Result<Option<AccountId>, StoreError> {
        EMAILS.get(self.rows(), &email.hash)
    }

    fn put_user(
        &mut self,
        account: AccountId,
        email: SealedEmail,
        password: PasswordHash,
        created_at: UnixMs,
        now: UnixMs,
    ) -> Result<(), StoreError> {
        let SealedEmail { hash, sealed } = email;
        let row = UserRow { email_hash: hash, email: sealed, password, created_at, changed_at: now };
        EMAILS.put(self.rows, &hash, &account)?;
        USERS.put(self.rows, &account.to_bytes(), &row)
    }

    /// Starts a session. Beyond the limit it ends the one that has been idle for longest.
    pub(crate) fn begin_session(
        &mut self,
        account: AccountId,
        new: &NewSession,
        by: &Authority,
        now: UnixMs,
    ) -> Result<(), WriteError<UserError>> {
        if !self.has_account(account)? {
            return refuse(UserError::Account(ChangeError::UnknownAccount));
        }
        if !self.holds(by, account, now)? {
            return refuse(UserError::Outdated);
        }
        Ok(self.add_session(account, new, now)?)
    }

    fn add_session(&mut self, account: AccountId, new: &NewSession, now: UnixMs) -> Result<(), StoreError> {
        let mut others = self.sessions_of(account)?;
        others.sort_by_key(|(_, row)| std::cmp::Reverse(row.seen_at));
        for (hash, _) in others.iter().skip(SESSIONS_MAX - 1) {
            self.end_session(account, hash)?;
        }
        let agent = new.agent.chars().filter(|c| !c.is_control()).take(TEXT_CHARS_MAX).collect();
        let row = SessionRow { account, created_at: now, seen_at: now, agent };
        self.put_session(&new.hash, &row, now)?;
        SESSIONS_OF.put(self.rows, &session_of(account, &new.hash), &())
    }

    fn put_session(&mut self, hash: &TokenHash, row: &SessionRow, now: UnixMs) -> Result<(), StoreError> {
        SESSIONS.put(self.rows, hash, row)?;
        self.expire_at(Expiring::Session, row.expires_at(), hash, now)
    }

    /// Stores `now` as the time of the session's last use.
    pub(crate) fn note_session_use(&mut self, hash: TokenHash, now: UnixMs) -> Result<(), StoreError> {
        let Some(mut row) = self.read_session(&hash)? else { return Ok(()) };
        if now < row.seen_at.saturating_add(SESSION_STEP_MS) || now >= row.expires_at() {
            return Ok(());
        }
        self.unexpire(Expiring::Session, row.expires_at(), &hash)?;
        row.seen_at = now;
        self.put_session(&hash, &row, now)
    }

    /// Ends a session of this account; returns whether it existed.
    pub(crate) fn end_session(&mut self, account: AccountId, hash: &TokenHash) -> Result<bool, StoreError> {
        let Some(row) = self.read_session(hash)?.filter(|row| row.account == account) else {
            return Ok(false);
        };
        self.unexpire(Expiring::Session, row.expires_at(), hash)?;
        self.remove_session(hash)?;
        Ok(true)
    }

    /// Removes the rows of a session; the caller removes the note of its expiry.
    pub(crate) fn remove_session(&mut self, hash: &TokenHash) -> Result<(), StoreError> {
        let row = self.read_session(hash)?;
        SESSIONS.remove(self.rows, hash)?;
        if let Some(row) = row {
            SESSIONS_OF.remove(self.rows, &session_of(row.account, hash))?;
        }
        Ok(())
    }

    /// Ends all sessions of an account except `but`, its links, and its consents to connections that are not redeemed yet; returns the
    /// number of sessions.
    pub(crate) fn end_sessions(
        &mut self,
        account: AccountId,
        but: Option<TokenHash>,
    ) -> Result<u64, StoreError> {
        let mut ended = 0;
        for (hash, _) in self.sessions_of(account)? {
            if Some(hash) != but {
                ended += u64::from(self.end_session(account, &hash)?);
            }
        }
        self.end_links(account)?;
        self.end_consents(account)?;
        Ok(ended)
    }

    /// A search is enough: links live for minutes, and only operators create them.
    fn end_links(&mut self, account: AccountId) -> Result<(), StoreError> {
        let mut of_account = Vec::new();
        SIGN_IN_LINKS.walk_all(self.rows(), |hash, row| {
            if row.account == account {
                of_account.push((hash, row));
            }
        })?;
        for (hash, row) in of_account {
            self.unexpire(Expiring::SignInLink, row.expires_at, &hash)?;
            self.remove_link(&hash)?;
        }
        Ok(())
    }

    /// Removes the row of a link.
    pub(crate) fn remove_link(&mut self, hash: &TokenHash) -> Result<(), StoreError> {
        SIGN_IN_LINKS.remove(self.rows, hash)
    }

    /// Whether a session of this account has not been ended.
    pub(crate) fn has_session(&self, account: AccountId, hash: &TokenHash) -> Result<bool, StoreError> {
        Ok(self.read_session(hash)?.is_some_and(|row| row.account == account))
    }

    fn read_session(&self, hash: &TokenHash) -> Result<Option<SessionRow>, StoreError> {
        SESSIONS.get(self.rows(), hash)
    }

    fn sessions_of(&self, account: AccountId) -> Result<Vec<(TokenHash, SessionRow)>, StoreError> {
        sessions_of(self.rows(), account)
    }

    /// Writes a sign-in link with its expiry.
    pub(crate) fn create_link(
        &mut self,
        account: AccountId,
        hash: TokenHash,
        now: UnixMs,
    ) -> Result<Account, WriteError<UserError>> {
        let opened = self.known_account(account, now, UserError::Account(ChangeError::UnknownAccount))?;
        let row = LinkRow { account, expires_at: now.saturating_add(SIGN_IN_LINK_MS) };
        SIGN_IN_LINKS.put(self.rows, &hash, &row)?;
        self.expire_at(Expiring::SignInLink, row.expires_at, &hash, now)?;
        Ok(opened.view())
    }

    /// Removes a valid link and starts a session; `None` if the link is not valid.
    pub(crate) fn use_link(
        &mut self,
        hash: &TokenHash,
        new: &NewSession,
        now: UnixMs,
    ) -> Result<Option<AccountId>, StoreError> {
        // The account's row comes first: it guards the sessions, which a new password ends.
        let Some(LinkRow { account, .. }) = SIGN_IN_LINKS.peek(self.rows(), hash)? else { return Ok(None) };
        if !self.has_account(account)? {
            return Ok(None);
        }
        let row = SIGN_IN_LINKS.get(self.rows(), hash)?;
        let Some(row) = row.filter(|row| now < row.expires_at) else { return Ok(None) };
        self.unexpire(Expiring::SignInLink, row.expires_at, hash)?;
        self.remove_link(hash)?;
        self.add_session(row.account, new, now)?;
        Ok(Some(row.account))
    }
}
