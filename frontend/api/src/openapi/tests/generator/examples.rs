//! The examples: rendered values of the contract's types. The tests parse those of requests.

use crate::{
    Account, BatchCreated, BatchPage, BatchState, BatchStatus, BatchSummary, Checks, Counts, Detail, Dns,
    ErrorBody, ErrorCode, Evidence, FastFindings, Findings, Flags, FoundAddresses, Issue, IssueType, List,
    ListPage, ListStatus, ListWait, Offender, Reason, ResultRow, SubscriptionStatus, Verification, WaitCause,
};
use serde_json::{Value, json};

/// The name, the summary and the value of an example.
pub type Example = (&'static str, &'static str, Value);

/// An address for examples (RFC 2606 3).
pub const ADDRESS: &str = "alice@example.com";
/// The batch id of the examples.
pub const BATCH_ID: &str = "bat_01kdvds2j0emq8k9w39qsaekf4";

/// The list id of the examples.
pub const LIST_ID: &str = "lst_01kdvds2j0f0srt7c5m2q9z3ab";
/// The content of a list.
pub const CONTENT: &str = "email\nalice@example.com\nnobody@example.com\nALICE@example.com\n";
/// The results of the list with [`CONTENT`] as CSV.
pub const RESULTS_CSV: &str = "email,deliverable,reason\nalice@example.com,true,mailbox_exists\n\
    nobody@example.com,false,mailbox_not_found\nALICE@example.com,true,mailbox_exists\n";
/// The deliverable rows of [`RESULTS_CSV`] as JSON lines.
pub const RESULTS_JSONL: &str =
    "{\"email\":\"alice@example.com\",\"deliverable\":true,\"reason\":\"mailbox_exists\"}\n";

/// Examples of bodies of `POST /v1/verify`.
pub fn verify_requests() -> Vec<Example> {
    vec![
        ("full", "A full check", json!({ "email": ADDRESS })),
        ("detail", "A full check with the detail block", json!({ "email": ADDRESS, "detail": "full" })),
        ("fast", "A fast check", json!({ "email": "alice@gmial.com", "mode": "fast" })),
    ]
}

/// Examples of bodies of `POST /v1/verify/batch`.
pub fn batch_requests() -> Vec<Example> {
    let emails = json!([ADDRESS, "nobody@example.com"]);
    vec![
        ("named", "Two addresses", json!({ "emails": emails, "name": "Newsletter, June" })),
        ("nameless", "A name is optional", json!({ "emails": emails })),
    ]
}

/// Examples of answers of `/v1/verify`.
pub fn verifications() -> Vec<Example> {
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
    let detail = Some(Box::new(detail()));
    vec![
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
        evidence: Some(Evidence {
            rule: "control_refused",
            scope: Some("recipient"),
            host: Some("mx1.example.com".into()),
            reply_code: Some(250),
            enhanced_code: None,
            observed_at: "2026-01-31T12:00:00+00:00".into(),
        }),
    }
}

/// Examples of answers of `POST /v1/verify/batch`.
pub fn batches_created() -> Vec<Example> {
    let created = |status, credits_remaining| {
        json!(BatchCreated { batch_id: BATCH_ID.into(), emails_submitted: 2, status, credits_remaining })
    };
    vec![
        ("live", "With a live key", created(BatchState::Processing, Some(97))),
        ("test", "With a test key: completed at once, and free", created(BatchState::Completed, None)),
    ]
}

