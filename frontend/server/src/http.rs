//! The layer between hyper and the routes: limits on requests, authentication, and the rendering of answers.
//!
//! Refusals have a fixed order: path and method (404, 405), key (401), scope and plan (403), rate (429), body (413, 415), content
//! (400 and others). Requests through an API gateway are judged before all of these (`gateway.rs`). The limits below
//! bound the memory and time that a connection takes. A panic ends only its own request.
//!
//! If hyper cannot read a head because it is malformed or too long, it answers 400, 414 or 431 without a body, and
//! closes. A head that another program may read differently is refused before anything else (`unclear.rs`).

mod activity;
mod assistants;
mod gateway;
mod meter;
mod outgoing;
mod parameters;
mod public;
mod trace_context;
mod unclear;
pub mod upload;
mod visit;

use crate::call::{Call, UploadHead};
use crate::connection_limit::{CloseReason, ConnectionPermit};
use crate::router::{self, Access, Body, Limit, Route};
use crate::tls::{self, Tls};
use crate::worker::Worker;
use activity::{AnswerBody, Buffering, ConnectionActivity, Patience, SlowPeerTimer, Watched};
use api::ErrorCode;
use bytes::Bytes;
use checks::auth::{self, AuthError, Caller};
use checks::counters::{Answered, count};
use checks::full::PROBE_TIME_MAX;
use checks::panics::catch_panic;
use checks::peers::site;
use http_body_util::Full;
use http_core::body::{Bounds, ContentType, Unread, within};
use http_core::refusal::LimitNumbers;
use http_core::{Refusal, Reply};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use list_work::downloads::Pieces;
use meter::Counter;
use monoio::io::IntoPollIo;
use monoio::io::poll_io::{AsyncRead, AsyncWrite};
use monoio::net::TcpStream;
use monoio_compat::hyper::{MonoioIo, MonoioTimer};
use outgoing::Outgoing;
use public::Wanted;
use std::borrow::Cow;
use std::cell::Cell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use store::id::random_bits;
use store::rate_limit::{Row, Standing};
use store::{KeyId, StoreError, clock};
use trace_context::TraceContext;
use upload::Upload;

/// The largest request body in bytes: 200 addresses of 320 escaped characters fit.
pub const BODY_BYTES_MAX: usize = 256 * 1024;
/// The largest head in bytes; hyper allows at most 100 fields. The longest valid address fits into the query.
const HEAD_BYTES_MAX: usize = 32 * 1024;
/// The time limit for the head of a request.
pub const HEAD_TIME_MAX: Duration = Duration::from_secs(10);
/// The time limit for the next request of an idle connection: longer than the minute that proxies keep theirs.
const IDLE_TIME_MAX: Duration = Duration::from_secs(75);
/// The time limit for the caller to read an answer: more than the largest answer needs on a slow line.
const WRITE_TIME_MAX: Duration = Duration::from_secs(20);
const BODY: Bounds = Bounds { name: "body", bytes_max: BODY_BYTES_MAX, time_max: Duration::from_secs(10) };
/// A pause for other connections if one connection sends many requests at once.
const OTHERS_TURN: Duration = Duration::from_millis(1);
/// The time limit from the complete request to the answer: longer than all its parts together.
const HANDLER_TIME_MAX: Duration = Duration::from_secs(80);
const _: () = assert!(HANDLER_TIME_MAX.as_secs() > PROBE_TIME_MAX.as_secs());
/// How long a drain waits for the first request of a connection.
const NEW_CONNECTION_TIME: Duration = Duration::from_millis(500);
const REQUEST_ID_CHARS_MAX: usize = 64;
/// The capacity for header fields that most answers need; more fields are possible.
const HEADERS: usize = 12;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const UPLOAD_OFFSET: HeaderName = HeaderName::from_static("upload-offset");
const UPLOAD_COMPLETE: HeaderName = HeaderName::from_static("upload-complete");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const X_RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RATELIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Browsers use only HTTPS for this host for a year (RFC 6797 6.1). Behind a proxy that ends TLS, this is the proxy's task.
const HTTPS_ONLY: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// Serves one connection to its end, or until it must close.
pub async fn serve(
    stream: TcpStream,
    peer: IpAddr,
    worker: Rc<Worker>,
    permit: ConnectionPermit,
    tls: Option<&Tls>,
) {
    let Ok(stream) = stream.into_poll_io() else { return };
    let activity = ConnectionActivity::new(permit, worker.shared.memory.connection(site(peer)));
    match tls.map(Tls::accept) {
        None => serve_stream(stream, worker, activity, peer, false).await,
        Some(Ok(connection)) => {
            // In a box, because a connection without TLS would have its space too.
            Box::pin(serve_stream(tls::encrypted(stream, connection), worker, activity, peer, true)).await;
        }
        Some(Err(error)) => tracing::error!("a connection could not use TLS: {error}"),
    }
}

