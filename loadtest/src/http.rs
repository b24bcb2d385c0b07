//! The part of HTTP/1.1 (RFC 9112) that a client of this server needs: requests with a JSON body, and answers with a
//! Content-Length. A chunked answer is an error: the server under test never sends one.

use std::fmt::Write;

/// The longest head of an answer in bytes.
const HEAD_BYTES_MAX: usize = 32 * 1024;
/// The longest body of an answer: a batch of 200 rows has about 30 KiB.
const BODY_BYTES_MAX: usize = 1 << 20;

/// The head of a complete answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The status of the answer.
    pub status: u16,
    /// The index of the body's first byte.
    pub body: usize,
    /// The index after the body.
    pub end: usize,
    /// Whether the server closes after it.
    pub closes: bool,
}

/// Appends a POST request with a JSON body, and with an idempotency key, as a careful caller sends a batch.
pub fn post(out: &mut String, host: &str, path: &str, key: &str, once: Option<(u64, u64)>, body: &str) {
    head(out, "POST", host, path, key);
    if let Some((run, number)) = once {
        let _ = write!(out, "Idempotency-Key: {run:016x}-{number}\r\n");
    }
    let _ = write!(out, "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len());
}

/// Appends a GET request for a path.
pub fn get(out: &mut String, host: &str, path: &str, key: &str) {
    head(out, "GET", host, path, key);
    out.push_str("\r\n");
}

fn head(out: &mut String, method: &str, host: &str, path: &str, key: &str) {
    let _ = write!(out, "{method} {path} HTTP/1.1\r\nHost: {host}\r\n");
    if !key.is_empty() {
        let _ = write!(out, "Authorization: Bearer {key}\r\n");
    }
}

/// The answer at the start of `input`; `None` if it is incomplete.
///
/// # Errors
///
/// One line: the bytes are no answer.
pub fn answer(input: &[u8]) -> Result<Option<Answer>, &'static str> {
    let Some(blank) = memchr::memmem::find(input, b"\r\n\r\n") else {
        return if input.len() > HEAD_BYTES_MAX {
            Err("the head of the answer has no end")
        } else {
            Ok(None)
        };
    };
    let head = std::str::from_utf8(&input[..blank]).map_err(|_| "the head of the answer is not text")?;
    let mut lines = head.split("\r\n");
    let status = status(lines.next().unwrap_or_default()).ok_or("the answer has no status")?;
    let (mut length, mut closes) = (None, false);
    for line in lines {
        let (name, value) = line.split_once(':').ok_or("a header has no colon")?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            let number = value.parse().map_err(|_| "the length is not a number")?;
            if length.is_some_and(|other: usize| other != number) {
                return Err("the answer has two lengths");
            }
            length = Some(number);
        } else if name.eq_ignore_ascii_case("connection") {
            closes |= value.eq_ignore_ascii_case("close");
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            return Err("the answer is chunked");
        }
    }
    let body = blank + 4;
    let length = match (length, status) {
        (_, 204 | 304) => 0,
        (Some(length), _) => length,
        (None, _) => return Err("the answer has no length"),
    };
    if length > BODY_BYTES_MAX {
        return Err("the answer is too long");
    }
    let end = body + length;
    Ok((input.len() >= end).then_some(Answer { status, body, end, closes }))
}

/// The value of a header in the head of an answer.
pub fn header<'h>(head: &'h [u8], name: &str) -> Option<&'h str> {
    let lines = std::str::from_utf8(head).ok()?.split("\r\n").skip(1);
    let values = lines.filter_map(|line| line.split_once(':'));
    values.filter(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
}

fn status(line: &str) -> Option<u16> {
    let mut words = line.split(' ');
    words.next().filter(|version| version.starts_with("HTTP/1."))?;
    words.next()?.parse().ok().filter(|status| (200..600).contains(status))
}

/// The text of a field of a JSON body, if it has no escapes. The bodies come from the server and are flat; a JSON
/// parser would cost more than everything else here.
pub fn text_field<'b>(body: &'b [u8], name: &str) -> Option<&'b str> {
    let rest = after(body, name)?.strip_prefix(b"\"")?;
    let end = memchr::memchr(b'"', rest)?;
    std::str::from_utf8(&rest[..end]).ok()
}

/// Whether a JSON body has `"name":true`.
pub fn is_true(body: &[u8], name: &str) -> bool {
    after(body, name).is_some_and(|rest| rest.starts_with(b"true"))
}

fn after<'b>(body: &'b [u8], name: &str) -> Option<&'b [u8]> {
    let at = memchr::memmem::find(body, name.as_bytes())?;
    body[at + name.len()..].trim_ascii_start().strip_prefix(b"\":").map(<[u8]>::trim_ascii_start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_as_they_come() {
        let whole = b"HTTP/1.1 202 Accepted\r\ncontent-length: 2\r\nX: y\r\n\r\n{}HTTP/1.1";
        let found = answer(whole).unwrap();
        assert_eq!(found, Some(Answer { status: 202, body: 50, end: 52, closes: false }));
        for cut in 0..52 {
            assert_eq!(answer(&whole[..cut]), Ok(None), "{cut}");
        }
        let last = b"HTTP/1.1 503 No\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n";
        assert!(answer(last).unwrap().unwrap().closes);
        assert_eq!(answer(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap().unwrap().status, 204);
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        let long = vec![b'x'; HEAD_BYTES_MAX + 1];
        for (input, why) in [
            (&b"SSH-2.0\r\n\r\n"[..], "no status"),
            (b"HTTP/1.1 099 x\r\n\r\n", "no status"),
            (b"HTTP/1.1 200 OK\r\n\r\n", "no length"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "not a number"),
            (
                b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                "the answer has two lengths",
            ),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", "too long"),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "is chunked"),
            (b"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n", "no colon"),
            (b"\xff\xff\r\n\r\n", "not text"),
            (&long, "has no end"),
        ] {
            let error = answer(input).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn headers_are_found() {
        let head = b"HTTP/1.1 200 OK\r\nServer: a/1 (b: c)\r\nX: y\r\n\r\n";
        assert_eq!(header(head, "server"), Some("a/1 (b: c)"));
        assert_eq!((header(head, "HTTP/1.1 200 OK"), header(head, "z")), (None, None));
    }

    #[test]
    fn fields_of_a_body_are_found() {
        let body = br#"{"email":"a@b.example","reason": "mailbox_exists","cached":true,"batch_id":null}"#;
        assert_eq!(text_field(body, "reason"), Some("mailbox_exists"));
        assert_eq!(text_field(body, "batch_id"), None);
        assert_eq!(text_field(body, "absent"), None);
        assert!(is_true(body, "cached"));
        assert!(!is_true(body, "reason"));
    }

    #[test]
    fn requests_are_written() {
        let mut out = String::new();
        post(&mut out, "h:1", "/p", "k", None, "{}");
        get(&mut out, "h:1", "/q", "");
        let mut once = String::new();
        post(&mut once, "h:1", "/p", "k", Some((255, 7)), "{}");
        assert_eq!(
            once,
            "POST /p HTTP/1.1\r\nHost: h:1\r\nAuthorization: Bearer k\r\nIdempotency-Key: 00000000000000ff-7\r\n\
             Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
        );
        assert_eq!(
            out,
            "POST /p HTTP/1.1\r\nHost: h:1\r\nAuthorization: Bearer k\r\nContent-Type: application/json\r\n\
             Content-Length: 2\r\n\r\n{}GET /q HTTP/1.1\r\nHost: h:1\r\n\r\n"
        );
    }
}
