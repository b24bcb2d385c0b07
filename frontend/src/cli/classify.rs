//! `mailprobe classify`: classifies server replies; input and output are JSON lines.
//!
//! Input: `{"mx": "mx.example.com", "stage": "rcpt", "reply": "550 5.1.1 No such user"}`.
//!
//! - `stage` is `banner`, `ehlo`, `mail`, `rcpt` or `control` (RCPT of the control recipient).
//! - `mx` is optional.
//! - `reply` is the text as the server sent it. CRLF, LF or double escapes of them separate its lines. Lines after the
//!   first may lack the reply code.
//! - `recipient` (the address in RCPT), `mail_from`, `ehlo` and `source` (our address, name and IP address, as the server
//!   knows them) are optional. They show whether a reply is about the recipient or about us.
//!
//! Output: `{"class", "scope", "reason", "rule"}`, as explained in docs/verdicts.md. Every input line gives one output
//! line, in order. An unreadable line gives `{"error", "line"}`.

use engine::proto::smtp::reply::Reply;
use engine::proto::verdict::catch_all::{ControlFinding, accepts_everything};
use engine::proto::verdict::{Class, Classification, Reason, ReplyView, Stage, Us, classify, reason_at_rcpt};
use lists::numbers::grouped;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::net::IpAddr;
use std::path::PathBuf;

