//! Clients of assistants, the connections that users have consented to, and the secrets of these connections.
//!
//! A connection has three states. After the consent, its code can be redeemed for a minute. With tokens it is
//! connected. It is ended by its user, its client, its time, or the second use of a code or refresh token, which shows
//! that a third party has the secret (RFC 6749 4.1.2, RFC 9700 4.14.2). A connection that has ended has no row.
//!
//! A request without a valid secret causes no write: it is refused after a read.

use super::redb::RedbStore;
use super::row::Row;
use super::tables::{
    CLIENTS, CONNECTIONS, ClientRow, ConnectionRow, Expiring, SecretKind, SecretRow, TOKENS, Tokens,
    account_range, client_expiry_row, connection_key, expiring_row, expiry_key,
};
use super::txn::Txn;
use super::write_error::{WriteError, refuse};
use super::writer::Class;
use ::redb::{ReadableTable, ReadableTableMetadata};
use store::credits::Balance;
use store::*;
use store::{AccountId, ClientId, ConnectionId, HoldError, Pending, StoreError};

impl Connections for RedbStore {
    fn register_client(&self, new: NewClient, now: UnixMs) -> Pending<Client, ConnectError> {
        self.write(Class::New, move |txn| txn.register_client(new, now))
    }

    fn client(&self, id: ClientId, now: UnixMs) -> Pending<Option<Client>, StoreError> {
        Pending::of(|| {
            let clients = self.begin_read()?.open_table(CLIENTS)?;
            let Some(row) = clients.get(&id.to_bytes())? else { return Ok(None) };
            let row = ClientRow::decode(row.value())?;
            Ok((now < row.expires_at).then(|| view_client(id, row)))
        })
    }

    fn consent(&self, new: NewConnection, now: UnixMs) -> Pending<(), ConnectError> {
        self.write(Class::New, move |txn| txn.consent(new, now))
    }

    fn redeem(&self, redemption: Redemption, now: UnixMs) -> Pending<Granted, GrantError> {
        self.if_known(redemption.code, move |txn| txn.redeem(&redemption, now))
    }

    fn renew(&self, renewal: Renewal, now: UnixMs) -> Pending<Granted, GrantError> {
        self.if_known(renewal.family, move |txn| txn.renew(&renewal, now))
    }

    fn connection_of(&self, access: &SecretHash, now: UnixMs) -> Pending<Option<Connection>, StoreError> {
        Pending::of(|| {
            let transaction = self.begin_read()?;
            let secret =
                transaction.open_table(TOKENS)?.get(access)?.map(|row| SecretRow::decode(row.value()));
            let Some(secret) = secret.transpose()? else { return Ok(None) };
            if secret.kind != SecretKind::Access || now >= secret.expires_at {
                return Ok(None);
            }
            let connections = transaction.open_table(CONNECTIONS)?;
            let row = read_connection(&connections, secret.account, secret.connection, now)?;
            Ok(row.map(|row| view(secret.account, secret.connection, row)))
        })
    }

    fn connections(&self, account: AccountId, now: UnixMs) -> Pending<Vec<Connection>, StoreError> {
        Pending::of(|| {
            let connections = self.begin_read()?.open_table(CONNECTIONS)?;
            let range = account_range(account);
            let mut found = Vec::new();
            for next in connections.range::<&[u8; 32]>(range.start()..=range.end())?.rev() {
                let (key, row) = next?;
                let row = ConnectionRow::decode(row.value())?;
                if row.tokens.is_some() && now < row.expires_at {
                    let (_, id) = super::tables::split(key.value());
                    found.push(view(account, ConnectionId::from_bytes(id), row));
                }
            }
            Ok(found)
        })
    }

    fn end_connection(&self, account: AccountId, id: ConnectionId) -> Pending<(), GrantError> {
        self.write(Class::New, move |txn| {
            if txn.end_connection(account, id)? { Ok(()) } else { refuse(GrantError::Unknown) }
        })
    }

    fn give_back(&self, secret: SecretHash, client: String) -> Pending<(), GrantError> {
        self.if_known(secret, move |txn| txn.give_back(secret, &client))
    }
}

impl RedbStore {
    /// Queues a write about a secret if the secret exists.
    fn if_known<T: Send + 'static>(
        &self,
        secret: SecretHash,
        work: impl FnOnce(&mut Txn<'_>) -> Result<T, WriteError<GrantError>> + Send + 'static,
    ) -> Pending<T, GrantError> {
        let known = || -> Result<bool, StoreError> {
            Ok(self.begin_read()?.open_table(TOKENS)?.get(&secret)?.is_some())
        };
        match known() {
            Ok(true) => self.write(Class::New, work),
            Ok(false) => Pending::ready(Err(GrantError::Unknown)),
            Err(error) => Pending::ready(Err(error.into())),
        }
    }
}

