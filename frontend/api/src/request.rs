//! Bodies and parameters of requests, with strict parsers.
//!
//! Unknown fields are ignored, so that clients can be newer than the server. A known field of a wrong type is an
//! [`Issue`]. All issues of a body are reported together.

use crate::{Issue, IssueType, Loc, json};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;
#[cfg(test)]
use utoipa::ToSchema;

/// The most characters of `email` in a body.
pub const EMAIL_CHARS_MAX: usize = 320;
/// The most addresses of a batch.
pub const BATCH_EMAILS_MAX: usize = 200;
/// The most characters of a batch's name.
pub const BATCH_NAME_CHARS_MAX: usize = 200;
/// The most characters of a list's name.
pub const LIST_NAME_CHARS_MAX: usize = 100;
/// The most characters of the name of a list's column.
pub const LIST_COLUMN_CHARS_MAX: usize = 200;
/// The most bytes of a list. An operator can set a lower limit.
pub const LIST_BYTES_MAX: u64 = 4 << 30;
/// The longest value that an issue repeats.
const INPUT_CHARS_MAX: usize = 64;

/// The kind of check: `fast` is free and asks no mail server, `full` costs a credit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Only syntax, typos, MX and lists are checked; free.
    Fast,
    /// The mailbox is checked as well.
    #[default]
    Full,
}

/// The amount of detail: `full` adds the `detail` block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum DetailLevel {
    /// The whole `detail` block.
    Full,
}

/// A closed set of values of a parameter.
pub trait Choice: Copy + PartialEq + 'static {
    /// The values with their texts.
    const VALUES: &'static [(&'static str, Self)];
}

impl Choice for Mode {
    const VALUES: &'static [(&'static str, Mode)] = &[("fast", Mode::Fast), ("full", Mode::Full)];
}

impl Choice for DetailLevel {
    const VALUES: &'static [(&'static str, DetailLevel)] = &[("full", DetailLevel::Full)];
}

/// Reads a parameter with a closed set of values.
///
/// # Errors
///
/// An [`Issue`] with the allowed values in `ctx`.
pub fn choice<T: Choice>(loc: [&'static str; 2], text: &str) -> Result<T, Issue> {
    if let Some((_, value)) = T::VALUES.iter().find(|(name, _)| *name == text) {
        return Ok(*value);
    }
    let allowed: Vec<&str> = T::VALUES.iter().map(|(name, _)| *name).collect();
    let issue = Issue::new(&loc, IssueType::Enum, format!("must be one of: {}", allowed.join(", ")))
        .ctx("expected", allowed);
    Err(with_short_input(issue, text))
}

/// An address to check.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(test, derive(ToSchema))]
#[cfg_attr(test, schema(as = VerifyRequest))]
pub struct VerifyBody {
    /// The address to check, without spaces or line ends around it. A text that is not an address gets the reason `invalid_syntax`
    /// and costs nothing.
    #[cfg_attr(test, schema(max_length = 320))]
    pub email: String,
    /// Replaces the query parameter; null is the same as absent.
    pub mode: Option<Mode>,
    /// Replaces the query parameter; null is the same as absent.
    pub detail: Option<DetailLevel>,
}

impl VerifyBody {
    /// Reads a body.
    ///
    /// # Errors
    ///
    /// All errors in the body.
    pub fn parse(body: &[u8]) -> Result<VerifyBody, Vec<Issue>> {
        // Nearly every body has only these fields and no error. Otherwise it is read again by the full parser.
        if let Some(body) = VerifyBody::parse_plain(body) {
            return Ok(body);
        }
        let fields = object(body).map_err(|issue| vec![issue])?;
        let mut issues = Vec::new();
        let email = keep(required_string(&fields, "email", EMAIL_CHARS_MAX), &mut issues);
        let mode = keep(optional_choice(&fields, "mode"), &mut issues).flatten();
        let detail = keep(optional_choice(&fields, "detail"), &mut issues).flatten();
        match email {
            Some(email) if issues.is_empty() => Ok(VerifyBody { email, mode, detail }),
            _ => Err(issues),
        }
    }
}

impl VerifyBody {
    /// A body with only the known fields, each at most once and of the right type. It is as strict as [`json`]: a
    /// duplicate field is also an error in serde.
    fn parse_plain(body: &[u8]) -> Option<VerifyBody> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Plain<'a> {
            #[serde(borrow)]
            email: Cow<'a, str>,
            #[serde(borrow, default)]
            mode: Option<Cow<'a, str>>,
            #[serde(borrow, default)]
            detail: Option<Cow<'a, str>>,
        }
        fn one<T: Choice>(text: Option<Cow<'_, str>>) -> Option<Option<T>> {
            let Some(text) = text else { return Some(None) };
            T::VALUES.iter().find(|(name, _)| *name == text).map(|(_, value)| Some(*value))
        }
        // serde would also accept an array with the fields in order.
        let object = body.trim_ascii_start().starts_with(b"{");
        let Plain { email, mode, detail } = serde_json::from_slice(body).ok().filter(|_| object)?;
        let fits = email.len() <= EMAIL_CHARS_MAX || email.chars().count() <= EMAIL_CHARS_MAX;
        let (mode, detail) = (one(mode)?, one(detail)?);
        fits.then(|| VerifyBody { email: email.into_owned(), mode, detail })
    }
}