/// Examples of answers of `GET /v1/verify/batch/{batch_id}`.
pub fn batch_statuses() -> Vec<Example> {
    let status =
        |checked, results| json!(BatchStatus { batch_id: BATCH_ID.into(), total: 2, checked, results });
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
pub fn batch_pages() -> Vec<Example> {
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

/// Examples of bodies of `POST /v1/lists` for an upload in parts.
pub fn list_requests() -> Vec<Example> {
    let named = json!({ "bytes": CONTENT.len(), "name": "june.csv", "column": "email" });
    vec![
        ("named", "An upload in parts, with a name and the column of the addresses", named),
        ("parts", "An upload in parts", json!({ "bytes": CONTENT.len() })),
    ]
}

fn list(status: ListStatus, problem: Option<&str>) -> List {
    let bytes = CONTENT.len() as u64;
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
        counts: Counts::default(),
        waiting: Vec::new(),
        problem: problem.map(str::to_owned),
        created_at: "2026-06-01T09:00:00+00:00".into(),
        expires_at: "2026-06-08T09:00:00+00:00".into(),
    };
    let found = FoundAddresses {
        column: Some("email".into()),
        column_number: Some(1),
        columns: Some(1),
        sheet: None,
        sheet_number: None,
        sheets: None,
        read_at: "2026-06-01T09:00:02+00:00".into(),
    };
    let (found, rows) = (Some(found), Some(3));
    let read = List { found, rows, addresses: rows, distinct: Some(2), credits_required: Some(2), ..new };
    match status {
        ListStatus::Uploading => List { offset: 0, ..list_before_reading(read) },
        ListStatus::Reading | ListStatus::Unfit => list_before_reading(read),
        ListStatus::Ready | ListStatus::Paused => read,
        ListStatus::Running => List { waiting: vec![wait(WaitCause::Queue, 2, None)], ..read },
        ListStatus::Completed | ListStatus::Cancelled => List {
            checked: 2,
            progress: 100,
            credits_charged: 2,
            counts: Counts(vec![(Reason::MailboxExists, 1), (Reason::MailboxNotFound, 1)]),
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
pub fn lists_created() -> Vec<Example> {
    vec![
        ("reading", "The content was in the body", json!(list(ListStatus::Reading, None))),
        ("uploading", "The content follows in parts", json!(list(ListStatus::Uploading, None))),
    ]
}

/// Examples of a list that was started.
pub fn lists_started() -> Vec<Example> {
    vec![("running", "The list is being checked", json!(list(ListStatus::Running, None)))]
}

/// Examples of a list that was cancelled.
pub fn lists_cancelled() -> Vec<Example> {
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
pub fn lists() -> Vec<Example> {
    let running = List {
        checked: 1,
        progress: 50,
        credits_charged: 1,
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
pub fn list_pages() -> Vec<Example> {
    let page = ListPage { lists: vec![list(ListStatus::Completed, None)], next: Some(LIST_ID.into()) };
    vec![("more", "A page with a next one", json!(page))]
}

/// Examples of answers of `GET /v1/account`.
pub fn accounts() -> Vec<Example> {
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

/// A shortened answer of `GET /v1/openapi.json`.
pub fn descriptions() -> Vec<Example> {
    let info = json!({ "title": super::TITLE, "version": super::VERSION });
    vec![("shortened", "The first fields", json!({ "openapi": "3.1.0", "info": info, "paths": {} }))]
}

/// An answer of `GET /v1/account/export`.
pub fn exports() -> Vec<Example> {
    let (then, now) = ("2026-06-01T09:00:00+00:00", "2026-06-02T09:00:00+00:00");
    let credits = json!({
        "available": 98, "plan": 98, "pack": 0, "held": 0, "granted": 100, "spent": 2, "expired": 0,
    });
    let account = json!({
        "id": "acc_01kdvds2j0emq8k9w39qsaekf4", "name": "shop", "email": ADDRESS, "plan": "free",
        "status": "active", "cancel_at_period_end": false, "created_at": then,
        "period_end": "2026-07-01T09:00:00+00:00", "credits": credits,
    });
    let entry = json!({
        "id": "led_01kt1ffp20ecfsr22m1b62w55h", "kind": "settled", "at": then, "granted": 0, "spent": 1,
        "expired": 0, "note": format!("batch {BATCH_ID}"), "batch_id": BATCH_ID, "list_id": null,
    });
    let day = json!({ "day": "2026-06-01", "singles": 1, "rows": 2, "reasons": { "mailbox_exists": 3 } });
    let key = json!({
        "id": "key_01kt1ffp20ecfsr22m1b62w55h", "label": "main", "mode": "live", "last4": "k3x9",
        "scopes": ["fast", "full", "batches", "lists", "account"], "created_at": then, "last_used_at": now,
        "expires_at": null, "revoked_at": null,
    });
    let of_api = list(ListStatus::Ready, None);
    let list = json!({
        "list_id": LIST_ID, "name": of_api.name, "mode": "live", "column": "", "found": of_api.found,
        "status": "ready", "bytes": of_api.bytes, "rows": 3, "addresses": 3, "distinct": 2,
        "credits_charged": 0, "counts": {}, "created_at": then,
    });
    let batch = json!({
        "batch_id": BATCH_ID, "name": "June", "mode": "live", "created_at": then, "completed": true, "total": 2,
        "checked": 2, "refunded": 1, "results": [
            { "email": ADDRESS, "reason": "mailbox_exists" },
            { "email": "nobody@example.com", "reason": "unverifiable" },
        ],
    });
    let connection = json!({
        "id": "con_01kt1ffp20ecfsr22m1b62w55h", "client": "https://assistant.example/client.json",
        "client_name": "Assistant", "redirect_host": "assistant.example", "checks_allowed": 100,
        "checks_used": 1, "created_at": then, "last_used_at": now, "expires_at": "2026-07-01T09:00:00+00:00",
    });
    let webhook = json!({
        "webhook_id": "whk_01kt1ffp20ecfsr22m1b62w55h", "url": "https://shop.example/hook", "label": "shop",
        "events": ["batch.completed"], "enabled": true, "created_at": then,
    });
    let value = json!({
        "exported_at": now, "account": account, "ledger": [entry], "usage": [day], "keys": [key],
        "lists": [list], "batches": [batch], "connections": [connection], "webhooks": [webhook],
    });
    vec![("one", "An account with one of each", value)]
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
