//! One SMTP session seen from the client, from the greeting to QUIT, as a machine without I/O.
//!
//! The driver carries bytes both ways, starts TLS when told to, and calls back when [`Dialog::deadline`] has
//! passed. The machine never sends DATA, never sends a group to a server that did not offer PIPELINING, and never
//! lets a lost session answer for a recipient: what got no reply of its own is simply not answered.
//!
//! RSET is sent in front of the next transaction, in its group, and not behind the last: servers count it as a
//! junk command (Postfix `smtpd_junk_command_limit`), and the last transaction of a session needs none.
//!
//! RFC 5321 (4.1.1, 4.3, 4.5.3), RFC 2920 (groups), RFC 3207 (STARTTLS).

use super::command::{Command, encode};
use super::ehlo::Extensions;
use super::reply::{Reply, ReplyError, ReplyParser};
use crate::limits;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The properties that all sessions of a source share.
#[derive(Debug)]
pub struct DialogConfig {
    /// The argument of EHLO: a name or an address literal.
    pub ehlo: Box<str>,
    /// The reverse-path of MAIL, without angle brackets; empty for `<>`.
    pub reverse_path: Box<str>,
    /// How long each answer may take.
    pub patience: Patience,
}

/// How long each answer may take.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Longest time up to the greeting.
    pub banner: Duration,
    /// EHLO, HELO, STARTTLS and RSET.
    pub ehlo: Duration,
    /// Longest time of the TLS handshake.
    pub tls: Duration,
    /// Longest time up to the reply to MAIL.
    pub mail: Duration,
    /// Longest time up to the reply to one RCPT.
    pub rcpt: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            banner: limits::BANNER_TIMEOUT,
            ehlo: limits::EHLO_TIMEOUT,
            tls: limits::TLS_TIMEOUT,
            mail: limits::MAIL_TIMEOUT,
            rcpt: limits::RCPT_TIMEOUT,
        }
    }
}

/// The reply that a session waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The greeting.
    Banner,
    /// The answer to EHLO.
    Ehlo,
    /// The answer to HELO, after EHLO was refused.
    Helo,
    /// The answer to STARTTLS.
    StartTls,
    /// The TLS handshake.
    Handshake,
    /// The answer to RSET.
    Rset,
    /// The answer to MAIL.
    Mail,
    /// The answer to the RCPT of the recipient with this index in its transaction.
    Rcpt(u16),
    /// Nothing: the next transaction.
    Idle,
}

/// An event for the driver of a session.
#[derive(Debug)]
pub enum Event {
    /// The session takes a transaction.
    Ready,
    /// Start the TLS handshake now and report with [`Dialog::on_tls_done`].
    StartTls,
    /// The server answered for a recipient of the transaction.
    Answered {
        /// Its index in the transaction.
        index: u16,
        /// The answer.
        reply: Reply,
    },
    /// The server refused MAIL; no recipient of the transaction gets an answer.
    MailRefused(Reply),
    /// The session is over. Recipients without an answer have none.
    Over(Closure),
}

/// The end of a session, with the step at which it ended.
#[derive(Debug)]
pub enum Closure {
    /// The server refused us: a greeting, or EHLO and HELO, without success, or 421 at any step.
    Refused {
        /// The step of the refusal.
        step: Step,
        /// Its words.
        reply: Reply,
    },
    /// The connection ended while an answer was due (or before the next transaction).
    Closed(Step),
    /// The server gave no reply before the deadline of the step.
    TimedOut(Step),
    /// The server broke the protocol.
    Garbled(Step, ReplyError),
    /// A reply with a code that its step does not allow, or before its command.
    Unexpected(Step),
    /// The TLS handshake failed.
    TlsFailed,
    /// We said QUIT.
    Quit,
}

