//! The server's side of an SMTP session (RFC 5321) in the simulation. It answers, misbehaves as its manners state, and
//! records protocol errors of the client.

use super::change::Turn;
use super::plan::{Banner, Delivery, Fate, Manners, Misdeed, StartTls};
use super::recipients::AskedRecipient;
use super::texts::TextTopic;
use engine::sim::Wire;
use engine_proto::limits::TRANSACTION_RECIPIENTS_MAX;
use fastrand::Rng;
use std::time::Duration;

/// The server's side of one session, with its counts.
#[derive(Debug, Default)]
pub struct Peer {
    /// The time at which the last byte of the answers so far arrives at the client.
    said_until: Duration,
    heard: Vec<u8>,
    greeted: bool,
    pipelining: bool,
    in_transaction: bool,
    /// Recipients of the transaction, and the number of accepted ones.
    asked: u32,
    accepted: u32,
    /// Recipients of the session so far.
    pub recipients: u32,
    pub refused: u32,
    unknown: u32,
    /// The behaviour that the session's node has for everyone, if it has one.
    node: Option<Turn>,
    /// The time at which the client has all of the reply that it is too fast.
    pub pushed: Option<Duration>,
    /// The server no longer answers.
    mute: bool,
    tls: bool,
}

/// The step after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextStep {
    Listen,
    Close,
    Reset,
    Mute,
}

/// The objects around a session while it takes an event.
pub struct Surroundings<'a> {
    pub now: Duration,
    /// The number of the connection.
    pub link: u32,
    pub manners: &'a Manners,
    pub random: &'a mut Rng,
    pub wire: &'a mut Wire,
    /// Decides the answer about a recipient, and records it.
    pub decide: &'a mut dyn FnMut(&AskedRecipient<'_>, &mut Vec<String>) -> Fate,
    /// The protocol errors of the client.
    pub breaches: &'a mut Vec<String>,
}

const BYTES_MAX: usize = 1 << 20;
/// The banner of a Cisco gateway.
const CISCO: &str = "220 mx.example ESMTP IronPort";

impl Peer {
    /// Greets the client, whose side of the connection is open `after` now.
    pub fn greet(&mut self, after: Duration, busy: bool, surroundings: &mut Surroundings<'_>) {
        let nodes = surroundings.manners.tricks.nodes;
        self.node = nodes.filter(|nodes| surroundings.random.u8(..) < nodes.share).map(|nodes| nodes.turn);
        let (text, then) = match &surroundings.manners.banner {
            _ if busy => ("421 4.7.0 Too many connections from your address".to_owned(), NextStep::Close),
            Banner::Good if surroundings.manners.tricks.cisco => (CISCO.to_owned(), NextStep::Listen),
            Banner::Good => ("220 mx ESMTP".to_owned(), NextStep::Listen),
            Banner::Refuses(text) => (text.words.to_owned(), NextStep::Close),
            Banner::Busy => ("421 4.3.2 Service not available".to_owned(), NextStep::Close),
            Banner::Silent => return self.mute = true,
            Banner::Garbage => ("\u{16}\u{3}\u{1} not found".to_owned(), NextStep::Listen),
        };
        let mut out = Out::default();
        out.add(text, then);
        out.add_surplus("", surroundings.manners);
        self.say(after, out, surroundings);
    }

