//! Clients of assistants, the connections that users have consented to, and the secrets of these connections.
//!
//! A connection has three states. After the consent, its code can be redeemed for a minute. With tokens it is
//! connected. It is ended by its user, its client, its time, or the second use of a code or refresh token, which shows
//! that a third party has the secret (RFC 6749 4.1.2, RFC 9700 4.14.2). A connection that has ended is removed.
//!
//! A request without a valid secret causes no write: it is refused after a read.

use super::{Prepared, Store};
use crate::backend::{Class, Job, Lock};
use crate::connections::{read_connection, view, view_client};
use crate::rows::{Rows, Walk};
use crate::shared::Shared;
use crate::tables::{CLIENTS, CONNECTIONS, SecretKind, TOKENS, account_range, split};
use crate::txn::Txn;
use crate::write_error::{WriteError, refuse};
use store::*;

impl Store {
    /// Stores a client that registers itself. It expires after [`CLIENT_UNUSED_MS`] if no connection uses it.
    pub fn register_client(&self, new: NewClient, now: UnixMs) -> Pending<Client, ConnectError> {
        let job = Job::general(Class::New).with_lock(Lock::Clients);
        self.write(job, move |txn| txn.register_client(&new, now))
    }

    /// A registered client that has not expired.
    pub fn client(&self, id: ClientId, now: UnixMs) -> Pending<Option<Client>, StoreError> {
        self.read(None, move |_, rows| {
            let row = CLIENTS.get(rows, &id.to_bytes())?.filter(|row| now < row.expires_at);
            Ok(row.map(|row| view_client(id, row)))
        })
    }

    /// Stores a user's consent. The code can be redeemed for [`CODE_MS`].
    pub fn consent(&self, new: NewConnection, by: Authority, now: UnixMs) -> Pending<(), ConnectError> {
        self.write(Job::of(new.account, Class::New), move |txn| txn.consent(&new, &by, now))
    }

    /// Exchanges a code for tokens, once. A second use of the code ends its connection. A use with a wrong client,
    /// redirect URI or verifier makes the code invalid.
    pub fn redeem(&self, redemption: Redemption, now: UnixMs) -> Pending<Granted, GrantError> {
        self.if_known(redemption.code, move |txn| txn.redeem(&redemption, now))
    }

    /// Exchanges a refresh token for new tokens, once. A second use ends its connection.
    pub fn renew(&self, renewal: Renewal, now: UnixMs) -> Pending<Granted, GrantError> {
        self.if_known(renewal.family, move |txn| txn.renew(&renewal, now))
    }

    /// The connection of an access token, if both are valid.
    pub fn connection_of(&self, access: &SecretHash, now: UnixMs) -> Pending<Option<Connection>, StoreError> {
        let access = *access;
        self.read(None, move |_, rows| {
            let secret = TOKENS.get(rows, &access)?;
            let is_valid = |kind, until| kind == SecretKind::Access && now < until;
            let Some(secret) = secret.filter(|row| is_valid(row.kind, row.expires_at)) else {
                return Ok(None);
            };
            let row = read_connection(rows, secret.account, secret.connection, now)?;
            Ok(row.map(|row| view(secret.account, secret.connection, row)))
        })
    }

    /// The connections of an account, newest first.
    pub fn connections(&self, account: AccountId, now: UnixMs) -> Pending<Vec<Connection>, StoreError> {
        self.read(None, move |_, rows| {
            let mut found = Vec::new();
            CONNECTIONS.walk_back(rows, account_range(account), usize::MAX, |key, row| {
                if row.tokens.is_some() && now < row.expires_at {
                    found.push(view(account, ConnectionId::from_bytes(split(&key).1), row));
                }
                Walk::On
            })?;
            Ok(found)
        })
    }

    /// Ends a connection of this account. Its tokens are invalid when this is answered.
    pub fn end_connection(&self, account: AccountId, id: ConnectionId) -> Pending<(), GrantError> {
        self.write(Job::of(account, Class::New), move |txn| {
            if txn.end_connection(account, id)? { Ok(()) } else { refuse(GrantError::Unknown) }
        })
    }

    /// Revokes a secret for its client (RFC 7009): a refresh token's family ends the whole connection, an access token
    /// only itself.
    pub fn give_back(&self, secret: SecretHash, client: String) -> Pending<(), GrantError> {
        self.if_known(secret, move |txn| txn.give_back(secret, &client))
    }

    /// Queues a write about a secret if the secret exists.
    fn if_known<T: Send + 'static>(
        &self,
        secret: SecretHash,
        work: impl Fn(&mut Txn<'_>) -> Result<T, WriteError<GrantError>> + Send + 'static,
    ) -> Pending<T, GrantError> {
        let prepare = move |_: &Shared, rows: &dyn Rows| match TOKENS.has(rows, &secret)? {
            true => Ok(Prepared::Write(())),
            false => Err(GrantError::Unknown),
        };
        self.write_prepared(Job::general(Class::New), prepare, move |txn, ()| work(txn))
    }
}
