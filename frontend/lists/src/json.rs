//! Rows of JSON lines: one object each. Its values stay as they were written.

use crate::columns::has_foreign_name;
use crate::{ResultColumn, VERDICT_NAMES, VerdictNames, WrittenResults, reasons};
use api::Reason;
use serde::Deserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// The entries of an object in their order, with the values as they were written.
#[derive(Debug)]
pub(super) struct Object<'a>(pub Vec<(String, &'a RawValue)>);

impl<'a> Object<'a> {
    /// Parses one line.
    ///
    /// # Errors
    /// The error. It does not quote the line.
    pub fn parse(line: &'a [u8]) -> Result<Object<'a>, &'static str> {
        let text = std::str::from_utf8(line).map_err(|_| "is not UTF-8")?;
        let mut json = serde_json::Deserializer::from_str(text);
        let object = (&mut json).deserialize_map(Entries).map_err(|_| "is not a JSON object")?;
        json.end().map_err(|_| "has text after its JSON object")?;
        Ok(object)
    }

    /// The text of a key; `None` if there is none, or if the value is not a text.
    pub fn text(&self, key: &str) -> Option<String> {
        let (_, value) = self.0.iter().rev().find(|(k, _)| k == key)?;
        serde_json::from_str(value.get()).ok()
    }

    /// Whether the value of a key is an array or an object.
    pub fn is_nested(&self, key: &str) -> bool {
        self.value(key).is_some_and(|value| value.starts_with(['[', '{']))
    }

    /// Whether there is no value of a key: it is missing, `null` or a text of white space.
    pub fn is_blank(&self, key: &str) -> bool {
        let is_null = self.value(key).is_none_or(|value| value == "null");
        is_null || self.text(key).is_some_and(|text| text.trim().is_empty())
    }

    fn value(&self, key: &str) -> Option<&'a str> {
        self.0.iter().rev().find(|(k, _)| k == key).map(|(_, value)| value.get())
    }

    /// The keys with their values as a cell shows them: a text without its quotes, other values as they were written, `null` as
    /// nothing.
    pub fn shown(&self) -> impl Iterator<Item = (&str, String)> {
        self.0.iter().map(|(key, value)| {
            let shown = match value.get() {
                "null" => String::new(),
                json => serde_json::from_str(json).unwrap_or_else(|_| json.to_owned()),
            };
            (key.as_str(), shown)
        })
    }

    /// The keys in their order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(key, _)| key.as_str())
    }
}

struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Object<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, value)) = map.next_entry::<String, &'de RawValue>().map_err(A::Error::custom)? {
            entries.push((key, value));
        }
        Ok(Object(entries))
    }
}

/// The values of a verdict in an object, as they are written.
pub(super) fn earlier<'a>(object: &Object<'a>, names: &VerdictNames) -> (Option<&'a str>, Option<&'a str>) {
    let value = |name: &[u8]| {
        object.0.iter().rev().find(|(key, _)| key.as_bytes() == name).map(|(_, value)| value.get())
    };
    (value(&names.deliverable), value(&names.reason))
}

/// The verdict of an earlier run in an object, with its further results.
pub(super) fn earlier_result(object: &Object<'_>, names: &VerdictNames) -> Option<(Reason, WrittenResults)> {
    let (deliverable, reason) = earlier(object, names);
    let reason: String = serde_json::from_str(reason?).ok()?;
    let is_it = |reason: &Reason| Some(reasons::deliverable_json(*reason)) == deliverable;
    let reason = reasons::named(&reason).filter(is_it)?;
    let mut results = WrittenResults::default();
    let stem = names.deliverable.strip_suffix(VERDICT_NAMES[0].as_bytes()).unwrap_or_default();
    for (key, value) in ours(object, names).into_iter().map(|at| &object.0[at]) {
        let column = key.as_bytes().strip_prefix(stem).and_then(|name| std::str::from_utf8(name).ok());
        if let Some(column) = column.and_then(ResultColumn::parse) {
            results.set(column, &result(column, value.get()).unwrap_or_default());
        }
    }
    Some((reason, results))
}