/// The mode in the body of `POST /v1/verify`, without a check of the rest. `None` if the body is no JSON object or has
/// an invalid mode.
pub fn mode_of(body: &[u8]) -> Option<Mode> {
    #[derive(Deserialize)]
    struct Asked<'a> {
        #[serde(borrow, default)]
        mode: Option<Cow<'a, str>>,
    }
    // serde would also accept an array with the fields in order.
    let object = body.trim_ascii_start().starts_with(b"{");
    let asked: Asked<'_> = serde_json::from_slice(body).ok().filter(|_| object)?;
    asked.mode.map_or(Some(Mode::default()), |text| choice(["body", "mode"], &text).ok())
}

/// The addresses of a batch.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(test, derive(ToSchema))]
#[cfg_attr(test, schema(as = BatchRequest))]
pub struct BatchBody {
    /// The addresses. If one is invalid, the whole batch is refused.
    #[cfg_attr(test, schema(value_type = Vec<crate::openapi::tests::generator::wire::EmailAddress>, min_items = 1, max_items = 200))]
    pub emails: Vec<String>,
    /// A name that you choose.
    #[cfg_attr(test, schema(max_length = 200))]
    pub name: Option<String>,
}

impl BatchBody {
    /// Reads a body. It does not check whether the strings are addresses.
    ///
    /// # Errors
    ///
    /// All errors in the body.
    pub fn parse(body: &[u8]) -> Result<BatchBody, Vec<Issue>> {
        let mut fields = object(body).map_err(|issue| vec![issue])?;
        let mut issues = Vec::new();
        let emails = emails(fields.remove("emails"), &mut issues);
        let name = keep(optional_string(&fields, "name", BATCH_NAME_CHARS_MAX), &mut issues).flatten();
        if issues.is_empty() { Ok(BatchBody { emails, name }) } else { Err(issues) }
    }
}

/// A list that is uploaded in parts.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(test, derive(ToSchema))]
#[cfg_attr(test, schema(as = ListRequest))]
pub struct ListBody {
    /// The size of the whole content in bytes.
    #[cfg_attr(test, schema(minimum = 1, maximum = 4294967296_u64))]
    pub bytes: u64,
    /// A name that you choose. It replaces the query parameter. Null has no effect.
    #[cfg_attr(test, schema(max_length = 100))]
    pub name: Option<String>,
    /// The column with the addresses, by its name or number, starting at 1. It replaces the query parameter. Null
    /// has no effect.
    #[cfg_attr(test, schema(max_length = 200))]
    pub column: Option<String>,
    /// Whether the first row is a header. It replaces the query parameter. Null has no effect.
    pub header: Option<bool>,
}