async fn serve_stream<S>(
    stream: S,
    worker: Rc<Worker>,
    activity: Rc<ConnectionActivity>,
    peer: IpAddr,
    is_encrypted: bool,
) where
    S: AsyncRead + AsyncWrite + Buffering + Unpin + 'static,
{
    let tally = Arc::clone(&worker.checks.tally);
    let mut timer =
        SlowPeerTimer::new(Rc::clone(&activity), Patience { head: HEAD_TIME_MAX, write: WRITE_TIME_MAX });
    let stream = MonoioIo::new(Watched::new(stream, Rc::clone(&activity)));
    let of_service = Rc::clone(&activity);
    let service = service_fn(move |request| {
        let (worker, activity) = (Rc::clone(&worker), Rc::clone(&of_service));
        // hyper keeps the space for this future as long as the connection lasts, also if it is idle.
        Box::pin(async move {
            if activity.on_request() {
                // Waking this task is not enough: the thread takes no completions while a task is ready.
                monoio::time::sleep(OTHERS_TURN).await;
            }
            activity.written().await;
            activity.set_busy();
            let mut response = respond(request, worker, peer, &activity).await;
            if is_encrypted {
                response.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, HTTPS_ONLY);
            }
            if activity.permit.is_draining() {
                // hyper learns of the drain only after this answer if the request came during it.
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response.map(|body| {
                let own_bytes = body.own_bytes();
                AnswerBody::new(body, own_bytes, activity)
            }))
        })
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(MonoioTimer)
            .header_read_timeout(IDLE_TIME_MAX)
            .max_buf_size(HEAD_BYTES_MAX)
            .max_header_size(HEAD_BYTES_MAX)
            .serve_connection(stream, service)
    );
    let mut is_closing = false;
    let mut first_request_timer = None;
    let ended = poll_fn(|cx| {
        let mut close_reason = if is_closing { None } else { activity.permit.close_reason(cx) };
        if close_reason == Some(CloseReason::Draining) && activity.is_new() {
            // The request may be under way, and a client repeats none that was sent over a new connection.
            let timer =
                first_request_timer.get_or_insert_with(|| Box::pin(monoio::time::sleep(NEW_CONNECTION_TIME)));
            if timer.as_mut().poll(cx).is_pending() {
                close_reason = None;
            }
        }
        if let Some(why) = close_reason {
            is_closing = true;
            connection.as_mut().graceful_shutdown();
            if why == CloseReason::Evicted {
                count(&tally.gave_way);
            }
        }
        if Pin::new(&mut connection).poll(cx).is_ready() {
            return Poll::Ready(());
        }
        if activity.held.must_close() {
            count(&tally.memory);
            return Poll::Ready(());
        }
        let cut_off = timer.poll(cx);
        if cut_off.is_ready() {
            count(&tally.too_slow);
        }
        cut_off
    });
    // Every end of a connection is normal: the peer hangs up, times out or sends no HTTP.
    let _ = catch_panic(ended).await;
}

/// The fields of a request's log line. They cannot have an address: the path is that of the table, not the caller's.
struct Note<'c> {
    method: &'static str,
    path: &'static str,
    request_id: String,
    trace: Option<TraceContext>,
    key: Option<KeyId>,
    /// The state of the request's counter, which goes into the headers of every answer and not into the log.
    standing: Option<Standing>,
    /// A body that is produced during sending, instead of the reply's.
    pieces: Option<Pieces>,
    activity: &'c ConnectionActivity,
}

