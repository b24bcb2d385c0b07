//! The structure of a message (RFC 2045, RFC 2046): its header, its parts and their contents.
//!
//! `mail-parser` reads the values and the encodings. The walk over the parts is ours: it never enters a message inside a message,
//! so a quoted bounce is no bounce. The values of `mail-parser` nest as deep as the input, and their drop would exhaust the stack.

use crate::fields::{Fields, date, next_line, text};
use mail_parser::decoders::base64::base64_decode;
use mail_parser::decoders::charsets::map::charset_decoder;
use mail_parser::decoders::quoted_printable::quoted_printable_decode;
use mail_parser::parsers::MessageStream;
use mail_parser::{ContentType, HeaderValue};
use std::borrow::Cow;

/// Maximum number of parts of a multipart that are read.
const PARTS_MAX: usize = 32;

/// A message or one of its parts.
pub(crate) struct Entity<'a> {
    pub header: Fields,
    body: &'a [u8],
    kind: Option<ContentType<'static>>,
}

impl<'a> Entity<'a> {
    /// Splits an entity of MIME into its header and its body (RFC 2045 2.4).
    pub fn read(bytes: &'a [u8]) -> Entity<'a> {
        let (header, body) = Fields::read(bytes);
        let kind = header.value("content-type").and_then(content_type);
        Entity { header, body, kind }
    }

    /// Whether its type is this one, such as `message/delivery-status`.
    pub fn is(&self, name: &str) -> bool {
        let (main, sub) = name.split_once('/').unwrap_or((name, ""));
        self.kind.as_ref().is_some_and(|kind| {
            kind.c_type.eq_ignore_ascii_case(main)
                && kind.c_subtype.as_deref().unwrap_or_default().eq_ignore_ascii_case(sub)
        })
    }

    /// Whether it is text to read. Without a type it is (RFC 2045 5.2).
    pub fn is_text(&self) -> bool {
        self.kind.is_none() || self.is("text/plain")
    }

    /// A parameter of its type.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.kind.as_ref()?.attribute(name)
    }

    /// The parts of a multipart, at most [`PARTS_MAX`]; none if it has no boundary.
    pub fn parts(&self) -> Vec<Entity<'a>> {
        match self.parameter("boundary") {
            Some(boundary) if !boundary.is_empty() => split(self.body, boundary.as_bytes()),
            _ => Vec::new(),
        }
    }

    /// The body without its transfer encoding.
    pub fn content(&self) -> Cow<'a, [u8]> {
        let encoding = self.header.value("content-transfer-encoding").unwrap_or_default();
        let decoded = match encoding.trim().to_ascii_lowercase().as_str() {
            "base64" => base64_decode(self.body),
            "quoted-printable" => quoted_printable_decode(self.body),
            _ => None,
        };
        decoded.map_or(Cow::Borrowed(self.body), Cow::Owned)
    }

    /// The body as text.
    pub fn text(&self) -> String {
        let content = self.content();
        match self.parameter("charset").and_then(|name| charset_decoder(name.as_bytes())) {
            Some(decode) => decode(&content),
            None => text(&content).into_owned(),
        }
    }

    /// The header of the mail that a report returns; `None` if this part is no copy.
    pub fn copied_header(&self) -> Option<Fields> {
        let names = ["message/rfc822", "text/rfc822-headers", "message/rfc822-headers", "message/global"];
        names.iter().any(|name| self.is(name)).then(|| Fields::read(&self.content()).0)
    }

    /// Whether the message says that a mail server made it: the null reverse-path, or the name of its sender.
    pub fn is_from_server(&self) -> bool {
        let is_null = |path: &str| matches!(path.trim(), "" | "<>");
        self.header.value("return-path").is_some_and(is_null) || self.is_named_as_server()
    }

    /// Whether the name of its sender is that of a mail server.
    pub fn is_named_as_server(&self) -> bool {
        let from = self.header.value("from").unwrap_or_default().to_ascii_lowercase();
        ["mailer-daemon", "mail delivery s", "postmaster@", "post_master@"]
            .iter()
            .any(|name| from.contains(name))
    }

    /// The time of its `Date` field.
    pub fn date(&self) -> Option<u64> {
        self.header.value("date").and_then(date)
    }
}