impl ListBody {
    /// Reads a body.
    ///
    /// # Errors
    ///
    /// All errors in the body.
    pub fn parse(body: &[u8]) -> Result<ListBody, Vec<Issue>> {
        let fields = object(body).map_err(|issue| vec![issue])?;
        let mut issues = Vec::new();
        let bytes = keep(bytes(&fields), &mut issues);
        let name = keep(optional_string(&fields, "name", LIST_NAME_CHARS_MAX), &mut issues).flatten();
        let column = keep(optional_string(&fields, "column", LIST_COLUMN_CHARS_MAX), &mut issues).flatten();
        let header = keep(optional_bool(&fields, "header"), &mut issues).flatten();
        match bytes {
            Some(bytes) if issues.is_empty() => Ok(ListBody { bytes, name, column, header }),
            _ => Err(issues),
        }
    }
}

/// A number with a fraction of zero is an integer too (JSON Schema 2020-12, Validation 6.1.1).
fn bytes(fields: &Map<String, Value>) -> Result<u64, Issue> {
    let issue = |kind, msg: String| Issue::new(&["body", "bytes"], kind, msg);
    let Some(value) = fields.get("bytes") else {
        return Err(issue(IssueType::Missing, "this field is required".into()));
    };
    let Some(number) = value.as_f64().filter(|number| number.fract() == 0.0) else {
        return Err(with_scalar_input(issue(IssueType::IntType, "must be an integer".into()), value));
    };
    if !(1.0..=LIST_BYTES_MAX as f64).contains(&number) {
        let issue = issue(IssueType::OutOfRange, format!("must be from 1 to {LIST_BYTES_MAX}"));
        return Err(issue.ctx("minimum", 1).ctx("maximum", LIST_BYTES_MAX));
    }
    // Exact: the range is within the integers that an f64 represents.
    Ok(number as u64)
}

/// Items are checked only if there are not too many of them, so that there are never more issues than addresses.
fn emails(found: Option<Value>, issues: &mut Vec<Issue>) -> Vec<String> {
    let issue = |kind, msg: String| Issue::new(&["body", "emails"], kind, msg);
    let items = match found {
        None => {
            issues.push(issue(IssueType::Missing, "this field is required".into()));
            return Vec::new();
        }
        Some(Value::Array(items)) => items,
        Some(other) => {
            issues.push(with_scalar_input(issue(IssueType::ListType, "must be an array".into()), &other));
            return Vec::new();
        }
    };
    if items.is_empty() {
        issues.push(issue(IssueType::TooShort, "at least 1 address".into()).ctx("min_length", 1));
    } else if items.len() > BATCH_EMAILS_MAX {
        let msg = format!("at most {BATCH_EMAILS_MAX} addresses");
        issues.push(issue(IssueType::TooLong, msg).ctx("max_length", BATCH_EMAILS_MAX));
        return Vec::new();
    }
    let mut emails = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        match item {
            Value::String(email) => emails.push(email),
            other => {
                let mut wrong = wrong_type("emails", &other);
                wrong.loc.push(Loc::Index(index));
                issues.push(wrong);
            }
        }
    }
    emails
}

pub(crate) fn keep<T>(read: Result<T, Issue>, issues: &mut Vec<Issue>) -> Option<T> {
    read.map_err(|issue| issues.push(issue)).ok()
}

pub(crate) fn object(body: &[u8]) -> Result<Map<String, Value>, Issue> {
    match json::parse(body) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(Issue::new(&["body"], IssueType::ObjectType, "the body must be a JSON object")),
        Err(error) => Err(Issue::new(&["body"], IssueType::JsonInvalid, format!("not a JSON text: {error}"))),
    }
}

