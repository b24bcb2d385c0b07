//! Requests to the dashboard: the conversion from hyper's types to those of [`dashboard`].

use super::Note;
use super::upload::Upload;
use crate::worker::Worker;
use bytes::Bytes;
use dashboard::{Asked, Body, Dashboard, Found, Given, Head, Problem};
use http_core::body::{Bounds, ContentType, Unread};
use http_core::{Refusal, Reply};
use hyper::Method;
use hyper::body::Incoming;
use hyper::header::{self, HeaderName};
use hyper::http::request::Parts;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The prefix of the API's paths; no page has it.
const API: &str = "/v1/";
/// The time limit for the body of a form.
const FORM_TIME_MAX: Duration = Duration::from_secs(10);

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

/// The page that tells a browser that nothing is at the path. Programs get the JSON of the API.
pub fn find_nothing(worker: &Worker, head: &Parts) -> Option<(Arc<Dashboard>, Found)> {
    if head.uri.path().starts_with(API) {
        return None;
    }
    let dashboard = worker.shared.dashboard.as_ref()?;
    let accepts = head.headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let types: Vec<&str> =
        accepts.flat_map(|value| value.split(',')).filter_map(|range| range.split(';').next()).collect();
    let has = |name: &str| types.iter().any(|range| range.trim().eq_ignore_ascii_case(name));
    // Some libraries for programs name text/html too.
    let is_browser =
        matches!(head.method, Method::GET | Method::HEAD) && has("text/html") && has("application/xhtml+xml");
    is_browser.then(|| (Arc::clone(dashboard), Found::Refused(Refusal::no_such_path())))
}

/// Answers with a page in every case, also for errors.
pub async fn answer(
    worker: Rc<Worker>,
    (dashboard, found): (Arc<Dashboard>, Found),
    head: Parts,
    body: Incoming,
    peer: IpAddr,
    note: &mut Note<'_>,
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
        Body::Upload => {
            note.activity.set_upload();
            Given::Upload(Box::new(Upload::new(body, false)))
        }
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
