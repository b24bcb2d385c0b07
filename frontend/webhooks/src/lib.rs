//! Webhooks: the signature and the body of messages, and the sender.
//!
//! [`store::webhooks`] has the rules: the times of attempts, the order of messages, the states of endpoints. This crate has
//! what happens outside of the store:
//!
//! - [`url`] decides which URLs an endpoint may have.
//! - [`signature`] has secrets and signatures, as Standard Webhooks describes.
//! - [`payload`] makes the body of a message.
//! - [`post`] makes one attempt, within limits of time, bytes and destinations.
//! - [`Sender`] is the thread that claims messages and attempts them.
//!
//! Invariants: a connection goes only to an address that was checked. No log has a URL, a secret or the text of an answer.

mod lanes;
pub mod payload;
pub mod post;
mod sender;
pub mod signature;
pub mod url;

pub use sender::{Sender, Settings};
