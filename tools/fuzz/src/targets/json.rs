//! Bodies and queries of the API: every parser reads the same, and never beyond its limits.
//!
//! An input is a byte for the kind, and the body or the query.

use crate::grammar::Grammar;
use api::request::{BATCH_EMAILS_MAX, BATCH_NAME_CHARS_MAX, EMAIL_CHARS_MAX, mode_of};
use api::{BatchBody, Issue, Mode, VerifyBody};
use assistants::oauth::uri;
use fastrand::Rng;
use http_core::Query;
use serde_json::Value;
use std::sync::LazyLock;

static GRAMMAR: LazyLock<Grammar> = LazyLock::new(|| {
    Grammar::of(concat!(include_str!("../../grammars/json.txt"), include_str!("../../grammars/values.txt")))
});
/// The most issues of a body: one for each address of a batch, and one for each field.
const ISSUES_MAX: usize = BATCH_EMAILS_MAX + 4;

pub fn grow(random: &mut Rng) -> Vec<u8> {
    GRAMMAR.grow("start", random).into_bytes()
}

pub fn feed(input: &[u8]) -> Result<(), String> {
    let Some((&kind, body)) = input.split_first() else { return Ok(()) };
    match kind % 4 {
        0 => verify(body),
        1 => batch(body),
        2 => canonical(body),
        _ => query(body),
    }
}

fn verify(body: &[u8]) -> Result<(), String> {
    let strict = api::json::parse(body);
    match VerifyBody::parse(body) {
        Ok(read) => {
            let fields = strict.map_err(|error| format!("read, and no strict JSON: {error}"))?;
            let text = |name: &str| fields.get(name).and_then(Value::as_str);
            let mode = match read.mode {
                None => None,
                Some(Mode::Fast) => Some("fast"),
                Some(Mode::Full) => Some("full"),
            };
            if text("email") != Some(&read.email) || text("mode") != mode {
                return Err("read otherwise than the JSON says".into());
            }
            if text("detail") != read.detail.map(|_| "full") {
                return Err("detail is read otherwise than the JSON says".into());
            }
            if read.email.chars().count() > EMAIL_CHARS_MAX {
                return Err(format!("an email of {} characters", read.email.chars().count()));
            }
            if mode_of(body) != Some(read.mode.unwrap_or_default()) {
                return Err(format!("the mode by which it is counted is {:?}", mode_of(body)));
            }
        }
        Err(issues) => issues_hold(&issues)?,
    }
    // Whether it is complete JSON, and which of a caller's limits applies, is known without parsing the rest.
    let object = body.trim_ascii_start().starts_with(b"{");
    if mode_of(body).is_some() && !object { Err("a mode of what is no JSON object".into()) } else { Ok(()) }
}

fn batch(body: &[u8]) -> Result<(), String> {
    let read = match BatchBody::parse(body) {
        Ok(read) => read,
        Err(issues) => return issues_hold(&issues),
    };
    if !(1..=BATCH_EMAILS_MAX).contains(&read.emails.len()) {
        return Err(format!("{} addresses", read.emails.len()));
    }
    if read.name.as_ref().is_some_and(|name| name.chars().count() > BATCH_NAME_CHARS_MAX) {
        return Err("a name beyond its limit".into());
    }
    let fields = api::json::parse(body).map_err(|error| format!("read, and no strict JSON: {error}"))?;
    let written: Option<Vec<&str>> = fields
        .get("emails")
        .and_then(Value::as_array)
        .map(|all| all.iter().filter_map(Value::as_str).collect());
    if written != Some(read.emails.iter().map(String::as_str).collect()) {
        return Err("read otherwise than the JSON says".into());
    }
    checks::idempotency::fingerprint(body).map(|_| ()).map_err(|error| format!("no fingerprint: {error}"))
}

/// Checks that there are issues with positions, and not more than the limit.
fn issues_hold(issues: &[Issue]) -> Result<(), String> {
    if issues.is_empty() || issues.len() > ISSUES_MAX {
        return Err(format!("{} issues", issues.len()));
    }
    if issues.iter().any(|issue| issue.loc.is_empty() || issue.msg.is_empty()) {
        return Err("an issue without a place or without words".into());
    }
    serde_json::to_string(issues).map(|_| ()).map_err(|error| error.to_string())
}

/// Checks that the canonical text is JSON with the same content, and is its own canonical text.
fn canonical(body: &[u8]) -> Result<(), String> {
    let Ok(text) = api::json::canonical(body) else { return Ok(()) };
    let again =
        api::json::canonical(&text).map_err(|error| format!("the canonical text is no JSON: {error}"))?;
    if again != text {
        return Err("the canonical text has another canonical text".into());
    }
    if api::json::parse(&text) != api::json::parse(body) {
        return Err("the canonical text has another content".into());
    }
    Ok(())
}

/// Checks that a query that is written again is read as the same one.
fn query(bytes: &[u8]) -> Result<(), String> {
    let Ok(text) = std::str::from_utf8(bytes) else { return Ok(()) };
    let Ok(query) = Query::parse(text) else { return Ok(()) };
    for name in ["email", "mode", "detail"] {
        let Ok(Some(value)) = query.get(name) else { continue };
        let written = uri::query(&[(name, value)]);
        let again = Query::parse(&written).map_err(|_| "what was written cannot be read")?;
        if again.get(name).ok().flatten() != Some(value) {
            return Err(format!("{name} is another value once it was written"));
        }
    }
    Ok(())
}
