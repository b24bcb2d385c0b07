//! Clients of assistants, the connections that users have consented to, and the secrets of these connections.
//!
//! A connection has three states. After the consent, its code can be redeemed for a minute. With tokens it is
//! connected. It is ended by its user, its client, its time, or the second use of a code or refresh token, which shows
//! that a third party has the secret (RFC 6749 4.1.2, RFC 9700 4.14.2). A connection that has ended is removed.
//!
//! A request without a valid secret causes no write: it is refused after a read.

use crate::types::*;
use crate::{AccountId, ClientId, ConnectionId, Pending, StoreError};

/// The methods of the store for assistants: clients, connections and their attempts.
pub trait Connections {
    /// Stores a client that registers itself. It expires after [`CLIENT_UNUSED_MS`] if no connection uses it.
    fn register_client(&self, new: NewClient, now: UnixMs) -> Pending<Client, ConnectError>;

    /// A registered client.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] if it cannot be read, as for every read.
    fn client(&self, id: ClientId, now: UnixMs) -> Pending<Option<Client>, StoreError>;

    /// Stores a user's consent. The code can be redeemed for [`CODE_MS`].
    fn consent(&self, new: NewConnection, by: Authority, now: UnixMs) -> Pending<(), ConnectError>;

    /// Exchanges a code for tokens, once. A second use of the code ends its connection. A use with a wrong client,
    /// redirect URI or verifier makes the code invalid.
    fn redeem(&self, redemption: Redemption, now: UnixMs) -> Pending<Granted, GrantError>;

    /// Exchanges a refresh token for new tokens, once. A second use ends its connection.
    fn renew(&self, renewal: Renewal, now: UnixMs) -> Pending<Granted, GrantError>;

    /// The connection of an access token, if both are valid.
    ///
    /// # Errors
    ///
    /// As [`Connections::client`].
    fn connection_of(&self, access: &SecretHash, now: UnixMs) -> Pending<Option<Connection>, StoreError>;

    /// The connections of an account, newest first.
    ///
    /// # Errors
    ///
    /// As [`Connections::client`].
    fn connections(&self, account: AccountId, now: UnixMs) -> Pending<Vec<Connection>, StoreError>;

    /// Ends a connection of this account. Its tokens are invalid when this is answered.
    fn end_connection(&self, account: AccountId, id: ConnectionId) -> Pending<(), GrantError>;

    /// Revokes a secret for its client (RFC 7009): a refresh token's family ends the whole connection, an access token
    /// only itself.
    fn give_back(&self, secret: SecretHash, client: String) -> Pending<(), GrantError>;
}
