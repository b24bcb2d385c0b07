//! `soak slow`: thousands of connections that cost their peer nothing, and one good client among them.
//!
//! Five crowds, one after another: connections that say nothing, that send a head or a body a byte a second, that
//! ask and do not take the answers, and idle ones, twice as many as the server has places. Whatever the server cuts off
//! comes back at once. Beside each crowd a client with a connection for each request asks for its account: every answer
//! is 200, and the 99th percentile of what it waits stays near that of an idle server.

use super::world::{Mailnet, Serve, World};
use super::{Failure, Options, http};
use crate::interop::process::{interrupted, sleep, wait_until};
use crate::interop::report::{self, Tally};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

struct Size {
    /// Slow connections at once.
    crowd: usize,
    /// Requests of the good client beside each crowd.
    requests: usize,
    /// What may be added to the wait on an idle server, at most or at least.
    slack: Duration,
    /// How long a crowd stays at least: longer than what the server gives a head or a body.
    stay: Duration,
}

const FULL: Size =
    Size { crowd: 5000, requests: 2000, slack: Duration::from_millis(10), stay: Duration::from_secs(25) };
/// Debug builds, beside whatever else the machine does: this finds who starves, not who is slower.
const SMALL: Size =
    Size { crowd: 500, requests: 150, slack: Duration::from_millis(150), stay: Duration::from_secs(2) };

/// Each connection of a crowd is looked at once in so long.
const ROUND: Duration = Duration::from_secs(1);
/// A round is made in so many steps.
const STEPS: usize = 20;
/// For the server to have let go of a crowd that is gone.
const RELEASE_LIMIT: Duration = Duration::from_secs(60);
/// Descriptors that a server may have more than before: the database's, a connection that comes late.
const DESCRIPTORS_MORE_MAX: usize = 8;
/// Requests of one burst of those who do not take the answers.
const BURST: usize = 50;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Crowd {
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

impl Crowd {
    fn name(self) -> &'static str {
        match self {
            Crowd::Silent => "silent connections",
            Crowd::Head => "slow heads",
            Crowd::Body => "slow bodies",
            Crowd::Unread => "answers that nobody takes",
            Crowd::Idle => "idle connections, twice as many as places",
        }
    }

    /// What is said first.
    fn opening(self, key: &str) -> String {
        match self {
            Crowd::Silent => String::new(),
            Crowd::Head => "GET /livez HTTP/1.1\r\nHost: t\r\nX-Slow: ".into(),
            Crowd::Body => format!(
                "POST /v1/verify HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {key}\r\nContent-Length: 10000\r\n\r\n"
            ),
            Crowd::Unread | Crowd::Idle => "GET /livez HTTP/1.1\r\nHost: t\r\n\r\n".into(),
        }
    }

    /// What is said in each round.
    fn more(self) -> String {
        match self {
            Crowd::Silent | Crowd::Idle => String::new(),
            Crowd::Head | Crowd::Body => "x".into(),
            Crowd::Unread => self.opening("").repeat(BURST),
        }
    }

    /// Whether it notices what the server says.
    fn reads(self) -> bool {
        self != Crowd::Unread
    }

    /// Who does not read makes the server work for each connection; a tenth of the others' number is as bad.
    fn count(self, size: &Size) -> usize {
        if self == Crowd::Unread { size.crowd / 10 } else { size.crowd }
    }
}

pub fn run(options: &Options) -> Result<Option<Tally>, Failure> {
    let size = if options.small { SMALL } else { FULL };
    report::line(&format!("slow: crowds of {}, {} good requests beside each", size.crowd, size.requests));
    let world = World::make(options)?;
    // Nobody is asked; the engine wants a resolver all the same.
    let mailnet = world
        .mailnet("seed = 1\n[[group]]\nname = \"a-{n}.example\"\ncount = 1\nmailboxes.ok = [\"user-#\"]\n")?;
    let mut tally = Tally::default();
    let roomy = (size.crowd * 2).to_string();
    let mut serve = start(&world, &mailnet, &roomy)?;
    let key = world.unlimited("good", 0)?;
    beside(&size, &serve, &key)?;
    let idle = percentile(beside(&size, &serve, &key)?);
    report::line(&format!("      an idle server: p99 {:.1} ms", millis(idle)));
    let before = serve.descriptors()?;
    for crowd in [Crowd::Silent, Crowd::Head, Crowd::Body, Crowd::Unread] {
        let held = hold(crowd, &size, &serve, &key, idle)?;
        tally.check(crowd.name(), held);
        serve.running()?;
    }
    tally.check("what they held is let go of", released(&mut serve, before));
    tally.check("no panic, and an end in order", end(serve));

    let places = (size.crowd / 2).to_string();
    let serve = start(&world, &mailnet, &places)?;
    let held = hold(Crowd::Idle, &size, &serve, &key, idle)?;
    tally.check(Crowd::Idle.name(), held);
    tally.check("no panic, and an end in order", end(serve));
    mailnet.stop()?;
    Ok(Some(tally))
}

fn start(world: &World, mailnet: &Mailnet, places: &str) -> Result<Serve, Failure> {
    let plans = world.plans()?;
    let mut flags = vec!["--connections", places, "--connections-per-peer", "0"];
    flags.extend(plans.iter().map(String::as_str));
    world.serve(mailnet, &flags)
}

