//! Requests that two programs may read differently, or that no server should accept: each with its allowed answers.
//!
//! Most have a second request at the position where one interpretation ends and another continues: a check that would
//! be charged. Each shape is one request, so it gets at most one answer, and the check is never executed.

/// A malformed or ambiguous request with its allowed answers.
pub struct Shape {
    pub name: &'static str,
    pub bytes: Vec<u8>,
    /// The allowed statuses. The server may also close without an answer.
    pub may: &'static [u16],
}

/// Only 400 is allowed.
const BAD: &[u16] = &[400];
/// The target, the fields or the body are too long.
const MUCH: &[u16] = &[400, 413, 414, 431];
/// The body is too long, or the server waits for its rest until the timeout.
const LONG: &[u16] = &[400, 408, 413];
/// RFC 9112 allows that the request is accepted, or the path does not have the method.
const FINE: &[u16] = &[200, 400, 405];
/// The server does not have this coding (RFC 9112 6.1).
const CODING: &[u16] = &[400, 501];

/// The hidden check. It is a complete request, and its execution charges the account of the key.
pub fn marker(key: &str) -> String {
    format!(
        "GET /v1/verify?email=user-1%40a-1.example&mode=full HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {key}\r\n\r\n"
    )
}

/// All shapes. `key` is that of the outer request, and `hidden` that of the hidden one.
pub fn all(key: &str, hidden: &str) -> Vec<Shape> {
    let marker = marker(hidden);
    let mut shapes = lengths(key, &marker);
    shapes.extend(codings(key, &marker));
    shapes.extend(chunks(key, &marker));
    shapes.extend(lines(key, &marker));
    shapes.extend(targets(&marker));
    shapes.extend(amounts());
    shapes
}

fn post(key: &str, fields: &str) -> String {
    format!("POST /v1/verify?mode=fast HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {key}\r\n{fields}\r\n")
}

fn shape(name: &'static str, bytes: impl Into<Vec<u8>>, may: &'static [u16]) -> Shape {
    Shape { name, bytes: bytes.into(), may }
}

/// A Content-Length together with another one, or with Transfer-Encoding.
fn lengths(key: &str, marker: &str) -> Vec<Shape> {
    let both = |fields: &str, body: &str| format!("{}{body}", post(key, fields));
    let length = |value: &str| both(&format!("Content-Length: {value}\r\n"), marker);
    let (zero, all) = (format!("0\r\n\r\n{marker}"), marker.len());
    let chunk = format!("{all:x}\r\n{marker}\r\n0\r\n\r\n");
    let cl_te = format!("Content-Length: {}\r\nTransfer-Encoding: chunked\r\n", zero.len());
    let te_cl = format!("Transfer-Encoding: chunked\r\nContent-Length: {}\r\n", zero.len());
    vec![
        shape("CL.TE", both(&cl_te, &zero), BAD),
        shape("CL.TE, Transfer-Encoding first", both(&te_cl, &zero), BAD),
        shape("TE.CL", both("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", &chunk), BAD),
        shape(
            "TE.CL, Content-Length first",
            both("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", &chunk),
            BAD,
        ),
        shape(
            "two equal lengths",
            both(&format!("Content-Length: {all}\r\nContent-Length: {all}\r\n"), marker),
            BAD,
        ),
        shape(
            "two lengths, the first 0",
            both(&format!("Content-Length: 0\r\nContent-Length: {all}\r\n"), marker),
            BAD,
        ),
        shape(
            "two lengths, the second 0",
            both(&format!("Content-Length: {all}\r\nContent-Length: 0\r\n"), marker),
            BAD,
        ),
        shape("a list of lengths", length("0, 0"), BAD),
        shape("a list of different lengths", length(&format!("0, {all}")), BAD),
        shape("a length with a sign", length("+0"), BAD),
        shape("a negative length", length("-1"), BAD),
        shape("a length in hex", length("0x0"), BAD),
        shape("a length with a space in it", length("0 0"), BAD),
        shape("an empty length", length(""), BAD),
        shape("a length of 2^64", length("18446744073709551616"), MUCH),
        shape("a length near 2^64", length("18446744073709551615"), MUCH),
        shape(
            "a length and a body on GET",
            format!("GET /livez HTTP/1.1\r\nHost: t\r\nContent-Length: {all}\r\n\r\n{marker}"),
            FINE,
        ),
        shape(
            "a length and a body where there is no POST",
            format!("POST /livez HTTP/1.1\r\nHost: t\r\nContent-Length: {all}\r\n\r\n{marker}"),
            &[400, 405],
        ),
        shape(
            "a body that awaits consent and comes at once",
            format!(
                "POST /v1/verify HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: {all}\r\n\r\n{marker}"
            ),
            &[400, 401, 417],
        ),
        shape(
            "an upgrade with a body",
            format!(
                "GET /livez HTTP/1.1\r\nHost: t\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nContent-Length: {all}\r\n\r\n{marker}"
            ),
            FINE,
        ),
    ]
}

