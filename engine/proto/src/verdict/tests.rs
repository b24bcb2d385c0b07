//! What a server can do to a text without meaning anything else, and what a careless one does to its codes: done to every
//! row of testdata/replies.txt and testdata/wordings.txt. A reply that said nothing about a mailbox must say nothing
//! about it then.

use super::classify::{ReplyView, Us, classify, reason_at_rcpt};
use super::{Reason, Stage};
use crate::smtp::reply::{Reply, ReplyError, ReplyParser};
use crate::smtp::status::EnhancedCode;

struct Row {
    stage: Stage,
    mx: &'static str,
    code: u16,
    /// The words on one line, and the enhanced code that they begin with, if they do.
    words: String,
    status: Option<String>,
    place: String,
}

fn rows() -> Vec<Row> {
    let files = [
        ("replies.txt", include_str!("../../testdata/replies.txt")),
        ("wordings.txt", include_str!("../../testdata/wordings.txt")),
    ];
    let mut rows = Vec::new();
    for (file, text) in files {
        for (line, number) in
            text.lines().zip(1..).filter(|(line, _)| !line.is_empty() && !line.starts_with('#'))
        {
            let (head, reply) = line.split_once(" | ").or_else(|| line.split_once(' ')).expect(line);
            let mx = head.split(' ').nth(3).unwrap_or("mx.example.org");
            // Only RCPT has a recipient to be mistaken about.
            if head.split(' ').nth(2).is_none_or(|stage| stage == "rcpt") {
                rows.push(Row::read(mx, reply, format!("{file}:{number}")));
            }
        }
    }
    rows
}

impl Row {
    fn read(mx: &'static str, reply: &str, place: String) -> Row {
        let code = &reply[..3];
        let lines = reply
            .split("\\n")
            .map(|line| line.strip_prefix(code).map_or(line, |rest| rest.get(1..).unwrap_or("")));
        let words = lines.map(str::trim).collect::<Vec<_>>().join(" ");
        let code = code.parse().expect("a reply code");
        let status = EnhancedCode::find_in(&words, code).map(|status| status.to_string());
        let status = status.filter(|status| words.starts_with(&format!("{status} ")));
        Row { stage: Stage::Rcpt, mx, code, words, status, place }
    }

    fn reason(&self, reply: &Reply) -> Reason {
        reason_at_rcpt(&classify(&ReplyView {
            stage: self.stage,
            mx: self.mx,
            reply,
            recipient: None,
            us: Us::default(),
        }))
    }

    /// The words without the enhanced code that they begin with.
    fn bare(&self) -> &str {
        let status = self.status.as_deref().unwrap_or_default();
        self.words.strip_prefix(status).unwrap_or(&self.words).trim_start()
    }

    /// What was said about no mailbox says nothing about one; what was said about one says that or nothing.
    fn hold(&self, reply: &Reply, what: &str, wrong: &mut Vec<String>) {
        let (meant, found) = (self.reason(&Reply::new(self.code, &self.words)), self.reason(reply));
        if found != meant && found != Reason::Unverifiable {
            wrong.push(format!(
                "{}, {what}: {} became {}: {} {:?}",
                self.place,
                meant.as_str(),
                found.as_str(),
                reply.code(),
                reply.text()
            ));
        }
    }
}

/// Addresses as servers echo them: the recipient's, others', and such as look like codes or words that tell.
const ECHOES: [&str; 10] = [
    "<u550@example.com>",
    "<550.5.1.1@example.com>",
    "5.1.1@5.1.1.example",
    "<user.unknown@no-such-user.example>",
    "<\"does not exist\"@example.com>",
    "quota.full@mailbox-full.example",
    "[mailbox.disabled@inactive.example]",
    "<postmaster@unknown-user.example>",
    "(550@550.example)",
    "<üser@ünknown.example>",
];

