//! Questions over TCP. A question is repeated over TCP if the answer does not fit into a datagram, or may be forged.

use super::{Inner, PendingLookup};
use crate::runtime::{ByteStream, Runtime};
use engine_proto::dns::lookup::Received;
use engine_proto::dns::message::FrameReader;
use engine_proto::dns::window::Place;
use engine_proto::limits::DNS_TCP_MESSAGE_BYTES_MAX;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;

/// Sends the next message of a lookup over TCP, waits for the answer, and hands it or the failure to the lookup.
pub(super) async fn converse<R: Runtime>(
    inner: Rc<Inner<R>>,
    pending: Rc<PendingLookup<R>>,
    (upstream, place): (usize, Place),
    payload: Vec<u8>,
    deadline: Instant,
) {
    let said = ask_tcp::<R>(inner.upstreams[upstream], payload, deadline).await;
    let now = R::now();
    let received = pending.with_lookup(|lookup| match &said {
        Ok(message) => lookup.on_tcp(upstream, message, now),
        Err(_) => {
            lookup.on_tcp_failed(upstream);
            Received::Nothing
        }
    });
    match received {
        Some(Received::Answer | Received::CaseChanged) => inner.on_answer(upstream, place),
        Some(Received::Refusal) => inner.on_refusal(upstream, place),
        Some(Received::Nothing) | None => inner.give_back(upstream, place),
    }
    inner.go_on(&pending, now);
    inner.pump(upstream, now);
}

/// Asks one question over a new connection (RFC 7766).
async fn ask_tcp<R: Runtime>(
    upstream: SocketAddr,
    payload: Vec<u8>,
    deadline: Instant,
) -> io::Result<Vec<u8>> {
    let mut stream = R::connect(None, upstream, deadline).await?;
    stream.write(payload, deadline).await.0?;
    let mut frame = FrameReader::default();
    loop {
        let wanted = frame.wanted().min(DNS_TCP_MESSAGE_BYTES_MAX + 2);
        let (count, bytes) = stream.read(Vec::with_capacity(wanted), deadline).await;
        if count? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        frame.feed(&bytes);
        if let Some(message) = frame.message() {
            return Ok(message);
        }
    }
}
