//! The examples of answers: rendered values of the contract's types. Those of requests are written by hand, and the tests parse them.

use crate::{
    Account, BatchCreated, BatchPage, BatchState, BatchStatus, BatchSummary, Checks, Counts, Delivery,
    DeliveryAttempt, DeliveryError, DeliveryList, DeliveryStatus, Detail, Dns, ErrorBody, ErrorCode,
    Evidence, FastFindings, Findings, Flags, FoundAddresses, Issue, IssueType, List, ListPage, ListStatus,
    ListWait, Noted, Offender, Reason, ResultRow, SubscriptionStatus, UnverifiableAddresses,
    UnverifiableCause, Verification, WaitCause, Webhook, WebhookDisabledReason, WebhookEvent, WebhookList,
    WebhookTested,
};
use serde_json::{Value, json};

/// The name, the summary and the value of an example.
pub type Example = (&'static str, &'static str, Value);

/// An address for examples (RFC 2606 3).
const ADDRESS: &str = "alice@example.com";
const BATCH_ID: &str = "bat_01kdvds2j0emq8k9w39qsaekf4";
const LIST_ID: &str = "lst_01kdvds2j0f0srt7c5m2q9z3ab";
/// The size of the list that the examples of requests upload.
const LIST_BYTES: u64 = 61;
const WEBHOOK_ID: &str = "whk_01kdvds2j0emq8k9w39qsaekf4";
const MESSAGE_ID: &str = "msg_01kdvf0q40c2v9f7n6x8y5r3ta";
const CREATED_AT: &str = "2026-01-01T00:00:00+00:00";

/// The examples of each answer that a type of this crate renders, with its path, method and status.
pub fn of_answers() -> Vec<(&'static str, &'static str, &'static str, Vec<Example>)> {
    vec![
        ("/v1/verify", "get", "200", verifications()),
        ("/v1/verify", "post", "200", verifications()),
        ("/v1/verify/batch", "post", "202", batches_created()),
        ("/v1/verify/batch", "get", "200", batch_pages()),
        ("/v1/verify/batch/{batch_id}", "get", "200", batch_statuses()),
        ("/v1/verify/batch/{batch_id}/cancel", "post", "202", batch_statuses()),
        ("/v1/webhooks", "post", "201", vec![("created", "A new endpoint", json!(secret_webhook()))]),
        ("/v1/webhooks", "get", "200", vec![("two", "Two endpoints", json!(webhooks()))]),
        ("/v1/webhooks/{webhook_id}", "get", "200", vec![("failing", "Its attempts fail", json!(failing()))]),
        (
            "/v1/webhooks/{webhook_id}",
            "patch",
            "200",
            vec![("changed", "After the change", json!(webhook()))],
        ),
        (
            "/v1/webhooks/{webhook_id}/rotate",
            "post",
            "200",
            vec![("rotated", "After a rotation", json!(rotated()))],
        ),
        ("/v1/webhooks/{webhook_id}/test", "post", "202", vec![("tested", "The message", json!(tested()))]),
        ("/v1/webhooks/{webhook_id}/deliveries", "get", "200", deliveries()),
        ("/v1/lists", "post", "201", lists_created()),
        ("/v1/lists", "get", "200", list_pages()),
        ("/v1/lists/{list_id}", "get", "200", lists()),
        ("/v1/lists/{list_id}", "patch", "200", lists_created()),
        ("/v1/lists/{list_id}/start", "post", "202", lists_started()),
        ("/v1/lists/{list_id}/cancel", "post", "202", lists_cancelled()),
        ("/v1/account", "get", "200", accounts()),
    ]
}

/// Examples as the description has them.
pub fn shown(examples: Vec<Example>) -> Value {
    let shown =
        |(name, summary, value): Example| (name.to_owned(), json!({ "summary": summary, "value": value }));
    Value::Object(examples.into_iter().map(shown).collect())
}

