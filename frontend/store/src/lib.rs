//! The types of the store: accounts, API keys, credits, results, batches, lists, users, assistants and webhooks, their ids, and the
//! errors of operations. The store itself is `Store` in the crate `store-rules`; its operations answer by [`Pending`].
//!
//! The crate also has the rules that need no database: [`credits`], [`rate_limit`], [`webhooks`], and the [`clock`].

pub mod backup;
pub mod clock;
pub mod credits;
mod error;
pub mod histogram;
pub mod id;
mod names;
mod pending;
pub mod rate_limit;
mod types;
pub mod webhooks;

pub use api::SubscriptionStatus;
pub use backup::Sizes;
pub use error::{BatchError, ChangeError, HoldError, MAY_BE_DONE, OpenError, SettleError, StoreError};
pub use id::{AccountId, BatchId, ClientId, ConnectionId, EntryId, KeyId, ListId, MessageId, WebhookId};
pub use pending::{Pending, Reply, pending};
pub use types::*;

/// A wall-clock time in milliseconds since 1970-01-01T00:00:00Z.
pub type UnixMs = u64;

/// The longest name of an account, label of a key or note of a grant, in characters.
pub const TEXT_CHARS_MAX: usize = 200;
