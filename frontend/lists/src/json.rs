//! Rows of JSON lines: one object each. Its values stay as they were written.

use crate::columns::has_foreign_name;
use crate::{Verdict, VerdictNames};
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

/// The names of the keys of verdicts in a list that begins with these objects. `deliverable` and `reason` stay if they are not of
/// an earlier run.
pub(super) fn names<'a>(objects: impl Iterator<Item = Object<'a>>) -> VerdictNames {
    let usual = VerdictNames::default();
    let mut has_foreign = false;
    for object in objects {
        let (deliverable, reason) = earlier(&object, &usual);
        has_foreign |= has_foreign_name(deliverable, reason);
    }
    if has_foreign { VerdictNames::new(b"mailprobe_") } else { usual }
}

/// Writes an object up to the verdict, which becomes its last two entries. The entries of an earlier run are omitted.
pub(super) fn begin(object: &Object<'_>, names: &VerdictNames, out: &mut Vec<u8>) {
    let (deliverable, reason) = earlier(object, names);
    let is_earlier = !has_foreign_name(deliverable, reason);
    let is_name = |key: &String| key.as_bytes() == names.deliverable || key.as_bytes() == names.reason;
    out.push(b'{');
    for (key, value) in object.0.iter().filter(|(key, _)| !is_earlier || !is_name(key)) {
        // A text can always be written as JSON.
        out.extend(serde_json::to_string(key).unwrap_or_default().bytes());
        out.push(b':');
        out.extend_from_slice(value.get().as_bytes());
        out.push(b',');
    }
}

/// Writes the verdict and ends the object.
pub(super) fn verdict(verdict: Verdict, names: &VerdictNames, out: &mut Vec<u8>) {
    let name = |name: &[u8]| serde_json::to_string(&String::from_utf8_lossy(name)).unwrap_or_default();
    let (deliverable, reason) = (name(&names.deliverable), name(&names.reason));
    let (value, text) = (verdict.deliverable_json(), verdict.reason);
    out.extend_from_slice(format!("{deliverable}:{value},{reason}:\"{text}\"}}").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let object = Object::parse(line.as_bytes()).expect("an object");
        let mut out = Vec::new();
        let names = names(std::iter::once(Object::parse(line.as_bytes()).unwrap()));
        begin(&object, &names, &mut out);
        verdict(Verdict::INVALID_SYNTAX, &names, &mut out);
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
