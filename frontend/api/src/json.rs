//! Strict JSON: RFC 8259 with the choices that avoid ambiguity.
//!
//! serde_json already refuses trailing data, invalid UTF-8, lone surrogates and nesting deeper than 128. But it accepts
//! duplicate keys and uses the last value. RFC 8259 4 calls that behaviour unpredictable, so here a duplicate key is an
//! error at every depth.

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// Parses one JSON text.
///
/// # Errors
///
/// A sentence with line and column. It does not quote the text.
pub fn parse(text: &[u8]) -> Result<Value, String> {
    serde_json::from_slice::<Strict>(text).map(|strict| strict.0).map_err(|error| error.to_string())
}

/// The canonical form of all texts with equal content: object keys in the order of their bytes, and no white space.
///
/// # Errors
///
/// As [`parse`].
pub fn canonical(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut output = Vec::with_capacity(text.len());
    write_canonical(&parse(text)?, &mut output).map_err(|error| error.to_string())?;
    Ok(output)
}

/// The depth is limited by the parser.
fn write_canonical(value: &Value, output: &mut Vec<u8>) -> Result<(), serde_json::Error> {
    match value {
        Value::Array(items) => {
            output.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    output.push(b',');
                }
                write_canonical(item, output)?;
            }
            output.push(b']');
        }
        Value::Object(fields) => {
            // The keys are sorted here: the order in a map depends on features that any crate can enable.
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            fields.sort_unstable_by_key(|(key, _)| *key);
            output.push(b'{');
            for (i, (key, value)) in fields.into_iter().enumerate() {
                if i > 0 {
                    output.push(b',');
                }
                serde_json::to_writer(&mut *output, key)?;
                output.push(b':');
                write_canonical(value, output)?;
            }
            output.push(b'}');
        }
        scalar => serde_json::to_writer(output, scalar)?,
    }
    Ok(())
}

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Strict, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> DeserializeSeed<'de> for StrictVisitor {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(StrictVisitor)? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(de::Error::custom("duplicate key"));
            }
            let value = entries.next_value_seed(StrictVisitor)?;
            map.insert(key, value);
        }
        Ok(map.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leaves_no_doubt_passes() {
        for text in
            ["{}", "null", " [1, -2, 2.5e3, \"\\u00e9\", true, {\"a\":{\"b\":[]}}]\n", "18446744073709551615"]
        {
            assert_eq!(
                parse(text.as_bytes()).unwrap(),
                serde_json::from_str::<Value>(text).unwrap(),
                "{text}"
            );
        }
    }

    #[test]
    fn the_rest_is_refused() {
        let deep = "[".repeat(200) + &"]".repeat(200);
        let rows: [&[u8]; 15] = [
            b"",
            b" ",
            b"{",
            b"{}{}",
            b"{} x",
            b"{'a':1}",
            b"{\"a\":1,}",
            b"{\"a\":1,\"a\":1}",
            b"{\"a\":1,\"\\u0061\":2}",
            b"[{\"a\":{\"b\":1,\"b\":2}}]",
            b"\"\xff\"",
            b"\"\\ud800\"",
            b"1e999",
            b"\xef\xbb\xbf{}",
            deep.as_bytes(),
        ];
        for row in rows {
            assert!(parse(row).is_err(), "{}", String::from_utf8_lossy(row));
        }
    }

    #[test]
    fn equal_content_has_one_text() {
        let text = |text: &str| String::from_utf8(canonical(text.as_bytes()).unwrap()).unwrap();
        let expected = r#"{"a":[1,{"c":null,"d":"é"}],"b":true}"#;
        assert_eq!(text(expected), expected);
        assert_eq!(text("{ \"b\":true,\n\"\\u0061\":[1, {\"d\":\"\\u00e9\",\"c\":null}]}"), expected);
        // A number is read as the nearest representable one, so its text is read as the same number again.
        assert_eq!(text(&text("388888888888887222.47477777")), text("388888888888887222.47477777"));
        assert_ne!(text("[1,2]"), text("[2,1]"));
        assert_ne!(text("{\"a\":null}"), text("{}"));
        assert!(canonical(b"{\"a\":1,\"a\":1}").is_err());
    }

    #[test]
    fn an_error_shows_no_content() {
        let said = parse(b"{\"who@example.com\":1,\"who@example.com\":2}").unwrap_err();
        assert!(said.contains("duplicate key") && !said.contains("example"), "{said}");
    }
}
