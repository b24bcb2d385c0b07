//! A body that is read piece by piece: the content of a list, or a form with a file.

use api::ErrorCode;
use bytes::Bytes;
use http_body_util::BodyExt;
use http_core::Refusal;
use http_core::body::{SEND_THE_FILE, Unread, drop_rest};
use hyper::body::{Body as _, Incoming};
use list_work::upload::BodyError;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

/// The time limit for the next piece of an upload, which is also added to the limit of the whole upload.
const PIECE_TIME_MAX: Duration = Duration::from_secs(30);
/// The lowest rate of an upload, in bytes per second.
const UPLOAD_RATE_MIN: u64 = 16 * 1024;

/// A file that is being uploaded. The rest of a refused upload is read and discarded, within limits, so that the sender
/// reads the answer.
pub struct Upload {
    body: Option<Incoming>,
    awaits_consent: bool,
    began: Instant,
    taken: u64,
    /// The number of `@`, if the headers state a form and there is none of the bytes that `curl -d @FILE` removes.
    joined: Option<usize>,
}

impl Upload {
    /// The body of a request, and whether its headers state a form.
    pub fn new(body: Unread, is_form: bool) -> Upload {
        let (body, awaits_consent) = body.into_parts();
        let joined = is_form.then_some(0);
        Upload { body: Some(body), awaits_consent, began: Instant::now(), taken: 0, joined }
    }

    /// Refuses a list, after its last byte, if curl has joined its rows. Compressed content has zero bytes, so it is not refused.
    ///
    /// # Errors
    /// The headers state a form, and there is more than one `@` but no line end.
    pub fn refuse_joined_rows(&self) -> Result<(), Refusal> {
        match self.joined {
            Some(2..) => {
                let message = format!(
                    "The list has several addresses and no line end (a single row needs one, too). {SEND_THE_FILE}"
                );
                Err(Refusal::new(ErrorCode::InvalidRequest, message))
            }
            _ => Ok(()),
        }
    }
}

/// The time limit for the next piece of an upload that has brought `taken` bytes in the time `took`.
fn piece_time(taken: u64, took: Duration) -> Duration {
    let all = PIECE_TIME_MAX + Duration::from_secs(taken / UPLOAD_RATE_MIN);
    all.saturating_sub(took).min(PIECE_TIME_MAX)
}

impl list_work::upload::Incoming for Upload {
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Result<Option<Bytes>, BodyError>> + '_>> {
        Box::pin(async {
            let Some(body) = &mut self.body else { return Ok(None) };
            self.awaits_consent = false;
            loop {
                let time = piece_time(self.taken, self.began.elapsed());
                match monoio::time::timeout(time, body.frame()).await {
                    Ok(Some(Ok(frame))) => match frame.into_data() {
                        Ok(data) => {
                            self.taken += data.len() as u64;
                            if data.iter().any(|byte| b"\n\r\0".contains(byte)) {
                                self.joined = None;
                            }
                            if let Some(ats) = &mut self.joined {
                                *ats += data.iter().filter(|&&byte| byte == b'@').count();
                            }
                            return Ok(Some(data));
                        }
                        Err(_trailers) => {}
                    },
                    Ok(Some(Err(_))) => return Err(BodyError::Broken),
                    Ok(None) => {
                        self.body = None;
                        return Ok(None);
                    }
                    Err(_elapsed) => return Err(BodyError::TooSlow),
                }
            }
        })
    }

    fn most(&self) -> Option<u64> {
        self.body.as_ref().and_then(|body| body.size_hint().upper())
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let (Some(body), false) = (self.body.take(), self.awaits_consent) {
            monoio::spawn(drop_rest(body));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upload_keeps_a_least_rate() {
        let second = Duration::from_secs(1);
        assert_eq!(piece_time(0, Duration::ZERO), 30 * second);
        assert_eq!(piece_time(0, 30 * second), Duration::ZERO);
        assert_eq!(piece_time(10 * UPLOAD_RATE_MIN, 35 * second), 5 * second);
        assert_eq!(piece_time(1000 * UPLOAD_RATE_MIN, 10 * second), 30 * second);
        assert_eq!(piece_time(1000 * UPLOAD_RATE_MIN, 1030 * second), Duration::ZERO);
    }
}
