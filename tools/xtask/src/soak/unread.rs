//! `soak unread`: thousands of connections whose clients read no answer, or do not finish their request, on every kind of route
//! that a stranger and a key can call, in clear and over TLS.
//!
//! The connections come from many addresses of loopback, have small receive buffers, and are opened again when the server closes
//! them. While they stay, the resident memory of the server must remain below a limit, and a good client must get the reference
//! and fast checks within a short time.

use super::client::{HttpClient, HttpRequest};
use super::options::{SoakOptions, sizes};
use super::slow_peers::millis;
use super::transport::{Certificate, ServerEndpoint, Stream};
use super::visitor::Visitor;
use super::world::{CampaignFolder, Mailnet, Serve};
use crate::failure::{Context, Failure, ensure};
use crate::interop::process::{interrupted, wait_until};
use crate::interop::report::{self, Tally, outcome};
use serde_json::json;
use socket2::{Domain, Socket, Type};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

sizes! {
    /// The small version has enough connections that answers which are copied for each of them would exceed the limit.
    struct UnreadSize {
        connections: usize = 4900, 300;
        /// The most resident memory in MiB, in clear and over TLS.
        most_mib: [u64; 2] = [300, 400], [180, 190];
        /// How long the connections stay after the last one was opened.
        stay: Duration = Duration::from_secs(6), Duration::from_millis(500);
        /// The longest time in which a good client must be answered.
        answered_within: Duration = Duration::from_secs(2), Duration::from_secs(5);
        /// The rows of the list that is downloaded.
        rows: usize = 20_000, 4_000;
    }
}

/// How many addresses the connections come from.
const ADDRESSES: usize = 50;
/// The size of their receive buffers, which the kernel rounds up.
const RECEIVE_BYTES: usize = 2048;
/// How often a request is sent without reading its answers.
const PIPELINED: usize = 2;
/// The threads that open connections.
const OPENERS: usize = 8;
const CONNECT_LIMIT: Duration = Duration::from_secs(20);
const BATCH_LIMIT: Duration = Duration::from_secs(120);
const SCENARIO: &str =
    "seed = 1\n[[group]]\nname = \"a-{n}.example\"\ncount = 1\nmailboxes.ok = [\"user-#\"]\n";

/// What each connection sends, with its name.
type Opening = (String, Vec<u8>);

/// Runs the campaign and counts its checks.
pub fn run(options: &SoakOptions, tally: &mut Tally) -> Result<(), Failure> {
    let size = UnreadSize::of(options.small);
    report::line(&format!("unread: {} connections on each route", size.connections));
    let certificate = Certificate::make().about("a certificate")?;
    for certificate in [None, Some(&certificate)] {
        let world = CampaignFolder::make(options)?;
        let mailnet = world.mailnet(SCENARIO)?;
        run_on(options, &size, (&world, &mailnet), certificate, tally)?;
        mailnet.stop()?;
    }
    Ok(())
}

/// Makes the requests of one kind, for a server and a key.
type Openings = fn(&ServerEndpoint, &str, &UnreadSize) -> Result<Vec<Opening>, Failure>;

fn run_on(
    options: &SoakOptions,
    size: &UnreadSize,
    (world, mailnet): (&CampaignFolder, &Mailnet),
    certificate: Option<&Certificate>,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let places = (size.connections + 100).to_string();
    // Each kind has a server of its own: the allocator gives freed memory back late, so what one kind used would count for the next.
    let kinds: [(&str, Openings); 2] = [("unread", unread_answers), ("unfinished", unfinished_requests)];
    for (account, openings_of) in kinds {
        let (mut serve, server) = world.serve_over(mailnet, &["--connections", &places], certificate)?;
        let key = world.unlimited(account, 1000)?;
        let openings = openings_of(&server, &key, size)?;
        let most_mib = size.most_mib[usize::from(server.is_over_tls())];
        let before = serve.footprint()?;
        report::line(&format!("      {server}: {} MiB before", before.resident_kib / 1024));
        for (name, bytes) in openings {
            let name = format!("{server} {name}");
            if options.wants(&name) {
                tally.check(&name, hold(&bytes, size, &serve, (&server, &key), most_mib));
                serve.running()?;
            }
        }
        let [_, open] = serve.settle(before, u64::MAX)?;
        tally.check("no descriptor of them is left", open);
        tally.check("no panic, and an end in order", serve.end());
    }
    Ok(())
}

