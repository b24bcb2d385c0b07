//! The contract's tables of fields: which fields exist, and their types.

use serde_json::Value;

pub const REASONS: [(&str, Option<bool>); 13] = [
    ("mailbox_exists", Some(true)),
    ("role_account", Some(true)),
    ("invalid_syntax", Some(false)),
    ("disposable", Some(false)),
    ("spamtrap", Some(false)),
    ("inbox_full", Some(false)),
    ("mailbox_disabled", Some(false)),
    ("catch_all", Some(false)),
    ("mailbox_not_found", Some(false)),
    ("unverifiable", Some(false)),
    ("possible_typo", Some(false)),
    ("no_mx", Some(false)),
    ("fast_check_passed", None),
];

/// The reasons that only fast mode may give.
const FAST_ALONE: [&str; 3] = ["possible_typo", "no_mx", "fast_check_passed"];
/// The reasons that fast mode may give.
const FAST: [&str; 5] = ["invalid_syntax", "possible_typo", "disposable", "no_mx", "fast_check_passed"];

/// Whether a value has a type of the contract's tables.
fn is(value: &Value, kind: &str) -> bool {
    let all = |test: fn(&Value) -> bool| value.as_array().is_some_and(|items| items.iter().all(test));
    match kind {
        "text" => value.is_string(),
        "flag" => value.is_boolean(),
        "count" => value.is_u64(),
        "number" => value.is_number(),
        "texts" => all(Value::is_string),
        "object" => value.is_object(),
        "rows" => all(Value::is_object),
        other => panic!("no type: {other}"),
    }
}

/// Checks the fields of an object: the name and the type of each. Only a field with `?` behind its name may be missing, and only
/// one with `|null` behind its type may be null.
#[track_caller]
fn check(value: &Value, fields: &str) {
    let object = value.as_object().unwrap_or_else(|| panic!("no object: {value}"));
    for field in fields.split(", ") {
        let (name, kind) = field.split_once(' ').unwrap();
        let right = match object.get(name.trim_end_matches('?')) {
            None => name.ends_with('?'),
            Some(Value::Null) => kind.ends_with("|null"),
            Some(found) => is(found, kind.trim_end_matches("|null")),
        };
        assert!(right, "{name} of {value}");
    }
}

#[track_caller]
pub fn account(value: &Value) {
    check(
        value,
        "plan text, plan_name text, status text, credits_remaining count, credits_total count, \
        pack_credits? count, period_end? text|null, cancel_at_period_end? flag",
    );
    let status = value["status"].as_str().unwrap();
    assert!(["active", "past_due", "paused", "canceled"].contains(&status), "{value}");
    if let Some(end) = value["period_end"].as_str() {
        timestamp(end);
    }
}

/// ISO 8601 with offset.
#[track_caller]
pub fn timestamp(text: &str) {
    let (moment, offset) = text.split_at(text.rfind(['Z', '+', '-']).unwrap_or_else(|| panic!("{text}")));
    let (moment, fraction) = moment.split_once('.').unwrap_or((moment, "0"));
    let like = |text: &str, form: &str| {
        text.len() == form.len()
            && text.chars().zip(form.chars()).all(|(c, f)| if f == '0' { c.is_ascii_digit() } else { c == f })
    };
    assert!(like(moment, "0000-00-00T00:00:00"), "{text}");
    assert!(fraction.chars().all(|c| c.is_ascii_digit()), "{text}");
    assert!(offset == "Z" || like(&offset[1..], "00:00"), "{text}");
}

/// The reason of a result, with which `deliverable` agrees.
#[track_caller]
fn reason(value: &Value) -> &str {
    let row = REASONS.iter().find(|(known, _)| value["reason"] == *known);
    let (reason, deliverable) = row.unwrap_or_else(|| panic!("no reason of the set: {value}"));
    assert_eq!(value["deliverable"].as_bool(), *deliverable, "{value}");
    reason
}

/// A verification result of either mode.
#[track_caller]
pub fn verification(value: &Value) {
    check(
        value,
        "email text, deliverable flag|null, reason text, credits_remaining? count|null, detail? object, \
        cached? flag, mode? text, suggestion? text|null, checks? object|null",
    );
    let reason = reason(value);
    if value.get("mode").is_some() {
        fast(value);
    } else {
        assert!(!FAST_ALONE.contains(&reason), "{value}");
        for name in ["checks", "suggestion"] {
            assert!(value[name].is_null(), "fast mode alone has {name}: {value}");
        }
    }
    if let Some(given) = value.get("detail") {
        detail(given);
    }
}