    /// Takes bytes from the client.
    pub fn on_bytes(&mut self, bytes: &[u8], surroundings: &mut Surroundings<'_>) {
        // The client may have taken a surplus 220 for the reply to STARTTLS.
        let is_misled = surroundings.manners.surplus.is_some() && bytes.first() == Some(&0x16);
        if self.tls || is_misled {
            // A ClientHello: this server does not implement TLS.
            self.mute = true;
            return surroundings.wire.reset(surroundings.manners.round_trip);
        }
        if self.heard.len() + bytes.len() > BYTES_MAX {
            return surroundings.breaches.push("more than a megabyte without a line".into());
        }
        self.heard.extend_from_slice(bytes);
        let mut out = Out::default();
        let mut first = surroundings.now >= self.said_until;
        let (heard, mut group_over) = (std::mem::take(&mut self.heard), false);
        let mut rest = &heard[..];
        while let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") {
            let line = String::from_utf8_lossy(&rest[..end]);
            rest = &rest[end + 2..];
            if self.mute || out.ends() {
                continue;
            }
            let is_surplus = surroundings.manners.surplus.is_some();
            if !std::mem::replace(&mut first, false) && !self.pipelining && !is_surplus {
                surroundings.breaches.push(format!("spoke before its turn: {}", verb(&line)));
            }
            if group_over {
                // RFC 2920 3.1: these commands end a group.
                surroundings.breaches.push(format!("sent {} behind the end of a group", verb(&line)));
            }
            group_over = matches!(verb(&line).as_str(), "EHLO" | "HELO" | "STARTTLS" | "QUIT");
            self.obey(&line, surroundings, &mut out);
            out.add_surplus(&verb(&line), surroundings.manners);
        }
        self.heard = rest.to_vec();
        let after = surroundings.manners.round_trip + surroundings.manners.thinks;
        self.say(after, out, surroundings);
    }

    fn obey(&mut self, line: &str, surroundings: &mut Surroundings<'_>, out: &mut Out) {
        let manners = surroundings.manners;
        match verb(line).as_str() {
            "EHLO" if manners.helo_only => {
                out.add("502 5.5.2 Command not implemented".into(), NextStep::Listen)
            }
            "EHLO" => {
                (self.greeted, self.in_transaction) = (true, false);
                self.pipelining = manners.pipelining;
                out.add(self.extensions(manners), NextStep::Listen);
            }
            "HELO" => {
                (self.greeted, self.in_transaction) = (true, false);
                out.add("250 mx".into(), NextStep::Listen);
            }
            "STARTTLS" => match manners.starttls {
                StartTls::Absent => surroundings.breaches.push("STARTTLS was not offered".into()),
                StartTls::Refused => out.add("454 4.7.0 TLS not available".into(), NextStep::Listen),
                StartTls::Broken => {
                    self.tls = true;
                    out.add("220 2.0.0 Ready to start TLS".into(), NextStep::Listen);
                }
            },
            "MAIL" => self.mail(surroundings, out),
            "RCPT" => self.recipient(line, surroundings, out),
            "RSET" => {
                self.in_transaction = false;
                out.add("250 2.0.0 Ok".into(), NextStep::Listen);
            }
            "QUIT" => out.add("221 2.0.0 Bye".into(), NextStep::Close),
            other => surroundings.breaches.push(format!("said {other}")),
        }
    }

    fn extensions(&self, manners: &Manners) -> String {
        let mut text = "250-mx\r\n250-SIZE 10240000\r\n".to_owned();
        if manners.pipelining {
            text.push_str("250-PIPELINING\r\n");
        }
        if manners.starttls != StartTls::Absent {
            text.push_str("250-STARTTLS\r\n");
        }
        text.push_str("250 ENHANCEDSTATUSCODES");
        text
    }

    fn mail(&mut self, surroundings: &mut Surroundings<'_>, out: &mut Out) {
        // A surplus reply may look like the one that the client waits for before MAIL.
        let is_misled = surroundings.manners.surplus.is_some();
        if !self.greeted && !is_misled {
            surroundings.breaches.push("MAIL before EHLO".into());
        }
        if self.in_transaction && !is_misled {
            surroundings.breaches.push("MAIL within a transaction".into());
        }
        match surroundings.manners.mail {
            Some(text) => out.add(text.words.to_owned(), NextStep::Listen),
            None => {
                (self.in_transaction, self.asked, self.accepted) = (true, 0, 0);
                out.add("250 2.1.0 Ok".into(), NextStep::Listen);
            }
        }
    }

    fn recipient(&mut self, line: &str, surroundings: &mut Surroundings<'_>, out: &mut Out) {
        let address =
            line.split_once('<').and_then(|(_, rest)| rest.rsplit_once('>')).map(|(address, _)| address);
        let Some(address) = address else { return surroundings.breaches.push("RCPT without a path".into()) };
        if !self.in_transaction {
            // The command was pipelined after a MAIL that was refused.
            return out.add("503 5.5.1 Need MAIL first".into(), NextStep::Listen);
        }
        let manners = surroundings.manners;
        self.recipients += 1;
        self.asked += 1;
        if self.asked as usize > TRANSACTION_RECIPIENTS_MAX {
            surroundings.breaches.push("more recipients than any server has to take".into());
        }
        if let Some((_, misdeed)) = manners.misdeed.filter(|(at, _)| *at == self.recipients) {
            return match misdeed {
                Misdeed::Hang => out.end(NextStep::Mute),
                Misdeed::Close => out.end(NextStep::Close),
                Misdeed::Reset => out.end(NextStep::Reset),
                Misdeed::Busy => out.add("421 4.3.2 Shutting down".into(), NextStep::Close),
            };
        }
        if self.recipients > manners.session_recipients_max {
            return out.add("421 4.7.0 Too many recipients in this session".into(), NextStep::Close);
        }
        if let Some(text) = manners.tricks.busy.filter(|_| self.refused >= manners.errors_max) {
            out.pushes = true;
            return out.add(text.to_owned(), NextStep::Close);
        }
        if self.accepted >= manners.recipients_max {
            self.refused += 1;
            return out.add("452 4.5.3 Too many recipients".into(), NextStep::Listen);
        }
        if let Some(tarpit) = manners.tricks.tarpit.filter(|tarpit| self.refused >= tarpit.free) {
            out.wait(tarpit.delay);
        }
        let asked = AskedRecipient {
            address,
            link: surroundings.link,
            place: self.recipients,
            unknown: self.unknown,
            node: self.node,
            now: surroundings.now,
            heard: self.heard_at(surroundings, out),
        };
        let text = match (surroundings.decide)(&asked, surroundings.breaches) {
            Fate::Accepted => {
                self.accepted += 1;
                return out.add("250 2.1.5 Ok".into(), NextStep::Listen);
            }
            Fate::Refused(text) | Fate::Greylisted(text) => text,
        };
        self.refused += 1;
        self.unknown += u32::from(matches!(text.kind, TextTopic::NotFound | TextTopic::Unclear));
        let text = text.words;
        out.add(
            if manners.lines { in_lines(text, surroundings.random) } else { text.to_owned() },
            NextStep::Listen,
        );
        if self.refused >= manners.errors_max && manners.tricks.busy.is_none() {
            match manners.hangs_up {
                true => out.end(NextStep::Close),
                false => out.add("421 4.7.0 Error: too many errors".into(), NextStep::Close),
            }
        }
    }

    /// The time at which the client has an answer that is added to `out` now, apart from delays of the client itself.
    fn heard_at(&self, surroundings: &Surroundings<'_>, out: &Out) -> Duration {
        surroundings.now + surroundings.manners.round_trip + surroundings.manners.thinks + out.waited
    }

    /// Sends answers with the timing that the host's manners define.
    fn say(&mut self, after: Duration, out: Out, surroundings: &mut Surroundings<'_>) {
        let mut last = after;
        for (waited, replies) in out.groups() {
            last = last.max(after + waited);
            last = deliver(last, replies.as_bytes(), surroundings);
        }
        self.said_until = self.said_until.max(surroundings.now + last);
        self.pushed = out.pushes.then_some(self.said_until);
        match out.then {
            Some(NextStep::Close) => surroundings.wire.finish(last),
            Some(NextStep::Reset) => surroundings.wire.reset(last),
            _ => {}
        }
        self.mute |= out.ends();
    }
}