async fn respond(
    request: Request<Incoming>,
    worker: Rc<Worker>,
    peer: IpAddr,
    activity: &ConnectionActivity,
) -> Response<Outgoing> {
    let began = Instant::now();
    let tally = Arc::clone(&worker.checks.tally);
    let mut note = Note {
        method: method_name(request.method().as_str()),
        path: "-",
        request_id: request_id(request.headers()),
        trace: TraceContext::of(request.headers()),
        key: None,
        standing: None,
        pieces: None,
        activity,
    };
    // Only these need more than the handler gives, so only these cost anything.
    let wanted = matches!(request.method(), &hyper::Method::GET | &hyper::Method::HEAD)
        .then(|| Wanted::by(request.headers()));
    let outcome = {
        let answered = pin!(answer(request, worker, peer, &mut note));
        match catch_panic(answered).await {
            Ok(outcome) => outcome,
            Err(_panicked) => Err(Refusal::defect().inside("the handler panicked")),
        }
    };
    let response = match outcome {
        Ok(reply) => {
            let Reply { status, headers, body } = reply;
            let mut response = render(status, &headers, Vec::new());
            match wanted {
                Some(wanted) if public::is_public(response.status(), response.headers()) => {
                    public::shape(&mut response, body, &wanted);
                }
                _ => *response.body_mut() = Outgoing::Whole(Full::new(Bytes::from(body))),
            }
            response
        }
        Err(refusal) => render_refusal(&refusal, &note),
    };
    let mut response = finish(response, &note);
    if let Some(pieces) = note.pieces.take() {
        *response.body_mut() = Outgoing::Pieces(pieces);
    }
    let status = response.status().as_u16();
    let took = began.elapsed();
    tally.answered(Answered { route: note.path, method: note.method, status }, took);
    tracing::info!(
        method = note.method,
        path = note.path,
        status,
        ms = took.as_millis() as u64,
        request_id = note.request_id,
        key = note.key.map(tracing::field::display),
        trace_id = note.trace.as_ref().map(TraceContext::trace_id),
        parent_id = note.trace.as_ref().map(TraceContext::parent_id),
        "request"
    );
    response
}

