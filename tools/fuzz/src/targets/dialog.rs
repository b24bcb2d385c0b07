//! The dialog: a server may send anything at any time, in any pieces. The client must follow the protocol and end, and
//! must never use one recipient's answer for another.
//!
//! An input is a byte of settings, followed by the server's turns, separated by `PART`: bytes; nothing, so that time
//! passes; or `END`, the end of the connection. The client acts between turns and never within one, so that only the
//! pieces differ.

use super::reply;
use crate::input::{cut, one};
use engine_proto::smtp::dialog::{Closure, Dialog, DialogConfig, Event, ReplyTimeouts};
use engine_proto::smtp::habits::{Habits, InStep};
use engine_proto::smtp::reply::ReplyParser;
use fastrand::Rng;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

const PART: u8 = 1;
const END: u8 = 2;
const TURNS_MAX: usize = 200;

/// Replies to RCPT; the first two are the most frequent.
const LINES: [&str; 5] =
    ["250 2.1.5 Ok\r\n", "550 5.1.1 no\r\n", "450 4.2.1 later\r\n", "250-x\r\n250 y\r\n", "421 bye\r\n"];

static CONFIG: LazyLock<Arc<DialogConfig>> = LazyLock::new(|| {
    Arc::new(DialogConfig {
        ehlo: "probe.example".into(),
        reverse_path: "p@probe.example".into(),
        timeouts: ReplyTimeouts::default(),
    })
});

/// The turns of a server that mostly follows the protocol.
pub fn grow(random: &mut Rng) -> Vec<u8> {
    let settings = random.u8(..);
    let mut bytes = vec![settings];
    let mut turn = |text: &str, bytes: &mut Vec<u8>| {
        match random.u8(..24) {
            0 => bytes.extend_from_slice(reply::GRAMMAR.grow("reply", random).as_bytes()),
            1 => {}
            2 => bytes.push(END),
            3 => bytes.extend_from_slice(&text.as_bytes()[..random.usize(..=text.len())]),
            4 => bytes.extend_from_slice(text.repeat(2).as_bytes()),
            _ => bytes.extend_from_slice(text.as_bytes()),
        }
        bytes.push(PART);
    };
    turn("220 mx.example ESMTP\r\n", &mut bytes);
    let ehlo = [
        "250-mx.example\r\n250-PIPELINING\r\n250 STARTTLS\r\n",
        "250-mx\r\n250 PIPELINING\r\n",
        "250 mx\r\n",
    ];
    let hello = ehlo[usize::from(settings >> 6) % 3];
    if settings & 1 == 1 && hello.contains("STARTTLS") {
        turn(hello, &mut bytes);
        turn("220 go ahead\r\n", &mut bytes);
    }
    turn(hello, &mut bytes);
    turn("250 2.1.0 Ok\r\n", &mut bytes);
    let mut random = Rng::with_seed(u64::from(settings) + bytes.len() as u64);
    for _ in 0..random.usize(1..12) {
        for _ in 0..random.usize(1..6) {
            let line = if random.u8(..6) == 0 { one(&mut random, &LINES) } else { LINES[random.usize(..2)] };
            bytes.extend_from_slice(line.as_bytes());
        }
        bytes.push(PART);
    }
    bytes
}

pub fn feed(input: &[u8]) -> Result<(), String> {
    let Some((&settings, script)) = input.split_first() else { return Ok(()) };
    let turns: Vec<&[u8]> = script.split(|&byte| byte == PART).take(TURNS_MAX).collect();
    let whole = play(settings, &turns, |turn| vec![turn])?;
    let events = play(settings, &turns, cut)?;
    if events != whole {
        let differ = whole.iter().zip(&events).find(|(a, b)| a != b);
        return Err(format!("in other pieces the events is another: {differ:?}"));
    }
    Ok(())
}