/// Whole requests on all kinds of routes, whose answers nobody reads.
fn unread_answers(server: &ServerEndpoint, key: &str, size: &UnreadSize) -> Result<Vec<Opening>, Failure> {
    let (batch, head) = (checked_batch(server, key)?, format!("Host: {}\r\n", server.address));
    let bearer = format!("{head}Authorization: Bearer {key}\r\n");
    let mut openings = Vec::new();
    let mut open = |name: &str, bytes: Vec<u8>| openings.push((name.to_owned(), bytes));
    let get = |path: &str, fields: &str| format!("GET {path} HTTP/1.1\r\n{fields}\r\n").into_bytes();
    // So often that the kernel does not take all answers.
    for path in ["/docs", "/v1/openapi.json"] {
        open(&format!("GET {path}"), get(path, &head).repeat(8));
    }
    for path in ["/signin", "/nowhere", "/livez"] {
        open(&format!("GET {path}"), get(path, &head));
    }
    open("GET /docs, compressed", get("/docs", &format!("{head}Accept-Encoding: gzip\r\n")));
    open("HEAD /livez, often", format!("HEAD /livez HTTP/1.1\r\n{head}\r\n").repeat(30).into_bytes());
    for path in ["/v1/account", "/v1/verify/batch", "/v1/account/export", "/v1/lists"] {
        open(&format!("GET {path}"), get(path, &bearer));
    }
    open("GET /v1/verify/batch/{batch_id}", get(&format!("/v1/verify/batch/{batch}"), &bearer));
    let mut visitor = Visitor::sign_up(server, "unread@example.com")?;
    let list = visitor.checked_list("list.csv", &list(size.rows))?;
    for path in ["/", "/docs", "/lists", "/keys", "/usage.csv", "/batches"] {
        open(&format!("GET {path}, signed in"), visitor.request(path));
    }
    open("GET /lists/{id}/download", visitor.request(&list));
    open("GET /lists/{id}/download?format=xlsx", visitor.request(&format!("{list}?format=xlsx")));
    Ok(openings)
}

/// Requests whose rest never comes. They are sent once.
fn unfinished_requests(server: &ServerEndpoint, key: &str, _: &UnreadSize) -> Result<Vec<Opening>, Failure> {
    let head = format!("Host: {}\r\n", server.address);
    let bearer = format!("{head}Authorization: Bearer {key}\r\n");
    let mut openings = Vec::new();
    let mut open = |name: &str, bytes: Vec<u8>| openings.push((name.to_owned(), bytes));
    let filler = |length: usize| "x".repeat(length);
    open("a head without its end", format!("GET /livez HTTP/1.1\r\n{head}X: {}", filler(30_000)).into());
    let body = |line: &str, fields: &str, stated: usize, sent: usize| {
        format!("{line} HTTP/1.1\r\n{fields}Content-Length: {stated}\r\n\r\n{}", filler(sent)).into_bytes()
    };
    let json = format!("{bearer}Content-Type: application/json\r\n");
    open("a body without its end", body("POST /v1/verify/batch", &json, 262_144, 262_000));
    open("a body that is refused", body("POST /v1/verify", &head, 262_144, 262_000));
    let text = format!("{bearer}Content-Type: text/csv\r\n");
    open("an upload without its end", body("POST /v1/lists", &text, 1_000_000, 900_000));
    Ok(openings)
}

/// A batch with long answers, whose id is returned.
fn checked_batch(server: &ServerEndpoint, key: &str) -> Result<String, Failure> {
    let mut client = HttpClient::program(server.clone());
    let mut send = |request: HttpRequest| client.ask(&request.bearer(key)).map_err(Failure);
    let emails: Vec<String> = (0..200).map(|n| format!("{}-{n:03}@a-0.example", "x".repeat(60))).collect();
    let id = send(HttpRequest::json("/v1/verify/batch", &json!({ "emails": emails })))?.json();
    let id = id["batch_id"].as_str().map(str::to_owned);
    let id = id.ok_or_else(|| Failure("a batch without an id".into()))?;
    wait_until("the batch", BATCH_LIMIT, || {
        Ok(send(HttpRequest::get(format!("/v1/verify/batch/{id}")))?.json()["status"] == "completed")
    })?;
    Ok(id)
}

/// A list of one address, so that its check is short.
fn list(rows: usize) -> Vec<u8> {
    let mut text = String::from("email,note\n");
    (0..rows).for_each(|row| text.push_str(&format!("user-1@a-0.example,a note of row {row}\n")));
    text.into_bytes()
}

