//! The attacks: each takes as much of one shared thing as free accounts, or strangers without one, are allowed to.

use super::super::api::Api;
use super::super::client::{HttpClient, HttpReply, HttpRequest};
use super::super::crowd::{host, lock, repeat};
use super::super::transport::ServerEndpoint;
use super::super::visitor::Visitor;
use crate::failure::{Context, Failure, ensure};
use serde_json::json;
use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The most clients of an attack at the same time.
const CLIENTS: usize = 48;
/// Niceness of the attackers' threads.
const NICE: i32 = 10;
/// How long a connection that reads nothing stays before it is opened again.
const UNREAD_TIME: Duration = Duration::from_secs(25);
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// The pause of a client after a refusal: a real one could not do more either, and shares the machine with the server here.
const PAUSE: Duration = Duration::from_millis(20);

/// An attack on one of the things that accounts and strangers share.
pub struct Attack {
    /// The name in the report, and for `--only`.
    pub name: &'static str,
    /// Whether the attack uses up a share whose refusal has to name it.
    pub must_name_share: bool,
    /// Goes on until the flag is set. An error: it cannot be set up.
    pub run: fn(&Attackers, &Answers, &AtomicBool) -> Result<(), Failure>,
}

const fn attack(
    name: &'static str,
    run: fn(&Attackers, &Answers, &AtomicBool) -> Result<(), Failure>,
) -> Attack {
    Attack { name, must_name_share: false, run }
}

/// All attacks in the order of the campaign.
pub const ALL: [Attack; 11] = [
    attack("fast checks of all keys of an account", |by, answers, ended| {
        clients(CLIENTS, ended, |number| {
            let body = json!({ "email": "a@a-1.example", "mode": "fast" });
            call(by, answers, by.live_key(number), "/v1/verify", &body);
        })
    }),
    Attack {
        name: "batches of test keys with the longest addresses",
        must_name_share: true,
        run: |by, answers, ended| {
            let long = |n: usize| format!("{n:0>64}@{0}.{0}.{1}.com", "d".repeat(63), "d".repeat(56));
            let emails: Vec<String> = (0..200).map(long).collect();
            let body = json!({ "emails": emails });
            clients(CLIENTS, ended, |number| {
                call(by, answers, &by.test[number % by.test.len()], "/v1/verify/batch", &body);
            })
        },
    },
    Attack {
        name: "announced uploads of many accounts",
        must_name_share: true,
        run: |by, answers, ended| {
            let body = json!({ "bytes": 100 << 20, "name": "x.csv" });
            clients(CLIENTS, ended, |number| call(by, answers, by.live_key(number), "/v1/lists", &body))
        },
    },
    attack("uploads without an end", |by, answers, ended| {
        clients(CLIENTS, ended, |number| {
            let head = format!(
                "POST /v1/lists HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {}\r\nContent-Type: text/csv\r\n\
                 Transfer-Encoding: chunked\r\n\r\n",
                by.live_key(number)
            );
            let chunk = format!("8000\r\n{}\r\n", "a".repeat(0x8000));
            hold(&by.server, source(number), &[head, chunk].concat(), Some(answers), ended);
        })
    }),
    attack("small spreadsheets with much work", |by, answers, ended| {
        let books = books().about("a spreadsheet")?;
        clients(CLIENTS / 4, ended, |number| {
            let book = books[number % books.len()].as_slice();
            let request = HttpRequest::new("POST", "/v1/lists", book);
            note(answers, Api::new(by.server.address, by.live_key(number)).send(request));
        })
    }),
    attack("wrong passwords from many networks", |by, answers, ended| {
        clients(CLIENTS, ended, |number| {
            let fields = [("email", "victim@people.example"), ("password", "a wrong password")];
            form(&by.server.at_source(source(number)), answers, "/signin", &fields);
        })
    }),
    attack("sign-ups from many networks", |by, answers, ended| {
        clients(CLIENTS, ended, |number| {
            let email = format!("taker-{}@people.example", fastrand::u64(..));
            let fields = [("email", email.as_str()), ("password", "correct horse battery")];
            form(&by.server.at_source(source(number)), answers, "/signup", &fields);
        })
    }),
    attack("metadata of assistants on silent hosts", |by, answers, ended| {
        clients(CLIENTS, ended, |number| {
            let client = format!("https%3A%2F%2Flocalhost%3A{}%2Fc{number}", by.silent.port());
            let path = format!("/oauth/authorize?response_type=code&client_id={client}&redirect_uri=x");
            let mut browser = by.visitors[number % by.visitors.len()].client();
            note(answers, browser.send(&HttpRequest::get(path)));
        })
    }),
    attack("webhooks with silent hosts", webhooks),
    attack("answers that nobody reads", |by, _, ended| {
        let request = "GET /docs HTTP/1.1\r\nHost: t\r\n\r\n".repeat(4);
        clients(by.connections, ended, |number| hold(&by.server, source(number), &request, None, ended))
    }),
    attack("connections that say nothing", |by, _, ended| {
        clients(by.connections, ended, |number| hold(&by.server, source(number), "", None, ended))
    }),
];