/// Plays a session; returns everything that a driver sees, and the sent bytes.
fn play<'a>(
    settings: u8,
    turns: &[&'a [u8]],
    cut: impl Fn(&'a [u8]) -> Vec<&'a [u8]>,
) -> Result<Vec<String>, String> {
    let mut session = Session::new(settings);
    for &turn in turns {
        match turn {
            [] => session.wait(),
            [END] => session.dialog.on_closed(),
            bytes => {
                for piece in cut(bytes) {
                    session.dialog.receive(session.now, piece);
                }
                session.replies += session.count(bytes);
            }
        }
        session.act()?;
    }
    session.dialog.on_closed();
    session.act()?;
    if !session.dialog.is_over() {
        return Err("the connection ended and the session did not".into());
    }
    Ok(session.events)
}

struct Session {
    dialog: Dialog,
    now: Instant,
    tls_works: bool,
    /// Whether the host is known to be in step.
    proven: bool,
    transactions: u8,
    recipients: u16,
    /// The next recipient that may be answered.
    next: u16,
    over: bool,
    /// Counts replies independently, for a client that may not pipeline.
    parser: ReplyParser,
    replies: usize,
    handshakes: usize,
    commands: usize,
    pipelined: bool,
    events: Vec<String>,
}

impl Session {
    fn new(settings: u8) -> Session {
        let now = Instant::now();
        Session {
            dialog: Dialog::new(
                Arc::clone(&CONFIG),
                Habits { plain: settings & 1 == 0, ..Habits::default() },
                now,
            ),
            now,
            tls_works: settings & 2 == 2,
            proven: settings & 4 == 4,
            transactions: 1 + (settings >> 2 & 3),
            recipients: 1 + u16::from(settings >> 4 & 3) * 3,
            next: 0,
            over: false,
            parser: ReplyParser::default(),
            replies: 0,
            handshakes: 0,
            commands: 0,
            pipelined: false,
            events: Vec::new(),
        }
    }

    fn count(&mut self, bytes: &[u8]) -> usize {
        self.parser.feed(bytes);
        std::iter::from_fn(|| self.parser.next().ok().flatten()).count()
    }

    /// Lets time pass until the dialog's next deadline.
    fn wait(&mut self) {
        if let Some(deadline) = self.dialog.deadline() {
            self.now = deadline;
            self.dialog.on_timeout(deadline);
        }
    }

    /// The work of a driver between two reads.
    fn act(&mut self) -> Result<(), String> {
        while let Some(event) = self.dialog.poll_event() {
            self.take(event)?;
        }
        if self.dialog.is_ready() {
            if self.transactions == 0 {
                self.dialog.quit();
            } else {
                self.transactions -= 1;
                self.next = 0;
                let recipients: Vec<String> =
                    (0..self.recipients).map(|n| format!("r{n}@x.example")).collect();
                let proven = if self.proven { InStep::ALWAYS } else { InStep::default() };
                self.dialog.transact(self.now, recipients.iter().map(String::as_str), false, proven);
            }
        }
        while let Some(event) = self.dialog.poll_event() {
            self.take(event)?;
        }
        self.send()?;
        let waits =
            self.dialog.deadline().is_some_and(|deadline| deadline <= self.now + Duration::from_secs(60));
        if waits == (self.dialog.is_over() || self.dialog.is_ready()) {
            return Err(format!(
                "deadline {:?} at the wrong time",
                self.dialog.deadline().map(|d| d - self.now)
            ));
        }
        Ok(())
    }

    fn take(&mut self, event: Event) -> Result<(), String> {
        if self.over {
            return Err("an event after the end".into());
        }
        match &event {
            Event::StartTls => {
                self.handshakes += 1;
                self.parser.clear();
                self.dialog.on_tls_done(self.now, self.tls_works);
            }
            Event::Answered { index, reply, .. } => {
                if *index < self.next
                    || *index >= self.recipients
                    || reply.code() == 421
                    || reply.code() / 100 == 3
                {
                    return Err(format!(
                        "{} for recipient {index}, when {} was next",
                        reply.code(),
                        self.next
                    ));
                }
                self.next = index + 1;
            }
            Event::Over(Closure::Refused { reply, .. }) if reply.code() < 400 => {
                return Err(format!("a refusal by {}", reply.code()));
            }
            Event::Over(_) => self.over = true,
            Event::Ready | Event::InStep(_) | Event::MailRefused(_) => {}
        }
        self.events.push(format!("{event:?}"));
        Ok(())
    }

    /// Checks that every command is one of a probe, about a recipient of this transaction, and in the right order.
    fn send(&mut self) -> Result<(), String> {
        let bytes = self.dialog.take_outgoing(Vec::new());
        let text = String::from_utf8(bytes).map_err(|_| "a command that is no UTF-8")?;
        for line in text.split_inclusive("\r\n") {
            let command = line.strip_suffix("\r\n").ok_or("a command without an end")?;
            if !self.allows(command) {
                return Err(format!("command {command:?}"));
            }
            self.commands += 1;
        }
        self.pipelined |= self.dialog.extensions().pipelining;
        if !self.pipelined && self.commands > self.replies + self.handshakes {
            return Err(format!("{} commands after {} replies, unpipelined", self.commands, self.replies));
        }
        self.events.push(text);
        Ok(())
    }

    fn allows(&self, command: &str) -> bool {
        let recipient = command.strip_prefix("RCPT TO:<r").and_then(|rest| rest.strip_suffix("@x.example>"));
        match recipient {
            Some(number) => number.parse().is_ok_and(|number: u16| number < self.recipients),
            None => [
                "EHLO probe.example",
                "HELO probe.example",
                "STARTTLS",
                "MAIL FROM:<p@probe.example>",
                "RSET",
                "QUIT",
            ]
            .contains(&command),
        }
    }
}

/// Whether the session gets to an answer.
#[cfg(test)]
pub fn passes(input: &[u8]) -> bool {
    let turns: Vec<&[u8]> = input[1..].split(|&byte| byte == PART).collect();
    let events = play(input[0], &turns, |turn| vec![turn]);
    events.is_ok_and(|events| events.iter().any(|line| line.starts_with("Answered")))
}
