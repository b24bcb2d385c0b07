//! The contract's tables of fields: which fields exist, and their types.

use serde_json::{Map, Value};

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

/// A type of the contract's tables.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Flag,
    Count,
    Number,
    Texts,
    Object,
    Rows,
}

use Kind::{Count, Flag, Number, Object, Rows, Text, Texts};

fn is(value: &Value, kind: Kind) -> bool {
    let all = |test: fn(&Value) -> bool| value.as_array().is_some_and(|items| items.iter().all(test));
    match kind {
        Text => value.is_string(),
        Flag => value.is_boolean(),
        Count => value.is_u64(),
        Number => value.is_number(),
        Texts => all(Value::is_string),
        Object => value.is_object(),
        Rows => all(Value::is_object),
    }
}

/// Whether a field must exist.
#[derive(Clone, Copy, PartialEq)]
enum Need {
    /// The field always exists, and is never null.
    Required,
    /// The field always exists, and may be null.
    Nullable,
    /// The field may be missing, and is never null.
    Optional,
    /// The field may be missing or null.
    OptionalNullable,
}

use Need::{Nullable, Optional, OptionalNullable, Required};

#[track_caller]
fn check(value: &Value, fields: &[(&str, Kind, Need)]) {
    let object: &Map<String, Value> = value.as_object().unwrap_or_else(|| panic!("no object: {value}"));
    for (name, kind, need) in fields {
        let right = match object.get(*name) {
            None => matches!(need, Optional | OptionalNullable),
            Some(Value::Null) => matches!(need, Nullable | OptionalNullable),
            Some(field) => is(field, *kind),
        };
        assert!(right, "{name} of {value}");
    }
}

#[track_caller]
pub fn account(value: &Value) {
    check(
        value,
        &[
            ("plan", Text, Required),
            ("plan_name", Text, Required),
            ("status", Text, Required),
            ("credits_remaining", Count, Required),
            ("credits_total", Count, Required),
            ("pack_credits", Count, Optional),
            ("period_end", Text, OptionalNullable),
            ("cancel_at_period_end", Flag, Optional),
        ],
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

/// A verification result of either mode.
#[track_caller]
pub fn verification(value: &Value) {
    check(
        value,
        &[
            ("email", Text, Required),
            ("deliverable", Flag, Nullable),
            ("reason", Text, Required),
            ("credits_remaining", Count, OptionalNullable),
            ("detail", Object, Optional),
            ("cached", Flag, Optional),
            ("mode", Text, Optional),
            ("suggestion", Text, OptionalNullable),
            ("checks", Object, OptionalNullable),
        ],
    );
    let reason = value["reason"].as_str().unwrap();
    let row = REASONS.iter().find(|(known, _)| *known == reason);
    let (_, deliverable) = row.unwrap_or_else(|| panic!("no reason of the set: {value}"));
    assert_eq!(value["deliverable"].as_bool(), *deliverable, "{value}");
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
    check(value, &[("suggestion", Text, Nullable), ("checks", Object, Nullable)]);
    if value["reason"] == "invalid_syntax" {
        assert!(value["checks"].is_null(), "{value}");
    } else {
        let flags = ["mx", "disposable", "role_account", "free_email"].map(|name| (name, Flag, Required));
        check(&value["checks"], &flags);
    }
}

/// An addition to the contract.
#[track_caller]
fn evidence(value: &Value) {
    check(
        value,
        &[
            ("rule", Text, Required),
            ("scope", Text, Nullable),
            ("host", Text, Nullable),
            ("reply_code", Count, Nullable),
            ("enhanced_code", Text, Nullable),
            ("observed_at", Text, Required),
        ],
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
        &[
            ("grade", Text, OptionalNullable),
            ("score", Count, OptionalNullable),
            ("inbox_provider", Text, OptionalNullable),
            ("flags", Object, Required),
            ("dns", Object, OptionalNullable),
            ("evidence", Object, Optional),
        ],
    );
    if let Some(given) = value.get("evidence") {
        evidence(given);
    }
    check(
        &value["flags"],
        &[
            ("free_email", Flag, Required),
            ("role_account", Flag, Required),
            ("disposable", Flag, Required),
            ("catch_all", Flag, Required),
            ("mailbox_exists", Flag, OptionalNullable),
        ],
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
        &[
            ("mx", Flag, Required),
            ("mx_hosts", Texts, Required),
            ("spf", Flag, Required),
            ("dmarc_policy", Text, OptionalNullable),
            ("dkim_selectors", Texts, Required),
            ("bimi", Flag, Required),
            ("ptr", Flag, Required),
        ],
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
    check(
        value,
        &[
            ("batch_id", Text, Required),
            ("emails_submitted", Count, Required),
            ("status", Text, Required),
            ("credits_remaining", Count, OptionalNullable),
        ],
    );
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
        &[
            ("batch_id", Text, Required),
            ("status", Text, Required),
            ("progress", Number, Required),
            ("total", Count, Required),
            ("checked", Count, Required),
            ("results", Rows, OptionalNullable),
        ],
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
    check(value, &[("email", Text, Required), ("deliverable", Flag, Required), ("reason", Text, Required)]);
    assert!(value.get("detail").is_none(), "not available for batches: {value}");
    let reason = value["reason"].as_str().unwrap();
    let (_, deliverable) =
        REASONS.iter().find(|(known, _)| *known == reason).unwrap_or_else(|| panic!("{value}"));
    assert_eq!(value["deliverable"].as_bool(), *deliverable, "{value}");
    assert!(!FAST_ALONE.contains(&reason), "{value}");
}

#[track_caller]
pub fn error(value: &Value) {
    check(value, &[("error", Text, Required), ("message", Text, Required)]);
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
        check(item, &[("msg", Text, Required), ("type", Text, Required), ("ctx", Object, OptionalNullable)]);
        let places = item["loc"].as_array().unwrap_or_else(|| panic!("an array: {item}"));
        assert!(places.iter().all(|place| place.is_string() || place.is_u64()), "{item}");
    }
}
