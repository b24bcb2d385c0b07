//! The server's side of one SMTP session as pure code: its input is a line, its output a reply and the next step (RFC
//! 5321, 2920, 3207, 6531).
//!
//! It answers like a real server and counts every rule that the client breaks.

mod recipient;

use crate::{
    What,
    personality::{Holes, Personality, Template},
    random::Random,
    running::Net,
    spec::{Family, Misdeed, ReplyKind, Stage},
    stats::{Violation, add},
    world::{Behaviour, Host},
};
use std::{net::IpAddr, sync::Arc, time::Duration};

/// The step after the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Go,
    /// Wait before this reply is sent.
    Pause(Duration),
    StartTls,
    Close,
    Reset,
    Hang,
}

/// A step, and the fault that is first applied to the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub step: Step,
    pub fault: Option<usize>,
}

/// The command and name of the client's greeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Greeted {
    No,
    Helo,
    Ehlo,
}

/// The references of a session. It has its own reference count: the net and the behaviour are shared by all threads,
/// and counting references there for every reply would cost more than the reply.
pub(crate) struct Place {
    pub net: Arc<Net>,
    pub behaviour: Arc<Behaviour>,
}

pub(crate) struct Session {
    place: Arc<Place>,
    host: u32,
    client: IpAddr,
    client_text: String,
    /// The number among all sessions of the net, from 1.
    number: u64,
    /// The node of the host's pool.
    node: u32,
    /// The changes of conduct that were due when the session began.
    begun: Vec<bool>,
    /// How many unknown recipients this session refused.
    refused: u64,
    /// Whether the answer about the current recipient is the truth.
    asked: Option<bool>,
    /// Whether the journal has a recipient whose reply was not written yet.
    unwritten: bool,
    /// The number of earlier sessions of the host.
    ordinal: u64,
    pub random: Random,
    secure: bool,
    greeted: Greeted,
    /// The greeting was a refusal: only QUIT is accepted (RFC 5321 3.1).
    refuses: bool,
    sender: Option<String>,
    utf8: bool,
    /// MAIL was refused, so RCPTs of the same pipelined group are allowed.
    mail_refused: bool,
    rcpts: u64,
    /// The recipients of all transactions that were not beyond a limit.
    rcpts_taken: u64,
    /// Whether the client sent more bytes with the last line.
    had_more: bool,
    accepted: bool,
    transactions: u64,
    errors: u64,
    counts: [u64; 9],
}

/// RFC 5321 4.5.3.1.4, with room for the parameters of MAIL and RCPT and for UTF-8 local parts (RFC 6531 3.3).
const LINE_BYTES_MAX: usize = 512;
const PATH_LINE_BYTES_MAX: usize = 1024;

impl Session {
    /// A new session: its number in the net, and the number of earlier sessions of the host.
    pub(crate) fn new(net: Arc<Net>, host: u32, client: IpAddr, (number, ordinal): (u64, u64)) -> Session {
        let mut random = Random::new(net.world.seed ^ (u64::from(host) << 32) ^ ordinal);
        let conduct = net.world.hosts[host as usize].behaviour.conduct.as_ref();
        let node = conduct.map_or(0, |conduct| conduct.node(ordinal, &mut random));
        let refused = |counted, within| recipient::refusals(&net, (host, node), client, 0, (counted, within));
        let begun = conduct.map_or_else(Vec::new, |conduct| conduct.due(&refused));
        net.note(number, (host, node), client, What::Begins);
        Session {
            number,
            node,
            begun,
            refused: 0,
            asked: None,
            unwritten: false,
            client_text: client.to_string(),
            random,
            place: Arc::new(Place { behaviour: net.world.hosts[host as usize].behaviour.clone(), net }),
            host,
            client,
            ordinal,
            secure: false,
            greeted: Greeted::No,
            refuses: false,
            sender: None,
            utf8: false,
            mail_refused: false,
            rcpts: 0,
            rcpts_taken: 0,
            had_more: false,
            accepted: false,
            transactions: 0,
            errors: 0,
            counts: [0; 9],
        }
    }

