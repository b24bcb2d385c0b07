//! Clients of assistants, the connections that users have consented to, and the secrets of these connections.
//!
//! A connection has three states. After the consent, its code can be redeemed for a minute. With tokens it is
//! connected. It is ended by its user, its client, its time, or the second use of a code or refresh token, which shows
//! that a third party has the secret (RFC 6749 4.1.2, RFC 9700 4.14.2). A connection that has ended has no row.
//!
//! A request without a valid secret causes no write: it is refused after a read.

use crate::rows::Rows;
use crate::tables::{
    CLIENTS, CONNECTIONS, ClientRow, ConnectionRow, EXPIRIES, Expiring, SecretKind, SecretRow, TOKENS,
    Tokens, account_range, client_expiry_row, connection_key, expiring_row, split,
};
use crate::txn::Txn;
use crate::write_error::{WriteError, refuse};
use store::credits::Balance;
use store::*;
use store::{AccountId, ClientId, ConnectionId, HoldError, StoreError};

pub(crate) fn view_client(id: ClientId, row: ClientRow) -> Client {
    Client { id, name: row.name, redirect_uris: row.redirect_uris, created_at: row.created_at }
}

pub(crate) fn view(account: AccountId, id: ConnectionId, row: ConnectionRow) -> Connection {
    Connection {
        id,
        account,
        client: row.client,
        client_name: row.client_name,
        redirect_host: row.redirect_host,
        allowance: row.allowance,
        used: row.used,
        created_at: row.created_at,
        expires_at: row.expires_at,
        last_used_at: row.last_used_at,
    }
}

/// A connection that has not ended at `now`.
pub(crate) fn read_connection(
    rows: &dyn Rows,
    account: AccountId,
    id: ConnectionId,
    now: UnixMs,
) -> Result<Option<ConnectionRow>, StoreError> {
    Ok(CONNECTIONS.get(rows, &connection_key(account, id))?.filter(|row| now < row.expires_at))
}

/// Whether a stranger's text may be shown to people.
fn is_name(text: &str) -> bool {
    text.chars().count() <= CLIENT_NAME_CHARS_MAX && !text.chars().any(char::is_control)
}

