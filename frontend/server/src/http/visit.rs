//! Requests to the dashboard: the conversion from hyper's types to those of [`dashboard`].

use super::Note;
use crate::worker::Worker;
use bytes::Bytes;
use dashboard::{Asked, Body, Dashboard, Found, Given, Head, Problem};
use http_body_util::BodyExt;
use http_core::Reply;
use http_core::body::{Bounds, ContentType, Unread, drop_rest};
use hyper::body::{Body as _, Incoming};
use hyper::header::{self, HeaderName};
use hyper::http::request::Parts;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The prefix of the API's paths; no page has it.
const API: &str = "/v1/";
/// The time limit for the body of a form.
const FORM_TIME_MAX: Duration = Duration::from_secs(10);

/// The time limit for the next piece of an upload, which is also added to the limit of the whole upload.
const PIECE_TIME_MAX: Duration = Duration::from_secs(30);
/// The lowest rate of an upload, in bytes per second.
const UPLOAD_RATE_MIN: u64 = 16 * 1024;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The page of the dashboard for a path; `None` for all other paths.
pub fn find(worker: &Worker, head: &Parts) -> Option<(Arc<Dashboard>, Found)> {
    // Nearly all requests are for the API, so their paths need not be compared with every page.
    if head.uri.path().starts_with(API) {
        return None;
    }
    let dashboard = worker.shared.dashboard.as_ref()?;
    Some((Arc::clone(dashboard), dashboard::find(head.method.as_str(), head.uri.path())?))
}

/// Answers with a page in every case, also for errors.
pub async fn answer(
    worker: Rc<Worker>,
    (dashboard, found): (Arc<Dashboard>, Found),
    head: Parts,
    body: Incoming,
    peer: IpAddr,
    note: &mut Note,
) -> Reply {
    note.path = found.path();
    let body = Unread::new(&head.headers, body);
    let pieces = Rc::default();
    let asked = Asked {
        checks: Rc::clone(&worker.checks),
        dashboard,
        head: read_head(&head, peer),
        found,
        pieces: Rc::clone(&pieces),
    };
    let given = match asked.body() {
        Body::None => Given::Form(Ok(Bytes::new())),
        Body::Form { bytes_max } => {
            let bounds = Bounds { name: "form", bytes_max, time_max: FORM_TIME_MAX };
            let form = body.read_as(ContentType::Form, &head.headers, bounds).await;
            Given::Form(form.map_err(Problem::from))
        }
        Body::Upload => Given::Upload(Box::new(Upload::new(body))),
    };
    let (reply, inside) = asked.answer(given).await;
    note.pieces = pieces.take();
    if let Some(inside) = inside {
        tracing::warn!(request_id = note.request_id, path = note.path, "{inside}");
    }
    reply
}

fn read_head(head: &Parts, peer: IpAddr) -> Head {
    let text = |name: &HeaderName| {
        let mut values = head.headers.get_all(name).iter();
        let first = values.next().and_then(|value| value.to_str().ok()).map(str::to_owned);
        // With two fields of one name the value is ambiguous.
        first.filter(|_| values.next().is_none())
    };
    let cookies = head.headers.get_all(header::COOKIE).iter();
    Head {
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        host: text(&header::HOST),
        has_origin: head.headers.contains_key(header::ORIGIN),
        origin: text(&header::ORIGIN),
        fetch_site: text(&SEC_FETCH_SITE),
        cookies: cookies.filter_map(|value| value.to_str().ok()).map(str::to_owned).collect(),
        content_type: text(&header::CONTENT_TYPE),
        agent: text(&header::USER_AGENT).unwrap_or_default(),
        peer,
    }
}

/// A file that is being uploaded. The rest of a refused upload is read and discarded, within limits, so that the sender
/// reads the answer.
struct Upload {
    body: Option<Incoming>,
    awaits_consent: bool,
    began: Instant,
    taken: u64,
}

impl Upload {
    fn new(body: Unread) -> Upload {
        let (body, awaits_consent) = body.into_parts();
        Upload { body: Some(body), awaits_consent, began: Instant::now(), taken: 0 }
    }
}

/// The time limit for the next piece of an upload that has brought `taken` bytes in the time `took`.
fn piece_time(taken: u64, took: Duration) -> Duration {
    let all = PIECE_TIME_MAX + Duration::from_secs(taken / UPLOAD_RATE_MIN);
    all.saturating_sub(took).min(PIECE_TIME_MAX)
}

impl dashboard::Incoming for Upload {
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Result<Option<Bytes>, Problem>> + '_>> {
        Box::pin(async {
            let Some(body) = &mut self.body else { return Ok(None) };
            self.awaits_consent = false;
            loop {
                let time = piece_time(self.taken, self.began.elapsed());
                match monoio::time::timeout(time, body.frame()).await {
                    Ok(Some(Ok(frame))) => match frame.into_data() {
                        Ok(data) => {
                            self.taken += data.len() as u64;
                            return Ok(Some(data));
                        }
                        Err(_trailers) => {}
                    },
                    Ok(Some(Err(_))) => return Err(Problem::new(400, "The upload broke off.")),
                    Ok(None) => {
                        self.body = None;
                        return Ok(None);
                    }
                    Err(_elapsed) => return Err(Problem::new(408, "The upload took too long to arrive.")),
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