    fn host(&self) -> &Host {
        &self.place.net.world.hosts[self.host as usize]
    }

    pub(crate) fn place(&self) -> Arc<Place> {
        self.place.clone()
    }

    /// Whether the client may send a group of commands.
    pub(crate) fn offers_pipelining(&self) -> bool {
        self.greeted == Greeted::Ehlo && self.place.behaviour.personality.pipelining
    }

    /// Records an event in the journal.
    pub(crate) fn note(&self, what: What) {
        self.place.net.note(self.number, (self.host, self.node), self.client, what);
    }

    /// All replies so far were written.
    pub(crate) fn on_written(&mut self) {
        if std::mem::take(&mut self.unwritten) {
            self.note(What::Written);
        }
    }

    pub(crate) fn violation(&self, kind: Violation) {
        self.place.net.counters.violation(kind);
    }

    /// The fault that is due at this stage, which is counted.
    pub(crate) fn fault(&mut self, stage: Stage) -> Option<usize> {
        self.counts[stage as usize] += 1;
        let count = self.counts[stage as usize];
        let place = self.place();
        for (at, fault) in place.behaviour.faults.iter().enumerate() {
            let spec = &fault.spec;
            let is_due = spec.at == stage
                && count >= spec.from
                && spec.first.is_none_or(|first| self.ordinal < first)
                && spec.family.is_none_or(|family| (family == Family::Ipv6) == self.client.is_ipv6());
            // Only a fault with a probability draws a random number.
            if is_due && (spec.percent >= 100.0 || self.random.percent(spec.percent)) {
                return Some(at);
            }
        }
        None
    }

    /// Writes the greeting.
    pub(crate) fn banner(&mut self, out: &mut Vec<u8>) -> Outcome {
        let place = self.place();
        let personality = &place.behaviour.personality;
        if personality.blocks.contains(&self.client) {
            let refusal = format!("554 5.7.1 Service refused: {} is on our blocklist\r\n", self.client_text);
            out.extend_from_slice(refusal.as_bytes());
        } else {
            self.write(&personality.banner, "", out);
        }
        let outcome = self.finish(Stage::Banner, out, 0, Step::Go);
        self.refuses = out.first().is_some_and(|&digit| digit != b'2');
        self.note_closing(out);
        outcome
    }

    /// Writes the refusal of a client with too many sessions.
    pub(crate) fn crowded(&mut self, out: &mut Vec<u8>) {
        self.say(ReplyKind::TooManySessions, "", out);
        self.note_closing(out);
    }

    /// Records a 421 in the journal, if one was sent.
    fn note_closing(&self, said: &[u8]) {
        if self.place.net.world.journal
            && said.split(|&byte| byte == b'\n').any(|line| line.starts_with(b"421"))
        {
            self.note(What::Closing);
        }
    }

    /// Forgets everything before TLS (RFC 3207 4.2).
    pub(crate) fn secured(&mut self) {
        add(&self.place.net.counters.sessions_tls);
        self.secure = true;
        self.greeted = Greeted::No;
        self.reset();
    }

    /// Answers one line with its end; `more` states that the client sent further bytes with it.
    pub(crate) fn line(&mut self, line: &[u8], more: bool, out: &mut Vec<u8>) -> Outcome {
        let start = out.len();
        let is_behind = std::mem::replace(&mut self.had_more, more);
        if is_behind && self.place().behaviour.personality.first_only {
            return Outcome { step: Step::Go, fault: None };
        }
        if more && !self.offers_pipelining() {
            self.violation(Violation::PipeliningNotOffered);
        }
        if !line.ends_with(b"\r\n") {
            self.violation(Violation::BareLf);
        }
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let text = String::from_utf8_lossy(text.strip_suffix(b"\r").unwrap_or(text));
        let (verb, rest) = text.split_once(' ').unwrap_or((&text, ""));
        let mut upper = [0; 8];
        let verb = upper_case(verb, &mut upper);
        let is_path = matches!(verb, "MAIL" | "RCPT");
        if line.len() > if is_path { PATH_LINE_BYTES_MAX } else { LINE_BYTES_MAX } {
            self.violation(Violation::LineTooLong);
        }
        let ends_group =
            matches!(verb, "EHLO" | "STARTTLS" | "DATA" | "VRFY" | "EXPN" | "NOOP" | "QUIT" | "TURN");
        if more && ends_group && self.offers_pipelining() {
            self.violation(Violation::PipelinedPastGroupEnd);
        }
        if self.refuses && verb != "QUIT" {
            out.extend_from_slice(b"503 5.5.1 This host takes no mail from you\r\n");
            return Outcome { step: Step::Go, fault: None };
        }
        let outcome = self.command(verb, rest, out, start);
        let said = &out[start..];
        if verb == "RCPT" {
            self.note_rcpt(rest, outcome, said);
        }
        self.note_closing(said);
        outcome
    }

