//! The examples: rendered values of the contract's types. The tests parse those of requests.

use crate::{
    Account, BatchCreated, BatchState, BatchStatus, Checks, Detail, Dns, ErrorBody, ErrorCode, FastFindings,
    Findings, Flags, Issue, IssueType, Offender, Reason, ResultRow, SubscriptionStatus, Verification,
};
use serde_json::{Value, json};

/// The name, the summary and the value of an example.
pub type Example = (&'static str, &'static str, Value);

/// An address for examples (RFC 2606 3).
pub const ADDRESS: &str = "alice@example.com";
/// The batch id of the examples.
pub const BATCH_ID: &str = "bat_01kdvds2j0emq8k9w39qsaekf4";

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
        ErrorCode::SubscriptionInactive => body.credits_remaining = Some(97),
        _ => {}
    }
    json!(body)
}
