//! Answers without private data: the description of the API, the reference and the files of the pages. They have an entity
//! tag (RFC 9110 8.8.3), and are compressed for clients that accept gzip.
//!
//! Other answers are never compressed: their length would tell an observer about secrets in them (BREACH). An answer is
//! public if its handler has given it a `Cache-Control` other than `no-store`.

use super::outgoing::Outgoing;
use bytes::Bytes;
use data_encoding::HEXLOWER;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::Full;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};
use ring::digest::{SHA256, digest};
use std::io::Write;
use std::sync::{Arc, PoisonError, RwLock};

/// The number of answers that are kept prepared: there are fewer public ones.
const PREPARED_MAX: usize = 8;
/// Smaller bodies are not worth it.
const BYTES_MIN: usize = 512;

/// What the request says about the forms of an answer that it takes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    gzip: bool,
    /// The values of If-None-Match.
    known: Vec<String>,
}

impl Wanted {
    /// Reads the headers of a request.
    pub fn by(headers: &HeaderMap) -> Wanted {
        let texts = |name| headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        let parts = |name| texts(name).flat_map(|text| text.split(',')).map(str::trim);
        Wanted {
            gzip: accepts_gzip(parts(header::ACCEPT_ENCODING)),
            known: parts(header::IF_NONE_MATCH).map(str::to_owned).collect(),
        }
    }

    /// Whether a tag is among the known ones, by weak comparison (RFC 9110 13.1.2).
    fn knows(&self, tag: &str) -> bool {
        self.known.iter().any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
    }
}

/// RFC 9110 12.5.3: a coding with the weight 0 is refused, and `*` stands for those that are not named.
fn accepts_gzip<'p>(codings: impl Iterator<Item = &'p str>) -> bool {
    let (mut named, mut any) = (None, None);
    for coding in codings {
        let (name, parameters) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = parameters.trim().strip_prefix("q=").map(str::trim);
        let accepted = weight.is_none_or(|weight| weight.bytes().any(|digit| (b'1'..=b'9').contains(&digit)));
        match name.trim().to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => named = Some(accepted),
            "*" => any = Some(accepted),
            _ => {}
        }
    }
    named.or(any).unwrap_or(false)
}

/// A public body with its forms. All answers of all threads share it, so an answer that its client does not read holds nothing.
struct Prepared {
    plain: Bytes,
    zipped: Bytes,
    /// The tag without its quotes.
    tag: String,
}

static PREPARED: RwLock<Vec<Arc<Prepared>>> = RwLock::new(Vec::new());

impl Prepared {
    fn of(body: Vec<u8>) -> Arc<Prepared> {
        let find = |all: &[Arc<Prepared>]| all.iter().find(|known| known.plain == body).map(Arc::clone);
        if let Some(known) = find(&PREPARED.read().unwrap_or_else(PoisonError::into_inner)) {
            return known;
        }
        let mut all = PREPARED.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have prepared it meanwhile.
        if let Some(known) = find(&all) {
            return known;
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        // Writing to memory does not fail; without the whole body the plain one is sent.
        let zipped = encoder.write_all(&body).and_then(|()| encoder.finish()).unwrap_or_default();
        let tag = HEXLOWER.encode(&digest(&SHA256, &body).as_ref()[..16]);
        let made = Arc::new(Prepared { plain: Bytes::from(body), zipped: Bytes::from(zipped), tag });
        if all.len() == PREPARED_MAX {
            all.remove(0);
        }
        all.push(Arc::clone(&made));
        made
    }
}

/// Whether an answer with these headers is public.
pub fn is_public(status: StatusCode, headers: &HeaderMap) -> bool {
    status == StatusCode::OK
        && headers.get(header::CACHE_CONTROL).is_some_and(|value| value.as_bytes() != b"no-store")
}

/// Gives a public answer its tag, and the form that the request wants: 304 if the client has it already.
pub fn shape(response: &mut Response<Outgoing>, body: Vec<u8>, wanted: &Wanted) {
    if body.len() < BYTES_MIN {
        *response.body_mut() = Outgoing::Whole(Full::new(Bytes::from(body)));
        return;
    }
    let prepared = Prepared::of(body);
    let zips = wanted.gzip && !prepared.zipped.is_empty();
    let tag = format!("\"{}{}\"", prepared.tag, if zips { "-gzip" } else { "" });
    let (known, headers) = (wanted.knows(&tag), response.headers_mut());
    headers.append(header::VARY, HeaderValue::from_static("accept-encoding"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    let body = match (known, zips) {
        (true, _) => {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            Bytes::new()
        }
        (false, true) => {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            prepared.zipped.clone()
        }
        (false, false) => prepared.plain.clone(),
    };
    *response.body_mut() = Outgoing::Shared(Full::new(body));
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn gzip_is_used_only_if_it_is_accepted() {
        for (value, accepted) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("x-gzip", true),
            ("*", true),
            ("gzip;q=0", false),
            ("gzip; q=0.000, *", false),
            ("*;q=0", false),
            ("br", false),
            ("", false),
        ] {
            assert_eq!(accepts_gzip(value.split(',').map(str::trim)), accepted, "{value}");
        }
    }

    #[test]
    fn tags_are_compared_weakly() {
        let wanted = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::IF_NONE_MATCH, HeaderValue::from_str(value).unwrap());
            }
            Wanted::by(&headers)
        };
        assert!(wanted(&["\"a\", W/\"b\""]).knows("\"b\"") && wanted(&["\"x\"", "\"b\""]).knows("\"b\""));
        assert!(wanted(&["*"]).knows("\"b\"") && !wanted(&["\"b-gzip\""]).knows("\"b\""));
        assert!(!wanted(&[]).knows("\"b\""));
    }

    #[test]
    fn bodies_are_prepared_once_and_few_are_kept() {
        // One test, because the prepared bodies are those of the process.
        let wanted = |gzip| Wanted { gzip, known: Vec::new() };
        let body = |gzip| {
            let mut response = Response::new(Outgoing::Whole(Full::default()));
            shape(&mut response, vec![b'x'; 5000], &wanted(gzip));
            assert_eq!(response.body().own_bytes(), 0);
            let Outgoing::Shared(mut body) = response.into_body() else { panic!("it is not shared") };
            let frame = pin!(body.frame()).poll(&mut Context::from_waker(Waker::noop()));
            let Poll::Ready(Some(Ok(frame))) = frame else { panic!("no body") };
            frame.into_data().unwrap()
        };
        assert_eq!(body(false).len(), 5000);
        assert_eq!(body(false).as_ptr(), body(false).as_ptr());
        assert_eq!(body(true).as_ptr(), body(true).as_ptr());
        let plain = |n: u8| vec![n; 1000];
        let (one, again) = (Prepared::of(plain(1)), Prepared::of(plain(1)));
        assert!(Arc::ptr_eq(&one, &again));
        assert!(std::thread::spawn(move || Arc::ptr_eq(&one, &Prepared::of(plain(1)))).join().unwrap());
        (0..20).for_each(|n| drop(Prepared::of(plain(n))));
        assert_eq!(PREPARED.read().unwrap().len(), PREPARED_MAX);
    }
}