/// Lets a crowd in, and tells how the good client fares meanwhile.
fn hold(
    crowd: Crowd,
    size: &Size,
    serve: &Serve,
    key: &str,
    idle: Duration,
) -> Result<Result<String, String>, Failure> {
    let (ended, open, cut_off) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let members = crowd.count(size);
    let waits = std::thread::scope(|scope| {
        scope.spawn(|| besiege(crowd, members, serve.address, key, &ended, &open, &cut_off));
        let began = Instant::now();
        let gathered = wait_until("the crowd", RELEASE_LIMIT, || Ok(open.load(Ordering::Relaxed) >= members));
        let waits = gathered.and_then(|()| {
            let mut waits = beside(size, serve, key)?;
            while began.elapsed() < size.stay {
                waits.extend(beside(size, serve, key)?);
            }
            Ok(waits)
        });
        ended.store(true, Ordering::Relaxed);
        waits
    })?;
    let (found, limit) = (percentile(waits), (idle * 2).max(idle + size.slack));
    let figures = format!(
        "{members} of them, p99 {:.1} ms (at most {:.1}), {} cut off",
        millis(found),
        millis(limit),
        cut_off.load(Ordering::Relaxed)
    );
    Ok(if found <= limit { Ok(figures) } else { Err(figures) })
}

/// The waits of the good client, each with a connection of its own.
fn beside(size: &Size, serve: &Serve, key: &str) -> Result<Vec<Duration>, Failure> {
    let mut waits = Vec::with_capacity(size.requests);
    for _ in 0..size.requests {
        interrupted()?;
        let began = Instant::now();
        let answer = http::get(serve.address, key, "/v1/account");
        waits.push(began.elapsed());
        match answer {
            Ok(answer) if answer.status == 200 => {}
            Ok(answer) => {
                return Err(Failure(format!("the good client got {} {}", answer.status, answer.body)));
            }
            Err(error) => return Err(Failure(format!("the good client got no answer: {error}"))),
        }
        sleep(Duration::from_millis(2))?;
    }
    Ok(waits)
}

/// Keeps so many connections open until told to end.
fn besiege(
    crowd: Crowd,
    members: usize,
    server: SocketAddr,
    key: &str,
    ended: &AtomicBool,
    open: &AtomicUsize,
    cut_off: &AtomicUsize,
) {
    let (opening, more) = (crowd.opening(key), crowd.more());
    let mut streams: Vec<Option<TcpStream>> = (0..members).map(|_| None).collect();
    let step = members.div_ceil(STEPS);
    for begin in (0..members).step_by(step).cycle() {
        for stream in streams.iter_mut().skip(begin).take(step) {
            if ended.load(Ordering::Relaxed) || interrupted().is_err() {
                return;
            }
            let goes_on = stream.as_mut().is_some_and(|stream| go_on(stream, crowd, &more));
            if !goes_on {
                let was_open = stream.take().is_some();
                cut_off.fetch_add(usize::from(was_open), Ordering::Relaxed);
                // A backlog that is full refuses; the next round tries again.
                *stream = connect(server, &opening).ok();
                if stream.is_some() && !was_open {
                    open.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        std::thread::sleep(ROUND / STEPS as u32);
    }
}

fn connect(server: SocketAddr, opening: &str) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&server, Duration::from_secs(1))?;
    stream.set_nonblocking(true)?;
    stream.write_all(opening.as_bytes())?;
    Ok(stream)
}

/// Says the next bit; `false` when the server has closed.
fn go_on(stream: &mut TcpStream, crowd: Crowd, more: &str) -> bool {
    let blocked = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
    if crowd.reads() {
        match stream.read(&mut [0; 1024]) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) if blocked(&error) => {}
            Err(_) => return false,
        }
    }
    more.is_empty() || stream.write(more.as_bytes()).map_or_else(|error| blocked(&error), |_| true)
}

/// The crowd is gone: so are its connections.
fn released(serve: &mut Serve, before: usize) -> Result<String, String> {
    let mut now = before;
    let waited = wait_until("the server to let go", RELEASE_LIMIT, || {
        now = serve.descriptors()?;
        Ok(now <= before + DESCRIPTORS_MORE_MAX)
    });
    let memory = serve.resident_kib().map_err(|failure| failure.0)?;
    let figures = format!("{before} descriptors before, {now} after, {} MiB resident", memory / 1024);
    waited.map(|()| figures.clone()).map_err(|failure| format!("{}: {figures}", failure.0))
}

fn end(serve: Serve) -> Result<String, String> {
    let log = serve.log().map_err(|failure| failure.0)?;
    serve.stop().map_err(|failure| failure.0)?;
    match log.lines().find(|line| line.contains("a defect was met") || line.contains("panicked")) {
        Some(line) => Err(line.to_owned()),
        None => Ok("status 0".into()),
    }
}

/// The 99th percentile.
fn percentile(mut waits: Vec<Duration>) -> Duration {
    waits.sort();
    let place = (waits.len() * 99).div_ceil(100);
    waits.get(place.saturating_sub(1)).copied().unwrap_or_default()
}

fn millis(time: Duration) -> f64 {
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
