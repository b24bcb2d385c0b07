//! The public JSON contract: what callers send and what they are answered.
//!
//! Closed sets are enums, so that a value outside the contract cannot be rendered. Bodies of requests are read
//! by [`request`], strictly; everything else here is only ever written. The crate knows nothing of how the
//! answers come about. Types that hold an address have no `Debug` that would show it.

#![deny(missing_docs)]

pub mod account;
pub mod batch;
pub mod detail;
pub mod error;
pub mod json;
pub mod openapi;
pub mod reason;
pub mod request;
pub mod verification;

pub use account::{Account, SubscriptionStatus};
pub use batch::{BatchCreated, BatchState, BatchStatus, ResultRow};
pub use detail::{Detail, Dns, Flags};
pub use error::{ErrorBody, ErrorCode, Issue, IssueType, Loc, NOT_AVAILABLE_ON, Offender};
pub use reason::Reason;
pub use request::{BatchBody, DetailLevel, Mode, VerifyBody};
pub use verification::{Checked, Checks, FastFindings, Findings, Verification};
