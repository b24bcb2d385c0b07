//! The public JSON contract: the requests of callers, and the answers to them.
//!
//! [`VerifyBody`], [`BatchBody`] and [`ListBody`] are the bodies of requests, which are read strictly ([`request`]).
//! [`Verification`], [`BatchStatus`], [`List`] and [`Account`] are answers, [`ErrorBody`] is the body of errors, and
//! [`openapi::description`] describes all of them.
//!
//! Invariants: closed sets are enums, so a value outside of the contract cannot be rendered. Types with an address have
//! no `Debug` that would show it. The crate depends on no other crate of the project.

#![deny(missing_docs)]

pub mod account;
pub mod batch;
pub mod cause;
pub mod detail;
pub mod error;
pub mod json;
pub mod list;
mod names;
pub mod openapi;
pub mod reason;
pub mod request;
pub mod verification;
pub mod webhook;

pub use account::{Account, SubscriptionStatus};
pub use batch::{BatchCreated, BatchState, BatchStatus, ResultRow};
pub use cause::{AFTER_REPEATS, CauseWords, UnverifiableCause};
pub use detail::{Detail, Dns, Evidence, Flags};
pub use error::{ErrorBody, ErrorCode, Issue, IssueType, Loc, NOT_AVAILABLE_ON, Offender};
pub use list::{
    BatchPage, BatchSummary, Counts, FoundAddresses, List, ListPage, ListStatus, ListWait, Noted,
    UnverifiableAddresses, WaitCause,
};
pub use reason::Reason;
pub use request::{BatchBody, DetailLevel, ListBody, Mode, VerifyBody};
pub use verification::{Checked, Checks, FastFindings, Findings, Verification};
pub use webhook::{
    Delivery, DeliveryAttempt, DeliveryError, DeliveryList, DeliveryStatus, ReasonCounts, Webhook,
    WebhookBody, WebhookChangeBody, WebhookData, WebhookDisabledReason, WebhookEvent, WebhookList,
    WebhookPayload, WebhookTested,
};