#[track_caller]
fn fast(value: &Value) {
    assert_eq!(value["mode"], "fast", "{value}");
    assert!(FAST.contains(&value["reason"].as_str().unwrap()), "{value}");
    assert!(value["credits_remaining"].is_null(), "{value}");
    assert!(value.get("detail").is_none(), "ignored in fast mode: {value}");
    assert!(value.get("cached").is_none(), "absent in fast mode: {value}");
    // They always exist, and are null if empty.
    check(value, "suggestion text|null, checks object|null");
    if value["reason"] == "invalid_syntax" {
        assert!(value["checks"].is_null(), "{value}");
    } else {
        check(&value["checks"], "mx flag, disposable flag, role_account flag, free_email flag");
    }
}

/// An addition to the contract.
#[track_caller]
fn evidence(value: &Value) {
    check(
        value,
        "rule text, scope text|null, host text|null, reply_code count|null, enhanced_code text|null, \
        observed_at text",
    );
    timestamp(value["observed_at"].as_str().unwrap());
    // A reply has a host, a code and a scope; an enhanced code belongs to a reply.
    let has = |name: &str| !value[name].is_null();
    assert_eq!(has("reply_code"), has("scope"), "{value}");
    assert!(has("host") || !has("reply_code"), "{value}");
    assert!(has("reply_code") || !has("enhanced_code"), "{value}");
}

#[track_caller]
pub fn detail(value: &Value) {
    check(
        value,
        "grade? text|null, score? count|null, inbox_provider? text|null, flags object, dns? object|null, \
        evidence? object",
    );
    if let Some(given) = value.get("evidence") {
        evidence(given);
    }
    check(
        &value["flags"],
        "free_email flag, role_account flag, disposable flag, catch_all flag, mailbox_exists? flag|null",
    );
    let dns = &value["dns"];
    if dns.is_null() {
        for name in ["grade", "score", "inbox_provider"] {
            assert!(value[name].is_null(), "null where the DNS could not be read: {value}");
        }
        return;
    }
    check(
        dns,
        "mx flag, mx_hosts texts, spf flag, dmarc_policy? text|null, dkim_selectors texts, bimi flag, \
        ptr flag",
    );
    if let Some(policy) = dns["dmarc_policy"].as_str() {
        assert!(["none", "quarantine", "reject"].contains(&policy), "{value}");
    }
    if let Some(score) = value["score"].as_u64() {
        let grade = match score {
            90..=100 => "A",
            75..90 => "B",
            60..75 => "C",
            40..60 => "D",
            0..40 => "F",
            _ => panic!("a score of 0 to 100: {value}"),
        };
        assert_eq!(value["grade"], grade, "{value}");
    }
}

#[track_caller]
pub fn batch_created(value: &Value) {
    check(value, "batch_id text, emails_submitted count, status text, credits_remaining? count|null");
    batch_id(value);
}

/// `bat_` and 26 characters of lower-case Crockford base32.
#[track_caller]
fn batch_id(value: &Value) {
    let id = value["batch_id"].as_str().unwrap();
    let digits = id.strip_prefix("bat_").unwrap_or_else(|| panic!("{value}"));
    let crockford = |c: char| "0123456789abcdefghjkmnpqrstvwxyz".contains(c);
    assert!(digits.len() == 26 && digits.chars().all(crockford), "{value}");
}

#[track_caller]
pub fn batch(value: &Value) {
    check(
        value,
        "batch_id text, status text, progress number, total count, checked count, results? rows|null",
    );
    batch_id(value);
    let progress = value["progress"].as_f64().unwrap();
    let (total, checked) = (value["total"].as_u64().unwrap(), value["checked"].as_u64().unwrap());
    assert!((0.0..=100.0).contains(&progress) && checked <= total, "{value}");
    if value["status"] == "completed" {
        assert!(progress == 100.0 && checked == total, "{value}");
        let rows = value["results"].as_array().unwrap_or_else(|| panic!("filled when completed: {value}"));
        assert_eq!(rows.len() as u64, total);
        rows.iter().for_each(row);
    } else {
        assert_eq!(value["status"], "processing", "{value}");
        assert!(value["results"].is_null(), "{value}");
    }
}

#[track_caller]
fn row(value: &Value) {
    check(value, "email text, deliverable flag, reason text");
    assert!(value.get("detail").is_none(), "not available for batches: {value}");
    assert!(!FAST_ALONE.contains(&reason(value)), "{value}");
}

#[track_caller]
pub fn error(value: &Value) {
    check(value, "error text, message text");
    assert!(!value["message"].as_str().unwrap().is_empty(), "{value}");
    if value["error"] == "invalid_request" {
        validation(&value["detail"]);
    }
}

/// The items of the validation-error schema.
#[track_caller]
fn validation(detail: &Value) {
    let items = detail.as_array().unwrap_or_else(|| panic!("an array: {detail}"));
    assert!(!items.is_empty());
    for item in items {
        check(item, "msg text, type text, ctx? object|null");
        let places = item["loc"].as_array().unwrap_or_else(|| panic!("an array: {item}"));
        assert!(places.iter().all(|place| place.is_string() || place.is_u64()), "{item}");
    }
}
