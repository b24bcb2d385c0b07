//! Clients that send too many or malformed requests. Each kind continues until `ended` is set.

use super::super::assistants::tools;
use super::super::client::{HttpClient, HttpRequest};
use super::super::crowd::{each, joined, repeat};
use super::super::downloads::{DownloadCounts, DownloadLoad, Owners};
use super::super::slow_peers::{Habit, Siege};
use super::super::transport::ServerEndpoint;
use super::answers::{self, AnswerCounts};
use super::shapes::{self, Shape};
use crate::failure::{Context, Failure, ensure};
use crate::interop::process::interrupted;
use crate::interop::report;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// How many connections send many requests at once, and how many requests each sends.
const PIPELINES: usize = 20;
const REQUESTS: usize = 1_000;
/// How many clients send too many fields, or reset their connections.
const FEW: usize = 4;
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
const ANSWER_LIMIT: Duration = Duration::from_secs(90);

/// A kind of abuse beside which good clients are measured.
pub struct Greed {
    /// The name of the kind in the report.
    pub name: &'static str,
    /// Whether it uses all of the processor, so that other processes wait for it.
    pub takes_all_cpu: bool,
    /// Continues until the flag is set, and returns a line for the report. An answer that is not allowed is an error.
    pub run: fn(&Means<'_>, &AtomicBool) -> Result<String, Failure>,
}

/// All kinds of abuse in the order of the campaign.
pub const ALL: [Greed; 7] = [
    Greed { name: "unread documents, answers, pages, MCP and downloads", takes_all_cpu: true, run: unread },
    Greed {
        name: "unfinished bodies",
        takes_all_cpu: false,
        run: |means, ended| Ok(slow_peers(means, ended, &unfinished(means))),
    },
    Greed { name: "10,000 header fields", takes_all_cpu: false, run: fields },
    Greed { name: "malformed requests", takes_all_cpu: false, run: malformed },
    Greed { name: "20 connections with 1,000 pipelined requests each", takes_all_cpu: true, run: pipelines },
    Greed { name: "resets in the handshake and in the head", takes_all_cpu: false, run: resets },
    Greed {
        name: "downloads of blank lines",
        takes_all_cpu: false,
        run: |means, ended| downloads(means, means.bombs, ended),
    },
];

/// The target of the abuse, and the secrets and requests for it.
pub struct Means<'m> {
    pub server: ServerEndpoint,
    pub owners: &'m Owners,
    /// A key whose requests cost nothing.
    pub key: String,
    /// An access token of an assistant.
    pub token: String,
    /// The request for a page of a signed-in user.
    pub page: Vec<u8>,
    /// The request of an upload.
    pub upload: Vec<u8>,
    pub shapes: Vec<Shape>,
    /// The number of connections of one kind of slow peers.
    pub members: usize,
    /// The length of the silence that ends the answers.
    pub quiet: Duration,
    pub bombs: DownloadLoad,
}

fn slow_peers(means: &Means<'_>, ended: &AtomicBool, habits: &[Habit]) -> String {
    let siege = Siege::default();
    let members = means.members.div_ceil(habits.len());
    std::thread::scope(|scope| {
        for habit in habits {
            scope.spawn(|| siege.hold(habit, members, &means.server));
        }
        while !ended.load(Ordering::Relaxed) && interrupted().is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
        siege.ended.store(true, Ordering::Relaxed);
    });
    let (open, cut_off) = (siege.open.load(Ordering::Relaxed), siege.cut_off.load(Ordering::Relaxed));
    format!("{open} connections, {cut_off} cut off")
}

fn unread(means: &Means<'_>, ended: &AtomicBool) -> Result<String, Failure> {
    let program = HttpClient::program(means.server.clone());
    let api = |path: &str| program.encode(&HttpRequest::get(path).bearer(&means.key));
    let requests = [
        api("/docs"),
        api("/v1/openapi.json"),
        api("/v1/account"),
        means.page.clone(),
        program.encode(&tools(&means.token)),
    ];
    let habits: Vec<Habit> = requests.iter().map(|request| Habit::unread(request)).collect();
    let load = DownloadLoad { bombs: 0, unread: means.bombs.unread };
    std::thread::scope(|scope| {
        let held = scope.spawn(|| downloads(means, load, ended));
        let slow_peers = slow_peers(means, ended, &habits);
        Ok(format!("{slow_peers}; {}", joined(held)?))
    })
}

/// Half of a check, of a chunk, of an upload and of a message to MCP.
fn unfinished(means: &Means<'_>) -> Vec<Habit> {
    let head = format!("POST /v1/verify HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {}\r\n", means.key);
    let program = HttpClient::program(means.server.clone());
    let half = |bytes: Vec<u8>| bytes[..bytes.len() - 20].to_vec();
    vec![
        Habit::unfinished(format!("{head}Content-Length: 10000\r\n\r\n{{").into_bytes()),
        Habit::unfinished(format!("{head}Transfer-Encoding: chunked\r\n\r\nfff\r\n{{").into_bytes()),
        Habit::unfinished(half(means.upload.clone())),
        Habit::unfinished(half(program.encode(&tools(&means.token)))),
    ]
}

fn fields(means: &Means<'_>, ended: &AtomicBool) -> Result<String, Failure> {
    let request = format!("GET /livez HTTP/1.1\r\nHost: t\r\n{}\r\n", shapes::fields());
    let sent = repeat(FEW, ended, |_| {
        let answers = answers::of(&means.server, request.as_bytes(), means.quiet);
        judge("10,000 fields", &answers.about("10,000 fields")?, &[400, 431])
    })?;
    Ok(format!("{sent} requests"))
}