/// The client side of one SMTP session, as a state machine.
pub struct Dialog {
    config: Arc<DialogConfig>,
    starttls: bool,
    step: Step,
    over: bool,
    extensions: Extensions,
    /// The greeting is that of Cisco Secure Email.
    cisco: bool,
    parser: ReplyParser,
    outgoing: Vec<u8>,
    /// Commands of the transaction that are not sent yet, without PIPELINING.
    held: VecDeque<Vec<u8>>,
    /// Answers that are due after the one of `step`.
    expected: VecDeque<Step>,
    mail_refused: bool,
    /// A transaction is open at the server: RSET must come before the next MAIL.
    open: bool,
    deadline: Option<Instant>,
    events: VecDeque<Event>,
}

/// Words of the greetings of Cisco's appliances and of its cloud service, in lower case.
const CISCO_WORDS: [&str; 3] = ["ironport", "iphmx.com", "cisco"];

/// Whether a greeting names Cisco Secure Email.
fn names_cisco(greeting: &str) -> bool {
    let greeting = greeting.to_ascii_lowercase();
    CISCO_WORDS.iter().any(|word| greeting.contains(word))
}

impl Dialog {
    /// A session on a connection that was just opened. With `starttls`, TLS is used if the server offers it.
    pub fn new(config: Arc<DialogConfig>, starttls: bool, now: Instant) -> Dialog {
        let deadline = Some(now + config.patience.banner);
        Dialog {
            config,
            starttls,
            step: Step::Banner,
            over: false,
            extensions: Extensions::default(),
            cisco: false,
            parser: ReplyParser::default(),
            outgoing: Vec::new(),
            held: VecDeque::new(),
            expected: VecDeque::new(),
            mail_refused: false,
            open: false,
            deadline,
            events: VecDeque::new(),
        }
    }

    /// Whether the greeting names Cisco Secure Email (IronPort), which counts invalid recipients by the hour.
    pub fn is_cisco(&self) -> bool {
        self.cisco
    }

    /// The extensions that the server offers, known once the session is ready.
    pub fn extensions(&self) -> Extensions {
        self.extensions
    }

    /// True when a transaction can begin.
    pub fn is_ready(&self) -> bool {
        self.step == Step::Idle && !self.over
    }

    /// True when the session is over.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// When [`Dialog::on_timeout`] is to be called, unless bytes come first.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// The next thing to tell.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The bytes that are to be sent now; empty when there are none. `spare` becomes the next buffer.
    pub fn take_outgoing(&mut self, spare: Vec<u8>) -> Vec<u8> {
        debug_assert!(spare.is_empty());
        if self.outgoing.is_empty() { spare } else { std::mem::replace(&mut self.outgoing, spare) }
    }

    /// True when there are bytes to be sent.
    pub fn wants_write(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// How many replies are due behind the one that comes next.
    pub fn replies_due(&self) -> usize {
        self.expected.len()
    }

    /// True when recipients of the transaction are not asked about yet, because the server takes one command at a time.
    pub fn holds_back(&self) -> bool {
        !self.held.is_empty() || self.wants_write()
    }

    /// Recipients of the transaction that the server was asked about and has not answered for.
    pub fn unanswered(&self) -> usize {
        let due = std::iter::once(&self.step).chain(&self.expected);
        due.filter(|step| matches!(step, Step::Rcpt(_))).count().saturating_sub(self.held.len())
    }

    /// Begins a transaction: MAIL, then RCPT for each recipient. Each recipient gets an [`Event::Answered`], and then follows
    /// [`Event::Ready`]. Otherwise [`Event::MailRefused`] or [`Event::Over`] follows. If the server ended the session together with
    /// its last reply, nothing is sent, and [`Event::Over`] follows at once.
    ///
    /// # Panics
    /// If the session was never ready, if its end was reported already, or with more than [`limits::TRANSACTION_RECIPIENTS_MAX`]
    /// recipients. The caller can know all of these, and no peer can cause them.
    pub fn transact<'a>(&mut self, now: Instant, recipients: impl Iterator<Item = &'a str>, smtputf8: bool) {
        if self.over && !self.events.is_empty() {
            return;
        }
        assert!(self.is_ready(), "a transaction on a session that is not ready");
        if !self.parser.is_empty() {
            // The start of something that was not asked for: its end would be taken for an answer.
            return self.end(Closure::Unexpected(Step::Idle));
        }
        let mut commands: Vec<Vec<u8>> = Vec::new();
        let mut put = |command| {
            let mut bytes = Vec::with_capacity(48);
            encode(&mut bytes, command);
            commands.push(bytes);
        };
        self.expected.clear();
        if self.open {
            put(Command::Rset);
            self.expected.push_back(Step::Rset);
        }
        put(Command::Mail { reverse_path: &self.config.reverse_path, smtputf8 });
        self.expected.push_back(Step::Mail);
        for (index, recipient) in (0u16..).zip(recipients) {
            put(Command::Rcpt(recipient));
            self.expected.push_back(Step::Rcpt(index));
        }
        assert!(
            commands.len() <= limits::TRANSACTION_RECIPIENTS_MAX + 2,
            "a transaction with too many recipients"
        );
        self.mail_refused = false;
        if self.extensions.pipelining {
            commands.iter().for_each(|command| self.outgoing.extend_from_slice(command));
        } else {
            self.held = commands.into();
            self.send_held();
        }
        self.await_next(now);
    }