/// The further columns of results that an earlier run wrote into an object, in their order.
pub(super) fn earlier_columns(object: &Object<'_>, names: &VerdictNames) -> Vec<ResultColumn> {
    let stem = names.deliverable.strip_suffix(VERDICT_NAMES[0].as_bytes()).unwrap_or_default();
    let column = |at: usize| {
        let name = object.0[at].0.as_bytes().strip_prefix(stem)?;
        ResultColumn::parse(std::str::from_utf8(name).ok()?)
    };
    ours(object, names).into_iter().filter_map(column).collect()
}

/// The names of the keys of verdicts in a list that begins with these objects. Keys with these names stay if they are not of an
/// earlier run.
pub(super) fn names<'a>(objects: impl Iterator<Item = Object<'a>>, further: &[ResultColumn]) -> VerdictNames {
    let usual = VerdictNames::new(b"", further);
    let mut has_foreign = false;
    for object in objects {
        let (deliverable, reason) = earlier(&object, &usual);
        let ours = ours(&object, &usual);
        let is_taken = |(at, key): (usize, &str)| {
            usual.further.iter().any(|name| name == key.as_bytes()) && !ours.contains(&at)
        };
        has_foreign |= has_foreign_name(deliverable, reason) || object.keys().enumerate().any(is_taken);
    }
    if has_foreign { VerdictNames::new(b"mailprobe_", further) } else { usual }
}

/// The indexes of the entries of an earlier run: its verdict, and the further results that follow it directly.
fn ours(object: &Object<'_>, names: &VerdictNames) -> Vec<usize> {
    let (deliverable, reason) = earlier(object, names);
    if deliverable.is_none() || has_foreign_name(deliverable, reason) {
        return Vec::new();
    }
    let is_name = |key: &str| key.as_bytes() == names.deliverable || key.as_bytes() == names.reason;
    let entries = object.0.iter().enumerate();
    let mut ours: Vec<usize> = entries.filter(|(_, (key, _))| is_name(key)).map(|(at, _)| at).collect();
    let stem = names.deliverable.strip_suffix(VERDICT_NAMES[0].as_bytes()).unwrap_or_default();
    let behind = ours.last().map_or(0, |last| last + 1);
    for (at, (key, value)) in object.0.iter().enumerate().skip(behind) {
        let column = key.as_bytes().strip_prefix(stem).and_then(|name| std::str::from_utf8(name).ok());
        let Some(column) = column.and_then(ResultColumn::parse) else { break };
        if !result(column, value.get()).is_some_and(|value| column.has_value(&value)) {
            break;
        }
        ours.push(at);
    }
    ours
}

/// The text of a value of a column of results, from its JSON; empty for `null`. `None` for other values.
pub(super) fn result(column: ResultColumn, json: &str) -> Option<String> {
    match json {
        "null" => Some(String::new()),
        json if column.is_bare() => Some(json.to_owned()),
        json => serde_json::from_str(json).ok(),
    }
}

/// The text before the value of a further result.
pub(super) fn lead(name: &[u8]) -> Vec<u8> {
    let name = serde_json::to_string(&String::from_utf8_lossy(name)).unwrap_or_default();
    format!(",{name}:").into_bytes()
}

/// Writes the value of a further result.
pub(super) fn write_result(column: ResultColumn, value: &str, out: &mut Vec<u8>) {
    match value {
        "" => out.extend_from_slice(b"null"),
        bare if column.is_bare() => out.extend_from_slice(bare.as_bytes()),
        text => out.extend(serde_json::to_string(text).unwrap_or_default().bytes()),
    }
}