#[test]
fn an_echoed_address_makes_no_statement() {
    let mut wrong = Vec::new();
    for row in rows() {
        let words: Vec<&str> = row.bare().split(' ').collect();
        let status = row.status.as_ref().map_or(String::new(), |status| format!("{status} "));
        for echo in ECHOES {
            let bare = words.join(" ");
            for text in [
                format!("{status}{echo}: {bare}"),
                format!("{status}{bare} {echo}"),
                format!("{status}{bare} ({echo})"),
            ] {
                row.hold(&Reply::new(row.code, &text), "echo", &mut wrong);
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Us, as echoes in refusals name us; no row holds any of it.
const US: Us<'_> = Us {
    reverse_path: "check@mail-probe.net",
    ehlo: "out3.sender-probe.org",
    source: Some(std::net::IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 77))),
};

/// The address that RCPT named; no row holds it.
const RECIPIENT: &str = "carol@rcpt-domain.com";

/// Echoes of us as servers write them.
const ECHOES_OF_US: [&str; 14] = [
    "<check@mail-probe.net>",
    "check@mail-probe.net",
    "<CHECK@Mail-Probe.NET>",
    "<prvs=0123456789=check@mail-probe.net>",
    "from=<check@mail-probe.net>",
    "<someone@mail-probe.net>",
    "out3.sender-probe.org",
    "sender-probe.org",
    "helo=<out3.sender-probe.org>",
    "mail-probe.net",
    "[198.51.100.77]",
    "198.51.100.77",
    "out3.sender-probe.org[198.51.100.77]",
    "ip=198.51.100.77",
];

impl Row {
    fn reason_told(&self, text: &str) -> Reason {
        let reply = Reply::new(self.code, text);
        let (mx, reply) = (self.mx, &reply);
        let view = ReplyView { stage: self.stage, mx, reply, recipient: Some(RECIPIENT), us: US };
        reason_at_rcpt(&classify(&view))
    }

    /// The row with an echo planted before it, behind it and after each sentence.
    fn with_echo(&self, echo: &str) -> Vec<String> {
        let status = self.status.as_ref().map_or(String::new(), |status| format!("{status} "));
        let bare = self.bare();
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
    for row in rows().iter().filter(|row| row.code / 100 != 2) {
        refusals += 1;
        definite += usize::from(row.reason_told(&row.words) != Reason::Unverifiable);
        for text in ECHOES_OF_US.iter().flat_map(|echo| row.with_echo(echo)) {
            let reason = row.reason_told(&text);
            if reason != Reason::Unverifiable {
                wrong.push(format!("{}: {}: {} {text:?}", row.place, reason.as_str(), row.code));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(refusals >= 500 && definite >= 200, "{refusals} refusals, {definite} of them definite");
}

/// In a link or a relay's brackets our address is no echo, and beside the recipient's it leaves the words their meaning.
#[test]
fn where_the_recipient_is_named_too_or_we_are_in_a_link_the_words_count() {
    let (mut lost, mut definite) = (Vec::new(), 0);
    let beside = [
        "https://help.example.org/a/198.51.100.77",
        "https://help.example.org/?mail=check@mail-probe.net",
        "relay=[198.51.100.77]",
        "relay=out3.sender-probe.org[198.51.100.77]",
        "<carol@rcpt-domain.com> [198.51.100.77]",
        "(carol@rcpt-domain.com, out3.sender-probe.org)",
    ];
    // "no relay=..." is no row that a server would write.
    for row in rows().iter().filter(|row| row.code / 100 != 2 && row.bare() != "no") {
        let meant = row.reason_told(&row.words);
        definite += usize::from(meant != Reason::Unverifiable);
        for echo in beside {
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

/// Reads what a server writes, as a session does.
fn read(bytes: &[u8]) -> Result<Option<Reply>, ReplyError> {
    let mut parser = ReplyParser::default();
    parser.feed(bytes);
    parser.next()
}

#[test]
fn a_line_break_at_any_space_makes_no_statement() {
    let mut wrong = Vec::new();
    for row in rows() {
        let bare = row.bare();
        let (code, status) =
            (row.code, row.status.as_ref().map_or(String::new(), |status| format!("{status} ")));
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
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn bytes_that_are_no_text_make_no_statement() {
    let mut wrong = Vec::new();
    for row in rows() {
        let plain = format!("{} {}\r\n", row.code, row.words);
        let after_code = 4 + row.status.as_ref().map_or(0, |status| status.len() + 1);
        for bytes in [&b"\xff"[..], b"\xc3", b"\xe9", b"\x80\x80", b"\xf0\x9f", b"\x07", b"\x00"] {
            let places = plain.match_indices(' ').map(|(at, _)| at).filter(|at| *at > after_code);
            for at in places.step_by(3) {
                let mut garbled = plain.as_bytes()[..at].to_vec();
                garbled.extend_from_slice(b" ");
                garbled.extend_from_slice(bytes);
                garbled.extend_from_slice(&plain.as_bytes()[at..]);
                // A reply that is refused as none says nothing at all.
                if let Ok(Some(reply)) = read(&garbled) {
                    row.hold(&reply, "bytes", &mut wrong);
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn several_changes_together_make_no_statement() {
    let (mut wrong, mut state) = (Vec::new(), 0x9e37_79b9_7f4a_7c15_u64);
    let mut draw = |most: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % most as u64) as usize
    };
    for row in rows() {
        for _ in 0..40 {
            let mut text = row.bare().to_owned();
            if draw(2) == 0 {
                text = if draw(2) == 0 { text.to_uppercase() } else { text.to_lowercase() };
            }
            if draw(2) == 0 {
                let echo = ECHOES[draw(ECHOES.len())];
                text = if draw(2) == 0 { format!("{echo}: {text}") } else { format!("{text} {echo}") };
            }
            let status = row.status.as_ref().map_or(String::new(), |status| format!("{status} "));
            let mut lines = format!("{status}{text}");
            let every = draw(9) + 1;
            let mut count = 0;
            lines = lines
                .chars()
                .map(|c| {
                    count += usize::from(c == ' ');
                    if c == ' ' && count > 1 && count.is_multiple_of(every) { '\n' } else { c }
                })
                .collect();
            row.hold(&Reply::new(row.code, &lines), "several", &mut wrong);
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// A wrong enhanced code on words that say whom they are about: what is about us, our speed or the moment stays so.
#[test]
fn a_wrong_enhanced_code_makes_no_statement_where_the_words_tell() {
    let mut wrong = Vec::new();
    for row in rows() {
        let (class, bare) = (row.code / 100, row.bare().to_owned());
        let told = classify(&ReplyView {
            stage: row.stage,
            mx: row.mx,
            reply: &Reply::new(row.code, &bare),
            recipient: None,
            us: Us::default(),
        });
        if row.reason(&Reply::new(row.code, &bare)) != Reason::Unverifiable
            || told.class == super::Class::Unclear
        {
            continue;
        }
        // X.2.2 (mailbox full) is a statement of its own: it gives way to words about conduct and denial alone.
        let full = ["conduct", "denied"].contains(&told.rule).then_some("2.2");
        for status in ["1.1", "1.0", "1.10", "2.1", "1.6", "0.0", "7.1"].into_iter().chain(full) {
            let reply = Reply::new(row.code, &format!("{class}.{status} {bare}"));
            let found = classify(&ReplyView {
                stage: row.stage,
                mx: row.mx,
                reply: &reply,
                recipient: None,
                us: Us::default(),
            });
            if reason_at_rcpt(&found) != Reason::Unverifiable {
                wrong.push(format!("{}, {}: {} {:?}", row.place, found.rule, reply.code(), reply.text()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