    fn command(&mut self, verb: &str, rest: &str, out: &mut Vec<u8>, start: usize) -> Outcome {
        let (stage, step) = match verb {
            "EHLO" => (Some(Stage::Ehlo), self.ehlo(rest, out)),
            "HELO" => (Some(Stage::Ehlo), self.helo(rest, out)),
            "STARTTLS" => return self.starttls(out, start),
            "MAIL" => (Some(Stage::Mail), self.mail(rest, out)),
            "RCPT" => (Some(Stage::Rcpt), self.rcpt(rest, out)),
            "RSET" => {
                self.reset();
                (Some(Stage::Rset), self.plain("250 2.0.0 Ok", out))
            }
            "QUIT" => {
                self.say(ReplyKind::Bye, "", out);
                (Some(Stage::Quit), Step::Close)
            }
            "NOOP" => (None, self.plain("250 2.0.0 Ok", out)),
            "HELP" => (None, self.plain("214 2.0.0 See RFC 5321", out)),
            "VRFY" => (None, self.breach(Violation::Vrfy, "252 2.0.0 Send some mail and see", out)),
            "EXPN" => (None, self.breach(Violation::Expn, "502 5.5.1 EXPN not implemented", out)),
            "DATA" | "BDAT" => (None, self.breach(Violation::Data, "554 5.5.1 No mail is taken here", out)),
            "AUTH" => (None, self.breach(Violation::Auth, "503 5.5.1 No authentication here", out)),
            _ => (None, self.breach(Violation::UnknownCommand, "500 5.5.2 Unrecognised command", out)),
        };
        match stage {
            Some(stage) => self.finish(stage, out, start, step),
            None => Outcome { step: self.count_errors(out, start, step), fault: None },
        }
    }

    /// Applies the fault of a stage to the reply that begins at `start`, or counts a refusal.
    fn finish(&mut self, stage: Stage, out: &mut Vec<u8>, start: usize, step: Step) -> Outcome {
        let Some(at) = self.fault(stage) else {
            return Outcome { step: self.count_errors(out, start, step), fault: None };
        };
        let place = self.place();
        let Some(reply) = &place.behaviour.faults[at].reply else {
            return Outcome { step, fault: Some(at) };
        };
        add(&self.place.net.counters.misdeeds);
        self.asked = self.asked.map(|_| false);
        out.truncate(start);
        self.write(reply, "", out);
        if reply.code >= 400 {
            match stage {
                Stage::Mail => {
                    self.reset();
                    self.mail_refused = true;
                }
                Stage::Ehlo => self.greeted = Greeted::No,
                _ => {}
            }
        }
        let step = match (step, reply.code) {
            (_, 421) => Step::Close,
            (Step::StartTls, code) if code != 220 => Step::Go,
            (step, _) => step,
        };
        Outcome { step: self.count_errors(out, start, step), fault: None }
    }

