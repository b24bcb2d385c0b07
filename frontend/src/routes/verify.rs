//! `GET` and `POST /v1/verify`: one address.

mod detail;
pub mod fast;
pub mod full;
pub mod test_mode;

use crate::auth::Caller;
use crate::metrics;
use crate::query::Query;
use crate::refusal::Refusal;
use crate::router::{Call, Reply};
use api::request::choice;
use api::{DetailLevel, Findings, Issue, IssueType, Mode, Reason, Verification, VerifyBody};
use engine::proto::address::Address;
use full::Checked;
use store::KeyMode;

/// What is asked, from wherever it came.
struct Asked {
    email: String,
    mode: Mode,
    detail: Option<DetailLevel>,
}

/// `GET /v1/verify?email=`.
pub async fn get(call: Call) -> Result<Reply, Refusal> {
    let query = Query::parse(&call.query).map_err(Refusal::invalid)?;
    let mut issues = Vec::new();
    let (mode, detail) = parameters(&query, &mut issues);
    let email = query.get("email").unwrap_or_else(|issue| {
        issues.push(issue);
        None
    });
    match email {
        Some(email) if issues.is_empty() => {
            let asked = Asked { email: email.to_owned(), mode: mode.unwrap_or_default(), detail };
            answer(&call, asked).await
        }
        None if !issues.iter().any(|issue| issue.kind == IssueType::Duplicate) => {
            issues.push(Issue::new(&["query", "email"], IssueType::Missing, "this parameter is required"));
            Err(Refusal::invalid(issues))
        }
        _ => Err(Refusal::invalid(issues)),
    }
}

/// `POST /v1/verify`. `mode` and `detail` may stand in the query too, but must not contradict the body.
pub async fn post(call: Call) -> Result<Reply, Refusal> {
    let query = Query::parse(&call.query).map_err(Refusal::invalid)?;
    let mut issues = Vec::new();
    let (mode, detail) = parameters(&query, &mut issues);
    let body = match VerifyBody::parse(&call.body) {
        Ok(body) => body,
        Err(found) => {
            issues.extend(found);
            return Err(Refusal::invalid(issues));
        }
    };
    agree("mode", mode, body.mode, &mut issues);
    agree("detail", detail, body.detail, &mut issues);
    if !issues.is_empty() {
        return Err(Refusal::invalid(issues));
    }
    let mode = mode.or(body.mode).unwrap_or_default();
    answer(&call, Asked { email: body.email, mode, detail: detail.or(body.detail) }).await
}

fn parameters(query: &Query, issues: &mut Vec<Issue>) -> (Option<Mode>, Option<DetailLevel>) {
    fn one<T: api::request::Choice>(query: &Query, name: &'static str, issues: &mut Vec<Issue>) -> Option<T> {
        let read =
            query.get(name).and_then(|text| text.map(|text| choice(["query", name], text)).transpose());
        read.unwrap_or_else(|issue| {
            issues.push(issue);
            None
        })
    }
    (one(query, "mode", issues), one(query, "detail", issues))
}

fn agree<T: PartialEq>(name: &'static str, query: Option<T>, body: Option<T>, issues: &mut Vec<Issue>) {
    if query.is_some() && body.is_some() && query != body {
        let msg = "the query says something else";
        issues.push(Issue::new(&["body", name], IssueType::Conflict, msg));
    }
}

async fn answer(call: &Call, asked: Asked) -> Result<Reply, Refusal> {
    let caller = call.caller()?;
    let asked_mode = asked.mode;
    let verification = match asked_mode {
        Mode::Fast => fast::check(&call.worker, asked.email).await?,
        // Boxed: a fast check would have room for all of it.
        Mode::Full => Box::pin(full_check(call, caller, asked)).await?,
    };
    let mode = match (asked_mode, caller.mode) {
        (Mode::Fast, _) => "fast",
        (Mode::Full, KeyMode::Live) => "full",
        (Mode::Full, KeyMode::Test) => "test",
    };
    call.worker.tally.checked(metrics::Checked { mode, reason: verification.reason.as_str() });
    Reply::json(200, &verification)
}

async fn full_check(call: &Call, caller: Caller, asked: Asked) -> Result<Verification, Refusal> {
    let free = |reason| Checked { reason, credits_remaining: None, cached: false };
    let (checked, detail) = match (Address::parse(&asked.email), caller.mode) {
        (Err(_), _) => (free(Reason::InvalidSyntax), None),
        (Ok(address), KeyMode::Test) => (free(test_mode::reason(address.local())), None),
        (Ok(address), KeyMode::Live) => {
            let checked = full::check(&call.worker, caller.account, address.clone()).await?;
            let detail = match asked.detail {
                Some(DetailLevel::Full) => {
                    Some(Box::new(detail::gather(&call.worker, &address, checked.reason).await))
                }
                None => None,
            };
            (checked, detail)
        }
    };
    let Checked { reason, credits_remaining, cached } = checked;
    Ok(Verification {
        email: asked.email,
        reason,
        credits_remaining,
        findings: Findings::Full { cached, detail },
    })
}