async fn answer(
    request: Request<Incoming>,
    worker: Rc<Worker>,
    peer: IpAddr,
    note: &mut Note<'_>,
) -> Result<Reply, Refusal> {
    let (head, body) = request.into_parts();
    if let Some(refusal) = unclear::refuse(&head.method, head.version, &head.headers) {
        return Err(refusal);
    }
    let gateways = worker.shared.gateways();
    let gateway = gateway::behind(head.uri.path(), &head.headers, &gateways);
    // Gateways offer neither pages nor connections of assistants.
    // Pages and assistants are in boxes, because every request would have their space too.
    if let Ok(None) = gateway {
        if let Some(found) = visit::find(&worker, &head) {
            return Ok(Box::pin(visit::answer(worker, found, head, body, peer, note)).await);
        }
        if let Some(found) = assistants::find(&worker, &head) {
            return Box::pin(assistants::answer(worker, found, head, body, peer, note)).await;
        }
    }
    let found = router::find(head.method.as_str(), head.uri.path());
    if let (Ok(None), Err(_)) = (&gateway, &found)
        && let Some(found) = visit::find_nothing(&worker, &head)
    {
        return Ok(Box::pin(visit::answer(worker, found, head, body, peer, note)).await);
    }
    note.path = found.as_ref().map_or(note.path, |(route, _)| route.path);
    let admitted = match (gateway, found) {
        (Err(refusal), _) | (_, Err(refusal)) => Err(refusal),
        (Ok(None), Ok((route, parameter))) => {
            admit(route, &head.headers, &worker).map(|caller| (route, parameter, caller))
        }
        (Ok(Some(gateway)), Ok((route, parameter))) => {
            let guest = gateway::guest(gateway, &head.headers, &worker).await;
            guest.map(|caller| (route, parameter, Some(caller)))
        }
    };
    let body = Unread::new(&head.headers, body);
    let (route, parameter, caller) = match admitted {
        Ok(admitted) => admitted,
        Err(refusal) => return Err(body.discard(refusal).await),
    };
    note.key = caller.map(|caller| caller.key);
    let query = head.uri.query().unwrap_or_default().to_owned();
    let counter = meter::by_head(route, &query);
    if let Err(refusal) = meter::count(&worker, route, caller, counter, &mut note.standing).await {
        return Err(body.discard(refusal).await);
    }
    let is_content = match route.body {
        Body::Content => true,
        Body::JsonOrContent => !Unread::is_stated_json(&head.headers),
        Body::None | Body::Json => false,
    };
    if is_content && let Err(refusal) = Unread::refuse_form_data(&head.headers) {
        return Err(body.discard(refusal).await);
    }
    let (body, content) = match route.body {
        Body::None => (Ok(Bytes::new()), None),
        _ if is_content => {
            note.activity.set_upload();
            (Ok(Bytes::new()), Some(Box::new(Upload::new(body, Unread::is_stated_form(&head.headers)))))
        }
        _ => (body.read_as(ContentType::Json, &head.headers, BODY).await, None),
    };
    // The body may have taken seconds to arrive. Writes compare the key once more, in their transaction.
    if route.body != Body::None
        && let Some(caller) = caller
        && let Some(key) = caller.authority().key
        && !worker.checks.store.is_key_in_force(key, caller.account, clock::now())
    {
        return Err(Refusal::outdated_key());
    }
    if counter == Counter::InBody {
        // The rate is judged before the body: over the limit, an error in the body does not matter.
        let counter = meter::by_body(body.as_deref().ok());
        meter::count(&worker, route, caller, counter, &mut note.standing).await?;
    }
    let body = body?;
    parameters::check(route, &query)?;
    let parameter = parameter.to_owned();
    let values = |name: &HeaderName| -> Vec<Vec<u8>> {
        head.headers.get_all(name).iter().map(|value| value.as_bytes().to_vec()).collect()
    };
    let upload_head = match is_content {
        true => UploadHead { offset: values(&UPLOAD_OFFSET), complete: values(&UPLOAD_COMPLETE) },
        false => UploadHead::default(),
    };
    let idempotency_key = values(&IDEMPOTENCY_KEY);
    // Only routes of lists can have an answer that is made while it is sent.
    let pieces: Option<Rc<Cell<Option<Pieces>>>> = (route.limit == Limit::Row(Row::List)).then(Rc::default);
    let mut reply = (route.handler)(Call {
        worker,
        caller,
        query,
        parameter,
        idempotency_key,
        upload_head,
        body,
        content,
        pieces: pieces.clone(),
    });
    let outcome = match is_content {
        // The content has its own limits of time.
        true => Some(reply.await),
        false => within(HANDLER_TIME_MAX, reply.as_mut()).await,
    };
    note.pieces = pieces.and_then(|pieces| pieces.take());
    outcome.unwrap_or_else(|| Err(Refusal::unknown().inside("the handler took too long")))
}

fn admit(route: &Route, headers: &HeaderMap, worker: &Worker) -> Result<Option<Caller>, Refusal> {
    if route.access == Access::Open {
        return Ok(None);
    }
    if worker.checks.store.has_nodes()
        && let Err(error @ StoreError::Away(_)) = worker.checks.store.health()
    {
        // The keys in memory are too old: one of them may be revoked.
        return Err(error.into());
    }
    let mut sent = headers.get_all(header::AUTHORIZATION).iter();
    let first = sent.next().map(HeaderValue::as_bytes);
    // With two keys the caller is ambiguous.
    let now = clock::now();
    let caller = match sent.next() {
        Some(_) => Err(AuthError::Invalid),
        None => auth::authenticate(first, now, |hash| worker.checks.store.key_by_hash(hash)),
    };
    let caller = caller.map_err(|error| match error {
        AuthError::Missing => Refusal::unauthorized(ErrorCode::MissingApiKey),
        AuthError::Invalid => Refusal::unauthorized(ErrorCode::InvalidApiKey),
        AuthError::Revoked => Refusal::unauthorized(ErrorCode::ApiKeyRevoked),
        AuthError::Expired => Refusal::expired_key(),
    })?;
    worker.checks.store.key_used(caller.key, now);
    Ok(Some(caller))
}