pub(crate) fn required_string(
    fields: &Map<String, Value>,
    name: &'static str,
    chars_max: usize,
) -> Result<String, Issue> {
    match fields.get(name) {
        None => Err(Issue::new(&["body", name], IssueType::Missing, "this field is required")),
        Some(value) => string(name, value, chars_max),
    }
}

/// Null is the same as absent.
pub(crate) fn optional_bool(fields: &Map<String, Value>, name: &'static str) -> Result<Option<bool>, Issue> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(value)) => Ok(Some(*value)),
        Some(other) => {
            let issue = Issue::new(&["body", name], IssueType::BoolType, "must be true or false");
            Err(with_scalar_input(issue, other))
        }
    }
}

/// Null is the same as absent.
pub(crate) fn optional_string(
    fields: &Map<String, Value>,
    name: &'static str,
    chars_max: usize,
) -> Result<Option<String>, Issue> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => string(name, value, chars_max).map(Some),
    }
}

fn string(name: &'static str, value: &Value, chars_max: usize) -> Result<String, Issue> {
    match value {
        Value::String(text) if text.chars().count() > chars_max => {
            let msg = format!("at most {chars_max} characters");
            Err(Issue::new(&["body", name], IssueType::StringTooLong, msg).ctx("max_length", chars_max))
        }
        Value::String(text) => Ok(text.clone()),
        other => Err(wrong_type(name, other)),
    }
}

/// Null is the same as absent.
fn optional_choice<T: Choice>(fields: &Map<String, Value>, name: &'static str) -> Result<Option<T>, Issue> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => choice(["body", name], text).map(Some),
        Some(other) => Err(wrong_type(name, other)),
    }
}

fn wrong_type(name: &'static str, found: &Value) -> Issue {
    with_scalar_input(Issue::new(&["body", name], IssueType::StringType, "must be a string"), found)
}

/// The value is repeated only if it is certainly short.
fn with_scalar_input(issue: Issue, found: &Value) -> Issue {
    match found {
        Value::Null | Value::Bool(_) | Value::Number(_) => issue.input(found.clone()),
        _ => issue,
    }
}