    /// Says QUIT and ends the session. The connection may be closed as soon as the bytes are sent, as Postfix does
    /// (`smtp_skip_quit_response`): nothing that the server could still answer matters.
    pub fn quit(&mut self) {
        if !self.over {
            // Commands that were not sent are taken back: without PIPELINING nothing may follow in the same write.
            self.outgoing.clear();
            if !matches!(self.step, Step::Banner | Step::StartTls | Step::Handshake) {
                encode(&mut self.outgoing, Command::Quit);
            }
            self.end(Closure::Quit);
        }
    }

    /// Bytes came from the server.
    pub fn receive(&mut self, now: Instant, bytes: &[u8]) {
        if self.over || self.step == Step::Handshake {
            return;
        }
        self.parser.feed(bytes);
        while !self.over {
            match self.parser.next() {
                // A reply to what still waits to be sent answers something else. Taken for an answer, it would move
                // all that follow to the wrong recipients.
                Ok(Some(reply)) if self.step == Step::Idle || self.wants_write() => self.unasked(reply),
                Ok(Some(reply)) => self.on_reply(now, reply),
                Ok(None) => return,
                Err(error) => self.end(Closure::Garbled(self.step, error)),
            }
            if self.step == Step::Handshake {
                // RFC 3207 4.2: what was said in the clear is void, above all what was slipped in behind the 220.
                return self.parser.clear();
            }
        }
    }

    /// The server closed the connection, or it broke.
    pub fn on_closed(&mut self) {
        if !self.over {
            self.end(Closure::Closed(self.step));
        }
    }

    /// The TLS handshake is done or failed.
    pub fn on_tls_done(&mut self, now: Instant, success: bool) {
        if self.step != Step::Handshake || self.over {
            return;
        }
        if success {
            self.starttls = false;
            self.extensions = Extensions::default();
            self.greet(now);
        } else {
            self.end(Closure::TlsFailed);
        }
    }

    /// The deadline has passed: the session ends.
    pub fn on_timeout(&mut self, now: Instant) {
        if !self.over && self.deadline.is_some_and(|deadline| deadline <= now) {
            match self.step {
                Step::Handshake => self.end(Closure::TlsFailed),
                step => self.end(Closure::TimedOut(step)),
            }
        }
    }