fn render(status: u16, headers: &[(&'static str, Cow<'static, str>)], body: Vec<u8>) -> Response<Outgoing> {
    let mut response = Response::new(Outgoing::Whole(Full::new(Bytes::from(body))));
    // Capacity for all fields of an answer, so that the map need not grow.
    *response.headers_mut() = HeaderMap::with_capacity(HEADERS);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().append(HeaderName::from_static(name), value);
        }
    }
    response
}

fn render_refusal(refusal: &Refusal, note: &Note<'_>) -> Response<Outgoing> {
    if let Some(inside) = &refusal.inside {
        match refusal.body.error {
            ErrorCode::InternalError => {
                tracing::error!(request_id = note.request_id, path = note.path, "{inside}")
            }
            _ => tracing::warn!(request_id = note.request_id, path = note.path, "{inside}"),
        }
    }
    let body = serde_json::to_vec(&*refusal.body).unwrap_or_default();
    render(refusal.body.error.status(), &refusal.headers, body)
}

/// Adds the fields of every answer. By default an answer must not be cached, since nearly all have private data.
fn finish(mut response: Response<Outgoing>, note: &Note<'_>) -> Response<Outgoing> {
    let is_empty = response.status() == StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    if !is_empty {
        headers.entry(header::CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // A refusal with its own field names the right limit.
    if let Some(standing) = note.standing.filter(|_| !headers.contains_key(RATELIMIT)) {
        add_limits(headers, &standing);
    }
    if let Ok(id) = HeaderValue::from_str(&note.request_id) {
        headers.insert(X_REQUEST_ID, id);
    }
    response
}

fn add_limits(headers: &mut HeaderMap, standing: &Standing) {
    let numbers = LimitNumbers::of(standing);
    let texts = [(RATELIMIT_POLICY, numbers.policy()), (RATELIMIT, numbers.standing())];
    for (name, text) in texts {
        if let Ok(value) = HeaderValue::try_from(text) {
            headers.insert(name, value);
        }
    }
    headers.insert(X_RATELIMIT_LIMIT, numbers.quota.into());
    headers.insert(X_RATELIMIT_REMAINING, numbers.remaining.into());
    headers.insert(X_RATELIMIT_RESET, numbers.reset_s.into());
}

/// The caller's request id if it is fit for a log, otherwise a generated one.
fn request_id(headers: &HeaderMap) -> String {
    let sent = headers.get(X_REQUEST_ID).and_then(|value| value.to_str().ok());
    let fits = |text: &&str| {
        (1..=REQUEST_ID_CHARS_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
    };
    match sent.filter(fits) {
        Some(id) => id.to_owned(),
        None => own_request_id(),
    }
}

/// A unique request id without a secret: 64 random bits of this thread, and a counter.
fn own_request_id() -> String {
    thread_local! {
        static MADE: (u64, Cell<u64>) = {
            let thread = random_bits().map_or_else(|_| clock::now(), |bits| bits as u64);
            (thread, Cell::new(0))
        };
    }
    MADE.with(|(thread, made)| {
        made.set(made.get() + 1);
        let number = u128::from(*thread) << 64 | u128::from(made.get());
        let digit = |place: u32| b"0123456789abcdef"[(number >> (place * 4) & 15) as usize];
        String::from_utf8((0..32).rev().map(digit).collect()).unwrap_or_default()
    })
}

/// The method for the log, from a fixed list: callers can invent methods.
fn method_name(method: &str) -> &'static str {
    let known = ["GET", "POST", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"];
    known.into_iter().find(|name| *name == method).unwrap_or("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, values: &[&str]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for value in values {
            map.append(name.clone(), HeaderValue::from_str(value).unwrap());
        }
        map
    }

    #[test]
    fn request_ids_are_taken_or_made() {
        let taken = |id: &str| request_id(&headers(X_REQUEST_ID, &[id])) == id;
        assert!(taken("a"));
        assert!(taken(&"aZ0._-".repeat(10)));
        assert!(!taken("") && !taken("a b") && !taken("a@example.com") && !taken(&"x".repeat(65)));
        assert_ne!(request_id(&HeaderMap::new()), request_id(&HeaderMap::new()));
    }
}
