//! Crowds of connections that take their time, and what a good client waits beside them.

use super::transport::{Server, Stream};
use crate::interop::process::interrupted;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Each slow connection is looked at once in so long.
const ROUND: Duration = Duration::from_secs(1);
/// A round is made in so many steps.
const STEPS: usize = 20;
/// Requests of one burst of those who do not take the answers.
const BURST: usize = 50;
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// What all slow peers of one kind do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlowPeer {
    /// Says nothing.
    Silent,
    /// A head, a byte a round.
    Head,
    /// A body, a byte a round.
    Body,
    /// Asks and asks, and reads nothing.
    Unread,
    /// Has asked once, and stays.
    Idle,
}

/// What a connection says and whether it reads.
pub struct Habit {
    /// What is said first.
    pub opening: Vec<u8>,
    /// What is said in each round.
    pub more: Vec<u8>,
    /// Whether it notices what the server says.
    pub reads: bool,
    /// Whether nothing at all is said, not even a TLS handshake.
    pub is_silent: bool,
}

/// Crowds that stay until they are told to end.
#[derive(Default)]
pub struct Siege {
    /// Set when they have to end.
    pub ended: AtomicBool,
    /// Members that came.
    pub open: AtomicUsize,
    /// Connections that the server closed.
    pub cut_off: AtomicUsize,
}

impl SlowPeer {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            SlowPeer::Silent => "silent connections",
            SlowPeer::Head => "slow heads",
            SlowPeer::Body => "slow bodies",
            SlowPeer::Unread => "answers that nobody takes",
            SlowPeer::Idle => "idle connections, twice as many as places",
        }
    }

    /// What each of its members does; `key` is the one that they show.
    pub fn habit(self, key: &str) -> Habit {
        let whole = "GET /livez HTTP/1.1\r\nHost: t\r\n\r\n";
        let opening = match self {
            SlowPeer::Silent => String::new(),
            SlowPeer::Head => "GET /livez HTTP/1.1\r\nHost: t\r\nX-Slow: ".into(),
            SlowPeer::Body => format!(
                "POST /v1/verify HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {key}\r\nContent-Length: 10000\r\n\r\n"
            ),
            SlowPeer::Unread | SlowPeer::Idle => whole.into(),
        };
        let more = match self {
            SlowPeer::Silent | SlowPeer::Idle => String::new(),
            SlowPeer::Head | SlowPeer::Body => "x".into(),
            SlowPeer::Unread => whole.repeat(BURST),
        };
        Habit {
            opening: opening.into_bytes(),
            more: more.into_bytes(),
            reads: self != SlowPeer::Unread,
            is_silent: self == SlowPeer::Silent,
        }
    }
}

impl Habit {
    /// Sends a request again and again and reads no answer.
    pub fn unread(request: &[u8]) -> Habit {
        Habit { opening: request.to_vec(), more: request.repeat(BURST), reads: false, is_silent: false }
    }

    /// Sends this and waits.
    pub fn unfinished(request: Vec<u8>) -> Habit {
        Habit { opening: request, more: Vec::new(), reads: true, is_silent: false }
    }
}

impl Siege {
    /// Keeps so many connections open until told to end. Whatever the server closes comes back.
    pub fn hold(&self, habit: &Habit, members: usize, server: &Server) {
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
                    // A backlog that is full refuses; the next round tries again.
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

fn connect(server: &Server, habit: &Habit) -> io::Result<Stream> {
    // Silence over TLS is a handshake that never begins.
    let plain = Server::from(server.address);
    let server = if habit.is_silent { &plain } else { server };
    let mut stream = server.connect(CONNECT_LIMIT)?;
    stream.tcp().set_nonblocking(true)?;
    stream.write_all(&habit.opening)?;
    Ok(stream)
}

/// Says the next bit; `false` when the server has closed.
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

/// The 99th percentile.
pub fn percentile(mut waits: Vec<Duration>) -> Duration {
    waits.sort();
    let place = (waits.len() * 99).div_ceil(100);
    waits.get(place.saturating_sub(1)).copied().unwrap_or_default()
}

/// What the good may wait: twice as long as on an idle server, or this much longer.
pub fn limit(idle: Duration, slack: Duration) -> Duration {
    (idle * 2).max(idle + slack)
}

/// For people.
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