fn content_type(value: &str) -> Option<ContentType<'static>> {
    let line = format!("{}\n", value.replace('\n', " "));
    match MessageStream::new(line.as_bytes()).parse_content_type().into_owned() {
        HeaderValue::ContentType(kind) => Some(kind),
        _ => None,
    }
}

/// The parts between the lines of the boundary. The last one may have no end: the message may be cut.
fn split<'a>(body: &'a [u8], boundary: &[u8]) -> Vec<Entity<'a>> {
    let mut parts = Vec::new();
    let mut begin = None;
    let mut rest = body;
    while !rest.is_empty() {
        let at = body.len() - rest.len();
        let line = next_line(&mut rest);
        let Some(is_last) = is_delimiter(line, boundary) else { continue };
        if let Some(begin) = begin {
            parts.push(Entity::read(&body[begin..at]));
        }
        if is_last || parts.len() == PARTS_MAX {
            return parts;
        }
        begin = Some(body.len() - rest.len());
    }
    if let Some(begin) = begin {
        parts.push(Entity::read(&body[begin..]));
    }
    parts
}

/// Whether the line is the boundary (`Some`), and the last one of its multipart (`Some(true)`).
fn is_delimiter(line: &[u8], boundary: &[u8]) -> Option<bool> {
    let after = line.strip_prefix(b"--")?.strip_prefix(boundary)?.trim_ascii_end();
    match after {
        b"" => Some(false),
        b"--" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(body: &str) -> Vec<String> {
        let message = format!("Content-Type: multipart/mixed; boundary=\"b=1\"\n\n{body}");
        Entity::read(message.as_bytes()).parts().iter().map(Entity::text).collect()
    }

    #[test]
    fn parts_are_those_between_the_boundaries() {
        assert_eq!(parts("x\n--b=1\n\none\n--b=1  \n\ntwo\n--b=1--\n\nend"), ["one\n", "two\n"]);
        assert_eq!(parts("--b=1\n\none\n--b=12\ntwo"), ["one\n--b=12\ntwo"]);
        assert_eq!(parts("--b=1--\n"), [""; 0]);
        assert_eq!(parts("text"), [""; 0]);
        assert_eq!(parts(&"--b=1\n\nx\n".repeat(100)).len(), PARTS_MAX);
    }

    #[test]
    fn contents_are_decoded() {
        for (header, body, expected) in [
            ("Content-Type: text/plain; charset=iso-8859-1", &b"\n\xe9"[..], "\u{e9}"),
            ("Content-Type: text/plain; charset=utf-8", "\n\u{e9}".as_bytes(), "\u{e9}"),
            ("Content-Type: text/plain; charset=x-unknown", b"\n\xe9", "\u{e9}"),
            (
                "Content-Type: text/plain",
                "\n\u{e9} \u{e9}".as_bytes().split_last().unwrap().1,
                "\u{e9} \u{fffd}",
            ),
            ("Content-Transfer-Encoding: base64", b"\nU3RhdH\r\nVzOg==\n", "Status:"),
            ("Content-Transfer-Encoding: quoted-printable", b"\na=3Db=\r\nc\n", "a=bc\r\n"),
            ("Content-Type: text/plain; charset=\"koi8-r\"", b"\n\xc1", "\u{430}"),
            ("Content-Type: text/plain;\n\tcharset=\"iso-2022-jp\"", b"\n\x1b$B%a\x1b(B", "\u{30e1}"),
        ] {
            let bytes = [header.as_bytes(), b"\n", body].concat();
            assert_eq!(Entity::read(&bytes).text(), expected, "{header}");
        }
    }

    #[test]
    fn types_are_compared_without_case() {
        let message = b"Content-Type: Multipart/Report; Report-Type=\"Delivery-Status\";\n\tboundary=x\n\n";
        let entity = Entity::read(message);
        assert!(entity.is("multipart/report") && !entity.is("multipart/mixed") && !entity.is_text());
        assert_eq!(entity.parameter("report-type"), Some("Delivery-Status"));
        assert!(Entity::read(b"Subject: x\n\n").is_text());
    }
}