    /// The state table: what is waited for, and what came.
    fn on_reply(&mut self, now: Instant, reply: Reply) {
        let code = reply.code();
        if code == 421 {
            // RFC 5321 3.8: whatever it answers, the server closes the connection behind it.
            return self.end(Closure::Refused { step: self.step, reply });
        }
        match self.step {
            Step::Banner if code == 220 => {
                self.cisco = names_cisco(reply.text());
                self.greet(now);
            }
            Step::Banner | Step::Ehlo | Step::Helo if code >= 400 => self.greeting_refused(now, reply),
            Step::Ehlo if code == 250 => {
                self.extensions = Extensions::read(&reply);
                self.greeted(now);
            }
            Step::Helo if code == 250 => self.greeted(now),
            Step::StartTls if code == 220 => {
                self.enter(Step::Handshake, now);
                self.events.push_back(Event::StartTls);
            }
            // Opportunistic (RFC 7435): a server that offers TLS and has none is asked in the clear.
            Step::StartTls if code >= 400 => self.ready(),
            Step::Rset if code / 100 == 2 => self.proceed(now),
            Step::Mail if code / 100 == 2 => {
                self.open = true;
                self.proceed(now);
            }
            Step::Mail if code >= 400 => {
                self.mail_refused = true;
                self.events.push_back(Event::MailRefused(reply));
                self.drop_held();
                self.proceed(now);
            }
            Step::Rcpt(_) if self.mail_refused => self.proceed(now),
            Step::Rcpt(index) if code / 100 != 3 => {
                self.events.push_back(Event::Answered { index, reply });
                self.proceed(now);
            }
            step => self.end(Closure::Unexpected(step)),
        }
    }

    fn greet(&mut self, now: Instant) {
        encode(&mut self.outgoing, Command::Ehlo(&self.config.ehlo));
        self.enter(Step::Ehlo, now);
    }

    /// RFC 5321 3.2: a server that knows no EHLO is greeted with HELO.
    fn greeting_refused(&mut self, now: Instant, reply: Reply) {
        if self.step == Step::Ehlo && reply.is_permanent() {
            encode(&mut self.outgoing, Command::Helo(&self.config.ehlo));
            self.enter(Step::Helo, now);
        } else {
            self.end(Closure::Refused { step: self.step, reply });
        }
    }

    fn greeted(&mut self, now: Instant) {
        if self.starttls && self.extensions.starttls {
            encode(&mut self.outgoing, Command::StartTls);
            self.enter(Step::StartTls, now);
        } else {
            self.ready();
        }
    }

    /// Goes on to the next answer that is due, or to the next transaction.
    fn proceed(&mut self, now: Instant) {
        if self.expected.is_empty() {
            self.ready();
        } else {
            self.send_held();
            self.await_next(now);
        }
    }

    fn await_next(&mut self, now: Instant) {
        if let Some(step) = self.expected.pop_front() {
            self.enter(step, now);
        }
    }

    /// Without PIPELINING: one command, then its answer.
    fn send_held(&mut self) {
        if let Some(command) = self.held.pop_front() {
            self.outgoing.extend_from_slice(&command);
        }
    }

    /// After a refused MAIL: what is not sent need not be.
    fn drop_held(&mut self) {
        if !self.extensions.pipelining {
            self.held.clear();
            self.expected.clear();
        }
    }

    fn ready(&mut self) {
        self.step = Step::Idle;
        self.deadline = None;
        self.events.push_back(Event::Ready);
    }

    fn enter(&mut self, step: Step, now: Instant) {
        let patience = &self.config.patience;
        let wait = match step {
            Step::Banner => patience.banner,
            Step::Ehlo | Step::Helo | Step::StartTls | Step::Rset => patience.ehlo,
            Step::Handshake => patience.tls,
            Step::Mail => patience.mail,
            Step::Rcpt(_) | Step::Idle => patience.rcpt,
        };
        self.step = step;
        self.deadline = Some(now + wait);
    }

    /// A reply to nothing that was asked: a farewell, or a server that cannot count.
    fn unasked(&mut self, reply: Reply) {
        self.end(if reply.code() == 421 {
            Closure::Refused { step: self.step, reply }
        } else {
            Closure::Unexpected(self.step)
        });
    }

    fn end(&mut self, closure: Closure) {
        self.over = true;
        self.deadline = None;
        // Only the commands that were sent remain.
        self.expected.truncate(self.expected.len().saturating_sub(self.held.len()));
        self.held = VecDeque::new();
        self.parser.clear();
        self.events.push_back(Event::Over(closure));
    }
}

#[cfg(test)]
mod tests;