/// Writes an object up to the verdict, which becomes its last two entries. The entries of an earlier run are omitted.
pub(super) fn begin(object: &Object<'_>, names: &VerdictNames, out: &mut Vec<u8>) {
    let ours = ours(object, names);
    out.push(b'{');
    for (_, (key, value)) in object.0.iter().enumerate().filter(|(at, _)| !ours.contains(at)) {
        // A text can always be written as JSON.
        out.extend(serde_json::to_string(key).unwrap_or_default().bytes());
        out.push(b':');
        out.extend_from_slice(value.get().as_bytes());
        out.push(b',');
    }
}

/// Writes the verdict, and ends the object unless further results follow.
pub(super) fn verdict(found: Reason, names: &VerdictNames, out: &mut Vec<u8>) {
    let name = |name: &[u8]| serde_json::to_string(&String::from_utf8_lossy(name)).unwrap_or_default();
    let (deliverable, reason) = (name(&names.deliverable), name(&names.reason));
    let (value, text) = (reasons::deliverable_json(found), found.as_str());
    let end = if names.further.is_empty() { "}" } else { "" };
    out.extend_from_slice(format!("{deliverable}:{value},{reason}:\"{text}\"{end}").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let object = Object::parse(line.as_bytes()).expect("an object");
        let mut out = Vec::new();
        let names = names(std::iter::once(Object::parse(line.as_bytes()).unwrap()), &[]);
        begin(&object, &names, &mut out);
        verdict(Reason::InvalidSyntax, &names, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), format!("{expected}}}"));
    }

    #[test]
    fn values_stay_as_they_were() {
        let end = r#""deliverable":false,"reason":"invalid_syntax""#;
        let own = r#""mailprobe_deliverable":false,"mailprobe_reason":"invalid_syntax""#;
        check(r#"{"email":"a@b.co"}"#, &format!(r#"{{"email":"a@b.co",{end}"#));
        check("{}", &format!("{{{end}"));
        check(
            r#" { "n" : 12345678901234567890.1e5 , "o":{"z":1, "a":[ ]},"s":"\u00e9\/" } "#,
            &format!(r#"{{"n":12345678901234567890.1e5,"o":{{"z":1, "a":[ ]}},"s":"\u00e9\/",{end}"#),
        );
        check("{\"k\\\"\\n\":1}", &format!("{{\"k\\\"\\n\":1,{end}"));
        // A verdict of an earlier run is replaced, and values of the owner stay.
        check(r#"{"reason":"no_mx","a":1,"deliverable":false}"#, &format!(r#"{{"a":1,{end}"#));
        check(r#"{"reason":"old","a":1}"#, &format!(r#"{{"reason":"old","a":1,{own}"#));
        check(
            r#"{"deliverable":true,"reason":"no_mx"}"#,
            &format!(r#"{{"deliverable":true,"reason":"no_mx",{own}"#),
        );
    }

    #[test]
    fn texts_are_read() {
        let object = Object::parse(r#"{"a":"\u0061@b.co","n":1,"d":"x","d":"y"}"#.as_bytes()).unwrap();
        assert_eq!(object.text("a").as_deref(), Some("a@b.co"));
        assert_eq!(object.text("n"), None);
        assert_eq!(object.text("x"), None);
        assert_eq!(object.text("d").as_deref(), Some("y"), "the last one counts");
    }

    #[test]
    fn what_is_no_object() {
        for line in ["", "[1]", "1", "\"a\"", "{", "{\"a\":}", "{\"a\" 1}", "null"] {
            assert_eq!(Object::parse(line.as_bytes()).err(), Some("is not a JSON object"), "{line}");
        }
        assert_eq!(Object::parse(b"{} {}").err(), Some("has text after its JSON object"));
        assert_eq!(Object::parse(b"{\"a\":\"\xff\"}").err(), Some("is not UTF-8"));
        // Deep nesting must not exhaust the stack.
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
        let _ = Object::parse(deep.as_bytes());
    }
}