/// The attackers: what they have.
pub struct Attackers {
    pub server: ServerEndpoint,
    /// Live keys of free accounts: one of each, and several more of the first one.
    pub live: Vec<String>,
    /// Test keys of the first account.
    pub test: Vec<String>,
    /// Users with accounts of their own.
    pub visitors: Vec<Visitor>,
    /// The connections of an attack that only holds them.
    pub connections: usize,
    /// A host that accepts connections and says nothing.
    pub silent: SocketAddr,
}

/// The answers of the server to an attack: how many of each status, and one text of each refusal.
#[derive(Default)]
pub struct Answers {
    counts: Mutex<BTreeMap<u16, (u64, String)>>,
}

impl Answers {
    fn note(&self, status: u16, text: &str) {
        let mut counts = lock(&self.counts);
        let (count, first) = counts.entry(status).or_default();
        *count += 1;
        // The words about a share are those that matter.
        if first.is_empty() || (text.contains("share") && !first.contains("share")) {
            *first = text.chars().take(200).collect();
        }
    }

    /// A line for the report, or what is wrong: another error of the server than 503, or no refusal that names a share where there
    /// must be one.
    pub fn judge(&self, must_name_share: bool) -> Result<String, String> {
        let counts = lock(&self.counts);
        let line =
            counts.iter().map(|(status, (count, _))| format!("{count} x {status}")).collect::<Vec<_>>();
        let line = line.join(", ");
        if let Some((status, (_, text))) =
            counts.iter().find(|(status, _)| **status >= 500 && **status != 503)
        {
            return Err(format!("{line}; {status}: {text}"));
        }
        let named = [413, 429]
            .iter()
            .any(|status| counts.get(status).is_some_and(|(_, text)| text.contains("share")));
        ensure!(named || !must_name_share, "{line}; no refusal names the share: {:?}", *counts);
        Ok(line)
    }
}

impl Attackers {
    fn live_key(&self, number: usize) -> &str {
        &self.live[number % self.live.len()]
    }
}

/// Each account has as many endpoints as it may have, whose host never answers, and asks for messages to them.
fn webhooks(by: &Attackers, answers: &Answers, ended: &AtomicBool) -> Result<(), Failure> {
    let address = by.server.address;
    let mut endpoints = Vec::new();
    for key in &by.live {
        for number in 0..10 {
            let url = format!("http://{}/{number}", by.silent);
            let made = Api::new(address, key).post("/v1/webhooks", &json!({ "url": url }))?;
            if made.status != 201 {
                answers.note(made.status, &made.text());
                break;
            }
            endpoints.push((key, format!("/v1/webhooks/{}/test", made.word("webhook_id"))));
        }
    }
    clients(CLIENTS, ended, |number| {
        if let Some((key, path)) = endpoints.get(number * endpoints.len() / CLIENTS) {
            call(by, answers, key, path, &json!({}));
        }
    })
}

/// Runs a client in each of some threads, again and again until `ended`.
fn clients(count: usize, ended: &AtomicBool, client: impl Fn(usize) + Sync) -> Result<(), Failure> {
    repeat(count, ended, |number| {
        // Attackers have machines of their own: here they must not take the server's processor. If this fails, they do.
        let _ = rustix::process::setpriority_process(None, NICE);
        client(number);
        thread::sleep(PAUSE);
        Ok(())
    })
    .map(drop)
}

/// An address of loopback for each client, as of a network of its own.
pub fn source(number: usize) -> IpAddr {
    let [high, low] = u16::try_from(number % 65_000).unwrap_or(0).to_be_bytes();
    Ipv4Addr::new(127, 1, high, low.max(1)).into()
}

fn call(by: &Attackers, answers: &Answers, key: &str, path: &str, body: &serde_json::Value) {
    note(answers, Api::new(by.server.address, key).post(path, body));
}

fn note<E>(answers: &Answers, answer: Result<HttpReply, E>) {
    // A connection that the server has closed is no answer, and an attacker tries again.
    if let Ok(answer) = answer {
        answers.note(answer.status, &answer.text());
    }
}