/// The long help of the command.
pub const ABOUT: &str = "\
Classify replies of mail servers. The command reads JSON lines from FILE or from standard input, for example:

  {\"mx\": \"mx.example.com\", \"stage\": \"rcpt\", \"reply\": \"550 5.1.1 No such user\"}

`stage` is banner, ehlo, mail, rcpt or control (RCPT of the control recipient). These fields are optional: `mx` \
(the name of the mail host), `recipient` (the address in RCPT), `mail_from` (our reverse-path), `ehlo` (our EHLO name) and \
`source` (our IP address). The last four show whether a reply is about the recipient or about us.

For each line the command writes a line with class, scope, reason and rule. docs/verdicts.md explains these \
fields. For an unreadable line, the command writes the error and the number of the line, and its exit code is 1.";

/// The arguments of `mailprobe classify`.
#[derive(clap::Args)]
pub struct ClassifyArgs {
    /// File with the JSON lines; - for standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
}

impl ClassifyArgs {
    /// Opens the file, or standard input.
    ///
    /// # Errors
    /// One line for standard error: the file cannot be read.
    pub fn open(&self) -> Result<Box<dyn BufRead>, String> {
        if lists::is_stream(&self.file) {
            return Ok(Box::new(io::stdin().lock()));
        }
        let cannot = |error: io::Error| format!("{} cannot be read: {error}", self.file.display());
        File::open(&self.file).map(|file| Box::new(BufReader::new(file)) as Box<dyn BufRead>).map_err(cannot)
    }
}

/// Longest input line in bytes, including its end.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

#[derive(Deserialize)]
struct Question {
    #[serde(default)]
    mx: String,
    stage: String,
    reply: String,
    recipient: Option<String>,
    #[serde(default)]
    mail_from: String,
    #[serde(default)]
    ehlo: String,
    source: Option<IpAddr>,
}

#[derive(Serialize)]
struct Answer {
    class: &'static str,
    scope: &'static str,
    reason: &'static str,
    rule: &'static str,
}

#[derive(Serialize)]
struct Malformed {
    error: String,
    line: usize,
}

/// Answers every line of `input` on `output`. Returns the number of unreadable lines; if it is not 0, the exit code is 1.
///
/// # Errors
/// Reading or writing fails. The lines answered before remain valid.
pub fn run(mut input: impl BufRead, mut output: impl Write) -> io::Result<usize> {
    let mut buffer = Vec::new();
    let mut malformed = 0;
    for line in 1.. {
        let answer = match next_line(&mut input, &mut buffer)? {
            LineRead::End => break,
            LineRead::Whole => answer(&buffer),
            LineRead::TooLong => {
                Err(format!("the line is longer than {} bytes", grouped(LINE_BYTES_MAX as u64)))
            }
        };
        match answer {
            Ok(answer) => serde_json::to_writer(&mut output, &answer)?,
            Err(error) => {
                malformed += 1;
                serde_json::to_writer(&mut output, &Malformed { error, line })?;
            }
        }
        output.write_all(b"\n")?;
    }
    output.flush()?;
    Ok(malformed)
}

enum LineRead {
    Whole,
    TooLong,
    End,
}

/// Reads a line into `buffer`, which never holds more than [`LINE_BYTES_MAX`].
fn next_line(input: &mut impl BufRead, buffer: &mut Vec<u8>) -> io::Result<LineRead> {
    buffer.clear();
    let (mut seen, mut ended) = (0, false);
    while !ended {
        let piece = match input.fill_buf() {
            Ok(piece) => piece,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if piece.is_empty() {
            break;
        }
        let end = piece.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(piece.len(), |at| at + 1);
        let room = LINE_BYTES_MAX - buffer.len();
        buffer.extend_from_slice(&piece[..used.min(room)]);
        seen += used;
        ended = end.is_some();
        input.consume(used);
    }
    Ok(match seen {
        0 => LineRead::End,
        seen if seen > LINE_BYTES_MAX => LineRead::TooLong,
        _ => LineRead::Whole,
    })
}

fn answer(line: &[u8]) -> Result<Answer, String> {
    let question: Question = serde_json::from_slice(line).map_err(|_| explain(line))?;
    let stage = stage(&question.stage).ok_or("stage is not one of banner, ehlo, mail, rcpt, control")?;
    let reply = reply(&question.reply).ok_or("reply does not begin with a reply code from 200 to 599")?;
    let us = Us { reverse_path: &question.mail_from, ehlo: &question.ehlo, source: question.source };
    let recipient = question.recipient.as_deref();
    let found = classify(&ReplyView { stage, mx: &question.mx, reply: &reply, recipient, us });
    Ok(Answer {
        class: found.class.as_str(),
        scope: found.scope.as_str(),
        reason: reason(stage, &question.mx, &found).as_str(),
        rule: found.rule,
    })
}

/// The strings that each line needs, and those that it may have.
const REQUIRED: [&str; 2] = ["stage", "reply"];
const OPTIONAL: [&str; 5] = ["mx", "recipient", "mail_from", "ehlo", "source"];

/// The error in the JSON, without the values that serde would quote: they may be addresses.
fn explain(line: &[u8]) -> String {
    let required = "required are stage and reply";
    let object = match serde_json::from_slice(line) {
        Ok(serde_json::Value::Object(object)) => object,
        Ok(_) => return format!("not a JSON object; {required}"),
        Err(error) => return format!("not JSON: column {}; write an object: {required}", error.column()),
    };
    if let Some(name) = REQUIRED.iter().find(|name| !object.contains_key(**name)) {
        return format!("\"{name}\" is missing; {required}");
    }
    let is_text = |name: &&&str| object.get(**name).is_none_or(serde_json::Value::is_string);
    match REQUIRED.iter().chain(&OPTIONAL).find(|name| !is_text(name)) {
        Some(name) => format!("\"{name}\" is not a string"),
        None if object.contains_key("source") => "\"source\" is not an IP address".into(),
        None => format!("a name is there twice; {required}"),
    }
}

fn stage(name: &str) -> Option<Stage> {
    Some(match name {
        "banner" => Stage::Banner,
        "ehlo" => Stage::Ehlo,
        "mail" => Stage::Mail,
        "rcpt" => Stage::Rcpt,
        "control" => Stage::Control,
        _ => return None,
    })
}

/// The reply, in any of the accepted forms. The code of the first line is the code of the reply.
fn reply(raw: &str) -> Option<Reply> {
    let raw = raw.replace("\\r\\n", "\n").replace("\\n", "\n");
    let mut lines = raw.trim().split('\n').map(|line| line.trim_end_matches('\r'));
    let first = lines.next()?;
    let digits = first.get(..3).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    let code = digits.parse().ok().filter(|code| (200..600).contains(code))?;
    let mut text = after_code(first, digits)?.to_owned();
    for line in lines {
        text.push('\n');
        text.push_str(after_code(line, digits).unwrap_or(line));
    }
    Some(Reply::new(code, &text))
}

/// The text of a line that begins with the reply code.
fn after_code<'a>(line: &'a str, digits: &str) -> Option<&'a str> {
    let rest = line.strip_prefix(digits)?;
    match rest.chars().next() {
        None => Some(rest),
        Some(' ' | '-' | '\t') => Some(&rest[1..]),
        Some(_) => None,
    }
}