/// Sends bytes in pieces from `after` on, and returns when the last one arrives.
fn deliver(after: Duration, bytes: &[u8], surroundings: &mut Surroundings<'_>) -> Duration {
    let (most, pause) = match surroundings.manners.delivery {
        _ if bytes.is_empty() => (usize::MAX, 0),
        Delivery::Burst => (usize::MAX, 0),
        Delivery::Lines => (0, 2),
        Delivery::Split => (200, 2),
        Delivery::Drip => (3, 20),
    };
    let (mut last, mut rest) = (after, bytes);
    while !rest.is_empty() {
        let line = rest.iter().position(|&byte| byte == b'\n').map_or(rest.len(), |end| end + 1);
        let size = if most == 0 { line } else { surroundings.random.usize(1..=most.min(rest.len())) };
        let (piece, left) = rest.split_at(if most == usize::MAX { rest.len() } else { size });
        surroundings.wire.send(last, piece.to_vec());
        rest = left;
        if !rest.is_empty() {
            last += Duration::from_millis(surroundings.random.u64(..pause.max(1)));
        }
    }
    last
}

/// The answers to one read.
#[derive(Default)]
struct Out {
    /// The delay of each reply, and its text.
    replies: Vec<(Duration, String)>,
    waited: Duration,
    then: Option<NextStep>,
    /// The last reply is that the client is too fast.
    pushes: bool,
}

impl Out {
    fn add(&mut self, mut text: String, then: NextStep) {
        text.push_str("\r\n");
        self.replies.push((self.waited, text));
        self.then = Some(then);
    }

    /// Adds the surplus replies of a host after its reply to this command.
    fn add_surplus(&mut self, command: &str, manners: &Manners) {
        let Some(surplus) = manners.surplus.filter(|surplus| surplus.behind == command && !self.ends())
        else {
            return;
        };
        self.wait(surplus.pause);
        (0..surplus.count).for_each(|_| self.add(surplus.text.to_owned(), NextStep::Listen));
    }

    /// Delays the following replies for longer.
    fn wait(&mut self, delay: Duration) {
        self.waited += delay;
    }

    /// The answers that are sent together.
    fn groups(&self) -> impl Iterator<Item = (Duration, String)> {
        self.replies.chunk_by(|a, b| a.0 == b.0).map(|group| {
            let texts = group.iter().map(|(_, text)| text.as_str());
            (group[0].0, texts.collect())
        })
    }

    fn end(&mut self, then: NextStep) {
        self.then = Some(then);
    }

    fn ends(&self) -> bool {
        self.then.is_some_and(|then| then != NextStep::Listen)
    }
}

fn verb(line: &str) -> String {
    line.split([' ', ':']).next().unwrap_or_default().to_ascii_uppercase()
}

/// The same words on two lines, with the codes on both lines if the text has codes.
fn in_lines(text: &str, random: &mut Rng) -> String {
    let Some((code, words)) = text.split_once(' ') else { return text.to_owned() };
    let spaces: Vec<usize> = words.match_indices(' ').map(|(at, _)| at).collect();
    let Some(&at) = random.choice(&spaces) else { return text.to_owned() };
    format!("{code}-{}\r\n{code} {}", &words[..at], &words[at + 1..])
}
