//! Changes that do not change the meaning of a reply, and wrong enhanced codes, for every row of testdata/replies.txt and
//! testdata/wordings.txt. A reply that says nothing about a mailbox must not say anything about one after such a change.

use super::classify::{Classification, ReplyView, Us, classify, reason_at_rcpt};
use super::{Reason, Stage};
use crate::smtp::reply::{Reply, ReplyError, ReplyParser};
use crate::smtp::status::EnhancedCode;
use std::fmt;

pub(super) const REPLIES: &str = include_str!("../../testdata/replies.txt");
const WORDINGS: &str = include_str!("../../testdata/wordings.txt");

/// A row of the test data: a reply, and what it means.
pub(super) struct Row {
    pub(super) class: &'static str,
    /// Empty if the row states only the class.
    pub(super) scope: &'static str,
    pub(super) stage: Stage,
    pub(super) mx: &'static str,
    pub(super) reply: Reply,
    /// The file and the line.
    place: String,
    code: u16,
    /// The text on one line. `status` is the enhanced code at its beginning with the space after it, or empty.
    words: String,
    status: String,
}

/// The rows of a file with the numbers of their lines.
pub(super) fn lines(text: &'static str) -> impl Iterator<Item = (&'static str, usize)> {
    text.lines().zip(1..).filter(|(line, _)| !line.is_empty() && !line.starts_with('#'))
}

fn stage(name: &str) -> Stage {
    match name {
        "banner" => Stage::Banner,
        "ehlo" => Stage::Ehlo,
        "mail" => Stage::Mail,
        "rcpt" => Stage::Rcpt,
        other => panic!("no stage {other}"),
    }
}

/// The reply of a row. Only the first line has to have the reply code.
pub(super) fn reply(text: &str) -> Reply {
    let code = &text[..3];
    let lines = text
        .split("\\n")
        .map(|line| line.strip_prefix(code).map_or(line, |rest| rest.get(1..).unwrap_or("")));
    Reply::new(code.parse().expect("a reply code"), &lines.collect::<Vec<_>>().join("\n"))
}

pub(super) fn rows() -> Vec<Row> {
    let replies = lines(REPLIES).map(|(line, number)| {
        let (head, text) = line.split_once(" | ").expect(line);
        let head: Vec<&str> = head.split(' ').collect();
        let [class, scope, name, mx] = head[..] else { panic!("{line}") };
        Row::new([class, scope, mx], stage(name), text, format!("replies.txt:{number}"))
    });
    let wordings = lines(WORDINGS).map(|(line, number)| {
        let (class, text) = line.split_once(' ').expect(line);
        Row::new([class, "", "mx.example.org"], Stage::Rcpt, text, format!("wordings.txt:{number}"))
    });
    replies.chain(wordings).collect()
}

/// The rows with replies to RCPT. Only these can be mistaken for a statement about a mailbox.
fn rows_at_rcpt() -> Vec<Row> {
    rows().into_iter().filter(|row| row.stage == Stage::Rcpt).collect()
}