/// Adds the text that was found to an issue, unless it is long.
pub fn with_short_input(issue: Issue, text: &str) -> Issue {
    if text.chars().count() <= INPUT_CHARS_MAX { issue.input(text.into()) } else { issue }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Fields<'a> = (&'a str, Option<Mode>, Option<DetailLevel>);

    fn check(body: &str, expected: Result<Fields<'_>, &[(&str, IssueType)]>) {
        let read = VerifyBody::parse(body.as_bytes());
        match (read, expected) {
            (Ok(got), Ok((email, mode, detail))) => {
                assert_eq!((got.email.as_str(), got.mode, got.detail), (email, mode, detail), "{body}");
            }
            (Err(issues), Err(rows)) => check_issues(body, &issues, rows),
            (got, _) => panic!("{body}: parsed: {}", got.is_ok()),
        }
    }

    fn check_issues(body: &str, issues: &[Issue], expected: &[(&str, IssueType)]) {
        let got: Vec<_> =
            issues.iter().map(|issue| (serde_json::to_string(&issue.loc).unwrap(), issue.kind)).collect();
        let got: Vec<_> = got.iter().map(|(place, kind)| (place.as_str(), *kind)).collect();
        assert_eq!(got, expected, "{body}");
    }

    #[test]
    fn a_list_announces_its_bytes() {
        let parse = |body: &str| ListBody::parse(body.as_bytes());
        let read = parse(r#"{"bytes":10,"name":"x","column":null,"header":false}"#).ok().unwrap();
        assert_eq!((read.bytes, read.name.as_deref(), read.column), (10, Some("x"), None));
        assert_eq!(read.header, Some(false));
        for (number, bytes) in [
            ("163915.0", 163_915),
            ("1e3", 1000),
            ("4294967296", LIST_BYTES_MAX),
            ("4294967295.0", LIST_BYTES_MAX - 1),
        ] {
            let read = parse(&format!(r#"{{"bytes":{number}}}"#)).ok().unwrap();
            assert_eq!(read.bytes, bytes, "{number}");
        }
        for (body, place, kind) in [
            ("{}", r#"["body","bytes"]"#, IssueType::Missing),
            (r#"{"bytes":0}"#, r#"["body","bytes"]"#, IssueType::OutOfRange),
            (r#"{"bytes":1.5}"#, r#"["body","bytes"]"#, IssueType::IntType),
            (r#"{"bytes":"1"}"#, r#"["body","bytes"]"#, IssueType::IntType),
            (r#"{"bytes":-1}"#, r#"["body","bytes"]"#, IssueType::OutOfRange),
            (r#"{"bytes":4294967297}"#, r#"["body","bytes"]"#, IssueType::OutOfRange),
            (r#"{"bytes":18446744073709551616}"#, r#"["body","bytes"]"#, IssueType::OutOfRange),
            (r#"{"bytes":true}"#, r#"["body","bytes"]"#, IssueType::IntType),
            (r#"{"bytes":1,"name":1}"#, r#"["body","name"]"#, IssueType::StringType),
            ("[]", r#"["body"]"#, IssueType::ObjectType),
        ] {
            let issues = parse(body).err().unwrap();
            check_issues(body, &issues, &[(place, kind)]);
        }
    }

    #[test]
    fn bodies_are_read_strictly() {
        use IssueType::*;
        check(r#"{"email":"a@b.example"}"#, Ok(("a@b.example", None, None)));
        check(r#"{"email":" x","mode":null,"detail":null,"more":[1]}"#, Ok((" x", None, None)));
        check(
            r#"{"email":"","mode":"fast","detail":"full"}"#,
            Ok(("", Some(Mode::Fast), Some(DetailLevel::Full))),
        );
        check(r#"{"mode":"full"}"#, Err(&[(r#"["body","email"]"#, Missing)]));
        check(r#"{"email":null}"#, Err(&[(r#"["body","email"]"#, StringType)]));
        check(
            r#"{"email":["a"],"mode":1,"detail":"all"}"#,
            Err(&[
                (r#"["body","email"]"#, StringType),
                (r#"["body","mode"]"#, StringType),
                (r#"["body","detail"]"#, Enum),
            ]),
        );
        check(r#"{"email":"a","mode":"FAST"}"#, Err(&[(r#"["body","mode"]"#, Enum)]));
        check(r#"{"email":"a","mode":""}"#, Err(&[(r#"["body","mode"]"#, Enum)]));
        check(r#"["email"]"#, Err(&[(r#"["body"]"#, ObjectType)]));
        check(r#"{"email":"a","email":"a"}"#, Err(&[(r#"["body"]"#, JsonInvalid)]));
        check(r#"{"email":"a"} {}"#, Err(&[(r#"["body"]"#, JsonInvalid)]));
        check("", Err(&[(r#"["body"]"#, JsonInvalid)]));
    }

    type BatchFields<'a> = (&'a [&'a str], Option<&'a str>);

    fn check_batch(body: &str, expected: Result<BatchFields<'_>, &[(&str, IssueType)]>) {
        match (BatchBody::parse(body.as_bytes()), expected) {
            (Ok(got), Ok((emails, name))) => {
                assert_eq!(
                    (got.emails.as_slice(), got.name.as_deref()),
                    (&to_owned(emails)[..], name),
                    "{body}"
                );
            }
            (Err(issues), Err(rows)) => check_issues(body, &issues, rows),
            (got, _) => panic!("{body}: parsed: {}", got.is_ok()),
        }
    }

    fn to_owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn batches_are_read_strictly() {
        use IssueType::*;
        check_batch(r#"{"emails":["a@b.example"]}"#, Ok((&["a@b.example"], None)));
        check_batch(r#"{"emails":["","a","a"],"name":null,"more":{}}"#, Ok((&["", "a", "a"], None)));
        check_batch(r#"{"name":"","emails":["a"]}"#, Ok((&["a"], Some(""))));
        check_batch("{}", Err(&[(r#"["body","emails"]"#, Missing)]));
        check_batch(r#"{"emails":null}"#, Err(&[(r#"["body","emails"]"#, ListType)]));
        check_batch(r#"{"emails":"a"}"#, Err(&[(r#"["body","emails"]"#, ListType)]));
        check_batch(r#"{"emails":[]}"#, Err(&[(r#"["body","emails"]"#, TooShort)]));
        check_batch(
            r#"{"emails":["a",1,null,["a"]],"name":7}"#,
            Err(&[
                (r#"["body","emails",1]"#, StringType),
                (r#"["body","emails",2]"#, StringType),
                (r#"["body","emails",3]"#, StringType),
                (r#"["body","name"]"#, StringType),
            ]),
        );
        check_batch("[]", Err(&[(r#"["body"]"#, ObjectType)]));
        check_batch("", Err(&[(r#"["body"]"#, JsonInvalid)]));
        check_batch(r#"{"emails":["a"],"emails":["a"]}"#, Err(&[(r#"["body"]"#, JsonInvalid)]));
    }

    #[test]
    fn the_bounds_of_a_batch() {
        use IssueType::*;
        let body = |emails: usize, name: usize| {
            serde_json::json!({ "emails": vec!["a"; emails], "name": "é".repeat(name) }).to_string()
        };
        let (emails, name) = (vec!["a"; BATCH_EMAILS_MAX], "é".repeat(BATCH_NAME_CHARS_MAX));
        check_batch(&body(BATCH_EMAILS_MAX, BATCH_NAME_CHARS_MAX), Ok((&emails, Some(&name))));
        check_batch(
            &body(BATCH_EMAILS_MAX + 1, BATCH_NAME_CHARS_MAX + 1),
            Err(&[(r#"["body","emails"]"#, TooLong), (r#"["body","name"]"#, StringTooLong)]),
        );
        let many = format!("{{\"emails\":[{}1]}}", "1,".repeat(10_000));
        check_batch(&many, Err(&[(r#"["body","emails"]"#, TooLong)]));
    }

    #[test]
    fn the_mode_is_told_whatever_the_rest_is() {
        for (body, mode) in [
            (r#"{"email":"a","mode":"fast"}"#, Some(Mode::Fast)),
            (r#"{"mode":"\u0066ast","email":[1,{"mode":"full"}]}"#, Some(Mode::Fast)),
            (r#"{"mode":"full"}"#, Some(Mode::Full)),
            (r#"{"mode":null}"#, Some(Mode::Full)),
            ("{}", Some(Mode::Full)),
            (r#"{"mode":"Fast"}"#, None),
            (r#"{"mode":1}"#, None),
            (r#"{"mode":"fast","mode":"fast"}"#, None),
            (r#"{"mode":"fast"} x"#, None),
            (r#""fast""#, None),
            (r#"["fast"]"#, None),
            ("[]", None),
            ("", None),
        ] {
            assert_eq!(mode_of(body.as_bytes()), mode, "{body}");
        }
    }

    #[test]
    fn length_counts_characters() {
        let body = |n: usize| format!(r#"{{"email":"{}"}}"#, "é".repeat(n));
        check(&body(EMAIL_CHARS_MAX), Ok((&"é".repeat(EMAIL_CHARS_MAX), None, None)));
        check(&body(EMAIL_CHARS_MAX + 1), Err(&[(r#"["body","email"]"#, IssueType::StringTooLong)]));
    }

    #[test]
    fn long_input_is_not_repeated() {
        let issue = |text: &str| choice::<Mode>(["query", "mode"], text).unwrap_err();
        assert!(issue("x").input.is_some());
        assert!(issue(&"x".repeat(INPUT_CHARS_MAX + 1)).input.is_none());
    }
}
