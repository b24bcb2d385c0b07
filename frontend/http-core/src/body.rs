//! Bodies of requests: read within limits of length and time. The rest of a refused body is read and discarded, so that
//! its sender can read the refusal.

use crate::Refusal;
use api::ErrorCode;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

/// The types of bodies that are read completely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentType {
    /// JSON, or no type at all (RFC 8259 11, RFC 6839 3.1).
    Json,
    /// The fields of a form, with exactly one `Content-Type`.
    Form,
}

/// The limits for reading a body.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The name of the body in messages.
    pub name: &'static str,
    /// The largest length in bytes.
    pub bytes_max: usize,
    /// The time limit for the whole body.
    pub time_max: Duration,
}

/// How much of a refused body is read and discarded.
const REFUSED_BYTES_MAX: usize = 1024 * 1024;
const REFUSED_TIME_MAX: Duration = Duration::from_secs(2);
/// A sender that is silent for this time waits for the answer.
const REFUSED_SILENCE_MAX: Duration = Duration::from_millis(500);

/// A body that is not read yet.
pub struct Unread {
    body: Incoming,
    /// Whether its sender waits for `100 Continue` (RFC 9110 10.1.1) and has sent nothing yet.
    awaits_consent: bool,
}

impl Unread {
    /// The body of a request with these headers.
    pub fn new(headers: &HeaderMap, body: Incoming) -> Unread {
        Unread { body, awaits_consent: headers.contains_key(header::EXPECT) }
    }

    /// Reads the whole body, if the headers state this type.
    ///
    /// # Errors
    ///
    /// 415 for another type, otherwise as [`Unread::read`].
    pub async fn read_as(
        self,
        wanted: ContentType,
        headers: &HeaderMap,
        bounds: Bounds,
    ) -> Result<Bytes, Refusal> {
        match wanted.check(headers) {
            Ok(()) => self.read(bounds).await,
            Err(refusal) => Err(self.discard(refusal).await),
        }
    }

    /// Reads the whole body.
    ///
    /// # Errors
    ///
    /// 413 at once if the stated length is too large, or when the body exceeds the limit; 408 after the time limit; 400
    /// if the body breaks off.
    pub async fn read(mut self, bounds: Bounds) -> Result<Bytes, Refusal> {
        let Bounds { name, bytes_max, time_max } = bounds;
        let too_large =
            || Refusal::new(ErrorCode::RequestTooLarge, format!("A {name} has at most {bytes_max} bytes."));
        if self.body.size_hint().lower() > bytes_max as u64 {
            return Err(self.discard(too_large()).await);
        }
        // Reading sends `100 Continue`.
        self.awaits_consent = false;
        let mut whole = pin!(Limited::new(&mut self.body, bytes_max).collect());
        match within(time_max, whole.as_mut()).await {
            Some(Ok(collected)) => Ok(collected.to_bytes()),
            Some(Err(error)) if error.is::<LengthLimitError>() => Err(self.discard(too_large()).await),
            Some(Err(_)) => {
                let message = format!("The {name} could not be read to its end.");
                Err(Refusal::new(ErrorCode::InvalidRequest, message))
            }
            None => {
                let message = format!("The {name} took too long to arrive.");
                Err(Refusal::new(ErrorCode::RequestTimeout, message))
            }
        }
    }

    /// Whether the headers state that the body is JSON. No type at all is not enough.
    pub fn is_stated_json(headers: &HeaderMap) -> bool {
        headers.contains_key(header::CONTENT_TYPE) && ContentType::Json.check(headers).is_ok()
    }

    /// Refuses the parts of a form, where the bytes of a file are expected: they would become rows of the list.
    ///
    /// # Errors
    /// The headers state `multipart/form-data`.
    pub fn refuse_form_data(headers: &HeaderMap) -> Result<(), Refusal> {
        const FORM_DATA: &[u8] = b"multipart/form-data";
        let is_form = |value: &HeaderValue| {
            value.as_bytes().get(..FORM_DATA.len()).is_some_and(|start| start.eq_ignore_ascii_case(FORM_DATA))
        };
        if headers.get_all(header::CONTENT_TYPE).iter().any(is_form) {
            let message =
                "Send the bytes of the file as the body, and not a form. With curl: `--data-binary @FILE`.";
            return Err(Refusal::new(ErrorCode::UnsupportedMediaType, message));
        }
        Ok(())
    }