/// Examples of answers of `/v1/verify`.
fn verifications() -> Vec<Example> {
    let full = |reason, credits_remaining, cached, detail| {
        let findings = Findings::Full { cached, detail };
        json!(Verification { email: ADDRESS.into(), reason, credits_remaining, findings })
    };
    let fast = |email: &str, reason, findings| {
        let findings = Findings::Fast(findings);
        json!(Verification { email: email.into(), reason, credits_remaining: None, findings })
    };
    let checks = Checks { mx: true, disposable: false, role_account: false, free_email: true };
    let misspelt = Checks { disposable: true, free_email: false, ..checks };
    let typo = FastFindings { suggestion: Some("alice@gmail.com".into()), checks: Some(misspelt) };
    let passed = FastFindings { suggestion: None, checks: Some(Checks { free_email: false, ..checks }) };
    let disposable = Detail {
        grade: Some("F"),
        score: Some(0),
        inbox_provider: Some("other"),
        flags: Flags { disposable: true, mailbox_exists: None, ..detail().flags },
        disposable_sources: vec!["mailchecker".into(), "disposable-email-domains".into()],
        evidence: None,
        ..detail()
    };
    let [detail, disposable] = [detail(), disposable].map(|detail| Some(Box::new(detail)));
    vec![
        (
            "disposable",
            "With `detail=full`, at a disposable domain",
            full(Reason::Disposable, Some(96), false, disposable),
        ),
        ("deliverable", "The mailbox exists", full(Reason::MailboxExists, Some(99), false, None)),
        ("not_found", "There is no such mailbox", full(Reason::MailboxNotFound, Some(98), false, None)),
        ("repeat", "Checked in the last 24 hours, free", full(Reason::MailboxExists, None, true, None)),
        ("detail", "With `detail=full`", full(Reason::MailboxExists, Some(97), false, detail)),
        ("typo", "Fast mode: a typo", fast("alice@gmial.com", Reason::PossibleTypo, typo)),
        ("passed", "Fast mode: no problem found", fast(ADDRESS, Reason::FastCheckPassed, passed)),
    ]
}

fn detail() -> Detail {
    Detail {
        grade: Some("A"),
        score: Some(100),
        inbox_provider: Some("google"),
        flags: Flags {
            free_email: false,
            role_account: false,
            disposable: false,
            catch_all: false,
            mailbox_exists: Some(true),
        },
        dns: Some(Dns {
            mx: true,
            mx_hosts: vec!["mx1.example.com".into(), "mx2.example.com".into()],
            spf: true,
            dmarc_policy: Some("reject"),
            dkim_selectors: vec!["google"],
            bimi: false,
            ptr: true,
        }),
        disposable_sources: Vec::new(),
        evidence: Some(Evidence {
            rule: "control_refused".into(),
            scope: Some("recipient"),
            host: Some("mx1.example.com".into()),
            reply_code: Some(250),
            enhanced_code: None,
            observed_at: "2026-01-31T12:00:00+00:00".into(),
        }),
    }
}

/// Examples of answers of `POST /v1/verify/batch`.
fn batches_created() -> Vec<Example> {
    let created = |status, credits_remaining| {
        json!(BatchCreated { batch_id: BATCH_ID.into(), emails_submitted: 2, status, credits_remaining })
    };
    vec![
        ("live", "With a live key", created(BatchState::Processing, Some(97))),
        ("test", "With a test key: completed at once, and free", created(BatchState::Completed, None)),
    ]
}

/// Examples of answers of `GET /v1/verify/batch/{batch_id}`.
fn batch_statuses() -> Vec<Example> {
    let status = |checked, results| {
        let waiting = vec![wait(WaitCause::NoAnswer, 1, Some("2026-06-01T09:21:00+00:00"))];
        json!(BatchStatus { batch_id: BATCH_ID.into(), total: 2, checked, results, waiting })
    };
    let rows = vec![
        ResultRow { email: ADDRESS.into(), reason: Reason::MailboxExists },
        ResultRow { email: "nobody@example.com".into(), reason: Reason::MailboxNotFound },
    ];
    vec![
        ("processing", "Half of the addresses are checked", status(1, None)),
        ("completed", "All addresses are checked", status(2, Some(rows))),
    ]
}

/// Examples of answers of `GET /v1/verify/batch`.
fn batch_pages() -> Vec<Example> {
    let batch = BatchSummary {
        batch_id: BATCH_ID.into(),
        name: Some("June".into()),
        completed: false,
        total: 2,
        checked: 1,
        created_at: "2026-06-01T09:00:00+00:00".into(),
    };
    let page = BatchPage { batches: vec![batch], next: Some(BATCH_ID.into()) };
    vec![("more", "A page with a next one", json!(page))]
}

