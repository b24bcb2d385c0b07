//! Clients of assistants, the connections that users have consented to, and what was given out to them.
//!
//! A connection goes through three states: consented to (its code can be redeemed for a minute), connected (it has
//! tokens), and gone: ended by its user, its client, its time, or by the second use of a code or refresh token, which
//! says that somebody else has it (RFC 6749 4.1.2, RFC 9700 4.14.2). A connection that has ended leaves no trace.
//!
//! Whoever holds no secret of ours cannot make the store write: what is unknown is refused by a read.

use crate::types::*;
use crate::{AccountId, ClientId, ConnectionId, Pending, StoreError};

/// The store's methods about assistants; see the module.
pub trait Connections {
    /// Remembers a client that registers itself, for [`CLIENT_UNUSED_MS`] unless it gets connected.
    fn register_client(&self, new: NewClient, now: UnixMs) -> Pending<Client, ConnectError>;

    /// A client that registered itself.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when it cannot be read, as for every read.
    fn client(&self, id: ClientId, now: UnixMs) -> Result<Option<Client>, StoreError>;

    /// Notes a user's consent: the code can be redeemed for [`CODE_MS`].
    fn consent(&self, new: NewConnection, now: UnixMs) -> Pending<(), ConnectError>;

    /// Gives tokens for a code, once. A code that comes again ends its connection; one that comes with a wrong
    /// client, redirect URI or verifier is worth nothing from then on.
    fn redeem(&self, redemption: Redemption, now: UnixMs) -> Pending<Granted, GrantError>;

    /// Gives tokens for a refresh token, once. One that comes again ends its connection.
    fn renew(&self, renewal: Renewal, now: UnixMs) -> Pending<Granted, GrantError>;

    /// The connection that an access token is of, if both are good.
    ///
    /// # Errors
    /// As [`Connections::client`].
    fn connection_of(&self, access: &SecretHash, now: UnixMs) -> Result<Option<Connection>, StoreError>;

    /// The account's connections, the newest first.
    ///
    /// # Errors
    /// As [`Connections::client`].
    fn connections(&self, account: AccountId, now: UnixMs) -> Result<Vec<Connection>, StoreError>;

    /// Ends a connection of this account: its tokens are worth nothing once this is answered.
    fn end_connection(&self, account: AccountId, id: ConnectionId) -> Pending<(), GrantError>;

    /// What a client gives back (RFC 7009): with the family of its refresh tokens the whole connection, with an access
    /// token this alone.
    fn give_back(&self, secret: SecretHash, client: String) -> Pending<(), GrantError>;

    /// Begins a full check: takes one attempt of the connection and sets the credit aside, both or neither.
    fn attempt(
        &self,
        connection: ConnectionId,
        hold: HoldRef,
        now: UnixMs,
    ) -> Pending<Attempted, AttemptError>;

    /// [`Store::charge_known`](super::Store::charge_known) for an attempt of the connection.
    fn attempt_known(
        &self,
        connection: ConnectionId,
        hold: HoldRef,
        record: ResultRecord,
        now: UnixMs,
    ) -> Pending<Attempted, AttemptError>;
}