pub(super) fn assert_none(wrong: &[String]) {
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

impl Row {
    fn new([class, scope, mx]: [&'static str; 3], stage: Stage, text: &str, place: String) -> Row {
        let reply = reply(text);
        let code = reply.code();
        let words = reply.text().split('\n').map(str::trim).collect::<Vec<_>>().join(" ");
        let status = EnhancedCode::find_in(&words, code).map(|status| format!("{status} "));
        let status = status.filter(|status| words.starts_with(status)).unwrap_or_default();
        Row { class, scope, stage, mx, reply, place, code, words, status }
    }

    /// The meaning of a reply that comes in place of the row's reply.
    pub(super) fn classified(&self, reply: &Reply) -> Classification {
        classify(&ReplyView::of_unknown(self.stage, self.mx, reply))
    }

    /// The file and the line.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    fn reason(&self, reply: &Reply) -> Reason {
        reason_at_rcpt(&self.classified(reply))
    }

    /// The text without the enhanced code at its beginning.
    fn bare(&self) -> &str {
        self.words[self.status.len()..].trim_start()
    }

    /// Checks that a changed reply has the same reason as the row, or is unverifiable.
    fn hold(&self, reply: &Reply, what: &str, wrong: &mut Vec<String>) {
        let (meant, found) = (self.reason(&Reply::new(self.code, &self.words)), self.reason(reply));
        if found != meant && found != Reason::Unverifiable {
            let (meant, found, code, text) = (meant.as_str(), found.as_str(), reply.code(), reply.text());
            wrong.push(format!("{}, {what}: {meant} became {found}: {code} {text:?}", self.place));
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {:?}", self.place, self.code, self.reply.text())
    }
}

/// The echoes of testdata/echoes.toml with this name.
fn echoes(name: &str) -> Vec<String> {
    let tables: toml::Table = include_str!("../../testdata/echoes.toml").parse().unwrap();
    tables[name].clone().try_into().unwrap()
}

#[test]
fn an_echoed_address_makes_no_statement() {
    let (mut wrong, echoes) = (Vec::new(), echoes("addresses"));
    for row in rows_at_rcpt() {
        let (status, bare) = (&row.status, row.bare());
        for echo in &echoes {
            for text in [
                format!("{status}{echo}: {bare}"),
                format!("{status}{bare} {echo}"),
                format!("{status}{bare} ({echo})"),
            ] {
                row.hold(&Reply::new(row.code, &text), "echo", &mut wrong);
            }
        }
    }
    assert_none(&wrong);
}

/// Our names and address in the echoes. They occur in no row.
const US: Us<'_> = Us {
    reverse_path: "check@mail-probe.net",
    ehlo: "out3.sender-probe.org",
    source: Some(std::net::IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 77))),
};

/// The address that RCPT named. It occurs in no row.
const RECIPIENT: &str = "carol@rcpt-domain.com";

impl Row {
    fn reason_told(&self, text: &str) -> Reason {
        let reply = Reply::new(self.code, text);
        let (mx, reply) = (self.mx, &reply);
        let view = ReplyView { stage: self.stage, mx, reply, recipient: Some(RECIPIENT), us: US };
        reason_at_rcpt(&classify(&view))
    }

    /// Texts of the row with an echo added at the beginning, at the end, or in the middle and at the end.
    fn with_echo(&self, echo: &str) -> Vec<String> {
        let (status, bare) = (&self.status, self.bare());
        let middle = bare.replacen(". ", &format!(" {echo}. "), 1);
        vec![
            format!("{status}{echo}: {bare}"),
            format!("{status}{echo} {bare}"),
            format!("{status}{bare} {echo}"),
            format!("{status}{bare} ({echo})"),
            format!("{status}{bare}\n{status}{echo}"),
            format!("{status}{middle} {echo}."),
        ]
    }
}

#[test]
fn an_echo_of_us_without_the_recipient_ends_in_no_definite_verdict() {
    let (mut wrong, mut refusals, mut definite) = (Vec::new(), 0, 0);
    let echoes = echoes("us");
    for row in rows_at_rcpt().iter().filter(|row| row.code / 100 != 2) {
        refusals += 1;
        definite += usize::from(row.reason_told(&row.words) != Reason::Unverifiable);
        for text in echoes.iter().flat_map(|echo| row.with_echo(echo)) {
            let reason = row.reason_told(&text);
            if reason != Reason::Unverifiable {
                wrong.push(format!("{}: {}: {} {text:?}", row.place, reason.as_str(), row.code));
            }
        }
    }
    assert_none(&wrong);
    assert!(refusals >= 500 && definite >= 200, "{refusals} refusals, {definite} of them definite");
}

