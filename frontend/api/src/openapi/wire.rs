//! Mirrors of the types that render themselves by hand, and of what is a plain text in Rust.
//!
//! Nothing makes a value of them: they exist to be derived from. The tests hold their fields against what is rendered.

#![expect(dead_code, reason = "only their schemas are used")]

use crate::batch::BatchState;
use crate::{Checks, Detail, Reason};
use utoipa::ToSchema;

/// An email address: ASCII, or with UTF-8 (RFC 6531). No comments, no address literals, no domain of one label.
#[derive(ToSchema)]
#[schema(format = "idn-email", example = "alice@example.com")]
pub struct EmailAddress(String);

/// What a check found.
#[derive(ToSchema)]
pub struct Verification {
    /// The address, as submitted.
    email: String,
    /// True only for confirmed mailboxes. Null only in fast mode, when no problem was found.
    #[schema(required = true)]
    deliverable: Option<bool>,
    /// Why.
    reason: Reason,
    /// The balance after the call; null when nothing was charged.
    credits_remaining: Option<u64>,
    /// Full checks: whether it is your own answer of the last 24 hours, for free.
    #[schema(required = false)]
    cached: bool,
    /// Full checks that asked for it.
    #[schema(required = false)]
    detail: Detail,
    /// `fast` in fast mode, else absent.
    #[schema(inline, required = false)]
    mode: FastMode,
    /// Fast mode: the address as it was probably meant, where the domain looks like a typo.
    suggestion: Option<String>,
    /// Fast mode: each check. Null where there is no address to check.
    checks: Option<Checks>,
}

/// The one value of `mode` in answers.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
enum FastMode {
    Fast,
}

/// The score as a letter: A from 90, B from 75, C from 60, D from 40, F below.
#[derive(ToSchema)]
pub enum Grade {
    A,
    B,
    C,
    D,
    F,
}

/// The policy of the DMARC record (RFC 7489 6.3); null without one.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum DmarcPolicy {
    None,
    Quarantine,
    Reject,
}

/// Where a batch stands and, once it is completed, what was found.
#[derive(ToSchema)]
pub struct BatchStatus {
    /// The id by which it is polled.
    batch_id: String,
    /// Where it stands.
    status: BatchState,
    /// Percent of the addresses that are checked: 100 when completed.
    #[schema(value_type = f64, minimum = 0, maximum = 100)]
    progress: u64,
    /// Addresses in the batch.
    total: u32,
    /// Addresses checked so far.
    checked: u32,
    /// A row for each submitted address in the order of the request; null until the batch is completed.
    results: Option<Vec<ResultRow>>,
}

/// The answer about one address of a batch.
#[derive(ToSchema)]
pub struct ResultRow {
    /// The address, as submitted.
    email: String,
    /// True only for confirmed mailboxes.
    deliverable: bool,
    /// Why.
    reason: Reason,
}