/// Fills in a form of the pages.
fn form(server: &ServerEndpoint, answers: &Answers, path: &str, given: &[(&str, &str)]) {
    let mut browser = HttpClient::browser(server.clone());
    let Ok(shown) = browser.send(&HttpRequest::get(path)) else { return };
    match shown.filled(path, given) {
        Some(request) => note(answers, browser.send(&request)),
        None => answers.note(shown.status, &shown.text()),
    }
}

/// Opens a connection, sends something and reads nothing, until the server closes it or the time is over. `trickle`: goes on
/// sending small pieces, and notes an answer that comes early.
fn hold(server: &ServerEndpoint, source: IpAddr, sent: &str, answers: Option<&Answers>, ended: &AtomicBool) {
    let Ok(mut stream) = server.at_source(source).connect(CONNECT_LIMIT) else { return };
    let _ = stream.tcp().set_write_timeout(Some(Duration::from_millis(200)));
    let _ = stream.write_all(sent.as_bytes());
    let step = Duration::from_millis(100);
    let mut held = Duration::ZERO;
    while !ended.load(Ordering::Relaxed) && held < UNREAD_TIME {
        thread::sleep(step);
        held += step;
        if let Some(answers) = answers {
            let piece = format!("400\r\n{}\r\n", "a".repeat(0x400));
            if stream.write_all(piece.as_bytes()).is_err() {
                let _ = stream.tcp().set_read_timeout(Some(step));
                let mut head = [0; 512];
                let length = stream.read(&mut head).unwrap_or(0);
                let head = String::from_utf8_lossy(&head[..length]).into_owned();
                if let Some(status) = head.get(9..12).and_then(|status| status.parse().ok()) {
                    answers.note(status, &head);
                }
                return;
            }
        }
    }
}

/// Starts a host that accepts connections and never says anything.
///
/// # Errors
///
/// There is no port.
pub fn silent_host() -> Result<SocketAddr, Failure> {
    let mut open = VecDeque::new();
    host("a silent host", move |stream| {
        open.push_back(stream);
        if open.len() > 512 {
            open.pop_front();
        }
    })
}

/// Spreadsheets of some KiB whose conversion takes much more than their bytes suggest, and a line of JSON with many keys.
fn books() -> std::io::Result<Vec<Vec<u8>>> {
    let keys: String = (0..16_000).map(|n| format!("\"k{n}\":{n},")).collect();
    let json =
        format!("{{{keys}\"email\":\"a@a-1.example\"}}\n{}", "{\"email\":\"b@a-1.example\"}\n".repeat(2_000));
    Ok(vec![ods()?, xlsx()?, json.into_bytes()])
}

/// A sheet whose two rows are repeated a million times, with cells that are repeated too.
fn ods() -> std::io::Result<Vec<u8>> {
    let manifest = "<?xml version=\"1.0\"?><manifest:manifest xmlns:manifest=\"urn:oasis:names:tc:opendocument:xmlns:manifest:1.0\"/>";
    zip(&[
        ("mimetype", "application/vnd.oasis.opendocument.spreadsheet"),
        ("META-INF/manifest.xml", manifest),
        ("content.xml", include_str!("../../../soak/spreadsheets/content.xml")),
    ])
}

/// A workbook with thousands of sheets.
fn xlsx() -> std::io::Result<Vec<u8>> {
    let sheet = |n: usize| format!("<sheet name=\"s{n}\" sheetId=\"{n}\" r:id=\"rId1\"/>");
    let cell = |n: usize| format!("<c r=\"A{n}\" t=\"inlineStr\"><is><t>a{n}@a-1.example</t></is></c>");
    let row = |n: usize| format!("<row r=\"{n}\">{}</row>", cell(n));
    let sheets: String = (1..=9_000).map(sheet).collect();
    let rows: String = (1..=2_000).map(row).collect();
    let types = "<?xml version=\"1.0\"?><Types xmlns=\"http://schemas.openxmlformats.org/package/2006/content-types\"/>";
    let workbook = include_str!("../../../soak/spreadsheets/workbook.xml").replace("SHEETS", &sheets);
    let sheet = include_str!("../../../soak/spreadsheets/sheet1.xml").replace("ROWS", &rows);
    zip(&[
        ("[Content_Types].xml", types),
        ("xl/workbook.xml", &workbook),
        ("xl/_rels/workbook.xml.rels", include_str!("../../../soak/spreadsheets/workbook.xml.rels")),
        ("xl/worksheets/sheet1.xml", &sheet),
    ])
}

fn zip(files: &[(&str, &str)]) -> std::io::Result<Vec<u8>> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in files {
        zip.start_file(*name, zip::write::SimpleFileOptions::default())?;
        zip.write_all(content.as_bytes())?;
    }
    Ok(zip.finish()?.into_inner())
}
