//! Groups of slow connections, and the latency of a good client beside them.

use super::transport::{ServerEndpoint, Stream};
use crate::interop::process::interrupted;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// The time in which each slow connection is served once.
const ROUND: Duration = Duration::from_secs(1);
/// How many steps a round has.
const STEPS: usize = 20;
/// Requests of one burst of clients that read no answers.
const BURST: usize = 50;
/// A complete request.
const WHOLE: &str = "GET /livez HTTP/1.1\r\nHost: t\r\n\r\n";
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// The behaviour of all slow peers of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlowPeer {
    /// It sends nothing.
    Silent,
    /// It sends a head, one byte a round.
    Head,
    /// It sends a body, one byte a round.
    Body,
    /// It sends requests without a pause and reads nothing.
    Unread,
    /// It has sent one request, and keeps the connection open.
    Idle,
}

/// The bytes that a connection sends, and whether it reads.
pub struct Habit {
    /// The bytes that are sent first.
    pub opening: Vec<u8>,
    /// The bytes that are sent in each round.
    pub more: Vec<u8>,
    /// Whether it reads what the server sends.
    pub reads: bool,
    /// Whether it sends nothing at all, not even a TLS handshake.
    pub is_silent: bool,
}

/// Groups of slow peers that stay until `ended` is set.
#[derive(Default)]
pub struct Siege {
    /// The flag that ends the groups.
    pub ended: AtomicBool,
    /// How many connections were opened.
    pub open: AtomicUsize,
    /// Connections that the server closed.
    pub cut_off: AtomicUsize,
}

impl SlowPeer {
    /// The name of the kind in the report, and what its members send first and in each round. KEY stands for a key.
    fn habits(self) -> (&'static str, &'static str, &'static str) {
        match self {
            SlowPeer::Silent => ("silent connections", "", ""),
            SlowPeer::Head => ("slow heads", "GET /livez HTTP/1.1\r\nHost: t\r\nX-Slow: ", "x"),
            SlowPeer::Body => (
                "slow bodies",
                "POST /v1/verify HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer KEY\r\nContent-Length: 10000\r\n\r\n",
                "x",
            ),
            SlowPeer::Unread => ("answers that nobody takes", WHOLE, WHOLE),
            SlowPeer::Idle => ("idle connections, twice as many as places", WHOLE, ""),
        }
    }

    /// The name of the kind in the report.
    pub fn name(self) -> &'static str {
        self.habits().0
    }

    /// The habit of the members of this kind; `key` is the key in their requests.
    pub fn habit(self, key: &str) -> Habit {
        let (_, opening, more) = self.habits();
        let (reads, is_silent) = (self != SlowPeer::Unread, self == SlowPeer::Silent);
        let more = more.repeat(if reads { 1 } else { BURST }).into_bytes();
        Habit { opening: opening.replace("KEY", key).into_bytes(), more, reads, is_silent }
    }
}

impl Habit {
    /// A habit of sending a request repeatedly without reading an answer.
    pub fn unread(request: &[u8]) -> Habit {
        Habit { opening: request.to_vec(), more: request.repeat(BURST), reads: false, is_silent: false }
    }

    /// A habit of sending these bytes and waiting.
    pub fn unfinished(request: Vec<u8>) -> Habit {
        Habit { opening: request, more: Vec::new(), reads: true, is_silent: false }
    }
}

impl Siege {
    /// Keeps this many connections open until `ended` is set. A connection that the server closes is opened again.
    pub fn hold(&self, habit: &Habit, members: usize, server: &ServerEndpoint) {
        let mut streams: Vec<Option<Stream>> = (0..members).map(|_| None).collect();
        let step = members.div_ceil(STEPS).max(1);
        for begin in (0..members).step_by(step).cycle() {
            for stream in streams.iter_mut().skip(begin).take(step) {
                if self.ended.load(Ordering::Relaxed) || interrupted().is_err() {
                    return;
                }
                let goes_on = stream.as_mut().is_some_and(|stream| go_on(stream, habit));
                if !goes_on {
                    let was_open = stream.take().is_some();
                    self.cut_off.fetch_add(usize::from(was_open), Ordering::Relaxed);
                    // A full backlog refuses the connection; the next round tries again.
                    *stream = connect(server, habit).ok();
                    if stream.is_some() && !was_open {
                        self.open.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
            std::thread::sleep(ROUND / STEPS as u32);
        }
    }
}

fn connect(server: &ServerEndpoint, habit: &Habit) -> io::Result<Stream> {
    // A silent peer of a TLS server never starts the handshake.
    let plain = ServerEndpoint::from(server.address);
    let server = if habit.is_silent { &plain } else { server };
    let mut stream = server.connect(CONNECT_LIMIT)?;
    stream.tcp().set_nonblocking(true)?;
    stream.write_all(&habit.opening)?;
    Ok(stream)
}

/// Sends the next bytes; `false` if the server has closed.
fn go_on(stream: &mut Stream, habit: &Habit) -> bool {
    let blocked = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
    if habit.reads {
        match stream.read(&mut [0; 1024]) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) if blocked(&error) => {}
            Err(_) => return false,
        }
    }
    habit.more.is_empty() || stream.write(&habit.more).map_or_else(|error| blocked(&error), |_| true)
}

/// The 99th percentile of latencies; zero if there are none.
pub fn percentile(waits: Vec<Duration>) -> Duration {
    percentile_at(waits, 99)
}

/// A percentile of latencies; zero if there are none.
pub fn percentile_at(mut waits: Vec<Duration>, percent: usize) -> Duration {
    waits.sort();
    let place = (waits.len() * percent).div_ceil(100);
    waits.get(place.saturating_sub(1)).copied().unwrap_or_default()
}

/// The longest allowed latency of good clients: twice that on an idle server, or `slack` more, whichever is longer.
pub fn limit(idle: Duration, slack: Duration) -> Duration {
    (idle * 2).max(idle + slack)
}

/// The time in milliseconds, for the report.
pub fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_wait_that_was() {
        let waits = |range: std::ops::RangeInclusive<u64>| range.map(Duration::from_millis).rev().collect();
        assert_eq!(percentile(waits(1..=100)), Duration::from_millis(99));
        assert_eq!(percentile(waits(7..=7)), Duration::from_millis(7));
        assert_eq!(percentile(Vec::new()), Duration::ZERO);
    }
}
