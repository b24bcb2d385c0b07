//! JSON of providers: lines, arrays and single objects, as webhooks, event streams and interfaces give them.
//!
//! An object becomes a row: its names are those of columns. Providers wrap the fields of an event in further objects. Only wrappers
//! that are known are entered, because the mail itself has recipients and times too.

use super::{Columns, Export, normal};
use crate::LearnError;
use crate::reading::Learner;
use serde_json::{Map, Value};
use std::io::BufRead;

/// Longest object in bytes. Without this limit, an object without an end would fill the memory.
const OBJECT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How deep JSON inside strings of JSON is read.
const DEPTH_MAX: usize = 4;

/// Objects that only wrap the fields of an event.
const WRAPPERS: [&str; 12] = [
    "msys",
    "messageevent",
    "genevent",
    "eventdata",
    "bounce",
    "delivery",
    "complaint",
    "deliverydelay",
    "detail",
    "sns",
    "msg",
    "reject",
];
/// Objects with fields that are named together with them.
const NAMED: [&str; 3] = ["deliverystatus", "response", "peeraddress"];
/// Arrays of events.
const LISTS: [&str; 8] = [
    "items",
    "results",
    "records",
    "messages",
    "bounces",
    "events",
    "deliveries",
    "suppresseddestinationsummaries",
];
/// Arrays of the recipients of one event.
const RECIPIENTS: [&str; 5] =
    ["bouncedrecipients", "delayedrecipients", "complainedrecipients", "recipients", "recipient"];

/// The fields of an object, by their names without marks.
type FlatObject = Vec<(String, String)>;

/// Reads the objects of a file.
///
/// # Errors
/// Reading fails, the file is no JSON, or no object has a known event.
pub(super) fn read(mut input: impl BufRead, learner: &mut Learner<'_>) -> Result<(), LearnError> {
    let mut export = Export::new(learner);
    let mut count = 0u64;
    while let Some(object) = next_object(&mut input)? {
        count += 1;
        let value: Value = serde_json::from_slice(&object).map_err(|error| {
            LearnError::Unreadable(format!("it is JSON, but its object {count} is damaged: {error}"))
        })?;
        on_value(&value, 0, &mut |fields| {
            let (names, values): (Vec<_>, Vec<_>) = fields.iter().cloned().unzip();
            export.on_row(&Columns::of(&names), &|at| values[at].as_str().into());
        });
    }
    let tally = export.finish();
    if tally.rows > tally.other_rows {
        return Ok(());
    }
    Err(LearnError::NothingFound(format!(
        "it is JSON, and none of its objects ({count}) is an event of Amazon SES, SendGrid, Mailgun, Postmark, SparkPost, KumoMTA or a \
         similar sender"
    )))
}

/// The bytes of the next object. Arrays around objects, and separators between them, are skipped. An object without an end is
/// skipped too: the file is cut.
fn next_object(input: &mut impl BufRead) -> Result<Option<Vec<u8>>, LearnError> {
    let mut object = Vec::new();
    let (mut depth, mut in_string, mut is_escaped) = (0u32, false, false);
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            return Ok(None);
        }
        let mut used = 0;
        let mut is_whole = false;
        for &byte in buffer {
            used += 1;
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if in_string => is_escaped = true,
                b'"' if depth > 0 => in_string = !in_string,
                _ if in_string => {}
                b'{' => depth += 1,
                b'}' if depth > 0 => {
                    depth -= 1;
                    is_whole = depth == 0;
                }
                b'[' | b']' | b',' | b'\x1e' if depth == 0 => continue,
                _ if depth == 0 && !byte.is_ascii_whitespace() => {
                    return Err(LearnError::Unreadable(
                        "it is JSON, but not with one object for each event".to_owned(),
                    ));
                }
                _ => {}
            }
            if depth > 0 || is_whole {
                object.push(byte);
            }
            if is_whole {
                break;
            }
        }
        input.consume(used);
        if is_whole {
            return Ok(Some(object));
        }
        if object.len() > OBJECT_BYTES_MAX {
            return Err(LearnError::Unreadable("it is JSON, and an object has more than 16 MiB".to_owned()));
        }
    }
}

fn on_value(value: &Value, depth: usize, on_row: &mut dyn FnMut(FlatObject)) {
    let map = match value {
        Value::Array(values) => return values.iter().for_each(|value| on_value(value, depth, on_row)),
        Value::Object(map) if depth < DEPTH_MAX => map,
        _ => return,
    };
    // Amazon SNS and SQS have the event as text, and a list of events may be the only content.
    let texts = map.iter().filter(|(name, _)| ["message", "body"].contains(&&*normal(name)));
    let inner = texts.filter_map(|(_, value)| serde_json::from_str(value.as_str()?).ok());
    let inner: Vec<Value> = inner.filter(|value: &Value| value.is_object() || value.is_array()).collect();
    let is_list = |(name, value): &(&String, &Value)| {
        LISTS.contains(&&*normal(name))
            && value.as_array().is_some_and(|list| list.iter().any(Value::is_object))
    };
    let lists: Vec<&Value> = map.iter().filter(is_list).map(|(_, value)| value).chain(&inner).collect();
    if !lists.is_empty() {
        return lists.into_iter().for_each(|value| on_value(value, depth + 1, on_row));
    }
    if let Some(Value::Object(sns)) =
        map.iter().find(|(name, _)| normal(name) == "sns").map(|(_, value)| value)
    {
        return on_value(&Value::Object(sns.clone()), depth + 1, on_row);
    }
    let (mut fields, mut recipients) = (FlatObject::new(), Vec::new());
    collect(map, "", depth, &mut fields, &mut recipients);
    if recipients.is_empty() {
        return on_row(fields);
    }
    for mut recipient in recipients {
        recipient.extend(fields.iter().cloned());
        on_row(recipient);
    }
}

/// Adds the fields of an object, those of the object itself first.
fn collect(
    map: &Map<String, Value>,
    prefix: &str,
    depth: usize,
    fields: &mut FlatObject,
    recipients: &mut Vec<FlatObject>,
) {
    for (name, value) in map {
        let name = format!("{prefix}{}", normal(name));
        match value {
            Value::String(text) => fields.push((name, text.clone())),
            Value::Number(number) => fields.push((name, number.to_string())),
            Value::Object(code) if name.ends_with("enhancedcode") => {
                let parts = ["class", "subject", "detail"]
                    .map(|part| code.get(part).map(Value::to_string).unwrap_or_default());
                fields.push((name, parts.join(".")));
            }
            Value::Array(list) if RECIPIENTS.contains(&&*name) => recipients.extend(list.iter().map(|one| {
                let mut fields = FlatObject::new();
                match one {
                    Value::String(address) => fields.push(("recipient".to_owned(), address.clone())),
                    Value::Object(map) => collect(map, "", DEPTH_MAX, &mut fields, &mut Vec::new()),
                    _ => {}
                }
                fields
            })),
            _ => {}
        }
    }
    for (name, value) in map.iter().filter(|_| depth < DEPTH_MAX) {
        let (Value::Object(inner), name) = (value, normal(name)) else { continue };
        if NAMED.contains(&&*name) {
            collect(inner, &name, depth + 1, fields, recipients);
        } else if WRAPPERS.contains(&&*name) {
            collect(inner, "", depth + 1, fields, recipients);
        }
    }
}