    /// Postfix's soft and hard error limits: delays after some refusals, 421 after more.
    fn count_errors(&mut self, out: &mut Vec<u8>, start: usize, step: Step) -> Step {
        let refused = out.get(start).is_some_and(|&digit| digit == b'4' || digit == b'5');
        self.errors += u64::from(refused);
        let place = self.place();
        let personality = &place.behaviour.personality;
        if refused && personality.errors_max > 0 && self.errors >= personality.errors_max && step == Step::Go
        {
            if !personality.hangs_up {
                self.say(ReplyKind::TooManyErrors, "", out);
            }
            return Step::Close;
        }
        if personality.errors_slow > 0 && self.errors > personality.errors_slow && step == Step::Go {
            return Step::Pause(Duration::from_millis(personality.slow_ms));
        }
        step
    }

    fn note_name(&self, name: &str) {
        if self.place.net.world.journal {
            self.note(What::Ehlo { name: name.to_owned() });
        }
    }

    fn ehlo(&mut self, name: &str, out: &mut Vec<u8>) -> Step {
        let place = self.place();
        if place.behaviour.personality.helo_only {
            return self.plain("502 5.5.1 Command not implemented", out);
        }
        if place.behaviour.personality.greets_once && self.greeted == Greeted::Ehlo {
            return self.plain("503 5.5.1 Invalid command: Already identified", out);
        }
        if name.is_empty() {
            return self.breach(Violation::Syntax, "501 5.5.4 EHLO requires a domain", out);
        }
        self.reset();
        self.greeted = Greeted::Ehlo;
        self.note_name(name);
        let keywords = &place.behaviour.personality.ehlo;
        let shown: Vec<&str> =
            keywords.iter().map(String::as_str).filter(|k| !(self.secure && *k == "STARTTLS")).collect();
        let mark = |last: bool| if last { ' ' } else { '-' };
        let first = format!("250{}{} at your service\r\n", mark(shown.is_empty()), self.host().name);
        out.extend_from_slice(first.as_bytes());
        for (at, keyword) in shown.iter().enumerate() {
            out.extend_from_slice(format!("250{}{keyword}\r\n", mark(at + 1 == shown.len())).as_bytes());
        }
        Step::Go
    }

    fn helo(&mut self, name: &str, out: &mut Vec<u8>) -> Step {
        if name.is_empty() {
            return self.breach(Violation::Syntax, "501 5.5.4 HELO requires a domain", out);
        }
        self.reset();
        self.greeted = Greeted::Helo;
        self.note_name(name);
        out.extend_from_slice(format!("250 {}\r\n", self.host().name).as_bytes());
        Step::Go
    }

    fn starttls(&mut self, out: &mut Vec<u8>, start: usize) -> Outcome {
        let place = self.place();
        if !place.behaviour.personality.starttls || self.secure || self.greeted != Greeted::Ehlo {
            let step = self.breach(Violation::StarttlsNotOffered, "503 5.5.1 STARTTLS is not offered", out);
            return Outcome { step: self.count_errors(out, start, step), fault: None };
        }
        self.plain("220 2.0.0 Ready to start TLS", out);
        self.finish(Stage::Starttls, out, start, Step::StartTls)
    }

    fn mail(&mut self, rest: &str, out: &mut Vec<u8>) -> Step {
        add(&self.place.net.counters.mail);
        self.mail_refused = false;
        let place = self.place();
        let personality = &place.behaviour.personality;
        if self.sender.is_some() {
            return self.breach(Violation::NestedMail, "503 5.5.1 Error: nested MAIL command", out);
        }
        self.mail_refused = true;
        if self.greeted == Greeted::No {
            return self.breach(Violation::MailBeforeEhlo, "503 5.5.1 Error: send HELO/EHLO first", out);
        }
        if personality.require_tls && !self.secure {
            return self.say(ReplyKind::TlsRequired, "", out);
        }
        let Some((sender, parameters)) = path(rest, "FROM:").filter(|_| self.accepts_form(rest)) else {
            return self.breach(Violation::Syntax, "501 5.5.4 Syntax: MAIL FROM:<address>", out);
        };
        if personality.transactions_max > 0 && self.transactions >= personality.transactions_max {
            self.say(ReplyKind::TooManyTransactions, "", out);
            return Step::Close;
        }
        let utf8 = parameters.split(' ').any(|word| word.eq_ignore_ascii_case("SMTPUTF8"));
        if !self.may_use(personality, parameters) || !(sender.is_ascii() || utf8) {
            let text = "555 5.5.4 MAIL parameters not recognised";
            return self.breach(Violation::ParameterNotOffered, text, out);
        }
        self.mail_refused = false;
        self.transactions += 1;
        self.utf8 = utf8;
        self.sender = Some(sender.to_owned());
        self.say(ReplyKind::MailOk, "", out)
    }

