//! Bodies of requests: read within limits of length and time. The rest of a refused body is read and discarded, so that
//! its sender can read the refusal.

use crate::Refusal;
use api::ErrorCode;
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Incoming};
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

/// The message for a body that is not the bytes of a file.
pub const SEND_THE_FILE: &str = "Send the bytes of the file as the body, and not a form. With curl: `--data-binary @FILE` (`-d` removes the line ends).";

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
        let gathered = {
            let whole = pin!(gather(&mut self.body, bytes_max));
            within(time_max, whole).await
        };
        match gathered {
            Some(Ok(whole)) => Ok(whole),
            Some(Err(Incomplete::TooLong)) => Err(self.discard(too_large()).await),
            Some(Err(Incomplete::Broken)) => {
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
        let mut types = headers.get_all(header::CONTENT_TYPE).iter();
        match types.any(|value| essence(value) == "multipart/form-data") {
            true => Err(Refusal::new(ErrorCode::UnsupportedMediaType, SEND_THE_FILE)),
            false => Ok(()),
        }
    }

    /// Whether the headers state the type of the fields of a form, which is also the default of curl.
    pub fn is_stated_form(headers: &HeaderMap) -> bool {
        headers.get_all(header::CONTENT_TYPE).iter().any(is_form)
    }

    /// The body itself, for a caller that reads it in pieces, and whether its sender waits for `100 Continue`.
    pub fn into_parts(self) -> (Incoming, bool) {
        (self.body, self.awaits_consent)
    }

    /// Discards the body for a refusal: see [`drop_rest`].
    pub async fn discard(self, refusal: Refusal) -> Refusal {
        if !self.awaits_consent {
            // In a box, because every request would have the space of its timers.
            Box::pin(drop_rest(self.body)).await;
        }
        refusal
    }
}

/// The reason why a body was not read to its end.
#[derive(Debug, PartialEq, Eq)]
enum Incomplete {
    TooLong,
    Broken,
}

/// Reads a whole body. Nearly all bodies arrive in one piece, which is not copied. Several pieces are: each piece keeps a whole buffer
/// of hyper in memory, even if it has a single byte.
async fn gather<B>(mut body: B, bytes_max: usize) -> Result<Bytes, Incomplete>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut first = Bytes::new();
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Incomplete::Broken)?;
        // The other frames are trailers.
        let Ok(piece) = frame.into_data() else { continue };
        if first.len() + whole.len() + piece.len() > bytes_max {
            return Err(Incomplete::TooLong);
        }
        if first.is_empty() && whole.is_empty() {
            first = piece;
            continue;
        }
        whole.extend_from_slice(&std::mem::take(&mut first));
        whole.extend_from_slice(&piece);
    }
    Ok(if whole.is_empty() { first } else { whole.into() })
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
    use hyper::body::Frame;
    use std::task::{Context, Waker};

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

    /// A body in these pieces, of which each is a part of a larger buffer.
    struct Parts(std::vec::IntoIter<&'static str>);

    impl Body for Parts {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            Poll::Ready(self.0.next().map(|piece| Ok(Frame::data(Bytes::from_static(piece.as_bytes())))))
        }
    }

    #[test]
    fn several_pieces_are_copied_and_one_is_not() {
        let gathered = |pieces: Vec<&'static str>, bytes_max| {
            let polled = pin!(gather(Parts(pieces.into_iter()), bytes_max))
                .poll(&mut Context::from_waker(Waker::noop()));
            let Poll::Ready(gathered) = polled else { panic!("all pieces are there") };
            gathered
        };
        let one = "one";
        assert_eq!(gathered(vec![one], 3).unwrap().as_ptr(), one.as_ptr());
        for (pieces, bytes_max, expected) in [
            (vec![], 0, Ok("")),
            (vec!["one"], 2, Err(Incomplete::TooLong)),
            (vec!["a", "b", "c"], 3, Ok("abc")),
            (vec!["a", "", "bc"], 3, Ok("abc")),
            (vec!["", "", "x"], 3, Ok("x")),
            (vec!["ab", "cd"], 3, Err(Incomplete::TooLong)),
        ] {
            assert_eq!(gathered(pieces, bytes_max), expected.map(Bytes::from));
        }
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
