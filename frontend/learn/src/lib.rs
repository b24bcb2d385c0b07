//! Learning from the operator's own sending: bounces and deliveries as evidence about addresses.
//!
//! A server that accepts every recipient shows nothing at RCPT. Only mail that was sent there shows whether a mailbox exists: it
//! came back, or it did not.
//!
//! - [`read()`] reads a file: one message, an mbox, or the export of a provider as CSV or JSON. It gives each [`Event`] and counts the rest.
//! - `meaning.rs` decides what a failure says. It classifies the reply of the server by the rules for live replies
//!   ([`engine_proto::verdict`]), and compares the result with the status of the report.
//! - [`Table`] holds the events by a keyed hash of the address, and [`TableFile`] keeps it on disk.
//! - [`Evidence::apply`] changes a verdict that the servers left open.
//! - [`Scorer`] joins the verdicts of an earlier output with the events, and gives shares of bounces with intervals.
//!
//! Invariants:
//!
//! - A bounce is definite only if the status and the words of the server agree that the mailbox or the domain does not exist, or
//!   that the mailbox is disabled.
//! - An answer of a server that is definite itself is never changed.
//! - The table contains no address. `Debug` of no type of this crate shows one.
//! - Everyone can send a message to the address for bounces. The reader has bounds for each size and count, and a report inside a
//!   quoted message is not read. A forged report looks like a true one: only the mail server that receives it can refuse it.

#![deny(missing_docs)]

mod evidence;
mod export;
mod fields;
mod file;
mod mail;
mod mailbox;
mod meaning;
mod notice;
mod reading;
mod report;
mod score;
mod table;
#[cfg(test)]
mod tests;

pub use evidence::{Applied, BOUNCE_SECONDS_MAX, DELIVERY_SECONDS_MAX, Evidence, GIVE_UP_SECONDS};
pub use file::{TableError, TableFile};
pub use meaning::{Bounce, Cause, Meaning};
pub use reading::{Event, EventKind, LearnError, MESSAGE_BYTES_MAX, Tally, read};
pub use score::{FEW_OUTCOMES, Score, ScoreError, ScoreOptions, Scorer, time_of};
pub use table::{TABLE_ROWS_MAX, Table, TableCounts, TableKey};