    /// Whether the server accepts the form of `FROM:<path>`. A space before the path is a violation, which some servers accept.
    fn accepts_form(&self, rest: &str) -> bool {
        let is_spaced = rest.split_once(':').is_some_and(|(_, path)| path.starts_with(' '));
        let accepts = !is_spaced || self.place.net.world.space_before_path;
        if is_spaced && accepts {
            self.violation(Violation::Syntax);
        }
        accepts
    }

    fn may_use(&self, personality: &Personality, parameters: &str) -> bool {
        let is_ehlo = self.greeted == Greeted::Ehlo;
        parameters.split(' ').filter(|word| !word.is_empty()).all(|word| {
            let keyword = word.split('=').next().unwrap_or(word).to_ascii_uppercase();
            is_ehlo
                && match keyword.as_str() {
                    "SIZE" => personality.size,
                    "BODY" => personality.eight_bit,
                    "SMTPUTF8" => personality.smtputf8,
                    _ => false,
                }
        })
    }

    fn reset(&mut self) {
        self.sender = None;
        self.utf8 = false;
        self.mail_refused = false;
        self.rcpts = 0;
        self.accepted = false;
    }

    fn say(&mut self, kind: ReplyKind, rcpt: &str, out: &mut Vec<u8>) -> Step {
        let place = self.place();
        self.write(place.behaviour.personality.reply(kind), rcpt, out);
        Step::Go
    }

    fn write(&mut self, template: &Template, rcpt: &str, out: &mut Vec<u8>) {
        let id = self.random.next() & 0xff_ffff_ffff;
        let holes = Holes {
            rcpt,
            host: &self.host().name,
            client: &self.client_text,
            sender: self.sender.as_deref().unwrap_or_default(),
            id,
        };
        template.write(out, &holes);
    }

    fn plain(&self, text: &str, out: &mut Vec<u8>) -> Step {
        out.extend_from_slice(text.as_bytes());
        out.extend_from_slice(b"\r\n");
        Step::Go
    }

    fn breach(&self, kind: Violation, text: &str, out: &mut Vec<u8>) -> Step {
        self.violation(kind);
        self.plain(text, out)
    }
}

/// Whether a fault replaces the reply, so that the command has no effect.
pub(crate) fn replaces(misdeed: Misdeed) -> bool {
    use Misdeed::{BareLf, Drip, Early, Inject, Late, Nul};
    !matches!(misdeed, Drip | Nul | BareLf | Early | Late | Inject)
}

/// The verb in upper case; a longer text becomes empty, which is no command.
fn upper_case<'a>(verb: &str, buffer: &'a mut [u8; 8]) -> &'a str {
    let Some(room) = buffer.get_mut(..verb.len()) else { return "" };
    room.copy_from_slice(verb.as_bytes());
    room.make_ascii_uppercase();
    std::str::from_utf8(room).unwrap_or_default()
}

/// Parses `FROM:<path> parameters`, also with spaces before the path. A quoted local part may contain `>` and spaces.
fn path<'a>(rest: &'a str, keyword: &str) -> Option<(&'a str, &'a str)> {
    let (head, tail) = rest.split_at_checked(keyword.len())?;
    let tail =
        tail.trim_start_matches(' ').strip_prefix('<').filter(|_| head.eq_ignore_ascii_case(keyword))?;
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, byte) in tail.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b'>' if !is_quoted => {
                let parameters = &tail[at + 1..];
                let parted = parameters.is_empty() || parameters.starts_with(' ');
                return parted.then(|| (&tail[..at], parameters.trim_start()));
            }
            _ => {}
        }
    }
    None
}