fn list(status: ListStatus, problem: Option<&str>) -> List {
    let bytes = LIST_BYTES;
    let new = List {
        list_id: LIST_ID.into(),
        name: Some("june.csv".into()),
        status,
        bytes,
        offset: bytes,
        found: None,
        rows: None,
        addresses: None,
        distinct: None,
        checked: 0,
        progress: 0,
        credits_required: None,
        credits_charged: 0,
        credits_reserved: 0,
        counts: Counts::default(),
        unverifiable: Vec::new(),
        waiting: Vec::new(),
        problem: problem.map(str::to_owned),
        created_at: "2026-06-01T09:00:00+00:00".into(),
        expires_at: "2026-06-08T09:00:00+00:00".into(),
    };
    let found = FoundAddresses {
        column: Some("email".into()),
        column_number: Some(1),
        columns: Some(1),
        header: Some(true),
        sheet: None,
        sheet_number: None,
        sheets: None,
        read_at: "2026-06-01T09:00:02+00:00".into(),
        other_columns: Vec::new(),
        cells_with_more: Some(Noted { count: 1, first_row: 3 }),
    };
    let (found, rows) = (Some(found), Some(3));
    let read = List { found, rows, addresses: rows, distinct: Some(2), credits_required: Some(2), ..new };
    match status {
        ListStatus::Uploading => List { offset: 0, ..list_before_reading(read) },
        ListStatus::Reading | ListStatus::Unfit => list_before_reading(read),
        ListStatus::Ready | ListStatus::Paused => read,
        ListStatus::Running => {
            List { credits_reserved: 2, waiting: vec![wait(WaitCause::Queue, 2, None)], ..read }
        }
        ListStatus::Completed | ListStatus::Cancelled => List {
            checked: 2,
            progress: 100,
            credits_charged: 2,
            counts: Counts(vec![(Reason::MailboxExists, 1), (Reason::Unverifiable, 1)]),
            unverifiable: vec![UnverifiableAddresses { cause: UnverifiableCause::Greylisted, addresses: 1 }],
            ..read
        },
    }
}

fn wait(cause: WaitCause, addresses: u64, until: Option<&str>) -> ListWait {
    ListWait { cause, addresses, until: until.map(str::to_owned) }
}

fn list_before_reading(list: List) -> List {
    List { found: None, rows: None, addresses: None, distinct: None, credits_required: None, ..list }
}

/// Examples of a list that was created.
fn lists_created() -> Vec<Example> {
    vec![
        ("reading", "The content was in the body", json!(list(ListStatus::Reading, None))),
        ("uploading", "The content follows in parts", json!(list(ListStatus::Uploading, None))),
    ]
}

/// Examples of a list that was started.
fn lists_started() -> Vec<Example> {
    vec![("running", "The list is being checked", json!(list(ListStatus::Running, None)))]
}

/// Examples of a list that was cancelled.
fn lists_cancelled() -> Vec<Example> {
    let cancelled = List {
        status: ListStatus::Cancelled,
        progress: 0,
        checked: 0,
        credits_charged: 0,
        ..list(ListStatus::Ready, None)
    };
    vec![("cancelled", "The check has ended", json!(cancelled))]
}

/// Examples of answers of `GET /v1/lists/{list_id}`.
fn lists() -> Vec<Example> {
    let running = List {
        checked: 1,
        progress: 50,
        counts: Counts(vec![(Reason::MailboxExists, 1)]),
        waiting: vec![wait(WaitCause::RetryLater, 1, Some("2026-06-01T09:21:00+00:00"))],
        ..list(ListStatus::Running, None)
    };
    let why = "The check stopped: not enough credits: 0 left. Get more credits, then start the list again.";
    vec![
        ("ready", "It waits for its start", json!(list(ListStatus::Ready, None))),
        ("running", "One address waits for a server with greylisting", json!(running)),
        ("paused", "No credits are left", json!(list(ListStatus::Paused, Some(why)))),
        ("completed", "Every address has a verdict", json!(list(ListStatus::Completed, None))),
    ]
}

/// Examples of answers of `GET /v1/lists`.
fn list_pages() -> Vec<Example> {
    let page = ListPage { lists: vec![list(ListStatus::Completed, None)], next: Some(LIST_ID.into()) };
    vec![("more", "A page with a next one", json!(page))]
}