/// In a link or after "relay=", our address is no echo of us. Beside the recipient's address, it does not change the meaning.
#[test]
fn where_the_recipient_is_named_too_or_we_are_in_a_link_the_words_count() {
    let (mut lost, mut definite) = (Vec::new(), 0);
    let beside = echoes("beside");
    // No server would write "no relay=...".
    for row in rows_at_rcpt().iter().filter(|row| row.code / 100 != 2 && row.bare() != "no") {
        let meant = row.reason_told(&row.words);
        definite += usize::from(meant != Reason::Unverifiable);
        for echo in &beside {
            let text = format!("{} {echo}", row.words);
            let found = row.reason_told(&text);
            assert!(found == meant || found == Reason::Unverifiable, "{}: {text:?}", row.place);
            if found != meant {
                lost.push(format!("{}: {} {text:?}", row.place, row.code));
            }
        }
    }
    assert!(lost.len() * 50 < definite, "{} of {definite} lost:\n{}", lost.len(), lost.join("\n"));
}

/// Parses the bytes of a server as a session does.
fn read(bytes: &[u8]) -> Result<Option<Reply>, ReplyError> {
    let mut parser = ReplyParser::default();
    parser.feed(bytes);
    parser.next()
}

#[test]
fn a_line_break_at_any_space_makes_no_statement() {
    let mut wrong = Vec::new();
    for row in rows_at_rcpt() {
        let (code, status, bare) = (row.code, &row.status, row.bare());
        for (at, _) in bare.match_indices(' ') {
            let (first, second) = (&bare[..at], &bare[at + 1..]);
            let shapes = [
                format!("{code}-{status}{first}\r\n{code} {status}{second}\r\n"),
                format!("{code}-{status}{first}\r\n{code} {second}\r\n"),
                format!("{code}-{first}\r\n{code} {status}{second}\r\n"),
                format!("{code}-{status}{first} \r\n{code}  {status}{second} \r\n"),
                format!("{code}-{status}{first}\n{code}-\n{code} {status}{second}\n"),
            ];
            for shape in shapes {
                let reply = read(shape.as_bytes()).expect("no reply").expect("not whole");
                row.hold(&reply, "lines", &mut wrong);
            }
        }
    }
    assert_none(&wrong);
}

#[test]
fn bytes_that_are_no_text_make_no_statement() {
    let mut wrong = Vec::new();
    for row in rows_at_rcpt() {
        let plain = format!("{} {}\r\n", row.code, row.words);
        let after_code = 4 + row.status.len();
        for bytes in [&b"\xff"[..], b"\xc3", b"\xe9", b"\x80\x80", b"\xf0\x9f", b"\x07", b"\x00"] {
            let places = plain.match_indices(' ').map(|(at, _)| at).filter(|at| *at > after_code);
            for at in places.step_by(3) {
                let mut garbled = plain.as_bytes()[..at].to_vec();
                garbled.extend_from_slice(b" ");
                garbled.extend_from_slice(bytes);
                garbled.extend_from_slice(&plain.as_bytes()[at..]);
                // If the parser rejects the bytes, they state nothing.
                if let Ok(Some(reply)) = read(&garbled) {
                    row.hold(&reply, "bytes", &mut wrong);
                }
            }
        }
    }
    assert_none(&wrong);
}

#[test]
fn several_changes_together_make_no_statement() {
    let (mut wrong, mut state) = (Vec::new(), 0x9e37_79b9_7f4a_7c15_u64);
    let echoes = echoes("addresses");
    let mut draw = |most: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % most as u64) as usize
    };
    for row in rows_at_rcpt() {
        for _ in 0..40 {
            let mut text = row.bare().to_owned();
            if draw(2) == 0 {
                text = if draw(2) == 0 { text.to_uppercase() } else { text.to_lowercase() };
            }
            if draw(2) == 0 {
                let echo = &echoes[draw(echoes.len())];
                text = if draw(2) == 0 { format!("{echo}: {text}") } else { format!("{text} {echo}") };
            }
            let every = draw(9) + 1;
            let mut count = 0;
            let lines: String = format!("{}{text}", row.status)
                .chars()
                .map(|c| {
                    count += usize::from(c == ' ');
                    if c == ' ' && count > 1 && count.is_multiple_of(every) { '\n' } else { c }
                })
                .collect();
            row.hold(&Reply::new(row.code, &lines), "several", &mut wrong);
        }
    }
    assert_none(&wrong);
}