/// Holds the connections, and measures the memory of the server and the answers to a good client meanwhile.
fn hold(
    opening: &[u8],
    size: &UnreadSize,
    serve: &Serve,
    (server, key): (&ServerEndpoint, &str),
    most_mib: u64,
) -> Result<String, String> {
    let is_short = opening.len() < 4096;
    let sent = if is_short { opening.repeat(PIPELINED) } else { opening.to_vec() };
    let ended = AtomicBool::new(false);
    let (opened, waits, peak_kib, kernel) = std::thread::scope(|scope| {
        let openers: Vec<_> = (0..OPENERS)
            .map(|number| {
                let (sent, ended) = (&sent, &ended);
                scope.spawn(move || keep_open(server, sent, size, number, ended))
            })
            .collect();
        let good = scope.spawn(|| good_client(server, key, &ended));
        let began = Instant::now();
        let (mut peak_kib, mut kernel) = (0, 0);
        let mut last = None;
        let watched = loop {
            match serve.resident_kib().and_then(|now| interrupted().map(|()| now)) {
                Ok(now) => (peak_kib, kernel) = (peak_kib.max(now), kernel.max(kernel_mib())),
                Err(failure) => break Err(failure),
            }
            let open = openers.iter().all(|opener| opener.is_finished());
            if open && last.get_or_insert_with(Instant::now).elapsed() > size.stay
                || began.elapsed() > Duration::from_secs(120)
            {
                break Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        ended.store(true, Ordering::Relaxed);
        let streams: Vec<Vec<Stream>> =
            openers.into_iter().map(|opener| opener.join().unwrap_or_default()).collect();
        let opened: usize = streams.iter().map(Vec::len).sum();
        let waits = good.join().unwrap_or_else(|_| Err("it panicked".into()));
        watched.map(|()| (opened, waits, peak_kib, kernel))
    })?;
    let waits = waits.map_err(|why| format!("the good client got no answer: {why}"))?;
    let longest = waits.iter().max().copied().unwrap_or_default();
    let figures = format!(
        "{opened} connections, {} MiB resident (at most {most_mib}), {} MiB in the kernel, a good client waits {:.0} ms at most",
        peak_kib / 1024,
        kernel,
        millis(longest),
    );
    let held = peak_kib / 1024 <= most_mib && longest <= size.answered_within && !waits.is_empty();
    outcome(held, figures)
}

/// Opens this thread's part of the connections, and opens those again that the server closes, until every one was open once more.
fn keep_open(
    server: &ServerEndpoint,
    sent: &[u8],
    size: &UnreadSize,
    number: usize,
    ended: &AtomicBool,
) -> Vec<Stream> {
    let mut streams = Vec::new();
    for place in (number..size.connections).step_by(OPENERS) {
        if ended.load(Ordering::Relaxed) {
            break;
        }
        // A full backlog refuses the connection.
        streams.extend(connect(server, place, sent).ok());
    }
    for (place, stream) in streams.iter_mut().enumerate() {
        if is_ended(stream)
            && !ended.load(Ordering::Relaxed)
            && let Ok(again) = connect(server, number + place * OPENERS, sent)
        {
            *stream = again;
        }
    }
    streams
}

/// Whether the server has closed the connection, without reading from it.
fn is_ended(stream: &Stream) -> bool {
    let mut told = rustix::event::PollFd::new(stream.tcp(), rustix::event::PollFlags::RDHUP);
    let polled =
        rustix::event::poll(std::slice::from_mut(&mut told), Some(&rustix::event::Timespec::default()));
    polled.is_ok_and(|ready| ready > 0)
}

fn connect(server: &ServerEndpoint, place: usize, sent: &[u8]) -> io::Result<Stream> {
    let address = Ipv4Addr::new(127, 0, 1, 1 + (place % ADDRESSES) as u8);
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_recv_buffer_size(RECEIVE_BYTES)?;
    socket.bind(&SocketAddr::new(IpAddr::V4(address), 0).into())?;
    socket.connect_timeout(&server.address.into(), CONNECT_LIMIT)?;
    let mut stream = server.over(socket.into(), CONNECT_LIMIT)?;
    stream.tcp().set_nonblocking(true)?;
    let mut rest = sent;
    let began = Instant::now();
    while !rest.is_empty() {
        match stream.write(rest) {
            Ok(length) => rest = &rest[length..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                // The server reads a body only as far as it has room for it.
                if began.elapsed() > Duration::from_millis(500) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            // It was closed already: the next turn opens it again.
            Err(_) => break,
        }
    }
    let _ = stream.flush();
    Ok(stream)
}

/// Asks for the reference and for a fast check in turns, each on a new connection, and returns how long each answer took.
fn good_client(server: &ServerEndpoint, key: &str, ended: &AtomicBool) -> Result<Vec<Duration>, String> {
    let mut waits = Vec::new();
    while !ended.load(Ordering::Relaxed) {
        for path in ["/docs", "/v1/verify?mode=fast&email=user-1@a-0.example"] {
            let began = Instant::now();
            let request = HttpRequest::get(path).bearer(key).header("Connection", "close");
            let answer = HttpClient::program(server.clone()).ask(&request)?;
            ensure!(answer.status == 200, "{path}: {answer}");
            waits.push(began.elapsed());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(waits)
}

/// The memory of all TCP sockets of this machine in the kernel, in MiB; 0 if it is not known.
fn kernel_mib() -> u64 {
    let text = std::fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("TCP:")).unwrap_or_default();
    let mut words = line.split_whitespace().skip_while(|word| *word != "mem").skip(1);
    words.next().and_then(|pages| pages.parse::<u64>().ok()).map_or(0, |pages| pages * 4 / 1024)
}