/// Examples of answers of `GET /v1/account`.
fn accounts() -> Vec<Example> {
    let account = Account {
        plan: "free".into(),
        plan_name: "Free".into(),
        status: SubscriptionStatus::Active,
        credits_remaining: 97,
        credits_total: 100,
        pack_credits: 0,
        period_end: Some("2026-07-01T00:00:00+00:00".into()),
        cancel_at_period_end: false,
    };
    vec![("free", "On the free plan", json!(account))]
}

fn webhook() -> Webhook {
    Webhook {
        webhook_id: WEBHOOK_ID.into(),
        url: "https://hooks.example.com/mailprobe".into(),
        label: Some("Production".into()),
        events: vec![WebhookEvent::BatchCompleted, WebhookEvent::ListCompleted],
        enabled: true,
        disabled_reason: None,
        failing_since: None,
        waiting: 0,
        missed: 0,
        old_secret_until: None,
        created_at: CREATED_AT.into(),
        secret: None,
    }
}

fn secret_webhook() -> Webhook {
    // A secret of zeros, which scanners of secrets ignore.
    Webhook { secret: Some(format!("whsec_{}", "A".repeat(32))), ..webhook() }
}

fn rotated() -> Webhook {
    Webhook { old_secret_until: Some("2026-01-02T00:00:00+00:00".into()), ..secret_webhook() }
}

fn failing() -> Webhook {
    Webhook { failing_since: Some("2026-01-01T06:00:00+00:00".into()), waiting: 3, ..webhook() }
}

fn disabled() -> Webhook {
    let reason = Some(WebhookDisabledReason::Failures);
    Webhook { enabled: false, disabled_reason: reason, label: None, waiting: 0, missed: 2, ..failing() }
}

fn webhooks() -> WebhookList {
    WebhookList { webhooks: vec![webhook(), disabled()] }
}

fn tested() -> WebhookTested {
    WebhookTested { message_id: MESSAGE_ID.into() }
}

fn deliveries() -> Vec<Example> {
    let attempt =
        |at: &str, duration_ms, status, error| DeliveryAttempt { at: at.into(), duration_ms, status, error };
    let waiting = Delivery {
        message_id: MESSAGE_ID.into(),
        kind: "batch.completed".into(),
        object_id: BATCH_ID.into(),
        created_at: CREATED_AT.into(),
        status: DeliveryStatus::Waiting,
        attempts: vec![
            attempt("2026-01-01T00:00:01+00:00", 120, Some(503), None),
            attempt("2026-01-01T00:00:21+00:00", 15_000, None, Some(DeliveryError::Timeout)),
        ],
        next_attempt_at: Some("2026-01-01T00:05:30+00:00".into()),
    };
    let delivered = Delivery {
        message_id: "msg_01kdvds2j0a7d3e5f1g9h2j4km".into(),
        kind: "webhook.test".into(),
        object_id: WEBHOOK_ID.into(),
        status: DeliveryStatus::Delivered,
        attempts: vec![attempt("2026-01-01T00:00:00+00:00", 95, Some(204), None)],
        next_attempt_at: None,
        ..waiting.clone()
    };
    let page =
        DeliveryList { next: Some(delivered.message_id.clone()), deliveries: vec![waiting, delivered] };
    vec![("two", "A message that waits, and one that was delivered", json!(page))]
}

/// The error body of a code.
pub fn error(code: ErrorCode) -> Value {
    let mut body = ErrorBody::new(code, super::meaning::of_error(code));
    match code {
        ErrorCode::InvalidRequest => {
            let issue = Issue::new(&["query", "mode"], IssueType::Enum, "must be one of: fast, full");
            body.detail.push(issue.input("quick".into()).ctx("expected", json!(["fast", "full"])));
        }
        ErrorCode::InvalidEmails => {
            body.invalid.push(Offender { index: 1, email: "nobody@".into() });
            body.invalid_count = Some(1);
        }
        ErrorCode::InsufficientCredits => {
            body.credits_remaining = Some(1);
            body.credits_required = Some(2);
        }
        ErrorCode::OffsetMismatch => body.offset = Some(4_194_304),
        ErrorCode::SubscriptionInactive => body.credits_remaining = Some(97),
        _ => {}
    }
    json!(body)
}