    /// The body itself, for a caller that reads it in pieces, and whether its sender waits for `100 Continue`.
    pub fn into_parts(self) -> (Incoming, bool) {
        (self.body, self.awaits_consent)
    }

    /// Discards the body for a refusal: see [`drop_rest`].
    pub async fn discard(self, refusal: Refusal) -> Refusal {
        if !self.awaits_consent {
            drop_rest(self.body).await;
        }
        refusal
    }
}

/// Reads and discards the rest of a body, within limits. If a socket is closed with unread bytes, the connection is
/// reset, and the caller cannot read the refusal.
pub async fn drop_rest(body: Incoming) {
    let mut body = Limited::new(body, REFUSED_BYTES_MAX);
    let drop_frames = async {
        while let Ok(Some(Ok(_))) = monoio::time::timeout(REFUSED_SILENCE_MAX, body.frame()).await {}
    };
    let _ = monoio::time::timeout(REFUSED_TIME_MAX, drop_frames).await;
}

impl ContentType {
    /// Whether the headers state this type.
    fn check(self, headers: &HeaderMap) -> Result<(), Refusal> {
        let mut types = headers.get_all(header::CONTENT_TYPE).iter();
        let (fits, message) = match self {
            ContentType::Json => {
                (types.all(is_json), "Send the body as JSON, with `Content-Type: application/json`.")
            }
            ContentType::Form => (
                types.next().is_some_and(is_form) && types.next().is_none(),
                "Send the body with `Content-Type: application/x-www-form-urlencoded`.",
            ),
        };
        if fits { Ok(()) } else { Err(Refusal::new(ErrorCode::UnsupportedMediaType, message)) }
    }
}

fn is_json(value: &HeaderValue) -> bool {
    if value.as_bytes() == b"application/json" {
        return true;
    }
    let essence = essence(value);
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

fn is_form(value: &HeaderValue) -> bool {
    essence(value) == "application/x-www-form-urlencoded"
}

/// The type without its parameters, in lower case.
fn essence(value: &HeaderValue) -> String {
    let text = value.to_str().unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// The output of a future; `None` if it takes longer than `limit`. Most futures are ready at once, so the timer is
/// created only for the others.
pub async fn within<F>(limit: Duration, mut future: Pin<&mut F>) -> Option<F::Output>
where
    F: Future + ?Sized,
{
    match poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
        Poll::Ready(output) => Some(output),
        Poll::Pending => monoio::time::timeout(limit, future).await.ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(wanted: ContentType, types: &[&str], fits: bool) {
        let mut headers = HeaderMap::new();
        for value in types {
            headers.append(header::CONTENT_TYPE, HeaderValue::from_str(value).unwrap());
        }
        assert_eq!(wanted.check(&headers).is_ok(), fits, "{types:?}");
    }

    #[test]
    fn a_body_may_be_json_or_silent() {
        let check = |types: &[&str], fits| check(ContentType::Json, types, fits);
        check(&[], true);
        check(&["application/json"], true);
        check(&["Application/JSON; charset=utf-8"], true);
        check(&["application/problem+json"], true);
        check(&["text/plain"], false);
        check(&["application/x-www-form-urlencoded"], false);
        check(&["application/jsonx"], false);
        check(&[""], false);
        check(&["application/json", "text/plain"], false);
    }

    #[test]
    fn a_form_says_once_that_it_is_one() {
        let check = |types: &[&str], fits| check(ContentType::Form, types, fits);
        check(&["application/x-www-form-urlencoded"], true);
        check(&["Application/X-WWW-Form-Urlencoded ; charset=utf-8"], true);
        check(&[], false);
        check(&["application/json"], false);
        check(&["application/x-www-form-urlencoded", "application/x-www-form-urlencoded"], false);
    }
}
