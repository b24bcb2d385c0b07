//! `GET` and `POST /v1/verify`: the check of one address.

use crate::call::Call;
use api::request::choice;
use api::{DetailLevel, Issue, IssueType, Mode, VerifyBody};
use checks::verify::{Question, verify};
use http_core::Query;
use http_core::Refusal;
use http_core::Reply;

/// `GET /v1/verify?email=`: checks the address in the query.
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
            let question = Question { email: email.to_owned(), mode: mode.unwrap_or_default(), detail };
            answer(&call, question).await
        }
        None if !issues.iter().any(|issue| issue.kind == IssueType::Duplicate) => {
            issues.push(Issue::new(&["query", "email"], IssueType::Missing, "this parameter is required"));
            Err(Refusal::invalid(issues))
        }
        _ => Err(Refusal::invalid(issues)),
    }
}

/// `POST /v1/verify`: checks the address in the body. The query may also have `mode` and `detail`, but must not
/// contradict the body.
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
    answer(&call, Question { email: body.email, mode, detail: detail.or(body.detail) }).await
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

async fn answer(call: &Call, question: Question) -> Result<Reply, Refusal> {
    let caller = call.caller()?;
    Reply::json(200, &verify(&call.worker.checks, caller, question).await?)
}
