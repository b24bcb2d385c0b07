//! Bodies of requests: read within bounds of length and time, or read away so that their sender gets to read why they were
//! refused.

use super::within;
use crate::refusal::Refusal;
use api::ErrorCode;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::{self, HeaderMap};
use std::pin::pin;
use std::time::Duration;

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