/// If the words clearly name another cause, such as us or a temporary problem, a wrong code about the mailbox changes nothing.
#[test]
fn a_wrong_enhanced_code_makes_no_statement_where_the_words_tell() {
    let mut wrong = Vec::new();
    for row in rows_at_rcpt() {
        let (class, bare) = (row.code / 100, row.bare());
        let told = row.classified(&Reply::new(row.code, bare));
        if reason_at_rcpt(&told) != Reason::Unverifiable || told.class == super::Class::Unclear {
            continue;
        }
        // The code X.2.2 (mailbox full) counts against most words. Only words about conduct or a denial override it.
        let full = ["conduct", "denied"].contains(&told.rule).then_some("2.2");
        for status in ["1.1", "1.0", "1.10", "2.1", "1.6", "0.0", "7.1"].into_iter().chain(full) {
            let reply = Reply::new(row.code, &format!("{class}.{status} {bare}"));
            let found = row.classified(&reply);
            if reason_at_rcpt(&found) != Reason::Unverifiable {
                wrong.push(format!("{}, {}: {} {:?}", row.place, found.rule, reply.code(), reply.text()));
            }
        }
    }
    assert_none(&wrong);
}

/// Policy replies: a cause beside a frame, with every invented code and every echo.
#[test]
fn no_invented_code_makes_a_policy_reply_definite() {
    let of_us = "AUTH|Authentication|Login|SASL login|Domain|HELO domain|Host|Hostname|Reverse DNS|PTR|rDNS entry|IP|Client|Relay|\
                 TLS|Certificate|Handshake|SPF|DKIM signature|DMARC alignment|Sender domain|Envelope|Header|Attachment|Payload|\
                 Reputation|Country|Network|Connection|Session|Protocol|License|Firewall|Access|Trust level|Captcha|Challenge|\
                 Greeting|Anti-spam check|Content scan|Postage|Token|Credential|Permission|Traffic|Signature|Origin|Gateway";
    let failed = "FAILED|must resolve|required|mismatch|not trusted|check failed|missing|is not acceptable|violation|forged|\
                  too low|timed out|has no record|untrusted|not whitelisted|unverified|rejected|denied|blocked|not permitted";
    let frames = "{}|User rejected: {}|<carol@rcpt-domain.com>: Recipient address rejected: {}|Rejected - {}|mail refused, {}|\
                  Transaction failed ({})|{}. Contact your administrator|Error: {}, see https://help.example.org/550";
    let echoes =
        ["", " <carol@rcpt-domain.com>", " check@mail-probe.net", " [198.51.100.77]", " <other@example.com>"];
    let statuses = "5.1.1 5.1.0 5.1.2 5.1.3 5.1.4 5.1.6 5.1.10 5.2.0 5.2.1 5.2.2 5.2.4 5.4.4 5.7.13 5.0.0";
    let row = Row::new(["POL", "", "mx.example.org"], Stage::Rcpt, "550 no", String::new());
    let (frames, mut replies, mut wrong) = (Vec::from_iter(frames.split('|')), 0, Vec::new());
    for (subject, cause) in of_us.split('|').flat_map(|of| failed.split('|').map(move |failed| (of, failed)))
    {
        replies += 1;
        for (at, status) in statuses.split(' ').enumerate() {
            for (frame, echo) in [("{}", at), (frames[(replies + at) % frames.len()], replies)] {
                let text = frame.replace("{}", &format!("{subject} {cause}"));
                let text = format!("{status} {text}{}", echoes[echo % echoes.len()]);
                let reason = row.reason_told(&text);
                if reason != Reason::Unverifiable {
                    wrong.push(format!("{}: {text}", reason.as_str()));
                }
            }
        }
    }
    assert!(replies >= 500, "{replies} replies");
    assert_none(&wrong);
}