/// Codings that only some programs interpret as chunked.
fn codings(key: &str, marker: &str) -> Vec<Shape> {
    let zero = format!("0\r\n\r\n{marker}");
    let one = |name, fields: &str| shape(name, format!("{}{zero}", post(key, fields)), CODING);
    let with_length = |name, fields: &str| {
        let fields = format!("Content-Length: {}\r\n{fields}", zero.len());
        shape(name, format!("{}{zero}", post(key, &fields)), CODING)
    };
    vec![
        one("TE.TE: chunked, then identity", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"),
        one("TE.TE: identity, then chunked", "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n"),
        one("TE.TE: chunked twice", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
        one("TE.TE: a list that ends otherwise", "Transfer-Encoding: chunked, identity\r\n"),
        one("TE.TE: a list that ends in chunked", "Transfer-Encoding: identity, chunked\r\n"),
        one("TE.TE: gzip and chunked", "Transfer-Encoding: gzip, chunked\r\n"),
        one("TE.TE: a list with a gap", "Transfer-Encoding: , chunked\r\n"),
        with_length("TE.TE: xchunked", "Transfer-Encoding: xchunked\r\n"),
        with_length("TE.TE: chunked with a vertical tab", "Transfer-Encoding: \x0bchunked\r\n"),
        with_length("TE.TE: chunked in quotes", "Transfer-Encoding: \"chunked\"\r\n"),
        with_length("TE.TE: chunked with a parameter", "Transfer-Encoding: chunked;q=1\r\n"),
        with_length("TE.TE: an empty coding", "Transfer-Encoding:\r\n"),
        with_length("TE.TE: a space before the colon", "Transfer-Encoding : chunked\r\n"),
        with_length("TE.TE: a tab before the colon", "Transfer-Encoding\t: chunked\r\n"),
        with_length("TE.TE: obs-fold", "Transfer-Encoding:\r\n chunked\r\n"),
        with_length("TE.TE: obs-fold behind another field", "X: a\r\n Transfer-Encoding: chunked\r\n"),
        with_length("TE.TE: behind a bare LF", "X: a\nTransfer-Encoding: chunked\r\n"),
        with_length("TE.TE: behind a bare CR", "X: a\rTransfer-Encoding: chunked\r\n"),
        shape(
            "chunked in HTTP/1.0",
            format!("{}{zero}", post(key, "Transfer-Encoding: chunked\r\n").replacen("1.1", "1.0", 1)),
            CODING,
        ),
    ]
}

/// Chunks with an ambiguous length.
fn chunks(key: &str, marker: &str) -> Vec<Shape> {
    let one = |name, body: String| {
        shape(name, format!("{}{body}", post(key, "Transfer-Encoding: chunked\r\n")), LONG)
    };
    let size = |name, size: &str| one(name, format!("{size}\r\nhello\r\n0\r\n\r\n{marker}"));
    vec![
        size("a chunk of 2^64", "10000000000000000"),
        size("a chunk of 2^64 and 5", "10000000000000005"),
        size("a chunk near 2^64", "ffffffffffffffff"),
        size("a chunk of 2^63", "8000000000000000"),
        size("a chunk with 0x", "0x5"),
        size("a chunk with a sign", "+5"),
        size("a negative chunk", "-5"),
        size("a chunk in no hex", "g"),
        size("a chunk without a size", ""),
        size("a chunk with an underscore", "0_5"),
        size("a chunk whose extension has a bare LF", "5;a\nb"),
        size("a chunk whose extension has a bare CR", "5;a\rb"),
        one("a chunk that is longer than it says", format!("3\r\nhello\r\n0\r\n\r\n{marker}")),
        one("a chunk without its end", format!("5\r\nhello0\r\n\r\n{marker}")),
        one("a chunk that ends in bare LF", format!("5\r\nhello\n0\n\n{marker}")),
        one("a size that ends in bare LF", format!("5\nhello\r\n0\r\n\r\n{marker}")),
        one("an extension of 100 KiB", format!("5;a={}\r\nhello\r\n0\r\n", "a".repeat(100 << 10))),
        one(
            "chunks with long extensions",
            format!("1;{}\r\nx\r\n", "a".repeat(1 << 10)).repeat(200) + "0\r\n",
        ),
        one("10,000 trailers", format!("5\r\nhello\r\n0\r\n{}", "X: a\r\n".repeat(10_000))),
        one(
            "a trailer with a space before its colon",
            "5\r\nhello\r\n0\r\nContent-Length : 5\r\n\r\n".to_owned(),
        ),
        one(
            "a trailer that says how long it was",
            "5\r\nhello\r\n0\r\nContent-Length: 5\r\nHost: u\r\n\r\n".to_owned(),
        ),
    ]
}

/// Lines that RFC 9112 does not allow.
fn lines(key: &str, marker: &str) -> Vec<Shape> {
    let get = |fields: &str| format!("GET /livez HTTP/1.1\r\nHost: t\r\n{fields}\r\n");
    vec![
        shape("lines that end in bare LF", "GET /livez HTTP/1.1\nHost: t\n\n", FINE),
        shape("a head that ends in bare LF", "GET /livez HTTP/1.1\r\nHost: t\r\n\n", FINE),
        shape("lines that end in bare CR", "GET /livez HTTP/1.1\rHost: t\r\r", BAD),
        shape("a space before a colon", get("X : a\r\n"), BAD),
        shape(
            "a space before the colon of a length",
            post(key, &format!("Content-Length : {}\r\n", marker.len())) + marker,
            BAD,
        ),
        shape("obs-fold", get("X: a\r\n b\r\n"), BAD),
        shape(
            "obs-fold of a length",
            post(key, &format!("Content-Length:\r\n {}\r\n", marker.len())) + marker,
            BAD,
        ),
        shape("a space before the first field", "GET /livez HTTP/1.1\r\n Host: t\r\nX: a\r\n\r\n", BAD),
        shape("a field without a name", get(": a\r\n"), BAD),
        shape("a field without a colon", get("field\r\n"), BAD),
        shape("a NUL in a value", get("X: a\0b\r\n"), BAD),
        shape("a NUL in a name", get("X\0: b\r\n"), BAD),
        shape("a bare CR in a value", get(&format!("X: a\r\r{marker}\r\n")), BAD),
        shape("two spaces in the first line", "GET  /livez HTTP/1.1\r\nHost: t\r\n\r\n", BAD),
        shape("a tab in the first line", "GET\t/livez\tHTTP/1.1\r\nHost: t\r\n\r\n", BAD),
        shape("no version", "GET /livez\r\n\r\n", BAD),
        shape("a version that there is not", "GET /livez HTTP/1.9\r\nHost: t\r\n\r\n", &[400, 505]),
        shape("another protocol", "GET /livez ICY/1.1\r\nHost: t\r\n\r\n", &[400, 505]),
        shape("the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &[400, 505]),
        shape("a method with a bracket", "GE(T /livez HTTP/1.1\r\nHost: t\r\n\r\n", BAD),
        shape("bytes that are no text", vec![0xff; 200], BAD),
    ]
}

/// Ambiguous targets and hosts.
fn targets(marker: &str) -> Vec<Shape> {
    let get = |target: &str, fields: &str| format!("GET {target} HTTP/1.1\r\n{fields}\r\n");
    vec![
        shape("no host", get("/livez", ""), BAD),
        shape("no host, and absolute form", get("http://t/livez", ""), BAD),
        shape("two hosts", get("/livez", "Host: t\r\nHost: u\r\n"), BAD),
        shape("two equal hosts", get("/livez", "Host: t\r\nHost: t\r\n"), BAD),
        shape("a host with a path", get("/livez", "Host: t/u\r\n"), BAD),
        shape("a host with a space", get("/livez", "Host: t u\r\n"), BAD),
        shape("a host with a user", get("/livez", "Host: u@t\r\n"), BAD),
        shape("a list of hosts", get("/livez", "Host: t, u\r\n"), BAD),
        shape("a host with a port that is none", get("/livez", "Host: t:port\r\n"), BAD),
        // RFC 9112 3.2.2: the target decides, and the field is ignored.
        shape("absolute form, and another host", get("http://u.example/livez", "Host: t\r\n"), FINE),
        shape("absolute form with a user", get("http://u@t/livez", "Host: t\r\n"), FINE),
        shape("absolute form of another scheme", get("ftp://t/livez", "Host: t\r\n"), FINE),
        shape("authority form", get("t:80", "Host: t\r\n"), &[400, 404, 405]),
        shape("CONNECT", format!("CONNECT t:80 HTTP/1.1\r\nHost: t\r\n\r\n{marker}"), &[400, 404, 405, 501]),
        shape("OPTIONS *", "OPTIONS * HTTP/1.1\r\nHost: t\r\n\r\n", &[200, 400, 404, 405, 501]),
        shape("a target with a fragment", get("/livez#a", "Host: t\r\n"), FINE),
        shape("a target without a slash", get("livez", "Host: t\r\n"), &[400, 404]),
        shape("a target with a control character", get("/live\x01z", "Host: t\r\n"), BAD),
    ]
}

/// Larger amounts than any client sends.
fn amounts() -> Vec<Shape> {
    let get = |target: &str, fields: &str| format!("GET {target} HTTP/1.1\r\nHost: t\r\n{fields}\r\n");
    vec![
        shape("10,000 fields", get("/livez", &fields()), MUCH),
        shape("101 fields", get("/livez", &"X: a\r\n".repeat(101)), MUCH),
        shape("a field of 100 KiB", get("/livez", &format!("X: {}\r\n", "a".repeat(100 << 10))), MUCH),
        shape("a name of 100 KiB", get("/livez", &format!("{}: a\r\n", "X".repeat(100 << 10))), MUCH),
        shape("a target of 100 KiB", get(&format!("/{}", "a".repeat(100 << 10)), ""), MUCH),
        shape("a method of 100 KiB", "G".repeat(100 << 10) + " / HTTP/1.1\r\nHost: t\r\n\r\n", MUCH),
        shape(
            "a host of 40 KiB",
            format!("GET /livez HTTP/1.1\r\nHost: {}\r\n\r\n", "a".repeat(40 << 10)),
            MUCH,
        ),
    ]
}

/// A head with 10,000 header fields.
pub fn fields() -> String {
    (0..10_000).map(|number| format!("X-{number}: a\r\n")).collect()
}
