//! Requests of assistants: the conversion from hyper's types to those of [`assistants`](crate::assistants).

use super::{BODY, Note};
use crate::worker::Worker;
use assistants::{self, Assistants, Call, Head, Route};
use bytes::Bytes;
use http_core::body::Unread;
use http_core::{Refusal, Reply};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName};
use hyper::http::request::Parts;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The endpoint of assistants for a path; `None` for all other paths.
pub fn find(worker: &Worker, head: &Parts) -> Option<(Arc<Assistants>, Result<&'static Route, Refusal>)> {
    let assistants = worker.shared.dashboard.as_ref()?.assistants.as_ref()?;
    let found = assistants::find(head.method.as_str(), head.uri.path())?;
    Some((Arc::clone(assistants), found))
}

/// Answers a request to an endpoint of assistants.
///
/// # Errors
///
/// A refusal before the endpoint, which has its own form of errors.
pub async fn answer(
    worker: Rc<Worker>,
    (assistants, found): (Arc<Assistants>, Result<&'static Route, Refusal>),
    head: Parts,
    body: Incoming,
    peer: IpAddr,
    note: &mut Note<'_>,
) -> Result<Reply, Refusal> {
    let body = Unread::new(&head.headers, body);
    let route = match found {
        Ok(route) => route,
        Err(refusal) => return Err(body.discard(refusal).await),
    };
    note.path = route.path;
    let read_head = read_head(&head.headers, peer);
    let connection = match route.admit(&worker.checks, &assistants, &read_head).await {
        Ok(connection) => connection,
        Err(reply) => {
            // Only the time limit of the body can replace this refusal.
            body.discard(Refusal::no_such_path()).await;
            return Ok(reply);
        }
    };
    let body = match route.body {
        None => Bytes::new(),
        Some(wanted) => body.read_as(wanted, &head.headers, BODY).await?,
    };
    // The body may have taken seconds to arrive, and its connection may have ended meanwhile.
    let connection = match connection {
        Some(_) => match route.admit(&worker.checks, &assistants, &read_head).await {
            Ok(connection) => connection,
            Err(reply) => return Ok(reply),
        },
        None => None,
    };
    Ok(route
        .answer(Call { checks: Rc::clone(&worker.checks), assistants, head: read_head, connection, body })
        .await)
}

fn read_head(headers: &HeaderMap, peer: IpAddr) -> Head {
    let all = |name| headers.get_all(name).iter().map(|value| value.as_bytes().to_vec()).collect();
    let one = |name| {
        let mut values = headers.get_all(name).iter();
        let first = values.next().and_then(|value| value.to_str().ok()).map(str::to_owned);
        // With two fields of one name the value is ambiguous.
        first.filter(|_| values.next().is_none())
    };
    Head {
        authorization: all(header::AUTHORIZATION),
        origin: all(header::ORIGIN),
        version: one(VERSION),
        method: one(METHOD),
        name: one(NAME),
        peer,
    }
}
