//! The schema of `GET /v1/account/export`. `frontend/checks/src/export.rs` makes the answer, and a test in `frontend/tests/web`
//! compares its fields with this schema.

#![expect(dead_code, reason = "only their schemas are used")]

use super::wire::CountsSchema;
use crate::{FoundAddresses, ListStatus, Reason, SubscriptionStatus};
use utoipa::ToSchema;

/// The data of an account.
#[derive(ToSchema)]
pub struct AccountExport {
    /// The time of the export, in RFC 3339 with an offset, as all other times.
    #[schema(format = DateTime)]
    exported_at: String,
    /// The account with its plan and credits.
    account: ExportedAccount,
    /// The changes of the credits. A single check, a batch, and each part of a list with up to 200 addresses has one entry. Those that
    /// began last come first, and a part of a list begins with the upload of the list.
    ledger: Vec<ExportedEntry>,
    /// The checked addresses by day, the earliest first.
    usage: Vec<ExportedDay>,
    /// The API keys, also revoked ones.
    keys: Vec<ExportedKey>,
    /// The lists without their rows.
    lists: Vec<ExportedList>,
    /// The batches, the newest first.
    batches: Vec<ExportedBatch>,
    /// The connections of assistants.
    connections: Vec<ExportedConnection>,
    /// The webhooks without their secrets.
    webhooks: Vec<ExportedWebhook>,
}

/// The account with its plan and credits.
#[derive(ToSchema)]
pub struct ExportedAccount {
    /// The id of the account.
    id: String,
    /// The name of the account.
    name: String,
    /// The address for signing in to the dashboard; null if the account has no user.
    email: Option<String>,
    /// The id of the plan.
    plan: String,
    /// Subscription status.
    status: SubscriptionStatus,
    /// Whether the subscription ends with this period.
    cancel_at_period_end: bool,
    /// The time of creation.
    #[schema(format = DateTime)]
    created_at: String,
    /// The time at which plan credits are granted again; null for a plan that grants them once.
    #[schema(format = DateTime)]
    period_end: Option<String>,
    /// The credits.
    credits: ExportedCredits,
}

/// The credits of an account. available + held + spent + expired = granted.
#[derive(ToSchema)]
pub struct ExportedCredits {
    /// The credits that can be spent now: `plan` and `pack`.
    available: u64,
    /// The remaining plan credits of this period.
    plan: u64,
    /// Credits from credit packs; they never expire.
    pack: u64,
    /// Credits that are reserved for checks under way.
    held: u64,
    /// All credits that were ever granted.
    granted: u64,
    /// All credits that were ever spent.
    spent: u64,
    /// All credits that ever expired.
    expired: u64,
}

/// A change of the credits.
#[derive(ToSchema)]
pub struct ExportedEntry {
    /// The id of the entry.
    id: String,
    /// The kind of the change.
    #[schema(inline)]
    kind: ExportedEntryKind,
    /// The time of the change.
    #[schema(format = DateTime)]
    at: String,
    /// Credits that were granted.
    granted: u64,
    /// Credits that were spent.
    spent: u64,
    /// Credits that expired.
    expired: u64,
    /// The note of granted pack credits; `batch ID` or `list ID` for a charge of these; otherwise empty.
    note: String,
    /// The batch that was charged; otherwise null.
    batch_id: Option<String>,
    /// The list that was charged; otherwise null.
    list_id: Option<String>,
}

/// `period`: a period began, so unused plan credits expired and new ones were granted. `plan_change`: the plan or its status changed.
/// `pack`: pack credits were granted. `settled`: checks were charged. `voided`: reserved credits came back. `carried`: the sum of
/// entries that are older than 93 days.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
enum ExportedEntryKind {
    Period,
    PlanChange,
    Pack,
    Settled,
    Voided,
    Carried,
}

/// The checked addresses of a day.
#[derive(ToSchema)]
pub struct ExportedDay {
    /// The day in UTC.
    #[schema(format = Date)]
    day: String,
    /// Charged single checks.
    singles: u64,
    /// Charged addresses of batches and lists.
    rows: u64,
    /// How often each reason occurs. Free addresses of lists are included.
    #[schema(value_type = CountsSchema)]
    reasons: CountsSchema,
}

