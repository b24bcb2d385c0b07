//! Bounces as servers make them (RFC 3464), with their true meaning.

use crate::{Bounce, Cause, Meaning};
use fastrand::Rng;

/// A message with its meaning.
pub(super) struct Sample {
    pub name: String,
    pub meaning: Meaning,
    pub bytes: Vec<u8>,
}

/// A refusal with its true meaning, as a line of `testdata/refusals.txt`.
pub(super) struct Refusal {
    pub meaning: Meaning,
    pub status: &'static str,
    pub host: &'static str,
    pub reply: String,
}

pub(super) fn refusals() -> Vec<Refusal> {
    let lines = include_str!("../../testdata/refusals.txt").lines();
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(refusal).collect()
}

fn refusal(line: &'static str) -> Refusal {
    let (head, reply) = line.split_once(" | ").unwrap();
    let [meaning, status, host] = head.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
    let meaning = match meaning {
        "not_found" => Meaning::Definite(Bounce::NotFound),
        "disabled" => Meaning::Definite(Bounce::Disabled),
        "dead" => Meaning::Definite(Bounce::DomainDead),
        "full" => Meaning::Failed(Cause::Full),
        "policy" => Meaning::Failed(Cause::Policy),
        "temporary" => Meaning::Failed(Cause::Temporary),
        "message" => Meaning::Failed(Cause::Message),
        _ => panic!("{line}"),
    };
    Refusal { meaning, status, host, reply: reply.replace("\\n", "\n") }
}

/// The server that would write a bounce in this form.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Server {
    Postfix,
    Exim,
    Sendmail,
    Exchange,
    Gmail,
    Yahoo,
    Ses,
    OpenSmtpd,
    Haraka,
    Domino,
}

use Server::*;

const SERVERS: [Server; 10] =
    [Postfix, Exim, Sendmail, Exchange, Gmail, Yahoo, Ses, OpenSmtpd, Haraka, Domino];

/// Texts for people in several languages, with their charset and bytes.
const NOTICES: [(&str, &str, &[u8]); 6] = [
    ("us-ascii", "7bit", b"I'm sorry to have to inform you that your message could not be delivered."),
    ("utf-8", "8bit", "Ihre Nachricht konnte nicht zugestellt werden: Empfänger.".as_bytes()),
    ("iso-8859-1", "8bit", b"Votre message n'a pas pu \xeatre remis \xe0 ses destinataires."),
    ("iso-2022-jp", "7bit", b"\x1b$B%a!<%k\x1b(B"),
    ("koi8-r", "8bit", b"\xf3\xcf\xcf\xc2\xdd\xc5\xce\xc9\xc5"),
    ("utf-8", "base64", b"5oqV6YCS5aSx6LSl"),
];

/// What a sample reports, beside refusals.
const SUCCESSES: [(&str, &str, Meaning); 4] = [
    ("delivered", "2.0.0", Meaning::Delivered),
    ("relayed", "2.1.9", Meaning::Delivered),
    ("expanded", "2.1.5", Meaning::Passed),
    ("delivered", "2.1.5", Meaning::Delivered),
];

/// Makes a number of samples.
pub(super) fn samples(count: usize, seed: u64) -> Vec<Sample> {
    let (mut random, refusals) = (Rng::with_seed(seed), refusals());
    // Each refusal meets each server.
    (0..count).map(|n| sample(n, &refusals[(n / SERVERS.len() + n) % refusals.len()], &mut random)).collect()
}

/// One sample in eight is about a success.
fn sample(n: usize, refusal: &Refusal, random: &mut Rng) -> Sample {
    let server = SERVERS[n % SERVERS.len()];
    let address = address(random);
    let (name, meaning, group) = match random.u8(0..8) {
        0 => {
            let (action, status, meaning) = SUCCESSES[random.usize(..SUCCESSES.len())];
            (action.to_owned(), meaning, success(&address, action, status))
        }
        1 if refusal.status.starts_with('4') => {
            let group = failure(server, refusal, &address).replace("failed", "delayed");
            ("delayed".to_owned(), Meaning::Delayed, group)
        }
        2 if server == Ses => {
            ("suppressed".to_owned(), Meaning::Failed(Cause::Suppressed), suppressed(&address))
        }
        _ => (refusal.reply.clone(), refusal.meaning, failure(server, refusal, &address)),
    };
    let readable = readable(server, refusal, &address);
    let bytes = render(server, &group, &readable, &address, random);
    Sample { name: format!("{n} {server:?} {name}"), meaning, bytes }
}

fn address(random: &mut Rng) -> String {
    let locals =
        ["joe", "Ann.Lee", "o'neil", "spam-report", "user+tag", "quota", "550", "blocked", "no-such-user"];
    let domains =
        ["example.com", "example.org", "mail.example.net", "greylist.example", "policy-mail.example"];
    format!(
        "{}{}@{}",
        locals[random.usize(..locals.len())],
        random.u16(..),
        domains[random.usize(..domains.len())]
    )
}

fn success(address: &str, action: &str, status: &str) -> String {
    format!("Final-Recipient: rfc822; {address}\nAction: {action} (to mailbox)\nStatus: {status}\n")
}

