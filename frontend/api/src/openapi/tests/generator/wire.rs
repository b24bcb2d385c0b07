//! Mirrors of the types with a renderer of their own, and of texts with a format.
//!
//! They have no values: they exist only for their derived schemas. The tests compare their fields with the rendered
//! ones.

#![expect(dead_code, reason = "only their schemas are used")]

use crate::batch::BatchState;
use utoipa::ToSchema;

/// An email address: ASCII, or with UTF-8 (RFC 6531). No comments, no address literals, no domain of one label.
#[derive(ToSchema)]
#[schema(format = "idn-email", example = "alice@example.com")]
pub struct EmailAddress(String);

/// The grade of the score: A from 90, B from 75, C from 60, D from 40, F below.
#[derive(ToSchema)]
pub enum Grade {
    A,
    B,
    C,
    D,
    F,
}

/// The subject of a reply: the recipient, our reverse-path, the session, the host, all hosts of the domain, or our address or name.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum EvidenceScope {
    Recipient,
    Sender,
    Session,
    Host,
    Site,
    Us,
}

/// The policy of the DMARC record (RFC 7489 6.3); null without a record.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum DmarcPolicy {
    None,
    Quarantine,
    Reject,
}

/// A batch without its results.
#[derive(ToSchema)]
#[schema(as = BatchSummary)]
pub struct BatchSummarySchema {
    /// The id of the batch.
    batch_id: String,
    /// The name that the request gave the batch; null if it has none.
    name: Option<String>,
    /// The state of the batch.
    status: BatchState,
    /// The percentage of checked addresses: 100 after completion.
    #[schema(minimum = 0, maximum = 100)]
    progress: u64,
    /// The number of submitted addresses, with duplicates.
    total: u32,
    /// The number of submitted addresses that have a result.
    checked: u32,
    /// The time of creation, in RFC 3339 with an offset.
    #[schema(format = DateTime)]
    created_at: String,
}

/// How often each reason occurs. Reasons that do not occur are absent.
#[derive(ToSchema)]
#[schema(as = Counts)]
pub struct CountsSchema(std::collections::BTreeMap<String, u64>);