/// An API key without its secret.
#[derive(ToSchema)]
pub struct ExportedKey {
    /// The id of the key.
    id: String,
    /// The label of the key.
    label: String,
    /// The mode of the key.
    #[schema(inline)]
    mode: ExportedMode,
    /// The last four characters of the key.
    last4: String,
    /// The scopes of the key.
    scopes: Vec<String>,
    /// The time of creation.
    #[schema(format = DateTime)]
    created_at: String,
    /// The time of the last use, exact to a minute; null if it was never used.
    #[schema(format = DateTime)]
    last_used_at: Option<String>,
    /// The time of its expiry; null if it does not expire.
    #[schema(format = DateTime)]
    expires_at: Option<String>,
    /// The time at which it was revoked; otherwise null.
    #[schema(format = DateTime)]
    revoked_at: Option<String>,
}

/// Whether a live key or a test key.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
enum ExportedMode {
    Live,
    Test,
}

/// A list without its rows.
#[derive(ToSchema)]
pub struct ExportedList {
    /// The id of the list.
    list_id: String,
    /// The name of the file; empty if it has none.
    name: String,
    /// The mode of the key that owns the list.
    #[schema(inline)]
    mode: ExportedMode,
    /// The column of the addresses that the upload named; empty if it named none.
    column: String,
    /// Where the addresses are; null until the list is read.
    found: Option<FoundAddresses>,
    /// The state of the list.
    status: ListStatus,
    /// The size in bytes.
    bytes: u64,
    /// The number of rows.
    rows: u64,
    /// The number of rows with an address.
    addresses: u64,
    /// The number of different addresses.
    distinct: u64,
    /// The credits that were charged so far.
    credits_charged: u64,
    /// How often each reason occurs among the different addresses.
    #[schema(value_type = CountsSchema)]
    counts: CountsSchema,
    /// The time of creation.
    #[schema(format = DateTime)]
    created_at: String,
}

/// A batch.
#[derive(ToSchema)]
pub struct ExportedBatch {
    /// The id of the batch.
    batch_id: String,
    /// The name that the request gave the batch; null if it has none.
    name: Option<String>,
    /// The mode of the key that sent the batch.
    #[schema(inline)]
    mode: ExportedMode,
    /// The time of creation.
    #[schema(format = DateTime)]
    created_at: String,
    /// Whether every address has its result. A cancelled batch is complete too.
    completed: bool,
    /// The number of addresses.
    total: u32,
    /// The number of addresses with a result.
    checked: u32,
    /// How many of these were not checked and not charged, because the batch was cancelled, in an outage, or because of a budget of
    /// refused recipients.
    refunded: u32,
    /// The results in the order of the request; null until the batch is complete, and for older batches if the export is full.
    results: Option<Vec<ExportedResult>>,
}

/// The result of an address. Only `mailbox_exists` and `role_account` are deliverable.
#[derive(ToSchema)]
pub struct ExportedResult {
    /// The address as submitted.
    email: String,
    /// The reason of the result.
    reason: Reason,
}

/// A connection of an assistant.
#[derive(ToSchema)]
pub struct ExportedConnection {
    /// The id of the connection.
    id: String,
    /// The id or the URL of the client.
    client: String,
    /// The name that the client gives itself.
    client_name: String,
    /// The host to which the client returned after the consent.
    redirect_host: String,
    /// How many charged checks the consent allows.
    checks_allowed: u64,
    /// How many of them were used.
    checks_used: u64,
    /// The time of the consent.
    #[schema(format = DateTime)]
    created_at: String,
    /// The time of the last use.
    #[schema(format = DateTime)]
    last_used_at: String,
    /// The time at which the connection ends.
    #[schema(format = DateTime)]
    expires_at: String,
}

/// A webhook without its secret.
#[derive(ToSchema)]
pub struct ExportedWebhook {
    /// The id of the webhook.
    webhook_id: String,
    /// The URL to which events are sent.
    url: String,
    /// The label of the webhook.
    label: String,
    /// The events that are sent.
    events: Vec<String>,
    /// Whether events are sent.
    enabled: bool,
    /// The time of creation.
    #[schema(format = DateTime)]
    created_at: String,
}