/// Checks that there is at most one answer, with an allowed status.
fn judge(name: &str, answers: &AnswerCounts, may: &[u16]) -> Result<(), Failure> {
    let right = match answers.statuses.as_slice() {
        [] => answers.closed,
        // A busy server may refuse any request.
        [status] => may.contains(status) || *status == 503,
        _ => false,
    };
    if right && answers.rest.is_empty() {
        return Ok(());
    }
    let rest = String::from_utf8_lossy(&answers.rest);
    Err(Failure(format!("{name}: {:?}, then {rest:?}; may be {may:?}", answers.statuses)))
}

/// Sends all shapes, one round after the other; at least one round.
fn malformed(means: &Means<'_>, ended: &AtomicBool) -> Result<String, Failure> {
    let mut rounds = 0;
    let mut faults: Vec<String> = Vec::new();
    while faults.is_empty() && (rounds == 0 || !ended.load(Ordering::Relaxed)) {
        let ends = each(means.shapes.len(), means.shapes.len(), |number| {
            let Shape { name, bytes, may } = &means.shapes[number];
            let answers = answers::of(&means.server, bytes, means.quiet);
            judge(name, &answers.about(name)?, may)
        })?;
        faults.extend(ends.into_iter().filter_map(|end| end.err().map(String::from)));
        rounds += 1;
    }
    Ok(report::faultless(format!("{} shapes, {rounds} rounds", means.shapes.len()), &faults)?)
}

fn pipelines(means: &Means<'_>, ended: &AtomicBool) -> Result<String, Failure> {
    let live = "GET /livez HTTP/1.1\r\nHost: t\r\n\r\n".to_owned();
    let account =
        format!("GET /v1/account HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {}\r\n\r\n", means.key);
    let requests = [live.repeat(REQUESTS), account.repeat(REQUESTS)];
    let whole = repeat(PIPELINES, ended, |number| {
        let wrong = |what: &dyn std::fmt::Display| Failure(format!("pipelined requests: {what}"));
        let mut stream = means.server.connect(CONNECT_LIMIT).about("pipelined requests")?;
        let timed = stream.tcp().set_read_timeout(Some(ANSWER_LIMIT));
        timed.and_then(|()| stream.write_all(requests[number % 2].as_bytes())).about("pipelined requests")?;
        let (mut answered, mut came, mut piece) = (0, Vec::new(), vec![0; 64 * 1024]);
        while answered < REQUESTS {
            let length = stream.read(&mut piece).about("pipelined requests")?;
            if length == 0 {
                return Err(wrong(&format!("closed after {answered} answers")));
            }
            came.extend_from_slice(&piece[..length]);
            let answers = answers::split(&came);
            // The list has more rows than the plan allows.
            if let Some(other) = answers.statuses.iter().find(|status| !matches!(**status, 200 | 429)) {
                return Err(wrong(other));
            }
            answered += answers.statuses.len();
            came = answers.rest;
        }
        if answered == REQUESTS { Ok(()) } else { Err(wrong(&format!("{answered} answers"))) }
    })?;
    ensure!(whole > 0, "pipelined requests: none were answered to their end");
    Ok(format!("{whole} times 1,000 answers"))
}

/// Resets connections: over TLS in an incomplete, a valid or a malformed handshake, otherwise in a head.
fn resets(means: &Means<'_>, ended: &AtomicBool) -> Result<String, Failure> {
    let head = b"GET /docs HTTP/1.1\r\nHost: t\r\n\r\nGET /docs HTT".to_vec();
    let hello = match means.server.client_hello() {
        Ok(hello) => hello,
        Err(error) => return Err(Failure(format!("a ClientHello: {error}"))),
    };
    let half = hello.get(..hello.len() / 2).unwrap_or_default().to_vec();
    let nonsense = [&[0x16, 3, 1, 2, 0][..], &[0xff; 600]].concat();
    let says = if means.server.is_over_tls() { vec![hello, half, nonsense, head] } else { vec![head] };
    let next = AtomicUsize::new(0);
    let sent = repeat(FEW, ended, |_| {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let reset = || -> io::Result<()> {
            let mut stream = TcpStream::connect_timeout(&means.server.address, CONNECT_LIMIT)?;
            stream.write_all(&says[number % says.len()])?;
            if number % 8 > 3 {
                // Some connections wait until the server has sent bytes.
                stream.set_read_timeout(Some(Duration::from_millis(20)))?;
                let _ = stream.read(&mut [0; 64]);
            }
            // Closing the connection now resets it.
            socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO))
        };
        reset().or_else(|error| match error.kind() {
            // The server closed the connection before.
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Ok(()),
            _ => Err(Failure(format!("a reset: {error}"))),
        })?;
        std::thread::sleep(Duration::from_millis(2));
        Ok(())
    })?;
    Ok(format!("{sent} resets"))
}

fn downloads(means: &Means<'_>, load: DownloadLoad, ended: &AtomicBool) -> Result<String, Failure> {
    let counts = DownloadCounts::default();
    means.owners.download(&means.server, load, ended, &counts)?;
    let [whole, begun, refused] =
        [&counts.whole, &counts.begun, &counts.refused].map(|counter| counter.load(Ordering::Relaxed));
    ensure!(load.bombs == 0 || whole > 0, "no download was read to its end");
    Ok(format!("{whole} downloads read to their end, {begun} begun and not read, {refused} answers 503"))
}