fn suppressed(address: &str) -> String {
    format!(
        "Final-Recipient: rfc822;{address}\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: Amazon SES has suppressed sending to \
         this address because it has a recent history of bouncing as an invalid address.\n"
    )
}

fn failure(server: Server, refusal: &Refusal, address: &str) -> String {
    group(&format!("{server:?}"), refusal, address)
}

/// The group of a recipient in the report of a server.
pub(super) fn group(server: &str, refusal: &Refusal, address: &str) -> String {
    let Refusal { status, host, .. } = refusal;
    let reply = refusal.reply.replace("{}", address);
    // How the lines of a reply are folded differs.
    let folded = match server {
        "Postfix" | "Exim" | "Domino" => reply.replace('\n', "\n    "),
        "Gmail" | "Haraka" => reply.replace('\n', "\n "),
        _ => reply.replace('\n', " "),
    };
    let sections = include_str!("../../testdata/servers.txt").split("== ").skip(1);
    let mut groups = sections.map(|section| section.split_once('\n').unwrap());
    let (_, group) = groups.find(|(name, _)| *name == server).unwrap();
    let values = [
        ("{address}", address),
        // Original recipients are in the form of RFC 3461 4.
        ("{xtext}", &address.replace('+', "+2B")),
        ("{status}", status),
        ("{class}", &status[..1]),
        ("{host}", host),
        ("{reply}", &folded),
    ];
    values.iter().fold(group.to_owned(), |group, (name, value)| group.replace(name, value))
}

/// The text for people.
fn readable(server: Server, refusal: &Refusal, address: &str) -> String {
    let reply = refusal.reply.replace("{}", address);
    match server {
        OpenSmtpd => {
            format!("\n\n    Below is the reason:\n\n{address}: {reply}\n\n    Your message follows.\n")
        }
        Exim => format!(
            "\n\n  {address}\n    SMTP error from remote mail server after RCPT TO:<{address}>:\n    {reply}\n"
        ),
        Postfix => format!("\n\n<{address}>: host {}[192.0.2.7] said: {reply}\n", refusal.host),
        _ => format!("\n\n{address}\n"),
    }
}

fn render(server: Server, group: &str, readable: &str, address: &str, random: &mut Rng) -> Vec<u8> {
    let (charset, encoding, notice) = NOTICES[random.usize(..NOTICES.len())];
    let (charset, encoding, notice) = match server {
        // Its words are needed, so they are not in base64.
        OpenSmtpd => NOTICES[0],
        _ => (charset, encoding, notice),
    };
    let boundary = format!("{}/=_{}", random.u32(..), random.u32(..));
    let part = match random.u8(0..4) {
        0 => ("message/global-delivery-status", group.replace("rfc822;", "utf-8;")),
        _ => ("message/delivery-status", group.to_owned()),
    };
    let status = format!(
        "Reporting-MTA: dns; mail.sender.example\nArrival-Date: Wed, 25 Nov 2026 08:00:00 +0000\n\n{}\n",
        part.1
    );
    let (status_encoding, status) = match random.u8(0..5) {
        0 => ("base64", base64(status.as_bytes())),
        1 => (
            "quoted-printable",
            status.replace('=', "=3D").replace('\u{e4}', "=C3=A4").replace("failed", "fai=\nled"),
        ),
        _ => ("8bit", status),
    };
    let mut bytes = format!(
        "Return-Path: <>\nDate: Wed, 25 Nov 2026 10:00:00 +0100\nFrom: Mail Delivery System <mailer-daemon@mail.sender.example>\nTo: \
         news@sender.example\nSubject: Undelivered Mail Returned to Sender\nMIME-Version: 1.0\nContent-Type: multipart/report; \
         report-type=delivery-status;\n\tboundary=\"{boundary}\"\nMessage-Id: <{address}.x@mail.sender.example>\n\nThis is a \
         MIME-encapsulated message.\n\n--{boundary}\nContent-Type: text/plain; charset={charset}\nContent-Transfer-Encoding: \
         {encoding}\n\n"
    )
    .into_bytes();
    bytes.extend_from_slice(notice);
    // The words of a base64 text would end it.
    if encoding != "base64" {
        bytes.extend_from_slice(readable.as_bytes());
    }
    let rest = format!(
        "\n\n--{boundary}\nContent-Description: Delivery report\nContent-Type: {}\nContent-Transfer-Encoding: \
         {status_encoding}\n\n{status}\n--{boundary}\nContent-Type: message/rfc822\n\nFrom: news@sender.example\nTo: \
         {address}\nSubject: News\n\nStatus: 5.1.1\nAction: failed\n\n--{boundary}--\n",
        part.0
    );
    bytes.extend_from_slice(rest.as_bytes());
    if random.bool() { with_crlf(&bytes) } else { bytes }
}

fn with_crlf(bytes: &[u8]) -> Vec<u8> {
    let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    lines.join(&b"\r\n"[..])
}

fn base64(bytes: &[u8]) -> String {
    let text = data_encoding::BASE64.encode(bytes).into_bytes();
    let lines: Vec<&[u8]> = text.chunks(76).collect();
    String::from_utf8(lines.join(&b'\n')).unwrap()
}
