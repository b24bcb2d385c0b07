//! Bodies of requests: read within bounds of length and time, or read away so that their sender gets to read why they were
//! refused.

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

/// The types of bodies that are read whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentType {
    /// JSON, or no type at all (RFC 8259 11, RFC 6839 3.1).
    Json,
    /// The fields of a form, said once.
    Form,
}

/// What is read of a body.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// What it is called in messages.
    pub name: &'static str,
    /// Its most bytes.
    pub bytes_max: usize,
    /// The time that all of it may take.
    pub time_max: Duration,
}

/// Most that is read and dropped of a body that was refused.
const REFUSED_BYTES_MAX: usize = 1024 * 1024;
const REFUSED_TIME_MAX: Duration = Duration::from_secs(2);
/// Whoever sends nothing for so long waits for the answer.
const REFUSED_SILENCE_MAX: Duration = Duration::from_millis(500);

/// A body that has yet to come.
pub struct Unread {
    body: Incoming,
    /// Its sender waits for our consent (RFC 9110 10.1.1), and has sent nothing yet.
    awaits_consent: bool,
}

impl Unread {
    /// The body of a request with these headers.
    pub fn new(headers: &HeaderMap, body: Incoming) -> Unread {
        Unread { body, awaits_consent: headers.contains_key(header::EXPECT) }
    }

    /// Reads all of it, if the headers say that it is of this type.
    ///
    /// # Errors
    /// 415, or as [`Unread::read`].
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

    /// Reads all of it.
    ///
    /// # Errors
    /// 413 at once where its length is told and too long, or when it turns out to be; 408; 400 where it breaks off.
    pub async fn read(mut self, bounds: Bounds) -> Result<Bytes, Refusal> {
        let Bounds { name, bytes_max, time_max } = bounds;
        let too_large =
            || Refusal::new(ErrorCode::RequestTooLarge, format!("A {name} has at most {bytes_max} bytes."));
        if self.body.size_hint().lower() > bytes_max as u64 {
            return Err(self.discard(too_large()).await);
        }
        // To read is to consent.
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

    /// The body itself, for whoever reads it piece by piece; and whether its sender awaits consent.
    pub fn into_parts(self) -> (Incoming, bool) {
        (self.body, self.awaits_consent)
    }

    /// Refuses it: see [`drop_rest`].
    pub async fn discard(self, refusal: Refusal) -> Refusal {
        if !self.awaits_consent {
            drop_rest(self.body).await;
        }
        refusal
    }
}

/// Reads away what the caller still sends, within bounds: a socket that is closed with bytes unread resets the connection, and the
/// caller would never see the refusal.
pub async fn drop_rest(body: Incoming) {
    let mut body = Limited::new(body, REFUSED_BYTES_MAX);
    let drop_frames = async {
        while let Ok(Some(Ok(_))) = monoio::time::timeout(REFUSED_SILENCE_MAX, body.frame()).await {}
    };
    let _ = monoio::time::timeout(REFUSED_TIME_MAX, drop_frames).await;
}

impl ContentType {
    /// Whether the headers say so.
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

/// The type without its parameters, in small letters.
fn essence(value: &HeaderValue) -> String {
    let text = value.to_str().unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// The output of a future, or none if it takes longer than `limit`. Most are ready at once, so the timer is only made for one
/// that is not.
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