fn view_client(id: ClientId, row: ClientRow) -> Client {
    Client { id, name: row.name, redirect_uris: row.redirect_uris, created_at: row.created_at }
}

fn view(account: AccountId, id: ConnectionId, row: ConnectionRow) -> Connection {
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
fn read_connection(
    connections: &impl ReadableTable<&'static [u8; 32], &'static [u8]>,
    account: AccountId,
    id: ConnectionId,
    now: UnixMs,
) -> Result<Option<ConnectionRow>, StoreError> {
    let Some(row) = connections.get(&connection_key(account, id))? else { return Ok(None) };
    let row = ConnectionRow::decode(row.value())?;
    Ok((now < row.expires_at).then_some(row))
}

/// Whether a stranger's text may be shown to people.
fn is_name(text: &str) -> bool {
    text.chars().count() <= CLIENT_NAME_CHARS_MAX && !text.chars().any(char::is_control)
}

fn is_uri(text: &str) -> bool {
    (1..=URI_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

impl Txn<'_> {
    fn register_client(&mut self, new: NewClient, now: UnixMs) -> Result<Client, WriteError<ConnectError>> {
        let fits = is_name(&new.name)
            && (1..=REDIRECT_URIS_MAX).contains(&new.redirect_uris.len())
            && new.redirect_uris.iter().all(|uri| is_uri(uri));
        let clients = self.transaction.open_table(CLIENTS)?;
        if !fits || clients.get(&new.id.to_bytes())?.is_some() {
            return refuse(ConnectError::Bad);
        }
        let crowded = clients.len()? >= CLIENTS_MAX;
        drop(clients);
        if crowded && !self.forget_one_client(now)? {
            return refuse(ConnectError::TooMany);
        }
        let expires_at = now.saturating_add(CLIENT_UNUSED_MS);
        let row = ClientRow { created_at: now, expires_at, name: new.name, redirect_uris: new.redirect_uris };
        self.transaction.open_table(CLIENTS)?.insert(&new.id.to_bytes(), row.encode().as_slice())?;
        self.expire_at(Expiring::Client, expires_at, &client_expiry_row(new.id), now)?;
        Ok(view_client(new.id, row))
    }

    /// Removes the client that expires first, if it never had a connection or had one long ago.
    fn forget_one_client(&mut self, now: UnixMs) -> Result<bool, StoreError> {
        let soon = now.saturating_add(CLIENT_UNUSED_MS);
        let first = expiry_key(Expiring::Client, 0, &[0; 32]);
        let last = expiry_key(Expiring::Client, soon, &[0xff; 32]);
        let next = self.expiries.range::<&[u8; 41]>(&first..=&last)?.next().transpose()?;
        let Some(note) = next.map(|(key, _)| *key.value()) else { return Ok(false) };
        self.expiries.remove(&note)?;
        self.forget_client(&expiring_row(&note))?;
        Ok(true)
    }

    /// Removes the client of an expired note.
    pub(super) fn forget_client(&mut self, row: &[u8; 32]) -> Result<(), StoreError> {
        let (id, _) = super::tables::split(row);
        self.transaction.open_table(CLIENTS)?.remove(&id)?;
        Ok(())
    }

    /// Keeps a registered client at least until this time. Returns whether it exists.
    fn keep_client(&mut self, id: ClientId, until: UnixMs, now: UnixMs) -> Result<bool, StoreError> {
        let mut clients = self.transaction.open_table(CLIENTS)?;
        let row = clients.get(&id.to_bytes())?.map(|row| ClientRow::decode(row.value())).transpose()?;
        let Some(mut row) = row.filter(|row| now < row.expires_at) else { return Ok(false) };
        let before = row.expires_at;
        row.expires_at = before.max(until);
        clients.insert(&id.to_bytes(), row.encode().as_slice())?;
        drop(clients);
        self.unexpire(Expiring::Client, before, &client_expiry_row(id))?;
        self.expire_at(Expiring::Client, row.expires_at, &client_expiry_row(id), now)?;
        Ok(true)
    }

    fn consent(&mut self, new: NewConnection, now: UnixMs) -> Result<(), WriteError<ConnectError>> {
        let fits = is_name(&new.client_name)
            && [&new.client, &new.redirect_uri, &new.redirect_host].into_iter().all(|uri| is_uri(uri))
            && new.allowance <= ATTEMPTS_MAX
            && new.expires_at > now
            && new.expires_at <= now.saturating_add(CONNECTION_MS_MAX);
        let key = connection_key(new.account, new.id);
        let used = self.transaction.open_table(CONNECTIONS)?.get(&key)?.is_some()
            || self.transaction.open_table(TOKENS)?.get(&new.code)?.is_some();
        if !fits || used {
            return refuse(ConnectError::Bad);
        }
        if self.accounts.get(&new.account.to_bytes())?.is_none() {
            return refuse(ConnectError::Unknown);
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
            client: new.client,
            client_name: new.client_name,
            redirect_uri: new.redirect_uri,
            redirect_host: new.redirect_host,
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
        let range = account_range(account);
        let connections = self.transaction.open_table(CONNECTIONS)?;
        Ok(connections.range::<&[u8; 32]>(range.start()..=range.end())?.take(CONNECTIONS_MAX).count())
    }

    fn put_connection(&mut self, key: &[u8; 32], row: &ConnectionRow) -> Result<(), StoreError> {
        self.transaction.open_table(CONNECTIONS)?.insert(key, row.encode().as_slice())?;
        Ok(())
    }

    fn put_secret(&mut self, hash: &SecretHash, row: SecretRow) -> Result<(), StoreError> {
        self.transaction.open_table(TOKENS)?.insert(hash, row.encode().as_slice())?;
        Ok(())
    }

    /// The connection of a secret of this kind, if it has not ended.
    fn connection_holding(
        &mut self,
        secret: &SecretHash,
        kind: SecretKind,
        now: UnixMs,
    ) -> Result<Option<(SecretRow, ConnectionRow)>, StoreError> {
        let secrets = self.transaction.open_table(TOKENS)?;
        let row = secrets.get(secret)?.map(|row| SecretRow::decode(row.value())).transpose()?;
        let Some(row) = row.filter(|row| row.kind == kind) else { return Ok(None) };
        let connections = self.transaction.open_table(CONNECTIONS)?;
        let connection = read_connection(&connections, row.account, row.connection, now)?;
        Ok(connection.map(|connection| (row, connection)))
    }

    fn redeem(&mut self, redemption: &Redemption, now: UnixMs) -> Result<Granted, WriteError<GrantError>> {
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

    fn renew(&mut self, renewal: &Renewal, now: UnixMs) -> Result<Granted, WriteError<GrantError>> {
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
            self.transaction.open_table(TOKENS)?.remove(&gone)?;
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

    /// Removes a connection with all its secrets; returns whether it existed.
    fn end_connection(&mut self, account: AccountId, id: ConnectionId) -> Result<bool, StoreError> {
        let key = connection_key(account, id);
        let Some(expires_at) = self.remove_connection(&key)? else { return Ok(false) };
        self.unexpire(Expiring::Connection, expires_at, &key)?;
        Ok(true)
    }

    /// Removes a connection except for the note of its expiry, which is returned.
    pub(super) fn remove_connection(&mut self, key: &[u8; 32]) -> Result<Option<UnixMs>, StoreError> {
        let mut connections = self.transaction.open_table(CONNECTIONS)?;
        let row = connections.remove(key)?.map(|row| ConnectionRow::decode(row.value())).transpose()?;
        let Some(row) = row else { return Ok(None) };
        let mut secrets = self.transaction.open_table(TOKENS)?;
        for secret in row.secrets() {
            secrets.remove(&secret)?;
        }
        Ok(Some(row.expires_at))
    }

    fn give_back(&mut self, secret: SecretHash, client: &str) -> Result<(), WriteError<GrantError>> {
        let mut secrets = self.transaction.open_table(TOKENS)?;
        let row = secrets.get(&secret)?.map(|row| SecretRow::decode(row.value())).transpose()?;
        let Some(row) = row else { return refuse(GrantError::Unknown) };
        let connections = self.transaction.open_table(CONNECTIONS)?;
        let connection = read_connection(&connections, row.account, row.connection, 0)?;
        drop(connections);
        if connection.is_none_or(|connection| connection.client != client) {
            return refuse(GrantError::Unknown);
        }
        match row.kind {
            SecretKind::Access => drop(secrets.remove(&secret)?),
            SecretKind::Family | SecretKind::Code => {
                drop(secrets);
                self.end_connection(row.account, row.connection)?;
            }
        }
        Ok(())
    }

    /// Charges or holds a credit by `charge`, and uses one of the connection's full checks for it.
    pub fn begin(
        &mut self,
        connection: Option<ConnectionId>,
        account: AccountId,
        now: UnixMs,
        charge: impl FnOnce(&mut Self) -> Result<Balance, WriteError<HoldError>>,
    ) -> Result<Balance, WriteError<AttemptError>> {
        let charge = |txn: &mut Self| charge(txn).map_err(|error| error.map(AttemptError::from));
        let Some(connection) = connection else { return charge(self) };
        let connections = self.transaction.open_table(CONNECTIONS)?;
        let row = read_connection(&connections, account, connection, now)?;
        drop(connections);
        let Some(mut row) = row.filter(|row| row.tokens.is_some()) else {
            return refuse(AttemptError::Ended);
        };
        if row.used >= row.allowance {
            return refuse(AttemptError::Spent { allowance: row.allowance });
        }
        let balance = charge(self)?;
        row.used += 1;
        row.last_used_at = now;
        self.put_connection(&connection_key(account, connection), &row)?;
        Ok(balance)
    }
}
