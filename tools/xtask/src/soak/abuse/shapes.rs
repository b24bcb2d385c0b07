//! Requests that two programs may read differently, or that no server should accept: each with its allowed answers.
//!
//! Most have a second request at the position where one interpretation ends and another continues: a check that would
//! be charged. Each shape is one request, so it gets at most one answer, and the check is never executed.

use crate::failure::{Context, Failure};
use toml::Table;

/// All shapes but one, which is no text.
const REQUESTS: &str = include_str!("../../../soak/requests.toml");

/// A malformed or ambiguous request with its allowed answers.
pub struct Shape {
    pub name: String,
    pub bytes: Vec<u8>,
    /// The allowed statuses. The server may also close without an answer.
    pub may: Vec<u16>,
}

/// The hidden check. It is a complete request, and its execution charges the account of the key.
pub fn marker(key: &str) -> String {
    format!(
        "GET /v1/verify?email=user-1%40a-1.example&mode=full HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {key}\r\n\r\n"
    )
}

/// A head with 10,000 header fields.
pub fn fields() -> String {
    (0..10_000).map(|number| format!("X-{number}: a\r\n")).collect()
}

/// All shapes. `key` is that of the outer request, and `hidden` that of the hidden one.
///
/// # Errors
///
/// requests.toml has another form.
pub fn all(key: &str, hidden: &str) -> Result<Vec<Shape>, Failure> {
    let words = words(key, hidden);
    let written = |text: &str| words.iter().fold(text.to_owned(), |text, (word, by)| text.replace(word, by));
    let requests = REQUESTS.parse::<Table>().about("requests.toml")?;
    let mut shapes =
        vec![Shape { name: "bytes that are no text".into(), bytes: vec![0xff; 200], may: vec![400] }];
    for group in requests["group"].as_array().into_iter().flatten() {
        let may = group["may"].as_array().into_iter().flatten();
        let may: Vec<u16> = may.filter_map(|status| status.as_integer()?.try_into().ok()).collect();
        shapes.extend(group["shapes"].as_table().into_iter().flatten().map(|(name, text)| Shape {
            name: name.clone(),
            bytes: text.as_str().map(written).unwrap_or_default().into_bytes(),
            may: may.clone(),
        }));
    }
    Ok(shapes)
}

/// The words in braces of requests.toml with their meanings.
fn words(key: &str, hidden: &str) -> [(&'static str, String); 15] {
    let (head, marker) = (format!("Host: t\r\nAuthorization: Bearer {key}\r\n"), marker(hidden));
    let post = format!("POST /v1/verify?mode=fast HTTP/1.1\r\n{head}");
    let last = format!("0\r\n\r\n{marker}");
    [
        ("{get}", "GET /livez HTTP/1.1\r\nHost: t\r\n".to_owned()),
        ("{chunked}", format!("{post}Transfer-Encoding: chunked\r\n\r\n")),
        ("{post}", post),
        ("{key}", key.to_owned()),
        ("{marker_len}", marker.len().to_string()),
        ("{marker_hex}", format!("{:x}", marker.len())),
        // The last chunk, and the hidden check behind it.
        ("{last_len}", last.len().to_string()),
        ("{last}", last),
        ("{marker}", marker),
        ("{10,000 fields}", fields()),
        ("{10,000 trailers}", "X: a\r\n".repeat(10_000)),
        ("{101 fields}", "X: a\r\n".repeat(101)),
        ("{200 extensions}", format!("1;{}\r\nx\r\n", "a".repeat(1 << 10)).repeat(200)),
        ("{100 KiB}", "a".repeat(100 << 10)),
        ("{40 KiB}", "a".repeat(40 << 10)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_is_written_out() {
        let shapes = all("outer", "hidden").unwrap();
        assert_eq!(shapes.len(), 106);
        for Shape { name, bytes, may } in shapes {
            let text = String::from_utf8_lossy(&bytes);
            assert!(!may.is_empty() && !text.is_empty() && !text.contains(['{', '}']), "{name}");
        }
    }
}