/// The reason that follows from this reply alone. An accepted recipient counts on condition that the control recipient is
/// refused. An accepted control recipient shows a catch-all domain. At hosts that accept every RCPT, neither shows
/// anything. Replies before RCPT show nothing about a mailbox.
fn reason(stage: Stage, mx: &str, found: &Classification) -> Reason {
    let worthless = found.class == Class::Accepted && accepts_everything(mx);
    match stage {
        _ if worthless => Reason::Unverifiable,
        Stage::Banner | Stage::Ehlo | Stage::Mail => Reason::Unverifiable,
        Stage::Rcpt => reason_at_rcpt(found),
        Stage::Control => match ControlFinding::of(found) {
            ControlFinding::AcceptsAll => Reason::CatchAll,
            ControlFinding::RefusesUnknown => Reason::MailboxNotFound,
            ControlFinding::Unknown => Reason::Unverifiable,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classified(input: &str) -> (Vec<serde_json::Value>, usize) {
        let mut output = Vec::new();
        // A tiny buffer splits the lines into pieces.
        let input = io::BufReader::with_capacity(7, input.as_bytes());
        let malformed = run(input, &mut output).expect("memory does not fail");
        let lines = String::from_utf8(output).expect("UTF-8");
        (lines.lines().map(|line| serde_json::from_str(line).expect(line)).collect(), malformed)
    }

    fn check(input: &str, class: &str, scope: &str, reason: &str) {
        let (lines, malformed) = classified(input);
        assert_eq!(malformed, 0, "{input}");
        assert_eq!(lines.len(), 1, "{input}");
        let line = &lines[0];
        assert_eq!(
            (&line["class"], &line["scope"], &line["reason"]),
            (&class.into(), &scope.into(), &reason.into())
        );
        assert!(line["rule"].is_string() && line.get("error").is_none(), "{line}");
    }

    #[test]
    fn replies_are_classified() {
        let not_found = ("NF", "recipient", "mailbox_not_found");
        for reply in [
            r"550-5.1.1 No such\r\n550 5.1.1 user",
            r"550-5.1.1 No such\n550 5.1.1 user\n",
            r"550 5.1.1 No such\nuser",
            r"550-5.1.1 No such\\r\\n550 5.1.1 user\\r\\n",
            r"550-5.1.1 No such\\nuser",
        ] {
            let line = format!(r#"{{"mx":"mx.example.com","stage":"rcpt","reply":"{reply}"}}"#);
            check(&line, not_found.0, not_found.1, not_found.2);
        }
        check(r#"{"mx":"","stage":"rcpt","reply":"250 2.1.5 Ok"}"#, "EX", "recipient", "mailbox_exists");
        check(r#"{"stage":"control","reply":"250 2.1.5 Ok"}"#, "EX", "recipient", "catch_all");
        check(
            r#"{"stage":"control","reply":"550 5.1.1 unknown user"}"#,
            "NF",
            "recipient",
            "mailbox_not_found",
        );
        check(r#"{"stage":"control","reply":"552 5.2.2 mailbox full"}"#, "FULL", "recipient", "unverifiable");
        check(
            r#"{"mx":"mta5.am0.yahoodns.net","stage":"rcpt","reply":"250 ok"}"#,
            "EX",
            "recipient",
            "unverifiable",
        );
        check(r#"{"stage":"banner","reply":"550 5.1.1 user unknown"}"#, "POL", "us", "unverifiable");
        check(r#"{"stage":"rcpt","reply":"550"}"#, "POL", "us", "unverifiable");
        check(
            r#"{"stage":"rcpt","reply":"550 User unknown","more":1}"#,
            "NF",
            "recipient",
            "mailbox_not_found",
        );
    }

    #[test]
    fn an_echo_of_us_is_told_from_one_of_the_recipient() {
        let asked = r#""stage":"rcpt","recipient":"bob@example.com","mail_from":"a@probe.example","ehlo":"mx.probe.example","source":"203.0.113.5""#;
        for (reply, class, reason) in [
            ("550 5.1.1 <bob@example.com>: user unknown", "NF", "mailbox_not_found"),
            ("550 5.1.1 <a@probe.example>: user unknown", "POL", "unverifiable"),
            ("550 5.1.1 user unknown (mx.probe.example)", "POL", "unverifiable"),
            ("550 5.1.1 user unknown [203.0.113.5]", "POL", "unverifiable"),
            ("550 5.1.1 <bob@example.com>: user unknown [203.0.113.5]", "NF", "mailbox_not_found"),
        ] {
            let (lines, malformed) = classified(&format!(r#"{{{asked},"reply":"{reply}"}}"#));
            assert_eq!(malformed, 0, "{reply}");
            assert_eq!((&lines[0]["class"], &lines[0]["reason"]), (&class.into(), &reason.into()), "{reply}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_said_in_its_place() {
        let good = r#"{"stage":"rcpt","reply":"250 ok"}"#;
        let long = format!(r#"{{"stage":"rcpt","reply":"250 {}"}}"#, "x".repeat(LINE_BYTES_MAX));
        let bad = [
            "not json",
            "",
            "[]",
            "{}",
            r#"{"stage":"data","reply":"250 ok"}"#,
            r#"{"stage":"rcpt","reply":"hello"}"#,
            r#"{"stage":"rcpt","reply":""}"#,
            r#"{"stage":"rcpt","reply":"650 x"}"#,
            r#"{"stage":"rcpt","reply":7}"#,
            r#"{"stage":"rcpt","reply":"25é"}"#,
            r#"{"stage":"rcpt","reply":"250 ok","source":"mx.example.com"}"#,
            r#"{"stage":"rcpt","reply":"250 ok","mail_from":7}"#,
            &long,
        ];
        let input: String = bad.iter().map(|line| format!("{line}\n{good}\n")).collect();
        let (lines, malformed) = classified(&input);
        assert_eq!((lines.len(), malformed), (2 * bad.len(), bad.len()));
        for (index, line) in lines.iter().enumerate() {
            assert_eq!(line.get("error").is_some(), index % 2 == 0, "{index}: {line}");
            if index % 2 == 0 {
                assert_eq!(line["line"], index + 1);
            }
        }
    }

    #[test]
    fn an_error_names_what_is_missing_or_wrong() {
        for (line, expected) in [
            ("550 5.1.1 No such user", "not JSON: column 5; write an object: required are stage and reply"),
            ("\"550 No such user\"", "not a JSON object; required are stage and reply"),
            (r#"{"reply":"250 ok"}"#, "\"stage\" is missing; required are stage and reply"),
            (r#"{"stage":"rcpt"}"#, "\"reply\" is missing; required are stage and reply"),
            (r#"{"stage":"rcpt","reply":7}"#, "\"reply\" is not a string"),
            (r#"{"stage":"rcpt","reply":"250 ok","ehlo":[]}"#, "\"ehlo\" is not a string"),
            (
                r#"{"stage":"rcpt","reply":"250 ok","source":"mx.example.com"}"#,
                "\"source\" is not an IP address",
            ),
        ] {
            assert_eq!(classified(line).0[0]["error"], expected, "{line}");
        }
    }

    #[test]
    fn the_longest_line_passes_and_the_last_needs_no_end() {
        let frame = r#"{"stage":"rcpt","reply":"250 "}"#.len();
        let longest = format!(r#"{{"stage":"rcpt","reply":"250 {}"}}"#, "x".repeat(LINE_BYTES_MAX - frame));
        assert_eq!(classified(&longest).1, 0);
        assert_eq!(classified(&longest.replace("250 x", "250 xx")).1, 1);
        assert_eq!(classified("").0.len(), 0);
        let mut output = Vec::new();
        assert_eq!(
            run(&b"{\"stage\":\"rcpt\",\"reply\":\"250 \xff\"}\n"[..], &mut output).expect("memory"),
            1
        );
    }

    #[test]
    fn an_error_quotes_nothing() {
        let (lines, _) = classified(r#"{"stage":"rcpt","reply":["secret@example.com"]}"#);
        assert!(!lines[0].to_string().contains("secret"), "{}", lines[0]);
    }
}