fn is_uri(text: &str) -> bool {
    (1..=URI_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

impl Txn<'_> {
    pub(crate) fn register_client(
        &mut self,
        new: &NewClient,
        now: UnixMs,
    ) -> Result<Client, WriteError<ConnectError>> {
        let fits = is_name(&new.name)
            && (1..=REDIRECT_URIS_MAX).contains(&new.redirect_uris.len())
            && new.redirect_uris.iter().all(|uri| is_uri(uri));
        if !fits || CLIENTS.has(self.rows(), &new.id.to_bytes())? {
            return refuse(ConnectError::Bad);
        }
        if CLIENTS.count(self.rows())? >= CLIENTS_MAX && !self.forget_one_client(now)? {
            return refuse(ConnectError::TooMany);
        }
        let expires_at = now.saturating_add(CLIENT_UNUSED_MS);
        let NewClient { id, name, redirect_uris } = new.clone();
        let row = ClientRow { created_at: now, expires_at, name, redirect_uris };
        CLIENTS.put(self.rows, &id.to_bytes(), &row)?;
        self.expire_at(Expiring::Client, expires_at, &client_expiry_row(id), now)?;
        Ok(view_client(id, row))
    }

    /// Removes the client that expires first, if it never had a connection or had one long ago.
    fn forget_one_client(&mut self, now: UnixMs) -> Result<bool, StoreError> {
        let soon = now.saturating_add(CLIENT_UNUSED_MS);
        let Some(note) = self.expired(Expiring::Client, soon, 1)?.pop() else { return Ok(false) };
        EXPIRIES.remove(self.rows, &note)?;
        self.forget_client(&expiring_row(&note))?;
        Ok(true)
    }

    /// Removes the client of an expired note.
    pub(crate) fn forget_client(&mut self, row: &[u8; 32]) -> Result<(), StoreError> {
        let (id, _) = split(row);
        // The lock makes the note be read again: a consent may have prolonged the registration.
        CLIENTS.has(self.rows(), &id)?;
        CLIENTS.remove(self.rows, &id)
    }

    /// Keeps a registered client at least until this time. Returns whether it exists.
    fn keep_client(&mut self, id: ClientId, until: UnixMs, now: UnixMs) -> Result<bool, StoreError> {
        let row = CLIENTS.get(self.rows(), &id.to_bytes())?;
        let Some(mut row) = row.filter(|row| now < row.expires_at) else { return Ok(false) };
        let before = row.expires_at;
        row.expires_at = before.max(until);
        CLIENTS.put(self.rows, &id.to_bytes(), &row)?;
        self.unexpire(Expiring::Client, before, &client_expiry_row(id))?;
        self.expire_at(Expiring::Client, row.expires_at, &client_expiry_row(id), now)?;
        Ok(true)
    }

    pub(crate) fn consent(
        &mut self,
        new: &NewConnection,
        by: &Authority,
        now: UnixMs,
    ) -> Result<(), WriteError<ConnectError>> {
        let fits = is_name(&new.client_name)
            && [&new.client, &new.redirect_uri, &new.redirect_host].into_iter().all(|uri| is_uri(uri))
            && new.allowance <= ATTEMPTS_MAX
            && new.expires_at > now
            && new.expires_at <= now.saturating_add(CONNECTION_MS_MAX);
        let key = connection_key(new.account, new.id);
        let used = CONNECTIONS.has(self.rows(), &key)? || TOKENS.has(self.rows(), &new.code)?;
        if !fits || used {
            return refuse(ConnectError::Bad);
        }
        // A deleted account has no sessions. The row of the account is read first, because it guards them.
        if !self.has_account(new.account)? || !self.holds(by, new.account, now)? {
            return refuse(ConnectError::Outdated);
        }
        if self.count_connections(new.account)? >= CONNECTIONS_MAX {
            return refuse(ConnectError::TooMany);
        }
        // Before its code is redeemed the client is not connected, and the user's consent alone need not be meant.
        if let Ok(client) = new.client.parse::<ClientId>()
            && !self.keep_client(client, now.saturating_add(CODE_MS), now)?
        {
            return refuse(ConnectError::Unknown);
        }
        let code = SecretRow {
            kind: SecretKind::Code,
            account: new.account,
            connection: new.id,
            expires_at: now.saturating_add(CODE_MS),
        };
        let row = ConnectionRow {
            created_at: now,
            expires_at: code.expires_at,
            granted_until: new.expires_at,
            last_used_at: now,
            allowance: new.allowance,
            used: 0,
            client: new.client.clone(),
            client_name: new.client_name.clone(),
            redirect_uri: new.redirect_uri.clone(),
            redirect_host: new.redirect_host.clone(),
            challenge: new.challenge,
            code: new.code,
            tokens: None,
        };
        self.put_secret(&new.code, code)?;
        self.put_connection(&key, &row)?;
        self.expire_at(Expiring::Connection, row.expires_at, &key, now)?;
        Ok(())
    }

    fn count_connections(&self, account: AccountId) -> Result<usize, StoreError> {
        Ok(CONNECTIONS.keys(self.rows(), account_range(account), CONNECTIONS_MAX)?.len())
    }

    fn put_connection(&mut self, key: &[u8; 32], row: &ConnectionRow) -> Result<(), StoreError> {
        CONNECTIONS.put(self.rows, key, row)
    }

    fn put_secret(&mut self, hash: &SecretHash, row: SecretRow) -> Result<(), StoreError> {
        TOKENS.put(self.rows, hash, &row)
    }

    /// The connection of a secret of this kind, if it has not ended.
    fn connection_holding(
        &mut self,
        secret: &SecretHash,
        kind: SecretKind,
        now: UnixMs,
    ) -> Result<Option<(SecretRow, ConnectionRow)>, StoreError> {
        let row = TOKENS.get(self.rows(), secret)?;
        let Some(row) = row.filter(|row| row.kind == kind) else { return Ok(None) };
        let connection = read_connection(self.rows(), row.account, row.connection, now)?;
        Ok(connection.map(|connection| (row, connection)))
    }

    pub(crate) fn redeem(
        &mut self,
        redemption: &Redemption,
        now: UnixMs,
    ) -> Result<Granted, WriteError<GrantError>> {
        let Some((code, mut row)) = self.connection_holding(&redemption.code, SecretKind::Code, now)? else {
            return refuse(GrantError::Unknown);
        };
        let known = row.client == redemption.client
            && row.redirect_uri == redemption.redirect_uri
            && row.challenge == redemption.challenge;
        if row.tokens.is_some() || !known {
            // The code was used by a third party, so the connection must end.
            self.end_connection(code.account, code.connection)?;
            return refuse(if known { GrantError::Reused } else { GrantError::Unknown });
        }
        if let Ok(client) = row.client.parse::<ClientId>() {
            // If the limit on clients has removed it since the consent, the connection works without it.
            self.keep_client(client, row.granted_until.saturating_add(CLIENT_KEEP_MS), now)?;
        }
        let key = connection_key(code.account, code.connection);
        self.unexpire(Expiring::Connection, row.expires_at, &key)?;
        row.expires_at = row.granted_until;
        self.expire_at(Expiring::Connection, row.expires_at, &key, now)?;
        let family = SecretRow { kind: SecretKind::Family, expires_at: row.expires_at, ..code };
        self.put_secret(&redemption.family, family)?;
        let NextTokens { access, refresh } = redemption.next;
        row.tokens = Some(Tokens { family: redemption.family, refresh, access, before: None });
        self.grant_access(code, row, now)
    }

    pub(crate) fn renew(
        &mut self,
        renewal: &Renewal,
        now: UnixMs,
    ) -> Result<Granted, WriteError<GrantError>> {
        let found = self.connection_holding(&renewal.family, SecretKind::Family, now)?;
        let Some((family, mut row)) = found else { return refuse(GrantError::Unknown) };
        let Some(tokens) = &mut row.tokens else { return refuse(GrantError::Unknown) };
        if row.client != renewal.client || tokens.refresh != renewal.refresh {
            // Only an owner of a refresh token knows the family.
            self.end_connection(family.account, family.connection)?;
            return refuse(GrantError::Reused);
        }
        let NextTokens { access, refresh } = renewal.next;
        tokens.refresh = refresh;
        let gone = tokens.before.replace(tokens.access);
        tokens.access = access;
        if let Some(gone) = gone {
            TOKENS.remove(self.rows, &gone)?;
        }
        self.grant_access(family, row, now)
    }

    /// Writes a connection with its new access token.
    fn grant_access(
        &mut self,
        of: SecretRow,
        mut row: ConnectionRow,
        now: UnixMs,
    ) -> Result<Granted, WriteError<GrantError>> {
        let Some(tokens) = &row.tokens else { return refuse(GrantError::Unknown) };
        let access_expires_at = now.saturating_add(ACCESS_MS).min(row.expires_at);
        let access = SecretRow { kind: SecretKind::Access, expires_at: access_expires_at, ..of };
        self.put_secret(&tokens.access, access)?;
        row.last_used_at = now;
        self.put_connection(&connection_key(of.account, of.connection), &row)?;
        Ok(Granted { connection: of.connection, access_expires_at })
    }

    /// Ends the connections of an account whose code was not redeemed yet.
    pub(crate) fn end_consents(&mut self, account: AccountId) -> Result<(), StoreError> {
        for key in CONNECTIONS.keys(self.rows(), account_range(account), CONNECTIONS_MAX)? {
            let is_consent = CONNECTIONS.get(self.rows(), &key)?.is_some_and(|row| row.tokens.is_none());
            if is_consent {
                self.end_connection(account, ConnectionId::from_bytes(split(&key).1))?;
            }
        }
        Ok(())
    }

    /// Removes a connection with all its secrets; returns whether it existed.
    pub(crate) fn end_connection(
        &mut self,
        account: AccountId,
        id: ConnectionId,
    ) -> Result<bool, StoreError> {
        let key = connection_key(account, id);
        let Some(expires_at) = self.remove_connection(&key)? else { return Ok(false) };
        self.unexpire(Expiring::Connection, expires_at, &key)?;
        Ok(true)
    }

    /// Removes a connection except for the note of its expiry, which is returned.
    pub(crate) fn remove_connection(&mut self, key: &[u8; 32]) -> Result<Option<UnixMs>, StoreError> {
        let Some(row) = CONNECTIONS.get(self.rows(), key)? else { return Ok(None) };
        CONNECTIONS.remove(self.rows, key)?;
        for secret in row.secrets() {
            TOKENS.remove(self.rows, &secret)?;
        }
        Ok(Some(row.expires_at))
    }

    pub(crate) fn give_back(
        &mut self,
        secret: SecretHash,
        client: &str,
    ) -> Result<(), WriteError<GrantError>> {
        let Some(row) = TOKENS.get(self.rows(), &secret)? else { return refuse(GrantError::Unknown) };
        let connection = read_connection(self.rows(), row.account, row.connection, 0)?;
        if connection.is_none_or(|connection| connection.client != client) {
            return refuse(GrantError::Unknown);
        }
        match row.kind {
            SecretKind::Access => TOKENS.remove(self.rows, &secret)?,
            SecretKind::Family | SecretKind::Code => {
                self.end_connection(row.account, row.connection)?;
            }
        }
        Ok(())
    }

    /// Charges or holds a credit by `charge`, and uses one of the connection's full checks for it if there is a balance.
    pub(crate) fn begin(
        &mut self,
        connection: Option<ConnectionId>,
        account: AccountId,
        now: UnixMs,
        charge: impl FnOnce(&mut Self) -> Result<Option<Balance>, WriteError<HoldError>>,
    ) -> Result<Option<Balance>, WriteError<AttemptError>> {
        let charge = |txn: &mut Self| charge(txn).map_err(|error| error.map(AttemptError::from));
        let Some(connection) = connection else { return charge(self) };
        let row = read_connection(self.rows(), account, connection, now)?;
        let Some(mut row) = row.filter(|row| row.tokens.is_some()) else {
            return refuse(AttemptError::Ended);
        };
        if row.used >= row.allowance {
            return refuse(AttemptError::Spent { allowance: row.allowance });
        }
        let Some(balance) = charge(self)? else { return Ok(None) };
        row.used += 1;
        row.last_used_at = now;
        self.put_connection(&connection_key(account, connection), &row)?;
        Ok(Some(balance))
    }
}
