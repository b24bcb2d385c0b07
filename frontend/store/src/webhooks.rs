//! Webhooks: endpoints of accounts, the messages for them, and the rules of their delivery.
//!
//! An endpoint gets a message when a batch or a list of its account ends. The write that ends the object also writes the
//! messages, so none is lost by a crash, and none is sent for something that did not end. A sender claims an endpoint for
//! [`CLAIM_MS`], attempts one message, and notes the result.
//!
//! The rules are pure: [`schedule`] has the times of attempts, [`ObjectQueue`] the order of messages, and [`EndpointHealth`] the
//! states of an endpoint.

mod health;
mod queue;
pub mod schedule;
mod types;

pub use health::{DisableReason, EndpointHealth, EndpointState};
pub use queue::ObjectQueue;
pub use types::*;

use crate::UnixMs;

/// The most endpoints of an account.
pub const WEBHOOKS_MAX: usize = 10;

/// The longest URL of an endpoint, in bytes.
pub const WEBHOOK_URL_BYTES_MAX: usize = 2048;

/// The longest label of an endpoint, in characters.
pub const WEBHOOK_LABEL_CHARS_MAX: usize = 100;

/// How long the old secret signs as well after a rotation, in milliseconds.
pub const OLD_SECRET_MS: UnixMs = 24 * 60 * 60 * 1000;

/// The most old secrets that sign as well. Beyond it, a rotation is refused.
pub const OLD_SECRETS_MAX: usize = 3;

/// The most messages that wait at an endpoint. Beyond it, new events are missed: they are counted, and not sent.
pub const WAITING_MAX: u32 = 500;

/// The most deliveries that the log of an endpoint has, with those that wait. Beyond it, the oldest ended one is removed.
pub const DELIVERIES_MAX: u32 = 1000;

/// How long a delivery is in the log after its event, in milliseconds.
pub const DELIVERY_KEEP_MS: UnixMs = 7 * 24 * 60 * 60 * 1000;

/// How long a sender has an endpoint after a claim. If the sender does not note a result in this time, another one may
/// claim it.
pub const CLAIM_MS: UnixMs = 60 * 1000;

const _: () = assert!(WAITING_MAX < DELIVERIES_MAX);
const _: () = assert!(schedule::TOTAL_MS_MAX < DELIVERY_KEEP_MS);
